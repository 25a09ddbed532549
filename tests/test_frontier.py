"""Plans by batch size: their noise, the floor below it, and the cheapest one that is near the floor."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from dprounds import (
    Gaussian,
    Guarantee,
    InfeasibleError,
    ParameterError,
    best_plan,
    frontier,
    min_noise_multiplier,
)
from dprounds.planning import FrontierRow
from dprounds.planning.frontier_rows import Compute
from dprounds.planning.loaders import LOADERS

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}


def with_noise(row: FrontierRow, factor: float, *, sampling: str, dataset_size: int) -> Any:
    run = LOADERS[sampling].run(factor * row.noise_multiplier, row.batch_size, dataset_size, row.rounds)
    return run.guarantee(delta=1e-5)


@pytest.mark.parametrize(
    ("dataset_size", "sampling", "epochs", "sizes"),
    [
        (60_000, "poisson", 60, [32, 256, 8192, 60_000]),
        (4_000, "poisson", 1, [16]),
        (4_000, "allocation", 4, [256]),
        (4_000, "fixed-size", 4, [256]),
        (4_000, "shuffled", 4, [256]),
        (4_000, "none", 4, [4_000]),
        # few rounds, whole batches, rare records: each by another way to its sums
        (4_000, "poisson", 2, [1_000, 2_000, 4_000]),
        (4_000, "allocation", 1, [16, 2_000, 4_000]),
        (4_000, "fixed-size", 2, [1_000, 4_000]),
        (1_000_000, "fixed-size", 20, [512]),
        (4_000, "shuffled", 1, [16, 4_000]),
    ],
)
def test_every_row_is_within_the_budget_and_less_noise_is_not(
    dataset_size: int, sampling: str, epochs: float, sizes: list[int]
) -> None:
    for row in frontier(dataset_size, **BUDGET, epochs=epochs, batch_sizes=sizes, sampling=sampling):
        assert row.run.epsilon(delta=1e-5) == row.epsilon <= 1.0
        less = with_noise(row, 1 - 2e-6, sampling=sampling, dataset_size=dataset_size)
        # of loaders of which only a bound is proven it is that bound which exceeds the budget
        assert (less.lower if sampling in ("poisson", "allocation", "none") else less.upper) > 1.0


@pytest.mark.parametrize("sampling", LOADERS)
def test_the_floor_is_within_the_budget_and_less_noise_is_not(sampling: str) -> None:
    found = frontier(4_000, **BUDGET, epochs=4, batch_sizes=[4_000], sampling=sampling)
    assert found.floor == found.floor_noise_multiplier / 4_000

    def guarantee(factor: float) -> Guarantee:
        return LOADERS[sampling].run(factor * found.floor_noise_multiplier, 4_000, 4_000, 1).guarantee(delta=1e-5)

    assert guarantee(1.0).upper <= 1.0 < guarantee(1 - 1e-11).lower


def test_rounds_are_the_batches_that_a_loop_makes() -> None:
    found = frontier(60_000, **BUDGET, epochs=60, batch_sizes=[256, 1024])
    assert [row.rounds for row in found] == [60 * 235, 60 * 59]
    assert [row.epochs for row in found] == [60.0, 60.0]
    lengths = {
        "epochs": (0.1, [24, 6]),  # 23.5 and 5.9
        "examples": (100_000, [390, 97]),
        "rounds": (500, [500, 500]),
    }
    for name, (length, expected) in lengths.items():
        compute = Compute.of(**{"epochs": None, "rounds": None, "examples": None, name: length})
        assert [compute.rounds_of(LOADERS["poisson"], size, 60_000) for size in (256, 1024)] == expected


def test_a_batch_size_that_makes_no_round_is_left_out() -> None:
    assert [row.batch_size for row in frontier(4_000, **BUDGET, examples=3000, batch_sizes=[128, 3001])] == [128]
    with pytest.raises(InfeasibleError, match="Not one round of 64 records fits within 63 examples"):
        frontier(4_000, **BUDGET, examples=63, batch_sizes=[64, 256])


def test_the_total_noise_and_its_excess_are_what_they_are_called() -> None:
    found = frontier(4_000, **BUDGET, epochs=30, batch_sizes=[256, 4_000])
    one = min_noise_multiplier(Gaussian, **BUDGET, tolerance=1e-10)
    assert found.floor == pytest.approx(one / 4_000, rel=1e-9)
    for row in found:
        assert row.noise_on_mean == row.noise_multiplier / row.batch_size
        assert row.total_noise == pytest.approx(row.noise_on_mean / math.sqrt(row.rounds), rel=1e-12)
        assert row.excess == pytest.approx(row.total_noise / found.floor - 1, abs=1e-12)
    assert 0 <= found[1].excess < 2e-6  # full batches are at the floor, whatever their number
    assert found[0].excess > 0.02


def test_batches_of_a_loader_that_deals_out_all_records_hold_a_share_of_them() -> None:
    (row,) = frontier(4_000, **BUDGET, epochs=2, batch_sizes=[1024], sampling="shuffled")
    assert (row.rounds, row.examples) == (8, 8_000)  # four batches of a thousand an epoch
    assert row.noise_on_mean == row.noise_multiplier / 1_000
    assert row.excess == pytest.approx(1.0, abs=1e-5)  # the root of four: shuffling is credited with nothing


def test_the_excess_falls_with_epochs_and_with_the_batch_size() -> None:
    by_epochs = [frontier(4_000, **BUDGET, epochs=e, batch_sizes=[256])[0].excess for e in (2, 8, 32)]
    assert by_epochs == sorted(by_epochs, reverse=True)
    by_size = [row.excess for row in frontier(4_000, **BUDGET, epochs=4, batch_sizes=[16, 256, 2048, 4_000])]
    assert by_size == sorted(by_size, reverse=True)
    assert min(by_size) >= 0


@pytest.mark.parametrize(("epsilon", "sizes"), [(1.0, [4, 256]), (0.1, [32]), (1000.0, [2048])])
def test_the_excess_of_a_renyi_account_is_that_of_its_least_noise(epsilon: float, sizes: list[int]) -> None:
    """Also where the best order is at a bend of the curve, as for small batches."""
    found = frontier(4_000, epsilon=epsilon, delta=1e-5, epochs=10, batch_sizes=[*sizes, 1024, 4_000])
    for row in found.rows[: len(sizes)]:
        least = min_noise_multiplier(
            lambda s, row=row: LOADERS["poisson"].run(s, row.batch_size, 4_000, row.rounds),  # type: ignore[misc]
            epsilon=epsilon,
            delta=1e-5,
            method="balle",
        )
        assert (1 + row.renyi_excess) / (1 + row.excess) == pytest.approx(least / row.noise_multiplier, rel=2e-3)


@pytest.mark.parametrize(("epsilon", "epochs"), [(0.5, 3), (1.0, 7), (3.0, 29)])
def test_the_epochs_that_bring_a_batch_size_near_the_floor(epsilon: float, epochs: int) -> None:
    found = best_plan(4_000, epsilon=epsilon, delta=1e-5, epochs=40, batch_sizes=[256])
    assert found.epochs_within == ((256, epochs),)
    before, after = (
        frontier(4_000, epsilon=epsilon, delta=1e-5, epochs=e, batch_sizes=[256])[0].excess
        for e in (epochs - 1, epochs)
    )
    assert before > 0.10 >= after


@pytest.mark.parametrize("within", [0.03, 0.1])
@pytest.mark.parametrize(
    ("dataset_size", "sampling", "epsilon"),
    [(4_000, "poisson", 1.0), (60_000, "poisson", 3.0), (4_000, "allocation", 1.0), (4_000, "fixed-size", 0.3)],
)
def test_no_fewer_epochs_bring_a_batch_size_near_the_floor(
    dataset_size: int, sampling: str, epsilon: float, within: float
) -> None:
    """Also where a single value of delta told the number of epochs, without that of one epoch less."""
    found = best_plan(
        dataset_size, epsilon=epsilon, delta=1e-5, epochs=50, min_rounds=1, within=within, sampling=sampling
    )
    for size, epochs in found.epochs_within:
        assert epochs is not None
        batches = -(-dataset_size // size)
        records = float(LOADERS[sampling].records_per_round(size, dataset_size))

        def is_near(epochs: int, size: int = size, batches: int = batches, records: float = records) -> bool:
            noise = (1 + within) * found.frontier.floor * records * math.sqrt(batches * epochs)
            return LOADERS[sampling].run(noise, size, dataset_size, batches * epochs).delta(epsilon=epsilon) <= 1e-5

        assert is_near(epochs)
        assert epochs == 1 or not is_near(epochs - 1)


def test_the_best_plan_is_the_cheapest_near_the_floor() -> None:
    found = best_plan(4_000, **BUDGET, epochs=30, batch_sizes=[128, 256, 512], habit=64)
    plan = found.plan
    assert found.is_within
    assert plan.excess <= 0.10
    assert plan.rounds >= 125
    assert plan.run.epsilon(delta=1e-5) <= 1.0
    for row in found.frontier:
        batches = -(-4_000 // row.batch_size)
        fewer = (plan.examples - 1) // row.batch_size // batches * batches  # whole epochs that are cheaper
        if fewer >= 125:
            (cheaper,) = frontier(4_000, **BUDGET, rounds=fewer, batch_sizes=[row.batch_size])
            assert cheaper.excess > 0.10
    assert found.learning_rate_factor == 30 * 63 / plan.rounds
    assert found.habit is not None
    assert found.nothing_to_gain == (found.habit.excess <= 0.10)


def test_what_is_near_the_floor_already_has_nothing_to_gain() -> None:
    found = best_plan(4_000, **BUDGET, epochs=30, batch_sizes=[512], habit=256)
    assert found.nothing_to_gain
    assert "Nothing to gain in noise" in found.sentence
    far = best_plan(4_000, epsilon=3.0, delta=1e-5, epochs=30, batch_sizes=[512], habit=16)
    assert not far.nothing_to_gain
    assert "Nothing to gain" not in far.sentence
    assert "within 10 % after 302 epochs" in far.sentence


def test_without_enough_compute_the_nearest_plan_is_named() -> None:
    found = best_plan(4_000, epsilon=3.0, delta=1e-5, epochs=8, batch_sizes=[64, 128])
    assert not found.is_within
    assert found.plan.batch_size == 128
    assert found.plan.excess == min(row.excess for row in found.frontier if row.rounds >= 125)
    assert found.sentence.startswith("No plan of this length is within 10 % of the floor. Nearest: train")


def test_no_epochs_bring_shuffled_batches_near_the_floor() -> None:
    found = best_plan(4_000, **BUDGET, epochs=30, batch_sizes=[256], sampling="shuffled")
    assert found.epochs_within == ((256, None),)
    assert not found.is_within


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epochs": None}, "Give one of epochs, rounds and examples"),
        ({"rounds": 5}, "Give one of epochs, rounds and examples"),
        ({"epochs": math.nan}, r"epochs must be in \(0, inf\)"),
        ({"epsilon": 0.0}, r"epsilon must be in \(0, inf\)"),
        ({"delta": 0.0}, r"delta must be in \(0, 1\)"),
        ({"delta": math.nan}, r"delta must be in \(0, 1\)"),
        ({"dataset_size": 0}, "dataset_size must be an integer"),
        ({"batch_sizes": [5_000]}, r"batch_sizes must be an integer in \[1, 4000\], got 5000"),
        ({"batch_sizes": []}, "batch_sizes must be a list"),
        ({"batch_sizes": 256}, "batch_sizes must be a list"),
        ({"sampling": "sorted"}, "sampling must be one of 'poisson'"),
        ({"sampling": "none", "batch_sizes": [256]}, "batch_sizes must be the whole data set, 4000"),
        ({"dataset_size": 10**308}, r"dataset_size must be an integer in \[1, 9007199254740992\]"),
        ({"epochs": None, "rounds": 1e300}, r"rounds must be an integer in \[1, 9007199254740992\]"),
        ({"epochs": None, "examples": 1e300}, r"examples must be an integer in \[1, 9007199254740992\]"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], message: str) -> None:
    given = {"dataset_size": 4_000, **BUDGET, "epochs": 10, "batch_sizes": [256], **changed}
    with pytest.raises(ParameterError, match=message) as refused:
        frontier(given.pop("dataset_size"), **given)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"min_rounds": 0}, "min_rounds must be an integer"),
        ({"within": math.nan}, r"within must be in \(0, inf\)"),
        ({"habit": 5_000}, r"habit must be an integer in \[1, 4000\]"),
        ({"habit": 64, "sampling": "none", "batch_sizes": None}, "habit must be the whole data set, 4000"),
    ],
)
def test_what_a_best_plan_refuses(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        best_plan(4_000, **{**BUDGET, "epochs": 10, "batch_sizes": [256], **changed})


def test_too_few_rounds_and_a_budget_that_needs_no_noise_are_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="No batch size makes 125 rounds within 2 epochs: the most is 32"):
        best_plan(4_000, **BUDGET, epochs=2, batch_sizes=[256])
    with pytest.raises(InfeasibleError, match=r"1e\+308 epochs make more rounds than the 2\^53 that"):
        best_plan(4_000, **BUDGET, epochs=1e308, batch_sizes=[256])
    # a record that is seen with probability delta needs no noise
    with pytest.raises(InfeasibleError, match="With batches of 1 for 1 rounds: Every noise_multiplier"):
        frontier(10**6, **BUDGET, rounds=1, batch_sizes=[1])


def test_results_cannot_be_changed() -> None:
    found = frontier(4_000, **BUDGET, epochs=1, batch_sizes=[256])
    with pytest.raises(FrozenInstanceError):
        found[0].rounds = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        found.rows = ()  # type: ignore[misc]


@pytest.mark.parametrize("epsilon", [5e-324, 1.2e-103, 1e-30])
@pytest.mark.parametrize("sampling", ["poisson", "none"])
def test_next_to_an_epsilon_of_nothing_there_is_a_plan(epsilon: float, sampling: str) -> None:
    found = best_plan(4000, epsilon=epsilon, delta=1e-5, epochs=10.0, min_rounds=1, sampling=sampling)
    assert found.plan.noise_multiplier > 0


def test_more_noise_than_is_searched_for_is_refused_in_a_sentence() -> None:
    with pytest.raises(InfeasibleError, match="No noise_multiplier up to"):
        best_plan(4000, epsilon=1.2e-103, delta=1e-5, rounds=311_703_498_331)
