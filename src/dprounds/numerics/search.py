"""Roots of monotone functions, one or many at once; minima on a logarithmic scale; the largest integer that passes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError

__all__ = [
    "Minimum",
    "RootSearch",
    "falling_root",
    "increasing_root",
    "largest_integer",
    "log_scale_minimum",
    "root_by_secants",
]

Array = NDArray[np.float64]

# Bisection alone, in ratio, takes a bracket of 2^2000 to a relative 1e-16 in 64 steps; Newton needs 3 to 8.
MOST_STEPS = 120
# The exponential of no larger number, and of no less than minus it, is a normal double.
LARGEST_LOG = 708.0
# Of a bracket that begins at zero: what is left of it when its middle is asked for.
SMALLER = 0.125
# The power of the last factor by which a step outward grows.
LONGER = 3.0
LARGEST_FACTOR = 1e6
# After so many secants in a row that creep, a step outward is taken.
MOST_CREPT = 2
# No root is as far from a guess as the exponential of this; where a function is flat a secant points anywhere.
LONGEST = 100.0
UNIT = 2.0**-52
# A step of no more than this part of x is one of rounding.
SETTLED = 4.0 * UNIT


def increasing_root(
    function: Callable[..., tuple[Array, Array]],
    lower: Array,
    upper: Array,
    guess: Array,
    *parameters: Array,
    rtol: float,
) -> Array:
    """The x > 0 at which each of many increasing functions is zero.

    `function(x, *parameters)` returns the values and the slopes. Newton's step is taken where it stays inside the
    bracket, else the bracket is halved in ratio, so a poor slope costs time and never the answer. A value of NaN is
    not a sign: that element's root is NaN, for the caller to judge. Elements that have converged are set aside, so a
    few hard ones do not hold up the rest.

    Guarantee
    ---------
    Raises `NumericalError`, or returns points whose last Newton step or bracket was within `rtol` of them.
    """
    root = np.clip(guess, lower, upper)
    active = np.arange(root.size)
    x = root.copy()
    low, high = lower.copy(), upper.copy()
    for _ in range(MOST_STEPS):
        value, slope = function(x, *parameters)
        lost = np.isnan(value)
        low = np.where(value <= 0, x, low)
        high = np.where(value >= 0, x, high)
        step = x - value / slope
        near = np.abs(step - x) <= rtol * x  # at a bracket's end too, where the step may leave it by an ulp
        following = np.where((step > low) & (step < high) | near, step, np.sqrt(low) * np.sqrt(high))
        following = np.where(lost, np.nan, following)
        done = near | lost | (high - low <= rtol * low)
        root[active] = following
        if done.all():
            return root
        if done.any():
            keep = ~done
            active, x, low, high = active[keep], following[keep], low[keep], high[keep]
            parameters = tuple(parameter[keep] for parameter in parameters)
        else:
            x = following
    raise NumericalError(f"A root search did not settle within {MOST_STEPS} steps.")


class _Seen(NamedTuple):
    """A place that was looked at, on the scale of the search, and the value there."""

    u: float
    excess: float


class RootSearch:
    """Where a monotone function of one number is zero: it is given values, and says where to look next.

    Whoever searches has the loop and the rule by which it ends. The next place is Newton's if a slope is known; else,
    once both sides of the root were seen, that of Chandrupatla's rule, which takes an inverse parabola where three
    points allow it and halves the bracket otherwise; and before that the secant's. Where these tell no place inside,
    the bracket is halved, or steps outward grow until there is one.

    Guarantee
    ---------
    The root is between `low` and `high`, if the signs given are those of a monotone function. It proves nothing else:
    rounding may move a sign, and the caller checks what it needs.

    Parameters
    ----------
    low, high
        Where the root is sought. These ends may be asked for, but an infinite one.
    rises
        Whether the function rises.
    on_logs
        Whether x is positive and the function straighter over its logarithm.
    slope
        About the slope at the first place, over x or its logarithm; not a number if nothing is known.
    reach
        The factor of the first step outward.
    """

    def __init__(
        self,
        low: float,
        high: float,
        *,
        rises: bool = False,
        on_logs: bool = False,
        slope: float = math.nan,
        reach: float = 2.0,
    ) -> None:
        self.low, self.high = low, high
        self.seen_low = self.seen_high = False
        self._rises, self._on_logs, self._slope, self._reach = rises, on_logs, slope, reach
        # the last place, the last one beyond the root, and the one that was either of them before
        self._last: _Seen | None = None
        self._beyond: _Seen | None = None
        self._older: _Seen | None = None
        self._crept = 0  # secants in a row that did not halve what was left

    def following(self, x: float, excess: float, slope: float = math.nan) -> float:
        """Where to look after x, where the function has this value, infinite if only its sign is known.

        The `slope` is that over x, if it is known.
        """
        if math.isnan(excess):
            raise NumericalError("A root search met what is not a number.")
        here = _Seen(math.log(x) if self._on_logs else x, excess)
        if self._last is not None:
            if (self._last.excess > 0) == (excess > 0):
                self._older = self._last
            else:
                self._older, self._beyond = self._beyond, self._last
        self._last = here
        if (excess > 0) != self._rises:
            self.low, self.seen_low = x, True
        else:
            self.high, self.seen_high = x, True
        u = self._place(here, slope * x if self._on_logs else slope)
        wanted = math.exp(min(max(u, -LARGEST_LOG), LARGEST_LOG)) if self._on_logs else u
        if not self.seen_low:
            wanted = max(wanted, self.low)
        if not self.seen_high and self.high < math.inf:
            wanted = min(wanted, self.high)
        if abs(wanted - x) <= SETTLED * abs(x):  # it may leave the bracket by a unit of rounding
            return wanted
        is_above = wanted > self.low or (wanted == self.low and not self.seen_low)
        is_below = wanted < self.high or (wanted == self.high < math.inf and not self.seen_high)
        if is_above and is_below:
            return wanted
        return self.halved() if self.seen_low and self.seen_high else self._outward(x)

    def halved(self) -> float:
        """The middle of the bracket: in ratio, where its ends are positive."""
        if self.low > 0:
            return math.sqrt(self.low) * math.sqrt(self.high)
        return SMALLER * self.high

    def _outward(self, x: float) -> float:
        """A step to the side on which the root is, longer than the last such one."""
        factor, self._reach = self._reach, min(self._reach**LONGER, LARGEST_FACTOR)
        if self.seen_low:
            return min(x * factor if x > 0 else 1.0, self.high)
        return max(x / factor, self.low)

    def _place(self, here: _Seen, slope: float) -> float:
        """Where the root is by Newton's method, an inverse parabola or a secant; not a number if none of them tells."""
        (a, at_a), beyond, older = here, self._beyond, self._older
        if math.isnan(slope):
            if beyond is not None:
                return _between(here, beyond, older)
            slope = self._slope
            if older is not None and older.u != a and math.isfinite(older.excess):  # else it is a sign alone
                slope = (at_a - older.excess) / (a - older.u)
                self._crept = 0 if abs(at_a) <= 0.5 * abs(older.excess) else self._crept + 1
                if self._crept > MOST_CREPT:
                    return math.nan
        return a - at_a / slope if slope != 0 and (slope > 0) == self._rises else math.nan


