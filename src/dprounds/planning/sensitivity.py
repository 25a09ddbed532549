"""What one more epoch, one percent more noise and one percent more data change in a plan.

By derivatives on the nodes of the exact sum, for every loader; where only a bound is proven, of that bound. Where no
line of nodes serves, as for runs of very few rounds, by differences of epsilon. `Sensitivities.method` says which.
Neither is a guarantee: to know what another plan costs, ask for that plan.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from dprounds.accounting.answers import Account
from dprounds.accounting.sensitivity import EpsilonSlopes, epsilon_slopes, integrated_slopes
from dprounds.errors import NumericalError
from dprounds.planning.loaders import Loader, batches_per_epoch

__all__ = ["Change", "Sensitivities", "sensitivities"]

# Relative step of a difference: epsilon is exact to 1e-9 of itself, which leaves five digits of the difference.
STEP = 1e-4
# The same of a delta that has few digits, since it is among the smallest doubles.
COARSE_STEP = 0.5
LEAST_NORMAL = sys.float_info.min
# Steps of counts are at least one, and at most this part of them.
COUNT_STEPS = 1000
ONE_PERCENT = 0.01
# An integral that proves a delta this near, relative, is what proves epsilon.
NEAR_INTEGRAL = 1e-2


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a small change of a plan does, to first order.

    Parameters
    ----------
    epsilon
        By how much epsilon grows if the noise multiplier stays as it is.
    total_noise
        By which part the total noise ν grows if the noise multiplier stays as it is.
    total_noise_at_budget
        By which part ν grows if the noise is changed so that epsilon stays; None where the change is that of the noise.
    """

    epsilon: float
    total_noise: float
    total_noise_at_budget: float | None


@dataclass(frozen=True, kw_only=True)
class Sensitivities:
    """The derivatives of epsilon at a plan, and what follows from them.

    Parameters
    ----------
    noise_multiplier, sampling_rate, rounds, delta
        The derivative of epsilon by each of them, the others held fixed. Where a step of the loader is an epoch, rounds
        and rate are taken as real numbers: that many rounds are rounds times rate epochs.
    method
        ``"nodes"``, by derivatives on the nodes of the exact sum, or ``"differences"``.
    one_more_epoch
        With the same batches.
    one_percent_more_noise
        In the noise multiplier.
    one_percent_more_data
        More records, with the same batch size and rounds.
    """

    noise_multiplier: float
    sampling_rate: float
    rounds: float
    delta: float
    method: str
    one_more_epoch: Change
    one_percent_more_noise: Change
    one_percent_more_data: Change


@dataclass(frozen=True, kw_only=True)
class PlanPoint:
    """The parameters of a plan, of which each may be moved."""

    loader: Loader
    noise_multiplier: float
    batch_size: int
    dataset_size: int
    rounds: int
    delta: float

    def epsilon(
        self, *, noise: float | None = None, records: int = 0, rounds: int = 0, delta: float | None = None
    ) -> float:
        """Epsilon with another noise or delta, or with so many more records or rounds."""
        run = self.loader.run(
            noise or self.noise_multiplier, self.batch_size, self.dataset_size + records, self.rounds + rounds
        )
        return run.epsilon(delta=delta or self.delta)

    @property
    def batches(self) -> int:
        """Of an epoch."""
        return batches_per_epoch(self.batch_size, self.dataset_size)


def sensitivities(point: PlanPoint, epsilon: float) -> Sensitivities:
    """The derivatives of epsilon at a plan that costs `epsilon`."""
    try:
        # of two directions that cost the same, a lower rate helps as little as it helps the one that it helps less
        slopes = min(_on_nodes(point, epsilon), key=lambda each: each.parameters["sampling_rate"])
        method = "nodes"
    except NumericalError:
        slopes, method = _by_differences(point), "differences"
    by_noise, by_rate = slopes.parameters["noise_multiplier"], slopes.parameters["sampling_rate"]
    noise, rate = point.noise_multiplier, _rate(point, 0)
    epoch = point.batches / point.rounds
    more_data = -ONE_PERCENT * rate * by_rate

    def at_budget(change: float) -> float:
        """The part by which the noise must grow so that a change of epsilon is undone."""
        return -change / (noise * by_noise)

    # if every round sees every record, more records make the batches larger
    larger_batches = -ONE_PERCENT if point.loader.name == "none" else 0.0
    return Sensitivities(
        noise_multiplier=by_noise,
        sampling_rate=by_rate,
        rounds=slopes.rounds,
        delta=slopes.delta,
        method=method,
        one_more_epoch=Change(
            epsilon=point.batches * slopes.rounds,
            total_noise=-0.5 * epoch,
            total_noise_at_budget=at_budget(point.batches * slopes.rounds) - 0.5 * epoch,
        ),
        one_percent_more_noise=Change(
            epsilon=ONE_PERCENT * noise * by_noise, total_noise=ONE_PERCENT, total_noise_at_budget=None
        ),
        one_percent_more_data=Change(
            epsilon=more_data,
            total_noise=larger_batches,
            total_noise_at_budget=at_budget(more_data) + larger_batches,
        ),
    )


