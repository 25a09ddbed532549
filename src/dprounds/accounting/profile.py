r"""The privacy profile of a release: delta at an epsilon, epsilon at a delta, each between proven bounds.

A `Profile` holds the law of the loss in each direction. Delta is the larger of the directions, plus the mass at
infinity. In each direction there are up to four ways to it: a closed form; a `Line` of the law itself (`place`); lines
by the level of the largest round (`place_levels`, `levels`); and two lines of lattices that bound the law, one from
above and one from below (`sketch`, `lattice`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket, Brackets
from dprounds.accounting.cells import LatticeLaw, lower_law, upper_law
from dprounds.accounting.known_profile import known_epsilon
from dprounds.accounting.lattice import Grid, lattice_line
from dprounds.accounting.law import LOG_MOMENT_ERROR, Composition, Saddle, least_mass
from dprounds.accounting.line import Line, log_zeta
from dprounds.accounting.place import line_near, saddle_at_delta, saddle_at_epsilon
from dprounds.accounting.place_levels import levels_near
from dprounds.accounting.sketch import COARSE, PRECISE, Sketch
from dprounds.errors import NumericalError
from dprounds.numerics.normal import normal_excess
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["Profile", "crude_delta", "epsilon_on_line", "is_wide", "unproven_epsilon"]

Array = NDArray[np.float64]

# --- What carries a proof.

# Rounding of the distance of two normal laws: a root, a product and a quotient for each part, and `hypot`.
DISTANCE_ERROR_PER_PART = 8.0 * UNIT_ROUNDOFF

# --- What only tunes speed and tightness.

# A bracket wider than this part of itself is looked at again by another way.
WIDE = 1e-6
# Below this doubles have no relative precision.
LEAST_RESOLVED = 1e-300
# Where brackets are at most this wide a line serves for another epsilon too; and where those of a lattice are.
NARROW = 1e-9
NARROW_LATTICE = 1e-4
NARROW_LEVELS = 1e-7
# The part of delta that each error of levels is asked to stay below, where epsilon is sought and where it is found.
LEVEL_TOLERANCES = (1e-3, 1e-10)
MOST_LEVELS_TRIED = 4
REACH_OF_LEVELS = 1e-3  # relative to epsilon
# Laplace's method is not believed where it exceeds other guesses by this factor.
HEAVY = 3.0
# In a row, a bracket wider than this part of itself is looked at again by another way.
POOR_IN_A_ROW = 0.5
# A value is trusted in a search if the line brackets it this well.
TRUSTED = 0.05
# Where no line reaches, a lower bound is sought at these relative distances below the largest loss.
CAP_GAPS = (1e-12, 1e-9, 1e-6, 1e-3)
# Where one value of K bounds delta, if no saddle point is found.
SCANNED = (10.0, 100.0, 1e3, 1e4)
# Two or three are typical; the limits end a search that rounding keeps from settling, and what it reached is verified.
MOST_STEPS = 60
MOST_REPLACED = 12
# An end of the bracket is moved outward by steps that grow by this factor; then the last one is halved so often.
GROWTH = 4.0
MOST_HALVINGS = 6
# Of a row's epsilons, so many are refused before a way is given up: halves of halves of a row of some dozens.
MOST_REFUSED = 8


class Sum(Protocol):
    """A sum that brackets delta: a `Line` or a `LevelledLine`."""

    @property
    def t(self) -> float:
        """The real part of its line."""
        ...

    def at(self, epsilon: float) -> Bracket:
        """Lower and upper bounds of delta over the finite losses at one epsilon."""
        ...

    def bracket(self, epsilon: Array) -> Brackets:
        """The same at a row of epsilons."""
        ...

    def value_and_slope(self, epsilon: float) -> tuple[float, float]:
        """The sum as computed and its derivative in epsilon."""
        ...


@dataclass(eq=False)
class Sums:
    """What brackets delta near one epsilon: a line from above and one from below, which may be the same."""

    epsilon: float  # that they were made for
    above: Sum
    make_below: Callable[[], Sum] | None = None
    narrow: float = NARROW
    reach: float = 0.0  # an epsilon no further away is served as well
    is_fine: bool = True

    @cached_property
    def below(self) -> Sum:
        """Made when it is first asked for."""
        return self.above if self.make_below is None else self.make_below()

    def at(self, epsilon: float) -> Bracket:
        """Delta of the finite losses at one epsilon."""
        found = self.above.at(epsilon)
        return found if self.make_below is None else _consistent(self.below.at(epsilon).lower, found.upper)

    def bracket(self, epsilon: Array) -> Brackets:
        """Delta of the finite losses at a row of epsilons."""
        found = self.above.bracket(epsilon)
        return found if self.make_below is None else Brackets(self.below.bracket(epsilon).lower, found.upper)

    def suits(self, epsilon: float, part: float) -> bool:
        """Whether the line from above, whatever it was made for, tells delta here to this part of it."""
        if abs(epsilon - self.epsilon) <= self.reach:
            return True
        lower, upper = self.above.at(epsilon)
        return upper - lower <= part * upper


def _consistent(lower: float, upper: float) -> Bracket:
    if not lower <= upper:
        raise NumericalError("The exact sum of this run contradicts itself in doubles.")
    return Bracket(lower, upper)


class Way(Protocol):
    """How sums are made for one law; `start` is the last saddle point, or about where it may be."""

    start: Saddle | float

    def guess(self, log_delta: float) -> float:
        """About the epsilon at a delta."""
        ...

    def sums(self, epsilon: float, *, fine: bool = True) -> Sums:
        """Sums that bracket delta at `epsilon`; coarse ones cost less where there is a choice."""
        ...


@dataclass
class ByLine:
    """By a line of the law itself."""

    law: Composition
    smoothed: bool = True
    most_nodes: int | None = None
    start: Saddle | float = 1.0

    def guess(self, log_delta: float) -> float:
        """By Laplace's method."""
        self.start = saddle_at_delta(self.law, log_delta, start=self.start)
        return self.start.epsilon

    def sums(self, epsilon: float, *, fine: bool = True) -> Sums:
        """A line near the saddle point, made for the delta that it finds."""
        self.start = saddle = saddle_at_epsilon(self.law, epsilon, start=self.start)
        log_delta = saddle.log_delta(epsilon)
        for _ in range(3):  # Laplace's method is within a few percent; a second line is rare, and a third settles it
            line = line_near(
                self.law,
                saddle,
                epsilon=epsilon,
                log_delta=log_delta,
                most_nodes=self.most_nodes,
                smoothed=self.smoothed,
            )
            found = line.at(epsilon)
            if found.upper - found.lower <= NARROW * found.upper:
                break
            middle = max(found.lower, min(found.upper, line.value_and_slope(epsilon)[0]))
            if not middle > 0 or abs(math.log(middle) - log_delta) < 1.0:
                break
            log_delta = math.log(middle)
        # the saddle point moves by a width as epsilon moves by one over it
        return Sums(epsilon, line, reach=0.5 / saddle.width)


