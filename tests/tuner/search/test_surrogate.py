from __future__ import annotations

import math
import random

import numpy as np
import pytest

from runners.runner import FailureKind
from spaces.space import Config, Knob, Space, choice, flag, integers, log2
from tuner.search.encoding import Encoding
from tuner.search.gaussian import GaussianProcess
from tuner.search.known import Setting
from tuner.search.surrogate import PLAIN, Belief, Model, View, floored

SPACE = Space(
    (
        Knob("a", log2(1, 256), 1, "", "test"),
        Knob("b", integers(0, 4), 0, "", "test"),
        Knob("c", choice("x", "y", "z"), "x", "", "test"),
        Knob("d", flag(), False, "", "test"),
        Knob("pinned", log2(4, 4), 4, "", "test"),
    )
)


def setting(config: Config, *scores: float, failed: FailureKind | None = None) -> Setting:
    known = Setting(config, SPACE.key(config), list(scores))
    if failed:
        known.failures[failed] += 1
    return known


def test_ends_of_a_knob_and_two_choices_are_at_distance_one() -> None:
    encoding = Encoding(SPACE)
    base: Config = {"a": 1, "b": 0, "c": "x", "d": False, "pinned": 4}
    rows = encoding.rows([base, {**base, "a": 256}, {**base, "b": 4}, {**base, "c": "z"}, {**base, "d": True}])
    assert [float(np.linalg.norm(row - rows[0])) for row in rows] == pytest.approx([0, 1, 1, 1, 1])
    assert [c.stop - c.start for c in encoding.columns] == [1, 1, 3, 1]


def test_values_outside_a_narrowed_domain_keep_their_place() -> None:
    narrow = SPACE.narrow({"a": "16:64", "c": "y,z"})
    rows = Encoding(narrow).rows([SPACE.default, {**SPACE.default, "a": 64, "c": "y"}])
    assert rows[0][0] == -2.0
    assert list(rows[0][2:4]) == [0.0, 0.0]
    assert rows[1][0] == 1.0


def test_a_space_without_freedom_has_a_row() -> None:
    space = Space((Knob("p", log2(4, 4), 4, "", "test"),))
    assert Encoding(space).rows([{"p": 4}]).shape == (1, 1)


def truth(config: Config) -> float:
    return -((math.log2(int(config["a"])) - 5) ** 2) / 10 + 0.4 * (config["c"] == "y")


def known(count: int, noise: float = 0.02, seed: int = 0) -> list[Setting]:
    rng = random.Random(seed)
    return [setting(c, truth(c) + rng.gauss(0, noise)) for c in rng.sample(SPACE.configs(), count)]


@pytest.mark.parametrize("view", [PLAIN, View(length=0.5), View(length=0, trees=True), View(trees=True)])
def test_the_model_ranks_what_it_has_not_seen(view: View) -> None:
    measured = known(40)
    seen = {s.key for s in measured}
    rest = [c for c in SPACE.configs() if SPACE.key(c) not in seen]
    mean = Model(Encoding(SPACE), measured, 0, view).belief(rest).mean
    correlation = np.corrcoef(np.argsort(np.argsort(mean)), np.argsort(np.argsort([truth(c) for c in rest])))[0, 1]
    assert correlation > 0.8


def test_doubt_is_small_where_it_was_measured() -> None:
    measured = known(30)
    model = Model(Encoding(SPACE), measured, 0)
    near = model.belief([s.config for s in measured]).deviation
    every = model.belief(SPACE.configs()).deviation
    assert np.median(near) < np.median(every)


def test_repeats_weigh_more_than_one_reading() -> None:
    base: Config = {"a": 16, "b": 2, "c": "x", "d": False, "pinned": 4}
    others = known(20)
    lucky = setting(base, truth(base) + 0.5)
    proven = setting(base, *[truth(base) + 0.5 + 0.02 * n for n in (-1, 1, 0, -1, 1, 0, 1)])
    means = [Model(Encoding(SPACE), [*others, s], 0).belief([base]).mean[0] for s in (lucky, proven)]
    assert means[1] > means[0]


def test_feasibility_is_learnt() -> None:
    rng = random.Random(1)
    configs = rng.sample(SPACE.configs(), 40)
    measured = [setting(c, failed="infeasible") if c["c"] == "z" else setting(c, 0.0) for c in configs]
    feasible = Model(Encoding(SPACE), measured, 0).belief(SPACE.configs()).feasible
    by_choice = {v: np.mean([f for f, c in zip(feasible, SPACE.configs(), strict=True) if c["c"] == v]) for v in "xyz"}
    assert by_choice["z"] < 0.1 < 0.9 < by_choice["x"]


def test_nothing_is_expected_of_what_most_likely_cannot_run() -> None:
    belief = Belief(np.array([0.0, 0.0]), np.array([1.0, 1.0]), np.array([0.05, 0.5]))
    gain = belief.improvement(0.0)
    assert gain[0] == 0
    assert gain[1] == pytest.approx(0.5 / math.sqrt(2 * math.pi))


def test_all_failed_or_one_measured_gives_a_belief() -> None:
    config = SPACE.default
    for measured in ([setting(config, failed="timeout")], [setting(config, 1.0)], []):
        belief = Model(Encoding(SPACE), measured, 0).belief(SPACE.configs())
        assert np.isfinite(belief.mean).all()
        assert (belief.feasible >= 0).all()


def test_equal_scores_and_equal_rows_do_no_harm() -> None:
    rows = np.zeros((6, 2))
    process = GaussianProcess(rows, [slice(0, 1), slice(1, 2)], np.ones(6), np.ones(6), 1.5, 0.05, 3)
    mean, deviation = process.predict(np.ones((2, 2)))
    assert mean == pytest.approx([1.0, 1.0])
    assert np.isfinite(deviation).all()


def test_many_settings_are_bounded() -> None:
    space = Space(tuple(Knob(f"k{i}", integers(0, 9), 0, "", "test") for i in range(3)))
    rng = random.Random(0)
    measured = [Setting(c, space.key(c), [rng.gauss(0, 1)]) for c in rng.sample(space.configs(), 900)]
    belief = Model(Encoding(space), measured, 0).belief(space.configs())
    assert np.isfinite(belief.mean).all()


def test_an_outlier_is_pulled_in_and_good_scores_stay() -> None:
    scores = np.array([0.0, 0.1, 0.2, 0.1, 0.0, -9.0])
    assert floored(scores).min() > -1
    assert floored(scores)[:5] == pytest.approx(scores[:5])