def _on_nodes(point: PlanPoint, epsilon: float) -> list[EpsilonSlopes]:
    """By derivatives on the nodes of the exact sum."""
    run = point.loader.run(point.noise_multiplier, point.batch_size, point.dataset_size, point.rounds)
    return [
        _at_fixed_rounds(
            point,
            EpsilonSlopes(
                parameters={"sampling_rate": 0.0, **each.parameters},
                rounds=each.rounds / (point.batches if point.loader.is_by_epochs else 1),
                delta=each.delta,
            ),
        )
        for each in _slopes(run.account, epsilon, point.delta)
    ]


def _slopes(account: Account, epsilon: float, delta: float) -> list[EpsilonSlopes]:
    """Those of the profile, or of its integral where that is what proves `epsilon`."""
    if account.integrals is not None:
        with suppress(NumericalError):
            if account.integrals.deltas(np.array([epsilon]))[0] <= delta * (1.0 + NEAR_INTEGRAL):
                return [integrated_slopes(account.integrals, epsilon=epsilon, delta=delta)]
    return epsilon_slopes(account.laws, epsilon=epsilon)


def _at_fixed_rounds(point: PlanPoint, slopes: EpsilonSlopes) -> EpsilonSlopes:
    """The derivative by the rate at so many rounds, given that at so many epochs where a step is an epoch."""
    if not point.loader.is_by_epochs:
        return slopes
    # a rate higher by a part makes of the same rounds more epochs by that part
    by_rate = slopes.parameters["sampling_rate"] + point.rounds * point.batches * slopes.rounds
    return replace(slopes, parameters={**slopes.parameters, "sampling_rate": by_rate})


def _by_differences(point: PlanPoint) -> EpsilonSlopes:
    """The same by differences, on both sides where there are two."""
    noise, delta = point.noise_multiplier, point.delta
    part = STEP if delta * STEP > LEAST_NORMAL else COARSE_STEP
    least, most = delta * (1.0 - part), delta * (1.0 + part)
    is_whole = point.loader.is_by_epochs  # then a round more or less is an epoch
    step = point.batches if is_whole else max(point.rounds // COUNT_STEPS, 1)
    fewer = -step if point.rounds > step else 0
    more_records = point.batch_size if is_whole else max(point.dataset_size // COUNT_STEPS, 1)
    fewer_records = -more_records if point.dataset_size - more_records >= point.batch_size else 0
    by_rate = 0.0
    if point.loader.name != "none":
        rates = [_rate(point, records) for records in (more_records, fewer_records)]
        costs = [
            point.epsilon(records=records, rounds=_same_length(point, records))
            for records in (more_records, fewer_records)
        ]
        by_rate = (costs[0] - costs[1]) / (rates[0] - rates[1])
    found = EpsilonSlopes(
        parameters={
            "noise_multiplier": (point.epsilon(noise=noise * (1 + STEP)) - point.epsilon(noise=noise * (1 - STEP)))
            / (2.0 * STEP * noise),
            "sampling_rate": by_rate,
        },
        rounds=(point.epsilon(rounds=step) - point.epsilon(rounds=fewer)) / (step - fewer),
        delta=(point.epsilon(delta=most) - point.epsilon(delta=least)) / (most - least),
    )
    return _at_fixed_rounds(point, found)


def _rate(point: PlanPoint, records: int) -> float:
    """The share of the records that a round sees, with so many more of them."""
    if point.loader.is_by_epochs:
        return 1.0 / batches_per_epoch(point.batch_size, point.dataset_size + records)
    return point.batch_size / (point.dataset_size + records)


def _same_length(point: PlanPoint, records: int) -> int:
    """So many more rounds that there are as many epochs, for loaders whose epochs are counted whole."""
    if not point.loader.is_by_epochs:
        return 0
    epochs = -(-point.rounds // point.batches)
    return epochs * batches_per_epoch(point.batch_size, point.dataset_size + records) - point.rounds
