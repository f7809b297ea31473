"""The race of `tune compare`: every pick and the baseline in a fixed number of shuffled rounds, compared inside a round."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runners.runner import Failure, Measurement, Objective, Outcome
from spaces.space import Config, Key, Space
from tuner import verdict
from tuner.recommendation import Gain
from tuner.stats import fixed_interval, hodges_lehmann
from tuner.trial import score

_FAILURES = 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure in the objective's unit and the interval that holds it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Standing:
    """How a setting did. ``ours`` compares our setting with this one, ``gain`` this one with the baseline.

    ``value`` is None, and ``failure`` says why, where it never worked; ``metrics`` are medians.
    """

    config: Config
    value: Estimate | None
    metrics: Mapping[str, float]
    gain: verdict.Comparison
    ours: verdict.Comparison
    failure: str = ""


@dataclass(slots=True)
class _Lane:
    """One distinct setting and what it did, a score a round; None where it failed or had left."""

    config: Config
    scores: list[float | None] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def left(self) -> bool:
        return sum(isinstance(outcome, Failure) for outcome in self.outcomes) >= _FAILURES

    @property
    def failure(self) -> str:
        return next((outcome.reason for outcome in reversed(self.outcomes) if isinstance(outcome, Failure)), "")


def race(
    settings: Mapping[str, Config],
    space: Space,
    objective: Objective,
    measure: Callable[[Config, int], Outcome],
    rounds: int,
    rng: random.Random,
    *,
    confidence: float = 0.9,
) -> dict[str, Standing]:
    """Races ``settings``, "baseline" and "ours" among them; those that are the same in effect run once.

    ``measure`` takes a setting and the number of its round, from 0. A setting that fails twice leaves.
    """
    lanes: dict[Key, _Lane] = {}
    own: dict[str, _Lane] = {}
    for name, config in settings.items():
        own[name] = lanes.setdefault(space.key(space.canonical(config)), _Lane(config))
    for number in range(rounds):
        order = list(lanes.values())
        rng.shuffle(order)
        for lane in order:
            if lane.left:
                lane.scores.append(None)
                continue
            outcome = measure(lane.config, number)
            lane.outcomes.append(outcome)
            lane.scores.append(score(outcome, objective))
    return {
        name: Standing(
            config=settings[name],
            value=_estimate(lane.scores, objective, confidence),
            metrics=_metrics(lane.outcomes),
            gain=_compare(lane, own["baseline"], confidence),
            ours=_compare(own["ours"], lane, confidence),
            failure=lane.failure,
        )
        for name, lane in own.items()
    }


def _compare(one: _Lane, other: _Lane, confidence: float) -> verdict.Comparison:
    if one is other:
        return verdict.Comparison("equal", Gain(1.0, 1.0, 1.0, confidence), len(one.scores), "the same setting")
    return verdict.compare(zip(one.scores, other.scores, strict=True), confidence)


def _estimate(scores: Sequence[float | None], objective: Objective, confidence: float) -> Estimate | None:
    known = [value for value in scores if value is not None]
    if not known:
        return None
    low, high = fixed_interval(known, confidence)
    bounds = [_figure(end, objective) for end in (low, high)]
    return Estimate(_figure(hodges_lehmann(known), objective), min(bounds), max(bounds))


def _figure(log: float, objective: Objective) -> float:
    signed = log if objective.maximise else -log
    return math.exp(signed) if signed < math.inf else math.inf


def _metrics(outcomes: Sequence[Outcome]) -> dict[str, float]:
    readings = [outcome.metrics for outcome in outcomes if isinstance(outcome, Measurement)]
    names = dict.fromkeys(name for reading in readings for name in reading)
    return {name: statistics.median([reading[name] for reading in readings if name in reading]) for name in names}
