"""The kernel's side of a mount: how far it reads ahead. A mount of ours ends with the study, so nothing has to be put back."""

from __future__ import annotations

import os
from pathlib import Path

from runners.mounts import read_mounts
from runners.runner import Problem

# What the kernel gives every new FUSE mount, and more than that to none by itself (VM_READAHEAD_PAGES).
READ_AHEAD = 128 << 10
_BDI = Path("/sys/class/bdi")


def _file(point: Path) -> Path:
    found = [mount for mount in read_mounts() if mount.point == str(point)]
    if not found:
        raise OSError(f"nothing is mounted on {point}")
    return _BDI / found[-1].device_id / "read_ahead_kb"


def read_ahead(point: Path) -> int:
    """Bytes that the kernel reads ahead on the mount at ``point``. Raises OSError."""
    return int(_file(point).read_text()) << 10


def set_read_ahead(point: Path, size: int) -> None:
    """Sets it, and sees that it is so. Raises OSError."""
    _file(point).write_text(f"{size >> 10}\n")
    now = read_ahead(point)
    if now != size:
        raise OSError(f"the kernel reads {now >> 10} KiB ahead on {point} instead of {size >> 10}")


def may_set() -> bool:
    """Whether this process may change it."""
    return os.geteuid() == 0 and os.access(_BDI, os.R_OK)


def problems(*, system: bool) -> list[Problem]:
    """What --system, where it is asked for, lacks here."""
    if not system or may_set():
        return []
    return [Problem("system", "error", "--system needs root, to raise the kernel's read-ahead", "sudo, or without --system")]
