"""The answer of a tuning run, as data: what to use, how much better it is, and how that is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from runners.runner import Json
from spaces.space import Value

Decision = Literal["adopt", "keep"]


@dataclass(frozen=True, slots=True)
class Gain:
    """Performance of the recommended setting over the baseline's (> 1 is better) and the interval that holds it."""

    ratio: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What `tune` answers. ``config`` is the baseline's own when ``decision`` is "keep".

    ``equals`` are settings that could not be told apart from ``config``; ``gain`` is None when there was no race.
    ``reason`` is the decision in one sentence.
    """

    study: str
    target: str
    engine: str
    decision: Decision
    config: Mapping[str, Value]
    baseline: Mapping[str, Value]
    gain: Gain | None
    reason: str
    metrics: Mapping[str, float]
    baseline_metrics: Mapping[str, float]
    equals: tuple[Mapping[str, Value], ...] = ()
    trials: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    bytes_written: int = 0
    warnings: tuple[str, ...] = ()
    evidence: Mapping[str, Json] = field(default_factory=dict)
    machine: Mapping[str, Json] = field(default_factory=dict)
    options: Mapping[str, Json] = field(default_factory=dict)
