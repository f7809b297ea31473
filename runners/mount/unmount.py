"""Unmounting what may hang: lazily, without a look at what is mounted."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

from runners.mounts import read_mounts
from runners.process import run

_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_LIMIT = 10.0
_umount2 = ctypes.CDLL(None, use_errno=True).umount2


def fusermount() -> str | None:
    """The program that lets users unmount FUSE file systems of theirs, None where there is none."""
    return shutil.which("fusermount3") or shutil.which("fusermount")


def mounted(point: Path) -> bool:
    """Whether something is mounted on ``point`` (absolute), told without touching it."""
    return any(mount.point == str(point) for mount in read_mounts())


def detach(point: Path) -> bool:
    """Takes what is mounted on ``point`` out of the tree, whoever uses it; False where something stays mounted.

    Root asks the kernel itself: umount(8) looks at the folder first, and waits for ever where the mount hangs.
    """
    for _ in range(8):  # mounts may lie on top of each other
        if not mounted(point):
            return True
        if os.geteuid() == 0:
            if _umount2(os.fsencode(point), _MNT_DETACH | _UMOUNT_NOFOLLOW) != 0:
                return not mounted(point)
        elif (program := fusermount()) is None:
            return False
        else:
            run([program, "-u", "-z", str(point)], limit=_LIMIT)
    return not mounted(point)
