r"""Delta of many rounds of the Laplace mechanism as a sum of positive terms.

A round's loss is the largest one, 1/b, with probability 1/2, the smallest one, -1/b, or between them. Below the largest
sum, T/b, in units of 2/b, a round is 0, 1, or uniform on [0, 1] up to a tilt that is the same for all; so a run is a
number n of ones and a sum :math:`W_k` of k uniform variables. With a = 1/b and :math:`d = (T - \varepsilon b)/2`

.. math:: \delta(\varepsilon) = 2 e^{-ad} \sum_{k,n} \frac{T!}{k!\,n!\,(T-k-n)!} \frac{a^k}{2^T}\,
          E\bigl[\sinh(a(d - n - W_k))_+\bigr] .

docs/theory/laplace.md has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket, Brackets
from dprounds.errors import NumericalError
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.uniform_sums import gauss_error, hyperbolic_means

__all__ = ["LaplaceRounds", "laplace_rounds"]

Array = NDArray[np.float64]

# --- What carries a proof; docs/theory/laplace.md.

# Roundings of a term for each factor of its weight, each step of the recurrences of its mean, and each nat of its
# exponents; the sum of all terms counts as 16 steps.
ROUNDINGS_PER_STEP = 16.0
# What rounding to the least doubles may lose.
LEAST_DOUBLE = 5e-324

# --- What only tunes speed: elsewhere another sum is as quick.

LARGEST_RATE = 3.0
MOST_BETWEEN = 240
MOST_TERMS = 100_000
# Of Gauss's rule, that many nodes of which the error is below this delta, relative to its last digits.
NODES = (8, 12, 16, 24, 32, 40)
SMALLEST_DELTA = 1e-44
# Sums of this many epsilons are kept: a search comes back to some.
REMEMBERED = 64


@dataclass(frozen=True, eq=False)
class LaplaceRounds:
    """Delta of `rounds` rounds, of which at most `most` are between the two extremes; more count as a remainder."""

    scale: float
    rounds: int
    most: int

    @property
    def t(self) -> float:
        """The scale on which delta falls, as lines have it."""
        return self.scale

    @property
    def _weights(self) -> Array:
        """The probabilities of n ones and k between, without their tilt: rows are k, columns n up to T/2."""
        return _remembered_weights(self.scale, self.rounds, self.most)

    @cached_property
    def _full(self) -> Array:
        """The mean of the exponential over k variables around their centre, for each k."""
        half = 0.5 / self.scale
        return np.asarray((math.sinh(half) / half) ** np.arange(self.most + 1))

    def _sums(self, epsilon: float) -> tuple[float, float, float, float]:
        """The sums with the hyperbolic sine and cosine, that of the last k alone, and their common factor."""
        if epsilon not in self._last_sums:  # a search asks for a value, and then for its bracket
            if len(self._last_sums) >= REMEMBERED:
                self._last_sums.clear()
            self._last_sums[epsilon] = self._sums_at(epsilon)
        return self._last_sums[epsilon]

    @cached_property
    def _last_sums(self) -> dict[float, tuple[float, float, float, float]]:
        return {}

    def _sums_at(self, epsilon: float) -> tuple[float, float, float, float]:
        if not epsilon >= 0:  # more than half of the rounds would be ones, for which there are no weights
            raise NumericalError(f"The sum over rounds has no terms for an epsilon of {epsilon:g}.")
        exact = (self.rounds - Fraction(epsilon) * Fraction(self.scale)) / 2
        if exact <= 0:
            return 0.0, 0.0, 0.0, 0.0
        last = min(math.floor(exact), self.rounds // 2)  # the most ones
        fraction, a = float(exact - last), 1.0 / self.scale
        k = np.arange(self.most + 1)
        # from n = last down to 0 the distance to the largest sum is fraction + j
        j = np.arange(last + 1)
        weights = self._weights[:, last::-1] if last else self._weights[:, :1]
        # where all of the sum of k variables is below that distance, the mean is that around their centre
        halves = np.arange(2 * last + 1)
        centred, place = a * (fraction + 0.5 * halves), np.maximum(2 * j - k[:, None], 0)
        sinh = self._full[:, None] * np.sinh(centred)[place]
        cosh = self._full[:, None] * np.cosh(centred)[place]
        if self.most:
            points = min(last + 1, self.most)
            sinh_means, cosh_means = hyperbolic_means(a, fraction, points, self.most, self._nodes)
            part = (j < k[:, None])[1:, :points]
            sinh[1:, :points][part], cosh[1:, :points][part] = sinh_means[part], cosh_means[part]
        by_rows = (weights * sinh).sum(axis=1)
        factor = math.exp(-a * float(exact))
        return float(by_rows.sum()), float((weights * cosh).sum()), float(by_rows[-1]), factor

    @property
    def _largest(self) -> float:
        """All weights together."""
        return math.exp(self.rounds * math.log1p(0.5 / self.scale))

    @property
    def _underflow(self) -> float:
        """What weights below the least double may add: a row multiplies those of its columns by at most (1 + a)^T."""
        growth = math.exp(self.rounds * math.log1p(1.0 / self.scale))
        return LEAST_DOUBLE * (self.rounds + 1.0) * (self.most + 1.0) * growth

    def _gauss_error(self, nodes: int) -> float:
        """*Gauss*: an error grows along the points by less than the common factor falls."""
        points = min(self.rounds // 2 + 1, self.most)
        return 2.0 * gauss_error(1.0 / self.scale, nodes) * points * self._largest

    @cached_property
    def _nodes(self) -> int:
        return next((nodes for nodes in NODES if self._gauss_error(nodes) < SMALLEST_DELTA), NODES[-1])

    def value_and_slope(self, epsilon: float) -> tuple[float, float]:
        """Delta as computed and its derivative in epsilon."""
        sinh, cosh, _, factor = self._sums(epsilon)
        return 2.0 * factor * sinh, -factor * (cosh - sinh)

    def at(self, epsilon: float) -> Bracket:
        """Lower and upper bounds of delta at one epsilon."""
        if Fraction(epsilon) * Fraction(self.scale) >= self.rounds:
            return Bracket(0.0, 0.0)
        sinh, _, last, factor = self._sums(epsilon)
        a, value = 1.0 / self.scale, 2.0 * factor * sinh
        points = min(self.rounds // 2 + 1, self.most)
        steps = 2.0 * self.most + points + a * self.rounds + 16.0
        relative = ROUNDINGS_PER_STEP * UNIT_ROUNDOFF * steps
        error = relative * value + self._gauss_error(self._nodes) + self._underflow
        # *remainder*: with one more between, a row is at most this part of the row before
        ratio = a * (self.rounds - self.most) / (self.most + 1.0)
        if not ratio < 1:
            raise NumericalError("The exact sum of this run needs more terms than are allowed.")
        remainder = 2.0 * factor * last * ratio / (1.0 - ratio) * (1.0 + relative)
        return Bracket(max(value - error, 0.0), min(value + error + remainder, 1.0))

    def bracket(self, epsilon: Array) -> Brackets:
        """The same at a row of epsilons."""
        found = [self.at(one) for one in epsilon.tolist()]
        return Brackets(np.array([one.lower for one in found]), np.array([one.upper for one in found]))


@lru_cache(maxsize=8)
def _remembered_weights(scale: float, rounds: int, most: int) -> Array:
    count, whole = rounds // 2 + 1, 1 << rounds
    ones, binomials = [], 1
    for n in range(count):
        ones.append(binomials / whole)
        binomials = binomials * (rounds - n) // (n + 1)
    found = np.empty((most + 1, count))
    found[0] = ones
    rest = rounds - np.arange(count, dtype=np.float64)
    for k in range(most):
        # none is left where k + n is T
        found[k + 1] = found[k] * (np.maximum(rest - k, 0.0) * (1.0 / (scale * (k + 1))))
    return found


def laplace_rounds(scale: float, rounds: int) -> LaplaceRounds | None:
    """The sum for so many rounds; None where another one is as quick."""
    between = rounds / scale
    if not (1.0 / scale <= LARGEST_RATE and between <= 2 * MOST_BETWEEN and rounds <= MOST_TERMS):
        return None
    # beyond the first the remainder is a geometric series, and beyond the second there is next to none
    enough = max(1.1 * between / (1.0 + 1.0 / scale), 0.5 * between + 5.0 * math.sqrt(between)) + 15.0
    most = min(rounds, math.ceil(enough))
    return LaplaceRounds(scale, rounds, most) if most <= MOST_BETWEEN and most * rounds <= 2 * MOST_TERMS else None
