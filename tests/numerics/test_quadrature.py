from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprounds.numerics.quadrature import grid_nodes, panel_rule, short_binary_below
from dprounds.numerics.theta import SELF_DUAL, theta


@given(step=st.floats(1e-280, 1e280))
@settings(deadline=None, max_examples=100)
def test_short_steps_are_just_below_and_have_exact_multiples(step: float) -> None:
    short = short_binary_below(step)
    assert step * (1 - 2.0**-8) <= short <= step
    assert (short * 1_234_567_891) / 1_234_567_891 == short
    assert math.frexp(short)[0] * 2**9 % 1 == 0


def test_grids_merge_windows_that_touch_and_keep_those_that_do_not() -> None:
    np.testing.assert_array_equal(grid_nodes(0.5, [(0.1, 1.0), (0.9, 1.6)]), [0.0, 0.5, 1.0, 1.5, 2.0])
    np.testing.assert_array_equal(grid_nodes(0.5, [(9.0, 9.4), (0.0, 0.4)]), [0.0, 0.5, 9.0, 9.5])
    nodes = grid_nodes(0.25, [(-1.0, 3.0), (3.1, 4.0)])
    np.testing.assert_array_equal(np.diff(nodes), 0.25)


def test_panels_integrate_polynomials_of_twice_their_points_exactly() -> None:
    nodes, weights = panel_rule(np.array([-1.0, 0.5, 2.0]), 5)
    for power in range(10):
        exact = (2.0 ** (power + 1) - (-1.0) ** (power + 1)) / (power + 1)
        assert weights @ nodes**power == pytest.approx(exact, rel=1e-14)
    assert weights @ nodes**10 != pytest.approx((2.0**11 + 1) / 11, rel=1e-9)


@pytest.mark.parametrize("sigma", [0.01, 0.2, 0.3989, 0.399, 1.0, 30.0])
def test_theta_is_the_sum_over_the_integers(sigma: float) -> None:
    reach = int(10 * sigma) + 2
    exact = math.fsum(math.exp(-0.5 * (k / sigma) ** 2) for k in range(-reach, reach + 1))
    assert theta(sigma) == pytest.approx(exact, rel=1e-15)
    assert pytest.approx(0.39894, abs=1e-5) == SELF_DUAL
