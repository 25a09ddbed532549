"""Mills' ratio and the excess of two normal laws, within the errors that come with them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from dprounds.errors import NumericalError
from dprounds.numerics import normal
from tests.references import profile


def test_mills_ratio_errs_by_less_than_its_term() -> None:
    points = np.concatenate([np.linspace(-1.0, 12.0, 1500), np.geomspace(12.0, 1e8, 200)])
    worst = 0.0
    with mp.workdps(40):
        for x in points.tolist():
            truth = mp.sqrt(mp.pi / 2) * mp.exp(mpf(x) ** 2 / 2) * mp.erfc(mpf(x) / mp.sqrt(2))
            worst = max(worst, float(abs(mpf(normal.mills_ratio(x)) / truth - 1)))
    assert 0 < worst <= normal.RATIO_ERROR
    assert worst > normal.RATIO_ERROR / 50  # the margin is no more than that


@pytest.mark.parametrize("seed", range(6))
def test_the_excess_of_normal_laws_is_within_its_error(seed: int) -> None:
    """From distances that tell nothing to those that tell all, and from levels at 0 to where nothing is left."""
    dice = np.random.default_rng(seed)
    with mp.workdps(80):
        for _ in range(80):
            distance = float(10 ** dice.uniform(-6, 2))
            level = max(distance * (distance / 2 + float(dice.uniform(-30.0, 36.0))), 0.0)
            value, error = normal.normal_excess(distance, level)
            truth = profile.gaussian(mpf(distance), mpf(level))
            assert abs(mpf(value) - truth) <= mpf(error)
            if truth > 1e-290 and distance > 1e-3:
                assert error <= 1e-9 * value


def test_a_distance_that_is_off_is_allowed_for() -> None:
    for off in (1e-6, -1e-6):
        for level in (0.0, 0.5, 4.0):
            value, error = normal.normal_excess(1.0 + 0.99 * off, level, distance_error=abs(off))
            assert abs(mpf(value) - profile.gaussian(mpf(1), mpf(level))) <= mpf(error)


def test_far_out_there_is_nothing_or_all() -> None:
    assert normal.normal_excess(1e-3, 1e200).value == 0.0
    assert normal.normal_excess(1e160, 0.0).value == 1.0
    assert math.isfinite(normal.normal_excess(1e160, 0.0).error)


@pytest.mark.parametrize("seed", range(3))
def test_the_tail_of_a_normal_law_is_within_its_error(seed: int) -> None:
    """Also at a neighbour of the point, which rounding may have made of it."""
    dice = np.random.default_rng(seed)
    with mp.workdps(60):
        for _ in range(200):
            x, level = float(dice.uniform(-8.0, 30.0)), float(dice.choice([0.0, dice.uniform(0.0, 300.0)]))
            value, error = normal.normal_tail(x, level=level)
            for near in (x, math.nextafter(x, 99.0), math.nextafter(x, -99.0)):
                truth = mp.exp(mpf(level)) * mp.erfc((mpf(x) + mpf(near)) / 2 / mp.sqrt(2)) / 2
                assert abs(mpf(value) - truth) <= mpf(error)
            assert error <= 1e-12 * value


def test_a_tail_beyond_doubles_is_refused() -> None:
    for x in (1e200, -1e200, math.nan, math.inf):
        with pytest.raises(NumericalError):
            normal.normal_tail(x)


@pytest.mark.parametrize("log_tail", [-1e-300, -1e-16, -1e-5, -0.1, -0.69, -0.7, -1.0, -3.0, -60.0, -700.0, -1e4])
def test_a_quantile_has_the_tail_that_it_was_asked_for(log_tail: float) -> None:
    with mp.workdps(400):
        x = mpf(normal.normal_quantile(log_tail))
        tail = mp.erfc(x / mp.sqrt(2)) / 2
        slope = mp.exp(-(x**2) / 2) / mp.sqrt(2 * mp.pi) / tail
        assert abs(mp.log(tail) - mpf(log_tail)) / slope <= 1e-13 * max(abs(x), 1e-3)
