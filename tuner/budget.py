"""What a run may spend: seconds, measurements and bytes; asked before every measurement with its predicted cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from spaces.units import format_duration, format_size


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, measurements and bytes written; None means no limit."""

    seconds: float | None
    trials: int | None
    bytes_written: int | None


class Budget:
    """Counts what is spent. ``clock`` is monotonic: a wall clock that jumps must not end or prolong a run.

    ``seconds_before``, ``trials`` and ``bytes_written`` are what earlier sessions of the same study spent.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
        seconds_before: float = 0.0,
        trials: int = 0,
        bytes_written: int = 0,
    ) -> None:
        self.limits, self.trials, self.bytes_written = limits, trials, bytes_written
        self._clock, self._start, self._before = clock, clock(), seconds_before

    @property
    def seconds(self) -> float:
        return self._before + self._clock() - self._start

    def spend(self, *, trials: int = 0, bytes_written: int = 0) -> None:
        self.trials += trials
        self.bytes_written += bytes_written

    def refuses(self, *, seconds: float, trials: int, bytes_written: int) -> str | None:
        """Why work of this predicted cost must not start, in words; None when it may."""
        limits = self.limits
        if limits.seconds is not None and self.seconds + seconds > limits.seconds:
            return f"the time is used up (--time {format_duration(limits.seconds)})"
        if limits.trials is not None and self.trials + trials > limits.trials:
            return f"the measurements are used up (--trials {limits.trials})"
        if limits.bytes_written is not None and self.bytes_written + bytes_written > limits.bytes_written:
            return f"the bytes are used up (--max-write {format_size(limits.bytes_written)})"
        return None
