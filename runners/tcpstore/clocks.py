"""How far another host's clock is ahead of ours, from questions and answers, and how sure that is."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

# Quartz that nobody disciplines: 100 seconds in a million.
_DRIFT = 1e-4
_KEPT = 64


@dataclass(frozen=True, slots=True)
class _Answer:
    ahead: float
    half: float
    at: float


class Clock:
    """``hear`` takes what came of one question; the other clock was read at some moment between the question and the answer,
    so that half of the round trip bounds the error.
    """

    def __init__(self) -> None:
        self._answers: deque[_Answer] = deque(maxlen=_KEPT)

    def hear(self, asked: float, there: float, answered: float) -> None:
        """``asked`` and ``answered`` are seconds of our clock, ``there`` of the other one."""
        half = max(0.0, answered - asked) / 2
        self._answers.append(_Answer(there - (asked + half), half, answered))

    def ahead(self, now: float) -> float:
        """Seconds that the other clock is ahead of ours."""
        return self._best(now).ahead

    def unsure(self, now: float) -> float:
        """How many seconds ``ahead`` may be wrong by, at most."""
        best = self._best(now)
        return best.half + _DRIFT * max(0.0, now - best.at)

    def _best(self, now: float) -> _Answer:
        """The answer that says most now: a quick one, and not too old."""
        return min(self._answers, key=lambda each: each.half + _DRIFT * max(0.0, now - each.at))
