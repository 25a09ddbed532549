r"""How the powers of a mean of lognormal values change with the deviation of the values and with their number.

On the nodes of the same rays (`lognormal_mean`). With :math:`v = u/t`, a_k as in `lognormal_powers` and D the square of
the deviation, :math:`\partial_D E[h(X)] = E[X^2 h''(X)]/2` for every h, as for a geometric Brownian motion at time D:

.. math:: \partial_D a_k = \tfrac12 k(k-1)\,a_k - k(k+1)\,v\,a_{k+1} + \tfrac12 (k+1)(k+2)\,v^2 a_{k+2},

and in t the integral is :math:`t^{-w}` times that of coefficients of :math:`A^t`, whose derivative is
:math:`A^t \log A`; between integers it is what the integral says. No error is bounded here: derivatives prove nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.lognormal_mean import LognormalMean, split_power
from dprounds.numerics.lognormal_powers import LEAST_AVERAGE, log_of, one_value_averages, power_coefficients
from dprounds.numerics.lognormal_rays import Ray, phased_sums

__all__ = ["MeanSlopes", "mean_slopes"]

ComplexArray = NDArray[np.complex128]


class MeanSlopes(NamedTuple):
    """The derivatives of log E[S^w], by the deviation and by the count; 0 where the mean has fallen to nothing."""

    by_deviation: ComplexArray
    by_count: ComplexArray


def mean_slopes(mean: LognormalMean, w: Numbers) -> MeanSlopes:
    """The derivatives at a row of powers of one real part, whose imaginary parts are not negative and increase."""
    real, s = float(w.real[0]), np.asarray(w.imag)
    found = MeanSlopes(np.zeros(w.size, dtype=np.complex128), np.zeros(w.size, dtype=np.complex128))
    n, p_real = split_power(real)
    start, end = 0, int(np.searchsorted(s, mean.largest_imaginary, side="right"))
    while start < end:
        if s[start] > 0:
            ray = mean.ray(n, p_real, float(s[start]))
            following = min(int(np.searchsorted(s, ray.most, side="right")), end)
        else:
            (ray,) = mean._rays(range(n, n + 1), p_real, p_real, 0.0, 0.0)
            following = int(np.searchsorted(s, 0.0, side="right"))
        by_square, by_count = _along(mean, ray, p_real, s[start:following])
        found.by_deviation[start:following] = 2.0 * mean.deviation * by_square
        found.by_count[start:following] = by_count - w[start:following] / mean.count
        start = following
    return found


def _along(mean: LognormalMean, ray: Ray, p_real: float, s: NDArray[np.float64]) -> tuple[ComplexArray, ComplexArray]:
    """The derivatives of the integral by D and by t at fixed v, over the integral, for imaginary parts of one ray."""
    n, t = ray.n, mean.count
    average = mean._average(n + 2, p_real, ray.angle, float(ray.y[-1]))
    terms = mean.terms(average, ray.angle, n + 2)
    first, a = one_value_averages(ray.y, terms.values, terms.weights, terms.factor)
    log_first = log_of(first, a[:, 0])
    log_first = log_first.real + 1j * np.unwrap(log_first.imag)  # a power between integers is continuous along the ray
    scale, _ = mean._scales(range(n, n + 1))
    whole = np.where(np.abs(a[:, 0]) < LEAST_AVERAGE, LEAST_AVERAGE, a[:, 0])[:, None]
    k, v = np.arange(n + 1), np.exp(ray.y - 1j * ray.angle)[:, None]
    moved = 0.5 * k * (k - 1.0) * a[:, : n + 1] - k * (k + 1.0) * v * a[:, 1 : n + 2]
    moved = (moved + 0.5 * (k + 1.0) * (k + 2.0) * v * v * a[:, 2 : n + 3]) / whole * scale
    ratios = a[:, : n + 1] / whole * scale
    power = power_coefficients(ratios, t)
    one_less = power_coefficients(ratios, t - 1) if t > 1 else np.eye(n + 1, 1)
    values = power[n]
    by_square = t * (one_less[::-1] * moved.T).sum(axis=0)
    by_count = log_first * values + (power[::-1] * _log_series(ratios)).sum(axis=0)
    exponents = p_real * ray.y + t * log_first.real
    sizes = np.exp(exponents - exponents.max() + 1j * t * log_first.imag)
    offsets = ray.y - float(ray.y[int(np.argmax(np.abs(sizes * values)))])
    sums = [phased_sums(sizes * row, offsets, ray.step, s) for row in (values, by_square, by_count)]
    return sums[1] / sums[0], sums[2] / sums[0]


def _log_series(ratios: ComplexArray) -> ComplexArray:
    """The coefficients of the logarithm of polynomials that begin with one, one in each row; a column for each."""
    columns = ratios.T
    found = np.zeros_like(columns)
    for m in range(1, columns.shape[0]):
        j = np.arange(1, m)
        found[m] = columns[m] - (j[:, None] / m * found[1:m] * columns[m - 1 : 0 : -1]).sum(axis=0)
    return found
