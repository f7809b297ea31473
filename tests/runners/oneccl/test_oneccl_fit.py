"""Latency and bandwidth: found again from times that have them, and carried to more nodes by the algorithm's own steps."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.oneccl.fit import MODELS, Prediction, fit, predict_nodes
from spaces.oneccl import ALGORITHMS

SIZES = (1 << 10, 16 << 10, 64 << 10, 1 << 20, 4 << 20)


def line(latency: float, per_byte: float, noise: float = 0.0, seed: int = 0) -> list[tuple[int, float]]:
    rng = random.Random(seed)
    return [(size, (latency + per_byte * size) * (1 + rng.uniform(-noise, noise))) for size in SIZES for _ in range(3)]


@settings(deadline=None)
@given(st.floats(1e-6, 1e-2), st.floats(1e-11, 1e-7))
def test_found_again(latency: float, per_byte: float) -> None:
    found = fit(line(latency, per_byte), "ring", "allreduce", 2)
    assert found is not None
    assert found.at(1 << 10) == pytest.approx(latency + per_byte * 1024, rel=1e-6)
    assert found.at(4 << 20) == pytest.approx(latency + per_byte * (4 << 20), rel=1e-6)
    assert found.error < 1e-6


def test_noise_is_in_the_intervals() -> None:
    held = 0
    for seed in range(20):
        found = fit(line(20e-6, 1e-9, 0.2, seed), "ring", "allreduce", 2)
        assert found is not None
        low, high = found.latency_interval
        assert low <= found.latency <= high
        slow, fast = found.bandwidth_interval
        assert fast is not None
        assert found.bandwidth is not None
        assert slow <= found.bandwidth <= fast
        held += low <= 20e-6 <= high
        inside = found.interval(1 << 20)
        assert inside[0] <= found.at(1 << 20) <= inside[1]
    assert held >= 14  # 18 are expected; fewer than 14 would be one in hundreds


def test_small_sizes_count_as_much_as_large_ones() -> None:
    points = [*line(10e-6, 1e-9), (16 << 20, 0.020)]  # the large one is off by 19 %
    found = fit(points, "ring", "allreduce", 2)
    assert found is not None
    assert found.latency == pytest.approx(10e-6, rel=0.05)


def test_nothing_is_negative() -> None:
    falling = fit([(1024, 3e-3), (65536, 2e-3), (1 << 20, 1e-3)], "ring", "allreduce", 2)
    assert falling is not None
    assert falling.per_byte == 0
    assert falling.bandwidth is None
    assert falling.latency > 0


@pytest.mark.parametrize("points", [[], [(1024, 1e-5)], [(1024, 1e-5), (2048, 1e-5)], [(1024, 0.0)] * 3, [(1, math.inf)] * 3])
def test_too_little_is_no_fit(points: list[tuple[int, float]]) -> None:
    assert fit(points, "ring", "allreduce", 2) is None


def test_models_at_two_ranks_and_powers() -> None:
    models = MODELS["allreduce"]
    assert {name: model(2) for name, model in models.items() if name != "double_tree"} == {
        "ring": (2, 1.0),
        "nreduce": (2, 1.0),
        "rabenseifner": (2, 1.0),
        "recursive_doubling": (1, 1),
        "2d": (2, 1.0),
    }
    assert models["ring"](8) == (14, 14 / 8)
    assert models["recursive_doubling"](8) == (3, 3)
    assert models["recursive_doubling"](12) == (5, 5)
    assert models["rabenseifner"](8) == (6, 14 / 8)
    assert models["2d"](12) == (2 * 2 + 2 * 3, 2 * 2 / 3 + 2 * 3 / 12)
    assert MODELS["allgather"]["ring"](8) == (7, 7)


@pytest.mark.parametrize(("collective", "algorithm"), [(c, a) for c, models in MODELS.items() for a in models])
def test_models_grow_with_ranks(collective: str, algorithm: str) -> None:
    assert algorithm in ALGORITHMS[collective]
    model = MODELS[collective][algorithm]
    powers = [model(1 << power) for power in range(1, 12)]
    assert powers == sorted(powers)
    assert all(steps > 0 and moved > 0 for ranks in range(2, 200) for steps, moved in [model(ranks)])


def test_prediction_is_the_model_s_and_marked() -> None:
    found = fit(line(20e-6, 1e-9), "ring", "allreduce", 4)
    assert found is not None
    carried = predict_nodes(found, 64, 2, 4 << 20, 2)
    assert isinstance(carried, Prediction)
    ratio = (2 * 127) / (2 * 3), (2 * 127 / 128) / (2 * 3 / 4)
    assert carried.seconds == pytest.approx(20e-6 * ratio[0] + 1e-9 * (4 << 20) * ratio[1], rel=1e-6)
    assert carried.low <= carried.seconds <= carried.high
    assert carried.ranks == 128
    assert "allreduce ring of 4M on 64 nodes (128 ranks): about " in carried.sentence
    assert "extrapolated from 2 nodes" in carried.sentence
    assert carried.sentence.endswith("not measured")


def test_noise_widens_a_prediction() -> None:
    spans = []
    for noise in (0.02, 0.3):
        found = fit(line(20e-6, 1e-9, noise), "recursive_doubling", "allreduce", 2)
        assert found is not None
        carried = predict_nodes(found, 16, 1, 65536, 2)
        assert isinstance(carried, Prediction)
        spans.append(carried.high / carried.low)
    assert 1 < spans[0] < spans[1]


@pytest.mark.parametrize(
    ("algorithm", "nodes", "measured", "said"),
    [
        ("ring", 16, 1, "on one host no network was measured"),
        ("direct", 16, 2, "MPI chooses its steps"),
        ("default", 16, 2, "oneCCL chooses its steps"),
        ("ring", 2, 4, "no prediction for 2 nodes: 4 were measured"),
    ],
)
def test_what_can_t_be_predicted_is_said(algorithm: str, nodes: int, measured: int, said: str) -> None:
    found = fit(line(20e-6, 1e-9), algorithm, "allreduce", 4)
    assert found is not None
    carried = predict_nodes(found, nodes, 1, 1024, measured)
    assert isinstance(carried, str)
    assert said in carried
