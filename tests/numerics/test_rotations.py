from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

from dprounds.accounting.law import LOG_MOMENT_ERROR
from dprounds.numerics import rotations as module
from dprounds.numerics.rotations import products, rotated_sums, rotations
from dprounds.numerics.rounding import UNIT_ROUNDOFF

REAL: NDArray[np.float64] = np.array([-3.0, -0.02, 1e-7, 0.4, 1.9])
TURNED: NDArray[np.complex128] = np.array([-0.7 + 0.1j, 1e-6 + 2e-7j, 0.05 + 0j, 1.3 + 0.2j, 2.5 + 0.9j])
WEIGHTS: NDArray[np.float64] = np.array([0.3, 2.0, 0.9, 0.4, 0.1])
ROWS = (0.7 * np.arange(90.0), 0.7 * np.arange(30.0, 95.0), 1e-5 * np.arange(40.0), np.geomspace(0.01, 60.0, 50))


@pytest.mark.parametrize("x", [REAL, TURNED], ids=["real", "complex"])
@pytest.mark.parametrize("s", ROWS, ids=["from zero", "from the middle", "hardly turned", "not even"])
def test_rotations_are_within_a_few_units_of_how_far_they_turn(
    x: NDArray[np.complex128], s: NDArray[np.float64]
) -> None:
    turned, bent = rotations(x, WEIGHTS, s)
    np.testing.assert_allclose(rotated_sums(x, WEIGHTS, s), bent, rtol=1e-14)
    with mp.workdps(40):
        for i, height in enumerate(s.tolist()):
            angles = [mp.mpc(0, 1) * mp.mpf(height) * mp.mpc(complex(one)) for one in x]
            exact = [mp.expm1(angle) for angle in angles]
            sizes = [abs(angle) for angle in angles]  # a phase rounds by its size
            errors = [abs(mp.mpc(complex(one)) - two) for one, two in zip(turned[i], exact, strict=True)]
            assert all(error <= 20 * UNIT_ROUNDOFF * size for error, size in zip(errors, sizes, strict=True))
            total = mp.fsum(float(w) * (e - a) for w, e, a in zip(WEIGHTS, exact, angles, strict=True))
            size = mp.fsum(float(w) * min(abs(a) ** 2 / 2, abs(a)) for w, a in zip(WEIGHTS, angles, strict=True))
            assert abs(mp.mpc(complex(bent[i])) - total) <= 20 * UNIT_ROUNDOFF * size


def test_a_product_is_made_of_parts_that_stay_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = np.outer([1.0, 2.0, 3.0], TURNED), np.outer([0.5, 1j], TURNED)
    whole = products(left, right)
    monkeypatch.setattr(module, "MOST_IN_ONE_THREAD", 12)
    np.testing.assert_allclose(products(left, right), whole, rtol=1e-15)
    np.testing.assert_allclose(whole, left @ right.T, rtol=1e-15)


@pytest.mark.parametrize("term", [0.1, 1.0 / 3.0, 0.9137])
def test_a_million_equal_products_do_not_round_alike(monkeypatch: pytest.MonkeyPatch, term: float) -> None:
    """Their sum errs by less than a fifth of what a line allows for, in however many threads it is made."""
    monkeypatch.setattr(module, "MOST_IN_ONE_THREAD", 2**40)
    number = 2**20
    found = products(np.full((2, number), term + 0j), np.ones((2, number), dtype=np.complex128))
    assert (np.abs(found / number - term) <= 0.2 * LOG_MOMENT_ERROR * term).all()
