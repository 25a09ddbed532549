"""Moment functions in closed form against the definition in arbitrary precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import pytest

from dprounds.mechanisms import (
    ApproximateDP,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Mechanism,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
)
from tests.references import moments

Reference = Callable[..., Any]

REAL = [1e-6, 0.3, 1.0, 7.5, 60.0]
COMPLEX = [1e-3 + 0.1j, 1 + 1j, 5 + 30j, 20 - 3j]

# Closed forms take some tens of roundings of 1.1e-16.
RTOL = 1e-14


def error(mechanism: Mechanism, z: complex, reference: Any, direction: str = "remove") -> float:
    """The error of K relative to |K|, or that of M relative to M(Re z) where M nearly vanishes; on any branch."""
    difference = mp.mpmathify(mechanism.log_moment(z, direction)) - reference
    difference -= 2j * mp.pi * mp.nint(mp.im(difference) / (2 * mp.pi))
    of_log = abs(difference) / abs(reference)
    depth = mp.exp(mp.re(reference) - mp.mpf(mechanism.log_moment(z.real, direction)))
    return float(min(of_log, abs(mp.expm1(difference)) * depth))


@pytest.mark.parametrize("z", [*REAL, *COMPLEX])
@pytest.mark.parametrize("sigma", [1.0, 20.0])
def test_gaussian(sigma: float, z: complex) -> None:
    assert error(Gaussian(sigma), z, moments.gaussian(sigma, z)) < RTOL


@pytest.mark.parametrize("z", [*REAL, *COMPLEX])
@pytest.mark.parametrize("scale", [0.05, 1.0, 10.0, 1e7])
def test_laplace(scale: float, z: complex) -> None:
    # A phase of Im z / scale rounds by its size.
    assert error(Laplace(scale), z, moments.laplace_mechanism(scale, z)) < RTOL * (1 + abs(z.imag) / scale / 10)


@pytest.mark.parametrize("z", [*REAL, *COMPLEX, 1e6, 1e4 + 1j])
@pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 1.0, 5.0, 50.0, 800.0])
def test_randomized_response(epsilon: float, z: complex) -> None:
    reference = moments.randomized_response(epsilon, z)
    rtol = RTOL * (1 + abs(z.imag) * epsilon / 10)
    assert error(RandomizedResponse(epsilon), z, reference) < rtol
    assert error(PureDP(epsilon), z, reference) < rtol
    for delta in (1e-9, 0.5):
        mechanism = ApproximateDP(epsilon, delta)
        assert error(mechanism, z, moments.randomized_response(epsilon, z, failure=delta)) < rtol


@pytest.mark.parametrize("z", [*REAL, *COMPLEX, 0.25 + 200j])
@pytest.mark.parametrize("sigma", [0.05, 0.2, 0.398, 0.4, 0.7, 1.0, 3.0, 12.0])
def test_discrete_gaussian(sigma: float, z: complex) -> None:
    rtol = RTOL * (1 + abs(z.imag) / sigma**2)
    assert error(DiscreteGaussian(sigma), z, moments.discrete_gaussian(sigma, z)) < rtol


def test_discrete_gaussian_never_costs_more_than_the_gaussian_and_as_much_at_integer_orders() -> None:
    for sigma in (0.3, 0.8, 2.0):
        for order in (1.2, 2.5, 7.9):
            discrete, continuous = DiscreteGaussian(sigma).rdp(order), Gaussian(sigma).rdp(order)
            assert discrete <= continuous * (1 + 2 * RTOL)
        assert DiscreteGaussian(sigma).rdp(5.0) == pytest.approx(Gaussian(sigma).rdp(5.0), rel=2 * RTOL)


def test_discrete_gaussian_with_large_noise_is_the_gaussian() -> None:
    assert DiscreteGaussian(1000.0).log_moment(1e-6) == pytest.approx(Gaussian(1000.0).log_moment(1e-6), rel=RTOL)


@pytest.mark.parametrize(
    "mechanism", [Gaussian(1e-3), Laplace(1e-3), RandomizedResponse(900.0), DiscreteGaussian(0.01)]
)
def test_huge_orders_do_not_overflow(mechanism: Mechanism) -> None:
    assert 0 < mechanism.rdp(1e6) < math.inf
    assert math.isfinite(mechanism.log_moment(1e6))


@pytest.mark.parametrize("mechanism", [Gaussian(1e200), Laplace(1e200), RandomizedResponse(1e-200)])
def test_underflow_does_not_hide_a_cost(mechanism: Mechanism) -> None:
    assert 0 < mechanism.rdp(2.0) < 1e-290


def test_overflow_is_reported_as_infinity() -> None:
    assert Gaussian(1e-200).rdp(2.0) == math.inf


SAMPLED: list[tuple[Mechanism, Reference]] = [
    *((RandomizedResponse(e), lambda z, e=e, **k: moments.randomized_response(e, z, **k)) for e in (1e-3, 1.0, 50.0)),
    (PureDP(1.0), lambda z, **k: moments.randomized_response(1.0, z, **k)),
    *((Laplace(b), lambda z, b=b, **k: moments.laplace_mechanism(b, z, **k)) for b in (0.1, 30.0)),
    *((DiscreteGaussian(s), lambda z, s=s, **k: moments.discrete_gaussian(s, z, **k)) for s in (0.2, 3.0)),
]


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("rate", [1e-9, 0.01, 1 - 1e-9])
@pytest.mark.parametrize(("inner", "reference"), SAMPLED, ids=[repr(inner) for inner, _ in SAMPLED])
def test_sampled_mechanisms(inner: Mechanism, reference: Reference, rate: float, direction: str) -> None:
    mechanism = PoissonSampled(inner, rate)
    for z in (2.0**-20, 7.5, 2 + 5j):
        exact = reference(z, rate=rate, direction=direction)
        # Sums of exponentials of up to a hundred: a hundred roundings.
        assert error(mechanism, z, exact, direction) < 1e-13, z
        if isinstance(z, float) and direction == "remove":
            # Soundness, without tolerance
            with mp.workdps(40):
                assert mp.mpf(mechanism.rdp(z + 1.0)) >= exact / z


@pytest.mark.parametrize("b", [0.02, 1.0])
def test_sampled_laplace_resolves_the_layer_at_its_largest_loss(b: float) -> None:
    # At a huge order only the atom at the largest loss and the layer below it count:
    # log M = (t+1) u - 1/b - log 2 + log(1 + 1 / (2 (t+1) share)) up to O(1/t^2).
    q, t = 0.1, 1e6
    u, share = math.log1p(q * math.expm1(1 / b)), q * math.exp(1 / b) / (1 + q * math.expm1(1 / b))
    expected = (t + 1) * u - 1 / b - math.log(2) + math.log1p(1 / (2 * (t + 1) * share))
    assert PoissonSampled(Laplace(b), q).log_moment(t) == pytest.approx(expected, rel=1e-14, abs=1e-9)


def test_the_layer_formula_is_that_of_the_reference() -> None:
    z = 300.0
    exact = moments.laplace_mechanism(1.0, z, rate=0.1)
    assert error(PoissonSampled(Laplace(1.0), 0.1), z, exact) < 1e-13


def test_losses_of_sampled_pure_mechanisms_are_bounded() -> None:
    step = PoissonSampled(RandomizedResponse(2.0), 0.1)
    assert step.max_loss() == pytest.approx(math.log1p(0.1 * math.expm1(2.0)), rel=2e-14)
    assert step.max_loss("add") == pytest.approx(-math.log1p(0.1 * math.expm1(-2.0)), rel=2e-14)
    assert PoissonSampled(Laplace(0.5), 0.1).max_loss() == pytest.approx(step.max_loss(), rel=2e-14)
    assert PoissonSampled(Gaussian(1.0), 0.1).max_loss() == math.inf
    assert PoissonSampled(Gaussian(1.0), 0.1).max_loss("add") == pytest.approx(-math.log1p(-0.1), rel=2e-14)


def test_more_discrete_noise_may_cost_more() -> None:
    """Not a defect: from the definition, by summation over the integers, at an epsilon between the two answers."""

    def true_delta(sigma: float, epsilon: float) -> mp.mpf:
        with mp.workdps(60):
            s, x = mp.mpf(sigma), mp.mpf(epsilon)
            weights = {k: mp.exp(-(mp.mpf(k) ** 2) / (2 * s * s)) for k in range(-40, 41)}
            total = mp.fsum(weights.values())
            # an output k has the loss (2k - 1) / 2 sigma^2, and the probability of k - 1 under P
            return mp.fsum(
                weights[k - 1] / total * -mp.expm1(min(x - (2 * k - 1) / (2 * s * s), 0)) for k in range(-39, 41)
            )

    assert true_delta(0.167, 25.0) < 1e-6 < true_delta(0.2, 25.0)
    little, more = (DiscreteGaussian(noise).guarantee(delta=1e-6) for noise in (0.167, 0.2))
    assert little.upper < 25.0 < more.lower
