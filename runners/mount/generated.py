"""A data set of ours in the user's store, for who has none there yet: made before a study, removed at its end.

It is one folder with a name that nobody can have guessed. In it is who made it: what a killed study left is removed by the
next one of the same system, and by nobody else.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runners.launch.marks import parents
from runners.mount.backend import Backend
from runners.mount.files import MOST, PREFIX
from runners.mount.guard import Guard
from runners.runner import EnvironmentProblem, Failure
from spaces.space import Config

_NAME = re.compile(PREFIX + r"[0-9a-f]{16}")
_OWNER = ".clustertune-owner"
_FILE = re.compile(r"\d{5,}\.bin", re.ASCII)
_PIECE = 1 << 20
_LEAST_FILES, _FILES_A_JOB = 16, 4
SMALLEST, LARGEST = 16 << 20, 1 << 42
# Seconds for a mount and what little is done on it; bytes a second that a store takes at the least.
_MOUNT, SLOWEST = 60.0, 1 << 20
# A folder without an owner is one whose maker was killed in its first or last moment, once it is older than this.
_MOMENT = 60.0


def sizes(size: int, jobs: int) -> list[int]:
    """Bytes of each file of a set of ``size`` bytes in all, for ``jobs`` readers: some for each of them."""
    count = max(_LEAST_FILES, _FILES_A_JOB * jobs)
    each = max(1, size // count)
    return [each] * (count - 1) + [size - each * (count - 1)]


def left_by_the_dead(mounted: Path) -> list[str]:
    """Sets in a mounted folder that a process of this very system made, which no longer lives. Raises OSError."""
    with os.scandir(mounted) as entries:
        looked_at = itertools.islice(entries, MOST)
        names = sorted(each.name for each in looked_at if _NAME.fullmatch(each.name) and each.is_dir(follow_symlinks=False))
    return [name for name in names if _dead(mounted / name)]


def _dead(folder: Path) -> bool:
    try:
        told = json.loads((folder / _OWNER).read_text())
    except FileNotFoundError:
        return not any(folder.iterdir()) and time.time() - folder.stat().st_mtime > _MOMENT
    except ValueError:
        return False
    if not isinstance(told, dict) or told.get("system") != _system():
        return False
    process = told.get("process")
    if not isinstance(process, list) or not all(isinstance(each, int) for each in process) or len(process) != 2:
        return False
    alive = parents().get(process[0])
    return alive is None or alive[1] != process[1]


def _system() -> str:
    """This boot of this machine, and where its processes have the numbers that they have: a container has its own."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  no path: a name of the kernel's


def remove(folder: Path) -> None:
    """Takes a set away, who made it last: whatever a kill leaves of it is still known as ours. Raises OSError.

    What somebody else put into the folder stays.
    """
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
    """``size`` bytes for ``jobs`` readers; 0 is none. ``name`` is the folder's, from its first byte until all are removed."""

    def __init__(self, size: int, jobs: int) -> None:
        self.size, self._jobs = size, jobs
        self.name = ""

    def make(self, backend: Backend, config: Config) -> None:
        """Writes it, through a mount of its own. Raises EnvironmentProblem; then the part that was written has a ``name``."""
        on_mount(backend, config, self._write, _MOUNT + self.size / SLOWEST)

    def unmake(self, backend: Backend, config: Config) -> None:
        """Raises EnvironmentProblem that names what is left."""
        if not self.name:
            return
        try:
            discard(backend, config, [self.name], _MOUNT + self.size / SLOWEST)
        except EnvironmentProblem as problem:
            raise EnvironmentProblem(f"{self.name} is left in the store: {problem.message}", "remove it") from None
        self.name = ""

    def _write(self, mounted: Path) -> None:
        name = f"{PREFIX}{secrets.token_hex(8)}"
        folder = mounted / name
        folder.mkdir()
        self.name = name
        owner = {"system": _system(), "process": [os.getpid(), parents()[os.getpid()][1]]}
        with (folder / _OWNER).open("x") as file:
            json.dump(owner, file)
        for number, size in enumerate(sizes(self.size, self._jobs)):
            with (folder / f"{number:05}.bin").open("xb") as data:
                for start in range(0, size, _PIECE):
                    data.write(os.urandom(min(_PIECE, size - start)))


def discard(backend: Backend, config: Config, names: list[str], limit: float = _MOUNT) -> None:
    """Removes sets of ours. Raises EnvironmentProblem."""

    def act(mounted: Path) -> None:
        for name in names:
            if not backend.discard(mounted / name):
                remove(mounted / name)

    on_mount(backend, config, act, limit)


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
        raise EnvironmentProblem(
            f"the mount can't be written to{late}: {error.strerror or error}",
            "see that the store may be written to and has room",
        ) from None
    finally:
        session.close()
