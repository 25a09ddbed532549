"""Rounds, noise and rate under a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from dprounds import (
    ZCDP,
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
from dprounds.conversions import METHODS
from dprounds.mechanisms import Release, Run
from dprounds.planning import plan_rounds
from tests.references import gaussian


@pytest.mark.parametrize(("method", "rounds"), [("moments", 501), ("closed-form", 603), ("optimal", 603)])
def test_the_title_of_the_paper(method: str, rounds: int) -> None:
    assert max_rounds(Gaussian(20.0), epsilon=6.0, delta=1e-5, method=method) == rounds


def test_dp_sgd_rounds_by_the_optimum() -> None:
    step = PoissonSampled(Gaussian(4.0), 0.001)
    assert max_rounds(step, epsilon=1.0, delta=1e-5, method="optimal") == pytest.approx(946_597, abs=2)


STEPS: dict[str, Release] = {
    "gaussian": Gaussian(8.0),
    "laplace": Laplace(20.0),
    "response": RandomizedResponse(0.05),
    "pure": PureDP(0.05),
    "approximate": ApproximateDP(0.05, 1e-9),
    "zcdp": ZCDP(0.001),
    "curve": RdpCurve([2.0, 4.0, 8.0, 32.0], [0.001, 0.002, 0.004, 0.02]),
    "sampled": PoissonSampled(Gaussian(1.1), 0.004),
    "several": Gaussian(30.0) * 2 + Laplace(50.0),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_the_last_round_fits_and_the_next_does_not(step: Release, method: str) -> None:
    rounds = max_rounds(step, epsilon=2.0, delta=1e-5, method=method)
    assert (step * rounds).epsilon(delta=1e-5, method=method) <= 2.0
    assert (step * (rounds + 1)).epsilon(delta=1e-5, method=method) > 2.0


def test_zero_rounds_is_an_answer() -> None:
    assert max_rounds(Gaussian(0.1), epsilon=0.5, delta=1e-5) == 0
    assert max_rounds(ApproximateDP(0.1, 1e-3), epsilon=1.0, delta=1e-5) == 0


@pytest.mark.parametrize("scale", [1e5, 1e6, 1e7])
def test_huge_counts_are_not_looped_over(scale: float) -> None:
    rounds = max_rounds(Gaussian(scale), epsilon=1.0, delta=1e-5)
    # ε depends on rounds / σ² alone
    assert rounds == pytest.approx(max_rounds(Gaussian(1e3), epsilon=1.0, delta=1e-5) * (scale / 1e3) ** 2, rel=1e-4)
    assert rounds > 1e8


def test_what_was_spent_counts() -> None:
    step = PoissonSampled(Gaussian(1.1), 0.004)
    whole = max_rounds(step, epsilon=2.0, delta=1e-5)
    assert max_rounds(step, epsilon=2.0, delta=1e-5, spent=step * 1000) == whole - 1000
    assert max_rounds(step, epsilon=2.0, delta=1e-5, spent=Gaussian(0.1)) == 0


def test_rounds_in_addition_to_other_releases_are_exact() -> None:
    step, before = PoissonSampled(Gaussian(1.1), 0.004), Gaussian(5.0) + Laplace(20.0)
    rounds = max_rounds(step, epsilon=3.0, delta=1e-5, spent=before)
    assert (before + step * rounds).epsilon(delta=1e-5) <= 3.0 < (before + step * (rounds + 1)).epsilon(delta=1e-5)
    assert rounds > max_rounds(step, epsilon=3.0, delta=1e-5, spent=before, method="optimal")
    pair = step * 2
    assert max_rounds(pair, epsilon=3.0, delta=1e-5) == max_rounds(step, epsilon=3.0, delta=1e-5) // 2


def test_a_budget_without_end_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="No number of rounds exceeds the budget"):
        max_rounds(PoissonSampled(Gaussian(1.0), 0.0), epsilon=1.0, delta=1e-5)
    with pytest.raises(ParameterError, match=r"^epsilon must be in \[0, inf\), got inf"):
        max_rounds(Gaussian(1.0), epsilon=math.inf, delta=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_noise_meets_the_budget_and_a_millionth_less_does_not(method: str) -> None:
    def run(sigma: float) -> Release:
        return PoissonSampled(Gaussian(sigma), 0.01) * 1000

    sigma = min_noise_multiplier(run, epsilon=3.0, delta=1e-5, method=method)
    assert (run(sigma) * 1).epsilon(delta=1e-5, method=method) <= 3.0
    assert (run(sigma / (1 + 1e-6)) * 1).epsilon(delta=1e-5, method=method) > 3.0


@pytest.mark.parametrize("method", METHODS)
def test_rate_meets_the_budget_and_a_millionth_more_does_not(method: str) -> None:
    def run(rate: float) -> Release:
        return PoissonSampled(Gaussian(1.0), rate) * 1000

    rate = max_sampling_rate(run, epsilon=3.0, delta=1e-5, method=method)
    assert (run(rate) * 1).epsilon(delta=1e-5, method=method) <= 3.0
    assert (run(rate * (1 + 1e-6)) * 1).epsilon(delta=1e-5, method=method) > 3.0


def test_noise_is_planned_exactly_though_some_noise_on_the_way_has_no_exact_answer() -> None:
    """With a quarter of the noise the sum along the line cannot be bounded, which must not end the search."""

    def run(noise_multiplier: float) -> Release:
        return PoissonSampled(Gaussian(noise_multiplier), 256 / 60_000) * 14_062

    for epsilon in (3.0, 40.0):
        noise = min_noise_multiplier(run, epsilon=epsilon, delta=1e-5, method="exact")
        assert (run(noise) * 1).epsilon(delta=1e-5, method="exact") <= epsilon
        assert (run(noise * (1 - 2e-6)) * 1).epsilon(delta=1e-5, method="exact") > epsilon


@pytest.mark.parametrize("rounds", [1, 20])
def test_few_sampled_rounds_are_planned_exactly(rounds: int) -> None:
    def run(noise_multiplier: float) -> Release:
        return PoissonSampled(Gaussian(noise_multiplier), 0.01) * rounds

    budget = {"epsilon": 0.5, "delta": 1e-5}
    noise = min_noise_multiplier(run, **budget, method="exact", tolerance=1e-3)
    assert (run(noise) * 1).epsilon(delta=1e-5, method="exact") <= 0.5
    assert noise < 0.95 * min_noise_multiplier(run, **budget, method="optimal")


def test_noise_of_the_moments_accountant_is_its_formula() -> None:
    rounds, epsilon, delta = 100, 1.0, 1e-5
    excess = -math.log(delta)
    expected = math.sqrt(rounds / 2) / (math.sqrt(excess + epsilon) - math.sqrt(excess))
    found = min_noise_multiplier(lambda s: Gaussian(s) * rounds, epsilon=epsilon, delta=delta, method="moments")
    assert expected * (1 - 1e-12) <= found <= expected * (1 + 1.01e-6)


def test_a_mechanism_alone_may_be_planned() -> None:
    """Against the noise at which delta in closed form is the budget's; found from above, to the tolerance."""

    def excess(sigma: float) -> float:  # of N(1, sigma^2) over N(0, sigma^2), at epsilon = 1
        return float(ndtr(0.5 / sigma - sigma) - math.e * ndtr(-0.5 / sigma - sigma)) - 1e-5

    gaussian = brentq(excess, 3.0, 4.0, xtol=1e-14, rtol=1e-14)
    laplace = 1.0 / (1.0 - 2.0 * math.log1p(-1e-5))  # 1 - e^{(1 - 1/b)/2} = delta
    for make, least in ((Gaussian, gaussian), (Laplace, laplace)):
        found = min_noise_multiplier(make, epsilon=1.0, delta=1e-5)
        assert least * (1 - 1e-11) <= found <= least * (1 + 1.01e-6)
    assert gaussian == pytest.approx(3.730632, abs=1e-6)


