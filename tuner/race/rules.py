"""What a race is run by and what it answers, and how many rounds that takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

from spaces.space import Key
from tuner.recommendation import Gain
from tuner.stats import rank_tail, repeated_thresholds

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class RaceRules:
    """``margin``: settings within this share of each other are equal. ``min_gain``: less is not worth a change.

    ``confidence`` is the whole race's: it bounds the chance to recommend a setting that is no better than the baseline to
    (1 - confidence) / 2 over all contenders and all looks together. ``precision``: a proven gain is raced on until its
    interval is no wider than this share, while rounds are left. Before ``min_rounds`` nobody is let go; a proof takes
    more (minimum_rounds).
    """

    confidence: float = 0.9
    min_rounds: int = 3
    max_rounds: int = 20
    margin: float = 0.03
    min_gain: float = 0.02
    precision: float = 0.15

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"confidence must be from 0.5 to below 1, not {self.confidence}")
        if not 1 <= self.min_rounds <= self.max_rounds <= 200:
            raise ValueError(f"rounds must be 1 <= {self.min_rounds} <= {self.max_rounds} <= 200")
        if not (0 <= self.margin < 1 and 0 <= self.min_gain < 1):
            raise ValueError("margin and min_gain are shares, from 0 to below 1")


@dataclass(frozen=True, slots=True)
class RaceResult:
    """The answer after ``rounds`` rounds; ``winner`` is the baseline when ``adopt`` is False.

    ``gain`` is that of ``leader`` over the baseline: the winner, or the best contender when nothing is adopted; its bounds
    are 0 and infinity when there were too few rounds; None when the two were never measured in one round. ``equals`` are
    contenders that can't be told apart from the winner (none when nothing is adopted). ``dropped`` says why a contender was
    let go. ``decided``: more rounds would not change the answer, or none are left.
    """

    winner: Key
    adopt: bool
    gain: Gain | None
    leader: Key
    equals: tuple[Key, ...]
    dropped: Mapping[Key, str]
    rounds: int
    decided: bool
    reason: str


def looks(contenders: int, rules: RaceRules) -> tuple[int | None, ...]:
    """What the capped signed-rank statistic must reach after each number of rounds, from 0 on; None: too early.

    Bonferroni over the contenders, since the best of them is picked on the rounds that prove it; the sequential law over
    the looks, since the race stops when it likes.
    """
    return repeated_thresholds((1 - rules.confidence) / 2 / max(1, contenders), rules.max_rounds)


def errors_needed(rounds: int, threshold: int) -> float:
    """Standard errors that a gain must lie over zero to reach ``threshold``, as far as the normal law tells."""
    return -_NORMAL.inv_cdf(min(0.5, rank_tail(rounds, threshold)))


def minimum_rounds(contenders: int, rules: RaceRules) -> int:
    """The fewest rounds after which a gain can be proven at all; max_rounds + 1 when the rules allow too few for that."""
    proving = (n for n, threshold in enumerate(looks(contenders, rules)) if threshold is not None)
    return next(proving, rules.max_rounds + 1)


def rounds_needed(contenders: int, noise: float, gain: float, rules: RaceRules, power: float = 0.9) -> int | None:
    """Rounds that prove a true ``gain`` (0.1: 10 %) with chance ``power`` where one reading has ``noise`` (0.05: 5 %).

    None when more than max_rounds would be needed.
    """
    effect = math.log1p(gain) / (math.sqrt(2) * max(noise, 1e-9))
    for n, threshold in enumerate(looks(contenders, rules)):
        if threshold is not None and effect * math.sqrt(n) >= errors_needed(n, threshold) + _NORMAL.inv_cdf(power):
            return n
    return None


def full(rules: RaceRules, contenders: int) -> int:
    """Measurements of a race of all rounds, by the count of ``plan``."""
    return rules.min_rounds * (contenders + 1) + (rules.max_rounds - rules.min_rounds) * min(3, contenders + 1)


def plan(measurements: int, rules: RaceRules, most: int = 5) -> tuple[int, RaceRules] | None:
    """How many contenders ``measurements`` can race to a proof, at most ``most``, and the rules with the rounds they allow.

    Counts on a field that is down to two contenders after ``min_rounds``, as it mostly is, and on two rounds more than the
    least. None when not even one contender could be proven.
    """
    for contenders in range(most, 0, -1):
        left = measurements - rules.min_rounds * (contenders + 1)
        rounds = min(rules.max_rounds, rules.min_rounds + left // min(3, contenders + 1))
        if rounds < rules.min_rounds:
            continue
        planned = replace(rules, max_rounds=rounds)
        if minimum_rounds(contenders, planned) + (2 if contenders > 1 else 0) <= rounds:
            return contenders, planned
    return None
