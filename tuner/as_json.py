"""What programs see: one object a result on standard output, one line an event on standard error; fields are only added."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TextIO

from runners.runner import Failure, Json, Measurement, Problem, Runner
from spaces.space import Config
from tuner.budget import Budget
from tuner.errors import TunerError
from tuner.recommendation import Recommendation
from tuner.reporter import Reporter
from tuner.trial import Phase, Trial

SCHEMA = 1


def dump(record: Mapping[str, Any], stream: TextIO | None = None) -> None:
    """Writes one object; figures that JSON has no word for become null."""
    print(json.dumps({"schema": SCHEMA, **finite(dict(record))}, indent=2, ensure_ascii=False), file=stream or sys.stdout)


def recommendation(answer: Recommendation, files: Mapping[str, str]) -> dict[str, Any]:
    return {
        "study": answer.study,
        "target": answer.target,
        "engine": answer.engine,
        "decision": answer.decision,
        "reason": answer.reason,
        "recommended": dict(answer.config),
        "baseline": dict(answer.baseline),
        "gain": asdict(answer.gain) if answer.gain is not None else None,
        "metrics": dict(answer.metrics),
        "baseline_metrics": dict(answer.baseline_metrics),
        "equals": [dict(config) for config in answer.equals],
        "trials": answer.trials,
        "failures": dict(answer.failures),
        "seconds": answer.seconds,
        "bytes_written": answer.bytes_written,
        "warnings": list(answer.warnings),
        "evidence": dict(answer.evidence),
        "machine": dict(answer.machine),
        "options": dict(answer.options),
        "files": dict(files),
    }


def error(problem: TunerError) -> dict[str, Any]:
    return {"error": {"kind": problem.kind, "message": problem.message, "mend": problem.mend}}


def outcome(trial: Trial) -> dict[str, Json]:
    """One measurement as a program may want it."""
    what: dict[str, Json] = {"phase": trial.phase, "round": trial.round, "config": dict(trial.config)}
    if isinstance(trial.outcome, Measurement):
        what |= {"metrics": dict(trial.outcome.metrics), "samples": list(trial.outcome.samples)}
    elif isinstance(trial.outcome, Failure):
        what |= {"failure": trial.outcome.kind, "reason": trial.outcome.reason}
    return {**what, "seconds": trial.outcome.seconds, "bytes_written": trial.outcome.bytes_written}


class Events(Reporter):
    """One JSON line an event on standard error."""

    def _say(self, event: str, what: Mapping[str, Any]) -> None:
        print(json.dumps({"event": event, **finite(dict(what))}, ensure_ascii=False), file=sys.stderr, flush=True)

    def started(self, study: str, runner: Runner, budget: Budget) -> None:
        objective = runner.objective
        goal = {"metric": objective.metric, "unit": objective.unit, "maximise": objective.maximise}
        self._say("started", {"study": study, "engine": runner.engine, "objective": goal, "limits": asdict(budget.limits)})

    def resumed(self, trials: int, abandoned: int) -> None:
        self._say("resumed", {"trials": trials, "abandoned": abandoned})

    def problem(self, problem: Problem) -> None:
        self._say("problem", asdict(problem))

    def preparing(self, what: str) -> None:
        self._say("preparing", {"what": what})

    def phase(self, name: Phase, why: str) -> None:
        self._say("phase", {"name": name, "why": why})

    def measuring(self, config: Config, phase: Phase) -> None:
        self._say("measuring", {"phase": phase, "config": dict(config)})

    def measured(self, trial: Trial, best: Trial | None) -> None:
        self._say("measured", outcome(trial))

    def finished(self, recommendation: Recommendation) -> None:
        self._say("finished", {"decision": recommendation.decision, "study": recommendation.study})


def finite(value: Any) -> Any:
    """``value`` with the figures that JSON has no word for as null."""
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return None
    if isinstance(value, Mapping):
        return {str(name): finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return value
