"""Delta of two rounds of a Poisson-sampled Gaussian from the definition, in arbitrary precision.

Given the first round's loss l, what is left is delta of one round at epsilon - l, which has a closed form at every real
level; the average over the first round's outcome is an integral over one number.
"""

from __future__ import annotations

from mpmath import exp, expm1, log, mp, mpf, ncdf, pi, quad, sqrt

from tests.references.stored import stored

__all__ = ["two_rounds_delta"]

# One round's delta is a difference of tails, which may cancel by 20 digits and more.
DIGITS = 60


def _one_round(sigma: mpf, rate: mpf, level: mpf, direction: str) -> mpf:
    """Delta of one round at any real level: E_P[(1 - exp(level - L))_+]."""
    share = rate if direction == "remove" else 1 - (1 - rate) * exp(level)
    if share <= 0:
        return mpf(0)
    ratio = 1 + expm1(level) / share
    if ratio <= 0:  # below the least loss
        return -expm1(level)
    a = log(ratio) * sigma - 1 / (2 * sigma)
    return share * (ncdf(-a) - ratio * ncdf(-a - 1 / sigma))


@stored
def two_rounds_delta(sigma: float, rate: float, epsilon: float, direction: str) -> mpf:
    """Delta of two rounds."""
    with mp.workdps(DIGITS):
        s, q, level = mpf(sigma), mpf(rate), mpf(epsilon)
        sign = 1 if direction == "remove" else -1

        def integrand(x: mpf) -> mpf:
            w = 1 + q * expm1((2 * x - 1) / (2 * s * s))
            density = exp(-x * x / (2 * s * s)) / (s * sqrt(2 * pi)) * (w if sign > 0 else 1)
            return density * _one_round(s, q, level - sign * log(w), direction)

        points = [k * s for k in range(-14, 26)]
        edge = -log(1 - q)
        kink = exp(level + edge if sign > 0 else edge - level)
        if kink > 1 - q:
            points.append(s * s * log(1 + (kink - 1) / q) + mpf(1) / 2)
        return +quad(integrand, sorted(points), maxdegree=7)
