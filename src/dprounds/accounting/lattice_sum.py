r"""The sum of many rounds' losses on a lattice, tilted, and delta read off it with a bound on every error.

.. math:: \delta(\varepsilon) = e^{K(t)} \sum_k v_k\, e^{-t x_k} (1 - e^{\varepsilon - x_k})_+ , \qquad
          \hat v = \prod_j \hat u_j^{T_j}, \quad u_j = w_j e^{t x} / M_j(t).

Here is what every way to compute this has in common; `transformed_sum` does it by the fast Fourier transform,
`low_frequencies` by the few frequencies that count. Every error is added on the side that stays true: *aliases*,
*beyond*, *transform*, *rounding*; docs/theory/accounting.md proves them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.cells import LatticeLaw
from dprounds.accounting.line import log_zeta
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = [
    "LARGEST_ERROR",
    "UNKNOWN",
    "Grid",
    "LatticeSum",
    "Value",
    "fast_length",
    "power",
    "tilted_masses",
    "transform_error",
    "wrapped",
]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# Each transform of N points errs by at most this times log2 N in the Euclidean norm, relative to it: [Hig02, Theorem
# 24.2] has 6.7 units for exact twiddle factors rounded once and radix two. A butterfly of three or five has at most 7
# roundings on the way to an output, so sqrt(5) * 7 and 4 for its twiddle factors, 20 units, which is less than 16 log2
# of its radix. Real transforms add one pass.
TRANSFORM_ERROR = 16.0 * UNIT_ROUNDOFF
# Errors add up over the rounds. So much of a value is still bounded by what it is to first order.
LARGEST_ERROR = 0.05
# Where the summands of a delta, at most one, are of the size of exp(700), it is lost in their rounding.
LARGEST_EXPONENT = 700.0
# Lengths are powers of two times these.
RADICES = (1.0, 1.125, 1.25, 1.5, 1.875)


class Grid(NamedTuple):
    """Step and ends of the lattice of each part; first point and number of points of a window; and the tilt.

    The window is for epsilons about the `center`. `sides` are the points at which K bounds what is outside of it. Of
    the sum's spectrum as many of the lowest `frequencies` are to be used, or all, by a fast transform, if that is 0.
    """

    step: float
    ends: tuple[tuple[int, int], ...]
    bottom: int
    size: int
    t: float
    sides: Array
    center: float
    frequencies: int = 0

    @property
    def period(self) -> float:
        """The length of the window."""
        return self.step * self.size


class Value(NamedTuple):
    """A sum, its slope in epsilon, what may be missing from it, and what may be too much in it."""

    value: float
    slope: float
    missing: float
    surplus: float


# What is known of a delta without a sum.
UNKNOWN = Value(1.0, 0.0, 0.0, math.inf)


@dataclass(frozen=True, eq=False)
class LatticeSum(ABC):
    """The composition of lattice laws, tilted by t, on a window, with what bounds its errors."""

    grid: Grid
    laws: tuple[LatticeLaw, ...]
    rounds: tuple[int, ...]

    @abstractmethod
    def at(self, epsilon: float) -> Value:
        """The sum at `epsilon`, its slope, and what bounds its errors. An epsilon below `bottom` misses all."""

    @property
    @abstractmethod
    def bottom(self) -> float:
        """The least epsilon that this may be asked for."""

    @abstractmethod
    def _hair(self, epsilon: float) -> float:
        """What the points and their distances to epsilon are rounded by."""

    def upper(self, epsilon: float) -> float:
        """What delta does not exceed, if these are laws from above."""
        value, _, missing, _ = self.at(self.lowered(epsilon))
        return min(value + missing, 1.0)

    def lower(self, epsilon: float) -> float:
        """What delta does exceed, if these are laws from below."""
        value, _, _, surplus = self.at(self.raised(epsilon))
        return max(value - surplus, 0.0)

    def lowered(self, epsilon: float) -> float:
        """An epsilon of the lattice with no smaller a delta: lower by what the losses may exceed the lattice by."""
        return epsilon - sum(law.blur * n for law, n in self._pairs) * (1.0 + 1e-9) - self._hair(epsilon)

    def raised(self, epsilon: float) -> float:
        """An epsilon of the lattice with no greater a delta."""
        return epsilon + self._hair(epsilon)

    @cached_property
    def total(self) -> float:
        """The number of rounds."""
        return float(sum(self.rounds))

    @cached_property
    def shift(self) -> float:
        """How far all points of the sum are from multiples of the step."""
        return float(sum(law.shift * n for law, n in self._pairs))

    @cached_property
    def log_moments(self) -> Array:
        """K of the lattice at t and at the sides, which bound what is outside of the window."""
        at = np.append(self.grid.t, self.grid.sides)
        return sum((n * _log_moment(law, self.grid.step, at) for law, n in self._pairs), start=np.zeros(at.size))

    @cached_property
    def _shift_size(self) -> float:
        """What the shift was summed from, which its rounding is relative to."""
        return float(sum(abs(law.shift) * n for law, n in self._pairs))

    @property
    def _pairs(self) -> list[tuple[LatticeLaw, float]]:
        return [(law, float(n)) for law, n in zip(self.laws, self.rounds, strict=True)]

    @cached_property
    def rounding(self) -> float:
        """A bound on the relative error of every tilted mass, of M(t) and of their products over the rounds.

        A weight w e^(tx) errs by units of tx and a few; a sum of n positive terms by log2 n more at most, added in
        pairs, and NumPy's blocks of 128 by at most that many units. Masses and M have it once each, every round.
        """
        t, step = self.grid.t, self.grid.step
        reach = max((t * step * max(abs(law.first), abs(law.first + law.masses.size)) for law in self.laws), default=0)
        return 2.0 * self.total * UNIT_ROUNDOFF * (4.0 * reach + 200.0)

    def _slack(self, r: Array) -> Array:
        """What K may be rounded by at each r, of which the exponents of its masses are multiples."""
        return np.asarray(1e-9 + 4.0 * self.rounding * np.maximum(r / self.grid.t, 1.0))

    def _aliases(self, epsilon: float) -> float:
        """What wraps around into the sum: exp(-t k period) delta(epsilon - k period) over all k but 0, from above."""
        t, period = self.grid.t, self.grid.period
        r, k = np.append(0.0, self.grid.sides), np.append(0.0, self.log_moments[1:])  # delta is at most one: r = 0
        exponents = k + log_zeta(r) - r * epsilon - np.abs(r - t) * period + self._slack(r)
        series = np.minimum(exponents, 700.0) - np.log(-np.expm1(-np.abs(r - t) * period))
        return math.exp(min(float(series[r < t].min()), 700.0)) + math.exp(min(float(series[r > t].min()), 700.0))

    def _beyond(self, end: float) -> float:
        """The probability of a sum at or above the end of the window, by Chernoff's bound; and of an infinite loss."""
        r, k = np.append(self.grid.t, self.grid.sides), self.log_moments
        exponent = float(np.min((k - r * end + self._slack(r))[r > 0]))
        finite = math.exp(min(exponent, 0.0))
        return finite + sum(law.infinite * n for law, n in self._pairs) * (1.0 + 1e-9)

    @cached_property
    def _near_norm(self) -> float:
        """A bound on the Euclidean norm of exp(-t d) over the points at distances d >= 0: a geometric series."""
        return 1.0 / math.sqrt(-math.expm1(-2.0 * self.grid.t * self.grid.step))

    @cached_property
    def _kernel_norm(self) -> float:
        """A bound on the Euclidean norm of exp(-t d) (1 - exp(-d)) over the points at distances d >= 0.

        Its square rises to its largest value and falls, so that its sum is at most the integral and that value.
        """
        t = self.grid.t
        integral = 1.0 / (t * (2.0 * t + 1.0) * (2.0 * t + 2.0) * self.grid.step)
        return min(math.sqrt(integral + math.exp(2.0 * float(log_zeta(np.array(t))))), self._near_norm)

    def _scale(self, point: float) -> float:
        """exp(K(t) - t point); infinite where summands are so much larger than any delta that nothing is proven."""
        exponent = float(self.log_moments[0]) - self.grid.t * point
        return math.exp(exponent) if exponent < LARGEST_EXPONENT else math.inf

    def _exponent(self, epsilon: float, *ends: float) -> float:
        """The size of the exponents of which a summand is the exponential, and so of its units of rounding."""
        largest = max(abs(end) for end in ends)
        return float(abs(self.log_moments[0]) + (self.grid.t + 1.0) * (abs(epsilon) + largest))


