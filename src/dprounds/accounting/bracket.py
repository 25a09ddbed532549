"""Two numbers with the truth between them: what the exact accountant answers with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bracket", "Brackets"]


class Bracket(NamedTuple):
    """Two numbers with the truth between them. The upper one is the answer to report."""

    lower: float
    upper: float

    def larger(self, other: Bracket) -> Bracket:
        """The bracket of the larger of two numbers."""
        return Bracket(max(self.lower, other.lower), max(self.upper, other.upper))

    def both(self, other: Bracket) -> Bracket:
        """What two brackets of the same number prove together."""
        return Bracket(max(self.lower, other.lower), min(self.upper, other.upper))


class Brackets(NamedTuple):
    """Rows of numbers with the truth between them."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
