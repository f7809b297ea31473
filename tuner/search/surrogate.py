"""What unmeasured settings are likely to score, as a smooth process and as trees see it, and whether they can run at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spaces.space import Config
from tuner.search.encoding import Encoding
from tuner.search.known import Setting, repeated_noise
from tuner.search.threads import one_thread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tuner.search.gaussian import GaussianProcess

    Rows = NDArray[np.float64]
    Vector = NDArray[np.float64]

# Of many settings fewer trees say as much.
_FEASIBILITY_TREES, _SCORE_TREES, _FEWER_TREES = 24, 40, 24
_UNLIKELY = 0.1

# Trees that agree by chance are still not certain: the least standard deviation of what they expect, in score.
_LEAST_DOUBT = 0.001

# More settings than _MOST_SETTINGS hardly change a proposal and cost time in every one: the best and the latest are kept, in
# that order as soon as there are more than a few.
_MOST_SETTINGS, _FEW = 160, 60

# A score this many robust deviations under the median is pulled up to there: one outlier must not bend the whole model.
_FLOOR = 2.5


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
    """How to look at the scores.

    ``length``, in ranges of a knob, is how far the smooth process believes that settings are alike: a short one believes in
    neighbours only and so in surprises further off; 0 leaves it out. ``trees`` see what depends on a choice, and edges.
    With both the mean of the two counts, and what they disagree on is doubt.
    """

    length: float = 1.5
    trees: bool = False


PLAIN = View()


class Model:
    """What ``settings`` teach; ask it with ``belief``."""

    def __init__(self, encoding: Encoding, settings: Sequence[Setting], seed: int, view: View = PLAIN) -> None:
        kept = most_telling(settings)
        scored = [setting for setting in kept if setting.works]
        failed = [setting for setting in kept if not setting.works]
        self._encoding = encoding
        self._process: GaussianProcess | None = None
        self._trees: list[Any] = []
        self._feasibility: list[Any] = []
        if len(scored) > 1:
            if view.length:
                self._process = _process(encoding, scored, view.length)
            if view.trees:
                self._trees = _trees(encoding, scored, seed)
        if failed:
            self._feasibility = _feasibility(encoding, scored, failed, seed)

    def belief(self, configs: Sequence[Config]) -> Belief:
        import numpy as np

        rows = self._encoding.rows(configs)
        looks = []
        if self._process:
            with one_thread():
                looks.append(self._process.predict(rows))
        if self._trees:
            votes = _votes(self._trees, rows)
            looks.append((votes.mean(axis=0), np.maximum(votes.std(axis=0), _LEAST_DOUBT)))
        feasible = _votes(self._feasibility, rows).mean(axis=0) if self._feasibility else np.ones(len(rows))
        if not looks:
            return Belief(np.zeros(len(rows)), np.ones(len(rows)), feasible)
        means = np.array([mean for mean, _ in looks])
        variances = np.array([deviation**2 for _, deviation in looks])
        return Belief(means.mean(axis=0), np.sqrt(variances.mean(axis=0) + means.var(axis=0)), feasible)


def _process(encoding: Encoding, scored: Sequence[Setting], length: float) -> GaussianProcess:
    import numpy as np

    from tuner.search.gaussian import GaussianProcess

    counts = np.array([float(len(setting.scores)) for setting in scored])
    rows = encoding.rows([setting.config for setting in scored])
    with one_thread():
        return GaussianProcess(rows, encoding.columns, _scores(scored), counts, length, *repeated_noise(scored))


def _scores(scored: Sequence[Setting]) -> Vector:
    import numpy as np

    return floored(np.array([setting.score for setting in scored]))


def _trees(encoding: Encoding, scored: Sequence[Setting], seed: int) -> list[Any]:
    count = _SCORE_TREES if len(scored) <= _FEW else _FEWER_TREES
    return _grown(encoding.rows([s.config for s in scored]), _scores(scored), seed, count)


def _feasibility(encoding: Encoding, scored: Sequence[Setting], failed: Sequence[Setting], seed: int) -> list[Any]:
    # Trees, not a process: what can't run ends at edges, often those of a choice.
    import numpy as np

    works = np.array([1.0] * len(scored) + [0.0] * len(failed))
    return _grown(encoding.rows([s.config for s in (*scored, *failed)]), works, seed, _FEASIBILITY_TREES)


def _grown(rows: Rows, values: Vector, seed: int, count: int) -> list[Any]:
    # Single trees instead of ExtraTreesRegressor: its joblib and validation layers take longer than the trees.
    import numpy as np
    import sklearn
    from sklearn.tree import ExtraTreeRegressor

    single = rows.astype(np.float32)
    with sklearn.config_context(skip_parameter_validation=True, assume_finite=True):
        grown = (ExtraTreeRegressor(random_state=(seed + 7919 * n) % 2**32) for n in range(count))
        return [tree.fit(single, values, check_input=False).tree_ for tree in grown]


def _votes(trees: Sequence[Any], rows: Rows) -> Rows:
    """What each tree (first axis) says of each row."""
    import numpy as np

    single = rows.astype(np.float32)
    return np.array([tree.predict(single).reshape(-1) for tree in trees])


def floored(scores: Vector) -> Vector:
    """``scores`` with far outliers below pulled in."""
    import numpy as np

    middle = np.median(scores)
    deviation = 1.4826 * np.median(np.abs(scores - middle))
    return np.maximum(scores, middle - _FLOOR * deviation) if deviation > 0 else scores


def most_telling(settings: Sequence[Setting]) -> Sequence[Setting]:
    """At most _MOST_SETTINGS, the best and the latest first."""
    worked = sorted((s for s in settings if s.works), key=lambda s: s.score, reverse=True)
    if len(settings) <= _FEW:
        return settings
    best = worked[: _MOST_SETTINGS // 4]
    known = {setting.key for setting in best}
    latest = [setting for setting in reversed(settings) if setting.key not in known]
    return [*best, *latest][:_MOST_SETTINGS]
