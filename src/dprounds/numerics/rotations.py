r"""Rotations :math:`e^{isx}` of many x by evenly spaced s, to small error relative to how far they turn.

With :math:`D(y) = e^{iy} - 1` and :math:`f(y) = e^{iy} - 1 - iy`,

.. math:: D(a + b) = D(a) + D(b) + D(a)\,D(b), \qquad f(a + b) = f(a) + f(b) + D(a)\,D(b).

So n evenly spaced s, sums of few a and few b, take the exponentials of some :math:`2\sqrt n` of them, or of fewer, and
sums of f over x one product of matrices. For a and b of one sign nothing cancels where the angles are small;
docs/theory/mechanisms.md has the error.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.cancellation import SMALL, half_square_series
from dprounds.numerics.complex_plane import Numbers, complex_expm1
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["Rotations", "products", "rotated_sums", "rotations", "sums_of_rotations"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# --- What carries a proof; docs/theory/mechanisms.md.

# Points are evenly spaced if each is within this part of itself of where it should be.
SPACING_ERROR = 4.0 * UNIT_ROUNDOFF

# A matrix product adds up to this number of terms one to another, and then such sums to each other: with 2^20 equal
# terms, which round alike, K errs by less than a fifth of what is allowed. Measured, not proven.
LONGEST_PRODUCT = 2**12

# --- What only tunes speed.

# Fewer evenly spaced points than the square of this are taken one by one.
LEAST_WIDTH = 4
# A matrix product of fewer multiplications stays in one thread. Threads wait for each other: beside other work, a
# product that takes 1 ms by itself takes 100 ms then.
MOST_IN_ONE_THREAD = 2**17


class Rotations(NamedTuple):
    """``exp(i s x) - 1`` for every s and x, and for every s the sum over x of ``weights (exp(i s x) - 1 - i s x)``."""

    turned: ComplexArray
    bent: ComplexArray


def _halves(s: Array) -> tuple[Array, Array] | None:
    """Rows and columns whose sums, row by row, begin with these evenly spaced s; None if there are no such."""
    width = math.isqrt(s.size)
    if width < LEAST_WIDTH:
        return None
    rows, columns = s[::width], s[:width] - s[0]
    even = np.add.outer(rows, columns).ravel()[: s.size]
    return (rows, columns) if (np.abs(even - s) <= SPACING_ERROR * s).all() else None


def rotations(x: Numbers, weights: Numbers, s: Array) -> Rotations:
    """Both, for s >= 0; where x are complex, their imaginary parts should not be negative."""
    parts = _halves(s)
    if parts is None:
        angles = 1j * np.multiply.outer(s, x)
        turned = complex_expm1(angles)
        return Rotations(turned, (_minus_angles(angles, turned) * weights).sum(axis=1))
    left, right = (rotations(x, weights, part) for part in parts)
    turned = left.turned[:, None, :] * (1.0 + right.turned)
    turned += right.turned
    return Rotations(turned.reshape(-1, x.size)[: s.size], sums_of_rotations(left, right, weights)[: s.size])


def rotated_sums(x: Numbers, weights: Numbers, s: Array) -> ComplexArray:
    """The sums of `rotations` alone."""
    parts = _halves(s)
    if parts is None:
        return rotations(x, weights, s).bent
    left, right = (rotations(x, weights, part) for part in parts)
    return sums_of_rotations(left, right, weights)[: s.size]


def sums_of_rotations(left: Rotations, right: Rotations, weights: Numbers) -> ComplexArray:
    """`Rotations.bent` for the sums of all s of one with all s of another, row by row."""
    return (np.add.outer(left.bent, right.bent) + products(left.turned * weights, right.turned)).ravel()


def products(left: ComplexArray, right: ComplexArray) -> ComplexArray:
    """The products of all rows of one matrix with all rows of another."""
    total: ComplexArray = np.zeros((len(left), len(right)), dtype=np.complex128)
    width = max(1, min(MOST_IN_ONE_THREAD // total.size, LONGEST_PRODUCT))
    for start in range(0, left.shape[1], width):
        total += left[:, start : start + width] @ right[:, start : start + width].T
    return total


def _minus_angles(x: ComplexArray, grown: ComplexArray) -> ComplexArray:
    """``exp(x) - 1 - x``, given ``exp(x) - 1``."""
    found = grown - x
    small = np.abs(x) < SMALL
    near = x[small]
    found[small] = 0.5 * near * near * half_square_series(near)
    return found
