"""What the recorded rounds of a race say about any two of its settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from spaces.space import Key
from tuner.stats import EVERYTHING, Interval, centre_error, hodges_lehmann, moderated_noise, pooled_noise, shift_interval

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Lead:
    """How much better one setting is than another over the rounds that measured both, in log ratios.

    ``error`` is the centre's standard error by the pair's own noise, ``usual_error`` by the noise of all; ``proof`` is the
    interval that holds over all looks of the race.
    """

    centre: float
    error: float
    usual_error: float
    pairs: int
    proof: Interval

    def above(self, errors: float) -> float:
        return self.centre + errors * self.error

    def missed(self) -> float:
        """What is lost on average by taking the other one: the mean of the positive part of the true lead."""
        if self.error == 0 or math.isinf(self.error):
            return max(self.centre, self.error)
        at = self.centre / self.error
        return self.centre * _NORMAL.cdf(at) + self.error * _NORMAL.pdf(at)


class Rounds:
    """Scores and failures of ``keys``, round by round; ``looks`` are the thresholds of a proof by number of rounds."""

    def __init__(self, keys: Sequence[Key], looks: Sequence[int | None]) -> None:
        self._keys, self._looks = keys, looks
        self._scores: list[dict[Key, float]] = []
        self._leads: dict[tuple[Key, Key], Lead] = {}
        self._noise = math.nan
        self.failures: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._scores)

    def record(self, values: Mapping[Key, float | None]) -> None:
        scores = {key: value for key, value in values.items() if value is not None and math.isfinite(value)}
        for key in values:
            if key not in scores:
                self.failures[key] = self.failures.get(key, 0) + 1
        self._scores.append(scores)
        self._leads.clear()
        # Around the ring every setting counts twice, so that the baseline's own luck is not taken for everyone's noise.
        ring = zip(self._keys, [*self._keys[1:], self._keys[0]], strict=True)
        self._noise = pooled_noise(self._pairs(a, b) for a, b in ring)

    def worked(self, key: Key) -> bool:
        return any(key in scores for scores in self._scores)

    def _pairs(self, a: Key, b: Key) -> list[float]:
        return [scores[a] - scores[b] for scores in self._scores if a in scores and b in scores]

    def _proof(self, pairs: Sequence[float]) -> Interval:
        """What all looks so far say together: each one's interval holds at once with the others', so their overlap does.

        A proof is thus never lost again by rounds that only sharpen it.
        """
        low, high = EVERYTHING
        for count in range(1, min(len(pairs), len(self._looks) - 1) + 1):
            now = shift_interval(pairs[:count], self._looks[count])
            low, high = max(low, now[0]), min(high, now[1])
            if low > high:
                low, high = now
        return low, high

    def lead(self, a: Key, b: Key) -> Lead | None:
        """None when no round measured both."""
        if (a, b) not in self._leads:
            pairs = self._pairs(a, b)
            if not pairs:
                return None
            error = centre_error(moderated_noise(pairs, self._noise), len(pairs))
            usual = centre_error(self._noise, len(pairs))
            proof = self._proof(pairs)
            self._leads[a, b] = Lead(hodges_lehmann(pairs), error, usual, len(pairs), proof)
        return self._leads[a, b]

    def ranked(self, keys: Sequence[Key], present: Sequence[Key]) -> list[Key]:
        """``keys`` that worked, best first, each by its place relative to the middle of ``present`` in every round."""
        places: dict[Key, list[float]] = {key: [] for key in keys}
        for scores in self._scores:
            middle = median([scores[key] for key in present if key in scores] or [0.0])
            for key in keys:
                if key in scores:
                    places[key].append(scores[key] - middle)
        level = {key: hodges_lehmann(values) for key, values in places.items() if values}
        return sorted(level, key=lambda key: -level[key])
