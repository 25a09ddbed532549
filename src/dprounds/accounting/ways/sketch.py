"""Which lattice suits the loss of a run at one epsilon, by a rough picture of the loss: a thousand atoms.

It proves nothing: every line bounds its own errors, and a lattice that suits its epsilon has small ones.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.cells import SPARSE, CellsOf, shift_through
from dprounds.accounting.kernel import log_zeta
from dprounds.accounting.lattice import LatticePlan, fast_length
from dprounds.accounting.law import Composition
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.ways.place import saddle_at_epsilon, search_saddle
from dprounds.errors import NumericalError
from dprounds.numerics.quadrature import short_binary_below

__all__ = ["COARSE", "PRECISE", "Sketch", "likely_saddle"]

Array = NDArray[np.float64]

# All of these tune speed and tightness.
# Laws whose picture is remembered, 50 kB each.
MOST_PICTURES = 64
# Spreading raises epsilon by about (t + 1) T h^2 / 12 and merging lowers it by half of that: the step makes this part
# of epsilon, or of 1/t where epsilon is less than that. The coarse one is for lattices that only estimate epsilon.
PRECISE = 1e-7
COARSE = 1e-3
# Where the points do not suffice for this part, the bracket would be of no use.
LEAST_PRECISION = 1e-2
# The step, relative to epsilon and the deviation of the loss together.
RESOLUTION = 0.003
# Points of a period, and of one round's law. A transform of the most takes some 10 ms; one of fewer than the least is
# no faster.
MOST_POINTS = 2**18
LEAST_POINTS = 2**13
# Where few frequencies count no array is as long as the period, and a step for this part costs little. One round's law
# has few points, which take some ms, unless the other precision needs more.
PRECISION_OF_FEW = 1e-8
FEW_CELLS = 2**12
MOST_CELLS = 2**15
# A coarse transform of all frequencies resolves a round's law that has as many points.
LEAST_POINTS_OF_LAW = 512
# The part of what spreading costs that sparse points may add to it.
SPARSE_COST = 0.1
# Lattices that may cost no more than this part of epsilon have no sparse points.
SPARSE_FROM = 2e-6
# Points of one round's law that are never exceeded.
LARGEST_LAW = 2**20
# Frequencies, and their products with points.
MOST_FREQUENCIES = 2**8
MOST_PRODUCTS = 2**19
# Frequencies, relative to the one at which the spectrum seems to end: its bounds fall later, by a factor of pi/2 at
# most where it is the one of a Gaussian.
BEYOND_CUTOFF = 1.5
# Points of a period that is never an array.
LONGEST = 2**40
# Losses from far below what rounds could add up to a nat, to more than anyone would accept, 6 % apart.
MAGNITUDES = np.geomspace(1e-14, 1e4, 700)
EDGES = np.concatenate([-MAGNITUDES[::-1], MAGNITUDES])
# Atoms closer to 0 than this part of the root mean square are as good as one: they differ by 1e-6 of the variance.
SMALL = 1e-3
# What one round's law may hold above its last point, which counts as infinite loss, relative to delta; and, tilted,
# below its first one, where it is raised.
LOG_CUT = math.log(1e-8)
# Where K is tried, relative to the tilt.
FACTORS_ABOVE = np.array([1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0, 6.0, 15.0, 50.0])
FACTORS_BELOW = np.array([0.95, 0.9, 0.8, 0.65, 0.5, 0.25, 0.1])
SIDES = np.concatenate([FACTORS_BELOW, FACTORS_ABOVE])
# A tilt below the saddle point has larger summands but aliases that fall faster; three of sixteen digits are spared.
TILTS = np.array([1.0, 0.85, 0.7, 0.55, 0.4])
LOG_LARGEST_SUMMAND = 7.0
# A tilt within this many deviations of the saddle point is as good as the saddle point.
CLOSE_ENOUGH = 0.1
# Frequencies at which |M| along the line is tried, relative to one over the deviation. A Gaussian spectrum is below
# exp(-46), one part in 1e20, from 9.6 on.
FREQUENCIES = np.geomspace(9.6, 96.0, 16)
LOG_REST = -46.0


class _Extent(NamedTuple):
    """A tilt, the ends of each part's losses, the period of the sum, and points at which K bounds its aliases.

    From the frequency `cutoff` on the spectrum of the sum seems to be negligible; it is infinite where none does.
    """

    t: float
    ends: list[tuple[float, float]]
    period: float
    sides: Array
    cutoff: float


@lru_cache(maxsize=MOST_PICTURES)
def _pictured(cells_of: CellsOf) -> tuple[Array, Array, tuple[Array, Array]]:
    """Masses and losses of the cells of a law, which neighbouring questions ask for again; and those that count."""
    found = cells_of(EDGES)
    held = (found.p > 0) & (found.q > 0)
    if not held.any():
        raise NumericalError("The losses of this run are too far apart for an exact sum in doubles.")
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.where(held, np.log(found.p) - np.log(found.q), 0.0)
    # the masses of the narrowest cells are differences that have lost their digits
    losses = np.clip(losses, np.append(-np.inf, EDGES), np.append(EDGES, np.inf))
    return np.where(held, found.p, 0.0), losses, _merged(found.p[held], losses[held])


class Sketch:
    """The parts of a run, each by atoms at the mean of its cells."""

    def __init__(self, law: Composition) -> None:
        self.rounds = [float(n) for _, n in law.parts]
        self.total = sum(self.rounds)
        self.pairs = [part.atoms for part, _ in law.parts]
        self.p: list[Array] = []
        self.losses: list[Array] = []
        self.atoms: list[tuple[Array, Array]] = []
        self.start = 1.0
        for cells_of in _cells_of(law):
            p, losses, atoms = _pictured(cells_of)
            self.p.append(p)
            self.losses.append(losses)
            self.atoms.append(atoms)

    @property
    def deviation(self) -> float:
        """About the standard deviation of the sum of all losses."""
        spread = ((p * (x - (p * x).sum()) ** 2).sum() for p, x in self.atoms)
        return math.sqrt(float(sum(n * one for n, one in zip(self.rounds, spread, strict=True))))

    def log_moment(self, t: Array, ends: list[tuple[float, float]]) -> Array:
        """About K at a row of points, of the losses up to the ends alone."""
        found = np.zeros(t.shape)
        for (p, losses), n, (_, high) in zip(self.atoms, self.rounds, ends, strict=True):
            held = int(np.searchsorted(losses, high, side="right"))
            if not held:
                raise NumericalError("The losses of this run are too far apart for an exact sum in doubles.")
            found += n * _log_mean(p[:held], np.multiply.outer(t, losses[:held]))
        return found

    def expand(self, t: float) -> Saddle:
        """K, its slope and its curvature at t."""
        value, slope, curvature = 0.0, 0.0, 0.0
        for (p, losses), n in zip(self.atoms, self.rounds, strict=True):
            weights = _tilted(p, losses, t)
            mean = float((weights * losses).sum())
            value += n * float(_log_mean(p, t * losses[None, :])[0])
            slope += n * mean
            curvature += n * float((weights * (losses - mean) ** 2).sum())
        return Saddle(t, value, slope, curvature)

    def epsilon(self, log_delta: float) -> float:
        """Epsilon at a delta by Laplace's method, which may be off by a factor where the tail is heavy."""
        # d log_delta(epsilon(t)) / dt = -t / width^2, up to the derivative of the width
        found = search_saddle(
            self.expand,
            lambda here: (here.log_delta(here.epsilon) - log_delta) * here.width**2 / here.t,
            start=self.start,
            close=CLOSE_ENOUGH,
        )
        self.start = found.t
        return found.epsilon

    def saddle(self, epsilon: float) -> Saddle:
        """The saddle point for `epsilon`, by the derivatives of the atoms' own K.

        Where a rare large loss takes over from the many small ones, K bends within a small part of t, too fast for
        differences.
        """
        found = search_saddle(
            self.expand, lambda here: (epsilon - here.epsilon) * here.width**2, start=self.start, close=CLOSE_ENOUGH
        )
        self.start = found.t
        return found

    def plans(self, epsilon: float, log_delta: float, precision: float) -> list[LatticePlan]:
        """Lattices for epsilons near this one, the cheaper one first; the last one serves whatever the spectrum."""
        extent = self._extent(epsilon, log_delta)
        t = extent.t
        widest = max(high - low for low, high in extent.ends)
        # the square of a step at which spreading costs all of epsilon
        square = 12.0 * max(epsilon, 1.0 / t) / ((t + 1.0) * self.total)
        if not (0 < max(extent.period, widest) < math.inf and square > 0):
            raise NumericalError("The losses of this run are too far apart for an exact sum in doubles.")
        # near 0 the body of the law counts, which a step must resolve whatever the tail needs
        resolution = RESOLUTION * math.hypot(epsilon, self.deviation)
        length = max(extent.period, widest)
        finest = min(math.sqrt(square * precision), resolution)
        step = short_binary_below(min(max(finest, length / MOST_POINTS), length / LEAST_POINTS))
        is_fine = step * step <= square * precision * LEAST_PRECISION / PRECISE
        found = []
        # else a coarse transform of all frequencies is the cheaper one
        if precision < COARSE or not is_fine or widest < LEAST_POINTS_OF_LAW * step:
            few = self._few(extent, square, resolution, widest, precision if precision < COARSE else PRECISE)
            found = [] if few is None else [few]
        if is_fine:
            found.append(self._plan(extent, step, 0, is_sparse=precision > SPARSE_FROM))
        elif not found:
            raise NumericalError("The exact sum of this run needs more memory than is allowed.")
        return found

    def _few(
        self, extent: _Extent, square: float, resolution: float, widest: float, precision: float
    ) -> LatticePlan | None:
        """A lattice for which a few frequencies are likely to be enough, if there is one."""
        frequencies = BEYOND_CUTOFF * extent.cutoff * extent.period / (2.0 * math.pi) + 1.0
        if not frequencies < MOST_FREQUENCIES:
            return None
        # as fine as is cheap; or else as need be; or else finer than the period of a transform would be
        cells = [min(most, MOST_PRODUCTS / frequencies) / len(self.rounds) for most in (FEW_CELLS, MOST_CELLS)]
        needed = math.sqrt(square * precision)
        step = max(math.sqrt(square * PRECISION_OF_FEW), widest / cells[0])
        if step > needed:
            step = max(needed, widest / cells[1])
        step = short_binary_below(max(min(step, resolution), extent.period / LONGEST))
        points = math.ceil(extent.period / step)
        if step > max(needed, extent.period / MOST_POINTS) or widest > 1.1 * step * cells[1]:
            return None
        return self._plan(extent, step, math.ceil(frequencies)) if 4.0 * frequencies < points else None

    def _plan(self, extent: _Extent, step: float, frequencies: int, *, is_sparse: bool = False) -> LatticePlan:
        """The lattice of about this step, laid through the atoms of the first part that has any."""
        pair = next((pair for pair in self.pairs if pair is not None and pair[1] - pair[0] >= step), None)
        if pair is not None:
            step = (pair[1] - pair[0]) / math.ceil((pair[1] - pair[0]) / step)
        atoms = tuple(one if pair is not None and one == pair else None for one in self.pairs)
        shifts = [0.0 if one is None else shift_through(one[0], step) for one in atoms]
        ends = tuple(
            (math.floor((low - shift) / step), math.ceil((high - shift) / step))
            for (low, high), shift in zip(extent.ends, shifts, strict=True)
        )
        if not max(last - first for first, last in ends) <= LARGEST_LAW:
            raise NumericalError("The losses of this run are too far apart for an exact sum in doubles.")
        points = math.ceil(extent.period / step) + 8 if frequencies else fast_length(extent.period / step + 8.0)
        knees = tuple(self._knee(part, step) if is_sparse and one is None else None for part, one in enumerate(atoms))
        return LatticePlan(step, ends, points, extent.t, extent.sides, frequencies, atoms, knees)

    def _knee(self, part: int, step: float) -> int | None:
        """The number of the point beyond which there is so little, tilted, that sparse points hardly cost more."""
        p, losses = self.atoms[part]
        beyond = np.cumsum(_tilted(p, losses, self.start)[::-1])[::-1]
        few = np.flatnonzero(beyond <= SPARSE_COST / SPARSE**2)
        return math.ceil(losses[few[0]] / step) if few.size else None

    def _extent(self, epsilon: float, log_delta: float) -> _Extent:
        """The tilt whose period is the shortest, of those at which the summands are not much larger than delta."""
        saddle = self.saddle(epsilon).t
        ends = self._ends(saddle, log_delta)
        tilts = TILTS * saddle
        k = self.log_moment(np.append(tilts, np.outer(tilts, SIDES).ravel()), ends)
        at_tilts, at_sides = k[: tilts.size], k[tilts.size :].reshape(tilts.size, SIDES.size)
        sizes = at_tilts - tilts * epsilon + log_zeta(tilts) - log_delta
        usable = (tilts == saddle) | (sizes < LOG_LARGEST_SUMMAND)
        tilts = tilts[usable]
        periods, chosen = _periods(tilts, epsilon, log_delta, at_sides[usable])
        best = int(np.argmin(periods))
        t = float(tilts[best])
        return _Extent(t, ends, float(periods[best]), chosen[best][chosen[best] > 0], self._cutoff(t, ends))

    def _cutoff(self, t: float, ends: list[tuple[float, float]]) -> float:
        """About where the spectrum of the tilted sum becomes negligible; infinite where it is not seen to."""
        laws = []
        variance = 0.0
        for (p, losses), n, (_, high) in zip(self.atoms, self.rounds, ends, strict=True):
            held = int(np.searchsorted(losses, high, side="right"))
            weights = _tilted(p[:held], losses[:held], t)
            mean = float((weights * losses[:held]).sum())
            variance += n * float((weights * (losses[:held] - mean) ** 2).sum())
            laws.append((weights, losses[:held] - mean, n))
        if not 0 < variance < math.inf:
            return math.inf
        frequencies = FREQUENCIES / math.sqrt(variance)
        found = np.zeros(frequencies.size)
        for weights, losses, n in laws:
            modulus = np.abs((weights * np.exp(1j * np.multiply.outer(frequencies, losses))).sum(axis=1))
            found += n * np.log(np.clip(modulus, 1e-300, 1.0))
        small = np.maximum.accumulate(found[::-1])[::-1] <= LOG_REST
        return float(frequencies[int(np.argmax(small))]) if small.any() else math.inf

    def _ends(self, t: float, log_delta: float) -> list[tuple[float, float]]:
        """For each part, the ends between which nearly all of its losses are."""
        found = []
        for p, losses, n in zip(self.p, self.losses, self.rounds, strict=True):
            with np.errstate(divide="ignore"):
                above = np.log(np.append(np.cumsum(p[::-1])[::-1][1:], 0.0))  # beyond each edge
                below = np.log(np.append(0.0, np.cumsum(p)[:-1]))
                log_p = np.log(p)
            cut = log_delta + LOG_CUT - math.log(n * len(self.p))
            high = EDGES[min(int(np.argmax(above[:-1] <= cut)), EDGES.size - 1)]
            weights = log_p + t * losses
            scale = float(weights.max())
            low_enough = below[1:] + t * EDGES - scale <= LOG_CUT - math.log(n * len(self.p))
            low = EDGES[int(np.flatnonzero(low_enough)[-1])] if low_enough.any() else EDGES[0]
            found.append((float(min(low, high)), float(high)))
        return found


