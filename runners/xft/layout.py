"""Where every rank of a setting goes: its cores, threads, memory and environment. Pure: nothing is asked or started here.

A layout follows from the placement knobs, the hosts' topologies and the model; `no core twice` holds for every one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from runners.topology import Topology, format_list
from runners.xft.model import Demand
from runners.xft.seats import Memory, Seat, seats
from spaces.space import Config
from spaces.xft import Software, assigned
from spaces.xft.environment import XFT


@dataclass(frozen=True)
class RankPlace:
    """One rank: ``rank`` in the job, ``local`` on its host, ``cpus`` as that host numbers them, one or more for each core.

    ``env`` is all that the setting gives this rank. ``spare`` are the CPUs of its share that it leaves free.
    """

    rank: int
    host: str
    local: int
    cpus: tuple[int, ...]
    threads: int
    memory: Memory
    env: Mapping[str, str] = field(default_factory=dict)
    spare: tuple[int, ...] = ()

    def numactl(self) -> tuple[str, ...]:
        """What starts the rank's program so: numactl and its options.

        --all: an MPI may have pinned the rank to a share of its own, which numactl otherwise takes for all that there is.
        """
        return ("numactl", "--all", "-C", format_list(self.cpus), *self.memory.numactl())


@dataclass(frozen=True)
class Layout:
    """All ranks, in order of hosts. ``notes`` say what the hosts made of the setting, a sentence each; ``cores`` are busy.

    ``scripted``: it is what xFT's own scripts choose on every host.
    """

    ranks: tuple[RankPlace, ...]
    notes: tuple[str, ...] = ()
    cores: int = 0
    scripted: bool = False

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(rank.host for rank in self.ranks))

    def of_host(self, host: str) -> tuple[RankPlace, ...]:
        return tuple(rank for rank in self.ranks if rank.host == host)


@dataclass(frozen=True)
class Placed:
    """What the placement knobs come to; settings with equal ``by_host`` are the same in effect."""

    by_host: tuple[tuple[str, tuple[Seat, ...]], ...]
    notes: tuple[str, ...] = field(compare=False)
    cores: int = field(compare=False)
    scripted: bool = field(compare=False)


def place(config: Config, topologies: Mapping[str, Topology], demand: Demand) -> Placed | str:
    """Cores and memory of every rank, or why the setting can't be: a sentence."""
    by_host: list[tuple[str, tuple[Seat, ...]]] = []
    notes: list[str] = []
    scripted, cores = True, 0
    for name, host in topologies.items():
        found = seats(config, host)
        if isinstance(found, str):
            return f"{name}: {found}" if len(topologies) > 1 else found
        by_host.append((name, found.seats))
        notes += [f"{name}: {note}" if len(topologies) > 1 else note for note in found.notes]
        scripted, cores = scripted and found.scripted, cores + found.cores
    total = sum(len(each) for _, each in by_host)
    if total > demand.shape.heads:
        return f"{total} ranks share {demand.shape.heads} heads: some would have none"
    few, more = divmod(demand.shape.heads, total)
    if more:
        notes.append(
            f"{demand.shape.heads} heads don't divide by {total} ranks: {more} of them have {few + 1}, the others {few}"
        )
    need = demand.bytes_per_rank(total)
    for name, each in by_host:
        if reason := _memory(topologies[name], each, need, demand):
            return f"{name}: {reason}" if len(topologies) > 1 else reason
    return Placed(tuple(by_host), tuple(dict.fromkeys(notes)), cores, scripted)


def _memory(host: Topology, ranks: Sequence[Seat], need: int, demand: Demand) -> str | None:
    """Why the ranks' memory doesn't fit; nodes that tell no size are taken to have enough."""
    what = f"{demand.shape.name} in {demand.dtype} takes {_gib(need)} a rank"
    sets: dict[tuple[int, ...], int] = {}
    for seat in ranks:
        if seat.memory.policy == "bind":
            sets[seat.memory.nodes] = sets.get(seat.memory.nodes, 0) + 1
    for nodes, count in sets.items():
        have = host.memory_of(nodes)
        if have and need * count > have:
            where = f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {format_list(nodes)}"
            many = "" if count == 1 else f", {count} ranks are bound there"
            return f"{what}{many}, and {where} has {_gib(have)}"
    have = host.memory_of(host.memory_nodes)
    if have and need * len(ranks) > have:
        many = f"{len(ranks)} {'rank' if len(ranks) == 1 else 'ranks'} a host"
        return f"{what}, {many}, and the host has {_gib(have)}"
    return None


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def lay_out(config: Config, topologies: Mapping[str, Topology], demand: Demand, software: Software = XFT) -> Layout | str:
    """Every rank of a setting, or why it can't be: a sentence. ``topologies`` by host, in the order of ranks."""
    placed = place(config, topologies, demand)
    if isinstance(placed, str):
        return placed
    common = {each.name: each.value for each in assigned(config, software, len(topologies))}
    notes = list(placed.notes)
    if len({host.hostname for host in topologies.values()}) < len(topologies):
        notes.append("hosts share a name: XFT_ONECCL=1 keeps ranks of different hosts from meeting in shared memory")
    ranks: list[RankPlace] = []
    for name, each in placed.by_host:
        workers = _workers(config, each) if software.ccl else {}
        for local, seat in enumerate(each):
            env = {**common, "OMP_NUM_THREADS": str(seat.threads), **workers}
            env |= _weights(seat, demand, software)
            ranks.append(RankPlace(len(ranks), name, local, seat.cpus, seat.threads, seat.memory, env, seat.spare))
    return Layout(tuple(ranks), tuple(notes), placed.cores, placed.scripted)


def _workers(config: Config, ranks: Sequence[Seat]) -> dict[str, str]:
    """oneCCL's list of the workers' cores, all ranks of a host in one; none where a rank has no spare core for each worker."""
    count = int(config["worker_count"])
    if config["worker_offload"] == "0" or any(len(seat.spare) < count for seat in ranks):
        return {}
    return {"CCL_WORKER_AFFINITY": ",".join(str(cpu) for seat in ranks for cpu in seat.spare[-count:])}


def _weights(seat: Seat, demand: Demand, software: Software) -> dict[str, str]:
    """The nodes of the two copies of weights that a mixed dtype has; xFT reads them for no other, and takes one node each."""
    mixed = "_" in demand.dtype and not demand.dtype.startswith("fp8")
    if software.engine != "xft" or not mixed or len(seat.memory.nodes) != 1:
        return {}
    return {"FIRST_TOKEN_WEIGHT_LOCATION": str(seat.home), "NEXT_TOKEN_WEIGHT_LOCATION": str(seat.memory.nodes[0])}


def on_cores(layout: Layout, cpus: Sequence[tuple[int, ...]]) -> Layout:
    """``layout`` with other CPUs for each rank, whatever they are: for runs that show what the rules keep users from."""
    ranks = tuple(replace(rank, cpus=mine) for rank, mine in zip(layout.ranks, cpus, strict=True))
    return replace(layout, ranks=ranks)
