r"""The exact accountant of short runs: the loss on a lattice, tilted, and composed by the fast Fourier transform.

Where the moment function hardly falls along a line, `contour` has nothing to sum. There one round's loss is put on the
multiples of a step h, once from above and once from below (`cells`); the lattice laws are tilted to the saddle point,

.. math:: \delta(\varepsilon) = e^{K(t)} \sum_k v_k\, e^{-t x_k} (1 - e^{\varepsilon - x_k})_+ , \qquad
          \hat v = \prod_j \hat u_j^{T_j}, \quad u_j = w_j e^{t x} / M_j(t),

and every error is added on the side that stays true: *aliases*, *beyond*, *transform*, *rounding*;
docs/theory/accounting.md proves them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.cells import CellsOf, LatticeLaw, lower_law, upper_law
from dprounds.accounting.contour import Bracket
from dprounds.accounting.line import log_zeta
from dprounds.accounting.sketch import Sketch
from dprounds.errors import NumericalError
from dprounds.numerics.quadrature import short_binary_below
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["Part", "lattice_delta", "lattice_deltas", "lattice_epsilon"]

Array = NDArray[np.float64]

# Points of the window, and of one round's law. A transform of so many takes some 20 ms.
MOST_POINTS = 2**18
# Fewer points than this are no faster.
LEAST_POINTS = 2**12
# Spreading raises epsilon by about (t + 1) T h^2 / 12 and merging lowers it by half of that: the step makes this part
# of epsilon, or of 1/t where epsilon is less than that.
PRECISION = 1e-5
# Where the points do not suffice for this part, the bracket would be of no use.
LEAST_PRECISION = 1e-2
# Each transform of N points errs by at most this times log2 N in the Euclidean norm, relative to it: [Hig02, Theorem
# 24.2] has 6.7 units for exact twiddle factors rounded once; real transforms add one pass.
TRANSFORM_ERROR = 16.0 * UNIT_ROUNDOFF
# The step, relative to epsilon and the deviation of the loss together.
RESOLUTION = 0.01
# An epsilon is found to this part of itself.
HAIR = 1e-8
# The window begins this part of epsilon, or 1/t, below the epsilon that it is made for.
MARGIN = 0.05
# The precision of lattices that look where epsilon is; their number, which one or two of them need.
COARSE = 1e-3
MOST_GUESSES = 30
MOST_STEPS = 60
# A lattice made for one epsilon serves for others as long as what bounds its errors is less than this part of delta.
NEGLIGIBLE = 1e-6


class Part(NamedTuple):
    """One mechanism in one direction, by its cells, and how often it is released."""

    cells_of: CellsOf
    rounds: int


@dataclass(frozen=True)
class _Grid:
    """Step and window of a lattice, and the tilt."""

    step: float
    ends: tuple[tuple[int, int], ...]
    bottom: int
    size: int
    t: float
    sides: Array


class Value(NamedTuple):
    """A sum, its slope in epsilon, what may be missing from it, and what may be too much in it."""

    value: float
    slope: float
    missing: float
    surplus: float


@dataclass(frozen=True)
class _Sum:
    """The composition of lattice laws, tilted by t, on a window, with what bounds its errors."""

    grid: _Grid
    laws: tuple[LatticeLaw, ...]
    rounds: tuple[int, ...]

    @cached_property
    def total(self) -> float:
        return float(sum(self.rounds))

    @cached_property
    def log_moments(self) -> Array:
        """K of the lattice at t and at the sides, which bound what is outside of the window."""
        at = np.append(self.grid.t, self.grid.sides)
        return sum((n * _log_moment(law, self.grid.step, at) for law, n in self._pairs), start=np.zeros(at.size))

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

    @cached_property
    def tilted(self) -> tuple[Array, float]:
        """The masses v of the window, and a bound on the Euclidean norm of their error by transforms and powers."""
        grid = self.grid
        spectrum = np.ones(grid.size // 2 + 1, dtype=np.complex128)
        largest = 0.0
        for law, n in zip(self.laws, self.rounds, strict=True):
            masses = np.zeros(grid.size)
            weights = _weights(law, grid.step, grid.t)
            weights /= weights.sum()
            number = np.arange(law.first, law.first + weights.size) % grid.size
            if weights.size <= grid.size:
                masses[number] = weights
            else:
                masses = np.asarray(np.bincount(number, weights=weights, minlength=grid.size), dtype=np.float64)
            largest = max(largest, float(np.linalg.norm(masses)))
            with np.errstate(under="ignore"):
                spectrum *= _power(np.fft.rfft(masses), n)
        v = np.roll(np.fft.irfft(spectrum, grid.size), -(grid.bottom % grid.size))
        # No value of a spectrum exceeds one but by rounding, so an error of one factor passes to the product at most
        # as it is, once for each round; a complex product adds less than three units.
        unit = TRANSFORM_ERROR * math.log2(grid.size) + 4.0 * UNIT_ROUNDOFF
        return v, 1.1 * unit * (self.total + len(self.laws) + 1.0) * largest

    @cached_property
    def points(self) -> Array:
        shift = sum(law.shift * n for law, n in self._pairs)
        return self.grid.step * np.arange(self.grid.bottom, self.grid.bottom + self.grid.size, dtype=np.float64) + shift

    def _aliases(self, epsilon: float) -> float:
        """What wraps around into the sum: exp(-t k period) delta(epsilon - k period) over all k but 0, from above."""
        t, period = self.grid.t, self.grid.step * self.grid.size
        r, k = np.append(0.0, self.grid.sides), np.append(0.0, self.log_moments[1:])  # delta is at most one: r = 0
        exponents = k + log_zeta(r) - r * epsilon - np.abs(r - t) * period + 1e-9 + 4.0 * self.rounding
        series = np.minimum(exponents, 700.0) - np.log(-np.expm1(-np.abs(r - t) * period))
        return math.exp(min(float(series[r < t].min()), 700.0)) + math.exp(min(float(series[r > t].min()), 700.0))

    @cached_property
    def beyond(self) -> float:
        """The probability of a sum above the window, by Chernoff's bound."""
        r, k = np.append(self.grid.t, self.grid.sides), self.log_moments
        exponent = float(np.min((k - r * float(self.points[-1]))[r > 0]))
        return math.exp(min(exponent + 1e-9 + 4.0 * self.rounding, 0.0))

    @cached_property
    def _kernels(self) -> tuple[Array, Array]:
        """exp(-t d) and exp(-d) at the distances d of the points from the first one."""
        distance = self.points - self.points[0]
        return np.exp(-self.grid.t * distance), np.exp(-distance)

    def at(self, epsilon: float) -> Value:
        """The sum at `epsilon`, its slope, and what bounds its errors. An epsilon below the window misses all."""
        v, error = self.tilted
        t, points, bottom = self.grid.t, self.points, float(self.points[0])
        first = int(np.searchsorted(points, epsilon))
        near, decline = (kernel[first:] for kernel in self._kernels)
        kernel = near * (1.0 - math.exp(min(epsilon - bottom, 700.0)) * decline)
        scale = math.exp(min(self.log_moments[0] - t * bottom, 700.0))
        masses = v[first:]
        value = scale * float(masses @ kernel)
        held = float(np.abs(masses) @ near)
        # near - kernel is what of the mass lies under Q
        slope = value - scale * float(masses @ near)
        # Fewer than 200 units of rounding for a term and the sum, and units of the exponents.
        exponent = abs(self.log_moments[0]) + (t + 1.0) * (abs(epsilon) + float(np.abs(points[[0, -1]]).max()))
        relative = self.rounding + UNIT_ROUNDOFF * (400.0 + 8.0 * exponent)
        noise = scale * error * float(np.linalg.norm(kernel)) * (1.0 + relative)
        # the difference in the kernel is rounded relative to one, all else relative to the kernel
        noise += (
            relative * scale * float(np.abs(masses) @ kernel) + UNIT_ROUNDOFF * (8.0 + 8.0 * exponent) * scale * held
        )
        infinite = sum(law.infinite * n for law, n in self._pairs) * (1.0 + 1e-9)
        missing = noise + self.beyond + infinite if first > 0 else math.inf
        return Value(value, slope, missing, noise + self._aliases(epsilon))

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

    def _hair(self, epsilon: float) -> float:
        """What the points and their distances to epsilon are rounded by."""
        return 4.0 * UNIT_ROUNDOFF * (abs(epsilon) + float(np.abs(self.points[[0, -1]]).max()))