@dataclass
class ByLevels:
    """By lines of levels, for one part whose log-ratio can be turned."""

    law: Composition
    start: Saddle | float = 1.0
    log_delta: float | None = None  # that was asked for

    @cached_property
    def sketch(self) -> Sketch:
        """Made when it is first needed."""
        return Sketch(self.law)

    def guess(self, log_delta: float) -> float:
        """By Laplace's method; or, where a heavy tail misleads that, by a normal law or by one large round."""
        self.log_delta = log_delta
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
        return by_saddle if by_saddle < HEAVY * found else found

    def sums(self, epsilon: float, *, fine: bool = True) -> Sums:
        """Levels made for the delta that they find."""
        ((part, rounds),) = self.law.parts
        if part.turnable is None:
            raise NumericalError("No levels are known for this run.")
        tolerance = LEVEL_TOLERANCES[fine]
        log_delta = self.sketch.saddle(epsilon).log_delta(epsilon) if self.log_delta is None else self.log_delta
        for _ in range(MOST_LEVELS_TRIED):
            line = levels_near(part.turnable, rounds, epsilon=epsilon, log_delta=log_delta, tolerance=tolerance)
            value = line.value_and_slope(epsilon)[0]
            if not value > 0 or abs(math.log(value) - log_delta) < 3.0:
                break
            log_delta = math.log(value)
        return Sums(epsilon, line, narrow=NARROW_LEVELS, reach=REACH_OF_LEVELS * epsilon, is_fine=fine)


