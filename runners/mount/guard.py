"""Time limits on what can hang in the kernel: a read on a dead mount can't be interrupted, only its mount can be ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Guard:
    """Calls ``kill`` once, from a thread of its own, when ``seconds`` have passed before the block was left."""

    def __init__(self, seconds: float, kill: Callable[[], None]) -> None:
        self._kill = kill
        self._timer = threading.Timer(max(0.0, seconds), self._expire)
        self._timer.daemon = True
        self.expired = False
        self.at = 0.0  # time.time() when it fired

    def _expire(self) -> None:
        self.expired, self.at = True, time.time()
        self._kill()

    def __enter__(self) -> Guard:
        self._timer.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()
