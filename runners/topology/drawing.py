"""A host's topology as a small map of text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from runners.topology.cpulist import format_list
from runners.topology.topology import Node, Topology


def drawn(host: Topology) -> str:
    """The map: a line for the host, one for each socket and each node; no line end at its end."""
    return "\n".join(_lines(host))


def _lines(host: Topology) -> Iterator[str]:
    yield f"{host.hostname}: {_title(host)}"
    for socket in host.sockets:
        yield f"  socket {socket}"
        for number in host.cpu_nodes:
            cores = [core for core in host.cores_of(number) if core.socket == socket]
            if not cores:
                continue
            node = host.node(number)
            cpus = listed([core.cpus[0] for core in cores])
            others = listed([cpu for core in cores for cpu in core.cpus[1:]])
            siblings = f", siblings {others}" if others else ""
            yield f"    node {number}: {_count(len(cores), 'core')} {_short(cpus)}{_short(siblings)}; {_memory(node)}"
            for near in host.paired.get(number, ()):
                yield f"      node {near}: memory only, {_memory(host.node(near))}, distance {_distance(host, number, near)}"
    if host.offline:
        yield f"  off: CPUs {format_list(host.offline)}"
    if host.slow:
        yield f"  efficiency cores, not used: CPUs {format_list(host.slow)}"
    if host.forbidden:
        yield f"  not ours (affinity or cpuset): CPUs {_short(format_list(host.forbidden))}"
    denied = [node.number for node in host.nodes if not node.allowed]
    if denied:
        yield f"  not ours (cpuset): memory of node {format_list(denied)}"
    if host.quota is not None:
        yield f"  quota: {host.quota:g} CPUs' worth of time"
    if host.memory_limit is not None:
        yield f"  memory limit: {host.memory_limit / 2**30:.1f} GiB"


def _title(host: Topology) -> str:
    parts = [
        host.model or "unknown processor",
        _count(len(host.sockets), "socket"),
        _count(len(host.cores), "core"),
        f"{host.smt} CPUs a core{' (neighbours)' if host.adjacent else ''}" if host.smt > 1 else "",
        _count(len(host.cpu_nodes), "NUMA node"),
    ]
    only = [node for node in host.nodes if node.memory_only and node.allowed]
    if only:
        parts.append(_count(len(only), "memory-only node"))
    return ", ".join(filter(None, parts))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _memory(node: Node) -> str:
    if not node.memory:
        return "no memory"
    return f"{node.memory / 2**30:.0f} GiB{'' if node.allowed else ' (not ours)'}"


def _distance(host: Topology, one: int, other: int) -> str:
    distance = host.node(one).distances.get(other, host.node(other).distances.get(one))
    return "unknown" if distance is None else str(distance)


def listed(cpus: list[int]) -> str:
    """As format_list, or like 0-94:2 where CPUs stand at equal distances."""
    steps = {after - before for before, after in itertools.pairwise(sorted(cpus))}
    return (
        f"{min(cpus)}-{max(cpus)}:{steps.pop()}" if len(cpus) > 2 and len(steps) == 1 and 1 not in steps else format_list(cpus)
    )


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:40]}…{text[-16:]}"
