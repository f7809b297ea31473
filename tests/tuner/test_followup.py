from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.synthetic import SPACE, Synthetic, hill

from spaces.space import Config
from tuner.budget import Budget, Limits
from tuner.followup import explain, finished
from tuner.recommendation import Recommendation
from tuner.reporter import Reporter
from tuner.search.flips import flips, simpler
from tuner.search.strategy import default_strategy
from tuner.storage import Storage
from tuner.study import Header, Study
from tuner.tuning import Tuning


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with Storage(str(tmp_path / "s.db")) as opened:
        yield opened


def tuned(storage: Storage, runner: Synthetic, seed: int = 0) -> tuple[Study, Recommendation]:
    header = Header("aio", SPACE.fingerprint, runner.objective, SPACE.default, {}, {}, {}, {"host": "here"}, 0.0)
    study = storage.create(f"s{seed}", header)
    budget = Budget(Limits(seconds=None, trials=90, bytes_written=None), clock=runner.clock)
    strategy = default_strategy(runner.objective)
    return study, Tuning(runner, study, strategy, budget, SPACE.default, random.Random(seed)).run()


def test_flips_set_one_knob_back_each_and_simpler_ones_cost_less() -> None:
    config: Config = {"block_size": 2 << 20, "queue_depth": 4, "threads": 4, "eager": False}
    found = flips(SPACE, config, SPACE.default)
    assert found["threads"] == {**config, "threads": 1}
    assert set(found) == {"block_size", "queue_depth", "threads"}
    assert simpler(SPACE, config, SPACE.default) == {name: found[name] for name in ("block_size", "threads")}
    assert flips(SPACE, SPACE.default, SPACE.default) == {}


@pytest.mark.parametrize("seed", range(3))
def test_an_answer_changes_nothing_without_a_reason(storage: Storage, seed: int) -> None:
    def only_the_depth_counts(config: Config) -> float:
        return 4.0 if int(config["queue_depth"]) >= 32 else 2.0

    runner = Synthetic(truth=only_the_depth_counts, noise=0.01, seed=seed)
    _, answer = tuned(storage, runner, seed)
    assert answer.decision == "adopt"
    assert int(answer.config["queue_depth"]) >= 32
    # The model's best of settings that are all alike is any of them; what it needs not is set back.
    assert SPACE.cost(answer.config) <= 8 * SPACE.cost({**SPACE.default, "queue_depth": 32})
    assert answer.config["threads"] == 1 or int(answer.config["block_size"]) < SPACE.default["block_size"]


def test_what_explain_finds_is_kept_for_the_files(storage: Storage) -> None:
    runner = Synthetic(noise=0.01)
    study, answer = tuned(storage, runner)
    assert "gains" not in finished(study).evidence
    found = explain(study, runner, 8, Reporter(), random.Random(0))
    gains = finished(study).evidence["gains"]
    assert isinstance(gains, dict)
    assert set(gains) == {flip.knob for flip in found}
    flip = found[0]
    assert flip.comparison.gain is not None
    true_gain = hill(answer.config) / hill({**answer.config, flip.knob: SPACE.default[flip.knob]})
    assert flip.comparison.gain.ratio == pytest.approx(true_gain, rel=0.05)
    assert gains[flip.knob] == {
        "ratio": flip.comparison.gain.ratio,
        "low": flip.comparison.gain.low,
        "high": flip.comparison.gain.high,
    }
