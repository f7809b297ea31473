"""Lists of CPUs and memory nodes as Linux, numactl and taskset write them: 0-3,8,10-14:2."""

from __future__ import annotations

import re
from collections.abc import Iterable

# More CPUs than any kernel is built for; a longer list is a mistake, and expanding it would take the memory.
MOST = 65536
_PART = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6})(?::([0-9]{1,6}))?)?", re.ASCII)


def parse_list(text: str) -> tuple[int, ...]:
    """The numbers, each once, in ascending order; () for blank text. Raises ValueError with why it is none."""
    if not text.strip():
        return ()
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{part.strip()!r} is neither a number nor a range like 0-3")
        low, high, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if low > high or step < 1:
            raise ValueError(f"{part.strip()!r} is no range; write the smaller number first")
        if high >= MOST:
            raise ValueError(f"{part.strip()!r} is out of range; the largest number is {MOST - 1}")
        found.update(range(low, high + 1, step))
    return tuple(sorted(found))


def format_list(numbers: Iterable[int]) -> str:
    """The shortest usual form: 0-3,8. Every second CPU (0,2,4) is written out, as Linux does."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
