r"""The privacy profile of a release: delta at an epsilon, epsilon at a delta, each between proven bounds.

A `Profile` holds the law of the loss in each direction. Delta is the larger of the directions, plus the mass at
infinity. In each direction there is a closed form, or there are up to three ways to sums (`ways`): a `Line` of the law
itself; lines by the level of the largest round; and two lines of lattices that bound the law, one from above and one
from below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket, Brackets
from dprounds.accounting.known_profile import known_epsilon
from dprounds.accounting.law import LOG_MOMENT_ERROR, Composition
from dprounds.accounting.line import log_zeta
from dprounds.accounting.place import line_with_nodes_of, saddle_at_epsilon
from dprounds.accounting.root import LEAST_RESOLVED, epsilon_by, guessed_root
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.sketch import Sketch
from dprounds.accounting.sums import WithinDoubles
from dprounds.accounting.ways import ByLine, Way, ways_to_sums
from dprounds.errors import NumericalError
from dprounds.numerics.normal import normal_excess
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["LEAST_RESOLVED", "Profile", "crude_delta", "crude_integral", "decay_rates", "is_wide", "unproven_epsilon"]

Array = NDArray[np.float64]

# --- What carries a proof.

# Rounding of the distance of two normal laws: a root, a product and a quotient for each part, and `hypot`.
DISTANCE_ERROR_PER_PART = 8.0 * UNIT_ROUNDOFF

# --- What only tunes speed and tightness.

# A bracket wider than this part of itself is looked at again by another way.
WIDE = 1e-6
# In a row, a bracket wider than this part of itself is looked at again by another way.
POOR_IN_A_ROW = 0.5
# A delta that is wanted to about this part of itself.
ROUGH = 0.1
# Laplace's method is asked of no fewer rounds, and may be off by so much, as a logarithm.
LEAST_ROUNDS_OF_LAPLACE = 512
MARGIN_OF_LAPLACE = 0.5
# The same where a lower bound would be a little smaller if it is off by more.
MARGIN_BELOW = 0.05
# Where no line reaches, a lower bound is sought at these relative distances below the largest loss.
CAP_GAPS = (1e-12, 1e-9, 1e-6, 1e-3)
# A round is about at its largest loss if it is within this part of it.
NEAR_LARGEST = 1e-9
# Where one value of K bounds delta, if no saddle point is found.
SCANNED = (10.0, 100.0, 1e3, 1e4)
# The same for the less expensive direction, relative to where the line of the other one is.
FURTHER_OUT = np.array([2.0, 6.0, 18.0])
# Of a row's epsilons, so many are refused before a way is given up: halves of halves of a row of some dozens.
MOST_REFUSED = 8


def is_wide(bracket: Bracket) -> bool:
    """Whether another proof may tell more."""
    return not bracket.upper - bracket.lower <= WIDE * bracket.upper


def _by_the_best_way(
    law: Composition, ask: Callable[[Way], Bracket], start: Saddle | float = 1.0, *, from_below: bool = False
) -> tuple[Bracket, Way]:
    """The bracket of the first way that works, and that way; where it is wide, what it and the next prove."""
    found: Bracket | None = None
    trouble: NumericalError | None = None
    for way in ways_to_sums(law, start, from_below=from_below):
        try:
            with WithinDoubles():
                here = ask(way)
        except NumericalError as refused:
            trouble = trouble or refused
            continue
        found = here if found is None else found.both(here)
        if not is_wide(found):
            break
    if found is None:
        raise trouble or NumericalError("No exact sum is known for this run.")
    return found, way


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

    @property
    def normal_distance(self) -> float | None:
        """The distance, from above, of the two normal laws of variance one that the release is, if it is such."""
        distances = [law.normal_distance for law in self.laws.values()]
        if not distances or None in distances:
            return None
        parts = max(len(law.parts) for law in self.laws.values())
        largest = max(distance for distance in distances if distance is not None)
        return largest * (1.0 + DISTANCE_ERROR_PER_PART * parts + 4.0 * UNIT_ROUNDOFF)

    def delta(self, epsilon: float) -> Bracket:
        """Delta at `epsilon`, in [0, inf]."""
        if epsilon == 0:
            # the total variation, which is the same in both directions: the one of smaller losses tells it better
            return _delta(min(self.laws.values(), key=lambda law: law.max_loss), epsilon)
        found = Bracket(0.0, 0.0)
        for law in self.laws.values():
            if found.lower > 0 and crude_delta(law, epsilon) <= found.lower:
                continue
            try:
                here = _delta(law, epsilon)
            except NumericalError:
                here = Bracket(0.0, crude_delta(law, epsilon))  # which may do, if the other direction is known
                if here.upper >= 1 or not found.upper:
                    raise
            found = found.larger(here)
        return found

    def epsilon(self, delta: float) -> Bracket:
        """The least epsilon >= 0 at which delta is at most `delta`, in (0, 1)."""
        return self._epsilon(delta)

    def least_epsilon(self, delta: float) -> float:
        """The lower end of `epsilon`, at less cost."""
        return self._epsilon(delta, from_below=True).lower

    def seems_above(self, epsilon: float, delta: float) -> bool:
        """Whether delta at `epsilon` is above another one, as Laplace's method tells of many rounds: no proof."""
        if min(law.rounds for law in self.laws.values()) < LEAST_ROUNDS_OF_LAPLACE:
            return False
        with suppress(NumericalError), WithinDoubles():
            return any(
                saddle_at_epsilon(law, epsilon).log_delta(epsilon) > math.log(delta) + MARGIN_OF_LAPLACE
                for law in self.laws.values()
            )
        return False

    def _epsilon(self, delta: float, *, from_below: bool = False) -> Bracket:
        found: Bracket = Bracket(0.0, 0.0)
        way: Way | None = None  # to the direction before
        for law in self.laws.values():
            if 0 < found.lower < math.inf:
                if from_below and _seems_met(law, found.lower, delta):
                    continue  # a lower bound may leave out a direction
                if _is_met(law, found.lower, delta, way):
                    continue  # the other direction is the more expensive one
            here, way = _epsilon(law, delta, way, from_below=from_below)
            found = found.larger(here)
        if found.lower == 0 < found.upper:  # then epsilon may be 0, which one value of delta tells
            with suppress(NumericalError):
                if self.delta(0.0).upper <= delta:
                    return Bracket(0.0, 0.0)
        return found

    def deltas(
        self,
        epsilons: Array,
        *,
        most_nodes: int | None = None,
        all_or_none: bool = True,
        narrow: float | Array = 0.0,
        log_delta: float | None = None,
        from_above: bool = False,
    ) -> Brackets:
        """Delta at every epsilon of a row. Sums made for one serve for all around it that they bracket well.

        That is to a `narrow` part of delta, if it is given, for all or for each. Where no sum is proven it raises, or,
        if not `all_or_none`, has an upper bound of inf. Where it is wanted `from_above`, lower bounds may be wide.
        About the logarithm of delta in the middle of the row saves a search for it.
        """
        lower, upper = np.zeros_like(epsilons), np.zeros_like(epsilons)
        for law in self.laws.values():
            found, trouble = _deltas(
                law,
                epsilons,
                most_nodes,
                np.broadcast_to(narrow, epsilons.shape),
                log_delta=log_delta,
                from_above=from_above,
            )
            if trouble is not None and all_or_none:
                raise trouble
            lower, upper = np.maximum(lower, found.lower), np.maximum(upper, found.upper)
        return Brackets(lower, upper)


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
        with WithinDoubles():
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


