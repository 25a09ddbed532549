"""The best that one Rényi order proves, over the continuum of orders.

Any order proves something, so a search that misses the best one is loose and never wrong. There is no list of orders:
the best one may be 1.05 or 50,000.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.conversions import delta_from_rdp, epsilon_from_rdp, rdp_from_dp
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.search import log_scale_minimum

__all__ = ["Proof", "RenyiCurve", "delta_by_orders", "epsilon_by_orders", "rounds_by_orders"]

Array = NDArray[np.float64]
RenyiCurve = Callable[[Array], Array]  # rdp at many orders of (1, inf]


class Proof(NamedTuple):
    """A number, and the order that proves it."""

    value: float
    order: float


def epsilon_by_orders(rdp: RenyiCurve, *, infinite_mass: float, delta: float, method: str) -> Proof:
    """Least epsilon at `delta` that any order of the curve certifies by `method`. Errs upward.

    The curve is that of the finite losses; the mass at infinity is part of every delta and is taken off first.
    """
    if not infinite_mass < delta:
        return Proof(math.inf, math.inf)
    # (δ - m)/(1 - m), rounded down; δ may not reach one by it
    rest = (delta - infinite_mass) / (1.0 - infinite_mass) * (1.0 - 4.0 * UNIT_ROUNDOFF)
    return _best(rdp, lambda given, orders: epsilon_from_rdp(given, order=orders, delta=rest, method=method))


def delta_by_orders(rdp: RenyiCurve, *, infinite_mass: float, epsilon: float, method: str) -> Proof:
    """Least delta at `epsilon` that any order of the curve certifies by `method`. Errs upward."""
    finite, order = _best(
        rdp, lambda given, orders: delta_from_rdp(given, order=orders, epsilon=epsilon, method=method)
    )
    # m + (1 - m) δ, rounded up
    total = infinite_mass + (1.0 - infinite_mass) * finite
    return Proof(min(total * (1.0 + 4.0 * UNIT_ROUNDOFF) if infinite_mass else finite, 1.0), order)


def rounds_by_orders(step: RenyiCurve, *, spent: RenyiCurve, epsilon: float, delta: float, method: str) -> float:
    """About how many steps fit beside what is `spent`: the best order's budget, over what a step takes of it.

    No bisection over rounds: the budget of an order does not depend on them. It is a guess for a search that checks.
    """

    def negative_rounds(t: Array) -> Array:
        orders = 1.0 + t
        budget = np.asarray(rdp_from_dp(epsilon, order=orders, delta=delta, method=method))
        with np.errstate(invalid="ignore", divide="ignore"):  # an order that bounds nothing allows no rounds
            rounds = (budget - spent(orders)) / step(orders)
        return -np.nan_to_num(np.maximum(rounds, 0.0), nan=0.0)

    return -log_scale_minimum(negative_rounds)[0]


def _best(rdp: RenyiCurve, convert: Callable[[Array, Array], float | Array]) -> Proof:
    """The least that `convert` makes of the curve, the infinite order included."""

    def objective(t: Array) -> Array:
        orders = 1.0 + t
        return np.asarray(convert(rdp(orders), orders))

    pure = np.array([math.inf])
    at_infinity = float(np.asarray(convert(rdp(pure), pure))[0])
    value, t = log_scale_minimum(objective)
    return Proof(at_infinity, math.inf) if at_infinity <= value else Proof(value, 1.0 + t)
