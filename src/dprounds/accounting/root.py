"""Epsilon from sums that bracket delta: a guess by Newton's method, and the proven ends on either side of it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket
from dprounds.accounting.sums import LEAST_RESOLVED, NARROW, Sum, Sums
from dprounds.accounting.ways.choice import Way
from dprounds.errors import NumericalError
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.search import RootSearch

__all__ = ["epsilon_by", "guessed_root", "root_on"]

Array = NDArray[np.float64]

# All of these tune speed and tightness.
# A value is trusted in a search if the line brackets it to this part of itself.
TRUSTED = 0.05
# Two or three are typical; the limits end a search that rounding keeps from settling, and what it reached is verified.
MOST_STEPS = 60
MOST_REPLACED = 12
# The same where one sum is all there is, for a curve, and how near is near enough there.
MOST_STEPS_ON_ONE = 20
SETTLED_ON_ONE = 1e-10
# An end of the bracket is tried a little beyond where delta's slope puts it, which is usually enough.
BEYOND = 1.02
# Else it is sought at these multiples of the first step outward, then at these of the last of them.
OUTWARD = np.array([1.0, 1.05, 1.2, 1.5, 4.0])
MOST_ROWS = 40
# If the proven end is further out than this multiple of an end that is not proven, places between them are tried.
COARSE = 1.02
BETWEEN = np.array([0.25, 0.5, 0.75])
MOST_BETWEEN = 4


def epsilon_by(way: Way, rest: Bracket, most: float) -> Bracket:
    """Epsilon at a delta of the finite losses, itself known between bounds, by one way; `most` is the largest loss.

    Guarantee
    ---------
    Raises, or returns bounds with the truth between them.
    """
    epsilon, sums = guessed_root(way, math.log(rest.lower), most)
    return _verified(sums, epsilon, rest, most)


def guessed_root(way: Way, log_delta: float, most: float) -> tuple[float, Sums]:
    """About the epsilon at which the sum is delta, 0 if it is nowhere, and sums made near it.

    Newton's method on the logarithm of delta, kept in a bracket; new sums where the last ones do not suit.
    """
    epsilon = way.guess(log_delta)
    if not 0 < epsilon < most:
        # Laplace's method is off by more than the distance to an end: 0 may be the answer itself.
        epsilon = 0.0 if epsilon <= 0 else 0.5 * most
    sums = way.sums(epsilon, fine=False)
    search, replaced, fine = RootSearch(0.0, most), 0, sums.is_fine
    for _ in range(MOST_STEPS):
        is_believed = abs(epsilon - sums.epsilon) <= sums.believed
        if not (is_believed or sums.suits(epsilon, TRUSTED)) and replaced < MOST_REPLACED:
            sums, replaced = way.sums(epsilon, fine=fine), replaced + 1
        following = search.following(epsilon, *_log_excess(sums.above, epsilon, log_delta))
        if search.high == 0:
            break  # delta is already met at 0
        moved, epsilon = abs(following - epsilon), following
        settled = moved <= 4.0 * UNIT_ROUNDOFF * epsilon or moved * sums.above.t <= 1e-13
        if settled or (not fine and moved <= 1e-3 * epsilon):
            if sums.epsilon == epsilon or replaced >= MOST_REPLACED or (fine and sums.suits(epsilon, sums.narrow)):
                break
            sums, replaced, fine = way.sums(epsilon), replaced + 1, True
            search = RootSearch(0.0, most)  # a finer lattice has another root
    return epsilon, sums


def root_on(one: Sum, log_delta: float, guess: float) -> float:
    """About the epsilon at which one sum, made near it, is delta; not a number where it is not found."""
    search, epsilon = RootSearch(0.0, math.inf), guess
    for _ in range(MOST_STEPS_ON_ONE):
        excess, slope = _log_excess(one, epsilon, log_delta)
        if math.isnan(slope):
            break
        # the logarithm of delta bends downward, so that a long step from the right falls short of its end
        following = min(max(search.following(epsilon, excess, slope), 0.5 * epsilon), 2.0 * epsilon)
        moved, epsilon = abs(following - epsilon), following
        if moved <= SETTLED_ON_ONE * epsilon:
            return epsilon
    return math.nan


def _log_excess(one: Sum, epsilon: float, log_delta: float) -> tuple[float, float]:
    """The logarithm of a sum over delta, and its slope: not a number where delta is flat, as between lattice points."""
    value, slope = one.value_and_slope(epsilon)
    if value > 0:
        return math.log(value) - log_delta, slope / value if slope < 0 else math.nan
    # too small a delta for its digits: what is proven of it decides
    is_above = math.log(max(one.at(epsilon).upper, LEAST_RESOLVED)) > log_delta
    return math.inf if is_above else -math.inf, math.nan


def _verified(sums: Sums, epsilon: float, rest: Bracket, most: float) -> Bracket:
    """The nearest epsilons on either side of a guess at which delta is proven to be met, and not to be."""
    found = sums.at(epsilon)
    if epsilon == 0 and found.upper <= rest.lower:
        return Bracket(0.0, 0.0)
    slope = -sums.above.value_and_slope(epsilon)[1]
    least = 4.0 * UNIT_ROUNDOFF * epsilon + UNIT_ROUNDOFF / sums.above.t

    def first_step(excess: float) -> float:
        # where delta is flat, between the points of a lattice, its slope says nothing of epsilon
        return max(excess / slope * (1.0 + NARROW), 0.0) if slope > 0 else 0.0

    further, nearer = first_step(found.upper - rest.lower), first_step(rest.upper - found.lower)
    if sums.make_below is None and least < BEYOND * min(further, nearer):
        ends = epsilon + BEYOND * np.array([-nearer, further])
        if ends[0] >= 0 and ends[1] < most:  # usually one row proves both ends
            tried = sums.above.bracket(ends)
            if tried.lower[0] >= rest.upper and tried.upper[1] <= rest.lower:
                return Bracket(float(ends[0]), float(ends[1]))
    upper = _outward(
        lambda steps: sums.above.bracket(epsilon + steps).upper <= rest.lower, further, least, most - epsilon
    )
    if upper == math.inf:
        raise NumericalError("The exact sum of this run does not settle epsilon.")
    lower = _outward(lambda steps: sums.below.bracket(epsilon - steps).lower >= rest.upper, nearer, least, epsilon)
    return Bracket(max(min(epsilon - lower, epsilon + upper), 0.0), epsilon + upper if upper < most - epsilon else most)


def _outward(are_proven: Callable[[Array], NDArray[np.bool_]], step: float, least: float, most: float) -> float:
    """A short step from a guess at which something is proven, as it is further on; `most` if it is nowhere before."""
    if least < BEYOND * step < most and are_proven(np.array([BEYOND * step])).all():
        return BEYOND * step
    failed = 0.0
    steps = np.append(step, max(step, least) * OUTWARD[step > 0 :])
    for _ in range(MOST_ROWS):
        steps = steps[steps < most]
        if not steps.size:
            return most
        proven = are_proven(steps)
        if proven.any():
            break
        failed = float(steps[-1])
        steps = failed * OUTWARD[1:]
    else:
        return most
    first = int(np.argmax(proven))
    failed, step = float(steps[first - 1]) if first else failed, float(steps[first])
    for _ in range(MOST_BETWEEN):
        if not step > COARSE * failed > 0:
            break
        between = failed + (step - failed) * BETWEEN
        first = int(np.argmax(np.append(are_proven(between), True)))
        between = np.concatenate([[failed], between, [step]])
        failed, step = float(between[first]), float(between[first + 1])
    return step
