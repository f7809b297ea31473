from __future__ import annotations

import math
import random

from runners.runner import Failure, Measurement, Objective
from spaces.space import Config, Knob, Space, integers
from tuner.search.finalists import finalist_share, finalists
from tuner.trial import Phase, Trial

OBJECTIVE = Objective("value", "")


def space(cost_of: str = "b") -> Space:
    knobs = (Knob("a", integers(0, 9), 0, "", "test"), Knob("b", integers(0, 9), 0, "", "test"))
    return Space(knobs, cost=lambda c: float(c[cost_of]))


def trial(config: Config, value: float, phase: Phase = "search") -> Trial:
    return Trial(config, Measurement({"value": value}, (value,), 1.0), phase)


def history(seed: int = 0, count: int = 30) -> list[Trial]:
    """Only ``a`` matters; 5 % noise."""
    rng = random.Random(seed)
    drawn = rng.sample(space().configs(), count)
    return [trial(c, math.exp(0.1 * int(c["a"]) + rng.gauss(0, 0.05))) for c in drawn]


def test_one_lucky_reading_is_not_a_finalist() -> None:
    lucky = trial({"a": 0, "b": 5}, math.exp(0.72))
    told = [t for t in history() if t.config != lucky.config]
    chosen = finalists(space(), [*told, lucky], OBJECTIVE, 3)
    assert lucky.config not in chosen
    assert all(int(c["a"]) >= 7 for c in chosen)


def test_the_cheapest_equal_takes_the_last_place() -> None:
    told = [t for t in history() if int(t.config["a"]) < 8]
    told += [trial({"a": 9, "b": b}, 2.46 if b else 2.36) for b in (0, 6, 7, 8, 9)]
    chosen = finalists(space(), told, OBJECTIVE, 3)
    assert len(chosen) == 3
    assert chosen[-1] == {"a": 9, "b": 0}
    assert {"a": 9, "b": 0} not in chosen[:2]


def test_only_measured_settings_that_work() -> None:
    bad: Config = {"a": 9, "b": 9}
    told = [t for t in history() if t.config != bad]
    told += [trial(bad, 99.0), Trial(bad, Failure("wrong", "the data differ"), "race")]
    chosen = finalists(space(), told, OBJECTIVE, 50)
    assert bad not in chosen
    assert len(chosen) == len({space().key(t.config) for t in told}) - 1


def test_few_or_none() -> None:
    assert finalists(space(), [], OBJECTIVE, 3) == []
    assert finalists(space(), history(), OBJECTIVE, 0) == []
    one = trial({"a": 1, "b": 1}, 2.0)
    failed = Trial({"a": 2, "b": 1}, Failure("timeout", ""), "search")
    assert finalists(space(), [one, failed], OBJECTIVE, 3) == [one.config]


def test_few_trials_all_go_to_the_search_and_a_quarter_of_many_to_the_race() -> None:
    assert [finalist_share(n) for n in (0, 10, 19)] == [0, 0, 0]
    assert all(0.2 * n <= finalist_share(n) <= 0.25 * n + 1 for n in range(30, 300))
