r"""The modulus of a characteristic function between points at which it is known.

With D the difference of two independent draws, :math:`|\varphi(s)|^2 = E[\cos sD]`, whose second derivative is at most
:math:`E[D^2] = 2v` in modulus, v the variance. A chord of it over a length d errs by at most :math:`v d^2/4`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["log_moduli_above", "log_moduli_between", "variance_above"]

Array = NDArray[np.float64]

# --- What carries a proof.

# Roundings of a logarithm, relative to itself, and of the square of a modulus, less one, relative to what it is summed
# from: an exponential, a logarithm and fewer than four operations. Many rounds multiply them.
ROUNDINGS = 8.0 * UNIT_ROUNDOFF

# --- What only tunes tightness.

# Below this logarithm a modulus is far enough from one to be summed as it is.
FAR_FROM_ONE = -0.5


def log_moduli_above(log_moduli: Array, error: Array) -> Array:
    """Upper bounds of the logarithms of moduli of at most one, each modulus computed to within an `error`.

    Examples
    --------
    >>> np.exp(log_moduli_above(np.log([0.001, 0.9]), np.array([0.01, 0.2]))).round(6)
    array([0.011, 1.   ])
    """
    logs = np.minimum(log_moduli, 0.0)
    with np.errstate(divide="ignore"):  # of a modulus of zero that has no error
        far = np.log((np.exp(logs) + error) * (1.0 + ROUNDINGS))
        less = np.expm1(np.maximum(logs, FAR_FROM_ONE))
        near = np.log1p(less + error + ROUNDINGS * (error - less))
        found = np.where(logs < FAR_FROM_ONE, far, near)
    return np.asarray(np.minimum(found * (1.0 - ROUNDINGS), 0.0))


def log_moduli_between(points: Array, log_moduli: Array, variance: float) -> Array:
    r"""Upper bounds of :math:`\log|\varphi|` on every interval between neighbours of an increasing row of points.

    Guarantee
    ---------
    Errs upward, if the logarithms at the points and the variance are not below the true ones.

    Theorem
    -------
    docs/theory/accounting.md, Lemma 5.

    Examples
    --------
    >>> log_moduli_between(np.array([1.0, 2.0]), np.array([-0.5, -2.0]), 1.0).round(6)
    array([-0.240731])
    """
    squares = np.expm1(2.0 * log_moduli)  # less one
    larger, rise = np.maximum(squares[:-1], squares[1:]), 0.25 * variance * np.diff(points) ** 2
    most = larger + rise + ROUNDINGS * (np.abs(larger) + rise)
    return np.asarray(0.5 * np.log1p(np.minimum(most, 0.0)) * (1.0 - ROUNDINGS))


def variance_above(h: float, bend: float) -> float:
    r"""An upper bound of a variance, given :math:`K(t+h) + K(t-h) - 2K(t)` of the cumulant function of a tilted law.

    With c the mean of both slopes, :math:`E[e^{h(L-c)} + e^{-h(L-c)}] = 2 e^{\text{bend}/2}`, and
    :math:`e^y + e^{-y} \ge 2 + y^2`; no point c is nearer in the mean square than the mean.

    Examples
    --------
    >>> variance_above(0.1, 0.01) >= 1.0  # of a normal law of variance one
    True
    """
    return 2.0 * math.expm1(min(0.5 * bend, 700.0)) / (h * h)
