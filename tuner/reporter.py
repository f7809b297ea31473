"""Hooks that a tuning run calls; every one is empty here, so that a front end fills only what it shows."""

from __future__ import annotations

from runners.runner import Problem, Runner
from spaces.space import Config
from tuner.budget import Budget
from tuner.recommendation import Recommendation
from tuner.trial import Phase, Trial


class Reporter:
    """Listens to one run. Nothing that a hook does may change the run."""

    def started(self, study: str, runner: Runner, budget: Budget) -> None: ...

    def resumed(self, trials: int, abandoned: int) -> None: ...

    def problem(self, problem: Problem) -> None: ...

    def preparing(self, what: str) -> None: ...

    def phase(self, name: Phase, why: str) -> None: ...

    def measuring(self, config: Config, phase: Phase) -> None: ...

    def measured(self, trial: Trial, best: Trial | None) -> None:
        """``best`` is the best single reading so far: progress, not an answer."""

    def finished(self, recommendation: Recommendation) -> None: ...
