"""Comparisons and their words."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.runner import Failure, Measurement
from spaces.space import Value
from tuner.recommendation import Gain
from tuner.trial import Trial
from tuner.verdict import compare, faster, interval, per_metric


def pairs(*gains: float | None) -> list[tuple[float | None, float | None]]:
    """Rounds in which the other drifts by 10 % each and the setting is ahead by ``gains``."""
    return [(None if gain is None else i * 0.1 + math.log1p(gain), i * 0.1) for i, gain in enumerate(gains)]


def test_a_clear_gain_has_its_interval() -> None:
    comparison = compare(pairs(0.10, 0.14, 0.08, 0.17, 0.12, 0.13, 0.11, 0.12))
    assert comparison.verdict == "better"
    assert comparison.rounds == 8
    assert comparison.sentence == "12 % faster (90 % interval 10 to 14 %)"


def test_a_loss_is_slower() -> None:
    comparison = compare(pairs(-0.10, -0.14, -0.08, -0.17, -0.12, -0.13, -0.11, -0.12))
    assert comparison.verdict == "worse"
    assert comparison.sentence == "12 % slower (90 % interval 10 to 14 %)"


def test_small_differences_are_equal_within_the_margin() -> None:
    comparison = compare(pairs(0.002, -0.004, 0.001, 0.003, -0.002, 0.0))
    assert (comparison.verdict, comparison.sentence) == ("equal", "equal within 3 %")
    assert compare(pairs(0.002, 0.004, 0.001, 0.003, 0.002, 0.001), margin=0.0).verdict == "better"


def test_scatter_is_not_told_apart() -> None:
    comparison = compare(pairs(0.2, -0.15, 0.1, -0.2, 0.3, -0.05))
    assert comparison.verdict == "unclear"
    assert comparison.sentence.startswith("can't be told apart with these rounds (90 % interval 1")


def test_four_rounds_are_too_few_however_clear() -> None:
    comparison = compare(pairs(0.5, 0.5, 0.5, 0.5))
    assert comparison.verdict == "unclear"
    assert comparison.gain == Gain(pytest.approx(1.5), 0.0, math.inf, 0.9)
    assert "50 % faster, too few rounds for an interval" in comparison.sentence


def test_failed_rounds_are_left_out() -> None:
    comparison = compare([*pairs(0.1, None, 0.1, 0.1, None, 0.1, 0.1), (0.0, None), (math.nan, 0.0)])
    assert comparison.rounds == 5
    assert comparison.verdict == "better"
    nothing = compare([(None, 0.0), (0.0, None)])
    assert (nothing.verdict, nothing.gain, nothing.rounds) == ("unclear", None, 0)
    assert "no round measured both" in nothing.sentence


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (1.12, "12 % faster"),
        (1.054, "5.4 % faster"),
        (1.05, "5 % faster"),
        (1.004, "0.4 % faster"),
        (1.0, "just as fast"),
        (1.0004, "just as fast"),
        (0.9996, "just as fast"),
        (0.95, "5 % slower"),
        (0.3, "70 % slower"),
        (1.99, "99 % faster"),
        (1.996, "2.0 times as fast"),
        (2.44, "2.4 times as fast"),
        (31.0, "31 times as fast"),
    ],
)
def test_ratio_in_words(ratio: float, words: str) -> None:
    assert faster(ratio) == words


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (1.08, 1.17, "90 % interval 8 to 17 %"),
        (0.97, 1.02, "90 % interval 3 % slower to 2 % faster"),
        (0.8, 0.9, "90 % interval 10 to 20 %"),
        (2.1, 2.5, "90 % interval 2.1 to 2.5 times"),
        (1.8, 2.5, "90 % interval 80 % faster to 2.5 times as fast"),
        (1.0, 1.05, "90 % interval just as fast to 5 % faster"),
        (1.1, 1.1, "90 % interval 10 % faster"),
        (0.0, math.inf, "too few rounds for a 90 % interval"),
    ],
)
def test_interval_in_words(low: float, high: float, words: str) -> None:
    assert interval(Gain(1.0, low, high, 0.9)) == words


@given(st.lists(st.tuples(st.none() | st.floats(-5, 5), st.none() | st.floats(-5, 5)), max_size=12))
def test_any_pairs_get_a_sentence(values: list[tuple[float | None, float | None]]) -> None:
    comparison = compare(values)
    assert comparison.sentence
    assert (comparison.gain is None) == (comparison.rounds == 0)
    if comparison.gain is not None:
        assert comparison.gain.low <= comparison.gain.high


def trial(value: float | None, phase: str = "search", **config: Value) -> Trial:
    outcome = Failure("crash", "died") if value is None else Measurement({"read_gbs": value}, (value,), 0.1)
    return Trial(config, outcome, phase)  # type: ignore[arg-type]


def test_best_at_one_metric_is_not_one_lucky_reading() -> None:
    steady = [trial(v, "race", a=1) for v in (3.0, 3.4, 2.7, 3.2, 2.8, 3.1)]
    others = [trial(v + a / 20, a=a) for a in range(3, 12) for v in (2.0, 2.5)]
    lucky = [trial(3.1, a=2)]
    best = per_metric([*steady, *others, *lucky], "read_gbs")
    assert best is not None
    assert best[0] == {"a": 1}
    assert 2.6 < best[1] < 3.1


def test_best_may_be_the_lowest() -> None:
    history = [trial(v, a=a) for a, v in ((1, 3.0), (2, 1.0), (3, 2.0), (1, 3.1), (2, 1.05))]
    best = per_metric(history, "read_gbs", maximise=False)
    assert best is not None
    assert best[0] == {"a": 2}


def test_failures_warm_ups_and_other_metrics_do_not_count() -> None:
    history = [trial(None, a=1), trial(9.0, "warmup", a=2), trial(2.0, a=3), trial(math.nan, a=4), trial(0.0, a=5)]
    assert per_metric(history, "read_gbs") == ({"a": 3}, pytest.approx(2.0))
    assert per_metric(history, "write_gbs") is None
    assert per_metric([], "read_gbs") is None
