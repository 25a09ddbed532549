r"""The cumulant generating function of a law whose negative exponential has mean one.

Let ``X`` take the value ``x_j`` with probability ``p_j``, and let ``E[exp(-X)] = 1``. Then

.. math:: E[e^{zX}] - 1 = E[e^{zX} - 1 - zX] + z\, E[e^{-X} - 1 + X],

because the terms linear in ``X`` cancel. For ``z > 0`` both expectations are of terms that are never negative, so
nothing cancels in the sum however small it is: the logarithm of the left side plus one keeps small *relative* error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError
from dprounds.numerics.cancellation import SMALL, half_square_series
from dprounds.numerics.complex_plane import Numbers, log1p_at
from dprounds.numerics.rotations import rotated_sums
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["LawsAt", "TiltableLaw", "cumulants", "refuse_long"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# Where the cumulant is above this the mean of the exponentials is summed as it is: its logarithm loses nothing.
FAR = 0.5

# Entries of one (z, x) table; 16 MB, so that long lists of z do not exhaust memory.
LARGEST_TABLE = 2**20

# Terms of all z on a line: two seconds.
MOST_TERMS = 2**25

# --- What carries a proof; docs/theory/mechanisms.md.

# In units of rounding: pairwise sums of up to 2^20 terms (20), exponentials and products (16), the final logarithm,
# and quadrature errors of the callers below 1e-16 (1). No sum here is a matrix product: that adds one term to another.
FIXED_ERROR = 64.0


def _blocks(rows: int, columns: int) -> list[slice]:
    """Runs of rows whose tables stay within `LARGEST_TABLE`."""
    height = max(1, LARGEST_TABLE // columns)
    return [slice(start, start + height) for start in range(0, rows, height)]


def _weighted_exp_minus_tangent(log_weights: Array, y: Array) -> Array:
    """``w (exp(y) - 1 - y)``, without overflow where a tiny weight meets a huge exponential."""
    weights = np.exp(log_weights)
    terms = np.exp(log_weights + y) - weights * (1.0 + y)
    small = np.abs(y) < SMALL
    near = y[small]
    terms[small] = np.broadcast_to(weights, y.shape)[small] * (0.5 * near * near * half_square_series(near))
    return terms


class _RealBlock(NamedTuple):
    """Cumulants at some t, and the terms that each was summed from: tilted weights, others where it is near zero."""

    cumulant: Array
    tilted: Array
    peak: Array
    is_near: NDArray[np.bool_]
    near_terms: Array


@dataclass(frozen=True, eq=False)
class TiltableLaw:
    """The law of X, as points and weights; what does not depend on z is computed once.

    Parameters
    ----------
    log_weights
        Logarithms of the probabilities, each within four units of rounding of its own size.
    values
        Those of X.
    ulps
        Bounds on the relative errors of the values, in units of rounding.
    """

    log_weights: Array
    values: Array
    ulps: Array

    @cached_property
    def _weights(self) -> Array:
        return np.exp(self.log_weights)

    @cached_property
    def _reverse(self) -> Array:
        """``w (exp(-x) - 1 + x)``."""
        return _weighted_exp_minus_tangent(self.log_weights, -self.values)

    @cached_property
    def _term_errors(self) -> Array:
        """Units of rounding by which a term w f(t x) may be off: a fixed number, and one for each unit of t.

        An error of one unit in log w, and of `ulps` units in x, moves the term by at most these many units, because
        (log f)'(y) y is at most 2 + |y| for f(y) = exp(y) - 1 - y.
        """
        return np.stack([np.abs(self.log_weights) + 2.0 * self.ulps, np.abs(self.values) * self.ulps], axis=1)

    def real_cumulant(self, t: Array) -> Array:
        """``log E[exp(t X)]`` at every t > 0."""
        cumulant = np.empty_like(t)
        for block in _blocks(t.size, self.values.size):
            cumulant[block] = self._real_block(t[block]).cumulant
        return cumulant

    def real_cumulant_with_error(self, t: Array) -> tuple[Array, Array]:
        """The same, and bounds on the relative errors."""
        cumulant, error = np.empty_like(t), np.empty_like(t)
        for block in _blocks(t.size, self.values.size):
            here = self._real_block(t[block])
            cumulant[block], error[block] = here.cumulant, self._relative_error(t[block], here)
        return cumulant, error

    def complex_cumulant(self, z: ComplexArray) -> ComplexArray:
        """``log E[exp(z X)]`` at every z with positive real part, on some branch of the logarithm.

        Points that share a real part share their tilted weights, so a vertical line costs a sine and a cosine a term.
        """
        cumulant = np.empty(z.size, dtype=np.complex128)
        for t in set(z.real.tolist()):
            line = z.real == t
            cumulant[line] = self._vertical_line(t, z.imag[line])
        return cumulant

    def _tilted(self, t: Array) -> tuple[Array, Array, Array]:
        """The weights ``w exp(t x)`` divided by their largest, the logarithm of that one, and that of their sum.

        One row for each t.
        """
        exponents = self.log_weights + np.multiply.outer(t, self.values)
        peak = exponents.max(axis=1)
        tilted = np.exp(exponents - peak[:, None])
        return tilted, peak, peak + np.log(tilted.sum(axis=1))

    def _real_block(self, t: Array) -> _RealBlock:
        """`real_cumulant` for as many t as fit one table."""
        tilted, peak, cumulant = self._tilted(t)
        is_near = cumulant <= FAR
        terms = np.empty((0, self.values.size))
        if is_near.any():
            terms = _weighted_exp_minus_tangent(self.log_weights, np.multiply.outer(t[is_near], self.values))
            terms += np.multiply.outer(t[is_near], self._reverse)
            cumulant[is_near] = np.log1p(terms.sum(axis=1))
        return _RealBlock(cumulant, tilted, peak, is_near, terms)

    def _relative_error(self, t: Array, block: _RealBlock) -> Array:
        """By how much the cumulants of a block may be off, relative to them."""
        is_near = block.is_near
        units = (self._error_units(block.tilted, t) + np.abs(block.peak)) / np.maximum(block.cumulant, FAR)
        units[is_near] = self._error_units(block.near_terms, t[is_near])
        return np.asarray(units * UNIT_ROUNDOFF)

    def _error_units(self, terms: Array, t: Array) -> Array:
        """By how many units of rounding the sum of each row of terms may be off, relative to it."""
        moved = terms @ self._term_errors
        total = np.maximum(terms.sum(axis=1), np.finfo(float).tiny)
        return np.asarray(FIXED_ERROR + 4.0 * (moved[:, 0] + t * moved[:, 1]) / total)

    def _vertical_line(self, t: float, s: Array) -> ComplexArray:
        """``log E[exp((t + i s) X)]`` at every s."""
        values = self.values
        tilted_rows, peaks, cumulants = self._tilted(np.array([t]))
        tilted, peak = tilted_rows[0], float(peaks[0])
        rotated = np.empty(s.size, dtype=np.complex128)
        for block in _blocks(s.size, values.size):
            rotated[block] = rotated_sums(values, tilted, s[block])
        if cumulants[0] > FAR:
            with np.errstate(divide="ignore"):  # the moment function may have a zero off the real line
                return np.asarray(peak + np.log(tilted.sum() + 1j * s * (tilted * values).sum() + rotated))
        # exp(zx) - 1 - zx = [exp(tx) - 1 - tx] + i s x (exp(tx) - 1) + exp(tx) [exp(isx) - 1 - isx]: each bracket is
        # small with its own exact smallness.
        along = _weighted_exp_minus_tangent(self.log_weights, t * values)
        slope = ((along + self._weights * t * values) * values).sum()  # sum of w x (exp(tx) - 1)
        excess = along.sum() + 1j * s * slope + np.exp(peak) * rotated + (t + 1j * s) * self._reverse.sum()
        return np.asarray(log1p_at(excess), dtype=np.complex128)


LawsAt = Callable[[Numbers], list[tuple[NDArray[np.intp], TiltableLaw]]]


def cumulants(laws_at: LawsAt, z: Numbers) -> Numbers:
    """``log E[exp(z X)]`` at a row of real or complex z with positive real parts, of an X with many laws.

    ``laws_at(z)`` stands for X by laws that are fit for some points each: z that can share a law come together, as
    indices, each once.
    """
    value = np.empty_like(z)
    for indices, law in laws_at(z):
        if np.iscomplexobj(z):
            refuse_long(indices.size * law.values.size)
            value[indices] = law.complex_cumulant(z[indices].astype(np.complex128))
        else:
            value[indices] = law.real_cumulant(z[indices].real)
    return value


def refuse_long(terms: float) -> None:
    """Raise where a line has too many terms."""
    if terms > MOST_TERMS:
        raise NumericalError("The exact sum of this run takes too long: its losses are too small.")
