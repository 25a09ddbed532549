"""What a line rests on: bounds that the proof of its bracket takes for granted, made of what the laws prove.

They hold wherever a line is put; `place` chooses where.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.law import LOG_MOMENT_ERROR, Composition
from dprounds.accounting.saddle import Saddle
from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import Numbers

__all__ = ["FIRST_BLOCK", "axis_from_above", "ceilings", "sizes", "values_on_line"]

Array = NDArray[np.float64]

# --- What carries a proof; docs/theory/accounting.md, "Rounding".

# Where every factor of M is above ten times the sum x of its relative errors, exp(x) - 1 is less than this times x.
SECOND_ORDER_OF_PRODUCT = 1.12

# --- What only tunes speed.

# K is evaluated in blocks whose last node is twice the one before, since its cost can grow with the imaginary part.
FIRST_BLOCK = 128


def axis_from_above(law: Composition, t: Array, values: Array) -> Array:
    """Upper bounds of K at points of the axis, given its values there."""
    errors = law.moment_error(t) if law.states_errors else 0.0
    return np.asarray(values + LOG_MOMENT_ERROR * np.abs(values) + errors)


def ceilings(law: Composition, saddle: Saddle, s: Array) -> Array:
    """Upper bounds of the real part of K on the line of a saddle point, from each s on."""
    flat = float(axis_from_above(law, np.array([saddle.t]), np.array([saddle.value]))[0])  # |M| <= M(t) on all of it
    known = law.ceiling(saddle, s)
    return np.full(s.shape, flat) if known is None else np.minimum(known, flat)


def sizes(law: Composition, saddle: Saddle, s: Array) -> Array:
    """The size of what K at each s was summed from, and what its laws say themselves of its errors."""
    turning = 0.5 * saddle.square * s * s
    if law.max_loss < math.inf:
        turning = np.minimum(turning, law.max_loss * s)
    found = np.asarray(abs(saddle.value) + saddle.steepest * s + turning, dtype=np.float64)
    if not law.states_errors:
        return found
    return found + SECOND_ORDER_OF_PRODUCT / LOG_MOMENT_ERROR * _by_blocks(law.moment_error, saddle.t, s).real


def values_on_line(law: Composition, t: float, s: Array) -> NDArray[np.complex128]:
    """K at ``t + is``; what is not a number is refused."""
    values = _by_blocks(law.log_moment, t, s)
    if np.isnan(values).any():
        raise NumericalError("A moment of this run is not a number in doubles.")
    return values


def _by_blocks(of: Callable[[Numbers], Numbers], t: float, s: Array) -> NDArray[np.complex128]:
    """A function at ``t + is``, block by block."""
    values = np.empty(s.size, dtype=np.complex128)
    start, end = 0, FIRST_BLOCK
    while start < s.size:
        z: NDArray[np.complex128] = np.asarray(t + 1j * s[start:end], dtype=np.complex128)
        values[start:end] = of(z)
        start, end = end, 2 * end
    return values
