"""A rough picture of a loss, by a thousand atoms, from which a lattice is planned. It proves nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.cells import CellsOf
from dprounds.accounting.line import log_zeta
from dprounds.accounting.saddle import Saddle
from dprounds.errors import NumericalError

__all__ = ["Plan", "Sketch"]

Array = NDArray[np.float64]

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
LARGEST_LOSS = 7.0
# A tilt within this many deviations of the saddle point is as good as the saddle point.
CLOSE_ENOUGH = 0.1
# Newton's method on a monotone function, with a bisection where it fails, over all tilts there are.
TILT_RANGE = (1e-12, 1e15)
MOST_STEPS = 100
# Frequencies at which |M| along the line is tried, relative to one over the deviation. A Gaussian spectrum is below
# exp(-46), one part in 1e20, from 9.6 on.
FREQUENCIES = np.geomspace(9.6, 96.0, 16)
LOG_REST = -46.0


class Plan(NamedTuple):
    """A tilt, the ends of each part's losses, the period of the window, and points at which K bounds what is left.

    From the frequency `cutoff` on the spectrum of the sum seems to be negligible; it is infinite where none does.
    """

    t: float
    ends: list[tuple[float, float]]
    period: float
    sides: Array
    cutoff: float


class Sketch:
    """The parts of a run, each by atoms at the mean of its cells."""

    def __init__(self, cells: Sequence[CellsOf], rounds: Sequence[int]) -> None:
        self.rounds = [float(n) for n in rounds]
        self.total = sum(self.rounds)
        self.p: list[Array] = []
        self.losses: list[Array] = []
        self.atoms: list[tuple[Array, Array]] = []
        self.start = 1.0
        for cells_of in cells:
            found = cells_of(EDGES)
            held = (found.p > 0) & (found.q > 0)
            if not held.any():
                raise NumericalError("The losses of this run are too far apart for an exact sum in doubles.")
            with np.errstate(divide="ignore", invalid="ignore"):
                losses = np.where(held, np.log(found.p) - np.log(found.q), 0.0)
            # the masses of the narrowest cells are differences that have lost their digits
            losses = np.clip(losses, np.append(-np.inf, EDGES), np.append(EDGES, np.inf))
            self.p.append(np.where(held, found.p, 0.0))
            self.losses.append(losses)
            self.atoms.append(_merged(found.p[held], losses[held]))

    @property
    def deviation(self) -> float:
        """About the standard deviation of the sum of all losses."""
        spread = ((p * (x - (p * x).sum()) ** 2).sum() for p, x in self.atoms)
        return math.sqrt(float(sum(n * one for n, one in zip(self.rounds, spread, strict=True))))

    def log_moment(self, t: Array, ends: Sequence[tuple[float, float]]) -> Array:
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
        return self._search(lambda here: (here.log_delta(here.epsilon) - log_delta) * here.width**2 / here.t).epsilon

    def log_delta(self, epsilon: float) -> float:
        """The logarithm of delta by Laplace's method."""
        return self.saddle(epsilon).log_delta(epsilon)

    def saddle(self, epsilon: float) -> Saddle:
        """The saddle point for `epsilon`."""
        return self._search(lambda here: (epsilon - here.epsilon) * here.width**2)

    def _search(self, move: Callable[[Saddle], float]) -> Saddle:
        """The point at which `move`, which falls with t, is a small part of the width.

        Newton's method from where the last search ended, by the derivatives of the atoms' own K: where a rare large
        loss takes over from the many small ones, K bends within a small part of t, too fast for differences.
        """
        t, (low, high) = self.start, TILT_RANGE
        for _ in range(MOST_STEPS):
            here = self.expand(t)
            step = move(here)
            if not math.isfinite(step):
                break
            if abs(step) <= CLOSE_ENOUGH * here.width or high <= low * (1.0 + 1e-12):
                self.start = t
                return here
            low, high = (t, high) if step > 0 else (low, t)
            following = min(max(t + step, 0.125 * t), 8.0 * t)
            # a step that hardly moves within its bracket would take forever where K bends
            t = following if low < following < high else math.sqrt(low) * math.sqrt(high)
        raise NumericalError("The loss of this run is outside what doubles resolve.")

    def plan(self, epsilon: float, log_delta: float) -> Plan:
        """The tilt whose period is the shortest, of those at which the summands are not much larger than delta."""
        saddle = self.saddle(epsilon).t
        ends = self.ends(saddle, log_delta)
        tilts = TILTS * saddle
        k = self.log_moment(np.append(tilts, np.outer(tilts, SIDES).ravel()), ends)
        at_tilts, at_sides = k[: tilts.size], k[tilts.size :].reshape(tilts.size, SIDES.size)
        sizes = at_tilts - tilts * epsilon + log_zeta(tilts) - log_delta
        plans = [
            (*_period(float(t), epsilon, log_delta, row), float(t))
            for t, size, row in zip(tilts, sizes, at_sides, strict=True)
            if t == saddle or size < LARGEST_LOSS
        ]
        period, sides, best = min(plans, key=lambda one: one[0])
        return Plan(best, ends, period, sides, self.cutoff(best, ends))

    def cutoff(self, t: float, ends: Sequence[tuple[float, float]]) -> float:
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


def _merged(p: Array, losses: Array) -> tuple[Array, Array]:
    """Atoms, the smallest losses of which are one."""
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


def _period(t: float, epsilon: float, log_delta: float, k: Array) -> tuple[float, Array]:
    """The least period of the window at which aliases are negligible, and the points at which K shows that."""
    sides = t * SIDES
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