@dataclass
class ByLattice:
    """By lines of lattices that bound the law."""

    law: Composition
    start: Saddle | float = 1.0

    @cached_property
    def sketch(self) -> Sketch:
        """Made when it is first needed."""
        return Sketch(self.law)

    def guess(self, log_delta: float) -> float:
        """By Laplace's method on the sketch."""
        return self.sketch.epsilon(log_delta)

    def sums(self, epsilon: float, *, fine: bool = True) -> Sums:
        """A lattice made for the delta that it finds."""
        log_delta = self.sketch.saddle(epsilon).log_delta(epsilon)
        for _ in range(3):
            grids = self.sketch.grids(epsilon, log_delta, COARSE)
            line, grid = self._line(upper_law, grids)
            value = line.value_and_slope(epsilon)[0]
            if not value > 0 or abs(math.log(value) - log_delta) < 1.0:
                break
            log_delta = math.log(value)
        if fine:
            grids = self.sketch.grids(epsilon, log_delta, PRECISE)
            line, grid = self._line(upper_law, grids)
        rest = grids[grids.index(grid) :] if grid in grids else grids
        return Sums(epsilon, line, lambda: self._line(lower_law, rest)[0], NARROW_LATTICE, is_fine=fine)

    def _line(self, side: Callable[..., LatticeLaw], grids: list[Grid]) -> tuple[Line, Grid]:
        """The first line that is proven to end."""
        for grid in grids:
            laws = [
                (side(part.cells, grid.step, *ends, atoms), rounds)
                for (part, rounds), ends, atoms in zip(self.law.parts, grid.ends, grid.atoms, strict=True)
            ]
            if not all(np.isfinite(one.masses).all() and one.masses.any() for one, _ in laws):
                raise NumericalError("The probabilities of a round's losses are outside what doubles resolve.")
            line = lattice_line(laws, grid)
            if line is not None:
                return line, grid
        raise NumericalError("The exact sum of this run needs more memory than is allowed.")


@dataclass
class OnOneLine:
    """By one line, whatever it was made for."""

    line: Line
    first_guess: float
    start: Saddle | float = 1.0

    def guess(self, log_delta: float) -> float:
        """The one that was given."""
        return self.first_guess

    def sums(self, epsilon: float, *, fine: bool = True) -> Sums:
        """That line."""
        return Sums(epsilon, self.line, reach=math.inf)


def epsilon_on_line(line: Line, *, delta: float, guess: float) -> Bracket:
    """Epsilon at a delta of the finite losses, as far as one line tells, whatever it was made for.

    Guarantee
    ---------
    As for `Profile.epsilon`, of the law of the line. Raises `NumericalError` where the line proves none.
    """
    with _within_doubles():
        epsilon, sums = _root(OnOneLine(line, guess), math.log(delta), math.inf)
        return _verified(sums, epsilon, Bracket(delta, delta), math.inf)


def _ways(law: Composition, start: Saddle | float = 1.0, most_nodes: int | None = None) -> Iterator[Way]:
    """The ways to sums for one law, the best first."""
    is_aligned = any(part.atoms is not None for part, _ in law.parts)  # then a lattice resolves the loss well
    on_line = law.lattice is not None or law.falls or not is_aligned
    if on_line:
        yield ByLine(law, not (law.has_cells and (law.falls or is_aligned)), most_nodes, start)
    if len(law.parts) == 1 and law.rounds > 1 and law.parts[0][0].turnable is not None and law.has_cells:
        yield ByLevels(law)
    if law.has_cells and not law.infinite_mass:
        yield ByLattice(law)
    if law.is_cheap and (law.has_cells or not on_line):
        yield ByLine(law, True, most_nodes, start)


def is_wide(bracket: Bracket) -> bool:
    """Whether another proof may tell more."""
    return not bracket.upper - bracket.lower <= WIDE * bracket.upper


def _by_the_best_way(law: Composition, ask: Callable[[Way], Bracket], start: float = 1.0) -> tuple[Bracket, float]:
    """The bracket of the first way that works, and its saddle point; where it is wide, what it and the next prove."""
    found: Bracket | None = None
    trouble: NumericalError | None = None
    for way in _ways(law, start):
        try:
            with _within_doubles():
                here = ask(way)
        except NumericalError as refused:
            trouble = trouble or refused
            continue
        found = here if found is None else found.both(here)
        if not is_wide(found):
            break
    if found is None:
        raise trouble or NumericalError("No exact sum is known for this run.")
    return found, way.start.t if isinstance(way.start, Saddle) else way.start


