"""A data set of ours in the user's store, for who has none there yet: made before a study, removed at its end.

It is one folder with the name of this host. In it is who made it, so that what a killed study left is known and removed by the
next one.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runners.launch.marks import parents
from runners.mount.backend import Backend
from runners.mount.guard import Guard
from runners.runner import EnvironmentProblem, Failure
from spaces.space import Config

_PREFIX = "clustertune-data-"
_OWNER = ".clustertune-owner"
_FILE = re.compile(r"\d{5,}\.bin", re.ASCII)
_PIECE = 1 << 20
_LEAST_FILES, _FILES_A_JOB = 16, 4
SMALLEST, LARGEST = 16 << 20, 1 << 42
# Seconds for a mount and what little is done on it; bytes a second that a store takes at the least.
_MOUNT, SLOWEST = 60.0, 1 << 20


def folder_name() -> str:
    """The folder's name, below what is mounted."""
    return _PREFIX + re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())


def sizes(size: int, jobs: int) -> list[int]:
    """Bytes of each file of a set of ``size`` bytes in all, for ``jobs`` readers: some for each of them."""
    count = max(_LEAST_FILES, _FILES_A_JOB * jobs)
    each = max(1, size // count)
    return [each] * (count - 1) + [size - each * (count - 1)]


def left_by_the_dead(mounted: Path) -> bool:
    """Whether a study of this host that no longer lives has left its set. Raises OSError."""
    try:
        pid, started = json.loads((mounted / folder_name() / _OWNER).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return False
    alive = parents().get(pid)
    return alive is None or alive[1] != started


def remove(mounted: Path) -> None:
    """Takes the set away, who made it last: whatever a kill leaves of it is still known as ours. Raises OSError.

    What somebody else put into the folder stays.
    """
    folder = mounted / folder_name()
    for file in folder.glob("*.bin"):
        if _FILE.fullmatch(file.name):
            file.unlink()
    with suppress(FileNotFoundError):
        (folder / _OWNER).unlink()
    # Object stores forget a folder with its last file.
    with suppress(FileNotFoundError):
        if not any(folder.iterdir()):
            folder.rmdir()


class DataSet:
    """``size`` bytes for ``jobs`` readers; 0 is none. ``ours`` from the first byte that is written until all are removed."""

    def __init__(self, size: int, jobs: int) -> None:
        self.size, self._jobs = size, jobs
        self.ours = False

    def make(self, backend: Backend, config: Config) -> None:
        """Writes it, through a mount of its own. Raises EnvironmentProblem; then the part that was written is ``ours``."""
        on_mount(backend, config, self._write, _MOUNT + self.size / SLOWEST)

    def unmake(self, backend: Backend, config: Config) -> None:
        """Raises EnvironmentProblem that names what is left."""
        if not self.ours:
            return
        try:
            on_mount(backend, config, remove, _MOUNT + self.size / SLOWEST)
        except EnvironmentProblem as problem:
            raise EnvironmentProblem(f"{folder_name()} is left in the store: {problem.message}", "remove it") from None
        self.ours = False

    def _write(self, mounted: Path) -> None:
        folder = mounted / folder_name()
        if folder.exists():
            if not left_by_the_dead(mounted):
                raise EnvironmentProblem(
                    f"{folder.name} is in the store already, and no killed study has left it",
                    "wait for the study that made it; if there is none, remove it",
                )
            remove(mounted)
        folder.mkdir(exist_ok=True)
        self.ours = True
        (folder / _OWNER).write_text(json.dumps([os.getpid(), parents()[os.getpid()][1]]))
        for number, size in enumerate(sizes(self.size, self._jobs)):
            with (folder / f"{number:05}.bin").open("wb") as file:
                for start in range(0, size, _PIECE):
                    file.write(os.urandom(min(_PIECE, size - start)))


def on_mount(backend: Backend, config: Config, act: Callable[[Path], None], limit: float) -> None:
    """``act`` on the folder of a mount that can be written to, within ``limit`` seconds. Raises EnvironmentProblem."""
    session = backend.mount(config, _MOUNT, writable=True)
    if isinstance(session, Failure):
        raise EnvironmentProblem(f"it can't be mounted to be written to: {session.reason}")
    try:
        with Guard(limit, session.kill) as guard:
            act(session.folder)
    except OSError as error:
        late = f" within {limit:.0f} s" if guard.expired else ""
        raise EnvironmentProblem(f"the mount can't be written to{late}: {error.strerror or error}") from None
    finally:
        session.close()


def clear(backend: Backend, config: Config) -> None:
    """Removes what a killed study of this host left. Raises EnvironmentProblem."""
    on_mount(backend, config, remove, _MOUNT)
