"""Reads a mount's counters while something reads from it, so that each epoch can be told what left the store in it."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from runners.mount.backend import Session
from runners.mount.work import Epoch

_EVERY = 0.2


@dataclass(frozen=True, slots=True)
class Counters:
    """What a mount has counted by ``at`` (time.time()); ``answered`` is None where the mount doesn't know."""

    at: float
    served: int
    answered: int | None


class Meter:
    """Readings of a session's counters from its start to its end, five a second. Reading fails quietly once the mount is gone.

    ``stop`` takes the last reading; what is read ahead when an epoch ends may count for the next.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.readings: list[Counters] = []
        self._done = threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def take(self) -> bool:
        """Takes a reading now; False where the mount is gone."""
        with self._turn:
            try:
                self.readings.append(Counters(time.time(), self._session.served(), self._session.answered()))
            except (OSError, ValueError):
                return False
            return True

    def _follow(self) -> None:
        while not self._done.wait(_EVERY) and self.take():
            pass

    def __enter__(self) -> Meter:
        self.take()
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ends the thread and takes the last reading. The mount may hang here until it is killed."""
        self._done.set()
        self._thread.join()
        self.take()

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        with suppress(RuntimeError):  # never started
            self._thread.join(1.0)


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes in an epoch: that left the store, and that the mount program handed to the kernel (None: not known)."""

    served: int
    answered: int | None


def by_epoch(readings: Sequence[Counters], epochs: Sequence[Epoch]) -> list[Moved]:
    """What was moved in each epoch. The first begins with the first reading, the last ends with the last one, and what lies
    between two belongs to the later: programs start and end around what they time.
    """
    if not readings or not epochs:
        return [Moved(0, None) for _ in epochs]
    edges = [readings[0].at, *(before.ended for before in epochs[:-1]), readings[-1].at]
    moved = []
    for number in range(len(epochs)):
        first, last = _at(readings, edges[number]), _at(readings, edges[number + 1])
        answered = None if first[1] is None or last[1] is None else max(0, round(last[1] - first[1]))
        moved.append(Moved(max(0, round(last[0] - first[0])), answered))
    return moved


def moving(readings: Sequence[Counters], until: float, seconds: float = 2.0) -> bool:
    """Whether bytes still left the store in the last ``seconds`` before ``until`` (time.time()): slow is not dead."""
    before = [reading for reading in readings if reading.at <= until - seconds]
    after = [reading for reading in readings if reading.at > until - seconds]
    return bool(before and after) and after[-1].served > before[-1].served


def moved_at_all(readings: Sequence[Counters]) -> bool:
    """Whether any byte left the store between the first and the last reading."""
    return bool(readings) and readings[-1].served > readings[0].served


def _at(readings: Sequence[Counters], moment: float) -> tuple[float, float | None]:
    """The counters at a moment, on the line between the readings around it."""
    place = bisect_left([reading.at for reading in readings], moment)
    if place == 0:
        return readings[0].served, readings[0].answered
    if place == len(readings):
        return readings[-1].served, readings[-1].answered
    before, after = readings[place - 1], readings[place]
    part = (moment - before.at) / (after.at - before.at)
    served = before.served + part * (after.served - before.served)
    if before.answered is None or after.answered is None:
        return served, None
    return served, before.answered + part * (after.answered - before.answered)