def test_the_whole_data_may_be_sampled() -> None:
    assert max_sampling_rate(lambda q: PoissonSampled(Gaussian(50.0), q), epsilon=3.0, delta=1e-5) == 1.0


def test_planning_says_what_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match=r"No noise_multiplier up to 1e\+09 meets epsilon=1 .* fewer rounds"):
        min_noise_multiplier(lambda s: Gaussian(s) + Gaussian(0.1), epsilon=1.0, delta=1e-5)
    with pytest.raises(InfeasibleError, match="Every noise_multiplier down to"):
        min_noise_multiplier(lambda s: Gaussian(s) * 0, epsilon=1.0, delta=1e-5)
    with pytest.raises(InfeasibleError, match="No sampling_rate down to 1e-12"):
        max_sampling_rate(lambda q: PoissonSampled(Gaussian(1.0), q) + Gaussian(0.1), epsilon=1.0, delta=1e-5)


GOOD: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "method": "optimal"}
CALLS: dict[str, Callable[..., object]] = {
    "max_rounds": lambda **budget: max_rounds(Gaussian(1.0), **budget),
    "min_noise_multiplier": lambda **budget: min_noise_multiplier(Gaussian, **budget),
    "max_sampling_rate": lambda **budget: max_sampling_rate(lambda q: PoissonSampled(Gaussian(1.0), q), **budget),
}
BAD: dict[str, list[Any]] = {
    "epsilon": [math.nan, math.inf, -1e-9, "abc", None, [1.0]],
    "delta": [math.nan, -5e-324, 1.0, -0.1, 2.0, "abc", None, [1e-5]],
    "method": ["best", "", 3, "Exact"],
}


