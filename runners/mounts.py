"""Which file system a folder is on, read from the kernel's mount table."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["local", "network", "overlay", "memory", "fuse"]

_OCTAL = re.compile(rb"\\([0-7]{3})")
_NETWORK = frozenset(
    {
        *("nfs", "nfs3", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "coda", "9p", "virtiofs", "vboxsf"),
        *("lustre", "ceph", "gpfs", "beegfs", "glusterfs", "orangefs", "pvfs2", "wekafs", "panfs", "acfs", "davfs"),
    }
)
_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs", "rootfs"})
_OVERLAY = frozenset({"overlay", "overlayfs", "aufs", "unionfs", "fuse.fuse-overlayfs", "fuse.unionfs", "fuse.mergerfs"})


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo, unescaped; ``device_id`` is "major:minor", ``root`` the folder of the file system that shows."""

    device_id: str
    root: str
    point: str
    options: tuple[str, ...]
    fs_type: str
    source: str
    super_options: tuple[str, ...]

    @property
    def read_only(self) -> bool:
        return "ro" in self.options or "ro" in self.super_options

    @property
    def kind(self) -> Kind:
        if self.fs_type in _OVERLAY:
            return "overlay"
        if self.fs_type in _NETWORK:
            return "network"
        if self.fs_type in _MEMORY:
            return "memory"
        if self.fs_type in ("fuse", "fuseblk") or self.fs_type.startswith("fuse."):
            return "fuse"
        return "local"


def unescape(field: bytes) -> str:
    r"""A mountinfo field as the path it names: the kernel writes blank, tab, newline and backslash as \040 and the like."""
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field))


def parse_mounts(text: bytes) -> list[Mount]:
    """The mounts in ``text`` (the bytes of /proc/PID/mountinfo), in its order; lines that make no sense are left out."""
    found = []
    for line in text.split(b"\n"):
        left, dash, right = line.partition(b" - ")
        head, tail = left.split(b" "), right.split(b" ")
        # The source may be empty, as in `mount -t tmpfs "" /x`, which leaves two blanks in a row: never split on runs of them.
        if not dash or len(head) < 6 or len(tail) < 2:
            continue
        found.append(
            Mount(
                device_id=unescape(head[2]),
                root=unescape(head[3]),
                point=unescape(head[4]),
                options=tuple(unescape(head[5]).split(",")),
                fs_type=unescape(tail[0]),
                source=unescape(tail[1]),
                super_options=tuple(unescape(tail[2]).split(",")) if len(tail) > 2 else (),
            )
        )
    return found


def read_mounts(mountinfo: Path = Path("/proc/self/mountinfo")) -> list[Mount]:
    try:
        return parse_mounts(mountinfo.read_bytes())
    except OSError:
        return []


def mount_of(folder: Path, mounts: Iterable[Mount], device_id: str = "") -> Mount | None:
    """The mount that ``folder`` (absolute, without symbolic links) is on.

    ``device_id`` is what stat says of the folder. It tells a visible mount from one that a later mount hides; file systems
    with anonymous numbers of their own (btrfs subvolumes, overlay) match none, and there the longest mount point counts.
    """
    path = str(folder)
    over = [m for m in mounts if path == m.point or path.startswith(m.point.rstrip("/") + "/")]
    own = [m for m in over if m.device_id == device_id] or over
    best: Mount | None = None
    for mount in own:
        # Of two mounts on one point the later one is on top.
        if best is None or len(mount.point) >= len(best.point):
            best = mount
    return best


def mount_points(device_ids: Iterable[str], mounts: Iterable[Mount]) -> list[str]:
    """Mount points that show any of the devices, whole file systems before parts of them (bind mounts), shortest first."""
    wanted = set(device_ids)
    found = [m for m in mounts if m.device_id in wanted]
    return list(dict.fromkeys(m.point for m in sorted(found, key=lambda m: (m.root != "/", len(m.point)))))
