"""Privacy profiles of one and two rounds of a sampled Gaussian from the definition, in mpmath: imports nothing of ours.

With x ~ N(0, sigma^2) and w(x) = 1 - q + q exp((2x - 1) / (2 sigma^2)), Q has the density phi and P has w phi in the
direction remove, and the other way round in the direction add. Delta is the integral of (dP - e^epsilon dQ)_+.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp

Number = Any  # mpmath has no types


def _ratio(x: Number, sigma: Number, rate: Number) -> Number:
    return 1 - rate + rate * mp.exp((2 * x - 1) / (2 * sigma**2))


def _crossing(ratio: Number, sigma: Number, rate: Number) -> Number:
    """The x at which w is `ratio`; minus infinity where it is larger everywhere."""
    odds = (ratio - 1 + rate) / rate
    return sigma**2 * mp.log(odds) + mp.mpf(1) / 2 if odds > 0 else -mp.inf


def one_round(sigma: Number, rate: Number, direction: str, epsilon: Number) -> Number:
    """Delta of a round at any epsilon, by quadrature up to where the integrand changes its sign."""
    level = mp.exp(epsilon)

    def density(x: Number) -> Number:
        return mp.npdf(x, 0, sigma)

    if direction == "remove":
        low = max(_crossing(level, sigma, rate), -40 * sigma)
        high = max(low, mp.mpf(1)) + 40 * sigma
        points = sorted({low, high, *(x for x in (mp.mpf(0), mp.mpf(1)) if low < x < high)})
        return mp.quad(lambda x: density(x) * (_ratio(x, sigma, rate) - level), points)
    high = _crossing(1 / level, sigma, rate)
    if high == -mp.inf:
        return mp.mpf(0)
    high, low = min(high, 40 * sigma), -40 * sigma
    points = sorted({low, high, *([mp.mpf(0)] if low < 0 < high else [])})
    return mp.quad(lambda x: density(x) * (1 - level * _ratio(x, sigma, rate)), points) if low < high else mp.mpf(0)


def _closed(sigma: Number, rate: Number, direction: str, epsilon: Number) -> Number:
    """The same by the normal distribution function; `one_round` is its test."""
    level = mp.exp(epsilon)

    def far(x: Number, mean: int) -> Number:
        return mp.erfc((x - mean) / (sigma * mp.sqrt(2))) / 2

    if direction == "remove":
        x = _crossing(level, sigma, rate)
        return (1 - rate - level) * far(x, 0) + rate * far(x, 1)
    x = _crossing(1 / level, sigma, rate)
    return (1 - level * (1 - rate)) * (1 - far(x, 0)) - level * rate * (1 - far(x, 1))


def two_rounds(sigma: Number, rate: Number, direction: str, epsilon: Number) -> Number:
    """Delta of two rounds: the average over the first of what the second has left to lose."""
    sign = 1 if direction == "remove" else -1

    def left(x: Number) -> Number:
        ratio = _ratio(x, sigma, rate)
        weight = mp.npdf(x, 0, sigma) * (ratio if direction == "remove" else 1)
        return weight * _closed(sigma, rate, direction, epsilon - sign * mp.log(ratio))

    edges = [-40 * sigma, -8 * sigma, -3 * sigma, mp.mpf(0), mp.mpf(1), 1 + 3 * sigma, 1 + 8 * sigma, 1 + 40 * sigma]
    crossing = _crossing(mp.exp(sign * epsilon), sigma, rate)
    if abs(crossing) < 40 * sigma:
        edges += [crossing, crossing - sigma / 8, crossing + sigma / 8]
    return mp.quad(left, sorted(set(edges)), maxdegree=9)
