r"""The exact accountant of short runs: the loss on a lattice, asked for delta at an epsilon and for epsilon at a delta.

Where the moment function hardly falls along a line, or is not proven to, `contour` has nothing to sum. There one
round's loss is put on the multiples of a step h, once from above and once from below (`cells`). The lattice is chosen
by a `sketch` of the loss for a `spot`, and the rounds are composed and summed with a bound on every error
(`lattice_sum`). Here it is asked. docs/theory/accounting.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.cells import lower_law, upper_law
from dprounds.accounting.contour import Bracket
from dprounds.accounting.lattice_sum import LatticeSum
from dprounds.accounting.sketch import Sketch
from dprounds.accounting.spot import COARSE, PRECISION, Part, Spot
from dprounds.errors import NumericalError

__all__ = ["Part", "lattice_delta", "lattice_deltas", "lattice_epsilon"]

Array = NDArray[np.float64]

# An epsilon is found to this part of itself.
HAIR = 1e-8
# While it is sought, to this part of what the lattice may be off by.
FINE = 1e-3
# Lattices until one is near epsilon, of which one or two do as a rule; steps of Newton's method on one of them.
MOST_GUESSES = 30
MOST_STEPS = 60
# A guess of an epsilon is below the largest loss, where delta is 0.
NEARLY = 1.0 - 1e-6
# A lattice made for one epsilon serves for others as long as what bounds its errors is less than this part of delta.
NEGLIGIBLE = 1e-6


def _checked(value: float) -> float:
    if not math.isfinite(value):
        raise NumericalError("The exact sum of this run is not a number in doubles.")
    return value


def _sketch(parts: Sequence[Part]) -> Sketch:
    return Sketch([part.cells_of for part in parts], [part.rounds for part in parts])


def _spot_at(parts: Sequence[Part], sketch: Sketch, epsilon: float, precision: float) -> tuple[Spot, LatticeSum]:
    """A spot whose delta was seen to be about the one that it was made for, and a sum from above there."""
    log_delta = sketch.log_delta(epsilon)
    for _ in range(3):
        spot = Spot(parts, sketch, epsilon, log_delta)
        coarse = precision if spot.is_cheap(precision) else COARSE
        made = spot.sum(upper_law, coarse)
        value = made.at(epsilon).value
        moved, log_delta = (abs(math.log(value) - log_delta), math.log(value)) if value > 0 else (0.0, log_delta)
        if moved < 1.0:
            break
    return spot, made if coarse == precision else spot.sum(upper_law, precision)


def _spot_near(
    parts: Sequence[Part], sketch: Sketch, delta: float, most: float = math.inf
) -> tuple[Spot, LatticeSum, float]:
    """A spot near the epsilon at `delta`, a sum from above there, and about that epsilon; 0 if delta is met there."""
    epsilon = min(max(sketch.epsilon(math.log(delta)), 0.0), NEARLY * most)
    between = (-math.inf, most)
    spot = Spot(parts, sketch, epsilon, math.log(delta))
    precision = PRECISION if spot.is_cheap(PRECISION) else COARSE
    made = spot.sum(upper_law, precision)
    for _ in range(MOST_GUESSES):
        epsilon, between = _root(spot, made, delta, epsilon, between)
        if precision == PRECISION and spot.is_near(epsilon):
            break
        is_seen = made.bottom <= epsilon
        try:
            following = Spot(parts, sketch, epsilon, math.log(delta))
            precision = PRECISION if is_seen or following.is_cheap(PRECISION) else COARSE
            spot, made = following, following.sum(upper_law, precision)
        except NumericalError:
            if most == math.inf:
                raise
            break  # close below the largest loss no lattice resolves what is left: the last one has to do
    return spot, made, epsilon


def _root(
    spot: Spot, made: LatticeSum, delta: float, epsilon: float, between: tuple[float, float]
) -> tuple[float, tuple[float, float]]:
    """About the epsilon at `delta`, as far as this lattice sees, and what it is between; 0 if delta is met there."""
    low, high = between
    for _ in range(MOST_STEPS):
        value, slope, _, _ = made.at(epsilon)
        low, high = (epsilon, high) if value > delta else (low, epsilon)
        if high == 0:
            break
        following = epsilon + _newton(value, slope, delta)
        if following <= 0 and low < 0:
            following = 0.0
        elif not low < following < high:
            following = 0.5 * (max(low, 0.0) + high) if high < math.inf else 2.0 * max(low, 1.0 / made.grid.t)
        moved, epsilon = abs(following - epsilon), following
        if moved <= FINE * spot.slack(epsilon) or epsilon < made.bottom:
            break
    return epsilon, (low, high)


def lattice_delta(parts: Sequence[Part], *, epsilon: float) -> Bracket:
    """Delta at `epsilon`, from below and from above.

    Guarantee
    ---------
    Raises `NumericalError`, or returns bounds with the exact delta of these parts between them, if their cells keep
    to the errors that they state.
    """
    spot, made = _spot_at(parts, _sketch(parts), epsilon, PRECISION)
    return _consistent(spot.sum(lower_law, PRECISION).lower(epsilon), _checked(made.upper(epsilon)))


def lattice_deltas(parts: Sequence[Part], *, epsilons: Array) -> Array:
    """Delta at every epsilon of a row, from above. A lattice serves for all around it."""
    sketch = _sketch(parts)
    found = np.zeros(epsilons.size)
    pending = np.argsort(epsilons)
    while pending.size:
        middle = float(epsilons[pending[pending.size // 2]])
        _, made = _spot_at(parts, sketch, middle, PRECISION)
        left = []
        for i in pending.tolist():
            value, _, missing, surplus = made.at(made.lowered(float(epsilons[i])))
            # far from the middle the aliases, which do no harm, may be most of the value
            if max(missing, surplus) <= NEGLIGIBLE * value or epsilons[i] == middle:
                found[i] = min(_checked(value + missing), 1.0)
            else:
                left.append(i)
        pending = np.array(left, dtype=np.intp)
    return found


def lattice_epsilon(parts: Sequence[Part], *, delta: float, known: float = 0.0, most: float = math.inf) -> Bracket:
    """Epsilon at `delta`, from below and from above, at most `most`; (0, `known`) if it is proven to be at most that.

    Guarantee
    ---------
    As for `lattice_delta`: at the upper one the upper bound of delta was computed and is at most `delta`, or it is the
    largest loss `most`; at the lower one the lower bound is at least `delta`.
    """
    if 0 < most <= known:
        return Bracket(0.0, known)
    sketch = _sketch(parts)
    if known > 0 and _checked(_spot_at(parts, sketch, known, COARSE)[1].upper(known)) <= delta:
        return Bracket(0.0, known)
    spot, made, epsilon = _spot_near(parts, sketch, delta, most)
    if epsilon == 0 and made.upper(0.0) <= delta:
        return Bracket(0.0, 0.0)
    upper = _met(made, delta, epsilon)
    lower, left = _not_met(spot.sum(lower_law, PRECISION), delta, upper)
    if left > 0:  # below the window: another one, for there, if there is one
        with suppress(NumericalError):
            spot = Spot(parts, sketch, left, math.log(delta))
            lower, _ = _not_met(spot.sum(lower_law, PRECISION), delta, left)
    return _consistent(lower, min(upper, most))


def _consistent(lower: float, upper: float) -> Bracket:
    lower, upper = float(lower), float(upper)
    if not lower <= upper:
        raise NumericalError("The exact sum of this run contradicts itself in doubles.")
    return Bracket(lower, upper)


def _met(made: LatticeSum, delta: float, guess: float) -> float:
    """About the least epsilon at which the upper bound is at most `delta`, which was computed."""
    epsilon, low, high = guess, 0.0, math.inf
    for _ in range(MOST_STEPS):
        found = made.at(made.lowered(epsilon))
        upper = _checked(min(found.value + found.missing, 1.0))
        low, high = (low, epsilon) if upper <= delta else (epsilon, high)
        moved = _newton(found.value + found.missing, found.slope, delta)
        if upper <= delta and abs(moved) <= HAIR * epsilon:
            break
        following = epsilon + moved + 0.5 * HAIR * epsilon
        if not low < following < high:
            following = 0.5 * (low + high) if high < math.inf else max(2.0 * low, 1.0 / made.grid.t)
        if following in (low, high):
            break
        epsilon = following
    if high == math.inf:
        raise NumericalError("The exact sum of this run does not settle epsilon.")
    return high


def _not_met(made: LatticeSum, delta: float, guess: float) -> tuple[float, float]:
    """About the greatest epsilon at which the lower bound is at least `delta`, which was computed; 0 if none is.

    And where else it may be, if that is below the window; 0 if not.
    """
    epsilon, low, high, left = guess, 0.0, math.inf, 0.0
    for _ in range(MOST_STEPS):
        found = made.at(made.raised(epsilon))
        lower = found.value - found.surplus
        low, high = (epsilon, high) if lower >= delta else (low, epsilon)
        moved = _newton(lower, found.slope, delta)
        if lower >= delta and abs(moved) <= HAIR * epsilon:
            break
        following = epsilon + moved - 0.5 * HAIR * epsilon
        if not low < following < high:
            following = 0.5 * (low + high)
        if following < made.bottom:
            left = following
        if left or following in (low, high) or high == math.inf:
            break
        epsilon = following
    return low, left


def _newton(value: float, slope: float, delta: float) -> float:
    """How far from here the logarithm of delta, along its tangent, passes that of `delta`; NaN where it has none."""
    if not (0 < value < math.inf and -math.inf < slope < 0):
        return math.nan
    return (math.log(value) - math.log(delta)) * value / -slope
