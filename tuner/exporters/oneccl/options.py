"""What else bears on a launch script or an env file of oneCCL: the MPI that starts it, hosts, ranks, cores, a limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from runners.hosts import parse_hosts
from runners.hosts.host import BadEntry, checked_name
from runners.launch.mpi import TITLES, Kind
from runners.options import option
from runners.runner import Json, UsageError
from spaces.units import parse_duration
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.recommendation import Recommendation


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What `tune export` and `tune lint` let a user say about a launch script; None leaves it to the study or the file."""

    mpi: str | None = field(
        default=None,
        metadata=option("MPI whose mpirun the script calls: intel, mpich or openmpi; the study's if none.", "KIND"),
    )
    hosts: str | None = field(
        default=None, metadata=option("Hosts of the job, by number or by name (a,b,node[01-16]).", "N|LIST")
    )
    ppn: int | None = field(default=None, metadata=option("Ranks of a host.", "N"))
    cores: int | None = field(default=None, metadata=option("Cores that a rank is pinned to, for checks.", "N"))
    job_limit: str | None = field(
        default=None, metadata=option("How long the emitted job may run, like 12h; without a limit if none.", "DURATION")
    )


@dataclass(frozen=True, slots=True)
class Options:
    """FileOptions, checked. ``hosts`` are names, () where only their number ``count`` is known; ``limit`` in seconds."""

    mpi: Kind | None
    hosts: tuple[str, ...]
    count: int | None
    ppn: int | None
    cores: int | None
    limit: int | None


def read(options: contract.Options) -> Options:
    """The options that matter here, checked; raises WrongUsage."""
    mpi = options.get("mpi")
    if mpi is not None and mpi not in TITLES:
        raise WrongUsage(f"--mpi {mpi}: must be intel, mpich or openmpi.")
    names, count = _hosts(options.get("hosts"))
    limit = options.get("job_limit")
    try:
        seconds = None if limit is None else parse_duration(str(limit))
    except ValueError as error:
        raise WrongUsage(f"--job-limit {limit}: {error}.") from None
    return Options(
        cast("Kind | None", mpi),
        names,
        count,
        contract.whole_number(options, "ppn", None),
        contract.whole_number(options, "cores", None),
        None if seconds is None else max(1, round(seconds)),
    )


def _hosts(given: Json) -> tuple[tuple[str, ...], int | None]:
    if given is None or given == "":
        return (), None
    text = str(given)
    if text.isdecimal() and text.isascii():
        if not 1 <= int(text) <= 1 << 20:
            raise WrongUsage(f"--hosts {text}: must be a number of at least 1, or the hosts' names.")
        return (), int(text)
    try:
        names = tuple(host.name for host in parse_hosts(text))
    except UsageError as error:
        raise WrongUsage(f"{error}.") from None
    return names, len(names)


@dataclass(frozen=True, slots=True)
class Launch:
    """How the study's job was started, with what a user says over it.

    ``hosts`` () is this host; ``program`` the mpirun; ``pins`` the cores of each rank of the job, () where the MPI pins;
    ``transport`` what oneCCL takes by itself; ``collective`` as oneCCL chooses algorithms by.
    """

    mpi: Kind
    measured: str
    hosts: tuple[str, ...]
    ppn: int
    program: str
    iface: str
    pins: tuple[tuple[int, ...], ...]
    transport: str
    collective: str
    limit: int | None

    @property
    def title(self) -> str:
        return TITLES[self.mpi]


def launch(recommendation: Recommendation, options: contract.Options) -> Launch:
    """Raises WrongUsage."""
    asked = read(options)
    machine, given = recommendation.machine, recommendation.options
    measured = str(machine.get("launcher") or "intel")
    kind = asked.mpi or cast(Kind, measured if measured in TITLES else "intel")
    own = _names(machine.get("hosts"))
    if asked.count is not None and not asked.hosts and asked.count != max(1, len(own)):
        raise WrongUsage(
            f"--hosts {asked.count}: the study has {max(1, len(own))}; a script for others needs their names.",
            "name them, like --hosts node[01-16]",
        )
    hosts = asked.hosts or own
    ppn = asked.ppn or _number(machine.get("ppn")) or _number(given.get("ppn")) or 2
    pins = _pins(machine.get("pins"))
    same_place = hosts == own and len(pins) == max(1, len(hosts)) * ppn
    return Launch(
        kind,
        str(machine.get("mpi") or TITLES[kind]),
        () if hosts in (("localhost",), ("127.0.0.1",)) else hosts,
        ppn,
        str(machine.get("mpirun") or "mpirun") if kind == measured else "mpirun",
        str(machine.get("iface") or given.get("iface") or ""),
        pins if same_place else (),
        str(machine.get("transport") or "mpi"),
        collective(machine, given),
        asked.limit,
    )


def collective(machine: Mapping[str, Json], given: Mapping[str, Json]) -> str:
    return str(machine.get("collective") or given.get("collective") or "allreduce")


def _names(value: Json) -> tuple[str, ...]:
    """Names of hosts as a study keeps them; a script holds nothing else. Raises WrongUsage."""
    try:
        return tuple(checked_name(str(each)) for each in value) if isinstance(value, list) else ()
    except BadEntry as error:
        raise WrongUsage(f"the study's hosts can't be used: {error}.") from None


def _number(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _pins(value: Json) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list):
        return ()
    return tuple(tuple(core for core in each if isinstance(core, int)) for each in value if isinstance(each, list))


def machine_options() -> dict[str, Json]:
    """Nothing: this machine is rarely one of a job's hosts."""
    return {}
