"""The best that one Rényi order proves, over the continuum of orders.

Any order proves something, so a search that misses the best one is loose and never wrong. There is no list of orders:
the best one may be 1.05 or 50,000.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dprounds.conversions.inner import converted_delta, converted_epsilon, converted_rdp
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.search import Minimum, log_scale_minimum, root_by_secants

__all__ = [
    "Guess",
    "Proof",
    "RenyiCurve",
    "delta_by_orders",
    "delta_of_all_losses",
    "delta_of_finite_losses",
    "epsilon_by_orders",
    "parameter_by_orders",
    "rounds_by_orders",
]

Array = NDArray[np.float64]
RenyiCurve = Callable[[Array], Array]  # rdp at many orders of (1, inf]
Amount = TypeVar("Amount", float, Array)


class Proof(NamedTuple):
    """A number, and the order that proves it."""

    value: float
    order: float


class Guess(NamedTuple):
    """About the number that is sought, and about the order that is best for it."""

    value: float
    order: float


# At this relative width of the bracket of a search the best order's value is known to the square of it.
NARROW = 1e-7
# The same for a guess.
NARROW_FOR_GUESS = 1e-5


def delta_of_finite_losses(delta: float, infinite_mass: Amount) -> Amount:
    """What of delta is left for losses that are finite, (δ - m)/(1 - m), rounded down; m is to be below δ."""
    return (delta - infinite_mass) / (1.0 - infinite_mass) * (1.0 - 4.0 * UNIT_ROUNDOFF)


def delta_of_all_losses(infinite_mass: float, finite: Amount) -> Amount:
    """Delta from that of losses that are finite, m + (1 - m) δ, rounded up, which may exceed one."""
    return (infinite_mass + (1.0 - infinite_mass) * finite) * (1.0 + 4.0 * UNIT_ROUNDOFF) if infinite_mass else finite


def epsilon_by_orders(
    rdp: RenyiCurve,
    *,
    infinite_mass: float,
    delta: float,
    method: str,
    near_order: float | None = None,
    narrow: float = NARROW,
) -> Proof:
    """Least epsilon at `delta` that any order of the curve certifies by `method`. Errs upward.

    The curve is that of the finite losses; the mass at infinity is part of every delta and is taken off first. The best
    order of a similar run may be given, and how closely it is sought.
    """
    if infinite_mass == delta:  # nothing is left for finite losses, so epsilon must be above them all
        return Proof(float(rdp(np.array([math.inf]))[0]), math.inf)
    if not infinite_mass < delta:
        return Proof(math.inf, math.inf)
    rest = delta_of_finite_losses(delta, infinite_mass)

    def convert(given: Array, orders: Array, by: str) -> Array:
        return converted_epsilon(given, orders, np.full_like(orders, rest), by)

    return _best(_remembered(rdp), convert, method, near_order=near_order, narrow=narrow)


def delta_by_orders(rdp: RenyiCurve, *, infinite_mass: float, epsilon: float, method: str) -> Proof:
    """Least delta at `epsilon` that any order of the curve certifies by `method`. Errs upward."""

    def convert(given: Array, orders: Array, by: str) -> Array:
        return converted_delta(given, orders, np.full_like(orders, epsilon), by)

    finite, order = _best(_remembered(rdp), convert, method)
    return Proof(min(delta_of_all_losses(infinite_mass, finite), 1.0), order)


def rounds_by_orders(step: RenyiCurve, *, spent: RenyiCurve, epsilon: float, delta: float, method: str) -> float:
    """About how many steps fit in addition to what is `spent`: the best order's budget, over what a step takes of it.

    No bisection over rounds: the budget of an order does not depend on them. It is a guess for a search that checks.
    """

    def negative_rounds(t: Array) -> Array:
        orders = 1.0 + t
        budget = converted_rdp(np.full_like(orders, epsilon), orders, np.full_like(orders, delta), method)
        # an order that bounds nothing allows no rounds, and one whose cost is 0 in doubles any number of them
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            rounds = (budget - spent(orders)) / step(orders)
        return -np.nan_to_num(np.maximum(rounds, 0.0), nan=0.0)

    return -log_scale_minimum(negative_rounds, narrow=NARROW_FOR_GUESS).value


# A longer step than this, a factor of 1e9, is one into the dark.
MOST_LOG_STEP = 20.0
# Two or three orders are typical, and as many secants at each; the limits end what rounding keeps from settling.
MOST_ORDERS = 20
MOST_SECANTS = 20
# Of the rdp of a Gaussian over its noise, on logarithms.
SLOPE_OF_NOISE = -2.0
# Closer than the tolerance of any search that starts from here.
SETTLED = 1e-9
# Where the best order is at a bend of the curve, its value is known to about the width itself.
SHARE_OF_SETTLED = 0.5


def parameter_by_orders(
    rdp: Callable[[float], RenyiCurve],
    *,
    epsilon: float,
    delta: float,
    method: str,
    start: float,
    settled: float = SETTLED,
) -> Guess | None:
    """About the x > 0 at which a run of rdp ``rdp(x)``, cheaper as x grows, just meets the budget; None if not found.

    As for rounds, the budget of an order does not depend on x, so no epsilon is computed: at the answer the best
    order's rdp is its budget. The best order depends little on x: x is moved to where the one found last meets its
    budget, until it stays within a relative `settled`. It is a guess for a search that checks.
    """

    def log_excess(curve: RenyiCurve, t: Array) -> Array:
        budget = converted_rdp(np.full_like(t, epsilon), 1.0 + t, np.full_like(t, delta), method)
        with np.errstate(invalid="ignore", divide="ignore"):  # an order without a budget proves nothing
            return np.asarray(np.nan_to_num(np.log(curve(1.0 + t)) - np.log(budget), nan=np.inf))

    def excess_at(t: float, x: float) -> float:
        return float(log_excess(rdp(x), np.array([t]))[0])

    narrow = max(NARROW_FOR_GUESS, SHARE_OF_SETTLED * settled)
    x, best_t = start, None
    for _ in range(MOST_ORDERS):
        best_t = log_scale_minimum(partial(log_excess, rdp(x)), near=best_t, narrow=narrow).x
        found = root_by_secants(
            partial(excess_at, best_t),
            x,
            slope=SLOPE_OF_NOISE,
            settled=settled,
            longest=MOST_LOG_STEP,
            most_steps=MOST_SECANTS,
        )
        if found is None:
            return None
        begun, x = x, found
        if abs(math.log(x / begun)) <= settled:
            return Guess(x, 1.0 + best_t)
    return None


# The next looser method, where the two can agree to the last digit.
LOOSER = {"optimal": "closed-form", "closed-form": "balle"}


def _best(
    rdp: RenyiCurve,
    convert: Callable[[Array, Array, str], Array],
    method: str,
    *,
    near_order: float | None = None,
    narrow: float = NARROW,
) -> Proof:
    """The least that `convert` makes of the curve, the infinite order included."""
    found = _least(rdp, convert, method, near_order, narrow)
    best = Proof(found.value, 1.0 + found.x)
    infinite = np.array([math.inf])
    largest = rdp(infinite)
    if not largest[0] < math.inf:  # which proves nothing
        return best
    at_infinity = Proof(float(convert(largest, infinite, method)[0]), math.inf)
    return at_infinity if at_infinity.value < best.value else best


def _least(
    rdp: RenyiCurve,
    convert: Callable[[Array, Array, str], Array],
    method: str,
    near_order: float | None,
    narrow: float,
) -> Minimum:
    """The least over finite orders, as their distances from one.

    It begins with all orders that the next looser method looks at: at each this method is no worse, so the methods stay
    in order whatever their searches round to.
    """
    begin = _least(rdp, convert, LOOSER[method], near_order, narrow).visited if method in LOOSER else None
    near = None if near_order is None else near_order - 1.0
    return log_scale_minimum(lambda t: convert(rdp(1.0 + t), 1.0 + t, method), near=near, begin=begin, narrow=narrow)


def _remembered(rdp: RenyiCurve) -> RenyiCurve:
    """The curve, which the searches of several methods ask for the same scan."""
    known: dict[bytes, Array] = {}

    def recall(orders: Array) -> Array:
        key = orders.tobytes()
        if key not in known:
            known[key] = rdp(orders)
        return known[key]

    return recall