def _between(here: _Seen, beyond: _Seen, older: _Seen | None) -> float:
    """Chandrupatla's place between two points on either side of the root; not a number where values are infinite."""
    (a, at_a), (b, at_b) = here, beyond
    if not math.isfinite(at_a) or not math.isfinite(at_b):
        return math.nan
    share = at_a / (at_a - at_b)
    if older is not None:
        c, at_c = older
        part, fall = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        share = 0.5
        if fall * fall < part and (1.0 - fall) * (1.0 - fall) < 1.0 - part:
            share = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            share += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
    room = UNIT * max(abs(a), abs(b)) / abs(b - a)
    return a + min(max(share, room), 1.0 - room) * (b - a)


def falling_root(function: Callable[[float], float], low: float, high: float) -> float:
    """The x between `low` and `high` at which a falling function, positive at `low` and not at `high`, is about zero.

    Guarantee
    ---------
    Returns an end of a bracket two units of rounding wide, or where the function is zero. It proves nothing: rounding
    may move the sign of the function, and the caller checks what it needs.
    """
    excess = function(low)
    if not excess > 0:
        return low
    search, x = RootSearch(low, high), high
    search.following(low, excess)
    for _ in range(MOST_STEPS):
        excess = function(x)
        following = search.following(x, excess)
        if excess == 0 or search.high - search.low <= 2.0 * UNIT * abs(search.high):
            return x
        x = following
    return x


