"""A baseline that nothing can beat: the runner knows why, and the search is spared."""

import random
from pathlib import Path

import pytest
from support.synthetic import SPACE, Synthetic

from runners.runner import Measurement, Outcome
from spaces.space import Config
from tuner.budget import Budget, Limits
from tuner.recommendation import Recommendation
from tuner.search.strategy import default_strategy
from tuner.storage import Storage
from tuner.study import Header
from tuner.tuning import Tuning

WHY = "not storage-bound: the accelerators compute 99.2 % of the time where 90 % is asked for"


class Saturated(Synthetic):
    """Says at some of the baseline's readings (warm-up, first, second, ...) that nothing can be faster."""

    says: tuple[bool, ...] = (True, True, True)

    def measure(self, config: Config, limit: float) -> Outcome:
        number = len(self.measured)
        outcome = super().measure(config, limit)
        assert isinstance(outcome, Measurement)
        say = number < len(self.says) and self.says[number]
        evidence = {"keep": WHY} if say else {}
        return Measurement(outcome.metrics, outcome.samples, outcome.seconds, outcome.bytes_written, evidence)


def run(tmp_path: Path, runner: Synthetic) -> Recommendation:
    with Storage(str(tmp_path / "s.db")) as storage:
        header = Header("aio", SPACE.fingerprint, runner.objective, SPACE.default, {}, {}, {}, {"host": "here"}, 0.0)
        study = storage.create("s", header)
        budget = Budget(Limits(seconds=None, trials=90, bytes_written=None), clock=runner.clock, seconds_before=0, trials=0)
        return Tuning(runner, study, default_strategy(runner.objective), budget, SPACE.default, random.Random(0)).run()


def test_a_baseline_that_nothing_can_beat_is_kept_after_its_own_readings(tmp_path: Path) -> None:
    runner = Saturated()
    answer = run(tmp_path, runner)
    assert answer.decision == "keep"
    assert answer.config == SPACE.default
    assert answer.reason == WHY
    assert answer.trials == 3
    assert answer.evidence["stopped"] == WHY


@pytest.mark.parametrize("says", [(True, True, False), (True, False, True), (False, False, False)])
def test_readings_that_disagree_end_nothing(tmp_path: Path, says: tuple[bool, ...]) -> None:
    runner = Saturated()
    runner.says = says
    answer = run(tmp_path, runner)
    assert answer.trials > 10
    assert answer.reason != WHY
