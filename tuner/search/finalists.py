"""Which measured settings deserve a race: best by what the model believes of them, never by one lucky sample."""

from __future__ import annotations

import math
from collections.abc import Sequence

from runners.runner import Objective
from spaces.space import Config, Space
from tuner.search.encoding import Encoding
from tuner.search.known import Setting, settings
from tuner.search.surrogate import Belief, Model
from tuner.trial import History

# A race of two or three contenders over a few rounds takes this many measurements; of less nothing can be spared.
_LEAST_BUDGET = 20
_SHARE = 0.25


def finalists(space: Space, history: History, objective: Objective, count: int) -> list[Config]:
    """At most ``count`` measured settings, most promising first; [] when none works.

    Of three and more the last place is for the cheapest setting that the model can't tell from the best, where the others
    hold none that is as cheap: a race may find it equal, and then it is the one to recommend.
    """
    working = [setting for setting in settings(space, history, objective) if setting.works]
    if len(working) < 2 or count < 1:
        return [setting.config for setting in working[:count]]
    belief = _belief(space, working, [setting.config for setting in working])
    order = [int(index) for index in belief.mean.argsort()[::-1]]
    chosen = order[:count]
    if count >= 3:
        best, doubt = chosen[0], belief.deviation
        equals = [i for i in order if belief.mean[best] - belief.mean[i] <= math.hypot(doubt[best], doubt[i])]
        cheapest = min(equals, key=lambda i: space.cost(working[i].config))
        if space.cost(working[cheapest].config) < min(space.cost(working[i].config) for i in chosen):
            chosen[-1] = cheapest
    return [working[index].config for index in chosen]


def expected(space: Space, history: History, objective: Objective, configs: Sequence[Config]) -> list[float]:
    """What the model believes of each of ``configs``, measured or not, in score."""
    working = [setting for setting in settings(space, history, objective) if setting.works]
    return [float(mean) for mean in _belief(space, working, configs).mean]


def _belief(space: Space, working: Sequence[Setting], configs: Sequence[Config]) -> Belief:
    return Model(Encoding(space), working, seed=0).belief(configs)


def finalist_share(budget_trials: int) -> int:
    """Measurements of ``budget_trials`` to keep for the race: none of few, a quarter of many."""
    return round(_SHARE * budget_trials) if budget_trials >= _LEAST_BUDGET else 0


def finalist_time(seconds: float) -> float:
    """The same share of ``seconds``, for where a repeated measurement takes much less than a first one."""
    return _SHARE * seconds
