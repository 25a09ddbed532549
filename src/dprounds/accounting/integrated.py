r"""Delta from the integral of a profile, for a release whose integral no pair of neighbours exceeds.

With :math:`\zeta(y) = y - 1 + e^{-y}` the integral of a profile from x on is

.. math:: W(x) = \int_x^\infty \delta(y)\,dy = E_P[\zeta((L - x)_+)] .

Where W of every round is at most that of a law, whatever was seen before, so is W of all rounds; and for every s > 0

.. math:: \delta(\varepsilon) \le c(s)\,W(\varepsilon - s), \qquad c(s) = \max_{y > 0} \frac{1 - e^{-y}}{\zeta(y + s)} .

docs/theory/fixed-size.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.crude import crude_integrals
from dprounds.accounting.law import Composition
from dprounds.accounting.line import Line
from dprounds.accounting.profile import Profile
from dprounds.accounting.root import guessed_root
from dprounds.accounting.sums import Sum, WithinDoubles
from dprounds.accounting.ways.by_lattice import ByLattice
from dprounds.accounting.ways.by_levels import ByLevels
from dprounds.accounting.ways.choice import ways_to_sums
from dprounds.errors import NumericalError
from dprounds.numerics.cancellation import exp_minus_tangent
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.search import increasing_root

__all__ = ["IntegratedProfile", "integrals_of_chords", "largest_ratio"]

Array = NDArray[np.float64]

# --- What carries a proof.

# A sum of a few hundred positive terms, each of a few roundings.
SUM_ERROR = 1e-12

# --- What only tunes speed and tightness.

# Where integrals begin: so far below epsilon, in units of the length over which delta falls by a factor e. Around the
# vertex of a parabola through the best three there are more, so many times, relative to the distance of these.
BELOW = np.array([0.2, 0.5, 0.8, 1.1, 1.5])
AROUND = np.array([-0.15, 0.0, 0.15])
CLOSER = 2
MOST_ROWS = 8
# From so far up on, times one over the t of a line, K at some multiples of that t bounds the integral: from the first
# of these places at which that is so small a part of it. Or K at some low t does, up to so far from epsilon.
LAST = np.geomspace(10.0, 20_000.0, 24)
AROUND_LINE = np.array([0.01, 0.03, 0.07, 0.15, 0.3, 0.6, 1.0, 1.5])
LOW = np.geomspace(0.25, 64.0, 17)
FARTHEST = 40.0
NEGLIGIBLE = 1e-8
# Up to this number of epsilons of a row have starting points of their own; rows of fewer rounds than
# FEWEST_ROUNDS_OF_ROWS are not computed.
MOST_PLACES = 24
MOST_PLACES_ON_LATTICES = 6
FEWEST_ROUNDS_OF_ROWS = 8
# A line whose upper bound of delta is so close tells its integral well.
NARROW = 1e-4
# A place at which the logarithm of delta is further off than this is none for an epsilon.
FAR_OFF = 3.0
# Where chords of delta begin, in the same units, closely around epsilon; and so many more of them, further up, where
# delta is wanted to about this part of itself.
CHORDS = np.arange(-1.6, 3.0, 0.1)
MOST_FAR = 16
ROUGH = 0.3
NARROW_OF_CHORDS = 1e-3
# Further up a lattice is enough that tells delta to this part of it.
ROUGH_BEYOND = 0.02
# The part of a root that is taken for it, so that it is below the root, which is checked.
SMALLER = 1.0 - 1e-7
# Values of s, and how much larger than the table says s is taken, so that its ratio is not above what is wanted.
SHIFTS = np.geomspace(1e-6, 1e6, 2000)
ENLARGED = 1.0 + 1e-5


def largest_ratio(s: Array) -> Array:
    r"""c(s) from above, for a row of s in [1e-7, 1e7].

    The maximum is where :math:`e^y - 1 - y = \zeta(s)`, and is :math:`e^{-y} / (1 - e^{-y-s})` there, which falls with
    y: a smaller y is on the safe side.
    """
    level = exp_minus_tangent(-s)
    y = SMALLER * increasing_root(
        lambda y, level: (exp_minus_tangent(y) - level, np.expm1(y)),
        np.full_like(s, 1e-300),
        np.full_like(s, 700.0),
        np.minimum(np.sqrt(2.0 * level), np.log1p(2.0 * level + np.sqrt(2.0 * level))),
        level,
        rtol=1e-9,
    )
    found = np.exp(-y) / -np.expm1(-(y + s)) * (1.0 + SUM_ERROR)
    return np.where(exp_minus_tangent(y) < level, found, np.inf)


@lru_cache(maxsize=1)
def _ratios() -> Array:
    """`largest_ratio` of all `SHIFTS`: it falls."""
    return largest_ratio(SHIFTS)


@dataclass(frozen=True, eq=False)
class IntegratedProfile:
    """What the integrals of the profiles of some laws, one for each direction, prove of a release.

    Guarantee
    ---------
    Every method raises `NumericalError`, or returns upper bounds, if in each direction the integral of the release's
    profile is nowhere above that of the law.
    """

    laws: Mapping[str, Composition]

    @cached_property
    def different(self) -> list[Composition]:
        """The laws, without one that is the same in both directions."""
        return list({law.parts: law for law in self.laws.values()}.values())

    def epsilon(self, delta: float, *, near: float) -> float:
        """An epsilon at which delta is at most `delta`, in (0, 1), given about that of the laws themselves."""
        found = 0.0
        for law in self.different:
            place = _Place(law, near, math.log(delta))
            here, _ = place.best(lambda x, integrals: _epsilons(x, integrals, delta))
            if not here < math.inf:
                raise NumericalError("The integral of the profile of this run tells no epsilon.")
            found = max(found, here)
        return found * (1.0 + SUM_ERROR)

    def deltas(self, epsilons: Array) -> Array:
        """Delta at every epsilon of a row, in [0, inf)."""
        found = np.zeros_like(epsilons)
        for law in self.different:
            found = np.maximum(found, self._bounds(law, epsilons)[0])
        return np.minimum(found, 1.0)

    def best_place(self, epsilon: float) -> float:
        """Where the integral begins that proves the least delta at an epsilon, in the first direction."""
        return float(self._bounds(self.different[0], np.array([epsilon]))[1][0])

    def _bounds(self, law: Composition, epsilons: Array) -> tuple[Array, Array]:
        """What one law proves of delta at every epsilon of a row, and where the integrals begin that do."""
        if epsilons.size == 1:
            epsilon = float(epsilons[0])
            best, place = _Place(law, epsilon).best(lambda x, integrals: _deltas(np.array([epsilon]), x, integrals)[0])
            return np.array([best]), np.array([place])
        if law.rounds < FEWEST_ROUNDS_OF_ROWS:
            raise NumericalError("The profile itself tells more of so few rounds.")
        most = MOST_PLACES if law.most_nodes else MOST_PLACES_ON_LATTICES
        places = np.unique(np.quantile(epsilons, np.linspace(0.0, 1.0, min(most, epsilons.size))))
        x, integrals = _pooled(law, places)
        bounds = _deltas(epsilons, x, integrals)
        best = np.argmin(bounds, axis=1)
        return bounds[np.arange(epsilons.size), best], x[best]


def _epsilons(x: Array, integrals: Array, delta: float) -> Array:
    """Epsilons at which the integral from each x on proves `delta`, infinite where it does not: c falls with s."""
    with np.errstate(divide="ignore"):
        s = ENLARGED * np.exp(np.interp(np.log(delta / integrals), np.log(_ratios()[::-1]), np.log(SHIFTS[::-1])))
    found = x + s + 4.0 * UNIT_ROUNDOFF * (np.abs(x) + s)
    return np.where(largest_ratio(s) * integrals <= delta, found, np.inf)


def _deltas(epsilons: Array, x: Array, integrals: Array) -> Array:
    """Bounds of delta at every epsilon, a row each, by the integral from each x on; infinite where it proves none."""
    s = np.subtract.outer(epsilons, x) * (1.0 - SUM_ERROR)
    inside = (s > SHIFTS[0]) & (s < SHIFTS[-1])
    # c falls with s: a smaller s of the table is on the safe side, and interpolation is not
    ratios = np.where(inside, largest_ratio(np.where(inside, s, 1.0).ravel()).reshape(s.shape), np.inf)
    with np.errstate(invalid="ignore"):
        return np.where(inside, ratios * integrals, np.inf)


def _pooled(law: Composition, places: Array) -> tuple[Array, Array]:
    """Starting points around all places, and the integrals from there on."""
    found = []
    here: _Place | None = None
    for place in places.tolist():
        with suppress(NumericalError):  # far out, where delta is below the doubles
            here = (here and here.moved(place)) or _Place(law, place)
            x = place - BELOW / here.rate
            found.append((x, here.integrals(x)))
    if not found:
        raise NumericalError("The profile of this run does not fall here.")
    x, integrals = (np.concatenate(rows) for rows in zip(*found, strict=True))
    return x, integrals


class _Place:
    """The integrals of a law's profile from points near an epsilon on."""

    def __init__(self, law: Composition, epsilon: float, log_delta: float | None = None) -> None:
        if law.infinite_mass:
            raise NumericalError("The integral of this profile is infinite.")
        self.law, self.epsilon = law, epsilon
        found = _sum_of(law, epsilon, log_delta)
        if log_delta is not None and not abs(found.log_value - log_delta) <= FAR_OFF:
            self.epsilon = _epsilon_of(law, log_delta)
            found = _sum_of(law, self.epsilon, log_delta)
        self._sum, self._log_value, self.rate = found

    def moved(self, epsilon: float) -> _Place | None:
        """The same for another epsilon, if its line tells the profile there well."""
        known = _quality(self._sum, epsilon) if isinstance(self._sum, Line) else None
        if known is None or not known[0] <= NARROW:
            return None
        found = copy(self)
        found.epsilon, (_, found._log_value, found.rate) = epsilon, known[1]
        return found

    def integrals(self, x: Array) -> Array:
        """Upper bounds of the integrals from these points on."""
        line = self._sum
        if not isinstance(line, Line):
            places, integrals = self._by_chords
            # it falls: what is proven at the last place before x
            at = np.searchsorted(places, x, side="right") - 1
            return np.where(at >= 0, integrals[np.maximum(at, 0)], np.inf)
        with WithinDoubles():
            found = line.integrals_from_above(x)
        if line.missing:
            last, beyond = self._beyond
            # nothing but K is known of what is missing, from `last` on
            found = found + (line.missing * np.maximum(last - x, 0.0) + beyond)
        return found * (1.0 + SUM_ERROR)

    @cached_property
    def _beyond(self) -> tuple[float, float]:
        """A point far up, and a bound of the integral from there on."""
        t = self._sum.t
        last = self.epsilon + LAST / t
        beyond = crude_integrals(self.law, t * AROUND_LINE, last)
        if not np.isfinite(beyond).any():  # levels may stand where no moment is within doubles
            last = self.epsilon + np.geomspace(LAST[0] / t, FARTHEST, LAST.size)
            beyond = crude_integrals(self.law, LOW, last)
        is_small = beyond <= NEGLIGIBLE * math.exp(self._log_value) / self.rate
        i = int(np.argmax(is_small)) if is_small.any() else int(np.argmin(beyond))
        return float(last[i]), float(beyond[i])

    @cached_property
    def _by_chords(self) -> tuple[Array, Array]:
        """Points around epsilon and further up, and the integrals from there on, by chords of delta."""
        x = self.epsilon + CHORDS / self.rate
        x, narrow = x[x >= 0], np.full(CHORDS.size, NARROW_OF_CHORDS)
        beyond = self._beyond_chords(float(x[-1]))
        if beyond is None:
            last, beyond = self._beyond  # which bounds the integral from a later point on, too
            if last > x[-1]:
                far = self.epsilon + np.geomspace(float(x[-1]) - self.epsilon, last - self.epsilon, MOST_FAR + 1)
                x, narrow = np.append(x, [*far[1:-1], last]), np.append(narrow[: x.size], np.full(MOST_FAR, ROUGH))
        narrow = narrow[: x.size]
        found = Profile({"": self.law}).deltas(x, all_or_none=False, narrow=narrow, from_above=True).upper
        deltas = np.minimum.accumulate(np.minimum(found, 1.0))  # it does not rise
        return x, integrals_of_chords(x, deltas, beyond)

    def _beyond_chords(self, last: float) -> float | None:
        """The integral from the last of the chords on, by a lattice, if that tells it to some percent."""
        with suppress(NumericalError), WithinDoubles():
            line = ByLattice(self.law).sums(last).above
            known = _quality(line, last)
            if known is not None and known[0] <= ROUGH_BEYOND and isinstance(line, Line):
                there = copy(self)
                there.epsilon, there._sum, (_, there._log_value, there.rate) = last, line, known[1]
                return float(there.integrals(np.array([last]))[0])
        return None

    def best(self, bounds: Callable[[Array, Array], Array]) -> tuple[float, float]:
        """The least of the `bounds` that integrals prove, given their starting points; and where the best begins."""
        if not isinstance(self._sum, Line):
            x, integrals = self._by_chords
            return _least(x, bounds(x, integrals))
        x = self.epsilon - BELOW[::-1] / self.rate
        values = bounds(x, self.integrals(x))
        closer = 0
        for _ in range(MOST_ROWS):
            i = int(np.argmin(values))
            if not values[i] < math.inf or closer == CLOSER:
                break
            if 0 < i < x.size - 1:
                gap = 0.5 * float(x[i + 1] - x[i - 1])
                more = _vertex(x[i - 1 : i + 2], values[i - 1 : i + 2]) + gap * AROUND
                closer += 1
            else:
                more = float(x[i]) + (np.sign(i - 0.5) / self.rate) * BELOW
            found = np.append(x, more), np.append(values, bounds(more, self.integrals(more)))
            order = np.argsort(found[0])
            x, values = found[0][order], found[1][order]
        return _least(x, values)


