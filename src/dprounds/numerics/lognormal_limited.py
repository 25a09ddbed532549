r"""Means S of lognormal values that are all below a limit, and of those of which exactly one is above it.

One value may be as large as all others together; then powers of S are hard to know. With A the event that no value is
above the limit, the law of S on A is light-tailed, and a window serves it, though the limit cuts off something that
counts. If exactly one value is above, S is that one and the mean of the others, which are below:

.. math:: E[S^w;\, \text{one above}] = t \int_\ell^\infty \varphi(\xi)\,
          E\Bigl[\bigl(\tfrac1t e^{d\xi - d^2/2} + \tfrac{t-1}t S'\bigr)^w;\, A'\Bigr]\, d\xi .

docs/theory/allocation.md proves the bounds, under the names that stand here: *panels*, *bend*, *one above*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.lognormal_mean import LOG_OF_NOTHING, Means
from dprounds.numerics.lognormal_panels import (
    POINTS,
    WIDEST_ANGLE,
    average_by_panels,
    half_axes,
    log_panel_errors,
    panels,
)
from dprounds.numerics.lognormal_window import (
    FALL,
    LARGEST_ERROR,
    MOST_POWER_IN_SPREADS,
    TERM_UNITS,
    Average,
    LognormalWindow,
    Tilted,
    remembered_tilted,
)
from dprounds.numerics.normal_tails import upper_tail
from dprounds.numerics.quadrature import panel_rule
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["LimitedMean", "OneAbove"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# --- What carries a proof; docs/theory/allocation.md has the propositions.

# Turns of at most half a radian are taken for so many terms of their series: the rest is below 0.5^15 / 15! = 3e-17.
ORDERS = 15
# Sums over cells of masses and of values at their ends are off by less than this part, with all that is rounded.
CELL_ROUNDING = 1e-9

# --- Rounding: counted, with room.

# Units of rounding of a phase, and of a term of the sums over turns.
PHASE_UNITS = 8.0
TURN_UNITS = 16.0

# --- What only tunes speed and tightness.

# A bound with a larger exponent is infinite.
LARGEST_EXPONENT = 700.0
# Tilted laws are made at multiples of this over the deviation of S, and less deep than those of other windows.
SPACING = 0.0625
DEPTH = 0.75
# A large value that is not turned makes their means fall late.
FALLEN = -60.0
# The error of the integral over one value is asked to be below this part, in logarithms.
LOG_ONE_PANELS = -32.0
FIRST_ONE_PANELS = 2
# Cells of a sum from above over values near the limit, and over the one above it.
CELLS = 32
ONE_CELLS = 24
# Values are turned by no more than this, which a test holds below a right angle.
WIDEST_TURN = 1.2
# A line of integration that is moved up comes down over this many deviations before a limit, and goes up beyond it.
BEND = 0.25
# Sums of values without the large ones are above the mean less this many deviations, but for next to nothing.
LEAST_SUM = 15.0
SMALLEST_SUM = 0.3
# Lines are moved up by these parts of what suits a normal law.
MOVED = np.array([1.0, 0.75, 0.5, 0.3, 0.12])
# Powers are bounded by tangents at these parts of about the tilted mean less one, and psi by so many chords.
MIDDLES = np.array([0.6, 1.0, 1.6])
CHORDS = 49
# A power at whose tilt one value at the limit adds this to psi, in logarithms, is the largest that is of use.
LOG_OF_USED = -4.0
# Chernoff's bound is tried at these parts of the way to where it adds this.
LOG_OF_LAST = 16.0
LEAST_ABOVE = 0.05
PARTS_ABOVE = np.array([0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0])
MOST_USED = 10.0
# Terms below this part of the largest are left out where turns are summed; their sizes count as errors.
LOG_LIVE = -38.0
# A kernel is bounded between points so many apart.
STRIDE = 4
MOST_REMEMBERED = 64


@dataclass(frozen=True)
class LimitedMean(LognormalWindow):
    """The same mean of values whose logarithms are all at most `limit` deviations: the others do not count at all."""

    limit: float = math.inf
    depth: ClassVar[float] = DEPTH
    fallen: ClassVar[float] = FALLEN

    @property
    def cut(self) -> float:
        """The bound of a value, in deviations of its logarithm."""
        return self.limit

    def tilt_for(self, power: float, *, is_line: bool = False) -> float:
        """The largest multiple of a spacing that suits a power: near the limit a larger one is far too large."""
        return SPACING * math.floor(power * self.spread / SPACING)

    @property
    def most_power(self) -> float:
        """Up to about this power the mean is of use."""
        return min(MOST_USED / self.spread, self._most_tilt(LOG_OF_USED))

    @property
    def most_tilt_of_bounds(self) -> float:
        """There is no end but that of doubles: values beyond the limit do not count."""
        return math.inf

    def means(self, w: Numbers) -> Means:
        """E[S^w] at a row of powers whose imaginary parts are not negative."""
        return _with_known(self, w, super().means)

    def tilts_above(self, c: float, usual: Array) -> Array:
        """Distances of tilts above c: the usual ones, and such at which values at the limit begin to count."""
        last = self._most_tilt(LOG_OF_LAST)
        most = max(last - c, LEAST_ABOVE * last)
        return np.unique(np.append(usual[usual < most], most * PARTS_ABOVE))

    def average_for(self, tilts: Array, turn: float) -> Average:
        """*Panels*: nodes for E[exp(u (X - 1)/t) - 1 - u (X - 1)/t] below the limit, for tilts up to these."""
        less_one, weights, error = average_by_panels(self.deviation, self.count, self.limit, tilts, turn)
        chance, mean = _tails(self.deviation, self.limit)
        return Average(less_one, weights, np.full(tilts.size, error), (chance, mean - chance))

    def add_edges(self, table: Tilted, angle: Array, fallen: Array) -> Array:
        """*Bend*: psi turned by angles, in logarithms, given what values below the bend have."""
        ends, masses = _cells(self.limit - BEND, self.limit, CELLS)
        value = np.exp(self.deviation * ends - 0.5 * self.deviation**2)
        moved = angle / self.deviation
        near = float(masses @ np.exp((table.c * (value - 1.0) - table._log_at) / self.count))
        near_and_slanted = near * np.hypot(1.0, moved / BEND)
        return 0.5 * self.count * moved**2 + _with(fallen, near_and_slanted, self.count)

    def log_psi_above(self, tilts: Array) -> Array:
        """Upper bounds of the logarithm of E[exp(u (S - 1))] at real tilts, infinity where they are far too large."""
        found = np.full(tilts.shape, math.inf)
        known = np.flatnonzero(tilts <= self._most_tilt(LOG_OF_LAST))
        if known.size:
            u = tilts[known]
            logs, errors = Tilted(self, 0.0)._log_psi(np.asarray(u, dtype=np.complex128), self.average_for(u, 0.0))
            found[known] = logs.real + np.log1p(errors)
        return found

    def log_above(self, powers: Array) -> Array:
        """*Tangent*: upper bounds of the logarithm of E[S^power], at little cost."""
        middle = 1.0 + np.multiply.outer(powers * self.spread**2, MIDDLES)
        tilts = powers[:, None] / middle
        psi = self.log_psi_above(tilts.ravel()).reshape(tilts.shape)
        found = powers[:, None] * np.log(middle) - tilts * (middle - 1.0) + psi
        return np.asarray(found.min(axis=1) + CELL_ROUNDING)

    def log_fall(self, power: float, s: Array) -> Array:
        """Upper bounds of the logarithm of E[S^(power + is)] over E[S^power], from each positive s on."""
        table = remembered_tilted(self, self.tilt_for(power))
        middle = table._middle[0]
        real = table.means(power, np.zeros(1))
        own = float(real.logs[0].real) - 2.0 * float(real.errors[0])
        start = power * math.log(middle) - own

        def bound(angle: Array, moved: Array) -> Array:
            found = self.turned_bound(table, np.array([power / middle]), np.zeros(1), s, angle)[:, 0]
            return np.asarray(start + 0.5 * self.count * moved**2 + found)

        return self.least_fall(s, bound)

    def least_fall(self, s: Array, bound: Callable[[Array, Array], Array]) -> Array:
        """The least bound, over lines that are moved up so that values turn by some angles; it holds from s on."""
        found = np.zeros(s.shape)
        for part in MOVED:
            angle = np.minimum(part * s * self.deviation**2 / self.count, WIDEST_TURN)
            found = np.minimum(found, bound(angle, angle / self.deviation))
        order = np.argsort(s)
        found[order] = np.minimum.accumulate(found[order])
        return found

    @staticmethod
    def least_sum(table: Tilted) -> float:
        """What the mean without values near the limit is above, but for next to nothing."""
        middle, deviation = table._middle
        return max(middle - LEAST_SUM * deviation, SMALLEST_SUM * middle)

    def turned_bound(self, table: Tilted, slope: Array, share: Array, s: Array, angle: Array) -> Array:
        """*Bend*: bounds of E[exp(slope (S - middle)) exp(-s arg)] for every s and slope, in logarithms.

        `share` is what a part that is not turned takes of the angle of the whole.
        """
        n, middle, least = self.count, table._middle[0], self.least_sum(table)
        ends, masses = _cells(self.limit - BEND, self.limit, CELLS)
        value = np.exp(self.deviation * ends - 0.5 * self.deviation**2)
        part = value / n / (value / n + least)
        slanted = np.hypot(1.0, angle / self.deviation / BEND)
        steepest = float(slope.max())
        tilted = steepest * (value - 1.0) / n
        # a bound at a smaller s holds too
        most = max(LARGEST_EXPONENT - 1.0 - float(tilted.max()), 0.0) / float(part.max())
        turned = np.minimum(s * np.sin(angle), most)
        masses = np.maximum(masses, np.finfo(float).tiny)
        near = slanted * (exp_above(tilted + np.multiply.outer(turned, part)) @ masses)
        u, logs = table._chernoff
        known = logs < math.inf
        psi = _chord(slope, u, logs)
        usual = _with(psi, near[:, None], n) - np.multiply.outer(turned, 1.0 - share)
        # where the others are fewer than the least, nothing is known of the angle
        v = np.maximum(slope[:, None] - u[known], 0.0)
        flat = float(slanted.max()) * float(exp_above(tilted) @ masses)
        rare = v * (least - 1.0) + _with(logs[known], flat * exp_above(v / n), n)
        rare = np.where(slope[:, None] >= u[known], rare, math.inf).min(axis=1)
        return np.asarray(np.logaddexp(usual, rare) - slope * (middle - 1.0) + CELL_ROUNDING)


def _chord(at: Array, u: Array, logs: Array) -> Array:
    """A convex function from above, known at increasing u: infinity where it is not."""
    known = logs < math.inf
    return np.asarray(np.interp(at, u[known], logs[known], left=math.inf, right=math.inf))


def _with_known(mean: LimitedMean | OneAbove, w: Numbers, means: Callable[[Numbers], Means]) -> Means:
    """The means at a row of powers, of which real ones are remembered."""
    if w.imag.any() or not w.size:
        return means(w)
    known = _remembered_reals(mean)
    new = np.unique([real for real in w.real.tolist() if real not in known])
    if new.size:
        found = means(np.asarray(new, dtype=np.complex128))
        known.update(zip(new.tolist(), zip(found.logs.tolist(), found.errors.tolist(), strict=True), strict=True))
    logs, errors = zip(*(known[real] for real in w.real.tolist()), strict=True)
    return Means(np.array(logs, dtype=np.complex128), np.array(errors))


@lru_cache(maxsize=MOST_REMEMBERED)
def _remembered_reals(mean: LimitedMean | OneAbove) -> dict[float, tuple[complex, float]]:
    """What is known of real powers, to which more are added."""
    return {}


def _with(log_all: Array, more: Array, n: float) -> Array:
    """The logarithm of the n-th power of what has this n-th power, and more."""
    with np.errstate(invalid="ignore"):  # what is not a number is beyond the doubles
        found = log_all + n * np.log1p(more * exp_above(-log_all / n) * (1.0 + CELL_ROUNDING))
    return np.asarray(np.where(np.isnan(found), math.inf, found))


def exp_above(x: Array) -> Array:
    """The exponential as an upper bound: infinite where it is beyond the doubles."""
    return np.where(x < LARGEST_EXPONENT, np.exp(np.minimum(x, LARGEST_EXPONENT)), math.inf)


def _tails(deviation: float, limit: float) -> tuple[float, float]:
    """The probability of a value above the limit, and its mean there."""
    chance, mean = upper_tail([limit, limit - deviation]).tolist()
    return float(chance), float(mean)


def _cells(low: float, high: float, number: int) -> tuple[Array, Array]:
    """The right ends of equal cells, and upper bounds of their normal masses."""
    edges = np.linspace(low, high, number + 1)
    return edges[1:], -np.diff(upper_tail(edges)) * (1.0 + CELL_ROUNDING)


class _Ones(NamedTuple):
    """The value above the limit: its size over the number of the others, and the logarithms of its weights."""

    value: Array
    log_weights: Array
    log_error: float


@dataclass(frozen=True)
class OneAbove:
    """The mean of `count` lognormal values of which exactly one is above the limit, and that not above the highest."""

    deviation: float
    count: int
    limit: float
    highest: float

    @cached_property
    def others(self) -> LimitedMean:
        """The mean of the others."""
        return LimitedMean(self.deviation, self.count - 1, True, self.limit)

    @property
    def most_power(self) -> float:
        """Up to about this power the mean is of use."""
        return self.others.most_power

    def means(self, w: Numbers) -> Means:
        """E[S^w] at a row of powers whose imaginary parts are not negative."""
        return _with_known(self, w, self._means)

    def _means(self, w: Numbers) -> Means:
        logs, errors = np.zeros(w.size, dtype=np.complex128), np.zeros(w.size)
        for real in np.unique(w.real).tolist():
            here = np.flatnonzero(w.real == real)
            logs[here], errors[here] = self._on_line(real, w.imag[here])
        return Means(logs, errors)

    def log_above(self, powers: Array) -> Array:
        """*Tangent*: upper bounds of the logarithm of E[S^power], at little cost."""
        of = self.others
        x, masses = _cells(self.limit, self.highest, ONE_CELLS)
        value = np.exp(self.deviation * x - 0.5 * self.deviation**2) / of.count
        middle = 1.0 + np.multiply.outer(powers, of.spread**2 / (1.0 + value))
        slope = powers[:, None] / (middle + value)
        tilts = float(slope.max()) * np.linspace(0.0, 1.0, CHORDS) ** 2
        psi = _chord(slope, tilts, of.log_psi_above(tilts))
        logs = np.log(masses) + powers[:, None] * np.log(middle + value) + psi - slope * (middle - 1.0)
        top = logs.max(axis=1)
        found = top + np.log(np.exp(logs - top[:, None]).sum(axis=1)) + powers * math.log(of.count / self.count)
        return np.asarray(found + math.log(self.count) + CELL_ROUNDING)

    def _table(self, power: float) -> Tilted:
        """The law of the others, tilted as suits a power."""
        x, masses = _cells(self.limit, self.highest, ONE_CELLS)
        value = np.exp(self.deviation * x - 0.5 * self.deviation**2) / self.others.count
        logs = np.log(masses) + power * np.log1p(value)
        weights = np.exp(logs - logs.max())
        tilt = power * float(weights @ (1.0 / (1.0 + value))) / float(weights.sum())
        if not tilt * self.others.spread <= MOST_POWER_IN_SPREADS:
            raise NumericalError("A mean of lognormal values is not resolved at such a power.")
        return remembered_tilted(self.others, self.others.tilt_for(tilt))

    def _ones(self, table: Tilted, power: float, s: float) -> _Ones:
        """*One above*: nodes for the one, by panels."""
        d, n, middle, least = self.deviation, self.others.count, table._middle[0], self.others.least_sum(table)
        u, logs = table._chernoff
        chance = float((logs - u * (least - 1.0))[u <= 0].min(initial=0.0))

        def grown(x: Array) -> Array:
            """The power of the mean on the axis, from above."""
            value = np.exp(np.minimum(d * x - 0.5 * d * d, 700.0)) / n
            slope = power / (middle + value)
            psi = _chord(slope, u, logs)
            return np.asarray(power * np.log(middle + value) + psi - slope * (middle - 1.0))

        def log_errors(center: Array, half: Array) -> Array:
            wide, high = half_axes(half)
            last = center[:, None] + wide
            value = np.exp(np.minimum(d * last - 0.5 * d * d, 700.0)) / n
            angle = np.minimum(d * high, 0.5 * math.pi)
            turned = np.minimum(value * np.sin(angle) / (least + value * np.cos(angle)), angle)
            top = np.logaddexp(
                grown(last) + s * turned, np.minimum(chance, 0.0) + power * np.log(least + value) + s * angle
            )
            return log_panel_errors(center, half, np.where(d * high < WIDEST_ANGLE, top, math.inf))

        x, masses = _cells(self.limit, self.highest, ONE_CELLS)
        target = LOG_ONE_PANELS + float((np.log(masses) + grown(x)).max())
        edges, error = panels(self.limit, self.highest, log_errors, target, FIRST_ONE_PANELS)
        x, weights = panel_rule(edges, POINTS)
        value = np.exp(d * x - 0.5 * d * d) / n
        log_weights = np.log(weights) - 0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
        return _Ones(value, log_weights, math.log(error))

    def _on_line(self, power: float, s: Array) -> tuple[ComplexArray, Array]:
        """The logarithms of E[S^(power + is)], and bounds on the errors relative to E[S^power]."""
        table = self._table(power)
        of, c, offsets, middle = self.others, table.c, table._grid[0], table._middle[0]
        masses, mass_error = table._masses
        inside = s <= math.sqrt(-2.0 * of.fallen * of.count) / of.deviation
        most = float(s[inside].max(initial=0.0))
        ones = self._ones(table, power, most)
        at = middle + ones.value
        log_ones = ones.log_weights + power * np.log(at)
        top = float(log_ones.max())
        weights = np.exp(log_ones - top)
        log_ends, tops = self._log_kernel(table, power, at, weights)
        bounds = np.exp(tops) * table._window  # of the kernel at each point
        kernel_sum = float(bounds.sum())
        held = np.flatnonzero(np.abs(masses) * bounds >= (np.abs(masses) * bounds).max() * math.exp(LOG_LIVE))
        missed = float((np.abs(masses) * bounds).sum() - (np.abs(masses) * bounds)[held].sum())
        turns = np.log1p(offsets[held] / at[:, None])  # of what is not the middle
        exponents = power * turns - c * offsets[held]
        terms = np.exp(exponents) * weights[:, None] * (table._window * masses)[held]
        sizes = np.abs(terms)
        live = sizes >= sizes.max() * math.exp(LOG_LIVE)
        missed += float(sizes[~live].sum())
        angles = (np.log(at / middle)[:, None] + turns)[live]
        sums = np.full(s.size, math.exp(LOG_OF_NOTHING), dtype=np.complex128)
        sums[inside] = _turned_sums(terms[live], angles, s[inside])
        real, flat = float(terms[live].sum()), float(sizes.sum())
        ratio = of.count / self.count
        log_whole = math.log(ratio * middle)
        prefactor = table._log_at - c * (middle - 1.0) + top + math.log(self.count) + power * math.log(ratio)
        logs = np.log(sums) + prefactor + 1j * s * log_whole
        # *rounding*: of masses, of terms, exponents and phases, and of the prefactor
        apart = float((sizes * (np.abs(power * turns) + np.abs(c * offsets[held]))).sum())
        apart += float(sizes.sum(axis=1) @ (8.0 + np.abs(log_ones) + abs(top)))
        found = kernel_sum / offsets.size * mass_error
        found += UNIT_ROUNDOFF * ((TERM_UNITS + TURN_UNITS) * flat + 4.0 * apart)
        errors = found + UNIT_ROUNDOFF * PHASE_UNITS * s * float((sizes[live] * np.abs(angles)).sum())
        size = 4.0 + abs(table._log_at) + abs(c * (middle - 1.0)) + abs(top) + (power + s) * abs(log_whole)
        errors += 4.0 * UNIT_ROUNDOFF * size * np.abs(sums)
        missed += self._tails(table, power, ones, weights, kernel_sum) + self._window(table, power, ones, weights)
        missed += table.missed_by_polynomial(power, most, log_ends, tops)
        missed += math.exp(ones.log_error - top - table._log_at + c * (middle - 1.0))  # *one above*
        if not found + missed + 8.0 * UNIT_ROUNDOFF * float(size.max()) * real < LARGEST_ERROR * real:
            raise NumericalError("A mean of lognormal values is not resolved at such a power.")
        errors = (errors + missed) / (real * (1.0 - 2.0 * min(LARGEST_ERROR, 0.25)))
        errors[~inside] = 1.0
        return logs, errors

    def _log_kernel(self, table: Tilted, power: float, at: Array, weights: Array) -> tuple[Array, Array]:
        """The kernel, a sum over the one, in logarithms: at both ends of the interval, and at most around each point.

        Its power rises and its exponential falls, so that some corners are enough.
        """
        corners, c, middle = table.corners, table.c, table._middle[0]
        some = np.append(np.arange(0, corners.size - 1, STRIDE), corners.size - 1)
        x = corners[some] - middle
        rising = np.log(weights @ np.exp(power * np.log1p(x / at[:, None])))
        tops = rising[1:] - c * x[:-1]
        return (rising - c * x)[[0, -1]], np.repeat(tops, np.diff(some))

    def _tails(self, table: Tilted, power: float, ones: _Ones, sizes: Array, kernel_sum: float) -> float:
        """*Tails*: as of the others alone, for each value of the one."""
        low, high = table._inside
        u, logs = table._chernoff
        logs = logs - table._log_at
        middle, c = table._middle[0], table.c
        right = float((logs - (u - c) * (high - 1.0))[u > c].min(initial=math.inf))
        left = float((logs - (u - c) * (low - 1.0))[u < c].min(initial=math.inf))
        found = kernel_sum * (math.exp(right) + math.exp(left))
        slope = power / (middle + ones.value)[:, None]
        far = np.where(u >= slope, logs - (u - slope) * (high - 1.0), math.inf).min(axis=1)
        near = np.where(u <= slope, logs - (u - slope) * (low - 1.0), math.inf).min(axis=1)
        start = (c - slope[:, 0]) * (middle - 1.0)
        tails = exp_above(start + far) + exp_above(start + near)
        return found + float(sizes[sizes > 0] @ tails[sizes > 0])

    def _window(self, table: Tilted, power: float, ones: _Ones, sizes: Array) -> float:
        """*Window*: the kernel times what the window is below one, inside."""
        low, high = table._inside
        middle, c = table._middle[0], table.c
        at = middle + ones.value
        points = np.array([np.full(at.size, low), np.full(at.size, high)])
        if c > 0:
            points = np.append(points, [np.clip(power / c - ones.value, low, high)], axis=0)
        top = np.exp((power * np.log1p((points - middle) / at) - c * (points - middle)).max(axis=0))
        return float(sizes @ top) * math.erfc(FALL)

    def log_fall(self, power: float, s: Array) -> Array:
        """*One above*: upper bounds of the logarithm of E[S^(power + is)] over E[S^power], from each positive s on."""
        table = self._table(power)
        of, middle = self.others, table._middle[0]
        least = of.least_sum(table)
        real = self.means(np.array([power + 0j]))
        own = float(real.logs[0].real) - 2.0 * float(real.errors[0])
        # near both ends the line of the one is on its way up or down, and the one is not turned
        rise = min(BEND, 0.25 * (self.highest - self.limit))
        borders = [self.limit, self.limit + rise, self.highest - rise, self.highest]
        parts = [_cells(low, high, ONE_CELLS) for low, high in pairwise(borders)]
        ends, masses = (np.concatenate(rows) for rows in zip(*parts, strict=True))
        slanted = np.repeat([True, False, True], ONE_CELLS)
        value = np.exp(self.deviation * ends - 0.5 * self.deviation**2) / of.count
        share = np.where(slanted, value / (value + least), 0.0)
        start = math.log(self.count) + power * math.log(of.count / self.count) - own
        logs = np.log(masses) + power * np.log(middle + value)

        def bound(angle: Array, moved: Array) -> Array:
            found = of.turned_bound(table, power / (middle + value), share, s, angle) + logs
            found += np.where(slanted, np.log(np.hypot(1.0, moved / rise))[:, None], 0.0)
            top = found.max(axis=1)
            total = top + np.log(np.exp(found - top[:, None]).sum(axis=1))
            return np.asarray(start + 0.5 * self.count * moved**2 + total)

        return of.least_fall(s, bound)


def _turned_sums(terms: Array, angles: Array, s: Array) -> ComplexArray:
    """Sums of ``terms exp(i s angle)`` for every s: terms of angles that are alike are taken together.

    *Taylor*: they are at most half a turn apart at the largest s, and the series ends with its `ORDERS`-th power.
    """
    most = float(s.max(initial=0.0))
    if not most:
        return np.full(s.size, terms.sum(), dtype=np.complex128)
    low = float(angles.min())
    number = np.rint((angles - low) * most).astype(np.intp)
    away = (angles - low) - number / most
    places = low + np.arange(int(number.max()) + 1) / most
    moments = np.empty((places.size, ORDERS))
    weights = terms
    for order in range(ORDERS):
        moments[:, order] = np.bincount(number, weights, minlength=places.size)
        weights = weights * away / (order + 1.0)
    turned = np.exp(1j * np.multiply.outer(s, places))
    return np.asarray(((turned @ moments) * (1j * s[:, None]) ** np.arange(ORDERS)).sum(axis=1))