@dataclass(frozen=True, eq=False)
class Profile:
    """Delta over epsilon of a release, by the law of its loss in each direction.

    Guarantee
    ---------
    Every method raises, or returns bounds with the truth between them, if K is accurate to `LOG_MOMENT_ERROR`, and the
    ceilings, cells and closed forms of the laws hold.

    Theorem
    -------
    [AGACKS23, Section 4] for the integral; docs/theory/accounting.md for the bounds.
    """

    laws: Mapping[str, Composition]

    def delta(self, epsilon: float) -> Bracket:
        """Delta at `epsilon`, in [0, inf]."""
        found = Bracket(0.0, 0.0)
        # at epsilon 0 it is the total variation, which is the same in both directions
        for law in list(self.laws.values())[: None if epsilon else 1]:
            if found.lower > 0 and crude_delta(law, epsilon) <= found.lower:
                continue
            found = found.larger(_delta(law, epsilon))
        return found

    def epsilon(self, delta: float) -> Bracket:
        """The least epsilon >= 0 at which delta is at most `delta`, in (0, 1)."""
        found, start = Bracket(0.0, 0.0), 1.0
        for law in self.laws.values():
            if 0 < found.lower < math.inf and _is_met(law, found.lower, delta, start):
                continue  # the other direction is the more expensive one
            here, start = _epsilon(law, delta, start)
            found = found.larger(here)
        return found

    def deltas(self, epsilons: Array, *, most_nodes: int | None = None, all_or_none: bool = True) -> Brackets:
        """Delta at every epsilon of a row. Sums made for one serve for all around it that they bracket well.

        Where no sum is proven it raises, or, if not `all_or_none`, has an upper bound of inf.
        """
        lower, upper = np.zeros_like(epsilons), np.zeros_like(epsilons)
        for law in self.laws.values():
            found, trouble = _deltas(law, epsilons, most_nodes)
            if trouble is not None and all_or_none:
                raise trouble
            lower, upper = np.maximum(lower, found.lower), np.maximum(upper, found.upper)
        return Brackets(lower, upper)


@contextmanager
def _within_doubles() -> Iterator[None]:
    """Let numbers overflow far from any privacy: what is then not a number is refused, and what raises says so."""
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            yield
    except ArithmeticError:
        raise NumericalError("The loss of this run is outside what doubles resolve.") from None


def _closed_form(law: Composition) -> Callable[[float], Bracket] | None:
    """Delta at an epsilon, where all rounds together are two normal laws, or there is one round of a known excess."""
    distance = law.normal_distance
    if distance is not None:
        return lambda epsilon: _normal_delta(distance, DISTANCE_ERROR_PER_PART * len(law.parts), epsilon)
    return law.parts[0][0].excess if law.rounds == 1 else None


def _normal_delta(distance: float, distance_error: float, epsilon: float) -> Bracket:
    value, error = normal_excess(distance, epsilon, distance_error=distance_error)
    return Bracket(max(value - error, 0.0), min(value + error, 1.0))


def _delta(law: Composition, epsilon: float) -> Bracket:
    """`Profile.delta` in one direction."""
    if not epsilon < law.max_loss:
        return _with_mass(law, Bracket(0.0, 0.0))
    closed = _closed_form(law)
    known = None if closed is None else closed(epsilon)
    if known is not None and (not is_wide(known) or known.upper < LEAST_RESOLVED):
        return known
    try:
        with _within_doubles():
            found = _with_mass(law, _by_the_best_way(law, lambda way: way.sums(epsilon).at(epsilon))[0])
    except NumericalError:
        if known is None:
            raise
        return known
    found = found if known is None else found.both(known)
    found = Bracket(min(found.lower, law.seen), min(found.upper, law.seen))
    return _proper(found)


def _proper(found: Bracket) -> Bracket:
    if not 0 <= found.lower <= found.upper:  # also where one is not a number
        raise NumericalError("The loss of this run is outside what doubles resolve.")
    return found


