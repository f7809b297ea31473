"""Robust statistics of paired log differences: location, noise, and intervals that hold for few samples and many looks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import combinations
from statistics import NormalDist, median

# Up to here the signed-rank distribution is counted out exactly; beyond it the normal approximation is off by less than the
# distribution's own steps.
EXACT = 60
# Share of the ranks that count in full; see rank_cap.
CAP = 0.5
# Sign-and-rank paths drawn for the joint law of repeated looks: the error rates asked of it are 0.005 to 0.05, which 200,000
# paths give to 1-3 % of themselves.
_PATHS = 200_000
# The median of |x - y| for two readings of a normal law is 0.6745 * sqrt(2) of its standard deviation.
_NORMAL_GAP = 0.6744897501960817 * math.sqrt(2)

Interval = tuple[float, float]
EVERYTHING: Interval = (-math.inf, math.inf)


def walsh(values: Sequence[float]) -> list[float]:
    """The means of all pairs of ``values``, each with itself too, sorted: n (n + 1) / 2 of them."""
    ordered = sorted(values)
    means = [(a + b) / 2 for i, a in enumerate(ordered) for b in ordered[i:]]
    means.sort()
    return means


def middle(ordered: Sequence[float]) -> float:
    """Median of values that are sorted already; raises ValueError when there are none."""
    if not ordered:
        raise ValueError("the median of nothing")
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def hodges_lehmann(values: Sequence[float]) -> float:
    """Centre of ``values``: nearly as steady as the mean on clean data, and outliers up to 29 % of them don't move it.

    Of three values or fewer the median, which one outlier does not move either.
    """
    return middle(walsh(values) if len(values) > 3 else sorted(values))


def centre_error(noise: float, n: int) -> float:
    """Standard error of hodges_lehmann over ``n`` values of standard deviation ``noise``; infinite when that is not known."""
    if math.isnan(noise) or not n:
        return math.inf
    # Efficiency against the mean on normal data: 3/pi, and 0.74 for the median of three.
    return noise / math.sqrt(n * (0.955 if n > 3 else 0.74 if n == 3 else 1.0))


def rank_cap(n: int) -> int:
    """The largest rank that counts among n differences.

    Plain signed ranks let the single largest difference, which is where outliers are, undo a dozen others: at the levels
    that several contenders and looks leave, one slowed reading in twelve would hide a gain of 20 %. Ranks that stop growing
    half-way keep most of the test's power on clean data, its exactness and its monotony.
    """
    return max(1, math.ceil(n * CAP))


@cache
def _tails(n: int) -> tuple[float, ...]:
    """P(W >= t) for t = 0 .. top + 1, W the sum of the positive capped ranks of n symmetric differences."""
    counts, top = [1], 0
    for rank in range(1, n + 1):
        worth = min(rank, rank_cap(n))
        counts += [0] * worth
        top += worth
        for total in range(top, worth - 1, -1):
            counts[total] += counts[total - worth]
    tails, above = [0.0], 0
    for count in reversed(counts):
        above += count
        tails.append(above / 2**n)
    return tuple(reversed(tails))


def top_rank_sum(n: int) -> int:
    """The statistic when all of n differences are positive."""
    cap = rank_cap(n)
    return cap * (cap + 1) // 2 + (n - cap) * cap


def rank_sum(differences: Sequence[float], centre: float) -> int:
    """Sum of the capped ranks of the differences above ``centre``; those on it count as below, ties as the lower rank."""
    shifted = sorted((abs(d - centre), d <= centre) for d in differences)
    cap = rank_cap(len(shifted))
    return sum(min(rank, cap) for rank, (_, below) in enumerate(shifted, 1) if not below)


def rank_tail(n: int, statistic: int) -> float:
    """P(W >= ``statistic``) when n differences are symmetric around zero; exact up to EXACT differences."""
    top = top_rank_sum(n)
    if statistic > top:
        return 0.0
    if n <= EXACT:
        return _tails(n)[max(0, statistic)]
    cap = rank_cap(n)
    spread = math.sqrt((cap * (cap + 1) * (2 * cap + 1) / 6 + (n - cap) * cap * cap) / 4)
    return NormalDist().cdf((top / 2 - statistic + 0.5) / spread)


@lru_cache(maxsize=4096)
def rank_threshold(n: int, level: float) -> int | None:
    """The smallest t with P(W >= t) <= ``level``; None when n differences can't reach that level, however clear they are."""
    low, high = 0, top_rank_sum(n)
    if n < 1 or rank_tail(n, high) > level:
        return None
    while low < high:
        half = (low + high) // 2
        if rank_tail(n, half) <= level:
            high = half
        else:
            low = half + 1
    return low


