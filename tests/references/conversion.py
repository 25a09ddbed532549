"""The optimal conversion from its definition, in arbitrary precision.

Theorem 3 of the paper: the least Rényi divergence of order a among the pairs of distributions whose hockey-stick
divergence at e^epsilon is delta is a minimum over two-point pairs, convex in p. It is computed here as that minimum
over p, by bisection on the derivative, and shares no formula with the library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import mpmath
from mpmath import mp, mpf

# mpmath has no types; a number here is a float, a decimal string or an mpf
Number: TypeAlias = Any

DIGITS = 50


def _pair(logit: mpf, epsilon: mpf, delta: mpf) -> tuple[mpf, mpf, mpf, mpf]:
    """p, 1 - p, q, 1 - q at r = (p - delta)/(1 - delta) = 1/(1 + e^-logit)."""
    r, s = 1 / (1 + mpmath.exp(-logit)), 1 / (1 + mpmath.exp(logit))
    q = (1 - delta) * r * mpmath.exp(-epsilon)
    return delta + (1 - delta) * r, (1 - delta) * s, q, 1 - q


def _slope(logit: mpf, order: mpf, epsilon: mpf, delta: mpf) -> mpf:
    """d/dp of p^a q^(1-a) + (1-p)^a (1-q)^(1-a), with q = (p - delta) e^-epsilon, divided by (p/q)^(a-1)."""
    p, not_p, q, not_q = _pair(logit, epsilon, delta)
    up, down = p / q, not_p / not_q
    shrink = (down / up) ** (order - 1)
    return order * (1 - shrink) + (1 - order) * mpmath.exp(-epsilon) * (up - down * shrink)


def _precision(delta: mpf) -> int:
    """Digits enough for 1 + δ², which is what the power sum is at ε = 0."""
    return DIGITS + 2 * int(-mpmath.log10(delta))


def _secant(function: Callable[[mpf], mpf], low: mpf, high: mpf) -> mpf:
    """The root that a bracket of width 1e-7 holds, to half the digits asked for: the minimum is flat."""
    x, y, f_x, f_y = low, high, function(low), function(high)
    for _ in range(30):  # the digits grow by half at each step
        if abs(y - x) <= mpf(10) ** (-DIGITS // 2) or f_x == f_y:
            return y
        x, y, f_x = y, y - f_y * (y - x) / (f_y - f_x), f_y
        f_y = function(y)
    raise ArithmeticError("the reference did not settle")


def rdp(order: Number, epsilon: Number, delta: Number) -> mpf:
    """γ_a^ε(δ): the infimum over p in (δ, 1)."""
    with mp.workdps(_precision(mpf(delta))):
        a, e, d = mpf(order), mpf(epsilon), mpf(delta)
        if a * d >= 1:
            return e - mpmath.log(1 - d)
        low, high = mpf(-1500), mpf(400)  # logits between which every case of ours has its minimum
        for _ in range(35):
            middle = (low + high) / 2
            low, high = (middle, high) if _slope(middle, a, e, d) < 0 else (low, middle)
        # a minimum beyond the last logit has 1 - p < e^-400, which no digit in force sees
        logit = high if high == 400 else _secant(lambda x: _slope(x, a, e, d), low, high)
        p, not_p, q, not_q = _pair(logit, e, d)
        return mpmath.log(p * (p / q) ** (a - 1) + not_p * (not_p / not_q) ** (a - 1)) / (a - 1)


def epsilon(rdp_value: Number, order: Number, delta: Number) -> mpf:
    """ε_a^δ(γ): the least ε >= 0 with γ_a^ε(δ) >= γ."""
    with mp.workdps(_precision(mpf(delta))):
        gamma = mpf(rdp_value)
        high = gamma + mpmath.log(1 / mpf(delta)) / (mpf(order) - 1)
        return _bisect(lambda x: rdp(order, x, delta) >= gamma, mpf(0), high)


def delta(rdp_value: Number, order: Number, epsilon_value: Number, near: float) -> mpf:
    """δ_a^ε(γ): the greatest δ with γ_a^ε(δ) <= γ, sought between `near`/2 and 2 `near`."""
    with mp.workdps(_precision(mpf(near))):
        gamma = mpf(rdp_value)
        high = min(2 * mpf(near), (1 + mpf(near)) / 2)
        return _bisect(lambda x: rdp(order, epsilon_value, x) >= gamma, mpf(near) / 2, high)


def _bisect(reached: Callable[[mpf], bool], low: mpf, high: mpf) -> mpf:
    """The point at which an increasing function reaches its target, to 25 digits; zero if it starts there."""
    if reached(low):
        return low
    while high - low > high * mpf(10) ** -25:
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
