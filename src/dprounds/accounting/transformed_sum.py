r"""The sum of many rounds' losses on all points of a window, by the fast Fourier transform and back.

The spectrum of each round's tilted law, to the power of the rounds, transformed back, is the tilted law of the sum,
wrapped around the window. Its running sums answer for every epsilon of the window at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.lattice_sum import (
    LARGEST_ERROR,
    UNKNOWN,
    LatticeSum,
    Value,
    power,
    tilted_masses,
    transform_error,
    wrapped,
)
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["TransformedSum"]

Array = NDArray[np.float64]

# The exponential of this, and of half of it more, is in the range of doubles.
FAR = 400.0


@dataclass(frozen=True, eq=False)
class TransformedSum(LatticeSum):
    """The sum on all points of the window, by the fast Fourier transform and back."""

    @property
    def bottom(self) -> float:
        """The first point of the window."""
        return float(self.points[0])

    @cached_property
    def tilted(self) -> tuple[Array, float]:
        """The masses v of the window, and a bound on the Euclidean norm of their error by transforms and powers."""
        grid = self.grid
        spectrum = np.ones(grid.size // 2 + 1, dtype=np.complex128)
        largest = 0.0
        for law, n in zip(self.laws, self.rounds, strict=True):
            masses = wrapped(tilted_masses(law, grid.step, grid.t), law.first, grid.size)
            largest = max(largest, _norm(masses))
            with np.errstate(under="ignore"):
                spectrum *= power(np.fft.rfft(masses), n)
        v = np.roll(np.fft.irfft(spectrum, grid.size), -(self._first % grid.size))
        # No value of a spectrum exceeds one but by rounding, so an error of one factor passes to the product at most
        # as it is, once for each round; a complex product adds less than three units.
        unit = transform_error(grid.size) + 4.0 * UNIT_ROUNDOFF
        return v, 1.1 * unit * (self.total + len(self.laws) + 1.0) * largest

    @cached_property
    def points(self) -> Array:
        """The sums of losses that the window holds."""
        return self.grid.step * np.arange(self._first, self._first + self.grid.size, dtype=np.float64) + self.shift

    @cached_property
    def _first(self) -> int:
        """The number of the first point, so that the window is where it is wanted whatever the shift."""
        return self.grid.bottom - round(self.shift / self.grid.step)

    @cached_property
    def _missed(self) -> float:
        return self._beyond(float(self.points[-1]))

    def at(self, epsilon: float) -> Value:
        """The sum at `epsilon`, its slope, and what bounds its errors. An epsilon below the window misses all."""
        error, points = self.tilted[1], self.points
        first = int(np.searchsorted(points, epsilon))
        scale = self._scale(epsilon)
        if not (scale < math.inf and self.rounding <= LARGEST_ERROR and error <= LARGEST_ERROR):
            return UNKNOWN
        under_p, under_q = self._tails(epsilon, first)
        value = under_p - under_q
        # True masses are not negative, so the sums of moduli exceed the sums by twice what the error makes negative.
        beside = error * self._kernel_norm
        summed, held = abs(value) + 2.0 * beside, abs(under_p) + 2.0 * error * self._near_norm
        # Fewer than 200 units of rounding for a term, and units of the exponents; one more for each term of a sum.
        exponent = self._exponent(epsilon, float(points[0]), float(points[-1]))
        relative = self.rounding + UNIT_ROUNDOFF * (400.0 + 8.0 * exponent)
        noise = beside * (1.0 + relative) + relative * summed
        # the difference is rounded relative to both sums, all else relative to the value
        noise += UNIT_ROUNDOFF * (8.0 + 8.0 * exponent + 2.2 * points.size) * held
        missing = scale * noise + self._missed if first > 0 else math.inf
        return Value(scale * value, -scale * under_q, missing, scale * noise + self._aliases(epsilon))

    @cached_property
    def _suffixes(self) -> tuple[Array, Array]:
        """Sums of v exp(-t d) and v exp(-t d - d) from each point on, d from the center; cut where d is far below 0."""
        distance = self.points - self.grid.center
        near = self.tilted[0] * np.exp(np.minimum(-self.grid.t * distance, FAR))
        both = near, near * np.exp(np.minimum(-distance, FAR))
        tails, declines = (np.append(np.cumsum(one[::-1])[::-1], 0.0) for one in both)
        return tails, declines

    def _tails(self, epsilon: float, first: int) -> tuple[float, float]:
        """The sums of v exp(-t d) and v exp(-t d - d) over the points above epsilon, by their distances d to it."""
        t, moved = self.grid.t, epsilon - self.grid.center
        if abs(moved) * (t + 1.0) < 0.5 * FAR:  # no exponent was cut from here on
            tails, declines = self._suffixes
            return math.exp(t * moved) * float(tails[first]), math.exp((t + 1.0) * moved) * float(declines[first])
        distance = self.points[first:] - epsilon
        near = self.tilted[0][first:] * np.exp(-t * distance)
        return float(near.sum()), float((near * np.exp(-distance)).sum())

    def _hair(self, epsilon: float) -> float:
        ends = max(abs(self.bottom), abs(float(self.points[-1])))
        return 4.0 * UNIT_ROUNDOFF * (abs(epsilon) + ends + self._shift_size)


def _norm(values: Array) -> float:
    return math.sqrt(float((values * values).sum()))