def fast_length(least: float) -> int:
    """The least even length from `least` on, of a few small factors, of which fast transforms are made."""
    octave = 2.0 ** max(math.floor(math.log2(max(least, 1.0))), 4)
    return int(octave * next((radix for radix in RADICES if radix * octave >= least), 2.0))


def transform_error(size: int) -> float:
    """What a transform of so many points errs by, in the Euclidean norm and relative to it."""
    return TRANSFORM_ERROR * math.log2(size)


def tilted_masses(law: LatticeLaw, step: float, t: float) -> Array:
    """The masses of a law, tilted by t, of sum one."""
    exponents = t * step * np.arange(law.first, law.first + law.masses.size, dtype=np.float64)
    with np.errstate(divide="ignore"):
        top = float(np.max(np.log(law.masses) + exponents))
    # in two factors, of which none overflows: no mass is below exp(-745)
    half = np.exp(np.minimum(0.5 * (exponents - top), 700.0))
    weights = law.masses * half * half
    weights /= weights.sum()
    return weights


def wrapped(masses: Array, first: int, size: int) -> Array:
    """Masses at `first`, `first + 1`, … on a circle of so many points."""
    number = (np.arange(masses.size) + first % size) % size  # no array holds a first point beyond its integers
    if masses.size > size:
        return np.asarray(np.bincount(number, weights=masses, minlength=size), dtype=np.float64)
    circle = np.zeros(size)
    circle[number] = masses
    return circle


def power(base: ComplexArray, exponent: int) -> ComplexArray:
    """By repeated squaring, which rounds as much as so many products would."""
    result: ComplexArray | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return np.ones_like(base) if result is None else result


def _log_moment(law: LatticeLaw, step: float, at: Array) -> Array:
    with np.errstate(divide="ignore"):
        logs = np.log(law.masses)
    multiples = step * np.arange(law.first, law.first + law.masses.size, dtype=np.float64)
    found = np.empty(at.size)
    for i, t in enumerate(at):
        exponents = logs + t * multiples
        top = float(exponents.max())
        found[i] = top + math.log(float(np.exp(exponents - top).sum())) + t * law.shift
    return found
