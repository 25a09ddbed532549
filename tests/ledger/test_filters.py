"""Filters: figures, soundness against analysts who see every branch, and the safe side of every rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from dprounds import (
    ApproximateDP,
    DiscretePair,
    Gaussian,
    Laplace,
    ParameterError,
    PoissonSampled,
    PureDP,
    RandomAllocation,
    UnsupportedError,
)
from dprounds.ledger.filters import (
    FILTERS,
    UNIT,
    Filter,
    filter_from_parameters,
    new_filter,
    units_down,
    units_up,
)
from dprounds.mechanisms import Run
from tests.ledger.trees import F, Job, bernoulli, best_gain, reveal, turned
from tests.references import gaussian as reference

MNIST = PoissonSampled(Gaussian(1.1), 256 / 60_000) * 14_062


def admitted(budget: Filter, run: Run, most: int = 10_000) -> int:
    """How often a filter admits a job, one after the other."""
    left = budget.caps
    for number in range(most):
        cost = budget.cost(run, left=left)
        if not budget.fits(cost, left):
            return number
        left = tuple(a - b for a, b in zip(left, cost, strict=True))
    return most


def test_the_gaussian_filter_loses_nothing_on_gaussian_noise_and_one_order_does() -> None:
    budgets = {kind: new_filter(kind, epsilon=6.0, delta=1e-5) for kind in ("gaussian", "renyi")}
    assert {kind: admitted(budget, Gaussian(20.0) * 1) for kind, budget in budgets.items()} == {
        "gaussian": 685,
        "renyi": 603,
    }
    for budget in budgets.values():
        assert budget.rounds_that_fit(Gaussian(20.0) * 1, budget.caps) == admitted(budget, Gaussian(20.0) * 1)


@pytest.mark.parametrize(("epsilon", "delta", "order"), [(3.0, 1e-6, 8.93), (6.0, 1e-5, 4.64), (1.0, 1e-5, 17.8)])
def test_the_default_order_admits_the_most_gaussian_releases(epsilon: float, delta: float, order: float) -> None:
    assert new_filter("renyi", epsilon=epsilon, delta=delta).parameters["order"] == order


def test_ten_training_runs_cost_what_was_computed_independently() -> None:
    budget = new_filter("gaussian", epsilon=12.0, delta=1e-5, revealed=1e-8)
    cost = budget.cost(MNIST, left=budget.caps, delta=1e-9)
    assert budget.epsilon_of([10 * amount for amount in cost]) == pytest.approx(9.193, abs=1e-3)
    budget = new_filter("renyi", epsilon=9.6, delta=1e-5)
    cost = budget.cost(MNIST, left=budget.caps)
    assert budget.epsilon_of([10 * amount for amount in cost]) == pytest.approx(9.592, abs=2e-3)
    assert cost[1] < cost[0]  # the direction `add` has a sum of its own


@pytest.mark.parametrize("kind", ["gaussian", "renyi"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (1.0, 1e-5), (6.0, 1e-5), (20.0, 0.01)])
def test_caps_keep_the_budget_and_their_levels_theirs(kind: str, epsilon: float, delta: float) -> None:
    budget = new_filter(kind, epsilon=epsilon, delta=delta)
    assert budget.is_sound()
    assert sum(F(level.delta) for level in budget.levels) <= F(delta)
    if kind == "gaussian":
        revealed = mpf(budget.caps[1]) * mpf(2) ** -60
        for caps, at, most in [(budget.caps, epsilon, delta), *((x.caps, x.epsilon, x.delta) for x in budget.levels)]:
            with mp.workdps(40):
                mu = mp.sqrt(mpf(caps[0]) / mpf(2) ** 60)
                spent = reference.delta(mu, at) + revealed
                assert spent <= mpf(most)
                if mu > 1e-3:
                    assert spent >= mpf(most) * (1 - mpf(10) ** -6)


def test_a_cap_that_was_raised_is_not_sound() -> None:
    for kind in ("gaussian", "renyi"):
        parameters = new_filter(kind, epsilon=3.0, delta=1e-6).parameters
        assert filter_from_parameters(parameters).is_sound()
        raised = {**parameters, "caps": [str(int(cap) + int(cap) // 10**9) for cap in parameters["caps"]]}
        assert not filter_from_parameters(raised).is_sound()
        level = {**parameters["levels"][1], "delta": 1e-6}
        assert not filter_from_parameters({**parameters, "levels": [*parameters["levels"], level]}).is_sound()


@pytest.mark.parametrize("kind", sorted(FILTERS))
def test_parameters_restore_the_filter(kind: str) -> None:
    budget = new_filter(kind, epsilon=3.0, delta=None if kind == "pure" else 1e-6)
    assert filter_from_parameters(budget.parameters) == budget


@given(st.floats(min_value=0.0, max_value=1e6))
def test_units_are_rounded_to_the_safe_side(value: float) -> None:
    assert units_down(value) * UNIT <= F(value) <= units_up(value) * UNIT
    assert units_up(value) - units_down(value) <= 1


def test_costs_are_not_below_the_truth() -> None:
    budget = new_filter("gaussian", epsilon=6.0, delta=1e-5)
    assert budget.cost(Gaussian(20.0) * 3, left=budget.caps)[0] * UNIT >= F(3, 400)
    budget = new_filter("renyi", epsilon=6.0, delta=1e-5, order=4.0)
    assert all(amount * UNIT >= F(3 * 4, 800) for amount in budget.cost(Gaussian(20.0) * 3, left=budget.caps))
    budget = new_filter("pure", epsilon=6.0, delta=None)
    assert budget.cost(PureDP(0.1) * 7, left=budget.caps)[0] * UNIT >= 7 * F(0.1)


@pytest.mark.parametrize(("order", "sigma", "steps"), [(1.01, 10.0, 5000), (1.0001, 10.0, 5000), (1.1, 200.0, 1000)])
def test_the_cost_of_an_allocation_counts_the_errors_that_its_law_states(
    order: float, sigma: float, steps: int
) -> None:
    """Its K is a small logarithm of an M that is known relative to itself. The truth by moments, from below."""
    z = mpf(order) - 1
    with mp.workdps(50):
        w = mp.exp(1 / mpf(sigma) ** 2)
        raw = [w ** (n * (n - 1) // 2) for n in range(5)]  # E[e^(nV)]
        second = raw[2] - 1
        third = raw[3] - 3 * raw[2] + 2
        fourth = raw[4] - 4 * raw[3] + 6 * raw[2] - 3
        n = mpf(steps)
        mean_2, mean_3 = second / n, third / n**2
        mean_4 = (fourth + 3 * (n - 1) * second**2) / n**3
        # E[S^-z], whose Taylor series about S = 1 ends below the truth at an odd power; the sixth adds next to nothing
        moment = 1 + z * (z + 1) / 2 * mean_2 - z * (z + 1) * (z + 2) / 6 * mean_3
        fourth_term = z * (z + 1) * (z + 2) * (z + 3) / 24 * mean_4
        truth = mp.log(moment + fourth_term * (1 - mpf(10) ** -3)) / z
    budget = new_filter("renyi", epsilon=3.0, delta=1e-6, order=order)
    cost = budget.cost(RandomAllocation(Gaussian(sigma), steps=steps) * 1, left=budget.caps)[1]
    assert mpf(cost) / mpf(2) ** 60 >= truth


def test_each_direction_of_an_uneven_pair_is_charged_its_own_divergence() -> None:
    """From the definition, of masses that doubles hold exactly: remove is P against Q, add is Q against P."""
    dice = np.random.default_rng(5)
    smaller = 0
    for _ in range(60):
        p, q = (sorted(dice.integers(1, 2**20, 2).tolist()) for _ in range(2))
        masses = [(low, high - low, 2**20 - high) for low, high in (p, q)]
        order = float(dice.uniform(1.5, 30.0))
        budget = new_filter("renyi", epsilon=6.0, delta=1e-5, order=order)
        try:
            run = DiscretePair(*([mass / 2**20 for mass in law] for law in masses)) * 1
            cost = budget.cost(run, left=budget.caps)
        except (ParameterError, UnsupportedError):  # a mass of zero
            continue
        with mp.workdps(40):
            truths = [
                mp.log(
                    mp.fsum(mpf(a) ** order * mpf(b) ** (1 - mpf(order)) for a, b in zip(one, other, strict=True))
                    / 2**20
                )
                / (mpf(order) - 1)
                for one, other in (masses, masses[::-1])
            ]
        for amount, truth in zip(cost, truths, strict=True):
            assert mpf(amount) / mpf(2) ** 60 >= truth
        smaller += cost[1] < cost[0]
        if truths[1] < truths[0]:
            assert mpf(cost[1]) / mpf(2) ** 60 <= truths[1] * (1 + mpf(10) ** -9)
    assert smaller > 10  # sums apart: the direction `add` costs less


def test_a_job_reveals_a_tenth_of_what_is_left_and_nothing_where_nothing_is_needed() -> None:
    budget = new_filter("gaussian", epsilon=6.0, delta=1e-5)
    assert budget.caps[1] * UNIT <= F(1e-7)
    cost = budget.cost(MNIST, left=budget.caps)
    assert F(1, 20) <= F(cost[1], budget.caps[1]) <= F(1, 10)
    for run in (Gaussian(5.0) * 3, PureDP(0.1) * 1, Laplace(5.0) * 1):
        assert budget.cost(run, left=budget.caps)[1] == 0
    assert budget.cost(ApproximateDP(0.1, 1e-9) * 1, left=budget.caps)[1] == units_up(1e-9)


def test_jobs_without_a_cost_are_refused_with_what_to_do() -> None:
    renyi = new_filter("renyi", epsilon=6.0, delta=1e-5)
    with pytest.raises(UnsupportedError, match="filter='gaussian'"):
        renyi.cost(ApproximateDP(0.1, 1e-9) * 1, left=renyi.caps)
    pure = new_filter("pure", epsilon=6.0, delta=None)
    with pytest.raises(UnsupportedError, match="no largest privacy loss"):
        pure.cost(Gaussian(5.0) * 1, left=pure.caps)
    gaussian = new_filter("gaussian", epsilon=6.0, delta=1e-5, revealed=0.0)
    with pytest.raises(UnsupportedError, match="fewer rounds or more noise"):
        gaussian.cost(MNIST, left=gaussian.caps)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"kind": "gaussian", "epsilon": math.nan, "delta": 1e-5}, "epsilon must be in"),
        ({"kind": "gaussian", "epsilon": 0.0, "delta": 1e-5}, "epsilon must be in"),
        ({"kind": "gaussian", "epsilon": 1.0, "delta": math.nan}, "delta must be in"),
        ({"kind": "gaussian", "epsilon": 1.0, "delta": None}, "delta must be given"),
        ({"kind": "pure", "epsilon": 1.0, "delta": 1e-5}, "delta 0"),
        ({"kind": "natural", "epsilon": 1.0, "delta": 1e-5}, "filter must be one of"),
        ({"kind": "gaussian", "epsilon": 1.0, "delta": 1e-5, "order": 3.0}, "order is for"),
        ({"kind": "renyi", "epsilon": 1.0, "delta": 1e-5, "order": 1.0}, "order must be in"),
        ({"kind": "renyi", "epsilon": 1.0, "delta": 1e-5, "order": math.inf}, "order must be in"),
        ({"kind": "renyi", "epsilon": 1.0, "delta": 1e-5, "revealed": 1e-7}, "revealed is for"),
        ({"kind": "gaussian", "epsilon": 1.0, "delta": 1e-5, "revealed": 1e-5}, "below delta"),
    ],
)
def test_what_is_outside_is_refused(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        new_filter(**arguments)  # type: ignore[arg-type]  # that is the point


FACTOR = F(3)
EPSILON = math.nextafter(math.log(3.0), 0.0)  # below log 3, so that its promise covers the factor 3
JOBS: list[Job] = [
    bernoulli(F(3, 4), F(1, 4)),
    bernoulli(F(3, 5), F(2, 5)),
    bernoulli(F(1, 2), F(2, 5)),
    bernoulli(F(3, 5), F(3, 16)),
    bernoulli(F(4, 25), F(1, 40)),
    bernoulli(F(9, 16), F(1, 2)),
]
REVEALS = [reveal(F(3, 20)), reveal(F(1, 50))]


@pytest.mark.parametrize(("kind", "delta"), [("gaussian", 0.15), ("gaussian", 0.3), ("renyi", 0.1), ("renyi", 0.3)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_no_analyst_passes_the_budget_of_a_filter(kind: str, delta: float, direction: str) -> None:
    """Every strategy on every branch, in exact fractions; the menu holds the jobs that break other rules."""
    budget = new_filter(kind, epsilon=EPSILON, delta=delta, **({"revealed": delta / 4} if kind == "gaussian" else {}))
    jobs = JOBS + (REVEALS if kind == "gaussian" else [])
    costs = [budget.cost(run_of(job), left=budget.caps) for job in jobs]

    def fits(path: Sequence[int]) -> bool:
        return budget.fits([sum(costs[number][i] for number in path) for i in (0, 1)], budget.caps)

    seen = [turned(job) for job in jobs] if direction == "add" else jobs
    found = best_gain(seen, FACTOR, fits, depth=3)
    assert 0 < found <= F(delta)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_no_analyst_passes_a_pure_budget(direction: str) -> None:
    budget = new_filter("pure", epsilon=math.log(3.0), delta=None)
    jobs = [bernoulli(F(3, 5), F(2, 5)), bernoulli(F(9, 16), F(7, 16)), bernoulli(F(1, 2), F(2, 5))]
    costs = [budget.cost(run_of(job), left=budget.caps)[0] for job in jobs]

    def fits(path: Sequence[int]) -> bool:
        return sum(costs[number] for number in path) <= budget.caps[0]

    seen = [turned(job) for job in jobs] if direction == "add" else jobs
    assert best_gain(seen, FACTOR, fits, depth=4) == 0


def run_of(job: Job) -> Run:
    """A job of the menu as the library takes it; doubles that are next to its fractions."""
    return DiscretePair([float(p) for p, _ in job], [float(q) for _, q in job]) * 1
