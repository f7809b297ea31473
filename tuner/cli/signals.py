"""Ctrl-C, SIGTERM and SIGHUP end a run once and in order; a second one does not break the tidying up."""

from __future__ import annotations

import signal
import time
from types import FrameType

# Tidying up (workers, scratch, the record) takes about a second; a user who still waits after this may break it off.
_PATIENCE = 15.0


class Stopped(KeyboardInterrupt):
    """A signal asked the run to end. Not KeyboardInterrupt itself: where Python sees that one it ends by the signal."""


class _Once:
    def __init__(self) -> None:
        self._first: float | None = None

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first is None or now - self._first > _PATIENCE:
            self._first = now
            raise Stopped


def install() -> None:
    """Takes the three signals over for this process."""
    once = _Once()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, once)
