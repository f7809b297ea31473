"""Other ways to search, as strong as they come plain: what `tune compare` and the benchmarks hold ours against."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from runners.runner import Objective
from spaces.space import Config, Key, Space
from tuner.search.known import Setting, settings
from tuner.search.strategy import Strategy, open_candidates, open_settings
from tuner.trial import History, score

if TYPE_CHECKING:
    import optuna

# After so many suggestions that are illegal or known already, a random open setting stands in.
_ASKS = 20


def _closed(known: Sequence[Setting]) -> set[Key]:
    return {setting.key for setting in known if setting.closed}


class Random:
    """Any open setting, all alike."""

    def __init__(self, objective: Objective, first: Sequence[Config] = ()) -> None:
        self._objective, self._first = objective, tuple(first)

    def propose(self, space: Space, history: History, rng: random.Random) -> Config | None:
        known = settings(space, history, self._objective)
        closed = _closed(known)
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
        return next(iter(open_settings(space, order, _closed(known))), None)


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
        closed = _closed(known)
        for config in open_settings(space, self._first, closed):
            return config
        best = max((s for s in known if s.works), key=lambda s: s.score, default=None)
        if best is not None:
            for config in open_settings(space, space.neighbours(best.config), closed):
                return config
        candidates = list(open_candidates(space, known, closed, rng))
        return rng.choice(candidates) if candidates else None


class OptunaSearch:
    """A sampler of Optuna's through its own ask and tell.

    Better off than as it comes: ordinal knobs are handed over as their positions, what is illegal or known costs nothing,
    and a failure is told as the worst value so far, broken constraint included, where Optuna alone would ignore it.
    """

    def __init__(self, objective: Objective, make: Callable[[int], optuna.samplers.BaseSampler], first: Sequence[Config] = ()):
        self._objective, self._make, self._first = objective, make, tuple(first)
        self._study: optuna.Study | None = None
        self._told = 0
        self._asked: dict[Key, optuna.Trial] = {}

    def propose(self, space: Space, history: History, rng: random.Random) -> Config | None:
        from threadpoolctl import threadpool_limits

        known = settings(space, history, self._objective)
        closed = _closed(known)
        study = self._study_of(rng)
        for trial in history[self._told :]:
            self._tell(study, space, trial.config, score(trial.outcome, self._objective), history)
        self._told = len(history)
        for config in open_settings(space, self._first, closed):
            return config
        candidates = list(open_candidates(space, known, closed, rng))
        if not candidates:
            return None
        for _ in range(_ASKS):
            with threadpool_limits(limits=1):
                asked = study.ask(self._distributions(space))
            config = dict(space.canonical(_values(space, asked.params)))
            if space.legal(config) and space.key(config) not in closed:
                self._asked[space.key(config)] = asked
                return config
            value = self._known_score(space, known, config)
            _judge(asked, value is None)
            study.tell(asked, self._worst(history) if value is None else value)
        return rng.choice(candidates)

    def _study_of(self, rng: random.Random) -> optuna.Study:
        if self._study is None:
            import optuna

            optuna.logging.set_verbosity(optuna.logging.WARNING)
            self._study = optuna.create_study(direction="maximize", sampler=self._make(rng.getrandbits(31)))
        return self._study

    def _tell(self, study: optuna.Study, space: Space, config: Config, value: float | None, history: History) -> None:
        import optuna

        asked = self._asked.pop(space.key(space.canonical(config)), None)
        if asked is not None:
            _judge(asked, value is None)
            study.tell(asked, self._worst(history) if value is None else value)
            return
        positions = _positions(space, config)
        if positions is None:
            return
        study.add_trial(
            optuna.trial.create_trial(
                params=positions,
                distributions=self._distributions(space),
                value=self._worst(history) if value is None else value,
                user_attrs={"broken": 1.0 if value is None else -1.0},
                system_attrs={"constraints": (1.0 if value is None else -1.0,)},
            )
        )

    def _worst(self, history: History) -> float:
        scores = [value for trial in history if (value := score(trial.outcome, self._objective)) is not None]
        return min(scores, default=0.0)

    def _known_score(self, space: Space, known: Sequence[Setting], config: Config) -> float | None:
        key = space.key(config)
        return next((setting.score for setting in known if setting.key == key and setting.scores), None)

    def _distributions(self, space: Space) -> dict[str, Any]:
        from optuna.distributions import CategoricalDistribution, IntDistribution

        return {
            knob.name: IntDistribution(0, len(knob.domain.values) - 1)
            if knob.domain.ordinal
            else CategoricalDistribution(knob.domain.values)
            for knob in space.knobs
        }


def _values(space: Space, params: dict[str, Any]) -> Config:
    return {k.name: k.domain.values[params[k.name]] if k.domain.ordinal else params[k.name] for k in space.knobs}


def _positions(space: Space, config: Config) -> dict[str, Any] | None:
    """What Optuna calls ``config``; None where it is outside the space (a baseline beyond a narrowed domain)."""
    if not space.contains(config):
        return None
    return {k.name: k.domain.values.index(config[k.name]) if k.domain.ordinal else config[k.name] for k in space.knobs}


def _judge(asked: optuna.Trial, broken: bool) -> None:
    worth = 1.0 if broken else -1.0
    if hasattr(asked, "set_constraint"):
        asked.set_constraint("broken", worth)
    else:
        asked.set_user_attr("broken", worth)


def _constraint() -> dict[str, Any]:
    """Optuna before 5 asks a function of the sampler's for the constraints of a trial."""
    import optuna

    if hasattr(optuna.Trial, "set_constraint"):
        return {}
    return {"constraints_func": lambda trial: (float(trial.user_attrs.get("broken", -1.0)),)}


def _tpe(seed: int) -> optuna.samplers.BaseSampler:
    import optuna

    return optuna.samplers.TPESampler(multivariate=True, constant_liar=True, seed=seed, **_constraint())


def _gp(seed: int) -> optuna.samplers.BaseSampler:
    import optuna

    return optuna.samplers.GPSampler(seed=seed, **_constraint())


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
            return OptunaSearch(objective, _tpe, first)
        case "gp":
            return OptunaSearch(objective, _gp, first)
    raise ValueError(f"{name!r} is none of {', '.join(OPPONENTS)}")
