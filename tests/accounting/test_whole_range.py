"""Random runs over the whole range of every parameter: never below the truth, and never against the order of costs.

The truth of one sampled round, and of any number of Gaussian ones, is a closed form in arbitrary precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from dprounds import (
    DiscreteGaussian,
    Gaussian,
    Laplace,
    NumericalError,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
)
from dprounds.mechanisms import Mechanism, Run
from tests.references import profile

DIGITS = 60
# The references cancel where delta is close to one, in their last digits.
REFERENCE_ERROR = mpf(10) ** -45

NOISES: dict[str, tuple[Callable[[float], Mechanism], Callable[[float, Any], Any]]] = {
    "Gaussian": (Gaussian, lambda s, x: profile.gaussian(1 / mpf(s), x)),
    "Laplace": (Laplace, profile.laplace),
    "RandomizedResponse": (lambda s: RandomizedResponse(1.0 / s), lambda s, x: profile.response(mpf(1.0 / s), x)),
}


def draw_rate(dice: np.random.Generator) -> float:
    kind = dice.random()
    if kind < 0.7:
        return float(10 ** dice.uniform(-9, 0))
    return float(10 ** dice.uniform(-323, -9)) if kind < 0.85 else 1 - float(10 ** dice.uniform(-15, 0))


def draw_delta(dice: np.random.Generator) -> float:
    return max(float(10 ** dice.uniform(-323.3 if dice.random() < 0.4 else -15, -4e-4)), 5e-324)


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("seed", range(5))
def test_one_sampled_round_is_never_below_the_truth(name: str, seed: int) -> None:
    dice = np.random.default_rng(seed)
    make, base = NOISES[name]
    noise, rate, delta = float(10 ** dice.uniform(math.log10(0.02), 4)), draw_rate(dice), draw_delta(dice)
    run = PoissonSampled(make(noise), rate) * 1

    def truth(epsilon: float) -> Any:
        with mp.workdps(DIGITS):
            return max(profile.sampled_once(lambda x: base(noise, x), rate, epsilon, way) for way in ("remove", "add"))

    found = run.guarantee(delta=delta)
    assert found.epsilon == math.inf or truth(found.epsilon) <= delta
    assert not found.lower > 0 or truth(found.lower) >= delta * (1 - REFERENCE_ERROR)
    largest = max(run.max_loss(way) for way in run.directions)
    for epsilon in (min(largest, 50.0) * float(10 ** dice.uniform(-8, 0)), float(10 ** dice.uniform(-12, 4)), 0.0):
        exact = truth(epsilon) * (1 - REFERENCE_ERROR)
        for method in (None, "optimal", "moments"):
            assert run.delta(epsilon=epsilon, method=method) >= exact
        assert float(np.asarray(run.profile([epsilon]))[0]) >= exact
        assert (run.delta(epsilon=epsilon) > 0) or exact == 0


@pytest.mark.parametrize("seed", range(20))
def test_any_number_of_gaussian_rounds_is_never_below_the_truth(seed: int) -> None:
    dice = np.random.default_rng(100 + seed)
    noise, rounds = float(10 ** dice.uniform(math.log10(0.02), 4)), int(10 ** dice.uniform(0, 12))
    delta, run = draw_delta(dice), Gaussian(noise) * rounds

    def truth(epsilon: float) -> Any:
        with mp.workdps(DIGITS):
            return profile.gaussian(mp.sqrt(rounds) / mpf(noise), epsilon)

    found = run.guarantee(delta=delta)
    assert truth(found.epsilon) <= delta
    assert not found.lower > 0 or truth(found.lower) >= delta * (1 - REFERENCE_ERROR)
    epsilon = float(10 ** dice.uniform(-12, 6))
    assert run.delta(epsilon=epsilon) >= truth(epsilon) * (1 - REFERENCE_ERROR)


MAKERS: list[Callable[[float], Mechanism]] = [
    Gaussian,
    Laplace,
    DiscreteGaussian,
    lambda s: RandomizedResponse(1.0 / s),
    lambda s: PureDP(1.0 / s),
]


@pytest.mark.parametrize("seed", range(15))
def test_no_bracket_contradicts_that_of_a_costlier_run(seed: int) -> None:
    """More rounds, a smaller delta, less noise and a higher rate cost no less, by what is proven of each."""
    dice = np.random.default_rng(200 + seed)
    make = MAKERS[seed % len(MAKERS)]
    noise, rate = float(10 ** dice.uniform(math.log10(0.02), 4)), float(10 ** dice.uniform(-9, 0))
    rounds, delta, factor = int(10 ** dice.uniform(0, 9)), draw_delta(dice), float(dice.uniform(1, 4))

    def bracket(s: float, q: float, n: int, d: float) -> tuple[float, float]:
        run: Run = PoissonSampled(make(s), min(q, 1.0)) * n
        try:
            found = run.guarantee(delta=max(d, 5e-324))
        except NumericalError:
            return 0.0, math.inf
        assert 0 <= found.lower <= found.upper == found.epsilon
        return found.lower, found.upper

    lower, _ = bracket(noise, rate, rounds, delta)
    # losses on integers are no function of those with more noise, which may cost more: see `DiscreteGaussian`
    less = noise if make is DiscreteGaussian else noise / factor
    for costlier in (
        bracket(less, rate, rounds, delta),
        bracket(noise, rate * factor, rounds, delta),
        bracket(noise, rate, math.ceil(rounds * factor), delta),
        bracket(noise, rate, rounds, delta / factor),
    ):
        assert lower <= costlier[1]


@pytest.mark.parametrize("seed", range(5))
def test_two_sampled_rounds_are_never_below_the_truth(seed: int) -> None:
    """Two rounds have no closed form: they are the first that lines and lattices answer. By quadrature over one."""
    dice = np.random.default_rng(300 + seed)
    sigma, rate = float(10 ** dice.uniform(-0.5, 1.5)), float(10 ** dice.uniform(-7, -0.02))
    delta = float(10 ** dice.uniform(-16, -0.5))

    def truth(epsilon: float) -> Any:
        return max(profile.sampled_gaussian_twice(sigma, rate, epsilon, way) for way in ("remove", "add"))

    found = (PoissonSampled(Gaussian(sigma), rate) * 2).guarantee(delta=delta)
    quadrature_error = mpf(10) ** -12
    assert truth(found.upper) <= delta * (1 + quadrature_error)
    assert found.lower == 0 or truth(found.lower) >= delta * (1 - quadrature_error)
