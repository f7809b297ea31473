"""Names of Alluxio's keys: which there are, and which one a misspelt key was meant to be."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

from spaces.alluxio import BY_NAME, Version

# What we have the whole list of, for open source versions; enterprise ones have more keys than are published.
_LISTED = ("alluxio.user.", "alluxio.fuse.")
_SLIPS = 2


@cache
def names() -> frozenset[str]:
    """Keys of open source Alluxio that bear on clients, from its PropertyKey.java, and all of spaces.alluxio."""
    found, prefix = set(BY_NAME), ""
    for line in Path(__file__).with_name("names.txt").read_text(encoding="ascii").split():
        if line.startswith("["):
            prefix = line.strip("[]")
        else:
            found.add(prefix + line)
    return frozenset(found)


@lru_cache(4096)
def nearest(key: str) -> str | None:
    """The key that ``key`` is a slip of: other case, a missing prefix, or one or two letters off; None where there is none.

    A missing or additional part of a name is no slip: it may be a key that we don't know.
    """
    if key in names():
        return None
    if (whole := f"alluxio.{key}") in names():
        return whole
    close = [(slips(key.lower(), name, _SLIPS), name) for name in names() if abs(len(name) - len(key)) <= _SLIPS]
    best = min((pair for pair in close if pair[0] <= _SLIPS), default=None)
    return best[1] if best else None


def unknown(key: str, version: Version | None) -> bool:
    """Whether that version surely has no key of this name."""
    return version is not None and version.line != "enterprise" and key.startswith(_LISTED) and key not in names()


def slips(one: str, other: str, most: int) -> int:
    """Letters to add, drop, change or swap with the next to turn one into the other, or more than ``most``."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        earlier, before, row = before, row, [place]
        for column, against in enumerate(other, 1):
            best = min(before[column] + 1, row[-1] + 1, before[column - 1] + (letter != against))
            swapped = place > 1 and column > 1 and letter == other[column - 2] and one[place - 2] == against
            row.append(min(best, earlier[column - 2] + 1) if swapped else best)
        if min(row) > most:
            return most + 1
    return row[-1]
