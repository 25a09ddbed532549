r"""The logarithm of the gamma function in the right half-plane, without SciPy, which takes long to load.

Stirling's series, at :math:`z = x + 6` where x is nearer to zero:

.. math:: \log\Gamma(z) = (z - \tfrac12)\log z - z + \tfrac12\log 2\pi
          + \sum_{k=1}^{10} \frac{B_{2k}}{2k(2k-1)z^{2k-1}} .

Its rest is at most :math:`\sec^{22}(\tfrac12\arg z)` times the next term, which is below 7e-16 for a real part of 6.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["loggamma"]

# --- What carries a proof.

# Stirling's series is taken from this real part on.
LEAST_REAL = 6.0
# B_2k / (2k (2k - 1)).
TERMS = (
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360360.0,
    1.0 / 156.0,
    -3617.0 / 122400.0,
    43867.0 / 244188.0,
    -174611.0 / 125400.0,
)


def loggamma(x: ArrayLike) -> NDArray[np.complex128]:
    """The logarithm of the gamma function, on its principal branch, where the real part is positive."""
    if not np.iscomplexobj(x):
        reals = np.asarray(x, dtype=np.float64)
        return np.array([math.lgamma(one) for one in reals.ravel().tolist()], dtype=np.complex128).reshape(reals.shape)
    at = np.asarray(x, dtype=np.complex128)
    near = at.real < LEAST_REAL
    z = np.where(near, at + 6.0, at)
    inverse = 1.0 / z
    square, series = inverse * inverse, np.zeros_like(z)
    for term in reversed(TERMS):
        series = series * square + term
    found = (z - 0.5) * np.log(z) - z + 0.5 * math.log(2.0 * math.pi) + series * inverse
    # products of two have an argument below that of the negative axis
    below = np.where(near, at, 1.0)
    less = np.log(below * (below + 1.0)) + np.log((below + 2.0) * (below + 3.0)) + np.log((below + 4.0) * (below + 5.0))
    return np.asarray(np.where(near, found - less, found), dtype=np.complex128)
