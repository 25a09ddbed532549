"""The ways to sums that bracket delta for one law: by its own sum, by a line, by levels, by lattices.

They choose and prove nothing: the sums that they make prove their own brackets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket
from dprounds.accounting.cells import LatticeLaw, lower_law, upper_law
from dprounds.accounting.known_profile import known_epsilon
from dprounds.accounting.lattice import Grid, lattice_line
from dprounds.accounting.law import Composition
from dprounds.accounting.levels import LevelledLine
from dprounds.accounting.line import Line, log_zeta
from dprounds.accounting.place import line_near, line_until_small, no_line, saddle_at_delta, saddle_at_epsilon
from dprounds.accounting.place_levels import levels_near
from dprounds.accounting.rough_profile import RoughProfile, rough_epsilon, rough_profile
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.sketch import COARSE, PRECISE, Sketch
from dprounds.accounting.sums import NARROW, Sum, Sums
from dprounds.accounting.watched_line import watched_line
from dprounds.errors import NumericalError
from dprounds.numerics.normal import normal_excess

__all__ = ["ByLine", "Way", "ways_to_sums"]

# All of these tune speed and tightness.
# Where brackets of a lattice, and of levels, are at most this part of delta wide, they serve for another epsilon too;
# those of levels may be wider if epsilon is asked for, of which they leave as little open as the next number says.
NARROW_LATTICE = 1e-4
NARROW_LEVELS = 3e-9
WIDEST_LEVELS = 1e-7
# Levels that leave more than this part of epsilon open are made again; with care if they were made this near to it.
NARROW_EPSILON = 8e-10
NEAR_LAST = 0.01
# The part of delta that each error of levels is asked to stay below.
LEVEL_TOLERANCE = 1e-10
MOST_LEVELS_TRIED = 4
# Levels made for a smaller epsilon serve larger ones better than the other way round.
FIRST_LEVELS = 0.95
# Relative to epsilon: so far away levels made with care serve as well, and in a search the value of any is believed.
REACH_OF_LEVELS = 1e-4
BELIEVED_OF_LEVELS = 0.5
# So far from the epsilon that a lattice was made for it serves as well, and its values are good enough for a search;
# relative to epsilon.
REACH_OF_LATTICE = 1e-5
BELIEVED_OF_LATTICE = 1e-2
# Laplace's method is not believed where it exceeds other guesses by this factor.
HEAVY = 1.4
# The skewness of the sum of e^L above which levels are tried before a line, and the largest rate at which they are.
LARGEST_SKEWNESS = 1.0
LARGEST_RATE_OF_LEVELS = 0.2
# A line goes up to about ten over q sqrt(T), in deviations of the log-ratio, and its values of K take as long as they
# are far up: where q sqrt(T) is below this, levels are faster. It is twice as much if the noise is below ten.
LEAST_SPREAD_OF_LINES = 0.04
# With few rounds, and a noise of more than one over this deviation, a line falls late, and q sqrt(T) must be more: this
# over the number of rounds.
FEW_ROUNDS = 12
LEAST_SPREAD_OF_FEW = 3.0
DEVIATION_OF_FEW = 0.2
# A line bends more than that of a normal law by this factor where a heavy tail takes over; then K is tried below it.
BENT = 3.0
BELOW_SADDLE = np.array([0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08])
# Where M states errors of its own, and summands are larger than delta by the exponential of the first number, a line is
# put at the lowest of these places, relative to the saddle point, where they are not larger by that of the second one.
# A saddle point that moved by less than a small part of itself is the same.
LOG_LOST = 5.0
LOWER_PLACES = np.array([1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.5])
LOG_WORTH = 0.25
SAME_PLACE = 0.01
# Nodes of a line that ends where it is seen to be small.
MOST_UNPROVEN_NODES = 2**12
# A probability below this has no relative precision in doubles.
LEAST_PROBABILITY = 1e-300
# Fewer rounds do not fall far enough for a line that is watched.
FEWEST_WATCHED = 16
# From so many rounds on a line is tried before a finite sum.
MANY_ROUNDS = 64


class Way(Protocol):
    """How sums are made for one law; `start` is the last saddle point, or about where it may be."""

    start: Saddle | float

    @property
    def line(self) -> Line | None:
        """The last line of the law itself, if there is one."""
        ...

    def guess(self, log_delta: float) -> float:
        """About the epsilon at a delta."""
        ...

    def sums(self, epsilon: float, *, fine: bool = True) -> Sums:
        """Sums that bracket delta at `epsilon`; coarse ones cost less where there is a choice."""
        ...


@dataclass
class ByLine:
    """By a line of the law itself; if it is not `proven`, by one whose end is seen, so that it brackets nothing.

    One that is `watched` ends where its values are known to stay small, whatever its law knows of them.
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

    def guess(self, log_delta: float) -> float:
        """By Laplace's method; or by what a few values of K prove, where a heavy tail misleads it."""
        if not self.law.most_nodes:
            raise no_line()  # before any value of K
        self.log_delta = log_delta
        if self.watched and self.law.has_cells:
            found = _roughly(self.law, log_delta)
            if found is not None:
                return found
        self.start = saddle = saddle_at_delta(self.law, log_delta, start=self.start)
        is_last = self.law.states_errors and saddle.t >= self.law.largest_t  # then Laplace's method tells nothing
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
        distance = math.sqrt(max(float(self.law.log_moment(np.ones(1)).real[0]), LEAST_PROBABILITY))
        normal = known_epsilon(lambda level: _normal_excess(distance, level), delta=math.exp(log_delta)).upper
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
            self.line = line_near(
                self.law,
                saddle if t == saddle.t else self.law.expand(t),
                epsilon=epsilon,
                log_delta=log_delta,
                most_nodes=self.most_nodes,
                smoothed=self.smoothed,
            )
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
        return line_near(
            self.law,
            saddle,
            epsilon=epsilon,
            log_delta=log_delta,
            most_nodes=self.most_nodes,
            smoothed=self.smoothed,
        )


