r"""The family of f-divergences: what one is, and the well-known ones.

A convex function f with :math:`f(1) = 0` defines

.. math:: D_f(P \| Q) = E_Q[f(dP/dQ)] + f'(\infty)\, P(dQ = 0).

Adding a multiple of :math:`t - 1` to f changes nothing, so every generator is kept in its non-negative form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, log
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._validate import FINITE_EPSILON, Interval, broadcast, real, real_array
from dprounds.divergences.kernels import (
    HockeyStickKernel,
    PowerKernel,
    chi_squared_kernel,
    jensen_shannon_kernel,
    kl_kernel,
    le_cam_kernel,
    reverse_kl_kernel,
    squared_hellinger_kernel,
    total_variation_kernel,
)
from dprounds.errors import ParameterError

__all__ = [
    "Divergence",
    "Scale",
    "chi_alpha",
    "chi_squared",
    "hockey_stick",
    "jensen_shannon",
    "kl",
    "le_cam",
    "renyi",
    "reverse_kl",
    "squared_hellinger",
    "total_variation",
]

Array = NDArray[np.float64]

PROBABILITY = Interval.parse("[0, 1]")
# At a larger order the power of a likelihood ratio next to one already overflows, and a pair cannot be distinguished
# from the edge of the range.
FINITE_ORDER = Interval.parse("(1, 1e6]", "At order one both are the Kullback-Leibler divergence: use kl.")

# Masses that a program normalised sum to one within about 1e-16 per term. This tolerance admits sums of ten million
# terms and still refuses counts, percentages and truncated tables.
SUM_TOLERANCE = 1e-9


# The `log_bend` of a function that is straight between its corners.
STRAIGHT = (-inf, 0.0, 0.0)


class Scale(Protocol):
    """An increasing function of an f-divergence, and its inverse, both through the logarithm of that divergence."""

    def value(self, log_divergence: Array) -> Array:
        """The number that is reported where the f-divergence is ``exp(log_divergence)``."""
        ...

    def log_divergence(self, value: Array) -> Array:
        """Logarithm of the f-divergence where `value` is reported."""
        ...


@dataclass(frozen=True)
class PlainScale:
    """The f-divergence itself."""

    def value(self, log_divergence: Array) -> Array:
        """The f-divergence; beyond the largest double it is inf."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(log_divergence))

    def log_divergence(self, value: Array) -> Array:
        """Its logarithm, -inf at zero."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(value))


@dataclass(frozen=True)
class RenyiScale:
    """``log(1 + b chi) / b`` with b = order - 1."""

    order: float

    def value(self, log_divergence: Array) -> Array:
        """Rényi divergence where chi_alpha is ``exp(log_divergence)``; chi_alpha itself may overflow."""
        b = self.order - 1.0
        return np.asarray(np.logaddexp(0.0, log_divergence + log(b)) / b)

    def log_divergence(self, value: Array) -> Array:
        """Logarithm of ``(exp(b value) - 1) / b``."""
        b = self.order - 1.0
        with np.errstate(divide="ignore"):
            return np.asarray(b * value + np.log(-np.expm1(-b * value)) - log(b))


@dataclass(frozen=True, kw_only=True, repr=False)
class Divergence:
    r"""An f-divergence, or an increasing function of one, that can be called on two finite distributions.

    Parameters
    ----------
    name
        How it prints.
    log_kernel
        :math:`u \mapsto \log( f(e^u) / (1 + e^u) )` at finite log ratios u, for the f with
        :math:`f(1) = 0 \le f`; -inf where f is zero.
    at_zero, slope_at_infinity
        :math:`f(0)` and :math:`f'(\infty)` of that f, in [0, inf].
    log_kinks
        Log ratios at which f has a corner: all of them where there is a `log_bend`, otherwise a hint.
    largest_log_ratio
        `log_kernel` can be trusted for log ratios of at most this size.
    log_bend
        The numbers a, b, c with :math:`\log f''(e^u) = a + b u + c \log(1 + e^u)` between corners, a = -inf where f is
        straight; None if there are none. Knowing them makes joint ranges with tiny values tight.
    scale
        The increasing function, the identity unless given.

    Examples
    --------
    >>> from dprounds.divergences import kl
    >>> round(kl([0.5, 0.5], [0.25, 0.75]), 6)
    0.143841
    >>> kl
    kl
    """

    name: str
    log_kernel: Callable[[Array], Array]
    at_zero: float
    slope_at_infinity: float
    log_kinks: tuple[float, ...] = ()
    # Far beyond any log ratio of doubles, so that kinds of growth at infinity can be distinguished; kernels stay exact.
    largest_log_ratio: float = 1e8
    log_bend: tuple[float, float, float] | None = None
    scale: Scale = field(default_factory=PlainScale)

    def __repr__(self) -> str:
        return self.name

    @property
    def largest(self) -> float:
        """The divergence of two distributions that share no point: the largest of all, possibly inf."""
        return float(self.scale.value(_log_of(self.at_zero + self.slope_at_infinity)))

    def log_kernel_everywhere(self, u: Array) -> Array:
        """`log_kernel`, continued to the log ratios -inf (only Q has mass) and inf (only P has)."""
        inside = np.isfinite(u)
        finite = self.log_kernel(np.where(inside, u, 0.0))
        end = np.where(u > 0, _log_of(self.slope_at_infinity), _log_of(self.at_zero))
        return np.where(inside, finite, end)

    def __call__(self, p: ArrayLike, q: ArrayLike) -> float | Array:
        """Divergence of the distribution `p` from the distribution `q`.

        Parameters
        ----------
        p, q
            Probabilities in [0, 1] that sum to one along the last axis; the other axes broadcast.
        """
        p_mass, q_mass = _distribution("p", p), _distribution("q", q)
        p_mass, q_mass = broadcast(p=p_mass, q=q_mass)
        total = p_mass + q_mass
        # log1p of the relative difference keeps the digits of masses that nearly agree; a point with q = 0 has the
        # log ratio inf, one with p = 0 has -inf, and one with neither is weighed by zero.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            near = np.log1p((p_mass - q_mass) / q_mass)
            far = np.log(p_mass) - np.log(q_mass)
        u = np.where(np.abs(p_mass - q_mass) <= 0.5 * q_mass, near, far)
        u = np.where(total > 0, u, 0.0)
        with np.errstate(over="ignore", divide="ignore"):  # an infinite kernel or log 0 are right as they stand
            log_terms = np.where(total > 0, np.log(total) + self.log_kernel_everywhere(u), -inf)
            largest = np.max(log_terms, axis=-1, keepdims=True)
            shift = np.where(np.isfinite(largest), largest, 0.0)
            log_divergence = np.log(np.sum(np.exp(log_terms - shift), axis=-1)) + shift[..., 0]
        value = self.scale.value(log_divergence)
        return float(value) if value.ndim == 0 else value


def _log_of(value: float) -> Array:
    """The logarithm, with log 0 = -inf."""
    return np.asarray(log(value) if value > 0 else -inf)


def _distribution(name: str, value: ArrayLike) -> Array:
    """`value` as probabilities that sum to one along the last axis."""
    mass = real_array(name, value, PROBABILITY)
    if mass.ndim == 0:
        raise ParameterError(f"{name} must be an array of probabilities, got one number.")
    total = mass.sum(axis=-1)
    wrong = ~(np.abs(total - 1.0) <= SUM_TOLERANCE)
    if wrong.any():
        raise ParameterError(f"{name} must sum to 1 along the last axis, got {float(total[wrong].flat[0]):.17g}.")
    return mass


total_variation = Divergence(
    name="total_variation",
    log_kernel=total_variation_kernel,
    at_zero=0.5,
    slope_at_infinity=0.5,
    log_kinks=(0.0,),
    log_bend=STRAIGHT,
)
"""Half the L1 distance, the largest difference of the probability of one event, in [0, 1]."""

kl = Divergence(name="kl", log_kernel=kl_kernel, at_zero=1.0, slope_at_infinity=inf, log_bend=(0.0, -1.0, 0.0))
"""Kullback-Leibler divergence, the sum of p log(p/q), in nats."""

reverse_kl = Divergence(
    name="reverse_kl", log_kernel=reverse_kl_kernel, at_zero=inf, slope_at_infinity=1.0, log_bend=(0.0, -2.0, 0.0)
)
"""Kullback-Leibler divergence with the arguments exchanged, the sum of q log(q/p), in nats."""

squared_hellinger = Divergence(
    name="squared_hellinger",
    log_kernel=squared_hellinger_kernel,
    at_zero=0.5,
    slope_at_infinity=0.5,
    log_bend=(-log(4.0), -1.5, 0.0),
)
"""One minus the sum of sqrt(p q), half the sum of (sqrt p - sqrt q)², in [0, 1]."""

chi_squared = Divergence(
    name="chi_squared", log_kernel=chi_squared_kernel, at_zero=1.0, slope_at_infinity=inf, log_bend=(log(2.0), 0.0, 0.0)
)
"""Pearson's divergence, the sum of (p - q)²/q."""

