"""How busy this machine's processors are while something runs, so that any part of the time can be looked at after."""

from __future__ import annotations

import threading
import time

from runners.mount.counters import processor_time, processors_busy

_EVERY = 0.5


class Busy:
    """Samples in a thread of its own, twice a second, inside of the with statement."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, tuple[float, float]]] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="processor time", daemon=True)

    def __enter__(self) -> Busy:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()

    def between(self, began: float, ended: float) -> float | None:
        """Share of processor time that was not idle between two moments (time.time()); None where nothing was sampled."""
        inside = [ticks for when, ticks in self._samples if began - _EVERY <= when <= ended + _EVERY]
        if len(inside) < 2 or not any(inside[0]):
            return None
        return processors_busy(inside[0], inside[-1])

    def _sample(self) -> None:
        while True:
            self._samples.append((time.time(), processor_time()))
            if self._done.wait(_EVERY):
                self._samples.append((time.time(), processor_time()))
                return
