"""Between points at which a characteristic function is known its modulus does not rise by more than the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray

from dprounds.numerics.modulus import log_moduli_above, log_moduli_between, variance_above


def test_a_peak_between_two_points_is_below_the_bound() -> None:
    """Of two equal masses the modulus is that of a cosine, which is one at every multiple of pi."""
    for distance in (1e-3, 0.1, 0.5, 1.0):
        points = math.pi + distance * np.array([-0.5, 0.5])
        (found,) = log_moduli_between(points, np.log(np.abs(np.cos(points))), 1.0)
        assert found >= 0.0
        (without,) = log_moduli_between(points, np.log(np.abs(np.cos(points))), 0.0)
        assert without < 0.0
        # a quarter of the variance times the square of the distance is what it takes, up to the fourth order
        (less,) = log_moduli_between(points, np.log(np.abs(np.cos(points))), 1.0 - 0.4 * distance * distance)
        assert less < 0.0


@pytest.mark.parametrize("seed", range(20))
def test_no_value_of_a_random_law_is_above_the_bound(seed: int) -> None:
    dice = np.random.default_rng(seed)
    masses, losses = dice.dirichlet(np.full(6, 0.4)), dice.normal(size=6) * np.exp(dice.normal(size=6))
    variance = float(masses @ (losses - masses @ losses) ** 2)
    points = np.sort(dice.uniform(0.0, 20.0, 40))

    def log_moduli(s: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.log(np.abs((masses * np.exp(1j * np.multiply.outer(s, losses))).sum(axis=-1))))

    found = log_moduli_between(points, log_moduli(points), variance * (1.0 + 1e-12))
    for low, high, bound in zip(points[:-1], points[1:], found, strict=True):
        assert (log_moduli(np.linspace(low, high, 101)) <= bound + 1e-13).all()


def test_a_variance_is_not_below_the_true_one() -> None:
    for h in (1e-3, 0.1, 1.0, 3.0):
        for p in (0.5, 0.1, 1e-3):  # two masses, one apart
            values = [math.log1p(p * math.expm1(x)) for x in (-h, 0.0, h)]
            found = variance_above(h, values[0] + values[2] - 2.0 * values[1])
            assert found >= p * (1.0 - p) * (1.0 - 1e-9)
    assert variance_above(1e-2, 1e-4) == pytest.approx(1.0, rel=1e-4)


def test_moduli_next_to_one_keep_their_digits() -> None:
    """Which many rounds multiply: no bound is below the exact one, by not so much as a unit of rounding of itself."""
    dice = np.random.default_rng(5)
    logs = -(10.0 ** dice.uniform(-25, 2, 4000))
    error = np.abs(logs) * 10.0 ** dice.uniform(-14, 0.5, 4000)
    found = log_moduli_above(logs, error)
    with mp.workdps(60):
        for x, e, bound in zip(logs.tolist(), error.tolist(), found.tolist(), strict=True):
            exact = min(mp.log(mp.exp(mpf(x)) + mpf(e)), mpf(0))
            assert mpf(bound) >= exact
            assert mpf(bound) <= exact * (1 - mpf(10) ** -13) + mpf(10) ** -14 * (abs(mpf(x)) + mpf(e))


def test_bounds_between_points_are_rounded_upward() -> None:
    dice = np.random.default_rng(6)
    for _ in range(300):
        points = np.sort(dice.uniform(0.0, 1.0, 6)) * 10.0 ** dice.uniform(-3, 9)
        logs = -(10.0 ** dice.uniform(-20, 1)) * dice.uniform(0.2, 1.0, 6)
        variance = float(10.0 ** dice.uniform(-2, 0.3) * np.abs(logs).min() / np.diff(points).max() ** 2)
        found = log_moduli_between(points, logs, variance)
        with mp.workdps(60):
            squares = [mp.expm1(2 * mpf(x)) for x in logs.tolist()]
            for i, bound in enumerate(found.tolist()):
                rise = mpf(variance) / 4 * (mpf(points[i + 1]) - mpf(points[i])) ** 2
                assert mpf(bound) >= mp.log1p(min(max(squares[i], squares[i + 1]) + rise, mpf(0))) / 2


@pytest.mark.parametrize("true", [1e-12, 1e-3, 0.5, 1.0])
def test_a_modulus_that_is_known_to_an_error_is_not_above_its_bound(true: float) -> None:
    """However small it is against its error."""
    for error in (1e-13, 1e-6, 0.1):
        computed = max(true - 0.999 * error, 1e-300)
        (found,) = log_moduli_above(np.log([computed]), np.array([error]))
        assert math.log(true) <= found <= 0.0
