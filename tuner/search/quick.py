"""Settings that need no new start are quick to measure: how much quicker, as seen, so that a search may prefer them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from runners.runner import Measurement
from spaces.space import Config, Key, Space
from tuner.trial import History, Trial

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Both kinds must have been seen so often before they are told apart, and one is never worth more than so many of the other:
# a search that stays where it is cheap would never leave.
_SEEN, _MOST = 2, 5.0

Jobs = OrderedDict[Key, bool]


def worth_of(space: Space, history: History) -> Callable[[Sequence[Config]], NDArray[np.float64]] | None:
    """Weights of settings by the time that they take, 1 where a new start is needed; None where all are alike."""
    if not space.live:
        return None
    quick, slow, jobs = _told_apart(space, history)
    if len(quick) < _SEEN or len(slow) < _SEEN or min(quick) <= 0:
        return None
    factor = min(max(median(slow) / median(quick), 1.0), _MOST)

    def weights(configs: Sequence[Config]) -> NDArray[np.float64]:
        import numpy as np

        return np.array([factor if space.start(config) in jobs else 1.0 for config in configs])

    return weights


def repeated_seconds(space: Space, history: History) -> float | None:
    """What measuring took where the job was there already, the median; None where jobs don't stay or none was seen."""
    if not space.live:
        return None
    quick, _slow, _jobs = _told_apart(space, history)
    return median(quick) if quick else None


def _told_apart(space: Space, history: History) -> tuple[list[float], list[float], Jobs]:
    """Seconds of the measurements whose job was there, of those that started one, and the jobs that are there now."""
    quick: list[float] = []
    slow: list[float] = []
    jobs: Jobs = OrderedDict()
    for trial in history:
        stayed = _used(space, jobs, trial)
        if isinstance(trial.outcome, Measurement):
            (quick if stayed else slow).append(trial.outcome.seconds)
    return quick, slow, jobs


def _used(space: Space, jobs: Jobs, trial: Trial) -> bool:
    """Whether the job of ``trial`` was among ``jobs``, the last used ones; it is then the last."""
    start = space.start(space.canonical(trial.config))
    there = jobs.pop(start, False)
    if isinstance(trial.outcome, Measurement):
        jobs[start] = True
    while len(jobs) > space.warm:
        jobs.popitem(last=False)
    return there