def _deltas(
    law: Composition,
    epsilons: Array,
    most_nodes: int | None,
    narrow: Array,
    *,
    log_delta: float | None,
    from_above: bool,
) -> tuple[Brackets, NumericalError | None]:
    """`Profile.deltas` in one direction, and why some may be missing."""
    lower, upper = np.zeros_like(epsilons), np.zeros_like(epsilons)
    trouble: NumericalError | None = None
    inside = np.flatnonzero(epsilons < law.max_loss)
    upper[inside] = math.inf
    with WithinDoubles():
        if _closed_form(law) is not None:
            for i in inside.tolist():
                lower[i], upper[i] = _delta(law, float(epsilons[i]))
            return Brackets(lower, upper), None
        for way in ways_to_sums(law, most_nodes=most_nodes, log_delta=log_delta):
            is_poor = (upper == math.inf) | (upper - lower > POOR_IN_A_ROW * upper)
            pending = inside[is_poor[inside]]
            if not pending.size:
                break
            try:
                with WithinDoubles():
                    for i, found in _along(way, epsilons, pending, narrow, from_above=from_above):
                        here = _proper(_with_mass(law, found))
                        lower[i], upper[i] = max(lower[i], here.lower), min(upper[i], here.upper)
            except NumericalError as refused:
                trouble = trouble or refused
    outside = _with_mass(law, Bracket(0.0, 0.0))
    is_outside = ~(epsilons < law.max_loss)
    lower[is_outside], upper[is_outside] = outside
    return Brackets(lower, upper), trouble if (upper == math.inf).any() else None