def _deltas(law: Composition, epsilons: Array, most_nodes: int | None) -> tuple[Brackets, NumericalError | None]:
    """`Profile.deltas` in one direction, and why some may be missing."""
    lower, upper = np.zeros_like(epsilons), np.zeros_like(epsilons)
    trouble: NumericalError | None = None
    inside = np.flatnonzero(epsilons < law.max_loss)
    upper[inside] = math.inf
    with _within_doubles():
        if _closed_form(law) is not None:
            for i in inside.tolist():
                lower[i], upper[i] = _delta(law, float(epsilons[i]))
            return Brackets(lower, upper), None
        for way in _ways(law, most_nodes=most_nodes):
            is_poor = (upper == math.inf) | (upper - lower > POOR_IN_A_ROW * upper)
            pending = inside[is_poor[inside]]
            if not pending.size:
                break
            try:
                with _within_doubles():
                    for i, found in _along(way, epsilons, pending):
                        here = _proper(_with_mass(law, found))
                        lower[i], upper[i] = max(lower[i], here.lower), min(upper[i], here.upper)
            except NumericalError as refused:
                trouble = trouble or refused
    outside = _with_mass(law, Bracket(0.0, 0.0))
    is_outside = ~(epsilons < law.max_loss)
    lower[is_outside], upper[is_outside] = outside
    return Brackets(lower, upper), trouble if (upper == math.inf).any() else None


def _along(way: Way, epsilons: Array, pending: NDArray[np.intp]) -> Iterator[tuple[int, Bracket]]:
    """The brackets of a row, from sums made for the middle one of those that are still without.

    Where there are no sums for that one, those on either side of it are tried apart. Raises at the end, if some have
    no bracket.
    """
    groups = [pending[np.argsort(epsilons[pending])]]
    trouble: NumericalError | None = None
    refused = 0
    while groups and refused < MOST_REFUSED:
        group = groups.pop(0)
        middle = group.size // 2
        try:
            with _within_doubles():
                sums = way.sums(float(epsilons[group[middle]]))
                own = sums.above.bracket(epsilons[group])
                served = own.upper - own.lower <= sums.narrow * own.upper
                served[middle] = True
                found = sums.bracket(epsilons[group[served]])
        except NumericalError as refusal:
            trouble, refused = trouble or refusal, refused + 1
            groups += [part for part in (group[:middle], group[middle + 1 :]) if part.size]
            continue
        for i, low, high in zip(group[served], found.lower, found.upper, strict=True):
            yield int(i), Bracket(float(low), float(high))
        if not served.all():
            groups.append(group[~served])
    if trouble is not None:
        raise trouble


def _with_mass(law: Composition, finite: Bracket) -> Bracket:
    """The brackets of all of delta, given those of the finite losses."""
    mass = law.infinite_mass
    if not mass:
        return finite
    return Bracket(
        (least_mass(mass) + finite.lower) * (1.0 - 2.0 * UNIT_ROUNDOFF),
        min((mass + finite.upper) * (1.0 + 2.0 * UNIT_ROUNDOFF), 1.0),
    )


def _epsilon(law: Composition, delta: float, start: float) -> tuple[Bracket, float]:
    """`Profile.epsilon` in one direction, and about its saddle point."""
    if not law.infinite_mass < delta:
        return Bracket(math.inf, math.inf), start
    if not law.max_loss > 0 or law.seen <= delta:  # that the record is seen at all is no likelier
        return Bracket(0.0, 0.0), start
    closed = _closed_form(law)
    known = None if closed is None else known_epsilon(closed, delta=delta)
    if known is not None and not is_wide(known):
        return known, start
    try:
        with _within_doubles():
            found, start = _summed_epsilon(law, delta, start)
    except NumericalError:
        if known is None:
            raise
        return known, start
    return _proper(found if known is None else found.both(known)), start


