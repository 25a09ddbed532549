"""The logarithm of a mixture with one, and its inverse, without overflow or cancellation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["log_mixture", "log_mixture_inverse", "log_mixture_ulps", "mixture_share"]

Array = NDArray[np.float64]

# exp(v) is finite below; above it rate exp(v), which may be small for a tiny rate, is taken as one exponential. Both
# sides of the switch are accurate, so its place does not matter.
LARGEST_EXPONENT = 700.0


def log_mixture(rate: float, v: Array) -> Array:
    """``log(1 - rate + rate exp(v))``, to small relative error, for a rate in (0, 1) and any real v."""
    bounded = np.minimum(v, LARGEST_EXPONENT)
    excess = rate * np.expm1(bounded)  # the mixture minus one
    sinking = excess < -0.5  # there 1 + excess would cancel, while 1 - rate is exact
    near = np.log1p(np.where(sinking, 0.0, excess))
    low = np.log((1.0 - rate) + rate * np.exp(np.where(sinking, bounded, 0.0)))
    high = np.logaddexp(math.log1p(-rate), math.log(rate) + np.maximum(v, LARGEST_EXPONENT))
    return np.where(v > LARGEST_EXPONENT, high, np.where(sinking, low, near))


def mixture_share(rate: float, v: Array, log_mix: Array | None = None) -> Array:
    """``rate exp(v) / (1 - rate + rate exp(v))``: the slope of `log_mixture`, between 0 and 1; that may be given."""
    return np.asarray(np.exp(math.log(rate) + v - (log_mixture(rate, v) if log_mix is None else log_mix)))


def log_mixture_ulps(rate: float, v: Array, log_mix: Array) -> Array:
    """A bound on the relative error of `log_mixture`, in units of rounding, when v itself is off by four of them.

    The derivative of the mixture's logarithm is its share, so an error of v moves it by share * |v| * 4 units, and its
    own operations add a few units.
    """
    moved = mixture_share(rate, v, log_mix) * np.abs(v)
    return 8.0 + 4.0 * moved / np.maximum(np.abs(log_mix), np.finfo(float).tiny)


def log_mixture_inverse(rate: float, log_mix: Array) -> Array:
    """The v at which `log_mixture` is `log_mix`; minus infinity where no v reaches so low. A few digits suffice."""
    with np.errstate(divide="ignore"):  # log(0) = -inf is the answer at and below log(1 - rate)
        low = np.log1p(np.maximum(np.expm1(np.minimum(log_mix, 1.0)) / rate, -1.0))
    high = log_mix + np.log1p((rate - 1.0) * np.exp(-np.maximum(log_mix, 1.0))) - math.log(rate)
    return np.where(log_mix < 1.0, low, high)
