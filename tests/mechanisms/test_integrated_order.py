"""No neighbours exceed the integrals that batches of fixed size are accounted by, nor what follows for delta."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dprounds import FixedSizeSampled, Gaussian, PoissonSampled
from dprounds.accounting.answers import ROUGHLY
from dprounds.mechanisms.grouped_batches import chances_in_batch
from tests.references.integrated import integrals_in_the_plane

Array = NDArray[np.float64]
ORIGIN = np.zeros(2)


def in_the_disc(random: np.random.Generator) -> Array:
    """A point of the unit disc, on its edge as often as not."""
    point = random.normal(size=2)
    return np.asarray(point / max(1.0, float(np.linalg.norm(point))))


def levels_of(rate: float, sigma: float) -> Array:
    """Levels of both signs where one round has its losses."""
    size = rate * math.exp(min(2.0 / sigma**2, 3.0))
    return size * np.array([-3.0, -1.0, -0.3, -0.05, 0.0, 0.1, 0.5, 2.0])


@pytest.mark.parametrize("seed", range(40))
def test_three_points_of_a_disc_do_not_exceed_a_poisson_sample(seed: int) -> None:
    """The record, the one that takes its place, and another one; half of them on the edge, as an acute triangle."""
    random = np.random.default_rng(seed)
    sigma, rate = 10 ** random.uniform(-0.1, 0.8), 10 ** random.uniform(-2.5, math.log10(0.9))
    points = [in_the_disc(random) for _ in range(3)]
    if seed % 2:
        angles = random.uniform(0.0, 2.0 * math.pi) + np.array([0.0, 2.2, 4.2]) + random.uniform(-0.8, 0.8, 3)
        points = [np.array([math.cos(angle), math.sin(angle)]) for angle in angles.tolist()]
    levels = levels_of(rate, sigma)
    most, _ = integrals_in_the_plane(
        np.array([1.0, 0.0]), np.array([-1.0, 0.0]), np.array([-1.0, 0.0]), rate, sigma, levels
    )
    for found in integrals_in_the_plane(points[0], points[1], points[2], rate, sigma, levels):
        assert (found <= most * (1 + 1e-9) + 1e-15).all()


@pytest.mark.parametrize("seed", range(40))
def test_an_emptied_record_does_not_exceed_the_real_attack(seed: int) -> None:
    random = np.random.default_rng(seed)
    sigma = 10 ** random.uniform(-0.1, 0.8)
    rate = random.choice([1.0, 0.3, 0.03]) / (1.0 + math.exp(2.0 / sigma**2))
    record, other = in_the_disc(random), in_the_disc(random)
    if seed % 2:
        record = record / np.linalg.norm(record)
        other = -record * random.uniform(0.7, 1.0)
    levels = levels_of(rate, sigma)
    most, _ = integrals_in_the_plane(np.array([1.0, 0.0]), ORIGIN, np.array([-1.0, 0.0]), rate, sigma, levels)
    for found in integrals_in_the_plane(record, ORIGIN, other, rate, sigma, levels):
        assert (found <= most * (1 + 1e-9) + 1e-15).all()


def test_an_emptied_record_that_is_nearly_always_seen_exceeds_it() -> None:
    """The condition on the rate is needed: at noise 1 and rate 0.95 other neighbours have a larger integral."""
    step = FixedSizeSampled(Gaussian(1.0), 95, 100, relation="zero-out")
    assert step.integrated_law("remove") is None
    levels = np.linspace(-2.0, 2.0, 9)
    most, _ = integrals_in_the_plane(np.array([1.0, 0.0]), ORIGIN, np.array([-1.0, 0.0]), 0.95, 1.0, levels)
    other = [
        integrals_in_the_plane(np.array([1.0, 0.0]), ORIGIN, np.array([-c, 0.0]), 0.95, 1.0, levels)[0]
        for c in (0.0, 0.25, 0.5)
    ]
    assert any((found > most * 1.001).any() for found in other)


@pytest.mark.parametrize(("sigma", "b", "n"), [(2.2, 256, 60_000), (1.0, 10, 1000), (5.0, 400, 1000)])
def test_the_condition_on_the_rate_is_asked_for(sigma: float, b: int, n: int) -> None:
    step = FixedSizeSampled(Gaussian(sigma), b, n, relation="zero-out")
    holds = b / n * (1.0 + math.exp(2.0 / sigma**2)) <= 1.0
    assert (step.integrated_law("remove") is not None) == holds


@pytest.mark.parametrize(("rate", "sigma"), [(0.5, 2.0), (0.1, 2.0), (0.25, 4.0), (0.02, 1.6)])
def test_two_adaptive_rounds_stay_below_delta(rate: float, sigma: float) -> None:
    """All others are at -1 or at 1 in the second round, whichever tells more after the first.

    On the line a round has the losses log w, or -log w where the others point the other way.
    """
    n = 100
    step = FixedSizeSampled(Gaussian(sigma), round(rate * n), n)
    bound = (step * 2).account.integrals
    assert bound is not None
    x = np.linspace(-9.0 * sigma, 2.0 + 9.0 * sigma, 4001)
    width = x[1] - x[0]
    q = np.exp(-0.5 * (x / sigma) ** 2) / (sigma * math.sqrt(2.0 * math.pi)) * width
    w = 1.0 - rate + rate * np.exp((2.0 * x - 2.0) / sigma**2)
    for epsilon in (0.0, 0.2, 0.5, 1.0, 2.0):
        attack = 0.0
        for first, ratio in ((q * w, w), (q, 1.0 / w)):
            left = epsilon - np.log(ratio)
            second = np.zeros_like(left)
            for start in range(0, left.size, 500):
                level = np.exp(left[start : start + 500])[:, None]
                forward = np.maximum(w - level, 0.0) @ q
                backward = np.maximum(1.0 - level * w, 0.0) @ q
                second[start : start + 500] = np.maximum(forward, backward)
            attack = max(attack, float(first @ second))
        # the sums over a grid err by less than a millionth
        assert attack <= bound.deltas(np.array([epsilon]))[0] + 1e-6
        assert attack <= (step * 2).delta(epsilon=epsilon) + 1e-6


def test_renyi_bounds_are_those_of_a_poisson_sample_of_half_the_noise() -> None:
    step = FixedSizeSampled(Gaussian(2.2), 256, 60_000)
    orders = np.array([1.1, 2.0, 8.0, 64.0, 1e4])
    np.testing.assert_array_equal(step.rdp(orders), PoissonSampled(Gaussian(1.1), step.rate).rdp(orders))


def test_rounds_of_other_loaders_join_with_laws_of_their_own() -> None:
    fixed = FixedSizeSampled(Gaussian(2.2), 256, 60_000)
    alone = (fixed * 5_000).epsilon(delta=1e-5)
    both = (fixed * 5_000 + Gaussian(50.0) * 3).guarantee(delta=1e-5)
    assert alone < both.upper < alone + (Gaussian(50.0) * 3).epsilon(delta=1e-6)
    assert both.lower < both.upper


def test_a_row_of_deltas_falls_and_is_about_what_each_epsilon_is_told_by_itself() -> None:
    """Far apart, down to where delta is below the doubles: each has places of its own."""
    run = FixedSizeSampled(Gaussian(1.658), 2622, 15_017) * 103_262
    epsilons = np.linspace(0.0, 5806.0, 9)
    row = np.asarray(run.profile(epsilons))
    assert (np.diff(row) <= 0).all()
    for epsilon, delta in zip(epsilons[-3:].tolist(), row[-3:].tolist(), strict=True):
        assert math.log(delta) <= 0.95 * math.log(run.delta(epsilon=epsilon))


@pytest.mark.parametrize("rounds", [100, 200])
def test_some_hundred_rounds_cost_no_more_than_their_profile_proves(rounds: int) -> None:
    run = FixedSizeSampled(Gaussian(1.5), batch_size=256, dataset_size=60_000) * rounds
    # a lattice may cost this part more where an attack tells the lower end
    assert run.epsilon(delta=1e-5) <= run.account.profile.epsilon(1e-5).upper * (1.0 + ROUGHLY)


def test_several_records_do_not_exceed_a_mixture_of_poisson_samples() -> None:
    """Two of nine records differ, in batches of two: the sums of all batches, in the plane."""
    random = np.random.default_rng(5)
    grid = np.linspace(-8.0, 8.0, 160)
    for trial in range(6):
        sigma, group = (6.0, 2) if trial % 2 else (1.5, 2)
        relation = "zero-out" if trial % 2 else "replace-one"
        some, weights = 15 / 36, {1: 14 / 15, 2: 1 / 15}  # of 36 batches 14 hold one of the two, and one holds both
        rest = [in_the_disc(random) for _ in range(7)] if trial > 1 else [np.array([-1.0, 0.0])] * 7
        here = [in_the_disc(random) for _ in range(group)] if trial > 1 else [np.array([1.0, 0.0])] * group
        there = [ORIGIN if relation == "zero-out" else -one for one in here]
        x, y = sigma * grid[:, None], sigma * grid[None, :]

        def density(records: list[Array], x: Array = x, y: Array = y, sigma: float = sigma) -> Array:
            """Of the noisy sum of a batch, times the area of a cell."""
            sums = [one + other for one, other in itertools.combinations(records, 2)]
            kernels = [np.exp(-0.5 * ((x - s[0]) ** 2 + (y - s[1]) ** 2) / sigma**2) for s in sums]
            return np.asarray(sum(kernels) / len(sums) * (grid[1] - grid[0]) ** 2 / math.tau)

        levels = levels_of(some, sigma / group)
        second = ORIGIN if relation == "zero-out" else np.array([-1.0, 0.0])
        most = sum(
            weight
            * integrals_in_the_plane(np.array([1.0, 0.0]), second, np.array([-1.0, 0.0]), some, sigma / number, levels)[
                0
            ]
            for number, weight in weights.items()
        )
        p, q = density([*here, *rest]), density([*there, *rest])
        for first, other in ((p, q), (q, p)):
            loss = np.log(first / other)
            found = [
                float((first * (np.maximum(loss - z, 0.0) + np.expm1(-np.maximum(loss - z, 0.0)))).sum())
                for z in levels
            ]
            assert (np.array(found) <= most * (1 + 1e-6) + 1e-12).all()
        step = FixedSizeSampled(Gaussian(sigma), 2, 9, relation, group_size=group)
        for order in (1.5, 3.0):
            assert math.log(float((p**order * q ** (1.0 - order)).sum())) / (order - 1.0) <= step.rdp(order) + 1e-9


def test_the_law_of_a_group_is_that_mixture() -> None:
    t = np.array([0.5, 2.0, 6.0])
    step = FixedSizeSampled(Gaussian(4.0), 20, 900, group_size=3)
    law = step.integrated_law("remove")
    chances = chances_in_batch(20, 900, 3)
    assert law is not None
    moments = sum(
        float(chances[j] / (1 - chances[0])) * np.exp(PoissonSampled(Gaussian(2.0 / j), step.rate).law().log_moment(t))
        for j in (1, 2, 3)
    )
    np.testing.assert_allclose(law.log_moment(t), np.log(moments), rtol=1e-9)
    np.testing.assert_allclose(step.rdp(t + 1.0), np.log(moments) / t, rtol=1e-9)


@pytest.mark.parametrize(("sigma", "same", "proven"), [(20.0, True, True), (2.0, False, True), (0.6, False, False)])
def test_an_emptied_group_takes_what_dominates_it_where_the_condition_fails(
    sigma: float, same: bool, proven: bool
) -> None:
    """At noise 2 the condition holds for one record in a batch, and not for all of eight."""
    step = FixedSizeSampled(Gaussian(sigma), 20, 900, relation="zero-out", group_size=8)
    laws = [step.integrated_law(direction) for direction in step.directions]
    assert (laws[0] is not None) == proven
    assert (laws[0] is laws[1]) == (same or not proven)
    if proven:
        found = (step * 300).guarantee(delta=1e-6)
        assert 0 < found.lower < found.upper