def _roughly(law: Composition, log_delta: float) -> float | None:
    """About the epsilon at a delta, by the rough profile of the cells; None if they do not tell it."""
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


def _normal_excess(distance: float, level: float) -> Bracket:
    value, error = normal_excess(distance, level, distance_error=0.0)
    return Bracket(max(value - error, 0.0), min(value + error, 1.0))


@dataclass
class BySum:
    """By a sum that the law knows of itself, at every epsilon the same."""

    law: Composition
    known: Sum
    start: Saddle | float = 1.0
    line: Line | None = None

    def guess(self, log_delta: float) -> float:
        """By Laplace's method."""
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

    @cached_property
    def sketch(self) -> Sketch:
        """Made when it is first needed."""
        return self.known_sketch or Sketch(self.law)

    def guess(self, log_delta: float) -> float:
        """By a rough profile, which is told where to look by Laplace's method, a normal law and one large round."""
        self.log_delta = log_delta
        ((part, rounds),) = self.law.parts
        found = self.sketch.deviation * math.sqrt(-2.0 * log_delta)
        if part.excess is not None:
            found = max(
                found, known_epsilon(part.excess, delta=max(math.exp(log_delta) / rounds, LEAST_PROBABILITY)).lower
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
            line = _narrower(before[1], partial(make, log_delta=log_delta, careful=True), epsilon)
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
        steepness = max(-epsilon * slope / value, 1.0) if value > 0 else 1.0
        return Sums(
            epsilon,
            line,
            narrow=min(NARROW_LEVELS if self.log_delta is None else WIDEST_LEVELS, NARROW_EPSILON * steepness),
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
        return saddle.log_delta(epsilon) if math.isnan(found) else found


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
        """A lattice made for the delta that was asked for, once that is nearly found; before, for the one it finds."""
        if fine and self.log_delta is not None:
            log_delta = self.log_delta
        else:
            log_delta = self.sketch.saddle(epsilon).log_delta(epsilon)
            for _ in range(3):
                grids = self.sketch.grids(epsilon, log_delta, COARSE)
                line, grid = self._line(upper_law, grids)
                value = line.value_and_slope(epsilon)[0]
                if not value > 0 or abs(math.log(value) - log_delta) < 1.0:
                    break
                log_delta = math.log(value)
        if fine:
            grids = self.sketch.grids(epsilon, log_delta, max(PRECISE, self.law.lattice_precision))
            line, grid = self._line(lower_law if self.from_below else upper_law, grids)
        rest = grids[grids.index(grid) :] if grid in grids else grids
        return Sums(
            epsilon,
            line,
            # of a law that bounds from above alone nothing is said from below
            (lambda: self._line(lower_law, rest)[0]) if self.law.is_attained and not self.from_below else None,
            NARROW_LATTICE,
            reach=REACH_OF_LATTICE * epsilon,
            believed=BELIEVED_OF_LATTICE * epsilon,
            is_fine=fine,
        )

    def _line(self, side: Callable[..., LatticeLaw], grids: list[Grid]) -> tuple[Line, Grid]:
        """The first line that is proven to end."""
        for grid in grids:
            if grid.frequencies and self.few_frequencies_fail and grid is not grids[-1]:
                continue
            laws = [
                (side(part.cells, grid.step, *ends, atoms, knee), rounds)
                for (part, rounds), ends, atoms, knee in zip(
                    self.law.parts, grid.ends, grid.atoms, grid.knees, strict=True
                )
            ]
            if not all(np.isfinite(one.masses).all() and one.masses.any() for one, _ in laws):
                raise NumericalError("The probabilities of a round's losses are outside what doubles resolve.")
            line = lattice_line(laws, grid)
            if line is not None:
                return line, grid
            self.few_frequencies_fail = True
        raise NumericalError("The exact sum of this run needs more memory than is allowed.")


def ways_to_sums(
    law: Composition,
    start: Saddle | float = 1.0,
    most_nodes: int | None = None,
    *,
    sketch: Sketch | None = None,
    log_delta: float | None = None,
    from_below: bool = False,
) -> Iterator[Way]:
    """The ways to sums for one law, the best first, given what is known: a saddle point, a sketch, about delta.

    They cost less if only what is proven `from_below` is wanted.
    """
    (part, rounds) = law.parts[0] if len(law.parts) == 1 else (None, 0)
    summed = None if part is None else part.summed
    # of many rounds a line takes less time than a finite sum, if it falls, and tells at once if it does not
    line_first = rounds >= MANY_ROUNDS and law.falls and law.lattice is None
    if summed is not None and not line_first:
        yield from _by_sum(law, summed(rounds), start)
    is_aligned = any(part.atoms is not None for part, _ in law.parts)  # then a lattice resolves the loss well
    on_line = law.lattice is not None or law.falls or not is_aligned
    has_levels = len(law.parts) == 1 and law.rounds > 1 and law.parts[0][0].turnable is not None and law.has_cells
    levels_first = has_levels and _levels_first(law)
    if levels_first:
        yield ByLevels(law, known_sketch=sketch)
    # what is watched is known to `LOG_MOMENT_ERROR`, and not to errors that laws state themselves
    is_watched = law.lattice is None and law.most_nodes > 0 and law.rounds >= FEWEST_WATCHED and not law.states_errors
    is_watched = is_watched and (not law.falls or len(law.parts) > 1)
    watched = ByLine(law, start=start, watched=True)
    if is_watched and not law.falls and law.is_cheap:
        yield watched
    if on_line:
        yield ByLine(law, not (law.has_cells and (law.falls or is_aligned)), most_nodes, start)
    if summed is not None and line_first:
        yield from _by_sum(law, summed(rounds), start)
    if has_levels and not levels_first:
        yield ByLevels(law, known_sketch=sketch)
    if is_watched and law.falls:
        yield watched
    if law.has_cells and not law.infinite_mass:
        yield ByLattice(law, from_below, log_delta=log_delta)
    if is_watched and not law.falls and not law.is_cheap:  # values of K far up take longer than a lattice
        yield watched
    if law.is_cheap and (law.has_cells or not on_line):
        yield ByLine(law, True, most_nodes, start)


def _by_sum(law: Composition, known: Sum | None, start: Saddle | float) -> Iterator[Way]:
    if known is not None:
        yield BySum(law, known, start)


def _levels_first(law: Composition) -> bool:
    """Whether a line would go very far up, or hardly fall: a sum of e^L over few rare rounds is far from normal."""
    ((part, rounds),) = law.parts
    pair = part.turnable
    if pair is None:
        return False
    least = LEAST_SPREAD_OF_LINES * (1.0 if pair.deviation < 0.1 else 2.0)
    if rounds <= FEW_ROUNDS and pair.deviation < DEVIATION_OF_FEW:
        least = LEAST_SPREAD_OF_FEW / rounds
    if pair.rate * math.sqrt(rounds) < least:
        return True
    spread = math.expm1(min(pair.deviation**2, 100.0))  # the variance of e^v / E[e^v], which is lognormal
    is_skewed = (spread + 3.0) * math.sqrt(spread) > LARGEST_SKEWNESS * math.sqrt(rounds)
    return is_skewed and pair.rate < LARGEST_RATE_OF_LEVELS
