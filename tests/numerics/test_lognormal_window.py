"""Large powers of a mean that is close to one: the truth is within the stated errors, and every term is needed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import exp, fabs, mp, mpc, mpf, ncdf

from dprounds.errors import NumericalError
from dprounds.numerics import lognormal_window
from dprounds.numerics.lognormal_mean import LognormalMean
from dprounds.numerics.lognormal_window import LognormalWindow, Tilted
from tests.references.allocation import integer_power_mean, power_mean_of_three, power_mean_of_two

# Not above it: the stated errors of these, which are rounding.
ROUNDING = 4e-9


@pytest.fixture(autouse=True)
def _forget() -> None:
    """Remembered tables were made with other tolerances."""
    lognormal_window.remembered_tilted.cache_clear()


def off(window: LognormalWindow, power: complex, truth: mpc, real: mpc) -> tuple[float, float]:
    """By how much the mean is off, relative to the real one, and the bound on it that is stated."""
    logs, errors = window.means(np.array([power], dtype=np.complex128))
    with mp.workdps(40):
        value = exp(mpc(complex(logs[0])))
        return float(fabs(value - truth) / fabs(real)), float(errors[0])


def off_of_two(sigma: float, power: complex) -> tuple[float, float]:
    window = LognormalWindow(1 / sigma, 2, is_cut=complex(power).real > 0)
    # values above their bound, at 20 deviations, add less than 1e-50 at these powers
    return off(window, power, power_mean_of_two(sigma, power), power_mean_of_two(sigma, complex(power).real))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("power", [1.0, 30.0, 60 + 40j, 90 + 5j, 20 + 300j])
@pytest.mark.parametrize("sigma", [25.0, 40.0])
def test_the_mean_of_two_values_is_within_the_stated_error(sigma: float, power: complex, sign: float) -> None:
    missed, error = off_of_two(sigma, complex(sign * complex(power).real, abs(complex(power).imag)))
    assert missed <= error < ROUNDING


@pytest.mark.parametrize("power", [40 + 20j, -40 + 20j])
def test_the_mean_of_three_values_is_within_the_stated_error(power: complex) -> None:
    window = LognormalWindow(1 / 30.0, 3, is_cut=complex(power).real > 0)
    real = power_mean_of_three(30.0, complex(power).real)
    missed, error = off(window, power, power_mean_of_three(30.0, power), real)
    assert missed <= error < ROUNDING


@pytest.mark.parametrize(("sigma", "count"), [(4.0, 1000), (10.0, 50), (2.5, 20_000)])
def test_integer_powers_are_those_of_the_multinomial_theorem(sigma: float, count: int) -> None:
    for power in (2, 5, 12):
        truth = integer_power_mean(sigma, count, power)
        missed, error = off(LognormalWindow(1 / sigma, count, is_cut=True), power, truth, truth)
        assert missed <= error < ROUNDING


@pytest.mark.parametrize(("sigma", "count"), [(2.0, 10_000), (4.0, 1000), (1.6, 30_000), (12.0, 40)])
def test_it_agrees_with_the_mellin_integral(sigma: float, count: int) -> None:
    for power in (20.0, 35 + 30j, -35 + 30j, -20.0):
        own = LognormalWindow(1 / sigma, count, is_cut=complex(power).real > 0).means(np.array([power + 0j]))
        other = LognormalMean(1 / sigma, count).means(np.array([power + 0j]))
        real = LognormalMean(1 / sigma, count).means(np.array([complex(power).real + 0j])).logs[0].real
        apart = abs(np.exp(own.logs[0] - real) - np.exp(other.logs[0] - real))
        assert apart <= own.errors[0] + other.errors[0] < ROUNDING


@pytest.mark.parametrize(
    ("constant", "poor", "power"),
    [
        ("LOG_TAILS", 0.0, 35 + 30j),
        ("LOG_TAILS", 0.0, -35.0),
        ("LOG_TURNED", -8.0, 35 + 30j),
        ("LOG_TURNED", -10.0, -35.0),
    ],
)
def test_errors_that_are_not_rounding_are_real_and_bounded(
    monkeypatch: pytest.MonkeyPatch, constant: str, poor: float, power: complex
) -> None:
    """With a poor tolerance for one term the truth is outside of what all others allow, and inside with it."""
    monkeypatch.setattr(lognormal_window, "LARGEST_ERROR", math.inf)
    monkeypatch.setattr(lognormal_window, constant, poor)
    missed, error = off_of_two(25.0, power)
    assert ROUNDING < missed <= error


@pytest.mark.parametrize(("tilt", "turn"), [(60.0, 0.0), (-60.0, 0.0), (40.0, 60.0), (-40.0, 60.0)])
def test_the_average_of_one_value_errs_by_less_than_is_stated(
    monkeypatch: pytest.MonkeyPatch, tilt: float, turn: float
) -> None:
    """E[exp(q) - 1 - q] of values below their bound, against the same on a line eight times as fine."""
    monkeypatch.setattr(lognormal_window, "LOG_VALUES", 4.0)
    window = LognormalWindow(0.25, 10, is_cut=True)
    u = complex(tilt, turn)
    average = window.average_for(np.array([tilt]), turn)
    coarse = (
        lognormal_window._exponential_rest(np.asarray(u / 10 * average.less_one, dtype=np.complex128)) @ average.weights
    )
    nodes, weights = np.polynomial.legendre.leggauss(200)
    x = window.cut * nodes
    q = u / 10 * np.expm1(0.25 * x - 0.5 * 0.25**2)
    truth = (np.exp(q) - 1 - q) @ (window.cut * weights * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))
    assert 1e-8 < abs(coarse - truth) <= average.errors[0]


@pytest.mark.parametrize(
    ("is_cut", "number", "s"), [(True, 1, 40.0), (False, 1, 40.0), (True, 0, 150.0), (False, 2, 150.0)]
)
def test_the_polynomial_misses_the_kernel_by_less_than_is_stated(
    monkeypatch: pytest.MonkeyPatch, is_cut: bool, number: int, s: float
) -> None:
    monkeypatch.setattr(lognormal_window, "RESOLVED", -22.0)
    table = lognormal_window.remembered_tilted(LognormalWindow(0.02, 2, is_cut), number)
    power = table.c * table._middle[0]
    offsets, distance = table._grid
    x = table._middle[0] + offsets
    turn = 2 * math.pi / (distance * x.size)
    half = (x.size - 1) // 2

    def kernel(at: np.ndarray) -> np.ndarray:
        logs = table._log_kernel(power, at) + 1j * s * np.log(at)
        return np.asarray(np.exp(logs) * table._half(at, 0) * table._half(at, 1))

    n = np.arange(-half, half + 1)
    coefficients = np.exp(-1j * turn * np.multiply.outer(n, x)) @ kernel(x) / x.size
    inside = np.linspace(*table._inside, 41)
    polynomial = np.exp(1j * turn * np.multiply.outer(inside, n)) @ coefficients
    missed = float(np.abs(polynomial - kernel(inside)).max())
    assert 1e-6 < missed <= table._interpolation(power, s)


@pytest.mark.parametrize("is_cut", [True, False])
def test_the_window_misses_one_by_less_than_is_stated(monkeypatch: pytest.MonkeyPatch, is_cut: bool) -> None:
    monkeypatch.setattr(lognormal_window, "FALL", 1.0)
    table = lognormal_window.remembered_tilted(LognormalWindow(0.02, 2, is_cut), 2)
    x = np.linspace(*table._inside, 101)
    for power in (table.c * table._middle[0], 0.8 * table.c):
        missing = np.exp(table._log_kernel(power, x)) * (1.0 - table._half(x, 0) * table._half(x, 1))
        assert 1e-3 < missing.max() <= table._missing_of_window(power)


def test_what_is_left_out_is_the_chance_of_a_value_above_its_bound() -> None:
    for sigma, count in ((1.5, 50_000), (3.0, 200), (40.0, 2)):
        window = LognormalWindow(1 / sigma, count, is_cut=True)
        with mp.workdps(120):
            own, others = ncdf(mpf(window.cut) - 1 / mpf(sigma)), ncdf(mpf(window.cut))
            truth = 1 - own * others ** (count - 1)
            assert truth <= window.left_out <= float(truth) * (1 + 1e-6)


def test_the_mean_of_values_below_a_bound_falls_to_what_their_faces_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two values with a low bound: by a rule of many points in the square, where the mean has fallen to its faces."""
    monkeypatch.setattr(lognormal_window, "MOST_CUT", 6.0)
    monkeypatch.setattr(lognormal_window, "LEAST_CUT", 5.0)
    monkeypatch.setattr(lognormal_window, "LARGEST_ERROR", 0.1)
    window = LognormalWindow(0.05, 2, is_cut=True)
    assert window.cut == 6.0
    nodes, weights = np.polynomial.legendre.leggauss(600)
    x = 11.0 + 0.5 * (6.0 + 16.0) * (nodes - 1.0) - 5.0  # from -16 to 6
    weights = 11.0 * weights * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    value = np.exp(0.05 * x - 0.5 * 0.05**2)
    log_mean = np.log(0.5 * np.add.outer(value, value))
    power, s = 30.0, np.array([300.0, 320.0, 350.0])
    real = float(weights @ np.exp(power * log_mean) @ weights)
    turned = np.array([abs(weights @ np.exp((power + 1j * one) * log_mean) @ weights) for one in s]) / real
    without_faces = np.exp(-0.5 * (0.05 * s) ** 2 / 2)
    assert (turned > 2.0 * without_faces).any()
    assert (turned <= np.exp(window.log_fall(power, s))).all()
    # psi itself
    table: Tilted = lognormal_window.remembered_tilted(window, 1)
    sums = 0.5 * np.add.outer(value, value) - 1.0
    psi = np.array([abs(weights @ np.exp((table.c + 1j * v) * sums) @ weights) for v in s])
    assert (psi <= np.exp(table._log_turned(s) + table._log_at)).all()


def test_a_mean_that_is_not_known_well_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lognormal_window, "LOG_TAILS", 0.0)
    with pytest.raises(NumericalError, match="not resolved"):
        LognormalWindow(1 / 25.0, 2, is_cut=True).means(np.array([35 + 0j]))


def test_a_mean_that_is_too_wide_is_refused() -> None:
    with pytest.raises(NumericalError, match="too wide for a window"):
        LognormalWindow(1.0, 30, is_cut=False).means(np.array([-5.0 + 0j]))
    with pytest.raises(NumericalError):
        LognormalWindow(0.05, 10, is_cut=True).means(np.array([1e6 + 0j]))
