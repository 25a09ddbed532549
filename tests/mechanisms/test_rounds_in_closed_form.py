"""Sums over many rounds of Laplace noise and of randomized response, against arbitrary precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from mpmath import binomial, cosh, exp, factorial, mp, mpf, quad, sinh

from dprounds import Laplace, RandomizedResponse
from dprounds.errors import NumericalError
from dprounds.mechanisms import laplace_rounds as laplace
from dprounds.mechanisms import response_rounds as response
from dprounds.mechanisms.laplace_rounds import LaplaceRounds, laplace_rounds
from dprounds.mechanisms.response_rounds import ResponseRounds, response_rounds
from dprounds.numerics.uniform_sums import gauss_error, hyperbolic_means
from tests.accounting.ways import by_lattice
from tests.references.laplace_rounds import laplace_delta

DICE = np.random.default_rng(20)
LAPLACE = [
    (scale, rounds, float(rounds / scale * DICE.uniform(0.0, 1.0) ** power))
    for scale, rounds in [(1.0, 1), (1.0, 2), (0.4, 3), (3.0, 5), (10.0, 17), (2.0, 22), (0.5, 18), (100.0, 20)]
    for power in (0.01, 1.0, 6.0)
]


def inside(found: Any, truth: mpf) -> bool:
    return bool(mpf(found.lower) <= truth <= mpf(found.upper))


@pytest.mark.parametrize(("scale", "rounds", "epsilon"), LAPLACE)
def test_laplace_rounds_are_their_residues(scale: float, rounds: int, epsilon: float) -> None:
    known = laplace_rounds(scale, rounds)
    assert known is not None
    found, truth = known.at(epsilon), laplace_delta(scale, rounds, epsilon)
    assert inside(found, truth)
    assert found.upper - found.lower <= 1e-12 * found.upper
    value, slope = known.value_and_slope(epsilon)
    assert value == pytest.approx(float(truth), rel=1e-12)
    step = 1e-5 * min(epsilon, rounds / scale - epsilon)
    higher, lower = (laplace_delta(scale, rounds, epsilon + side * step) for side in (1, -1))
    assert slope == pytest.approx(float((higher - lower) / (2 * mpf(step))), rel=1e-4)


def test_two_laplace_rounds_from_the_definition() -> None:
    with mp.workdps(30):
        b, epsilon = mpf(2), mpf("0.3")

        def loss(x: mpf) -> mpf:
            return (abs(x - 1) - abs(x)) / b

        def outer(x: mpf) -> mpf:
            # delta of one round at any level is that of the least loss or more, in closed form
            level = epsilon - loss(x)
            if level >= 1 / b:
                return mpf(0)
            one = 1 - exp(level) if level <= -1 / b else 1 - exp((level - 1 / b) / 2)
            return exp(-abs(x) / b) / (2 * b) * one

        truth = quad(outer, [-200, 0, mpf("0.2"), mpf("0.35"), mpf("0.5"), mpf("0.7"), mpf("0.8"), 1, 200])
    known = laplace_rounds(2.0, 2)
    assert known is not None
    assert known.value_and_slope(0.3)[0] == pytest.approx(float(truth), rel=1e-9)


@pytest.mark.parametrize(("scale", "rounds", "delta"), [(20.0, 1000, 1e-5), (2.0, 100, 1e-12), (100.0, 700, 0.1)])
def test_laplace_rounds_agree_with_the_lattice(scale: float, rounds: int, delta: float) -> None:
    run = Laplace(scale) * rounds
    lattice, found = by_lattice(run).epsilon(delta), run.account.profile.epsilon(delta)
    assert lattice.lower <= found.lower <= found.upper <= lattice.upper
    assert found.upper - found.lower <= 1e-11 * found.upper


@pytest.mark.parametrize("rounds", [1, 2, 5, 10, 100, 1000])
@pytest.mark.parametrize("local", [1e-3, 0.7, 5.0])
def test_responses_are_their_binomial_sum(local: float, rounds: int) -> None:
    known = response_rounds(local, 0.0, rounds)
    assert known is not None
    for part in (0.0, 0.3, 0.9, 0.999):
        epsilon = part * rounds * local
        found, truth = known.at(epsilon), response_delta(local, rounds, epsilon)
        if truth > 1e-280:
            assert inside(found, truth)
            assert found.upper - found.lower <= 1e-11 * found.upper


def test_at_and_above_the_largest_loss_delta_is_zero() -> None:
    for known, largest in ((LaplaceRounds(3.0, 7, 7), 7 / 3), (ResponseRounds(0.3, 7), 2.1)):
        assert known.at(largest * (1 + 1e-15)).upper == 0.0
        assert known.at(largest * (1 - 1e-12)).lower > 0.0


def test_a_negative_epsilon_is_refused() -> None:
    for known in (LaplaceRounds(3.0, 7, 7), ResponseRounds(0.3, 7)):
        with pytest.raises(NumericalError, match="no terms for an epsilon of -1"):
            known.at(-1.0)


def test_close_to_the_largest_loss_no_order_is_better() -> None:
    for run in (RandomizedResponse(1.0) * 5, Laplace(1.0) * 3, RandomizedResponse(5.0) * 50):
        for delta in (1e-12, 1e-9, 1e-6, 1e-3):
            assert run.epsilon(delta=delta) <= run.epsilon(delta=delta, method="optimal")


# ---- every term of the error budget is needed: a sum in which it is large, with it and without it -------------------


def test_rounds_between_that_are_not_summed_count() -> None:
    short, truth = LaplaceRounds(1.0, 30, 17), laplace_delta(1.0, 30, 20.0)
    found = short.at(20.0)
    assert inside(found, truth)
    assert short.value_and_slope(20.0)[0] < truth * (1 - mpf("1e-6"))


def test_a_remainder_that_is_no_geometric_series_is_refused() -> None:
    with pytest.raises(NumericalError, match="more terms"):
        LaplaceRounds(1.0, 30, 14).at(20.0)


def test_an_error_of_gauss_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laplace, "NODES", (2,))
    truth = laplace_delta(0.5, 6, 1.0)
    coarse = LaplaceRounds(0.5, 6, 6)
    assert inside(coarse.at(1.0), truth)
    monkeypatch.setattr(laplace, "gauss_error", lambda rate, nodes: 0.0)
    assert not inside(LaplaceRounds(0.5, 6, 6).at(1.0), truth)


def response_delta(local: float, rounds: int, epsilon: float) -> mpf:
    with mp.workdps(60):
        a = mpf(local)
        lies = [n for n in range(rounds // 2 + 1) if a * (rounds - 2 * n) > mpf(epsilon)]
        terms = (binomial(rounds, n) * exp(-a * n) * (1 - exp(mpf(epsilon) - a * (rounds - 2 * n))) for n in lies)
        return sum(terms) / (1 + exp(-a)) ** rounds


@pytest.mark.parametrize(("share", "are_inside"), [(0.1, True), (0.0, False)])
def test_roundings_of_laplace_rounds_count(monkeypatch: pytest.MonkeyPatch, share: float, are_inside: bool) -> None:
    """A tenth of what is allowed for is enough for these; nothing is not."""
    monkeypatch.setattr(laplace, "ROUNDINGS_PER_STEP", share * laplace.ROUNDINGS_PER_STEP)
    found = [LaplaceRounds(scale, rounds, rounds).at(epsilon) for scale, rounds, epsilon in LAPLACE]
    assert all(inside(one, laplace_delta(*case)) for one, case in zip(found, LAPLACE, strict=True)) == are_inside


@pytest.mark.parametrize(("share", "are_inside"), [(0.1, True), (0.0, False)])
def test_roundings_of_responses_count(monkeypatch: pytest.MonkeyPatch, share: float, are_inside: bool) -> None:
    monkeypatch.setattr(response, "ROUNDINGS_PER_NAT", share * response.ROUNDINGS_PER_NAT)
    cases = [(local, rounds, 0.4 * rounds * local) for local in (0.05, 0.37) for rounds in (7, 101, 900)]
    found = [ResponseRounds(local, rounds).at(epsilon) for local, rounds, epsilon in cases]
    assert all(inside(one, response_delta(*case)) for one, case in zip(found, cases, strict=True)) == are_inside


def test_terms_below_the_least_double_are_not_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laplace, "gauss_error", lambda rate, nodes: 0.0)
    assert LaplaceRounds(50.0, 1500, 60).at(1500 / 50 * (1 - 1e-3)).upper > 0
    assert ResponseRounds(3.0, 60, -20.0).at(100.0).upper > 0


# ---- the means of hyperbolic functions over sums of uniform variables ------------------------------------------------


def density(k: int, x: mpf) -> mpf:
    """That of the sum of k uniform variables, by its alternating formula."""
    if not 0 <= x < k:
        return mpf(0)
    return sum((-1) ** i * binomial(k, i) * (x - i) ** (k - 1) for i in range(int(x) + 1)) / factorial(k - 1)


@pytest.mark.parametrize(("rate", "fraction"), [(1.0, 0.3), (0.05, 0.9), (2.0, 1e-3), (3.0, 0.7), (0.5, 0.0)])
def test_hyperbolic_means_over_uniform_sums(rate: float, fraction: float) -> None:
    sinh_means, cosh_means = hyperbolic_means(rate, fraction, 5, 7, 16)
    relative = 32 * 12 * 2.0**-53  # of each step
    with mp.workdps(40):
        for k in (1, 3, 7):
            for i in (0, 4):
                c = mpf(fraction) + i
                knots = sorted({mpf(n) for n in range(min(k, i) + 1)} | {min(c, mpf(k))})
                allowed = gauss_error(rate, 16) * (i + 1) * math.exp(rate * i)
                for found, function in ((sinh_means, sinh), (cosh_means, cosh)):
                    truth = mpf(0)
                    if len(knots) > 1:
                        truth = quad(lambda w: density(k, w) * function(rate * (c - w)), knots)  # noqa: B023
                    assert abs(float(found[k - 1, i]) - truth) <= relative * truth + allowed


@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
@pytest.mark.parametrize("t", [0.5, 8.0])
def test_laplace_noise_falls_along_a_line_no_faster_than_its_ceiling(scale: float, t: float) -> None:
    law = Laplace(scale).law("remove")
    assert law.ceiling is not None
    starts = np.array([0.1, 2.0, 30.0, 500.0])
    turns = scale * math.pi * np.arange(1, 400)  # where both atoms meet
    between = np.linspace(0.1, 1000.0, 3000)
    for start, ceiling in zip(starts, law.ceiling(t, starts), strict=True):
        for tried in (turns[turns >= start], between[between >= start]):
            assert (law.log_moment(t + 1j * tried).real <= ceiling).all()
    assert law.ceiling(t, np.array([1e6 * scale]))[0] < law.log_moment(np.array([t]))[0].real


def test_many_laplace_rounds_with_others_have_a_narrow_bracket() -> None:
    found = (Laplace(10.0) * 1000 + Laplace(30.0) * 50 + RandomizedResponse(0.3) * 3).guarantee(delta=1e-6)
    assert found.upper - found.lower < 1e-11 * found.upper
