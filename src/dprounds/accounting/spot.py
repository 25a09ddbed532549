"""Where a lattice is put for one epsilon: its step, its window and its tilt, by a sketch of the loss.

Nothing here needs to be right: every sum bounds its own errors, and a lattice that suits its epsilon has small ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dprounds.accounting.cells import CellsOf, LatticeLaw
from dprounds.accounting.lattice_sum import Grid, LatticeSum, fast_length
from dprounds.accounting.low_frequencies import LowFrequencies
from dprounds.accounting.sketch import Sketch
from dprounds.accounting.transformed_sum import TransformedSum
from dprounds.errors import NumericalError
from dprounds.numerics.quadrature import short_binary_below

__all__ = ["COARSE", "PRECISION", "Part", "Spot"]

MakeLaw = Callable[[CellsOf, float, int, int], LatticeLaw]

# Spreading raises epsilon by about (t + 1) T h^2 / 12 and merging lowers it by half of that: the step makes this part
# of epsilon, or of 1/t where epsilon is less than that.
PRECISION = 5e-6
# The same for lattices that look where epsilon is, if a precise one would have more points than that.
COARSE = 1e-3
FEW_POINTS = 2**14
# Where the points do not suffice for this part, the bracket would be of no use.
LEAST_PRECISION = 1e-2
# The step, relative to epsilon and the deviation of the loss together.
RESOLUTION = 0.003
# Points of the window, and of one round's law. A transform of so many takes some 10 ms.
MOST_POINTS = 2**18
# Fewer points than this are no faster.
LEAST_POINTS = 2**13
# The window begins this part of epsilon, or 1/t, below the epsilon that it is made for.
MARGIN = 0.05
# A lattice is right for an epsilon within this part of that margin.
CLOSE = 0.2
# Where few frequencies count no array is as long as the window, and a step for this part costs little. One round's law
# has few points, which take some ms, unless the other precision needs more.
PRECISION_OF_FEW = 1e-8
FEW_CELLS = 2**12
MOST_CELLS = 2**15
# Frequencies, and their products with points.
MOST_FREQUENCIES = 2**8
MOST_PRODUCTS = 2**19
# Frequencies, relative to the one at which the spectrum seems to end: its bounds fall later, by a factor of pi/2 at
# most where it is the one of a Gaussian.
BEYOND_CUTOFF = 1.5
# Points of a window that is never an array. Their products with frequencies are exact in 64-bit integers.
LONGEST = 2**40


class Part(NamedTuple):
    """One mechanism in one direction, by its cells, and how often it is released."""

    cells_of: CellsOf
    rounds: int


class Spot:
    """An epsilon, and about its delta, for which lattices are made."""

    def __init__(self, parts: Sequence[Part], sketch: Sketch, epsilon: float, log_delta: float) -> None:
        self.parts = parts
        self.epsilon = epsilon
        self.plan = sketch.plan(epsilon, log_delta)
        t = self.plan.t
        self.margin = max(MARGIN * epsilon, 1.0 / t)
        self.bottom = max(epsilon - self.margin, 0.0)
        self.length = epsilon - self.bottom + self.plan.period
        self.widest = max(high - low for low, high in self.plan.ends)
        # the square of a step at which spreading costs all of epsilon
        self.square = 12.0 * max(epsilon, 1.0 / t) / ((t + 1.0) * sketch.total)
        # near 0 the body of the law counts, which a step must resolve whatever the tail needs
        self.resolution = RESOLUTION * math.hypot(epsilon, sketch.deviation)
        if not (0 < max(self.length, self.widest) < math.inf and self.square > 0):
            raise NumericalError("The losses of this run are too far apart for an exact sum in doubles.")
        self.few = self._few()

    def sum(self, law: MakeLaw, precision: float) -> LatticeSum:
        """The composition of laws of this kind: by few frequencies where they are enough, or by transforms."""
        if self.few is not None:
            made = LowFrequencies(self.few, *self._laws(self.few, law))
            if made.is_enough:
                return made
            self.few = None
        grid = self.whole(precision)
        return TransformedSum(grid, *self._laws(grid, law))

    def is_cheap(self, precision: float) -> bool:
        """Whether a sum of this precision need not be put off."""
        return self.few is not None or self.whole(precision).size <= FEW_POINTS

    def is_near(self, epsilon: float) -> bool:
        """Whether what was made for this spot serves as well for an `epsilon`."""
        return abs(epsilon - self.epsilon) <= CLOSE * self.slack(epsilon)

    def slack(self, epsilon: float) -> float:
        """By how much an `epsilon` may move before a lattice is to move along."""
        return max(MARGIN * epsilon, min(1.0 / self.plan.t, epsilon))

    def whole(self, precision: float) -> Grid:
        """A lattice for epsilons around this one, all of whose window is transformed."""
        widest = max(self.length, self.widest)
        finest = min(math.sqrt(self.square * precision), self.resolution)
        step = short_binary_below(min(max(finest, widest / MOST_POINTS), widest / LEAST_POINTS))
        if step * step > self.square * precision * LEAST_PRECISION / PRECISION:
            raise NumericalError("The exact sum of this run needs more memory than is allowed.")
        return self._grid(step, fast_length(self.length / step + 8.0), 0)

    def _few(self) -> Grid | None:
        """A lattice of which a few frequencies are likely to be enough, if there is one."""
        frequencies = BEYOND_CUTOFF * self.plan.cutoff * self.plan.period / (2.0 * math.pi) + 1.0
        if not frequencies < MOST_FREQUENCIES:
            return None
        # as fine as is cheap; or else as need be; or else finer than the window of a transform would be
        cells = [min(most, MOST_PRODUCTS / frequencies) / len(self.parts) for most in (FEW_CELLS, MOST_CELLS)]
        needed = math.sqrt(self.square * PRECISION)
        step = max(math.sqrt(self.square * PRECISION_OF_FEW), self.widest / cells[0])
        if step > needed:
            step = max(needed, self.widest / cells[1])
        step = short_binary_below(max(min(step, self.resolution), self.plan.period / LONGEST))
        size = math.ceil(self.plan.period / step) + 8
        if step > max(needed, self.length / MOST_POINTS) or self.widest > 1.1 * step * cells[1]:
            return None
        return self._grid(step, size, math.ceil(frequencies)) if 4.0 * frequencies < size else None

    def _grid(self, step: float, size: int, frequencies: int) -> Grid:
        counted = tuple((math.floor(low / step), math.ceil(high / step)) for low, high in self.plan.ends)
        bottom = math.floor(self.bottom / step) - 4
        return Grid(step, counted, bottom, size, self.plan.t, self.plan.sides, self.epsilon, frequencies)

    def _laws(self, grid: Grid, law: MakeLaw) -> tuple[tuple[LatticeLaw, ...], tuple[int, ...]]:
        laws = tuple(
            law(part.cells_of, grid.step, first, last)
            for part, (first, last) in zip(self.parts, grid.ends, strict=True)
        )
        if not all(np.isfinite(one.masses).all() and one.masses.any() for one in laws):
            raise NumericalError("The probabilities of a round's losses are outside what doubles resolve.")
        return laws, tuple(part.rounds for part in self.parts)
