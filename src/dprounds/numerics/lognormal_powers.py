r"""What the power of a sum of lognormal values averages to at one point of a ray, from the average of one value.

With :math:`a_k(u) = E[X^k e^{-uX/t}]/k!`, :math:`G_n(u) = E[S^n e^{-uS}]` is n! over :math:`t^n` times a coefficient of
the t-th power of the polynomial :math:`\sum a_k z^k`. Each average is a trapezoid rule on a line that is moved off the
real axis. docs/theory/allocation.md proves the bounds, under the names that stand here: *averages* and *rounding*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import log1p_at
from dprounds.numerics.doubled import short_below, two_product, two_sum
from dprounds.numerics.log_gamma import loggamma
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = [
    "LEAST_AVERAGE",
    "TERM_UNITS",
    "Average",
    "AverageTerms",
    "LognormalPowers",
    "log_of",
    "one_value_averages",
    "power_coefficients",
]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
Matrix = TypeVar("Matrix", Array, ComplexArray)

# --- What carries a proof; docs/theory/allocation.md has the propositions.

# Below this modulus an exponential is summed as a series of so many terms: 0.25^13 / 13! < 3e-18.
SMALL = 0.25
SERIES = 13
# Terms beyond the peak of an average, smaller by the exponential of this than the largest, are left out.
LOG_LEFT_OUT = 60.0

# --- Rounding and cut-offs: counted or measured, with room.

# Units of rounding of one term of an average, its sum included, of its weight, of q = uX/t, and of one step of a
# recurrence. Exponents and phases of weights, and nodes, are known to more than double precision.
TERM_UNITS = 16.0
WEIGHT_UNITS = 8.0
EXPONENT_UNITS = 8.0
STEP_UNITS = 8.0
# Rounding errors between the nodes at which they are summed exceed what their logarithms tell by less than this factor.
BETWEEN = 1.5
# An average that underflows is replaced by this; it is raised to the power of the count, and nothing is left of it.
LEAST_AVERAGE = 1e-290

# --- What only tunes speed and tightness.

# The errors of averages are asked to be below this part of E[S^(Re w)], in logarithms.
LOG_AVERAGES = -40.0
# The line of an average is moved up by at most so many deviations: rounding grows by exp(1.5^2 / 2) = 3.
MOST_SHIFT = 1.5
# Its strip of analyticity is used up to here.
MOST_STRIP = 5.0
# Nodes of an average.
MOST_POINTS = 2**23
# A ray may make averages' errors grow by so much more than its own angle does, in logarithms.
LOG_STRIP_ROOM = 4.0
# Averages are taken for nodes so close together at once.
BLOCK = 2.0
# Distance of the nodes at which rounding errors are summed.
ERROR_SPACING = 0.5


class Average(NamedTuple):
    """How one value is averaged: a trapezoid rule in deviations x, on a line that is moved up by `shift`.

    An average errs by at most ``exp(log_error)`` times what it is on the real axis at the cosine ``exp(-log_spread)``.
    """

    x: Array
    distance: float
    shift: float
    log_error: float
    log_spread: float


class AverageTerms(NamedTuple):
    """What the averages of X^k exp(-uX/t) / k! are sums of: a row for each k of sizes, a column for each of weights.

    `weights` are `sizes` times the phases of the line that is moved up, `values` are those of X on the axis, and
    `factor` turns X and u.
    """

    sizes: Array
    weights: NDArray[Any]  # complex where the line is moved
    values: Array
    factor: np.complex128 | np.float64


@dataclass(frozen=True)
class LognormalPowers:
    """The mean of `count` independent lognormal values whose logarithm has deviation `deviation`, each of mean one."""

    deviation: float
    count: int

    def _average(self, n: int, p_high: float, angle: float, right: float) -> Average:
        """*Averages*: nodes for the average of one value, and how far they are off."""
        sigma = 1.0 / self.deviation
        shift = min(MOST_SHIFT, sigma * angle)
        widest = max(angle, math.acos(math.cos(angle) * math.exp(-LOG_STRIP_ROOM / p_high)))
        strip = min(sigma * (widest - angle) + shift, MOST_STRIP)
        log_spread = -math.log(math.cos(widest))
        log_wanted = LOG_AVERAGES - math.log(self.count) - p_high * (log_spread + math.log(math.cos(angle)))
        growth = 0.5 * (shift + strip) ** 2 + math.log(2.0)
        distance = short_below(2.0 * math.pi * strip / (growth - log_wanted))
        reach = math.sqrt(2.0 * (math.log(4.0) + 0.5 * shift**2 - log_wanted))
        turns = 2.0 * math.pi * strip / distance
        of_strip = growth - turns - math.log(-math.expm1(-turns))
        of_window = math.log(4.0) + 0.5 * (shift**2 - reach**2)
        log_error = float(np.logaddexp(of_strip, of_window)) + 1e-9
        # The highest peak is that of X^n alone; the lowest that of exp(-uX/t) for the largest u.
        lowest = -sigma * max(right - 0.5 * self.deviation**2, 0.0) - self.deviation
        low, high = lowest - reach - 1.0, n * self.deviation + reach + 1.0
        if not high - low < MOST_POINTS * distance:
            raise NumericalError("A mean of so many lognormal values takes too long.")
        x: Array = distance * np.arange(
            math.floor(low / distance) - 1, math.ceil(high / distance) + 2, dtype=np.float64
        )
        return Average(x, distance, shift, log_error, log_spread)

    def terms(self, average: Average, angle: float, most: int) -> AverageTerms:
        """Those of the averages for k from 0 to `most` on a ray."""
        d, x, shift = np.float64(self.deviation), average.x, np.float64(average.shift)
        k = np.arange(most + 1, dtype=np.float64)[:, None]
        # log X = d x - d^2 / 2, of which X^k times the normal density is made; exponents and phases are not rounded
        product, square, half = two_product(d, x), two_product(x, x), two_product(d, 0.5 * d)
        log_x, rest = two_sum(product[0], -half[0])
        rest = rest + (product[1] - half[1])
        times = two_product(k, log_x)
        exponents, missing = two_sum(times[0], -0.5 * square[0])
        missing = missing + (times[1] + k * rest - 0.5 * square[1])
        scale = average.distance / math.sqrt(2.0 * math.pi) * math.exp(0.5 * average.shift**2)
        factorials = np.array([float(math.factorial(one)) for one in range(most + 1)])[:, None]
        sizes = np.exp(exponents) * (1.0 + missing) * (scale / factorials)
        values = np.exp(log_x) * (1.0 + rest)
        if not angle:
            return AverageTerms(sizes, sizes.T, values, np.float64(1.0))
        away = two_product(k, d)
        phases = two_product(shift, away[0] - x)
        turned = two_sum(away[0], -x)[1] + away[1]
        weights = sizes * np.exp(1j * phases[0]) * (1.0 + 1j * (phases[1] + shift * turned))
        factor = np.exp(1j * (self.deviation * average.shift - angle))  # of the turned X and of u
        return AverageTerms(sizes, weights.T, values, factor)

    def _coefficients(self, y: Array, average: Average, angle: float, n: range) -> tuple[Array, ComplexArray, Array]:
        """G_n = exp(log_size) value on a ray, for each n, and bounds on the rounding errors of the values."""
        sizes, weights, x, factor = self.terms(average, angle, n[-1])
        first, averages = one_value_averages(y, x, weights, factor)
        log_sizes, values = self._powers(first, averages, n)
        # *Rounding* varies slowly along the ray, and is summed at some of the nodes.
        some = np.unique(np.append(np.arange(0, y.size, max(1, round(ERROR_SPACING / (y[1] - y[0])))), y.size - 1))
        q = np.multiply.outer(np.exp(y[some]), x)
        modulus = np.exp(-factor.real * q)
        moved = EXPONENT_UNITS * q * modulus
        units = TERM_UNITS + WEIGHT_UNITS
        near = UNIT_ROUNDOFF * ((units * np.minimum(q, 1.0) + moved) @ sizes[0])
        errors = UNIT_ROUNDOFF * ((units * modulus + moved) @ sizes.T)
        found = self._rounding(first[some], averages[some], near, errors, n)
        return log_sizes, values, _between(y, y[some], found)

    def _powers(self, first: ComplexArray, averages: ComplexArray, n: range) -> tuple[Array, ComplexArray]:
        """G_n from the averages a_k, times the count to the power k; `first` is a_0 - 1."""
        logs = self.count * log_of(first, averages[:, 0])
        turned = np.exp(1j * logs.imag)
        if n[-1] == 0:
            return logs.real, turned[None, :]
        ratios = averages / np.where(np.abs(averages[:, 0]) < LEAST_AVERAGE, LEAST_AVERAGE, averages[:, 0])[:, None]
        scales, factors = self._scales(n)
        return logs.real, power_coefficients(ratios * scales, self.count)[n[0] :] * (factors * turned)

    def _scales(self, n: range) -> tuple[Array, Array]:
        """What keeps coefficients in the range of doubles, and n! over the count to the power n with it taken out.

        The first are powers of two, by which nothing is rounded, and the second are rounded once.
        """
        exponent = round(math.log2(max(n[-1], 3) / math.e / self.count))
        scaled = Fraction(self.count) * Fraction(2) ** exponent
        factors = [float(math.factorial(number) / scaled**number) for number in n]
        return np.ldexp(1.0, exponent * np.arange(n[-1] + 1)), np.array(factors)[:, None]

    def _rounding(self, first: ComplexArray, averages: ComplexArray, near: Array, errors: Array, n: range) -> Array:
        """Bounds on the rounding errors of what `_powers` finds, given those of a_0 - 1 and of the averages."""
        t, u = self.count, UNIT_ROUNDOFF
        size = np.maximum(np.abs(averages[:, 0]), LEAST_AVERAGE)
        of_first = np.where(np.abs(first) < 0.5, near, errors[:, 0]) / size
        of_first += STEP_UNITS * u * np.abs(log_of(first, averages[:, 0]))
        if n[-1] == 0:
            return np.asarray(t * of_first)[None, :]
        sizes = (np.abs(averages) + errors) / size[:, None]
        sizes[:, 0] = 1.0
        relative = errors[:, 1:] / size[:, None] / np.maximum(sizes[:, 1:], 1e-300) + of_first[:, None]
        # in a product of coefficients of total degree n, relative errors of k times this much add up to n times it
        relative = (relative / np.arange(1, n[-1] + 1)).max(axis=1)
        numbers = np.asarray(n)[:, None]
        # one of its units for the quotient by a_0
        counted = t * of_first + numbers * (relative + STEP_UNITS * u) + 2.0 * STEP_UNITS * u * (numbers + 1.0)
        scales, factors = self._scales(n)
        return np.asarray(power_coefficients(sizes * scales, t)[n[0] :] * factors * counted)


def one_value_averages(
    y: Array, x: Array, weights: Matrix, factor: np.complex128 | np.float64
) -> tuple[ComplexArray, ComplexArray]:
    """Sums of ``weights exp(-q)``, one for each column of weights, and of ``exp(-q) - 1`` with the first column.

    In a row of y, q is ``factor exp(y) x``. Where q is small its powers are summed, for all rows of a block at once.
    Points beyond the peak that add next to nothing to the last column add less to the others, and are left out.
    """
    first = np.empty(y.size, dtype=np.complex128)
    averages = np.empty((y.size, weights.shape[1]), dtype=np.complex128)
    numbers = np.arange(SERIES)
    series = (-factor) ** numbers / np.exp(loggamma(numbers + 1.0).real)
    with np.errstate(divide="ignore"):
        log_last = np.log(np.abs(weights[:, -1]))
    beyond = np.append(np.cumsum(weights[::-1, 0])[::-1], 0.0)
    grown = np.exp(y)
    height = max(1, int(BLOCK / (y[1] - y[0])))
    for start in range(0, y.size, height):
        rows = slice(start, min(start + height, y.size))
        here = grown[rows]
        low = int(np.searchsorted(x, SMALL / here[-1]))
        heights = log_last - (factor.real * here[0]) * x
        high = max(int(np.flatnonzero(heights >= heights.max() - LOG_LEFT_OUT)[-1]) + 1, low)
        values = np.exp(np.multiply.outer(-factor * here, x[low:high]))
        averages[rows] = values @ weights[low:high]
        first[rows] = (values - 1.0) @ weights[low:high, 0] - beyond[high]
        if low:
            powers = _powers_of(x[:low] * here[-1]) * series[:, None]
            partial = powers @ weights[:low]
            shrunk = _powers_of(here / here[-1]).T
            averages[rows] += shrunk @ partial
            first[rows] += shrunk[:, 1:] @ partial[1:, 0]
    return first, averages


def _powers_of(values: Array) -> Array:
    """The powers of values, a row for each number up to that of a series."""
    found = np.ones((SERIES, values.size))
    for number in range(1, SERIES):
        np.multiply(found[number - 1], values, out=found[number])
    return found


def log_of(less: ComplexArray, whole: ComplexArray) -> ComplexArray:
    """The logarithm of ``whole = 1 + less``, to its own size; of what underflows, that of the least average."""
    is_near = np.abs(less) < 0.5
    far = np.where(is_near | (np.abs(whole) < LEAST_AVERAGE), LEAST_AVERAGE, whole)
    return np.where(is_near, log1p_at(np.where(is_near, less, 0.0)), np.log(far))


def _between(y: Array, at: Array, values: Array) -> Array:
    """Rows of values between the points at which they are given, and a margin: their logarithms bend little."""
    logs = np.log(np.maximum(values, 1e-300)) + math.log(BETWEEN)
    return np.asarray(np.exp(np.stack([np.interp(y, at, row) for row in logs])))


def power_coefficients(polynomials: Matrix, t: int) -> Matrix:
    """The coefficients of the t-th powers of polynomials, one in each row, up to their degree; a row for each.

    By Miller's recurrence where no factor in it is negative, and else by repeated squaring: sums and products alone.
    """
    columns = np.ascontiguousarray(polynomials.T)
    n = columns.shape[0] - 1
    if t >= n - 1:
        found = np.empty_like(columns)
        found[0] = 1.0
        for m in range(1, n + 1):
            factors = (np.arange(1, m + 1) * (t + 1.0) - m) / m
            found[m] = (columns[1 : m + 1] * found[m - 1 :: -1][:m] * factors[:, None]).sum(axis=0)
        return found
    powers, square = None, columns
    while t:
        if t & 1:
            powers = square if powers is None else _product(powers, square)
        t >>= 1
        square = _product(square, square) if t else square
    return columns if powers is None else powers


def _product(one: Matrix, other: Matrix) -> Matrix:
    """The product of polynomials, cut at their degree."""
    return np.stack([(one[: m + 1] * other[m::-1][: m + 1]).sum(axis=0) for m in range(one.shape[0])])