@pytest.mark.parametrize(
    ("call", "argument", "value"),
    [(call, argument, value) for call in CALLS for argument in BAD for value in BAD[argument]],
)
def test_every_budget_argument_refuses_what_is_outside_its_range(call: str, argument: str, value: object) -> None:
    with pytest.raises(ParameterError, match=rf"^{argument} must be .*, got .*\.$"):
        CALLS[call](**{**GOOD, argument: value})


def test_what_is_no_run_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"^step must be a mechanism or a run"):
        max_rounds(3, epsilon=1.0, delta=1e-5)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(ParameterError, match=r"^make_run must be a function"):
        min_noise_multiplier(Gaussian(1.0), epsilon=1.0, delta=1e-5)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(ParameterError, match=r"^what make_run returns must be a mechanism or a run"):
        min_noise_multiplier(lambda s: s, epsilon=1.0, delta=1e-5)  # type: ignore[arg-type,return-value]  # the point of the test
    with pytest.raises(ParameterError, match=r"^tolerance must be in \[1e-14, 1\), got 0"):
        min_noise_multiplier(Gaussian, epsilon=1.0, delta=1e-5, tolerance=0.0)


@pytest.mark.parametrize("tolerance", [1e-17, 1e-16, 0.0, 1.0, math.nan])
def test_a_tolerance_that_rounding_swallows_is_refused(tolerance: float) -> None:
    with pytest.raises(ParameterError, match=r"^tolerance must be in \[1e-14, 1\)"):
        min_noise_multiplier(Gaussian, epsilon=1.0, delta=1e-5, method="moments", tolerance=tolerance)


@pytest.mark.parametrize("tolerance", [1e-14, 1e-12, 0.5])
def test_the_finest_and_the_coarsest_tolerance_end(tolerance: float) -> None:
    noise = min_noise_multiplier(Gaussian, epsilon=1.0, delta=1e-5, method="moments", tolerance=tolerance)
    assert (Gaussian(noise) * 1).epsilon(delta=1e-5, method="moments") <= 1.0


def test_noise_in_addition_to_a_run_that_nearly_fills_the_budget_is_found() -> None:
    """The run costs 0.99999987 by itself, so that more rounds fit if their noise hides everything."""

    def make_run(noise: float) -> Run:
        return PoissonSampled(Gaussian(2.9297446403842855), 0.1) * 50 + PoissonSampled(Gaussian(noise), 0.1) * 50

    found = min_noise_multiplier(make_run, epsilon=1.0, delta=1e-5)
    assert make_run(found).epsilon(delta=1e-5) <= 1.0 < make_run(found / (1 + 1e-5)).epsilon(delta=1e-5)
    assert found < 1e4


AT_ZERO: dict[str, tuple[Callable[[float], Release], float]] = {
    "noise": (lambda s: Gaussian(s) * 100, 1e-5),
    "noise of few sampled rounds": (lambda s: PoissonSampled(Gaussian(s), 0.01) * 100, 0.01),
    "noise of Laplace": (lambda s: Laplace(s) * 30, 0.3),
}


@pytest.mark.parametrize(("make_run", "delta"), AT_ZERO.values(), ids=AT_ZERO)
@pytest.mark.parametrize("method", [None, "optimal"])
def test_noise_for_an_epsilon_of_zero_is_where_the_total_variation_is_delta(
    make_run: Callable[[float], Release], delta: float, method: str | None
) -> None:
    calls = []

    def counted(noise: float) -> Release:
        calls.append(noise)
        return make_run(noise)

    found = min_noise_multiplier(counted, epsilon=0.0, delta=delta, method=method)
    run, less = make_run(found) * 1, make_run(found / (1 + 1e-5)) * 1
    assert run.epsilon(delta=delta, method=method) == 0.0
    assert run.delta(epsilon=0.0, method=method) <= delta < less.delta(epsilon=0.0, method=method)
    if method is None:  # four or five values of delta, and a few more runs for the guess from a normal law
        assert len(calls) < 20


