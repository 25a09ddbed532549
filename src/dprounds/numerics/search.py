"""Roots of monotone functions, one or many at once; minima on a logarithmic scale; the largest integer that passes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError

__all__ = ["falling_root", "increasing_root", "largest_integer", "log_scale_minimum"]

Array = NDArray[np.float64]

# Bisection alone, in ratio, takes a bracket of 2^2000 to a relative 1e-16 in 64 steps; Newton needs 3 to 8.
MOST_STEPS = 120


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


def falling_root(function: Callable[[float], float], low: float, high: float) -> float:
    """The x between `low` and `high` at which a falling function, positive at `low` and not at `high`, is about zero.

    Inverse quadratic interpolation where the last three points allow it, else bisection: Chandrupatla's rule, which
    takes about eight evaluations where the function is smooth and never more than bisection three times over.

    Guarantee
    ---------
    Returns an end of a bracket two units of rounding wide, or where the function is zero. It proves nothing: rounding
    may move the sign of the function, and the caller checks what it needs.
    """
    a, at_a = low, function(low)
    b, at_b = high, function(high)
    if not (at_a > 0 > at_b):
        return a if not at_a > 0 else b
    c, at_c = a, at_a
    share = 0.5
    for _ in range(MOST_STEPS):
        x = a + share * (b - a)
        at_x = function(x)
        if (at_x > 0) == (at_a > 0):
            c, at_c = a, at_a
        else:
            c, b, at_c, at_b = b, a, at_b, at_a
        a, at_a = x, at_x
        nearest = a if abs(at_a) < abs(at_b) else b
        width = abs(b - a)
        room = 2.0**-52 * abs(nearest)
        if at_x == 0 or width <= 2.0 * room:
            return nearest
        part, fall = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        share = 0.5
        if fall * fall < part and (1.0 - fall) * (1.0 - fall) < 1.0 - part:
            share = at_a / (at_b - at_a) * at_c / (at_b - at_c) + (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (
                at_c - at_b
            )
        share = min(max(share, room / width), 1.0 - room / width)
    return a


# Five points a decade see every valley of a smooth function of log x that is wider than a fifth of a decade.
DECADE = 5
# The scale is scanned here first, and beyond only while the minimum is at an end.
FIRST_SCAN = (-2, 3)
FURTHER = 3
ENDS = (-12, 15)
# Where a search that knows its neighbourhood looks first: up to a factor of four to either side, and closely nearby.
SURROUNDINGS = np.array([-1.0, -0.25, -0.05, -0.005, 0.0, 0.005, 0.05, 0.25, 1.0]) * np.log(4.0)
# Offsets around a parabola's vertex, in widths of the bracket: near ones for where it is right, far ones for where not.
OFFSETS = np.array([-0.45, -0.12, -0.02, -0.002, 0.0, 0.002, 0.02, 0.12, 0.45])
# At this relative width of the bracket a smooth minimum is known to the square of it, about the last digit.
NARROW = 1e-7


def log_scale_minimum(
    function: Callable[[Array], Array], *, near: float | None = None, narrow: float = NARROW
) -> tuple[float, float]:
    """The least value of a vectorised function of x > 0 that was met, and its x.

    A scan of the scale as far as the function falls, or of the surroundings of `near` while the minimum is inside of
    them, then brackets around the best point that shrink about its parabola's vertex to a relative width of `narrow`.
    Any value that it returns is one that `function` took.
    """
    if near is not None:
        log_x = np.log(near) + SURROUNDINGS
        values = function(np.exp(log_x))
        best = int(np.argmin(values))
        if 0 < best < log_x.size - 1:
            return _narrowed(function, log_x, values, best, narrow)
    low, high = FIRST_SCAN
    log_x, values = _scan(function, low, high)
    while (best := int(np.argmin(values))) == 0 and low > ENDS[0]:
        more, their = _scan(function, max(low - FURTHER, ENDS[0]), low)
        low, log_x, values = max(low - FURTHER, ENDS[0]), np.append(more[:-1], log_x), np.append(their[:-1], values)
    while (best := int(np.argmin(values))) == log_x.size - 1 and high < ENDS[1]:
        more, their = _scan(function, high, min(high + FURTHER, ENDS[1]))
        high, log_x, values = min(high + FURTHER, ENDS[1]), np.append(log_x, more[1:]), np.append(values, their[1:])
    return _narrowed(function, log_x, values, best, narrow)


def _narrowed(
    function: Callable[[Array], Array], log_x: Array, values: Array, best: int, narrow: float
) -> tuple[float, float]:
    """The least value met while the bracket around `best` shrinks, and its x."""
    while 0 < best < log_x.size - 1 and np.isfinite(values[best]):
        left, right = log_x[best - 1], log_x[best + 1]
        if right - left <= narrow * max(1.0, abs(log_x[best])):
            break
        vertex = _vertex(log_x[best - 1 : best + 2], values[best - 1 : best + 2])
        inner = np.clip(vertex + (right - left) * OFFSETS, left, right)
        log_x = np.unique(np.append(inner, [left, log_x[best], right]))
        values = function(np.exp(log_x))
        best = int(np.argmin(values))
        if best in (0, log_x.size - 1):  # the bracket's end is as good as its middle: flat to rounding
            break
    return float(values[best]), float(np.exp(log_x[best]))


def _scan(function: Callable[[Array], Array], low: int, high: int) -> tuple[Array, Array]:
    log_x = np.linspace(low, high, (high - low) * DECADE + 1) * np.log(10.0)
    return log_x, function(np.exp(log_x))


def _vertex(x: Array, y: Array) -> float:
    """Where the parabola through three points is least; the middle point if it has no such place."""
    left, right = x[1] - x[0], x[2] - x[1]
    with np.errstate(all="ignore"):  # a bend that is nothing, or not finite, has no vertex
        fall, rise = (y[1] - y[0]) / left, (y[2] - y[1]) / right
        bend = rise - fall
        vertex = x[1] - (fall * right + rise * left) / (2.0 * bend)
    return float(vertex) if bend > 0 and np.isfinite(vertex) else float(x[1])


def largest_integer(cost: Callable[[int], float], limit: float, *, guess: int, most: int) -> int | None:
    """The largest n in [0, most] whose cost, growing with n, is within `limit`; None if that of 0 is not.

    Takes secants of the logarithms, in which costs are nearly straight, from `guess`: a good one takes two calls. Steps
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
        following = _crossing((n, value), last, limit)
        # the number within the limit next to the crossing, and if that is known, the one beyond it
        wanted = low + 1 if following is None else max(math.floor(min(following, most)), low)
        wanted = wanted + 1 if wanted == low else wanted
        bracketed = low >= 0 and high <= most
        if following is None or turn % 3 == 2 or not low < wanted < high:
            reach *= 4
            wanted = (low + high) // 2 if bracketed else low + reach if high > most else high - reach
        last, n = (n, value), min(max(wanted, low + 1), high - 1)
    raise AssertionError("unreachable")


def _crossing(point: tuple[int, float], other: tuple[int, float] | None, limit: float) -> float | None:
    """Where the line through two points, on logarithms, meets the limit; one alone is taken to grow like a root."""
    n, value = point
    if not (n > 0 and 0 < value < math.inf and limit > 0):
        return None
    slope = 0.5
    if other is not None and other[0] > 0 and 0 < other[1] < math.inf and other[0] != n:
        slope = math.log(value / other[1]) / math.log(n / other[0])
    step = (math.log(limit) - math.log(value)) / slope if slope > 0 else math.nan
    return n * math.exp(step) if abs(step) < 10.0 else None
