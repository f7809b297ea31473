"""What a folder's file system and disk mean for an aio measurement, and what would make it worthless."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from runners.blocks import Block
from runners.device import Device, inspect, other_io, supports_o_direct
from runners.lock import lock_device
from runners.runner import EnvironmentProblem, Problem
from runners.scratch import leftovers
from spaces.aio import padded
from spaces.units import format_size

# Room that a run leaves on the file system, whatever it takes itself.
HEADROOM = 64 << 20
# Below this other traffic disappears in the noise of the slowest NVMe drive.
_QUIET_MBS = 5.0
_NETWORKED = ("network", "iscsi", "fc")
_FABRICS = ("nvme-tcp", "nvme-rdma", "nvme-fc")


def least_space(sizes: tuple[int, ...], ranks: int) -> int:
    """Free bytes that a run needs at the least: a work file of each tensor size a rank, and the headroom."""
    return sum(sizes) * ranks + HEADROOM


def essential(device: Device, sizes: tuple[int, ...], ranks: int) -> list[Problem]:
    """What can spoil or forbid a measurement on ``device``; cheap to find. ``ranks`` is how many work on this device."""
    found = [*_meaning(device), *_sectors(device, sizes), *_space(device, sizes, ranks)]
    refused = supports_o_direct(device.folder)
    if refused:
        message = f"{device.folder}: {refused}, so nothing that DeepSpeed does can be measured here"
        found.insert(0, Problem("o-direct", "error", message, f"findmnt --target {_quoted(device.folder)}"))
    return found


def thorough(device: Device, seconds: float = 0.5) -> list[Problem]:
    """What is good to know besides: traffic, locks, leftovers, and what the disk is."""
    return [*_traffic(device, seconds), *_busy(device), *_leftovers(device.folder), *_hardware(device)]


def shared_disks(devices: list[Device]) -> Iterator[Problem]:
    for number, one in enumerate(devices):
        for other in devices[:number]:
            if set(one.disk_ids) & set(other.disk_ids):
                message = f"{other.folder} and {one.folder} are on the same disk, so they share what it can do"
                yield Problem("shared-disk", "warning", message, "give one folder a disk")


def _meaning(device: Device) -> Iterator[Problem]:
    """A warning that says what the number means where it is not that of a local disk."""
    name, folder = device.fs_type or "unknown", device.folder

    def warn(message: str, mend: str) -> Problem:
        return Problem("file-system", "warning", f"{folder}: {message}", mend)

    local = "give a folder on a local disk: findmnt --real"
    if device.kind == "network":
        yield warn(
            f"{name} is a network file system; the numbers are those of network and server together, change with what "
            "others do, and say nothing about this machine's disks",
            local,
        )
    elif device.kind == "overlay":
        yield warn(
            f"{name} is a container's layered file system; the numbers include its layers and hold for the disk with the "
            "container's own files, not for a volume",
            "give a mounted volume: docker run -v /mnt/nvme:/nvme ...",
        )
    elif device.kind == "memory":
        yield warn(f"{name} is memory; the numbers are those of the processor's memory and no disk is measured", local)
    elif device.kind == "fuse":
        yield warn(f"{name} is served by a user-space process; the numbers are that process's, not the disk's", local)
    elif device.transport in _NETWORKED or device.transport in _FABRICS:
        yield warn(
            f"{device.source} is a disk over the network ({device.transport}); the numbers include the network and change "
            "with what others do",
            local,
        )
    elif name == "zfs":
        yield warn(
            "zfs before 2.3 takes O_DIRECT and caches all the same; reads may come from memory", "zfs version; zfs get direct"
        )
    elif name == "btrfs" and not {"nodatacow", "nodatasum"} & set(device.mount_options):
        mend = "chattr +C on an empty folder, and give that folder"
        yield warn("btrfs checks and copies data on write; direct I/O may go through memory, and writes cost more", mend)
    if "data=journal" in device.mount_options:
        yield warn(
            "the mount journals data (data=journal), which turns direct I/O into cached I/O", "remount with data=ordered"
        )
    if device.transport == "loop":
        yield warn(
            "a loop device keeps its data in a file of another file system; the numbers include that one and its cache",
            "losetup --list --output NAME,BACK-FILE,DIO",
        )
    if device.rotational:
        yield warn(
            "the disk spins; DeepSpeed's offload is meant for SSDs and will wait for this one", "lsblk -o NAME,ROTA,MODEL"
        )


def _sectors(device: Device, sizes: tuple[int, ...]) -> Iterator[Problem]:
    sector = device.sector
    for size in sizes:
        if size % sector:
            works = padded(size, sector)
            message = (
                f"{device.folder}: a tensor of {size} bytes is not a whole number of {sector}-byte sectors; its tail would "
                f"never reach the disk, as that of {works} bytes would"
            )
            mend = ",".join(dict.fromkeys(format_size(padded(each, sector)) for each in sizes))
            yield Problem("sector", "error", message, f"tune aio --device {_quoted(device.folder)} --tensor-size {mend}")
    if sector > 1024:
        message = (
            f"{device.folder}: the disk has {sector}-byte sectors, and DeepSpeed pads tensors to 1024 bytes a thread only; "
            f"partitions that are no multiple of {sector} bytes x threads are corrupted without an error"
        )
        yield Problem(
            "sector-4k", "warning", message, f"keep partitions a multiple of {sector} bytes x threads, or use 1 thread"
        )


def _space(device: Device, sizes: tuple[int, ...], ranks: int) -> Iterator[Problem]:
    need, free, mend = least_space(sizes, ranks), device.free_bytes, f"df -h {_quoted(device.folder)}"
    if free < need:
        message = f"{device.folder}: {_mb(free)} are free and a run needs {_mb(need)} at the least"
        yield Problem("space", "error", message, mend)
    elif free < 4 * need or free < device.total_bytes // 50:
        message = f"{device.folder}: {_mb(free)} are free; SSDs that are nearly full write slower than they could"
        yield Problem("space", "warning", message, mend)


def _traffic(device: Device, seconds: float) -> Iterator[Problem]:
    rate = other_io(device.device_id, seconds)
    if rate > _QUIET_MBS:
        message = (
            f"{device.folder}: something else moves {rate:.0f} MB/s on this disk right now and will disturb the measurement"
        )
        yield Problem("other-io", "warning", message, "sudo iotop -o -b -n 3")


def _busy(device: Device) -> Iterator[Problem]:
    try:
        lock_device(device.device_id, "tune doctor aio").release()
    except EnvironmentProblem as problem:
        yield Problem("busy", "warning", f"{device.folder}: {problem.message}", problem.mend)


def _leftovers(folder: Path) -> Iterator[Problem]:
    for path in leftovers(folder):
        yield Problem("leftover", "note", f"{path} was left by a run that was killed; the next run removes it")


def _hardware(device: Device) -> Iterator[Problem]:
    where = f"{device.folder} is on {device.fs_type or 'an unknown file system'} at {device.mount_point} ({device.source})"
    if device.block is None:
        yield Problem("hardware", "note", f"{where}; no block device of this machine is below it")
        return
    yield Problem("hardware", "note", f"{where}: {'; '.join(_described(device.block))}")
    for disk in device.block.disks().values():
        if disk.transport == "nvme" and disk.scheduler not in ("none", ""):
            message = f"{disk.name} uses the I/O scheduler {disk.scheduler}; NVMe drives are fastest with none"
            mend = f"echo none | sudo tee /sys/block/{disk.name}/queue/scheduler"
            yield Problem("scheduler", "note", message, mend)
    if device.numa_node is not None and len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) > 1:
        message = (
            f"{device.folder}: the disk hangs on NUMA node {device.numa_node}; ranks on other nodes pay for the way there"
        )
        mend = f"numactl --cpunodebind={device.numa_node} --membind={device.numa_node} tune aio ..."
        yield Problem("numa", "note", message, mend)


def _described(block: Block, depth: int = 0) -> Iterator[str]:
    """One sentence part a device, the members after their set."""
    parts = [block.model, block.level, block.transport, block.link]
    if block.ceiling_gbs is not None:
        parts.append(f"at most {block.ceiling_gbs:g} GB/s")
    if block.numa_node is not None:
        parts.append(f"NUMA node {block.numa_node}")
    if block.backing:
        parts.append(f"kept in {block.backing}")
    if depth == 0:
        parts.append(f"sectors {block.sector}/{block.physical_sector} bytes")
        parts += [f"scheduler {block.scheduler}"] if block.scheduler else []
        parts += [f"requests up to {block.max_sectors_kb}K"] if block.max_sectors_kb else []
    yield f"{block.name} ({', '.join(part for part in parts if part)})"
    for member in block.members:
        for line in _described(member, depth + 1):
            yield f"of it {line}"


def _mb(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 10**9 else f"{size / 1e6:.0f} MB"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def inspected(folder: Path) -> Device | Problem:
    """The device, or the problem that the folder can't even be looked at (it went away a moment ago)."""
    try:
        return inspect(folder)
    except OSError as error:
        return Problem("device", "error", f"{folder} can't be inspected: {error.strerror}", f"ls -ld {_quoted(folder)}")
