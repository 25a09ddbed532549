r"""Delta from the integral of a profile, for a release whose integral no pair of neighbours exceeds.

With :math:`\zeta(y) = y - 1 + e^{-y}` the integral of a profile from x on is

.. math:: W(x) = \int_x^\infty \delta(y)\,dy = E_P[\zeta((L - x)_+)] .

Where W of every round is at most that of a law, whatever was seen before, so is W of all rounds; and for every s > 0

.. math:: \delta(\varepsilon) \le c(s)\,W(\varepsilon - s), \qquad c(s) = \max_{y > 0} \frac{1 - e^{-y}}{\zeta(y + s)} .

docs/theory/fixed-size.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.crude import about_saddle, crude_integral
from dprounds.accounting.law import Composition
from dprounds.accounting.profile import Profile
from dprounds.accounting.sketch import Sketch
from dprounds.accounting.sums import WithinDoubles
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

# Where the profile is asked for, in units of the length over which it falls by a factor e: closely around epsilon; and
# then at so many places, until a millionth of its bound by one moment is left.
NEAR = np.concatenate([np.arange(-2.5, -0.5, 0.05), np.arange(-0.5, 3.0, 0.1)])
MOST_FAR = 16
LAST = 14.0
# A delta that is wanted to about this part of itself.
ROUGH = 0.1
# Around each of many epsilons it is asked for at every second of these places.
SPARSER = 2
# A row of epsilons shares at most this number of starting points; rows of fewer rounds than FEWEST_ROUNDS_OF_ROWS are
# not computed.
MOST_PLACES = 24
MOST_PLACES_ON_LATTICES = 6
FEWEST_ROUNDS_OF_ROWS = 8
# A profile whose bracket is this part of itself wide is good enough. Far from epsilon any bound will do.
NARROW = 1e-3
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
            x, integrals = _integrals(law, np.array([near]), math.log(delta))
            # c falls: the least s at which c(s) W(x) is delta
            with np.errstate(divide="ignore"):
                s = ENLARGED * np.exp(np.interp(*_falling(np.log(delta / integrals))))
            proven = largest_ratio(s) * integrals <= delta
            if not proven.any():
                raise NumericalError("The integral of the profile of this run tells no epsilon.")
            found = max(found, float((x + s)[proven].min()))
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
        if epsilons.size > 1 and law.rounds < FEWEST_ROUNDS_OF_ROWS:
            raise NumericalError("The profile itself tells more of so few rounds.")
        most = MOST_PLACES if law.most_nodes else MOST_PLACES_ON_LATTICES
        places = np.unique(np.quantile(epsilons, np.linspace(0.0, 1.0, min(most, epsilons.size))))
        x, integrals = _integrals(law, places)
        s = np.subtract.outer(epsilons, x) * (1.0 - SUM_ERROR)
        inside = (s > SHIFTS[0]) & (s < SHIFTS[-1])
        log_ratios = np.interp(np.log(np.where(inside, s, 1.0)), np.log(SHIFTS), np.log(_ratios()))
        best = np.argmin(np.where(inside, np.exp(log_ratios) * integrals, np.inf), axis=1)
        rows = np.arange(epsilons.size)
        held = inside[rows, best]
        found = largest_ratio(np.where(held, s[rows, best], 1.0)) * integrals[best]
        return np.where(held, found, np.inf), x[best]


def _falling(log_ratios: Array) -> tuple[Array, Array, Array]:
    """What `np.interp` takes to find the logarithm of s from that of a ratio."""
    return log_ratios, np.log(_ratios()[::-1]), np.log(SHIFTS[::-1])


def _integrals(law: Composition, around: Array, log_delta: float | None = None) -> tuple[Array, Array]:
    """Places around some epsilons, and upper bounds of the integral of the profile from each of them on.

    About the logarithm of delta at a single epsilon saves time.
    """
    near = NEAR if around.size == 1 else NEAR[::SPARSER]
    rates = []
    for epsilon in around.tolist():
        with suppress(NumericalError):  # far out, where delta is below the doubles
            rates.append((epsilon, *_decay_rates(law, epsilon)))
    if not rates:
        raise NumericalError("The profile of this run does not fall here.")
    closely = np.unique(np.concatenate([epsilon + near / rate for epsilon, rate, _ in rates]))
    last, _, slowest = rates[-1]
    reached = float(closely[-1]) - last
    far = last + np.geomspace(reached, max(LAST / slowest, 2.0 * reached), MOST_FAR + 1)[1:]
    negative, closely = closely[closely < 0], closely[closely >= 0]
    x = np.unique(np.concatenate([[0.0] if negative.size else [], closely, far]))
    narrow = np.where(x > closely[-1], np.inf, NARROW)
    profile = Profile({"": law})
    deltas = profile.deltas(x, all_or_none=False, narrow=narrow, log_delta=log_delta, from_above=True).upper
    deltas = np.minimum.accumulate(np.minimum(deltas, 1.0))  # it does not rise
    return integrals_of_chords(negative, x, deltas, crude_integral(law, float(x[-1])))


def integrals_of_chords(negative: Array, x: Array, deltas: Array, beyond: float) -> tuple[Array, Array]:
    """All places, and the integrals from each of them on, given deltas at those that are not negative, and the rest.

    Delta is a convex function of exp(epsilon), and so at most its chords, whose integral over a length h is at most
    that of the trapezoid rule and ``h² / 12`` times the fall of delta. Below 0 it is at most the chord to its value 1
    at minus infinity.
    """
    h = np.diff(x)
    later = np.maximum(0.5 * h - h * h / 12.0, 0.0)
    pieces = np.append((h - later) * deltas[:-1] + later * deltas[1:], beyond)
    integrals = np.cumsum(pieces[::-1])[::-1]
    # next to 0 the two terms cancel, and may be off by units of each
    below = -negative * (1.0 + 8.0 * UNIT_ROUNDOFF) + np.expm1(negative) * (1.0 - deltas[0])
    return np.append(negative, x), np.append(below + integrals[0], integrals) * (1.0 + SUM_ERROR)


def _decay_rates(law: Composition, epsilon: float) -> tuple[float, float]:
    """About the rate at which the logarithm of delta falls with epsilon, and that of its bound by one value of K."""
    with WithinDoubles():
        saddle = about_saddle(law, epsilon, 1.0)
        t = saddle.t
        if not law.most_nodes and law.has_cells:  # K may be that of another law, and its atoms tell more
            return Sketch(law).saddle(epsilon).t, t
    if saddle.is_nearly_normal:
        return t, t  # by Laplace's method
    near = epsilon + np.array([0.0, 0.25 / t])
    upper = Profile({"": law}).deltas(near, narrow=ROUGH, from_above=True).upper
    rate = math.log(upper[0] / upper[1]) / (0.25 / t) if 0 < upper[1] < upper[0] else math.nan
    if not 0 < rate < math.inf:
        raise NumericalError("The profile of this run does not fall here.")
    return rate, t
