from __future__ import annotations

import math
import random

import pytest

from runners.runner import Failure, Measurement, Objective, Outcome
from spaces import aio
from spaces.space import Config, Knob, Space, choice, flag, integers, log2
from tuner.compare.opponents import OPPONENTS, ds_nvme_tune_order, opponent
from tuner.trial import Trial

OBJECTIVE = Objective("value", "")
SPACE = Space(
    (
        Knob("a", log2(1, 64), 1, "", "test"),
        Knob("b", integers(0, 5), 0, "", "test"),
        Knob("c", choice("x", "y", "z"), "x", "", "test"),
        Knob("d", flag(), False, "", "test"),
    )
)


def measure(config: Config) -> Outcome:
    if config["c"] == "z":
        return Failure("infeasible", "")
    value = math.exp(-((math.log2(int(config["a"])) - 4) ** 2) / 10 - (int(config["b"]) - 3) ** 2 / 8)
    return Measurement({"value": value}, (value,), 1.0)


def searched(name: str, space: Space, count: int, first: list[Config] | None = None) -> list[Trial]:
    strategy, rng = opponent(name, OBJECTIVE, first or []), random.Random(3)
    history = [Trial(space.default, measure(space.default), "baseline")]
    for _ in range(count):
        config = strategy.propose(space, history, rng)
        if config is None:
            break
        history.append(Trial(config, measure(config), "search"))
    return history


@pytest.mark.parametrize("name", OPPONENTS)
def test_legal_and_never_twice(name: str) -> None:
    # Optuna's GP starts with ten random ones and takes long from then on.
    history = searched(name, SPACE, 14 if name == "gp" else 25)
    assert all(SPACE.legal(t.config) and SPACE.contains(t.config) for t in history)
    assert len({SPACE.key(t.config) for t in history}) == len(history)


@pytest.mark.parametrize("name", ["random", "grid", "descent", "tpe"])
def test_a_small_space_is_exhausted(name: str) -> None:
    space = Space((SPACE["a"], SPACE["d"], Knob("b", integers(3, 3), 3, "", "test"), Knob("c", choice("x"), "x", "", "test")))
    assert len(searched(name, space, 40)) == 14


@pytest.mark.parametrize("name", ["random", "descent", "tpe"])
def test_given_settings_come_first(name: str) -> None:
    first: list[Config] = [{"a": 8, "b": 1, "c": "y", "d": True}, {"a": 2, "b": 2, "c": "x", "d": False}]
    assert [t.config for t in searched(name, SPACE, 3, first)[1:3]] == first


@pytest.mark.parametrize("name", ["descent", "tpe"])
def test_those_that_learn_climb(name: str) -> None:
    values = [t.outcome.metrics["value"] for t in searched(name, SPACE, 30) if isinstance(t.outcome, Measurement)]
    assert max(values) > 0.85


def test_the_order_of_ds_nvme_tune() -> None:
    order = ds_nvme_tune_order()
    assert len(order) == 64
    assert all(aio.SPACE.contains(config) for config in order)
    assert [c["intra_op_parallelism"] for c in order[:5]] == [1, 2, 4, 8, 1]
    assert [c["block_size"] for c in order] == [1 << 20] * 32 + [8 << 20] * 32
    history: list[Trial] = []
    grid, rng = opponent("grid", OBJECTIVE, order), random.Random(0)
    while (config := grid.propose(aio.SPACE, history, rng)) is not None:
        history.append(Trial(config, Measurement({"value": 1.0}, (1.0,), 1.0), "search"))
    assert [t.config for t in history] == order


def test_an_unknown_name() -> None:
    with pytest.raises(ValueError, match="none of random, grid"):
        opponent("annealing", OBJECTIVE)
