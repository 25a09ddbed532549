"""Sums along a line of the law itself, near one epsilon. The way proves nothing; its lines prove their brackets."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.kernel import log_zeta
from dprounds.accounting.known_profile import known_epsilon, normal_delta
from dprounds.accounting.law import Composition
from dprounds.accounting.line import Line
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.sums import HEAVY, LEAST_RESOLVED, NARROW, Sums
from dprounds.accounting.watched_line import watched_line
from dprounds.accounting.ways.place import line_near, line_until_small, no_line, saddle_at_delta, saddle_at_epsilon
from dprounds.accounting.ways.rough_profile import rough_epsilon
from dprounds.accounting.ways.sketch import Sketch
from dprounds.errors import NumericalError

__all__ = ["ByLine"]

# All of these tune speed and tightness.
# The curvature of K exceeds that of a normal law by this factor where a heavy tail takes over; then K is tried at these
# parts of the saddle point.
BENT = 3.0
BELOW_SADDLE = np.array([0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08])
# Where a law states the errors of M itself, and summands at the saddle point exceed delta by a factor exp(LOG_LOST), a
# line is put at the lowest of these places, relative to the saddle point, where the summands exceed the smallest ones
# by a factor exp(LOG_WORTH) at most. A place that moved by less than SAME_PLACE of itself is the same.
LOG_LOST = 5.0
LOWER_PLACES = np.array([1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.5])
LOG_WORTH = 0.25
SAME_PLACE = 0.01
# Nodes of a line that ends where it is seen to be small.
MOST_UNPROVEN_NODES = 2**12
# Where a line next to the largest t of a law cannot be made, one at this part of it may be.
NEARER_PART = 0.8


@dataclass
class ByLine:
    """By a line of the law itself; if it is not `proven`, by one whose end is seen, so that it brackets nothing.

    One that is `watched` ends where its own values are seen to stay small, and needs no ceiling of its law.
    """

    law: Composition
    smoothed: bool = True
    most_nodes: int | None = None
    start: Saddle | float = 1.0
    line: Line | None = None
    proven: bool = True
    log_delta: float | None = None  # that was asked for
    place: float = 0.0  # that the last line was made for
    watched: bool = False
    near: float | None = None  # about the epsilon, where another way has found it

    def guess(self, log_delta: float) -> float:
        """By Laplace's method; or by what a few values of K prove, where a heavy tail misleads it."""
        if not self.law.most_nodes:
            raise no_line()  # before any value of K
        self.log_delta = log_delta
        if self.near is not None:
            return self.near
        if (self.watched and self.law.has_cells) or self.law.has_costly_lines:
            found = _roughly(self.law, log_delta)
            if found is not None:
                return found
        self.start = saddle = saddle_at_delta(self.law, log_delta, start=self.start)
        is_last = self.law.states_errors and saddle.t >= self.law.largest_t  # then Laplace's method is of no use
        if saddle.bend <= BENT and not is_last:  # about that of a normal law
            return saddle.epsilon_at(log_delta) if saddle.is_nearly_normal else saddle.epsilon
        t: NDArray[np.float64] = saddle.t * BELOW_SADDLE
        proven = (np.asarray(self.law.log_moment(t).real) + log_zeta(t) - log_delta) / t
        best = int(np.argmin(proven))
        if proven[best] < saddle.epsilon:
            self.start = float(t[best])
        found = float(proven[best]) if is_last else min(float(proven[best]), saddle.epsilon)
        if not self.law.states_errors:
            return found
        # by two normal laws with the same K(1), which are close where many steps share the loss
        distance = math.sqrt(max(float(self.law.log_moment(np.ones(1)).real[0]), LEAST_RESOLVED))
        normal = known_epsilon(lambda level: normal_delta(distance, level), delta=math.exp(log_delta)).upper
        return min(found, normal)

    def sums(self, epsilon: float, *, fine: bool = True) -> Sums:
        """A line near the saddle point, made for the delta that it finds."""
        if not self.law.most_nodes:
            raise no_line()
        self.start = saddle = saddle_at_epsilon(self.law, epsilon, start=self.start)
        log_delta = saddle.log_delta(epsilon)
        if not self.proven:
            self.line = _line_until_small(self.law, saddle, epsilon, log_delta)
            return Sums(epsilon, self.line, reach=0.5 / saddle.width, believed=0.5 / saddle.width)
        if self.law.states_errors and self.log_delta is not None:
            return self._with_errors(saddle, epsilon, self.log_delta)
        for _ in range(3):  # Laplace's method is within a few percent; a second line is rare, and a third settles it
            line = self._near(saddle, epsilon, log_delta)
            value = line.value_and_slope(epsilon)[0]
            if not value > 0 or abs(math.log(value) - log_delta) < 1.0:
                break
            found = line.at(epsilon)
            if found.upper - found.lower <= NARROW * found.upper:
                break
            log_delta = math.log(max(found.lower, min(found.upper, value)))
        self.line = line
        # the saddle point moves by a width as epsilon moves by one over it
        reach = 0.5 / saddle.width
        if self.law.states_errors:  # the width may be that of a rare large loss, while delta falls much faster
            value, slope = line.value_and_slope(epsilon)
            reach = min(reach, -value / slope) if value > 0 > slope else 0.0
        return Sums(epsilon, line, reach=reach)

    def _with_errors(self, saddle: Saddle, epsilon: float, log_delta: float) -> Sums:
        """A line of a law that states errors, made for the delta that was asked for: a heavy tail misleads Laplace.

        Its place hardly moves with epsilon then, and one line may serve all of them.
        """
        t = self._lower_place(saddle, epsilon, log_delta)
        if self.line is None or abs(t - self.place) > SAME_PLACE * t:
            self.place = t
            self.line = self._near(saddle if t == saddle.t else self.law.expand(t), epsilon, log_delta)
        value, slope = self.line.value_and_slope(epsilon)
        reach = min(0.5 / saddle.width, -value / slope) if value > 0 > slope else 0.0
        return Sums(epsilon, self.line, reach=reach)

    def _lower_place(self, saddle: Saddle, epsilon: float, log_delta: float) -> float:
        """The saddle point, or, if summands are much larger than delta there, a smaller t where they hardly grow.

        There a line needs fewer nodes.
        """
        t: NDArray[np.float64] = saddle.t * LOWER_PLACES
        if saddle.value - saddle.t * epsilon - math.log(saddle.t * (1.0 + saddle.t)) - log_delta <= LOG_LOST:
            return saddle.t
        sizes = np.asarray(self.law.log_moment(t).real) - t * epsilon - np.log(t * (1.0 + t))
        return float(t[np.flatnonzero(sizes <= sizes.min() + LOG_WORTH)[-1]])

    def _near(self, saddle: Saddle, epsilon: float, log_delta: float) -> Line:
        if self.watched:
            return watched_line(self.law, saddle, epsilon=epsilon, log_delta=log_delta)
        near = partial(
            line_near,
            self.law,
            epsilon=epsilon,
            log_delta=log_delta,
            most_nodes=self.most_nodes,
            smoothed=self.smoothed,
        )
        try:
            return near(saddle)
        except NumericalError:
            nearer = NEARER_PART * self.law.largest_t
            if not (self.law.states_errors and nearer < saddle.t):
                raise
        # next to the largest t, K may not be known at the points that bound the aliases
        return near(self.law.expand(nearer))


def _roughly(law: Composition, log_delta: float) -> float | None:
    """About the epsilon at a delta, by the rough profile of the cells; None if they do not resolve it."""
    with suppress(NumericalError):
        sketch = Sketch(law)
        least = sketch.deviation * math.sqrt(-2.0 * log_delta)
        by_saddle = math.inf
        with suppress(NumericalError):
            by_saddle = sketch.epsilon(log_delta)
        found, _ = rough_epsilon(sketch, log_delta, min(by_saddle, HEAVY * least), sketch.start)
        if 0 < found < math.inf:
            return found
    return None


def _line_until_small(law: Composition, saddle: Saddle, epsilon: float, log_delta: float) -> Line:
    """A line that ends where it is small against the delta that it finds."""
    for _ in range(2):  # Laplace's method may be misled by a heavy tail
        line = line_until_small(law, saddle, epsilon=epsilon, log_delta=log_delta, most_nodes=MOST_UNPROVEN_NODES)
        value = line.value_and_slope(epsilon)[0]
        if not value > 0 or abs(math.log(value) - log_delta) < 1.0:
            break
        log_delta = math.log(value)
    return line
