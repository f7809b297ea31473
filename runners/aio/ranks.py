"""The ranks of one job: a worker process each, with work files of its own whose contents are known at any time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from runners.aio.content import next_generation
from runners.aio.plain import Expected
from runners.device import Device
from runners.limits import aio_events
from runners.runner import Failure, FailureKind
from runners.worker import Reply, Request, Worker, gather

# What ends a run weighs more than what ends one setting, and a death more than the silence of those that waited for it.
_WEIGHT: dict[FailureKind, int] = {"environment": 0, "crash": 1, "timeout": 2, "wrong": 3, "infeasible": 4}
_SLOWEST_FILL = 5e6  # bytes a second; below that something is broken, not slow


@dataclass(slots=True)
class Rank:
    """``generations`` numbers the writes of each file; ``unknown`` are files that a failed write may have left torn."""

    number: int
    device: Device
    folder: Path = Path()
    worker: Worker | None = None
    generations: dict[int, int] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)

    def expected(self, file: int, size: int) -> Expected:
        """The work file as it is now."""
        return Expected(str(self.folder / f"{file}.bin"), file, size, self.generations.get(file, 1), self.device.sector)

    def next(self, file: int, size: int) -> Expected:
        """The work file as the write that now begins should leave it; unknown until ``settled`` says that it did."""
        self.unknown.add(file)
        self.generations[file] = next_generation(self.generations.get(file, 0))
        return self.expected(file, size)

    def settled(self, files: Sequence[int]) -> None:
        self.unknown.difference_update(files)


class Ranks:
    """All ranks together; a worker that died or was killed is started anew by the next ``start``."""

    def __init__(self, ranks: Sequence[Rank], env: dict[str, str]) -> None:
        self.ranks = list(ranks)
        self._env = env
        self.versions: dict[str, str] = {}

    def start(self, engine: str, limit: float, one_first: bool = False) -> Failure | None:
        """Starts the workers that are missing and loads their engine, ``one_first`` where the first one has to build it."""
        missing = [rank for rank in self.ranks if rank.worker is None or not rank.worker.alive]
        for group in (missing[:1], missing[1:]) if one_first else (missing,):
            for rank in group:
                rank.worker = Worker("runners.aio.child", env=self._env)
            # What the workers may keep reserved between settings: together a quarter of what is free, others need it too.
            events = free.free // 4 // len(self.ranks) if (free := aio_events()) else 0
            replies = self.ask(group, partial(_load, engine, events), limit)
            if isinstance(replies, Failure):
                return replies
            for reply in replies:
                versions = reply["versions"]
                assert isinstance(versions, dict)
                self.versions = {name: str(value) for name, value in versions.items()}
        return None

    def ask(self, ranks: Sequence[Rank], request: Callable[[Rank], Request], limit: float) -> list[Reply] | Failure:
        """The replies of all, or the weightiest failure among them. Those over the limit are killed."""
        workers = [rank.worker for rank in ranks]
        alive = [worker for worker in workers if worker is not None]
        for rank, worker in zip(ranks, alive, strict=True):
            worker.send(request(rank))
        replies: list[Reply] = []
        failures: list[Failure] = []
        for answer in gather(alive, limit):
            if isinstance(answer, Failure):
                failures.append(answer)
            elif isinstance(failed := answer.get("failure"), dict):
                failures.append(Failure(_kind(failed["kind"]), str(failed["reason"])))
            else:
                replies.append(answer)
        return min(failures, key=lambda failure: _WEIGHT[failure.kind]) if failures else replies

    def fill(self, files: Sequence[tuple[int, int]]) -> tuple[int, Failure | None]:
        """Writes work files (number, size) of every rank that are missing or unknown. Bytes written, and what failed."""
        todo: dict[int, list[Expected]] = {}
        for rank in self.ranks:
            items = [rank.next(file, size) for file, size in files if file in rank.unknown or file not in rank.generations]
            if items:
                todo[rank.number] = items
        if not todo:
            return 0, None
        written = sum(item.size for items in todo.values() for item in items)
        busy = [rank for rank in self.ranks if rank.number in todo]
        replies = self.ask(
            busy,
            lambda rank: {"do": "fill", "files": [packed(item) for item in todo[rank.number]], "seed": rank.number},
            30.0 + written / _SLOWEST_FILL,
        )
        if isinstance(replies, Failure):
            return written, replies
        for rank in busy:
            rank.settled([item.file for item in todo[rank.number]])
        return written, None

    def release(self) -> None:
        """Lets go of the setting; a worker that can't is killed."""
        alive = [rank for rank in self.ranks if rank.worker is not None and rank.worker.alive]
        self.ask(alive, lambda _: {"do": "release"}, 10.0)

    def close(self) -> None:
        deadline = time.monotonic() + 5.0
        for rank in self.ranks:
            if rank.worker is not None:
                rank.worker.close(max(0.0, deadline - time.monotonic()))
                rank.worker = None


def _load(engine: str, events: int, _rank: Rank) -> Request:
    return {"do": "load", "engine": engine, "events": events}


def packed(expected: Expected) -> dict[str, Any]:
    """As it travels in a request."""
    return {name: getattr(expected, name) for name in ("path", "file", "size", "generation", "sector")}


def _kind(text: object) -> FailureKind:
    return next(kind for kind in _WEIGHT if kind == text)
