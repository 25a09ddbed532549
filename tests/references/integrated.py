"""Integrals of profiles from their definition: imports nothing of dprounds."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Number = Any  # mpmath has no types


def zeta(y: Number) -> Number:
    """``y - 1 + exp(-y)``, the integral of ``1 - exp(-x)`` from 0 to y."""
    return y + mp.expm1(-y)


def normal_integral(distance: float, x: float) -> Number:
    """The integral from x on of the profile of two normal laws at a distance: E[ζ(L - x)] where L > x."""
    d, at = mp.mpf(distance), mp.mpf(x)

    def density(loss: Number) -> Number:
        return mp.npdf(loss, d * d / 2, d) * zeta(loss - at)

    end = d * d / 2 + 14 * d
    places = [at + (end - at) * k / 16 for k in range(17)] if end > at else [at, at + d]
    return mp.quad(density, places)


def largest_ratio(s: float) -> Number:
    """The largest ``(1 - exp(-y)) / ζ(y + s)`` over y > 0, by halving where its slope changes its sign."""
    at = mp.mpf(s)

    def falls(y: Number) -> bool:
        return bool(mp.exp(-y) * zeta(y + at) < -mp.expm1(-y) * -mp.expm1(-(y + at)))

    low, high = mp.mpf("1e-30"), mp.mpf(200)
    for _ in range(300):
        middle = mp.sqrt(low * high)
        low, high = (low, middle) if falls(middle) else (middle, high)
    return -mp.expm1(-low) / zeta(low + at)


def integrals_in_the_plane(
    first: Array, second: Array, at: Array, rate: float, sigma: float, levels: Array
) -> tuple[Array, Array]:
    """W of (1-q) N(at) + q N(first) over (1-q) N(at) + q N(second) at some levels, and the other way round.

    A sum over a grid of outputs in the plane, which errs by less than 1e-9 of a value: integrands are smooth.
    """
    grid = np.linspace(-8.5, 8.5, 240)
    weight = np.exp(-0.5 * grid * grid) / np.sqrt(2.0 * np.pi) * (grid[1] - grid[0])
    found = []
    for one, other in ((first, second), (second, first)):
        total = np.zeros(levels.size)
        for share, middle in ((1.0 - rate, at), (rate, one)):
            x, y = middle[0] + sigma * grid[:, None], middle[1] + sigma * grid[None, :]

            def log_density(point: Array, x: Array = x, y: Array = y) -> Array:
                return np.asarray(-0.5 * ((x - point[0]) ** 2 + (y - point[1]) ** 2) / sigma**2)

            base, there, here = log_density(at), log_density(other), log_density(one)
            loss = np.logaddexp(np.log1p(-rate) + base, np.log(rate) + here) - np.logaddexp(
                np.log1p(-rate) + base, np.log(rate) + there
            )
            for i, level in enumerate(levels.tolist()):
                above = np.maximum(loss - level, 0.0)
                values = np.where(above < 1e-3, above**2 / 2 - above**3 / 6 + above**4 / 24, above + np.expm1(-above))
                total[i] += share * float(weight @ values @ weight)
        found.append(total)
    return found[0], found[1]