def root_by_secants(
    excess: Callable[[float], float],
    guess: float,
    *,
    slope: float,
    settled: float,
    longest: float = LONGEST,
    most_steps: int = 20,
) -> float | None:
    """About the x > 0 at which a function is zero that has about this slope over log x, to a relative `settled`.

    Where it does not settle it is the last place; None if a value is not finite, or a step longer than `longest`, in
    logarithms: a guess was meant to be near.
    """
    search, x = RootSearch(0.0, math.inf, rises=slope > 0, on_logs=True, slope=slope), guess
    for _ in range(most_steps):
        found = excess(x)
        if not math.isfinite(found):
            return None
        following = search.following(x, found)
        step = abs(math.log(following / x)) if following > 0 else math.inf
        if not step < min(longest, LONGEST):
            return None
        x = following
        if step <= settled:
            break
    return x


# Six points a decade see every valley of a smooth function of log x that is wider than a sixth of a decade.
DECADE = 6
# The scale is scanned here first, and beyond only while the minimum is at an end.
FIRST_SCAN = (-2, 3)
FURTHER = 3
ENDS = (-12, 15)
# Where a search that knows its neighbourhood looks first, closely nearby, and then a factor of four to either side.
SURROUNDINGS = np.array([-0.25, -0.05, -0.005, 0.0, 0.005, 0.05, 0.25]) * np.log(4.0)
FURTHER_AROUND = np.array([-1.0, 1.0]) * np.log(4.0)
# Offsets around a vertex, in widths of the bracket: near ones for where it is right, far ones for where not.
SHIFTS = np.array([1e-6, 1e-4, 5e-4, 0.002, 0.01, 0.03, 0.08, 0.2, 0.4])
OFFSETS = np.concatenate([-SHIFTS[::-1], [0.0], SHIFTS])
# Newton's steps from the vertex of a parabola to that of the polynomial through five points, which is near.
STEPS_TO_VERTEX = 3
# At this relative width of the bracket a smooth minimum is known to the square of it, about the last digit.
NARROW = 1e-7


class Minimum(NamedTuple):
    """The least value that was met, its x, and all x that were looked at."""

    value: float
    x: float
    visited: Array


class _Points(NamedTuple):
    """Places in increasing order, the values there, which is the least, and whether that is at neither end."""

    x: Array
    values: Array
    best: int
    is_inside: bool


def _points(x: Array, values: Array) -> _Points:
    best = int(np.argmin(values))
    return _Points(x, values, best, 0 < best < x.size - 1)


def log_scale_minimum(
    function: Callable[[Array], Array],
    *,
    near: float | None = None,
    begin: Array | None = None,
    narrow: float = NARROW,
) -> Minimum:
    """The least value of a vectorised function of x > 0 that was met.

    A scan of the scale as far as the function falls, or of the surroundings of `near`, or of all points that it is
    told to `begin` with, while the minimum is inside of them; then brackets around the best point that shrink about the
    vertex of the polynomial through it and its neighbours, to a relative width of `narrow`. Any value that it returns
    is one that `function` took.
    """
    rows = []
    if begin is not None:
        rows.append(_points(begin, function(begin)))
    elif near is not None:
        rows.append(_around(function, near))
    if not rows or not rows[0].is_inside:
        rows.append(_scanned(function))
    while (bracket := _next_bracket(rows[-1], narrow)) is not None:
        rows.append(_points(bracket, function(bracket)))
    last = min(rows, key=lambda row: row.values[row.best])
    visited = np.unique(np.concatenate([row.x for row in rows]))
    return Minimum(float(last.values[last.best]), float(last.x[last.best]), visited)


def _around(function: Callable[[Array], Array], near: float) -> _Points:
    """The neighbourhood of a point, and if the least value is not inside of it, two points further away."""
    x = near * np.exp(SURROUNDINGS)
    points = _points(x, function(x))
    if points.is_inside:
        return points
    further = near * np.exp(FURTHER_AROUND)
    (left, right), (low, high) = np.split(further, 2), np.split(function(further), 2)
    return _points(np.concatenate([left, x, right]), np.concatenate([low, points.values, high]))


def _scanned(function: Callable[[Array], Array]) -> _Points:
    """The scale as far as the function falls."""
    low, high = FIRST_SCAN
    points = _scan(function, low, high)
    while points.best == 0 and low > ENDS[0]:
        more, low = _scan(function, max(low - FURTHER, ENDS[0]), low), max(low - FURTHER, ENDS[0])
        points = _points(np.append(more.x[:-1], points.x), np.append(more.values[:-1], points.values))
    while points.best == points.x.size - 1 and high < ENDS[1]:
        more, high = _scan(function, high, min(high + FURTHER, ENDS[1])), min(high + FURTHER, ENDS[1])
        points = _points(np.append(points.x, more.x[1:]), np.append(points.values, more.values[1:]))
    return points


