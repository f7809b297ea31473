"""What a start of N ranks takes from this machine, and the largest N that it has enough for."""

from __future__ import annotations

import os
from collections.abc import Callable
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


def cores() -> int:
    return len(os.sched_getaffinity(0))


def machine() -> Machine:
    memory = available_memory()
    return Machine(
        network.descriptors(),
        network.ports(),
        memory if memory is not None else 1 << 40,
        network.tasks(),
        cores(),
    )


def processes(world_size: int, wanted: int, has: Machine) -> int:
    """Processes for the ranks but 0: one each where the machine carries that, else two a core."""
    clients = world_size - 1
    if wanted:
        return max(1, min(wanted, clients))
    most = min(_PROCESSES, _PROCESSES_A_CORE * has.cores, has.memory // 2 // _PROCESS, has.tasks // 4)
    return max(1, clients if clients < most else min(clients, max(2, 2 * has.cores)))


def largest(has: Machine, *, raised: bool = False) -> int:
    """The largest world size that can be measured here; ``raised``: rank 0 may raise its limit of open files."""
    few = 2 * has.cores
    memory = (has.memory * 8 // 10 - few * _PROCESS) // _CLIENT
    return max(
        2,
        min((has.descriptors.hard if raised else has.descriptors.soft) - SPARE, has.ports - _OTHERS, memory, has.tasks - few),
    )


@dataclass(frozen=True, slots=True)
class Need:
    """What one host is to hold: ``ranks`` in ``processes``, and the server of ``served`` ranks (0: it is elsewhere)."""

    served: int
    ranks: int
    processes: int


def problems(world_size: int, count: int, has: Machine, *, force: bool, raised: bool = False) -> list[Problem]:
    """What there is not enough of for ``world_size`` ranks in ``count`` processes and rank 0's; [] when it fits."""
    need = Need(world_size, world_size, count)
    most = largest(has, raised=raised)
    way = f"--world-size {most} is the largest that fits here, --predict {world_size} extrapolates from there"
    return lacking(need, has, lambda: way, force=force, raised=raised)


def lacking(
    need: Need, has: Machine, way: Callable[[], str], *, force: bool, raised: bool = False, host: str = ""
) -> list[Problem]:
    """What ``host`` ("" is this one) has not enough of; ``way`` says what else a user can do.

    ``raised``: rank 0's process may raise its limit of open files.
    """
    found = []
    on, here = (f"on {host}: ", host) if host else ("", "here")
    soft, hard = has.descriptors.soft, has.descriptors.hard
    files = need.served + SPARE
    if need.served and files > (hard if raised else soft):
        mend = f"ulimit -n {files} (in the job too)" if files <= hard else way()
        found.append(
            (
                "nofile",
                f"{on}rank 0 of {need.served} needs {files} open files and its limit is {soft} (ulimit -n, at most {hard}): "
                "the legacy server aborts there, libuv's throws clients off",
                mend,
            )
        )
    ranks = need.ranks
    held = -(-ranks // max(1, need.processes)) + SPARE
    if not need.served and held > hard:
        message = f"{on}{ranks} clients in {need.processes} processes take {held} open files each and the hard limit is {hard}"
        found.append(("nofile", message, f"--processes {-(-ranks // max(1, hard - SPARE))}, or ulimit -Hn {held} there"))
    if ranks > has.ports - _OTHERS:
        message = f"{on}{ranks} clients on one host need as many ports and net.ipv4.ip_local_port_range gives {has.ports}"
        found.append(("ports", message, way()))
    memory = need.processes * _PROCESS + ranks * _CLIENT
    if memory > has.memory * 8 // 10:
        message = (
            f"{on}{ranks} ranks in {need.processes} processes take about {format_size(memory >> 20 << 20)} of memory and "
        )
        found.append(("memory", f"{message}{format_size(has.memory >> 20 << 20)} are available", way()))
    tasks = need.processes + ranks
    if tasks > has.tasks:
        message = f"{on}{ranks} ranks take about {tasks} threads and {has.tasks} can be started {here}"
        found.append(("tasks", message, way()))
    return [Problem(name, "warning" if force else "error", message, mend) for name, message, mend in found]
