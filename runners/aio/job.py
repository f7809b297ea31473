"""From what a user typed to what is moved: devices, tensor sizes, ranks and the volume of a measurement, all checked."""

from __future__ import annotations

from pathlib import Path

from runners.aio.doctor import tensor_sizes
from runners.aio.options import READ_SHARE, Options
from runners.aio.plan import Job, Volume, plan
from runners.device import Device, check_folder, inspect
from runners.limits import memlock
from runners.runner import UsageError
from spaces.aio import padded

MOST_RANKS = 64


def devices_of(options: Options) -> list[Device]:
    """The folders' devices, each folder once. Raises UsageError."""
    if not options.device:
        raise UsageError("device", "(none)", "name a folder on the device to tune")
    folders: dict[Path, None] = dict.fromkeys(check_folder(text) for text in options.device)
    return [inspect(folder) for folder in folders]


def job_of(options: Options, sector: int, devices: int) -> Job:
    """``sector`` in bytes, the largest of the devices'; ``devices`` is how many there are. Raises UsageError."""
    share = READ_SHARE[options.workload] if options.read_share is None else options.read_share
    if not 0 <= share <= 1:
        raise UsageError("read-share", options.read_share, "must be from 0 (writes alone) to 1 (reads alone)")
    if not 1 <= options.ranks <= MOST_RANKS:
        raise UsageError("ranks", options.ranks, f"must be from 1 to {MOST_RANKS}")
    if options.ranks < devices:
        raise UsageError("ranks", options.ranks, f"must be at least the number of devices, {devices}: each gets a rank")
    if options.handles < 1:
        raise UsageError("handles", options.handles, "must be at least 1")
    sizes = tensor_sizes(options)
    for size in sizes:
        if size % sector:
            works = padded(size, sector)
            raise UsageError(
                "tensor-size",
                options.tensor_size,
                f"{size} bytes are not a whole number of {sector}-byte sectors, the tail would never reach the disk; "
                f"{works} would be",
            )
    return Job(tuple(sorted(sizes, reverse=True)), options.ranks, share, options.workload == "checkpoint")


def volume_of(job: Job) -> Volume:
    """The usual volume, or the least where more could not be locked in memory."""
    usual = Volume()
    return usual if memlock().allows(sum(plan(job, usual).slots)) else Volume(0, 0)