jensen_shannon = Divergence(
    name="jensen_shannon",
    log_kernel=jensen_shannon_kernel,
    at_zero=0.5 * log(2.0),
    slope_at_infinity=0.5 * log(2.0),
    log_bend=(-log(2.0), -1.0, -1.0),
)
"""Mean of the KL divergences of p and of q from their midpoint, in nats, in [0, log 2]."""

le_cam = Divergence(
    name="le_cam", log_kernel=le_cam_kernel, at_zero=0.5, slope_at_infinity=0.5, log_bend=(log(4.0), 0.0, -3.0)
)
"""Half the sum of (p - q)²/(p + q), in [0, 1]."""


def hockey_stick(epsilon: float) -> Divergence:
    r"""Hockey-stick divergence: the sum of :math:`(p - e^\varepsilon q)_+`, the least delta of (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon
        In [0, inf); at 0 it is the total variation.

    Examples
    --------
    >>> round(hockey_stick(0.0)([0.5, 0.5], [0.25, 0.75]), 12)
    0.25
    """
    epsilon = real("epsilon", epsilon, FINITE_EPSILON)
    return Divergence(
        name=f"hockey_stick({epsilon!r})",
        log_kernel=HockeyStickKernel(epsilon),
        at_zero=0.0,
        slope_at_infinity=1.0,
        log_kinks=(epsilon,),
        log_bend=STRAIGHT,
    )


