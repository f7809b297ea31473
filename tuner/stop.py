"""When more search can't pay, and why, in words."""

from __future__ import annotations

import random

from runners.runner import Objective
from spaces.space import Space
from tuner.known import pooled_noise, settings
from tuner.search import open_candidates
from tuner.surrogate import Encoding, Model
from tuner.trial import History

# Before so many settings the model knows too little to be believed when it says that nothing is left.
_LEAST_SETTINGS = 18

# The expected gain of the best next trial must stay below a tenth of the noise of one measurement, and below half a per cent
# where that is noisy, at each of these numbers of trials ago: one low reading is often luck.
_NOISE_SHARE, _MOST = 0.1, 0.005
_LOOKS = (0, 3, 6)


def worth(space: Space, history: History, objective: Objective) -> str | None:
    """The reason in a sentence why more search can't pay, or None while it may."""
    measured = settings(space, history, objective)
    # Pure, hence a generator of its own: it only matters for a space too large to list.
    if not any(True for _ in open_candidates(space, measured, {s.key for s in measured if s.closed}, random.Random(0))):
        return "every setting that may run was measured"
    if len(measured) < _LEAST_SETTINGS:
        return None
    noise = pooled_noise(history, objective)
    floor = min(_NOISE_SHARE * noise, _MOST)
    gains: list[float] = []
    for look in _LOOKS:
        gain = _expected_gain(space, history[: len(history) - look], objective)
        if gain is None or gain >= floor:
            return None
        gains.append(gain)
    return (
        f"the best of the next trials can be expected to gain {100 * gains[0]:.2g} %, far below the noise of one "
        f"measurement ({100 * noise:.2g} %)"
    )


def _expected_gain(space: Space, history: History, objective: Objective) -> float | None:
    """Expected gain in score of the most promising open setting; None when too little works to say."""
    known = settings(space, history, objective)
    working = [setting for setting in known if setting.works]
    closed = {setting.key for setting in known if setting.closed}
    candidates = list(open_candidates(space, known, closed, random.Random(0)))
    if len(working) < _LEAST_SETTINGS // 2 or not candidates:
        return None
    model = Model(Encoding(space), known, seed=0)
    best = float(model.belief([setting.config for setting in working]).mean.max())
    return float(model.belief(candidates).improvement(best).max())
