"""The race of the finalists: interleaved rounds, compared pairwise, stopped as soon as the answer is known."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from statistics import NormalDist

from spaces.space import Key
from tuner.race.rounds import Lead, Rounds
from tuner.race.rules import RaceResult, RaceRules, errors_needed, full, looks, minimum_rounds, plan, rounds_needed
from tuner.recommendation import Gain

__all__ = ["Race", "RaceResult", "RaceRules", "full", "minimum_rounds", "plan", "rounds_needed"]

_NORMAL = NormalDist()
# Certainties, in standard errors, at which a contender is let go: without a gain, and no better than a cheaper one. What is
# let go wrongly costs a few per cent of speed and can't make the race recommend what was not proven: so these are far below
# what a proof takes. To be told apart from the leader takes the error rate _APART, shared among the contenders, since the
# leader of many is the luckiest of many.
_CLEARLY = 1.8
_LIKELY = 1.0
_APART = 0.05
# A contender is let go when its chance to be proven in the rounds left, at the best gain plausible now, is below this.
_HOPELESS = 0.1
# Once a setting is proven, rounds go on while the mean speed missed by ending now is over this share of the margin.
_WORTH = 0.5
_ROUGHLY = 0.5
_FAILURES = 2
_UNPROVABLE = "its gain could not be proven in the rounds left"


class Race:
    """Runs on scores (log performance, higher is better). Its state follows from the recorded rounds alone.

    ``cost`` names each contender. A gain is proven by the exact capped signed-rank test of the differences to the baseline
    within rounds, at a level that holds over all contenders and all looks: slow drift cancels, outliers have bounded weight,
    and noise needs no particular law.
    """

    def __init__(self, contenders: Sequence[Key], baseline: Key, cost: Mapping[Key, float], rules: RaceRules) -> None:
        self._contenders = [key for key in dict.fromkeys(contenders) if key != baseline]
        self._baseline = baseline
        self._cost = {key: cost[key] for key in self._contenders}
        self._rules = rules
        self._apart = -_NORMAL.inv_cdf(_APART / max(1, len(self._contenders)))
        self._margin, self._min_gain = math.log1p(rules.margin), math.log1p(rules.min_gain)
        self._looks = looks(len(self._contenders), rules)
        self._rounds = Rounds([baseline, *self._contenders], self._looks)
        self._in = list(self._contenders)
        self._dropped: dict[Key, str] = {}
        self._resting: dict[Key, Key] = {}
        self._decided = not self._contenders

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
        unknown = [key for key in values if key != self._baseline and key not in self._cost]
        if unknown:
            raise ValueError(f"not in this race: {unknown}")
        self._rounds.record(values)
        self._drop_failed()
        if self.rounds >= self._rules.min_rounds and not self._decided:
            self._let_go()
        self._decided = self._decided or self.rounds >= self._rules.max_rounds or not self._in or self._settled()

    def result(self) -> RaceResult:
        """An honest answer after any number of rounds."""
        pick = self._recommended()
        if pick is None:
            return self._keep()
        equals = tuple(key for key in self._contenders if self._equal(key, pick))
        if self._mute():
            reason = "the baseline could not be measured; the best of the others is recommended without a proven gain"
            return self._answer(pick, True, pick, None, equals, reason)
        lead = self._lead(pick, self._baseline)
        assert lead is not None
        reason = f"proven better than the baseline in {lead.pairs} rounds"
        if equals:
            cheapest = all(self._cost[pick] <= self._cost[key] for key in equals)
            reason += f"; {'the cheapest' if cheapest else 'one'} of {len(equals) + 1} settings that can't be told apart"
        return self._answer(pick, True, pick, lead, equals, reason)

    # -- what is known -------------------------------------------------------------------------------------------------

    def _failed(self, key: Key) -> bool:
        return self._rounds.failures.get(key, 0) >= _FAILURES

    def _mute(self) -> bool:
        """The baseline was tried and never worked."""
        return self._failed(self._baseline) and not self._rounds.worked(self._baseline)

    def _lead(self, a: Key, b: Key) -> Lead | None:
        return self._rounds.lead(a, b)

    def _ranked(self) -> list[Key]:
        """Contenders still in that worked, best first."""
        return self._rounds.ranked(self._in, self._in if self._mute() else [self._baseline, *self._in])

    def _proven(self, key: Key) -> bool:
        lead = self._lead(key, self._baseline)
        return lead is not None and lead.proof[0] > 0 and lead.centre >= self._min_gain

    def _near(self, key: Key, leader: Key) -> bool:
        """``key`` looks no worse than the leader by more than the margin."""
        lead = self._lead(key, leader)
        return key == leader or (lead is not None and lead.centre >= math.log1p(-self._rules.margin))

    def _equal(self, key: Key, pick: Key) -> bool:
        """Not told apart from the pick: neither let go as worse or failing, nor apart by more than margin or usual noise."""
        lead = self._lead(key, pick)
        if key == pick or lead is None or (key in self._dropped and key not in self._resting):
            return False
        return lead.pairs >= self._rules.min_rounds and abs(lead.centre) <= max(self._margin, self._apart * lead.usual_error)

    def _recommended(self) -> Key | None:
        """The cheapest proven setting among those near the leader, else the best proven one; None when none is proven."""
        ranked = self._ranked()
        if self._mute():
            fit = ranked if self.rounds >= self._rules.min_rounds else []
        else:
            fit = [key for key in ranked if self._proven(key)]
        near = [key for key in fit if self._near(key, ranked[0])]
        # They are in order of rank and min takes the first of several: of two equally cheap ones the faster.
        return min(near or fit[:1], key=self._cost.__getitem__, default=None)

    @property
    def contenders(self) -> int:
        """Those still in."""
        return len(self._in)

    def thin(self, count: int) -> None:
        """Lets all but the best ``count`` contenders go: the rounds that a proof takes are worth more than a full field."""
        best = self._ranked()[:count]
        for key in [key for key in self._in if best and key not in best]:
            self._drop(key, "no time was left to race so many")

    # -- letting go ----------------------------------------------------------------------------------------------------

    def _drop(self, key: Key, why: str) -> None:
        self._in.remove(key)
        self._dropped[key] = why

    def _drop_failed(self) -> None:
        for key in [key for key in self._in if self._failed(key)]:
            self._drop(key, f"failed in {self._rounds.failures[key]} rounds")
            for other in [other for other, cheaper in self._resting.items() if cheaper == key]:
                # It rested because this one was as good and cheaper: it runs again.
                del self._resting[other], self._dropped[other]
                self._in.append(other)

    def _let_go(self) -> None:
        for key in [] if self._mute() else list(self._in):
            lead = self._lead(key, self._baseline)
            if lead is not None and lead.above(_CLEARLY) < self._min_gain:
                self._drop(key, "no gain over the baseline worth having")
            elif lead is not None and self._chance(lead) < _HOPELESS:
                self._drop(key, _UNPROVABLE)
        ranked = self._ranked()
        if not ranked:
            return
        cheap = min((key for key in ranked if self._near(key, ranked[0])), key=self._cost.__getitem__)
        for key in ranked[1:]:
            behind = self._lead(key, ranked[0])
            if behind is not None and -behind.centre > max(self._margin, self._apart * max(behind.error, behind.usual_error)):
                self._drop(key, "worse than the best")
            elif key != cheap and self._no_better(key, cheap):
                self._resting[key] = cheap
                self._drop(key, "no better than a cheaper one")

    def _no_better(self, key: Key, cheaper: Key) -> bool:
        """``key`` costs as much or more, and most likely is better by no more than the margin."""
        lead = self._lead(key, cheaper)
        return lead is not None and self._cost[key] >= self._cost[cheaper] and lead.above(_LIKELY) <= self._margin

    def _chance(self, lead: Lead) -> float:
        """Chance that the last look proves a gain, if the true gain is the best that is plausible now."""
        last = self._rules.max_rounds - (self.rounds - lead.pairs)
        threshold, left = self._looks[last], last - lead.pairs
        if threshold is None or not left or lead.error == 0 or math.isinf(lead.error):
            return 1.0
        noise = lead.error * math.sqrt(lead.pairs)
        ends = (lead.centre * lead.pairs + lead.above(_LIKELY) * left) / noise
        return _NORMAL.cdf((ends - errors_needed(last, threshold) * math.sqrt(last)) / math.sqrt(left))

    def _settled(self) -> bool:
        """The recommended setting is proven, no cheaper one may still be, and no other is likely to be better by much."""
        pick = self._recommended()
        if pick is None:
            return False
        leader = self._ranked()[0]
        for key in self._in:
            lead = self._lead(key, pick)
            if key == pick or lead is None:
                continue
            cheaper = self._cost[key] < self._cost[pick]
            if (cheaper and self._near(key, leader)) or lead.missed() > self._margin * _WORTH:
                return False
        return self._sharp(pick)

    def _sharp(self, pick: Key) -> bool:
        """The gain is known well enough to be told: within the precision, or within half of itself where it is large."""
        lead = self._lead(pick, self._baseline)
        if lead is None:
            return True
        return lead.proof[1] - lead.proof[0] <= max(math.log1p(self._rules.precision), _ROUGHLY * lead.centre)

    # -- words ---------------------------------------------------------------------------------------------------------

    def _keep(self) -> RaceResult:
        leads = {key: lead for key in self._contenders if (lead := self._lead(key, self._baseline)) is not None}
        # The one that ran longest says most; among those the best.
        leader = max(leads, key=lambda key: (key in self._in, leads[key].pairs, leads[key].centre), default=self._baseline)
        lead = leads.get(leader)
        pairs, least = lead.pairs if lead else 0, self.minimum_rounds
        if not self._contenders:
            reason = "no other setting was found that might beat the baseline"
        elif all(self._failed(key) for key in self._contenders):
            reason = "every other setting failed when it was measured again"
        elif not self._in and lead is not None and lead.centre >= self._min_gain and _UNPROVABLE in self._dropped.values():
            reason = (
                f"the best setting looks {math.expm1(lead.centre):.0%} better than the baseline, but in this noise the "
                f"{self._rules.max_rounds} rounds of the race could not prove it"
            )
        elif not self._in:
            reason = f"no setting can be proven better than the baseline by {self._rules.min_gain:.0%} or more"
        elif lead is not None and lead.proof[0] > 0:
            reason = f"the best setting is less than {self._rules.min_gain:.0%} better than the baseline"
        elif pairs < least:
            reason = f"not enough rounds to prove it: {pairs} of at least {least}"
        else:
            reason = f"no setting was proven better than the baseline in {pairs} rounds"
        return self._answer(self._baseline, False, leader, lead, (), reason)

    def _answer(
        self, winner: Key, adopt: bool, leader: Key, lead: Lead | None, equals: tuple[Key, ...], reason: str
    ) -> RaceResult:
        gain = None
        if lead is not None:
            low, high = lead.proof
            bound = math.exp(high) if high < math.inf else math.inf
            gain = Gain(math.exp(lead.centre), math.exp(low), bound, self._rules.confidence)
        return RaceResult(winner, adopt, gain, leader, equals, dict(self._dropped), self.rounds, self._decided, reason)
