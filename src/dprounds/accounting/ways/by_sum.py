"""The finite sum that a law knows of itself: a way with the same sum at every epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dprounds.accounting.law import Composition
from dprounds.accounting.line import Line
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.sums import Sum, Sums
from dprounds.accounting.ways.by_line import ByLine
from dprounds.errors import NumericalError

__all__ = ["BySum"]

# These tune speed: of few rounds the search begins at this part of the largest loss, not far from it as a rule.
FEW_ROUNDS = 8
NEAR_CAP = 0.9


@dataclass
class BySum:
    """By a sum that the law knows of itself, at every epsilon the same."""

    law: Composition
    known: Sum
    start: Saddle | float = 1.0
    line: Line | None = None

    def guess(self, log_delta: float) -> float:
        """By Laplace's method."""
        if self.law.rounds <= FEW_ROUNDS:
            return NEAR_CAP * self.law.max_loss
        by_line = ByLine(self.law, start=self.start)
        try:
            return by_line.guess(log_delta)
        except NumericalError:  # no saddle point, close to the largest loss
            return 0.5 * self.law.max_loss
        finally:
            self.start = by_line.start

    def sums(self, epsilon: float, *, fine: bool = True) -> Sums:
        """The one sum."""
        return Sums(epsilon, self.known, reach=math.inf, believed=math.inf)
