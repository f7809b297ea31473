"""How much one measurement moves, over which work files and in which batches: arithmetic only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

# Rounds give the single readings whose spread is seen; more of them than this only cost time.
ROUNDS = 4
WORK_BYTES = 256 << 20
MOST_FILES = 256
# Of one size in a batch. Only sizes more than this apart get unequal bytes.
MOST_OPERATIONS = 1024


@dataclass(frozen=True, slots=True)
class Volume:
    """Bytes that a measurement reads and writes, over all ranks; at least one tensor of each size is moved regardless."""

    read: int = 256 << 20
    write: int = 64 << 20


@dataclass(frozen=True, slots=True)
class Job:
    """What the training job moves: tensor ``sizes`` in bytes, largest first; ``fresh`` writes go to new files."""

    sizes: tuple[int, ...]
    ranks: int
    read_share: float
    fresh: bool

    @property
    def reads(self) -> bool:
        return self.read_share > 0

    @property
    def writes(self) -> bool:
        return self.read_share < 1

    @property
    def work_files(self) -> bool:
        return self.reads or not self.fresh


@dataclass(frozen=True, slots=True)
class Plan:
    """One measurement: the sizes of each rank's operations in a batch, and how many batches, for each direction."""

    read: tuple[int, ...]
    write: tuple[int, ...]
    read_rounds: int
    write_rounds: int

    @property
    def slots(self) -> tuple[int, ...]:
        """Bytes of the buffer of each operation, enough for both directions."""
        return tuple(max(pair) for pair in zip_longest(self.read, self.write, fillvalue=0))

    @property
    def written(self) -> int:
        """Bytes that a rank writes in a measurement."""
        return self.write_rounds * sum(self.write)


def plan(job: Job, volume: Volume) -> Plan:
    """Equal bytes of each tensor size, in as many rounds (up to ROUNDS) as the volume allows: small batches, small buffers."""
    least = max(job.sizes) * len(job.sizes) * job.ranks
    reads = max(1, min(ROUNDS, volume.read // least)) if job.reads else 0
    writes = max(1, min(ROUNDS, volume.write // least)) if job.writes else 0
    return Plan(
        _batch(job, volume.read // reads) if reads else (),
        _batch(job, volume.write // writes) if writes else (),
        reads,
        writes,
    )


def _batch(job: Job, size: int) -> tuple[int, ...]:
    share = max(size // job.ranks // len(job.sizes), *job.sizes)
    return tuple(size for size in job.sizes for _ in range(min(MOST_OPERATIONS, max(1, share // size))))


def files_per_size(job: Job, room: Sequence[int]) -> dict[int, int]:
    """Work files of each tensor size and rank; ``room`` is what may be written for each rank, in bytes.

    About WORK_BYTES in all, at least two files so that a read is not always of what was just written, fewer where the room
    is short, and none at all (an empty dict) where not even one of each fits.
    """
    fits = min(room)
    target = max(WORK_BYTES // job.ranks // len(job.sizes), 2 * max(job.sizes))
    for share in (target, fits // len(job.sizes), min(job.sizes)):
        counts = {size: min(MOST_FILES, max(1, share // size)) for size in job.sizes}
        if sum(size * count for size, count in counts.items()) <= fits:
            return counts
    return {}


class Turns:
    """Which files come next: every file in turn, so that no measurement depends on one file's place on the device."""

    def __init__(self, counts: dict[int, int]) -> None:
        self._counts = counts
        self._first = {}
        number = 0
        for size, count in counts.items():
            self._first[size] = number
            number += count
        self._place = dict.fromkeys(counts, 0)

    def files(self) -> Iterator[tuple[int, int]]:
        """Number and size of every work file."""
        for size, count in self._counts.items():
            for number in range(count):
                yield self._first[size] + number, size

    def rounds(self, number: int, batch: Sequence[int]) -> list[list[tuple[int, int]]]:
        """(file, size) of each operation of ``number`` batches from here on; the place does not move."""
        place = dict(self._place)
        made = []
        for _ in range(number):
            operations = []
            for size in batch:
                operations.append((self._first[size] + place[size] % self._counts[size], size))
                place[size] += 1
            made.append(operations)
        return made

    def advance(self, batch: Sequence[int], number: int) -> None:
        for size in batch:
            self._place[size] = (self._place[size] + number) % self._counts[size]
