"""A normal law against a mixture of its shifts, by many digits and from the definition. Imports nothing of dprounds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import mpmath as mp

from tests.references.moments import integral, spaced

Number = Any  # mpmath has no types
DIGITS = 30


def _ratio(sigma: float, shifts: Sequence[float], probabilities: Sequence[float], x: Number) -> Number:
    """dP/dQ at x, of P over Q = N(0, sigma^2); the probability of no shift is what the others leave."""
    s2 = 2 * mp.mpf(sigma) ** 2
    moved = [(mp.mpf(s), mp.mpf(p)) for s, p in zip(shifts, probabilities, strict=True) if s]
    rest = 1 - mp.fsum(p for _, p in moved) if len(moved) < len(shifts) else mp.mpf(0)
    return rest + mp.fsum(p * mp.exp((2 * s * x - s * s) / s2) for s, p in moved)


def log_moment(
    sigma: float, shifts: Sequence[float], probabilities: Sequence[float], z: complex, direction: str
) -> Number:
    """log E_Q[w^(z+1)], or log E_Q[w^-z] in the direction add, by Gauss-Legendre panels."""
    with mp.workdps(DIGITS):
        point = mp.mpmathify(z)
        power = point + 1 if direction == "remove" else -point
        top, room = max(shifts), 12 * mp.mpf(sigma)  # the integrand peaks between 0 and the power times the shift
        low, high = (0, top * (mp.re(point) + 1)) if direction == "remove" else (-top * mp.re(point), top)
        width = 2 * mp.mpf(sigma) * min(1, mp.mpf(sigma) / top) / (1 + abs(mp.im(point)) / 10)

        def integrand(x: Number) -> Number:
            density = mp.exp(-((x / mp.mpf(sigma)) ** 2) / 2) / (mp.mpf(sigma) * mp.sqrt(2 * mp.pi))
            return density * mp.exp(power * mp.log(_ratio(sigma, shifts, probabilities, x)))

        return mp.log(integral(integrand, spaced(low - room, high + room, width)))


def _crossing(sigma: float, shifts: Sequence[float], probabilities: Sequence[float], level: Number) -> Number:
    """The x at which log dP/dQ is this level, minus infinity where it is nowhere so low; by bisection."""
    low, high = mp.mpf(-1000) * sigma, mp.mpf(1000) * sigma
    if mp.log(_ratio(sigma, shifts, probabilities, low)) >= level:
        return mp.ninf
    for _ in range(150):
        middle = (low + high) / 2
        below = mp.log(_ratio(sigma, shifts, probabilities, middle)) < level
        low, high = (middle, high) if below else (low, middle)
    return low


def _tail(x: Number) -> Number:
    """The standard normal mass above x."""
    return mp.erfc(x / mp.sqrt(2)) / 2


def _above(sigma: float, shifts: Sequence[float], probabilities: Sequence[float], x: Number) -> tuple[Number, Number]:
    """The masses of P and Q above x."""
    if x == mp.ninf:
        return mp.mpf(1), mp.mpf(1)
    q = _tail(x / mp.mpf(sigma))
    moved = [(s, mp.mpf(p)) for s, p in zip(shifts, probabilities, strict=True) if s]
    rest = 1 - mp.fsum(p for _, p in moved) if len(moved) < len(shifts) else mp.mpf(0)
    return rest * q + mp.fsum(p * _tail((x - mp.mpf(s)) / mp.mpf(sigma)) for s, p in moved), q


def delta_of_one_round(
    sigma: float, shifts: Sequence[float], probabilities: Sequence[float], epsilon: float, direction: str
) -> Number:
    """The largest P(A) - e^epsilon Q(A), or with P and Q exchanged in the direction add: A is a tail of x."""
    with mp.workdps(60):
        e = mp.mpf(epsilon)
        x = _crossing(sigma, shifts, probabilities, e if direction == "remove" else -e)
        if direction == "add" and x == mp.ninf:
            return mp.mpf(0)
        p, q = _above(sigma, shifts, probabilities, x)
        return p - mp.exp(e) * q if direction == "remove" else (1 - q) - mp.exp(e) * (1 - p)


def cell_masses(
    sigma: float, shifts: Sequence[float], probabilities: Sequence[float], edges: Sequence[float], direction: str
) -> tuple[list[Number], list[Number]]:
    """Masses of the intervals between edges of the loss under its first law and its second one."""
    with mp.workdps(60):
        levels = [mp.mpf(e) for e in edges] if direction == "remove" else [-mp.mpf(e) for e in reversed(edges)]
        above = [_above(sigma, shifts, probabilities, _crossing(sigma, shifts, probabilities, e)) for e in levels]
        ends = [(mp.mpf(1), mp.mpf(1)), *above, (mp.mpf(0), mp.mpf(0))]
        p = [a[0] - b[0] for a, b in pairwise(ends)]
        q = [a[1] - b[1] for a, b in pairwise(ends)]
        return (p, q) if direction == "remove" else (q[::-1], p[::-1])
