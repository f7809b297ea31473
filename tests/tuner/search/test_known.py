from __future__ import annotations

import math
import random

import pytest

from runners.runner import Failure, Measurement, Objective
from spaces.space import Knob, Space, log2
from tuner.search.known import NOISE, drift, pooled_noise, repeated_noise, settings
from tuner.trial import Phase, Trial

OBJECTIVE = Objective("value", "")
SPACE = Space((Knob("a", log2(1, 1024), 1, "", "test"),))


def trial(a: int, value: float, phase: Phase = "search") -> Trial:
    return Trial({"a": a}, Measurement({"value": value}, (value,), 1.0), phase)


def test_repeats_of_a_setting_are_one_with_their_median() -> None:
    history = [trial(1, 1.0, "baseline"), trial(2, 5.0), trial(1, 9.0, "baseline"), trial(1, 2.0, "race")]
    one, two = settings(SPACE, history, OBJECTIVE)
    assert one.score == pytest.approx(math.log(2.0))
    assert len(one.scores) == 3
    assert two.scores == [pytest.approx(math.log(5.0))]


def test_a_setting_that_was_wrong_once_does_not_work() -> None:
    history = [trial(1, 1.0), trial(1, 1.1), Trial({"a": 1}, Failure("wrong", ""), "race")]
    assert not settings(SPACE, history, OBJECTIVE)[0].works


def test_one_timeout_among_good_readings_is_forgiven() -> None:
    history = [trial(1, 1.0), trial(1, 1.1), Trial({"a": 1}, Failure("timeout", ""), "race")]
    assert settings(SPACE, history, OBJECTIVE)[0].works


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_a_figure_that_is_none_counts_as_a_failure(value: float) -> None:
    known = settings(SPACE, [trial(1, value)], OBJECTIVE)[0]
    assert known.closed
    assert not known.works


def test_noise_is_found_in_spite_of_outliers_and_drift() -> None:
    rng = random.Random(3)
    history = []
    for index in range(80):
        value = math.exp(rng.gauss(0, 0.08) + 0.005 * index) * (0.4 if index % 25 == 12 else 1.0)
        history.append(trial(1, value, "baseline"))
    assert pooled_noise(history, OBJECTIVE) == pytest.approx(0.08, rel=0.3)


def test_noise_without_repeats_is_the_usual_one() -> None:
    assert pooled_noise([trial(1, 1.0), trial(2, 3.0)], OBJECTIVE) == pytest.approx(NOISE)
    assert pooled_noise([], OBJECTIVE) == NOISE
    assert repeated_noise([]) == (NOISE, 0)


def test_equal_repeats_leave_some_noise() -> None:
    history = [trial(1, 1.0, "baseline")] * 4
    assert 0 < pooled_noise(history, OBJECTIVE) < NOISE


def drifting(slope: float, seed: int = 0) -> list[Trial]:
    rng = random.Random(seed)
    history = []
    for index in range(60):
        a = 1 if index % 5 == 0 else 2 << (index % 9)
        history.append(trial(a, math.exp(slope * index + rng.gauss(0, 0.02)), "baseline" if a == 1 else "search"))
    return history


def test_clear_drift_is_taken_out() -> None:
    history = drifting(0.01)
    shift = drift(SPACE, history, OBJECTIVE)
    assert shift[55] - shift[5] == pytest.approx(0.5, abs=0.1)
    scores = [score for setting in settings(SPACE, history, OBJECTIVE) for score in setting.scores]
    assert max(scores) - min(scores) < 0.25


def test_noise_is_not_taken_for_drift() -> None:
    taken = [any(drift(SPACE, drifting(0.0, seed), OBJECTIVE)) for seed in range(40)]
    assert sum(taken) <= 6


def test_few_baseline_readings_tell_no_drift() -> None:
    history = [trial(1, math.exp(0.3 * index), "baseline") for index in range(5)]
    assert drift(SPACE, history, OBJECTIVE) == [0.0] * 5