def _along(
    way: Way, epsilons: Array, pending: NDArray[np.intp], narrow: Array, *, from_above: bool
) -> Iterator[tuple[int, Bracket]]:
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
            with WithinDoubles():
                sums = way.sums(float(epsilons[group[middle]]))
                own = sums.above.bracket(epsilons[group])
                served = own.upper - own.lower <= np.maximum(narrow[group], sums.narrow) * own.upper
                served[middle] = True
                found = Brackets(own.lower[served], own.upper[served])
                if not from_above:
                    found = sums.bracket(epsilons[group[served]], above=found)
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
        (law.least_infinite_mass + finite.lower) * (1.0 - 2.0 * UNIT_ROUNDOFF),
        min((mass + finite.upper) * (1.0 + 2.0 * UNIT_ROUNDOFF), 1.0),
    )


def _epsilon(
    law: Composition, delta: float, before: Way | None, *, from_below: bool = False
) -> tuple[Bracket, Way | None]:
    """`Profile.epsilon` in one direction, and the way to it, given that to the direction before.

    If it is wanted `from_below`, its upper end may be anything.
    """
    if not law.infinite_mass < delta:
        return Bracket(math.inf, math.inf), before
    if not law.max_loss > 0 or law.seen <= delta:  # that the record is seen at all is no likelier
        return Bracket(0.0, 0.0), before
    closed = _closed_form(law)
    known = None if closed is None else known_epsilon(closed, delta=delta)
    if known is not None and not is_wide(known):
        return known, before
    try:
        with WithinDoubles():
            found, way = _summed_epsilon(law, delta, before, from_below=from_below)
    except NumericalError:
        if known is None:
            raise
        return known, before
    return _proper(found if known is None else found.both(known)), way


def _start(before: Way | None) -> float:
    """About where the saddle point may be, given the way to another direction."""
    if before is None:
        return 1.0
    return before.start.t if isinstance(before.start, Saddle) else before.start


