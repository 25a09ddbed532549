r"""The law of a privacy loss: all that the exact accountant knows of a round, and of many rounds together.

With :math:`(P, Q)` the worst pair of one direction and :math:`L = \log dP/dQ` under :math:`P`,

.. math:: K(z) = \log E_P[e^{zL};\, L < \infty] .

`LossLaw` is one round. A `Composition` is a bag of laws, each with its number of rounds, over which K, ceilings and
largest losses add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket
from dprounds.accounting.cells import CellsOf
from dprounds.accounting.contradictions import refuse_contradictions
from dprounds.accounting.over_rounds import least_mass, probability_of_any, sum_of_losses, total_over_rounds
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.sums import Sum
from dprounds.accounting.turnable import Turnable
from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above

__all__ = [
    "LOG_MOMENT_ERROR",
    "MAX_LOSS_ERROR",
    "MOST_NODES",
    "Composition",
    "Events",
    "Family",
    "Lattice",
    "LossLaw",
    "Slopes",
]

Array = NDArray[np.float64]
Ceiling = Callable[[float, Array], Array]
Excess = Callable[[float], Bracket]
Slopes = Callable[[Numbers, Numbers], Mapping[str, Numbers]]

# --- What carries a proof; docs/theory/accounting.md has the propositions.

# The error of one round's M that a line allows for, relative to M(t) and to the size of what K is made of
# (docs/theory/accounting.md, "Rounding"). Measured: the moment functions of this library stay below it.
LOG_MOMENT_ERROR = 1e-13
# Largest losses are logarithms of a few terms, and their sums over parts are rounded once: far closer than this.
MAX_LOSS_ERROR = 1e-9

# --- What only tunes speed.

# On the axis a moment is not used if its stated error is not below this part of it.
LARGEST_MOMENT_ERROR = 1e-3
# Values of K that one line may cost, where K is a closed form: some 10 ms.
MOST_NODES = 2**16
# A sum that a virtual Gaussian ends needs nearly all of the nodes that it may have; with fewer its bracket is too wide.
FEWEST_SMOOTHED = 2**12
# From this number of parts on, those of one family are computed together.
MANY = 8
# Relative spacing of the three points from which slope and curvature are taken: K may bend within a hundredth of t,
# where a rare large loss takes over, and the rounding of K, 1e-13 at most, is magnified by 3e5.
SPACING = 1.0 / 512.0
# K(t)/t is compared with the largest loss at t = this number over it, where the two are so near to each other that a
# largest loss 1 % too small is seen as a rule.
SEEN = 1000.0
FARTHEST = 1e300


class Family(Protocol):
    """Laws that differ by a few numbers, many of them computed at once; a member is a row of these numbers.

    Two families that compare equal are the same.
    """

    def log_moments(self, members: Array, z: Numbers) -> Numbers | None:
        """K of each member, a row for each, at real points or on a vertical line; None where it is out of reach."""
        ...

    def ceiling(self, members: Array, rounds: Array, t: float, s: Array) -> Array | None:
        """The sum over the rounds of the members' ceilings; None where it is out of reach."""
        ...


class Lattice(NamedTuple):
    """Where all losses of a law lie: at `shift` plus multiples of `step`, each at most `blur` away from there."""

    step: Fraction
    shift: Fraction
    blur: float = 0.0


class Events(NamedTuple):
    """Laws of a run on events that exclude each other, and at least the probability of all other outputs."""

    laws: tuple[Composition, ...]
    missing: float


