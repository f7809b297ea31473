"""What a start of N ranks takes from this machine, and the largest N that it has enough for."""

from __future__ import annotations

import os
from dataclasses import dataclass

from runners.limits import available_memory
from runners.runner import Problem
from runners.tcpstore import network
from spaces.units import format_size

# Measured: rank 0's process has 12 to 18 descriptors open besides one a client.
SPARE = 32
# Measured: what a forked rank touches for itself, page tables included, and a client's thread with both ends of its socket.
_PROCESS = 8 << 20
_CLIENT = 256 << 10
# Ports that other connections of the host may take meanwhile.
_OTHERS = 256
# More processes a core measure the scheduler.
_PROCESSES_A_CORE = 128
_PROCESSES = 256


@dataclass(frozen=True, slots=True)
class Machine:
    """``memory`` bytes; ``tasks`` processes and threads that can still be started; ``ports`` for clients of one server."""

    descriptors: network.Descriptors
    ports: int
    memory: int
    tasks: int
    cores: int


def machine() -> Machine:
    memory = available_memory()
    return Machine(
        network.descriptors(),
        network.ports(),
        memory if memory is not None else 1 << 40,
        network.tasks(),
        len(os.sched_getaffinity(0)),
    )


def processes(world_size: int, wanted: int, has: Machine) -> int:
    """Processes for the ranks but 0: one each where the machine carries that, else two a core."""
    clients = world_size - 1
    if wanted:
        return max(1, min(wanted, clients))
    most = min(_PROCESSES, _PROCESSES_A_CORE * has.cores, has.memory // 2 // _PROCESS, has.tasks // 4)
    return max(1, clients if clients < most else min(clients, max(2, 2 * has.cores)))


def largest(has: Machine) -> int:
    """The largest world size that can be measured here."""
    few = 2 * has.cores
    memory = (has.memory * 8 // 10 - few * _PROCESS) // _CLIENT
    return max(2, min(has.descriptors.soft - SPARE, has.ports - _OTHERS, memory, has.tasks - few))


def problems(world_size: int, count: int, has: Machine, *, force: bool) -> list[Problem]:
    """What there is not enough of for ``world_size`` ranks in ``count`` processes and rank 0's; [] when it fits."""
    most = largest(has)
    found = []
    way = f"--world-size {most} is the largest that fits here, --predict {world_size} extrapolates from there"
    need = world_size + SPARE
    soft, hard = has.descriptors.soft, has.descriptors.hard
    if need > soft:
        mend = f"ulimit -n {need} (in the job too)" if need <= hard else way
        found.append(
            (
                "nofile",
                f"rank 0 of {world_size} needs {need} open files and its limit is {soft} (ulimit -n, at most {hard}): the "
                "legacy server aborts there, libuv's throws clients off",
                mend,
            )
        )
    if world_size > has.ports - _OTHERS:
        message = f"{world_size} clients on one host need as many ports and net.ipv4.ip_local_port_range gives {has.ports}"
        found.append(("ports", message, way))
    memory = count * _PROCESS + world_size * _CLIENT
    if memory > has.memory * 8 // 10:
        message = f"{world_size} ranks in {count} processes take about {format_size(memory >> 20 << 20)} of memory and "
        found.append(("memory", f"{message}{format_size(has.memory >> 20 << 20)} are available", way))
    tasks = count + world_size
    if tasks > has.tasks:
        found.append(("tasks", f"{world_size} ranks take about {tasks} threads and {has.tasks} can be started here", way))
    return [Problem(name, "warning" if force else "error", message, mend) for name, message, mend in found]
