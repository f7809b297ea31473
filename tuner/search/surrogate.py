"""What unmeasured settings are likely to score: settings as numbers, a Gaussian process on the log score, and feasibility."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from spaces.space import Config, Knob, Space, Value
from tuner.search.known import Setting, repeated_noise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tuner.search.gaussian import GaussianProcess

    Rows = NDArray[np.float64]
    Vector = NDArray[np.float64]

_FEASIBILITY_TREES = 24
_UNLIKELY = 0.1

# More settings than _MOST_SETTINGS hardly change a proposal and cost time in every one: the best and the latest are kept, in
# that order as soon as there are more than a few.
_MOST_SETTINGS, _FEW = 160, 60

# A score this many robust deviations under the median is pulled up to there: one outlier must not bend the whole model.
_FLOOR = 2.5

# Where compressed scores begin to be squeezed, in score below the best.
_KNEE = 0.5


class Encoding:
    """Settings as rows of numbers: a column for an ordinal knob or a flag, one for each value of a choice."""

    def __init__(self, space: Space) -> None:
        self._knobs = [knob for knob in space.knobs if len(knob.domain.values) > 1]
        # A space holds few values and many settings.
        self._known: list[dict[Value, list[float]]] = [{} for _ in self._knobs]
        self.columns: list[slice] = []
        for knob in self._knobs:
            first = self.columns[-1].stop if self.columns else 0
            self.columns.append(slice(first, first + len(_numbers(knob, knob.domain.values[0]))))
        self.columns = self.columns or [slice(0, 1)]

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
        return np.array(flat, dtype=np.float64)


def _numbers(knob: Knob, value: Value) -> list[float]:
    values = knob.domain.values
    if knob.domain.kind == "choice":
        # Two different values are at distance one, like the ends of an ordinal knob.
        return [math.sqrt(0.5) * (value == other) for other in values]
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
        """Expected gain in score over ``best``, weighed with feasibility; none of what most likely can't run.

        Without that last part the search would end up there when all else is known: the unknown keeps its wide deviation.
        """
        import numpy as np
        from scipy.special import ndtr

        deviation = np.maximum(self.deviation, 1e-9)
        z = (self.mean - best) / deviation
        density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        gain: Vector = deviation * (z * ndtr(z) + density) * self.feasible
        gain[self.feasible < _UNLIKELY] = 0.0
        return gain


@dataclass(frozen=True, slots=True)
class View:
    """How to look at the scores. ``compress`` sees little but the good ones; a short ``length`` (in ranges of a knob) believes
    in neighbours only and so in surprises further off."""

    compress: bool = False
    length: float = 1.5


PLAIN = View()


class Model:
    """What ``settings`` teach; ask it with ``belief``."""

    def __init__(self, encoding: Encoding, settings: Sequence[Setting], seed: int, view: View = PLAIN) -> None:
        kept = _most_telling(settings)
        scored = [setting for setting in kept if setting.works]
        failed = [setting for setting in kept if not setting.works]
        self._encoding = encoding
        self._process: GaussianProcess | None = None
        self._forest: list[Any] = []
        if len(scored) > 1:
            self._process = _process(encoding, scored, view)
        if failed:
            self._forest = _forest(encoding, scored, failed, seed)

    def belief(self, configs: Sequence[Config]) -> Belief:
        import numpy as np

        rows = self._encoding.rows(configs)
        mean, deviation, feasible = np.zeros(len(rows)), np.ones(len(rows)), np.ones(len(rows))
        if self._process:
            with _one_thread():
                mean, deviation = self._process.predict(rows)
        if self._forest:
            votes = np.array([tree.predict(rows.astype(np.float32)).reshape(-1) for tree in self._forest])
            feasible = votes.mean(axis=0)
        return Belief(mean, deviation, feasible)


def _process(encoding: Encoding, scored: Sequence[Setting], view: View) -> GaussianProcess:
    import numpy as np

    from tuner.search.gaussian import GaussianProcess

    scores = np.array([setting.score for setting in scored])
    counts = np.array([float(len(setting.scores)) for setting in scored])
    y = (compressed if view.compress else floored)(scores)
    with _one_thread():
        return GaussianProcess(
            encoding.rows([setting.config for setting in scored]),
            encoding.columns,
            y,
            counts,
            view.length,
            *repeated_noise(scored),
        )


@cache
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _one_thread() -> Any:
    """Matrices of this size gain nothing from more threads, and lose much where the machine is busy."""
    return _threads().limit(limits=1, user_api="blas")


def _forest(encoding: Encoding, scored: Sequence[Setting], failed: Sequence[Setting], seed: int) -> list[Any]:
    # Trees, not a process: what can't run ends at edges, often those of a choice. Single trees instead of ExtraTreesRegressor:
    # its joblib and validation layers take longer than the trees.
    import numpy as np
    import sklearn
    from sklearn.tree import ExtraTreeRegressor

    rows = encoding.rows([s.config for s in (*scored, *failed)]).astype(np.float32)
    works = np.array([1.0] * len(scored) + [0.0] * len(failed))
    with sklearn.config_context(skip_parameter_validation=True, assume_finite=True):
        grown = (ExtraTreeRegressor(random_state=(seed + 7919 * n) % 2**32) for n in range(_FEASIBILITY_TREES))
        return [tree.fit(rows, works, check_input=False).tree_ for tree in grown]


def compressed(scores: Vector) -> Vector:
    """``scores`` as they are near the best and ever closer together below: resolution goes where it decides."""
    import numpy as np

    best = scores.max()
    squeezed: Vector = best - _KNEE * np.log1p((best - scores) / _KNEE)
    return squeezed


def floored(scores: Vector) -> Vector:
    """``scores`` with far outliers below pulled in."""
    import numpy as np

    middle = np.median(scores)
    deviation = 1.4826 * np.median(np.abs(scores - middle))
    return np.maximum(scores, middle - _FLOOR * deviation) if deviation > 0 else scores


def _most_telling(settings: Sequence[Setting]) -> Sequence[Setting]:
    """At most _MOST_SETTINGS, the best and the latest first."""
    worked = sorted((s for s in settings if s.works), key=lambda s: s.score, reverse=True)
    if len(settings) <= _FEW:
        return settings
    best = worked[: _MOST_SETTINGS // 4]
    known = {setting.key for setting in best}
    latest = [setting for setting in reversed(settings) if setting.key not in known]
    return [*best, *latest][:_MOST_SETTINGS]