def _least(x: Array, values: Array) -> tuple[float, float]:
    """The least value, and where it is."""
    i = int(np.argmin(values))
    return float(values[i]), float(x[i])


def _vertex(x: Array, values: Array) -> float:
    """Where the parabola through three points, of which the middle one is the lowest, is least."""
    left, right = float(x[1] - x[0]), float(x[2] - x[1])
    rise, fall = float(values[2] - values[1]) * left, float(values[0] - values[1]) * right
    if not 0 < rise + fall < math.inf:
        return float(x[1])
    return float(x[1]) + 0.5 * (fall * right - rise * left) / (rise + fall) if left + right > 0 else float(x[1])


class _Found(NamedTuple):
    """A sum that tells the profile near an epsilon, its logarithm there, and the rate at which that falls."""

    sum: Sum
    log_value: float
    rate: float


def _sum_of(law: Composition, epsilon: float, log_delta: float | None) -> _Found:
    """The first line that tells the profile well; else levels, whose profile has an integral by chords; else a line."""
    trouble: NumericalError | None = None
    found: list[tuple[float, _Found]] = []
    # a line tells an integral in one sum, and levels take dozens
    ways = sorted(ways_to_sums(law, log_delta=log_delta), key=lambda way: isinstance(way, ByLevels))
    for way in ways:
        try:
            with WithinDoubles():
                known = _quality(way.sums(epsilon).above, epsilon)
        except NumericalError as refused:
            trouble = trouble or refused
            continue
        if known is not None:
            found.append(known)
            if known[0] <= NARROW:
                break
    if not found:
        raise trouble or NumericalError("The profile of this run does not fall here.")
    return min(found, key=lambda pair: pair[0])[1]


