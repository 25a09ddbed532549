"""Against the Rényi accountants of dp-accounting and Opacus, with the same mechanism: never looser than either.

Both take the infimum over a fixed list of orders and convert by Balle's bound.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from dprounds import Gaussian, PoissonSampled, max_rounds

RUNS = [
    (1.0, 20.0, 500, 1e-5),
    (1.0, 1000.0, 1, 1e-5),
    (1.0, 20.0, 1, 0.01),
    (0.01, 1.0, 10_000, 1e-5),
    (256 / 60_000, 1.1, 14_062, 1e-5),
    (0.001, 4.0, 100_000, 1e-5),
    (0.0034, 0.7, 20_000, 1e-6),
    (0.1, 5.0, 100, 1e-8),
    (0.5, 2.0, 10, 1e-3),
    (1e-4, 0.5, 1000, 1e-7),
]
# Their series for orders that are not integers is cut off at a relative error of this size.
THEIR_ERROR = 1e-6


def ours(rate: float, sigma: float, rounds: int, delta: float) -> float:
    return (PoissonSampled(Gaussian(sigma), rate) * rounds).epsilon(delta=delta, method="optimal")


@pytest.fixture(scope="module")
def dp_accounting() -> Any:
    return pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")


@pytest.fixture(scope="module")
def opacus_rdp() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyTorch deprecates is not ours to mend
        pytest.importorskip("opacus", reason="Opacus is not installed")
        from opacus.accountants.analysis import rdp
    return rdp


def their_dp_accounting(library: Any, rate: float, sigma: float, rounds: int, delta: float) -> float:
    accountant = library.rdp.RdpAccountant()
    event = library.PoissonSampledDpEvent(rate, library.GaussianDpEvent(sigma))
    accountant.compose(library.SelfComposedDpEvent(event, rounds))
    return float(accountant.get_epsilon(delta))


def their_opacus(rdp: Any, rate: float, sigma: float, rounds: int, delta: float) -> float:
    orders = [1 + x / 10.0 for x in range(1, 100)] + list(range(12, 64))  # its default
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns when its list ends before the best order
        spent = rdp.compute_rdp(q=rate, noise_multiplier=sigma, steps=rounds, orders=orders)
        return float(rdp.get_privacy_spent(orders=orders, rdp=spent, delta=delta)[0])


@pytest.mark.parametrize("run", RUNS)
def test_never_looser_than_dp_accounting(dp_accounting: Any, run: tuple[float, float, int, float]) -> None:
    assert ours(*run) <= their_dp_accounting(dp_accounting, *run) * (1 + THEIR_ERROR)


@pytest.mark.parametrize("run", RUNS)
def test_never_looser_than_opacus(opacus_rdp: Any, run: tuple[float, float, int, float]) -> None:
    assert ours(*run) <= their_opacus(opacus_rdp, *run) * (1 + THEIR_ERROR)


def test_the_same_curve_as_dp_accounting_at_its_orders(dp_accounting: Any) -> None:
    """Integer orders, where its formula is a finite sum."""
    orders = [2, 3, 5, 8, 16, 32, 64]
    for rate, sigma, _, _ in RUNS[3:]:
        accountant = dp_accounting.rdp.RdpAccountant(orders)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma)))
        theirs = np.asarray(accountant._rdp)
        assert np.asarray(PoissonSampled(Gaussian(sigma), rate).rdp(orders)) == pytest.approx(theirs, rel=1e-9)


def test_more_rounds_than_by_bisection_over_dp_accounting(dp_accounting: Any) -> None:
    rate, sigma, epsilon, delta = 0.01, 1.0, 3.0, 1e-5
    low, high = 0, 10_000
    while high - low > 1:
        middle = (low + high) // 2
        fits = their_dp_accounting(dp_accounting, rate, sigma, middle, delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    step = PoissonSampled(Gaussian(sigma), rate)
    assert max_rounds(step, epsilon=epsilon, delta=delta, method="optimal") >= low
