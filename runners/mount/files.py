"""The files of a mounted folder that will be read."""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runners.runner import EnvironmentProblem, UsageError

# Of folders that studies made for themselves, see runners.mount.generated.
PREFIX = "clustertune-data-"

# A store may hold millions of files; these are more than any load here opens.
MOST = 20_000
_SIGNS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class File:
    """A regular file with something in it; ``path`` is relative to the mounted folder, ``size`` in bytes."""

    path: str
    size: int


def find(folder: Path, data: str) -> list[File]:
    """Files below ``folder`` that ``data`` names (a file, folder or pattern, "" for all), in the order of their names.

    At most 20,000 of them are looked at. Raises UsageError where ``data`` names nothing and EnvironmentProblem where there is
    nothing to read.
    """
    pattern = bool(_SIGNS.intersection(data))
    start = "" if pattern else data
    if not pattern and data and not (folder / data).exists():
        raise UsageError("data", data, "is not there, inside the mount")
    found: list[File] = []
    for number, file in enumerate(_files(folder, start)):
        if number >= MOST:
            break
        if file.size > 0 and (not pattern or fnmatch.fnmatchcase(file.path, data)) and file.path.isprintable():
            found.append(file)
    if not found and data:
        raise UsageError("data", data, "names no file with something in it, inside the mount")
    if not found:
        raise EnvironmentProblem(
            "the mount holds no file with something in it", "put the job's data there first, or --generate SIZE"
        )
    return sorted(found, key=lambda file: file.path)


def _files(folder: Path, start: str) -> Iterator[File]:
    place = folder / start
    if place.is_file():
        yield File(start, place.stat().st_size)
        return
    with os.scandir(place) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        if entry.name.startswith((".", PREFIX)):
            continue  # hidden, JuiceFS' own .config and .stats, and sets that studies made for themselves
        status = entry.stat(follow_symlinks=False)
        path = f"{start}/{entry.name}" if start else entry.name
        if stat.S_ISREG(status.st_mode):
            yield File(path, status.st_size)
        elif stat.S_ISDIR(status.st_mode):
            yield from _files(folder, path)
