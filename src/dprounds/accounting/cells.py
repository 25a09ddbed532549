r"""One round's privacy loss, put on a lattice: from above by spreading every cell, from below by merging.

With :math:`r = e^{-L}` for each round, :math:`(1 - e^\varepsilon r_1 \cdots r_T)_+` falls with each :math:`r_j` and is
convex in it. So delta can only rise if one round's loss rises, or if its r is spread with its mean kept; and only fall
if masses are dropped, or merged at their mean. docs/theory/accounting.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["Cells", "CellsOf", "LatticeLaw", "atoms_in_cells", "lower_law", "shift_through", "upper_law"]

Array = NDArray[np.float64]

# --- What carries a proof; docs/theory/accounting.md, "Lattices from cells".

# What the few operations that make a share or a mean of given masses may round, relative to them: fewer than 16 each.
OPERATIONS = 32.0 * UNIT_ROUNDOFF
# Probabilities below the range of doubles vanish, or lose their digits. For each cell the first number is counted as an
# infinite loss, or taken off its mass; a mass below the second, of which a quotient may lose digits, is treated as 0.
VANISHED = 1e-307
TINY = 1e-300

# --- What only tunes speed and tightness.

# Usually one iteration centres the heaviest group on its mean. A law whose least loss is in that group takes a few
# more, by the secant method, until the mean is this part of a step off.
SHIFTS = 8
CENTERED = 1e-7
# Merging may lower the mean loss by this part of a step before other shifts are tried, which are these parts of one:
# not round, so that the points of many rounds are not at round losses.
LITTLE_LOWERED = 1e-2
SHIFTS_TRIED = np.linspace(-0.41373, 0.42191, 5)
# Groups on either side of the heaviest one that are looked at for this.
AROUND = 128
# How far below an atom the point is that stands for it, in steps and in nats, so that it need not borrow for its
# rounding alone: above the largest loss there is nothing to borrow from.
MARGIN = 1e-7
LEAST_MARGIN = 2.0**-46
# Behind its knee a lattice has a law's points this many steps apart.
SPARSE = 16
# Groups that are looked at together for the heaviest one, which stands out if it matters.
BLOCK = 32


class Cells(NamedTuple):
    """Masses of the intervals between edges of the loss, in front of the first and behind the last one included.

    `p` and `q` are those under P and Q, known to `p_error` and `q_error`; the true ends of the intervals differ from
    the edges that were asked for by at most `blur`.
    """

    p: Array
    q: Array
    p_error: Array
    q_error: Array
    blur: float


CellsOf = Callable[[Array], Cells]


class LatticeLaw(NamedTuple):
    """Masses at the multiples `first`, `first + 1`, … of the lattice's step plus `shift`, and at infinity.

    The losses for which it stands may exceed those of the lattice by `blur`, a round.
    """

    first: int
    masses: Array
    infinite: float
    blur: float
    shift: float = 0.0


def atoms_in_cells(edges: Array, losses: Array, p: Array, q: Array, *, error: float | Array, blur: float) -> Cells:
    """The cells of atoms, by increasing loss, whose masses are known to a relative `error` and losses to `blur`."""
    first = np.append(0, np.searchsorted(losses, edges, side="right"))
    counts = np.diff(first, append=losses.size)
    masses = np.zeros((4, losses.size + 1))  # with nothing behind the last atom, where a cell may begin
    masses[:, :-1] = p, q, error * p, error * q
    # a cell without atoms has none, and not the next one, as `reduceat` has it
    p_cells, q_cells, p_error, q_error = np.where(counts > 0, np.add.reduceat(masses, first, axis=1), 0.0)
    off = 2.0 * UNIT_ROUNDOFF * counts  # the sum of a cell is rounded once for each of its atoms
    return Cells(p_cells, q_cells, p_error + off * p_cells, q_error + off * q_cells, blur)


def upper_law(
    cells_of: CellsOf,
    step: float,
    first: int,
    last: int,
    atoms: tuple[float, float] | None = None,
    knee: int | None = None,
) -> LatticeLaw:
    """A law on the lattice whose delta is at least that of the loss, after any number of rounds.

    What is above the last point counts as infinite; what is below the first is raised to it. In between the mass of a
    cell goes to both its ends so that the mean of ``exp(-loss)`` is kept, or less. From the `knee` on cells are
    `SPARSE` steps wide.
    """
    shift = 0.0 if atoms is None else shift_through(atoms[0], step)
    numbers = _numbers(first, last, knee)
    points = step * numbers + shift
    p, q, p_error, q_error, blur = cells_of(points)
    blur += 2.0 * UNIT_ROUNDOFF * float(np.abs(points[[0, -1]]).max() + abs(shift))  # what the points are rounded by
    p = p + p_error
    q = _at_least(q - q_error)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # the mean of exp(-(loss - low end)), from below; the clip to the cell's ends changes a loss by blur
        mean = q[1:-1] / p[1:-1] * np.exp(points[:-1]) * (1.0 - OPERATIONS - 2.0 * UNIT_ROUNDOFF * np.abs(points[:-1]))
        mean *= math.exp(-2.0 * blur)
        share = (1.0 - mean) / -np.expm1(-step * np.diff(numbers)) * (1.0 + OPERATIONS)
    share = np.where((share < 1.0) & (mean < np.inf), np.maximum(share, 0.0), 1.0)  # 1 also where it is not a number
    raised = p[1:-1] * share
    masses = np.zeros(points.size)
    masses[:-1] = p[1:-1] - raised
    masses[1:] += raised
    masses[0] += p[0]
    masses *= 1.0 + OPERATIONS  # more of any mass is a larger delta
    return LatticeLaw(first, _at(numbers, masses), float(p[-1]) + VANISHED * points.size, blur, shift)


def lower_law(
    cells_of: CellsOf,
    step: float,
    first: int,
    last: int,
    atoms: tuple[float, float] | None = None,
    knee: int | None = None,
) -> LatticeLaw:
    """A law on the lattice whose delta is at most that of the loss, after any number of rounds.

    Each point merges the losses up to halfway to the next at the mean of ``exp(-loss)``. A mean loss below the point
    is raised by a part of the next group, one above it is lowered by a part of the group before; if that is not
    enough, the loss is lowered to a point. What is outside is dropped. The lattice is shifted so that its heaviest
    group, which may hold nearly all of the mass, is at its mean already. Or it is laid through two atoms; the upper
    one, above which nothing may be left to borrow, is a group of its own. From the `knee` on points are `SPARSE`
    steps apart.
    """
    margin = max(MARGIN * step, LEAST_MARGIN)
    through = None if atoms is None else shift_through(atoms[0], step) - margin
    shift = _best_shift(cells_of, step, first, last) if through is None else through
    numbers = _numbers(first, last, knee)
    points = step * numbers + shift
    around = np.concatenate([2.0 * numbers[:1] - 1.0, numbers[:-1] + numbers[1:], 2.0 * numbers[-1:] + 1.0])
    edges = 0.5 * step * around + shift
    if atoms is not None:
        top = round((atoms[1] - shift) / step) - first
        if 0 < top < points.size:
            edges[top] = points[top] - margin
    p, q, p_error, q_error, blur = cells_of(edges)
    p = _at_least(p - p_error)[1:-1]
    q = (q + q_error + VANISHED)[1:-1]
    if not blur < 0.25 * step:  # groups would not be in order
        return LatticeLaw(first, _at(numbers, np.zeros(points.size)), 0.0, 0.0, shift)
    masses = _merged(p, q, points)
    return LatticeLaw(first, _at(numbers, np.maximum(masses * (1.0 - OPERATIONS), 0.0)), 0.0, 0.0, shift)


def _merged(p: Array, q: Array, points: Array) -> Array:
    """Masses at the points, from those of the groups around them."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = q / p  # the mean of exp(-loss), from above
        error = OPERATIONS + 2.0 * UNIT_ROUNDOFF * np.abs(points)
        # relative to exp(-point): of the group itself, and of its neighbours
        own = ratio * np.exp(points) * (1.0 + error)
        above = np.append(ratio[1:] * np.exp(points[:-1]) * (1.0 + error[:-1]), np.inf)
        below = np.append(np.inf, ratio[:-1] * np.exp(points[1:]) * (1.0 + error[1:]))
        # the mean is too low a loss: a part of the group above, more than enough of it
        lent = np.where(own > 1.0, p * (own - 1.0) / (1.0 - above) * (1.0 + OPERATIONS), 0.0)
        possible = (own <= 1.0) | ((above < 1.0) & (lent <= 0.25 * np.append(p[1:], 0.0)))
        lent = np.where(possible & (own > 1.0), lent, 0.0)
        # the mean is higher than need be: a part of the group below, not more than brings the mean down to the point
        rate = np.where((own < 1.0) & (below < np.inf), (1.0 - own) / (below - 1.0) * (1.0 - OPERATIONS), 0.0)
        fed = np.append(False, own[:-1] <= 1.0) & (below > 1.0) & (p > 0)
        wanted = np.where(fed & (rate > 0), rate * p, 0.0)
        wanted = np.where(wanted <= 0.25 * np.append(0.0, p[:-1]), wanted, 0.0)
        given = np.append(wanted[1:], 0.0)
        raised = np.where(wanted > 0, rate * np.maximum(p - given, 0.0), 0.0)
    masses = np.where(possible, p, 0.0)
    masses[:-1] += np.where(possible[1:], 0.0, p[1:])
    masses += lent
    # a group that was lowered whole lends from the point below it
    _take(masses, possible, np.append(0.0, lent[:-1]))
    masses += raised
    _take(masses, possible, np.append(raised[1:], 0.0))
    return masses


