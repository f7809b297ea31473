"""Counters read while a run goes on, so that any part of its time can be looked at afterwards."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from runners.mount.counters import processor_time, processors_busy

T = TypeVar("T")
_EVERY = 0.25
_SECTOR = 512


class Samples(Generic[T]):
    """What ``read`` gives, four times a second, in a thread of its own, inside of the with statement."""

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._taken: list[tuple[float, T]] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="counters", daemon=True)

    def __enter__(self) -> Samples[T]:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()

    def around(self, began: float, ended: float) -> tuple[T, T] | None:
        """The counters at two moments (time.time()), never less than what lies between; None where nothing was read."""
        if not self._taken:
            return None
        before = [value for when, value in self._taken if when <= began]
        after = [value for when, value in self._taken if when >= ended]
        return before[-1] if before else self._taken[0][1], after[0] if after else self._taken[-1][1]

    def _sample(self) -> None:
        while True:
            last = self._done.is_set()
            self._taken.append((time.time(), self._read()))
            if last:
                return
            self._done.wait(_EVERY)


def busy_between(samples: Samples[tuple[float, float]], began: float, ended: float) -> float | None:
    """Share of this machine's processor time that was not idle, from samples of ``processor_time``."""
    found = samples.around(began, ended)
    return None if found is None or not any(found[1]) else processors_busy(*found)


def from_device(folder: Path, sys: Path = Path("/sys")) -> Callable[[], int] | None:
    """Bytes read from the block device under ``folder`` by anyone, as a counter; None where there is no such device."""
    device = folder.stat().st_dev
    file = sys / "dev" / "block" / f"{os.major(device)}:{os.minor(device)}" / "stat"

    def read() -> int:
        try:
            return int(file.read_text().split()[2]) * _SECTOR
        except (OSError, ValueError, IndexError):
            return 0  # the device is gone, and with it what could be compared

    return read if read() else None


__all__ = ["Samples", "busy_between", "from_device", "processor_time"]
