"""Profiles in closed form: plain Gaussians, and one round of every mechanism that can be sampled."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from dprounds import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscretePair,
    Gaussian,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
)
from dprounds.mechanisms.base import Mechanism
from tests.accounting.ways import by_lattice, by_line
from tests.references.one_round import (
    Excess,
    discrete_gaussian_excess,
    laplace_excess,
    normal_excess,
    response_excess,
    sampled_delta,
)

KINDS: dict[str, tuple[type, object]] = {
    "gaussian": (Gaussian, normal_excess),
    "laplace": (Laplace, laplace_excess),
    "randomized response": (RandomizedResponse, response_excess),
    "discrete gaussian": (DiscreteGaussian, discrete_gaussian_excess),
}


def settings(kind: str, seed: int, size: int) -> list[tuple[float, float, float]]:
    """Noise, rate and delta over the range that people use and beyond."""
    rng = np.random.default_rng([seed, *kind.encode()])
    found = []
    for _ in range(size):
        noise = 10.0 ** rng.uniform(-0.7, 0.7 if kind == "discrete gaussian" else 3.5)
        rate = 1.0 if rng.random() < 0.1 else 1.0 - 10.0 ** rng.uniform(-12, -0.1)
        rate = 10.0 ** rng.uniform(-9, -0.01) if rng.random() < 0.7 else rate
        found.append((float(noise), float(rate), float(10.0 ** rng.uniform(-30, -0.05))))
    return found


@pytest.mark.parametrize("kind", list(KINDS))
def test_one_round_is_bracketed_and_close(kind: str) -> None:
    make, reference = KINDS[kind]
    for noise, rate, delta in settings(kind, 0, 40):
        mechanism: Mechanism = PoissonSampled(make(noise), rate) if rate < 1 else make(noise)
        excess: Excess = reference(noise)  # type: ignore[operator]  # a function of the noise, as the table has it
        guarantee = (mechanism * 1).guarantee(delta=delta)
        digits = 60
        assert sampled_delta(excess, rate, guarantee.upper, digits=digits) <= mpf(delta), (mechanism, delta)
        if guarantee.lower > 0:
            assert sampled_delta(excess, rate, guarantee.lower, digits=digits) >= mpf(delta), (mechanism, delta)
        # an epsilon far below the rate, or a delta within rounding of the largest one, has fewer digits
        assert guarantee.upper - guarantee.lower <= 1e-6 * guarantee.upper + 1e-15 * rate, (mechanism, delta)


@pytest.mark.parametrize("kind", list(KINDS))
def test_delta_of_one_round_is_never_below_the_truth(kind: str) -> None:
    make, reference = KINDS[kind]
    for noise, rate, _ in settings(kind, 1, 10):
        mechanism: Mechanism = PoissonSampled(make(noise), rate) if rate < 1 else make(noise)
        excess: Excess = reference(noise)  # type: ignore[operator]  # as above
        for epsilon in (0.0, 0.01 * rate, 1.0, 30.0):
            truth = sampled_delta(excess, rate, epsilon, digits=100)
            assert mpf((mechanism * 1).delta(epsilon=epsilon)) >= truth, (mechanism, epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 4.9833, 30.0])
def test_gaussians_compose_to_one(epsilon: float) -> None:
    run = Gaussian(20.0) * 300 + Gaussian(10.0) * 50
    single = Gaussian(20.0 / math.sqrt(500.0)) * 1
    assert run.delta(epsilon=epsilon) == pytest.approx(single.delta(epsilon=epsilon), rel=1e-11)
    with mp.workdps(60):
        sigma = 1 / mp.sqrt(300 / mpf(400) + 50 / mpf(100))
        y = sigma * sigma * mpf(epsilon) + mpf(1) / 2
        truth = mp.erfc((y - 1) / sigma / mp.sqrt(2)) / 2 - mp.exp(mpf(epsilon)) * mp.erfc(y / sigma / mp.sqrt(2)) / 2
    assert truth <= mpf(run.delta(epsilon=epsilon)) <= truth * (1 + mpf(10) ** -11)


def test_the_closed_form_agrees_with_the_line_and_the_lattice() -> None:
    run = Gaussian(3.0) * 7 + Gaussian(1.5) * 2
    for epsilon in (0.1, 1.0, 5.0):
        known = run.account.profile.delta(epsilon)
        assert known.upper - known.lower <= 1e-12 * known.upper
        for other in (by_line(run).delta(epsilon), by_lattice(run).delta(epsilon)):
            assert other.lower <= known.lower <= known.upper <= other.upper


def test_what_underflows_is_positive() -> None:
    assert (PoissonSampled(Gaussian(6.08), 0.00245) * 1).delta(epsilon=1.0) > 0  # 5.1e-351 in truth


def test_more_rounds_cost_more_than_the_closed_form_of_one() -> None:
    step = PoissonSampled(Gaussian(1.1), 256 / 60_000)
    epsilons = [(step * n).epsilon(delta=1e-5) for n in (1, 2, 3, 5)]
    assert epsilons == sorted(epsilons)


def geometric_delta(scale: float, rounds: int, epsilon: float) -> mpf:
    """Of discrete Laplace noise, by the binomial law of how many losses are 1/b and not -1/b."""
    likelier = 1 / (1 + mp.exp(-1 / mpf(scale)))
    total = mpf(0)
    for count in range(rounds + 1):
        loss = (2 * count - rounds) / mpf(scale)
        if loss > epsilon:
            mass = mp.binomial(rounds, count) * likelier**count * (1 - likelier) ** (rounds - count)
            total += mass * -mp.expm1(epsilon - loss)
    return total


@pytest.mark.parametrize("seed", range(40))
def test_geometric_noise_is_bracketed_where_1_over_b_is_no_double(seed: int) -> None:
    """Next to the largest loss delta moves by percents as epsilon moves by its last digit."""
    rng = np.random.default_rng(seed)
    scale, rounds = float(10 ** rng.uniform(-1, 1)), int(rng.integers(1, 30))
    with mp.workdps(60):
        largest = rounds / mpf(scale)
        delta = float(geometric_delta(scale, rounds, largest * (1 - mpf(10) ** rng.uniform(-15, -1))))
        if not delta > 1e-290:
            return
        found = (DiscreteLaplace(scale) * rounds).guarantee(delta=delta)
        assert found.method == "exact"
        assert geometric_delta(scale, rounds, mpf(found.lower)) >= mpf(delta) or found.lower == 0
        assert geometric_delta(scale, rounds, mpf(found.upper)) <= mpf(delta)


@pytest.mark.parametrize("masses", [[0.1] * 10, [0.7, 0.2, 0.1], [1 / 3] * 3, [0.999, 0.001]])
def test_a_pair_of_equal_laws_costs_nothing(masses: list[float]) -> None:
    """However their sum rounds."""
    assert (DiscretePair(masses, masses) * 3).epsilon(delta=1e-5) == 0.0
