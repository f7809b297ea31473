"""Whether ranks really had what the layout says, and what else went on: from what they read of themselves while they ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from runners.runner import Json
from runners.topology.cpulist import format_list
from runners.xft.engines.engine import Report
from runners.xft.layout import Layout, RankPlace

# A thread that ran for this share of the time computes; a CPU that was busy for less of it was idle.
_AT_WORK, _IDLE = 0.3, 0.1
# Memory of a bound rank that must be on its nodes: pages from before the policy was set are few.
_BOUND = 0.9
# A rank that computes so much longer than the median one holds the others up.
_SLOW = 1.25
_OTHERS = 0.1
_SHOWN = 64


def contradiction(layout: Layout, reports: Sequence[Report]) -> str:
    """How the ranks differ from what was laid out, "" where they don't: such a figure is not this setting's."""
    for number, (rank, report) in enumerate(zip(layout.ranks, reports, strict=True)):
        said = _of_rank(rank, report)
        if said:
            return f"rank {number} on {rank.host}: {said}"
    return ""


def _of_rank(rank: RankPlace, report: Report) -> str:
    wanted = set(rank.cpus)
    if set(report["cpus"]) != wanted:
        return f"it may use the CPUs {format_list(report['cpus'])} and {format_list(wanted)} were set"
    for thread in report["threads"]:
        outside = set(thread["cpus"]) - wanted - set(rank.spare)
        # oneCCL pins its own threads, one CPU each.
        if outside and not (report.get("talk") == "oneccl" and len(thread["cpus"]) == 1):
            return f"a thread of it may use CPU {min(outside)}, and {format_list(wanted)} were set"
    if "num_threads" in report and report["num_threads"] != rank.threads:
        told = report["omp"].get("OMP_NUM_THREADS", "no OMP_NUM_THREADS")
        return f"it computes with {report['num_threads']} threads ({told} arrived) and {rank.threads} were set"
    if "OMP_NUM_THREADS" in rank.env and report["omp"].get("OMP_NUM_THREADS") != rank.env["OMP_NUM_THREADS"]:
        return f"OMP_NUM_THREADS={report['omp'].get('OMP_NUM_THREADS', '')} arrived and {rank.env['OMP_NUM_THREADS']} was set"
    return _of_memory(rank, report)


def _of_memory(rank: RankPlace, report: Report) -> str:
    have, wanted = report["memory"], rank.memory
    if wanted.policy == "none":
        return ""
    if have and (have["policy"], tuple(have["nodes"])) != (wanted.policy, wanted.nodes):
        told = _policy(have["policy"], have["nodes"])
        return f"its memory policy is {told} and {_policy(wanted.policy, wanted.nodes)} was set"
    pages = report["pages"]
    if wanted.policy == "bind" and pages:
        share = sum(size for node, size in pages.items() if int(node) in wanted.nodes) / sum(pages.values())
        if share < _BOUND:
            return f"{100 * share:.0f} % of its memory is on the nodes {format_list(wanted.nodes)} that it is bound to"
    return ""


def _policy(name: str, nodes: Sequence[int]) -> str:
    return f"{name} {format_list(nodes)}".strip()


def other_runtime(env: Mapping[str, str], reports: Sequence[Report]) -> str:
    """Why the OpenMP runtime is not the one that was preloaded, "" where it is or none was."""
    wanted = "libiomp5" if "libiomp5" in env.get("LD_PRELOAD", "") else ""
    have = {str(report["runtime"]) for report in reports if "runtime" in report}
    if not wanted or not have or have == {wanted}:
        return ""
    others = ", ".join(sorted(have - {wanted}))
    return f"{env['LD_PRELOAD']} was to be preloaded and ranks have {others}: the file is not there, or not for them"


@dataclass(frozen=True, slots=True)
class Told:
    """``evidence`` for the record, ``warnings`` for the user."""

    evidence: Mapping[str, Json]
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Host:
    """CPUs of one host's ranks: seconds that each was busy, and that our threads ran in all."""

    wall: float = 0.0
    busy: dict[int, float] = field(default_factory=dict)
    ours: float = 0.0
    sets: list[set[int]] = field(default_factory=list)
    crowded: list[int] = field(default_factory=list)


