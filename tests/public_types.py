"""The types of the public face, as a user's own checker sees them: mypy and pyright read this, nothing runs it.

Each name of `dprounds` is used once, and its result has the type that the documentation says. Under pyright's strict
rules a name whose type is unknown, even in part, is an error.
"""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

from dprounds import (
    ZCDP,
    Accountant,
    ApproximateDP,
    CertificateError,
    DiscreteGaussian,
    DiscreteLaplace,
    DiscretePair,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    Guarantee,
    InfeasibleError,
    Laplace,
    MixtureOfGaussians,
    NumericalError,
    ParameterError,
    PoissonSampled,
    PrivacyError,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    RdpCurve,
    Shuffled,
    TruncatedPoissonSampled,
    UnsupportedError,
    banded_matrix_mechanism,
    best_plan,
    delta_from_rdp,
    epsilon_from_rdp,
    frontier,
    joint_range,
    matrix_mechanism,
    matrix_sensitivity,
    max_rounds,
    max_sampling_rate,
    min_noise_multiplier,
    rdp_from_dp,
    worst_pair,
)
from dprounds.divergences import kl, total_variation
from dprounds.mechanisms import Mechanism, Run

Array = NDArray[np.float64]


def mechanisms_compose() -> None:
    """A mechanism times a number is a run, and runs add up."""
    noise = Gaussian(noise_multiplier=1.1)
    step = PoissonSampled(noise, sampling_rate=0.01)
    found: list[Mechanism] = [
        *(noise, step, Laplace(2.0), RandomizedResponse(1.0), PureDP(0.1), ApproximateDP(0.1, 1e-6)),
        *(DiscreteGaussian(2.0), DiscreteLaplace(2.0), DiscretePair((0.5, 0.5), (0.4, 0.6)), ZCDP(0.1)),
        *(ExponentialMechanism(0.1), RdpCurve((2.0, 4.0), (0.1, 0.2)), RandomAllocation(noise, steps=10)),
        *(MixtureOfGaussians(1.0, (0.0, 1.0), (0.5, 0.5)), FixedSizeSampled(noise, 10, 100), Shuffled(noise, steps=10)),
        TruncatedPoissonSampled(noise, 0.01, largest_batch=20, dataset_size=1_000),
    ]
    run = step * 100 + found[0] * 2
    assert_type(run, Run)
    assert_type(run.rounds, int)
    assert_type(run.relation, str | None)
    assert_type(run.epsilon(delta=1e-5), float)
    assert_type(run.delta(epsilon=1.0, method="optimal"), float)
    assert_type(run.profile([1.0, 2.0]), float | Array)
    assert_type(run.trade_off([0.01, 0.1]), float | Array)
    assert_type(run.true_positive_rate(0.01), float)
    assert_type(run.attack_advantage(), float)
    guarantee = run.guarantee(delta=1e-5)
    assert_type(guarantee, Guarantee)
    assert_type((guarantee.epsilon, guarantee.lower, guarantee.upper), tuple[float, float, float])
    assert_type((guarantee.method, guarantee.relation, guarantee.order), tuple[str, str | None, float | None])


def plans_are_numbers(step: Mechanism) -> None:
    """Question Two."""
    assert_type(max_rounds(step, epsilon=3.0, delta=1e-5), int)
    assert_type(min_noise_multiplier(lambda s: Gaussian(s) * 10, epsilon=3.0, delta=1e-5), float)
    rate = max_sampling_rate(lambda q: PoissonSampled(Gaussian(1.0), q) * 10, epsilon=3.0, delta=1e-5)
    assert_type(rate, float)
    assert_type([row.noise_multiplier for row in frontier(4_000, epsilon=1.0, delta=1e-5, epochs=10).rows], list[float])
    assert_type(best_plan(4_000, epsilon=1.0, delta=1e-5, epochs=10).plan.rounds, int)


def matrices_make_releases() -> None:
    """Noise that is correlated between steps."""
    assert_type(matrix_sensitivity([1.0, 0.5], steps=10), float)
    assert_type(matrix_mechanism(2.0, [[1.0]]), Gaussian)
    assert_type(banded_matrix_mechanism(2.0, [1.0, 0.5], steps=10, sampling_rate=0.1), Run)


def conversions_take_arrays() -> None:
    """Question One."""
    assert_type(epsilon_from_rdp(0.5, order=8.0, delta=1e-5), float | Array)
    assert_type(delta_from_rdp([0.5], order=8.0, epsilon=1.0), float | Array)
    assert_type(rdp_from_dp(1.0, order=8.0, delta=1e-5), float | Array)
    assert_type(worst_pair(order=8.0, epsilon=1.0, delta=1e-5).p, float | Array)
    assert_type(float(joint_range(total_variation, kl).least(0.1).bound), float)


def an_account_is_kept(step: Mechanism) -> None:
    """The loop's own."""
    accountant = Accountant()
    accountant.record(step, rounds=10)
    assert_type(accountant.epsilon(delta=1e-5), float)
    assert_type(accountant.remaining_rounds(step, epsilon=3.0, delta=1e-5), int)
    assert_type(accountant.would_exceed(step, 3.0, 1e-5), bool)
    assert_type(Accountant.from_json(accountant.to_json()), Accountant)


def errors_say_what_to_do(error: PrivacyError) -> None:
    """Whatever is raised has these fields."""
    assert_type((error.argument, error.advice, error.fields), tuple[str | None, str, dict[str, object]])
    kinds: list[type[PrivacyError]] = [
        *(ParameterError, UnsupportedError, InfeasibleError, NumericalError, CertificateError)
    ]
    assert_type(kinds, list[type[PrivacyError]])
