"""One measurement as the tuner keeps it, and the score that makes all objectives alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from runners.runner import Measurement, Objective, Outcome
from spaces.space import Config

# warmup: thrown away, it pays for cold caches and lazy allocation. baseline: the user's present setting, again and again.
# search: a new setting. race: a finalist or the baseline inside a round. verify, explain: asked for after the answer.
# compare: another strategy's reading, or, inside a round, what somebody picked.
Phase = Literal["warmup", "baseline", "search", "race", "verify", "explain", "compare"]


@dataclass(frozen=True, slots=True)
class Trial:
    """A finished measurement; ``round`` numbers the rounds of a race, -1 outside one."""

    config: Config
    outcome: Outcome
    phase: Phase
    round: int = -1


History = Sequence[Trial]


def score(outcome: Outcome, objective: Objective) -> float | None:
    """Log of performance, higher is better, so that a difference is a ratio; None for a failure or a figure that is none."""
    if not isinstance(outcome, Measurement):
        return None
    value = outcome.metrics.get(objective.metric, math.nan)
    if not math.isfinite(value) or value <= 0:
        return None
    return math.log(value) if objective.maximise else -math.log(value)
