"""What else bears on a launch script of CPU inference: the MPI that starts it, Slurm, a limit; and what the study knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from runners.hosts.host import BadEntry, checked_name
from runners.launch.mpi import TITLES, Kind
from runners.runner import Json
from runners.xft.layout import Layout
from runners.xft.plan import BadPlan, Plan
from spaces.space import Config
from spaces.units import parse_duration
from spaces.xft import Software
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.recommendation import Recommendation


@dataclass(frozen=True, slots=True)
class Launch:
    """How a job is to be started.

    ``layout`` is None where the study doesn't know its hosts: then nothing is pinned. ``common`` is the environment of all
    ranks; ``limit`` in seconds; ``slurm``: by srun.
    """

    mpi: Kind
    slurm: bool
    program: str
    iface: str
    limit: int | None
    software: Software
    layout: Layout | None
    hosts: tuple[str, ...]

    @property
    def title(self) -> str:
        return "srun" if self.slurm else TITLES[self.mpi]

    @property
    def here(self) -> bool:
        """The one host is the one that the script is started on."""
        return self.hosts in ((), ("localhost",), ("127.0.0.1",))

    @property
    def common(self) -> dict[str, str]:
        """Variables that all ranks have alike; the number of threads is each rank's own."""
        if self.layout is None:
            return {}
        first, *others = self.layout.ranks
        return {
            name: value
            for name, value in first.env.items()
            if name != "OMP_NUM_THREADS" and all(rank.env.get(name) == value for rank in others)
        }


def launch(recommendation: Recommendation, options: contract.Options) -> Launch:
    """Raises WrongUsage."""
    machine, given = recommendation.machine, recommendation.options
    mpi = options.get("mpi")
    if mpi is not None and mpi not in TITLES:
        raise WrongUsage(f"--mpi {mpi}: must be intel, mpich or openmpi.")
    measured = str(machine.get("launcher") or "")
    kind = cast(Kind, mpi or (measured if measured in TITLES else "intel"))
    found = plan(machine)
    layout = None if found is None else of_plan(found, recommendation.config)
    return Launch(
        kind,
        options.get("slurm") is True,
        str(machine.get("mpirun") or "mpirun") if kind == measured else "mpirun",
        str(machine.get("iface") or given.get("iface") or ""),
        seconds(options),
        Software() if found is None else found.software,
        layout,
        () if layout is None else tuple(_name(host) for host in layout.hosts),
    )


def seconds(options: contract.Options) -> int | None:
    """--job-limit in seconds. Raises WrongUsage."""
    limit = options.get("job_limit")
    try:
        return None if limit is None else max(1, round(parse_duration(str(limit))))
    except ValueError as error:
        raise WrongUsage(f"--job-limit {limit}: {error}.") from None


def plan(machine: Mapping[str, Json]) -> Plan | None:
    """What the study's layouts are made from, None where it doesn't say. Raises WrongUsage."""
    told = machine.get("plan")
    if told is None:
        return None
    try:
        return Plan.of_json(told)
    except BadPlan as error:
        raise WrongUsage(f"the study's hosts can't be used: {error}.") from None


def of_plan(found: Plan, config: Config) -> Layout:
    layout = found.layout(config)
    if isinstance(layout, str):
        raise WrongUsage(f"the recommendation can't be laid out on the study's hosts: {layout}.")
    return layout


def _name(host: str) -> str:
    """A host as the study keeps it; a script holds nothing else. Raises WrongUsage."""
    try:
        return checked_name(host)
    except BadEntry as error:
        raise WrongUsage(f"the study's hosts can't be used: {error}.") from None
