r"""Large powers of a mean S of independent lognormal values of mean one that is close to one.

With :math:`\psi(u) = E[e^{u(S-1)}]`, the t-th power of the average of one value, the law of S tilted by
:math:`e^{c(S-1)}` is a Fourier sum, and :math:`S^w = e^{c(S-1)} k(S)`, :math:`k(x) = x^w e^{-c(x-1)}`. A window w(x) is
one where S is likely and next to zero at the ends of an interval. Times it, k is a trigonometric polynomial there. So

.. math:: E[S^w] \approx \sum_m k(x_m)\, w(x_m)\, f_m, \qquad
          f_m = \frac1M \sum_{|n| \le N} \psi(c + in\Delta)\, e^{-in\Delta(x_m - 1)}, \quad M = 2N + 1 .

For positive powers a value above a bound does not count: `left_out` is the probability, under the law of density S,
that there is one. docs/theory/allocation.md proves the bounds, under the names that stand here: *left out*, *faces*,
*values*, *turned*, *tails*, *window*, *interpolation*, *rounding*.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import Numbers, log1p_at
from dprounds.numerics.lognormal_mean import LOG_FALLEN, LOG_OF_NOTHING, Means
from dprounds.numerics.normal_tails import log_upper_tail, upper_tail
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["Average", "LognormalWindow", "Tilted", "remembered_tilted"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

ROOT_TWO = math.sqrt(2.0)

# --- What carries a proof; docs/theory/allocation.md has the propositions.

# Below this modulus exp(q) - 1 - q is a series of so many further terms: the rest is 2 * 0.25^12 / 14! < 2e-18 of it.
SMALL = 0.25
SERIES = 11

# A mean whose error is a larger part of it is refused.
LARGEST_ERROR = 1e-3

# --- Rounding: counted, with room.

# Units of rounding of one term of a sum, the sum included, of an exponent, and of a Fourier sum for each doubling.
TERM_UNITS = 32.0
EXPONENT_UNITS = 8.0
FOURIER_UNITS = 8.0
# An average of smaller modulus is taken for this: the difference is below its rounding, which is counted.
NO_AVERAGE = 2.0**-52

# --- What only tunes speed and tightness.

# Errors are asked to be below these parts, in logarithms: of values, of tails, at the ends, of high frequencies.
LOG_VALUES = -45.0
LOG_TAILS = -45.0
LOG_ENDS = -45.0
LOG_TURNED = -45.0
# The bound of a value, in deviations: beyond it powers of the mean would be those of one value.
MOST_CUT = 20.0
LOG_CUT = 45.0
LEAST_CUT = 10.4
# What a value at its bound adds to psi may be this large, in logarithms, for a power that is computed, and for a bound.
LOG_OF_LAST = -36.0
LOG_OF_LAST_IN_BOUNDS = 0.0
# Half-heights of the strip in which a value is averaged; the one with the fewest nodes is taken, on the axis the first.
STRIPS = np.array([3.0, 1.5, 0.75, 0.4])
# To bound high frequencies, values are turned by at most so many deviations of their mean.
MOST_TURNED = 10.5
# Values turn by no more than this in a strip: below a right angle.
WIDEST_ANGLE = 1.5
MOST_VALUES = 4096
SIDE_POINTS = 257
# Chernoff's bound is tried with these tilts, in units of one over the deviation of S.
TILTS = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 16.0, 24.0, 40.0])
NEAR_TILTS = 12.0
LEAST_TILTS = 1.5
# The window falls from one to zero over so many times its own scale, which is this part of the deviation of S.
FALL = 6.6
SCALE = 0.75
STEEP_SCALE = 0.5
GROWTH = 0.02
# Its ends are put further out by this until the kernel is small there, up to so many scales.
END_STEP = 0.5
MOST_FALL = 20.0
# The imaginary part of a moved line, in scales of the window; and the height to which its Fourier sum is resolved.
HEIGHT = 6.6
RESOLVED = 13.5
# Powers are computed up to this over the deviation of S.
MOST_POWER_IN_SPREADS = 16.0
# Larger ones than this over it serve no delta above 1e-20.
MOST_USEFUL = 10.0
# Of negative powers this part of the largest one is enough.
PART_OF_NEGATIVE = 0.7
# Of negative powers these are tried for the least one that is known, over the deviation of S.
LEAST_NEGATIVE = (1.0, 1.5, 2.0)
# An average of smaller modulus is raised to this, to bound what its error becomes in its t-th power.
LEAST_AVERAGE = 0.01
# Tilted laws are made at multiples of this over the deviation of S; for lines, of more powers than a few with one real
# part, at closer ones: the further a tilt is from the power, the more the errors of a Fourier sum grow.
SPACING = 1.0
SPACING_OF_LINES = 0.125
FEW_POWERS = 4
# The window must lie this far above zero.
LEAST_X = 0.05
# Chernoff's bound of small S is taken piece by piece; each is further from the middle by this factor.
PIECE = 1.1
MOST_REMEMBERED = 64


class Average(NamedTuple):
    """How one value is averaged: nodes, X - 1 and weights there, and bounds on the errors of the sums.

    Of values that do not count, the probability and the mean of X - 1 are `outside`.
    """

    less_one: Array
    weights: Array
    errors: Array
    outside: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class LognormalWindow:
    """The mean of `count` lognormal values whose logarithm has deviation `deviation`, for powers of one sign.

    If `is_cut`, for positive powers of a mean of values that are all below a bound; else for negative powers.
    """

    deviation: float
    count: float
    is_cut: bool
    # Parts that are left out may be as large as these powers of those that others leave out.
    depth: ClassVar[float] = 1.0
    # Means are computed up to where that of a normal law has fallen by this, in logarithms.
    fallen: ClassVar[float] = LOG_FALLEN

    @cached_property
    def cut(self) -> float:
        """The bound of a value, in deviations of its logarithm."""
        steep = 1.0 / self.deviation
        best = min(steep + math.sqrt(steep * steep + 2.0 * LOG_CUT), MOST_CUT)
        return max(best, LEAST_CUT + self.deviation)

    @cached_property
    def _largest(self) -> float:
        """The bound of a value, rounded up."""
        return math.exp(min(self.deviation * self.cut - 0.5 * self.deviation**2, 700.0)) * (1.0 + 1e-12)

    @property
    def left_out(self) -> float:
        """*Left out*: at least the probability under P that a value is above its bound."""
        return _chance_of_large_value(self.count, self.deviation, self.cut)

    @cached_property
    def spread(self) -> float:
        """The deviation of S."""
        return math.sqrt(math.expm1(min(self.deviation**2, 700.0)) / self.count)

    @property
    def most_power(self) -> float:
        """Up to about this power the mean is known well."""
        most = MOST_USEFUL / self.spread
        if not self.is_cut:
            return most
        return min(
            most, self._most_tilt(LOG_OF_LAST), self._most_tilt(LOG_OF_LAST_IN_BOUNDS) - LEAST_TILTS / self.spread
        )

    def _most_tilt(self, log_of_last: float) -> float:
        """The largest tilt at which all values at their bound add so little to psi."""
        room = 0.5 * self.cut**2 + log_of_last - math.log(self.count)
        return max(room, 0.0) * self.count / (self._largest - 1.0)

    def means(self, w: Numbers) -> Means:
        """E[S^w] at a row of powers whose imaginary parts are not negative."""
        logs, errors = np.zeros(w.size, dtype=np.complex128), np.zeros(w.size)
        for real in np.unique(w.real).tolist():
            here = np.flatnonzero(w.real == real)
            if not abs(real) * self.spread <= MOST_POWER_IN_SPREADS:
                raise NumericalError("A mean of lognormal values is not resolved at such a power.")
            tilt = self.tilt_for(abs(real), is_line=here.size > FEW_POWERS)
            logs[here], errors[here] = remembered_tilted(self, tilt).means(real, w.imag[here])
        return Means(logs, errors)

    def tilt_for(self, power: float, *, is_line: bool = False) -> float:
        """A multiple of a spacing, in units of one over the deviation of S, that suits a power."""
        spacing = SPACING_OF_LINES if is_line else SPACING
        return spacing * round(power * self.spread / spacing)

    @property
    def is_resolved(self) -> bool:
        """Whether the mean is known at the largest power, or at all negative ones that are of use."""
        if self.is_cut:
            return self._is_known(self.most_power)
        return self.least_in_spreads < math.inf and self._is_known(-PART_OF_NEGATIVE * self.most_power)

    @cached_property
    def least_in_spreads(self) -> float:
        """The least of some negative powers that are known, over the deviation of S; inf if none of them is.

        Large values are taken away by a large tilt alone.
        """
        return next((least for least in LEAST_NEGATIVE if self._is_known(-least / self.spread)), math.inf)

    def _is_known(self, power: float) -> bool:
        try:
            self.means(np.array([power], dtype=np.complex128))
        except (NumericalError, ArithmeticError):
            return False
        return True

    def log_fall(self, power: float, s: Array) -> Array:
        """Upper bounds of the logarithm of E[S^(power + is)] over E[S^power], for positive s."""
        fall: Array = -0.5 * (self.deviation * s) ** 2 / self.count * (1.0 - 8.0 * UNIT_ROUNDOFF)
        if not self.is_cut:
            return fall
        table = remembered_tilted(self, self.tilt_for(abs(power)))
        return np.logaddexp(fall, table.log_face(power) + math.log(2.0 / self.deviation) - np.log(s))

    @property
    def most_tilt_of_bounds(self) -> float:
        """Chernoff's bound is tried up to this tilt."""
        return self._most_tilt(LOG_OF_LAST_IN_BOUNDS)

    def tilts_above(self, c: float, usual: Array) -> Array:
        """Distances of tilts above c at which Chernoff's bound is tried, given those below it."""
        return usual

    def add_edges(self, table: Tilted, angle: Array, fallen: Array) -> Array:
        """*Turned*: psi turned by angles, in logarithms, given how much it falls at the turned tilt; with faces."""
        found: Array = 0.5 * self.count * (angle / self.deviation) ** 2 + fallen
        if not self.is_cut:
            return found
        own = table.c * (self._largest - 1.0) / self.count - table._log_at / self.count + 0.01
        face = math.log(self.count) - 0.5 * self.cut**2 - 0.5 * math.log(2.0 * math.pi) + own
        return np.logaddexp(found, face + np.log(np.maximum(angle / self.deviation, 1e-300)))

    def average_for(self, tilts: Array, turn: float) -> Average:
        """*Values*: nodes for E[exp(u (X - 1)/t) - 1 - u (X - 1)/t], Re u one of the tilts and |Im u| up to `turn`.

        On a rectangle of half-height a around the interval up to the cut, the rule errs by what the integrand is on its
        sides: along those, divided by exp(2 pi a / distance) - 1, and across.
        """
        d, t, cut = self.deviation, self.count, self.cut
        wanted = LOG_VALUES - math.log(t)
        strips = np.minimum(STRIPS if turn else STRIPS[:1], WIDEST_ANGLE / d).tolist()
        found = [(self._log_sides(tilts, turn, strip), strip) for strip in strips]
        distance, sides, strip = max(
            ((2.0 * math.pi * strip / (float(sides[1].max()) - wanted), sides, strip) for sides, strip in found),
            key=lambda one: one[0],
        )
        number = 2 * math.ceil(min(cut / distance, MOST_VALUES))
        tails = upper_tail([cut, cut - d])
        # what lies beyond the cut of 1 + q, and below it of all of the integrand, is left out
        left_out = 3.0 * (tails[0] + (np.abs(tilts) + turn) / t * (tails[1] + tails[0]))
        # below the cut exp(q) grows if the tilt is negative, by 1 - X <= 1 and 1 - X <= -d x + d^2 / 2
        pull = np.maximum(-tilts, 0.0) / t
        moved = 0.5 * pull * d * (pull * d + d) + log_upper_tail(cut - pull * d)
        left_out += np.exp(np.minimum(np.minimum(moved, pull + math.log(tails[0])), 700.0))
        if not number <= MOST_VALUES:
            raise NumericalError("A mean of lognormal values is not resolved at such a power.")
        distance = 2.0 * cut / number
        x: Array = distance * (np.arange(number, dtype=np.float64) - 0.5 * (number - 1))
        turns = 2.0 * math.pi * strip / distance
        errors = np.exp(np.minimum(sides[0], 700.0)) + np.exp(sides[1] - turns - math.log(-math.expm1(-turns)))
        weights = distance / math.sqrt(2.0 * math.pi) * np.exp(-0.5 * x * x)
        return Average(np.expm1(d * x - 0.5 * d * d), weights, errors + left_out)

    def _log_sides(self, tilts: Array, turn: float, strip: float) -> tuple[Array, Array]:
        """The logarithms of what the sides of a rectangle contribute: those across, and those along before the rule.

        At the height y the real part of q = u (X - 1)/t is at most X (tilt cos(d y) + turn d y)/t - tilt/t, which is
        convex in y, and exp(q) - 1 - q has at most the modulus exp(Re q) + 1 + |q|.
        """
        d, t, cut = self.deviation, self.count, self.cut
        x = np.linspace(-cut, cut, SIDE_POINTS)
        angle = d * strip
        steep = (np.maximum(tilts, tilts * math.cos(angle)) + turn * angle) / t
        size = (np.abs(tilts) + turn) / t
        value = np.exp(d * x - 0.5 * d * d)
        grown = np.logaddexp(
            np.multiply.outer(steep, value) - tilts[:, None] / t, np.log1p(np.multiply.outer(size, value + 1.0))
        )
        between = 0.5 * (x[1] - x[0]) * (cut + d + np.abs(steep) * d * self._largest)
        top = (grown - 0.5 * x * x).max(axis=1) + between + 0.5 * strip * strip - 0.5 * math.log(2.0 * math.pi)
        # across, the integrand over what the rule divides it by is largest on the axis or at a corner
        ends = np.array([math.exp(-d * cut - 0.5 * d * d), self._largest])
        pull = np.multiply.outer(tilts / t, ends - 1.0).max(axis=1)
        last = np.logaddexp(pull, np.log1p(size * (self._largest + 1.0)))
        return last - 0.5 * cut * cut + math.log(4.0 * strip), top + math.log(4.0 * cut + 4.0 * strip)