def _merged(p: Array, losses: Array) -> tuple[Array, Array]:
    """Atoms, of which those with the smallest losses are merged into one."""
    small = np.abs(losses) < SMALL * math.sqrt(float((p * losses * losses).sum()))
    if np.count_nonzero(small) < 2:
        return p, losses
    first, last = int(np.argmax(small)), small.size - int(np.argmax(small[::-1]))
    mass = float(p[first:last].sum())
    mean = float((p * losses)[first:last].sum()) / mass
    return (
        np.concatenate([p[:first], [mass], p[last:]]),
        np.concatenate([losses[:first], [mean], losses[last:]]),
    )


def _log_mean(p: Array, exponents: Array) -> Array:
    """The logarithm of the mean of exp, for each row of exponents; to its own precision where all are small."""
    top = exponents.max(axis=1)
    if float(np.abs(exponents).max()) < 30.0:
        return np.asarray(np.log1p((np.expm1(exponents) * p).sum(axis=1)))
    with np.errstate(over="ignore"):
        small = np.log1p((np.expm1(np.minimum(exponents, 30.0)) * p).sum(axis=1))
    large = top + np.log((np.exp(exponents - top[:, None]) * p).sum(axis=1))
    return np.asarray(np.where(np.abs(exponents).max(axis=1) < 30.0, small, large), dtype=np.float64)


