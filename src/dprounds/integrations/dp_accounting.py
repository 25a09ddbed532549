"""dp-accounting with the exact accountant: an `ExactAccountant` for `DpEvent` trees, and `run_from_dp_event`.

Libraries that take a `PrivacyAccountant` of dp-accounting, such as JAX Privacy and TensorFlow Privacy, take this one.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds import _validate
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.integrations.granted import GrantedRun
from dprounds.mechanisms import (
    ZCDP,
    ApproximateDP,
    DiscreteGaussian,
    DiscretePair,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    RdpCurve,
    TruncatedPoissonSampled,
)
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.mechanisms.base import Mechanism, Run
from dprounds.mechanisms.sampling import Sampleable

try:
    import dp_accounting
    from dp_accounting import dp_event
    from dp_accounting.dp_event import DiscreteLaplaceDpEvent, DpEvent
    from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant
except ModuleNotFoundError as missing:
    raise ImportError(
        "dprounds.integrations.dp_accounting needs dp-accounting. "
        "In a checkout of dprounds: pip install '.[dp-accounting]'"
    ) from missing

if TYPE_CHECKING:  # a ledger needs SQLAlchemy, and this file does not
    from dprounds.ledger import Grant

__all__ = ["ExactAccountant", "run_from_dp_event"]

ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = NeighboringRelation.REPLACE_ONE
# The relations of dp-accounting, in the words of `Guarantee.relation`.
RELATIONS = {
    ADD_OR_REMOVE_ONE: "add-remove",
    REPLACE_ONE: "replace-one",
    NeighboringRelation.REPLACE_SPECIAL: "zero-out",
}

# A release of which no Rényi order is bounded: its epsilon is infinite and its delta one.
NON_PRIVATE = RdpCurve(orders=(2.0,), rdps=(math.inf,))

CLOSED_DELTA = _validate.Interval.parse("[0, 1]")
NOISE = _validate.Interval.parse("[0, inf)")
# Relative, and larger than the error of the few roundings that lead to a value computed here.
ROUNDING_MARGIN = 2.0**-49


class ExactAccountant(PrivacyAccountant):  # type: ignore[misc]  # dp-accounting has no types, so its class is Any
    """What a tree of events costs, exactly where it can be.

    Supports Gaussian, Laplace, their Poisson samples, discrete Laplace of sensitivity one, randomized response,
    mixtures of Gaussians, samples of Gaussian releases without replacement, truncated Poisson samples of them, zCDP,
    (epsilon, delta), exponential mechanisms, permute-and-flip, discrete Gaussian noise in one dimension, no-op and
    non-private events, and compositions of them at any depth. It refuses every other event, and says why.

    Parameters
    ----------
    neighboring_relation
        Which data sets are neighbours. Where a record is replaced by another one, a sum over records moves twice as
        far, and of Poisson samples those of Gaussian noise are supported.
    method
        The bound; by default exact where every part has a moment function.
    grant
        A `Grant <dprounds.ledger.Grant>` of a ledger, of a budget with the same relation: `compose` refuses what it
        does not cover, and the first one begins its work. So compose an event *before* it happens. The work begins
        once: after a crash it goes on from its `checkpoint` or not at all. Committing is up to you.
    checkpoint
        With a grant: a file to resume from if it exists, in which everything is on disk before `compose` returns. One
        process at a time may use it, and an older copy put in its place undoes the record.
    """

    def __init__(
        self,
        neighboring_relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
        *,
        method: str | None = None,
        grant: Grant | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(_checked_relation(neighboring_relation))
        self._method = None if method is None else _validate.choice("method", method, RUN_METHODS)
        self._rounds: dict[Mechanism, int] = {}
        self._granted: GrantedRun | None = None
        self._is_whole = True  # whether the ledger of events holds all that was composed, and may be added to
        if grant is not None:
            self._granted = GrantedRun(grant, relation=self.relation, checkpoint=checkpoint)
            self._rounds = dict(self._granted.made.parts)
            self._is_whole = not self._rounds
        elif checkpoint is not None:
            raise ParameterError("checkpoint is for a training under a grant: pass the grant too.")

    @property
    def relation(self) -> str:
        """Which data sets are neighbours: ``"add-remove"``, ``"replace-one"`` or ``"zero-out"`` one record."""
        return RELATIONS[self._neighboring_relation]

    @property
    def run(self) -> Run:
        """All that was composed, as one run."""
        return Run(tuple(self._rounds.items()))

    def compose(self, event: DpEvent, count: int | np.integer[Any] = 1) -> ExactAccountant:
        """This accountant, after `event` has happened `count` times."""
        times = _validate.count("count", int(count) if isinstance(count, np.integer) else count)
        # dp-accounting's ledger takes Python integers of at least one; a count that is not valid is refused with its
        # event
        while type(event) is dp_accounting.SelfComposedDpEvent and (inner := _times(event)) is not None:
            times, event = times * inner, event.event
        if times == 0 and isinstance(event, DpEvent) and self.supports(event):
            return self
        if self._granted is not None and isinstance(event, DpEvent):
            with suppress(_RefusedError):  # dp-accounting's method says so in its own words
                self._granted.make(_run(event, self._neighboring_relation) * times)
        super().compose(event, times)
        return self

    @property
    def ledger(self) -> DpEvent:
        """The event of all that was composed; refused after resuming, when it would lack what came before."""
        if not self._is_whole:
            raise UnsupportedError("The events before the checkpoint are not kept: ask accountant.run for all of them.")
        return super().ledger

    def __getstate__(self) -> dict[str, Any]:
        if self._granted is not None:
            raise UnsupportedError(
                "An accountant that uses a grant cannot be copied: the original would not learn what a copy composes. "
                "To ask what an event would cost, use run_from_dp_event and accountant.run."
            )
        return self.__dict__

    def _maybe_compose(
        self, event: DpEvent, count: int, do_compose: bool
    ) -> PrivacyAccountant.CompositionErrorDetails | None:
        try:
            run = _run(event, self._neighboring_relation)
        except _RefusedError as refused:
            return PrivacyAccountant.CompositionErrorDetails(refused.event, refused.reason)
        total = self.run + run * count  # a total that is too long is refused before it is in the ledger
        if do_compose:
            self._rounds = dict(total.parts)
        return None

    def __copy__(self) -> Self:
        """An independent accountant: the ledger is a list that a shallow copy would share."""
        return copy.deepcopy(self)

    def get_epsilon(self, target_delta: float) -> float:
        """Epsilon of all events so far, at `target_delta` in [0, 1]. Errs upward."""
        delta = _validate.real("target_delta", target_delta, CLOSED_DELTA)
        run = self.run
        if NON_PRIVATE in run.mechanisms:
            return math.inf
        if delta == 0:
            return float(run.rdp(order=math.inf))
        return float(run.epsilon(delta=delta, method=self._method)) if delta < 1 else 0.0

    def get_delta(self, target_epsilon: float) -> float:
        """Delta of all events so far, at `target_epsilon` in [0, inf]. Errs upward."""
        epsilon = _validate.real("target_epsilon", target_epsilon, _validate.EPSILON)
        run = self.run
        return 1.0 if NON_PRIVATE in run.mechanisms else float(run.delta(epsilon=epsilon, method=self._method))

    def get_true_positive_rates(self, false_positive_rates: ArrayLike) -> float | NDArray[np.float64]:
        """Upper bounds of the share of members that an attacker finds with these shares of false alarms."""
        rates = _validate.real_array("false_positive_rates", false_positive_rates, CLOSED_DELTA)
        run = self.run
        if not run.parts:  # the attacker guesses
            found = rates
        elif NON_PRIVATE in run.mechanisms:
            found = np.ones_like(rates)
        else:
            found = np.asarray(1.0 - run.trade_off(rates))
        return found if rates.ndim else float(found)


def run_from_dp_event(event: DpEvent, *, neighboring_relation: NeighboringRelation = ADD_OR_REMOVE_ONE) -> Run:
    """The run that a tree of events describes; a non-private event costs an infinite epsilon in it.

    Guarantee
    ---------
    Raises `UnsupportedError`, or returns a run whose epsilon and delta bound those of the events between neighbours by
    `neighboring_relation`.
    """
    if not isinstance(event, DpEvent):
        raise ParameterError(f"event must be a DpEvent, got {_validate.show(event)}.")
    relation = _checked_relation(neighboring_relation)
    try:
        return _run(event, relation)
    except _RefusedError as refused:
        raise UnsupportedError(f"{refused.reason} Found {_validate.show(refused.event)}.") from None


def _checked_relation(relation: object) -> NeighboringRelation:
    """`relation`, which must be of dp-accounting's type: a name or number could be mistaken for another one."""
    if not isinstance(relation, NeighboringRelation):
        raise ParameterError(
            f"neighboring_relation must be a NeighboringRelation of dp-accounting, got {_validate.show(relation)}."
        )
    return relation


