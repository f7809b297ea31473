"""Which settings hosts and a model allow: for the space of a job, its rules, and the order of rank counts."""

from __future__ import annotations

from collections.abc import Mapping

from runners.topology import Topology
from runners.xft.layout import Placed, place
from runners.xft.model import Demand
from runners.xft.seats import seats
from spaces.space import Config, Value
from spaces.xft import PLACEMENT, SPACE, Limits, Software

# With memory left alone a layout is ours, never that of xFT's scripts.
_PLAIN: Mapping[str, Value] = {**{name: SPACE[name].default for name in PLACEMENT}, "memory": "none"}


def rank_counts(topologies: Mapping[str, Topology], demand: Demand) -> tuple[tuple[int, str], ...]:
    """Ranks of a host that can be laid out, those first that divide the heads, each with why it comes later, or "".

    The first group is what a search tries by itself; the others are for who names them.
    """
    least = min(len(host.cores) for host in topologies.values())
    hosts = len(topologies)
    first: list[tuple[int, str]] = []
    after: list[tuple[int, str]] = []
    for count in range(1, min(least, demand.shape.heads // hosts or 1) + 1):
        if any(isinstance(seats({**_PLAIN, "ranks": count}, host), str) for host in topologies.values()):
            continue
        uneven = demand.shape.heads % (count * hosts)
        if not uneven:
            first.append((count, ""))
            continue
        few, total = demand.shape.heads // (count * hosts), count * hosts
        wait = f"ranks with {few} {'head' if few == 1 else 'heads'} wait for those with {few + 1}"
        after.append((count, f"{demand.shape.heads} heads don't divide by {total}: {wait}"))
    return (*first, *after)


def limits(
    topologies: Mapping[str, Topology],
    demand: Demand,
    software: Software,
    named: frozenset[int] = frozenset(),
    refused: Mapping[tuple[str, Value], str] | None = None,
) -> Limits:
    """What these hosts and this model allow, for spaces.xft.for_job.

    ``named`` are rank counts that a user asked for by number: those that don't divide the heads are measured then, too.
    """
    cached: dict[tuple[Value, ...], Placed | str] = {}

    def placed(config: Config) -> Placed | str:
        key = tuple(config[name] for name in PLACEMENT)
        if key not in cached:
            cached[key] = place(config, topologies, demand)
        return cached[key]

    def cost(config: Config) -> float:
        found = placed(config)
        if isinstance(found, str):
            return float("inf")
        return found.cores + 0.1 * sum(len(each) for _, each in found.by_host)

    def spare(config: Config) -> int:
        found = placed(config)
        return 0 if isinstance(found, str) else min(len(seat.spare) for _, each in found.by_host for seat in each)

    said = {**_impossible(topologies), **(refused or {})}
    for count, reason in rank_counts(topologies, demand):
        if reason and count not in named:
            said["ranks", count] = f"{reason}; --ranks {count} measures it all the same"
    return Limits(
        software=software,
        hosts=len(topologies),
        experts=demand.shape.experts > 0,
        input=demand.input,
        batch=demand.batch,
        fp8=demand.dtype.startswith("fp8"),
        placed=placed,
        spare=spare,
        cost=cost,
        refused=said,
        idle=_idle(topologies),
    )


def _impossible(topologies: Mapping[str, Topology]) -> dict[tuple[str, Value], str]:
    """Values of placement knobs that no layout on these hosts can have, with the reason."""
    found: dict[tuple[str, Value], str] = {}
    most = max(len(host.sockets) for host in topologies.values())
    sockets = range(most + 1)
    for knob in (SPACE["ranks"], SPACE["threads"], SPACE["spare_cores"], SPACE["sockets"], SPACE["memory"]):
        for value in knob.domain.values:
            if value == knob.default:
                continue
            one = 0 if knob.name in ("ranks", "sockets") else 1
            tries = [{**_PLAIN, "ranks": one, "siblings": each, "sockets": used, knob.name: value}
                     for used in (sockets if knob.name != "sockets" else (0,)) for each in ("one", "both")]  # fmt: skip
            reasons = [_reason(config, topologies) for config in tries]
            if all(reasons):
                found[knob.name, value] = reasons[0]
    return found


def _reason(config: Config, topologies: Mapping[str, Topology]) -> str:
    answers = (seats(config, host) for host in topologies.values())
    return next((answer for answer in answers if isinstance(answer, str)), "")


def _idle(topologies: Mapping[str, Topology]) -> frozenset[tuple[str, Value]]:
    """Values that come to the same as others on these hosts."""
    hosts = topologies.values()
    found: set[tuple[str, Value]] = set()
    if all(len(host.memory_nodes) <= 1 for host in hosts):
        found |= {("memory", value) for value in ("bind", "interleave", "none")}
    if all(host.smt == 1 for host in hosts):
        found.add(("siblings", "both"))
    counts = {len(host.sockets) for host in hosts}
    if len(counts) == 1:
        found.add(("sockets", counts.pop()))
    return frozenset(found)
