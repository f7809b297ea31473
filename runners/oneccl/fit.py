"""What a collective costs by size: latency and bandwidth fitted over measured sizes, and extrapolated to more nodes by the
algorithm's own count of steps and bytes.

Cost models in Hockney's terms (alpha a step, beta a byte) as Thakur, Rabenseifner and Gropp count them ("Optimization of
collective communication operations in MPICH", 2005). The time of the arithmetic is part of the bytes' share.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from spaces.units import format_size

_RESAMPLES = 200
_CONFIDENCE = 0.9
Model = Callable[[int], tuple[float, float]]  # ranks -> steps, and bytes moved a byte of message


def _steps(ranks: int) -> int:
    return max(1, math.ceil(math.log2(ranks)))


def _ring_of(phases: int, whole: bool) -> Model:
    """``phases`` times p-1 steps of n/p bytes, or of n where a rank's own part is n (``whole``)."""
    return lambda p: (phases * (p - 1), phases * (p - 1) * (1.0 if whole else 1 / p))


def _halving(p: int) -> tuple[float, float]:
    return 2 * _steps(p), 2 * (p - 1) / p


def _doubling(p: int) -> tuple[float, float]:
    extra = 0 if p & (p - 1) == 0 else 2  # ranks beyond the power of two hand over before and get back after
    steps = p.bit_length() - 1 + extra
    return max(1, steps), max(1, steps)


def _two_dimensions(p: int) -> tuple[float, float]:
    rows = next(rows for rows in range(math.isqrt(p), 0, -1) if p % rows == 0)
    columns = p // rows
    return 2 * (rows - 1) + 2 * (columns - 1), 2 * (rows - 1) / rows + 2 * (columns - 1) / (columns * rows)


def _tree(both_ways: bool) -> Model:
    ways = 2 if both_ways else 1
    return lambda p: (ways * _steps(p), float(ways))


def _logarithmic(p: int) -> tuple[float, float]:
    return _steps(p), _steps(p)


_GATHER = dict.fromkeys(("naive", "ring", "flat", "multi_bcast"), _ring_of(1, whole=True))
_ALL = dict.fromkeys(("naive", "scatter"), _ring_of(1, whole=True))
_CAST: Mapping[str, Model] = {
    "naive": _ring_of(1, whole=True),
    "double_tree": _tree(both_ways=False),
    "ring": lambda p: (_steps(p) + p - 1, 2 * (p - 1) / p),
}
MODELS: Mapping[str, Mapping[str, Model]] = {
    "allreduce": {
        "ring": _ring_of(2, whole=False),
        "nreduce": _ring_of(2, whole=False),
        "rabenseifner": _halving,
        "recursive_doubling": _doubling,
        "double_tree": _tree(both_ways=True),
        "2d": _two_dimensions,
    },
    "reduce": {
        "rabenseifner": _halving,
        "ring": _ring_of(2, whole=False),
        "tree": _logarithmic,
        "double_tree": _tree(both_ways=False),
    },
    "allgather": _GATHER,
    "allgatherv": _GATHER,
    "alltoall": _ALL,
    "alltoallv": _ALL,
    "bcast": _CAST,
    "broadcast": _CAST,
    "reduce_scatter": {"ring": _ring_of(1, whole=True), "naive": _ring_of(1, whole=True)},
}


