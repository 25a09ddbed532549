r"""The two normal laws that bound a release at every epsilon at once.

With :math:`h(\lambda) = \delta_0 + (1 - \delta_0)\,\delta_\mu(\log \lambda)`, where :math:`\delta_\mu` is the profile
of two normal laws at distance :math:`\mu`, the profile :math:`p` of a release is to be at most :math:`h` for all
:math:`\lambda`. Upper bounds of :math:`p` are known at points; between two points :math:`p`, which is convex, is below
their chord; and for every threshold :math:`x`

.. math:: T_x(\lambda) = \delta_0 + (1 - \delta_0)\,[\Phi(\mu - x) - \lambda\,\Phi(-x)] \le h(\lambda) .

:math:`T_x` is a straight line. So one threshold with :math:`T_x` at least the bound at both points proves the cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.normal import normal_quantile, normal_tail
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.search import RootSearch

__all__ = ["Point", "is_certified", "least_distance"]

Array = NDArray[np.float64]

# --- What carries a proof.

# Four operations on numbers no larger than what they are made of, counted twice.
LINE_ERROR = 8.0 * UNIT_ROUNDOFF

# --- What only tunes speed and tightness.

FIRST_POINTS = 17
# A cell that needs no more than this part above what a point of it needs is fine enough.
CELL_TOLERANCE = 1e-6
MOST_POINTS = 1000
# Larger distances are not tried: there the deltas of small epsilons are one in doubles.
LARGEST_DISTANCE = 64.0
LEAST_DISTANCE = 1e-12
# The last digits of a distance that a bisection settles.
DISTANCE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Point:
    """An upper bound of the profile at one epsilon."""

    epsilon: float
    upper: float


def least_distance(delta: float, last: float, upper_bounds: Callable[[Array], Array]) -> float:
    """About the least distance of two normal laws that bound a profile with `delta` revealed; inf where none does.

    Guarantee
    ---------
    The profile is at most that of the two normal laws at every epsilon, in each direction, if `upper_bounds` are upper
    bounds of the larger direction at every epsilon in [0, last], and the profile at `last` is at most `delta`.

    Theorem
    -------
    docs/theory/filters.md, "The certificate for all epsilon".
    """
    if last == 0:
        return 0.0
    if not last < math.inf:
        return math.inf
    inner = np.linspace(0.0, last, FIRST_POINTS)[:-1]
    points = [*_points(inner, upper_bounds), Point(last, delta)]
    floor = 0.0
    fresh = points
    while True:
        # what a point needs by itself is needed
        for point in fresh:
            floor = _least(partial(_bounds_point, delta=delta, point=point), floor)
        target = floor * (1.0 + CELL_TOLERANCE)
        if target == math.inf:
            return math.inf
        coarse = [(low, high) for low, high in pairwise(points) if not _bounds_cell(target, delta, low, high)]
        coarse = [(low, high) for low, high in coarse if high.epsilon - low.epsilon > 1e-9 * last]
        if not coarse or len(points) + len(coarse) > MOST_POINTS:
            break
        fresh = _points(np.array([0.5 * (low.epsilon + high.epsilon) for low, high in coarse]), upper_bounds)
        points = sorted([*points, *fresh], key=lambda point: point.epsilon)
    for low, high in pairwise(points):
        target = _least(partial(_bounds_cell, delta=delta, low=low, high=high), target)
    return target if target < math.inf and is_certified(target, delta, points) else math.inf


def is_certified(mu: float, delta: float, points: list[Point]) -> bool:
    """Whether two normal laws are proven to bound the profile at every epsilon, by its bounds at points from 0 on."""
    first, last = points[0], points[-1]
    return (
        first.epsilon == 0
        and last.upper <= delta
        and all(low.epsilon < high.epsilon for low, high in pairwise(points))
        and all(_bounds_cell(mu, delta, low, high) for low, high in pairwise(points))
    )


def _points(epsilons: Array, upper_bounds: Callable[[Array], Array]) -> list[Point]:
    pairs = zip(epsilons.tolist(), upper_bounds(epsilons).tolist(), strict=True)
    return [Point(epsilon, upper) for epsilon, upper in pairs]


def _bounds_cell(mu: float, delta: float, low: Point, high: Point) -> bool:
    """Whether one threshold proves the cell between two points; any threshold is sound, a bad one is only loose."""
    nearest, farthest = mu / 2.0 + low.epsilon / mu, mu / 2.0 + high.epsilon / mu
    threshold = min(max(_threshold(delta, low, high), nearest), farthest)
    return all(_line(threshold, mu, delta, end.epsilon) >= end.upper for end in (low, high))


def _bounds_point(mu: float, delta: float, point: Point) -> bool:
    return _line(mu / 2.0 + point.epsilon / mu, mu, delta, point.epsilon) >= point.upper


def _threshold(delta: float, low: Point, high: Point) -> float:
    """The threshold whose line is parallel to the chord of a cell."""
    fall = low.upper - high.upper
    if not fall > 0:
        return math.inf
    width = high.epsilon - low.epsilon
    log_rise = low.epsilon + (math.log(math.expm1(width)) if width < 1.0 else width + math.log(-math.expm1(-width)))
    log_tail = math.log(fall) - log_rise - math.log1p(-delta)
    return normal_quantile(min(log_tail, -1e-300))


def _line(threshold: float, mu: float, delta: float, epsilon: float) -> float:
    """A lower bound of the line of a threshold at an epsilon."""
    won, lost = normal_tail(threshold - mu), normal_tail(threshold, level=epsilon)
    value = delta + (1.0 - delta) * (won.value - lost.value)
    return value - (won.error + lost.error + LINE_ERROR * (delta + won.value + lost.value))


def _least(holds: Callable[[float], bool], floor: float) -> float:
    """About the least distance from `floor` on at which something holds, as it does beyond; inf if nowhere."""
    if floor == math.inf or (floor > 0 and holds(floor)):
        return floor
    x = max(floor, LEAST_DISTANCE)
    search = RootSearch(x, LARGEST_DISTANCE, on_logs=True, reach=1.0 + CELL_TOLERANCE)
    while search.low < LARGEST_DISTANCE:
        x = search.following(x, -math.inf if holds(x) else math.inf)  # that it does not hold is an excess
        if search.seen_high and search.high - search.low <= DISTANCE_TOLERANCE * search.high:
            return search.high
    return math.inf