def _numbers(first: int, last: int, knee: int | None) -> Array:
    """The multiples of the step at which a law has its points: all, or sparse ones from the knee on."""
    if knee is None or not first < knee < last:
        return np.arange(first, last + 1, dtype=np.float64)
    return np.concatenate([np.arange(first, knee), np.arange(knee, last + SPARSE, SPARSE)]).astype(np.float64)


def _at(numbers: Array, masses: Array) -> Array:
    """Masses at these multiples of the step, and nothing at those between them."""
    found = np.zeros(int(numbers[-1] - numbers[0]) + 1)
    found[(numbers - numbers[0]).astype(np.intp)] = masses
    return found


def shift_through(atom: float, step: float) -> float:
    """How far from the multiples of the step a lattice is that has a point at the atom."""
    return atom - step * round(atom / step)


def _at_least(masses: Array) -> Array:
    """Lower bounds of masses, parts of which may have vanished."""
    return np.where(masses > TINY, masses - VANISHED, 0.0)


def _best_shift(cells_of: CellsOf, step: float, first: int, last: int) -> float:
    """A shift at which merging lowers the mean loss of the heaviest groups by little.

    As a rule the heaviest group is at its mean, and the next ones are nearly so. If not, a few other shifts are tried.
    """
    shift, heaviest = _heaviest_mean(cells_of, step, first, last)
    numbers = np.arange(max(heaviest - AROUND, first), min(heaviest + AROUND, last) + 1, dtype=np.float64)

    def lowered(shift: float) -> float:
        points = step * numbers + shift
        cells = cells_of(np.append(points - 0.5 * step, points[-1] + 0.5 * step))
        p, q = cells.p[1:-1], cells.q[1:-1]
        held = (p > TINY) & (q > TINY)
        means = np.log(p[held]) - np.log(q[held])
        # a group below which there is no point is dropped, which costs more than any shift
        return float(p[held] @ (1.0 + means) - _merged(p, q, points) @ (1.0 + points))

    best = lowered(shift)
    if not best > LITTLE_LOWERED * step:
        return shift
    tried = {one: lowered(one) for one in (step * SHIFTS_TRIED).tolist()}
    found = min(tried, key=lambda one: tried[one])
    return found if tried[found] < 0.5 * best else shift


