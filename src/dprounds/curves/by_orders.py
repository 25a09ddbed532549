"""What the best Rényi order proves at many points at once, by every method, on one row of orders.

The search of `dprounds.accounting.best_order` finds the best order of one point to the last digit; here all points look
at the same orders, five a decade and then finer ones around the best of each. Any order proves something, so what lies
between them is lost and nothing is wrong: with spacing h of log(order - 1) about h²/8 of the answer, here 3e-5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dprounds.conversions import METHODS

__all__ = ["least_by_orders"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
# rdp at a row of orders: one row for each point of the curve
RdpRows = Callable[[Array], Array]
# what (rdp rows, orders, method) certify, in the shape of the first
Convert = Callable[[Array, Array, str], Array]

# order - 1 is scanned over these powers of ten at first, and beyond while some point has its best at an end.
FIRST_SCAN = (-4, 6)
ENDS = (-12, 15)
LOWER_STEP, UPPER_STEP = 4, 3
DECADE = 5
# Between neighbours of the best order of any point, four orders to a step of the scan, then four to one of those, then
# five. The curve of sampled noise has a wall, beyond which sampling hides nothing: few rounds are at their best in it.
FINER = (4, 4, 5)


def least_by_orders(
    rdps: RdpRows, convert: Convert, methods: Sequence[str], *, corners: Sequence[float] = ()
) -> dict[str, Array]:
    """The least that any order of a shared row certifies, at every point and by each of `methods`. Errs upward.

    `corners` are orders at which the curve may bend sharply, as a table's at its entries.
    """
    wanted = [method for method in METHODS if method in methods]  # from the loosest to the best
    if not wanted:
        return {}
    low, high = FIRST_SCAN
    exponents, values = _scan(rdps, convert, wanted, low, high)
    while low > ENDS[0] and _at_end(values, 0):
        more, theirs = _scan(rdps, convert, wanted, low - LOWER_STEP, low)
        low -= LOWER_STEP
        exponents = np.append(more[:-1], exponents)
        values = {method: np.hstack([theirs[method][:, :-1], values[method]]) for method in wanted}
    while high < ENDS[1] and _at_end(values, -1):
        more, theirs = _scan(rdps, convert, wanted, high, high + UPPER_STEP)
        high += UPPER_STEP
        exponents = np.append(exponents, more[1:])
        values = {method: np.hstack([values[method], theirs[method][:, 1:]]) for method in wanted}
    best = {method: np.argmin(values[method], axis=1) for method in wanted}
    least = {method: values[method].min(axis=1) for method in wanted}
    for finer in FINER:
        exponents, best, theirs = _refined(rdps, convert, exponents, best, finer)
        least = {method: np.minimum(least[method], theirs[method]) for method in wanted}
    others = np.unique([*corners, math.inf])
    known = rdps(others)
    looser = np.full(known.shape[0], math.inf)
    for method in wanted:
        # a looser method's answer is certified by every better one, whatever orders the two looked at
        looser = np.minimum.reduce([least[method], convert(known, others, method).min(axis=1), looser])
        least[method] = looser
    return least


def _scan(
    rdps: RdpRows, convert: Convert, methods: Sequence[str], low: int, high: int
) -> tuple[Array, dict[str, Array]]:
    """Powers of ten of order - 1, and what they certify."""
    exponents = np.linspace(low, high, (high - low) * DECADE + 1)
    orders = 1.0 + 10.0**exponents
    known = rdps(orders)
    return exponents, {method: convert(known, orders, method) for method in methods}


def _at_end(values: dict[str, Array], end: int) -> bool:
    """Whether some point may have its best order beyond this end: nothing is better than zero."""
    return any(bool(((table[:, end] <= table.min(axis=1)) & (table[:, end] > 0)).any()) for table in values.values())


def _refined(
    rdps: RdpRows, convert: Convert, exponents: Array, best: dict[str, Indices], finer: int
) -> tuple[Array, dict[str, Indices], dict[str, Array]]:
    """Finer orders in the cells on both sides of every best one; the best of its own two cells for each point."""
    last = exponents.size - 2  # the last cell
    around = {method: np.clip(np.stack([row - 1, row], axis=1), 0, last) for method, row in best.items()}
    cells = np.unique(np.concatenate(list(around.values())))
    shares = np.arange(finer) / finer
    inside = exponents[cells, None] + (exponents[cells + 1] - exponents[cells])[:, None] * shares
    exponents = np.append(inside.ravel(), exponents[cells[-1] + 1])
    orders = 1.0 + 10.0**exponents
    known = rdps(orders)
    found, least = {}, {}
    for method, pair in around.items():
        window = (np.searchsorted(cells, pair)[:, :, None] * finer + np.arange(finer)).reshape(len(pair), -1)
        values = convert(np.take_along_axis(known, window, axis=1), orders[window], method)
        at = values.argmin(axis=1)[:, None]
        found[method] = np.take_along_axis(window, at, axis=1)[:, 0]
        least[method] = np.take_along_axis(values, at, axis=1)[:, 0]
    return exponents, found, least
