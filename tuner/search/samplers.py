"""Optuna's samplers over a space of ours: ordinal knobs as their positions, and what is illegal or known costs nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spaces.space import Config, Key, Space
from tuner.search.known import Setting
from tuner.search.threads import one_thread

if TYPE_CHECKING:
    import optuna

# After so many suggestions that are illegal or known already it is left at that: each takes as long as the first. Where many
# settings are known most suggestions are, and the few that are not come no sooner.
_ASKS, _FEW_ASKS, _MANY = 8, 2, 120
# Of more than these the first are told, the best and the latest: telling takes longer than asking.
_TOLD = 80


def tpe(seed: int) -> optuna.samplers.BaseSampler:
    import optuna

    return optuna.samplers.TPESampler(multivariate=True, constant_liar=True, seed=seed, **_constraint())


def gp(seed: int) -> optuna.samplers.BaseSampler:
    import optuna

    return optuna.samplers.GPSampler(seed=seed, **_constraint())


def new_study(sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    """A study in memory whose values are scores."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize", sampler=sampler)


def suggested(space: Space, known: Sequence[Setting], closed: set[Key], rng: random.Random) -> Config | None:
    """What Optuna's TPE proposes after ``known``, open and legal; None when it finds none. Pure but for ``rng``."""
    study = new_study(tpe(rng.getrandbits(31)))
    worst = worst_of([setting.score for setting in known if setting.works])
    told = (trial(space, s.config, s.score if s.works else None, worst) for s in known[:_TOLD])
    study.add_trials([each for each in told if each is not None])
    scores = {setting.key: setting.score for setting in known if setting.works}
    for _ in range(_ASKS if len(closed) <= _MANY else _FEW_ASKS):
        asked = ask(study, space)
        config = config_of(space, asked)
        if space.contains(config) and space.legal(config) and space.key(config) not in closed:
            return config
        tell(study, asked, scores.get(space.key(config)), worst)
    return None


def ask(study: optuna.Study, space: Space) -> optuna.Trial:
    with one_thread():
        return study.ask(_distributions(space))


def config_of(space: Space, asked: optuna.Trial) -> Config:
    """The setting that a trial stands for, canonical; it may be an illegal one."""
    params = asked.params
    values = {k.name: k.domain.values[params[k.name]] if k.domain.ordinal else params[k.name] for k in space.knobs}
    return dict(space.canonical(values))


def tell(study: optuna.Study, asked: optuna.Trial, score: float | None, worst: float) -> None:
    """A score; None for what can't run, which Optuna alone would ignore: it is told as the worst, its constraint broken."""
    _judge(asked, score is None)
    study.tell(asked, worst if score is None else score)


def worst_of(scores: Sequence[float]) -> float:
    return min(scores, default=0.0)


def trial(space: Space, config: Config, score: float | None, worst: float) -> optuna.trial.FrozenTrial | None:
    """A finished trial of ``config``; None where that is outside the space (a baseline beyond a narrowed domain)."""
    import optuna

    if not space.contains(config):
        return None
    broken = 1.0 if score is None else -1.0
    return optuna.trial.create_trial(
        params={k.name: k.domain.values.index(config[k.name]) if k.domain.ordinal else config[k.name] for k in space.knobs},
        distributions=_distributions(space),
        value=worst if score is None else score,
        user_attrs={"broken": broken},
        system_attrs={"constraints": (broken,)},
    )


def _distributions(space: Space) -> dict[str, Any]:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    return {
        knob.name: IntDistribution(0, len(knob.domain.values) - 1)
        if knob.domain.ordinal
        else CategoricalDistribution(knob.domain.values)
        for knob in space.knobs
    }


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
