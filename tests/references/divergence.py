"""f-divergences of finite distributions from the definition, and the least and greatest of one at another by search.

Imports nothing of the package. A generator is a convex function made of corners and powers,

    f(t) = sum of w max(t - k, 0) + sum of c |t - 1|^a,    with t = p / q,

less a multiple of t - 1, which changes no divergence. The same numbers are evaluated in doubles, by which pairs are
searched, and in arbitrary precision, by which they are judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DIGITS = 60


@dataclass(frozen=True)
class Generator:
    """Corners (k, w) and powers (a, c), all doubles; every a is at least one, every w and c positive."""

    corners: tuple[tuple[float, float], ...]
    powers: tuple[tuple[float, float], ...]

    def __call__(self, t: Array) -> Array:
        """As a user would write it."""
        total = np.zeros_like(t)
        for k, w in self.corners:
            total = total + w * (np.maximum(t - k, 0.0) - max(1.0 - k, 0.0))
        for a, c in self.powers:
            total = total + c * np.abs(t - 1.0) ** a
        return total

    def divergence(self, p: list[Any], q: list[Any]) -> Any:
        """Of exact masses p and q, all positive: the sum of q f(p/q)."""
        with mpmath.workdps(DIGITS):
            total = mpmath.mpf(0)
            for x, y in zip(p, q, strict=True):
                t = mpmath.mpf(x) / y
                # max(k - t, 0) is max(t - k, 0) less t - k, and keeps its sign below ratio one
                value = sum((w * max((t - k) if k >= 1 else (k - t), 0) for k, w in self.corners), mpmath.mpf(0))
                value += sum((c * abs(t - 1) ** mpmath.mpf(a) for a, c in self.powers), mpmath.mpf(0))
                total += y * value
            return total


def mixture(low: float, high: float, share: float) -> tuple[list[Any], list[Any]]:
    """Exact masses of a pair with the ratios `low` < 1 < `high`, and a share of points of ratio one."""
    with mpmath.workdps(DIGITS):
        a, b, rest = mpmath.mpf(low), mpmath.mpf(high), mpmath.mpf(share)
        q = (b - 1) / (b - a)
        masses = [q * (1 - rest), (1 - q) * (1 - rest)]
        return [masses[0] * a, masses[1] * b, rest], [*masses, rest]


def extreme_pairs(f: Generator, g: Generator, value: float, ratios: Array) -> list[tuple[float, float, float]]:
    """Of all pairs with two of the `ratios` and a share of ratio one: the least and the greatest D_g at D_f = value."""
    low, high = ratios[ratios < 1.0], ratios[ratios > 1.0]
    a, b = low[:, None], high[None, :]
    q = (b - 1.0) / (b - a)
    f_of, g_of = (q * h(a) + (1.0 - q) * h(b) for h in (f, g))
    with np.errstate(divide="ignore", invalid="ignore"):
        reached = np.where(f_of >= value, value * g_of / f_of, np.nan)
    if np.isnan(reached).all():
        return []
    pairs = []
    for k in (int(np.nanargmin(reached)), int(np.nanargmax(reached))):
        i, j = np.unravel_index(k, reached.shape)
        pairs.append((float(low[i]), float(high[j]), float(1.0 - value / f_of[i, j])))
    return pairs
