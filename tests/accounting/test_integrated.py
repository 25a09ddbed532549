"""The integral of a profile, and what it proves of delta: never below the truth, and close to it."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dprounds import FixedSizeSampled, Gaussian, PoissonSampled
from dprounds.accounting.crude import crude_integrals
from dprounds.accounting.integrated import IntegratedProfile, _Place, integrals_of_chords, largest_ratio
from dprounds.accounting.profile import Profile
from dprounds.accounting.sums import WithinDoubles
from dprounds.accounting.ways.by_levels import ByLevels
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
    assert crude_integrals(law, np.array([1e-3, 0.3, 1.0]), np.array([4500.0]))[0] >= 45_000 - 4500 - 1


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
        found = integrals_of_chords(x, deltas, 1e-9)
        total = Fraction(1e-9)
        for i in range(198, -1, -1):
            h = Fraction(float(x[i + 1])) - Fraction(float(x[i]))
            later = h / 2 - h * h / 12
            total += (h - later) * Fraction(float(deltas[i])) + later * Fraction(float(deltas[i + 1]))
            assert Fraction(float(found[i])) >= total


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("near", [0.0, 0.3, 2.0])
def test_integrals_of_a_normal_profile_are_not_below_them_and_close(sigma: float, near: float) -> None:
    """Below 0 too, and far from the place that the line was made for."""
    place = _Place(Gaussian(sigma).as_run().law(), near)
    for at in np.linspace(-2.0, 2.0, 5):
        x = near + float(at) / place.rate
        found = float(place.integrals(np.array([x]))[0])
        with mp.workdps(30):
            exact = reference.normal_integral(1.0 / sigma, x)
            assert mp.mpf(found) >= exact
            assert found <= (1 + 1e-7) * exact or abs(at) > 1


def test_integrals_by_chords_are_not_below_those_of_a_line_and_close() -> None:
    """Of rounds that levels tell, and a lattice as well."""
    law = PoissonSampled(Gaussian(1.0), 0.001).law() * 100
    by_line, by_chords = _Place(law, 1.0), _Place(law, 1.0)
    with WithinDoubles():
        by_chords._sum = ByLevels(law).sums(1.0).above
    x, found = by_chords._by_chords
    near = x < 1.0 + 2.0 / by_line.rate
    assert (found[near] >= by_line.integrals(x[near]) * (1.0 - 1e-6)).all()
    assert (found[near] <= by_line.integrals(x[near]) * 1.01).all()


def test_what_is_beyond_the_last_chord_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a few values of K, where no lattice tells it."""
    monkeypatch.setattr(_Place, "_beyond_chords", lambda *_: None)
    law = PoissonSampled(Gaussian(1.0), 0.001).law() * 100
    place = _Place(law, 1.0)
    with WithinDoubles():
        place._sum = ByLevels(law).sums(1.0).above
    x, found = place._by_chords
    assert x[-1] > 1.0 + 3.0 / place.rate
    assert 0.0 < found[-1] < found[-2]


def test_a_place_that_is_far_off_is_left() -> None:
    """The epsilon that is given may be far below the law's own, as that of a weak attack is."""
    profile = IntegratedProfile((PoissonSampled(Gaussian(1.0), 0.01) * 2000).laws)
    assert profile.epsilon(1e-6, near=0.5) == pytest.approx(profile.epsilon(1e-6, near=3.0), rel=1e-4)


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


@pytest.mark.parametrize(("noise", "most"), [(1.0, 1.2), (1.1, 1.2), (1.8, 1.05)])
def test_rounds_that_hardly_ever_hold_the_record_are_bounded_by_integrals(noise: float, most: float) -> None:
    """One epoch of a thousand million records: levels stand where no moment is within doubles."""
    found = (FixedSizeSampled(Gaussian(noise), 16, 10**9) * (10**9 // 16)).guarantee(delta=1e-10)
    assert found.method == "bound"
    assert 0 < found.lower <= found.upper <= most * found.lower
