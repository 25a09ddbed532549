r"""Differences of nearly equal exponentials, to full relative precision.

Near zero, ``exp(x) - 1 - x`` computed as written keeps no digit: at ``x = 1e-9`` its terms are of size one and the
result is ``5e-19``. Privacy losses of one round among millions live exactly there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["exp_minus_tangent", "gamma2_cdf"]

Array = NDArray[np.float64]

# For |x| < 1 the Taylor series of (e^x - 1 - x) / (x^2/2) is 1 + x/3 (1 + x/4 (1 + ...)); the first term left out
# after 1/LAST is below 2 / 20! < 1e-18, an ulp's hundredth.
LAST = 19


def _half_square_series(x: Array) -> Array:
    """(e^x - 1 - x) / (x²/2) for |x| <= 1, by Horner's rule."""
    total = np.ones_like(x)
    for divisor in range(LAST, 2, -1):
        total *= x
        total *= 1.0 / divisor
        total += 1.0
    return total


def exp_minus_tangent(x: Array) -> Array:
    """``exp(x) - 1 - x``: how far the exponential lies above its tangent at zero, within a few ulps."""
    small = np.clip(x, -1.0, 1.0)
    return np.where(np.abs(x) < 1.0, 0.5 * small * small * _half_square_series(small), np.expm1(x) - x)


def gamma2_cdf(y: Array) -> Array:
    """``1 - (1 + y) exp(-y)`` for y >= 0, the distribution function of Gamma(2), within a few ulps."""
    small = np.minimum(y, 1.0)
    decay = np.exp(-y)
    # (1 + y) e^-y, written so that y = inf gives 0 and not inf * 0
    tail = np.where(y > 800.0, 0.0, decay + np.minimum(y, 800.0) * decay)
    return np.where(y < 1.0, 0.5 * small * small * _half_square_series(small) * decay, 1.0 - tail)
