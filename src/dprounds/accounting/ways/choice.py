"""The ways to sums that bracket delta for one law, and which of them is tried first.

| way | to |
|---|---|
| `by_sum.py` | a finite sum that the law knows of itself |
| `by_events.py` | a line for each of some events |
| `by_line.py` | a line of the law itself |
| `by_levels.py` | a line for each size that the largest round may have |
| `by_lattice.py` | the lines of two lattices, from above and from below |

They choose and prove nothing: the sums that they make prove their own brackets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

from dprounds.accounting.law import Composition
from dprounds.accounting.line import Line
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.sums import Sum, Sums
from dprounds.accounting.ways.by_events import ByEvents
from dprounds.accounting.ways.by_lattice import ByLattice
from dprounds.accounting.ways.by_levels import ByLevels
from dprounds.accounting.ways.by_line import ByLine
from dprounds.accounting.ways.by_sum import BySum
from dprounds.accounting.ways.sketch import Sketch

__all__ = ["Way", "near_by_levels", "near_by_lines", "ways_to_sums"]

# All of these tune speed and tightness.
# The skewness of the sum of e^L above which levels are tried before a line, and the largest rate at which they are.
LARGEST_SKEWNESS = 1.0
LARGEST_RATE_OF_LEVELS = 0.2
# A line goes up to about ten over q sqrt(T), in deviations of the log-ratio, and a value of K costs more the larger its
# imaginary part is: where q sqrt(T) is below this, levels are faster. It is twice as much if the noise is below ten.
LEAST_SPREAD_OF_LINES = 0.04
# With few rounds, and a noise of more than one over this deviation, a line falls late, and q sqrt(T) must be more: this
# over the number of rounds.
FEW_ROUNDS = 12
LEAST_SPREAD_OF_FEW = 3.0
DEVIATION_OF_FEW = 0.2
# Fewer rounds do not fall far enough for a line that is watched.
FEWEST_WATCHED = 16
# From this number of rounds on a line of no more nodes than SHORT_LINE is tried before a finite sum.
MANY_ROUNDS = 64
SHORT_LINE = 2**12


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
    # of many rounds a line takes less time than a finite sum if it falls, and is refused at once if it does not
    line_first = rounds >= MANY_ROUNDS and law.falls and law.lattice is None
    if summed is not None and not line_first:
        yield from _by_sum(law, summed(rounds), start)
    is_aligned = any(part.atoms is not None for part, _ in law.parts)  # then a lattice resolves the loss well
    # without a ceiling nothing but a virtual Gaussian ends a line, far up; one without nodes says at once why
    may_end = law.is_cheap or not law.most_nodes
    on_line = law.lattice is not None or law.falls or (may_end and not is_aligned)
    has_levels = _has_levels(law)
    levels_first = has_levels and _levels_first(law)
    if levels_first:
        yield ByLevels(law, known_sketch=sketch, expected=log_delta)
    # what is watched is known to `LOG_MOMENT_ERROR`, and not to errors that laws state themselves
    is_watched = law.lattice is None and law.most_nodes > 0 and law.rounds >= FEWEST_WATCHED and not law.states_errors
    is_watched = is_watched and (not law.falls or len(law.parts) > 1)
    watched = ByLine(law, start=start, watched=True)
    if is_watched and not law.falls and law.is_cheap:
        yield watched
    is_smoothed = not (law.has_cells and (law.falls or is_aligned))
    if summed is not None and line_first:
        yield ByLine(law, False, min(most_nodes or SHORT_LINE, SHORT_LINE), start)
        yield from _by_sum(law, summed(rounds), start)
    if part is not None and part.events is not None:
        yield ByEvents(law, start, expected=log_delta)
    if on_line:
        yield ByLine(law, is_smoothed, most_nodes, start)
    if has_levels and not levels_first:
        yield ByLevels(law, known_sketch=sketch, expected=log_delta)
    if is_watched and law.falls and law.is_cheap:
        yield watched
    if law.has_cells and not law.infinite_mass:
        yield ByLattice(law, from_below, log_delta=log_delta)
    # values of K far up take longer than a lattice; and what would fall with more rounds does not stay small with few
    if is_watched and not law.is_cheap and all(part.ceiling is None for part, _ in law.parts):
        yield watched
    if law.is_cheap and not (on_line and is_smoothed):
        yield ByLine(law, True, most_nodes, start)


def near_by_levels(law: Composition, epsilon: float) -> Iterator[Way]:
    """Levels made near an epsilon that another way has found: by a poor guess they are refused, or wide."""
    if _has_levels(law):
        yield ByLevels(law, near=epsilon)


def near_by_lines(law: Composition, epsilon: float) -> Iterator[Way]:
    """Lines made near such an epsilon, where `ways_to_sums` has not put one there already."""
    if law.falls and law.lattice is None and not law.has_costly_lines:
        yield ByLine(law, smoothed=False, near=epsilon)
    if law.is_cheap and law.lattice is None:
        yield ByLine(law, near=epsilon)


def _by_sum(law: Composition, known: Sum | None, start: Saddle | float) -> Iterator[Way]:
    if known is not None:
        yield BySum(law, known, start)


def _has_levels(law: Composition) -> bool:
    return len(law.parts) == 1 and law.rounds > 1 and law.parts[0][0].turnable is not None and law.has_cells


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
