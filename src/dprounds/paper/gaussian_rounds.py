"""Epsilon of T Gaussian rounds as the paper writes it: the moments accountant (its equation 16) and Lemma 2."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dprounds import _validate
from dprounds.conversions.balle import log_zeta
from dprounds.numerics.search import log_scale_minimum

Array = NDArray[np.float64]

RHO = _validate.Interval.parse("(0, inf)")
ROUNDS = _validate.Interval.parse("[0, inf)")


def _budget(rho: float, rounds: float, delta: float) -> tuple[float, float]:
    """ρT and δ, checked."""
    rho = _validate.real("rho", rho, RHO)
    rounds = _validate.real("rounds", rounds, ROUNDS)
    return rho * rounds, _validate.real("delta", delta, _validate.DELTA)


def moments_epsilon(*, rho: float, rounds: float, delta: float) -> float:
    """Epsilon of T Gaussian rounds by the moments accountant, ρT + sqrt(4 ρT log(1/δ)): the paper's equation (16).

    Examples
    --------
    >>> round(moments_epsilon(rho=1 / 800, rounds=500, delta=1e-5), 4)
    5.9899
    """
    total, delta = _budget(rho, rounds, delta)
    return total + math.sqrt(4.0 * total * -math.log(delta))


def moments_rounds(*, rho: float, epsilon: float, delta: float) -> float:
    """Rounds, not rounded down, at which `moments_epsilon` reaches `epsilon`."""
    rho = _validate.real("rho", rho, RHO)
    epsilon = _validate.real("epsilon", epsilon, _validate.FINITE_EPSILON)
    excess = -math.log(_validate.real("delta", delta, _validate.DELTA))
    return (math.sqrt(excess + epsilon) - math.sqrt(excess)) ** 2 / rho


def _infimum_below(delta: float, function: Callable[[Array], Array]) -> float:
    """The infimum of a function of the order over (1, 1/δ]."""
    last = 1.0 / delta - 1.0
    return log_scale_minimum(lambda t: function(1.0 + np.minimum(t, last))).value


def epsilon_0(*, rho: float, rounds: float, delta: float) -> float:
    """First infimum of Lemma 2, over orders in (1, 1/δ]: Balle's bound with its positive part."""
    total, delta = _budget(rho, rounds, delta)
    return _infimum_below(delta, lambda a: np.maximum(total * a - (math.log(delta) - log_zeta(a)) / (a - 1.0), 0.0))


def epsilon_1(*, rho: float, rounds: float, delta: float) -> float:
    """Second infimum of Lemma 2, over orders in (1, 1/δ]."""
    total, delta = _budget(rho, rounds, delta)

    def function(a: Array) -> Array:
        exponent = total * a * (a - 1.0)
        # log(1 + (e^x - 1)/(a δ)), by log-add-exp so that e^x may overflow
        with np.errstate(divide="ignore"):  # at T = 0 the logarithm of nothing is -inf, and the answer 0
            grown = exponent + np.log(-np.expm1(-exponent)) - np.log(a * delta)
        return np.logaddexp(0.0, grown) / (a - 1.0)

    return _infimum_below(delta, function)


def lemma_2(*, rho: float, rounds: float, delta: float) -> float:
    """Epsilon of T Gaussian rounds by the three-term minimum of Lemma 2.

    Examples
    --------
    >>> round(lemma_2(rho=1 / 800, rounds=500, delta=1e-5), 4)
    5.3777
    """
    total, checked = _budget(rho, rounds, delta)
    third = max(total / checked + math.log1p(-checked), 0.0)
    given = {"rho": rho, "rounds": rounds, "delta": delta}
    return min(epsilon_0(**given), epsilon_1(**given), third)


def lemma_2_rounds(*, rho: float, epsilon: float, delta: float) -> float:
    """Rounds, not rounded down, at which `lemma_2` reaches `epsilon`, by bisection on its logarithm."""
    low = moments_rounds(rho=rho, epsilon=epsilon, delta=delta)
    high = 4.0 * low
    for _ in range(60):  # each step takes the square root of the ratio high/low, from 4 down to one double
        middle = math.sqrt(low * high)
        fits = lemma_2(rho=rho, rounds=middle, delta=delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low