@dataclass(frozen=True, kw_only=True, eq=False)
class LossLaw:
    r"""One round of a mechanism in one direction, as the law of its privacy loss.

    A law that contradicts itself is refused when it is made; nothing after this door asks again.

    Parameters
    ----------
    log_moment
        K at rows of real or complex z with positive real part, on some branch of the logarithm.
    of
        The mechanism whose law it is, as messages name it.

    *What bounds rest on:*

    moment_error
        ``moment_error(z)``: bounds on the errors of M(z) relative to M(Re z), where the law states them. None where
        they are `LOG_MOMENT_ERROR` of the size of what K is made of.
    is_accurate
        Whether K is accurate relative to itself even where M is small against M(t), as that of a Gaussian is.
    ceiling
        ``ceiling(t, s)``, for an increasing row s: upper bounds of the real part of K on the half-lines from
        ``t + is`` upward, or up to half of K's period if the losses lie on a lattice; ``inf`` where none is known. None
        where nothing is known to fall: then K(t) is the bound.
    log_moment_above
        Upper bounds of K at a row of real points, where they cost less than K itself.
    lattice
        Where the losses lie, if they are those of one lattice.
    infinite_mass
        An upper bound on :math:`P(L = \infty)`, in [0, 1], from which `least_mass` makes a lower one.
    left_out
        An upper bound on the probability of outputs that K leaves out. From above they count as infinite losses, and
        from below as nothing. It is 1 for the law of an event, which is no law of a whole run.
    max_loss
        An upper bound on the finite losses; `inf` where there is none.
    exact_max_loss
        The same as a ratio of integers, where it is known exactly.
    max_loss_is_least
        Whether no upper bound is below `max_loss` by more than `MAX_LOSS_ERROR` of it.
    seen
        An upper bound on the probability that the record is seen at all: no delta exceeds it.
    is_attained
        Whether some pair of neighbours has this law. Else the law bounds from above alone.

    *Other ways to a sum, where they are known:*

    cells
        The masses of intervals of the loss under P and Q, from which a lattice is made.
    excess
        ``excess(level)``: the largest :math:`P(A) - e^{level} Q(A)` over events, in closed form.
    normal_distance
        The distance of two normal laws of variance one that are as hard to tell apart.
    summed
        ``summed(rounds)``: delta of that many rounds as a sum that needs no line and brackets itself; or None.
    turnable
        The log-ratio behind the loss and its law off the real axis, for levels.
    events
        ``events(rounds, log_delta)``: so many rounds by events of which each has a short line, where a rare large loss
        makes that of the whole a long one; or None.

    *What only tunes speed and tightness:*

    atoms
        Two losses that have a probability of their own, if there are such: a lattice is laid through both.
    ceiling_is_costly
        Whether a ceiling takes longer than a rough picture of the profile, which tells where a line serves.
    fewest_falling
        Of fewer rounds than this the ceiling is not asked for, since they hardly fall.
    largest_t
        Lines are put no further out than here; K itself is known up to about twice as far, on the axis.
    most_nodes
        How many values of K one line may cost; 0 where K is out of reach of any line.
    lattice_precision
        The part of epsilon that a lattice of this law may cost, if more than the least: digits are of no use where no
        neighbours are known to come near the law.
    slopes
        ``slopes(z, K(z))``: the derivatives of K at a row z by the parameters of the mechanism, by name, for
        sensitivities, which prove nothing.
    family, member
        What computes K and ceilings of many such laws at once, and this one's parameters there.
    """

    log_moment: Callable[[Numbers], Numbers]
    of: object = "A law"

    moment_error: Callable[[Numbers], Array] | None = None
    is_accurate: bool = False
    ceiling: Ceiling | None = None
    log_moment_above: Callable[[Array], Array] | None = None
    lattice: Lattice | None = None
    infinite_mass: float = 0.0
    left_out: float = 0.0
    max_loss: float = math.inf
    exact_max_loss: Fraction | None = None
    max_loss_is_least: bool = False
    seen: float = 1.0
    is_attained: bool = True

    cells: CellsOf | None = None
    excess: Excess | None = None
    normal_distance: float | None = None
    summed: Callable[[int], Sum | None] | None = None
    turnable: Turnable | None = None
    events: Callable[[int, float], Events | None] | None = None

    atoms: tuple[float, float] | None = None
    ceiling_is_costly: bool = False
    fewest_falling: float = 0.0
    largest_t: float = math.inf
    most_nodes: int = MOST_NODES
    lattice_precision: float = 0.0
    slopes: Slopes | None = None
    family: Family | None = None
    member: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a law that contradicts itself."""
        if not self.most_nodes or self.left_out == 1:  # no value of K contradicts a law that may leave out everything
            refuse_contradictions(self.of, self.max_loss, mass_from_above(self), np.empty(0), np.empty(0))
            return
        far = 1.0
        if self.most_nodes >= FEWEST_SMOOTHED and 0 < self.max_loss < math.inf:
            far = min(SEEN / self.max_loss, FARTHEST)
        t = np.array([1.0, far])
        values = np.empty(0)
        with np.errstate(all="ignore"), suppress(NumericalError, OverflowError):  # refused where it is used
            values = np.asarray(np.real(self.log_moment(t)))
        refuse_contradictions(self.of, self.max_loss, mass_from_above(self), t[: values.size], values)

    def __mul__(self, rounds: int) -> Composition:
        """This law, of independent rounds."""
        return Composition(((self, rounds),) if rounds else ())

    __rmul__ = __mul__


@dataclass(frozen=True, eq=False)
class Composition:
    """Laws of one direction, each with its number of independent rounds: the law of the sum of their losses."""

    parts: tuple[tuple[LossLaw, int], ...] = ()

    def __add__(self, other: Composition) -> Composition:
        """The sum of both losses."""
        return Composition((*self.parts, *other.parts))

    @cached_property
    def _weighted(self) -> list[tuple[float, LossLaw]]:
        return [(float(rounds), law) for law, rounds in self.parts]

    @cached_property
    def _families(self) -> dict[Family, list[int]]:
        """The parts of each family, where there are many of them."""
        found: dict[Family, list[int]] = {}
        if len(self.parts) >= MANY:
            for i, (law, _) in enumerate(self.parts):
                if law.family is not None:
                    found.setdefault(law.family, []).append(i)
        return {family: members for family, members in found.items() if len(members) >= MANY}

    def _members(self, parts: list[int]) -> Array:
        return np.array([self.parts[i][0].member for i in parts], dtype=np.float64)

    def _log_moments(self, z: Numbers) -> list[Numbers]:
        """K of one round of each part."""
        found: dict[int, Numbers] = {}
        for family, parts in self._families.items():
            values = family.log_moments(self._members(parts), z)
            if values is not None:
                found.update(zip(parts, values, strict=True))
        return [found[i] if i in found else law.log_moment(z) for i, (law, _) in enumerate(self.parts)]

    def log_moment(self, z: Numbers) -> Numbers:
        """K of the sum."""
        nothing: Numbers = np.zeros_like(z)
        rounds = [rounds for _, rounds in self.parts]
        return total_over_rounds(zip(self._log_moments(z), rounds, strict=True), nothing)

    def moment_error(self, z: Numbers) -> Array:
        """The sum over all rounds of the errors of their M(z), relative to M(Re z), that the laws state themselves."""
        return total_over_rounds(((_log_error(law, z), rounds) for law, rounds in self.parts), np.zeros(z.shape))

    def error_on_axis(self, t: float) -> float:
        """The same at one real point: a bound on the error of K there."""
        return float(self.moment_error(np.array([t]))[0]) if self.states_errors else 0.0

    @cached_property
    def states_errors(self) -> bool:
        """Whether a part states errors of its own."""
        return any(law.moment_error is not None for law, _ in self.parts)

    @cached_property
    def is_event(self) -> bool:
        """Whether a part is the law of an event."""
        return any(law.left_out == 1 for law, _ in self.parts)

    def log_moment_above(self, t: Array) -> Array | None:
        """Upper bounds of K of the sum at real points, where all parts know them at little cost."""
        found = np.zeros(t.size)
        for rounds, law in self._weighted:
            if law.log_moment_above is None:
                return None
            found += rounds * law.log_moment_above(t)
        return above(found, 4.0 * len(self.parts) * UNIT_ROUNDOFF * np.abs(found))

    @cached_property
    def largest_t(self) -> float:
        """Lines are put no further out than here."""
        return min((law.largest_t for law, _ in self.parts), default=math.inf)

    @cached_property
    def has_costly_lines(self) -> bool:
        """Whether a line in a poor place costs more than a rough picture of the profile, which tells a good one."""
        return self.falls and self.has_cells and any(law.ceiling_is_costly for law, _ in self.parts)

    @property
    def is_attained(self) -> bool:
        """Whether some pair of neighbours has this law."""
        return all(law.is_attained for law, _ in self.parts)

    @property
    def lattice_precision(self) -> float:
        """The part of epsilon that a lattice may cost, if more than the least."""
        return max((law.lattice_precision for law, _ in self.parts), default=0.0)

    def from_above(self, precision: float) -> Composition:
        """The same for bounds from above alone, for which a lattice may cost this part of epsilon."""
        return Composition(
            tuple(
                (replace(law, is_attained=False, lattice_precision=max(law.lattice_precision, precision)), rounds)
                for law, rounds in self.parts
            )
        )

    def expand(self, t: float) -> Saddle:
        r"""K at t, and what a line there needs of its surroundings.

        `steepest` is the larger of the differences to both sides, between which the slope of a convex function is;
        `square` follows from :math:`e^y + e^{-y} \ge 2 + y^2`.
        """
        h = SPACING * t
        value = slope = curvature = steepest = square = 0.0
        values_by_part = []
        values = self._log_moments(t * np.array([1.0 - SPACING, 1.0, 1.0 + SPACING]))
        for (rounds, law), row in zip(self._weighted, values, strict=True):
            low, middle, high = np.real(row).tolist()
            values_by_part.append(middle)
            value += rounds * middle
            slope += rounds * (high - low) / (2.0 * h)
            curvature += rounds * max((high - middle) - (middle - low), 0.0) / (h * h)
            if law.moment_error is not None:  # its errors are stated, and need no sizes
                continue
            # the slope is between the two differences; it may be negative where mass is at infinity
            steepest += rounds * max(abs(high - middle), abs(middle - low)) / h
            square += rounds * _second_moment(law, t, h, low - middle, middle, high - middle)
        return Saddle(t, value, slope, curvature, steepest, square, tuple(values_by_part))

    def ceiling(self, saddle: Saddle, s: Array) -> Array | None:
        """Upper bounds of the real part of K on the line of a saddle point, from each s on; None if no part falls.

        They hold on half-lines, or up to half of K's period where all losses lie on one lattice.
        """
        ceilings = [self._ceiling_of(law, rounds) for law, rounds in self.parts]
        if all(ceiling is None for ceiling in ceilings):
            return None
        total, done = np.zeros_like(s), set()
        for family, parts in self._families.items():
            rounds_of = np.array([self._weighted[i][0] for i in parts])
            found = family.ceiling(self._members(parts), rounds_of, saddle.t, s)
            if found is not None:
                values = np.array([saddle.values_by_part[i] for i in parts])
                total += np.minimum(found, float(rounds_of @ (values + LOG_MOMENT_ERROR * np.abs(values))))
                done.update(parts)
        for i, (value, ceiling) in enumerate(zip(saddle.values_by_part, ceilings, strict=True)):
            if i in done:
                continue
            rounds, law = self._weighted[i]
            # |M| <= M(t) on all of the line
            flat = value + LOG_MOMENT_ERROR * abs(value) + _error_on_axis(law, saddle.t)
            total += rounds * (np.full_like(s, flat) if ceiling is None else np.minimum(ceiling(saddle.t, s), flat))
        return total

    def _ceiling_of(self, law: LossLaw, rounds: int) -> Ceiling | None:
        """The ceiling of a part: a law on a lattice rises again after its period, if the others have another one."""
        if rounds < law.fewest_falling:
            return None
        return law.ceiling if law.lattice is None or self.lattice is not None else None

    @cached_property
    def falls(self) -> bool:
        """Whether a part is known to fall along the line."""
        return any(self._ceiling_of(law, rounds) is not None for law, rounds in self.parts)

    @cached_property
    def infinite_mass(self) -> float:
        """An upper bound on the probability that some round has infinite loss, or an output that is left out."""
        return probability_of_any((mass_from_above(law), rounds) for law, rounds in self.parts)

    @cached_property
    def infinite_mass_by_events(self) -> float:
        """The same for sums of events, which count what they leave out themselves."""
        if any(law.events is None for law, _ in self.parts):
            return self.infinite_mass
        return probability_of_any((law.infinite_mass, rounds) for law, rounds in self.parts)

    @cached_property
    def least_infinite_mass(self) -> float:
        """A lower bound on the probability that some round has infinite loss."""
        return least_mass_of(self.parts)

    @cached_property
    def seen(self) -> float:
        """An upper bound on the probability that the record is seen at all."""
        if any(law.seen >= 1 for law, _ in self.parts):
            return 1.0
        return probability_of_any((law.seen, rounds) for law, rounds in self.parts)

    @cached_property
    def max_loss(self) -> float:
        """The least double that is not below the sum of the largest losses."""
        return sum_of_losses(
            (law.max_loss if law.exact_max_loss is None else law.exact_max_loss, rounds) for law, rounds in self.parts
        )

    @cached_property
    def fewest_rounds(self) -> float:
        """The least rounds of any part whose M is known only relative to M(t); `inf` if there is none."""
        return min((rounds for rounds, law in self._weighted if not law.is_accurate), default=math.inf)

    @cached_property
    def most_nodes(self) -> int:
        """How many values of K one line may cost."""
        return min((law.most_nodes for law, _ in self.parts), default=MOST_NODES)

    @property
    def is_cheap(self) -> bool:
        """Whether K is cheap enough, also far up a line, for a sum that only a virtual Gaussian ends."""
        return self.most_nodes >= FEWEST_SMOOTHED

    @cached_property
    def rounds(self) -> int:
        """The number of rounds."""
        return sum(rounds for _, rounds in self.parts)

    @cached_property
    def has_cells(self) -> bool:
        """Whether a lattice can be made of every part."""
        return all(law.cells is not None for law, _ in self.parts)

    @cached_property
    def lattice(self) -> Lattice | None:
        """Where all sums of losses lie, if the parts have lattices of one step."""
        step, shift, blur = None, Fraction(0), 0.0
        for law, rounds in self.parts:
            if law.lattice is None or step not in (None, law.lattice.step):
                return None
            step = law.lattice.step
            shift += rounds * law.lattice.shift
            blur += float(rounds) * law.lattice.blur
        # a product and a sum for each part round by far less than a billionth
        return None if step is None else Lattice(step, shift, blur * (1.0 + 1e-9))

    @cached_property
    def normal_distance(self) -> float | None:
        """The distance of the two normal laws that all rounds together are, if each of them is such a pair."""
        distances = [law.normal_distance for law, _ in self.parts]
        if not distances or any(distance is None for distance in distances):
            return None
        return math.hypot(*(math.sqrt(rounds) * (law.normal_distance or 0.0) for rounds, law in self._weighted))

    def refuse_contradictions(self, t: Array, values: Array) -> None:
        """Raise where values K(t) on the real axis contradict the largest loss."""
        refuse_contradictions(
            self.parts[0][0].of if self.parts else "An empty run", self.max_loss, self.infinite_mass, t, values
        )


def mass_from_above(law: LossLaw) -> float:
    """What counts as an infinite loss from above. A mass outside of [0, 1] is kept, so that it is refused elsewhere."""
    return min(law.infinite_mass + law.left_out, 1.0) if law.left_out > 0 else law.infinite_mass


def least_mass_of(parts: Iterable[tuple[LossLaw, int]]) -> float:
    """A lower bound on the probability of an infinite loss: outputs that are left out may have none."""
    return least_mass(probability_of_any((law.infinite_mass, rounds) for law, rounds in parts))


def _second_moment(law: LossLaw, t: float, h: float, fall: float, value: float, rise: float) -> float:
    """A bound on E[L^2] under one round's law tilted by t, from K at t and by how much it differs h to either side."""
    if rise > 1.0:  # too far apart for the bound to be close
        h /= rise
        below, beyond = np.real(law.log_moment(np.array([t - h, t + h]))).tolist()
        fall, rise = below - value, beyond - value
    rounding = 8.0 * LOG_MOMENT_ERROR * abs(value)
    return (max(math.expm1(min(rise, 700.0)) + math.expm1(min(fall, 700.0)), 0.0) + rounding) / (h * h)


def _log_error(law: LossLaw, z: Numbers) -> Array:
    """A bound on the error of K on the axis, from that of M, and of M relative to M(Re z) elsewhere."""
    if law.moment_error is None:
        return np.zeros(z.shape)
    error = law.moment_error(z)
    return np.where(error < LARGEST_MOMENT_ERROR, -np.log1p(-np.minimum(error, LARGEST_MOMENT_ERROR)), math.inf)


def _error_on_axis(law: LossLaw, t: float) -> float:
    return 0.0 if law.moment_error is None else float(_log_error(law, np.array([t]))[0])
