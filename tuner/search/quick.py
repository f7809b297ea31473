"""Settings that need no new start are quick to measure: how much quicker, as seen, so that a search may prefer them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from runners.runner import Measurement
from spaces.space import Config, Key, Space
from tuner.trial import History

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Both kinds must have been seen so often before they are told apart, and one is never worth more than so many of the other:
# a search that stays where it is cheap would never leave.
_SEEN, _MOST = 2, 5.0


def worth_of(space: Space, history: History) -> Callable[[Sequence[Config]], NDArray[np.float64]] | None:
    """Weights of settings by the time that they take, 1 where a new start is needed; None where all are alike."""
    if not space.live:
        return None
    running: set[Key] = set()
    kept: Key | None = None  # the baseline's job stays
    quick: list[float] = []
    slow: list[float] = []
    for trial in history:
        start = space.start(space.canonical(trial.config))
        if isinstance(trial.outcome, Measurement):
            (quick if start in running else slow).append(trial.outcome.seconds)
        if trial.phase in ("warmup", "baseline"):
            kept = start
        running = {start} if kept is None else {start, kept}
    if len(quick) < _SEEN or len(slow) < _SEEN or min(quick) <= 0:
        return None
    factor = min(max(median(slow) / median(quick), 1.0), _MOST)

    def weights(configs: Sequence[Config]) -> NDArray[np.float64]:
        import numpy as np

        return np.array([factor if space.start(config) in running else 1.0 for config in configs])

    return weights
