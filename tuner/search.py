"""Which setting to measure next: known good ones, a few spread out, then what a model expects most of and its neighbours."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from runners.runner import Objective
from spaces.space import Config, Key, Space
from tuner.known import Setting, settings
from tuner.surrogate import Encoding, Model
from tuner.trial import History


class Strategy(Protocol):
    """Pure: the same space, history and state of ``rng`` give the same proposal."""

    def propose(self, space: Space, history: History, rng: random.Random) -> Config | None:
        """A legal, canonical setting that is not measured yet, or None when there is none."""


# Settings measured before the model is asked, the baseline among them.
_START = 6

# Every so many proposals go to the best-ranked step away from one of the best settings: a smooth model doubts cliffs.
_CYCLE, _INCUMBENTS = 2, 2

# Candidates that the model ranks in one step, and how many are drawn from a space that is too large to list.
_CANDIDATES = 4096
_DRAWN = 1024


def default_strategy(objective: Objective, priors: Sequence[Config] = (), start: Sequence[Config] = ()) -> Strategy:
    """The search that `tune` uses: ``start`` first, then ``priors``, spread points up to six in all, then the model."""
    return ModelSearch(objective, (*start, *priors))


class ModelSearch:
    def __init__(self, objective: Objective, first: Sequence[Config]) -> None:
        self._objective, self._first = objective, tuple(first)
        self._prepared: tuple[Space, Encoding] | None = None

    def propose(self, space: Space, history: History, rng: random.Random) -> Config | None:
        known = settings(space, history, self._objective)
        closed = {setting.key for setting in known if setting.closed}
        first = next(open_settings(space, self._first, closed), None)
        if first is not None:
            return first
        encoding = self._encoding(space)
        candidates = list(open_candidates(space, known, closed, rng))
        if not candidates:
            return None
        if len(candidates) == 1:
            return candidates[0]
        working = [setting for setting in known if setting.works]
        if len(known) < _START or len(working) < 2:
            return _spread(encoding, known, candidates, rng)
        model = Model(encoding, known, rng.getrandbits(31))
        means = model.belief([setting.config for setting in working]).mean
        order = means.argsort()[::-1]
        best = float(means[order[0]])
        if sum(trial.phase == "search" for trial in history) % _CYCLE == 0:
            incumbents = [working[int(index)] for index in order[:_INCUMBENTS]]
            near = list(_neighbours(space, incumbents, closed))
            gains = model.belief(near).improvement(best) if near else None
            if gains is not None and gains.any():
                return near[int(gains.argmax())]
        belief = model.belief(candidates)
        gains = belief.improvement(best)
        return candidates[int((gains if gains.any() else belief.feasible).argmax())]

    def _encoding(self, space: Space) -> Encoding:
        if self._prepared is None or self._prepared[0] is not space:
            self._prepared = (space, Encoding(space))
        return self._prepared[1]


def open_settings(space: Space, configs: Iterable[Config], closed: set[Key]) -> Iterator[Config]:
    """Those of ``configs`` that may be measured, canonical; names and values that the space doesn't have are passed over."""
    for config in configs:
        if space.contains(config):
            folded = space.canonical({knob.name: config[knob.name] for knob in space.knobs})
            if space.key(folded) not in closed and space.legal(folded):
                yield folded


def open_candidates(space: Space, known: Sequence[Setting], closed: set[Key], rng: random.Random) -> Iterable[Config]:
    """Open settings to rank: all of a small space, else a random part and the steps away from what is best so far."""
    pool = space.pool(rng, _DRAWN)
    if len(pool) > _CANDIDATES:
        pool = rng.sample(pool, _CANDIDATES)
    found = {space.key(config): config for config in pool}
    if space.size > _CANDIDATES:
        ranked = sorted((s for s in known if s.works), key=lambda s: s.score, reverse=True)
        for setting in ranked[:4]:
            found.update((space.key(config), config) for config in space.neighbours(setting.config))
    return (config for key, config in found.items() if key not in closed)


def _neighbours(space: Space, settings: Sequence[Setting], closed: set[Key]) -> Iterable[Config]:
    found = {space.key(config): config for setting in settings for config in space.neighbours(setting.config)}
    return (config for key, config in found.items() if key not in closed and space.contains(config))


# So few of the candidates are looked at for a spread point: the farthest of all would always be a corner.
_SPREAD = 12


def _spread(encoding: Encoding, known: Sequence[Setting], candidates: Sequence[Config], rng: random.Random) -> Config:
    """Of a few random candidates the one that is farthest from what was tried."""
    import numpy as np

    drawn = rng.sample(candidates, min(_SPREAD, len(candidates)))
    if not known:
        return drawn[0]
    tried = encoding.rows([setting.config for setting in known])
    distances = np.abs(encoding.rows(drawn)[:, None, :] - tried[None, :, :]).sum(axis=2).min(axis=1)
    return drawn[int(distances.argmax())]
