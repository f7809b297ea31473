"""`tune doctor aio`: everything about this machine that decides whether an aio measurement works and what it means."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from runners.aio import engines, software, storage
from runners.aio.fio import find_fio
from runners.aio.options import Options
from runners.aio.plan import Job, Volume, plan
from runners.device import Device, check_folder
from runners.limits import CGROUP, PROC, AioEvents, Memlock, aio_events, available_memory, container, memlock
from runners.packages import install
from runners.runner import Problem, Severity, UsageError
from spaces.aio import SPACE, reserved_events
from spaces.units import format_duration, format_size, parse_size

_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
# What most good settings need at most (facts of many sweeps: 8 threads, 32 deep).
_USUAL = {"intra_op_parallelism": 8, "queue_depth": 32}


def problems(options: Options) -> list[Problem]:
    """Everything, the worst first. Takes about a second; imports neither torch nor deepspeed."""
    devices, found = _devices(options)
    found += _quick(options, devices)
    for device in devices:
        found += storage.thorough(device)
    found += _op(options)
    if find_fio() is None:
        message = "fio is not installed; the winner then has no second opinion from another program"
        found.append(Problem("fio", "note", message, install("fio")))
    kind = container()
    if kind:
        message = f"this is a container ({kind}); limits such as fs.aio-max-nr and the disks' other users are the host's"
        found.append(Problem("container", "note", message))
    if not options.device:
        found.append(
            Problem("device", "note", "no folder was named, so no disk was looked at", "tune doctor aio --device DIR")
        )
    return sorted(found, key=lambda problem: _ORDER[problem.severity])


def preflight(options: Options) -> list[Problem]:
    """The cheap part of ``problems``: what a run must know before it measures. Tens of milliseconds."""
    devices, found = _devices(options)
    found += _quick(options, devices)
    return sorted(found, key=lambda problem: _ORDER[problem.severity])


def tensor_sizes(options: Options) -> tuple[int, ...]:
    """Bytes of each tensor size that was asked for. Raises UsageError."""
    sizes = []
    for part in options.tensor_size.split(","):
        try:
            size = parse_size(part)
        except ValueError as error:
            raise UsageError("tensor-size", options.tensor_size, str(error)) from None
        if size < 1:
            raise UsageError("tensor-size", options.tensor_size, "a tensor needs at least one byte; write it like 64M")
        sizes.append(size)
    return tuple(dict.fromkeys(sizes))


def _devices(options: Options) -> tuple[list[Device], list[Problem]]:
    """The folders that can be used, and a problem for each that can't."""
    devices: list[Device] = []
    found: list[Problem] = []
    for text in options.device:
        try:
            device = storage.inspected(check_folder(text))
        except UsageError as error:
            found.append(Problem("device", "error", str(error), "findmnt --real"))
            continue
        if isinstance(device, Device):
            devices.append(device)
        else:
            found.append(device)
    return devices, found


