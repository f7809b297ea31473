"""What measurements will cost, what the budget still allows, and how long one may take."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from runners.runner import Measurement, Runner
from spaces.space import Config
from spaces.units import format_size
from tuner.budget import Budget
from tuner.errors import BudgetTooSmall
from tuner.race.race import RaceRules, plan
from tuner.search.quick import repeated_seconds
from tuner.trial import Trial

# Fewer settings than this say nothing about the space.
LEAST_SEARCH = 5
# One warm-up and two readings of the baseline come first.
_FIRST = 3
# Contenders of a race with the baseline, and how many of its measurements need a new job although theirs was there.
_STARTS, _RENEWED = 6, 0.1
_UNBOUNDED = 10_000
# Seconds around a measurement: recording it, and what is asked between two.
_AROUND = 0.03


@dataclass(frozen=True, slots=True)
class Pace:
    """How often and how long; seconds and counts.

    ``sentinel``: a baseline measurement every so many settings, to see the machine drift. ``first_limit``: for a measurement
    while nothing is known; later ``patience`` times the median, at least ``least_limit``, because killing a warm worker for
    one slow reading costs more than the reading; never more than the time that is left, nor less than ``shortest_limit``.
    ``hopeless``: failures in a row from the start that end the run.
    """

    sentinel: int = 6
    first_limit: float = 120.0
    patience: float = 10.0
    least_limit: float = 20.0
    shortest_limit: float = 5.0
    hopeless: int = 5


@dataclass(frozen=True, slots=True)
class Forecast:
    """Looks ahead from what a run has measured so far."""

    runner: Runner
    budget: Budget
    rules: RaceRules
    pace: Pace
    history: Sequence[Trial]

    def cost(self) -> float:
        """Wall seconds of one measurement, all around it included, predicted from the recent ones."""
        recent = [t.outcome.seconds for t in self.history[-15:] if t.outcome.seconds > 0]
        return (statistics.fmean(recent) if recent else 1.0) + _AROUND

    def race_seconds(self, count: int) -> float:
        """The same for ``count`` measurements of a race."""
        first, each, starts = self._race_costs()
        return min(count, starts) * first + max(0, count - starts) * each

    def race_within(self, seconds: float) -> int:
        """How many measurements of a race take at most ``seconds``."""
        first, each, starts = self._race_costs()
        if seconds <= starts * first:
            return int(seconds / first)
        return starts + int((seconds - starts * first) / each)

    def _race_costs(self) -> tuple[float, float, int]:
        """Seconds of each of a race's first measurements, of each later one, and how many are first ones.

        Half of them may be the baseline's, which is often the slowest that still works. Where jobs stay, each contender's is
        started once and renewed now and then.
        """
        usual, repeated = self.cost(), repeated_seconds(self.runner.space, self.history)
        if repeated is not None:
            return usual, repeated + _AROUND + _RENEWED * usual, _STARTS
        readings = [t.outcome for t in self.history if t.phase == "baseline"]
        seconds = [reading.seconds for reading in readings if isinstance(reading, Measurement)]
        each = max(usual, (usual + statistics.median(seconds)) / 2) if seconds else usual
        return each, each, 0

    def in_time(self, rounds: int, contenders: int, baseline: Config) -> bool:
        """Whether so many more rounds of a race end before the time does, by what its last round took."""
        left = self._seconds_left()
        last = [t for t in self.history if t.phase == "race" and t.round == self.history[-1].round]
        if left is None or not last:
            return True
        one = sum(t.outcome.seconds for t in last if t.config == baseline)
        others = [t.outcome.seconds for t in last if t.config != baseline] or [one]
        return rounds * (one + contenders * statistics.fmean(others) + _AROUND * (contenders + 1)) <= left

    def limit(self) -> float:
        """Seconds that the next measurement may take."""
        seconds = [t.outcome.seconds for t in self.history if isinstance(t.outcome, Measurement)]
        usual = self.pace.first_limit
        if len(seconds) >= 5:
            usual = max(self.pace.least_limit, self.pace.patience * statistics.median(seconds))
        left = self._seconds_left()
        # A setting that eats all the time that is left is none to recommend.
        return usual if left is None else min(usual, max(self.pace.shortest_limit, left))

    def affordable(self) -> int:
        """How many more measurements the budget allows at their usual cost; large when nothing bounds it."""
        left = self._seconds_left()
        return self._bounded(_UNBOUNDED if left is None else int(left / self.cost()))

    def raceable(self) -> int:
        """How many measurements of a race the budget allows; large when nothing bounds it."""
        left = self._seconds_left()
        return self._bounded(_UNBOUNDED if left is None else self.race_within(left))

    def countable(self) -> int:
        """How many more measurements the limits besides time allow; large when nothing bounds it."""
        return self._bounded(_UNBOUNDED)

    def _seconds_left(self) -> float | None:
        limit = self.budget.limits.seconds
        return None if limit is None else limit - self.budget.seconds

    def _bounded(self, count: int) -> int:
        limits, spent = self.budget.limits, self.budget
        counts = [count]
        if limits.trials is not None:
            counts.append(limits.trials - spent.trials)
        per_measurement = self.runner.bytes_per_measurement()
        if limits.bytes_written is not None and per_measurement:
            counts.append((limits.bytes_written - spent.bytes_written) // per_measurement)
        return max(0, min(counts))

    def refusal(self, count: int, race: int = 0) -> str | None:
        """Why ``count`` more measurements must not start, with ``race`` kept for one; in words; None when they may."""
        alone = self._refused(count, count * self.cost())
        if alone or not race:
            return alone
        both = self._refused(count + race, count * self.cost() + self.race_seconds(race))
        return both and f"{both}, the race's share apart"

    def _refused(self, count: int, seconds: float) -> str | None:
        written = count * self.runner.bytes_per_measurement()
        return self.budget.refuses(seconds=seconds, trials=count, bytes_written=written)

    def least_race(self) -> int:
        """Measurements of the smallest race that can prove anything."""
        return next(count for count in itertools.count(1) if plan(count, self.rules, 1) is not None)

    def _least_search(self) -> int:
        return min(LEAST_SEARCH, self.runner.space.size)

    def check_limits(self) -> None:
        """Before anything is written or measured: raises BudgetTooSmall where the limits can't allow an answer."""
        least = _FIRST + self._least_search() + self.least_race()
        limits, spent = self.budget.limits, self.budget.bytes_written
        if limits.trials is not None and limits.trials < least:
            raise BudgetTooSmall(
                f"--trials {limits.trials}: an answer takes at least {least} measurements", f"--trials {least} or more"
            )
        fixed, each = self.runner.bytes_to_prepare(), self.runner.bytes_per_measurement()
        needed = spent + fixed + each * max(0, least - len(self.history))
        if limits.bytes_written is not None and (fixed or each) and needed > limits.bytes_written:
            raise BudgetTooSmall(
                f"--max-write {format_size(limits.bytes_written)}: the work files take {_mebibytes(fixed)} and each "
                f"measurement {_mebibytes(each)}, so an answer takes at least {_mebibytes(needed)}; nothing was written",
                f"--max-write {_mebibytes(needed)} or more",
            )

    def check_search(self, study: str) -> None:
        """Before the search: raises BudgetTooSmall where too little is left for an answer; ``study`` as commands name it."""
        searched = sum(t.phase == "search" for t in self.history)
        need = self.least_race() + max(0, self._least_search() - searched)
        have = self.affordable()
        if have < need:
            raise BudgetTooSmall(
                f"an answer takes at least {need} measurements more (about {need * self.cost():.0f} s) "
                f"and the budget leaves {have}",
                f"tune resume {study} --time 10m, or with more --trials or --max-write",
            )


def _mebibytes(count: int) -> str:
    """Rounded up, as an option can be typed."""
    return f"{-(-count >> 20)}M"
