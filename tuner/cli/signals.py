"""Ctrl-C, SIGTERM and SIGHUP end a run once and in order; a second one does not break the tidying up."""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType

# Tidying up (workers, scratch, the record) takes about a second; a user who still waits after this may break it off.
_PATIENCE = 15.0
_AGAIN = 0.3
_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """A signal asked the run to end. Not KeyboardInterrupt itself: where Python sees that one it ends by the signal."""


class _Once:
    def __init__(self) -> None:
        self._first = 0.0

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if _tidying() and (number == signal.SIGALRM or now - self._first < _PATIENCE):
            return
        self._first = now
        # Python drops what is raised inside a destructor or a callback; so it is raised again until it is being handled.
        signal.setitimer(signal.ITIMER_REAL, _AGAIN, _AGAIN)
        raise Stopped


def _tidying() -> bool:
    """Whether what the signal interrupted is itself the handling of an earlier one."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, Stopped):
        error = error.__context__
    return error is not None


def install() -> None:
    """Takes the three signals over for this process."""
    once = _Once()
    signal.signal(signal.SIGALRM, once)
    for number in _NUMBERS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, once)


def finish() -> None:
    """From here on nothing is left to stop; a late signal must not change the exit code."""
    signal.signal(signal.SIGALRM, lambda _number, _frame: None)  # one that is under way must not set the timer anew
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)
