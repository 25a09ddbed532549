"""Moving a computed number to a stated side of its exact value."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["UNIT_ROUNDOFF", "above", "below", "ratio_above", "sum_above"]

Array = NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-53  # the largest relative error of one correctly rounded operation on doubles
_ULP = 2.0**-52  # at least the distance of a double to the next one, relative to it
_LEAST = 5e-324  # the least positive double: what moves a subnormal number, which has no relative precision


def above(value: Array, error: Array | float = 0.0) -> Array:
    """A double that is > every number within `error` of `value`."""
    return value + (error + (_ULP * np.abs(value) + _LEAST))


def below(value: Array, error: Array | float = 0.0) -> Array:
    """A double that is < every number within `error` of `value`."""
    return value - (error + (_ULP * np.abs(value) + _LEAST))


def ratio_above(numerator: int, denominator: int) -> float:
    """The least double that is not below a ratio of positive integers; inf beyond the doubles.

    Examples
    --------
    >>> ratio_above(1, 2), ratio_above(1, 3) * 3 > 1
    (0.5, False)
    >>> ratio_above(1, 3).hex(), (1 / 3).hex()
    ('0x1.5555555555556p-2', '0x1.5555555555555p-2')
    """
    try:
        value = numerator / denominator  # of integers Python rounds to the nearest double
    except OverflowError:
        return math.inf
    over, under = value.as_integer_ratio()
    return value if over * denominator >= numerator * under else math.nextafter(value, math.inf)


def sum_above(values: Sequence[float]) -> float:
    """The least double that is not below the sum of doubles, none of them negative; inf beyond the doubles.

    Examples
    --------
    >>> sum_above([0.5, 0.25]), sum_above([1.0, 1e-30]) > 1.0, sum_above([])
    (0.75, True, 0.0)
    """
    try:
        total = math.fsum(values)  # to the nearest
        rest = math.fsum([*values, -total]) if math.isfinite(total) else 0.0
    except OverflowError:
        return math.inf
    return math.nextafter(total, math.inf) if rest > 0.0 else total
