"""At δ = 0 ε is the largest loss: never below it, exactly it where doubles can say it, infinite where there is none."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dprounds import (
    ZCDP,
    Accountant,
    ApproximateDP,
    DiscreteGaussian,
    Gaussian,
    InfeasibleError,
    Laplace,
    ParameterError,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    RdpCurve,
    max_rounds,
    max_sampling_rate,
    min_noise_multiplier,
)
from dprounds.curves import epsilon_over_rounds
from dprounds.mechanisms import Run
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.numerics.rounding import ratio_above, sum_above

NOISE = st.floats(1e-3, 1e6)
LOSS = st.floats(1e-6, 50.0)
ROUNDS = st.integers(1, 10**9)


@given(noise=NOISE, rounds=ROUNDS)
def test_laplace_rounds_cost_rounds_over_scale(noise: float, rounds: int) -> None:
    found = Fraction((Laplace(noise) * rounds).epsilon(delta=0.0))
    truth = rounds / Fraction(noise)
    assert truth <= found <= truth * (1 + Fraction(2) ** -52)


@given(parts=st.lists(st.tuples(LOSS, st.integers(1, 10**6)), min_size=1, max_size=8))
def test_pure_parts_add_up(parts: list[tuple[float, int]]) -> None:
    run = sum((PureDP(loss) * rounds for loss, rounds in parts), start=Run())
    truth = sum((Fraction(loss) * rounds for loss, rounds in parts), start=Fraction(0))
    found = run.guarantee(delta=0)
    assert truth <= Fraction(found.epsilon) <= truth * (1 + Fraction(2) ** -50)
    assert Fraction(found.lower) <= truth
    assert (found.method, found.order, found.upper) == ("exact", None, found.epsilon)


@settings(deadline=None, max_examples=60)
@given(loss=LOSS, rate=st.floats(1e-9, 0.5), rounds=st.integers(1, 1000))
def test_a_sampled_round_costs_the_larger_of_both_directions(loss: float, rate: float, rounds: int) -> None:
    found = (PoissonSampled(RandomizedResponse(loss), rate) * rounds).guarantee(delta=0.0)
    with mp.workdps(60):
        truth = rounds * mp.log1p(mpf(rate) * mp.expm1(mpf(loss)))
        assert found.lower <= truth <= found.epsilon
        assert found.epsilon <= truth * (1 + mpf("1e-12"))


@pytest.mark.parametrize("method", [None, *RUN_METHODS])
@pytest.mark.parametrize(
    ("run", "epsilon"),
    [
        (Laplace(2.0) * 1, 0.5),
        (Laplace(2.0) * 10, 5.0),
        (Laplace(10.0) * 50, 5.0),
        (RandomizedResponse(1.0) * 3, 3.0),
        (ApproximateDP(0.25, delta=0.0) * 3, 0.75),
        (Laplace(10.0) * 50 + PureDP(1.0) * 3, 8.0),
        (PoissonSampled(Laplace(2.0), 1.0) * 4, 2.0),
        (PoissonSampled(Gaussian(2.0), 0.0) * 4, 0.0),
        (Run(), 0.0),
    ],
)
def test_what_doubles_can_say_is_said_exactly(run: Run, epsilon: float, method: str | None) -> None:
    assert run.epsilon(delta=0, method=method) == epsilon
    # by the infinite order a Rényi method need not cost more at any delta
    assert run.epsilon(delta=1e-5, method="moments") <= epsilon


@pytest.mark.parametrize("method", [None, *RUN_METHODS])
@pytest.mark.parametrize(
    "run",
    [
        Gaussian(3.0) * 2,
        DiscreteGaussian(3.0) * 2,
        PoissonSampled(Gaussian(3.0), 1e-6) * 2,
        ApproximateDP(0.1, delta=1e-30) * 1,
        Laplace(2.0) + Gaussian(1e9),
    ],
)
def test_without_a_largest_loss_nothing_holds(run: Run, method: str | None) -> None:
    assert run.epsilon(delta=0, method=method) == math.inf


def test_what_only_orders_bound_is_pure_by_the_infinite_one() -> None:
    assert (RdpCurve([2.0, math.inf], [0.1, 0.5]) * 3).epsilon(delta=0) == 1.5
    assert (RdpCurve([2.0], [0.1]) * 3).epsilon(delta=0) == math.inf
    assert (ZCDP(0.1) * 3).epsilon(delta=0) == math.inf
    assert (ZCDP(0.0) * 3).epsilon(delta=0) == 0.0


def test_epsilon_at_zero_is_the_limit_of_small_deltas() -> None:
    for run in (Laplace(2.0) * 3, RandomizedResponse(0.7) * 5, PoissonSampled(RandomizedResponse(1.0), 0.1) * 2):
        pure = run.epsilon(delta=0)
        assert pure * (1 - 1e-4) <= run.epsilon(delta=1e-30) <= pure


@pytest.mark.parametrize("method", [None, *RUN_METHODS])
def test_plans_at_delta_zero(method: str | None) -> None:
    budget = {"epsilon": 5.0, "delta": 0.0, "method": method}
    assert max_rounds(Laplace(2.0), **budget) == 10  # type: ignore[arg-type]  # a budget has several types
    assert max_rounds(Laplace(10.0), **budget) == 50  # type: ignore[arg-type]
    assert max_rounds(Laplace(10.0), spent=PureDP(1.0) * 2, **budget) == 30  # type: ignore[arg-type]
    assert max_rounds(Gaussian(10.0), **budget) == 0  # type: ignore[arg-type]
    noise = min_noise_multiplier(lambda s: Laplace(s) * 10, **budget)  # type: ignore[arg-type]
    assert 2.0 <= noise <= 2.0 * (1 + 1e-6)
    with pytest.raises(InfeasibleError, match="no largest value, so at delta=0 no epsilon holds"):
        min_noise_multiplier(lambda s: Gaussian(s) * 10, **budget)  # type: ignore[arg-type]
    rate = max_sampling_rate(lambda q: PoissonSampled(Laplace(2.0), q) * 20, **budget)  # type: ignore[arg-type]
    assert rate == pytest.approx(math.expm1(0.25) / math.expm1(0.5), rel=2e-6)
    assert (PoissonSampled(Laplace(2.0), rate) * 20).epsilon(delta=0) <= 5.0


def test_an_accountant_answers_at_delta_zero() -> None:
    accountant = Accountant()
    accountant.record(Laplace(2.0), rounds=3)
    assert accountant.epsilon(delta=0) == 1.5
    assert accountant.remaining_rounds(Laplace(2.0), epsilon=5.0, delta=0) == 7
    assert not accountant.would_exceed(Laplace(2.0), 2.0, 0)
    assert accountant.would_exceed(Laplace(2.0), 1.9, 0)


def test_a_curve_at_delta_zero_is_straight() -> None:
    curve = epsilon_over_rounds(Laplace(2.0), delta=0.0, last=100, points=10)
    assert set(curve.epsilon) == set(RUN_METHODS)
    for epsilons in curve.epsilon.values():
        assert epsilons.tolist() == [0.5 * int(n) for n in curve.rounds]
    assert epsilon_over_rounds(ZCDP(0.1), delta=0.0, last=100).to_rows() == []


@pytest.mark.parametrize("delta", [-5e-324, 1.0, math.nan, -0.1, None, "0"])
def test_other_deltas_are_refused_as_before(delta: float) -> None:
    with pytest.raises(ParameterError, match=r"delta must be .*in \[0, 1\)"):
        (Laplace(2.0) * 3).epsilon(delta=delta)


@given(over=st.integers(1, 10**40), under=st.integers(1, 10**40))
def test_ratios_are_rounded_up(over: int, under: int) -> None:
    found = ratio_above(over, under)
    assert Fraction(math.nextafter(found, 0.0)) < Fraction(over, under) <= Fraction(found)
    assert ratio_above(10**400, 1) == math.inf


@given(st.lists(st.floats(0.0, 1e300), max_size=10))
def test_sums_are_rounded_up(values: list[float]) -> None:
    found, truth = sum_above(values), sum(map(Fraction, values), start=Fraction(0))
    assert truth <= Fraction(found)
    assert found == 0 or Fraction(math.nextafter(found, 0.0)) < truth
    assert sum_above([1e308, 1e308]) == math.inf
    assert sum_above([1.0, math.inf]) == math.inf