def told(layout: Layout, reports: Sequence[Report]) -> Told:
    """What the ranks had and did: CPUs, threads, memory; idle and doubled CPUs, others' load, stragglers."""
    hosts: dict[str, _Host] = {}
    ranks: list[Json] = []
    for number, (rank, report) in enumerate(zip(layout.ranks, reports, strict=True)):
        seen = sorted({cpu for thread in report["threads"] for cpu in thread["cpus"]})
        at_work = sum(thread["seconds"] > _AT_WORK * report["wall"] for thread in report["threads"])
        host = hosts.setdefault(rank.host, _Host())
        host.wall = max(host.wall, float(report["wall"]))
        for cpu, seconds in report["busy"].items():
            host.busy[int(cpu)] = max(seconds, host.busy.get(int(cpu), 0.0))
        host.ours += sum(thread["seconds"] for thread in report["threads"])
        host.sets.append(set(report["cpus"]))
        if at_work > len(seen):
            host.crowded += seen
        if number < _SHOWN:
            ranks.append(_shown(rank, report, at_work))
    idle, doubled, others = _by_host(hosts)
    late = stragglers(layout, reports)
    warnings = [*late]
    for name, share in others.items():
        if share > _OTHERS:
            warnings.append(f"other programs took {100 * share:.0f} % of the ranks' CPUs on {name} during the measurement")
    for name, cpus in doubled.items():
        warnings.append(f"more threads than CPUs computed on {name}, CPUs {cpus}")
    evidence: dict[str, Json] = {
        "ranks": ranks,
        "idle_cpus": dict(idle),
        "doubled_cpus": dict(doubled),
        "others_load": {name: round(share, 3) for name, share in others.items()},
        "stragglers": list(late),
    }
    return Told(evidence, tuple(warnings))


def _shown(rank: RankPlace, report: Report, at_work: int) -> Json:
    found: dict[str, Json] = {
        "host": rank.host,
        "node": str(report["node"]),
        "cpus": format_list(report["cpus"]),
        "threads": len(report["threads"]),
        "at_work": at_work,
        "memory": _policy(report["memory"].get("policy", "?"), report["memory"].get("nodes", [])),
        "pages_mb": {str(node): round(size / 1e6) for node, size in report["pages"].items()},
    }
    for name in ("runtime", "num_threads", "in_sums"):
        if name in report:
            found[name] = report[name]
    return found


def _by_host(hosts: Mapping[str, _Host]) -> tuple[dict[str, str], dict[str, str], dict[str, float]]:
    idle, doubled, others = {}, {}, {}
    for name, host in hosts.items():
        unused = [cpu for cpu, seconds in host.busy.items() if seconds < _IDLE * host.wall]
        if unused:
            idle[name] = format_list(unused)
        twice = {cpu for cpus in host.sets for cpu in cpus if sum(cpu in other for other in host.sets) > 1}
        if twice | set(host.crowded):
            doubled[name] = format_list(twice | set(host.crowded))
        if host.busy and host.wall > 0:
            others[name] = max(0.0, (sum(host.busy.values()) - host.ours) / (host.wall * len(host.busy)))
    return idle, doubled, others


def stragglers(layout: Layout, reports: Sequence[Report]) -> list[str]:
    """Ranks that the others wait for, by rank and host, the slowest first: they compute longer between the sums."""
    if len(reports) < 2 or not all("in_sums" in report for report in reports):
        return []
    alone = [float(report["wall"]) - float(report["in_sums"]) for report in reports]
    usual = median(alone)
    late = sorted(((seconds, number) for number, seconds in enumerate(alone) if seconds > _SLOW * usual), reverse=True)
    return [
        f"rank {number} on {layout.ranks[number].host} computes {seconds / usual:.1f} times as long as the others, which wait"
        for seconds, number in late
    ]


def memory(reports: Sequence[Report]) -> int:
    """Bytes of the largest rank."""
    return max((int(report.get("rss", 0)) for report in reports), default=0)
