"""One host's sockets, NUMA nodes, cores and their siblings, and what of them may be used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Core:
    """A physical core. ``cpus`` are its SMT siblings that may be used here, ascending; ``all_cpus`` those that are online."""

    socket: int
    node: int
    cpus: tuple[int, ...]
    all_cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A NUMA node. ``memory`` and ``free`` in bytes; ``distances`` to all nodes by number, 10 is near.

    ``cpus`` are all that are online, usable or not. ``allowed``: memory may be taken there.
    """

    number: int
    cpus: tuple[int, ...]
    memory: int
    free: int
    distances: Mapping[int, int] = field(default_factory=dict)
    allowed: bool = True

    @property
    def memory_only(self) -> bool:
        """Memory without CPUs: high-bandwidth memory in flat mode, CXL memory."""
        return not self.cpus and self.memory > 0


@dataclass(frozen=True)
class Topology:
    """What one host told (runners.topology.record makes it).

    ``cores`` are those with a CPU that may be used, in order of their lowest CPU; ``online`` all CPUs that are switched on,
    ``offline`` those that are not; ``cores_by_socket`` counts cores whether they may be used or not. ``quota`` is the CPUs'
    worth of time that control groups allow, ``memory_limit`` their bytes; None without a limit. ``slow`` CPUs are efficiency
    cores of a hybrid processor and are not among ``cores``.
    """

    hostname: str
    cores: tuple[Core, ...]
    nodes: tuple[Node, ...]
    online: tuple[int, ...]
    cores_by_socket: Mapping[int, int] = field(default_factory=dict)
    offline: tuple[int, ...] = ()
    isolated: tuple[int, ...] = ()
    slow: tuple[int, ...] = ()
    quota: float | None = None
    memory_limit: int | None = None
    vendor: str = ""
    model: str = ""
    family: int | None = None
    number: int | None = None
    flags: frozenset[str] = frozenset()
    kernel: str = ""
    machine: str = ""

    @cached_property
    def sockets(self) -> tuple[int, ...]:
        """Numbers of the sockets that have usable cores."""
        return tuple(sorted({core.socket for core in self.cores}))

    @cached_property
    def cpu_nodes(self) -> tuple[int, ...]:
        """Numbers of the nodes that have usable cores, socket by socket."""
        return tuple(dict.fromkeys(core.node for core in sorted(self.cores, key=lambda core: (core.socket, core.node))))

    @cached_property
    def memory_nodes(self) -> tuple[int, ...]:
        """Numbers of the nodes that memory may be taken from."""
        return tuple(node.number for node in self.nodes if node.memory and node.allowed)

    @cached_property
    def paired(self) -> Mapping[int, tuple[int, ...]]:
        """For each node with usable cores the memory-only nodes that are nearest to it; by distance, never by number.

        A memory-only node belongs to one node with cores: the nearest, and of equally near ones the one that has fewest so
        far. Where a memory-only node is as near to all nodes of a socket it serves the first of them that has none.
        """
        found: dict[int, list[int]] = {number: [] for number in self.cpu_nodes}
        for node in self.nodes:
            if not node.memory_only or not node.allowed or not found:
                continue
            known = {number: node.distances.get(number, self.node(number).distances.get(node.number, 255)) for number in found}
            nearest = min(known.values())
            able = [number for number, distance in known.items() if distance == nearest]
            found[min(able, key=lambda number: len(found[number]))].append(node.number)
        return {number: tuple(near) for number, near in found.items()}

    def node(self, number: int) -> Node:
        return next(node for node in self.nodes if node.number == number)

    def cores_of(self, node: int) -> tuple[Core, ...]:
        """The usable cores of a node, in order of their lowest CPU."""
        return tuple(core for core in self.cores if core.node == node)

    def memory_of(self, nodes: tuple[int, ...]) -> int:
        """Bytes of some nodes together, at most what control groups allow."""
        total = sum(node.memory for node in self.nodes if node.number in nodes)
        return total if self.memory_limit is None else min(total, self.memory_limit)

    @cached_property
    def cpus(self) -> tuple[int, ...]:
        """All CPUs that may be used."""
        return tuple(sorted(cpu for core in self.cores for cpu in core.cpus))

    @cached_property
    def smt(self) -> int:
        """Siblings that a core has at most."""
        return max((len(core.all_cpus) for core in self.cores), default=1)

    @cached_property
    def adjacent(self) -> bool:
        """Neighbouring CPU numbers are siblings of one core, as clouds number them: 0-47 would be 24 cores twice."""
        several = [core.all_cpus for core in self.cores if len(core.all_cpus) > 1]
        return bool(several) and all(cpus[1] == cpus[0] + 1 for cpus in several)

    @cached_property
    def forbidden(self) -> tuple[int, ...]:
        """CPUs that are online and that this process may not use: outside its affinity mask or cpuset."""
        usable = {cpu for core in self.cores for cpu in core.cpus}
        return tuple(cpu for cpu in self.online if cpu not in usable and cpu not in self.slow)

    @property
    def most_threads(self) -> int:
        """Cores that can work at a time: those that may be used, or fewer where a quota cuts the time."""
        count = len(self.cores)
        return count if self.quota is None else max(1, min(count, math.floor(self.quota + 1e-9)))