def _scan(function: Callable[[Array], Array], low: int, high: int) -> _Points:
    x = np.exp(np.linspace(low, high, (high - low) * DECADE + 1) * np.log(10.0))
    return _points(x, function(x))


def _next_bracket(points: _Points, narrow: float) -> Array | None:
    """Points about the vertex of the parabola through the best one and its neighbours; None if they tell no more."""
    best = points.best
    if not points.is_inside or not np.isfinite(points.values[best]):  # an end as good as its middle: flat to rounding
        return None
    low, high = np.log(points.x[[best - 1, best + 1]]).tolist()
    width = high - low
    if width <= narrow * max(1.0, abs(math.log(points.x[best]))):
        return None
    five = slice(max(best - 2, 0), best + 3)
    vertex = _vertex(np.log(points.x[five]).tolist(), points.values[five].tolist(), min(best, 2))
    inner = np.exp(np.clip(vertex + width * OFFSETS, low, high))
    return np.unique(np.append(inner, points.x[best - 1 : best + 2]))


def _vertex(x: list[float], y: list[float], best: int) -> float:
    """Where the polynomial through up to five points is least, between the neighbours of the best of them.

    Where it has no such place, the parabola's vertex, and if it has none either, the best point.
    """
    # by Newton's divided differences, the best point and its neighbours first
    order = [i for i in (best, best - 1, best + 1, best - 2, best + 2) if 0 <= i < len(x)]
    nodes, coefficients = [x[i] for i in order], [y[i] for i in order]
    if len(set(nodes)) < len(nodes):  # different x may have the same logarithm
        return x[best]
    for depth in range(1, len(nodes)):
        for i in range(len(nodes) - 1, depth - 1, -1):
            coefficients[i] = (coefficients[i] - coefficients[i - 1]) / (nodes[i] - nodes[i - depth])
    _, fall, bend, *_ = coefficients
    if not 0 < bend < math.inf:
        return x[best]
    parabola = at = 0.5 * (nodes[0] + nodes[1] - fall / bend)
    for _ in range(STEPS_TO_VERTEX):
        value = slope = bend = 0.0
        for node, coefficient in zip(reversed(nodes), reversed(coefficients), strict=True):
            bend = bend * (at - node) + 2.0 * slope
            slope = slope * (at - node) + value
            value = value * (at - node) + coefficient
        if not 0 < bend < math.inf:
            return parabola
        at -= slope / bend
    return at if x[best - 1] < at < x[best + 1] else parabola


def largest_integer(
    cost: Callable[[int], float], limit: float, *, guess: int, most: int, slope: float = 0.5
) -> int | None:
    """The largest n in [0, most] whose cost, growing with n, is within `limit`; None if that of 0 is not.

    Takes secants of the logarithms, in which costs are nearly straight, from `guess`: a good one takes two calls. The
    first goes by `slope`, the power of n with which the cost is expected to grow. Steps
    that only bracket the answer, or halve what brackets it, come between, so that a bad one takes a few dozen. The n
    that is returned was within the limit and n + 1 was not, unless n is `most`.
    """
    low, high = -1, most + 1  # within the limit and beyond it, as far as is known
    last: tuple[int, float] | None = None
    n, reach = min(max(guess, 0), most), 1
    for turn in itertools.count():
        value = cost(n)
        low, high = (n, high) if value <= limit else (low, n)
        if high - low <= 1:
            return low if low >= 0 else None
        following = _crossing((n, value), last, limit, slope)
        # the number within the limit next to the crossing, and if that is known, the one beyond it
        wanted = low + 1 if following is None else max(math.floor(min(following, most)), low)
        wanted = wanted + 1 if wanted == low else wanted
        bracketed = low >= 0 and high <= most
        if following is None or turn % 3 == 2 or not low < wanted < high:
            reach *= 4
            wanted = (low + high) // 2 if bracketed else low + reach if high > most else high - reach
        last, n = (n, value), min(max(wanted, low + 1), high - 1)
    raise AssertionError("unreachable")


def _crossing(point: tuple[int, float], other: tuple[int, float] | None, limit: float, slope: float) -> float | None:
    """Where the line through two points, on logarithms, meets the limit; that through one alone has `slope`."""
    n, value = point
    if not (n > 0 and 0 < value < math.inf and limit > 0):
        return None
    if other is not None and other[0] > 0 and 0 < other[1] < math.inf and other[0] != n:
        slope = math.log(value / other[1]) / math.log(n / other[0])
    step = (math.log(limit) - math.log(value)) / slope if slope > 0 else math.nan
    return n * math.exp(step) if abs(step) < 10.0 else None