@pytest.mark.parametrize("noise", [Gaussian, Laplace, DiscreteGaussian])
def test_any_noise_keeps_an_epsilon_of_zero_where_delta_covers_that_the_record_is_seen_and_no_sum_says_so(
    noise: Callable[[float], Any],
) -> None:
    asked = []

    def make_run(x: float) -> Run:
        asked.append(x)
        return PoissonSampled(noise(x), 1e-4) * 1000

    with pytest.raises(InfeasibleError, match="Every noise_multiplier down to 1e-06 meets epsilon=0 at"):
        min_noise_multiplier(make_run, epsilon=0.0, delta=0.1)
    assert set(asked) == {1e-6}  # to sum a law of so little noise takes seconds


def test_a_rate_for_an_epsilon_of_zero() -> None:
    """Of one round, rate times the total variation of the noise: 2 Phi(1/2) - 1 for noise 1."""
    q = max_sampling_rate(lambda q: PoissonSampled(Gaussian(1.0), q), epsilon=0.0, delta=0.01)
    assert q == pytest.approx(0.01 / 0.38292492254802624, rel=2e-5)
    assert PoissonSampled(Gaussian(1.0), q).epsilon(delta=0.01) == 0.0
    assert max_sampling_rate(lambda q: PoissonSampled(Laplace(1.0), q), epsilon=0.0, delta=0.9) == 1.0


@pytest.mark.parametrize(
    ("step", "delta"),
    [
        (Gaussian(100.0), 0.3),
        (PoissonSampled(Gaussian(1.0), 0.01), 0.01),
        (Laplace(10.0), 0.3),
        (RandomizedResponse(0.01), 0.01),
        (ApproximateDP(0.01, 1e-4), 0.3),
        (PoissonSampled(Gaussian(1.0), 0.01), 1e-5),
    ],
    ids=repr,
)
@pytest.mark.parametrize("method", [None, "optimal"])
def test_rounds_for_an_epsilon_of_zero(step: Release, delta: float, method: str | None) -> None:
    n = max_rounds(step, epsilon=0.0, delta=delta, method=method)
    assert (step * n).epsilon(delta=delta, method=method) == 0.0
    assert (step * (n + 1)).epsilon(delta=delta, method=method) > 0.0


@pytest.mark.parametrize("step", [Gaussian(100.0), PoissonSampled(Gaussian(1.1), 0.004), Laplace(10.0)], ids=repr)
def test_rounds_for_an_epsilon_of_zero_take_a_few_deltas_and_no_epsilon(
    step: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    delta = Run.delta

    def counted(run: Run, *, epsilon: float, method: str | None = None) -> float:
        asked.append(run.rounds)
        return delta(run, epsilon=epsilon, method=method)

    monkeypatch.setattr(Run, "delta", counted)
    monkeypatch.setattr(Run, "guarantee", None)
    n = max_rounds(step, epsilon=0.0, delta=0.1)
    assert {n, n + 1} <= set(asked)
    assert len(asked) <= 5


@pytest.mark.parametrize("delta", [0.01, 0.3, 0.9])
def test_one_more_round_than_an_epsilon_of_zero_allows_is_proven_to_cost_some(delta: float) -> None:
    step = Gaussian(100.0)
    plan = plan_rounds(step, epsilon=0.0, delta=delta)
    assert plan.epsilon == 0.0
    more = int(plan.value) + 1
    truth = brentq(
        lambda epsilon: float(gaussian.delta(math.sqrt(more) / 100.0, epsilon) - delta), 0.0, 1.0, xtol=1e-15
    )
    assert plan.beyond is not None
    assert 0.0 < plan.beyond <= truth
    assert plan_rounds(step, epsilon=0.0, delta=delta, method="optimal").beyond == 0.0


def test_no_epsilon_of_zero_by_the_moments_accountant() -> None:
    assert max_rounds(Gaussian(100.0), epsilon=0.0, delta=0.3, method="moments") == 0
    with pytest.raises(InfeasibleError, match=r"there epsilon is still [0-9]"):
        min_noise_multiplier(lambda s: Gaussian(s) * 3, epsilon=0.0, delta=0.3, method="moments")
