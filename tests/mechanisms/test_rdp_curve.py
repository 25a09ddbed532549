from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprounds.errors import ParameterError
from dprounds.mechanisms import ZCDP, Gaussian, Laplace, Mechanism, PoissonSampled, RandomizedResponse, RdpCurve

TRUTHS: list[Mechanism] = [
    Gaussian(1.5),
    Laplace(0.7),
    RandomizedResponse(2.0),
    PoissonSampled(Gaussian(0.8), 0.01),
]


@pytest.mark.parametrize("truth", TRUTHS, ids=repr)
@given(
    known=st.lists(st.floats(1.001, 200.0), min_size=1, max_size=6, unique=True),
    order=st.floats(1.0001, 250.0),
)
@settings(deadline=None, max_examples=40)
def test_a_table_never_claims_less_than_the_curve_it_was_read_from(
    truth: Mechanism, known: list[float], order: float
) -> None:
    orders = sorted(known)
    curve = RdpCurve(orders, np.asarray(truth.rdp(orders)).tolist())
    assert curve.rdp(order) >= truth.log_moment(order - 1.0) / (order - 1.0)
    capped = RdpCurve([*orders, math.inf], [*np.asarray(truth.rdp(orders)).tolist(), truth.rdp(math.inf)])
    assert truth.log_moment(order - 1.0) / (order - 1.0) <= capped.rdp(order) <= curve.rdp(order)


def test_a_table_returns_its_own_entries() -> None:
    curve = RdpCurve([1.5, 2.0, 64.0], [0.1, 0.3, 2.0])
    np.testing.assert_allclose(curve.rdp([1.5, 2.0, 64.0]), [0.1, 0.3, 2.0], rtol=3e-14)


def test_an_entry_above_the_chord_of_others_is_not_what_the_curve_says() -> None:
    # K is 0.1, 30 and 1e6 at t = 1, 3 and 1e5, and convex: at 3 it is no higher than the chord of the other two
    curve = RdpCurve([2.0, 4.0, 1e5 + 1.0], [0.1, 10.0, 10.0])
    assert curve.rdp(4.0) == pytest.approx((0.1 + 2.0 * (1e6 - 0.1) / (1e5 - 1.0)) / 3.0, rel=1e-12)
    assert RdpCurve([2.0, 3.0], [5.0, 5.0]).rdp([1.5, 2.0, 3.0]) == pytest.approx([5.0, 5.0, 5.0], rel=1e-12)
    # and so the best order is found however far it is
    assert (curve * 1).epsilon(delta=1e-5, method="balle") < 10.001


def test_two_point_mixtures_attain_the_chord() -> None:
    # Where (order - 1) rdp is itself linear between two orders no smaller bound is true: a loss that is always 1 has
    # (order - 1) rdp = order - 1 and the chord of any two entries is the curve.
    curve = RdpCurve([2.0, 10.0], [1.0, 1.0])
    np.testing.assert_allclose(curve.rdp([2.0, 3.0, 7.7, 10.0]), 1.0, rtol=3e-14)


def test_above_the_last_order_nothing_is_known() -> None:
    curve = RdpCurve([2.0, 8.0], [0.1, 0.4])
    assert curve.rdp(8.0000001) == math.inf
    assert curve.rdp(math.inf) == math.inf
    assert curve.infinite_mass == 0.0


def test_entries_of_infinity_bound_nothing() -> None:
    curve = RdpCurve([2.0, 8.0], [0.1, math.inf])
    assert curve.rdp(2.0) == pytest.approx(0.1)
    assert curve.rdp(2.1) == math.inf
    assert RdpCurve([2.0], [math.inf]).infinite_mass == 1.0
    assert RdpCurve([2.0], [math.inf]).rdp(1.5) == math.inf


def test_a_table_that_falls_is_refused_with_the_way_to_mend_it() -> None:
    with pytest.raises(ParameterError, match=r"minimum\.accumulate"):
        RdpCurve([2.0, 3.0], [0.5, 0.4])
    mended = np.minimum.accumulate([0.5, 0.4][::-1])[::-1]
    assert RdpCurve([2.0, 3.0], mended.tolist()).rdp(2.0) == pytest.approx(0.4)
    assert RdpCurve([2.0, 3.0], [0.4, 0.4 * (1 - 1e-15)]).rdp(2.0) >= 0.4


def test_a_zero_table_costs_nothing_where_it_speaks() -> None:
    assert RdpCurve([2.0, 4.0], [0.0, 0.0]).rdp(3.0) == 0.0
    assert RdpCurve([2.0, 4.0], [0.0, 0.0]).rdp(5.0) == math.inf
    assert RdpCurve([2.0, math.inf], [0.0, 0.0]).rdp(5.0) == 0.0


def test_zcdp_is_a_line_through_the_orders() -> None:
    np.testing.assert_allclose(ZCDP(0.25).rdp([1.5, 2.0, 80.0]), [0.375, 0.5, 20.0], rtol=3e-14)
    assert ZCDP(0.25).rdp(math.inf) == math.inf
    assert ZCDP(0.5 / 1.5**2).rdp(7.0) == pytest.approx(Gaussian(1.5).rdp(7.0), rel=3e-14)
