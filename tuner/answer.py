"""From a decided race and the record to the recommendation that is shown, kept and exported."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from runners.runner import Failure, Json, Measurement, Runner
from spaces.space import ENUMERABLE, Config, Value
from tuner import machine, verdict
from tuner.budget import Budget
from tuner.race.race import RaceResult
from tuner.recommendation import Gain, Recommendation
from tuner.study import Study
from tuner.trial import Trial, score

# A machine whose own baseline moved this much between its readings says little in absolute numbers.
_UNSTEADY = 0.25
# Idle daemons take a few per cent; from here on others compete with the I/O threads for processors.
_BUSY = 0.15


def recommend(
    study: Study,
    runner: Runner,
    history: Sequence[Trial],
    result: RaceResult,
    baseline: Mapping[str, Value],
    budget: Budget,
    *,
    stopped: str,
    warnings: Sequence[str],
    others: float | None = None,
) -> Recommendation:
    """The recommendation of a run; ``stopped`` is why the search ended, ``others`` the share of CPU time that others took."""
    space = runner.space
    config = space.config(result.winner) if result.adopt else dict(baseline)
    own = space.key(config)
    return Recommendation(
        study=study.name,
        target=study.header.target,
        engine=runner.engine,
        decision="adopt" if result.adopt else "keep",
        config=config,
        baseline=dict(baseline),
        gain=_gain(result),
        reason=result.reason,
        metrics=_metrics(history, config),
        baseline_metrics=_metrics(history, baseline),
        equals=tuple(space.config(key) for key in result.equals if key != own),
        trials=len(history),
        failures=dict(Counter(t.outcome.kind for t in history if isinstance(t.outcome, Failure))),
        seconds=round(budget.seconds, 1),
        bytes_written=budget.bytes_written,
        warnings=(*warnings, *_warnings(runner, history, baseline, others), *_seen_beside(history, config)),
        evidence={
            "engine_reason": runner.engine_reason,
            "stopped": stopped,
            "cpu_share_of_others": None if others is None else round(others, 3),
            "rounds": result.rounds,
            "decided": result.decided,
            "measurements": dict(Counter(t.phase for t in history)),
            # A baseline may lie outside of a narrowed space.
            "settings_tried": len({space.key(t.config) for t in history if space.contains(t.config)}),
            "settings": len(space.configs()) if space.size <= ENUMERABLE else space.size,
            "best_by_metric": _best_by_metric(runner, history, config),
            "measured": dict(readings[-1].evidence) if (readings := _readings(history, config)) else {},
        },
        machine={**study.header.machine, **machine.moment()},
        options=study.header.options,
    )


def _gain(result: RaceResult) -> Gain | None:
    gain = result.gain
    if gain is None or not (math.isfinite(gain.low) and math.isfinite(gain.high)):
        return None
    return Gain(gain.ratio, gain.low, gain.high, gain.confidence)


def _readings(history: Sequence[Trial], config: Config) -> list[Measurement]:
    """A setting's measurements, those of the race alone where it has some: they were made side by side with the rest."""
    own = [t for t in history if t.config == config and t.phase != "warmup" and isinstance(t.outcome, Measurement)]
    raced = [t for t in own if t.phase == "race"]
    return [t.outcome for t in raced or own if isinstance(t.outcome, Measurement)]


def _seen_beside(history: Sequence[Trial], config: Config) -> list[str]:
    """What the runner found out while it measured the setting: sentences under "warnings" in its evidence."""
    readings = _readings(history, config)
    said = readings[-1].evidence.get("warnings") if readings else None
    return [str(sentence) for sentence in said] if isinstance(said, list) else []


def _metrics(history: Sequence[Trial], config: Config) -> dict[str, float]:
    readings = _readings(history, config)
    names = dict.fromkeys(name for reading in readings for name in reading.metrics)
    return {
        name: float(f"{statistics.median([r.metrics[name] for r in readings if name in r.metrics]):.4g}") for name in names
    }


def _best_by_metric(runner: Runner, history: Sequence[Trial], config: Config) -> dict[str, Json]:
    """For each part of the objective: the setting that is best at that part alone, and what the chosen one loses on it."""
    parts = [name for name in _metrics(history, config) if name != runner.objective.metric]
    if len(parts) < 2 or not runner.objective.maximise:  # parts of a time are not things that one could want more of
        return {}
    found: dict[str, Json] = {}
    chosen = _metrics(history, config)
    for name in parts:
        best = verdict.per_metric(history, name)
        if best is None:
            continue
        best_config, value = best
        loss = max(0.0, 1 - chosen[name] / value) if value > 0 else 0.0
        found[name] = {"config": dict(best_config), "value": float(f"{value:.4g}"), "loss": round(loss, 3)}
    return found


def _warnings(runner: Runner, history: Sequence[Trial], baseline: Config, others: float | None) -> list[str]:
    found = []
    if others is not None and others > _BUSY:
        found.append(
            f"other programs used {others:.0%} of the CPU time while this was measured: on a quiet machine another setting "
            "may be best, and the gain another one"
        )
    scores = [s for t in history if t.config == baseline and (s := score(t.outcome, runner.objective)) is not None]
    if len(scores) >= 4:
        lower, _, upper = statistics.quantiles(scores, n=4)
        if upper - lower > _UNSTEADY:
            found.append(
                f"the machine is unsteady: the baseline's own middle readings differ by {math.expm1(upper - lower):.0%}; "
                "the comparison is pairwise, the absolute figures are rough"
            )
    wrong = [t for t in history if isinstance(t.outcome, Failure) and t.outcome.kind == "wrong"]
    if wrong:
        first = wrong[0].outcome
        assert isinstance(first, Failure)
        found.append(f"{len(wrong)} measurements were thrown away because their data were wrong, the first: {first.reason}")
    return found
