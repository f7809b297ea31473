"""What a history says about each setting: one robust score a setting, its failures, and the noise between repeats."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from runners.runner import Failure, FailureKind, Objective
from spaces.space import Config, Key, Space
from tuner.trial import History, Trial, score

# Log sd that is assumed before repeats say otherwise, and how many repeats that assumption is worth.
NOISE = 0.05
_NOISE_WEIGHT = 2

# Median of |x - y| for two draws of a normal distribution with sd 1 is 0.954.
_MEDIAN_DIFFERENCE = 0.954

# Fewer baseline readings can't tell drift from noise, and the mean square of successive differences over twice the variance
# is below this in 1 of 20 series of that length without drift (von Neumann's ratio).
_DRIFT_READINGS = 6
_DRIFT_RATIO = 0.45


@dataclass(slots=True)
class Setting:
    """Everything measured of one setting; ``scores`` in the order of measurement, drift taken out."""

    config: Config
    key: Key
    scores: list[float] = field(default_factory=list)
    failures: Counter[FailureKind] = field(default_factory=Counter)

    @property
    def score(self) -> float:
        return median(self.scores)

    @property
    def works(self) -> bool:
        """Measured, and nothing has shown that it can't be relied on."""
        return bool(self.scores) and not self.failures["wrong"] and self.failures.total() < len(self.scores)

    @property
    def closed(self) -> bool:
        """Not to be proposed again: measured, or failed for good. A crash alone gets its second chance."""
        return bool(self.scores) or self.failures.total() > self.failures["crash"] or self.failures["crash"] > 1


def settings(space: Space, history: History, objective: Objective) -> list[Setting]:
    """The distinct settings of ``history`` in order of first sight; warm-ups and failures of the environment say nothing."""
    shift = drift(space, history, objective)
    found: dict[Key, Setting] = {}
    for index, trial in enumerate(history):
        if not _tells(trial):
            continue
        folded = space.canonical(trial.config)
        key = space.key(folded)
        setting = found.setdefault(key, Setting(folded, key))
        value = score(trial.outcome, objective)
        if value is not None:
            setting.scores.append(value - shift[index])
        else:
            setting.failures[trial.outcome.kind if isinstance(trial.outcome, Failure) else "wrong"] += 1
    return list(found.values())


def closed_keys(known: Sequence[Setting]) -> set[Key]:
    """Those of ``known`` that must not be proposed again."""
    return {setting.key for setting in known if setting.closed}


def _tells(trial: Trial) -> bool:
    if trial.phase == "warmup":
        return False
    return not (isinstance(trial.outcome, Failure) and trial.outcome.kind == "environment")


def pooled_noise(history: History, objective: Objective) -> float:
    """Log standard deviation of one measurement, from repeats of the same settings; robust against outliers.

    Few repeats are pulled towards a usual 5 %.
    """
    scores: dict[tuple[object, ...], list[float]] = {}
    for trial in history:
        value = score(trial.outcome, objective) if _tells(trial) else None
        if value is not None:
            scores.setdefault(tuple(sorted(trial.config.items())), []).append(value)
    seen, count = _repeated(list(scores.values()))
    return math.sqrt((_NOISE_WEIGHT * NOISE**2 + count * seen**2) / (_NOISE_WEIGHT + count))


def repeated_noise(settings: Sequence[Setting]) -> tuple[float, int]:
    """Log standard deviation of one measurement as repeats alone say, and their number; 5 % of none."""
    return _repeated([setting.scores for setting in settings])


def _repeated(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """From successive differences, which hardly feel slow drift, by their median, which hardly feels outliers."""
    differences = [abs(b - a) for scores in groups for a, b in itertools.pairwise(scores)]
    return (median(differences) / _MEDIAN_DIFFERENCE, len(differences)) if differences else (NOISE, 0)


def drift(space: Space, history: History, objective: Objective) -> list[float]:
    """How much the machine was off at each trial, in score, from the baseline's repeats; zeros unless that is clear."""
    baseline = {space.key(space.canonical(trial.config)) for trial in history if trial.phase == "baseline"}
    points: list[tuple[int, float]] = []
    if len(baseline) == 1:
        for index, trial in enumerate(history):
            if _tells(trial) and space.key(space.canonical(trial.config)) in baseline:
                value = score(trial.outcome, objective)
                if value is not None:
                    points.append((index, value))
    if len(points) < _DRIFT_READINGS or not _drifts([value for _, value in points]):
        return [0.0] * len(history)
    middle = median(value for _, value in points)
    smooth = [(points[i][0], median(value for _, value in points[max(0, i - 1) : i + 2]) - middle) for i in range(len(points))]
    return _interpolated(smooth, len(history))


def _drifts(values: Sequence[float]) -> bool:
    middle = median(values)
    spread = median(abs(value - middle) for value in values) * 4.5
    kept = [min(max(value, middle - spread), middle + spread) for value in values]
    mean = sum(kept) / len(kept)
    variance = sum((value - mean) ** 2 for value in kept) / (len(kept) - 1)
    if variance == 0:
        return False
    successive = sum((b - a) ** 2 for a, b in itertools.pairwise(kept)) / (2 * (len(kept) - 1))
    return successive / variance < _DRIFT_RATIO


def _interpolated(points: Sequence[tuple[int, float]], length: int) -> list[float]:
    found: list[float] = []
    right = 0
    for index in range(length):
        while right < len(points) and points[right][0] < index:
            right += 1
        if right == 0:
            found.append(points[0][1])
        elif right == len(points):
            found.append(points[-1][1])
        else:
            (x0, y0), (x1, y1) = points[right - 1], points[right]
            found.append(y0 + (y1 - y0) * (index - x0) / (x1 - x0))
    return found
