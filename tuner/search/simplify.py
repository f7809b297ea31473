"""The best setting without the knobs that it can do without."""

from __future__ import annotations

from collections.abc import Callable

from runners.runner import Objective
from spaces.space import Config, Space
from tuner.search.finalists import expected, finalists
from tuner.search.flips import simpler
from tuner.search.known import pooled_noise
from tuner.trial import History, score

# A reading that is not lower by more than so many standard deviations of the noise leaves it open.
_IN_DOUBT = 2.0


def simplified(
    space: Space, history: History, objective: Objective, baseline: Config, measure: Callable[[Config], bool]
) -> Config | None:
    """The best setting with all knobs set back that it can do without, as far as single readings tell.

    None where it needs them all. A race then finds out whether that is as good, so that the answer changes nothing without a
    reason. ``measure`` adds a reading of a setting to ``history``, or returns False where nothing may be spent any more.
    """
    best = next(iter(finalists(space, history, objective, 1)), None)
    if best is None:
        return None
    floor = expected(space, history, objective, [best])[0] - _IN_DOUBT * pooled_noise(history, objective)
    simple = best
    needed: set[str] = set()
    while able := {name: c for name, c in simpler(space, simple, baseline).items() if name not in needed}:
        promised = expected(space, history, objective, list(able.values()))
        name = max(zip(promised, able, strict=True))[1]
        config = space.canonical(able[name])
        if not (readings := _scores(space, history, objective, config)):
            if not measure(config):
                break
            readings = _scores(space, history, objective, config)
        if readings and all(reading is not None and reading >= floor for reading in readings):
            simple = config
        else:
            needed.add(name)
    return None if simple == best else simple


def _scores(space: Space, history: History, objective: Objective, config: Config) -> list[float | None]:
    """What readings of a setting there are, warm-ups left out; None for a failure."""
    key = space.key(config)
    same = (t for t in history if t.phase != "warmup" and space.key(space.canonical(t.config)) == key)
    return [score(trial.outcome, objective) for trial in same]
