"""Questions asked of a finished study with fresh measurements: does the gain hold, and which knob is it worth to?"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from runners.runner import Failure, Json, Measurement, Runner
from spaces.space import Config, Value
from tuner import verdict
from tuner.budget import Budget, Limits
from tuner.errors import Interrupted, NotUsable, WrongUsage
from tuner.recommendation import Recommendation
from tuner.reporter import Reporter
from tuner.search.flips import flips
from tuner.study import Study
from tuner.trial import Phase, Trial, score

_LIMIT = 120.0
_VERIFIED, _EXPLAINED = "verified", "explained"


@dataclass(frozen=True, slots=True)
class Flip:
    """What a knob of the winner is worth: the winner's performance over that with this knob set back."""

    knob: str
    value: Value
    baseline: Value
    comparison: verdict.Comparison


def finished(study: Study) -> Recommendation:
    """The study's answer, with what each knob is worth where `tune explain` found that; WrongUsage where it has none yet."""
    answer = study.recommendation()
    if answer is None:
        raise WrongUsage(f"study {study.name} is not finished", f"tune resume {study.spelled}")
    gains = study.noted(_EXPLAINED)
    return replace(answer, evidence={**answer.evidence, "gains": gains}) if isinstance(gains, dict) else answer


@dataclass(frozen=True, slots=True)
class Verified:
    """A fresh comparison, and what an independent program makes of the recommended setting: metrics by how it was run.

    ``others`` is empty where there is no such program, and ``missing`` says why where it could not be asked.
    """

    comparison: verdict.Comparison
    others: Mapping[str, Mapping[str, float]]
    missing: str = ""


def verify(study: Study, runner: Runner, rounds: int, reporter: Reporter, rng: random.Random) -> Verified:
    """A fresh interleaved comparison of the recommendation with the baseline; ``rounds`` of two measurements."""
    answer = finished(study)
    if answer.decision == "keep":
        raise WrongUsage(f"study {study.name} recommends the baseline itself: there is nothing to compare")
    settings: dict[str, Config] = {"recommended": answer.config, "baseline": answer.baseline}
    scores = _rounds(study, runner, settings, rounds, "verify", reporter, rng)
    result = verdict.compare(zip(scores["recommended"], scores["baseline"], strict=True))
    earlier = study.noted(_VERIFIED)
    line: dict[str, Json] = {"when": time.time(), "confirmed": result.verdict == "better", "clause": result.clause}
    study.note(_VERIFIED, [*(earlier if isinstance(earlier, list) else []), line])
    others = runner.cross_check(answer.config)
    if isinstance(others, Failure):
        return Verified(result, {}, others.reason)
    return Verified(result, others or {})


def confirmations(study: Study) -> list[str]:
    """What each `tune verify` of the study found, a line each."""
    noted = study.noted(_VERIFIED)
    lines = []
    for entry in noted if isinstance(noted, list) else []:
        if isinstance(entry, dict):
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(cast(float, entry["when"])))
            mark = "confirmed" if entry["confirmed"] else "not confirmed"
            lines.append(f"verified {when}: {mark}, the recommended setting {entry['clause']}")
    return lines


def explain(study: Study, runner: Runner, rounds: int, reporter: Reporter, rng: random.Random) -> list[Flip]:
    """Each knob that differs from the baseline set back alone, interleaved with the winner; the most valuable first."""
    answer = finished(study)
    settings: dict[str, Config] = {"recommended": answer.config}
    for knob, flipped in flips(runner.space, answer.config, answer.baseline).items():
        settings[knob] = flipped
    if len(settings) == 1:
        raise WrongUsage(f"study {study.name}: no knob of the recommendation differs from the baseline in effect")
    scores = _rounds(study, runner, settings, rounds, "explain", reporter, rng)
    found = [
        Flip(
            knob,
            answer.config[knob],
            answer.baseline[knob],
            verdict.compare(zip(scores["recommended"], scores[knob], strict=True)),
        )
        for knob in settings
        if knob != "recommended"
    ]
    gains: dict[str, Json] = {
        flip.knob: {"ratio": gain.ratio, "low": gain.low, "high": gain.high}
        for flip in found
        if (gain := flip.comparison.gain) is not None
    }
    study.note(_EXPLAINED, gains)
    return sorted(found, key=lambda flip: -flip.comparison.gain.ratio if flip.comparison.gain else 0.0)


def _rounds(
    study: Study,
    runner: Runner,
    settings: Mapping[str, Config],
    rounds: int,
    phase: Phase,
    reporter: Reporter,
    rng: random.Random,
) -> dict[str, list[float | None]]:
    """Scores by name, one a round; the first touch of files and caches is thrown away."""
    history = study.trials(runner.space)
    budget = Budget(Limits(None, None, None), seconds_before=study.elapsed(), trials=len(history))
    reporter.started(study.name, runner, budget)
    runner.prepare()
    first = 1 + max((t.round for t in history), default=-1)
    scores: dict[str, list[float | None]] = {name: [] for name in settings}
    try:
        reporter.phase("warmup", "not counted")
        _measure(study, runner, next(iter(settings.values())), "warmup", -1, budget, reporter)
        reporter.phase(phase, f"{rounds} interleaved rounds")
        for number in range(first, first + rounds):
            for name in rng.sample(list(settings), len(settings)):
                trial = _measure(study, runner, settings[name], phase, number, budget, reporter)
                scores[name].append(score(trial.outcome, runner.objective))
    except KeyboardInterrupt:
        study.abandon_running()
        raise Interrupted("stopped; the study itself is unchanged", f"tune {phase} {study.spelled}") from None
    return scores


def _measure(
    study: Study, runner: Runner, config: Config, phase: Phase, number: int, budget: Budget, reporter: Reporter
) -> Trial:
    reporter.measuring(config, phase)
    row = study.begin(runner.space, config, phase, number)
    outcome = runner.measure(config, _LIMIT)
    budget.spend(trials=1, bytes_written=outcome.bytes_written)
    study.finish(row, outcome, budget.seconds)
    if not isinstance(outcome, Measurement) and outcome.kind == "environment":
        raise NotUsable(outcome.reason)
    trial = Trial(dict(config), outcome, phase, number)
    reporter.measured(trial, None)
    return trial
