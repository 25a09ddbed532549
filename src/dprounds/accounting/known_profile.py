"""Epsilon of a release whose profile is known in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable

from dprounds.accounting.bracket import Bracket
from dprounds.errors import NumericalError
from dprounds.numerics.normal import normal_excess
from dprounds.numerics.search import falling_root

__all__ = ["KnownProfile", "known_epsilon", "normal_delta"]

KnownProfile = Callable[[float], Bracket]
"""Delta at an epsilon in [0, inf), from below and from above."""

# The search for a bracket multiplies by this; 300 such steps cross all doubles.
FACTOR = 16.0
MOST_STEPS = 300
# Where the root was found, the ends are moved outward by this part of epsilon first, then by FACTOR times as much.
LEAST_MOVE = 2.0**-50


def normal_delta(distance: float, epsilon: float, distance_error: float = 0.0) -> Bracket:
    """Delta of two normal laws of variance one, whose distance is known up to a part of itself."""
    value, error = normal_excess(distance, epsilon, distance_error=distance_error)
    return Bracket(max(value - error, 0.0), min(value + error, 1.0))


def known_epsilon(profile: KnownProfile, *, delta: float) -> Bracket:
    """Epsilon at `delta`, from below and from above.

    Guarantee
    ---------
    Raises, or returns bounds of the least epsilon >= 0 at which delta is at most `delta`: at the upper one the upper
    bound of delta was computed and is at most `delta`, at the lower one the lower bound was and is at least `delta`.

    Parameters
    ----------
    profile
        The bracket of delta at each epsilon.
    delta
        In (0, 1).
    """
    if profile(0.0).upper <= delta:
        return Bracket(0.0, 0.0)
    low, high = 0.0, 1.0
    for _ in range(MOST_STEPS):
        if profile(high).upper <= delta:
            break
        low, high = high, high * FACTOR
    else:
        raise NumericalError(f"No epsilon below {high:g} meets delta {delta:g}.")
    if low == 0.0:  # epsilon may be far below 1: a root search needs to know its size
        for _ in range(MOST_STEPS):
            below = high / FACTOR
            if not profile(below).upper <= delta:
                low = below
                break
            high = below
    log_delta = math.log(delta)

    def excess(epsilon: float) -> float:
        upper = profile(epsilon).upper
        return math.log(upper) - log_delta if upper > 0 else -1e3

    root = falling_root(excess, low, high)
    upper = _outward(root, high, 1.0, lambda epsilon: profile(epsilon).upper <= delta)
    lower = _outward(root, 0.0, -1.0, lambda epsilon: profile(epsilon).lower >= delta)
    return Bracket(min(lower, upper), upper)


def _outward(root: float, end: float, side: float, proven: Callable[[float], bool]) -> float:
    """The first of some epsilons on one side of a root at which something is proven; the end if at none of them."""
    move = 0.0
    for _ in range(MOST_STEPS):
        here = root * (1.0 + side * move)
        if not (here < end if side > 0 else here > end):
            break
        if proven(here):
            return here
        move = max(FACTOR * move, LEAST_MOVE)
    return end
