"""The loader draws what `RandomAllocation` accounts for: uniform sets of steps, independent from record to record."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dprounds import Gaussian, RandomAllocation
from dprounds.errors import ParameterError
from dprounds.integrations.allocation import AllocatedBatches, allocate


def steps_of(batches: list[list[int]], size: int) -> list[tuple[int, ...]]:
    found: list[list[int]] = [[] for _ in range(size)]
    for step, batch in enumerate(batches):
        for number in batch:
            found[number].append(step)
    return [tuple(one) for one in found]


@pytest.mark.parametrize("participations", [1, 2, 4, 5])
def test_every_record_joins_as_many_different_steps(participations: int) -> None:
    batches = list(AllocatedBatches(101, steps=5, participations=participations, seed=3))
    assert len(batches) == 5
    for steps in steps_of(batches, 101):
        assert len(steps) == len(set(steps)) == participations


@pytest.mark.parametrize(("steps", "participations"), [(7, 1), (5, 2), (4, 3)])
def test_all_sets_of_steps_are_equally_likely(steps: int, participations: int) -> None:
    size = 60_000
    found = steps_of(list(AllocatedBatches(size, steps=steps, participations=participations, seed=5)), size)
    sets = list(itertools.combinations(range(steps), participations))
    counts = np.array([found.count(one) for one in sets])
    assert counts.sum() == size
    expected = size / len(sets)
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    freedom = len(sets) - 1
    assert chi_square <= freedom + 5 * math.sqrt(2 * freedom)  # five deviations
    assert chi_square > 0  # slices of equal size, as a shuffled loader makes them, would have 0


def test_records_are_independent_of_each_other_and_of_the_epoch_before() -> None:
    size, steps, passes = 40, 4, 3000
    batches = AllocatedBatches(size, steps=steps, seed=11)
    joined = np.array([[steps_of(list(batches), size)[number][0] for number in (0, 1, 39)] for _ in range(passes)])
    pairs = [(joined[:, 0], joined[:, 1]), (joined[:, 0], joined[:, 2]), (joined[1:, 0], joined[:-1, 0])]
    for one, other in pairs:
        together = float((one == other).mean())
        assert abs(together - 1 / steps) <= 5 * math.sqrt(1 / steps * (1 - 1 / steps) / one.size)


def test_sizes_of_steps_vary_as_those_of_independent_records() -> None:
    sizes = np.concatenate([[len(batch) for batch in AllocatedBatches(1000, steps=10, seed=s)] for s in range(200)])
    variance = 1000 * 0.1 * 0.9
    assert sizes.mean() == pytest.approx(100.0)
    assert abs(sizes.var() / variance - 1) <= 5 * math.sqrt(2 / sizes.size)


def test_each_pass_is_a_new_allocation_and_repeats_are_the_same_one() -> None:
    batches = AllocatedBatches(50, steps=5, repeats=2, seed=1)
    passes = [list(batches) for _ in range(4)]
    assert passes[0] == passes[1] != passes[2] == passes[3]
    passes[2][0].clear()  # what a caller does to a batch
    assert list(AllocatedBatches(50, steps=5, seed=2)) != list(AllocatedBatches(50, steps=5, seed=3))
    assert list(AllocatedBatches(50, steps=5)) != list(AllocatedBatches(50, steps=5))  # one in 5^50


def test_a_loader_iterates_it_as_pytorch_does() -> None:
    """A batch sampler has a length, and each iteration of it gives lists of plain integers."""
    batches = AllocatedBatches(3, steps=10, seed=0)
    assert len(batches) == 10
    for _ in range(2):
        lists = list(iter(batches))
        assert len(lists) == 10
        assert any(not one for one in lists)  # empty steps stay
        assert all(type(number) is int for one in lists for number in one)


def test_it_is_accounted_as_it_draws() -> None:
    batches = AllocatedBatches(1000, steps=20, participations=2, repeats=3)
    expected = RandomAllocation(Gaussian(1.5), steps=20, participations=2, repeats=3)
    assert batches.epoch(noise_multiplier=1.5) == expected
    assert batches.epoch(noise_multiplier=1.5, relation="zero-out").relation == "zero-out"
    assert batches.expected_batch_size == 100.0


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"dataset_size": 0, "steps": 1}, "dataset_size"),
        ({"dataset_size": 5, "steps": 0}, "steps"),
        ({"dataset_size": 5, "steps": 3, "participations": 4}, "participations"),
        ({"dataset_size": 5, "steps": 3, "participations": math.nan}, "participations"),
        ({"dataset_size": 5, "steps": 3, "repeats": 0}, "repeats"),
    ],
)
def test_what_is_outside_is_refused(given: dict[str, int], argument: str) -> None:
    with pytest.raises(ParameterError, match=argument):
        AllocatedBatches(**given)
    if argument != "repeats":
        with pytest.raises(ParameterError, match=argument):
            allocate(**given, generator=np.random.default_rng())
