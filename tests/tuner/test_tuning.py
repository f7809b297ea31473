"""The loop against known truth: answers, budgets, failures, drift, kills and resumes."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.synthetic import SPACE, Clock, Synthetic, flat, hill

from runners.runner import Failure, Outcome
from spaces.space import Config
from tuner.budget import Budget, Limits
from tuner.errors import BudgetTooSmall, Interrupted, NotUsable
from tuner.recommendation import Recommendation
from tuner.search.strategy import default_strategy
from tuner.storage import Storage
from tuner.study import Header, Study
from tuner.tuning import Tuning

GENEROUS = Limits(seconds=None, trials=90, bytes_written=None)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with Storage(str(tmp_path / "s.db")) as opened:
        yield opened


def new(storage: Storage, runner: Synthetic, name: str = "s") -> Study:
    header = Header("aio", SPACE.fingerprint, runner.objective, SPACE.default, {}, {}, {}, {"host": "here"}, 0.0)
    return storage.create(name, header)


def tuning(study: Study, runner: Synthetic, limits: Limits = GENEROUS, seed: int = 0) -> Tuning:
    history = study.trials(SPACE)
    budget = Budget(limits, clock=runner.clock, seconds_before=study.elapsed(), trials=len(history))
    strategy = default_strategy(runner.objective)
    return Tuning(runner, study, strategy, budget, SPACE.default, random.Random(seed))


def run(storage: Storage, runner: Synthetic, limits: Limits = GENEROUS, seed: int = 0) -> Recommendation:
    return tuning(new(storage, runner, f"s{seed}"), runner, limits, seed).run()


def test_a_better_setting_is_found_proven_and_honestly_stated(storage: Storage) -> None:
    for seed in range(3):
        answer = run(storage, Synthetic(seed=seed), seed=seed)
        assert answer.decision == "adopt"
        assert answer.gain is not None
        assert 1 < answer.gain.low <= answer.gain.ratio <= answer.gain.high
        true_gain = hill(answer.config) / hill(SPACE.default)
        assert hill(answer.config) > 0.93 * 4.0 * 1.02
        assert answer.gain.low * 0.97 < true_gain < answer.gain.high * 1.03
        assert answer.trials <= 90


def test_nothing_to_gain_keeps_the_baseline(storage: Storage) -> None:
    answers = [run(storage, Synthetic(truth=flat, seed=seed), seed=seed) for seed in range(4)]
    assert [a.decision for a in answers] == ["keep"] * 4
    assert all(a.config == SPACE.default for a in answers)


def test_every_measurement_is_in_the_record(storage: Storage) -> None:
    runner = Synthetic()
    study = new(storage, runner)
    tuning(study, runner).run()
    trials = study.trials(SPACE)
    assert [t.config for t in trials] == runner.measured
    assert {t.phase for t in trials} == {"warmup", "baseline", "search", "race"}
    searched = [SPACE.key(t.config) for t in trials if t.phase == "search"]
    assert len(searched) == len(set(searched)), "a setting is searched once"


def test_the_baseline_is_measured_again_and_again(storage: Storage) -> None:
    runner = Synthetic()
    study = new(storage, runner)
    tuning(study, runner).run()
    before_race = [t.config for t in study.trials(SPACE) if t.phase != "race"]
    gaps = [len(list(group)) for same, group in itertools.groupby(c == SPACE.default for c in before_race) if not same]
    assert max(gaps) <= 6


@pytest.mark.parametrize("limits", [Limits(40, None, None), Limits(None, 40, None), Limits(None, None, 44 << 20)])
def test_each_budget_is_kept_and_used(storage: Storage, limits: Limits) -> None:
    runner = Synthetic()
    answer = run(storage, runner, limits)
    assert 20 <= answer.trials <= 40
    assert runner.clock.now <= 44
    assert answer.bytes_written <= 48 << 20


def test_what_ended_the_search_is_told_apart_from_what_the_race_may_use(storage: Storage) -> None:
    answer = run(storage, Synthetic(), Limits(None, 40, None))
    assert answer.evidence["stopped"] == "the measurements are used up (--trials 40), the race's share apart"


def test_a_budget_too_small_says_what_would_do(storage: Storage) -> None:
    with pytest.raises(BudgetTooSmall, match="at least") as caught:
        run(storage, Synthetic(), Limits(None, 5, None))
    assert "--trials 18 or more" in caught.value.mend
    with pytest.raises(BudgetTooSmall, match="at least") as caught:
        run(storage, Synthetic(), Limits(8, None, None), seed=1)
    assert "tune resume" in caught.value.mend


def no_threads(config: Config, _count: int) -> Failure | None:
    return Failure("infeasible", "no threads here") if int(config["threads"]) > 2 else None


def test_failures_teach(storage: Storage) -> None:
    runner = Synthetic(planted=no_threads)
    answer = run(storage, runner)
    assert answer.decision == "adopt"
    assert int(answer.config["threads"]) <= 2
    failed = sum(int(str(m["threads"])) > 2 for m in runner.measured)
    assert failed < 0.35 * len(runner.measured), "half of the space is infeasible, far fewer proposals are"
    assert answer.failures == {"infeasible": failed}


def test_a_crash_is_tried_once_more_and_wrong_is_never_recommended(storage: Storage) -> None:
    best = {"block_size": 2 << 20, "queue_depth": 32, "threads": 4}

    def planted(config: Config, count: int) -> Failure | None:
        if all(config[name] == value for name, value in best.items()):
            return Failure("wrong", "3 of 9 sectors are wrong")
        return Failure("crash", "died") if int(config["queue_depth"]) == 256 else None

    runner = Synthetic(planted=planted)
    answer = run(storage, runner)
    assert any(answer.config[name] != value for name, value in best.items())
    deep = [SPACE.key(m) for m in runner.measured if m["queue_depth"] == 256]  # type: ignore[arg-type]
    assert all(deep.count(key) == 2 for key in deep)
    if "wrong" in answer.failures:
        assert any("data were wrong" in warning for warning in answer.warnings)


def test_an_environment_failure_ends_the_run_and_the_study_goes_on(storage: Storage) -> None:
    full = Synthetic(planted=lambda _c, count: Failure("environment", "the disk is full") if count == 20 else None)
    study = new(storage, full)
    with pytest.raises(NotUsable, match="disk is full"):
        tuning(study, full).run()
    answer = tuning(study, Synthetic()).run()
    assert answer.decision == "adopt"
    assert answer.failures == {"environment": 1}


def test_when_everything_fails_the_run_ends_soon(storage: Storage) -> None:
    runner = Synthetic(planted=lambda _c, _n: Failure("timeout", "hangs"))
    with pytest.raises(NotUsable, match=r"baseline itself can't be measured here .timeout: hangs"):
        run(storage, runner)
    assert len(runner.measured) <= 6


@pytest.mark.parametrize("kill_at", [0, 1, 2, 10, 35])
def test_interrupted_anywhere_nothing_finished_is_lost(storage: Storage, kill_at: int) -> None:
    def interrupt(count: int) -> None:
        if count == kill_at:
            raise KeyboardInterrupt

    runner = Synthetic(before=interrupt)
    study = new(storage, runner)
    with pytest.raises(Interrupted, match=f"{kill_at} measurements"):
        tuning(study, runner).run()
    assert len(study.trials(SPACE)) == kill_at
    goes_on = Synthetic(seed=1)
    answer = tuning(study, goes_on, seed=1).run()
    assert len(goes_on.measured) <= 91 - kill_at, "it did not start again"
    assert answer.decision == "adopt"
    assert answer.trials <= 91


def test_a_race_goes_on_where_it_was_cut_off(storage: Storage) -> None:
    racing = 0

    def cut(count: int) -> None:
        nonlocal racing
        trials = study.trials(SPACE)
        racing = sum(t.phase == "race" for t in trials)
        if racing == 7:
            raise KeyboardInterrupt

    runner = Synthetic(before=cut)
    study = new(storage, runner)
    with pytest.raises(Interrupted):
        tuning(study, runner).run()
    searched = [t for t in study.trials(SPACE) if t.phase == "search"]
    answer = tuning(study, Synthetic(seed=5)).run()
    after = [t for t in study.trials(SPACE) if t.phase == "search"]
    assert len(after) == len(searched), "the search was over"
    assert answer.decision == "adopt"


def test_drift_does_not_decide(storage: Storage) -> None:
    """A machine that slows down to a third over the run: the gain is still told, since it is pairwise."""
    for seed in range(3):
        clock = Clock()
        runner = Synthetic(clock=clock, seed=seed)
        runner.truth = lambda config, clock=clock: hill(config) * math.exp(-clock.now / 100)
        answer = run(storage, runner, seed=seed)
        assert answer.decision == "adopt"
        assert answer.gain is not None
        assert answer.gain.low * 0.95 < hill(answer.config) / hill(SPACE.default) < answer.gain.high * 1.05


def test_the_same_seed_makes_the_same_run(storage: Storage) -> None:
    first, second = Synthetic(), Synthetic()
    tuning(new(storage, first, "a"), first).run()
    tuning(new(storage, second, "b"), second).run()
    assert first.measured == second.measured


def test_figures_of_the_answer_come_from_the_race(storage: Storage) -> None:
    runner = Synthetic(noise=0.0)
    answer = run(storage, runner)
    assert answer.metrics["effective_gbs"] == pytest.approx(hill(answer.config), rel=1e-3)
    assert answer.baseline_metrics["effective_gbs"] == pytest.approx(hill(SPACE.default), rel=1e-3)


def test_a_limit_on_bytes_is_checked_before_anything_is_written(storage: Storage) -> None:
    runner = Synthetic(written=100 << 20)
    with pytest.raises(BudgetTooSmall, match="nothing was written") as caught:
        run(storage, runner, Limits(None, None, 500 << 20))
    assert "--max-write 2200M" in caught.value.mend
    assert not runner.measured
    assert run(storage, Synthetic(written=100 << 20), Limits(None, None, 2300 << 20), seed=1).bytes_written <= 2300 << 20


def test_a_resumed_study_without_budget_says_so_instead_of_keep(storage: Storage) -> None:
    study = new(storage, Synthetic())
    for _ in range(2):
        with pytest.raises(BudgetTooSmall, match="an answer takes at least"):
            tuning(study, Synthetic(), Limits(9, None, None)).run()
    assert study.recommendation() is None


def test_a_race_cut_off_before_a_proof_was_possible_is_no_answer(storage: Storage) -> None:
    clock = Clock()
    runner = Synthetic(clock=clock)
    study = new(storage, runner)

    def slow_race(_count: int) -> None:
        if any(t.phase == "race" for t in study.trials(SPACE)):
            clock.now += 30

    runner.before = slow_race
    with pytest.raises(BudgetTooSmall, match="rounds of the race"):
        tuning(study, runner, Limits(90, None, None)).run()
    runner.before = lambda _count: None
    assert tuning(study, runner, Limits(400, None, None)).run().decision == "adopt"


@pytest.mark.parametrize("cut", [None, 19])
def test_a_race_that_falls_behind_goes_on_with_fewer_so_that_a_proof_is_left(storage: Storage, cut: int | None) -> None:
    """A measurement takes twice as long once the race runs; a race that is cut off goes on as it was thinned."""
    runner = Synthetic()
    study = new(storage, runner)
    cuts = [cut]

    def slow_race(_count: int) -> None:
        racing = sum(t.phase == "race" for t in study.trials(SPACE))
        runner.seconds = 2.0 if racing else 1.0
        if racing and racing in cuts:
            cuts.remove(racing)
            raise KeyboardInterrupt

    runner.before = slow_race
    if cut:
        with pytest.raises(Interrupted):
            tuning(study, runner, Limits(90, None, None)).run()
    # What was cut off, and preparing anew, take time too.
    assert tuning(study, runner, Limits(100 if cut else 90, None, None)).run().decision == "adopt"
    raced = Counter(t.round for t in study.trials(SPACE) if t.phase == "race")
    assert max(raced.values()) > 3 > min(raced.values())
    assert isinstance(note := study.noted("race"), dict)
    assert note["thinned"]


@pytest.mark.parametrize("limits", [Limits(300, 30, None), Limits(300, None, 50 << 20), Limits(60, 60, None)])
def test_cheap_repeats_leave_room_for_a_search_under_every_limit(storage: Storage, limits: Limits) -> None:
    """Where jobs stay the race is worth more measurements; never all of those that may be made."""
    space = replace(SPACE, live=frozenset({"eager"}), warm=6)
    answer = run(storage, Synthetic(space=space), limits)
    trials = storage.open("s0").trials(SPACE)
    assert sum(t.phase == "search" for t in trials) >= 12
    assert sum(t.phase == "race" for t in trials) >= 10
    assert answer.decision == "adopt"


class SlowBaseline(Synthetic):
    """A fixed amount of work: what is slow also takes long to measure."""

    def measure(self, config: Config, limit: float) -> Outcome:
        self.seconds = 6.0 if config == SPACE.default else 1.0
        return super().measure(config, limit)


def test_time_is_kept_for_a_race_against_a_slow_baseline(storage: Storage) -> None:
    for seed in range(4):
        answer = run(storage, SlowBaseline(seed=seed), Limits(140, None, None), seed=seed)
        assert answer.decision == "adopt"


def test_a_baseline_that_took_all_the_time_needs_more_of_it(storage: Storage) -> None:
    """A limit that the budget cut short says nothing about the setting; with more time the same study gives an answer."""
    clock = Clock()

    def slow(_config: object, _count: int) -> Failure:
        clock.now += 30
        return Failure("timeout", "reading was not done")

    study = new(storage, Synthetic())
    with pytest.raises(
        BudgetTooSmall, match=r"could not be measured once, and the time is used up \(--time 1m20s\): reading"
    ) as caught:
        tuning(study, Synthetic(planted=slow, clock=clock), Limits(80, None, None)).run()
    assert "tune resume" in caught.value.mend
    assert tuning(study, Synthetic()).run().decision == "adopt"
