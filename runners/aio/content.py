"""What work files hold: random bytes with a tag at both ends of every sector that says which one it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

MAX_FILES = 1 << 16
_GENERATIONS = 1 << 16
_BASE = 8 << 20
_ODD = 0x9E3779B97F4A7C15


def next_generation(generation: int) -> int:
    """Counts up and skips 0, so that a cleared tag is never a right one."""
    return generation + 1 if generation + 1 < _GENERATIONS else 1


def tags(file: int, generation: int, first: int, count: int) -> Words:
    """The tags of ``count`` sectors from number ``first``: file, generation and sector number in one word."""
    if not (0 <= file < MAX_FILES and 0 < generation < _GENERATIONS and first + count <= 1 << 32):
        raise ValueError(f"no tag for file {file}, generation {generation}, sector {first + count}")
    base = (file << 48) | (generation << 32) | first
    return np.arange(base, base + count, dtype=np.uint64)


def fill_random(buffer: Bytes, seed: int) -> None:
    """Random bytes that neither compress nor repeat; the stream is made once and varied by chunk, which is far cheaper."""
    generator = np.random.Generator(np.random.SFC64(seed))
    size = min(_BASE, -(-buffer.size // 8) * 8)
    base = generator.integers(0, 2**64, size // 8, dtype=np.uint64)
    for number, start in enumerate(range(0, buffer.size, _BASE)):
        chunk = buffer[start : start + _BASE]
        varied = (base ^ np.uint64(_ODD * number % 2**64)) if number else base
        chunk[:] = varied.view(np.uint8)[: chunk.size]


class Sectors:
    """A stretch of a file in memory, seen as sectors of ``sector`` bytes; a shorter last one counts as a sector too.

    The first and the last word of a sector carry its tag, the last one inverted: a sector that arrives in part shows.
    """

    def __init__(self, buffer: Bytes, sector: int) -> None:
        whole = buffer.size // sector
        words = buffer[: whole * sector].view(np.uint64).reshape(whole, sector // 8)
        self._heads, self._tails = words[:, 0], words[:, -1]
        rest = buffer[whole * sector :]
        self._rest = rest[:8].view(np.uint64) if rest.size >= 8 else np.empty(0, np.uint64)
        self._whole = whole
        self.count = whole + self._rest.size

    def stamp(self, file: int, generation: int, first: int = 0) -> None:
        expected = tags(file, generation, first, self.count)
        self._heads[:] = expected[: self._whole]
        self._tails[:] = ~expected[: self._whole]
        self._rest[:] = expected[self._whole :]

    def clear(self) -> None:
        """Takes the tags away, so that only a read that really arrives brings them back."""
        self._heads[:] = 0
        self._tails[:] = 0
        self._rest[:] = 0

    def wrong(self, file: int, generation: int, first: int = 0) -> int:
        """How many sectors are not what they should be."""
        expected = tags(file, generation, first, self.count)
        heads = self._heads == expected[: self._whole]
        tails = self._tails == ~expected[: self._whole]
        right = np.count_nonzero(heads & tails) + np.count_nonzero(self._rest == expected[self._whole :])
        return self.count - int(right)
