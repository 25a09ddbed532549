"""Delta at an epsilon and epsilon at a delta in one direction, each between proven bounds.

There is a closed form, or there are ways to sums that bracket delta (`ways`). The mass at infinity is added here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket, Brackets
from dprounds.accounting.crude import about_saddle, crude_delta_at
from dprounds.accounting.known_profile import known_epsilon, normal_delta
from dprounds.accounting.law import Composition
from dprounds.accounting.root import epsilon_by
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.sums import LEAST_RESOLVED, WithinDoubles
from dprounds.accounting.ways.by_events import ByEvents
from dprounds.accounting.ways.choice import Way, near_by_levels, near_by_lines, ways_to_sums
from dprounds.accounting.ways.place import line_with_nodes_of, saddle_at_delta
from dprounds.accounting.ways.sketch import Sketch
from dprounds.errors import NumericalError
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = [
    "DISTANCE_ERROR_PER_PART",
    "LEAST_ROUNDS_OF_LAPLACE",
    "delta_of",
    "deltas_of",
    "epsilon_of",
    "is_met",
    "seems_met",
]

Array = NDArray[np.float64]

# --- What carries a proof.

# Rounding of the distance of two normal laws: a root, a product and a quotient for each part, and `hypot`.
DISTANCE_ERROR_PER_PART = 8.0 * UNIT_ROUNDOFF

# --- What only tunes speed and tightness.

# If a bracket is wider than this part of itself, the next way is tried too; if it is wider than the second, levels are,
# which take a few milliseconds.
WIDE = 1e-6
WIDE_FOR_LEVELS = 1e-9
# Where the line of the other direction is further out than K is well known, one at this part of the largest t serves.
LARGEST_PART_OF_OTHER = 0.9
# The first for each bracket of a row.
POOR_IN_A_ROW = 0.5
# Laplace's method is used from this number of rounds on, if the record is expected in at least the second of them. The
# margin allows for its error in the logarithm of delta; where it is off by more, a lower bound is a little smaller.
LEAST_ROUNDS_OF_LAPLACE = 512
LEAST_SEEN_OF_LAPLACE = 0.5
MARGIN_BELOW = 0.05
# Where no line reaches, lower bounds are tried at these relative distances below the largest loss.
CAP_GAPS = (1e-12, 1e-9, 1e-6, 1e-3)
# A round is about at its largest loss if it is within this part of it.
NEAR_LARGEST = 1e-9
# Where one value of K bounds delta in the less expensive direction, relative to where the line of the other one is.
FURTHER_OUT = np.array([2.0, 6.0, 18.0])
# A way is given up when this number of epsilons of a row were refused.
MOST_REFUSED = 8


def is_wide(bracket: Bracket, limit: float = WIDE) -> bool:
    """Whether another way may prove a much narrower bracket."""
    return not bracket.lower >= bracket.upper * (1.0 - limit)


def _by_the_best_way(
    law: Composition,
    ask: Callable[[Way], Bracket],
    start: Saddle | float = 1.0,
    *,
    from_below: bool = False,
    log_delta: float | None = None,
) -> tuple[Bracket, Way]:
    """The bracket of the first way that works, and that way; where it is wide, what it and the next prove."""
    found: Bracket | None = None
    trouble: NumericalError | None = None
    for way in ways_to_sums(law, start, from_below=from_below, log_delta=log_delta):
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


def _closed_form(law: Composition) -> Callable[[float], Bracket] | None:
    """Delta at an epsilon, where all rounds together are two normal laws, or there is one round of a known excess."""
    distance = law.normal_distance
    if distance is not None:
        return lambda epsilon: normal_delta(distance, epsilon, DISTANCE_ERROR_PER_PART * len(law.parts))
    return law.parts[0][0].excess if law.rounds == 1 else None


def delta_of(law: Composition, epsilon: float) -> Bracket:
    """`Profile.delta` in one direction."""
    if not epsilon < law.max_loss:
        return _with_mass(law, Bracket(0.0, 0.0))
    closed = _closed_form(law)
    known = None if closed is None else closed(epsilon)
    if known is not None and (not is_wide(known) or known.upper < LEAST_RESOLVED):
        return known

    def ask(way: Way) -> Bracket:
        return _with_mass(law, way.sums(epsilon).at(epsilon), way)

    try:
        with WithinDoubles():
            found, _ = _by_the_best_way(law, ask)
            if is_wide(found) and found.upper > 0 and law.infinite_mass_by_events < law.infinite_mass:
                # what is left out counts; events leave out less where it is known how small delta is
                found = found.both(_by_the_best_way(law, ask, log_delta=math.log(found.upper))[0])
    except NumericalError:
        if known is None:
            raise
        return known
    found = found if known is None else found.both(known)
    return _proper(Bracket(min(found.lower, law.seen), min(found.upper, law.seen)))


def _proper(found: Bracket) -> Bracket:
    if not 0 <= found.lower <= found.upper:  # also where one is not a number
        raise NumericalError("The loss of this run is outside what doubles resolve.")
    return found


def deltas_of(
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
                lower[i], upper[i] = delta_of(law, float(epsilons[i]))
            return Brackets(lower, upper), None
        for way in ways_to_sums(law, most_nodes=most_nodes, log_delta=log_delta):
            is_poor = (upper == math.inf) | (upper - lower > POOR_IN_A_ROW * upper)
            pending = inside[is_poor[inside]]
            if not pending.size:
                break
            try:
                with WithinDoubles():
                    for i, found in _along(way, epsilons, pending, narrow, from_above=from_above):
                        here = _proper(_with_mass(law, found, way))
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


def _mass(law: Composition, way: Way | None) -> float:
    """What counts as an infinite loss from above, besides what the sums of a way count themselves."""
    return law.infinite_mass_by_events if isinstance(way, ByEvents) else law.infinite_mass


def _with_mass(law: Composition, finite: Bracket, way: Way | None = None) -> Bracket:
    """The brackets of all of delta, given those of the finite losses by one way."""
    mass = _mass(law, way)
    if not mass:
        return finite
    return Bracket(
        (law.least_infinite_mass + finite.lower) * (1.0 - 2.0 * UNIT_ROUNDOFF),
        min((mass + finite.upper) * (1.0 + 2.0 * UNIT_ROUNDOFF), 1.0),
    )


def epsilon_of(
    law: Composition, delta: float, before: Way | None, *, from_below: bool = False
) -> tuple[Bracket, Way | None]:
    """`Profile.epsilon` in one direction, and the way to it, given that to the direction before.

    If it is wanted `from_below`, its upper end may be anything.
    """
    if not law.infinite_mass_by_events < delta:
        # outputs that are left out count as an infinite loss from above alone
        is_known = law.least_infinite_mass >= delta or not any(part.left_out for part, _ in law.parts)
        return Bracket(math.inf if is_known else 0.0, math.inf), before
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
    try:
        found, before = _by_the_best_way(
            law,
            lambda way: epsilon_by(way, _rest(law, delta, way), law.max_loss),
            _start(before),
            from_below=from_below,
        )
    except NumericalError:
        # Close to the cap the line goes to infinity, and its sum out of reach: the cap itself is the answer.
        found = Bracket(0.0, law.max_loss)
        if not law.max_loss < math.inf:
            # no way found a place by itself: they begin where Laplace's method puts epsilon
            with suppress(NumericalError), WithinDoubles():
                near = saddle_at_delta(law, math.log(_rest(law, delta).lower)).epsilon
                found = _narrowed(law, found, delta, near)
            if not found.upper < math.inf:
                raise
    else:
        if not from_below:
            found = _narrowed(law, found, delta, found.upper)
    if found.upper == law.max_loss and is_wide(found):
        found = Bracket(max(found.lower, _below_cap(law, delta)), law.max_loss)
    return found, before


def _rest(law: Composition, delta: float, way: Way | None = None) -> Bracket:
    """Delta less the mass at infinity, to either side, for the sums of one way; raises where nothing is left."""
    mass = _mass(law, way)
    if not mass:
        return Bracket(delta, delta)
    rest = Bracket(
        (delta - mass) * (1.0 - 2.0 * UNIT_ROUNDOFF), (delta - law.least_infinite_mass) * (1.0 + 2.0 * UNIT_ROUNDOFF)
    )
    if not rest.lower > 0:
        raise NumericalError(f"delta {delta:g} exceeds the infinite mass by less than doubles resolve.")
    return rest


def _narrowed(law: Composition, found: Bracket, delta: float, near: float) -> Bracket:
    """A bracket of epsilon, and what is proven by ways that begin near an epsilon, as long as it is wide."""
    if not 0 < near < law.max_loss:
        return found
    for ways, limit in ((near_by_levels, WIDE_FOR_LEVELS), (near_by_lines, WIDE)):
        for way in ways(law, near) if is_wide(found, limit) else ():
            with suppress(NumericalError), WithinDoubles():
                found = found.both(epsilon_by(way, _rest(law, delta, way), law.max_loss))
            if not is_wide(found, limit):
                break
    return found


def _below_cap(law: Composition, delta: float) -> float:
    """An epsilon close to the largest loss at which delta is proven not to be met; 0 if none is found."""
    known = _all_at_their_largest(law, delta)
    if law.max_loss - known <= WIDE * law.max_loss:
        return known
    for gap in CAP_GAPS:
        with suppress(NumericalError):
            if delta_of(law, law.max_loss * (1.0 - gap)).lower >= delta:
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


def is_met(law: Composition, epsilon: float, delta: float, before: Way | None) -> bool:
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
            if line is None:
                saddle = about_saddle(law, epsilon, start)
            else:
                saddle = law.expand(min(line.t, LARGEST_PART_OF_OTHER * law.largest_t))
            if crude_delta_at(law, saddle, epsilon) <= delta:
                return True
            if law.states_errors and _is_met_further_out(law, saddle.t, epsilon, delta):
                return True
            if line is not None:
                with suppress(NumericalError):
                    for coarse in (True, False):
                        found = line_with_nodes_of(law, line, saddle, coarse=coarse).at(epsilon)
                        if _with_mass(law, found).upper <= delta:
                            return True
        for way in ways_to_sums(law, saddle, sketch=sketch, log_delta=math.log(delta)):
            with suppress(NumericalError):
                found = way.sums(epsilon, fine=False).above.at(epsilon)
                return _with_mass(law, found, way).upper <= delta
    return False


def _is_met_further_out(law: Composition, t: float, epsilon: float, delta: float) -> bool:
    """The same by single values of K at larger t, which take less time than a line of a law that states errors."""
    for further in t * FURTHER_OUT:
        if further <= law.largest_t:
            with suppress(NumericalError):
                if crude_delta_at(law, law.expand(float(further)), epsilon) <= delta:
                    return True
    return False


def _is_smooth(law: Composition) -> bool:
    """Whether there are enough rounds, and the record is in enough of them, for Laplace's method."""
    seen = math.fsum(rounds * part.seen for part, rounds in law.parts)
    return law.rounds >= LEAST_ROUNDS_OF_LAPLACE and seen >= LEAST_SEEN_OF_LAPLACE


def seems_met(law: Composition, epsilon: float, delta: float) -> bool:
    """Whether Laplace's method finds `delta` met at `epsilon`, for a law that has no line: no proof."""
    if law.most_nodes or not law.has_cells or not _is_smooth(law):
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
