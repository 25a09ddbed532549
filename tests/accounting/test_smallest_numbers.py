"""What is positive and too small for doubles is not nothing: no delta and no loss is rounded to zero.

References are sums over all outcomes and closed forms in arbitrary precision.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from dprounds import ApproximateDP, Gaussian, Laplace, PoissonSampled, PureDP, RandomizedResponse
from dprounds.accounting.over_rounds import least_mass
from dprounds.mechanisms import Mechanism, Run

LEAST = 5e-324


def response_delta(local_epsilon: float, rounds: int, epsilon: float, failure: float = 0.0) -> mpf:
    """Delta of equal responses, of which each tells everything with the probability `failure`."""
    with mp.workdps(60):
        a, x = mpf(local_epsilon), mpf(epsilon)
        truth = 1 / (1 + mp.exp(-a))
        total = mpf(0)
        for k in range(rounds, -1, -1):
            if (2 * k - rounds) * a <= x:
                break
            mass = mp.binomial(rounds, k) * truth**k * mp.exp(-a * (rounds - k)) * truth ** (rounds - k)
            total += mass * -mp.expm1(x - (2 * k - rounds) * a)
        told = -mp.expm1(rounds * mp.log1p(-mpf(failure)))
        return told + (1 - told) * total


@pytest.mark.parametrize(
    ("run", "epsilon"),
    [
        (RandomizedResponse(1.0) * 10_000, 9000.0),
        (PureDP(1.0) * 3000, 2999.5),
        (RandomizedResponse(1.0) * 20_000, 19_000.0),
        (PoissonSampled(RandomizedResponse(1.0), 0.5) * 20_000, 12_000.0),
        (Laplace(1.0) * 3000, 2990.0),
        (Laplace(1.0) * 3, 2.9999999999),
        (Gaussian(1.0) * 1, 1e6),
        (PoissonSampled(Gaussian(1.0), 0.01) * 100, 1e4),
        (PoissonSampled(Laplace(0.1), 1e-9) * 5, 1.1e-4),
    ],
    ids=repr,
)
@pytest.mark.parametrize("method", [None, "optimal", "closed-form", "balle", "moments"])
def test_a_delta_too_small_for_doubles_is_not_zero(run: Run, epsilon: float, method: str | None) -> None:
    assert epsilon < run.max_loss()
    assert run.delta(epsilon=epsilon, method=method) >= LEAST
    assert float(np.asarray(run.profile([epsilon], method=method))[0]) >= LEAST


def test_delta_is_zero_from_the_largest_loss_on() -> None:
    for epsilon, rounds in ((1.0, 10), (0.1, 10), (0.1, 9999), (math.nextafter(0.3, 1), 7)):
        run = RandomizedResponse(epsilon) * rounds
        exact = Fraction(epsilon) * rounds
        for at in (np.nextafter(rounds * epsilon, 0), rounds * epsilon, np.nextafter(rounds * epsilon, np.inf)):
            assert (run.delta(epsilon=float(at)) == 0) == (Fraction(float(at)) >= exact)


def test_responses_are_bounded_down_to_the_least_double() -> None:
    dice = np.random.default_rng(3)
    for _ in range(60):
        rounds, a = int(10 ** dice.uniform(0, 2.7)), float(10 ** dice.uniform(-3, 2))
        failure = float(10 ** dice.uniform(-323, -2)) if dice.random() < 0.3 else 0.0
        run = ApproximateDP(a, failure) * rounds
        epsilon = rounds * a * float(1 - 10 ** dice.uniform(-12, 0))
        assert run.delta(epsilon=epsilon) >= min(response_delta(a, rounds, epsilon, failure), 1 - mpf(2) ** -100)
        delta = float(10 ** dice.uniform(-323.3, -300 if dice.random() < 0.5 else -0.01))
        found = run.guarantee(delta=max(delta, LEAST))
        if found.epsilon < math.inf:
            assert response_delta(a, rounds, found.epsilon, failure) <= max(delta, LEAST)
        if found.method == "exact" and found.lower > 0:
            assert response_delta(a, rounds, found.lower, failure) >= max(delta, LEAST)


def sampled(dice: np.random.Generator) -> tuple[Mechanism, mpf, float]:
    """A mechanism, its largest loss, and a sampling rate, over all of their ranges."""
    a = float(10 ** dice.uniform(-300, 2.845))
    edge = dice.random()
    if edge < 0.4:
        rate = float(10 ** dice.uniform(-323.3, 0))
    elif edge < 0.8:
        rate = 1 - float(10 ** dice.uniform(-15.9, 0))
    else:
        rate = [LEAST, 0.5, 1 - 2.0**-53, 1e-200][int(dice.integers(4))]
    kind = int(dice.integers(3))
    if kind == 0:
        return RandomizedResponse(a), mpf(a), max(rate, LEAST)
    if kind == 1:
        return Laplace(1 / a), 1 / mpf(1 / a), max(rate, LEAST)
    return Gaussian(a), mp.inf, max(rate, LEAST)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_the_largest_loss_is_never_below_the_truth_and_close_to_it(direction: str) -> None:
    dice = np.random.default_rng(4)
    with mp.workdps(400):
        for _ in range(400):
            mechanism, loss, rate = sampled(dice)
            found = PoissonSampled(mechanism, rate).max_loss(direction)
            if direction == "add":
                truth = -mp.log1p(-mpf(rate) if loss == mp.inf else mpf(rate) * mp.expm1(-loss))
            else:
                truth = mp.inf if loss == mp.inf else mp.log1p(mpf(rate) * mp.expm1(loss))
            assert found >= truth, (mechanism, rate)
            assert found <= truth * (1 + mpf("1e-12")) + 4 * mpf(LEAST), (mechanism, rate)


def test_the_largest_loss_next_to_a_rate_of_one() -> None:
    """The direction add, where 1 - q is all that is left: a sum that cancels there was 0.37 % too low."""
    with mp.workdps(60):
        for a, rate in ((30.0, 1 - 1e-10), (37.41387681486757, 0.9999999999999997)):
            truth = -mp.log(1 - mpf(rate) + mpf(rate) * mp.exp(-mpf(a)))
            assert PoissonSampled(RandomizedResponse(a), rate).max_loss("add") >= truth


def test_the_mass_at_infinity_of_thousands_of_parts_is_known_from_both_sides() -> None:
    dice = np.random.default_rng(5)
    masses = 10 ** dice.uniform(-15, -9, size=9000)
    run = Run(tuple((ApproximateDP(0.0, float(mass)), 1) for mass in masses))
    with mp.workdps(60):
        truth = -mp.expm1(mp.fsum(mp.log1p(-mpf(float(mass))) for mass in masses))
    assert least_mass(run.infinite_mass) <= truth <= run.infinite_mass <= float(truth) * (1 + 1e-14)
    assert (ApproximateDP(0.0, LEAST) * 3).infinite_mass >= 3 * LEAST
    assert (ApproximateDP(0.0, 0.5) * 10**300).infinite_mass == 1.0


def test_without_false_alarms_an_attacker_finds_only_what_is_told_entirely() -> None:
    for run in (Gaussian(0.24) * 5, Gaussian(0.236) * 138, PoissonSampled(Gaussian(0.5), 0.1) * 10, Laplace(0.01) * 1):
        assert run.trade_off(0.0) == 1.0
        assert run.true_positive_rate(0.0) == 0.0
        few, none = np.asarray(run.trade_off([1e-300, 0.0]))
        assert 0.0 <= few <= none == 1.0
    told = ApproximateDP(1.0, 0.25) * 1
    assert 0.75 - 1e-15 <= float(told.trade_off(0.0)) <= 0.75
    # 1 - Phi(mu + Phi^-1(alpha)) with mu = 4: next to one, where an epsilon of 50 would not do
    assert float((Gaussian(0.25) * 1).trade_off(1e-40)) == pytest.approx(1.0, abs=1e-6)
