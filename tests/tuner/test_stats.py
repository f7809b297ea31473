"""The statistics of paired differences, against counting everything out."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner import stats

differences = st.lists(st.floats(-2, 2, allow_nan=False), min_size=1, max_size=14)


@pytest.mark.parametrize("n", range(1, 11))
def test_tails_are_those_of_all_sign_patterns(n: int) -> None:
    sums = []
    for signs in itertools.product((0, 1), repeat=n):
        sums.append(sum(min(rank, stats.rank_cap(n)) for rank, sign in enumerate(signs, 1) if sign))
    assert max(sums) == stats.top_rank_sum(n)
    for statistic in range(stats.top_rank_sum(n) + 2):
        assert stats.rank_tail(n, statistic) == pytest.approx(sum(s >= statistic for s in sums) / 2**n)


@pytest.mark.parametrize("level", [0.05, 0.01, 0.002])
@pytest.mark.parametrize("n", [5, 6, 9, 20, 59, 60, 61, 120])
def test_threshold_is_the_smallest_that_keeps_the_level(n: int, level: float) -> None:
    threshold = stats.rank_threshold(n, level)
    if threshold is None:
        assert 2.0**-n > level
    else:
        assert stats.rank_tail(n, threshold) <= level < stats.rank_tail(n, threshold - 1)


def test_normal_tail_goes_on_where_the_exact_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = [stats.rank_tail(60, t) for t in range(700, 1000, 20)]
    monkeypatch.setattr(stats, "EXACT", 59)
    assert [stats.rank_tail(60, t) for t in range(700, 1000, 20)] == pytest.approx(exact, abs=0.002)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_fewer_than_five_give_no_interval_at_90_percent(n: int) -> None:
    assert stats.fixed_interval([0.1, 0.11, 0.12, 0.13][:n]) == (-math.inf, math.inf)


def test_five_give_their_whole_range() -> None:
    assert stats.fixed_interval([0.3, 0.1, 0.2, 0.15, 0.25]) == (0.1, 0.3)


def test_no_differences_give_no_interval() -> None:
    assert stats.fixed_interval([]) == (-math.inf, math.inf)


def test_noise_free_differences_give_a_point() -> None:
    assert stats.fixed_interval([0.07] * 9) == (0.07, 0.07)


def test_one_gross_outlier_in_nine_does_not_hide_a_gain() -> None:
    clean = [0.15, 0.2, 0.17, 0.22, 0.19, 0.18, 0.21, 0.16]
    low, high = stats.fixed_interval([*clean, -0.9])
    assert 0.1 < low < high < 0.25


@given(differences, st.sampled_from([0.8, 0.9, 0.95]))
def test_interval_is_what_the_test_does_not_refuse(values: list[float], confidence: float) -> None:
    low, high = stats.fixed_interval(values, confidence)
    threshold = stats.rank_threshold(len(values), (1 - confidence) / 2)
    assert low <= stats.hodges_lehmann(values) <= high or low == high
    if threshold is None:
        assert (low, high) == (-math.inf, math.inf)
        return
    means = [-math.inf, *stats.walsh(values), math.inf]
    for a, b in itertools.pairwise(means):
        if b - a < 1e-6 or math.isinf(a) or math.isinf(b):
            continue
        centre = (a + b) / 2
        assert (stats.rank_sum(values, centre) < threshold) == (centre > low)
        assert (stats.rank_sum([-v for v in values], -centre) < threshold) == (centre < high)


@given(differences, st.floats(-3, 3))
def test_interval_moves_and_mirrors_with_the_values(values: list[float], shift: float) -> None:
    low, high = stats.fixed_interval(values)
    assert stats.fixed_interval([-v for v in values]) == (-high, -low)
    if math.isfinite(low):
        moved = stats.fixed_interval([v + shift for v in values])
        assert moved == pytest.approx((low + 0.0 + shift, high + shift), abs=1e-6) or len(set(values)) < len(values)


def test_interval_covers_as_often_as_it_says() -> None:
    rng = random.Random(3)
    for n in (5, 8, 13):
        missed = 0
        for _ in range(1500):
            low, high = stats.fixed_interval([rng.gauss(0.1, 0.2) * rng.choice((1, 1, 1, 3)) for _ in range(n)])
            missed += not low <= 0.1 <= high
        assert missed / 1500 < 0.125  # the spoilt readings are not quite symmetric around 0.1


@pytest.mark.parametrize("level", [0.2, 0.1, 0.05])
def test_repeated_looks_keep_their_level_over_all_orders_and_signs(level: float) -> None:
    rounds = 6
    thresholds = stats.repeated_thresholds(level, rounds)
    crossed = total = 0
    for sizes in itertools.permutations(range(1, rounds + 1)):
        for signs in itertools.product((-1, 1), repeat=rounds):
            path = [size * sign for size, sign in zip(sizes, signs, strict=True)]
            total += 1
            crossed += any(
                threshold is not None and stats.rank_sum(path[:n], 0.0) >= threshold for n, threshold in enumerate(thresholds)
            )
    assert crossed / total <= level * 1.02
    assert crossed / total >= level / 4


@pytest.mark.parametrize(("level", "rounds"), [(0.05, 12), (0.0125, 20), (0.00625, 20), (0.05, 60)])
def test_repeated_looks_are_at_least_as_strict_as_single_ones(level: float, rounds: int) -> None:
    thresholds = stats.repeated_thresholds(level, rounds)
    assert len(thresholds) == rounds + 1
    assert thresholds[-1] is not None
    for n, threshold in enumerate(thresholds):
        if threshold is not None:
            assert stats.rank_tail(n, threshold) <= level


def test_location_is_not_moved_by_outliers() -> None:
    assert stats.hodges_lehmann([0.1, -5.0, 0.11]) == 0.1
    assert stats.hodges_lehmann([0.1, 0.12, 0.11, 0.09, -8.0]) == pytest.approx(0.1, abs=0.02)
    with pytest.raises(ValueError, match="nothing"):
        stats.hodges_lehmann([])


def test_pooled_noise_finds_the_spread_inside_groups() -> None:
    rng = random.Random(1)
    groups = [[centre + rng.gauss(0, 0.05) for _ in range(6)] for centre in range(40)]
    assert stats.pooled_noise(groups) == pytest.approx(0.05, rel=0.1)
    for group in groups[::3]:
        group[0] -= 1.0
    assert stats.pooled_noise(groups) == pytest.approx(0.05, rel=0.3)


def test_noise_of_single_readings_is_unknown() -> None:
    assert math.isnan(stats.pooled_noise([[1.0], [2.0], []]))
    assert stats.moderated_noise([1.0], 0.05) == 0.05
    assert stats.moderated_noise([1.0, 1.1, 1.2], math.nan) == pytest.approx(stats.pooled_noise([[1.0, 1.1, 1.2]]))


def test_moderated_noise_lies_between_its_own_and_the_pooled() -> None:
    values = [0.0, 0.4, 0.1, -0.3]
    assert 0.05 < stats.moderated_noise(values, 0.05) < stats.pooled_noise([values])
