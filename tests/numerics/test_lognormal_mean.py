"""Powers of the mean of lognormal values: the truth is within the stated errors, and every term of them is needed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import exp, fabs, mp, mpc

from dprounds.errors import NumericalError
from dprounds.numerics import lognormal_mean, lognormal_powers, lognormal_rays
from dprounds.numerics.lognormal_mean import LognormalMean
from tests.references.allocation import integer_power_mean, power_mean_of_three, power_mean_of_two

# Not above it: the stated errors of these, which are rounding.
ROUNDING = 2e-12


@pytest.fixture(autouse=True)
def _forget() -> None:
    """Remembered tables were made with other tolerances."""
    for remembered in ("_remembered_rays", "_remembered_list", "_remembered_real_means"):
        getattr(lognormal_mean, remembered).cache_clear()


def found(mean: LognormalMean, power: complex) -> tuple[mpc, float]:
    logs, errors = mean.means(np.array([power], dtype=np.complex128))
    with mp.workdps(40):
        return exp(mpc(complex(logs[0]))), float(errors[0])


def off(value: mpc, truth: mpc, real: mpc) -> float:
    with mp.workdps(40):
        return float(fabs(value - truth) / fabs(real))


POWERS = [
    2.0,
    1.5,
    0.5,
    -0.5,
    -3.0,
    5.3,
    2 + 1j,
    3.5 + 6j,
    -2 + 8j,
    -0.1 + 3j,
    4.2 + 20j,
    -7 + 15j,
    2.5 + 0.01j,
    0.25 + 2j,
]


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("power", POWERS)
def test_the_mean_of_two_values_is_within_the_stated_error(sigma: float, power: complex) -> None:
    value, error = found(LognormalMean(1 / sigma, 2), power)
    real = power_mean_of_two(sigma, complex(power).real)
    assert off(value, power_mean_of_two(sigma, power), real) <= error
    assert error < ROUNDING


@pytest.mark.parametrize("power", [3 + 4j, -2 + 9j])
def test_the_mean_of_three_values_is_within_the_stated_error(power: complex) -> None:
    value, error = found(LognormalMean(1.0, 3), power)
    real = power_mean_of_three(1.0, complex(power).real)
    assert off(value, power_mean_of_three(1.0, power), real) <= error < ROUNDING


@pytest.mark.parametrize(("sigma", "count"), [(1.0, 100), (1.0, 1000), (0.5, 50), (2.0, 1000), (0.5, 2000), (6.0, 7)])
def test_integer_powers_are_those_of_the_multinomial_theorem(sigma: float, count: int) -> None:
    for power in (2, 3, 4, 8):
        value, error = found(LognormalMean(1 / sigma, count), power)
        truth = integer_power_mean(sigma, count, power)
        assert off(value, truth, truth) <= error < ROUNDING


def test_second_and_third_moments_have_closed_forms() -> None:
    sigma, t = 0.8, 37
    mean = LognormalMean(1 / sigma, t)
    second, third = (mean.means(np.array([power])).logs[0].real for power in (2.0, 3.0))
    a = math.exp(1 / sigma**2)
    assert second == pytest.approx(math.log(1 + (a - 1) / t), rel=1e-12)
    assert third == pytest.approx(math.log((a**3 + 3 * (t - 1) * a + (t - 1) * (t - 2)) / t**2), rel=1e-12)


def test_the_mean_falls_below_its_ceiling() -> None:
    mean = LognormalMean(1.0, 50)
    s = np.array([0.0, 1.0, 5.0, 20.0, 60.0, 80.0])
    for real in (-4.0, 6.5):
        logs, errors = mean.means(real + 1j * s)
        ceiling = np.exp(-s * s / (2 * 50))
        assert (np.exp(logs.real - logs[0].real) <= ceiling * (1 + 1e-9) + errors).all()


def test_a_power_beyond_the_range_is_refused() -> None:
    with pytest.raises(NumericalError, match="not resolved at the power 200"):
        LognormalMean(1.0, 10).means(np.array([200.0]))


@pytest.mark.parametrize(
    ("constant", "sigma", "power"),
    [
        ("LOG_ALIASES", 10.0, -30 + 1j),
        ("LOG_ALIASES", 3.0, -30.0),
        ("LOG_ENDS", 1.0, 3.5),
        ("LOG_ENDS", 1.0, -2 + 3j),
        ("LOG_AVERAGES", 1.0, -3.5),
        ("LOG_AVERAGES", 1.0, 3.5 + 6j),
        ("LOG_FALLEN", 1.0, 2 + 5j),
    ],
)
def test_each_error_that_is_not_rounding_is_real_and_bounded(
    monkeypatch: pytest.MonkeyPatch, constant: str, sigma: float, power: complex
) -> None:
    """With a poor tolerance for one term the truth is outside of what all others allow, and inside with it."""
    owner = {"LOG_AVERAGES": lognormal_powers, "LOG_FALLEN": lognormal_mean}.get(constant, lognormal_rays)
    monkeypatch.setattr(owner, constant, -6.0)
    value, error = found(LognormalMean(1 / sigma, 2), power)
    real = power_mean_of_two(sigma, complex(power).real)
    missed = off(value, power_mean_of_two(sigma, power), real)
    assert ROUNDING < missed <= error
