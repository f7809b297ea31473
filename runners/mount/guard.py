"""Time limits on what can hang in the kernel: a read on a dead mount can't be interrupted, only its mount can be ended."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Guard:
    """Calls ``kill`` once, from a thread of its own, when ``seconds`` have passed before the block was left."""

    def __init__(self, seconds: float, kill: Callable[[], None]) -> None:
        self._kill = kill
        self._timer = threading.Timer(max(0.0, seconds), self._expire)
        self._timer.daemon = True
        self.expired = False

    def _expire(self) -> None:
        self.expired = True
        self._kill()

    def __enter__(self) -> Guard:
        self._timer.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()
