"""Delta of one round from its definition, in arbitrary precision: symmetric pairs, plain and on a Poisson sample."""

from __future__ import annotations

from collections.abc import Callable

from mpmath import erfc, exp, log, mp, mpf, sqrt

__all__ = ["discrete_gaussian_excess", "laplace_excess", "normal_excess", "response_excess", "sampled_delta"]

# The largest P(A) - c Q(A) over events, at any c > 0.
Excess = Callable[[mpf], mpf]


def _tail(z: mpf) -> mpf:
    return erfc(z / sqrt(mpf(2))) / 2


def normal_excess(sigma: float) -> Excess:
    """N(1, sigma^2) over N(0, sigma^2): the ratio exceeds c beyond sigma^2 log c + 1/2."""

    def excess(c: mpf) -> mpf:
        s = mpf(sigma)
        y = s * s * log(c) + mpf(1) / 2
        return _tail((y - 1) / s) - c * _tail(y / s)

    return excess


def laplace_excess(b: float) -> Excess:
    """Laplace laws of scale b at 1 and at 0: the log-ratio is that of |x| - |x - 1|, cut at both ends."""

    def excess(c: mpf) -> mpf:
        a, level = 1 / mpf(b), log(c)
        if level >= a:
            return mpf(0)
        if level < -a:
            return 1 - c
        y = (level / a + 1) / 2  # |y| - |y - 1| = 2y - 1 on [0, 1]
        above_p = 1 - exp(-a * (1 - y)) / 2  # P(x > y) for the law around 1
        above_q = exp(-a * y) / 2
        return above_p - c * above_q

    return excess


def response_excess(epsilon: float) -> Excess:
    """A bit told truly with probability e^eps / (1 + e^eps)."""

    def excess(c: mpf) -> mpf:
        truth, lie = 1 / (1 + exp(-mpf(epsilon))), 1 / (1 + exp(mpf(epsilon)))
        return max(truth - c * lie, mpf(0)) + max(lie - c * truth, mpf(0))

    return excess


def discrete_gaussian_excess(sigma: float) -> Excess:
    """Integers with masses proportional to exp(-k^2 / 2 sigma^2), shifted by one under P."""
    most = int(60 * sigma) + 60

    def excess(c: mpf) -> mpf:
        s = mpf(sigma)
        weights = {k: exp(-(mpf(k) ** 2) / (2 * s * s)) for k in range(-most, most + 1)}
        total = sum(weights.values())
        return sum((max(weights[k - 1] - c * weights[k], mpf(0)) for k in range(1 - most, most + 1)), mpf(0)) / total

    return excess


def sampled_delta(excess: Excess, rate: float, epsilon: float, *, digits: int = 60) -> mpf:
    """The larger of both directions, by the hockey-stick divergence of the mixture (1 - q) Q + q P and Q.

    remove: sup (1-q) Q + q P - c Q = q sup P - ((c - 1 + q) / q) Q.
    add: sup Q - c ((1-q) Q + q P) = A sup Q - (c q / A) P with A = 1 - c (1 - q), if that is positive.
    """
    with mp.workdps(digits):
        q, c = mpf(rate), exp(mpf(epsilon))
        if q == 0:
            return mpf(0)
        remove = q * excess((c - 1 + q) / q)
        left = 1 - c * (1 - q)
        add = left * excess(c * q / left) if left > 0 else mpf(0)
        return max(remove, add)