def shift_interval(differences: Sequence[float], threshold: int | None) -> Interval:
    """The centres of ``differences`` that the capped signed-rank test at ``threshold`` does not refuse, from either side.

    Infinite where the threshold is None: too few differences for the level asked.
    """
    if threshold is None or not differences:
        return EVERYTHING
    return _lower_bound(differences, threshold), -_lower_bound([-d for d in differences], threshold)


def _lower_bound(differences: Sequence[float], threshold: int) -> float:
    """The largest centre below which the test refuses all: the statistic falls as the centre rises, and only at pair means."""
    means = walsh(differences)
    low, high = 0, len(means) - 1
    while low < high:
        half = (low + high) // 2
        # Between two pair means: on one of them rounding would decide which of the pair ranks higher.
        if rank_sum(differences, (means[half] + means[half + 1]) / 2) < threshold:
            high = half
        else:
            low = half + 1
    return means[low]


def fixed_interval(differences: Sequence[float], confidence: float = 0.9) -> Interval:
    """Exact two-sided interval of the centre of ``differences``, from one look; infinite with fewer than 5 at 90 %."""
    return shift_interval(differences, rank_threshold(len(differences), (1 - confidence) / 2))


@lru_cache(maxsize=256)
def repeated_thresholds(level: float, rounds: int) -> tuple[int | None, ...]:
    """Capped signed-rank thresholds for a look after each of ``rounds`` differences, index 0 .. rounds; None: too early.

    The chance that symmetric differences reach *any* of them is at most ``level``. By round n the share sqrt(n / rounds) of
    it may be spent: clear answers come early, and a race that runs to its end has lost little. How the statistic at one look
    hangs on those before follows from signs and the order of ranks alone, whatever the noise; that joint law is drawn, with a
    fixed seed. Each single look also keeps the exact level of what is spent up to it.
    """
    import numpy as np

    paths = max(20_000, min(_PATHS, 400_000_000 // (rounds * rounds)))
    rng = np.random.default_rng(20_240_501)
    sizes = np.empty((rounds, paths), dtype=np.float32)
    positive = np.empty((rounds, paths), dtype=bool)
    ranks = np.zeros((rounds, paths), dtype=np.int16)
    open_paths = np.ones(paths, dtype=bool)
    spent = 0
    thresholds: list[int | None] = [None]
    for n in range(1, rounds + 1):
        drawn = rng.random(paths, dtype=np.float32) * 2 - 1
        sizes[n - 1], positive[n - 1] = np.abs(drawn), drawn > 0
        larger = sizes[: n - 1] > sizes[n - 1]
        ranks[: n - 1] += larger
        ranks[n - 1] = n - np.count_nonzero(larger, axis=0)
        may_spend = level * math.sqrt(n / rounds)
        threshold = rank_threshold(n, may_spend)
        if threshold is not None:
            statistic = np.asarray(np.sum(np.minimum(ranks[:n], rank_cap(n)) * positive[:n], axis=0, dtype=np.int64))
            top = top_rank_sum(n)
            counts = np.bincount(statistic[open_paths], minlength=top + 1)
            reached = np.cumsum(counts[::-1])[::-1].tolist()
            while threshold <= top and spent + reached[threshold] > may_spend * paths:
                threshold += 1
            if threshold > top:
                threshold = None
            else:
                spent += reached[threshold]
                open_paths &= statistic < threshold
        thresholds.append(threshold)
    return tuple(thresholds)


def pooled_noise(groups: Iterable[Sequence[float]]) -> float:
    """Standard deviation inside the groups, from the median gap between two readings of one group; nan with no such two.

    Centres of the groups may differ, and neither outliers nor one restless group decide.
    """
    gaps = [abs(a - b) for group in groups for a, b in combinations(group, 2)]
    return median(gaps) / _NORMAL_GAP if gaps else math.nan


def moderated_noise(values: Sequence[float], pooled: float, weight: float = 4.0) -> float:
    """Standard deviation of ``values``, drawn towards ``pooled`` as if that were known from ``weight`` more readings.

    Three readings say little about their own spread, and settings do differ in it; nan when neither is known.
    """
    own, freedom = pooled_noise([values]), max(0, len(values) - 1)
    if math.isnan(own):
        return pooled
    if math.isnan(pooled):
        return own
    return math.sqrt((weight * pooled**2 + freedom * own**2) / (weight + freedom))
