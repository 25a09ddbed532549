"""Sums along the lines of two lattices that bound a law, near one epsilon. The way proves nothing; its lines do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dprounds.accounting.cells import LatticeLaw, lower_law, upper_law
from dprounds.accounting.lattice import LatticePlan, lattice_line
from dprounds.accounting.law import Composition
from dprounds.accounting.line import Line
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.sums import Sums
from dprounds.accounting.ways.sketch import COARSE, PRECISE, Sketch
from dprounds.errors import NumericalError

__all__ = ["ByLattice"]

# All of these tune speed and tightness.
# Where brackets of a lattice are at most this part of delta wide, they serve for another epsilon too.
NARROW_LATTICE = 1e-4
# So far from the epsilon that a lattice was made for it serves as well, and its values are good enough for a search;
# relative to epsilon.
REACH_OF_LATTICE = 1e-5
BELIEVED_OF_LATTICE = 1e-2


@dataclass
class ByLattice:
    """By lines of lattices that bound the law; `from_below`, only the lower ends that they prove are right."""

    law: Composition
    from_below: bool = False
    start: Saddle | float = 1.0
    line: Line | None = None
    log_delta: float | None = None  # that was asked for
    few_frequencies_fail: bool = False  # as they do where losses have atoms

    @cached_property
    def sketch(self) -> Sketch:
        """Made when it is first needed."""
        return Sketch(self.law)

    def guess(self, log_delta: float) -> float:
        """By Laplace's method on the sketch."""
        self.log_delta = log_delta
        return self.sketch.epsilon(log_delta)

    def sums(self, epsilon: float, *, fine: bool = True) -> Sums:
        """Lattices near an epsilon: fine ones for the delta that was asked for, coarse ones for an estimate of it."""
        if fine and self.log_delta is not None:
            log_delta = self.log_delta
        else:
            log_delta = self.sketch.saddle(epsilon).log_delta(epsilon)
            for _ in range(3):
                plans = self.sketch.plans(epsilon, log_delta, COARSE)
                line, plan = self._line(upper_law, plans)
                value = line.value_and_slope(epsilon)[0]
                if not value > 0 or abs(math.log(value) - log_delta) < 1.0:
                    break
                log_delta = math.log(value)
        if fine:
            plans = self.sketch.plans(epsilon, log_delta, max(PRECISE, self.law.lattice_precision))
            line, plan = self._line(lower_law if self.from_below else upper_law, plans)
        rest = plans[plans.index(plan) :] if plan in plans else plans
        is_below = fine and self.from_below
        return Sums(
            epsilon,
            line,
            # of a law that bounds from above alone nothing is said from below
            (lambda: self._line(lower_law, rest)[0])
            if not is_below and (self.law.is_attained or self.from_below)
            else None,
            NARROW_LATTICE,
            reach=REACH_OF_LATTICE * epsilon,
            believed=BELIEVED_OF_LATTICE * epsilon,
            is_fine=fine,
        )

    def _line(self, side: Callable[..., LatticeLaw], plans: list[LatticePlan]) -> tuple[Line, LatticePlan]:
        """The first line that is proven to end."""
        for plan in plans:
            if plan.frequencies and self.few_frequencies_fail and plan is not plans[-1]:
                continue
            laws = [
                (side(part.cells, plan.step, *ends, atoms, knee), rounds)
                for (part, rounds), ends, atoms, knee in zip(
                    self.law.parts, plan.ends, plan.atoms, plan.knees, strict=True
                )
            ]
            if not all(np.isfinite(one.masses).all() and one.masses.any() for one, _ in laws):
                raise NumericalError("The probabilities of a round's losses are outside what doubles resolve.")
            line = lattice_line(laws, plan)
            if line is not None:
                return line, plan
            self.few_frequencies_fail = True
        raise NumericalError("The exact sum of this run needs more memory than is allowed.")
