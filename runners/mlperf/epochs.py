"""Which epochs really read from the store: those after the first may come from memory, and then say nothing of storage."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# Less than this share of what an epoch has to read, and its figures are of memory.
_SHARE = 0.9
# Later epochs faster than the first by this factor, where the data would fit into memory.
_FASTER = 1.5
PREVENT = (
    "read past the cache (O_DIRECT), drop the caches of every client host before each epoch, "
    "or take a data set of five times their memory"
)


@dataclass(frozen=True, slots=True)
class Read:
    """``used`` are the epochs, from 1, whose figures are of the store; ``why`` says what is wrong with the others."""

    used: tuple[int, ...]
    why: str


def that_read(bytes_from_store: Sequence[int], expected: int | None = None) -> Read:
    """Which epochs read from the store, by the bytes that left it in each.

    ``expected`` are the bytes that an epoch must read; the most that any read, where that is not known.
    """
    need = expected if expected is not None else max(bytes_from_store, default=0)
    used = tuple(n for n, count in enumerate(bytes_from_store, 1) if need > 0 and count >= _SHARE * need)
    others = [n for n in range(1, len(bytes_from_store) + 1) if n not in used]
    if not others:
        return Read(used, "")
    shares = ", ".join(f"{100 * bytes_from_store[n - 1] / need:.1f} %" if need else "none" for n in others)
    came = f"came from memory: only {shares} of {_mib(need)} left the store"
    return Read(used, f"{_epochs(others)} {came}; {PREVENT}")


def from_memory_by_speed(samples_per_second: Sequence[float], *, caching: bool) -> str:
    """A sentence where later epochs are so much faster than the first that they read from memory; "" where not.

    Weaker than bytes: used where nobody counted these. ``caching``: the data set would fit into memory.
    """
    if not caching or len(samples_per_second) < 2 or samples_per_second[0] <= 0:
        return ""
    factor = statistics.median(samples_per_second[1:]) / samples_per_second[0]
    if factor < _FASTER:
        return ""
    later = list(range(2, len(samples_per_second) + 1))
    return f"{_epochs(later)} ran {factor:.1f} times as fast as the first, so probably from memory; {PREVENT}"


def _epochs(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"epoch {numbers[0]}"
    return f"epochs {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _mib(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB"