def _weights(law: LatticeLaw, step: float, t: float, shift: float | None = None) -> Array:
    """Tilted masses, scaled so that none overflows."""
    exponents = t * step * np.arange(law.first, law.first + law.masses.size, dtype=np.float64)
    with np.errstate(divide="ignore"):
        top = float(np.max(np.log(law.masses) + exponents)) if shift is None else shift
    return law.masses * np.exp(np.minimum(exponents - top, 700.0))


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


def _power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """By repeated squaring, which rounds as much as so many products would."""
    result: NDArray[np.complex128] | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return np.ones_like(base) if result is None else result


def _grid(sketch: Sketch, epsilon: float, log_delta: float, precision: float) -> _Grid:
    """A lattice for epsilons around this one; proves nothing."""
    plan = sketch.plan(epsilon, log_delta)
    t = plan.t
    wanted = 12.0 * precision * max(epsilon, 1.0 / t) / ((t + 1.0) * sketch.total)
    # near 0 the body of the law counts, which a step must resolve whatever the tail needs
    finest = min(math.sqrt(wanted), RESOLUTION * math.hypot(epsilon, sketch.deviation))
    bottom = max(epsilon - max(MARGIN * epsilon, 1.0 / t), 0.0)
    widest = max(epsilon - bottom + plan.period, *(high - low for low, high in plan.ends))
    if not (0 < widest < math.inf and wanted > 0):
        raise NumericalError("The loss of this run spans no window that a lattice could cover.")
    step = short_binary_below(min(max(finest, widest / MOST_POINTS), widest / LEAST_POINTS))
    if step * step > wanted * LEAST_PRECISION / PRECISION:
        raise NumericalError("No lattice of affordable size resolves the loss of this run.")
    size = 2 ** math.ceil(math.log2((epsilon - bottom + plan.period) / step + 8.0))
    counted = tuple((math.floor(low / step), math.ceil(high / step)) for low, high in plan.ends)
    return _Grid(step, counted, math.floor(bottom / step) - 4, size, t, plan.sides)


