"""A Gaussian process over encoded settings: Matern 5/2, one length a knob, fitted to its own evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

_ROOT5 = math.sqrt(5.0)
_JITTER = 1e-6

# What is believed before any measurement, as logs: a knob's length in units of its whole range, and the variances of what the
# knobs do and of the noise, both as shares of the variance of the scores. Few points must not make a knob look irrelevant or
# all scatter look like structure.
_LENGTH_SPREAD, _LENGTHS = 1.0, (math.log(0.08), math.log(20.0))
_EFFECT, _EFFECT_SPREAD, _EFFECTS = 0.0, 1.0, (math.log(1e-3), math.log(10.0))
_NOISE, _NOISE_SPREAD, _NOISES = math.log(0.05), 1.2, (math.log(1e-4), math.log(2.0))

# A noise that was seen from so many repeats counts twice as much as the belief above.
_REPEATS = 2.0

# Lengths are fitted to at most so many settings: evidence costs the cube of them, and lengths hardly change beyond.
_FITTED = 80
_STEPS = 30


class GaussianProcess:
    """``rows`` are settings (n x columns), ``knobs`` the columns of each knob, ``y`` scores, ``counts`` samples behind each.

    ``length`` is where the fit of the knobs' lengths begins and is drawn to. The first rows are the ones that they are fitted
    to: put the most telling first. ``noise`` is the standard deviation of one sample, in score, as ``repeats`` repeats say.
    """

    def __init__(
        self,
        rows: Matrix,
        knobs: Sequence[slice],
        y: Matrix,
        counts: Matrix,
        length: float,
        noise: float,
        repeats: int,
    ) -> None:
        self._middle = float(y.mean())
        self._scale = float(y.std()) or 1.0
        scaled = (y - self._middle) / self._scale
        self._knobs, self._rows = list(knobs), rows
        self._belief = self._believed(math.log(length), noise / self._scale, repeats)
        self._theta = self._fit(rows[:_FITTED], scaled[:_FITTED], counts[:_FITTED])
        self._effect = math.exp(self._theta[-2])
        self._points = rows * self._columns()
        covariance = self._effect * _matern(_squared(self._points, self._points))[0]
        covariance[np.diag_indices(len(y))] += math.exp(self._theta[-1]) / counts + _JITTER
        self._factor = _cholesky(covariance)
        self._weights = cho_solve((self._factor, True), scaled, check_finite=False)

    def predict(self, rows: Matrix) -> tuple[Matrix, Matrix]:
        """Mean and standard deviation of the noiseless score of each row."""
        near = self._effect * _matern(_squared(rows * self._columns(), self._points))[0]
        mean = near @ self._weights
        solved = cho_solve((self._factor, True), near.T, check_finite=False)
        variance = np.maximum(self._effect - np.einsum("ij,ji->i", near, solved), 1e-10)
        return mean * self._scale + self._middle, np.sqrt(variance) * self._scale

    def _believed(self, length: float, noise: float, repeats: int) -> tuple[Matrix, Matrix]:
        """Centre and spread of each parameter before the fit: the lengths, the effect's variance, the noise's variance."""
        weight = repeats / (repeats + _REPEATS)
        seen = min(max(2.0 * math.log(max(noise, 1e-9)), _NOISES[0]), _NOISES[1])
        centres = [length] * len(self._knobs) + [_EFFECT, (1 - weight) * _NOISE + weight * seen]
        spreads = [_LENGTH_SPREAD] * len(self._knobs) + [_EFFECT_SPREAD, _NOISE_SPREAD / math.sqrt(1 + repeats / _REPEATS)]
        return np.array(centres), np.array(spreads)

    def _columns(self) -> Matrix:
        """The factor of each column: one over its knob's length."""
        factors = np.zeros(self._rows.shape[1])
        for length, columns in zip(self._theta[:-2], self._knobs, strict=True):
            factors[columns] = math.exp(-length)
        return factors

    def _fit(self, rows: Matrix, y: Matrix, counts: Matrix) -> Matrix:
        squares = np.array([_squared(rows[:, columns], rows[:, columns]) for columns in self._knobs])
        found = minimize(
            _evidence,
            self._belief[0],
            (squares, y, counts, self._belief),
            jac=True,
            method="L-BFGS-B",
            bounds=[*[_LENGTHS] * len(self._knobs), _EFFECTS, _NOISES],
            options={"maxiter": _STEPS},
        )
        theta: Matrix = found.x if np.isfinite(found.fun) else self._belief[0]
        return theta


def _evidence(
    theta: Matrix, squares: Matrix, y: Matrix, counts: Matrix, belief: tuple[Matrix, Matrix]
) -> tuple[float, Matrix]:
    """Negative log of marginal likelihood times prior, and its gradient."""
    shrink, effect, noise = np.exp(-2.0 * theta[:-2]), math.exp(theta[-2]), math.exp(theta[-1])
    covariance, slope = _matern(np.tensordot(shrink, squares, 1))
    covariance *= effect
    noisy = covariance.copy()
    noisy[np.diag_indices(len(y))] += noise / counts + _JITTER
    factor = _cholesky(noisy)
    weights = cho_solve((factor, True), y, check_finite=False)
    inverse = dpotri(factor, lower=1)[0]
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    pull = inverse - np.outer(weights, weights)
    gradient = np.empty(len(theta))
    gradient[:-2] = 0.5 * effect * np.tensordot(squares, pull * slope, 2) * shrink
    gradient[-2] = 0.5 * float((pull * covariance).sum())
    gradient[-1] = 0.5 * float((np.diag(pull) / counts).sum()) * noise
    off = (theta - belief[0]) / belief[1]
    value = 0.5 * float(y @ weights) + float(np.log(np.diag(factor)).sum()) + 0.5 * float(off @ off)
    return value, gradient + off / belief[1]


def _squared(a: Matrix, b: Matrix) -> Matrix:
    squares: Matrix = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    return np.maximum(squares, 0.0, out=squares)


def _matern(squares: Matrix) -> tuple[Matrix, Matrix]:
    """The covariance at squared distances, and the factor of its derivative by a log length."""
    distance = _ROOT5 * np.sqrt(squares)
    decay = np.exp(-distance)
    rise = (1.0 + distance) * decay
    return rise + (5.0 / 3.0) * squares * decay, (5.0 / 3.0) * rise


def _cholesky(covariance: Matrix) -> Matrix:
    """Lower factor; more jitter until it exists (rows that are nearly the same)."""
    jitter = 0.0
    for _ in range(8):
        factor, failed = dpotrf(covariance + jitter * np.eye(len(covariance)) if jitter else covariance, lower=1, clean=1)
        if not failed:
            found: Matrix = factor
            return found
        jitter = max(10 * jitter, _JITTER)
    raise ArithmeticError("a covariance of settings has no Cholesky factor")
