"""Many algorithms in one process: oneCCL reads its table once, so each algorithm gets a byte size of its own in it.

A message of 1,020 bytes moves like one of 1,024; by its size it selects another line of the table. The algorithm that oneCCL
chooses by itself is timed at the asked size, which no line names. Smaller sizes are taken, since what changes with size mostly
changes just above a power of two, in steps of a thousandth, which keep long messages aligned; of a few elements, larger ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

DEFAULT = "default"
_FEW = 64
_SHARE, _LONGEST = 1024, 4096
Layout = Mapping[tuple[int, str], int]


def layout(sizes: Sequence[int], algorithms: Mapping[int, Sequence[str]], element: int) -> Layout:
    """The bytes that each (size, algorithm) is timed with: the asked size for DEFAULT, the nearest free ones for the others.

    ``algorithms`` names for each size those besides DEFAULT. One element is the barrier's own and stays free.
    """
    taken = {element, *sizes}
    found: dict[tuple[int, str], int] = {(size, DEFAULT): size for size in sizes}
    for size in sizes:
        at, step = size, element if size <= _FEW * element else -_step(size, element)
        for algorithm in algorithms[size]:
            while at in taken:
                at += step
                if at <= 0:
                    at, step = size, element
            taken.add(at)
            found[size, algorithm] = at
    return found


def _step(size: int, element: int) -> int:
    """A power of two, at most a thousandth of ``size`` where that holds an element."""
    return max(element, min(_LONGEST, 1 << max(0, (size // _SHARE).bit_length() - 1)))


def table(entries: Layout, without: Iterable[tuple[int, str]] = ()) -> str:
    """The value of the collective's variable, one line for each size of each algorithm; "" where only DEFAULT is timed."""
    left_out = set(without)
    lines = sorted((at, algorithm) for (size, algorithm), at in entries.items() if (size, algorithm) not in left_out)
    return ";".join(f"{algorithm}:{at}-{at}" for at, algorithm in lines if algorithm != DEFAULT)
