from __future__ import annotations

import random
from dataclasses import replace

import pytest

from runners.runner import Measurement, Objective
from spaces.space import Config, Knob, Space, choice, integers
from tuner.search.quick import repeated_seconds, worth_of
from tuner.search.strategy import default_strategy
from tuner.trial import History, Phase, Trial

SPACE = Space(
    (Knob("transport", choice("a", "b", "c"), "a", "", "test"), Knob("algorithm", integers(0, 9), 0, "", "test")),
    live=frozenset({"algorithm"}),
    warm=2,
)


def trial(transport: str, algorithm: int, seconds: float, phase: Phase = "search", value: float = 1.0) -> Trial:
    return Trial({"transport": transport, "algorithm": algorithm}, Measurement({"value": value}, (value,), seconds), phase)


def seen() -> History:
    return [
        trial("a", 0, 3.0, "warmup"),
        trial("a", 0, 1.0, "baseline"),
        trial("b", 1, 3.0),
        trial("b", 2, 1.0),
        trial("a", 0, 1.0, "baseline"),
    ]


def test_what_runs_already_is_worth_more_by_the_time_seen() -> None:
    weights = worth_of(SPACE, seen())
    assert weights is not None
    asked: list[Config] = [{"transport": name, "algorithm": 5} for name in "abc"]
    assert list(weights(asked)) == pytest.approx([3.0, 3.0, 1.0])
    after = worth_of(SPACE, [*seen(), trial("c", 1, 3.0)])
    assert after is not None
    assert list(after(asked)) == pytest.approx([3.0, 1.0, 3.0])  # two jobs stay: the one of before last is gone


def test_alike_where_no_knob_is_live_or_too_little_was_seen() -> None:
    assert worth_of(replace(SPACE, live=frozenset()), seen()) is None
    assert worth_of(SPACE, seen()[:2]) is None
    assert worth_of(SPACE, []) is None


def test_the_search_tries_algorithms_where_it_is_before_it_starts_anew() -> None:
    history: list[Trial] = list(seen())
    strategy, rng = default_strategy(Objective("value", "")), random.Random(0)
    starts = 0
    for _ in range(20):
        config = strategy.propose(SPACE, history, rng)
        assert config is not None
        last = next(t for t in reversed(history) if t.phase == "search")
        fresh = config["transport"] not in (last.config["transport"], "a")
        starts += fresh
        history.append(trial(str(config["transport"]), int(config["algorithm"]), 3.0 if fresh else 0.3))
    assert starts <= 8  # of 20 blind ones a third would be


def test_repeats_of_a_job_that_stayed_tell_what_a_race_takes() -> None:
    assert repeated_seconds(SPACE, seen()) == 1.0
    assert repeated_seconds(SPACE, seen()[:1]) is None
    assert repeated_seconds(replace(SPACE, live=frozenset()), seen()) is None