def _sum(parts: Sequence[Part], grid: _Grid, law: Callable[[CellsOf, float, int, int], LatticeLaw]) -> _Sum:
    laws = tuple(
        law(part.cells_of, grid.step, first, last) for part, (first, last) in zip(parts, grid.ends, strict=True)
    )
    if not all(np.isfinite(one.masses).all() and one.masses.any() for one in laws):
        raise NumericalError("The masses of a round's loss are beyond the range of doubles.")
    return _Sum(grid, laws, tuple(part.rounds for part in parts))


def _checked(value: float) -> float:
    if not math.isfinite(value):
        raise NumericalError("The sum over the lattice is not a number.")
    return value


def _sketch(parts: Sequence[Part]) -> Sketch:
    return Sketch([part.cells_of for part in parts], [part.rounds for part in parts])


def _estimate(parts: Sequence[Part], sketch: Sketch, epsilon: float) -> float:
    """The logarithm of delta at `epsilon` by a coarse lattice, within a few percent; proves nothing."""
    log_delta = sketch.log_delta(epsilon)
    for _ in range(2):
        value, *_ = _sum(parts, _grid(sketch, epsilon, log_delta, COARSE), upper_law).at(epsilon)
        if not value > 0:
            break
        moved, log_delta = abs(math.log(value) - log_delta), math.log(value)
        if moved < 1.0:
            break
    return log_delta


def _guess(parts: Sequence[Part], sketch: Sketch, delta: float) -> float:
    """About the epsilon at `delta`, by coarse lattices; 0 if delta is met there. Proves nothing."""
    epsilon = sketch.epsilon(math.log(delta))
    if not epsilon > 0 or _estimate(parts, sketch, 0.0) <= math.log(delta):
        return 0.0
    low, high = 0.0, math.inf
    for _ in range(MOST_GUESSES):
        made = _sum(parts, _grid(sketch, epsilon, math.log(delta), COARSE), upper_law)
        value, slope, _, _ = made.at(epsilon)
        excess = math.log(value) - math.log(delta) if value > 0 else -math.inf
        low, high = (epsilon, high) if excess > 0 else (low, epsilon)
        following = epsilon - excess * value / slope if value > 0 and slope < 0 else 0.5 * (low + high)
        if not low < following < high:
            following = 0.5 * (low + high) if high < math.inf else 2.0 * epsilon
        moved, epsilon = abs(following - epsilon), following
        if moved <= 0.2 * max(MARGIN * epsilon, 1.0 / made.grid.t):
            break
    return epsilon


def lattice_delta(parts: Sequence[Part], *, epsilon: float) -> Bracket:
    """Delta at `epsilon`, from below and from above.

    Guarantee
    ---------
    Raises `NumericalError`, or returns bounds with the exact delta of these parts between them, if their cells keep
    to the errors that they state.
    """
    sketch = _sketch(parts)
    grid = _grid(sketch, epsilon, _estimate(parts, sketch, epsilon), PRECISION)
    return _consistent(
        _sum(parts, grid, lower_law).lower(epsilon), _checked(_sum(parts, grid, upper_law).upper(epsilon))
    )