@dataclass(frozen=True, slots=True)
class Fit:
    """seconds = latency + size / bandwidth for one algorithm on ``ranks`` ranks, from (bytes, seconds) ``points``.

    ``latency`` in seconds, ``per_byte`` in seconds a byte, neither negative; ``error`` is the largest relative error on a
    point; ``others`` are the latencies and seconds a byte that points drawn again gave.
    """

    algorithm: str
    collective: str
    ranks: int
    points: tuple[tuple[int, float], ...]
    latency: float
    per_byte: float
    error: float
    others: tuple[tuple[float, float], ...] = field(repr=False)

    @property
    def bandwidth(self) -> float | None:
        """Bytes a second; None where time doesn't grow with size over the points."""
        return 1 / self.per_byte if self.per_byte > 0 else None

    def at(self, size: int) -> float:
        """Seconds for a message of ``size`` bytes."""
        return self.latency + self.per_byte * size

    def interval(self, size: int) -> tuple[float, float]:
        """Where the seconds for ``size`` lie in 90 % of the fits to points drawn again."""
        return self._between([latency + per_byte * size for latency, per_byte in self.others], self.at(size))

    @property
    def latency_interval(self) -> tuple[float, float]:
        return self._between([latency for latency, _ in self.others], self.latency)

    @property
    def bandwidth_interval(self) -> tuple[float, float | None]:
        """Bytes a second; the upper end is None where time need not grow with size."""
        low, high = self._between([per_byte for _, per_byte in self.others], self.per_byte)
        return (1 / high if high > 0 else math.inf), (1 / low if low > 0 else None)

    @staticmethod
    def _between(values: Sequence[float], own: float) -> tuple[float, float]:
        if not values:
            return own, own
        ordered = sorted(values)
        tail = int(len(ordered) * (1 - _CONFIDENCE) / 2)
        return min(own, ordered[tail]), max(own, ordered[-1 - tail])


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of one collective of ``size`` bytes on ``nodes`` nodes, from ``low`` to ``high``: never a measurement.

    ``sentence`` says so.
    """

    nodes: int
    ranks: int
    size: int
    seconds: float
    low: float
    high: float
    sentence: str


def fit(points: Sequence[tuple[int, float]], algorithm: str, collective: str, ranks: int) -> Fit | None:
    """The line through (bytes, seconds > 0), several of one size as they are; None for fewer than three sizes.

    Least squares of the relative errors, so that a microsecond counts at 1 KB as ten milliseconds do at 10 MB.
    """
    kept = tuple(sorted((size, seconds) for size, seconds in points if seconds > 0 and math.isfinite(seconds)))
    if len({size for size, _ in kept}) < 3:
        return None
    latency, per_byte = _solved(kept)
    fitted = [latency + per_byte * size for size, _ in kept]
    ratios = [seconds / line for (_, seconds), line in zip(kept, fitted, strict=True)]
    rng = random.Random(0)
    others = [
        _solved([(size, line * rng.choice(ratios)) for (size, _), line in zip(kept, fitted, strict=True)])
        for _ in range(_RESAMPLES)
    ]
    error = max(abs(1 - 1 / ratio) for ratio in ratios)
    return Fit(algorithm, collective, ranks, kept, latency, per_byte, error, tuple(others))


def _solved(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    import numpy
    from scipy.optimize import nnls

    scale = max(1, *(size for size, _ in points))
    rows = numpy.array([[1 / seconds, size / scale / seconds] for size, seconds in points])
    unit = float(numpy.abs(rows).max())
    solved, _ = nnls(rows / unit, numpy.ones(len(points)))
    return float(solved[0]) / unit, float(solved[1]) / unit / scale


def predict_nodes(fitted: Fit, nodes: int, ppn: int, size: int, measured_nodes: int) -> Prediction | str:
    """``fitted``, measured on ``measured_nodes`` nodes, carried to ``nodes`` of ``ppn`` ranks; a sentence where it can't be.

    The algorithm's steps and bytes grow as its model says and the network is taken to give each rank what it gave; switches
    that are shared, and stragglers, are not in it.
    """
    model = MODELS.get(fitted.collective, {}).get(fitted.algorithm)
    ranks = nodes * ppn
    if measured_nodes < 2:
        return "no prediction for more nodes: on one host no network was measured"
    if model is None:
        who = "MPI" if fitted.algorithm == "direct" else "oneCCL"
        return f"no prediction for {fitted.algorithm}: {who} chooses its steps, and may choose others on more nodes"
    if nodes < measured_nodes:
        return f"no prediction for {nodes} nodes: {measured_nodes} were measured"
    steps, moved = (there / here for there, here in zip(model(ranks), model(fitted.ranks), strict=True))

    def carried(latency: float, per_byte: float) -> float:
        return latency * steps + per_byte * moved * size

    seconds = carried(fitted.latency, fitted.per_byte)
    low, high = Fit._between([carried(*other) for other in fitted.others], seconds)
    low, high = low / (1 + fitted.error), high * (1 + fitted.error)
    sentence = (
        f"{fitted.collective} {fitted.algorithm} of {format_size(size)} on {nodes} nodes ({ranks} ranks): about "
        f"{_shown(seconds)}, between {_shown(low)} and {_shown(high)}; extrapolated from {measured_nodes} nodes by the "
        "algorithm's steps and bytes, not measured"
    )
    return Prediction(nodes, ranks, size, seconds, low, high, sentence)


def _shown(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"
