r"""The privacy profile from the values of K on one vertical line, with a bound on every error.

On :math:`\mathrm{Re}\,z = t` the trapezoid rule of step h, with :math:`\Lambda = 2\pi/h`, is exactly

.. math:: \frac h{2\pi}\sum_{n\in\mathbb Z} G(nh) = \sum_{k\in\mathbb Z} e^{tk\Lambda}\,\delta(\varepsilon + k\Lambda),
          \qquad G(s) = \frac{e^{K(t+is) - \varepsilon(t+is)}}{(t+is)(1+t+is)}.

Five things part the number that is computed from the truth; docs/theory/accounting.md proves a bound on each, and
`Line.bracket` names them where it adds them up: *alias below*, *alias above*, *truncation*, *smoothing*, *rounding*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above, below

__all__ = ["Brackets", "Line", "log_zeta"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# The error of one round's M that a line allows for, relative to M(t) and to the size of what K is made of. Measured
# against arbitrary precision the moment functions of this library stay below it; docs/theory/accounting.md.
LOG_MOMENT_ERROR = 1e-13
# Roundings of one summand beside those of its exponent, and of the sum: exponential, product, quotient, pairwise sum.
SUMMAND_ERROR = 64.0 * UNIT_ROUNDOFF
# A delta, at most one, is not read off summands of the size of exp(700): there the bracket is all of [0, 1].
LARGEST_LOG_SCALE = 700.0
# Entries of one (epsilon, node) table: 16 MB.
LARGEST_TABLE = 2**20


class Brackets(NamedTuple):
    """Rows of numbers with the truth between them."""

    lower: Array
    upper: Array


class _Sums(NamedTuple):
    """The sum and the smoothed density, each with a bound on its rounding (*rounding*).

    All are relative to the modulus of the exponential at the real node, whose logarithm comes first.
    """

    log_scale: Array
    delta: Array
    delta_rounding: Array
    density: Array
    density_rounding: Array


def log_zeta(t: Array) -> Array:
    r"""The logarithm of the largest :math:`(1 - e^{-y}) e^{-ty}`, that is :math:`t^t / (1+t)^{1+t}`."""
    # t log(t/(1+t)) tends to 0 with t and to -1 with 1/t; both by log1p, without cancellation
    positive = np.maximum(t, np.finfo(float).tiny)
    return np.where(t > 0, -np.log1p(t) - t * np.log1p(1.0 / positive), 0.0)


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
        K at ``t + i n step``, for n from 0.
    ceiling
        A bound on the real part of K at and beyond the last node.
    sides, side_values
        Other points of the positive axis and upper bounds of K there; 0 may be among them.
    sizes
        The size of what each value was summed from, which its rounding error is relative to.
    fewest_rounds
        M is a product of powers, none of them with a smaller exponent. Each factor is known to an error relative to
        its value on the real axis; raised to n, that error shrinks with the factor to the power n - 1.
    variance
        Of the virtual Gaussian that is composed with the release, which makes the sum end; 0 for none.
    """

    t: float
    step: float
    values: ComplexArray
    ceiling: float
    sides: Array
    side_values: Array
    sizes: Array
    fewest_rounds: float = 1.0
    variance: float = 0.0

    def __post_init__(self) -> None:
        if not self.variance >= 0:  # no Gaussian has it, and every bound below takes it for one
            raise NumericalError(f"A variance of {self.variance:g} smooths nothing.")

    def __mul__(self, rounds: float) -> Line:
        """The line of this many rounds."""
        return replace(
            self,
            values=rounds * self.values,
            ceiling=rounds * self.ceiling,
            side_values=rounds * self.side_values,
            sizes=rounds * self.sizes,
            fewest_rounds=rounds * self.fewest_rounds,
        )

    __rmul__ = __mul__

    @property
    def nodes(self) -> ComplexArray:
        """The points of the line."""
        return np.asarray(self.t + 1j * (self.step * np.arange(self.values.size)), dtype=np.complex128)

    def bracket(self, epsilon: Array) -> Brackets:
        r"""Lower and upper bounds of :math:`\delta(\varepsilon)` over the finite losses, at every epsilon of a row.

        Guarantee
        ---------
        The truth lies between them, if K is within `LOG_MOMENT_ERROR` of its size and the ceiling holds.

        Theorem
        -------
        docs/theory/accounting.md, "The error budget".
        """
        sums = self._sums(epsilon)
        lost_all = ~(sums.log_scale < LARGEST_LOG_SCALE)
        scale = np.exp(np.where(lost_all, 0.0, sums.log_scale))
        truncation = self._truncation(epsilon, sums.log_scale)
        # Untruncated and unrounded, the sum is not below the truth: aliases are positive and smoothing raises delta.
        upper = sums.delta + (sums.delta_rounding + truncation)
        lost = self._alias(epsilon, sums.log_scale) + truncation + sums.delta_rounding
        if self.variance:
            lost = lost + self._smoothing(epsilon, sums)
        lower = sums.delta - lost
        if not (lost_all | (lower <= upper)).all():  # also where one of them is not a number
            raise NumericalError("The exact sum of this run lost all its digits.")
        with np.errstate(over="ignore"):  # more than any delta is capped by one
            return Brackets(
                np.where(lost_all, 0.0, np.maximum(below(scale * np.maximum(lower, 0.0)), 0.0)),
                np.where(lost_all, 1.0, np.minimum(above(scale * upper), 1.0)),
            )

    def value_and_slope(self, epsilon: float) -> tuple[float, float]:
        """The sum as computed and its derivative in epsilon, for Newton's method: not a bound."""
        z, exponent, kernel = self._summands
        log_scale = exponent[0].real - epsilon * self.t
        terms = np.exp((exponent - epsilon * z) - log_scale) * kernel
        scale = math.exp(min(log_scale, LARGEST_LOG_SCALE))
        return scale * float(terms.real.sum()), -scale * float((terms * z).real.sum())

    @cached_property
    def _summands(self) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """Nodes, smoothed K, and the weights of the trapezoid rule times 1 / (z (1 + z))."""
        z = self.nodes
        product = z * (1.0 + z)
        exponent = self.values + (0.5 * self.variance) * product if self.variance else self.values
        kernel = (self.step / math.pi) / product
        kernel[0] *= 0.5
        return z, exponent, kernel

    def _sums(self, epsilon: Array) -> _Sums:
        z, exponent, kernel = self._summands
        log_scale = exponent[0].real - epsilon * self.t
        kernel_size = np.abs(kernel)
        weight = kernel * (z * (1.0 + z)) if self.variance else None  # of the density, which has no 1 / (z (1 + z))
        # Where M vanishes its logarithm is -inf, the summand is 0, and only the error of M itself is left.
        size = 1.0 + np.abs(np.where(np.isfinite(exponent), exponent, 0.0))
        damping = np.exp(-0.5 * self.variance * (z.imag * z.imag))
        power = 1.0 - 1.0 / self.fewest_rounds
        total = np.zeros((4, epsilon.size))
        height = max(1, LARGEST_TABLE // z.size)
        for start in range(0, epsilon.size, height):
            rows = slice(start, start + height)
            shift = np.multiply.outer(epsilon[rows], z)
            terms = np.exp((exponent - shift) - log_scale[rows, None])
            modulus = np.abs(terms)
            error = SUMMAND_ERROR * modulus * (size + np.abs(shift))
            error += LOG_MOMENT_ERROR * self.sizes * (modulus**power * damping ** (1.0 - power))
            total[0, rows] = (terms * kernel).real.sum(axis=1)
            total[1, rows] = (error * kernel_size).sum(axis=1)
            if weight is not None:
                total[2, rows] = (terms * weight).real.sum(axis=1)
                total[3, rows] = (error * np.abs(weight)).sum(axis=1)
        return _Sums(log_scale, *total)

    def _alias(self, epsilon: Array, log_scale: Array) -> Array:
        """*Alias below* and *alias above*: what the neighbours at distance Λ add, by the best of `sides` on each side.

        At a point r of the axis, delta(x) <= zeta(r) exp(K(r) - r x), whose aliases form a geometric series.
        """
        distance = np.abs(self.sides - self.t) * (2.0 * math.pi / self.step)
        smoothed = self.side_values + (0.5 * self.variance) * self.sides * (1.0 + self.sides)
        with np.errstate(divide="ignore"):  # a side too close to the line bounds nothing, and says inf
            geometric = -distance - np.log(-np.expm1(-distance))
        exponent = (smoothed + log_zeta(self.sides) + geometric) - np.multiply.outer(epsilon, self.sides)
        exponent += SUMMAND_ERROR * (np.abs(smoothed) + distance + np.multiply.outer(epsilon, self.sides))
        total = np.zeros_like(epsilon)
        for side in (self.sides < self.t, self.sides > self.t):
            total = total + np.exp(np.minimum(exponent[:, side].min(axis=1) - log_scale, LARGEST_LOG_SCALE))
        return total

    def _truncation(self, epsilon: Array, log_scale: Array) -> Array:
        """*Truncation*: nodes beyond the last, S, add up to at most exp(ceiling - t epsilon) / (pi S)."""
        last = self.step * (self.values.size - 1)
        return np.exp(self._log_ceiling(epsilon, log_scale)) / (math.pi * last)

    def _log_ceiling(self, epsilon: Array, log_scale: Array) -> Array:
        last = self.step * (self.values.size - 1)
        smoothed = self.ceiling + 0.5 * self.variance * (self.t * (1.0 + self.t) - last * last)
        # The ceiling may be the small difference of terms as large as K on the real axis.
        size = abs(self.ceiling) + 2.0 * abs(self.values[0].real) + self.variance * last * last
        error = SUMMAND_ERROR * (size + np.abs(log_scale))
        return np.asarray(np.minimum(smoothed - epsilon * self.t - log_scale + error, LARGEST_LOG_SCALE))

    def _smoothing(self, epsilon: Array, sums: _Sums) -> Array:
        """*Smoothing*: a virtual Gaussian of variance v raises delta by at most v exp(v/8) times the density there."""
        v, last = self.variance, self.step * (self.values.size - 1)
        truncation = np.exp(self._log_ceiling(epsilon, sums.log_scale)) / (math.pi * v * last)
        return v * math.exp(v / 8.0) * (sums.density + sums.density_rounding + truncation)
