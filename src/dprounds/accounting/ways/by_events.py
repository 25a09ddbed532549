"""Sums along one line for each of some events that exclude each other. The way proves nothing; its sums do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.law import Composition, Events
from dprounds.accounting.line import Line
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.sum_of_events import SumOfEvents
from dprounds.accounting.sums import Sums
from dprounds.accounting.ways.place import line_near, no_line

__all__ = ["ByEvents"]

Array = NDArray[np.float64]

# All of these tune speed and tightness.
# Where no delta is asked for, this is the first guess of its logarithm, and a guess is good that is so near.
FIRST_GUESS = -20.0
CLOSE = 3.0
MOST_GUESSES = 3
# Their lines may end where a line of a law itself would end for a delta that is larger by this, in logarithms.
LOG_ROOM = 2.0
# Rough deltas are made of so many values of K, from this part of the largest t on.
ROUGH_POINTS = 48
LEAST_POINTS = 3
LEAST_T = 1.0 / 32.0
LOG_WORTH = 0.7
LEAST_BEND = 1e-12


@dataclass(frozen=True, eq=False)
class _Rough:
    """Delta of one event, roughly: bounds of K at some t, and what Laplace's method makes of them."""

    t: Array
    values: Array

    @classmethod
    def of(cls, law: Composition) -> _Rough:
        """By bounds of K that cost little."""
        t = law.largest_t * np.geomspace(LEAST_T, 1.0, ROUGH_POINTS)
        values = law.log_moment_above(t)
        if values is None:
            raise no_line()
        known = np.isfinite(values)
        if np.count_nonzero(known) < LEAST_POINTS:
            raise no_line()
        return cls(t[known], values[known])

    @cached_property
    def _curve(self) -> tuple[Array, Array]:
        """The epsilons whose saddle points the t are, and the logarithms of delta there."""
        slope = np.gradient(self.values, self.t)
        curvature = np.maximum(np.gradient(slope, self.t), 0.0) + self.t**-2 + (1.0 + self.t) ** -2
        epsilon = np.maximum.accumulate(slope - 1.0 / self.t - 1.0 / (1.0 + self.t))
        log_delta = (
            self.values - self.t * epsilon - np.log(self.t * (1.0 + self.t) * np.sqrt(2.0 * math.pi * curvature))
        )
        return epsilon, log_delta

    def log_delta(self, epsilon: Array) -> Array:
        """Beyond the last t it falls as that of a normal law."""
        known, logs = self._curve
        beyond = np.maximum(epsilon - known[-1], 0.0)
        bend = (known[-1] - known[-2]) / (self.t[-1] - self.t[-2])
        return np.asarray(
            np.interp(epsilon, known, logs) - self.t[-1] * beyond - 0.5 * beyond**2 / max(bend, LEAST_BEND)
        )

    def place(self, epsilon: float) -> float:
        """About the saddle point, or a smaller t where summands are hardly larger: less is turned late there."""
        sizes = self.values - self.t * epsilon - np.log(self.t * (1.0 + self.t))
        return float(self.t[int(np.flatnonzero(sizes <= sizes.min() + LOG_WORTH)[0])])


@dataclass
class ByEvents:
    """By a line for each of the events that the law tells apart."""

    law: Composition
    start: Saddle | float = 1.0
    line: Line | None = None
    log_delta: float | None = None  # that was asked for
    expected: float | None = None  # about that, where only epsilon is given
    events: Events | None = None
    rough: tuple[_Rough, ...] = ()

    def guess(self, log_delta: float) -> float:
        """By rough deltas of all events."""
        self.log_delta = log_delta
        self._make_events(log_delta)
        top = max(float(one._curve[0][-1]) for one in self.rough) * 2.0
        low, high = 0.0, top
        for _ in range(2):
            epsilon = np.linspace(low, high, ROUGH_POINTS)
            logs = np.logaddexp.reduce([one.log_delta(epsilon) for one in self.rough])
            first = int(np.searchsorted(-logs, -log_delta))
            low, high = float(epsilon[max(first - 1, 0)]), float(epsilon[min(first, epsilon.size - 1)])
        return 0.5 * (low + high)

    def sums(self, epsilon: float, *, fine: bool = True) -> Sums:
        """A line for each event, near its own saddle point."""
        wanted = self.log_delta if self.log_delta is not None else self.expected or FIRST_GUESS
        for _ in range(MOST_GUESSES):
            if self.events is None or self.log_delta is None:
                self._make_events(wanted)
            found = self._sum(epsilon, wanted)
            value, slope = found.value_and_slope(epsilon)
            if self.log_delta is not None or not value > 0 or abs(math.log(value) - wanted) < CLOSE:
                break
            wanted = math.log(value)
        return Sums(epsilon, found, reach=-value / slope if value > 0 > slope else 0.0)

    def _sum(self, epsilon: float, log_delta: float) -> SumOfEvents:
        if self.events is None:
            raise no_line()
        lines = []
        for law, rough in zip(self.events.laws, self.rough, strict=True):
            saddle = law.expand(rough.place(epsilon))
            lines.append(line_near(law, saddle, epsilon=epsilon, log_delta=log_delta + LOG_ROOM, smoothed=False))
        self.line, self.start = lines[0], lines[0].t
        return SumOfEvents(tuple(lines), self.events.missing)

    def _make_events(self, log_delta: float) -> None:
        ((part, rounds),) = self.law.parts
        self.events = None if part.events is None else part.events(rounds, log_delta)
        if self.events is None:
            raise no_line()
        self.rough = tuple(_Rough.of(law) for law in self.events.laws)
