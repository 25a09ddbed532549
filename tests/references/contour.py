"""Privacy profiles of composed runs by the contour integral, in 60 digits: imports nothing of dprounds.

The integral over a vertical line and, for sampled Gaussians, the one over x are trapezoid sums with steps so small that
halving them changes nothing; nothing here is proven, and nothing is rounded before the 60th digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import mpmath as mp

Number = Any  # mpmath has no types

DIGITS = 60


class Part(NamedTuple):
    """A mechanism as a certificate names it, its rounds, and its numbers as text."""

    mechanism: str
    rounds: int
    values: tuple[str, ...]


def number(text: str) -> Number:
    """A decimal or a fraction."""
    over, _, under = text.partition("/")
    return mp.mpf(over) / mp.mpf(under or 1)


def _sampled(part: Part, direction: str, tau: Number, height: Number) -> tuple[list[Number], list[Number]]:
    """Weights and losses with which M(tau + is) is the sum of weight * exp(is loss)."""
    sigma, rate = map(number, part.values)
    power = tau + 1 if direction == "remove" else -tau
    digits = mp.mp.dps * mp.log(10)
    reach = sigma * mp.sqrt(2 * digits + 40)
    low, high = min(mp.mpf(0), power) - reach, max(mp.mpf(0), power) + reach
    strip = mp.mpf("1.2")
    grown = digits + sigma**2 * strip**2 / 2 + height * strip + 60 + (abs(power) * strip**2 / 6 if power < 0 else 0)
    step = 2 * mp.pi * sigma**2 * strip / grown
    weights, losses = [], []
    for j in range(int(mp.floor(low / step)), int(mp.ceil(high / step)) + 1):
        x = j * step
        log_w = mp.log(1 - rate + rate * mp.exp((2 * x - 1) / (2 * sigma**2)))
        weights.append(step / (sigma * mp.sqrt(2 * mp.pi)) * mp.exp(power * log_w - x * x / (2 * sigma**2)))
        losses.append(log_w if direction == "remove" else -log_w)
    return weights, losses


def delta(
    parts: Sequence[Part], direction: str, epsilon: str, tau: str, step: str, nodes: int, *, digits: int = DIGITS
) -> Number:
    """Delta over the finite losses, by a sum of so many nodes on Re z = tau."""
    with mp.workdps(digits + 15):
        t, h, e = number(tau), number(step), number(epsilon)
        sampled = [(part.rounds, _sampled(part, direction, t, h * nodes)) for part in parts if len(part.values) == 2]
        turning = [(rounds, weights, [mp.expj(h * loss) for loss in losses]) for rounds, (weights, losses) in sampled]
        current = [list(weights) for _, weights, _ in turning]
        total = mp.mpf(0)
        for n in range(nodes + 1):
            z = mp.mpc(t, n * h)
            value = mp.exp(-e * z) / (z * (1 + z))
            for part in parts:
                if part.mechanism == "gaussian":
                    value *= mp.exp(part.rounds * z * (z + 1) / (2 * number(part.values[0]) ** 2))
                elif part.mechanism == "laplace":
                    a = 1 / number(part.values[0])
                    moment = ((z + 1) * mp.exp(z * a) + z * mp.exp(-(z + 1) * a)) / (2 * z + 1)
                    value *= moment**part.rounds
                elif part.mechanism == "randomized-response":
                    a = number(part.values[0])
                    value *= (mp.cosh((z + 0.5) * a) / mp.cosh(a / 2)) ** part.rounds
            for i, (rounds, _, turns) in enumerate(turning):
                value *= mp.fsum(current[i]) ** rounds
                current[i] = [term * turn for term, turn in zip(current[i], turns, strict=True)]
            total += value.real / (1 if n else 2)
        return total * h / mp.pi
