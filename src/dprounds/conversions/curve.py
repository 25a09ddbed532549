r"""The boundary between Rényi and approximate DP, as one explicit curve.

Fix an order a and write t = a - 1. Every extremal pair of the paper's Theorem 3 is a two-point pair whose likelihood
ratios are e^A > 1 > e^-B, and everything about it is explicit in B and R = A + B (docs/theory/conversions.md proves
each line). With

    H(x) = (e^{tx} - 1 - tx) + t (e^{-x} - 1 + x)        how far l^a lies above its tangent, as l moves by e^x

    epsilon(R, B)    = Phi(R) - B,   Phi(R) = R + log(1 - H(R) / (a (e^{tR} - 1)))
    e^{t rdp} - 1    = e^{-tB} (a delta (e^{tR} - 1) - H(B))
    at the optimum:    1 - e^{-B} = a delta (e^{tR} - 1)(1 - e^{-R}) / H(R)

The first two lines alone are a *dual certificate*: for any R, B > 0 whatever they prove that a mechanism with that
rdp is (epsilon, delta)-DP. So a search that stops early errs to the safe side, and only rounding is left to bound.

Every function here takes x >= 0 and uses H(x) e^{-tx}, which lies in [0, 1], so that nothing overflows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.cancellation import exp_minus_tangent, gamma2_cdf
from dprounds.numerics.search import increasing_root

__all__ = ["Tilt", "drop", "inverse_phi", "optimal_share", "phi", "tilt"]

Array = NDArray[np.float64]


def drop(x: Array) -> Array:
    """1 - e^{-x}."""
    return -np.expm1(-x)


class Tilt(NamedTuple):
    """What every formula here needs at one x, with t: 1 - e^{-x}, 1 - e^{-tx}, H(x) e^{-tx} and its slope."""

    drop: Array
    drop_t: Array
    h: Array
    h_slope: Array


def tilt(x: Array, t: Array) -> Tilt:
    """The pieces at x; H is a sum of positive terms, so no digit cancels."""
    y = t * x
    decay = np.exp(-y)
    down = drop(x)
    h = gamma2_cdf(y) + t * decay * exp_minus_tangent(-x)
    return Tilt(down, drop(y), h, (1.0 + t) * t * decay * down)


def phi(R: Array, t: Array, at: Tilt) -> tuple[Array, Array]:
    """R - Phi(R) = -log(1 - H/(a (e^{tR} - 1))) >= 0, and the slope Phi'(R), which lies between 1/2 and 1.

    The argument of the logarithm is at least about 1/R wherever it is small, so the rounding error is within a few
    ulps of R.
    """
    y = at.h / ((1.0 + t) * at.drop_t)
    y_log_slope = at.h_slope / at.h - t * (1.0 - at.drop_t) / at.drop_t
    return -np.log1p(-y), 1.0 - y_log_slope * y / (1.0 - y)


def inverse_phi(y: Array, t: Array, *, guess: Array | None = None, rtol: float) -> Array:
    """The R with Phi(R) = y.

    Phi is convex with slope in [1/2, 1] and Phi(R) >= R - log(1 + 1/t): that bounds R, and from the bound Newton
    comes down on the root without overshooting.
    """
    most = np.minimum(2.0 * y, y + np.log1p(1.0 / t))

    def function(R: Array, y: Array, t: Array) -> tuple[Array, Array]:
        fall, slope = phi(R, t, tilt(R, t))
        return R - fall - y, slope

    # a thousandth outside [y, most], because either end can be the root itself to the last digit
    return increasing_root(function, 0.999 * y, 1.001 * most, most if guess is None else guess, y, t, rtol=rtol)


def optimal_share(t: Array, delta: Array, at: Tilt) -> tuple[Array, Array]:
    """1 - e^{-B} at the best B for a given R, and its log-slope in R; 1 or more where no pair attains it."""
    share = (1.0 + t) * delta * (at.drop * (at.drop_t / at.h))  # in this order no product of tiny factors underflows
    return share, (1.0 - at.drop) / at.drop + t * (1.0 - at.drop_t) / at.drop_t - at.h_slope / at.h
