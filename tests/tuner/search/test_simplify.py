"""Knobs that the best setting can do without are set back, by readings and by nothing else."""

from __future__ import annotations

import math
import random

from runners.runner import Failure, Measurement, Objective
from spaces.space import Config, Knob, Space, integers
from tuner.search.simplify import simplified
from tuner.trial import Trial

OBJECTIVE = Objective("value", "")
BASELINE = {"a": 0, "b": 0}
SPACE = Space(
    (Knob("a", integers(0, 9), 0, "", "test"), Knob("b", integers(0, 9), 0, "", "test")),
    cost=lambda c: float(int(c["a"]) + int(c["b"])),
)


def reading(config: Config, seed: float = 0.0) -> Trial:
    """Only ``a`` matters."""
    value = math.exp(0.1 * int(config["a"]) + seed)
    return Trial(config, Measurement({"value": value}, (value,), 1.0), "search")


def known() -> list[Trial]:
    rng = random.Random(0)
    drawn = [c for c in SPACE.configs() if int(c["b"]) > 0][::3]
    # Readings twice of each: what noise there is is known.
    return [reading(c, rng.gauss(0, 0.02)) for c in drawn for _ in range(2)]


def test_a_knob_that_is_worth_nothing_goes_and_one_that_is_stays() -> None:
    history = known()
    asked: list[Config] = []

    def measure(config: Config) -> bool:
        asked.append(config)
        history.append(reading(config))
        return True

    found = simplified(SPACE, history, OBJECTIVE, BASELINE, measure)
    assert found is not None
    assert found["b"] == 0
    assert int(found["a"]) >= 8
    assert asked


def test_without_a_reading_nothing_is_set_back() -> None:
    history = known()
    assert simplified(SPACE, history, OBJECTIVE, BASELINE, lambda _config: False) is None


def test_a_simpler_setting_that_fails_is_none() -> None:
    history = known()

    def measure(config: Config) -> bool:
        history.append(Trial(config, Failure("crash", "died"), "search"))
        return True

    assert simplified(SPACE, history, OBJECTIVE, BASELINE, measure) is None


def test_nothing_measured_nothing_simplified() -> None:
    assert simplified(SPACE, [], OBJECTIVE, BASELINE, lambda _config: True) is None
