"""Delta as the sum over events that exclude each other, each of which has a line of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket, Brackets
from dprounds.accounting.line import Line
from dprounds.numerics.rounding import above, below

__all__ = ["SumOfEvents"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SumOfEvents:
    """Delta as the sum over events, of each of which a line is known; all others have at most a probability.

    Guarantee
    ---------
    Brackets delta, if the lines bracket those of their events.
    """

    lines: tuple[Line, ...]
    missing: float

    @property
    def t(self) -> float:
        """The largest real part of a line."""
        return max(line.t for line in self.lines)

    def at(self, epsilon: float) -> Bracket:
        """Lower and upper bounds of delta over the finite losses at one epsilon."""
        lower, upper = self.bracket(np.array([epsilon]))
        return Bracket(float(lower[0]), float(upper[0]))

    def bracket(self, epsilon: Array) -> Brackets:
        """The same at a row of epsilons."""
        found = [line.bracket(epsilon) for line in self.lines]
        lower, upper = np.zeros_like(epsilon), np.full_like(epsilon, self.missing)
        for one in found:
            lower, upper = np.maximum(below(lower + one.lower), 0.0), above(upper + one.upper)
        return Brackets(lower, np.minimum(upper, 1.0))

    def value_and_slope(self, epsilon: float) -> tuple[float, float]:
        """The sum as computed and its derivative in epsilon."""
        values, slopes = zip(*(line.value_and_slope(epsilon) for line in self.lines), strict=True)
        return math.fsum(values), math.fsum(slopes)
