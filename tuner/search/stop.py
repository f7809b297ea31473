"""When more search can't pay, and why, in words."""

from __future__ import annotations

import random
from dataclasses import dataclass

from runners.runner import Measurement, Objective
from spaces.space import Config, Space
from tuner.search.encoding import Encoding
from tuner.search.known import closed_keys, pooled_noise, settings
from tuner.search.strategy import open_candidates
from tuner.search.surrogate import Model
from tuner.trial import History

# Before so many settings the model knows too little to be believed when it says that nothing is left.
_LEAST_SETTINGS = 24

# The expected gain of the best next trial must stay below a seventh of the noise of one measurement, and below half a per cent
# where that is noisy, at each of these numbers of trials ago: one low reading is often luck.
_NOISE_SHARE, _MOST = 0.15, 0.005
_LOOKS = (0, 4, 8)

# Where no setting was found that leads the baseline by more than this, a device is easy: the bar is lower there, since
# a gain that small is not worth a change.
_EASY_LEAD, _EASY_SHARE = 0.01, 0.3

# A bar between the two holds where so many settings in a row came no better than one before them: the next ones may, but at a
# gain that the race could hardly tell from none.
_IDLE, _IDLE_SHARE = 30, 0.2

# Noise may hide a gain that is worth having: however noisy a machine is, these bars are no higher than this.
_MOST_EASY, _MOST_IDLE = 0.015, 0.0075


# One reading may be luck, also one that says that there is nothing to gain.
_AGREE = 2


@dataclass(frozen=True, slots=True)
class _Outlook:
    """In score: what the best next trial can be expected to gain, and the lead of the best setting over the baseline.

    ``idle``: settings that were measured since the best one.
    """

    gain: float
    lead: float
    idle: int


def already_there(history: History, baseline: Config) -> str | None:
    """What the runner says of the baseline where no setting can be faster ("keep" in its evidence), if all readings agree."""
    readings = [t.outcome for t in history if t.config == baseline and t.phase == "baseline"]
    said = [outcome.evidence.get("keep") for outcome in readings if isinstance(outcome, Measurement)]
    if len(said) < _AGREE or not all(isinstance(each, str) and each for each in said):
        return None
    return str(said[-1])


def worth(space: Space, history: History, objective: Objective) -> str | None:
    """The reason in a sentence why more search can't pay, or None while it may. Pure."""
    measured = settings(space, history, objective)
    if next(open_candidates(space, measured, closed_keys(measured), random.Random(0)), None) is None:
        return "every setting that may run was measured"
    if len(measured) < _LEAST_SETTINGS:
        return None
    noise = pooled_noise(history, objective)
    floor = min(_NOISE_SHARE * noise, _MOST)
    easy_floor, idle_floor = min(_EASY_SHARE * noise, _MOST_EASY), min(_IDLE_SHARE * noise, _MOST_IDLE)
    small = easy = idle = True
    outlook = None
    for look in reversed(_LOOKS):
        # The latest last: it is the one to speak of.
        outlook = _outlook(space, history[: len(history) - look], objective)
        if outlook is None:
            return None
        small = small and outlook.gain < floor
        easy = easy and outlook.gain < easy_floor and outlook.lead < _EASY_LEAD
        idle = idle and outlook.gain < idle_floor and outlook.idle >= _IDLE - look
        if not (small or easy or idle):
            return None
    assert outlook is not None
    expected = f"the best next one can be expected to gain {100 * outlook.gain:.1g} %"
    if small:
        return f"{expected}, far below the noise of one measurement ({_percent(noise)})"
    if idle:
        return f"none of the last {outlook.idle} settings came better than the best before them, and {expected}"
    return f"none of {len(measured)} settings leads the baseline by {100 * _EASY_LEAD:.0f} %, and {expected}"


def _outlook(space: Space, history: History, objective: Objective) -> _Outlook | None:
    """None when too little works to say."""
    known = settings(space, history, objective)
    working = [setting for setting in known if setting.works]
    candidates = list(open_candidates(space, known, closed_keys(known), random.Random(0)))
    if len(working) < _LEAST_SETTINGS // 2 or not candidates:
        return None
    model = Model(Encoding(space), known, seed=0)
    means = model.belief([setting.config for setting in working]).mean
    best = float(means.max())
    baselines = {space.key(space.canonical(trial.config)) for trial in history if trial.phase == "baseline"}
    at = [float(mean) for mean, setting in zip(means, working, strict=True) if setting.key in baselines]
    return _Outlook(
        gain=float(model.belief(candidates).improvement(best).max()),
        lead=best - max(at) if at else float("inf"),
        idle=len(working) - 1 - int(means.argmax()),
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
