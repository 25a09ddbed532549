r"""Differences of nearly equal exponentials, to full relative precision.

Near zero, ``exp(x) - 1 - x`` computed as written keeps no digit: at ``x = 1e-9`` its terms are of size one and the
result is ``5e-19``. Privacy losses of one round among millions live exactly there.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["SMALL", "exp_minus_tangent", "gamma2_cdf", "half_square_series"]

Array = NDArray[np.float64]
Row = TypeVar("Row", NDArray[np.float64], NDArray[np.complex128])

# Below this the series is used, above it the plain difference, which has lost at most two bits there.
SMALL = 0.5
# (e^x - 1 - x) / (x^2/2) is the sum of 2 x^k / (k + 2)!; for |x| <= SMALL the terms from k = 14 on are below
# 2 SMALL^14 / 16! < 1e-17, a tenth of an ulp.
COEFFICIENTS = tuple(2.0 / math.factorial(k + 2) for k in range(14))


def half_square_series(x: Row) -> Row:
    """(e^x - 1 - x) / (x²/2) for real or complex |x| <= SMALL, by Horner's rule."""
    total: Row = np.full_like(x, COEFFICIENTS[-1])
    for coefficient in reversed(COEFFICIENTS[:-1]):
        total *= x
        total += coefficient
    return total


def exp_minus_tangent(x: Array) -> Array:
    """``exp(x) - 1 - x``: how far the exponential lies above its tangent at zero, within a few ulps."""
    small = np.clip(x, -SMALL, SMALL)
    return np.where(np.abs(x) < SMALL, 0.5 * small * small * half_square_series(small), np.expm1(x) - x)


def gamma2_cdf(y: Array) -> Array:
    """``1 - (1 + y) exp(-y)`` for y >= 0, the distribution function of Gamma(2), within a few ulps."""
    small = np.minimum(y, SMALL)
    decay = np.exp(-y)
    # beyond 800 the decay is zero, and y itself may be inf
    tail = decay + np.minimum(y, 800.0) * decay
    return np.where(y < SMALL, 0.5 * small * small * half_square_series(small) * decay, 1.0 - tail)
