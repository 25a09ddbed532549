"""Mechanisms that see each record with a fixed probability."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import SAMPLING_RATE, choice, count, real, show
from dprounds.accounting.law import LossLaw
from dprounds.errors import NumericalError, ParameterError, UnsupportedError
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
    of_part,
)
from dprounds.mechanisms.grouped_batches import cells_of_mixture, kept, log_mean_exp, mixed_law
from dprounds.mechanisms.mixture_of_gaussians import MixtureOfGaussians
from dprounds.mechanisms.one_record import one_record_law, one_record_max_loss, one_record_rdp
from dprounds.mechanisms.replaced_record import Replaced, replaced
from dprounds.mechanisms.sampling import Sampleable, Summing
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.rounding import above

__all__ = ["PoissonSampled"]

Array = NDArray[np.float64]

# An absent record and an empty one add the same to a sum, so that the pair is the same for the first two.
POISSON_RELATIONS = (ADD_REMOVE, ZERO_OUT, REPLACE_ONE)
# Records of one group: each costs an exponential a node.
LARGEST_GROUP = 1000
# Records of one group that are replaced: each number of them in a batch has a lattice of its own.
LARGEST_REPLACED_GROUP = 100
LEAST_CHANCE = 1e-300
# The part of epsilon that a lattice may cost where the law of a group is a bound.
LATTICE_PRECISION = 1e-5


@dataclass(frozen=True, repr=False)
class PoissonSampled(Accounted, Mechanism):
    r"""A mechanism run on a batch that holds each record independently with probability `sampling_rate`.

    With :math:`w = 1 - q + q\,dP/dQ` for the pair :math:`(P, Q)` of the mechanism, averaged over :math:`Q`,

    .. math:: M_{\text{remove}}(z) = E[w^{z+1}], \qquad M_{\text{add}}(z) = E[w^{-z}].

    Neighbours differ by one record, present or absent. Both directions must be accounted, each composed by itself; the
    Rényi bound is that of ``"remove"``, which is the larger one at every order. A rate of 0 costs nothing, and a rate
    of 1 costs what the mechanism costs.

    Parameters
    ----------
    mechanism
        `Gaussian`, `Laplace`, `RandomizedResponse`, `PureDP`, `DiscreteGaussian` or `DiscreteLaplace`.
    sampling_rate
        The probability, in [0, 1], with which each record enters the batch.
    relation
        ``"add-remove"``, or ``"zero-out"``: a record is replaced by an empty one, whose gradient is zero, and the
        number of records is public. The pair is the same for both. Or ``"replace-one"``: a record is replaced by
        another, for `Gaussian` only. Its noise multiplier is the standard deviation over the *clipping norm*; that a
        record which is replaced moves the sum twice as far is counted here.
    group_size
        The guarantee is for so many records together, those of one person or household; each is sampled by itself. For
        `Gaussian` only. Where several are replaced, it is an upper bound, and a guarantee says ``"bound"``.

    Theorem
    -------
    [ZDW22, Theorem 11] for the pairs, [MTZ19, Theorem 5] for the larger direction; docs/theory/mechanisms.md.

    Examples
    --------
    >>> from dprounds.mechanisms import Gaussian
    >>> step = PoissonSampled(Gaussian(noise_multiplier=1.1), sampling_rate=256 / 60_000)
    >>> f"{step.rdp(order=8.0):.6e}"
    '9.834106e-05'

    The same for a person with three records, each of which enters a batch by itself:

    >>> round((PoissonSampled(Gaussian(1.1), 256 / 60_000, group_size=3) * 1000).epsilon(delta=1e-5), 4)
    2.013
    """

    mechanism: Mechanism
    sampling_rate: float
    relation: str = ADD_REMOVE
    group_size: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise ParameterError(f"mechanism must be a mechanism, got {show(self.mechanism)}.")
        if self.mechanism.sampling is not None:
            raise UnsupportedError(
                f"{type(self.mechanism).__name__} chooses its batches itself, and no Poisson sample is drawn of them: "
                "account for it as it is."
            )
        if not isinstance(self.mechanism, Sampleable):
            raise UnsupportedError(
                f"No moment function is known here for a Poisson-sampled {type(self.mechanism).__name__}: sample a "
                "Gaussian, Laplace, RandomizedResponse, PureDP, DiscreteGaussian or DiscreteLaplace."
            )
        relation = choice("relation", self.relation, POISSON_RELATIONS)
        most = LARGEST_REPLACED_GROUP if relation == REPLACE_ONE else LARGEST_GROUP
        self._set(
            sampling_rate=real("sampling_rate", self.sampling_rate, SAMPLING_RATE),
            relation=relation,
            group_size=count("group_size", self.group_size, least=1, most=most),
        )
        if self.group_size > 1 and not isinstance(self.mechanism, Summing):
            raise UnsupportedError(
                f"What a Poisson-sampled {type(self.mechanism).__name__} costs a group of {self.group_size} records is "
                "not known here: sample a Gaussian, or set group_size to 1."
            )
        if self.relation == REPLACE_ONE and not isinstance(self.mechanism, Summing):
            raise UnsupportedError(
                "What a Poisson sample costs where one record is replaced by another is known here for Gaussian noise."
            )

    @cached_property
    def _replaced(self) -> Replaced | None:
        """A record that is replaced by another; None where it is present or absent, and at rate 0."""
        if self.relation != REPLACE_ONE or not self.sampling_rate or self._members:
            return None
        # the constructor has made sure; at rate one all records of a group are in every batch
        return replaced(cast(Summing, self._louder[-1]).normal_noise, self.sampling_rate)

    @cached_property
    def _chances(self) -> list[Fraction]:
        """Of each number of the group's records in a batch."""
        rate, k = Fraction(self.sampling_rate), self.group_size
        return [math.comb(k, i) * rate**i * (1 - rate) ** (k - i) for i in range(k + 1)]

    @cached_property
    def _members(self) -> list[tuple[float, PoissonSampled]]:
        """Where a group is replaced: what i of its records cost as one of i times the norm, each with its weight.

        They are seen with the chance that any of the group is in the batch, rounded up.
        """
        if self.relation != REPLACE_ONE or self.group_size == 1 or not 0 < self.sampling_rate < 1:
            return []
        some = 1 - self._chances[0]
        rate = float(some)
        rate = rate if Fraction(rate) >= some else math.nextafter(rate, 2.0)
        return [
            (float(chance / some), replace(self, mechanism=mechanism, sampling_rate=min(rate, 1.0), group_size=1))
            for chance, mechanism in zip(self._chances[1:], self._louder, strict=True)
        ]

    @property
    def _louder(self) -> list[Mechanism]:
        """The mechanism for records of 1, 2, ... times the norm, as many as the group has."""
        mechanism = cast(Summing, self.mechanism)
        return [mechanism.for_norm(i) for i in range(1, self.group_size + 1)]

    @property
    def is_tight(self) -> bool:
        """Whether the pair is one of real neighbours: not that of a group that is replaced."""
        return not self._members and self.mechanism.is_tight

    def attack_law(self, direction: str) -> LossLaw:
        """Of real neighbours: all records of a group that is replaced are replaced by empty ones."""
        if self._members:
            return replace(self, relation=ZERO_OUT).law(REMOVE)
        return self.law(direction) if self.is_tight else replace(self, mechanism=self.mechanism.attacked).law(direction)

    @cached_property
    def _other_pair(self) -> Mechanism | None:
        """What has the worst pair of this sample, if that is not a record that is present or absent.

        All records of a group together, if there are several: a binomial number of them is in the batch. Or one record
        that is replaced by another.
        """
        if self.relation == REPLACE_ONE:
            return None if self._replaced is None else self._replaced.bound
        if self.group_size == 1:
            return None
        # a probability below the doubles is raised: a larger shift that is likelier costs more
        rounded = [max(float(chance), LEAST_CHANCE) if chance else 0.0 for chance in self._chances]
        return MixtureOfGaussians(cast(Summing, self.mechanism).normal_noise, range(self.group_size + 1), rounded)

    @property
    def directions(self) -> tuple[str, ...]:
        """``"remove"`` and ``"add"``: a record among those that may be sampled is taken away, or joins them.

        One, where it is replaced by another: the two may change places.
        """
        return (REMOVE,) if self.relation == REPLACE_ONE else BOTH_DIRECTIONS

    @property
    def sampling(self) -> str:
        """``"poisson"``: each record is taken independently of all others."""
        return "poisson"

    def _rdp(self, orders: Array) -> Array:
        if self._members:
            t = orders - 1.0
            costs = log_mean_exp(*zip(*((w, t * one._bounds(orders)) for w, one in self._members), strict=True)).real
            return above(costs / t, RELATIVE_ERROR * costs / t + ABSOLUTE_ERROR)
        if self._other_pair is not None:
            return self._other_pair._bounds(orders)
        return one_record_rdp(self.mechanism, self.sampling_rate, orders)

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        if self._members:
            if np.iscomplexobj(z):
                raise NumericalError("The moments of a group that is replaced are known on the real axis alone.")
            return log_mean_exp(*zip(*((w, one._log_moment(z, direction)) for w, one in self._members), strict=True))
        return self.law(direction).log_moment(z)

    def _law(self, direction: str) -> LossLaw:
        if self._members:
            members, rest = kept(self._members)
            return mixed_law(
                self,
                cells_of_mixture([(weight, one.law(direction)) for weight, one in members]),
                rest,
                lambda z: self._log_moment(z, direction),
                seen=self._members[0][1].sampling_rate,
                precision=LATTICE_PRECISION,
            )
        if self._replaced is not None and self._replaced.cells is not None:
            bound = self._replaced.bound
            return LossLaw(
                of=self,
                log_moment=lambda z: bound._log_moment(z, direction),
                cells=self._replaced.cells,
                max_loss=bound._max_loss(direction),
                max_loss_is_least=True,
                seen=self.sampling_rate,
                most_nodes=0,
            )
        if self._other_pair is not None:
            return replace(self._other_pair.law(of_part(self._other_pair, direction)), of=self)
        return one_record_law(self, self.mechanism, self.sampling_rate, direction)

    def _max_loss(self, direction: str) -> float:
        if self._members:
            return math.inf
        if self._other_pair is not None:
            return self._other_pair._max_loss(direction)
        return one_record_max_loss(self.mechanism, self.sampling_rate, direction)
