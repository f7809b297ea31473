"""The one folder that a tuning run writes to: its own, removed when it ends, or by the next start if it was killed."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from runners.mounts import read_mounts
from runners.runner import EnvironmentProblem

_PREFIX = ".clustertune-scratch-"
_NAME = re.compile(re.escape(_PREFIX) + r"[0-9a-f]{12}")
_MARKER = "clustertune.lock"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Lustre without -o flock, some FUSE and old NFS mounts.
_NO_LOCKS = frozenset((errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK))


class Scratch:
    """A fresh folder inside the user's, mode 0700. Its owner holds a lock on a file in it for as long as it lives.

    The lock is how the next start tells a folder in use from one whose owner was killed. ``close`` may be called twice.
    """

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock: int | None = lock
        self._owner = os.getpid()

    @classmethod
    def create(cls, parent: Path) -> Scratch:
        """Clears what killed runs left in ``parent`` and makes a new scratch folder. Raises EnvironmentProblem."""
        clear(parent)
        try:
            # Another start may take a folder for abandoned before its lock is held; then the next name is tried.
            for _ in range(16):
                made = _make(parent / f"{_PREFIX}{secrets.token_hex(6)}")
                if made is not None:
                    return made
        except OSError as error:
            raise EnvironmentProblem(
                f"no scratch folder can be made in {parent}: {error.strerror}", f"df -h {parent}; ls -ld {parent}"
            ) from None
        raise EnvironmentProblem(f"no scratch folder can be made in {parent}: others keep removing it")

    def close(self) -> None:
        """Removes the folder and gives up its lock; what can't be removed (device gone) is left to the next start."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            if os.getpid() == self._owner:  # a forked child must not take the folder away from its parent
                with suppress(OSError):
                    _remove(self.path.parent, self.path.name)
        finally:
            os.close(lock)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _make(path: Path) -> Scratch | None:
    path.mkdir(mode=0o700)
    try:
        lock = os.open(path / _MARKER, _FILE | os.O_CREAT | os.O_EXCL, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            os.close(lock)
            return None
    if os.fstat(lock).st_nlink == 0 or not path.is_dir():
        os.close(lock)
        return None
    return Scratch(path, lock)


def leftovers(parent: Path) -> list[Path]:
    """Scratch folders in ``parent`` that no living process holds."""
    return [parent / name for name in _ours(parent) if _abandoned(parent, name, remove=False)]


def clear(parent: Path) -> list[Path]:
    """Removes the leftovers in ``parent`` and tells which; nothing else in it is touched."""
    return [parent / name for name in _ours(parent) if _abandoned(parent, name, remove=True)]


def _ours(parent: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in parent.iterdir() if _NAME.fullmatch(entry.name))
    except OSError:
        return []


def _abandoned(parent: Path, name: str, *, remove: bool) -> bool:
    """Whether parent/name is a scratch folder of this user that nobody holds; if so, and asked for, it is gone after."""
    try:
        folder = os.open(parent / name, _FOLDER)
    except OSError:
        return False
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            return False
        try:
            marker = os.open(_MARKER, _FILE, dir_fd=folder)
        except FileNotFoundError:
            # Killed between making the folder and its marker, or between removing the two: an empty folder of our name.
            if os.listdir(folder):  # noqa: PTH208  an open folder has no path
                return False
            if remove:
                (parent / name).rmdir()
            return True
        try:
            status = os.fstat(marker)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                return False
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if remove:
                _remove(parent, name)
            return True
        finally:
            os.close(marker)
    except OSError:
        return False
    finally:
        os.close(folder)


def _remove(parent: Path, name: str) -> None:
    """Removes the folder parent/name, the marker last: whatever a kill leaves of it is still known as ours.

    Where somebody mounted something into it, it stays as it is: that isn't ours.
    """
    inside = f"{parent.resolve() / name}/"
    if any(mount.point.startswith(inside) for mount in read_mounts()):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), inside)
    folder = os.open(parent / name, _FOLDER)
    try:
        _empty(folder, keep=_MARKER)
        with suppress(FileNotFoundError):
            os.unlink(_MARKER, dir_fd=folder)
    finally:
        os.close(folder)
    (parent / name).rmdir()


def _empty(folder: int, keep: str = "") -> None:
    for name in os.listdir(folder):
        if name == keep:
            continue
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            _unlink(name, folder)
            continue
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            _empty(inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def _unlink(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        # Copy-on-write file systems need room to remove a file; cutting it to nothing first gives it to them.
        handle = os.open(name, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        os.close(handle)
        os.unlink(name, dir_fd=folder)
