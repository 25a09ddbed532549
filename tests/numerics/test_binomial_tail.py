"""Bounds of binomial tails hold, and are close: against sums of many digits, from the definition."""

from __future__ import annotations

import pytest
from mpmath import mp, mpf

from dprounds.numerics import binomial_tail as numerics
from dprounds.numerics.binomial_tail import binomial_masses, binomial_tail

DIGITS = 40
CASES = [
    *[(0, 0.5, 1), (1, 0.5, 1), (1, 0.3, 2), (3, 0.5, 1), (3, 0.5, 3), (3, 0.5, 4), (3, 0.5, 5), (4, 0.9, 2)],
    *[(100, 0.999, 100), (100, 0.3, 1), (100, 1e-200, 2), (60_000, 1e-7, 3), (1_000, 0.05, 20), (1_000, 0.05, 80)],
    *[(59_999, 256 / 60_000, 300), (60_000, 256 / 60_000, 256), (60_000, 256 / 60_000, 500), (60_000, 0.5, 30_500)],
    # terms that vanish below the doubles, and a million terms
    *[(1_000, 1e-3, 150), (1_000, 1e-3, 250), (10**9, 1e-6, 1_200), (4 * 10**8, 0.5, 2 * 10**8 + 10**5)],
]


def exact(trials: int, chance: float, least: int) -> tuple[mpf, mpf, mpf | None]:
    """P(N >= least), P(N = least - 1), and E[1 / (N + 1)] given the former."""
    with mp.workdps(DIGITS):
        q = mpf(chance)

        def mass(m: int) -> mpf:
            return mp.binomial(trials, m) * q**m * (1 - q) ** (trials - m) if 0 <= m <= trials else mpf(0)

        term, total, mean = mass(least), mpf(0), mpf(0)
        for m in range(least, trials + 1):
            total, mean = total + term, mean + term / (m + 1)
            term *= (trials - m) * q / ((m + 1) * (1 - q))
            if m > trials * chance and term < total * mpf(10) ** -(DIGITS - 5):
                break
        return min(total, mpf(1)), mass(least - 1), mean / total if total else None


@pytest.mark.parametrize(("trials", "chance", "least"), CASES)
def test_bounds_hold_and_are_close(trials: int, chance: float, least: int) -> None:
    found, (tail, before, mean) = binomial_tail(trials, chance, least), exact(trials, chance, least)
    assert mpf(found.lower) <= tail <= mpf(found.upper)
    assert before <= mpf(found.before)
    assert found.upper <= tail * (1 + mpf("1e-8")) + mpf("1e-299")
    assert tail < 1e-290 or found.lower >= tail * (1 - mpf("1e-8"))
    assert found.before <= before * (1 + mpf("1e-8")) + mpf("1e-299")
    if mean is not None:
        assert mean <= mpf(found.reciprocal)
        assert tail < 1e-270 or found.reciprocal <= mean * (1 + mpf("1e-8"))


@pytest.mark.parametrize(("trials", "chance"), [(40, 0.3), (300, 0.9)])
def test_terms_that_are_left_out_are_bounded(trials: int, chance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numerics, "FEW", 1)
    monkeypatch.setattr(numerics, "REACH", 1.0)
    for least in range(1, trials + 2):
        found, (tail, before, mean) = binomial_tail.__wrapped__(trials, chance, least), exact(trials, chance, least)
        assert mpf(found.lower) <= tail <= mpf(found.upper)
        assert before <= mpf(found.before)
        assert mean is None or mean <= mpf(found.reciprocal)


def test_a_chance_of_one_and_of_none() -> None:
    assert binomial_tail(5, 1.0, 5)[:3] == (1.0, 1.0, 0.0)
    assert 1 / 6 <= binomial_tail(5, 1.0, 5).reciprocal <= (1 + 1e-15) / 6
    assert binomial_tail(5, 1.0, 6)[:2] == (0.0, 0.0)
    assert binomial_tail(5, 1.0, 6).before >= 1.0
    assert binomial_tail(5, 0.0, 1)[:3] == (0.0, 0.0, 1.0)
    assert binomial_tail(5, 0.0, 2)[:3] == (0.0, 0.0, 0.0)


def test_masses_are_off_by_less_than_they_say() -> None:
    first, masses, error = binomial_masses(50, 0.3)
    with mp.workdps(DIGITS):
        for m, mass in enumerate(masses.tolist(), first):
            truth = mp.binomial(50, m) * mpf(0.3) ** m * (1 - mpf(0.3)) ** (50 - m)
            assert abs(mpf(mass) - truth) <= error * truth
    assert (first, masses.size) == (0, 51)
