"""`tune xft --dry-run`: layouts on hosts as they are, or as they were recorded; nothing is measured or started as a rank."""

from __future__ import annotations

from runners.hosts import hosts_for
from runners.hosts.host import Host
from runners.preview import Preview
from runners.runner import Json, UsageError
from runners.topology import Topology, format_list, read_file
from runners.topology.drawing import drawn, listed
from runners.xft.goal import Goal
from runners.xft.limits import limits, rank_counts
from runners.xft.model import DTYPES, Demand
from runners.xft.model_files import find
from runners.xft.options import Options
from runners.xft.plan import Plan
from spaces.space import Config, Space
from spaces.xft import SPACE, Software, for_job


def preview(options: Options, space: Space) -> Preview:
    """Raises UsageError, and EnvironmentProblem where hosts must be asked and don't answer."""
    goal, shape = Goal.of(options), find(options.model)
    dtype = options.dtype or "bf16"
    if dtype not in DTYPES:
        raise UsageError("dtype", dtype, f"is none of {', '.join(DTYPES)}")
    topologies = _topologies(options)
    demand = Demand(shape.cut(options.layers), dtype, goal.batch, goal.input, goal.output)
    engine = "xft" if options.engine == "auto" else options.engine
    software = Software() if engine == "xft" else Software(engine, "gomp", "libiomp5.so", ccl=False)
    plan = Plan(topologies, demand, software)
    named = frozenset[int]()
    if space["ranks"].domain != SPACE["ranks"].domain:
        named = frozenset(int(value) for value in space["ranks"].domain.values)
    maps = dict.fromkeys(drawn(host) for host in topologies.values())
    later = [reason for _, reason in rank_counts(topologies, demand) if reason]
    notes = [*maps, *([f"some numbers of ranks are tried only when named: {later[0]}"] if later else [])]

    def described(config: Config) -> list[str]:
        layout = plan.layout(config)
        if isinstance(layout, str):
            return [layout]
        lines = []
        for rank in layout.ranks:
            memory = " ".join(rank.memory.numactl()) or "as the system takes it"
            threads = "1 thread" if rank.threads == 1 else f"{rank.threads} threads"
            cpus = f"{'CPU' if len(rank.cpus) == 1 else 'CPUs'} {listed(list(rank.cpus))}"
            where = f"rank {rank.rank} on {rank.host}: {threads} on {cpus}"
            spare = f", spare {format_list(rank.spare)}" if rank.spare else ""
            lines.append(f"{where}{spare}; memory {memory}")
        return [*lines, *layout.notes]

    machine: dict[str, Json] = {"plan": plan.json(), "launcher": "intel", "iface": options.iface, "hosts": list(topologies)}
    return Preview(engine, for_job(space, limits(topologies, demand, software, named)), machine, tuple(notes), described)


def _topologies(options: Options) -> dict[str, Topology]:
    """Recorded ones where a file is named, else those that the hosts tell."""
    if options.topology:
        names = tuple(host.name for host in hosts_for(options.hosts) or (Host("localhost"),))
        return read_file(options.topology, names)
    from runners.xft.place import Place

    return Place.of(options).topologies
