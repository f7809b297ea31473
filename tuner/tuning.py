"""The loop: baseline, search, race, answer. It decides what is measured next and prints nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from runners.runner import Failure, Outcome, Runner
from spaces.space import Config, Value
from tuner import answer
from tuner.budget import Budget
from tuner.contention import Contention
from tuner.errors import BudgetTooSmall, Interrupted, NotUsable
from tuner.pacing import Forecast, Pace
from tuner.race.race import Race, RaceRules, full
from tuner.racing import Racing
from tuner.recommendation import Recommendation
from tuner.reporter import Reporter
from tuner.search import loading, stop
from tuner.search.finalists import finalist_share, finalist_time
from tuner.search.simplify import simplified
from tuner.search.strategy import Strategy
from tuner.study import Study
from tuner.trial import Phase, Trial, score

# The best of five by posterior holds the best of all about as often as the best of eight does (facts on search: 2 to 4 were
# measured; the cheapest equal needs a place too).
MOST_FINALISTS = 5

# At most one measurement in so many is spent on finding out which knobs the best setting can do without.
_SIMPLIFYING = 10


@dataclass(slots=True)
class Tuning:
    """One run over one study. ``run`` may be called once; a later run over the same study goes on where this one ended."""

    runner: Runner
    study: Study
    strategy: Strategy
    budget: Budget
    baseline: Mapping[str, Value]
    rng: random.Random
    reporter: Reporter = field(default_factory=Reporter)
    rules: RaceRules = field(default_factory=RaceRules)
    pace: Pace = field(default_factory=Pace)
    warnings: Sequence[str] = ()
    history: list[Trial] = field(default_factory=list)
    stopped: str = ""

    @property
    def forecast(self) -> Forecast:
        return Forecast(self.runner, self.budget, self.rules, self.pace, self.history)

    def run(self) -> Recommendation:
        """Measures until the answer is known or the budget ends.

        Raises NotUsable when nothing can be measured any more, BudgetTooSmall before or after too few measurements, and
        Interrupted on KeyboardInterrupt; the study can be resumed after each.
        """
        try:
            return self._run()
        except KeyboardInterrupt:
            self.study.abandon_running()
            raise Interrupted(
                f"stopped; {len(self.history)} measurements are kept in study {self.study.name}",
                f"tune resume {self.study.spelled}",
            ) from None

    def _run(self) -> Recommendation:
        abandoned = self.study.abandon_running()
        self.history = self.study.trials(self.runner.space)
        if self.history or abandoned:
            self.reporter.resumed(len(self.history), abandoned)
        self.forecast.check_limits()
        libraries = loading.load()
        self.runner.prepare()
        self.budget.spend(bytes_written=self.runner.bytes_prepared)
        libraries.join()
        contention = Contention()
        self._warm_up()
        racing = Racing(self.runner, self.study, self.baseline, self.rules, self.rng, self.forecast, self._measure)
        there = stop.already_there(self.history, self.baseline)
        if not racing.resume():
            if there:
                self.stopped = there
            else:
                self.forecast.check_search(self.study.spelled)
                self._search()
                racing.begin(MOST_FINALISTS, self._simplify())
        self.reporter.phase("race", "finalists and the baseline in shuffled rounds")
        cut_off = racing.run()
        self.stopped = self.stopped or cut_off
        self._check_proof(racing.race, cut_off)
        result = racing.race.result()
        recommendation = answer.recommend(
            self.study,
            self.runner,
            self.history,
            replace(result, reason=there) if there and not result.adopt else result,
            self.baseline,
            self.budget,
            stopped=self.stopped,
            warnings=self.warnings,
            others=contention.others(),
        )
        self.study.answer(recommendation)
        self.reporter.finished(recommendation)
        return recommendation

    # -- measuring ---------------------------------------------------------------------------------------------------

    def _measure(self, config: Config, phase: Phase, round: int = -1) -> Outcome:
        """One measurement, recorded before and after. A crash is tried once more; an environment failure ends the run."""
        outcome = self._measure_once(config, phase, round)
        if isinstance(outcome, Failure) and outcome.kind == "crash" and not self._crashed_before(config):
            outcome = self._measure_once(config, phase, round)
        if isinstance(outcome, Failure) and outcome.kind == "environment":
            raise NotUsable(outcome.reason, f"mend it, then `tune resume {self.study.spelled}`")
        self._give_up_when_hopeless()
        return outcome

    def _measure_once(self, config: Config, phase: Phase, round: int) -> Outcome:
        self.reporter.measuring(config, phase)
        row = self.study.begin(self.runner.space, config, phase, round)
        outcome = self.runner.measure(config, self.forecast.limit())
        self.budget.spend(trials=1, bytes_written=outcome.bytes_written)
        self.study.finish(row, outcome, self.budget.seconds)
        trial = Trial(dict(config), outcome, phase, round)
        self.history.append(trial)
        self.reporter.measured(trial, self._best())
        return outcome

    def _crashed_before(self, config: Config) -> bool:
        """Whether a crash of ``config``, other than the one just recorded, was seen."""
        crashes = [t for t in self.history if isinstance(t.outcome, Failure) and t.outcome.kind == "crash"]
        return sum(t.config == config for t in crashes) > 1

    def _give_up_when_hopeless(self) -> None:
        failures = [t.outcome for t in self.history if isinstance(t.outcome, Failure)]
        if len(failures) == len(self.history) and len(failures) >= self.pace.hopeless:
            reason, _ = Counter(f.reason for f in failures).most_common(1)[0]
            raise NotUsable(
                f"the first {len(failures)} measurements all failed, mostly so: {reason}",
                f"`tune doctor {self.study.header.target}` may know why; then `tune resume {self.study.spelled}`",
            )

    def _best(self) -> Trial | None:
        objective = self.runner.objective
        scored = [(s, t) for t in self.history if t.phase != "warmup" and (s := score(t.outcome, objective)) is not None]
        return max(scored, key=lambda pair: pair[0])[1] if scored else None

    # -- the phases --------------------------------------------------------------------------------------------------

    def _warm_up(self) -> None:
        if any(t.phase == "baseline" and not isinstance(t.outcome, Failure) for t in self.history):
            return
        self.reporter.phase("warmup", "first touch of files and caches, not counted")
        self._measure(self.baseline, "warmup")
        self.reporter.phase("baseline", "the setting to beat")
        readings = [self._measure(self.baseline, "baseline") for _ in range(2)]
        failures = [reading for reading in readings if isinstance(reading, Failure)]
        if len(failures) == len(readings):
            spent = self.budget.refuses(seconds=0.0, trials=0, bytes_written=0)
            if spent and all(failure.kind == "timeout" for failure in failures):
                raise BudgetTooSmall(
                    f"the baseline could not be measured once, and {spent}: {failures[-1].reason}",
                    f"tune resume {self.study.spelled} --time 10m, or a study of shorter measurements",
                )
            raise NotUsable(
                f"the baseline itself can't be measured here ({failures[-1].kind}: {failures[-1].reason})",
                "mend what it says, or name settings that run here with --baseline FILE",
            )

    def _check_proof(self, race: Race, cut_off: str) -> None:
        """A race that the budget cut off before it could prove anything is no answer."""
        if not race.result().decided and race.rounds < race.minimum_rounds:
            why = cut_off or self.stopped
            raise BudgetTooSmall(
                f"{race.rounds} rounds of the race were raced and a proof takes {race.minimum_rounds}: {why}",
                f"tune resume {self.study.spelled} --time 10m, or with more --trials or --max-write",
            )

    def _search(self) -> None:
        self.reporter.phase("search", "one short measurement a setting")
        since_baseline = 0
        reserve = self._race_reserve()
        spare = self._spare()
        while True:
            refusal = self.forecast.refusal(spare + 1, race=reserve)
            if refusal:
                self.stopped = refusal
                return
            if since_baseline >= self.pace.sentinel:
                self._measure(self.baseline, "baseline")
                since_baseline = 0
                continue
            if self.runner.space.live and not since_baseline:  # what the race takes shows as jobs are seen to stay
                reserve = self._race_reserve()
            why = stop.worth(self.runner.space, self.history, self.runner.objective)
            if why:
                self.stopped = why
                return
            config = self.strategy.propose(self.runner.space, self.history, self.rng)
            if config is None:
                self.stopped = "every setting was measured"
                return
            self._measure(config, "search")
            since_baseline += 1

    def _race_reserve(self) -> int:
        """Measurements kept back for the race."""
        forecast = self.forecast
        kept = max(finalist_share(self._total()), forecast.least_race())
        limit = self.budget.limits.seconds
        if limit is not None and self.runner.space.live:
            # Repeats take a fraction of a first reading: the same share of the time is worth more of them, as far as other
            # limits allow.
            worth = min(forecast.race_within(finalist_time(limit)), full(self.rules, MOST_FINALISTS))
            kept = max(kept, min(worth, finalist_share(forecast.countable() + self._counted())))
        return kept

    def _spare(self) -> int:
        """Measurements kept back for finding out which knobs the best setting can do without."""
        return min(2 * len(self.runner.space.knobs), self._total() // _SIMPLIFYING)

    def _total(self) -> int:
        """Measurements of the whole run, as far as can be told."""
        return self.forecast.affordable() + self._counted()

    def _counted(self) -> int:
        return sum(t.phase != "warmup" for t in self.history)

    def _simplify(self) -> Config | None:
        left = self._spare()

        def measure(config: Config) -> bool:
            nonlocal left
            if not left or self.forecast.refusal(1, race=self._race_reserve()):
                return False
            left -= 1
            self._measure(config, "search")
            return True

        return simplified(self.runner.space, self.history, self.runner.objective, self.baseline, measure)
