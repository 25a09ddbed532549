r"""What an attacker can do: the trade-off curve, read off the privacy profile.

An attacker guesses from the output whether a record was in the data. With false-positive rate α, its false-negative
rate is at least

.. math:: f(\alpha) = \sup_{\varepsilon \ge 0} \max\bigl(1 - \delta(\varepsilon) - e^\varepsilon\alpha,\;
          e^{-\varepsilon}(1 - \delta(\varepsilon) - \alpha),\; 0\bigr),

which is the best that a profile proves, and exact where the two directions have the same profile.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["false_negative_rates"]

Array = NDArray[np.float64]

# The profile is computed on this grid, then where its logarithm, straight between the points, tells that each rate is
# bounded best, and again. Any epsilon gives a valid rate, so a place that is not the best is loose, never wrong.
GRID = 100
PASSES = 3
LEAST_EPSILON = 1e-3
FINER_GRID = 9
REFINEMENTS = 8
TINY = 1e-300  # stands for a delta of nothing on the scale of logarithms
# Of rates that are smaller only the limit at 0 is told: at this one the best epsilon may be 690.
LEAST_RATE = 1e-300


def false_negative_rates(profile: Callable[[Array], Array], rates: Array, *, infinite_mass: float) -> Array:
    """Least false-negative rate of any attacker at each false-positive rate.

    Without false positives an attacker finds only what has infinite loss, whatever the profile: epsilon may be as large
    as one likes.

    Guarantee
    ---------
    Errs downward: no attacker has fewer false negatives, if `profile` gives no delta below the truth.

    Theorem
    -------
    [DRS22, Proposition 2.12]: (epsilon, delta)-DP for every epsilon bounds the trade-off; docs/theory/accounting.md.
    """
    # At a positive rate the first term needs epsilon < log(1/rate), and the second gains nothing from a larger one.
    least = float(rates.min(initial=1.0, where=rates > 0))
    reach = 1.0 - np.log(max(least, LEAST_RATE))
    grid = np.append(0.0, np.geomspace(LEAST_EPSILON, reach, GRID - 1))
    deltas = profile(grid)
    rows = np.arange(rates.size)
    for _ in range(PASSES):
        bounds = _bounds(grid, deltas, rates[:, None])
        best = bounds.argmax(axis=1)
        low, high = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, grid.size - 1)]
        for _ in range(REFINEMENTS):
            finer = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, FINER_GRID)
            between = np.exp(np.interp(finer, grid, np.log(np.maximum(deltas, TINY))))
            best = _bounds(finer, between, rates[:, None]).argmax(axis=1)
            where = finer[rows, best]
            low, high = finer[rows, np.maximum(best - 1, 0)], finer[rows, np.minimum(best + 1, FINER_GRID - 1)]
        new = np.setdiff1d(where, grid)
        order = np.argsort(np.append(grid, new))
        grid, deltas = np.append(grid, new)[order], np.append(deltas, profile(new))[order]
    at_zero = (1.0 - infinite_mass) * (1.0 - 2.0 * UNIT_ROUNDOFF) if infinite_mass else 1.0
    bounds = np.where(rates > 0, _bounds(grid, deltas, rates[:, None]).max(axis=1), at_zero)
    return np.asarray(np.clip(bounds, 0.0, 1.0 - rates))


def _bounds(epsilon: Array, delta: Array, rate: Array) -> Array:
    """What each epsilon proves, moved down past the rounding of its three terms."""
    steep = 1.0 - delta - np.exp(epsilon) * rate
    flat = np.exp(-epsilon) * (1.0 - delta - rate)
    return np.maximum(steep, flat) - 8.0 * UNIT_ROUNDOFF
