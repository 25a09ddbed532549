"""The sampled Gaussian, against 20-digit values and against the definition."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprounds.errors import NumericalError, ParameterError, UnsupportedError
from dprounds.mechanisms import ZCDP, ApproximateDP, DiscreteGaussian, Gaussian, PoissonSampled, RdpCurve
from tests.mechanisms.test_closed_forms import error
from tests.references import moments

ROWS = json.loads((Path(__file__).parents[1] / "data" / "sampled_gaussian_rdp.json").read_text("utf-8"))["rows"]


def step(row: dict[str, Any]) -> PoissonSampled:
    return PoissonSampled(Gaussian(row["noise_multiplier"]), row["sampling_rate"])


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_reference_values_are_met_to_ten_digits(direction: str) -> None:
    rows = [row for row in ROWS if row["direction"] == direction]
    assert len(rows) == 90
    for row in rows:
        t = row["order"] - 1
        with mp.workdps(40):
            relative = mp.mpf(step(row).log_moment(t, direction)) / mp.mpf(t) / mp.mpf(row["rdp"]) - 1
        # The worst of these rows is at 2e-14.
        assert abs(relative) < 1e-13, row


def test_rdp_is_never_below_the_reference_values() -> None:
    for row in ROWS:
        # Both directions: the bound is for the larger one.
        with mp.workdps(40):
            excess = mp.mpf(step(row).rdp(row["order"])) / mp.mpf(row["rdp"]) - 1
        assert excess >= 0, row
        if row["direction"] == "remove":
            assert excess < 1e-12, row


@pytest.mark.parametrize("row", ROWS[:4], ids=str)
def test_the_reference_values_come_from_the_definition(row: dict[str, Any]) -> None:
    t = row["order"] - 1
    with mp.workdps(40):
        again = moments.gaussian(row["noise_multiplier"], t, rate=row["sampling_rate"], direction=row["direction"])
        assert abs(again / mp.mpf(t) / mp.mpf(row["rdp"]) - 1) < mp.mpf(10) ** -18


def test_the_two_references_agree() -> None:
    quadrature = moments.gaussian(0.7, 4, rate=0.01)
    binomial = moments.sampled_gaussian_at_integer(0.7, 5, 0.01)
    with mp.workdps(40):
        assert abs(quadrature / binomial - 1) < mp.mpf(10) ** -25


@pytest.mark.parametrize("rate", [1e-9, 1e-4, 0.01, 0.5, 1 - 1e-9])
@pytest.mark.parametrize("sigma", [1e-3, 0.1, 0.2, 0.5, 1.0, 3.0, 35.0, 1000.0])
def test_integer_orders_meet_the_binomial_sum(sigma: float, rate: float) -> None:
    mechanism = PoissonSampled(Gaussian(sigma), rate)
    orders = [2, 3, 20, 300]
    bounds = np.asarray(mechanism.rdp(orders))
    for order, bound in zip(orders, bounds, strict=True):
        exact = moments.sampled_gaussian_at_integer(sigma, order, rate)
        # Terms of the sum are exponentials of up to a thousand, whose logarithms round by 1e-13.
        assert error(mechanism, order - 1.0, exact) < 1e-13
        with mp.workdps(40):
            excess = mp.mpf(float(bound)) * (order - 1) / exact - 1
        assert 0 <= excess < 3e-12


@pytest.mark.parametrize(("sigma", "rate"), [(0.2, 0.01), (35.0, 1e-9), (100.0, 0.01)])
def test_peaks_far_apart_are_both_found(sigma: float, rate: float) -> None:
    order = 20_000
    exact = moments.sampled_gaussian_at_integer(sigma, order, rate)
    assert error(PoissonSampled(Gaussian(sigma), rate), order - 1.0, exact) < 1e-13


CASES = [
    (0.3, 0.01, 1e-6),
    (0.3, 0.999, 3.3),
    (0.5, 1e-9, 4.4 + 7j),
    (1.0, 0.01, 10.0 + 12j),
    (1.0, 0.9, 25.5 - 3j),
    (2.0, 1e-5, 30.7 + 30j),
    (2.0, 1 - 1e-6, 12.5),
    (20.0, 0.3, 0.01 + 2j),
    (20.0, 1e-3, 150.0 + 200j),
]


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("sigma", "rate", "z"), CASES)
def test_fractional_and_complex_points_meet_the_definition(
    sigma: float, rate: float, z: complex, direction: str
) -> None:
    exact = moments.gaussian(sigma, z, rate=rate, direction=direction)
    # Terms exp(i s u) turn by s u, up to some hundreds here, and round by as much.
    rtol = 1e-13 * (1 + abs(z.imag) / 10)
    assert error(PoissonSampled(Gaussian(sigma), rate), z, exact, direction) < rtol


@given(
    sigma=st.floats(-1.0, 3.0).map(lambda x: 10.0**x),
    rate=st.floats(-9.0, -1e-6).map(lambda x: 10.0**x),
    t=st.floats(-6.0, 5.0).map(lambda x: 10.0**x),
)
@settings(deadline=None, max_examples=150)
def test_bounds_that_hold_everywhere(sigma: float, rate: float, t: float) -> None:
    sampled, order = PoissonSampled(Gaussian(sigma), rate), 1 + t
    t = order - 1
    remove, add = sampled.log_moment(t), sampled.log_moment(t, "add")
    slack = 1 + 1e-11
    assert 0 < add <= remove * slack
    assert remove <= Gaussian(sigma).log_moment(t) * slack
    # M >= rate^(t+1) M_Gaussian, one term of the binomial expansion or, for any t, w >= rate e^v
    assert remove * slack >= (t + 1) * math.log(rate) + Gaussian(sigma).log_moment(t)
    assert add <= -t * math.log1p(-rate) * slack
    # M - 1 >= t KL >= 2 t TV^2 (Pinsker), in both directions
    distance = rate * math.erf(0.5 / sigma / math.sqrt(2))
    assert math.log1p(2 * t * distance**2) <= add * slack


def test_all_orders_at_once_equal_one_at_a_time() -> None:
    for sigma, rate in ((0.2, 0.3), (1.0, 0.01), (50.0, 1e-4)):
        mechanism = PoissonSampled(Gaussian(sigma), rate)
        orders = 1 + np.geomspace(1e-6, 1e5, 45)
        together = np.asarray(mechanism.rdp(orders))
        apart = np.array([mechanism.rdp(order) for order in orders])
        np.testing.assert_allclose(together, apart, rtol=1e-12)


def test_a_vertical_line_equals_its_points() -> None:
    mechanism = PoissonSampled(Gaussian(1.0), 0.01)
    line = 8.0 + 1j * np.linspace(-60, 60, 25)
    for direction in mechanism.directions:
        together = np.exp(np.asarray(mechanism.log_moment(line, direction)))
        apart = np.exp([mechanism.log_moment(z, direction) for z in line])
        np.testing.assert_allclose(together, apart, rtol=1e-12)


def test_small_costs_keep_their_digits() -> None:
    # To leading order K(z) = z (z+1) / 2 * rate^2 (exp(1/sigma^2) - 1): digits of K, not of 1 + K.
    sigma, rate = 5.0, 1e-9
    leading = rate**2 * math.expm1(1 / sigma**2) / 2
    for z in (0.5, 3.0, 2.0 + 5j, 1.0 + 80j):
        for direction in ("remove", "add"):
            got = PoissonSampled(Gaussian(sigma), rate).log_moment(z, direction)
            assert abs(got / (leading * z * (z + 1)) - 1) < 1e-6  # the next order is about rate * |z|


def test_rates_zero_and_one_are_nothing_and_the_mechanism_itself() -> None:
    inner = Gaussian(1.3)
    for direction in ("remove", "add"):
        assert PoissonSampled(inner, 0).log_moment(2 + 1j, direction) == 0
        assert PoissonSampled(inner, 1).log_moment(2 + 1j, direction) == inner.log_moment(2 + 1j)
    assert PoissonSampled(inner, 1).rdp([2.0, math.inf]).tolist() == inner.rdp([2.0, math.inf]).tolist()  # type: ignore[union-attr]


def test_the_sampled_discrete_gaussian_is_the_sampled_gaussian_for_large_noise() -> None:
    # The sum over the integers and the integral differ by exp(-2 pi^2 sigma^2).
    for z in (0.5, 20.0, 6 + 8j):
        for direction in ("remove", "add"):
            on_integers = PoissonSampled(DiscreteGaussian(7.0), 0.01).log_moment(z, direction)
            on_the_line = PoissonSampled(Gaussian(7.0), 0.01).log_moment(z, direction)
            assert on_integers == pytest.approx(on_the_line, rel=1e-12)


def test_a_batch_size_is_not_a_rate() -> None:
    with pytest.raises(ParameterError, match=r"sampling_rate must be in \[0, 1\], got 256. It is a probability"):
        PoissonSampled(Gaussian(1.0), 256)


@pytest.mark.parametrize(
    "inner", [ZCDP(0.1), RdpCurve([2.0], [1.0]), ApproximateDP(1.0, 1e-5), PoissonSampled(Gaussian(1.0), 0.1)], ids=repr
)
def test_mechanisms_without_a_symmetric_pair_cannot_be_sampled(inner: Any) -> None:
    with pytest.raises(UnsupportedError, match=type(inner).__name__):
        PoissonSampled(inner, 0.1)


@pytest.mark.parametrize("sigma", [0.1, 1.0, 700.0])
@pytest.mark.parametrize("rate", [1e-9, 0.01, 1 - 1e-9])
def test_huge_orders_approach_the_mechanism_itself(sigma: float, rate: float) -> None:
    sampled = PoissonSampled(Gaussian(sigma), rate)
    for order in (1e9, 1e13, 1e17, 1e60):
        # E[(rate e^v)^(t+1)] <= M <= M at rate one, and the two meet as the order grows
        upper, gap = Gaussian(sigma).rdp(order), -math.log(rate) * order / (order - 1)
        assert (upper - gap) * (1 - 1e-13) <= sampled.rdp(order) <= upper * (1 + 1e-13)
    assert 0 < sampled.log_moment(1e9, "add") <= -1e9 * math.log1p(-rate) * (1 + 1e-13)


def test_next_to_no_noise_is_bounded_by_the_mechanism_itself() -> None:
    assert PoissonSampled(Gaussian(1e-9), 0.1).rdp(2.0) == Gaussian(1e-9).rdp(2.0)


def test_what_cannot_be_resolved_is_not_answered() -> None:
    with pytest.raises(NumericalError, match="not resolved"):
        PoissonSampled(Gaussian(1e-9), 0.1).log_moment(2.0)
    with pytest.raises(NumericalError, match="not resolved"):
        PoissonSampled(Gaussian(1.0), 0.1).log_moment(1e13)
