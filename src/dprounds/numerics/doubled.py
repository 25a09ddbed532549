"""Sums and products of doubles, each with the part that rounding takes away, exactly."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["Doubled", "short_below", "two_product", "two_sum"]

Array = NDArray[np.float64]
# A number as a rounded value, and what is missing to it.
Doubled = tuple[Array, Array]

# It splits a double into two halves of 26 bits [Veltkamp].
SPLITTER = 2.0**27 + 1.0


def two_sum(a: Array, b: Array) -> Doubled:
    """a + b, exactly, if nothing overflows."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def two_product(a: Array | float, b: Array | float) -> Doubled:
    """The product of doubles, exactly, if nothing overflows or underflows and none is above 1e290.

    Examples
    --------
    >>> high, low = two_product(1.0 + 2.0**-30, 1.0 - 2.0**-30)
    >>> float(high), float(low) == -(2.0**-60)
    (1.0, True)
    """
    product = np.asarray(np.multiply(a, b), dtype=np.float64)
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    low = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, np.asarray(low, dtype=np.float64)


def _halves(a: Array | float) -> Doubled:
    moved = np.multiply(SPLITTER, a)
    high = np.asarray(moved - (moved - a), dtype=np.float64)
    return high, np.asarray(a - high, dtype=np.float64)


def short_below(value: float, bits: int = 24) -> float:
    """A double of few bits that is not above a positive one, and close: so many of its multiples are doubles.

    Examples
    --------
    >>> short_below(0.1, 4), 1000 * short_below(0.1) == sum([short_below(0.1)] * 1000)
    (0.09375, True)
    """
    fraction, exponent = math.frexp(value)
    return math.ldexp(math.floor(math.ldexp(fraction, bits)), exponent - bits)
