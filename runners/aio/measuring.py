"""Measuring one setting: batches of writes and reads, started together on all ranks, timed, and checked by content."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from runners.aio.engine import Setting
from runners.aio.plain import Expected
from runners.aio.plan import Job, Plan, Turns
from runners.aio.ranks import Rank, Ranks, packed
from runners.runner import Failure
from runners.worker import Reply, Request

Operations = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Timed:
    """One batch: bytes of all ranks, seconds from the first rank's start to the last one's end, and GB/s by folder."""

    bytes: int
    seconds: float
    devices: dict[str, float]

    @property
    def gbs(self) -> float:
        return self.bytes / self.seconds / 1e9


@dataclass(slots=True)
class Readings:
    """What one measurement found; ``fetched`` are bytes that checks read besides, in ``check_seconds``.

    ``verified`` are bytes moved whose every sector was checked.
    """

    reads: list[Timed] = field(default_factory=list)
    writes: list[Timed] = field(default_factory=list)
    written: int = 0
    fetched: int = 0
    verified: int = 0
    check_seconds: float = 0.0

    @property
    def io_seconds(self) -> float:
        return sum(timed.seconds for timed in (*self.reads, *self.writes))


class Measuring:
    """One setting on its way; ``readings`` counts what was done also when it fails half-way."""

    def __init__(self, ranks: Ranks, job: Job, plan: Plan, turns: Turns, limit: float) -> None:
        self._ranks, self._job, self._plan, self._turns = ranks, job, plan, turns
        self._limit = limit
        self._deadline = time.monotonic() + limit
        self.readings = Readings()

    def run(self, setting: Setting, *, thorough: bool) -> Failure | None:
        """Measures; ``thorough`` reads back more by the other path, as is due when a setting is seen for the first time."""
        request: Request = {"do": "configure", "setting": asdict(setting), "sizes": list(self._plan.slots)}
        replies = self._ask(lambda rank: {**request, "seed": 1000 * rank.number})
        if isinstance(replies, Failure):
            return replies
        plan = self._plan
        writes = self._turns.rounds(plan.write_rounds, plan.write)
        reads = self._turns.rounds(plan.read_rounds, plan.read)
        self._turns.advance(plan.write or plan.read, plan.write_rounds or plan.read_rounds)
        reread = {file for batch in reads for file, _ in batch}
        for number, batch in enumerate(writes):
            full = self._full(batch, reread, thorough, number == 0)
            failed = self._write(batch, full)
            if failed is not None:
                return failed
            whole = {number for number, (file, _) in enumerate(batch) if self._covered(file, reread)} | set(full)
            self.readings.verified += sum(batch[number][1] for number in whole) * len(self._ranks.ranks)
        for batch in reads:
            failed = self._read(batch)
            if failed is not None:
                return failed
        return None

    def _full(self, batch: Operations, reread: set[int], thorough: bool, first: bool) -> list[int]:
        """Which writes are read back whole by plain system calls; of the others some sectors are.

        Writes whose files the timed reads then deliver right are proven by those: only one of each tensor size of a setting
        new to us is read back all the same. Where nothing is read, all writes of a new setting are, and later one of each
        size a batch.
        """
        chosen = []
        sizes = set()
        for number, (file, size) in enumerate(batch):
            once = size not in sizes
            sizes.add(size)
            if self._covered(file, reread):
                if thorough and first and once:
                    chosen.append(number)
            elif thorough or once:
                chosen.append(number)
        return chosen

    def _covered(self, file: int, reread: set[int]) -> bool:
        return not self._job.fresh and file in reread

    def _write(self, batch: Operations, full: list[int]) -> Failure | None:
        items = {
            rank.number: [self._target(rank, place, *operation) for place, operation in enumerate(batch)]
            for rank in self._ranks.ranks
        }
        self.readings.written += sum(size for _, size in batch) * len(items)
        timed = self._batch("write", items, full)
        if isinstance(timed, Failure):
            return timed
        self.readings.writes.append(timed)
        if not self._job.fresh:
            for rank in self._ranks.ranks:
                rank.settled([file for file, _ in batch])
        return None

    def _target(self, rank: Rank, place: int, file: int, size: int) -> Expected:
        if not self._job.fresh:
            return rank.next(file, size)
        return Expected(str(rank.folder / f"fresh-{place}.bin"), place, size, 1, rank.device.sector)

    def _read(self, batch: Operations) -> Failure | None:
        items = {rank.number: [rank.expected(*operation) for operation in batch] for rank in self._ranks.ranks}
        timed = self._batch("read", items, [])
        if isinstance(timed, Failure):
            for rank in self._ranks.ranks:
                rank.unknown.update(file for file, _ in batch)
            return timed
        self.readings.reads.append(timed)
        self.readings.verified += timed.bytes
        return None

    def _batch(self, kind: str, items: dict[int, list[Expected]], full: list[int]) -> Timed | Failure:
        replies = self._ask(lambda rank: {"do": "ready", "kind": kind, "items": [packed(item) for item in items[rank.number]]})
        if isinstance(replies, Failure):
            return replies
        # Late enough that every worker has read it, and in the clock that all processes share.
        start = time.monotonic_ns() + 1_000_000 + 100_000 * len(items)
        replies = self._ask(lambda _: {"do": "go", "start": start})
        if isinstance(replies, Failure):
            return replies
        spans = [(_number(reply["begin"]), _number(reply["end"])) for reply in replies]
        timed = self._timed(spans, items)
        begun = time.monotonic()
        remove = self._job.fresh and kind == "write"
        replies = self._ask(lambda _: {"do": "check", "full": list(full), "remove": remove})
        self.readings.check_seconds += time.monotonic() - begun
        if isinstance(replies, Failure):
            return replies
        self.readings.fetched += sum(_number(reply["fetched"]) for reply in replies)
        return timed

    def _timed(self, spans: Sequence[tuple[int, int]], items: dict[int, list[Expected]]) -> Timed:
        begin = min(start for start, _ in spans)
        sizes = [sum(item.size for item in items[rank.number]) for rank in self._ranks.ranks]
        devices: dict[str, list[tuple[int, int]]] = {}
        for rank, size, (_, end) in zip(self._ranks.ranks, sizes, spans, strict=True):
            devices.setdefault(str(rank.device.folder), []).append((size, end))
        by_device = {
            folder: sum(size for size, _ in parts) / (max(end for _, end in parts) - begin)
            for folder, parts in devices.items()
        }
        return Timed(sum(sizes), (max(end for _, end in spans) - begin) / 1e9, by_device)

    def _ask(self, request: Callable[[Rank], Request]) -> list[Reply] | Failure:
        replies = self._ranks.ask(self._ranks.ranks, request, max(0.0, self._deadline - time.monotonic()))
        if isinstance(replies, Failure) and replies.kind == "timeout":
            return Failure("timeout", f"was not done within its limit of {self._limit:.1f} s", replies.log)
        return replies


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