@dataclass(frozen=True)
class Tilted:
    """The law of the mean, tilted by exp(c (S - 1)): masses on a grid, with bounds on their errors."""

    of: LognormalWindow
    c: float

    @cached_property
    def _middle(self) -> tuple[float, float]:
        """About the mean and the deviation of S under the tilted law."""
        x = np.linspace(-self.of.cut, self.of.cut, 257)
        d = self.of.deviation
        value = np.exp(d * x - 0.5 * d * d)
        logs = self.c * (value - 1.0) / self.of.count - 0.5 * x * x
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        mean = float(weights @ value)
        return mean, math.sqrt(float(weights @ (value - mean) ** 2) / self.of.count)

    def _log_psi(self, u: ComplexArray, average: Average) -> tuple[ComplexArray, Array]:
        """The logarithm of psi, and bounds on its errors: those of what it is the logarithm of, relative to it."""
        t = self.of.count
        q = np.multiply.outer(u / t, average.less_one)
        rest = _exponential_rest(q)
        mean = rest @ average.weights - average.outside[0] - u / t * average.outside[1]
        mean = np.where(np.abs(1.0 + mean) < NO_AVERAGE, NO_AVERAGE - 1.0, mean)
        square = np.abs(q) ** 2 * np.exp(np.maximum(q.real, 0.0))
        rounding = TERM_UNITS * UNIT_ROUNDOFF * (square @ average.weights)
        logs: ComplexArray = t * np.asarray(log1p_at(mean), dtype=np.complex128)
        size = np.maximum(np.abs(1.0 + mean), LEAST_AVERAGE)
        # a smaller average than the least one is raised to it in the bound, and its power with it
        raised = t * np.log(size) - logs.real
        with np.errstate(over="ignore"):
            errors = np.expm1(np.minimum(t * (average.errors + rounding) / size, 700.0)) * np.exp(
                np.minimum(raised, 700.0)
            )
        return logs, errors + EXPONENT_UNITS * UNIT_ROUNDOFF * (1.0 + np.abs(logs))

    @cached_property
    def _chernoff(self) -> tuple[Array, Array]:
        """Real tilts around c, and upper bounds of the logarithm of psi there."""
        below = TILTS / self._middle[1]
        u = np.concatenate([self.c - below[::-1], [self.c], self.c + self.of.tilts_above(self.c, below)])
        found = np.full(u.size, math.inf)
        known = np.flatnonzero(u <= max(self.of.most_tilt_of_bounds, self.c))
        near = known[np.abs(u[known] - self.c) <= NEAR_TILTS / self._middle[1]]
        for part in (near, np.setdiff1d(known, near)):
            if part.size:
                with suppress(NumericalError):  # fewer tilts, then
                    logs, errors = self._log_psi(u[part] + 0j, self.of.average_for(u[part], 0.0))
                    found[part] = logs.real + np.log1p(errors)
        if not found[TILTS.size] < math.inf:
            raise NumericalError("A mean of lognormal values is not resolved at such a power.")
        return u, found

    @cached_property
    def _log_at(self) -> float:
        """The logarithm of psi(c), from above."""
        return float(self._chernoff[1][TILTS.size])

    @cached_property
    def _inside(self) -> tuple[float, float]:
        """The interval outside of which the tilted law has next to nothing."""
        u, logs = self._chernoff
        gap = (logs - self._log_at - self.of.depth * LOG_TAILS) / np.where(u == self.c, 1.0, u - self.c)
        low = 1.0 + float(gap[: TILTS.size].max(initial=-math.inf))
        high = 1.0 + float(gap[TILTS.size + 1 :].min(initial=math.inf))
        if not high - low < math.inf:
            raise NumericalError("A mean of lognormal values is too wide for a window.")
        return low, high

    @cached_property
    def _scale(self) -> float:
        """That of the window: it falls faster where the kernel of a negative power grows."""
        spread = self._middle[1]
        return (SCALE if self.of.is_cut or -self.c * spread**2 < GROWTH else STEEP_SCALE) * spread

    @cached_property
    def _edges(self) -> tuple[float, float]:
        """Where the window has fallen to a half."""
        low, high = self._inside
        return low - FALL * self._scale, high + FALL * self._scale

    def _log_kernel(self, power: float, x: Array) -> Array:
        """The logarithm of (x / middle)^power exp(-c (x - middle))."""
        middle = self._middle[0]
        return power * np.log1p((x - middle) / middle) - self.c * (x - middle)

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The interval on which masses are made."""
        scale, edges = self._scale, self._edges
        power = self.c * self._middle[0] - (0.0 if self.of.is_cut else 0.5 * SPACING / self.of.spread)
        found = []
        for edge, side in zip(edges, (-1.0, 1.0), strict=True):
            fall = FALL
            while fall < MOST_FALL:
                x = edge + side * fall * scale
                if not x > LEAST_X:
                    raise NumericalError("A mean of lognormal values is too wide for a window.")
                if float(self._log_kernel(power, np.array([x]))[0]) - fall * fall <= self.of.depth * LOG_ENDS:
                    break
                fall += END_STEP
            found.append(x)
        return found[0], found[1]

    @cached_property
    def _grid(self) -> tuple[Array, float]:
        """Points in the middle of equal intervals, an odd number of them, from the middle of the law; their distance.

        They are told from there, so that a law that is narrow around one keeps its digits.
        """
        low, high = self._ends
        highest = math.sqrt(-2.0 * self.of.fallen * self.of.count) / self.of.deviation / low + RESOLVED / self._scale
        number = _odd_and_smooth(math.ceil((high - low) * highest / math.pi))
        distance = (high - low) / number
        return np.asarray((low - self._middle[0]) + distance * (np.arange(number) + 0.5), dtype=np.float64), distance

    @cached_property
    def _window(self) -> Array:
        x = self._middle[0] + self._grid[0]
        return self._half(x, 0) * self._half(x, 1)

    def _half(self, x: Array, side: int) -> Array:
        """How the window rises on the left, and falls on the right."""
        edge = self._edges[side]
        away = (x - edge) / self._scale if side else (edge - x) / self._scale
        return np.asarray(upper_tail(ROOT_TWO * away), dtype=np.float64)

    @cached_property
    def _masses(self) -> tuple[Array, float]:
        """The masses f_m, over psi(c), and the sum over all frequencies of bounds on the errors of psi."""
        offsets, distance = self._grid
        half = (offsets.size - 1) // 2
        turn = 2.0 * math.pi / (distance * offsets.size)
        frequencies = turn * np.arange(half + 1, dtype=np.float64)
        bounds = self._log_turned(frequencies)
        taken = frequencies[: int(np.flatnonzero(bounds > self.of.depth * LOG_TURNED)[-1]) + 1]
        average = self.of.average_for(np.array([self.c]), float(taken[-1]))
        logs, errors = self._log_psi(np.asarray(self.c + 1j * taken, dtype=np.complex128), average)
        phases = taken * ((self._middle[0] - 1.0) + float(offsets[0]))
        values = np.zeros(half + 1, dtype=np.complex128)
        values[: taken.size] = np.exp(logs - self._log_at - 1j * phases)
        size = np.abs(values)
        turned = np.abs(phases) + 2.0 * math.pi * np.arange(taken.size)
        units = UNIT_ROUNDOFF * (4.0 * turned + FOURIER_UNITS * math.log2(offsets.size))
        error = self._sum_of_errors(size[: taken.size], errors + units, bounds)
        return np.asarray(np.fft.irfft(np.conj(values), offsets.size), dtype=np.float64), error

    @staticmethod
    def _sum_of_errors(sizes: Array, errors: Array, bounds: Array) -> float:
        """Over all frequencies, both signs: relative errors where psi is computed, and else the bound on it."""
        return 2.0 * (float(sizes @ errors) + float(np.exp(bounds[sizes.size :]).sum()))

    def _log_turned(self, v: Array) -> Array:
        """*Turned*: upper bounds of the logarithm of psi(c + iv) over psi(c), by values that are turned by an angle.

        The logarithm of psi is convex, and below its chords. If values have a bound, its faces are added.
        """
        of, (u, logs) = self.of, self._chernoff
        if not of.is_cut:  # tilts above zero tell of values below their bound alone
            u, logs = np.append(u[u < 0], 0.0), np.append(logs[u < 0], 0.0)
        known = logs < math.inf
        step = of.deviation / math.sqrt(of.count)
        angle = np.minimum(np.minimum(v * self._middle[0] * step, MOST_TURNED) * step, WIDEST_ANGLE)
        moved = np.maximum(self.c, self.c * np.cos(angle)) - v * np.sin(angle)
        chords = np.interp(moved, u[known], (logs + u)[known], left=math.inf, right=math.inf)
        found = of.add_edges(self, angle, chords - (self._log_at + self.c))
        # the faces are bounded so where the rest falls below what it is on the axis
        return np.where(found < 0.0, found, 0.0)

    def means(self, power: float, s: Array) -> Means:
        """E[S^(power + is)], and bounds on the errors relative to E[S^power]."""
        of, (offsets, _), middle = self.of, self._grid, self._middle[0]
        masses, error = self._masses
        logs_of_x = np.log1p(offsets / middle)
        exponents = power * logs_of_x - self.c * offsets
        terms = masses * self._window * np.exp(exponents)
        sizes = np.abs(terms)
        highest = math.sqrt(-2.0 * of.fallen * of.count) / of.deviation
        inside = s <= highest
        sums = np.full(s.size, math.exp(LOG_OF_NOTHING), dtype=np.complex128)
        sums[inside] = np.exp(1j * np.multiply.outer(s[inside], logs_of_x)) @ terms
        real = float(terms.sum())
        log_middle = math.log(middle)
        prefactor = self._log_at - self.c * (middle - 1.0) + power * log_middle
        logs = np.log(sums) + prefactor + 1j * s * log_middle
        # *rounding*: of the masses, which are Fourier sums, of exponents and phases, and of the prefactor
        kernel = float(np.abs(self._window * np.exp(exponents)).sum()) / offsets.size
        apart = float(sizes @ (np.abs(power * logs_of_x) + np.abs(self.c * offsets)))
        phases = float(sizes @ np.abs(logs_of_x))
        found = kernel * error + UNIT_ROUNDOFF * (TERM_UNITS * float(sizes.sum()) + 4.0 * apart)
        errors = found + UNIT_ROUNDOFF * 4.0 * s * phases
        size = 4.0 + abs(self._log_at) + abs(self.c * (middle - 1.0)) + (abs(power) + s) * abs(log_middle)
        errors += 4.0 * UNIT_ROUNDOFF * size * np.abs(sums)
        missed = self._tails(power, kernel * offsets.size) + self._missing_of_window(power)
        missed += self._interpolation(power, float(s[inside].max(initial=0.0)))
        at_real = found + missed + 8.0 * UNIT_ROUNDOFF * float(size.max()) * real
        if not at_real < LARGEST_ERROR * real:
            raise NumericalError("A mean of lognormal values is not resolved at such a power.")
        errors = (errors + missed) / (real * (1.0 - 2.0 * min(LARGEST_ERROR, 0.25)))
        beyond = s[~inside]
        if beyond.size:
            errors[~inside] = np.exp(of.log_fall(power, beyond)) + 2.0 * math.exp(LOG_OF_NOTHING) / real
        return Means(logs, errors)

    def _tails(self, power: float, kernel_sum: float) -> float:
        """*Tails*: what S^power, and the polynomial that stands for it, have outside of the interval."""
        low, high = self._inside
        u, logs = self._chernoff
        logs = logs - self._log_at
        middle = self._middle[0]
        above, below = u > self.c, u < self.c
        # of exp(c (S - 1)) itself, times at most the sum of the kernel
        right = float((logs - (u - self.c) * (high - 1.0))[above].min(initial=math.inf))
        left = float((logs - (u - self.c) * (low - 1.0))[below].min(initial=math.inf))
        beyond = 0.0
        if not self.of.is_cut:  # then tilts above zero tell of values below their bound alone
            tail = float(log_upper_tail(self.of.cut)) + math.log(self.of.count)
            right = self._log_right(high)
            beyond = math.exp(min(tail - self._log_at + max(self.c * (high - 1.0), power * math.log(high)), 700.0))
        found = kernel_sum * (math.exp(right) + math.exp(left) + beyond)
        # of S^power, relative to what was taken out of the kernel
        out = self.c * (middle - 1.0) - power * math.log(middle)
        if power >= 0:  # it is at most its tangent at the middle, in logarithms
            slope = power / middle
            start = out + power * math.log(middle) - power + slope
            far = float((logs - (u - slope) * (high - 1.0))[u >= slope].min(initial=math.inf))
            near = float((logs - (u - slope) * (low - 1.0))[u <= slope].min(initial=math.inf))
            found += math.exp(start + far) + math.exp(start + near)
        else:
            found += math.exp(out + power * math.log(high) + self._log_right(high) - self.c * (high - 1.0))
            found += math.exp(out) * (beyond + self._small(power, low))
        return found

    def _missing_of_window(self, power: float) -> float:
        """*Window*: the kernel times what the window is below one, inside."""
        low, high = self._inside
        points = [low, high]
        if power > 0 and self.c > 0:  # the logarithm of the kernel is concave, with its peak there; else it is convex
            points.append(min(max(power / self.c, low), high))
        top = float(np.exp(self._log_kernel(power, np.array(points))).max())
        return top * math.erfc(FALL)

    def _log_right(self, high: float) -> float:
        """E[exp(c (S - 1)); S > high] over psi(c), for c at most zero, while all values are below their bound."""
        u, logs = self._chernoff
        chance = (logs - u * (high - 1.0))[u >= 0].min(initial=0.0)
        return float(chance) - self._log_at + self.c * (high - 1.0)

    def _small(self, power: float, low: float) -> float:
        """E[S^power; S < low] over psi(c), for a negative power: piece by piece, and last by the geometric mean."""
        of = self.of
        u, logs = self._chernoff
        negative = u < 0
        least = 0.5 * math.exp(-0.5 * of.deviation**2)
        gaps = (1.0 - low) * PIECE ** np.arange(math.ceil(math.log(1.0 / (1.0 - low)) / math.log(PIECE)) + 1)
        points = np.append(np.maximum(1.0 - gaps, least)[1.0 - gaps > least], least)
        if low <= least:
            points = np.array([low, low])
        chance = (logs[negative] - np.multiply.outer(points[:-1] - 1.0, u[negative])).min(axis=1)
        pieces = float(np.exp(np.minimum(power * np.log(points[1:]) + chance - self._log_at, 700.0)).sum())
        root, p = math.sqrt(of.count), -power
        edge = min(least, low)
        log_mean = 0.5 * p * of.deviation**2 + 0.5 * (p * of.deviation) ** 2 / of.count
        at = (math.log(edge) + 0.5 * of.deviation**2) * root / of.deviation + p * of.deviation / root
        last = log_mean + float(log_upper_tail(-at)) - self._log_at
        return pieces + math.exp(min(last, 700.0))

    @property
    def corners(self) -> Array:
        """The ends of the parts of the interval in whose middles the points are."""
        (x, distance), first = self._grid, self._ends[0]
        return np.asarray(first + distance * np.arange(x.size + 1, dtype=np.float64))

    def _interpolation(self, power: float, s: float) -> float:
        """*Interpolation*: by how much the trigonometric polynomial misses the kernel times the window, inside."""
        corners = self.corners
        logs = self._log_kernel(power, corners)
        tops = np.maximum(logs[:-1], logs[1:])
        if power > 0 and self.c > 0:
            peak = power / self.c
            here = (corners[:-1] <= peak) & (peak <= corners[1:])
            tops = np.where(here, self._log_kernel(power, np.array([peak])), tops)
        return self.missed_by_polynomial(power, s, self._log_kernel(power, np.array(self._ends)), tops)

    def missed_by_polynomial(self, power: float, s: float, log_ends: Array, tops: Array) -> float:
        """*Interpolation*, given the logarithms of the kernel at both ends, and the largest ones between corners."""
        x, distance = self._grid
        (low, high), (first, last) = self._inside, self._ends
        scale, corners = self._scale, self.corners
        y = HEIGHT * scale
        turn = 2.0 * math.pi / (last - first)
        # on the moved line: the modulus, its turn and the window, each where it is largest in an interval
        growth = 0.5 * max(power, 0.0) * np.log1p((y / corners[:-1]) ** 2) + s * np.arctan(y / corners[:-1])
        lift = (y / scale) ** 2
        moved = np.zeros(x.size)
        for side in (0, 1):
            half = self._half(corners, side)
            # off the axis at most exp(lift) of itself, and at most one plus exp(lift) times what is missing to one
            with np.errstate(divide="ignore"):
                of_itself = lift + np.log(np.maximum(half[:-1], half[1:]))
            of_missing = np.log1p(math.exp(lift) * (1.0 - np.minimum(half[:-1], half[1:])))
            moved += np.minimum(of_itself, of_missing)
        along = float((tops + growth + moved).max())
        rate = math.pi / distance
        of_sides = along - rate * y - math.log(-0.5 * math.expm1(-2.0 * rate * y)) + math.log(last - first)
        of_sides += math.log(0.5 * turn / math.sinh(0.5 * turn * y))
        ends = np.array([first, last])
        log_ends = log_ends + np.log(self._half(ends, 0)) + np.log(self._half(ends, 1))
        # what a side across has off the axis is a convex function of the height, and largest at one of its ends
        risen = lift + 0.5 * max(power, 0.0) * (y / first) ** 2 + s * y / first - rate * y
        inner = min(math.sin(0.5 * turn * (low - first)), math.sin(0.5 * turn * (last - high)))
        of_ends = np.log(4.0 * y) + max(risen, 0.0) + log_ends + math.log(0.5 * turn / inner)
        total = 2.0 * math.exp(min(of_sides, 700.0)) + float(np.exp(np.minimum(of_ends, 700.0)).sum())
        return total / (2.0 * math.pi)

    def log_face(self, power: float) -> float:
        """*Faces*: the logarithm of the sum over all values of E[S^power; one is at its bound], over E[S^power]."""
        of, middle = self.of, self._middle[0]
        slope = power / middle
        average = of.average_for(np.array([slope]), 0.0)
        log_psi, error = self._log_psi(np.array([slope + 0j]), average)
        log_density = -0.5 * of.cut**2 - 0.5 * math.log(2.0 * math.pi) + math.log(of.count)
        start = power * math.log(middle) - power + slope + float(log_psi[0].real + np.log1p(error[0]))
        own = slope * (of._largest - 1.0) / of.count - float(log_psi[0].real) / of.count
        real = self.means(power, np.zeros(1))
        return log_density + start + own - float(real.logs[0].real) + 2.0 * float(real.errors[0]) + 0.01


def _chance_of_large_value(count: float, deviation: float, cut: float) -> float:
    """At least the probability that one of the values is above the cut, under the law of density S.

    All but one have the law of X, and that one the law tilted by X itself.
    """
    tails = upper_tail([cut, cut - deviation])
    return float((count - 1) * tails[0] + tails[1]) * (1.0 + 1e-9)


def _exponential_rest(q: ComplexArray) -> ComplexArray:
    """exp(q) - 1 - q, to its own size."""
    is_small = np.abs(q) < SMALL
    found = np.exp(q) - 1.0 - q
    near = q[is_small]
    series = np.full(near.shape, 1.0 / math.factorial(SERIES + 2) + 0j)
    for n in range(SERIES + 1, 1, -1):
        series *= near
        series += 1.0 / math.factorial(n)
    found[is_small] = near * near * series
    return found


def _odd_and_smooth(least: int) -> int:
    """The first odd number from there on that is a product of 3, 5 and 7: a Fourier sum of it is fast."""
    number = least | 1
    while True:
        rest = number
        for prime in (3, 5, 7):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return number
        number += 2


@lru_cache(maxsize=MOST_REMEMBERED)
def remembered_tilted(of: LognormalWindow, tilt: float) -> Tilted:
    """The law tilted by this over the deviation of S, towards larger values for positive powers."""
    return Tilted(of, tilt / of.spread if of.is_cut else -tilt / of.spread)
