"""Contests over a known surface: who takes part, what is kept, and that the race tells the truth about everybody."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.synthetic import SPACE, Synthetic, flat, hill

from runners.opponent import Allowance, Pasted, Pick
from runners.runner import EnvironmentProblem, Failure, Measurement, Objective, Problem
from spaces.space import Config
from tuner import targets
from tuner.budget import Budget, Limits
from tuner.cli import comparing
from tuner.compare import compare, opponents
from tuner.compare import report as compare_report
from tuner.compare.contest import Contest
from tuner.compare.result import Result, Terms, as_printed, plain
from tuner.compare.standings import race
from tuner.errors import Interrupted, NotUsable, WrongUsage
from tuner.recommendation import Recommendation
from tuner.reporter import Reporter
from tuner.request import Request
from tuner.search.strategy import default_strategy
from tuner.session import Opened
from tuner.storage import Storage
from tuner.study import Header
from tuner.tuning import Tuning

BEST = {"block_size": 2 << 20, "queue_depth": 32, "threads": 4, "eager": True}
PASTED = {**BEST, "threads": 1}


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with Storage(str(tmp_path / "s.db")) as opened:
        yield opened


class Scene:
    """A contest over a synthetic runner, and everything that it had kept."""

    def __init__(self, storage: Storage, runner: Synthetic, request: Request | None = None, rounds: int = 12) -> None:
        header = Header("aio", SPACE.fingerprint, runner.objective, SPACE.default, {}, {}, {}, {"host": "here"}, 0.0)
        self.runner, self.study = runner, storage.create("s", header)
        self.request = request or Request(time="60s", max_write="1G")
        self.kept: list[Result] = []
        opened = Opened(self.study, runner, self.request, SPACE.default, [], [])
        terms = Terms(Allowance(600.0, 1 << 40), rounds)
        self.contest = Contest(opened, terms, Reporter(), self.kept.append, 1.0, clock=runner.clock)

    def tune(self) -> Recommendation:
        budget = Budget(Limits(None, 60, None), clock=self.runner.clock)
        strategy = default_strategy(self.runner.objective)
        return Tuning(self.runner, self.study, strategy, budget, SPACE.default, random.Random(0)).run()

    def whole(self, *names: str) -> Result:
        with self.contest.interruptible():
            self.contest.ours(self.tune)
            for name in names:
                self.contest.strategy(name)
            return self.contest.race()


def picks(config: Config | None, **more: Any) -> Callable[..., Pick]:
    def run(_options: Any, _more: Any, allowance: Allowance, tell: Callable[[str], None]) -> Pick:
        assert allowance.seconds == 600.0
        tell("1 of 2")
        return Pick(config, 900.0, 10**10, 64, True, "it ended", **more)

    return run


def test_all_take_part_and_the_race_tells_the_truth(storage: Storage) -> None:
    scene = Scene(storage, Synthetic(noise=0.03))
    result = scene.whole("random", "grid", "tpe")
    assert [row.name for row in result.rows] == ["ours", "random", "grid", "tpe"]
    assert set(result.standings) == {"ours", "random", "grid", "tpe", "baseline"}
    for name, told in result.standings.items():
        assert told.value is not None
        assert told.value.low <= told.value.value <= told.value.high
        assert told.value.value == pytest.approx(hill(told.config), rel=0.05)
        if name != "baseline":
            assert told.gain.gain is not None
            assert told.gain.gain.ratio == pytest.approx(hill(told.config) / hill(SPACE.default), rel=0.05)
    assert result.standings["ours"].gain.verdict == "better"
    assert result.standings["baseline"].ours.verdict == "better"
    assert scene.kept[-1] == result


def test_strategies_keep_the_budget_and_recommend_their_best_single_reading(storage: Storage) -> None:
    scene = Scene(storage, Synthetic(noise=0.2), Request(time="31s", max_write="1G"))
    scene.contest.strategy("random")
    row = scene.kept[-1].rows[0]
    assert row.seconds <= 31, "the preparation of the runner counts"
    assert row.tried == 30
    outcomes = [(t.outcome, t.config) for t in scene.study.trials(SPACE)]
    readings = [(o.metrics["effective_gbs"], config) for o, config in outcomes if isinstance(o, Measurement)]
    assert row.promised["effective_gbs"] == max(value for value, _ in readings)
    assert row.config == max(readings, key=lambda pair: pair[0])[1]


def test_bytes_bound_strategies_too(storage: Storage) -> None:
    scene = Scene(storage, Synthetic(), Request(time="1h", max_write="20M"))
    scene.contest.strategy("tpe")
    row = scene.kept[-1].rows[0]
    assert row.bytes_written <= 20 << 20
    assert row.tried == 16, "four were written before, one each is written by a measurement"


def test_the_grid_is_the_whole_space_where_it_is_not_an_aio_space(storage: Storage) -> None:
    small = SPACE.narrow({"block_size": "1M,2M", "queue_depth": "8,16", "threads": "1"})
    scene = Scene(storage, Synthetic(space=small))
    scene.contest.strategy("grid")
    row = scene.kept[-1].rows[0]
    assert row.tried == len(small.configs())
    assert "nothing was left to try" in row.note


def test_a_programs_pick_and_its_printed_answer_race_too(storage: Storage) -> None:
    scene = Scene(storage, Synthetic(noise=0.01))
    pasted = Pasted(False, "TypeError: no", PASTED, "eager")
    scene.contest.ours(scene.tune)
    scene.contest.program(
        "tool", picks(BEST, claimed={"read_gbs": 9.0}, printed='{\n "aio": {}\n}', pasted=pasted), None, None
    )
    result = scene.contest.race()
    told = result.standings[as_printed("tool")]
    assert told.config == PASTED
    assert told.value is not None
    assert told.value.value == pytest.approx(hill(PASTED), rel=0.03)
    assert result.rows[1].seconds == 900.0
    text = compare_report.markdown(result, SPACE, "tune compare aio")
    assert "does not load (TypeError: no); with eager mended by hand it does, and threads is 1, not 4" in text
    assert '"aio": {}' in text
    shares = next(line for line in compare_report.sentences(result, SPACE) if line.startswith("ours against tool"))
    assert "% of its time" in shares
    assert "% of its bytes" in shares


def test_who_is_not_there_or_picks_nothing_is_shown_and_others_go_on(storage: Storage) -> None:
    scene = Scene(storage, Synthetic())

    def missing(*_given: Any) -> Problem:
        return Problem("x", "error", "it is not installed", "pip install it")

    def broken(*_given: Any) -> Pick:
        raise EnvironmentProblem("no scratch folder can be made", "df -h")

    scene.contest.ours(scene.tune)
    scene.contest.program("missing", missing, None, None)
    scene.contest.program("broken", broken, None, None)
    scene.contest.program("nothing", picks(None), None, None)
    result = scene.contest.race()
    assert [row.config for row in result.rows[1:]] == [None, None, None]
    assert set(result.standings) == {"ours", "baseline"}
    said = "\n".join(compare_report.sentences(result, SPACE))
    assert "missing: not available: it is not installed. Mend: pip install it" in said
    assert "broken: not available: no scratch folder can be made. Mend: df -h" in said
    cells = {row[0]: row for row in compare_report.table(result, SPACE)}
    assert cells["missing"][-1] == "not available"
    assert cells["nothing"][-1] == "no pick"
    assert all(len(row) == len(compare_report.TITLES) for row in cells.values())


def test_every_reading_and_the_result_are_in_the_study(storage: Storage) -> None:
    scene = Scene(storage, Synthetic())
    result = scene.whole("random")
    trials = scene.study.trials(SPACE)
    assert [t.config for t in trials] == scene.runner.measured
    row = result.rows[1]
    own = trials[row.first : row.first + row.measurements]
    assert {(t.phase, t.round) for t in own} == {("compare", -1)}
    raced = [t for t in trials if t.phase == "compare" and t.round >= 0]
    rounds = {number: [t for t in raced if t.round == number] for number in {t.round for t in raced}}
    assert len(rounds) == 12
    distinct = len({SPACE.key(s.config) for s in result.standings.values()})
    assert all(len(each) == distinct for each in rounds.values())
    assert scene.study.noted("compare") == json.loads(json.dumps(plain(result)))
    assert scene.study.recommendation() is not None, "ours can be exported and verified as any other"


def test_ctrl_c_keeps_what_was_finished(storage: Storage) -> None:
    def stop(count: int) -> None:
        if count == 70:
            raise KeyboardInterrupt

    scene = Scene(storage, Synthetic(before=stop), Request(time="10m", max_write="1G"))
    with pytest.raises(Interrupted) as caught:
        scene.whole("random", "tpe")
    assert "tune show s --trials" in caught.value.mend
    assert [row.name for row in scene.kept[-1].rows] == ["ours"]
    assert len(scene.study.trials(SPACE)) == 70
    text = compare_report.markdown(scene.kept[-1], SPACE, "tune compare")
    assert "not raced yet" in text


def test_a_broken_environment_ends_it(storage: Storage) -> None:
    def full(_config: Config, count: int) -> Failure | None:
        return Failure("environment", "the disk is full") if count == 75 else None

    with pytest.raises(NotUsable, match="disk is full"):
        Scene(storage, Synthetic(planted=full), Request(time="10m", max_write="1G")).whole("random")


# -- the race alone ------------------------------------------------------------------------------------------------------


def raced(settings: dict[str, Config], runner: Synthetic, rounds: int = 12) -> Any:
    def measure(config: Config, _number: int) -> Any:
        return runner.measure(config, 1.0)

    return race(settings, SPACE, runner.objective, measure, rounds, random.Random(1))


def test_equal_settings_run_once_and_are_told_to_be_the_same() -> None:
    runner = Synthetic()
    told = raced({"baseline": SPACE.default, "ours": BEST, "other": dict(BEST)}, runner)
    assert len(runner.measured) == 24
    assert told["other"].ours.sentence == "the same setting"
    assert told["other"].value == told["ours"].value


def test_a_setting_that_fails_twice_leaves_and_says_why() -> None:
    def planted(config: Config, _count: int) -> Failure | None:
        return Failure("infeasible", "too deep") if config["queue_depth"] == 256 else None

    runner = Synthetic(planted=planted)
    bad = {**BEST, "queue_depth": 256}
    told = raced({"baseline": SPACE.default, "ours": BEST, "bad": bad}, runner)
    assert sum(m["queue_depth"] == 256 for m in runner.measured) == 2
    assert (told["bad"].value, told["bad"].failure) == (None, "too deep")
    assert told["bad"].gain.gain is None
    assert told["ours"].gain.verdict == "better"


def test_nothing_is_called_better_where_nothing_is() -> None:
    settings = {"baseline": SPACE.default, "ours": BEST, "a": PASTED}
    verdicts = [raced(settings, Synthetic(truth=flat, noise=0.1, seed=seed))["ours"].gain.verdict for seed in range(20)]
    assert verdicts.count("better") <= 3


def test_less_is_better_where_it_is() -> None:
    runner = Synthetic(objective=Objective("effective_gbs", "s", maximise=False), noise=0.01)
    told = raced({"baseline": SPACE.default, "ours": BEST}, runner)
    assert told["ours"].gain.verdict == "worse"
    value = told["ours"].value
    assert value.low <= value.value <= value.high
    assert value.value == pytest.approx(hill(BEST), rel=0.02)


# -- names, bounds, words ------------------------------------------------------------------------------------------------


def test_whom_to_hold_it_against() -> None:
    target = targets.load("aio")
    assert compare.chosen(target, None) == ["ds-nvme-tune", "fio-grid", "random", "grid", "tpe"]
    assert compare.chosen(target, "tpe, ours,ds-nvme-tune,tpe") == ["tpe", "ds-nvme-tune"]
    assert comparing.STRATEGIES == opponents.OPPONENTS
    for wrong in ("", "ray", "tpe,"):
        with pytest.raises(WrongUsage, match="is none of ds-nvme-tune, fio-grid, random"):
            compare.chosen(target, wrong)


def test_a_target_without_opponents_of_its_own_has_the_strategies(monkeypatch: pytest.MonkeyPatch) -> None:
    for nowhere in ("", "runners.process.opponents", "runners.none.opponents"):
        target = dataclasses.replace(targets.load("aio"), _opponents=nowhere)
        assert target.opponents is None
        assert compare.names(target) == list(opponents.OPPONENTS)


@pytest.mark.parametrize(("time", "budget", "bound"), [(None, 600.0, None), (None, 60.0, "60.000s"), ("5m", 60.0, "5m")])
def test_our_search_gets_no_more_time_than_the_programs_unless_asked(
    time: str | None, budget: float, bound: str | None
) -> None:
    target = SimpleNamespace(defaults={"time": "2m"})
    ask: Any = compare.Ask(target, None, {}, Request(time=time))  # type: ignore[arg-type]
    assert compare._bounded(ask, Terms(Allowance(budget, 0))).request.time == bound


@pytest.mark.parametrize(
    ("ours", "theirs", "words"), [(71, 1000, "7.1 % of"), (1000, 1000, "100 % of"), (1500, 1000, "1.5 times")]
)
def test_shares_in_words(ours: float, theirs: float, words: str) -> None:
    assert compare_report.share(ours, theirs) == words


def test_a_cell_cannot_break_the_table(storage: Storage) -> None:
    scene = Scene(storage, Synthetic(), rounds=5)
    scene.contest.ours(scene.tune)
    scene.contest.program("tool", picks(BEST, printed="a | b\n```"), None, None)
    result = dataclasses.replace(scene.contest.race())
    text = compare_report.markdown(result, SPACE, "tune compare a|b")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1
