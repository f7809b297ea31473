"""The race of the finalists: interleaved rounds, compared pairwise, stopped as soon as the answer is known."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from spaces.space import Key
from tuner.recommendation import Gain
from tuner.stats import (
    EVERYTHING,
    Interval,
    hodges_lehmann,
    moderated_noise,
    pooled_noise,
    repeated_errors,
    student,
    fixed_interval,
)

_NORMAL = NormalDist()
# One-sided certainty (in standard errors) at which a contender is let go. A setting let go wrongly costs a few per cent of
# speed and can't make the race recommend what was not proven, so these stay far below what a proof takes.
_CLEARLY = 1.8
_LIKELY = 1.0
# A contender rests when its chance to be proven in the rounds left, taken at its best plausible gain, is below this.
_HOPELESS = 0.1
_FAILURES = 2


@dataclass(frozen=True, slots=True)
class RaceRules:
    """``margin``: settings within this share of each other are equal. ``min_gain``: less is not worth a change.

    ``confidence`` is the whole race's: it bounds the chance to recommend a setting that is no better than the baseline to
    (1 - confidence) / 2 over all contenders and all looks together. Before ``min_rounds`` nobody is let go.
    """

    confidence: float = 0.9
    min_rounds: int = 3
    max_rounds: int = 12
    margin: float = 0.03
    min_gain: float = 0.02

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
    let go. ``decided``: more rounds would not change the answer or none are left.
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


def minimum_rounds(contenders: int, rules: RaceRules) -> int:
    """The fewest rounds after which a gain can be proven at all; max_rounds + 1 when the rules allow too few for that."""
    for n, errors in enumerate(_errors(contenders, rules)):
        if errors < math.inf:
            return n
    return rules.max_rounds + 1


def rounds_needed(contenders: int, noise: float, gain: float, rules: RaceRules, power: float = 0.9) -> int | None:
    effect = math.log1p(gain) / (math.sqrt(2) * max(noise, 1e-9))
    for n, errors in enumerate(_errors(contenders, rules)):
        if effect * math.sqrt(n) >= errors + _NORMAL.inv_cdf(power):
            return n
    return None


FIRST = 5
EFF = 1.0
WEIGHT = 4


def _errors(contenders: int, rules: RaceRules):
    return repeated_errors((1 - rules.confidence) / 2 / max(1, contenders), FIRST, rules.max_rounds)


@dataclass(frozen=True, slots=True)
class _Lead:
    """How much better one setting is than another, over the rounds that measured both; log ratios."""

    centre: float
    error: float
    pairs: int
    proof: Interval

    def above(self, errors: float) -> float:
        return self.centre + errors * self.error


class Race:
    """Runs on scores (log performance, higher is better). Its state follows from the recorded rounds alone."""

    def __init__(self, contenders: Sequence[Key], baseline: Key, cost: Mapping[Key, float], rules: RaceRules) -> None:
        self._contenders = [key for key in dict.fromkeys(contenders) if key != baseline]
        self._baseline = baseline
        self._cost = cost
        self._rules = rules
        self._looks = _errors(len(self._contenders), rules)
        self._rounds: list[dict[Key, float]] = []
        self._failures: dict[Key, int] = {}
        self._in = list(self._contenders)
        self._dropped: dict[Key, str] = {}
        self._resting: dict[Key, Key] = {}
        self._decided = not self._contenders
        self._leads: dict[tuple[Key, Key], _Lead] = {}
        self._pooled = math.nan

    @property
    def minimum_rounds(self) -> int:
        """Rounds that the budget must allow for, or nothing can be proven."""
        return minimum_rounds(len(self._contenders), self._rules)

    @property
    def rounds(self) -> int:
        return len(self._rounds)

    def next_round(self, rng: random.Random) -> list[Key]:
        """The settings to measure now, each once, in this order; [] when the race is over."""
        if self._decided or self.rounds >= self._rules.max_rounds:
            return []
        order = [*self._in] if self._mute() else [self._baseline, *self._in]
        rng.shuffle(order)
        return order

    def record(self, values: Mapping[Key, float | None]) -> None:
        """One round's scores; None is a failed measurement, and two of them drop a contender."""
        unknown = [key for key in values if key != self._baseline and key not in self._contenders]
        if unknown:
            raise ValueError(f"not in this race: {unknown}")
        self._rounds.append({key: value for key, value in values.items() if value is not None and math.isfinite(value)})
        for key in values:
            if key not in self._rounds[-1]:
                self._failures[key] = self._failures.get(key, 0) + 1
        self._leads.clear()
        self._drop_failed()
        self._pooled = pooled_noise(self._pairs(key, self._reference(key)) for key in self._in)
        if not self._decided:
            self._judge()

    def result(self) -> RaceResult:
        """An honest answer after any number of rounds."""
        pick = self._recommended()
        if pick is None:
            return self._keep()
        lead = self._lead(pick, self._baseline) if not self._mute() else None
        equals = tuple(key for key in self._contenders if key != pick and self._equal(key, pick))
        if lead is None:
            reason = "the baseline could not be measured, so the best of the others is recommended without a proven gain"
        else:
            reason = f"proven better than the baseline in {_count(lead.pairs, 'round')}"
            if equals:
                reason += f"; the cheapest of {len(equals) + 1} settings that can't be told apart"
        return self._answer(pick, True, pick, lead, equals, reason)

    # -- what is known -------------------------------------------------------------------------------------------------

    def _mute(self) -> bool:
        """The baseline was tried and never worked."""
        return self._failures.get(self._baseline, 0) >= _FAILURES and not any(self._baseline in r for r in self._rounds)

    def _reference(self, key: Key) -> Key:
        return next((other for other in self._in if other != key), key) if self._mute() else self._baseline

    def _pairs(self, a: Key, b: Key) -> list[float]:
        return [scores[a] - scores[b] for scores in self._rounds if a in scores and b in scores]

    def _lead(self, a: Key, b: Key) -> _Lead | None:
        if (a, b) not in self._leads:
            pairs = self._pairs(a, b)
            if not pairs:
                return None
            n = len(pairs)
            noise = moderated_noise(pairs, self._pooled)
            error = math.inf if math.isnan(noise) else noise * EFF / math.sqrt(n)
            proof = self._proof(pairs, error)
            self._leads[a, b] = _Lead(hodges_lehmann(pairs), error, n, proof)
        return self._leads[a, b]

    def _proof(self, pairs, error):
        n = len(pairs)
        if n >= len(self._looks) or math.isinf(self._looks[n]):
            return EVERYTHING
        low, high = fixed_interval(pairs, self._rules.confidence)
        k = len(self._contenders)
        q = student(self._looks[n], (n - 1) + (WEIGHT if k > 1 else 0))
        c = hodges_lehmann(pairs)
        if math.isinf(error):
            return EVERYTHING
        return min(low, c - q * error), max(high, c + q * error)

    def _ranked(self) -> list[Key]:
        """Contenders still in, best first, each by its place relative to the middle of every round."""
        field = self._in if self._mute() else [self._baseline, *self._in]
        places: dict[Key, list[float]] = {key: [] for key in self._in}
        for scores in self._rounds:
            present = [scores[key] for key in field if key in scores]
            centre = median(present) if present else 0.0
            for key in self._in:
                if key in scores:
                    places[key].append(scores[key] - centre)
        level = {key: hodges_lehmann(values) for key, values in places.items() if values}
        return sorted(level, key=lambda key: -level[key])

    def _proven(self, key: Key) -> bool:
        lead = self._lead(key, self._baseline)
        return lead is not None and lead.proof[0] > 0 and lead.centre >= math.log1p(self._rules.min_gain)

    def _near(self, key: Key, leader: Key) -> bool:
        """``key`` looks no worse than the leader by more than the margin."""
        lead = self._lead(key, leader)
        return key == leader or (lead is not None and lead.centre >= math.log1p(-self._rules.margin))

    def _equal(self, key: Key, pick: Key) -> bool:
        if key in self._failures and self._failures[key] >= _FAILURES:
            return False
        lead = self._lead(key, pick)
        if lead is None or lead.pairs < self._rules.min_rounds:
            return False
        within = abs(lead.centre) <= math.log1p(self._rules.margin)
        return within or abs(lead.centre) <= _CLEARLY * lead.error

    def _recommended(self) -> Key | None:
        """The cheapest proven setting among those near the leader, else the best proven one; None when none is proven."""
        ranked = self._ranked()
        if self._mute():
            near = [key for key in ranked if self._near(key, ranked[0])]
            return min(near, key=self._cost.__getitem__) if near and self.rounds >= self._rules.min_rounds else None
        proven = [key for key in ranked if self._proven(key)]
        near = [key for key in proven if self._near(key, ranked[0])]
        # The list is in order of rank and min takes the first of several: of two equally cheap ones the faster.
        return min(near, key=self._cost.__getitem__) if near else next(iter(proven), None)

    # -- letting go ----------------------------------------------------------------------------------------------------

    def _drop(self, key: Key, why: str) -> None:
        self._in.remove(key)
        self._dropped[key] = why

    def _drop_failed(self) -> None:
        for key in [key for key in self._in if self._failures.get(key, 0) >= _FAILURES]:
            self._drop(key, f"failed in {self._failures[key]} rounds")
            for other in [other for other, reason in self._resting.items() if reason == key]:
                # What rested because this one was as good and cheaper runs again.
                del self._resting[other], self._dropped[other]
                self._in.append(other)

    def _judge(self) -> None:
        if self.rounds >= self._rules.min_rounds:
            self._let_go()
        self._decided = self.rounds >= self._rules.max_rounds or not self._in or self._settled()

    def _let_go(self) -> None:
        margin, min_gain = math.log1p(self._rules.margin), math.log1p(self._rules.min_gain)
        for key in list(self._in):
            lead = None if self._mute() else self._lead(key, self._baseline)
            if lead is not None and lead.above(_CLEARLY) < min_gain:
                self._drop(key, "no gain over the baseline worth having")
            elif lead is not None and self._chance(lead) < _HOPELESS:
                self._drop(key, "its gain could not be proven in the rounds left")
        ranked = self._ranked()
        if not ranked:
            return
        leader = ranked[0]
        cheap = min((key for key in ranked if self._near(key, leader)), key=self._cost.__getitem__)
        for key in ranked[1:]:
            behind, gap = self._lead(key, leader), self._lead(key, cheap)
            if behind is not None and behind.centre < -margin and behind.above(_CLEARLY) < 0:
                self._drop(key, "worse than the best")
            elif key != cheap and gap is not None and self._dearer(key, cheap) and gap.above(_LIKELY) <= margin:
                self._resting[key] = cheap
                self._drop(key, "no better than a cheaper one")

    def _dearer(self, key: Key, other: Key) -> bool:
        return self._cost[key] >= self._cost[other]

    def _chance(self, lead: _Lead) -> float:
        """Chance that the last look proves a gain, if the true gain is the best that is plausible now."""
        last = self._rules.max_rounds - (self.rounds - lead.pairs)
        if last <= lead.pairs:
            return 1.0
        if lead.error == 0 or math.isinf(lead.error):
            return 1.0
        noise, left = lead.error * math.sqrt(lead.pairs), last - lead.pairs
        now, drift = lead.centre * lead.pairs / noise, lead.above(_LIKELY) / noise
        return _NORMAL.cdf((now + left * drift - self._looks[last] * math.sqrt(last)) / math.sqrt(left))

    def _settled(self) -> bool:
        """The recommended setting is proven, and none of the others would be recommended instead."""
        pick = self._recommended()
        if pick is None or self.rounds < self._rules.min_rounds:
            return False
        margin = math.log1p(self._rules.margin)
        for key in self._in:
            lead = self._lead(key, pick)
            if key == pick or lead is None:
                continue
            if not self._dearer(key, pick) or lead.above(_LIKELY) > margin:
                return False
        return True

    # -- words ---------------------------------------------------------------------------------------------------------

    def _keep(self) -> RaceResult:
        order = [*self._ranked(), *(key for key in self._contenders if key in self._dropped)]
        leads = {key: lead for key in order if (lead := self._lead(key, self._baseline)) is not None}
        leader = max(leads, key=lambda key: leads[key].centre, default=self._baseline)
        lead = leads.get(leader)
        least = self.minimum_rounds
        if not self._contenders:
            reason = "no other setting came near the baseline in the search, so nothing was raced against it"
        elif self._failures and all(self._failures.get(key, 0) >= _FAILURES for key in self._contenders):
            reason = "every other setting failed when it was measured again"
        elif not self._in:
            reason = f"no setting can be proven at least {self._rules.min_gain:.0%} better than the baseline"
        elif self.rounds < least:
            reason = f"not enough rounds to prove it: {self.rounds} of at least {least}"
        elif lead is not None and lead.proof[0] > 0:
            reason = f"the best setting is less than {self._rules.min_gain:.0%} better than the baseline"
        else:
            reason = f"no setting was proven better than the baseline in {_count(self.rounds, 'round')}"
        return self._answer(self._baseline, False, leader, lead, (), reason)

    def _answer(
        self, winner: Key, adopt: bool, leader: Key, lead: _Lead | None, equals: tuple[Key, ...], reason: str
    ) -> RaceResult:
        gain = None
        if lead is not None:
            low, high = math.exp(lead.proof[0]), math.exp(lead.proof[1]) if lead.proof[1] < math.inf else math.inf
            gain = Gain(math.exp(lead.centre), low, high, self._rules.confidence)
        return RaceResult(winner, adopt, gain, leader, equals, dict(self._dropped), self.rounds, self._decided, reason)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
