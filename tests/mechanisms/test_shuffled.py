"""Shuffled batches: both ends of the bracket, against real neighbours and simulated attacks."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dprounds import Gaussian, Laplace, ParameterError, PoissonSampled, RandomAllocation, Shuffled, UnsupportedError

Array = NDArray[np.float64]


@pytest.mark.parametrize(
    ("relation", "epochs", "lower", "upper"),
    [
        ("zero-out", 1, 2.98079, 3.92125),
        ("zero-out", 10, 5.21365, 15.7827),
        ("zero-out", 60, 10.8752, 54.0458),
        ("replace-one", 1, 3.47155, 8.89524),
        ("replace-one", 10, 6.31573, 40.3045),
        ("replace-one", 60, 14.19968, 158.366),
    ],
)
def test_both_ends_meet_what_is_known(relation: str, epochs: int, lower: float, upper: float) -> None:
    found = (Shuffled(Gaussian(1.1), 234, relation=relation) * epochs).guarantee(delta=1e-5)
    assert (found.method, found.relation, found.sampling) == ("bound", relation, "shuffled")
    assert upper - 2e-4 * upper <= found.upper <= upper + 2e-4 * upper
    # the attack by the largest sum, and by all sums: a convolution on a fine grid gives these, rounded up
    assert lower * (1 - 1e-4) <= found.lower <= lower


def test_the_upper_end_is_that_of_noise_without_sampling() -> None:
    for relation, noise in (("zero-out", 2.0), ("replace-one", 1.0)):
        run = Shuffled(Gaussian(2.0), 50, relation=relation) * 7
        assert run.epsilon(delta=1e-6) == (Gaussian(noise) * 7).epsilon(delta=1e-6)
        assert run.rdp(5.0) == (Gaussian(noise) * 7).rdp(5.0)
        whole = (Shuffled(Gaussian(2.0), 1, relation=relation) * 7).guarantee(delta=1e-6)
        assert whole.method == "exact"  # an epoch is one batch


def test_allocation_of_the_same_batches_is_named() -> None:
    epoch = Shuffled(Gaussian(1.1), 234)
    assert epoch.allocated == RandomAllocation(Gaussian(1.1), 234, relation="zero-out")
    assert (epoch.allocated * 10).epsilon(delta=1e-5) < 0.2 * (epoch * 10).guarantee(delta=1e-5).lower


@pytest.mark.parametrize(("epochs", "epsilon"), [(1, 0.27167), (10, 0.88054), (60, 2.34052)])
def test_what_allocation_of_the_same_batches_costs(epochs: int, epsilon: float) -> None:
    found = (Shuffled(Gaussian(1.1), 234).allocated * epochs).guarantee(delta=1e-5)
    assert found.method == "exact"
    assert found.epsilon == pytest.approx(epsilon, abs=5e-6)


def densities(records: tuple[int, ...], sigma: float, x: Array) -> Array:
    """The density of both noisy sums of two shuffled batches of two records each, on a grid."""
    total = np.zeros((x.size, x.size))
    orders = list(itertools.combinations(range(4), 2))
    for first in orders:
        sums = sum(records[i] for i in first), sum(records[i] for i in range(4) if i not in first)
        one, two = (np.exp(-0.5 * ((x - s) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi)) for s in sums)
        total += np.outer(one, two) / len(orders)
    return total


@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
def test_no_pair_of_small_data_sets_passes_the_upper_end(relation: str) -> None:
    sigma = 1.5
    epoch = Shuffled(Gaussian(sigma), 2, relation=relation)
    x = np.linspace(-2.0 - 7.0 * sigma, 2.0 + 7.0 * sigma, 301)
    area = (x[1] - x[0]) ** 2
    firsts = [(1, 0), (0, 1)] if relation == "zero-out" else [(1, -1), (-1, 1), (1, 0), (0, 1)]
    for epsilon in (0.0, 0.5, 1.5):
        upper, largest = epoch.delta(epsilon=epsilon), 0.0
        for rest in itertools.combinations_with_replacement((-1, 0, 1), 3):
            for a, b in firsts:
                p, q = densities((a, *rest), sigma, x), densities((b, *rest), sigma, x)
                largest = max(largest, float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) * area)
        assert largest <= upper + 1e-3  # a sum over a grid stands for the integral
        if epsilon and largest > 1e-3:
            lower = epoch.guarantee(delta=largest + 1e-3).lower
            assert lower <= epsilon + 1e-2


@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
def test_the_lower_end_is_reached_by_a_simulated_attack(relation: str) -> None:
    """Monte Carlo at delta = 1e-2: one sum of t is 2 higher with the record, against 1 or 0 without it."""
    sigma, steps, epochs, samples = 1.5, 20, 3, 100_000
    random = np.random.default_rng(8)
    lower = (Shuffled(Gaussian(sigma), steps, relation=relation) * epochs).guarantee(delta=1e-2).lower
    x = sigma * random.standard_normal((samples, epochs, steps))
    x[..., 0] += 2.0  # all steps are alike
    ratios = [np.exp((2 * move * x - move**2) / (2 * sigma**2)).mean(axis=2) for move in (2.0, 1.0)]
    losses = np.log(ratios[0]).sum(axis=1) - (np.log(ratios[1]).sum(axis=1) if relation == "zero-out" else 0.0)
    gains = np.maximum(-np.expm1(lower - losses), 0.0)
    assert gains.mean() >= 1e-2 - 4.0 * gains.std() / math.sqrt(samples)  # all sums tell no less than the largest


def test_what_cannot_be_is_refused_in_one_line() -> None:
    with pytest.raises(ParameterError, match=r"steps must be an integer in \[1, "):
        Shuffled(Gaussian(1.0), 0)
    with pytest.raises(ParameterError, match="relation must be one of 'zero-out', 'replace-one'"):
        Shuffled(Gaussian(1.0), 10, relation="add-remove")
    with pytest.raises(UnsupportedError, match="is not known here: use a Gaussian"):
        Shuffled(Laplace(1.0), 10)
    with pytest.raises(UnsupportedError, match="by zero-out, the second by add-remove"):
        Shuffled(Gaussian(1.0), 10) + PoissonSampled(Gaussian(1.0), 0.1)


def test_the_largest_noise_of_doubles_is_answered() -> None:
    assert (Shuffled(Gaussian(1.7e308), 1000) * 2).guarantee(delta=1e-7).epsilon == 0.0
