"""Releases whose moment function does not fall: the virtual Gaussian, and the brackets that it leaves."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from dprounds.accounting.bracket import Bracket
from dprounds.mechanisms import DiscreteGaussian, Gaussian, Laplace, PoissonSampled, RandomizedResponse, Run
from tests.accounting.test_profile import assert_tight
from tests.accounting.ways import by_line
from tests.references import gaussian, profile


def delta(run: Run, epsilon: float, most_nodes: int = 2**14) -> Bracket:
    """By a line with a virtual Gaussian, also where the losses lie on a lattice of their own."""
    one = by_line(run, "remove", on_own_lattice=False)
    lower, upper = one.deltas(np.array([epsilon]), most_nodes=most_nodes)
    return Bracket(float(lower[0]), float(upper[0]))


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.31, 1.55, 4.55])
def test_randomized_response_agrees_with_enumeration_between_its_atoms(epsilon: float) -> None:
    truth = profile.randomized_response(0.1, 101, epsilon)
    assert_tight(delta(RandomizedResponse(0.1) * 101, epsilon), truth, 1e-9)


@pytest.mark.parametrize("atom", [1, 15, 61])
def test_at_an_atom_the_bracket_is_as_wide_as_the_virtual_gaussian(atom: int) -> None:
    truth = profile.randomized_response(0.1, 101, atom * 0.1)
    widths = []
    for most_nodes in (2**10, 2**14):
        found = delta(RandomizedResponse(0.1) * 101, atom * 0.1, most_nodes)
        assert_tight(found, truth, 0.05)
        widths.append(found.upper - found.lower)
    # Beside an atom the profile has a kink, which smoothing cuts by its deviation: one over the nodes.
    assert 8 < widths[0] / widths[1] < 32


@pytest.mark.parametrize("local", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("failure", [1e-2, 1e-6])
def test_one_round_of_randomized_response(local: float, failure: float) -> None:
    with mp.workdps(30):
        truth = mp.log(mp.exp(local) - mp.mpf(failure) * (mp.exp(local) + 1))
    found = by_line(RandomizedResponse(local) * 1, on_own_lattice=False).epsilon(failure)
    assert_tight(found, truth, 1e-9)


@pytest.mark.parametrize("scale", [0.5, 1.0, 10.0])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.9])
def test_one_and_two_rounds_of_laplace(scale: float, share: float) -> None:
    found = delta(Laplace(scale) * 1, share / scale)
    assert_tight(found, profile.laplace(scale, share / scale), 1e-6)
    found = delta(Laplace(scale) * 2, 2 * share / scale)
    assert_tight(found, profile.laplace_twice(scale, 2 * share / scale), 1e-5)


def test_two_rounds_of_laplace_at_their_atom() -> None:
    # The largest loss of one round and the least of the other make zero, with positive probability.
    assert_tight(delta(Laplace(1.0) * 2, 0.0), profile.laplace_twice(1.0, 0.0), 1e-3)


def test_more_nodes_narrow_the_bracket_with_their_square() -> None:
    widths = []
    for most_nodes in (2**9, 2**11, 2**13):
        found = delta(Laplace(10.0) * 100, 4.2203473, most_nodes)
        assert found.lower < 1e-5 < found.upper
        widths.append(found.upper - found.lower)
    assert 10 < widths[0] / widths[1] < 25
    assert 10 < widths[1] / widths[2] < 25


def test_a_discrete_gaussian_of_large_noise_is_a_gaussian() -> None:
    discrete = by_line(DiscreteGaussian(50.0) * 1000, on_own_lattice=False).epsilon(1e-6)
    continuous = by_line(Gaussian(50.0) * 1000).epsilon(1e-6)
    assert discrete.upper == pytest.approx(continuous.upper, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.5])
def test_a_mixed_run_is_inside_a_brute_force_convolution(epsilon: float) -> None:
    local = 0.3
    truth = 1 / (1 + math.exp(-local))
    run = Gaussian(2.0) * 2 + RandomizedResponse(local) * 2 + PoissonSampled(Gaussian(1.0), 0.1) * 3
    parts = [
        (profile.normal_loss(2.0), 2),
        (profile.atomic_loss([local, -local], [truth, 1 - truth]), 2),
        (profile.sampled_normal_loss(1.0, 0.1), 3),
    ]
    low, high = profile.convolution(parts, epsilon, grid=2e-4, reach=8.0)
    assert high < low * 1.01
    found = delta(run, epsilon)
    assert low < found.lower <= found.upper < high
    assert found.upper < found.lower * (1 + 1e-9)


@pytest.mark.parametrize("rounds", [1, 3])
def test_few_sampled_rounds_are_inside_a_brute_force_convolution(rounds: int) -> None:
    run = PoissonSampled(Gaussian(1.0), 0.1) * rounds
    low, high = profile.convolution([(profile.sampled_normal_loss(1.0, 0.1), rounds)], 0.5, grid=1e-4, reach=8.0)
    found = delta(run, 0.5, 2**9)
    assert found.lower <= high
    assert low <= found.upper
    assert found.upper < 1.5 * found.lower


def test_the_reference_convolution_brackets_the_gaussian() -> None:
    low, high = profile.convolution([(profile.normal_loss(1.0), 2)], 2.0, grid=1e-3, reach=9.0)
    assert low < gaussian.delta(math.sqrt(2.0), 2.0) < high < 1.005 * low