def _times(event: Any) -> int | None:  # noqa: ANN401  (dp-accounting has no types)
    """The count of a self-composed event, None if it is not a valid count."""
    try:
        return _validate.count("count", event.count)
    except ParameterError:
        return None


class _RefusedError(Exception):
    """An event that is not accounted for here, and why."""

    def __init__(self, event: DpEvent, reason: str) -> None:
        super().__init__(reason)
        self.event = event
        self.reason = reason


def _run(event: DpEvent, relation: NeighboringRelation) -> Run:
    """The run of an event, by exactly its type: a subclass may mean something else."""
    describe = _DESCRIBED.get(type(event))
    if describe is None:
        raise _RefusedError(event, f"No theorem here covers {type(event).__name__}.")
    try:
        return describe(event, relation)
    except ParameterError as error:
        raise _RefusedError(event, str(error)) from None


def _nothing(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    return Run()


def _everything(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    return NON_PRIVATE * 1


def _composed(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    return Run(tuple(chain.from_iterable(_run(part, relation).parts for part in event.events)))


def _self_composed(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    return _run(event.event, relation) * _validate.count("count", event.count)


def _gaussian(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    noise = _noise(event, relation)
    return Gaussian(noise) * 1 if noise else NON_PRIVATE * 1


def _laplace(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    noise = _noise(event, relation)
    return Laplace(noise) * 1 if noise else NON_PRIVATE * 1


def _noise(event: Any, relation: NeighboringRelation) -> float:  # noqa: ANN401  (dp-accounting has no types)
    """Noise over sensitivity: a record adds a vector of norm one at most, and replacing it moves the sum by two."""
    noise = _validate.real("noise_multiplier", event.noise_multiplier, NOISE)
    return noise / 2.0 if relation is REPLACE_ONE else noise


def _discrete_laplace(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    """A shift by one multiplies every probability by exp(±a), with the masses of a randomized response."""
    if relation is REPLACE_ONE or _validate.count("sensitivity", event.sensitivity, least=1) > 1:
        raise _RefusedError(event, "Discrete Laplace noise is accounted here only where neighbours differ by one.")
    parameter = _validate.real("noise_parameter", event.noise_parameter, _validate.FINITE_EPSILON)
    return RandomizedResponse(parameter) * 1 if parameter else NON_PRIVATE * 1  # a = 0 is not a distribution


def _randomized_response(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    p = _validate.real("noise_parameter", event.noise_parameter, CLOSED_DELTA)
    buckets = _validate.count("num_buckets", event.num_buckets, least=1)
    if relation is ADD_OR_REMOVE_ONE:
        raise _RefusedError(event, "Randomized response is accounted here where its input, a record, is replaced.")
    if buckets == 1 or p == 1:
        return Run()
    if p == 0:
        return NON_PRIVATE * 1
    if relation is not REPLACE_ONE:
        return _against_any_bucket(p, buckets) * 1
    if buckets == 2:  # the truth has probability 1 - p/2 and the lie p/2, of ratio 1 + 2 (1 - p) / p
        return RandomizedResponse(math.log1p(2.0 * (1.0 - p) / p) * (1.0 + ROUNDING_MARGIN)) * 1
    return _between_buckets(p, buckets) * 1


def _between_buckets(p: float, buckets: int) -> Mechanism:
    """Two inputs of a randomized response; the outputs that neither of them is are one, of loss 0.

    A lie and the others are rounded down and the truth up, so that the pair dominates (docs/theory/mechanisms.md).
    """
    lie = _double_below(Fraction(p) / buckets)
    others = _double_below(Fraction(p) * (buckets - 2) / buckets)
    truth = _double_above(1 - Fraction(lie) - Fraction(others))
    return DiscretePair((truth, lie, others), (lie, truth, others))


def _against_any_bucket(p: float, buckets: int) -> Mechanism:
    """An input of a randomized response, and the special one on which every output is as likely as any other.

    The truth is rounded up and its share of the other law down, and what is left is rounded so that they are no less.
    """
    truth = _double_above(1 - Fraction(p) * (buckets - 1) / buckets)
    by_chance = _double_below(Fraction(1, buckets))
    return DiscretePair(
        (truth, _double_below(1 - Fraction(truth))), (by_chance, _double_above(1 - Fraction(by_chance)))
    )


def _double_below(exact: Fraction) -> float:
    """The largest double that is not above a number, or the one before it."""
    value = float(exact)
    return value if Fraction(value) <= exact else math.nextafter(value, -math.inf)


def _double_above(exact: Fraction) -> float:
    """The smallest double that is not below a number, or the one after it."""
    return -_double_below(-exact)


def _zcdp(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    if event.xi != 0:
        raise _RefusedError(event, "Only zCDP with xi = 0 is accounted here.")
    return ZCDP(event.rho) * 1


def _epsilon_delta(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    """Any mechanism with this guarantee, between neighbours by the accountant's relation."""
    epsilon = _validate.real("epsilon", event.epsilon, _validate.EPSILON)
    delta = _validate.real("delta", event.delta, CLOSED_DELTA)
    if epsilon == math.inf or delta == 1:
        return NON_PRIVATE * 1
    return ApproximateDP(epsilon, delta) * 1 if epsilon or delta else Run()


def _exponential(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    """A choice of bounded range, between neighbours by the accountant's relation."""
    epsilon = _validate.real("epsilon", event.epsilon, _validate.FINITE_EPSILON)
    return ExponentialMechanism(epsilon) * 1 if epsilon else Run()


def _permute_and_flip(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    """Of it no more is proven here than that it is pure."""
    epsilon = _validate.real("epsilon", event.epsilon, _validate.FINITE_EPSILON)
    return PureDP(epsilon) * 1 if epsilon else Run()


def _discrete_gaussian(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    sigma = _validate.real("sigma", event.sigma, NOISE)
    sensitivity = _validate.real("sensitivity", event.sensitivity, NOISE)
    if relation is REPLACE_ONE or sensitivity != 1 or event.dimension != 1:
        raise _RefusedError(
            event, "Discrete Gaussian noise is accounted here in one dimension, and where neighbours differ by one."
        )
    return DiscreteGaussian(sigma) * 1 if sigma else NON_PRIVATE * 1


def _poisson_sampled(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    rate = _validate.real("sampling_probability", event.sampling_probability, _validate.SAMPLING_RATE)
    whole = _run(event.event, relation)
    if rate == 0 or not whole.parts:
        return Run()
    if rate == 1 or NON_PRIVATE in whole.mechanisms:
        return whole
    # the noise over the norm of one record: the class knows how far the sum moves if it is replaced
    inner = _run(event.event, ADD_OR_REMOVE_ONE) if relation is REPLACE_ONE else whole
    mechanism = inner.mechanisms[0] if inner.rounds == 1 else _one_gaussian(inner)
    if isinstance(mechanism, PoissonSampled):  # a sample of a sample
        rate, mechanism = min(math.nextafter(rate * mechanism.sampling_rate, 1.0), 1.0), mechanism.mechanism
    if relation is REPLACE_ONE and not isinstance(mechanism, Gaussian):
        raise _RefusedError(event, "Where a record is replaced, Poisson samples are accounted here of Gaussian noise.")
    if not isinstance(mechanism, Sampleable):
        raise _RefusedError(
            event, "A Poisson sample is accounted here if it is of one release, or of several Gaussian ones."
        )
    return PoissonSampled(mechanism, rate, relation=RELATIONS[relation]) * 1


def _without_replacement(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    """A batch of fixed size; its noise is over the norm of a record, and the class knows how far the sum moves."""
    records = _validate.count("source_dataset_size", event.source_dataset_size, least=1)
    batch = _validate.count("sample_size", event.sample_size)
    if relation is ADD_OR_REMOVE_ONE:
        raise _RefusedError(
            event, "Samples without replacement are accounted here where neighbours have as many records as each other."
        )
    inner = _run(event.event, ADD_OR_REMOVE_ONE)  # whose noise is over the norm of one record
    if not batch or not inner.parts:
        return Run()
    if NON_PRIVATE in inner.mechanisms:
        return inner
    mechanism = inner.mechanisms[0] if inner.rounds == 1 else _one_gaussian(inner)
    if not isinstance(mechanism, Gaussian):
        raise _RefusedError(event, "A sample without replacement is accounted here if it is of Gaussian releases.")
    return FixedSizeSampled(mechanism, batch, records, RELATIONS[relation]) * 1


def _truncated(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    """A Poisson sample of which at most so many records are kept; `dataset_size` is that of the larger data set."""
    records = _validate.count("dataset_size", event.dataset_size)
    rate = _validate.real("sampling_probability", event.sampling_probability, _validate.SAMPLING_RATE)
    most = _validate.count("truncated_batch_size", event.truncated_batch_size)
    noise = _validate.real("noise_multiplier", event.noise_multiplier, NOISE)
    if not (records and rate and most):
        return Run()
    if not noise:
        return NON_PRIVATE * 1
    if most >= records:  # nothing is ever left out
        return PoissonSampled(Gaussian(noise), rate, relation=RELATIONS[relation]) * 1
    return TruncatedPoissonSampled(Gaussian(noise), rate, most, records, RELATIONS[relation]) * 1


def _mixture(event: Any, relation: NeighboringRelation) -> Run:  # noqa: ANN401  (dp-accounting has no types)
    if relation is REPLACE_ONE:
        raise _RefusedError(event, "Mixtures of Gaussians are accounted here between records present and absent only.")
    noise = _validate.real("standard_deviation", event.standard_deviation, NOISE)
    if not noise:  # as the class checks them, with any noise
        shifts = MixtureOfGaussians(1.0, tuple(event.sensitivities), tuple(event.sampling_probs)).shifts
        return NON_PRIVATE * 1 if any(shifts) else Run()
    return MixtureOfGaussians(noise, tuple(event.sensitivities), tuple(event.sampling_probs)) * 1


def _one_gaussian(run: Run) -> Mechanism | None:
    r"""The Gaussian that several of them on the same data amount to, :math:`\sigma^{-2} = \sum \sigma_i^{-2}`."""
    noises = [(part.noise_multiplier, rounds) for part, rounds in run.parts if isinstance(part, Gaussian)]
    if len(noises) < len(run.parts):
        return None
    least = min(noise for noise, _ in noises)  # the unit, so that no square is out of range
    try:
        precision = math.fsum(rounds * (least / noise) * (least / noise) for noise, rounds in noises)
    except OverflowError:
        return None
    return Gaussian(least / math.sqrt(precision) * (1.0 - ROUNDING_MARGIN))


_DESCRIBED: dict[type, Callable[[Any, NeighboringRelation], Run]] = {
    dp_accounting.NoOpDpEvent: _nothing,
    dp_accounting.NonPrivateDpEvent: _everything,
    dp_accounting.ComposedDpEvent: _composed,
    dp_accounting.SelfComposedDpEvent: _self_composed,
    dp_accounting.GaussianDpEvent: _gaussian,
    dp_accounting.LaplaceDpEvent: _laplace,
    DiscreteLaplaceDpEvent: _discrete_laplace,
    dp_accounting.RandomizedResponseDpEvent: _randomized_response,
    dp_accounting.ZCDpEvent: _zcdp,
    dp_accounting.PoissonSampledDpEvent: _poisson_sampled,
    dp_accounting.SampledWithoutReplacementDpEvent: _without_replacement,
    dp_event.MixtureOfGaussiansDpEvent: _mixture,
    dp_event.TruncatedSubsampledGaussianDpEvent: _truncated,
}
# newer than version 0.6.0
_NEWER: dict[str, Callable[[Any, NeighboringRelation], Run]] = {
    "EpsilonDeltaDpEvent": _epsilon_delta,
    "ExponentialMechanismDpEvent": _exponential,
    "PermuteAndFlipDpEvent": _permute_and_flip,
    "DiscreteGaussianDpEvent": _discrete_gaussian,
}
_DESCRIBED |= {getattr(dp_event, name): describe for name, describe in _NEWER.items() if hasattr(dp_event, name)}
