"""The sampled Gaussian's Rényi curve and planning by it, against the peers in the same run."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from benchmarks.timing import row, seconds
from dprounds import Gaussian, PoissonSampled, max_rounds

RATE, SIGMA, ROUNDS, DELTA, EPSILON = 256 / 60_000, 1.1, 14_062, 1e-5, 3.0
ORDERS = np.linspace(1.5, 64.0, 100)


def main() -> None:
    step = PoissonSampled(Gaussian(SIGMA), RATE)
    print(f"Sampled Gaussian, rate {RATE:.5f}, noise {SIGMA}, {ORDERS.size} real orders at once")
    curve = seconds(lambda: step.rdp(ORDERS))
    epsilon = seconds(lambda: (step * ROUNDS).epsilon(delta=DELTA, method="optimal"))
    rounds = seconds(lambda: max_rounds(step, epsilon=EPSILON, delta=DELTA, method="optimal"))
    row("rdp of 100 orders", f"{1e3 * curve:.2f} ms")
    row("epsilon of the run, optimal", f"{1e3 * epsilon:.2f} ms")
    row("max_rounds, optimal", f"{1e3 * rounds:.2f} ms")
    peers = {"dp-accounting": _dp_accounting, "Opacus": _opacus}
    for name, peer in peers.items():
        try:
            their_curve, their_epsilon = peer()
        except ImportError:
            row(name, "not installed")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they warn about the end of their lists of orders
            took = seconds(their_curve, repeats=3)
            planning = seconds(lambda ask=their_epsilon: _bisect(ask), repeats=1)  # type: ignore[misc]  # mypy cannot type a default
        row(f"{name}: rdp of 100 orders", f"{1e3 * took:.2f} ms", f"we take 1/{took / curve:.0f}", took > curve)
        row(
            f"{name}: rounds by bisection over its epsilon",
            f"{1e3 * planning:.0f} ms",
            f"we take 1/{planning / rounds:.0f}",
            planning > rounds,
        )


def _bisect(epsilon_of: Callable[[int], float]) -> int:
    low, high = 0, 1 << 16
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon_of(middle) <= EPSILON else (low, middle)
    return low


def _dp_accounting() -> tuple[Callable[[], object], Callable[[int], float]]:
    import dp_accounting

    event = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(SIGMA))

    def epsilon_of(rounds: int) -> float:
        accountant = dp_accounting.rdp.RdpAccountant()
        accountant.compose(event, rounds)
        return float(accountant.get_epsilon(DELTA))

    return lambda: dp_accounting.rdp.RdpAccountant(ORDERS).compose(event), epsilon_of


def _opacus() -> tuple[Callable[[], object], Callable[[int], float]]:
    from opacus.accountants.analysis import rdp

    default = [1 + x / 10.0 for x in range(1, 100)] + list(range(12, 64))

    def epsilon_of(rounds: int) -> float:
        spent = rdp.compute_rdp(q=RATE, noise_multiplier=SIGMA, steps=rounds, orders=default)
        return float(rdp.get_privacy_spent(orders=default, rdp=spent, delta=DELTA)[0])

    return lambda: rdp.compute_rdp(q=RATE, noise_multiplier=SIGMA, steps=1, orders=ORDERS), epsilon_of