def _summed_epsilon(
    law: Composition, delta: float, before: Way | None, *, from_below: bool
) -> tuple[Bracket, Way | None]:
    """Epsilon by sums, and the way to them."""
    # delta less the mass at infinity, to either side
    rest = Bracket(delta, delta)
    if law.infinite_mass:
        rest = Bracket(
            (delta - law.infinite_mass) * (1.0 - 2.0 * UNIT_ROUNDOFF),
            (delta - law.least_infinite_mass) * (1.0 + 2.0 * UNIT_ROUNDOFF),
        )
    if not rest.lower > 0:
        raise NumericalError(f"delta {delta:g} exceeds the infinite mass by less than doubles resolve.")
    try:
        found, before = _by_the_best_way(
            law, lambda way: epsilon_by(way, rest, law.max_loss), _start(before), from_below=from_below
        )
    except NumericalError:
        if not law.max_loss < math.inf:
            raise
        # Close to the cap the line goes to infinity, and its sum out of reach: the cap itself is the answer.
        found = Bracket(0.0, law.max_loss)
    if found.upper == law.max_loss and is_wide(found):
        found = Bracket(max(found.lower, _below_cap(law, delta)), law.max_loss)
    return found, before


def _below_cap(law: Composition, delta: float) -> float:
    """An epsilon close to the largest loss at which delta is proven not to be met; 0 if none is found."""
    known = _all_at_their_largest(law, delta)
    if law.max_loss - known <= WIDE * law.max_loss:
        return known
    for gap in CAP_GAPS:
        with suppress(NumericalError):
            if _delta(law, law.max_loss * (1.0 - gap)).lower >= delta:
                return max(known, law.max_loss * (1.0 - gap))
    return known


def _all_at_their_largest(law: Composition, delta: float) -> float:
    """The epsilon at which the event A that all rounds have about their largest loss shows delta; 0 if it does not.

    Delta is at least P(A) - exp(epsilon) Q(A), which is more than `delta` below log((P(A) - delta) / Q(A)).
    """
    log_p = log_q = size = 0.0
    for part, rounds in law.parts:
        if part.cells is None or not 0 < part.max_loss < math.inf:
            return 0.0
        cells = part.cells(np.array([part.max_loss * (1.0 - NEAR_LARGEST)]))
        p, q = float(cells.p[1] - cells.p_error[1]), float(cells.q[1] + cells.q_error[1])
        if not (p > LEAST_RESOLVED and q > LEAST_RESOLVED):
            return 0.0
        log_p += rounds * math.log(p)
        log_q += rounds * math.log(q)
        size += rounds * (1.0 - math.log(p) - math.log(q))
    rounding = 8.0 * UNIT_ROUNDOFF * (size + 1.0 - math.log(delta))
    missing = math.log(delta) - log_p + rounding  # the logarithm of delta over P(A)
    if not missing < 0:
        return 0.0
    return max(log_p - log_q + math.log(-math.expm1(missing)) - rounding, 0.0)


def _is_met(law: Composition, epsilon: float, delta: float, before: Way | None) -> bool:
    """Whether one value of delta shows that `delta` is met at `epsilon`, given the way to another direction."""
    if not epsilon < law.max_loss:
        return law.infinite_mass <= delta
    closed = _closed_form(law)
    if closed is not None:
        return closed(epsilon).upper <= delta
    line = None if before is None else before.line
    with suppress(NumericalError), WithinDoubles():
        sketch, start = (None, _start(before)) if line is not None else _sketched(law, epsilon, _start(before))
        saddle: Saddle | float = start
        if law.most_nodes or not law.has_cells:  # else K is of no use
            # the two directions are much alike, so that the nodes of one line serve both
            saddle = _about_saddle(law, epsilon, start) if line is None else law.expand(line.t)
            if _crude_delta(law, saddle, epsilon) <= delta:
                return True
            if law.states_errors and _is_met_further_out(law, saddle.t, epsilon, delta):
                return True
            if line is not None:
                with suppress(NumericalError):
                    found = line_with_nodes_of(law, line, saddle).at(epsilon)
                    if _with_mass(law, found).upper <= delta:
                        return True
        for way in ways_to_sums(law, saddle, sketch=sketch):
            with suppress(NumericalError):
                found = way.sums(epsilon, fine=False).above.at(epsilon)
                return _with_mass(law, found).upper <= delta
    return False