def _summed_epsilon(law: Composition, delta: float, start: float) -> tuple[Bracket, float]:
    """Epsilon by sums, and about its saddle point."""
    # delta less the mass at infinity, to either side
    rest = Bracket(delta, delta)
    if law.infinite_mass:
        rest = Bracket(
            (delta - law.infinite_mass) * (1.0 - 2.0 * UNIT_ROUNDOFF),
            (delta - least_mass(law.infinite_mass)) * (1.0 + 2.0 * UNIT_ROUNDOFF),
        )
    if not rest.lower > 0:
        raise NumericalError(f"delta {delta:g} exceeds the infinite mass by less than doubles resolve.")
    try:
        found, start = _by_the_best_way(law, lambda way: _finite_epsilon(law, way, rest), start)
    except NumericalError:
        if not law.max_loss < math.inf:
            raise
        # Close to the cap the line goes to infinity, and its sum out of reach: the cap itself is the answer.
        found = Bracket(0.0, law.max_loss)
    if found.upper == law.max_loss and is_wide(found):
        found = Bracket(max(found.lower, _below_cap(law, delta)), law.max_loss)
    if found.lower == 0 < found.upper:  # then epsilon may be 0, which one value of delta tells
        with suppress(NumericalError):
            if _delta(law, 0.0).upper <= delta:
                return Bracket(0.0, 0.0), start
    return found, start


def _finite_epsilon(law: Composition, way: Way, rest: Bracket) -> Bracket:
    """Epsilon at a delta of the finite losses, by one way."""
    epsilon, sums = _root(way, math.log(rest.lower), law.max_loss)
    return _verified(sums, epsilon, rest, law.max_loss)


def _root(way: Way, log_delta: float, most: float) -> tuple[float, Sums]:
    """About the epsilon at which the sum is delta, 0 if it is nowhere, and sums made near it.

    Newton's method on the logarithm of delta, kept in a bracket; new sums where the last ones do not suit.
    """
    low, high = 0.0, most
    epsilon = way.guess(log_delta)
    if not 0 < epsilon < most:
        # Laplace's method is off by more than the distance to an end: 0 may be the answer itself.
        epsilon = 0.0 if epsilon <= 0 else 0.5 * most
    sums = way.sums(epsilon, fine=False)
    replaced, fine = 0, sums.is_fine
    for _ in range(MOST_STEPS):
        if epsilon != sums.epsilon and not sums.suits(epsilon, TRUSTED) and replaced < MOST_REPLACED:
            sums, replaced = way.sums(epsilon, fine=fine), replaced + 1
        value, slope = sums.above.value_and_slope(epsilon)
        following = math.nan
        if value > 0:
            excess = math.log(value) - log_delta
            if slope < 0:  # else delta is flat here, between the points of a lattice
                following = epsilon - excess * value / slope
        else:  # too small a delta for its digits: what is proven of it decides
            excess = 1.0 if math.log(max(sums.above.at(epsilon).upper, LEAST_RESOLVED)) > log_delta else -1.0
        low, high = (epsilon, high) if excess > 0 else (low, epsilon)
        if high == 0:
            break  # delta is already met at 0
        if following <= 0 and low == 0 and epsilon > 0:
            following = 0.0
        elif not low <= following <= high:
            following = math.sqrt(low * min(high, 4.0 * low + 4.0)) if low > 0 else 0.125 * min(high, 8.0)
        moved, epsilon = abs(following - epsilon), following
        settled = moved <= 4.0 * UNIT_ROUNDOFF * epsilon or moved * sums.above.t <= 1e-13
        if settled or (not fine and moved <= 1e-3 * epsilon):
            if sums.epsilon == epsilon or replaced >= MOST_REPLACED or (fine and sums.suits(epsilon, sums.narrow)):
                break
            sums, replaced, fine = way.sums(epsilon), replaced + 1, True
            low, high = 0.0, most  # a finer lattice has another root
    return epsilon, sums


def _verified(sums: Sums, epsilon: float, rest: Bracket, most: float) -> Bracket:
    """The nearest epsilons on either side of a guess at which delta is proven to be met, and not to be."""
    found = sums.at(epsilon)
    if epsilon == 0 and found.upper <= rest.lower:
        return Bracket(0.0, 0.0)
    slope = -sums.above.value_and_slope(epsilon)[1]
    least = 4.0 * UNIT_ROUNDOFF * epsilon + UNIT_ROUNDOFF / sums.above.t

    def first_step(excess: float) -> float:
        # where delta is flat, between the points of a lattice, its slope tells nothing
        return max(excess / slope * (1.0 + NARROW), 0.0) if slope > 0 else 0.0

    upper = _outward(
        lambda step: sums.above.at(epsilon + step).upper <= rest.lower,
        first_step(found.upper - rest.lower),
        least,
        most - epsilon,
    )
    if upper == math.inf:
        raise NumericalError("The exact sum of this run does not settle epsilon.")
    lower = _outward(
        lambda step: sums.below.at(epsilon - step).lower >= rest.upper,
        first_step(rest.upper - found.lower),
        least,
        epsilon,
    )
    return Bracket(max(min(epsilon - lower, epsilon + upper), 0.0), epsilon + upper if upper < most - epsilon else most)


