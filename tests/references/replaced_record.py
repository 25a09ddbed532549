"""A Poisson sample of which one record is replaced, from the definition and in arbitrary precision."""

from __future__ import annotations

from mpmath import mp, mpf


def loss(noise: mpf, rate: mpf, x: mpf) -> mpf:
    """log p/q of the output x."""
    here, there = (mp.exp((2 * s * x - 1) / (2 * noise**2)) for s in (1, -1))
    return mp.log((1 - rate + rate * here) / (1 - rate + rate * there))


def one_round(noise: float, rate: float, epsilon: mpf) -> mpf:
    """The largest P(A) - exp(epsilon) Q(A), at any real epsilon: A is a tail, as the loss grows with x."""
    s, q = mpf(noise), mpf(rate)
    low, high = mpf(-1), mpf(1)
    while loss(s, q, low) > epsilon:
        low *= 2
    while loss(s, q, high) < epsilon:
        high *= 2
    for _ in range(mp.prec + 10):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(s, q, middle) < epsilon else (low, middle)
    p_tail, q_tail = ((1 - q) * mp.ncdf(-low / s) + q * mp.ncdf((m - low) / s) for m in (1, -1))
    return p_tail - mp.exp(epsilon) * q_tail


def two_rounds(noise: float, rate: float, epsilon: float) -> mpf:
    """The same of two rounds: the second one at the level that the first one leaves."""
    s, q = mpf(noise), mpf(rate)

    def integrand(x: mpf) -> mpf:
        density = (1 - q) * mp.npdf(x, 0, s) + q * mp.npdf(x, 1, s)
        return density * one_round(noise, rate, mpf(epsilon) - loss(s, q, x))

    return mp.quad(integrand, mp.linspace(-8 * s, 1 + 8 * s, 5))
