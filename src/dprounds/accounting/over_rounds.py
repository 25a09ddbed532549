"""What many rounds together have: totals, largest losses and masses at infinity, each rounded to a stated side."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above, ratio_above

__all__ = ["least_mass", "probability_of_any", "sum_of_losses", "total_over_rounds"]

Amount = TypeVar("Amount", NDArray[np.float64], Numbers)

# --- What carries a proof; docs/theory/accounting.md has the propositions.

# A mass at infinity is above the truth by at most 20 units of rounding, and by two doubles where it is so small that
# doubles have no relative precision; `probability_of_any` counts them.
MASS_ERROR = 32.0 * UNIT_ROUNDOFF
LEAST_MASS_ERROR = 1e-323
# Natural logarithm of the mass that no double holds: below it an exponential is 0.
LOG_OF_NOTHING = -1e4


def total_over_rounds(costs: Iterable[tuple[Amount, int]], nothing: Amount) -> Amount:
    """The sum over all rounds of what one round of each part costs."""
    for cost, rounds in costs:
        nothing = nothing + float(rounds) * cost
    return nothing


def sum_of_losses(losses: Iterable[tuple[float | Fraction, int]]) -> float:
    """The least double that is not below the sum over all rounds of losses, none of them negative; inf beyond those."""
    total = Fraction(0)
    for loss, rounds in losses:
        if not loss < math.inf:
            return float(loss)
        total += rounds * Fraction(loss)
    return ratio_above(total.numerator, total.denominator) if total else 0.0


def least_mass(infinite_mass: float) -> float:
    """A lower bound on the mass at infinity, given the upper one."""
    return max(infinite_mass * (1.0 - MASS_ERROR) - LEAST_MASS_ERROR, 0.0)


def probability_of_any(chances: Iterable[tuple[float, int]]) -> float:
    """The probability that any of many independent things happens, each tried as often as its count says.

    Guarantee
    ---------
    Not below the truth, and `least_mass` of it is not above the truth. A count, a logarithm and their product round by
    4 units, their sum, which `fsum` rounds once however many there are, by one, and the exponential by 2; the
    probability moves by at most as many units.
    """
    possible = [(chance, times) for chance, times in chances if chance > 0]
    if sum(times for _, times in possible) <= 1:  # no product, hence no rounding
        return sum((chance for chance, _ in possible), start=0.0)
    log_none = math.fsum(
        max(float(times) * math.log1p(-chance), LOG_OF_NOTHING) if chance < 1 else -math.inf
        for chance, times in possible
    )
    found = np.array(-math.expm1(log_none))
    return min(float(above(found, 8.0 * UNIT_ROUNDOFF * found)), 1.0)
