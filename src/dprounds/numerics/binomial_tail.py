r"""Tails of a binomial law, and means over them, each to a stated side.

Terms are multiplied up from the largest one by their quotients,
:math:`p_{m+1}/p_m = \frac{(n-m)q}{(m+1)(1-q)}`, so that no factorial is needed and what a tail may be off by
is relative to the tail. What lies beyond the terms that are added up is bounded by a geometric series, since the
quotients fall.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["Tail", "binomial_masses", "binomial_tail"]

Array = NDArray[np.float64]

# --- What carries a proof.

# Units of rounding of a quotient of neighbours and of the product with it: six operations on doubles at most, in the
# term and in the sum that it is divided by.
UNITS_OF_STEP = 12.0
# Relative to the largest term, what may have vanished below the doubles in all terms together: 2^22 of them.
VANISHED = 1e-300

# --- What only tunes speed and tightness.

# How far terms are added up, in deviations, and for the few that a small mean has.
REACH, FEW = 40.0, 300
MOST_TERMS = 2**21


class Tail(NamedTuple):
    """Bounds of a tail, of the term in front of it, and of the mean of 1 / (N + 1) over it.

    Parameters
    ----------
    lower, upper
        Of :math:`P(N \\ge b)`.
    before
        :math:`P(N = b - 1)`, from above.
    reciprocal
        :math:`E[1/(N+1) \\mid N \\ge b]`, from above.
    """

    lower: float
    upper: float
    before: float
    reciprocal: float


@lru_cache(maxsize=64)
def binomial_tail(trials: int, chance: float, least: int) -> Tail:
    """What is known of N binomial where it is at least `least`, which is 1 or more.

    Guarantee
    ---------
    The bounds hold; they are within a part of themselves below 1e-8 of the truth, as a rule within 1e-12.

    Examples
    --------
    Of three coins, the chance that one or more come up, and that none does:

    >>> found = binomial_tail(3, 0.5, 1)
    >>> round(found.lower, 12), round(found.upper, 12), round(found.before, 12)
    (0.875, 0.875, 0.125)
    """
    surely = 1.0 / (least + 1.0) * (1.0 + 2.0 * UNIT_ROUNDOFF)
    if least > trials:
        last = 0.0 if least > trials + 1 or not chance else math.exp(trials * math.log(chance) * (1.0 - 1e-12))
        return Tail(0.0, 0.0, min(last, 1.0), surely)
    if not chance:
        return Tail(0.0, 0.0, float(least == 1), surely)
    if chance == 1:
        return Tail(1.0, 1.0, 0.0, 1.0 / (trials + 1.0) * (1.0 + 2.0 * UNIT_ROUNDOFF))
    first, terms, before_first, after_last = _terms(trials, chance)
    error = UNITS_OF_STEP * (terms.size + 8.0) * UNIT_ROUNDOFF
    total = float(terms.sum())
    beyond = before_first + after_last
    from_least = terms[max(least - first, 0) :]
    numbers = first + np.arange(terms.size - from_least.size, terms.size, dtype=np.float64)
    found = float(from_least.sum())
    # of those in front of the first term, all may be above `least`
    more = after_last + (before_first if least < first else 0.0) + VANISHED
    lower = max(found * (1.0 - error) - VANISHED, 0.0) / (total + beyond) * (1.0 - error)
    upper = min((found + more) / total * (1.0 + 2.0 * error), 1.0)
    at = least - 1 - first
    before = (float(terms[at]) if 0 <= at < terms.size else min(beyond, 1.0)) + VANISHED
    mean = surely
    if found > 1e-280:
        mean = (float((from_least / (numbers + 1.0)).sum()) + more / (least + 1.0)) / found * (1.0 + 2.0 * error)
    return Tail(lower, upper, min(before / total * (1.0 + 2.0 * error), 1.0), min(mean, surely))


def binomial_masses(trials: int, chance: float) -> tuple[int, Array, float]:
    """The chances of numbers in a row, from a first one on, and a bound on their relative errors.

    The chance of one trial is in (0, 1). All other numbers are rarer together than 1e-250, unless more than a million
    terms would be needed.

    Examples
    --------
    >>> first, masses, error = binomial_masses(2, 0.5)
    >>> first, masses.round(12).tolist(), error < 1e-13
    (0, [0.25, 0.5, 0.25], True)
    """
    first, terms, before, after = _terms(trials, chance)
    total = float(terms.sum())
    error = UNITS_OF_STEP * (terms.size + 8.0) * UNIT_ROUNDOFF + (before + after) / total
    return first, terms / total, error


def _terms(trials: int, chance: float) -> tuple[int, Array, float, float]:
    """The first number, the terms from it on relative to the largest, and bounds of all before and after them."""
    mode = min(int((trials + 1.0) * chance), trials)
    reach = min(math.ceil(REACH * math.sqrt(trials * chance * (1.0 - chance))) + FEW, MOST_TERMS // 2)
    first, last = max(mode - reach, 0), min(mode + reach, trials)
    m = np.arange(first, last + 1, dtype=np.float64)
    # the quotient of the term after m and the one at m
    grows = (trials - m) * chance / ((m + 1.0) * (1.0 - chance))
    at = mode - first
    up = np.cumprod(grows[at:-1])
    down = np.cumprod(1.0 / grows[:at][::-1])[::-1]
    terms = np.concatenate([down, [1.0], up])
    before = after = 0.0
    if first > 0:
        falls = first * (1.0 - chance) / ((trials - first + 1.0) * chance)
        before = _geometric(float(terms[0]), falls)
    if last < trials:
        after = _geometric(float(terms[-1]), float(grows[-1]))
    return first, terms, before, after


def _geometric(last: float, ratio: float) -> float:
    """At least the sum of what follows a term, each at most so many times the one before it."""
    return (last + VANISHED) * ratio / (1.0 - ratio) * (1.0 + 1e-6) if ratio < 1.0 - 1e-9 else math.inf