def _outward(is_proven: Callable[[float], bool], step: float, least: float, most: float) -> float:
    """A short step from a guess at which something is proven, as it is further on; `most` if it is nowhere before."""
    failed = 0.0
    for _ in range(MOST_STEPS):
        if not step < most:
            return most
        if is_proven(step):
            break
        failed, step = step, max(GROWTH * step, least)
    else:
        return most
    for _ in range(MOST_HALVINGS if failed > 0 else 0):
        middle = 0.5 * (failed + step)
        failed, step = (failed, middle) if is_proven(middle) else (middle, step)
    return step


def _below_cap(law: Composition, delta: float) -> float:
    """An epsilon close to the largest loss at which delta is proven not to be met; 0 if none is found."""
    for gap in CAP_GAPS:
        with suppress(NumericalError):
            if _delta(law, law.max_loss * (1.0 - gap)).lower >= delta:
                return law.max_loss * (1.0 - gap)
    return 0.0


def _is_met(law: Composition, epsilon: float, delta: float, start: float) -> bool:
    """Whether one value of delta shows that `delta` is met at `epsilon`."""
    if not epsilon < law.max_loss:
        return law.infinite_mass <= delta
    with suppress(NumericalError), _within_doubles():
        saddle = _about_saddle(law, epsilon, start)
        if _crude_delta(law, saddle, epsilon) <= delta:
            return True
        for way in _ways(law, saddle):
            with suppress(NumericalError):
                found = way.sums(epsilon, fine=False).above.at(epsilon)
                return _with_mass(law, found).upper <= delta
    return False


def crude_delta(law: Composition, epsilon: float) -> float:
    """An upper bound of delta from one value of K: infinite mass plus zeta(t) exp(K(t) - t epsilon)."""
    if not epsilon < law.max_loss:
        return law.infinite_mass
    try:
        with _within_doubles():
            return _crude_delta(law, _about_saddle(law, epsilon, 1.0), epsilon)
    except NumericalError:
        return 1.0


def _crude_delta(law: Composition, saddle: Saddle, epsilon: float) -> float:
    t, value = saddle.t, saddle.value
    # a thousand times the error that K may have, since this is not to be close
    error = 1000.0 * LOG_MOMENT_ERROR * (abs(value) + t * epsilon + 1.0)
    exponent = float(log_zeta(np.array(t))) + value - t * epsilon + error
    return 1.0 if math.isnan(exponent) else law.infinite_mass + math.exp(min(exponent, 0.0))


def _about_saddle(law: Composition, epsilon: float, start: float) -> Saddle:
    """The saddle point, or the best of a few points where K is out of reach before it: any of them bounds delta.

    So it is above the largest loss of one part, if another has a larger one that next to no mass is near.
    """
    try:
        return saddle_at_epsilon(law, epsilon, start=start)
    except NumericalError:
        found = []
        for t in SCANNED:
            with suppress(NumericalError):
                found.append(law.expand(t))
        if not found:
            raise
        return min(found, key=lambda one: one.value - one.t * epsilon)


def unproven_epsilon(law: Composition, *, delta: float, start: float = 1.0) -> tuple[float, float]:
    """About the epsilon at `delta`, by the sum along a line without its error, and the t of the line.

    Guarantee
    ---------
    None: it proves nothing, and is a guess for a search that checks. Raises `NumericalError` where no line serves.
    """
    if not (law.lattice is not None or law.falls or law.is_cheap):
        raise NumericalError("The exact sum of this run does not converge.")
    if not law.infinite_mass < delta:
        raise NumericalError(f"delta {delta:g} is used up by the infinite mass.")
    with _within_doubles():
        way = ByLine(law, start=start)
        epsilon, sums = _root(way, math.log(delta - law.infinite_mass), law.max_loss)
    return epsilon, sums.above.t
