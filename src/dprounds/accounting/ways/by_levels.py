"""Sums along the lines of levels, near one epsilon. The way proves nothing; its lines prove their brackets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

from dprounds.accounting.known_profile import known_epsilon
from dprounds.accounting.law import Composition
from dprounds.accounting.levels.levelled_line import LevelledLine
from dprounds.accounting.line import Line
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.sums import HEAVY, LEAST_RESOLVED, Sums
from dprounds.accounting.ways.place_levels import levels_near
from dprounds.accounting.ways.rough_profile import RoughProfile, rough_epsilon, rough_profile
from dprounds.accounting.ways.sketch import Sketch
from dprounds.errors import NumericalError

__all__ = ["ByLevels"]

# All of these tune speed and tightness.
# Where brackets of levels are at most this part of delta wide, they serve for another epsilon too. If epsilon is asked
# for, they are as wide as determines it to `NARROW_EPSILON`, and no wider than the second.
NARROW_LEVELS = 3e-9
WIDEST_LEVELS = 1e-7
# Levels whose bracket of epsilon is wider than this part of it are made again; with care, if they were made for an
# epsilon that is within 1 % of the last one.
NARROW_EPSILON = 5e-10
NEAR_LAST = 0.01
# The part of delta that each error of levels is asked to stay below.
LEVEL_TOLERANCE = 1e-10
# Where delta hardly falls and epsilon is asked for, levels made with care may stay below a smaller part, down to this
# part of that one.
FLATTEST = 1e-3
MOST_LEVELS_TRIED = 4
# Levels made for a smaller epsilon serve larger ones better than the other way round.
FIRST_LEVELS = 0.95
# Relative to epsilon: so far away levels made with care serve as well, and in a search the value of any is believed.
REACH_OF_LEVELS = 1e-4
BELIEVED_OF_LEVELS = 0.5


@dataclass
class ByLevels:
    """By lines of levels, for one part whose log-ratio can be turned."""

    law: Composition
    start: Saddle | float = 1.0
    log_delta: float | None = None  # that was asked for
    line: Line | None = None
    last: tuple[float, LevelledLine] | None = None  # the epsilon of the last levels, and these
    rough: RoughProfile | None = None
    known_sketch: Sketch | None = None
    near: float | None = None  # about the epsilon, where another way has found it
    expected: float | None = None  # about the logarithm of delta, as far as is known beforehand

    @cached_property
    def sketch(self) -> Sketch:
        """Made when it is first needed."""
        return self.known_sketch or Sketch(self.law)

    def guess(self, log_delta: float) -> float:
        """By a rough profile, which begins at an estimate by Laplace's method, a normal law and one large round."""
        self.log_delta = log_delta
        if self.near is not None:
            return self.near
        ((part, rounds),) = self.law.parts
        found = self.sketch.deviation * math.sqrt(-2.0 * log_delta)
        if part.excess is not None:
            found = max(
                found, known_epsilon(part.excess, delta=max(math.exp(log_delta) / rounds, LEAST_RESOLVED)).lower
            )
        try:
            by_saddle = self.sketch.epsilon(log_delta)
        except NumericalError:
            by_saddle = math.inf
        self.start = self.sketch.start
        is_heavy = not by_saddle < HEAVY * found  # then the tail misleads it
        guess = found if is_heavy else by_saddle
        epsilon, self.rough = rough_epsilon(self.sketch, log_delta, max(guess, found), self.sketch.start)
        if math.isnan(epsilon) or (is_heavy and self.rough is not None and not self.rough.is_near(found, epsilon)):
            self.rough = None
            return FIRST_LEVELS * guess
        return epsilon

    def sums(self, epsilon: float, *, fine: bool = True) -> Sums:
        """Levels made for the delta that they find."""
        ((part, rounds),) = self.law.parts
        if part.turnable is None:
            raise NumericalError("No levels are known for this run.")
        log_delta = self._log_delta(epsilon)
        make = partial(levels_near, part.turnable, rounds, epsilon=epsilon, tolerance=LEVEL_TOLERANCE)
        before = self.last if fine and self.last is not None else None
        if before is not None and abs(epsilon - before[0]) <= NEAR_LAST * epsilon:  # which was too wide
            value, slope = before[1].value_and_slope(epsilon)
            flat = min(-epsilon * slope / value, 1.0) if self.log_delta is not None and value > 0 > slope else 1.0
            careful = partial(make, tolerance=max(flat, FLATTEST) * LEVEL_TOLERANCE, log_delta=log_delta, careful=True)
            line = _narrower(before[1], careful, epsilon)
            value, slope = line.value_and_slope(epsilon)
            reach = REACH_OF_LEVELS * epsilon
        else:
            for _ in range(MOST_LEVELS_TRIED):
                line = make(log_delta=log_delta)
                value, slope = line.value_and_slope(epsilon)
                if not value > 0 or abs(math.log(value) - log_delta) < 3.0:
                    break
                log_delta = math.log(value)
            reach = 0.0
        self.last = epsilon, line
        narrow = NARROW_LEVELS
        if self.log_delta is not None and value > 0 > slope:  # delta is as narrow as epsilon times its steepness
            narrow = min(WIDEST_LEVELS, NARROW_EPSILON * (-epsilon * slope / value))
        return Sums(
            epsilon,
            line,
            narrow=narrow,
            reach=reach,
            believed=BELIEVED_OF_LEVELS * epsilon,
        )

    def _log_delta(self, epsilon: float) -> float:
        """About the logarithm of delta: by the rough profile, or the delta that was asked for, or Laplace's method."""
        found = math.nan if self.rough is None else self.rough.log_delta(epsilon)
        if not math.isnan(found):
            return found
        if self.log_delta is not None:
            return self.log_delta
        saddle = self.sketch.saddle(epsilon)
        self.rough = rough_profile(self.sketch, epsilon, saddle)
        found = math.nan if self.rough is None else self.rough.log_delta(epsilon)
        if math.isnan(found):
            found = saddle.log_delta(epsilon) if self.expected is None else self.expected
        return found


def _narrower(line: LevelledLine, make_other: Callable[[], LevelledLine], epsilon: float) -> LevelledLine:
    """A levelled line, or another one if that can be made and is not as wide."""
    try:
        other = make_other()
        width = _width(other, epsilon)
    except NumericalError:
        return line
    try:
        return other if width < _width(line, epsilon) else line
    except NumericalError:
        return other


def _width(line: LevelledLine, epsilon: float) -> float:
    lower, upper = line.at(epsilon)
    return upper - lower
