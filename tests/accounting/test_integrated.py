"""The integral of a profile, and what it proves of delta: never below the truth, and close to it."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dprounds import FixedSizeSampled, Gaussian, PoissonSampled
from dprounds.accounting.crude import crude_integral
from dprounds.accounting.integrated import IntegratedProfile, _integrals, integrals_of_chords, largest_ratio
from dprounds.accounting.profile import Profile
from tests.references import integrated as reference

SHIFTS = np.array([1e-6, 1e-4, 0.01, 0.3, 1.0, 3.0, 30.0, 1e3, 1e6])


def test_the_largest_ratio_is_not_below_it_and_close() -> None:
    with mp.workdps(40):
        for s, found in zip(SHIFTS.tolist(), largest_ratio(SHIFTS), strict=True):
            exact = reference.largest_ratio(s)
            assert mp.mpf(float(found)) >= exact
            assert float(found) <= exact * (1 + mp.mpf("1e-5"))


def test_one_value_of_k_bounds_the_integral_where_delta_is_one() -> None:
    """The bound of delta there is far above one, and so is what it says of the integral."""
    law = Gaussian(1 / 300).law() * 1
    # the integral of (1 - e^(x - L))_+ over x from 4500 on is E[(L - 4500)_+] less one at most, L normal about 45000
    assert crude_integral(law, 4500.0) >= 45_000 - 4500 - 1


def test_a_root_that_is_too_large_tells_no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ratio would be below the largest one."""
    monkeypatch.setattr("dprounds.accounting.integrated.SMALLER", 1.0 + 1e-6)
    assert (largest_ratio(SHIFTS) == np.inf).all()


def test_a_sum_of_chords_is_not_below_that_of_its_terms() -> None:
    """In exact fractions: what the rounding of a few hundred terms may take away was added before."""
    random = np.random.default_rng(7)
    for _ in range(40):
        x = np.cumsum(random.random(200)) * 0.01
        deltas = np.sort(random.random(200))[::-1] * 1e-5
        _, found = integrals_of_chords(np.empty(0), x, deltas, 1e-9)
        total = Fraction(1e-9)
        for i in range(198, -1, -1):
            h = Fraction(float(x[i + 1])) - Fraction(float(x[i]))
            later = h / 2 - h * h / 12
            total += (h - later) * Fraction(float(deltas[i])) + later * Fraction(float(deltas[i + 1]))
            assert Fraction(float(found[i])) >= total


def test_next_to_zero_a_chord_below_it_is_not_below_what_it_is() -> None:
    """Its two terms are a hundred million times as large as their sum, and so is their rounding."""
    below = -np.geomspace(1e-9, 1e-7, 100)
    _, found = integrals_of_chords(below, np.array([0.0, 1e-9]), np.array([1e-15, 0.0]), 0.0)
    with mp.workdps(40):
        later = mp.mpf(1e-9) / 2 - mp.mpf(1e-9) ** 2 / 12
        above = (mp.mpf(1e-9) - later) * mp.mpf(1e-15)
        for place, integral in zip(below.tolist(), found, strict=False):
            exact = -mp.mpf(place) + mp.expm1(mp.mpf(place)) * (1 - mp.mpf(1e-15)) + above
            assert mp.mpf(float(integral)) >= exact


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("near", [0.0, 0.3, 2.0])
def test_integrals_of_a_normal_profile_are_not_below_them_and_close(sigma: float, near: float) -> None:
    """Below 0 too, where one chord bounds all of the profile."""
    law = Gaussian(sigma).as_run().law()
    x, found = _integrals(law, np.array([near]))
    with mp.workdps(30):
        for i in range(0, x.size, 7):
            exact = reference.normal_integral(1.0 / sigma, float(x[i]))
            assert mp.mpf(float(found[i])) >= exact
            if 0 <= x[i] <= near:
                assert float(found[i]) <= 1.02 * exact


@pytest.mark.parametrize(("distance", "epsilon"), [(0.25, 0.0), (0.25, 1.0), (1.0, 0.1), (1.0, 4.0), (3.0, 12.0)])
def test_delta_and_epsilon_are_those_of_the_best_shift(distance: float, epsilon: float) -> None:
    """For two normal laws, whose integral is known: not below the least bound of any shift, and close to it."""
    profile = IntegratedProfile(Gaussian(1.0 / distance).as_run().laws)
    found = float(profile.deltas(np.array([epsilon]))[0])
    back = profile.epsilon(found, near=epsilon)
    with mp.workdps(25):
        shifts = [float(distance * 2.0**k) for k in np.linspace(-3.0, 2.0, 46).tolist()]
        bounds = [reference.largest_ratio(s) * reference.normal_integral(distance, epsilon - s) for s in shifts]
        assert found >= min(bounds) * (1 - mp.mpf("2e-3"))  # so many of the shifts are looked at here
        if epsilon > distance:  # else one chord bounds all of the profile below 0
            assert found <= min(bounds) * (1 + mp.mpf("1e-2"))
    assert abs(back - epsilon) <= 2e-3 * distance
    assert found >= Profile(profile.laws).delta(epsilon).lower


def test_a_mass_at_infinity_or_a_profile_that_is_unknown_proves_nothing() -> None:
    run = FixedSizeSampled(Gaussian(2.0), 100, 10_000) * 100
    assert run.account.integrals is not None
    assert (PoissonSampled(Gaussian(2.0), 0.01) * 100).account.integrals is None
    assert (FixedSizeSampled(Gaussian(2.0), 6, 10, group_size=5) * 100).account.integrals is None  # in every batch
    assert (FixedSizeSampled(Gaussian(2.0), 100, 100) * 100).account.integrals is None
