"""The loop helper: it stops before the round that would exceed the budget, whatever the body records."""

from __future__ import annotations

from typing import Any

import pytest

from dprounds import Accountant, Gaussian, InfeasibleError, Laplace, ParameterError, PoissonSampled, max_rounds
from dprounds.integrations import training
from dprounds.integrations.training import while_affordable

BUDGET: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5}
STEP = Gaussian(20.0)
MANY = 2_000  # more batches than any budget here holds


def is_spent(accountant: Accountant, step: Gaussian | PoissonSampled = STEP) -> bool:
    return accountant.epsilon(delta=1e-5) <= 3.0 and accountant.would_exceed(step, 3.0, 1e-5)


def test_the_loop_makes_as_many_rounds_as_the_budget_holds() -> None:
    accountant = Accountant()
    for _ in while_affordable(range(MANY), accountant, STEP, **BUDGET):
        accountant.record(STEP)
    assert accountant.run.rounds == max_rounds(STEP, **BUDGET)
    assert is_spent(accountant)


def test_it_goes_on_from_what_was_spent_before() -> None:
    accountant = Accountant()
    accountant.record(PoissonSampled(Gaussian(1.0), 0.01), rounds=500)
    for _ in while_affordable(range(MANY), accountant, STEP, **BUDGET):
        accountant.record(STEP)
    assert accountant.run.rounds > 500
    assert is_spent(accountant)


def test_other_releases_in_the_body_are_seen_before_the_next_batch() -> None:
    accountant = Accountant()
    for batch in while_affordable(range(MANY), accountant, STEP, **BUDGET):
        accountant.record(STEP)
        if batch % 50 == 0:
            accountant.record(Laplace(5.0))
    assert dict(accountant.run.parts)[STEP] < max_rounds(STEP, **BUDGET)
    assert is_spent(accountant)


def test_batches_that_record_nothing_cost_nothing() -> None:
    accountant = Accountant()
    for batch in while_affordable(range(MANY), accountant, STEP, **BUDGET):
        if batch % 3 == 0:
            accountant.record(STEP)
    assert accountant.run.rounds == max_rounds(STEP, **BUDGET)


def test_a_round_may_release_several_things() -> None:
    accountant, step = Accountant(), Gaussian(20.0) + Laplace(50.0) * 2
    for _ in while_affordable(range(MANY), accountant, step, **BUDGET):
        accountant.record(step)
    assert accountant.run == step * max_rounds(step, **BUDGET)


def test_it_ends_with_the_batches() -> None:
    accountant = Accountant()
    assert list(while_affordable("abc", accountant, STEP, **BUDGET)) == ["a", "b", "c"]


def test_no_batch_is_drawn_that_is_not_yielded() -> None:
    drawn = iter(range(10**6))
    accountant = Accountant()
    for _ in while_affordable(drawn, accountant, STEP, **BUDGET):
        accountant.record(STEP)
    assert next(drawn) == accountant.run.rounds


def test_it_plans_once_for_a_loop_of_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []

    def noted(*args: Any, **options: Any) -> int:
        plans.append(max_rounds(*args, **options))
        return plans[-1]

    monkeypatch.setattr(training, "max_rounds", noted)
    accountant = Accountant()
    for _ in while_affordable(range(MANY), accountant, STEP, **BUDGET):
        accountant.record(STEP)
    assert plans == [accountant.run.rounds, 0]  # at first, and when that was used up


def test_a_body_that_records_something_new_each_time_is_not_planned_again_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = []

    def noted(*args: Any, **options: Any) -> int:
        plans.append(max_rounds(*args, **options))
        return plans[-1]

    monkeypatch.setattr(training, "max_rounds", noted)
    accountant = Accountant()
    for batch in while_affordable(range(MANY), accountant, STEP, **BUDGET):
        accountant.record(STEP)
        accountant.record(Gaussian(20.0 + batch), rounds=20)
    assert len(accountant.run.parts) > 8
    assert len(plans) == 1  # a plan at first, and then a check of the next round
    assert accountant.would_exceed(STEP, 3.0, 1e-5)


def test_a_plan_that_is_used_up_is_followed_by_a_whole_one() -> None:
    accountant = Accountant()
    accountant.record(Laplace(50.0))
    accountant.record(Gaussian(30.0))
    spent = accountant.run
    assert training.rounds_left(spent, STEP, **BUDGET) == 1
    assert training.rounds_left(spent, STEP, **BUDGET, again=True) == max_rounds(STEP, **BUDGET, spent=spent) > 1
    assert training.rounds_left(spent, Gaussian(2000.0), **BUDGET) == training.ROUNDS_AHEAD
    assert training.rounds_left(spent + Gaussian(0.5), STEP, **BUDGET) == 0


def test_nothing_is_affordable_after_the_budget_is_spent() -> None:
    accountant = Accountant()
    accountant.record(Gaussian(0.1))
    assert list(while_affordable("abc", accountant, STEP, **BUDGET)) == []


@pytest.mark.parametrize(
    "bad", [{"epsilon": float("nan")}, {"epsilon": -1.0}, {"delta": -1e-9}, {"delta": float("nan")}]
)
def test_bad_budgets_are_refused_at_the_call(bad: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        while_affordable("abc", Accountant(), STEP, **{**BUDGET, **bad})


def test_a_budget_of_delta_zero_is_kept_too() -> None:
    accountant, pure = Accountant(), Laplace(2.0)
    for _ in while_affordable(range(100), accountant, pure, epsilon=5.0, delta=0.0):
        accountant.record(pure)
    assert accountant.run == pure * 10
    assert list(while_affordable("abc", Accountant(), STEP, epsilon=5.0, delta=0.0)) == []  # no Gaussian is pure


def test_a_step_that_releases_nothing_is_refused_at_the_call() -> None:
    with pytest.raises(InfeasibleError):
        while_affordable("abc", Accountant(), PoissonSampled(Gaussian(1.0), 0.0), **BUDGET)
