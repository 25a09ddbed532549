"""The best order, over the continuum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprounds import (
    ZCDP,
    ApproximateDP,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    RdpCurve,
)
from dprounds.conversions import METHODS, epsilon_from_rdp
from dprounds.mechanisms import Run
from dprounds.paper import lemma_2, moments_epsilon
from tests.references import gaussian


@pytest.mark.parametrize(
    ("rounds", "moments", "lemma"), [(100, 2.5243, 2.1657), (500, 5.9899, 5.3777), (1000, 8.8371, 8.0784)]
)
def test_the_paper_s_gaussian(rounds: int, moments: float, lemma: float) -> None:
    run = Gaussian(20.0) * rounds
    assert round(run.epsilon(delta=1e-5, method="moments"), 4) == moments
    assert round(run.epsilon(delta=1e-5, method="closed-form"), 4) == lemma
    assert round(run.epsilon(delta=1e-5, method="optimal"), 4) == lemma


@settings(deadline=None, max_examples=40)
@given(
    st.floats(-3.0, 5.0).map(lambda x: 10.0**x),
    st.integers(1, 10**6),
    st.floats(-200.0, -0.1).map(lambda x: 10.0**x),
)
def test_closed_forms_of_the_gaussian(sigma: float, rounds: int, delta: float) -> None:
    """The search finds the moments accountant's analytic minimum, and Lemma 2's two infima."""
    run, rho = Gaussian(sigma) * rounds, 0.5 / sigma**2
    expected = moments_epsilon(rho=rho, rounds=rounds, delta=delta)
    assert run.epsilon(delta=delta, method="moments") == pytest.approx(expected, rel=1e-10)
    closed = lemma_2(rho=rho, rounds=rounds, delta=delta)
    assert run.epsilon(delta=delta, method="closed-form") == pytest.approx(closed, rel=1e-9, abs=1e-13)


@settings(deadline=None, max_examples=30)
@given(st.floats(-1.0, 3.0).map(lambda x: 10.0**x), st.floats(0.0, 20.0))
def test_no_method_is_below_the_exact_gaussian(sigma: float, epsilon: float) -> None:
    truth = gaussian.delta(1.0 / sigma, epsilon)
    for method in METHODS:
        assert Gaussian(sigma).delta(epsilon=epsilon, method=method) >= truth


def test_orders_near_one_and_far_from_it() -> None:
    near = (Gaussian(1e-3) * 1).guarantee(delta=1e-5, method="optimal")
    far = (Gaussian(1e6) * 1).guarantee(delta=1e-300, method="optimal")
    assert near.order is not None
    assert far.order is not None
    assert near.order < 1.05
    assert far.order > 50_000


def test_large_noise_where_lists_of_orders_fail() -> None:
    """σ = 1000, one round: fixed lists stop at order 512 or so, the best order is 2,600."""
    guarantee = Gaussian(1000.0).guarantee(delta=1e-5, method="optimal")
    assert guarantee.epsilon <= 0.00232
    assert guarantee.order == pytest.approx(2617, rel=0.01)


@pytest.mark.parametrize(
    ("rate", "sigma", "rounds", "epsilon"),
    [(0.01, 1.0, 10**4, 6.7123), (256 / 60_000, 1.1, 14_062, 2.5965), (0.001, 4.0, 10**5, 0.2966)],
)
def test_dp_sgd_by_the_optimum(rate: float, sigma: float, rounds: int, epsilon: float) -> None:
    run = PoissonSampled(Gaussian(sigma), rate) * rounds
    assert round(run.epsilon(delta=1e-5, method="optimal"), 4) == epsilon


RUNS = {
    "gaussian": Gaussian(1.3) * 10,
    "laplace": Laplace(2.0) * 5,
    "response": RandomizedResponse(0.3) * 7,
    "sampled": PoissonSampled(Gaussian(0.8), 0.02) * 300,
    "sampled laplace": PoissonSampled(Laplace(1.0), 0.1) * 20,
    "zcdp": ZCDP(0.01) * 12,
    "curve": RdpCurve([2.0, 4.0, 8.0, 32.0], [0.1, 0.2, 0.4, 2.0]) * 3,
    "approximate": ApproximateDP(0.2, 1e-9) * 30,
    "mixed": Gaussian(3.0) * 4 + PureDP(0.1) * 2 + PoissonSampled(Gaussian(1.0), 0.01) * 50,
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_methods_are_ordered(run: Run) -> None:
    epsilons = [run.epsilon(delta=1e-6, method=method) for method in METHODS]
    assert epsilons == sorted(epsilons, reverse=True)
    deltas = [run.delta(epsilon=1.0, method=method) for method in METHODS]
    assert deltas == sorted(deltas, reverse=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_epsilon_falls_as_delta_grows_and_rises_with_rounds(run: Run, method: str) -> None:
    epsilons = [run.epsilon(delta=delta, method=method) for delta in (1e-7, 1e-5, 1e-3, 0.1)]
    assert epsilons == sorted(epsilons, reverse=True)
    assert (run * 2).epsilon(delta=1e-5, method=method) >= run.epsilon(delta=1e-5, method=method)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_epsilon_and_delta_are_inverse(run: Run) -> None:
    for method in METHODS:
        epsilon = run.epsilon(delta=1e-5, method=method)
        back = run.delta(epsilon=epsilon, method=method)
        # by the infinite order, epsilon is the largest loss, and nothing is left of delta at it
        assert back == pytest.approx(1e-5, rel=1e-6) or (back == 0.0 and method in ("moments", "balle"))


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_the_named_order_proves_the_guarantee(run: Run) -> None:
    guarantee = run.guarantee(delta=1e-5, method="optimal")
    assert guarantee.order is not None
    rest = (1e-5 - run.infinite_mass) / (1.0 - run.infinite_mass)
    again = epsilon_from_rdp(run.finite_rdp(np.array([guarantee.order])), order=[guarantee.order], delta=rest)
    assert np.asarray(again)[0] == pytest.approx(guarantee.epsilon, rel=1e-9)
    assert guarantee.lower <= guarantee.epsilon == guarantee.upper


def test_no_order_of_a_fine_grid_does_better() -> None:
    orders = 1.0 + np.logspace(-4, 6, 4001)
    for run in RUNS.values():
        rest = (1e-5 - run.infinite_mass) / (1.0 - run.infinite_mass)
        best = np.min(epsilon_from_rdp(run.finite_rdp(orders), order=orders, delta=rest))
        assert run.epsilon(delta=1e-5, method="optimal") <= best * (1 + 1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_zero_rounds_cost_nothing(method: str) -> None:
    nothing = Gaussian(1.0) * 0
    assert nothing.epsilon(delta=1e-5, method=method) == 0.0
    assert (PoissonSampled(Gaussian(1.0), 0.0) * 10**9).epsilon(delta=1e-5, method=method) == 0.0


def test_mass_at_infinity_is_part_of_delta() -> None:
    run = ApproximateDP(0.1, 1e-6) * 10
    assert run.epsilon(delta=9e-6) == math.inf
    assert run.epsilon(delta=2e-5) < 1.0
    assert run.delta(epsilon=100.0) == pytest.approx(run.infinite_mass, rel=1e-12)
    assert run.delta(epsilon=100.0) >= run.infinite_mass


def test_a_table_of_orders_is_never_below_the_curve_it_came_from() -> None:
    orders = [1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 64.0]
    true = Gaussian(2.0) * 10
    table = RdpCurve(orders, np.asarray(true.rdp(orders)).tolist())
    assert table.epsilon(delta=1e-5) >= true.epsilon(delta=1e-5)
