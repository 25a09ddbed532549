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

# The profile is computed on this grid, then where each rate would be bounded best if the logarithm of delta were
# straight between the points, and again. Any epsilon gives a valid rate: a place that is not the best is loose and
# never wrong.
GRID = 100
PASSES = 3
LEAST_EPSILON = 1e-3
FINER_GRID = 9
REFINEMENTS = 8
TINY = 1e-300  # stands for a delta of nothing on the scale of logarithms
# For a few rates epsilons are tried from 0 on, FIRST of them at first and each FACTOR times the one before, until both
# terms of the bound fall. Passes around the best end where they can gain no more than this part of what is detected.
FEW_RATES = 2
FIRST, FACTOR = 5, 4.0
MOST_PASSES = 40
LEAST_GAIN = 2e-6
LEAST_CELL = 1e-9  # the length of a cell over 1 + epsilon: its ends are different doubles
# For smaller rates the limit at 0 is used: at this rate the best epsilon may be 690.
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
    if rates.size <= FEW_RATES:
        bounds = np.array([_best_bound(profile, rate) if rate > 0 else 0.0 for rate in rates.tolist()])
    else:
        bounds = _bounds_of_many(profile, rates)
    at_zero = (1.0 - infinite_mass) * (1.0 - 2.0 * UNIT_ROUNDOFF) if infinite_mass else 1.0
    return np.asarray(np.clip(np.where(rates > 0, bounds, at_zero), 0.0, 1.0 - rates))


def _reach(rate: float) -> float:
    """An epsilon beyond which none helps: the first term needs one below log(1/rate), and the second gains nothing."""
    return float(1.0 - np.log(max(rate, LEAST_RATE)))


def _bounds_of_many(profile: Callable[[Array], Array], rates: Array) -> Array:
    reach = _reach(float(rates.min(initial=1.0, where=rates > 0)))
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
    return np.asarray(_bounds(grid, deltas, rates[:, None]).max(axis=1))


def _best_bound(profile: Callable[[Array], Array], rate: float) -> float:
    """The bound for one rate, by a search that meets few epsilons, and none that is much larger than the best.

    Delta is convex in y, the exponential of epsilon. So the first term is concave in y and the second, a concave
    numerator over y, is concave in 1/y: beyond an epsilon at which both fall neither is larger.
    """
    reach = _reach(rate)
    grid = np.append(0.0, LEAST_EPSILON * FACTOR ** np.arange(FIRST - 1.0))
    deltas = profile(grid)
    while grid[-1] < reach:
        terms = _steep(grid, deltas, rate), _flat(grid, deltas, rate)
        if grid.size - 1 not in [int(term.argmax()) for term in terms]:
            break
        larger = np.array([min(FACTOR * grid[-1], reach)])
        grid, deltas = np.append(grid, larger), np.append(deltas, profile(larger))
    for _ in range(MOST_PASSES):
        best = float(_bounds(grid, deltas, rate).max())
        enough = best + LEAST_GAIN * (1.0 - best)
        new = np.array(
            [
                *_places(grid, np.exp(grid), _steep(grid, deltas, rate), enough),
                *_places(grid, -np.exp(-grid), _flat(grid, deltas, rate), enough),
            ]
        )
        far = np.array([np.abs(grid - each).min() for each in new]) > LEAST_CELL * (1.0 + new)
        new = np.unique(new[far])
        if not new.size:
            break
        order = np.argsort(np.append(grid, new))
        grid, deltas = np.append(grid, new)[order], np.append(deltas, profile(new))[order]
    return float(_bounds(grid, deltas, rate).max())


def _places(epsilon: Array, x: Array, value: Array, enough: float) -> list[float]:
    """Epsilons at which a function that is concave in `x` may be larger than `enough`; none if it is nowhere.

    In a cell it is below the lines through the two points on either side. The places are the middle of the cell where
    these leave most room, and the top of the parabola through the largest value.
    """
    width = np.diff(x)
    slopes = np.diff(value) / width
    before, after = np.append(np.inf, slopes[:-1]), np.append(slopes[1:], -np.inf)
    most = np.minimum(value[:-1] + np.maximum(before, 0.0) * width, value[1:] - np.minimum(after, 0.0) * width)
    cell, peak = int(most.argmax()), int(value.argmax())
    if not most[cell] > enough:
        return []
    places = [float(0.5 * (epsilon[cell] + epsilon[cell + 1]))]
    if 0 < peak < x.size - 1 and slopes[peak - 1] > slopes[peak]:
        rise, fall = slopes[peak - 1], -slopes[peak]
        top = x[peak] + 0.5 * (rise * width[peak] - fall * width[peak - 1]) / (rise + fall)
        places.append(float(np.interp(top, x, epsilon)))
    return places


def _steep(epsilon: Array, delta: Array, rate: Array | float) -> Array:
    return np.asarray(1.0 - delta - np.exp(epsilon) * rate)


def _flat(epsilon: Array, delta: Array, rate: Array | float) -> Array:
    return np.asarray(np.exp(-epsilon) * (1.0 - delta - rate))


def _bounds(epsilon: Array, delta: Array, rate: Array | float) -> Array:
    """What each epsilon proves, moved down past the rounding of its three terms."""
    return np.maximum(_steep(epsilon, delta, rate), _flat(epsilon, delta, rate)) - 8.0 * UNIT_ROUNDOFF
