r"""The generators of the built-in f-divergences, as the share that one point of the sample space contributes.

A point with masses :math:`p` and :math:`q` and log ratio :math:`u = \log(p/q)` adds :math:`(p + q)\,F(u)` to
:math:`D_f`, where

.. math:: F(u) = f(e^u) / (1 + e^u)

is bounded by the larger of :math:`f(0)` and :math:`f'(\infty)`, treats the two distributions alike, and is convex in
:math:`\tanh(u/2)`. Every kernel here returns :math:`\log F(u)` at finite u, for the version of f with
:math:`f(1) = f'(1) = 0`, so that F is never negative. The logarithm keeps orders in the hundreds from overflowing, and
each formula is a sum of positive terms, so that F has full relative precision at ratios next to one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.cancellation import exp_minus_tangent, gamma2_cdf

__all__ = [
    "HockeyStickKernel",
    "PowerKernel",
    "chi_squared_kernel",
    "jensen_shannon_kernel",
    "kl_kernel",
    "le_cam_kernel",
    "reverse_kl_kernel",
    "squared_hellinger_kernel",
    "total_variation_kernel",
]

Array = NDArray[np.float64]


def log_sigmoid(u: Array) -> Array:
    """``log(1 / (1 + exp(-u)))``: the log share that P has in a point of log ratio u."""
    return np.asarray(-np.logaddexp(0.0, -u))


def _log(x: Array) -> Array:
    """The logarithm with log 0 = -inf, which is the wanted answer where a kernel vanishes."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(x))


def _log_exp_minus_tangent(x: Array) -> Array:
    """``log(exp(x) - 1 - x)`` at any size of x: for x > 0 it is x plus the log of a distribution function."""
    rising = np.maximum(x, 0.0) + _log(gamma2_cdf(np.maximum(x, 0.0)))
    return np.where(x > 0, rising, _log(exp_minus_tangent(np.minimum(x, 0.0))))


def kl_kernel(u: Array) -> Array:
    """f(t) = t log t - t + 1 = t (exp(-u) - 1 + u); below ratio 1/e the first form no longer cancels."""
    low = np.minimum(u, -1.0)
    near_zero = np.log1p(np.exp(low) * (low - 1.0)) + log_sigmoid(-u)
    return np.where(u < -1.0, near_zero, log_sigmoid(u) + _log_exp_minus_tangent(-np.maximum(u, -1.0)))


def reverse_kl_kernel(u: Array) -> Array:
    """f(t) = t - 1 - log t: the roles of the distributions exchanged."""
    return kl_kernel(-u)


@dataclass(frozen=True)
class PowerKernel:
    """f(t) = (t^a - 1 - a (t - 1)) / (a - 1) for the order a.

    With b = a - 1 it equals t [(exp(bu) - 1 - bu)/b + (exp(-u) - 1 + u)]: two positive terms, the second one KL's.
    """

    order: float

    def __call__(self, u: Array) -> Array:
        """Log kernel at finite log ratios."""
        b = self.order - 1.0
        low = np.minimum(u, -1.0)
        near_zero = np.log1p(np.exp(low) * (np.expm1(b * low) / b - 1.0)) + log_sigmoid(-u)
        high = np.maximum(u, -1.0)
        bracket = np.logaddexp(_log_exp_minus_tangent(b * high) - np.log(b), _log_exp_minus_tangent(-high))
        return np.where(u < -1.0, near_zero, log_sigmoid(u) + bracket)


@dataclass(frozen=True)
class HockeyStickKernel:
    """f(t) = max(t - exp(epsilon), 0)."""

    epsilon: float

    def __call__(self, u: Array) -> Array:
        """Log kernel at finite log ratios; -inf up to log ratio epsilon."""
        return log_sigmoid(u) + _log(-np.expm1(-np.maximum(u - self.epsilon, 0.0)))


def total_variation_kernel(u: Array) -> Array:
    """f(t) = |t - 1| / 2."""
    return _log(0.5 * np.abs(np.tanh(0.5 * u)))


def squared_hellinger_kernel(u: Array) -> Array:
    """f(t) = (sqrt(t) - 1)² / 2."""
    size = np.abs(u)
    return np.asarray(2.0 * _log(-np.expm1(-0.5 * size)) - np.log1p(np.exp(-size)) - np.log(2.0))


def chi_squared_kernel(u: Array) -> Array:
    """f(t) = (t - 1)², so that F = (exp(u) - 1) tanh(u/2)."""
    size = np.abs(u)
    return np.maximum(u, 0.0) + _log(-np.expm1(-size)) + _log(np.tanh(0.5 * size))


def le_cam_kernel(u: Array) -> Array:
    """f(t) = (t - 1)² / (2 (t + 1)), so that F = tanh(u/2)² / 2."""
    return np.asarray(2.0 * _log(np.tanh(0.5 * np.abs(u))) - np.log(2.0))


def jensen_shannon_kernel(u: Array) -> Array:
    """f(t) = (t log t - (t + 1) log((t + 1)/2)) / 2.

    With s = tanh(u/2), 4F is the sum over ±s of (1 + s) log(1 + s) - s, each non-negative; for |u| above 2 the plain
    formula no longer cancels.
    """
    size = np.abs(u)
    s = np.tanh(0.5 * np.minimum(size, 2.0))
    near_one = np.zeros_like(s)
    for signed in (s, -s):
        log_ratio = np.log1p(signed)
        near_one += (1.0 + signed) * exp_minus_tangent(-log_ratio)
    tail = np.exp(-np.maximum(size, 2.0))
    # |u| s - 2 log cosh(u/2), where 1 - s = 2 e^-|u| / (1 + e^-|u|)
    far = 2.0 * np.log(2.0) - 2.0 * np.log1p(tail) - size * 2.0 * tail / (1.0 + tail)
    return _log(0.25 * np.where(size <= 2.0, near_one, far))
