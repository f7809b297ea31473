"""Which measured settings deserve a race: best by what the model believes of them, never by one lucky sample."""

from __future__ import annotations

from runners.runner import Objective
from spaces.space import Config, Space
from tuner.known import settings
from tuner.surrogate import Encoding, Model
from tuner.trial import History


def finalists(space: Space, history: History, objective: Objective, count: int) -> list[Config]:
    working = [s for s in settings(space, history, objective) if s.works]
    if not working:
        return []
    encoding = Encoding(space)
    mean = Model(encoding, working, 0).belief(encoding.rows([s.config for s in working])).mean
    ranked = sorted(range(len(working)), key=lambda i: -mean[i])
    return [working[i].config for i in ranked[:count]]
