"""Growth that is known is found, and what was extrapolated holds it."""

from __future__ import annotations

import random

import pytest

from runners.tcpstore.beside import Prediction, ladder
from runners.tcpstore.fit import Machine, largest
from runners.tcpstore.growth import grow
from runners.tcpstore.network import Descriptors

SIZES = (64, 128, 256, 512, 1024, 2048)


def noisy(formula, seed, spread=0.05):
    rng = random.Random(seed)
    return [(n, formula(n) * rng.lognormvariate(0, spread)) for n in SIZES for _ in range(2)]


def linear(n):
    return 30 + 0.3 * n


def squared(n):
    return 30 + 0.3 * n + 4e-4 * n * n


def test_growth_linear_is_not_taken_for_square():
    chosen = [grow(noisy(linear, seed)).square_chosen for seed in range(20)]
    assert sum(chosen) <= 4


def test_growth_square_is_found():
    assert all(grow(noisy(squared, seed)).square_chosen for seed in range(20))


@pytest.mark.parametrize("formula", [linear, squared])
def test_growth_interval_holds_the_truth(formula):
    held = 0
    for seed in range(30):
        growth = grow(noisy(formula, seed))
        low, high = growth.interval(8192)
        assert low <= growth.at(8192) <= high
        held += low <= formula(8192) <= high
    assert held >= 25


def test_growth_interval_widens_with_distance():
    growth = grow(noisy(squared, 3))
    widths = [high / low for low, high in (growth.interval(n) for n in (2048, 16384, 98304))]
    assert widths[0] < widths[1] < widths[2] * 1.001


def test_growth_never_falls():
    falling = [(n, 100 - 0.01 * n) for n in SIZES]
    growth = grow(falling)
    assert growth.at(98304) >= growth.at(64) > 0


def test_growth_too_few_sizes():
    assert grow([(64, 1.0), (64, 1.1), (128, 2.0), (256, 3.0)]) is None


def test_prediction_says_that_it_is_one():
    pair = grow(noisy(linear, 1)), grow(noisy(linear, 2))
    said = Prediction((98304,), {"libuv": pair}).sentences()
    assert "98304 ranks, extrapolated and not measured: libuv" in said[0]
    assert "from 64 to 2048 ranks on this one host" in said[1]
    assert "98304 ranks legacy init over 30 min" in said[1]


def test_a_size_within_the_measured_ones_is_not_called_extrapolated():
    said = Prediction((512, 4096), {"libuv": (grow(noisy(linear, 1)), grow(noisy(linear, 2)))}).sentences()
    assert "512 ranks, by the fit through what was measured: libuv" in said[0]
    assert "4096 ranks, extrapolated and not measured: libuv" in said[1]


def test_ladder_stays_on_the_machine():
    tight = largest(Machine(Descriptors(1024, 4096), 28000, 16 << 30, 30000, 2))
    assert ladder(64, tight)[0] == 992
    roomy = largest(Machine(Descriptors(20000, 20000), 28000, 16 << 30, 30000, 2))
    assert ladder(64, roomy) == [2048, 1024, 512, 256, 128, 64]
    assert ladder(8192, roomy)[0] == 8192
    assert ladder(64, 100, hosts=20) == [100, 50, 25]
