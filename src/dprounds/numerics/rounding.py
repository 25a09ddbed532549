"""Moving a computed number to a stated side of its exact value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["UNIT_ROUNDOFF", "above", "below"]

Array = NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-53  # the largest relative error of one correctly rounded operation on doubles


def above(value: Array, error: Array) -> Array:
    """A double that is >= every number within `error` of `value`."""
    return np.nextafter(value + error, np.inf)


def below(value: Array, error: Array) -> Array:
    """A double that is <= every number within `error` of `value`."""
    return np.nextafter(value - error, -np.inf)
