from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprounds.numerics.complex_plane import exp_minus_tangent_at, log1p_at

sizes = st.floats(-30.0, 1.0).map(lambda x: 10.0**x)
angles = st.floats(-3.1, 3.1)


@given(size=sizes, angle=angles)
@settings(deadline=None, max_examples=200)
def test_both_keep_small_error_relative_to_the_modulus(size: float, angle: float) -> None:
    z = complex(size * np.exp(1j * angle))
    with mp.workdps(80):
        tangent, logarithm = mp.exp(mp.mpc(z)) - 1 - mp.mpc(z), mp.log(1 + mp.mpc(z))
        got = complex(exp_minus_tangent_at(np.array([z]))[0])
        # For |z| >= 1/2 the difference is that of numbers up to exp(10); its own zeros are at |z| > 7.
        assert abs(mp.mpc(got) - tangent) <= 4e-15 * max(abs(tangent), abs(mp.mpc(z)) if size > 1 else 0)
        got = complex(log1p_at(np.array([z]))[0])
        # Near z = -1 the logarithm is large and 1 + z has lost what z had not.
        assert abs(mp.mpc(got) - logarithm) <= 4e-15 * abs(logarithm) / min(1, abs(1 + mp.mpc(z)))


def test_real_stays_real() -> None:
    x = np.array([-0.3, 1e-12, 2.0])
    assert exp_minus_tangent_at(x).dtype == log1p_at(x).dtype == np.float64
    np.testing.assert_allclose(exp_minus_tangent_at(x)[1], 5e-25, rtol=1e-11)


def test_the_logarithm_of_a_zero_is_minus_infinity() -> None:
    assert log1p_at(np.array([-1.0 + 0j]))[0].real == -np.inf


@pytest.mark.parametrize("x", [-0.5, -0.4999999, 0.4999999, 0.5])
def test_no_jump_where_the_series_ends(x: float) -> None:
    exact = float(mp.exp(mp.mpf(x)) - 1 - mp.mpf(x))
    assert exp_minus_tangent_at(np.array([x]))[0] == pytest.approx(exact, rel=2e-15)
