"""The folder that a user wants tuned: is it usable, and what device and file system is below it."""

from __future__ import annotations

import errno
import mmap
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runners.blocks import SYSFS, Block, device_id_of, inspect_block, other_io, related_ids
from runners.mounts import Kind, mount_of, mount_points, read_mounts
from runners.runner import UsageError

__all__ = ["Device", "check_folder", "inspect", "other_io", "supports_o_direct"]

MOUNTINFO = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class Device:
    """A folder, its file system, and the block device below (None for network, memory and most overlay file systems).

    ``device_id`` is "major:minor" of the block device, or of the file system where there is none; sizes in bytes,
    ``free_bytes`` what this user may still write.
    """

    folder: Path
    mount_point: str
    source: str
    fs_type: str
    mount_options: tuple[str, ...]
    read_only: bool
    kind: Kind
    device_id: str
    free_bytes: int
    total_bytes: int
    block: Block | None

    @property
    def sector(self) -> int:
        """Logical sector: what O_DIRECT sizes and offsets must be multiples of."""
        return self.block.sector if self.block else 512

    @property
    def physical_sector(self) -> int:
        return self.block.physical_sector if self.block else self.sector

    @property
    def disk_ids(self) -> tuple[str, ...]:
        """The disks at the bottom, by device id; two folders that share one disturb each other."""
        return tuple(sorted(self.block.disks())) if self.block else (self.device_id,)

    @property
    def rotational(self) -> bool | None:
        return self.block.rotational if self.block else None

    @property
    def model(self) -> str:
        """The disk's model, or the members' models of a RAID set or mapping."""
        if self.block is None:
            return ""
        return self.block.model or ", ".join(sorted({d.model for d in self.block.disks().values() if d.model}))

    @property
    def transport(self) -> str:
        """nvme, nvme-tcp, sata, sas, virtio, usb, raid, mapper, loop, network, ...; "" when unknown."""
        return self.block.transport if self.block else ""

    @property
    def members(self) -> tuple[Block, ...]:
        return self.block.members if self.block else ()

    @property
    def numa_node(self) -> int | None:
        """The NUMA node that all disks hang on, or None."""
        nodes = {d.numa_node for d in self.block.disks().values()} if self.block else set()
        return nodes.pop() if len(nodes) == 1 else None

    @property
    def link(self) -> str:
        return self.block.link if self.block else ""

    @property
    def ceiling_gbs(self) -> float | None:
        """GB/s (10^9 bytes) that the links to the disks carry at most; None when unknown."""
        return self.block.ceiling_gbs if self.block else None

    @property
    def max_sectors_kb(self) -> int | None:
        return self.block.max_sectors_kb if self.block else None

    @property
    def scheduler(self) -> str:
        return self.block.scheduler if self.block else ""


def inspect(folder: Path, *, sysfs: Path = SYSFS, mountinfo: Path = MOUNTINFO) -> Device:
    """What ``folder`` (existing) is on. Raises OSError when the folder can't be looked at."""
    folder = folder.resolve(strict=True)
    number = folder.stat().st_dev
    space = os.statvfs(folder)
    device_id = f"{os.major(number)}:{os.minor(number)}"
    mount = mount_of(folder, read_mounts(mountinfo), device_id)
    if mount is not None:
        device_id = mount.device_id
        # btrfs and its like number themselves; the disk is the one that the mount names as its source.
        if device_id.startswith("0:") and mount.source.startswith("/") and mount.kind in ("local", "fuse"):
            device_id = device_id_of(mount.source, sysfs) or device_id
    block = inspect_block(device_id, sysfs)
    kind: Kind = mount.kind if mount else "local"
    if block is not None and block.transport == "memory":
        kind = "memory"
    return Device(
        folder=folder,
        mount_point=mount.point if mount else "",
        source=mount.source if mount else "",
        fs_type=mount.fs_type if mount else "",
        mount_options=tuple(dict.fromkeys((*mount.options, *mount.super_options))) if mount else (),
        read_only=bool(space.f_flag & os.ST_RDONLY),
        kind=kind,
        device_id=device_id,
        # Blocks that a file system keeps for root stay untouched, also by root.
        free_bytes=space.f_bavail * space.f_frsize,
        total_bytes=space.f_blocks * space.f_frsize,
        block=block,
    )


def check_folder(text: str, option: str = "device", *, sysfs: Path = SYSFS, mountinfo: Path = MOUNTINFO) -> Path:
    """The folder that ``text`` names, absolute and without symbolic links. Raises UsageError.

    Nothing is opened: looking at a raw device must not so much as wake it.
    """
    # A name with control characters in it is shown quoted, or it could write anything onto the terminal.
    shown = text if text.isprintable() and text.strip() else repr(text)

    def refuse(why: str) -> UsageError:
        return UsageError(option, shown, why)

    if not text.strip():
        raise refuse("is empty; give a folder on the device to tune")
    try:
        status = Path(text).stat()
    except FileNotFoundError:
        raise refuse("does not exist; give a folder on the device to tune") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise refuse(f"can't be used ({reason}); give a folder on the device to tune") from None
    if stat.S_ISBLK(status.st_mode):
        number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        points = mount_points(related_ids(number, sysfs), read_mounts(mountinfo))
        where = f"give a folder on it, such as {points[0]}" if points else "mount it and give a folder on it"
        raise refuse(f"is a raw block device, and writing to it would destroy what it holds; {where}")
    if not stat.S_ISDIR(status.st_mode):
        what = "a character device" if stat.S_ISCHR(status.st_mode) else "not a folder"
        raise refuse(f"is {what}; give a folder on the device to tune")
    try:
        folder = Path(text).resolve(strict=True)
        space = os.statvfs(folder)
    except OSError as error:
        # Its own folders may be closed to this user, so that only the working folder leads to it.
        raise refuse(f"can't be reached by its full path ({error.strerror}); give a folder that can") from None
    if space.f_flag & os.ST_RDONLY:
        raise refuse("is on a read-only mount; give a folder that can be written to")
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise refuse("is not writable for this user; give a folder that is")
    return folder


def supports_o_direct(folder: Path) -> str | None:
    """None when files in ``folder`` can be written and read past the page cache, else the reason why not.

    Tried with a real file, which has no name where the file system allows that and loses it at once where not.
    """
    flags = os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC
    try:
        try:
            handle = os.open(folder, flags | os.O_TMPFILE, 0o600)
        except OSError:
            name = folder / f".clustertune-probe-{secrets.token_hex(6)}"
            try:
                handle = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o600)
            finally:
                with suppress(OSError):  # some file systems create the file and only then refuse the flag
                    name.unlink()
    except OSError as error:
        if error.errno == errno.EINVAL:
            return "the file system refuses O_DIRECT"
        return f"no file can be opened with O_DIRECT ({error.strerror})"
    try:
        # A mapping is page-aligned, and 64 KiB are whole sectors on every device.
        with mmap.mmap(-1, 65536) as buffer:
            os.pwrite(handle, buffer, 0)
            if os.preadv(handle, [buffer], 0) != len(buffer):
                return "a file written with O_DIRECT reads back short"
    except OSError as error:
        # A full disk says nothing about O_DIRECT; the space check speaks of it.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return f"reading or writing with O_DIRECT fails ({error.strerror})"
    finally:
        os.close(handle)
    return None
