"""What `tune doctor xft` tells: a map of every host, what its CPU and software can do, and what stands in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from runners import hosts_doctor
from runners.hosts import hosts_for
from runners.hosts.host import Host
from runners.launch.direct import Ssh
from runners.launch.job import Job, Rank
from runners.launch.together import Together
from runners.runner import EnvironmentProblem, Failure, Problem, UsageError
from runners.topology import Topology, read_file
from runners.xft.choose import choose
from runners.xft.engines.sending import command
from runners.xft.goal import Goal
from runners.xft.host_checks import Told, of_engine, of_host, of_topologies
from runners.xft.layout import place as placed
from runners.xft.limits import rank_counts
from runners.xft.model import DTYPES, Demand, ModelShape
from runners.xft.model_files import find
from runners.xft.options import Options
from runners.xft.place import Place
from spaces.xft import SPACE

_LIMIT = 60.0
_GIB = float(1 << 30)


def problems(options: Options) -> list[Problem]:
    """All that `tune doctor xft` tells. With --topology it tells of recorded hosts, and asks none. Raises UsageError."""
    goal, shape = Goal.of(options), find(options.model)
    if options.dtype and options.dtype not in DTYPES:
        raise UsageError("dtype", options.dtype, f"is none of {', '.join(DTYPES)}")
    if options.topology:
        names = tuple(host.name for host in hosts_for(options.hosts) or (Host("localhost"),))
        topologies = read_file(options.topology, names)
        demand = Demand(shape.cut(options.layers), options.dtype or "bf16", goal.batch, goal.input, goal.output)
        unasked = "the hosts are recorded ones: none was asked whether it can be reached, nor what is installed there"
        note = Problem("xft-recorded", "note", unasked)
        return [note, *of_topologies(topologies), *of_engine(options, topologies), *of_model(topologies, demand)]
    try:
        return _of_hosts(options, goal, shape)
    except EnvironmentProblem as problem:
        return [Problem("xft-hosts", "error", problem.message, problem.mend)]


def _of_hosts(options: Options, goal: Goal, shape: ModelShape) -> list[Problem]:
    place = Place.of(options)
    found: list[Problem] = []
    if len(place.hosts) > 1:
        found += hosts_doctor.problems(place.hosts, Ssh(place.reach), place.python)
        found = [each for each in found if each.id != "hosts-same-name"]  # no error here: xFT can be told; see of_topologies
        if any(problem.severity == "error" for problem in found):
            return found
    topologies = place.topologies
    found += of_topologies(topologies)
    found += of_engine(options, topologies)
    together = Together()
    answers = together.each(lambda host: _ask(together, place, host), place.hosts)
    for host, answer in zip(place.hosts, answers, strict=True):
        found += of_host(_where(place, host), answer, topologies[host.name], place.told[host.name]["network"]["shm"])
    try:
        chosen = choose(options, place, shape, goal)
    except EnvironmentProblem as problem:
        if not any(each.severity == "error" for each in found):
            found.append(Problem("xft-engine", "error", problem.message, problem.mend))
        return found
    demand = Demand(shape.cut(options.layers), chosen.dtype, goal.batch, goal.input, goal.output)
    found += of_model(topologies, demand)
    found += chosen.engine.check()
    by = f"{place.launcher.name}: {place.why}"
    found.append(Problem("xft-ready", "note", f"engine {chosen.engine.name}: {chosen.why}; ranks are started by {by}"))
    return found


def _where(place: Place, host: Host) -> str:
    return host.name if len(place.hosts) > 1 else "this host" if host.name == "localhost" else host.name


def _ask(together: Together, place: Place, host: Host) -> Told | Failure:
    """What runners.xft.check_program tells on a host."""
    node = place.topologies[host.name].memory_nodes[:1] or (0,)
    job = Job((Rank(host, command(place.python, ("runners.xft.check_program",))),), _LIMIT)
    return together.ask(Ssh(place.reach), job, {"node": node[0]}, _LIMIT)


def of_model(topologies: Mapping[str, Topology], demand: Demand) -> Iterator[Problem]:
    """How many ranks are tried, and whether the baseline's memory fits."""
    shape = demand.shape
    counts = rank_counts(topologies, demand)
    first = ", ".join(str(count) for count, reason in counts if not reason)
    hosts = f" on each of {len(topologies)} hosts" if len(topologies) > 1 else ""
    heads = f"{shape.heads} heads, {shape.kv_heads} for keys and values"
    text = f"{shape.name}: {heads}; of ranks{hosts} {first or 'no number'} divide them"
    after = [(count, reason) for count, reason in counts if reason]
    if after:
        text += f"; others are tried when named: {after[0][1]}"
    yield Problem("xft-ranks", "note", text)
    found = placed(SPACE.default, topologies, demand)
    if isinstance(found, str) and not _any_fits(topologies, demand, [count for count, _ in counts]):
        yield Problem(
            "xft-memory", "error", f"no number of ranks fits: {found}",
            "fewer bytes a weight (--dtype), a smaller --batch, more hosts, or some of its --layers with --engine torch",
        )  # fmt: skip
    elif isinstance(found, str):
        yield Problem(
            "xft-memory", "warning", f"what xFT's scripts would choose can't run: {found}",
            "fewer bytes a weight (--dtype), a smaller --batch, or more hosts; other settings are tried all the same",
        )  # fmt: skip
    else:
        total = sum(len(each) for _, each in found.by_host)
        need = demand.bytes_per_rank(total)
        parameters = shape.parameters / 1e9
        ranks = f"{total} rank{'s' if total > 1 else ''}"
        text = f"{parameters:.3g} billion weights in {demand.dtype}: {need / _GIB:.1f} GiB a rank with {ranks}, computed"
        yield Problem("xft-memory", "note", text)


def _any_fits(topologies: Mapping[str, Topology], demand: Demand, counts: Sequence[int]) -> bool:
    """Whether memory is enough for some number of ranks. Where none of it is bound is where most fits."""
    tries = ({**SPACE.default, "ranks": count, "memory": "none"} for count in counts)
    return any(not isinstance(placed(config, topologies, demand), str) for config in tries)
