"""A Gaussian summary bounds the profile at every epsilon, in both directions, and is nearly the least that does."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from dprounds import (
    ZCDP,
    ApproximateDP,
    DiscretePair,
    Gaussian,
    Laplace,
    ParameterError,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    RdpCurve,
)
from dprounds.accounting import gaussian_summary
from dprounds.accounting.gaussian_summary import Point, is_certified, least_distance
from dprounds.mechanisms import Run
from tests.references import gaussian_summary as reference
from tests.references import profile

MNIST = PoissonSampled(Gaussian(1.1), 256 / 60_000)


def test_the_training_run_has_the_distance_that_was_computed_independently() -> None:
    """A certificate and a lower bound of it, from a trapezoid sum that is not ours, are 0.590667 and 0.590665."""
    summary = (MNIST * 14_062).gaussian(delta=1e-9)
    assert 0.590665 <= summary.mu <= 0.590667
    assert summary.delta == 1e-9


@pytest.mark.parametrize(
    ("rounds", "delta", "distance"), [(14_062, 1e-7, 0.586397), (14_062, 1e-8, 0.58863), (14_062, 1e-10, 0.59257)]
)
def test_less_revealed_is_a_larger_distance(rounds: int, delta: float, distance: float) -> None:
    assert (MNIST * rounds).gaussian(delta=delta).mu == pytest.approx(distance, abs=1e-5)


@pytest.mark.parametrize("delta", [0.0, 1e-9, 0.5])
def test_gaussian_noise_is_its_own_summary_and_reveals_nothing(delta: float) -> None:
    summary = (Gaussian(20.0) * 300 + Gaussian(10.0) * 25).gaussian(delta=delta)
    assert 1.0 <= summary.mu <= 1.0 + 1e-14
    assert summary.delta == 0.0


@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_nothing_costs_nothing(delta: float) -> None:
    assert Run().gaussian(delta=delta).mu == 0.0
    assert (PureDP(0.0) * 5).gaussian(delta=delta).mu == 0.0


def test_what_is_seen_less_often_than_delta_costs_nothing() -> None:
    assert (PoissonSampled(Gaussian(1.0), 1e-10) * 5).gaussian(delta=1e-9).mu == 0.0


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 0.5, 1.0, 3.0, 8.0])
def test_a_pure_mechanism_has_the_distance_of_its_kink(epsilon: float) -> None:
    mu = (PureDP(epsilon) * 1).gaussian(delta=0.0).mu
    assert 0 <= mu / reference.pure_distance(epsilon) - 1 <= 1e-5


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-9), (1.0, 1e-4), (2.0, 0.2)])
def test_an_approximate_mechanism_has_the_same_distance_once_its_delta_is_revealed(
    epsilon: float, delta: float
) -> None:
    run = ApproximateDP(epsilon, delta) * 1
    assert 0 <= run.gaussian(delta=delta).mu / reference.pure_distance(epsilon) - 1 <= 1e-5
    assert run.gaussian(delta=delta * 0.999).mu == math.inf


LEVELS = [*np.linspace(0.0, 4.0, 161).tolist(), *np.random.default_rng(3).uniform(0.0, 6.0, 60).tolist()]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("epsilon", "rounds"), [(0.5, 1), (0.5, 4), (0.2, 25)])
def test_randomized_response_is_below_its_summary_at_every_level(epsilon: float, rounds: int, delta: float) -> None:
    summary = (RandomizedResponse(epsilon) * rounds).gaussian(delta=delta)
    truth = [profile.randomized_response(epsilon, rounds, level) for level in LEVELS]
    for level, value in zip(LEVELS, truth, strict=True):
        assert value <= reference.bound(summary.mu, summary.delta, level)
    less = summary.mu * (1.0 - 1e-4)
    assert any(value > reference.bound(less, delta, level) for level, value in zip(LEVELS, truth, strict=True))


def test_both_directions_and_negative_levels_are_below_the_summary() -> None:
    """Two rounds of a pair whose two directions differ, from the definition."""
    p, q = [0.7, 0.2, 0.1], [0.25, 0.25, 0.5]
    summary = (DiscretePair(p, q) * 2).gaussian(delta=0.0)
    with mp.workdps(60):
        both = [[mp.mpf(a) * mp.mpf(b) for a, b in itertools.product(law, law)] for law in (p, q)]
        for level in [-level for level in LEVELS] + LEVELS:
            for one, other in (both, both[::-1]):
                assert reference.discrete(one, other, level) <= reference.bound(summary.mu, 0.0, level)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_one_sampled_round_is_below_its_summary(direction: str) -> None:
    summary = (PoissonSampled(Gaussian(1.0), 0.1) * 1).gaussian(delta=1e-5)
    for level in np.linspace(0.0, 3.0, 31).tolist():
        truth = profile.sampled_gaussian_once(1.0, 0.1, level, direction)
        assert truth <= reference.bound(summary.mu, summary.delta, level)


def test_laplace_is_below_its_summary() -> None:
    summary = (Laplace(1.0) * 1).gaussian(delta=0.0)
    for level in np.linspace(0.0, 1.0, 101).tolist():
        assert profile.laplace(1.0, level) <= reference.bound(summary.mu, 0.0, level)


@pytest.mark.parametrize("run", [ZCDP(0.02) * 3, RdpCurve([2.0, 8.0, 32.0], [0.1, 0.4, 1.6]) * 1])
def test_runs_without_a_moment_function_are_bounded_by_their_orders(run: Run) -> None:
    summary = run.gaussian(delta=1e-6)
    assert 0 < summary.mu < math.inf
    for level in (0.0, 0.3, 1.0, 2.0):
        assert run.delta(epsilon=level) <= reference.bound(summary.mu, summary.delta, level)
    assert run.gaussian(delta=0.0).mu == math.inf


def test_no_distance_is_claimed_where_none_is_proven() -> None:
    assert (MNIST * 10).gaussian(delta=0.0).mu == math.inf
    assert (PoissonSampled(Gaussian(0.01), 0.5) * 1000).gaussian(delta=1e-9).mu == math.inf
    assert least_distance(1e-9, 1.0, np.ones_like) == math.inf


@pytest.mark.parametrize("delta", [math.nan, -1e-9, 1.0, "x", None])
def test_a_delta_outside_its_range_is_refused(delta: float) -> None:
    with pytest.raises(ParameterError, match="delta must be"):
        (MNIST * 10).gaussian(delta=delta)


def normal(mu: float, epsilon: float) -> float:
    return float(reference.bound(mu, 0.0, epsilon))


def test_a_bound_that_is_only_met_where_two_tangents_cross_is_refused() -> None:
    """The chord is below the tangents at their crossing, and above the normal laws at its first end."""
    first, width = normal(1.0, 0.0) + 0.001, math.log(1.01)
    points = [Point(0.0, first), Point(width, first - 0.01), Point(60.0, 0.0)]
    assert not is_certified(1.0, 0.0, points)


def test_a_certificate_begins_at_zero_and_ends_where_delta_is_met() -> None:
    inner = np.linspace(0.0, 4.0, 801).tolist()
    points = [*(Point(level, normal(0.5, level)) for level in inner), Point(4.001, 1e-9)]
    assert is_certified(0.502, 1e-9, points)
    assert not is_certified(0.498, 1e-9, points)
    assert not is_certified(0.502, 1e-9, points[1:])
    assert not is_certified(0.502, 1e-9, points[:300])
    assert not is_certified(0.502, 1e-9, [points[0], *points[2:], points[1]])


def test_a_line_is_never_above_its_exact_value() -> None:
    dice = np.random.default_rng(11)
    tight = 0
    for _ in range(1000):
        mu = float(10 ** dice.uniform(-6, 1.2))
        threshold, level = float(dice.uniform(-3, 25)), float(dice.uniform(0, 12))
        delta = float(dice.choice([0.0, 1e-9, 0.3, 0.7]))
        found = gaussian_summary._line(threshold, mu, delta, level)
        exact = reference.line(threshold, mu, delta, level)
        assert found <= exact
        tight += exact - found <= 1e-13 * (1 + abs(exact))
    assert tight > 600
