"""Other ways to search, as strong as they come plain: what `tune compare` and the benchmarks hold ours against."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from runners.runner import Objective
from spaces.space import Config, Key, Space
from tuner.search import samplers
from tuner.search.known import closed_keys, settings
from tuner.search.strategy import Strategy, open_candidates, open_settings
from tuner.trial import History, score

if TYPE_CHECKING:
    import optuna


# So often an opponent may suggest what is illegal or known, before a setting is drawn for it.
_ASKS = 20


class Random:
    """Any open setting, all alike."""

    def __init__(self, objective: Objective, first: Sequence[Config] = ()) -> None:
        self._objective, self._first = objective, tuple(first)

    def propose(self, space: Space, history: History, rng: random.Random) -> Config | None:
        known = settings(space, history, self._objective)
        closed = closed_keys(known)
        for config in open_settings(space, self._first, closed):
            return config
        candidates = list(open_candidates(space, known, closed, rng))
        return rng.choice(candidates) if candidates else None


class Grid:
    """The given settings in their order, or all of the space in the order of its knobs."""

    def __init__(self, objective: Objective, order: Sequence[Config] = ()) -> None:
        self._objective, self._order = objective, tuple(order)

    def propose(self, space: Space, history: History, rng: random.Random) -> Config | None:
        known = settings(space, history, self._objective)
        order = self._order or open_candidates(space, known, set(), rng)
        return next(iter(open_settings(space, order, closed_keys(known))), None)


# block_size, queue_depth, overlap, single submit, threads: the order in which ds_nvme_tune nests its loops.
_DS_BLOCKS, _DS_DEPTHS, _DS_THREADS = (1 << 20, 8 << 20), (32, 128), (1, 2, 4, 8)


def ds_nvme_tune_order(threads: str = "intra_op_parallelism") -> list[Config]:
    """The 64 settings of ds_nvme_tune's default sweep, in its order; ``threads`` is the knob's name."""
    return [
        {"block_size": block, "queue_depth": depth, threads: count, "single_submit": single, "overlap_events": overlap}
        for block in _DS_BLOCKS
        for depth in _DS_DEPTHS
        for overlap in (False, True)
        for single in (False, True)
        for count in _DS_THREADS
    ]


class Descent:
    """From the best setting so far the next untried step in one knob; from a random setting when none is left."""

    def __init__(self, objective: Objective, first: Sequence[Config] = ()) -> None:
        self._objective, self._first = objective, tuple(first)

    def propose(self, space: Space, history: History, rng: random.Random) -> Config | None:
        known = settings(space, history, self._objective)
        closed = closed_keys(known)
        for config in open_settings(space, self._first, closed):
            return config
        best = max((s for s in known if s.works), key=lambda s: s.score, default=None)
        if best is not None:
            for config in open_settings(space, space.neighbours(best.config), closed):
                return config
        candidates = list(open_candidates(space, known, closed, rng))
        return rng.choice(candidates) if candidates else None


class OptunaSearch:
    """A sampler of Optuna's through its own ask and tell, better off than as it comes: see tuner.search.samplers."""

    def __init__(self, objective: Objective, make: Callable[[int], optuna.samplers.BaseSampler], first: Sequence[Config] = ()):
        self._objective, self._make, self._first = objective, make, tuple(first)
        self._study: optuna.Study | None = None
        self._told = 0
        self._asked: dict[Key, optuna.Trial] = {}

    def propose(self, space: Space, history: History, rng: random.Random) -> Config | None:
        known = settings(space, history, self._objective)
        closed = closed_keys(known)
        if self._study is None:
            self._study = samplers.new_study(self._make(rng.getrandbits(31)))
        worst = samplers.worst_of([value for t in history if (value := score(t.outcome, self._objective)) is not None])
        for trial in history[self._told :]:
            self._tell(self._study, space, trial.config, score(trial.outcome, self._objective), worst)
        self._told = len(history)
        for config in open_settings(space, self._first, closed):
            return config
        candidates = list(open_candidates(space, known, closed, rng))
        if not candidates:
            return None
        scores = {setting.key: setting.score for setting in known if setting.scores}
        for _ in range(_ASKS):
            asked = samplers.ask(self._study, space)
            config = samplers.config_of(space, asked)
            if space.legal(config) and space.key(config) not in closed:
                self._asked[space.key(config)] = asked
                return config
            samplers.tell(self._study, asked, scores.get(space.key(config)), worst)
        return rng.choice(candidates)

    def _tell(self, study: optuna.Study, space: Space, config: Config, value: float | None, worst: float) -> None:
        asked = self._asked.pop(space.key(space.canonical(config)), None)
        if asked is not None:
            samplers.tell(study, asked, value, worst)
        elif (trial := samplers.trial(space, config, value, worst)) is not None:
            study.add_trial(trial)


OPPONENTS = ("random", "grid", "descent", "tpe", "gp")


def opponent(name: str, objective: Objective, first: Sequence[Config] = ()) -> Strategy:
    """A fresh strategy of OPPONENTS; ``first`` are settings to begin with (for "grid": all of its settings, in order)."""
    match name:
        case "random":
            return Random(objective, first)
        case "grid":
            return Grid(objective, first)
        case "descent":
            return Descent(objective, first)
        case "tpe":
            return OptunaSearch(objective, samplers.tpe, first)
        case "gp":
            return OptunaSearch(objective, samplers.gp, first)
    raise ValueError(f"{name!r} is none of {', '.join(OPPONENTS)}")
