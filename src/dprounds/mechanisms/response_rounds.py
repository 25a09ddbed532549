r"""Delta of many rounds of randomized response as a sum over the number of lies, all terms positive.

With a the epsilon of one round and :math:`d = (T - \varepsilon/a)/2`

.. math:: \delta(\varepsilon) = (1 + e^{-a})^{-T} \sum_{n < d} \binom Tn e^{-an} \bigl(1 - e^{-2a(d - n)}\bigr) .
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket, Brackets
from dprounds.errors import NumericalError
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["ResponseRounds", "response_rounds"]

Array = NDArray[np.float64]

# --- What carries a proof.

# Roundings of a term for each nat of its exponents; everything else counts as 16 nats.
ROUNDINGS_PER_NAT = 16.0
# Terms below the least normal double count as this much.
LEAST_TERM = 1e-300

# --- What only tunes speed: for more rounds the sum on a line is as quick.

MOST_ROUNDS = 1000


@dataclass(frozen=True, eq=False)
class ResponseRounds:
    """Delta of `rounds` responses of `epsilon` each, each made with a probability whose logarithm is `log_mass`."""

    epsilon: float
    rounds: int
    log_mass: float = 0.0

    @property
    def t(self) -> float:
        """The scale on which delta falls, as lines have it."""
        return 1.0 / self.epsilon

    @cached_property
    def _weights(self) -> tuple[Array, Array]:
        """The probability of n lies, for n up to T/2, and the size of what its exponent was summed from."""
        binomials, found = 1, []
        for n in range(self.rounds // 2 + 1):
            found.append(float(binomials))
            binomials = binomials * (self.rounds - n) // (n + 1)
        lies: Array = self.epsilon * np.arange(len(found), dtype=np.float64)
        whole = self.rounds * (self.log_mass - math.log1p(math.exp(-self.epsilon)))
        return np.asarray(found) * np.exp(whole - lies), np.asarray(abs(whole) + lies)

    def _above(self, epsilon: float) -> Array:
        """By how much each loss exceeds epsilon, from that of no lie on; none if none does."""
        if not epsilon >= 0:  # more than half of the rounds would be lies, for which there are no weights
            raise NumericalError(f"The sum over rounds has no terms for an epsilon of {epsilon:g}.")
        # (rounds - epsilon / self.epsilon) / 2 as a quotient of integers, which is rounded once
        number, parts = epsilon.as_integer_ratio()
        size, size_parts = self._ratio
        whole = 2 * parts * size
        exact = self.rounds * parts * size - number * size_parts
        last = min(-(-exact // whole) - 1, self.rounds // 2)
        fewer = self._falling[self._falling.size - 1 - last :]
        return np.asarray(2.0 * self.epsilon * ((exact - last * whole) / whole + fewer))

    @cached_property
    def _ratio(self) -> tuple[int, int]:
        """The epsilon of one response, exactly."""
        return self.epsilon.as_integer_ratio()

    @cached_property
    def _falling(self) -> Array:
        """Numbers of lies that the largest one of them exceeds, from T/2 down to 0."""
        return np.arange(self.rounds // 2, -1.0, -1.0)

    def value_and_slope(self, epsilon: float) -> tuple[float, float]:
        """Delta as computed and its derivative in epsilon."""
        above = self._above(epsilon)
        weights = self._weights[0][: above.size]
        return float(-(weights * np.expm1(-above)).sum()), float(-(weights * np.exp(-above)).sum())

    def at(self, epsilon: float) -> Bracket:
        """Lower and upper bounds of delta at one epsilon."""
        above = self._above(epsilon)
        if not above.size:
            return Bracket(0.0, 0.0)
        weights, sizes = (row[: above.size] for row in self._weights)
        terms = weights * -np.expm1(-above)
        roundings = ROUNDINGS_PER_NAT * (sizes + 16.0)
        value = float(terms.sum())
        error = UNIT_ROUNDOFF * float((terms * roundings).sum()) + LEAST_TERM * (self.rounds + 1.0)
        return Bracket(max(value - error, 0.0), min(value + error, 1.0))

    def bracket(self, epsilon: Array) -> Brackets:
        """The same at a row of epsilons."""
        found = [self.at(one) for one in epsilon.tolist()]
        return Brackets(np.array([one.lower for one in found]), np.array([one.upper for one in found]))


def response_rounds(epsilon: float, log_mass: float, rounds: int) -> ResponseRounds | None:
    """The sum for so many rounds; None where another one is as quick, or no double holds its terms."""
    return ResponseRounds(epsilon, rounds, log_mass) if rounds <= MOST_ROUNDS and epsilon > 0 else None
