"""Gaussian noise on a Poisson sample of which at most so many records are kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import SAMPLING_RATE, choice, count, real, show
from dprounds.accounting.bracket import Bracket
from dprounds.accounting.law import LOG_MOMENT_ERROR, LossLaw
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import (
    ABSOLUTE_ERROR,
    ADD_REMOVE,
    BOTH_DIRECTIONS,
    RELATIVE_ERROR,
    REMOVE,
    REPLACE_ONE,
    ZERO_OUT,
    Mechanism,
)
from dprounds.mechanisms.emptied_record import attack_cells
from dprounds.mechanisms.fixed_size_sampled import FixedSizeSampled
from dprounds.mechanisms.gaussian import Gaussian
from dprounds.mechanisms.grouped_batches import (
    UNITS_OF_MEAN,
    cells_of_mixture,
    error_of_mixture,
    log_mean_exp,
    mean_of_ceilings,
    mixed_law,
)
from dprounds.mechanisms.poisson_sampled import PoissonSampled
from dprounds.mechanisms.sampled_gaussian import normal_cells
from dprounds.numerics.binomial_tail import Tail, binomial_masses, binomial_tail
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above

__all__ = ["TruncatedPoissonSampled"]

Array = NDArray[np.float64]

RELATIONS = (ADD_REMOVE, ZERO_OUT, REPLACE_ONE)
LARGEST_DATASET = 10**12

# The part of epsilon that a lattice may cost where the law is a bound.
LATTICE_PRECISION = 1e-5
# Intervals for one deviation of the noise into which an attacker sorts the sum of a batch, how far they reach in
# deviations, and the numbers of other records in a batch that he looks at if there are many: those that are likelier.
INTERVALS_OF_NOISE = 24.0
REACH = 10.0
LEAST_CHANCE = 1e-25
# Integrals of profiles prove less than the profile where records are left out in fewer rounds than this.
RARELY_CUT = 0.005
# The order at which two attacks are compared.
ORDER = 2.0


class _Parts(NamedTuple):
    """What a round is dominated by, each with its weight: which of them it is does not depend on the record."""

    weights: tuple[float, ...]
    mechanisms: tuple[PoissonSampled | FixedSizeSampled, ...]


@dataclass(frozen=True, repr=False)
class TruncatedPoissonSampled(Accounted, Mechanism):
    r"""Gaussian noise on a Poisson sample: if more than `largest_batch` records are drawn, a random so many are kept.

    The loader of code whose arrays have a fixed shape, as in JAX. While no record is left out it is a Poisson sample;
    else a record that is kept takes another one's place, so that the sum may move by twice the clipping norm. Whether
    records are left out depends on the others alone, and the bound is one for an attacker who knows it. So a guarantee
    says ``"bound"``, unless records are left out so rarely that it does not matter.

    Parameters
    ----------
    mechanism
        `Gaussian`; its noise multiplier is the standard deviation over the *clipping norm*.
    sampling_rate
        The probability, in [0, 1], with which each record is drawn.
    largest_batch
        Records that a batch holds at most, an integer in [1, inf).
    dataset_size
        Records in all, an integer in [1, 1e12]. With ``"add-remove"`` neighbours have one record more or one less.
    relation
        ``"add-remove"``; ``"zero-out"``: a record is replaced by an empty one, which is drawn and takes its place in a
        batch like any other; or ``"replace-one"``: by another record.

    Theorem
    -------
    docs/theory/loaders.md, "Truncated Poisson samples".

    Examples
    --------
    Batches of 256 out of 60,000 on average, in arrays of 320:

    >>> step = TruncatedPoissonSampled(Gaussian(1.1), 256 / 60_000, largest_batch=320, dataset_size=60_000)
    >>> found = (step * 14_062).guarantee(delta=1e-5)
    >>> found.method, round(found.lower, 4), round(found.upper, 4)
    ('bound', 2.3816, 2.4076)
    """

    mechanism: Mechanism
    sampling_rate: float
    largest_batch: int
    dataset_size: int
    relation: str = ADD_REMOVE

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise ParameterError(f"mechanism must be a mechanism, got {show(self.mechanism)}.")
        if not isinstance(self.mechanism, Gaussian):
            raise UnsupportedError(
                f"What {type(self.mechanism).__name__} costs on truncated Poisson samples is not known here: "
                "use a Gaussian."
            )
        self._set(
            sampling_rate=real("sampling_rate", self.sampling_rate, SAMPLING_RATE),
            largest_batch=count("largest_batch", self.largest_batch, least=1),
            dataset_size=count("dataset_size", self.dataset_size, least=1, most=LARGEST_DATASET),
            relation=choice("relation", self.relation, RELATIONS),
        )

    @property
    def sampling(self) -> str:
        """``"truncated"``: each record is drawn independently of all others, and at most so many are kept."""
        return "truncated"

    @property
    def directions(self) -> tuple[str, ...]:
        """One, where a record is replaced by another: the two may change places. Else both."""
        return (REMOVE,) if self.relation == REPLACE_ONE else BOTH_DIRECTIONS

    @property
    def is_tight(self) -> bool:
        """Only where no record is ever left out."""
        return len(self._parts.weights) == 1

    @property
    def _noise(self) -> float:
        return self.mechanism.noise_multiplier  # type: ignore[attr-defined, no-any-return]  # the constructor made sure

    @cached_property
    def _tails(self) -> tuple[Tail, Tail]:
        """The number of other records that are drawn, of the fewest and of the most others that neighbours have."""
        most = self.dataset_size if self.relation == ADD_REMOVE else self.dataset_size - 1
        return (
            binomial_tail(self.dataset_size - 1, self.sampling_rate, self.largest_batch),
            binomial_tail(most, self.sampling_rate, self.largest_batch),
        )

    @cached_property
    def _parts(self) -> _Parts:
        """Poisson samples while no record is left out, what displaces another one while some are, and the rest.

        The rest is counted as what costs more than both: for add and remove it is the chance that one more record
        in all makes the difference, and else what the chances round by.
        """
        plain = PoissonSampled(self.mechanism, self.sampling_rate, self.relation)
        few, many = self._tails
        if not many.upper or not self.sampling_rate:
            return _Parts((1.0,), (plain,))
        cut, either = self._weights()
        rate = self.sampling_rate * self.largest_batch * few.reciprocal * (1.0 + 8.0 * UNIT_ROUNDOFF)
        found = [
            # rounded up by a few units: a little mass more costs no less
            (min(1.0 - cut - either + 4.0 * UNIT_ROUNDOFF, 1.0), plain),
            (cut, self._displacing(min(rate, self.sampling_rate))),
            (either, self._displacing(self.sampling_rate)),
        ]
        weights, mechanisms = zip(*((weight, one) for weight, one in found if weight), strict=True)
        return _Parts(weights, mechanisms)

    def _weights(self) -> tuple[float, float]:
        """The chance that records are left out, from below, and what may be left of it."""
        few = self._tails[0]
        cut = few.lower
        either = few.upper - cut + self.sampling_rate * (few.before if self.relation == ADD_REMOVE else 0.0)
        return cut, min(either * (1.0 + 8.0 * UNIT_ROUNDOFF) + 5e-324, 1.0 - cut)

    def _displacing(self, rate: float) -> PoissonSampled | FixedSizeSampled:
        """What a record costs that takes another one's place with this chance."""
        if self.relation == ADD_REMOVE:
            return PoissonSampled(Gaussian(0.5 * self._noise), rate)
        return FixedSizeSampled(Gaussian(self._noise), *Fraction(rate).as_integer_ratio(), self.relation)

    def _mean(self, values: Sequence[Numbers]) -> Numbers:
        """The logarithm of the mean of exponentials over the parts."""
        return log_mean_exp(self._parts.weights, values)

    def _rdp(self, orders: Array) -> Array:
        if self.is_tight:
            return self._parts.mechanisms[0]._bounds(orders)
        t = orders - 1.0
        costs = self._mean([t * one._bounds(orders) for one in self._parts.mechanisms]).real
        return above(costs / t, RELATIVE_ERROR * costs / t + ABSOLUTE_ERROR)

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        return self._mean([one._log_moment(z, direction) for one in self._parts.mechanisms])

    def _max_loss(self, direction: str) -> float:
        return max(one._max_loss(direction) for one in self._parts.mechanisms)

    def _law(self, direction: str) -> LossLaw:
        return self._law_of([one.law(direction) for one in self._parts.mechanisms], direction)

    def _law_of(self, laws: Sequence[LossLaw], direction: str) -> LossLaw:
        """The mixture of these laws by the weights of the parts."""
        weights = self._parts.weights
        if len(laws) == 1:
            (law,) = laws
            return replace(law, of=self, slopes=None)
        cells = cells_of_mixture(zip(weights, laws, strict=True))
        if self.relation != ADD_REMOVE:
            return mixed_law(
                self,
                cells,
                0.0,
                lambda z: self._mean([law.log_moment(z) for law in laws]),
                seen=self._seen,
                precision=LATTICE_PRECISION,
            )
        ceilings = [law.ceiling for law in laws]
        found = LossLaw(
            of=self,
            log_moment=lambda z: self._mean([law.log_moment(z) for law in laws]),
            ceiling=None if None in ceilings else partial(self._ceiling, laws),
            fewest_falling=max(law.fewest_falling for law in laws),
            cells=cells,
            excess=partial(self._excess, laws),
            max_loss=self._max_loss(direction),
            max_loss_is_least=True,
            seen=self._seen,
            most_nodes=min(law.most_nodes for law in laws),
            is_attained=False,
        )
        return replace(found, moment_error=partial(error_of_mixture, found))

    @property
    def _seen(self) -> float:
        """An upper bound on the chance that a batch holds the record."""
        return self.sampling_rate

    def _ceiling(self, laws: Sequence[LossLaw], t: float, s: Array) -> Array:
        """Upper bounds of Re K from each s on: the mean of the parts', none of which exceeds what it is on the axis."""
        rows = []
        for law in laws:
            flat = float(np.real(law.log_moment(np.array([t])))[0])
            known = np.full_like(s, math.inf) if law.ceiling is None else law.ceiling(t, s)
            rows.append(np.minimum(known, flat + LOG_MOMENT_ERROR * abs(flat)))
        return mean_of_ceilings(self._parts.weights, rows)

    def _excess(self, laws: Sequence[LossLaw], level: float) -> Bracket:
        """Delta of one round of the mixture: profiles add up."""
        lower = upper = 0.0
        for weight, law in zip(self._parts.weights, laws, strict=True):
            found = Bracket(0.0, 1.0) if law.excess is None else law.excess(level)
            lower, upper = lower + weight * found.lower, upper + weight * found.upper
        off = UNITS_OF_MEAN * UNIT_ROUNDOFF
        return Bracket(lower * (1.0 - off), min(upper * (1.0 + off), 1.0))

    def integrated_law(self, direction: str) -> LossLaw | None:
        """The mixture of what bounds the parts in integrals of profiles, where that is known of a displacing record."""
        if self.is_tight or self.relation == ADD_REMOVE or not self._tails[0].upper > RARELY_CUT:
            return None
        laws = [one.integrated_law(direction) for one in self._parts.mechanisms]
        if all(law is None for law in laws):
            return None
        chosen = [law or one.law(direction) for law, one in zip(laws, self._parts.mechanisms, strict=True)]
        return self._law_of(chosen, direction)

    def attack_law(self, direction: str) -> LossLaw:
        """Of real neighbours: all other records are empty, or all point away from the one that differs."""
        if self.is_tight:
            return self.law(direction)
        n, b, q = self.dataset_size, self.largest_batch, self.sampling_rate
        # with so many others the record is in a batch with the chance q P(N < b) + b / n P(N' > b), N' of all records
        kept = q * max(1.0 - self._tails[0].upper, 0.0) + b / n * binomial_tail(n, q, b + 1).lower
        among_empty = PoissonSampled(self.mechanism, kept * (1.0 - 16.0 * UNIT_ROUNDOFF), self.relation).law(direction)
        if not 0 < q < 1:
            return among_empty
        # either is real; the one is taken that shows more of the record, by a moment
        seen = self._noisy_pair(np.array([0.0, 1.0 - kept, kept]), self._among_empty(kept), 0.0, direction)
        found = self._noisy_pair(*self._among_others(), direction)
        if _moment(found) <= _moment(seen):
            return among_empty
        p, p_error, r, r_error = found
        return LossLaw(
            of=self,
            log_moment=lambda z: self._log_moment(z, direction),
            cells=attack_cells(p, r, p_error, r_error),
            most_nodes=0,
            lattice_precision=LATTICE_PRECISION,
        )

    @property
    def _end(self) -> int | None:
        """What takes the place of a record at 1: nothing, an empty record, or one at -1."""
        return {ADD_REMOVE: None, ZERO_OUT: 0, REPLACE_ONE: -1}[self.relation]

    def _among_empty(self, kept: float) -> Array:
        """The chances of the sums -1, 0 and 1 without the record, if all others are 0."""
        sums = np.array([0.0, 1.0 - kept, 0.0])
        sums[1 + (self._end or 0)] += kept
        return sums

    def _among_others(self) -> tuple[Array, Array, float]:
        """The chances of successive sums with the record and without it, if all others are -1; and their error."""
        others, b, q = self.dataset_size - 1, self.largest_batch, self.sampling_rate
        first, masses, error = binomial_masses(others, q)
        numbers = np.arange(first, first + masses.size)
        likely = np.flatnonzero(masses > LEAST_CHANCE)
        masses, numbers = masses[likely[0] : likely[-1] + 1], numbers[likely[0] : likely[-1] + 1]
        drawn = np.where(numbers >= b, q * b / (numbers + 1.0), q)
        without_it, with_it = np.minimum(numbers, b), np.minimum(numbers, b - 1)
        lowest = -int(without_it.max()) - 1

        def law(gradient: int | None) -> Array:
            sums = np.zeros(2 - int(with_it.min()) - lowest)
            np.add.at(sums, -without_it - lowest, masses if gradient is None else masses * (1.0 - drawn))
            if gradient is not None:
                np.add.at(sums, -with_it + gradient - lowest, masses * drawn)
            return sums

        return law(1), law(self._end), error

    def _noisy_pair(self, p: Array, r: Array, error: float, direction: str) -> tuple[Array, Array, Array, Array]:
        """Masses of intervals with the record and without it, or the other way round, each with its errors."""
        found = (*self._noisy(p, error), *self._noisy(r, error))
        return found if direction == REMOVE else (*found[2:], *found[:2])

    def _noisy(self, chances: Array, error: float) -> tuple[Array, Array]:
        """Masses of intervals of sums with noise, and their errors, from the chances of successive whole sums."""
        noise, per_one = self._noise, max(math.ceil(INTERVALS_OF_NOISE / self._noise), 1)
        reach = math.ceil(REACH * noise)
        edges = np.arange(-reach * per_one, reach * per_one + 1) / (per_one * noise)
        inside, inside_error = normal_cells(edges, np.abs(edges))
        spread = np.zeros((chances.size - 1) * per_one + 1)
        spread[::per_one] = chances
        masses = np.convolve(spread, inside[1:-1])
        errors = np.convolve(spread, inside_error[1:-1]) + (error + chances.size * 4.0 * UNIT_ROUNDOFF) * masses
        # what is left out, beyond the reach or in numbers that are rare, may be anywhere
        missing = float(inside[0] + inside[-1]) + chances.size * LEAST_CHANCE + 1e-250
        return masses, errors + missing


def _moment(masses: tuple[Array, Array, Array, Array]) -> float:
    """E[(p / q)^ORDER] under p, of two laws given by masses."""
    p, _, r, _ = masses
    held = (p > 0) & (r > 0)
    return float((p[held] * (p[held] / r[held]) ** ORDER).sum())
