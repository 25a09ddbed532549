"""The quadrature of a sampled part: its step, its nodes, and the angle of its ceiling, by the formulas of the checker.

Nothing here needs to be right, as for lines.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.sums import LEAST_RESOLVED
from dprounds.mechanisms.base import REMOVE
from dprounds.numerics.mixture import log_mixture, mixture_share

__all__ = ["LOG_ERROR", "Pair", "quadrature", "written"]

Array = NDArray[np.float64]

# All of these tune speed and how often a check succeeds.
# Natural logarithm of the part of M that a quadrature may err by, before it is raised to the rounds.
LOG_ERROR = 42.0
# Strips and angles that are tried, in radians.
STRIPS = np.linspace(0.02, 3.1, 155)
ANGLES = np.geomspace(1e-7, 3.0, 300)
# Points of the grid on which integrands are looked at, and how far from the outer peak it goes at least.
POINTS = 4001
LEAST_REACH = 0.5
# A step is taken so much smaller than is needed, and is then rounded to five digits.
ROUNDED = 1.001


class Pair(NamedTuple):
    """A sampled part in one direction."""

    sigma: float
    rate: float
    direction: str

    def power(self, tau: float) -> float:
        """The power of w whose mean is M at tau."""
        return tau + 1.0 if self.direction == REMOVE else -tau

    def v(self, x: Array) -> Array:
        """The loss of a round in which the record is in the batch."""
        return (x - 0.5) / self.sigma**2

    def exponent(self, power: float, x: Array) -> Array:
        """The logarithm of the integrand, up to a constant."""
        return np.asarray(-0.5 * (x / self.sigma) ** 2 + power * log_mixture(self.rate, self.v(x)))


def written(value: float, digits: int = 6) -> str:
    """A number as evidence has it."""
    return f"{value:.{digits}g}"


def _turned(power: float, angle: Array) -> Array:
    """The logarithm of the most that a power of w grows by when it is turned by an angle."""
    return np.asarray(power * np.log(np.cos(0.5 * angle)) if power < 0 else np.zeros_like(angle))


def _window(pair: Pair, powers: list[float], log_error: float) -> tuple[float, float]:
    """Outside of it all integrands together are negligible."""
    ends = []
    for power in powers:
        reach = pair.sigma * math.sqrt(2.0 * log_error + 20.0)
        x = np.linspace(min(0.0, power) - reach, max(0.0, power) + reach, POINTS)
        exponent = pair.exponent(power, x)
        inside = x[exponent > exponent.max() - log_error - 8.0]
        least = -LEAST_REACH * pair.sigma + min(power * float(mixture_share(pair.rate, pair.v(inside[0]))), 0.0)
        ends.append((min(float(inside[0]), least), max(float(inside[-1]), max(power, 0.0) + LEAST_REACH * pair.sigma)))
    return min(low for low, _ in ends), max(high for _, high in ends)


def quadrature(pair: Pair, powers: list[float], height: float, log_error: float) -> dict[str, Any]:
    """The longest step that serves, its nodes, and the angle of the least ceiling."""
    variance, power = pair.sigma**2, powers[0]
    growth = 0.5 * variance * STRIPS**2 + height * STRIPS + _turned(min(powers), STRIPS) + 1.0
    steps = 2.0 * math.pi * variance * STRIPS / (log_error + growth)
    best = int(np.argmax(steps))
    step = float(steps[best])
    low, high = _window(pair, powers, log_error)
    angle, angle_strip = _angle(pair, power, height, step) if height else (0.0, 0.0)
    step = float(written(step / ROUNDED, 5))
    return {
        "step": written(step, 5),
        "first": math.floor(low / step),
        "last": math.ceil(high / step),
        "strip": written(STRIPS[best]),
        "angle": written(angle),
        "angle_strip": written(angle_strip),
    }


def _angle(pair: Pair, power: float, height: float, step: float) -> tuple[float, float]:
    """The angle of the least ceiling at a height, by the formula of the checker in doubles, and its strip."""
    variance = pair.sigma**2
    low, high = _window(pair, [power], LOG_ERROR)
    x = np.linspace(low, high, 801)
    exponent = pair.exponent(power, x)
    weight = np.exp(exponent - exponent.max())
    weight /= weight.sum()
    share = mixture_share(pair.rate, pair.v(x))
    best = (0.0, 0.0, 1.0)  # without an angle the ceiling is M on the axis
    for angle in ANGLES:
        half = math.sin(0.5 * angle)
        log_modulus = 0.5 * np.log1p(-4.0 * share * (1.0 - share) * half * half)
        argument = np.arctan2(share * math.sin(angle), 1.0 - 2.0 * share * half * half)
        # as for the library's own ceilings: both angles on one side, or both within a right angle
        widest = max(0.5 * math.pi - angle - 1e-4, min(angle, 0.97 * (math.pi - angle)))
        strips = widest * np.linspace(0.1, 1.0, 19)
        errors = 0.5 * variance * strips**2 + _turned(power, angle + strips) - 2.0 * math.pi * variance * strips / step
        error = math.exp(min(float(errors.min()) + math.log(2.0), 0.0))
        moved = float(weight @ np.exp(power * log_modulus - height * argument)) + error
        ceiling = 0.5 * variance * angle * angle + math.log(max(moved, LEAST_RESOLVED))
        if ceiling < best[0]:
            best = (ceiling, float(angle), float(strips[np.argmin(errors)]))
    return best[1], best[2]
