"""The ranks of one host: how its nodes and cores are shared out, and what memory each rank gets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from runners.topology import Core, Topology, format_list
from runners.xft.baseline import Script, of_topology
from spaces.space import Config
from spaces.xft import PLACEMENT
from spaces.xft.knobs import DEFAULTS

Policy = Literal["none", "bind", "prefer", "interleave"]


@dataclass(frozen=True, slots=True)
class Memory:
    """Where a rank's memory comes from; "none" is the system's choice: the node of the CPU that touches it first."""

    policy: Policy = "none"
    nodes: tuple[int, ...] = ()

    def numactl(self) -> tuple[str, ...]:
        """numactl's options; its short ones, which every version has."""
        flag = {"bind": "-m", "prefer": "-p", "interleave": "-i"}.get(self.policy)
        return () if flag is None else (flag, format_list(self.nodes))


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of one rank on its host. ``home`` is the node of its first core, ``spare`` the CPUs that it leaves free."""

    cpus: tuple[int, ...]
    threads: int
    memory: Memory
    home: int
    spare: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Seats:
    """``cores`` are busy ones; ``scripted``: xFT's own script chose."""

    seats: tuple[Seat, ...]
    notes: tuple[str, ...]
    cores: int
    scripted: bool = False


def seats(config: Config, host: Topology) -> Seats | str:
    """The ranks of ``host``, or why the setting can't be there: a sentence."""
    notes: list[str] = []
    if all(config[name] == DEFAULTS[name] for name in PLACEMENT):
        chosen = of_topology(host)
        if not isinstance(chosen, str):
            return _scripted(chosen, host)
        notes.append(f"{chosen}; its README's numactl -N i -m i for each node is the baseline")
    shares = _shares(host, int(config["ranks"]), int(config["sockets"]))
    if isinstance(shares, str):
        return shares
    if host.quota is not None and sum(map(len, shares)) > host.most_threads:
        if host.most_threads < len(shares):
            return f"{len(shares)} ranks have {host.quota:g} CPUs' worth of time (quota), less than one each"
        shares = _trimmed(shares, host.most_threads)
        notes.append(f"control groups allow {host.quota:g} CPUs' worth of time: {sum(map(len, shares))} cores are used")
    made = []
    busy = 0
    for share in shares:
        seat = _seat(config, host, share)
        if isinstance(seat, str):
            return seat
        made.append(seat[0])
        busy += seat[1]
    return Seats(tuple(made), tuple(notes), busy)


def _scripted(chosen: Script, host: Topology) -> Seats:
    """The ranks as xFT's own script places them, with what is not best about it."""
    several = len(host.memory_nodes) > 1
    made = [
        Seat(rank.cpus, rank.threads, Memory("bind", (rank.node,)) if several else Memory(), rank.first)
        for rank in chosen.ranks
    ]
    notes: list[str] = []
    for number, rank in enumerate(chosen.ranks if several else ()):
        near = host.paired.get(rank.first, ())
        if host.node(rank.node).memory_only and near and rank.node not in near:
            far = f"xFT's script binds rank {number} to node {rank.node}, though node {near[0]} is nearer"
            notes.append(f"{far}: it guesses by number")
    total = sum(rank.threads for rank in chosen.ranks)
    if total > host.most_threads:
        allowed = f"the {host.quota:g} CPUs' worth of time that control groups allow"
        notes.append(f"xFT's script starts {total} threads, more than {allowed}")
    idle = sum(len(rank.cpus) - rank.threads for rank in chosen.ranks)
    if idle:
        notes.append(f"xFT's script leaves {idle} cores without a thread: its nodes are of different size")
    return Seats(tuple(made), tuple(notes), total, scripted=True)


