"""One contest: each takes its turn under its budget, every reading is kept, then the race; prints nothing."""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from runners.opponent import Opponent
from runners.runner import EnvironmentProblem, Failure, Outcome, Problem
from spaces.space import Config, Value
from spaces.units import format_duration
from tuner import machine
from tuner.budget import Budget, Limits
from tuner.compare.opponents import ds_nvme_tune_order, opponent
from tuner.compare.result import Result, Row, Terms, as_printed, plain
from tuner.compare.standings import Standing, race
from tuner.errors import Interrupted, NotUsable
from tuner.recommendation import Recommendation
from tuner.reporter import Reporter
from tuner.request import limits
from tuner.session import Opened
from tuner.trial import Phase, Trial, score

_LIMIT = 120.0
_TELL_EVERY = 30.0


class Contest:
    """Over one open study. ``preparing`` are the seconds that the runner's preparation took: all who use it bear them."""

    def __init__(
        self,
        opened: Opened,
        terms: Terms,
        reporter: Reporter,
        keep: Callable[[Result], None],
        preparing: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._opened, self._terms, self._reporter, self._keep = opened, terms, reporter, keep
        self._study, self._runner = opened.study, opened.runner
        self._preparing, self._clock = preparing, clock
        self._elapsed = Budget(Limits(None, None, None), clock=clock, seconds_before=preparing)
        self._rows: list[Row] = []
        self._standings: dict[str, Standing] = {}
        self._rounds = 0

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ctrl-C ends a contest with all that was finished kept."""
        try:
            yield
        except KeyboardInterrupt:
            self._study.abandon_running()
            raise Interrupted(
                f"stopped; what was finished is kept in study {self._study.name}", f"tune show {self._study.name} --trials"
            ) from None

    def ours(self, run: Callable[[], Recommendation]) -> None:
        """Our search with its own race, as `tune` runs it."""
        answer = run()
        evidence = answer.evidence
        self._finish(
            Row(
                name="ours",
                config=dict(answer.config),
                seconds=answer.seconds,
                bytes_written=answer.bytes_written,
                tried=cast(int, evidence.get("settings_tried", 0)),
                finished=True,
                note=f"{answer.reason}; the search ended because {evidence.get('stopped') or 'its race was decided'}",
                promised=dict(answer.metrics),
                measurements=answer.trials,
            )
        )

    def strategy(self, name: str) -> None:
        """A strategy over our runner with the budget of ours; its pick is the best of its single readings."""
        self._reporter.phase("compare", f"{name}, over the same runner with the same budget")
        runner, request = self._runner, self._opened.request
        space, objective = runner.space, runner.objective
        budget = Budget(
            limits(request), clock=self._clock, seconds_before=self._preparing, bytes_written=runner.bytes_prepared
        )
        grid = [config for config in ds_nvme_tune_order() if space.contains(config)]
        strategy = opponent(name, objective, grid if name == "grid" else ())
        rng = random.Random(f"{request.seed}-{name}")
        first = len(self._study.trials(space))
        history: list[Trial] = []
        while True:
            ended = budget.refuses(
                seconds=statistics.fmean([t.outcome.seconds for t in history[-15:]] or [1.0]),
                trials=1,
                bytes_written=runner.bytes_per_measurement(),
            )
            config = None if ended else strategy.propose(space, history, rng)
            if config is None:
                break
            left = budget.limits.seconds - budget.seconds if budget.limits.seconds is not None else _LIMIT
            trial = self._measure(config, "compare", limit=max(1.0, min(_LIMIT, left)))
            budget.spend(trials=1, bytes_written=trial.outcome.bytes_written)
            history.append(trial)
        scored = [(value, t) for t in history if (value := score(t.outcome, objective)) is not None]
        best = max(scored, key=lambda pair: pair[0])[1] if scored else None
        failed = len(history) - len(scored)
        self._finish(
            Row(
                name=name,
                config=None if best is None else dict(best.config),
                seconds=round(budget.seconds, 1),
                bytes_written=budget.bytes_written,
                tried=len({space.key(t.config) for t in history}),
                finished=True,
                note=f"the best of its single readings; {ended or 'nothing was left to try'}"
                + (f"; {failed} failed" if failed else ""),
                promised={} if best is None or isinstance(best.outcome, Failure) else dict(best.outcome.metrics),
                first=first,
                measurements=len(history),
            )
        )

    def program(self, name: str, compete: Opponent, options: Any, more: Any) -> None:
        """Somebody else's program, while this process holds the device."""
        allowance = self._terms.programs
        self._reporter.phase("compare", f"{name}, at most {format_duration(allowance.seconds)}")
        try:
            pick = compete(options, more, allowance, self._now_and_then(name))
        except EnvironmentProblem as error:
            pick = Problem(name, "error", error.message, error.mend)
        if isinstance(pick, Problem):
            self._finish(Row(name, None, 0.0, 0, 0, False, f"not available: {pick.message}", mend=pick.mend))
            return
        self._finish(
            Row(
                name=name,
                config=pick.config,
                seconds=round(pick.seconds, 1),
                bytes_written=pick.bytes_written,
                tried=pick.settings_tried,
                finished=pick.finished,
                note=pick.note,
                promised=pick.claimed,
                printed=pick.printed,
                pasted=pick.pasted,
            )
        )

    def _now_and_then(self, name: str) -> Callable[[str], None]:
        """Tells how far a program is, not more often than a reader wants to know."""
        told = self._clock()

        def tell(text: str) -> None:
            nonlocal told
            if self._clock() - told >= _TELL_EVERY:
                told = self._clock()
                self._reporter.preparing(f"{name}: {text}")

        return tell

    def race(self) -> Result:
        """All picks, what they give as printed, and the baseline, interleaved."""
        runner, baseline = self._runner, self._opened.baseline
        settings: dict[str, Mapping[str, Value]] = {"baseline": baseline}
        for row in self._rows:
            if row.config is not None:
                settings[row.name] = row.config
            if row.pasted is not None and row.pasted.config is not None:
                settings[as_printed(row.name)] = row.pasted.config
        rounds, request = self._terms.rounds, self._opened.request
        self._reporter.phase("compare", f"everybody's pick and the baseline in {rounds} shuffled rounds")
        self._measure(baseline, "warmup")
        first = 1 + max((t.round for t in self._study.trials(runner.space)), default=-1)

        def measure(config: Config, number: int) -> Outcome:
            return self._measure(config, "compare", first + number).outcome

        self._standings = race(
            settings,
            runner.space,
            runner.objective,
            measure,
            rounds,
            random.Random(f"{request.seed}-race"),
            confidence=request.confidence,
        )
        self._rounds = rounds
        return self._save()

    def _measure(self, config: Config, phase: Phase, round: int = -1, limit: float = _LIMIT) -> Trial:
        self._reporter.measuring(config, phase)
        row = self._study.begin(self._runner.space, config, phase, round)
        outcome = self._runner.measure(config, limit)
        self._study.finish(row, outcome, self._elapsed.seconds)
        if isinstance(outcome, Failure) and outcome.kind == "environment":
            raise NotUsable(outcome.reason)
        trial = Trial(dict(config), outcome, phase, round)
        self._reporter.measured(trial, None)
        return trial

    def _finish(self, row: Row) -> None:
        self._rows.append(row)
        self._save()

    def _save(self) -> Result:
        """Keeps what is known so far in the study and wherever the caller keeps it."""
        runner = self._runner
        result = Result(
            study=self._study.name,
            target=self._study.header.target,
            engine=runner.engine,
            metric=runner.objective.metric,
            unit=runner.objective.unit,
            baseline=dict(self._opened.baseline),
            rows=tuple(self._rows),
            standings=dict(self._standings),
            rounds=self._rounds,
            machine={**self._study.header.machine, **machine.moment()},
        )
        self._study.note("compare", plain(result))
        self._keep(result)
        return result
