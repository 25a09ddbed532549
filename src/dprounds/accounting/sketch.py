"""A rough picture of a loss, by a thousand atoms, from which a lattice is planned. It proves nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.cells import CellsOf
from dprounds.accounting.line import log_zeta
from dprounds.accounting.saddle import saddle_at_delta, saddle_at_epsilon
from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import Numbers

__all__ = ["Sketch"]

Array = NDArray[np.float64]

# Losses from far below what rounds could add up to a nat, to more than anyone would accept, 6 % apart.
MAGNITUDES = np.geomspace(1e-14, 1e4, 700)
EDGES = np.concatenate([-MAGNITUDES[::-1], MAGNITUDES])
# What one round's law may hold above its last point, which counts as infinite loss, relative to delta; and, tilted,
# below its first one, where it is raised.
LOG_CUT = math.log(1e-8)
# Where K is tried, relative to the tilt.
FACTORS_ABOVE = np.array([1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0, 6.0, 15.0, 50.0])
FACTORS_BELOW = np.array([0.95, 0.9, 0.8, 0.65, 0.5, 0.25, 0.1])
# A tilt below the saddle point has larger summands but aliases that fall faster; three of sixteen digits are spared.
TILTS = (1.0, 0.85, 0.7, 0.55, 0.4)
LARGEST_LOSS = 7.0


class Plan(NamedTuple):
    """A tilt, the ends of each part's losses, the period of the window, and points at which K bounds what is left."""

    t: float
    ends: list[tuple[float, float]]
    period: float
    sides: Array


class Sketch:
    """The parts of a run, each by atoms at the mean of its cells."""

    def __init__(self, cells: Sequence[CellsOf], rounds: Sequence[int]) -> None:
        self.rounds = [float(n) for n in rounds]
        self.total = sum(self.rounds)
        self.p: list[Array] = []
        self.losses: list[Array] = []
        for cells_of in cells:
            found = cells_of(EDGES)
            held = (found.p > 0) & (found.q > 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                losses = np.where(held, np.log(found.p) - np.log(found.q), 0.0)
            self.p.append(np.where(held, found.p, 0.0))
            self.losses.append(losses)

    @property
    def deviation(self) -> float:
        """About the standard deviation of the sum of all losses."""
        spread = (n * (p @ (x - p @ x) ** 2) for p, x, n in zip(self.p, self.losses, self.rounds, strict=True))
        return math.sqrt(float(sum(spread)))

    def log_moment(self, z: Numbers, ends: Sequence[tuple[float, float]] | None = None) -> Numbers:
        """About K at a row of real points; of the losses up to the ends alone, if there are any."""
        t = np.real(z)[:, None]
        found = np.zeros(z.shape)
        for i, (p, losses, n) in enumerate(zip(self.p, self.losses, self.rounds, strict=True)):
            held = p > 0 if ends is None else (p > 0) & (losses <= ends[i][1])
            if not held.any():
                raise NumericalError("The loss of this run spans no window that a lattice could cover.")
            exponents = t * losses[held]
            with np.errstate(over="ignore"):
                small = np.log1p(np.expm1(np.minimum(exponents, 30.0)) @ p[held])
            top = exponents.max(axis=1)
            large = top + np.log(np.exp(exponents - top[:, None]) @ p[held])
            found += n * np.where(np.abs(exponents).max(axis=1) < 30.0, small, large)
        return found

    def epsilon(self, log_delta: float) -> float:
        """Epsilon at a delta by Laplace's method, which may be off by a factor where the tail is heavy."""
        return saddle_at_delta(self.log_moment, log_delta).epsilon

    def log_delta(self, epsilon: float) -> float:
        """The logarithm of delta by Laplace's method."""
        return saddle_at_epsilon(self.log_moment, epsilon).log_delta(epsilon)

    def plan(self, epsilon: float, log_delta: float) -> Plan:
        """The tilt whose period is the shortest, of those at which the summands are not much larger than delta."""
        saddle = saddle_at_epsilon(self.log_moment, epsilon).t
        ends = self.ends(saddle, log_delta)
        plans = {}
        for factor in TILTS:
            t = factor * saddle
            value = float(np.real(self.log_moment(np.array([t]), ends))[0])
            size = value - t * epsilon + float(log_zeta(np.array(t))) - log_delta
            if factor == 1.0 or size < LARGEST_LOSS:
                plans[t] = self.period(t, epsilon, log_delta, ends)
        best = min(plans, key=lambda t: plans[t][0])
        period, sides = plans[best]
        return Plan(best, ends, period, sides)

    def ends(self, t: float, log_delta: float) -> list[tuple[float, float]]:
        """For each part, losses outside of which there is next to nothing."""
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

    def period(
        self, t: float, epsilon: float, log_delta: float, ends: Sequence[tuple[float, float]]
    ) -> tuple[float, Array]:
        """The least period of the window at which aliases are negligible, and the points at which K shows that."""
        sides = t * np.concatenate([FACTORS_BELOW, FACTORS_ABOVE])
        k = np.real(self.log_moment(sides, ends))
        over = sides > t
        excess = np.append(0.0, k + log_zeta(sides) - sides * epsilon) - log_delta - LOG_CUT
        aliases = excess / np.abs(np.append(0.0, sides) - t)
        beyond = (k - log_delta - LOG_CUT)[over] / sides[over] - epsilon
        below, above = aliases[np.append(True, ~over)], aliases[np.append(False, over)]
        chosen = [
            np.append(0.0, sides[~over])[below.argmin()],
            sides[over][above.argmin()],
            sides[over][beyond.argmin()],
        ]
        period = max(float(below.min()), float(above.min()), float(beyond.min()), 1.0 / t)
        return period, np.unique([side for side in chosen if side > 0])
