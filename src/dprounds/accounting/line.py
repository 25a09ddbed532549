r"""The privacy profile from the values of K on one vertical line, with a bound on every error.

On :math:`\mathrm{Re}\,z = t` the trapezoid rule of step h, with :math:`\Lambda = 2\pi/h`, is exactly

.. math:: \frac h{2\pi}\sum_{n\in\mathbb Z} \frac{e^{K(z_n) - \varepsilon z_n}}{z_n(1+z_n)}
          = \sum_{k\in\mathbb Z} e^{tk\Lambda}\,\delta(\varepsilon + k\Lambda), \qquad z_n = t + inh .

Where all losses lie on a lattice of step a, K has the period :math:`2\pi/a` along the line. With :math:`\Lambda = Na`
the sum over n and all its periods is a geometric series, and the same identity holds for N nodes with another kernel:

.. math:: \frac1N\sum_{n=1}^{N} e^{K(z_n) - x_0 z_n}\, \frac{(1 - e^{-d}) + r_n(e^{-d} - e^{-a})}{(1-r_n)(1-r_ne^{-a})},
          \qquad r_n = e^{-az_n},

with :math:`x_0 = \varepsilon + d` the first point of the lattice that is not below :math:`\varepsilon`.

Each error of the computed number has a name, here and in docs/theory/accounting.md, which proves the bounds:
 *alias below*, *alias above*, *truncation*, *smoothing*, *rounding*, *transform*, *relative error*, *missing*, *blur*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket, Brackets
from dprounds.accounting.kernel import ContinuousKernel, Kernel, PeriodicKernel, log_zeta
from dprounds.accounting.law import LOG_MOMENT_ERROR, Lattice
from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above, below

__all__ = ["Line"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# --- What carries a proof; docs/theory/accounting.md has the propositions.

# Roundings of one summand in addition to those of its exponent, and of the sum: exponential, products, quotients,
# pairwise sum.
SUMMAND_ERROR = 64.0 * UNIT_ROUNDOFF
# Relative errors x are computed to first order, and multiplied by the second number: e^x - 1 and 1 / (1 - x) - 1 are
# below that for all x up to the first number. With a larger x nothing is claimed.
LARGEST_RELATIVE_ERROR = 0.05
SECOND_ORDER = 1.1
# A delta, at most one, is not read off summands of the size of exp(700): there the bracket is all of [0, 1].
LARGEST_LOG_SCALE = 700.0

# --- What only tunes speed.

# The exponential of anything below -746 is 0 in doubles. The margin of 14 is for the rounding of the exponent: if that
# is larger, the rounding error exceeds the sum.
VANISHED_LOG = -760.0
# Entries of one (epsilon, node) table: 16 MB.
LARGEST_TABLE = 2**20


class _Rows(NamedTuple):
    """Some rows of the table of summands, which are ``terms * kernel``; `log_scale` was taken out of the terms."""

    log_scale: Array
    terms: ComplexArray
    exponents: Array  # the size of what the exponent of each term was summed from
    kernel: ComplexArray  # a row, or one for each row where losses lie on a lattice
    slope_kernel: ComplexArray
    distance: Array  # of each epsilon from the first point of the lattice, if there is one


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    r"""K of one direction of a release on a vertical line: all that its profile near one epsilon needs.

    Everything but `variance` is proportional to K, so ``line * rounds`` is the line of that many rounds, at no new
    evaluation of K. Whatever the rounds, `bracket` is right; it is tight for those the line was made for.

    Parameters
    ----------
    t, step
        Where the line is, and the distance of its nodes.
    values
        K(z) - z `center` at ``t + i n step``, for n from 0.
    center
        A loss that is taken out of K so that its phases stay small.
    ceiling
        A bound on the real part of the values at and beyond the last node; minus infinity if there is no other node.
    sides, side_values
        Other points of the positive axis and upper bounds of K there; 0 may be among them.
    sizes
        The size of what each value was summed from, which its rounding error is relative to.
    fewest_rounds
        M is a product of powers, none of them with a smaller exponent. Each factor is known to an error relative to
        its value on the real axis; raised to n, that error shrinks with the factor to the power n - 1.
    variance
        Of the virtual Gaussian that is composed with the release, which makes the sum end; 0 for none.
    lattice, points
        Where all losses lie, if they do on a lattice, and the number of its points in a period of the sum.
    errors
        Bounds on the errors of M(z) / M(t) that are known otherwise than from `sizes`; they count as *rounding*.
    norm_error
        *Transform*: a bound on the Euclidean norm of the errors of the masses, tilted by t and divided by M(t).
    relative_error
        *Relative error*: by how much of themselves all masses may be off.
    missing
        *Missing*: a mass that has no place on the line, and counts as an infinite loss.
    is_of_one_run
        Whether the ceiling belongs to this number of rounds alone.
    """

    t: float
    step: float
    values: ComplexArray
    ceiling: float
    sides: Array
    side_values: Array
    sizes: Array
    center: Fraction = Fraction(0)
    fewest_rounds: float = 1.0
    variance: float = 0.0
    lattice: Lattice | None = None
    points: int = 0
    errors: Array | float = 0.0
    norm_error: float = 0.0
    relative_error: float = 0.0
    missing: float = 0.0
    is_of_one_run: bool = False

    def __post_init__(self) -> None:
        if not self.variance >= 0:  # no Gaussian has it, and every bound below takes it for one
            raise NumericalError(f"A variance of {self.variance:g} smooths nothing.")

    def __mul__(self, rounds: float) -> Line:
        """The line of this many rounds."""
        if self.lattice is not None or self.is_of_one_run:
            raise TypeError("the points of a lattice move with the number of rounds, and so does a watched ceiling")
        return replace(
            self,
            values=rounds * self.values,
            ceiling=rounds * self.ceiling,
            side_values=rounds * self.side_values,
            sizes=rounds * self.sizes,
            fewest_rounds=rounds * self.fewest_rounds,
        )

    __rmul__ = __mul__

    def at(self, epsilon: float) -> Bracket:
        """Lower and upper bounds of delta over the finite losses at one epsilon."""
        lower, upper = self.bracket(np.array([epsilon]))
        return Bracket(float(lower[0]), float(upper[0]))

    def bracket(self, epsilon: Array) -> Brackets:
        r"""Lower and upper bounds of :math:`\delta(\varepsilon)` over the finite losses, at every epsilon of a row.

        Guarantee
        ---------
        The truth lies between them, if K is within `LOG_MOMENT_ERROR` of its size and the ceiling holds.

        Theorem
        -------
        docs/theory/accounting.md, "The error budget".
        """
        if self.relative_error > LARGEST_RELATIVE_ERROR:
            return Brackets(np.zeros_like(epsilon), np.ones_like(epsilon))
        if not self.kernel.blur:
            return self._bracket(epsilon)
        margin = self._blur_at(epsilon)
        return Brackets(self._bracket(epsilon + margin).lower, self._bracket(epsilon - margin).upper)

    def integrals_from_above(self, epsilon: Array) -> Array:
        r"""Upper bounds of :math:`\int_\varepsilon^\infty\delta(x)\,dx` over the finite losses, for a row of epsilons.

        What is `missing` is left out. It is infinite where the digits do not tell.

        Theorem
        -------
        docs/theory/fixed-size.md, "What is computed".
        """
        found = np.full_like(epsilon, math.inf)
        if self.relative_error > LARGEST_RELATIVE_ERROR:
            return found
        lower = epsilon - self._blur_at(epsilon) if self.kernel.blur else epsilon
        for start in range(0, epsilon.size, self._height):
            block = slice(start, start + self._height)
            here = lower[block]
            rows = self._table(here)
            kernel, size = self.kernel.of_integral(rows.distance)
            modulus = np.abs(rows.terms)
            error = SUMMAND_ERROR * modulus * rows.exponents + self._moment_errors(modulus)
            value = (rows.terms * kernel).real.sum(axis=1)
            # nodes beyond the last add at most 4/S of what they add to delta
            rest = (error * size).sum(axis=1)
            if self.norm_error:
                rest = rest + self.norm_error * self.kernel.integral_norm
            rest = rest + self._truncation(rows.log_scale, here) * (4.0 / self._last)
            most = (value + rest) * (1.0 + self.relative_error) + self.relative_error * rest
            with np.errstate(over="ignore"):
                bound = above(np.exp(np.minimum(rows.log_scale, LARGEST_LOG_SCALE)) * most)
            found[block] = np.where((rows.log_scale < LARGEST_LOG_SCALE) & (most >= 0.0), bound, math.inf)
        return found

    def value_and_slope(self, epsilon: float) -> tuple[float, float]:
        """The sum as computed and its derivative in epsilon, for Newton's method: not a bound."""
        rows = self._table(np.array([epsilon]))
        scale = math.exp(min(float(rows.log_scale[0]), LARGEST_LOG_SCALE))
        value = scale * float((rows.terms * rows.kernel).real.sum())
        return value, scale * float((rows.terms * rows.slope_kernel).real.sum())

    def slope_along(self, epsilon: float, slopes: Numbers) -> float:
        """The derivative of the sum by a parameter, given that of all rounds' K at every node: not a bound."""
        if self.lattice is not None or self.variance:
            raise NumericalError("The derivative of this sum is not known.")
        rows = self._table(np.array([epsilon]))
        terms = rows.terms[0] * rows.kernel
        # where M vanishes so does what it adds, whatever its logarithm does
        held = np.where(terms == 0, 0.0, slopes)
        return math.exp(min(float(rows.log_scale[0]), LARGEST_LOG_SCALE)) * float((terms * held).real.sum())

    def _bracket(self, epsilon: Array) -> Brackets:
        lower, upper = np.zeros_like(epsilon), np.ones_like(epsilon)
        for start in range(0, epsilon.size, self._height):
            block = slice(start, start + self._height)
            here = epsilon[block]
            rows = self._table(here)
            lost_all = ~(rows.log_scale < LARGEST_LOG_SCALE)
            scale = np.exp(np.where(lost_all, 0.0, rows.log_scale))
            modulus = np.abs(rows.terms)
            error = SUMMAND_ERROR * modulus * rows.exponents + self._moment_errors(modulus)
            value = (rows.terms * rows.kernel).real.sum(axis=1)
            # *rounding*, and *transform* by the inequality of Cauchy and Schwarz
            rest = self._truncation(rows.log_scale, here) + (error * np.abs(rows.kernel)).sum(axis=1)
            if self.norm_error:
                rest = rest + self.norm_error * self.kernel.norm
            lost_all |= rest == math.inf
            rest = np.where(lost_all, 0.0, rest)
            # Untruncated and unrounded, the sum is not below the truth: aliases are positive and smoothing raises it.
            most = (value + rest) * (1.0 + self.relative_error) + self.relative_error * rest
            lost = rest + self._alias(here, rows.log_scale)
            if self.variance:
                lost = lost + self._smoothing(here, rows, error)
            least = (value - lost) * (1.0 - self.relative_error) - self.relative_error * lost
            if not (lost_all | (least <= most)).all():  # also where one of them is not a number
                raise NumericalError("The exact sum of this run lost all its digits.")
            with np.errstate(over="ignore"):  # more than any delta is capped by one
                lower[block] = np.where(lost_all, 0.0, np.maximum(below(scale * np.maximum(least, 0.0)), 0.0))
                # *missing*
                upper[block] = np.where(lost_all, 1.0, np.minimum(above(scale * most) + self.missing, 1.0))
        return Brackets(lower, upper)

    def _blur_at(self, epsilon: Array) -> Array:
        """*Blur*: losses may be off by this much, so that delta is between those of two epsilons."""
        blur = self.kernel.blur
        return blur + 4.0 * UNIT_ROUNDOFF * (np.abs(epsilon) + blur)

    @cached_property
    def kernel(self) -> Kernel:
        """What weighs the nodes."""
        if self.lattice is None:
            return ContinuousKernel(self.nodes, self.step)
        return PeriodicKernel(self.nodes, self.step, self.lattice, self.points, self.center)

    @cached_property
    def nodes(self) -> ComplexArray:
        """Where the values of K are."""
        return np.asarray(self.t + 1j * (self.step * np.arange(self.values.size)), dtype=np.complex128)

    @cached_property
    def _exponents(self) -> tuple[ComplexArray, Array, Array]:
        """The smoothed values, the sizes of what they were summed from as far as rounding goes, and those of nodes."""
        z = self.nodes
        exponent = self.values + (0.5 * self.variance) * (z * (1.0 + z)) if self.variance else self.values
        # Where M vanishes its logarithm is -inf, the summand is 0, and only the error of M itself is left.
        return exponent, 1.0 + np.abs(np.where(np.isfinite(exponent), exponent, 0.0)), np.abs(z)

    @cached_property
    def _damping(self) -> Array:
        return np.exp(-0.5 * self.variance * self.nodes.imag**2)

    def _moment_errors(self, modulus: Array) -> Array | float:
        """What the errors of K, or of M, add to each term."""
        power = 1.0 - 1.0 / self.fewest_rounds
        error = LOG_MOMENT_ERROR * self.sizes
        found = modulus**power
        if self.variance:
            found = found * self._damping ** (1.0 - power)
        found = error * found + self.errors
        if self.fewest_rounds > 1:
            # where a factor is below ten times the error, it and its computed value are below eleven times that
            found = found + np.minimum(11.0 * error, 1.0) ** self.fewest_rounds
        return found

    @cached_property
    def _height(self) -> int:
        """How many epsilons of a row fit the memory at a time."""
        return max(1, LARGEST_TABLE // self.values.size)

    def _table(self, epsilon: Array) -> _Rows:
        """The summands for every epsilon of a block."""
        z, (exponent, size, node_size), live = self.nodes, self._exponents, self._live
        point, distance, kernel, slope_kernel = self.kernel.at(epsilon)
        log_scale = exponent[0].real - point * self.t
        terms = np.zeros((point.size, z.size), dtype=np.complex128)
        terms[:, live] = np.exp((exponent[live] - np.multiply.outer(point, z[live])) - log_scale[:, None])
        exponents = size + np.multiply.outer(np.abs(point), node_size)
        return _Rows(log_scale, terms, exponents, kernel, slope_kernel, distance)

    @cached_property
    def _live(self) -> slice | NDArray[np.intp]:
        """The nodes whose summands do not vanish in doubles: few of a lattice's, where there are many rounds.

        Their logarithms, relative to that of the first, do not depend on epsilon.
        """
        size = self._exponents[0].real
        live = np.flatnonzero(~(size - size[0] < VANISHED_LOG))  # what is not a number stays, and is refused
        return slice(None) if live.size == size.size else live

    def _alias(self, epsilon: Array, log_scale: Array) -> Array:
        """*Alias below* and *alias above*: what the neighbours at distance Λ add, by the best of `sides` on each side.

        At a point r of the axis, delta(x) <= zeta(r) exp(K(r) - r x), whose aliases form a geometric series.
        """
        distance = np.abs(self.sides - self.t) * (2.0 * math.pi / self.step)
        smoothed = self.side_values + (0.5 * self.variance) * self.sides * (1.0 + self.sides)
        with np.errstate(divide="ignore"):  # a side too close to the line bounds nothing, and says inf
            geometric = -distance - np.log(-np.expm1(-distance))
        exponent = (smoothed + log_zeta(self.sides) + geometric) - np.multiply.outer(epsilon, self.sides)
        exponent += SUMMAND_ERROR * (np.abs(smoothed) + distance + np.abs(np.multiply.outer(epsilon, self.sides)))
        total = np.zeros_like(epsilon)
        for side in (self.sides < self.t, self.sides > self.t):
            least = exponent[:, side].min(axis=1, initial=math.inf)  # without a side nothing is known
            total = total + np.exp(np.minimum(least - log_scale, LARGEST_LOG_SCALE))
        return total

    @cached_property
    def _last(self) -> float:
        return self.step * (self.values.size - 1)

    def _truncation(self, log_scale: Array, epsilon: Array) -> Array:
        """*Truncation*: nodes beyond the last, S, add up to at most exp(ceiling - t x) / (pi S), x where the sum is.

        On a lattice of step a that is multiplied by pi^2 / 4 exp((t + 1/2) a).
        """
        if self.ceiling == -math.inf:
            return np.zeros_like(log_scale)
        exponent = self._log_ceiling(log_scale, epsilon)
        exponent = exponent + self.kernel.log_growth
        within = exponent < LARGEST_LOG_SCALE
        return np.where(within, np.exp(np.where(within, exponent, 0.0)) / (math.pi * self._last), math.inf)

    def _log_ceiling(self, log_scale: Array, epsilon: Array) -> Array:
        """The bound beyond the last node, relative to the real one."""
        last = self._last
        top = self._exponents[0][0].real
        smoothed = self.ceiling + 0.5 * self.variance * (self.t * (1.0 + self.t) - last * last)
        # The ceiling may be the small difference of terms as large as K on the real axis.
        size = abs(self.ceiling) + 2.0 * abs(self.values[0].real) + self.variance * last * last
        error = SUMMAND_ERROR * (size + np.abs(log_scale) + np.abs(self.t * epsilon))
        return np.asarray(smoothed - top + error)

    def _smoothing(self, epsilon: Array, rows: _Rows, error: Array) -> Array:
        """*Smoothing*: a virtual Gaussian of variance v raises delta by at most v exp(v/8) times the density there."""
        v, weights = self.variance, self.kernel.weights
        density = (rows.terms * weights).real.sum(axis=1) + (error * weights).sum(axis=1)
        # more than that is subtracted from no delta
        exponent = np.minimum(self._log_ceiling(rows.log_scale, epsilon), LARGEST_LOG_SCALE)
        truncation = np.exp(exponent) / (math.pi * v * self._last)
        return v * math.exp(v / 8.0) * np.asarray(density + truncation)
