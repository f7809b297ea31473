"""Which setting to measure next: known good ones, a few spread out, then what a model expects most of and its neighbours."""

from __future__ import annotations

import functools
import operator
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from runners.runner import Objective
from spaces.space import Config, Key, Space
from tuner.search import samplers
from tuner.search.encoding import Encoding
from tuner.search.known import Setting, closed_keys, settings
from tuner.search.minor import doubts_of, early
from tuner.search.quick import worth_of
from tuner.search.surrogate import Model, View, most_telling
from tuner.trial import History

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Weights = Callable[[Sequence[Config]], NDArray[np.float64]]


class Strategy(Protocol):
    """Pure: the same space, history and state of ``rng`` give the same proposal."""

    def propose(self, space: Space, history: History, rng: random.Random) -> Config | None:
        """A legal, canonical setting that is not measured yet, or None when there is none."""


# Settings measured before the model is asked, the baseline among them.
_START = 6

# What is asked in turn, and whether only for steps away from the best settings (a smooth model doubts cliffs) or for all. No
# one view is best on every surface; in turn they cost little where another would do and save the search where one alone stays
# blind. Every fourth turn is Optuna's TPE: it looks at which values the good settings have, and never gets stuck for long.
_NEAR, _SMOOTH = View(length=0.5, trees=True), View(trees=True)
_TURNS: tuple[tuple[bool, View] | None, ...] = ((True, _NEAR), (False, _NEAR), (True, _SMOOTH), None)
_INCUMBENTS = 2

# One of those that promise this share of the most is taken, at random: a knob that looks as if it did nothing is varied all
# the same then, which finds out where it does.
_ALIKE = 0.7

# Candidates that the model ranks in one step; how many are drawn from a space that is too large to list, and how many are
# made from each of its best settings.
_CANDIDATES = 4096
_DRAWN = 1024
_PARENTS, _VARIED = 4, 100


def default_strategy(objective: Objective, priors: Sequence[Config] = (), start: Sequence[Config] = ()) -> Strategy:
    """The search that `tune` uses: ``start`` first, then ``priors``, spread points up to six in all, then the model."""
    return ModelSearch(objective, (*start, *priors))


class ModelSearch:
    def __init__(self, objective: Objective, first: Sequence[Config]) -> None:
        self._objective, self._first = objective, tuple(first)
        self._prepared: tuple[Space, Encoding] | None = None

    def propose(self, space: Space, history: History, rng: random.Random) -> Config | None:
        known = settings(space, history, self._objective)
        closed = closed_keys(known)
        first = next(open_settings(space, self._first, closed), None)
        if first is not None:
            return first
        encoding = self._encoding(space)
        candidates = list(open_candidates(space, known, closed, rng))
        if not candidates:
            return None
        if len(candidates) == 1:
            return candidates[0]
        if len(known) < _START or sum(setting.works for setting in known) < 2:
            plain = [config for config in candidates if space.core.contains(config)]
            return _spread(encoding, known, plain or candidates, rng)
        turn = _TURNS[sum(trial.phase == "search" for trial in history) % len(_TURNS)]
        # It knows nothing of what is closed: where that is most of the space it mostly suggests what is known already.
        # Nor does it doubt minor knobs.
        if turn is None and len(candidates) > len(closed) and not early(space, len(known)):
            suggested = samplers.suggested(space, most_telling(known), closed, rng)
            if suggested is not None:
                return suggested
        weights = _product(worth_of(space, history), doubts_of(space, len(known)))
        return _promising(space, encoding, known, closed, candidates, turn or (False, _SMOOTH), weights, rng)

    def _encoding(self, space: Space) -> Encoding:
        if self._prepared is None or self._prepared[0] is not space:
            self._prepared = (space, Encoding(space))
        return self._prepared[1]


def _product(*weights: Weights | None) -> Weights | None:
    known = [each for each in weights if each is not None]
    if not known:
        return None

    def product(configs: Sequence[Config]) -> NDArray[np.float64]:
        return functools.reduce(operator.mul, (each(configs) for each in known))

    return product


def _promising(
    space: Space,
    encoding: Encoding,
    known: Sequence[Setting],
    closed: set[Key],
    candidates: Sequence[Config],
    turn: tuple[bool, View],
    weights: Weights | None,
    rng: random.Random,
) -> Config:
    """What the model of ``turn`` expects most of, times ``weights``: for the time that it takes, and as far as minor knobs are
    believed in. A step from the best settings where ``turn`` says so and there is one.
    """
    steps, view = turn
    working = [setting for setting in most_telling(known) if setting.works]
    model = Model(encoding, known, rng.getrandbits(31), view)
    means = model.belief([setting.config for setting in working]).mean
    order = means.argsort()[::-1]
    best = float(means[order[0]])
    if steps:
        incumbents = [working[int(index)] for index in order[:_INCUMBENTS]]
        found = {space.key(config): config for config in _near(space, incumbents)}
        near = [config for key, config in found.items() if key not in closed]
        gains = model.belief(near).improvement(best) if near else None
        if gains is not None and gains.any():
            return near[int((gains * weights(near) if weights else gains).argmax())]
    belief = model.belief(candidates)
    gains = belief.improvement(best)
    if not gains.any():
        return candidates[int(belief.feasible.argmax())]
    if weights:
        gains = gains * weights(candidates)
    alike = (gains >= _ALIKE * gains.max()).nonzero()[0]
    return candidates[int(rng.choice(alike))]


def open_settings(space: Space, configs: Iterable[Config], closed: set[Key]) -> Iterator[Config]:
    """Those of ``configs`` that may be measured, canonical; names and values that the space doesn't have are passed over."""
    for config in configs:
        if space.contains(config):
            folded = space.canonical({knob.name: config[knob.name] for knob in space.knobs})
            if space.key(folded) not in closed and space.legal(folded):
                yield folded


def open_candidates(space: Space, known: Sequence[Setting], closed: set[Key], rng: random.Random) -> Iterator[Config]:
    """Open settings to rank: all of a small space, else a random part and what is near the best so far."""
    pool = space.pool(rng, _DRAWN)
    if len(pool) > _CANDIDATES:
        pool = rng.sample(pool, _CANDIDATES)
    if space.size > _CANDIDATES and space.core is not space:
        core = space.core.pool(rng, _DRAWN)
        pool = [*rng.sample(core, min(len(core), _DRAWN)), *pool]
    found: dict[Key, Config] = {space.key(config): config for config in pool}
    if space.size > _CANDIDATES:
        ranked = sorted((s for s in known if s.works), key=lambda s: s.score, reverse=True)[:_PARENTS]
        near = [*_near(space, ranked), *_varied(space, ranked, rng)]
        found.update((space.key(config), config) for config in near)
    return (config for key, config in found.items() if key not in closed)


def _near(space: Space, settings: Sequence[Setting]) -> Iterator[Config]:
    """Each legal setting one step from one of ``settings``."""
    return (config for s in settings for config in space.neighbours(s.config) if space.contains(config))


def _varied(space: Space, settings: Sequence[Setting], rng: random.Random) -> Iterator[Config]:
    """Legal settings that differ from one of ``settings`` in two or three knobs: random ones are rarely near in many knobs."""
    if len(space.knobs) < 2:
        return
    for setting in settings:
        for _ in range(_VARIED):
            changed = rng.sample(space.knobs, min(rng.choice((2, 3)), len(space.knobs)))
            config = space.canonical({**setting.config, **{knob.name: rng.choice(knob.domain.values) for knob in changed}})
            if space.contains(config) and space.legal(config):
                yield config


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