def _quality(one: Sum, epsilon: float) -> tuple[float, _Found] | None:
    """By what part of itself delta is not known at an epsilon, and the sum there; None where it tells nothing."""
    value, slope = one.value_and_slope(epsilon)
    if not value > 0 > slope:
        return None
    lower, upper = one.at(epsilon)
    return (upper - lower) / value, _Found(one, math.log(value), -slope / value)


def _epsilon_of(law: Composition, log_delta: float) -> float:
    """About the epsilon at a delta, by the first way that tells it."""
    for way in ways_to_sums(law):
        with suppress(NumericalError), WithinDoubles():
            return guessed_root(way, log_delta, law.max_loss)[0]
    raise NumericalError("The profile of this run does not fall here.")


def integrals_of_chords(x: Array, deltas: Array, beyond: float) -> Array:
    """The integrals from each of some increasing points on, given deltas there, and the integral from the last one on.

    Delta is a convex function of exp(epsilon), and so at most its chords, whose integral over a length h is at most
    that of the trapezoid rule and ``h² / 12`` times the fall of delta.
    """
    h = np.diff(x)
    later = np.maximum(0.5 * h - h * h / 12.0, 0.0)
    pieces = np.append((h - later) * deltas[:-1] + later * deltas[1:], beyond)
    return np.asarray(np.cumsum(pieces[::-1])[::-1] * (1.0 + SUM_ERROR))
