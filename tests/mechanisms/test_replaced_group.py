"""A group of records that is replaced, in Poisson samples: no pair of data sets passes the upper end."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dprounds import Gaussian, PoissonSampled, Shuffled
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.mechanisms import Run


def group(noise: float, rate: float, size: int) -> PoissonSampled:
    return PoissonSampled(Gaussian(noise), rate, relation="replace-one", group_size=size)


def density(vectors: tuple[float, ...], rate: float, noise: float, x: np.ndarray) -> np.ndarray:
    """Of the noisy sum of those vectors on a line that are drawn."""
    total = np.zeros_like(x)
    for drawn in itertools.product((0, 1), repeat=len(vectors)):
        chance = math.prod(rate if one else 1 - rate for one in drawn)
        shift = sum(one * vector for one, vector in zip(drawn, vectors, strict=True))
        total += chance * np.exp(-0.5 * ((x - shift) / noise) ** 2) / (noise * math.sqrt(2 * math.pi))
    return total


@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.3), (2.0, 0.1), (0.7, 0.6)])
def test_no_vectors_of_two_records_pass_the_upper_end(noise: float, rate: float) -> None:
    x = np.linspace(-2 - 9 * noise, 2 + 9 * noise, 4001)
    profile = group(noise, rate, 2).account.profile
    levels = (0.0, 0.2, 0.7, 1.5)
    bounds = [profile.delta(level).upper for level in levels]
    largest = np.zeros(len(levels))
    for first in itertools.product((-1.0, 0.0, 1.0), repeat=2):
        for second in itertools.product((-1.0, 0.0, 1.0), repeat=2):
            p, q = (density(vectors, rate, noise, x) for vectors in (first, second))
            excess = [np.maximum(p - math.exp(level) * q, 0.0).sum() * (x[1] - x[0]) for level in levels]
            largest = np.maximum(largest, excess)
    assert (largest <= np.array(bounds) * (1 + 1e-9)).all()
    assert largest[1] > 0.8 * bounds[1]  # and it is not far


def test_the_lower_end_is_that_of_emptied_records() -> None:
    for size in (2, 5):
        found = (group(4.0, 0.02, size) * 200).guarantee(delta=1e-6)
        emptied = (PoissonSampled(Gaussian(4.0), 0.02, relation="zero-out", group_size=size) * 200).epsilon(delta=1e-6)
        assert found.method == "bound"
        assert found.lower == pytest.approx(emptied, rel=1e-6)
        assert found.lower < found.upper


def test_one_record_and_all_records_are_what_they_were() -> None:
    assert group(2.0, 0.1, 1) == PoissonSampled(Gaussian(2.0), 0.1, relation="replace-one")
    every = group(6.0, 1.0, 3)
    assert every.epsilon(delta=1e-5) == pytest.approx(Gaussian(1.0).epsilon(delta=1e-5), rel=1e-12)
    assert group(6.0, 0.0, 3).epsilon(delta=1e-5) == 0.0


def test_more_records_cost_more_and_no_more_than_every_one_in_every_batch() -> None:
    costs = [(group(5.0, 0.05, size) * 50).epsilon(delta=1e-5) for size in (1, 2, 3, 6)]
    assert costs == sorted(costs)
    assert costs[-1] < (Gaussian(5.0 / 12) * 50).epsilon(delta=1e-5)
    orders = np.array([1.5, 4.0, 20.0])
    run: Run = group(5.0, 0.05, 3) * 50
    assert np.all(run.rdp(order=orders) >= (group(5.0, 0.05, 2) * 50).rdp(order=orders))
    assert run.epsilon(delta=1e-5) <= run.epsilon(delta=1e-5, method="optimal")


def test_a_group_that_is_too_large_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"group_size must be an integer in .*, got 101"):
        group(1.0, 0.1, 101)


def test_renyi_bounds_of_little_noise_are_those_without_sampling_where_no_other_is_known() -> None:
    run = group(1.1, 0.01, 3) * 300
    assert (
        run.epsilon(delta=1e-5)
        <= run.epsilon(delta=1e-5, method="optimal")
        < (Gaussian(1.1 / 6) * 300).epsilon(delta=1e-5)
    )


def test_a_loader_that_chooses_its_batches_is_not_sampled_again() -> None:
    for loader in (Shuffled(Gaussian(1.0), steps=10), PoissonSampled(Gaussian(1.0), 0.1)):
        with pytest.raises(UnsupportedError, match="chooses its batches itself"):
            PoissonSampled(loader, 0.1)
