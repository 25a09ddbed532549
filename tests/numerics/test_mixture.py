from __future__ import annotations

import mpmath as mp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dprounds.numerics.mixture import log_mixture, log_mixture_inverse, log_mixture_ulps, mixture_share

tiny_rates = st.floats(-323.0, -12.0).map(lambda x: 10.0**x)
rates = st.one_of(st.floats(-12.0, -0.01).map(lambda x: 10.0**x), st.floats(-12.0, -1.0).map(lambda x: 1.0 - 10.0**x))
exponents = st.one_of(st.floats(-1e4, 1e7), st.floats(300.0, 900.0), st.floats(-30.0, 30.0), st.floats(-1e-8, 1e-8))


@given(rate=st.one_of(rates, tiny_rates), v=exponents)
@settings(deadline=None, max_examples=400)
def test_the_logarithm_of_a_mixture_is_within_its_stated_ulps(rate: float, v: float) -> None:
    array = np.array([v])
    got = log_mixture(rate, array)
    with mp.workdps(400):
        exact = mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(v)))
        bound = float(log_mixture_ulps(rate, array, got)[0]) * 2.0**-53
        # Products with a subnormal exponent may round to zero.
        assert abs(mp.mpf(float(got[0])) - exact) <= bound * abs(exact) + mp.mpf(5e-324)


@given(rate=rates, v=st.floats(-8.0, 300.0))
@settings(deadline=None, max_examples=200)
def test_the_inverse_returns(rate: float, v: float) -> None:
    again = log_mixture_inverse(rate, log_mixture(rate, np.array([v])))
    # Where the mixture is nearly constant the inverse is as ill-conditioned as one over the share.
    share = float(mixture_share(rate, np.array([v]))[0])
    assert abs(again[0] - v) <= 1e-13 * (1 + abs(v)) / share


def test_nothing_reaches_below_the_infimum() -> None:
    assert log_mixture_inverse(0.5, np.array([-0.7]))[0] == -np.inf


def test_the_share_is_the_slope() -> None:
    v = np.linspace(-5, 40, 50)
    slope = (log_mixture(0.01, v + 1e-5) - log_mixture(0.01, v - 1e-5)) / 2e-5
    np.testing.assert_allclose(mixture_share(0.01, v), slope, rtol=1e-5)
