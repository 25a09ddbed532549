"""The logarithm of a mixture of exponentials, and its inverse, without overflow or cancellation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.cumulant import TiltableLaw

__all__ = ["Mixture", "log_mixture", "log_mixture_inverse", "log_mixture_ulps", "mixture_law", "mixture_share"]

Array = NDArray[np.float64]

# exp(v) is finite below; above it rate exp(v), which may be small for a tiny rate, is taken as one exponential. Both
# sides of the switch are accurate, so its place does not matter.
LARGEST_EXPONENT = 700.0
# Newton's method on a convex function; a mixture with components far apart takes a dozen steps.
MOST_STEPS = 60
NEAR = 1e-12
# Of more values than this, in order, every so many are inverted first.
FEW, STRIDE = 256, 16
# A logarithm so small that it is as good as zero.
TINY = 1e-280


def log_mixture(rate: float, v: Array) -> Array:
    """``log(1 - rate + rate exp(v))``, to small relative error, for a rate in (0, 1) and any real v."""
    bounded = np.minimum(v, LARGEST_EXPONENT)
    excess = rate * np.expm1(bounded)  # the mixture minus one
    sinking = excess < -0.5  # there 1 + excess would cancel, while 1 - rate is exact
    found = np.log1p(np.where(sinking, 0.0, excess))
    if sinking.any():
        found = np.where(sinking, np.log((1.0 - rate) + rate * np.exp(np.where(sinking, bounded, 0.0))), found)
    high = v > LARGEST_EXPONENT
    if high.any():
        large = np.logaddexp(math.log1p(-rate), math.log(rate) + np.maximum(v, LARGEST_EXPONENT))
        found = np.where(high, large, found)
    return np.asarray(found)


def mixture_share(rate: float, v: Array, log_mix: Array | None = None) -> Array:
    """``rate exp(v) / (1 - rate + rate exp(v))``: the slope of `log_mixture`, between 0 and 1; that may be given."""
    return np.asarray(np.exp(math.log(rate) + v - (log_mixture(rate, v) if log_mix is None else log_mix)))


def log_mixture_ulps(rate: float, v: Array, log_mix: Array) -> Array:
    """A bound on the relative error of `log_mixture`, in units of rounding, when v itself is off by four of them.

    The derivative of the mixture's logarithm is its share, so an error of v moves it by share * |v| * 4 units, and its
    own operations add a few units.
    """
    moved = mixture_share(rate, v) * np.abs(v)
    return 8.0 + 4.0 * (moved / np.maximum(np.abs(log_mix), np.finfo(float).tiny))


def log_mixture_inverse(rate: float, log_mix: Array) -> Array:
    """The v at which `log_mixture` is `log_mix`; minus infinity where no v reaches so low. A few digits suffice."""
    with np.errstate(divide="ignore"):  # log(0) = -inf is the answer at and below log(1 - rate)
        low = np.log1p(np.maximum(np.expm1(np.minimum(log_mix, 1.0)) / rate, -1.0))
    high = log_mix + np.log1p((rate - 1.0) * np.exp(-np.maximum(log_mix, 1.0))) - math.log(rate)
    return np.where(log_mix < 1.0, low, high)


@dataclass(frozen=True)
class Mixture:
    r"""``w(v) = p_0 + p_1 exp(v_1) + … + p_n exp(v_n)``, with ``v_i = r_i v + o_i``; one component is `log_mixture`.

    Parameters
    ----------
    rest
        p_0, in [0, 1).
    probabilities
        p_1, …, p_n, positive; with p_0 they sum to one, up to rounding.
    slopes
        r_1 < … < r_n = 1, positive.
    offsets
        o_1, …, o_n, not negative; the last is 0.
    """

    rest: float
    probabilities: tuple[float, ...]
    slopes: tuple[float, ...] = (1.0,)
    offsets: tuple[float, ...] = (0.0,)

    @classmethod
    def at_rate(cls, rate: float) -> Mixture:
        """``1 - rate + rate exp(v)``."""
        return cls(1.0 - rate, (rate,))

    @cached_property
    def is_single(self) -> bool:
        """Whether there is one component in addition to the constant."""
        return len(self.probabilities) == 1

    def log(self, v: Array) -> Array:
        """``log w``, to small relative error."""
        if self.is_single:
            return log_mixture(self.probabilities[0], v)
        v_i = self._exponents(v)
        bounded = np.minimum(v_i, LARGEST_EXPONENT)
        excess = np.tensordot(self.probabilities, np.expm1(bounded), 1)  # w minus one
        sinking = excess < -0.5  # there 1 + excess would cancel, while p_0 is exact
        near = np.log1p(np.where(sinking, 0.0, excess))
        high = v > LARGEST_EXPONENT  # then a component is, or may be
        if not (sinking.any() or high.any()):
            return np.asarray(near)
        with np.errstate(divide="ignore"):  # where p_0 is zero
            logs = np.log(np.array([self.rest, *self.probabilities]))
        exponents = np.concatenate([np.zeros((1, *v.shape)), v_i]) + _column(logs, v)
        top = exponents.max(axis=0)
        summed = top + np.log(np.exp(exponents - top).sum(axis=0))
        return np.asarray(np.where(sinking | high, summed, near))

    def shares(self, v: Array, log_mix: Array | None = None) -> Array:
        """The part of w that each component after p_0 is, a row each; its logarithm may be given."""
        if self.is_single:
            return mixture_share(self.probabilities[0], v, log_mix)[None]
        logs = np.log(np.array(self.probabilities))
        return np.asarray(np.exp(self._exponents(v) + _column(logs, v) - (self.log(v) if log_mix is None else log_mix)))

    def slope(self, shares: Array) -> Array:
        """The derivative of ``log w``: the mean of the slopes by their shares, between 0 and 1."""
        return np.asarray(shares[0] if self.is_single else np.tensordot(self.slopes, shares, 1))

    def bend(self, shares: Array) -> Array:
        """The second derivative of ``log w``: the variance of the slopes, between 0 and 1/4."""
        if self.is_single:
            return np.asarray(shares[0] * (1.0 - shares[0]))
        squares = np.tensordot(np.square(self.slopes), shares, 1)
        return np.asarray(np.maximum(squares - np.tensordot(self.slopes, shares, 1) ** 2, 0.0))

    def over_last(self, v: Array) -> Array:
        """``log w - log p_n - v``: what the other components add to the logarithm of the last; it falls with v."""
        total = math.log(self.rest) - v if self.rest else np.full(v.shape, -math.inf)
        for p, slope, offset in zip(self.probabilities[:-1], self.slopes, self.offsets, strict=False):
            total = np.logaddexp(total, math.log(p) + offset + (slope - 1.0) * v)
        return np.asarray(np.logaddexp(0.0, total - math.log(self.probabilities[-1])))

    def ulps(self, v: Array, log_mix: Array) -> Array:
        """A bound on the relative error of `log`, in units of rounding, when v itself is off by four of them."""
        if self.is_single:
            return log_mixture_ulps(self.probabilities[0], v, log_mix)
        return np.asarray(self.units(v, log_mix) / np.maximum(np.abs(log_mix), TINY))

    def units(self, v: Array, log_mix: Array) -> Array:
        """A bound on the error of `log`, in units of rounding, when v itself is off by four of them.

        An error of one v_i moves the logarithm by its share. Next to one, the terms of ``w - 1`` may cancel, and each
        rounds by a few units of itself; none exceeds the sum of its share and of its probability over w. Probabilities,
        slopes and offsets are known to four units.
        """
        shares = self.shares(v, log_mix)
        sizes = np.multiply.outer(self.slopes, np.abs(v)) + _column(self.offsets, v)
        least = (shares + np.exp(-np.minimum(log_mix, 0.0)) * _column(self.probabilities, v)).sum(axis=0)
        terms = (12.0 + len(self.slopes)) * np.minimum(least, 1.0)
        return np.asarray(8.0 * np.abs(log_mix) + 12.0 * (shares * sizes).sum(axis=0) + terms)

    def inverse(self, log_mix: Array) -> Array:
        """The v at which `log` is `log_mix`; minus infinity where no v reaches so low. A few digits suffice."""
        if self.is_single:
            return log_mixture_inverse(self.probabilities[0], log_mix)
        least = math.log(self.rest) if self.rest else -math.inf
        reached = log_mix > least
        target = np.where(reached, log_mix, 0.0)
        # each component alone is w at a v that is not below; the logarithm is convex, so Newton's method falls to v
        parts = zip(self.probabilities, self.slopes, self.offsets, strict=True)
        with np.errstate(over="ignore"):  # far out of reach of doubles
            v = np.min([(target - math.log(p) - offset) / slope for p, slope, offset in parts], axis=0)
        if log_mix.size > FEW and bool((np.diff(log_mix) >= 0).all()):
            # what reaches a larger value is not below either, and nearly always closer
            some = np.append(np.arange(STRIDE - 1, log_mix.size - 1, STRIDE), log_mix.size - 1)
            above = np.repeat(self.inverse(log_mix[some]), STRIDE)[: log_mix.size]
            v = np.where(reached, np.minimum(v, above), v)
        moving = np.arange(v.size)
        for _ in range(MOST_STEPS):
            here = v[moving]
            log_mix = self.log(here)
            slope = self.slope(self.shares(here, log_mix))
            with np.errstate(
                divide="ignore", over="ignore", invalid="ignore"
            ):  # flat, where no v reaches: left as it is
                step = np.maximum((log_mix - target[moving]) / slope, 0.0)
            far = np.isfinite(step) & (step > NEAR * (1.0 + np.abs(here)))
            v[moving] = np.where(np.isfinite(step), here - step, here)
            moving = moving[far]
            if not moving.size:
                break
        return np.where(reached, v, -math.inf)

    def _exponents(self, v: Array) -> Array:
        return np.multiply.outer(self.slopes, v) + _column(self.offsets, v)


def _column(values: Sequence[float] | Array, v: Array) -> Array:
    """Values that broadcast against rows of the shape of v."""
    return np.asarray(values, dtype=np.float64).reshape(-1, *(1,) * v.ndim)


def mixture_law(log_weights: Array, v: Array, mixture: Mixture, *, inverse: bool) -> TiltableLaw:
    """The law of ``log w`` under w times a law of v, of points and weights; or `inverse`, of ``-log w`` under v's.

    Either has a negative exponential of mean one, because w has mean one under the law of v.
    """
    log_mix = mixture.log(v)
    ulps = mixture.ulps(v, log_mix)
    return TiltableLaw(log_weights, -log_mix, ulps) if inverse else TiltableLaw(log_weights + log_mix, log_mix, ulps)
