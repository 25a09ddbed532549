r"""Averages over one round's log-ratio v, with soft steps in :math:`X = e^v`: sums that bound what they stand for.

All of them are of the form :math:`E_N[w^p \prod_j \Phi(\pm(X - E_j)/\omega_j)]`, :math:`w = 1 - q + qX`, or bound such
an average from above on a line turned by an angle. docs/theory/levels.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.turnable import Turnable
from dprounds.errors import NumericalError
from dprounds.numerics.quadrature import short_binary_below
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.special import erfc, log_ndtr

__all__ = ["BOTH_ENDS", "Factor", "Grid", "Mean", "Step", "log_sum"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# --- What carries a proof; docs/theory/levels.md has the propositions.

# log sqrt(2 pi), rounded down.
LOG_ROOT_TWO_PI = 0.9189385
# A cell's largest value of the second part of a turned step is at most twice that of its ends, if its peak, in widths
# of the step, times the length of the cell is below this (docs/theory/levels.md, "Upper sums").
LARGEST_CELL = 1.6
# Roundings of one term of a sum and of the sum, in addition to those that its exponent is made of.
TERM_ROUNDINGS = 64.0

# --- What only tunes speed.

# Values of v.
MOST_POINTS = 2**13


def log_sum(exponents: Array) -> Array:
    """The logarithm of the sum of exponentials over the last axis."""
    top = exponents.max(axis=-1)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.asarray(top + np.log(np.exp(exponents - top[..., None]).sum(axis=-1)))


@dataclass(frozen=True)
class Step:
    """The soft step Phi((X - at) / width)."""

    at: float
    width: float


class Factor(NamedTuple):
    """A soft step, or what is left of one above it."""

    step: Step
    rises: bool

    @property
    def _sign(self) -> float:
        return 1.0 if self.rises else -1.0

    def log(self, x: Array) -> Array:
        """Its logarithm at real X."""
        return np.asarray(log_ndtr(self._sign * (x - self.step.at) / self.step.width))

    def value(self, x: ComplexArray) -> ComplexArray:
        """Itself at complex X."""
        return np.asarray(0.5 * erfc(self._sign * (self.step.at - x) / (self.step.width * math.sqrt(2.0))))

    def parts(self, x: Array, angle: float | Array, strip: float = 0.0) -> tuple[Array, Array]:
        r"""Logarithms of two numbers whose sum bounds it turned by an angle, that bound moved by a strip on top of it.

        On the line of the angle :math:`|\Phi(a + ib)| \le \Phi(a) + |b|\,\varphi(a)\,e^{b^2/2}`. If the right side is
        itself moved by a strip, its first part is bounded in the same way, and the modulus of the second one is known.
        """
        at, width, cosine, sine = self.step.at, self.step.width, np.cos(angle), np.sin(angle)
        with np.errstate(divide="ignore"):
            if strip == 0:
                a, b = (x * cosine - at) / width, x * sine / width
                return np.asarray(log_ndtr(self._sign * a)), np.log(b) + 0.5 * (b - a) * (b + a) - LOG_ROOT_TWO_PI
            first = np.logaddexp(*self.parts(x * cosine, strip))
            square = (x / width) ** 2 * np.cos(2.0 * angle) * math.cos(2.0 * strip)
            product = 2.0 * x / width * (at / width) * cosine * math.cos(strip)
            second = np.log(x * sine / width) - 0.5 * (square - product + (at / width) ** 2) - LOG_ROOT_TWO_PI
        return first, second


# The first and the last point of a grid.
BOTH_ENDS = [0, -1]


@dataclass(frozen=True, eq=False)
class Mean:
    """Logarithms of averages, and bounds on their errors relative to the averages, made when they are asked for."""

    log: Array
    make_errors: Callable[[Array], tuple[Array, Array]]

    @cached_property
    def _errors(self) -> tuple[Array, Array]:
        return self.make_errors(self.log)

    @property
    def rounding(self) -> Array:
        """By the roundings of the terms and of their sums."""
        return self._errors[0]

    @property
    def quadrature(self) -> Array:
        """By the step of the trapezoid rule, and by what is outside of the grid."""
        return self._errors[1]

    @property
    def error(self) -> Array:
        """Both errors."""
        return self.rounding + self.quadrature

    @property
    def upper(self) -> Array:
        """Upper bounds of the logarithms."""
        return np.asarray(self.log + np.log1p(self.error))


class Grid:
    """Multiples of a step of v, and what averages over them are made of."""

    def __init__(self, pair: Turnable, low: float, high: float, step: float) -> None:
        self.pair = pair
        self.step = short_binary_below(step)  # its multiples are exact doubles
        if not 0 < (high - low) / MOST_POINTS < self.step:
            raise NumericalError("The levels of this run need more memory than is allowed.")
        self.v: Array = self.step * np.arange(math.floor(low / self.step), math.ceil(high / self.step) + 1.0)
        self.x: Array = np.exp(self.v)
        self.log_w: Array = np.asarray(pair.log_mixture(self.v).real)
        self.log_n: Array = np.asarray(pair.log_density(self.v).real) + math.log(self.step)
        self.share: Array = np.exp(math.log(pair.rate) + self.v - self.log_w)
        # what was computed once: bounds ask for the same lines and steps again and again
        self._turned: dict[float, tuple[Array, Array]] = {}
        self._logs: dict[Factor, Array] = {}
        self._turned_logs: dict[tuple[Factor, float], Array] = {}
        self._parts: dict[tuple[Factor, float, float], tuple[Array, Array]] = {}
        self._cells: dict[tuple[Factor, float, float], Array] = {}

    def turned(self, angle: float) -> tuple[Array, Array]:
        """The logarithm of the modulus of w, and its argument, on the line turned by an angle."""
        if angle not in self._turned:
            self._turned[angle] = self.turned_by(angle)
        return self._turned[angle]

    def turned_by(self, angle: float | Array) -> tuple[Array, Array]:
        """`turned`, not remembered; by a column of angles, a row for each."""
        half = np.sin(0.5 * angle) ** 2
        modulus = self.log_w + 0.5 * np.log1p(-4.0 * self.share * (1.0 - self.share) * half)
        return modulus, np.arctan2(self.share * np.sin(angle), 1.0 - 2.0 * self.share * half)

    def logs_of(self, factors: Sequence[Factor]) -> Array:
        """The logarithm of the product of factors on the grid."""
        total = np.zeros_like(self.x)
        for one in factors:
            if one not in self._logs:
                self._logs[one] = one.log(self.x)
            total = total + self._logs[one]
        return total

    def parts_of(self, factor: Factor, angle: float, strip: float = 0.0) -> tuple[Array, Array]:
        """`Factor.parts` on the grid."""
        key = factor, angle, strip
        if key not in self._parts:
            self._parts[key] = factor.parts(self.x, angle, strip)
        return self._parts[key]

    def turned_logs(self, factors: Sequence[Factor], angle: float) -> Array:
        """The logarithms of bounds of the product of factors on the line turned by an angle."""
        total = np.zeros_like(self.x)
        for one in factors:
            if (one, angle) not in self._turned_logs:
                self._turned_logs[one, angle] = np.logaddexp(*self.parts_of(one, angle))
            total = total + self._turned_logs[one, angle]
        return total

    def _cells_of(self, factor: Factor, angle: float, strip: float) -> Array:
        """Upper bounds of the logarithm of a turned factor in every cell of the grid."""
        key = factor, angle, strip
        if key not in self._cells:
            first, second = self.parts_of(*key)
            self._cells[key] = np.logaddexp(_of_cells(first), _of_cells(second) + math.log(2.0))
        return self._cells[key]

    @cached_property
    def _cells_of_density(self) -> Array:
        return _of_cells(self.log_n)

    @cached_property
    def _sizes(self) -> Array:
        """Of what the exponent of a term is made of, without its factors and its power of w."""
        return TERM_ROUNDINGS + np.abs(self.log_n) + np.abs(self.v)

    @cached_property
    def _size_of_log_w(self) -> Array:
        return np.abs(self.log_w)

    def growth(self, angle: float) -> float:
        """By how much the normal density grows on the line turned by an angle, as an exponent."""
        return 0.5 * (angle / self.pair.deviation) ** 2

    def rough(self, powers: Array, factors: Sequence[Factor]) -> Array:
        """About the logarithms of the averages; infinite where the ends of the grid are not negligible."""
        exponents = self.log_n + np.multiply.outer(powers, self.log_w) + self.logs_of(factors)
        ends = np.maximum(exponents[..., 0], exponents[..., -1])
        return np.where(ends < exponents.max(axis=-1) - 40.0, log_sum(exponents), np.inf)

    def mean(self, powers: Array, factors: Sequence[Factor], strip: float) -> Mean:
        """The logarithms of E[w^p times factors] for a row of powers p, by the trapezoid rule; `strip` bounds it."""
        logs = self.logs_of(factors)
        exponents = self.log_n + np.multiply.outer(powers, self.log_w) + logs

        def errors(log: Array) -> tuple[Array, Array]:
            weights = np.exp(exponents - log[:, None])
            units = weights @ (self._sizes + np.abs(logs)) + np.abs(powers) * (weights @ self._size_of_log_w)
            outside = self.outside(exponents[:, BOTH_ENDS], powers, factors)
            moved = math.log(2.0) + self.upper_sums(powers, factors, strip) - self.log_aliases(strip)
            return 4.0 * UNIT_ROUNDOFF * units, np.exp(np.logaddexp(outside, moved) - log)

        return Mean(log_sum(exponents), errors)

    def log_aliases(self, strip: float) -> float:
        """The logarithm of exp(2 pi strip / step) - 1."""
        exponent = 2.0 * math.pi * strip / self.step
        return exponent + math.log(-math.expm1(-exponent))

    def outside(
        self,
        ends: Array,
        powers: Array,
        factors: Sequence[Factor],
        angle: float | Array = 0.0,
        strip: float = 0.0,
        back: float = 0.0,
    ) -> Array:
        """Logarithms of what terms outside of the grid add at most, or integrals there; infinite where unknown.

        `ends` are the exponents of the first and the last term at every power, or of one at every angle, without any
        factor exp(-s arg w); `back` is the s of a factor exp(s arg w). The terms fall on either side by one over the
        deviation of v at least, which is verified.
        """
        pair, x0, x1 = self.pair, float(self.x[0]), float(self.x[-1])
        near, far = np.cos(2.0 * angle) * math.cos(2.0 * strip), np.cos(angle) * math.cos(strip)
        falling: float | Array = 0.0
        is_beyond: bool | NDArray[np.bool_] = True
        for step, rises in factors:
            reach = x1 * near - step.at * far
            is_beyond = is_beyond & (reach >= 0) & (x0 <= step.at)
            falling = falling + (0.0 if rises else x1 * reach / step.width**2)
        variance, positive = pair.deviation**2, np.maximum(powers, 0.0)
        left = (pair.mean - float(self.v[0])) / variance + 1.1 * np.minimum(powers, 0.0) * float(self.share[0])
        # log w rises by its share, which grows no faster than X and is at most one
        small = falling - 1.1 * float(self.share[-1]) * (positive + back * angle)
        right = (
            (float(self.v[-1]) - pair.mean) / variance
            - len(factors)
            + np.where(small >= 0, small, falling - positive - back * angle / 3.0)
        )
        added = len(factors) * math.log(2.0) + math.log(pair.deviation / self.step)
        falls = is_beyond & (np.minimum(left, right) * pair.deviation >= 1)
        return np.where(falls, np.logaddexp(ends[..., 0], ends[..., 1]) + added, math.inf)

    def outside_turned(self, powers: Array, factors: Sequence[Factor], angle: float) -> Array:
        """Logarithms of what terms outside of the grid add at most, on the line turned by an angle, for s >= 0."""
        ends = self.log_n[BOTH_ENDS] + np.multiply.outer(powers, self.turned(angle)[0][BOTH_ENDS]) + self.growth(angle)
        return self.outside(ends + self._at_ends(factors, angle), powers, factors, angle)

    def _at_ends(self, factors: Sequence[Factor], angle: float, strip: float = 0.0) -> Array:
        """The logarithms of bounds of the product of turned factors at both ends of the grid."""
        total = np.zeros(2)
        for one in factors:
            first, second = self.parts_of(one, angle, strip)
            total = total + np.logaddexp(first[BOTH_ENDS], second[BOTH_ENDS])
        return total

    def upper_sum(self, power: float, factors: Sequence[Factor], angle: float, *, strip: float = 0.0) -> float:
        """`upper_sums` at one power, without a factor of s."""
        return float(self.upper_sums(np.array([power]), factors, angle, strip=strip)[0])

    def upper_sums(
        self, powers: Array, factors: Sequence[Factor], angle: float, s: float = 0.0, *, strip: float = 0.0
    ) -> Array:
        """Logarithms of upper bounds of the integrals of the moduli on the line turned by an angle, at every power.

        They hold for every larger s, if s is not negative, and for every smaller one if it is. With a strip, of the
        bound on that line, moved by the strip: then without the factor of s.
        """
        near, far = math.cos(2.0 * angle) * math.cos(2.0 * strip), math.cos(angle) * math.cos(strip)
        if not (near > 0 and math.cos(2.0 * strip) > 0):  # both angles are below a quarter of pi
            return np.full(powers.shape, math.inf)
        modulus, argument = self.turned(angle)
        if strip:  # the modulus is the root of a product
            modulus = 0.5 * (self.turned(angle + strip)[0] + self.turned(abs(angle - strip))[0])
        room = self.growth(angle) + self.growth(strip) + 0.125 * (self.step / self.pair.deviation) ** 2
        largest, still = self._cells_of_density, self.log_n[BOTH_ENDS]
        for one in factors:
            if not (one.step.at * far / one.step.width + 1.0) / near * self.step * math.exp(self.step) <= LARGEST_CELL:
                return np.full(powers.shape, math.inf)
            room += math.log(3.0) if strip else 0.0  # the first is itself the sum of two, of which one peaks
            largest = largest + self._cells_of(one, angle, strip)
        if s:
            largest = largest + _of_cells(-s * argument)
            still = still - min(s, 0.0) * argument[BOTH_ENDS]
        moduli = np.multiply.outer(powers, modulus)
        ends = still + self._at_ends(factors, angle, strip) + moduli[:, BOTH_ENDS]
        outside = self.outside(ends, powers, factors, angle, strip, max(-s, 0.0))
        # and a millionth for the rounding of the exponents, which is far less
        return np.asarray(np.logaddexp(log_sum(largest + _of_cells(moduli)), outside) + room + 1e-6)

    def ceiling(self, power: float, factors: Sequence[Factor], angle: float, s: float, strip: float) -> float:
        """The logarithm of a bound of |E[w^(p + is') times factors]| for every s' >= s, through an angle."""
        modulus, argument = self.turned(angle)
        logs = self.turned_logs(factors, angle)
        still = self.log_n + power * modulus + logs
        exponents = still - s * argument
        log = float(log_sum(exponents))
        moduli = abs(power) * (np.abs(self.log_w) + self.share) + s * argument
        # a share errs by as many units as the logarithms that it is made of are large
        sizes = moduli * (8.0 + np.abs(self.v) + np.abs(self.log_w) - math.log(self.pair.rate))
        sizes += TERM_ROUNDINGS + np.abs(self.log_n) + np.abs(logs)
        error = 4.0 * UNIT_ROUNDOFF * float(np.exp(exponents - log) @ sizes)
        moved = math.log(2.0) + self.upper_sum(power, factors, angle, strip=strip) - self.log_aliases(strip)
        moved -= self.growth(angle)  # which is added to both below
        outside = self.outside(still[None, BOTH_ENDS], np.array([power]), factors, angle)
        found = np.logaddexp(log + math.log1p(error), np.logaddexp(outside, moved))
        return float(found.item()) + self.growth(angle)


def _of_cells(values: Array) -> Array:
    """The largest of neighbouring values."""
    return np.maximum(values[..., :-1], values[..., 1:])
