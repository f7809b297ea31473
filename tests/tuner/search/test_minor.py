from __future__ import annotations

import math
import random
from dataclasses import replace
from statistics import median

from runners.runner import Measurement, Objective
from spaces.space import Config, Knob, Space, choice, flag, log2
from tuner.search.minor import doubts_of, early
from tuner.search.strategy import default_strategy
from tuner.trial import Trial

TELLING = (
    Knob("transport", choice("mpi", "ofi", "tcp"), "mpi", "", "test"),
    Knob("waits", choice("pause", "none", "yield", "sleep"), "pause", "", "test"),
    Knob("algorithm", choice(*"abcdefg"), "a", "", "test"),
)
MINOR = (
    *(Knob(f"flag{n}", flag(), False, "", "test") for n in range(3)),
    *(Knob(f"count{n}", log2(1, 16), 1, "", "test") for n in range(4)),
)
SPACE = Space((*TELLING, *MINOR), minor=frozenset(knob.name for knob in MINOR))
OBJECTIVE = Objective("value", "")


def truth(config: Config) -> float:
    speed = {"mpi": 1.0, "ofi": 1.6, "tcp": 0.7}[str(config["transport"])]
    speed *= {"pause": 1.0, "none": 0.9, "yield": 3.0, "sleep": 2.0}[str(config["waits"])]
    speed *= 1 + 0.15 * "cagfbed".index(str(config["algorithm"]))
    changed = sum(config[knob.name] != knob.default for knob in MINOR)
    return speed * (1.03 if config["flag1"] else 1.0) * 0.97**changed


BEST = max(truth(config) for config in SPACE.core.configs())


def trials_until_good(space: Space, seed: int) -> int:
    """Settings until 90 % of the best was measured, 60 at most."""
    strategy, rng, noise = default_strategy(OBJECTIVE), random.Random(seed), random.Random(1000 + seed)
    history: list[Trial] = []
    config: Config | None = space.default
    for count in range(1, 60):
        assert config is not None
        value = truth(config) * math.exp(noise.gauss(0, 0.05))
        history.append(Trial(config, Measurement({"value": value}, (value,), 1.0), "search" if history else "baseline"))
        if truth(config) >= 0.9 * BEST:
            return count
        config = strategy.propose(space, history, rng)
    return 60


def test_the_core_of_a_space_has_minor_knobs_at_their_defaults() -> None:
    assert len(SPACE.core.configs()) == 3 * 4 * 7
    assert all(SPACE.contains(config) for config in SPACE.core.configs())
    assert replace(SPACE, minor=frozenset()).core is not SPACE.core
    away = Space((*TELLING, replace(MINOR[3], default=99)), minor=frozenset({"count0"}))
    assert away.core is away  # a narrowed knob without its default is no less free than the others


def test_doubt_grows_with_minor_knobs_and_wears_off() -> None:
    asked = [SPACE.default, {**SPACE.default, "waits": "none"}, {**SPACE.default, "flag0": True, "count0": 4}]
    first, later = doubts_of(SPACE, 6), doubts_of(SPACE, 300)
    assert first is not None
    assert later is not None
    assert list(first(asked))[:2] == [1.0, 1.0]
    assert first(asked)[2] < 0.01 < 0.5 < later(asked)[2] < 1
    assert doubts_of(replace(SPACE, minor=frozenset()), 6) is None
    assert early(SPACE, 6)
    assert not early(SPACE, 300)


def test_few_measurements_find_more_where_minor_knobs_are_known() -> None:
    seeds = range(7)
    told = median(trials_until_good(SPACE, seed) for seed in seeds)
    untold = median(trials_until_good(replace(SPACE, minor=frozenset()), seed) for seed in seeds)
    assert told < untold


def test_a_minor_knob_is_varied_in_the_end() -> None:
    strategy, rng = default_strategy(OBJECTIVE), random.Random(1)
    history: list[Trial] = []
    config: Config | None = SPACE.default
    for _ in range(60):
        assert config is not None
        value = truth(config)
        history.append(Trial(config, Measurement({"value": value}, (value,), 1.0), "search" if history else "baseline"))
        config = strategy.propose(SPACE, history, rng)
    varied = [any(trial.config[knob.name] != knob.default for knob in MINOR) for trial in history]
    assert not any(varied[:5])
    assert any(varied)
