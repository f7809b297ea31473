"""What unmeasured settings are likely to score: settings as numbers, extra trees on the log score, and feasibility."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spaces.space import Config, Knob, Space, Value
from tuner.known import Setting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float32]
    Vector = NDArray[np.float64]

_TREES = 60
_FEASIBILITY_TREES = 24

# More settings than this hardly change a proposal and cost time in every one: the best and the latest are kept.
_MOST_SETTINGS = 200

# A score this many robust deviations under the median is pulled up to there: an outlier must not use up a tree's splits.
_FLOOR = 4.0


class Encoding:
    """Settings as rows of numbers: a column for an ordinal knob or a flag, one for each value of a choice."""

    def __init__(self, space: Space) -> None:
        self._knobs = [knob for knob in space.knobs if len(knob.domain.values) > 1]
        # A space holds few values and many settings.
        self._known: list[dict[Value, list[float]]] = [{} for _ in self._knobs]

    def rows(self, configs: Sequence[Config]) -> Rows:
        """An array of ``len(configs)`` rows; a value outside its knob's domain is placed where it would be."""
        import numpy as np

        flat: list[list[float]] = []
        for config in configs:
            row: list[float] = []
            for knob, known in zip(self._knobs, self._known, strict=True):
                value = config[knob.name]
                numbers = known.get(value)
                if numbers is None:
                    numbers = known[value] = _numbers(knob, value)
                row += numbers
            flat.append(row or [0.0])
        return np.array(flat, dtype=np.float32)


def _numbers(knob: Knob, value: Value) -> list[float]:
    values = knob.domain.values
    if knob.domain.kind == "choice":
        return [float(value == other) for other in values]
    if knob.domain.kind == "flag":
        return [float(value is True)]
    low, high, here = float(values[0]), float(values[-1]), float(value)
    if knob.domain.kind == "log2":
        low, high, here = (math.log2(max(1.0, number)) for number in (low, high, here))
    return [(here - low) / (high - low)]


@dataclass(frozen=True, slots=True)
class Belief:
    """For each asked row: mean and standard deviation of the score, and the probability that it can be measured at all."""

    mean: Vector
    deviation: Vector
    feasible: Vector

    def improvement(self, best: float) -> Vector:
        """Expected gain in score over ``best``, weighed with feasibility."""
        import numpy as np
        from scipy.special import ndtr

        deviation = np.maximum(self.deviation, 1e-9)
        z = (self.mean - best) / deviation
        density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        gain: Vector = deviation * (z * ndtr(z) + density) * self.feasible
        return gain


class Model:
    """Extra trees fitted to what is known; ask it with ``belief``."""

    def __init__(self, encoding: Encoding, settings: Sequence[Setting], seed: int) -> None:
        import numpy as np

        kept = _most_telling(settings)
        scored = [setting for setting in kept if setting.works]
        failed = [setting for setting in kept if not setting.works]
        self._encoding = encoding
        self._scores: list[Any] = []
        self._feasibility: list[Any] = []
        if scored:
            weights = np.array([min(len(setting.scores), 8) for setting in scored], dtype=np.float64)
            y = floored(np.array([setting.score for setting in scored], dtype=np.float64))
            self._scores = _forest(encoding.rows([s.config for s in scored]), y, weights, _TREES, seed)
        if failed:
            y = np.array([1.0] * len(scored) + [0.0] * len(failed))
            rows = encoding.rows([s.config for s in (*scored, *failed)])
            self._feasibility = _forest(rows, y, np.ones(len(y)), _FEASIBILITY_TREES, seed + 1)

    def belief(self, rows: Rows) -> Belief:
        import numpy as np

        ones = np.ones(len(rows))
        mean, deviation, feasible = 0 * ones, ones, ones
        if self._scores:
            votes = _votes(self._scores, rows)
            mean, deviation = votes.mean(axis=0), votes.std(axis=0)
        if self._feasibility:
            # One failure alone is weak evidence for what no tree can see from few points: never quite impossible.
            feasible = np.clip(_votes(self._feasibility, rows).mean(axis=0), 0.02, 1.0)
        return Belief(mean, deviation, feasible)


def floored(scores: Vector) -> Vector:
    """``scores`` with far outliers below pulled in."""
    import numpy as np

    middle = np.median(scores)
    deviation = 1.4826 * np.median(np.abs(scores - middle))
    return np.maximum(scores, middle - _FLOOR * deviation) if deviation > 0 else scores


def _most_telling(settings: Sequence[Setting]) -> Sequence[Setting]:
    if len(settings) <= _MOST_SETTINGS:
        return settings
    latest = list(settings[-_MOST_SETTINGS // 2 :])
    rest = sorted(settings[: -_MOST_SETTINGS // 2], key=lambda s: s.score if s.works else -math.inf, reverse=True)
    failed = [s for s in rest if not s.works][: _MOST_SETTINGS // 8]
    worked = [s for s in rest if s.works][: _MOST_SETTINGS // 2 - len(failed)]
    return [*worked, *failed, *latest]


def _forest(rows: Rows, y: Vector, weights: Vector, trees: int, seed: int) -> list[Any]:
    # Single trees instead of ExtraTreesRegressor: its joblib and validation layers take more time than the trees.
    import sklearn
    from sklearn.tree import ExtraTreeRegressor

    forest: list[Any] = []
    with sklearn.config_context(skip_parameter_validation=True, assume_finite=True):
        for number in range(trees):
            tree = ExtraTreeRegressor(random_state=(seed + 7919 * number) % 2**32, max_features=1.0)
            forest.append(tree.fit(rows, y, sample_weight=weights, check_input=False).tree_)
    return forest


def _votes(forest: Sequence[Any], rows: Rows) -> Vector:
    import numpy as np

    return np.array([tree.predict(rows).reshape(-1) for tree in forest])
