"""How a start grows with its ranks: fitted over measured sizes, extrapolated with an interval."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

_RESAMPLES = 400
# The square is believed only where it predicts sizes that were held out clearly better.
_BETTER = 0.85
_LEAST_SIZES = 4


@dataclass(frozen=True, slots=True)
class Growth:
    """value = constant + linear * n + square * n^2, none of them negative; ``errors`` are the mean held-out errors (natural
    log of the ratio) of the model without and with the square, ``square_chosen`` which was taken.
    """

    points: tuple[tuple[int, float], ...]
    coefficients: tuple[float, float, float]
    errors: tuple[float, float]

    @property
    def square_chosen(self) -> bool:
        return self.coefficients[2] > 0

    def at(self, ranks: int) -> float:
        constant, linear, square = self.coefficients
        return constant + linear * ranks + square * ranks * ranks

    def interval(self, ranks: int, confidence: float = 0.9) -> tuple[float, float]:
        """Where the value at ``ranks`` lies: residuals drawn again and again, and the error on sizes held out on top."""
        rng = random.Random(0)
        terms = 3 if self.square_chosen else 2
        ratios = [value / max(self.at(n), 1e-9) for n, value in self.points]
        found = []
        for _ in range(_RESAMPLES):
            drawn = [(n, self.at(n) * rng.choice(ratios)) for n, _ in self.points]
            found.append(Growth(self.points, _fit(drawn, terms), self.errors).at(ranks))
        found.sort()
        tail = int(_RESAMPLES * (1 - confidence) / 2)
        wider = 1 + self.errors[1 if self.square_chosen else 0]
        return found[tail] / wider, found[-1 - tail] * wider


def grow(points: Sequence[tuple[int, float]]) -> Growth | None:
    """The growth of (ranks, value > 0) points; None for fewer than four sizes."""
    kept = tuple(sorted((n, value) for n, value in points if value > 0))
    if len({n for n, _ in kept}) < _LEAST_SIZES:
        return None
    errors = (_held_out(kept, 2), _held_out(kept, 3))
    terms = 3 if errors[1] < _BETTER * errors[0] else 2
    return Growth(kept, _fit(kept, terms), errors)


def _fit(points: Sequence[tuple[int, float]], terms: int) -> tuple[float, float, float]:
    """Least squares of the relative errors, coefficients not below zero: no start gets faster by ranks."""
    import numpy
    from scipy.optimize import nnls

    scale = max(n for n, _ in points)
    rows = numpy.array([[(n / scale) ** power / value for power in range(terms)] for n, value in points])
    solved, _ = nnls(rows, numpy.ones(len(points)))
    full = [*map(float, solved), 0.0, 0.0][:3]
    return full[0], full[1] / scale, full[2] / scale**2


def _held_out(points: Sequence[tuple[int, float]], terms: int) -> float:
    """Mean error, as a log ratio, on each size fitted without it; the largest counts twice, for that is the way it is used."""
    import math

    sizes = sorted({n for n, _ in points})
    errors: list[float] = []
    for size in sizes:
        constant, linear, square = _fit([point for point in points if point[0] != size], terms)
        seen = fmean(value for n, value in points if n == size)
        error = abs(math.log(max(constant + linear * size + square * size * size, 1e-9) / seen))
        errors += [error, error] if size == sizes[-1] else [error]
    return fmean(errors)


# What others measured on real clusters; ranks, server, what they say, where.
PUBLISHED: tuple[Mapping[str, object], ...] = (
    {"ranks": 4000, "server": "libuv", "said": "1.98 s for init and barrier", "source": "pytorch PR #129261"},
    {"ranks": 98304, "server": "libuv", "said": "init about 100 s", "source": "PyTorch tutorial on the libuv TCPStore"},
    {
        "ranks": 98304,
        "server": "legacy",
        "said": "init over 30 min, timed out",
        "source": "PyTorch tutorial on the libuv TCPStore",
    },
)