def _quick(options: Options, devices: list[Device]) -> list[Problem]:
    if options.ranks < 1 or options.handles < 1:
        name, value = ("ranks", options.ranks) if options.ranks < 1 else ("handles", options.handles)
        return [Problem("options", "error", f"--{name} {value}: must be at least 1", f"--{name} 1")]
    try:
        sizes = tensor_sizes(options)
    except UsageError as error:
        return [Problem("options", "error", str(error), "--tensor-size 64M")]
    found = list(storage.shared_disks(devices))
    for device in devices:
        # Ranks are spread over the folders, the first ones get one more.
        found += storage.essential(device, sizes, -(-options.ranks // max(1, len(devices))))
    return found + list(limits(options, sizes))


def _op(options: Options) -> list[Problem]:
    """DeepSpeed's op: what it lacks, or that it is built, or how long building it takes."""
    environ = engines.environment()
    found = software.problems(options.engine, environ)
    state = engines.deepspeed_loads(environ=environ)
    if state.loads:
        found.append(Problem("op", "note", f"{state.reason} (torch {software.version('torch')})"))
    elif state.builds:
        message = f"{state.reason}; its first use builds it, which takes about {format_duration(state.seconds)}"
        mend = f"{sys.executable} -c 'from deepspeed.ops.op_builder import AsyncIOBuilder as B; B().load()'"
        found.append(Problem("op", "note", message, mend))
    return found


def limits(options: Options, sizes: tuple[int, ...], *, proc: Path = PROC, cgroup: Path = CGROUP) -> Iterator[Problem]:
    """Kernel limits against what the job with tensors of ``sizes`` bytes needs."""
    if platform.system() != "Linux":
        yield Problem("linux", "error", f"Linux asynchronous I/O does not exist on {platform.system()}", "run on Linux")
        return
    job = Job(tuple(sorted(sizes, reverse=True)), options.ranks, 0.5, False)
    buffers = sum(plan(job, Volume(0, 0)).slots)
    yield from _memlock(memlock(proc), options, buffers)
    need, room = buffers * options.ranks, available_memory(proc, cgroup)
    if room is not None and need > room // 10 * 8:
        message = f"{options.ranks} ranks x {buffers} bytes of locked buffers are {need}, and {room} are available"
        mend = f"--tensor-size {format_size(1 << max(20, (room // options.ranks).bit_length() - 2))}"
        yield Problem("memory", "error", message, mend)
    elif room is not None and 2 * need > room:
        message = f"locked buffers take {need} of the {room} bytes of memory that are available"
        yield Problem("memory", "warning", message, "free -h")
    yield from _events(aio_events(proc), options)


def _memlock(limit: Memlock, options: Options, buffers: int) -> Iterator[Problem]:
    if limit.allows(buffers):
        return
    severity: Severity = "error" if options.engine == "deepspeed" else "warning"
    message = (
        f"a process may lock {limit.soft} bytes (memlock) and DeepSpeed locks buffers of {buffers} in each of "
        f"{options.ranks} ranks; it aborts without a word"
    )
    if limit.hard is None or buffers <= limit.hard:
        mend = "ulimit -l unlimited" if limit.hard is None else f"ulimit -l {limit.hard // 1024}"
    elif container():
        mend = "docker run --ulimit memlock=-1 ..."
    else:
        mend = "sudo prlimit --pid $$ --memlock=unlimited:unlimited"
    yield Problem("memlock", severity, message, mend)


def _events(events: AioEvents | None, options: Options) -> Iterator[Problem]:
    if events is None:
        yield Problem("aio", "error", "this kernel has no asynchronous I/O (/proc/sys/fs/aio-max-nr is missing)", "uname -r")
        return

    def need(threads: int, depth: int) -> int:
        return reserved_events({"intra_op_parallelism": threads, "queue_depth": depth}, options.ranks, options.handles)

    least = need(1, 1)
    usual = need(_USUAL["intra_op_parallelism"], _USUAL["queue_depth"])
    most = need(*(int(SPACE[name].domain.values[-1]) for name in ("intra_op_parallelism", "queue_depth")))
    wanted = 1 << max(20, (events.used + most - 1).bit_length())
    mend = f"sudo sysctl -w fs.aio-max-nr={wanted}" + ("  # on the host, not in the container" if container() else "")
    state = f"{events.free} of {events.maximum} aio events are free on this host (fs.aio-max-nr)"
    job = f"{options.handles} handles x {options.ranks} ranks"
    if events.free < least:
        message = f"{state}, and the smallest setting of the job needs {least} (2 x {job})"
        yield Problem("aio-max-nr", "error", message, mend)
    elif events.free < usual:
        message = f"{state}; usual settings (8 threads, 32 deep) need {usual} for {job} and are left out"
        yield Problem("aio-max-nr", "warning", message, mend)
    elif events.free < most:
        yield Problem("aio-max-nr", "note", f"{state}; the deepest settings need {most} for {job} and are left out", mend)
