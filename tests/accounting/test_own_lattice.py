"""Losses that lie on a lattice of their own are summed by the periodic kernel: against binomials and whole numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from dprounds import ApproximateDP, DiscreteGaussian, PoissonSampled, PureDP, RandomizedResponse
from dprounds.accounting.bracket import Bracket
from dprounds.accounting.ways.place import line_near, saddle_at_epsilon
from tests.accounting.ways import by_line, line_law
from tests.references import profile

ROUNDS = [1, 2, 7, 100, 1001, 10**4, 10**5]


def contains(found: Bracket, low: Any, high: Any) -> None:
    """The truth, between two references that differ in their last digits, is in the bracket: no tolerance."""
    assert mpf(found.lower) <= high, (found, low)
    assert mpf(found.upper) >= low, (found, low)


def responses(local: float, rounds: int, epsilon: float) -> Any:
    """Delta of equal randomized responses, whose losses are compared as fractions."""
    with mp.workdps(60):
        truth = 1 / (1 + mp.exp(-mpf(local)))
        return profile.two_losses(Fraction(local), -Fraction(local), truth, rounds, Fraction(epsilon))


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("local", [0.01, 0.3, 2.0])
def test_responses_are_their_binomial_sum(local: float, rounds: int) -> None:
    """Between their atoms, at them, next to them, and close to the largest loss."""
    one = by_line(RandomizedResponse(local) * rounds)
    deviation = local * math.sqrt(rounds)
    middle = rounds * local * math.tanh(local / 2)
    atom = float(Fraction(local) * (rounds - 2 * (rounds // 3)))
    for epsilon in (
        0.0,
        middle + 2.1 * deviation,
        middle + 6.3 * deviation,
        atom,
        math.nextafter(atom, math.inf),
        math.nextafter(atom, 0.0),
        0.99 * rounds * local,
    ):
        truth = responses(local, rounds, epsilon)
        found = one.delta(epsilon)
        contains(found, truth, truth)
        if truth > 1e-280 and not 0 < abs(epsilon - atom) < 1e-9 * atom:  # next to a last atom nothing is left
            assert found.upper - found.lower <= 1e-9 * found.upper


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-10, 1e-200])
def test_epsilons_of_responses_are_on_their_side_of_the_truth(rounds: int, delta: float) -> None:
    for mechanism in (RandomizedResponse(0.02), PureDP(1.0)):
        found = (mechanism * rounds).guarantee(delta=delta)
        assert responses(mechanism.epsilon, rounds, found.upper) <= delta
        assert found.lower == 0 or responses(mechanism.epsilon, rounds, found.lower) >= delta
        assert found.method == "exact"
        assert found.upper - found.lower <= 1e-9 * found.upper


def sampled_responses(local: float, rate: float, rounds: int, epsilon: float, direction: str) -> Any:
    """Delta of equal randomized responses on Poisson samples, from the masses of the mixture."""
    with mp.workdps(60):
        q, truth = mpf(rate), 1 / (1 + mp.exp(-mpf(local)))
        lie = 1 - truth
        mixed = ((1 - q) * lie + q * truth, (1 - q) * truth + q * lie)  # where the answer favours P, and Q
        plain = (lie, truth)
        losses = [mp.log(a / b) for a, b in zip(mixed, plain, strict=True)]
        if direction == "remove":
            return profile.two_losses(losses[0], losses[1], mixed[0], rounds, mpf(epsilon))
        return profile.two_losses(-losses[1], -losses[0], plain[1], rounds, mpf(epsilon))


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize(("local", "rate"), [(1.0, 0.01), (0.1, 0.5), (3.0, 1e-4)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_sampled_responses_are_their_binomial_sum(local: float, rate: float, rounds: int, direction: str) -> None:
    """Their losses are logarithms, so the lattice is known up to a blur."""
    run = PoissonSampled(RandomizedResponse(local), rate) * rounds
    assert run.laws[direction].lattice is not None
    one = by_line(run, direction)
    largest = run.max_loss(direction)
    for part in (0.0, 0.011, 0.13, 0.7, 1.0 - 1e-9):
        epsilon = part * largest
        truth = sampled_responses(local, rate, rounds, epsilon, direction)
        contains(one.delta(epsilon), truth, truth)


def test_the_blur_of_a_lattice_is_counted_where_epsilon_is_at_an_atom() -> None:
    """Delta has a kink there, and a double is on one side of it or on the other."""
    run = PoissonSampled(RandomizedResponse(1.0), 0.25) * 3
    for direction in run.directions:
        one = by_line(run, direction)
        with mp.workdps(60):
            q = mpf(0.25)
            losses = [mp.log(1 - q + q * mp.exp(sign)) for sign in (1, -1)]
        sign = 1 if direction == "remove" else -1
        for k in range(4):
            atom = float(sign * (k * losses[0] + (3 - k) * losses[1]))
            for epsilon in (atom, math.nextafter(atom, 9.0), math.nextafter(atom, -9.0)):
                if epsilon >= 0:
                    true_delta = sampled_responses(1.0, 0.25, 3, epsilon, direction)
                    contains(one.delta(epsilon), true_delta, true_delta)


@pytest.mark.parametrize("rounds", [1, 2, 16, 100])
@pytest.mark.parametrize("sigma", [0.3, 0.5, 2.0])
def test_discrete_gaussians_are_their_convolution(sigma: float, rounds: int) -> None:
    """On both sides of the noise at which the moments change from a sum to its dual."""
    one = by_line(DiscreteGaussian(sigma) * rounds)
    mean = rounds / (2 * sigma**2)
    deviation = math.sqrt(rounds) / sigma
    atom = float(Fraction(rounds % 2 + 2 * rounds) / (2 * Fraction(sigma) ** 2))
    for epsilon in (0.0, 0.37 * mean, mean, mean + 3.3 * deviation, atom, math.nextafter(atom, 0.0)):
        low, high = profile.discrete_gaussian_rounds(sigma, rounds, epsilon)
        found = one.delta(epsilon)
        contains(found, low, high)
        if low > 1e-40:
            assert found.upper - found.lower <= 1e-9 * found.upper


@pytest.mark.parametrize("rounds", [10**4, 10**8])
def test_many_discrete_gaussians_of_much_noise_are_nearly_gaussian(rounds: int) -> None:
    """The sum of so many is within 1e-9 of a normal law, and its lattice of a step that nobody sees."""
    run = DiscreteGaussian(math.sqrt(rounds)) * rounds
    for epsilon in (0.0, 1.0, 4.0):
        truth = profile.gaussian(mpf(1), mpf(epsilon))
        found = run.account.profile.delta(epsilon)
        assert found.upper - found.lower <= 1e-9 * found.upper
        assert found.upper == pytest.approx(float(truth), rel=1e-4)


def test_a_line_on_a_lattice_holds_for_epsilons_it_was_not_made_for() -> None:
    law = line_law(RandomizedResponse(0.5) * 40)
    saddle = saddle_at_epsilon(law, 8.0)
    line = line_near(law, saddle, epsilon=8.0, log_delta=saddle.log_delta(8.0))
    for epsilon in np.linspace(0.0, 19.9, 40).tolist():
        truth = responses(0.5, 40, epsilon)
        contains(line.at(epsilon), truth, truth)
    assert line.at(20.1).upper >= 0
    with pytest.raises(TypeError, match="points of a lattice move"):
        line * 2.0


def test_responses_of_one_step_and_different_shifts_share_a_lattice() -> None:
    """Two parts whose losses lie on lattices of one step: told or not told entirely."""
    run = ApproximateDP(0.5, 1e-7) * 20 + RandomizedResponse(0.5) * 11
    law = run.laws["remove"]
    assert law.lattice is not None
    for epsilon in (0.0, 1.3, 4.5, 9.0):
        with mp.workdps(50):
            told = 1 - (1 - mpf(1e-7)) ** 20
            truth = told + (1 - told) * responses(0.5, 31, epsilon)
        found = run.account.profile.delta(epsilon)
        contains(found, truth, truth)
        assert found.upper - found.lower <= 1e-9 * found.upper
    mixed = RandomizedResponse(0.5) * 3 + RandomizedResponse(0.25) * 3
    assert mixed.laws["remove"].lattice is None