def _is_met_further_out(law: Composition, t: float, epsilon: float, delta: float) -> bool:
    """The same by single values of K at larger t, which take less time than a line of a law that states errors."""
    for further in t * FURTHER_OUT:
        if further <= law.largest_t:
            with suppress(NumericalError):
                if _crude_delta(law, law.expand(float(further)), epsilon) <= delta:
                    return True
    return False


def _seems_met(law: Composition, epsilon: float, delta: float) -> bool:
    """Whether `delta` is met at `epsilon`, as Laplace's method tells of a law that has no line: no proof."""
    if law.most_nodes or not law.has_cells or law.rounds < LEAST_ROUNDS_OF_LAPLACE:
        return False
    with suppress(NumericalError), WithinDoubles():
        return Sketch(law).saddle(epsilon).log_delta(epsilon) < math.log(delta) - MARGIN_BELOW
    return False


def _sketched(law: Composition, epsilon: float, start: float) -> tuple[Sketch | None, float]:
    """A sketch of a law that levels serve, and about where its saddle point is: a search along K costs more."""
    if len(law.parts) == 1 and law.parts[0][0].turnable is not None and law.has_cells:
        with suppress(NumericalError):
            sketch = Sketch(law)
            saddle = sketch.saddle(epsilon)
            if abs(saddle.epsilon - epsilon) * saddle.width <= 1.0:  # else its atoms do not add up to epsilon
                return sketch, saddle.t
    return None, start


def crude_delta(law: Composition, epsilon: float) -> float:
    """An upper bound of delta from one value of K: infinite mass plus zeta(t) exp(K(t) - t epsilon)."""
    if not epsilon < law.max_loss:
        return law.infinite_mass
    try:
        with WithinDoubles():
            return _crude_delta(law, _about_saddle(law, epsilon, 1.0), epsilon)
    except NumericalError:
        return 1.0


def crude_integral(law: Composition, epsilon: float) -> float:
    """An upper bound of the integral of delta from epsilon on, from one value of K: each delta falls as exp(-t x)."""
    if not epsilon < law.max_loss and not law.infinite_mass:
        return 0.0
    if law.infinite_mass:
        return math.inf
    with WithinDoubles():
        saddle = _about_saddle(law, epsilon, 1.0)
        return _crude_delta(law, saddle, epsilon) / saddle.t * (1.0 + 4.0 * UNIT_ROUNDOFF)


def decay_rates(law: Composition, epsilon: float) -> tuple[float, float]:
    """About the rate at which the logarithm of delta falls with epsilon, and that of its bound by one value of K."""
    with WithinDoubles():
        saddle = _about_saddle(law, epsilon, 1.0)
        t = saddle.t
        if not law.most_nodes and law.has_cells:  # K may be that of another law, and its atoms tell more
            return Sketch(law).saddle(epsilon).t, t
    if law.rounds >= LEAST_ROUNDS_OF_LAPLACE and saddle.is_nearly_normal:
        return t, t  # by Laplace's method
    near = epsilon + np.array([0.0, 0.25 / t])
    upper = Profile({"": law}).deltas(near, narrow=ROUGH, from_above=True).upper
    rate = math.log(upper[0] / upper[1]) / (0.25 / t) if 0 < upper[1] < upper[0] else math.nan
    if not 0 < rate < math.inf:
        raise NumericalError("The profile of this run does not fall here.")
    return rate, t


def _crude_delta(law: Composition, saddle: Saddle, epsilon: float) -> float:
    t, value = saddle.t, saddle.value
    # a thousand times the error that K may have, since this is not to be close
    error = 1000.0 * LOG_MOMENT_ERROR * (abs(value) + t * epsilon + 1.0) + law.error_on_axis(t)
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
    with WithinDoubles():
        # where values of K are few, a ceiling costs more than they do
        way = ByLine(law, start=start, proven=law.is_cheap or law.lattice is not None)
        epsilon, sums = guessed_root(way, math.log(delta - law.infinite_mass), law.max_loss)
    return epsilon, sums.above.t
