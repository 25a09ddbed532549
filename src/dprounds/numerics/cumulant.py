r"""The cumulant generating function of a law whose negative exponential has mean one.

Let ``X`` take the value ``x_j`` with probability ``p_j``, and let ``E[exp(-X)] = 1``. Then

.. math:: E[e^{zX}] - 1 = E[e^{zX} - 1 - zX] + z\, E[e^{-X} - 1 + X],

because the terms linear in ``X`` cancel. For ``z > 0`` both expectations are of terms that are never negative, so
nothing cancels in the sum however small it is: the logarithm of the left side plus one keeps small *relative* error.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.cancellation import SMALL, half_square_series
from dprounds.numerics.complex_plane import log1p_at
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["complex_cumulant", "real_cumulant"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# Where the cumulant is above this the mean of the exponentials is summed as it is: its logarithm loses nothing.
FAR = 0.5

# Entries of one (z, x) table; 16 MB, so that long lists of z do not exhaust memory.
LARGEST_TABLE = 2**20

# In units of rounding: pairwise sums of up to 2^20 terms (20), exponentials and products (16), the final logarithm,
# and quadrature errors of the callers below 1e-16 (1).
FIXED_ERROR = 64.0


def _blocks(rows: int, columns: int) -> Iterator[slice]:
    """Runs of rows whose tables stay within `LARGEST_TABLE`."""
    height = max(1, LARGEST_TABLE // columns)
    return (slice(start, start + height) for start in range(0, rows, height))


def _weighted_exp_minus_tangent(log_weights: Array, y: Array) -> Array:
    """``w (exp(y) - 1 - y)``, without overflow where a tiny weight meets a huge exponential."""
    weights = np.exp(log_weights)
    terms = np.exp(log_weights + y) - weights * (1.0 + y)
    small = np.abs(y) < SMALL
    near = y[small]
    terms[small] = np.broadcast_to(weights, y.shape)[small] * (0.5 * near * near * half_square_series(near))
    return terms


def _tilted(log_weights: Array, values: Array, t: Array) -> tuple[Array, Array, Array]:
    """The weights ``w exp(t x)`` divided by their largest, the logarithm of that one, and the logarithm of their sum.

    One row for each t.
    """
    exponents = log_weights + np.multiply.outer(t, values)
    peak = exponents.max(axis=1)
    tilted = np.exp(exponents - peak[:, None])
    return tilted, peak, peak + np.log(tilted.sum(axis=1))


def _real_block(log_weights: Array, values: Array, ulps: Array, t: Array) -> tuple[Array, Array]:
    """`real_cumulant` for as many t as fit one table."""
    tilted, peak, cumulant = _tilted(log_weights, values, t)
    # An error of one unit in log w, and of `ulps` units in x, moves a term w f(t x) by at most these many units,
    # because (log f)'(y) y is at most 2 + |y| for f(y) = exp(y) - 1 - y.
    weight_error, fixed_value_error, value_error = np.abs(log_weights), 2.0 * ulps, np.abs(values) * ulps

    def error_units(terms: Array, t: Array, total: Array) -> Array:
        moved = terms @ (weight_error + fixed_value_error) + t * (terms @ value_error)
        return FIXED_ERROR + 4.0 * moved / np.maximum(total, np.finfo(float).tiny)

    error = (error_units(tilted, t, tilted.sum(axis=1)) + np.abs(peak)) / np.maximum(cumulant, FAR)
    near = cumulant <= FAR
    if near.any():
        t = t[near]
        reverse = _weighted_exp_minus_tangent(log_weights, -values)
        terms = _weighted_exp_minus_tangent(log_weights, np.multiply.outer(t, values)) + np.multiply.outer(t, reverse)
        excess = terms.sum(axis=1)
        cumulant[near] = np.log1p(excess)
        error[near] = error_units(terms, t, excess)
    return cumulant, error * UNIT_ROUNDOFF


def real_cumulant(log_weights: Array, values: Array, ulps: Array, t: Array) -> tuple[Array, Array]:
    """``log E[exp(t X)]`` at every t > 0, and bounds on the relative errors.

    `log_weights` are the logarithms of the probabilities, each within four units of rounding of its own size, and
    `values` those of X, each within its number of `ulps`.
    """
    cumulant, error = np.empty_like(t), np.empty_like(t)
    for block in _blocks(t.size, values.size):
        cumulant[block], error[block] = _real_block(log_weights, values, ulps, t[block])
    return cumulant, error


# sin(y) - y = -y^3/6 (1 - y^2/20 (1 - y^2/42 (...))). For |y| < 1 the first term left out is below 6 / 19! = 5e-17.
SINE_DIVISORS = tuple(float(n * (n + 1)) for n in range(16, 2, -2))


def _sine_minus_angle(y: Array, sine: Array) -> Array:
    """``sin(y) - y``, given the sine."""
    difference = sine - y
    small = np.abs(y) < 1.0
    near = y[small]
    square = near * near
    series = np.ones_like(near)
    for divisor in SINE_DIVISORS:
        series = 1.0 - square * series / divisor
    difference[small] = -near * square * series / 6.0
    return difference


def _rotated_sums(tilted: Array, values: Array, s: Array) -> ComplexArray:
    """Sums of ``tilted (exp(i s x) - 1 - i s x)``, for one row of tilted weights and every s."""
    sums = np.empty(s.size, dtype=np.complex128)
    for block in _blocks(s.size, values.size):
        angle = np.multiply.outer(s[block], values)
        half_sine, half_cosine = np.sin(0.5 * angle), np.cos(0.5 * angle)
        sine = 2.0 * half_sine * half_cosine
        half_sine *= half_sine
        # cos(y) - 1 = -2 sin(y/2)^2
        sums[block] = -2.0 * (half_sine @ tilted) + 1j * (_sine_minus_angle(angle, sine) @ tilted)
    return sums


def _vertical_line(log_weights: Array, values: Array, t: float, s: Array) -> ComplexArray:
    """``log E[exp((t + i s) X)]`` at every s."""
    row = np.array([t])
    tilted_rows, peaks, cumulants = _tilted(log_weights, values, row)
    tilted, peak = tilted_rows[0], float(peaks[0])
    rotated = _rotated_sums(tilted, values, s)
    if cumulants[0] > FAR:
        with np.errstate(divide="ignore"):  # the moment function may have a zero off the real line
            return np.asarray(peak + np.log(tilted.sum() + 1j * s * (tilted @ values) + rotated))
    # exp(zx) - 1 - zx = [exp(tx) - 1 - tx] + i s x (exp(tx) - 1) + exp(tx) [exp(isx) - 1 - isx]: each bracket is small
    # with its own exact smallness.
    weights = np.exp(log_weights)
    along = _weighted_exp_minus_tangent(log_weights, t * values)
    slope = (along + weights * t * values) @ values  # sum of w x (exp(tx) - 1)
    reverse = _weighted_exp_minus_tangent(log_weights, -values).sum()
    excess = along.sum() + 1j * s * slope + np.exp(peak) * rotated + (t + 1j * s) * reverse
    return np.asarray(log1p_at(excess), dtype=np.complex128)


def complex_cumulant(log_weights: Array, values: Array, z: ComplexArray) -> ComplexArray:
    """``log E[exp(z X)]`` at every z with positive real part, on some branch of the logarithm.

    Points that share a real part share their tilted weights, so a vertical line costs a sine and a cosine a term.
    """
    cumulant = np.empty(z.size, dtype=np.complex128)
    for t in np.unique(z.real):
        line = np.flatnonzero(z.real == t)
        cumulant[line] = _vertical_line(log_weights, values, float(t), z.imag[line])
    return cumulant
