"""Finds the setting whose layout is what a script starts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import cast

from runners.topology import Topology, format_list
from runners.xft import baseline
from runners.xft.seats import Memory, Policy, Seat, seats
from spaces.space import Value
from spaces.xft import PLACEMENT, SPACE
from tuner.exporters.xft.calls import Call

_MOST_SPARE = 8
# CPUs, threads, and memory's policy and nodes of a rank.
Place = tuple[tuple[int, ...], int, str, tuple[int, ...]]


def settled(found: Sequence[Call], host: Topology, threads: int | None) -> dict[str, Value] | str:
    """The placement knobs whose ranks on ``host`` have the cores, threads and memory of ``found``; a sentence without any.

    ``threads`` is OMP_NUM_THREADS of the script as a whole, None where it sets none.
    """
    wanted: list[Place] = []
    for call in found:
        place = _place(call, host, threads)
        if isinstance(place, str):
            return place
        wanted += [place] * call.count
    wanted.sort()
    counts = sorted({len(cpus) for cpus, *_ in wanted})
    defaults = {name: SPACE[name].default for name in PLACEMENT}
    axes: Mapping[str, Sequence[Value]] = {
        "ranks": (0, len(wanted)),
        "sockets": range(len(host.sockets) + 1),
        "threads": (0, *counts),
        "spare_cores": range(_MOST_SPARE + 1),
        "siblings": ("one", "both"),
        "memory": tuple(SPACE["memory"].domain.values),
    }
    for values in itertools.product(*axes.values()):
        config: dict[str, Value] = {**SPACE.default, **dict(zip(axes, values, strict=True))}
        if config["threads"] and config["spare_cores"]:
            continue
        made = seats(config, host)
        if not isinstance(made, str) and sorted(map(_of_seat, made.seats)) == wanted:
            return {name: config[name] for name in defaults}
    cpus, count, *_ = wanted[0]
    where = f"{len(wanted)} {'rank' if len(wanted) == 1 else 'ranks'}, the first on CPUs {format_list(cpus)}"
    return f"no setting that is measured here starts {where} with {count} {'thread' if count == 1 else 'threads'}"


def _of_seat(seat: Seat) -> Place:
    return seat.cpus, seat.threads, seat.memory.policy, seat.memory.nodes


def _place(call: Call, host: Topology, threads: int | None) -> Place | str:
    if call.unclear:
        return f"line {call.line}: {call.unclear!r} is known only when the script runs; write the numbers that it has then"
    cpus = call.cpus
    if call.tool == "run.sh":
        assert call.index is not None
        assert call.threads is not None
        sockets = max(1, len(host.cores_by_socket))
        per_socket = sum(host.cores_by_socket.values()) // sockets
        cpus = baseline.cores(call.index, call.threads, max(1, per_socket), len(host.nodes), cloud=host.adjacent)
    if cpus is None and call.cpu_nodes is not None:
        own = [core for core in host.cores if core.node in call.cpu_nodes]
        count = call.threads or threads
        both = count is not None and count > len(own)
        cpus = tuple(sorted(cpu for core in own for cpu in (core.cpus if both else core.cpus[:1])))
    if not cpus:
        return f"line {call.line}: the rank has no cores of its own; name them with numactl -C"
    if missing := [cpu for cpu in cpus if cpu not in host.cpus]:
        return f"line {call.line}: CPU {missing[0]} may not be used on {host.hostname}"
    count = call.threads or threads or len(cpus)
    memory = _memory(call, host)
    return tuple(sorted(cpus)), count, memory.policy, memory.nodes


def _memory(call: Call, host: Topology) -> Memory:
    """As runners.xft.seats has it: with one node there is nothing to choose; preferring the own node is the system's way."""
    if len(host.memory_nodes) <= 1 or call.memory is None or call.memory[0] == "none":
        return Memory()
    policy, nodes = call.memory
    if policy == "prefer" and any(node.number == nodes[0] and not node.memory_only for node in host.nodes):
        return Memory()
    return Memory(cast(Policy, policy), nodes)
