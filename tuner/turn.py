"""One process at a time runs a study: a second one would close what the first is measuring, and answer with half of it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from runners.lock import lock_folder
from tuner.errors import WrongUsage

# A holder that was told to end may still be tidying up.
_PATIENCE, _PAUSE = 3.0, 0.1
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def turn(storage: str, study: str) -> Iterator[None]:
    """The right to run ``study`` on this host. The kernel takes it back when the process dies, however it dies.

    Raises WrongUsage while another process of this user has it. Hosts that share a storage don't see each other's.
    """
    path = lock_file(storage, study)
    try:
        handle = _locked(path)
    except OSError:  # a host where nothing can be locked measures all the same
        yield
        return
    if handle is None:
        raise WrongUsage(f"study {study} is being run by another process", "wait for it, or end it with Ctrl-C")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()  # while it is ours: who waits for it sees that it is another file
        os.close(handle)


def lock_file(storage: str, study: str) -> Path:
    """Where this user's right to run ``study`` is kept: there only while somebody has it."""
    where = storage if "://" in storage else os.path.realpath(storage)
    named = hashlib.sha256(f"{os.geteuid()}\n{where}\n{study}".encode(errors="surrogateescape")).hexdigest()[:24]
    return lock_folder() / f"clustertune-study-{named}.lock"


def _locked(path: Path) -> int | None:
    """The open file, locked; None where another process keeps it."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        handle = os.open(path, _FLAGS, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same(handle, path):
                return handle
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(handle)
                return None
            time.sleep(_PAUSE)
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _same(handle: int, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), path.stat())
    return False
