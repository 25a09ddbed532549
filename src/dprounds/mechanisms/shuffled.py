"""Gaussian noise on the batches of a loader that shuffles, and goes through the data in slices."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import choice, count, show
from dprounds.accounting.cells import CellsOf
from dprounds.accounting.law import LossLaw
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import BOTH_DIRECTIONS, REMOVE, REPLACE_ONE, ZERO_OUT, Mechanism
from dprounds.mechanisms.emptied_record import attack_cells
from dprounds.mechanisms.gaussian import Gaussian, unsampled_slopes
from dprounds.mechanisms.random_allocation import RandomAllocation
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.normal import normal_quantile
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.special import log_ndtr

__all__ = ["Shuffled"]

Array = NDArray[np.float64]

RELATIONS = (ZERO_OUT, REPLACE_ONE)
# Intervals into which the largest of all batch sums is sorted; how far they reach above, in deviations; and below, by
# the logarithm of the chance that all sums are lower. What is outside is in the first or in the last one.
INTERVALS = 2**15
REACH = 9.0
LOG_BELOW = -60.0
MOST_STEPS = 10**9
# Records of one group: beyond, each would have next to no noise.
LARGEST_GROUP = 1000
# The part of epsilon that a lattice may cost: the bracket is wide.
LATTICE_PRECISION = 1e-5

# --- What carries a proof; docs/theory/loaders.md.

# Units of rounding of a logarithm of the normal distribution function, relative to one plus the square of its argument.
LOG_NDTR_UNITS = 16.0


@dataclass(frozen=True, repr=False)
class Shuffled(Accounted, Mechanism):
    """One epoch of a loader that shuffles all records and takes them in `steps` slices of equal size.

    ``Shuffled(Gaussian(1.0), steps=100) * 10`` is ten epochs. A record is in one batch of every epoch, and no proof is
    known that not knowing which one helps. So the upper end of the bracket is that of noise without any sampling, and
    the lower end is an attack. Between them is a wide gap: a guarantee has the method ``"bound"``. `allocated` is the
    loader that costs a fraction of it.

    Parameters
    ----------
    mechanism
        `Gaussian`; its noise multiplier is the standard deviation over the *clipping norm*.
    steps
        Batches of an epoch, an integer in [1, 1e9].
    relation
        ``"zero-out"``: a record is replaced by an empty one; or ``"replace-one"``: by another. The number of records is
        public, since it fixes the slices.
    group_size
        The guarantee is for so many records together, those of one person, an integer in [1, 1000]. At worst all of
        them are in one batch, which is then known.

    Theorem
    -------
    docs/theory/loaders.md, "Shuffled batches".

    Examples
    --------
    >>> epoch = Shuffled(Gaussian(1.1), steps=234)
    >>> found = (epoch * 10).guarantee(delta=1e-5)
    >>> found.method, round(found.lower, 2), round(found.upper, 2)
    ('bound', 5.21, 15.78)
    >>> round((epoch.allocated * 10).epsilon(delta=1e-5), 2)
    0.88
    """

    mechanism: Mechanism
    steps: int
    relation: str = ZERO_OUT
    group_size: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise ParameterError(f"mechanism must be a mechanism, got {show(self.mechanism)}.")
        if not isinstance(self.mechanism, Gaussian):
            raise UnsupportedError(
                f"What {type(self.mechanism).__name__} costs on shuffled batches is not known here: use a Gaussian."
            )
        self._set(
            steps=count("steps", self.steps, least=1, most=MOST_STEPS),
            relation=choice("relation", self.relation, RELATIONS),
            group_size=count("group_size", self.group_size, least=1, most=LARGEST_GROUP),
        )

    @property
    def sampling(self) -> str:
        """``"shuffled"``: every epoch goes through all records once, in a random order."""
        return "shuffled"

    @property
    def directions(self) -> tuple[str, ...]:
        """Both, since attacks differ; the upper end is the same for both."""
        return BOTH_DIRECTIONS

    @property
    def is_tight(self) -> bool:
        """Only if an epoch is one batch."""
        return self.steps == 1

    @property
    def allocated(self) -> RandomAllocation:
        """The same noise and steps, if every record joins one step of an epoch at random, independently of others."""
        return RandomAllocation(self.mechanism, self.steps, relation=ZERO_OUT, group_size=self.group_size)

    @cached_property
    def _unsampled(self) -> Gaussian:
        """The noise over how far the record, or all of a group, move the one sum that they are in."""
        noise = 0.5 * self._noise if self.relation == REPLACE_ONE else self._noise
        return Gaussian(noise if self.group_size == 1 else math.nextafter(noise / self.group_size, 0.0))

    @property
    def _noise(self) -> float:
        return self.mechanism.noise_multiplier  # type: ignore[attr-defined, no-any-return]  # the constructor made sure

    def _rdp(self, orders: Array) -> Array:
        return self._unsampled._bounds(orders)

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        return self._unsampled._log_moment(z, direction)

    def _max_loss(self, direction: str) -> float:
        return math.inf

    def _law(self, direction: str) -> LossLaw:
        return replace(self._unsampled.law(), of=self, slopes=partial(unsampled_slopes, self._noise))

    def attack_law(self, direction: str) -> LossLaw:
        """Of real neighbours: all other records point away from the one that differs, of a group one alone."""
        if self.steps == 1:
            return self.law(direction)
        if self.group_size > 1:
            return replace(self, group_size=1).attack_law(direction)
        if self.relation == REPLACE_ONE:
            return RandomAllocation(self._unsampled, self.steps).law(direction)
        return LossLaw(
            of=self,
            log_moment=lambda z: self._log_moment(z, direction),
            cells=_largest_sum_cells(self._noise, self.steps, direction),
            most_nodes=0,
            lattice_precision=LATTICE_PRECISION,
        )


def _largest_sum_cells(noise: float, steps: int, direction: str) -> CellsOf:
    r"""Cells of an attacker who looks at the largest of all batch sums alone, sorted into intervals.

    Of t sums one is 2 with the record, and 1 if it is empty, and the others are 0: the largest is at most x with
    probability :math:`\Phi((x - m)/\sigma)\,\Phi(x/\sigma)^{t-1}`.
    """
    x = np.linspace(-normal_quantile(LOG_BELOW / (steps - 1)), 2.0 / noise + REACH, INTERVALS)  # over the noise
    with_it, without = (_masses(x, move / noise, steps) for move in (2.0, 1.0))
    (p, p_error), (q, q_error) = (with_it, without) if direction == REMOVE else (without, with_it)
    return attack_cells(p, q, p_error, q_error)


def _masses(x: Array, move: float, steps: int) -> tuple[Array, Array]:
    """The masses of the largest of all sums between increasing x, and their errors; in units of the noise."""
    log_below = log_ndtr(x - move) + (steps - 1.0) * log_ndtr(x)
    units = (LOG_NDTR_UNITS * (1.0 + (np.abs(x) + move) ** 2) + 4.0) * UNIT_ROUNDOFF
    error = units * (np.abs(log_ndtr(x - move)) + (steps - 1.0) * np.abs(log_ndtr(x)))
    below, beyond = np.exp(log_below), -np.expm1(log_below)
    ends = np.concatenate([[0.0], below, [1.0]])
    tails = np.concatenate([[1.0], beyond, [0.0]])
    ends_error = np.concatenate([[0.0], np.minimum(below * (error + 4.0 * UNIT_ROUNDOFF), 1.0), [0.0]])
    tails_error = np.concatenate([[0.0], np.minimum(below * error + 4.0 * UNIT_ROUNDOFF * beyond, 1.0), [0.0]])
    # by the tails where these are the smaller ones
    far = ends[:-1] > 0.5
    masses = np.where(far, tails[:-1] - tails[1:], ends[1:] - ends[:-1])
    errors = np.where(far, tails_error[:-1] + tails_error[1:], ends_error[:-1] + ends_error[1:])
    return np.maximum(masses, 0.0), errors + 2.0 * UNIT_ROUNDOFF * masses + 1e-307