def lattice_deltas(parts: Sequence[Part], *, epsilons: Array) -> Array:
    """Delta at every epsilon of a row, from above. A lattice serves for all around it."""
    sketch = _sketch(parts)
    found = np.zeros(epsilons.size)
    pending = np.argsort(epsilons)
    while pending.size:
        middle = float(epsilons[pending[pending.size // 2]])
        made = _sum(parts, _grid(sketch, middle, _estimate(parts, sketch, middle), PRECISION), upper_law)
        left = []
        for i in pending.tolist():
            value, _, missing, _ = made.at(made.lowered(float(epsilons[i])))
            if missing <= NEGLIGIBLE * value or epsilons[i] == middle:
                found[i] = min(_checked(value + missing), 1.0)
            else:
                left.append(i)
        pending = np.array(left, dtype=np.intp)
    return found


def lattice_epsilon(parts: Sequence[Part], *, delta: float, known: float = 0.0, most: float = math.inf) -> Bracket:
    """Epsilon at `delta`, from below and from above, at most `most`; (0, `known`) if it is proven to be at most that.

    Guarantee
    ---------
    As for `lattice_delta`: at the upper one the upper bound of delta was computed and is at most `delta`, or it is the
    largest loss `most`; at the lower one the lower bound is at least `delta`.
    """
    if 0 < most <= known:
        return Bracket(0.0, known)
    sketch = _sketch(parts)
    if known > 0:
        grid = _grid(sketch, known, _estimate(parts, sketch, known), COARSE)
        if _checked(_sum(parts, grid, upper_law).upper(known)) <= delta:
            return Bracket(0.0, known)
    epsilon = _guess(parts, sketch, delta)
    if epsilon == 0:
        found = lattice_delta(parts, epsilon=0.0)
        if found.upper <= delta:
            return Bracket(0.0, 0.0)
    grid = _grid(sketch, epsilon, math.log(delta), PRECISION)
    upper = _met(_sum(parts, grid, upper_law), delta, epsilon)
    lower = _not_met(_sum(parts, grid, lower_law), delta, upper)
    return _consistent(lower, min(upper, most))


def _consistent(lower: float, upper: float) -> Bracket:
    lower, upper = float(lower), float(upper)
    if not lower <= upper:
        raise NumericalError("The bounds of the lattice contradict each other.")
    return Bracket(lower, upper)


def _met(made: _Sum, delta: float, guess: float) -> float:
    """About the least epsilon at which the upper bound is at most `delta`, which was computed."""
    epsilon, low, high = guess, 0.0, math.inf
    for _ in range(MOST_STEPS):
        found = made.at(made.lowered(epsilon))
        upper = _checked(min(found.value + found.missing, 1.0))
        low, high = (low, epsilon) if upper <= delta else (epsilon, high)
        moved = _newton(found.value + found.missing, found.slope, delta)
        if upper <= delta and abs(moved) <= HAIR * epsilon:
            break
        following = epsilon + moved + 0.5 * HAIR * epsilon
        if not low < following < high:
            following = 0.5 * (low + high) if high < math.inf else max(2.0 * low, 1.0 / made.grid.t)
        if following in (low, high):
            break
        epsilon = following
    if high == math.inf:
        raise NumericalError("No epsilon was proven near the one that was sought.")
    return high


def _not_met(made: _Sum, delta: float, guess: float) -> float:
    """About the greatest epsilon at which the lower bound is at least `delta`, which was computed; 0 if none is."""
    epsilon, low, high = guess, 0.0, math.inf
    for _ in range(MOST_STEPS):
        found = made.at(made.raised(epsilon))
        lower = found.value - found.surplus
        low, high = (epsilon, high) if lower >= delta else (low, epsilon)
        moved = _newton(lower, found.slope, delta)
        if lower >= delta and abs(moved) <= HAIR * epsilon:
            break
        following = epsilon + moved - 0.5 * HAIR * epsilon
        if not low < following < high:
            following = 0.5 * (low + high)
        if following in (low, high) or high == math.inf or following < made.points[0]:
            break
        epsilon = following
    return low


def _newton(value: float, slope: float, delta: float) -> float:
    """How far from here the logarithm of delta, along its tangent, passes that of `delta`; NaN where it has none."""
    if not (0 < value < math.inf and -math.inf < slope < 0):
        return math.nan
    return (math.log(value) - math.log(delta)) * value / -slope
