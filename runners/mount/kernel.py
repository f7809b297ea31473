"""The kernel's side of a mount: how far it reads ahead, and how many requests of that it lets be under way at once.

A mount of ours ends with the study, so nothing has to be put back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.mounts import Mount, read_mounts
from runners.runner import Json, Problem
from spaces.background import CONNECTIONS, MOUNT_FUSECTL, congestion_threshold

# What the kernel gives every new FUSE mount, and more than that to none by itself (VM_READAHEAD_PAGES).
READ_AHEAD = 128 << 10
_BDI = Path("/sys/class/bdi")
_CONNECTIONS = Path(CONNECTIONS)


@dataclass(frozen=True, slots=True)
class Background:
    """Requests that may be under way in the background, and how many of them keep the kernel from more read-ahead."""

    most: int
    congested: int

    @classmethod
    def of(cls, most: int) -> Background:
        return cls(most, congestion_threshold(most))


def _mount(point: Path) -> Mount:
    found = [mount for mount in read_mounts() if mount.point == str(point)]
    if not found:
        raise OSError(f"nothing is mounted on {point}")
    return found[-1]


def _file(point: Path) -> Path:
    return _BDI / _mount(point).device_id / "read_ahead_kb"


def read_ahead(point: Path) -> int:
    """Bytes that the kernel reads ahead on the mount at ``point``. Raises OSError."""
    return int(_file(point).read_text()) << 10


def set_read_ahead(point: Path, size: int) -> None:
    """Sets it, and sees that it is so. Raises OSError."""
    _file(point).write_text(f"{size >> 10}\n")
    now = read_ahead(point)
    if now != size:
        raise OSError(f"the kernel reads {now >> 10} KiB ahead on {point} instead of {size >> 10}")


def fusectl() -> bool:
    """Whether the kernel shows its FUSE mounts, as it does where its control file system is mounted."""
    return any(mount.fs_type == "fusectl" and mount.point == str(_CONNECTIONS) for mount in read_mounts())


def _connection(point: Path) -> Path:
    """The kernel's folder of a FUSE mount, which is named after the minor number of its device. Raises OSError."""
    minor = _mount(point).device_id.partition(":")[2]
    if not fusectl():
        raise OSError(f"{_CONNECTIONS} is not mounted: {MOUNT_FUSECTL}")
    return _CONNECTIONS / minor


def background(point: Path) -> Background:
    """The limit of requests in the background on the FUSE mount at ``point``. Raises OSError."""
    folder = _connection(point)
    told = [(folder / name).read_text().strip() for name in ("max_background", "congestion_threshold")]
    if not all(text.isdecimal() for text in told):
        raise OSError(f"{folder} does not tell the limit of requests: {', '.join(map(repr, told))}")
    return Background(*map(int, told))


def set_background(point: Path, most: int) -> None:
    """Sets it, with the threshold that belongs to it, and sees that it is so. Raises OSError."""
    folder, wanted = _connection(point), Background.of(most)
    (folder / "max_background").write_text(f"{wanted.most}\n")
    (folder / "congestion_threshold").write_text(f"{wanted.congested}\n")
    now = background(point)
    if now != wanted:
        raise OSError(f"the kernel has max_background {_shown(now)} on {point} instead of {_shown(wanted)}")


def _shown(limit: Background | None) -> str:
    return f"{limit.most} with congestion_threshold {limit.congested}" if limit else "none"


def give(point: Path, ahead: int, most: int) -> None:
    """Sets what a setting asks for and the kernel doesn't give by itself: read-ahead, then requests. Raises OSError."""
    if ahead > READ_AHEAD:
        set_read_ahead(point, ahead)
    if most:
        set_background(point, most)


def given(point: Path, ahead: int, most: int) -> tuple[Mapping[str, Json], list[str]]:
    """What the mount at ``point`` has by now, and sentences for what is not as a setting asks for. Raises OSError.

    The limit of requests is None where it is left alone and this user may not see it.
    """
    read = read_ahead(point)
    try:
        requests = background(point)
    except OSError:
        if most:
            raise
        requests = None
    wrong = []
    if read != ahead:
        wrong.append(f"the kernel was to read {ahead} bytes ahead and reads {read}")
    if most and requests != Background.of(most):
        wrong.append(f"the kernel was to have max_background {_shown(Background.of(most))} and has {_shown(requests)}")
    return {"kernel_read_ahead": read, "kernel_max_background": requests.most if requests else None}, wrong


def may_set() -> bool:
    """Whether this process may change it."""
    return os.geteuid() == 0 and os.access(_BDI, os.R_OK)


def problems(*, system: bool) -> list[Problem]:
    """What --system, where it is asked for, lacks here."""
    if not system:
        return []
    if not may_set():
        return [
            Problem("system", "error", "--system needs root, to raise the kernel's read-ahead", "sudo, or without --system")
        ]
    if not fusectl():
        message = f"{_CONNECTIONS} is not mounted, so max_background is left alone"
        return [Problem("fusectl", "warning", message, MOUNT_FUSECTL)]
    return []