def _shares(host: Topology, ranks: int, sockets: int) -> list[tuple[Core, ...]] | str:
    """The cores of each rank: whole nodes, several together, or equal parts of one."""
    have = len(host.sockets)
    if sockets > have:
        return f"{sockets} sockets are asked for, and the host has {have} with cores that may be used"
    used = sorted(host.sockets, key=lambda socket: -sum(core.socket == socket for core in host.cores))[: sockets or have]
    nodes = [(number, [core for core in host.cores_of(number) if core.socket in used]) for number in host.cpu_nodes]
    nodes = [(number, cores) for number, cores in nodes if cores]
    ranks = ranks or len(nodes)
    total = sum(len(cores) for _, cores in nodes)
    if ranks > total:
        return f"{ranks} ranks have {total} {'core' if total == 1 else 'cores'}, and no core serves two"
    if ranks <= len(nodes):
        if len(nodes) % ranks:
            return f"{ranks} ranks can't share {len(nodes)} nodes without splitting one"
        each = len(nodes) // ranks
        groups = [nodes[start : start + each] for start in range(0, len(nodes), each)]
        return [tuple(sorted((core for _, cores in group for core in cores), key=_lowest)) for group in groups]
    if ranks % len(nodes):
        return f"{ranks} ranks can't share {len(nodes)} nodes alike: some nodes would have more of them"
    each = ranks // len(nodes)
    small = min(nodes, key=lambda node: len(node[1]))
    if len(small[1]) < each:
        return f"{each} ranks a node don't fit on the {len(small[1])} cores of node {small[0]}, and no core serves two"
    return [part for _, cores in nodes for part in _parts(tuple(cores), each)]


def _lowest(core: Core) -> int:
    return core.cpus[0]


def _parts(cores: tuple[Core, ...], count: int) -> list[tuple[Core, ...]]:
    """``cores`` in ``count`` runs of neighbours; the first ones have one more where it doesn't come out even."""
    few, more = divmod(len(cores), count)
    ends = list(itertools.accumulate(few + (index < more) for index in range(count)))
    return [cores[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _trimmed(shares: Sequence[tuple[Core, ...]], most: int) -> list[tuple[Core, ...]]:
    """Shares of ``most`` cores in all, none without one."""
    each, more = divmod(most, len(shares))
    return [share[: each + (index < more)] for index, share in enumerate(shares)]


def _seat(config: Config, host: Topology, share: tuple[Core, ...]) -> tuple[Seat, int] | str:
    spare, asked, both = int(config["spare_cores"]), int(config["threads"]), config["siblings"] == "both"
    if spare >= len(share):
        return f"{spare} spare cores leave none to a rank that has {len(share)}"
    cores = share[: len(share) - spare]
    left = share[len(share) - spare :]
    if asked:
        siblings = max(len(core.cpus) for core in cores) if both else 1
        need = math.ceil(asked / siblings)
        if need > len(cores):
            more = "" if both or max(len(core.cpus) for core in cores) == 1 else " (siblings both would use each twice)"
            return f"{asked} threads are more than the {len(cores)} cores of a rank{more}"
        left = (*cores[need:], *left)
        cores = cores[:need]
    cpus = tuple(sorted(cpu for core in cores for cpu in (core.cpus if both else core.cpus[:1])))
    if asked and len(cpus) != asked:
        return f"{asked} threads don't fill whole cores with both siblings; {len(cpus)} do"
    memory = _memory(str(config["memory"]), host, cores)
    if isinstance(memory, str):
        return memory
    return Seat(cpus, len(cpus), memory, cores[0].node, tuple(core.cpus[0] for core in left)), len(cores)


def _memory(policy: str, host: Topology, cores: Sequence[Core]) -> Memory | str:
    """The memory of a rank on ``cores``; with one node there is nothing to choose."""
    if policy == "none" or len(host.memory_nodes) <= 1:
        if policy == "hbm" and not any(host.paired.values()):
            return "memory hbm needs nodes that have memory and no CPUs, and this host has none"
        return Memory()
    near = tuple(dict.fromkeys(core.node for core in cores))
    fast = tuple(sorted(number for node in near for number in host.paired.get(node, ())))
    own = tuple(number for number in near if number in host.memory_nodes) or _nearest(host, near[0])
    if policy == "interleave":
        return Memory("interleave", tuple(n for n in host.memory_nodes if not host.node(n).memory_only) or host.memory_nodes)
    if policy == "hbm":
        if not fast:
            return "memory hbm needs a node with memory and no CPUs near the rank's cores, and there is none"
        # Preferred, not bound: what doesn't fit goes to other nodes instead of ending the rank.
        return Memory("prefer" if len(fast) == 1 else "interleave", fast)
    if policy == "default" and fast:
        return Memory("bind", fast)
    return Memory("bind", own)


def _nearest(host: Topology, node: int) -> tuple[int, ...]:
    """The memory node that is nearest to one that has none of its own."""
    distances = host.node(node).distances
    return (min(host.memory_nodes, key=lambda number: (distances.get(number, 255), number)),)