def _heaviest_mean(cells_of: CellsOf, step: float, first: int, last: int) -> tuple[float, int]:
    """How far from its middle the mean loss of the heaviest group is, if groups are moved along; and its number."""
    edges = 0.5 * step * np.arange(2 * first - 1, 2 * last + 2, 2, dtype=np.float64)
    block = BLOCK * int(np.argmax(cells_of(edges[::BLOCK]).p[1:]))
    heaviest = block + 1 + int(np.argmax(cells_of(edges[block : block + BLOCK + 1]).p[1:-1]))
    middle = 0.5 * float(edges[heaviest - 1] + edges[heaviest])
    shift, last_shift, last_off = 0.0, math.nan, math.nan
    for _ in range(SHIFTS):
        p, q = cells_of(edges[heaviest - 1 : heaviest + 1] + shift)[:2]
        if not (p[1] > 0 and q[1] > 0):
            return 0.0, first + heaviest - 1
        off = math.log(p[1]) - math.log(q[1]) - middle - shift
        if abs(off) <= CENTERED * step and not math.isnan(last_off):
            break
        rate = (last_off - off) / (shift - last_shift) if shift != last_shift else math.nan
        last_shift, last_off = shift, off
        # a mean moves with its group, and less than it
        shift = min(max(shift + (off / rate if 0.1 < rate < 1.0 else off), -0.5 * step), 0.5 * step)
    # a margin lower, so that the group need not borrow for its rounding alone
    return shift - 1e-6 * step, first + heaviest - 1


def _take(masses: Array, at_home: NDArray[np.bool_], amounts: Array) -> None:
    """Subtract what each group gives away from the point at which its mass lies: its own, or the one below."""
    masses -= np.where(at_home, amounts, 0.0)
    masses[:-1] -= np.where(at_home[1:], 0.0, amounts[1:])
