"""Moving a computed number to a stated side of its exact value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["UNIT_ROUNDOFF", "above", "below"]

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