def _tilted(p: Array, losses: Array, t: float) -> Array:
    """Masses tilted by t, of sum one."""
    exponents = t * losses + np.log(p)
    with np.errstate(under="ignore"):
        weights = np.exp(exponents - exponents.max())
    return np.asarray(weights / weights.sum())


def _cells_of(law: Composition) -> list[CellsOf]:
    """The cells of every part."""
    cells = [part.cells for part, _ in law.parts if part.cells is not None]
    if len(cells) < len(law.parts):
        raise NumericalError("No exact sum is known for so few rounds of this run.")
    return cells


def _periods(tilts: Array, epsilon: float, log_delta: float, k: Array) -> tuple[Array, Array]:
    """For each tilt the least period of the sum at which aliases are negligible, and the points at which K shows that.

    `k` has a row for each tilt, at its multiples `SIDES`. One point is below the tilt, 0 if none is better, and one
    above it.
    """
    column = tilts[:, None]
    sides = column * np.append(0.0, SIDES)
    excess = np.hstack([np.zeros_like(column), k + log_zeta(sides[:, 1:]) - sides[:, 1:] * epsilon])
    aliases = (excess - log_delta - LOG_CUT) / np.abs(sides - column)
    first = 1 + FACTORS_BELOW.size
    found = np.stack([aliases[:, :first].argmin(axis=1), first + aliases[:, first:].argmin(axis=1)], axis=1)
    least = np.take_along_axis(aliases, found, axis=1).max(axis=1)
    return np.maximum(least, 1.0 / tilts), np.take_along_axis(sides, found, axis=1)


def likely_saddle(law: Composition, epsilon: float) -> Saddle:
    """The saddle point of a law, or, where it has no line, of its sketch, which takes less time than K."""
    return saddle_at_epsilon(law, epsilon) if law.most_nodes or not law.has_cells else Sketch(law).saddle(epsilon)