def chi_alpha(order: float) -> Divergence:
    r"""The divergence of :math:`f(t) = (t^\alpha - 1)/(\alpha - 1)`; at order 2 it is `chi_squared`.

    Parameters
    ----------
    order
        In (1, 1e6].

    Examples
    --------
    >>> round(chi_alpha(2.0)([0.5, 0.5], [0.25, 0.75]), 12)
    0.333333333333
    """
    order = real("order", order, FINITE_ORDER)
    return Divergence(
        name=f"chi_alpha({order!r})",
        log_kernel=PowerKernel(order),
        at_zero=1.0,
        slope_at_infinity=inf,
        log_bend=(log(order), order - 2.0, 0.0),
    )


def renyi(order: float) -> Divergence:
    r"""Rényi divergence in nats: :math:`\log(1 + (\alpha - 1)\chi^\alpha)/(\alpha - 1)`.

    It is an increasing function of `chi_alpha`, so it has the same joint ranges up to that change of scale.

    Parameters
    ----------
    order
        In (1, 1e6].

    Examples
    --------
    >>> round(renyi(2.0)([0.5, 0.5], [0.25, 0.75]), 6)
    0.287682
    """
    order = real("order", order, FINITE_ORDER)
    return Divergence(
        name=f"renyi({order!r})",
        log_kernel=PowerKernel(order),
        at_zero=1.0,
        slope_at_infinity=inf,
        scale=RenyiScale(order),
        log_bend=(log(order), order - 2.0, 0.0),
    )
