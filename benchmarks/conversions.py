"""Conversions: triples a second, and against the peers on the same triples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import row, seconds
from dprounds import delta_from_rdp, epsilon_from_rdp, rdp_from_dp

TRIPLES = 100_000
# The peers convert one triple a call: enough of them for a stable rate.
PEER_TRIPLES = 2_000


def triples() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Orders, rdps and deltas as accountants meet them."""
    dice = np.random.default_rng(1)
    order = 1.0 + 10.0 ** dice.uniform(-1.5, 2.5, TRIPLES)
    rdp = 10.0 ** dice.uniform(-3.0, 1.0, TRIPLES)
    delta = 10.0 ** dice.uniform(-12.0, -2.0, TRIPLES)
    return order, rdp, delta


def main() -> None:
    order, rdp, delta = triples()
    print(f"Conversions, {TRIPLES:,} triples in one call, one core")
    rate = {}
    for method, target in (("moments", 5e6), ("balle", 5e6), ("closed-form", 5e6), ("optimal", 2e5)):
        took = seconds(lambda m=method: epsilon_from_rdp(rdp, order=order, delta=delta, method=m))  # type: ignore[misc]  # mypy cannot type a default
        rate[method] = TRIPLES / took
        row(f"epsilon_from_rdp, {method}", f"{rate[method]:,.0f}/s", f"≥ {target:,.0f}/s", rate[method] >= target)
    epsilon = np.asarray(epsilon_from_rdp(rdp, order=order, delta=delta))
    for name, call in (
        ("delta_from_rdp, optimal", lambda: delta_from_rdp(rdp, order=order, epsilon=epsilon)),
        ("rdp_from_dp, optimal", lambda: rdp_from_dp(epsilon, order=order, delta=delta)),
    ):
        per_second = TRIPLES / seconds(call)
        row(name, f"{per_second:,.0f}/s", "≥ 200,000/s", per_second >= 2e5)
    few = list(zip(order[:PEER_TRIPLES], rdp[:PEER_TRIPLES], delta[:PEER_TRIPLES], strict=True))
    ours = np.asarray(epsilon_from_rdp(rdp[:PEER_TRIPLES], order=order[:PEER_TRIPLES], delta=delta[:PEER_TRIPLES]))
    try:
        from dp_accounting.rdp import compute_epsilon
    except ImportError:
        row("dp-accounting", "not installed")
    else:
        took = seconds(lambda: [compute_epsilon([a], [g], d) for a, g, d in few], repeats=2)
        theirs = np.array([compute_epsilon([a], [g], d)[0] for a, g, d in few])
        _compare("dp-accounting compute_epsilon", took, theirs, ours, rate["optimal"])
    try:
        from opacus.accountants.analysis.rdp import get_privacy_spent
    except ImportError:
        row("Opacus", "not installed")
    else:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of the optimal order being the last, when there is one order
            took = seconds(lambda: [get_privacy_spent(orders=[a], rdp=[g], delta=d) for a, g, d in few], repeats=2)
            theirs = np.array([get_privacy_spent(orders=[a], rdp=[g], delta=d)[0] for a, g, d in few])
        _compare("Opacus get_privacy_spent", took, theirs, ours, rate["optimal"])


def _compare(name: str, took: float, theirs: NDArray[np.float64], ours: NDArray[np.float64], our_rate: float) -> None:
    rate = PEER_TRIPLES / took
    row(name, f"{rate:,.0f}/s", f"optimal is {our_rate / rate:.1f} times as fast")
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.where(ours > 0, theirs / ours - 1.0, np.where(theirs > 0, np.inf, 0.0))
    row("  its epsilon above the optimum: median, 90 %", f"{np.median(excess):.1%}, {np.quantile(excess, 0.9):.1%}")
    row("  triples with an epsilon below zero", str(int((theirs < 0).sum())), "0")
    below = np.maximum(theirs, 0.0) < ours * (1 - 1e-12)
    row("  triples below the optimum, so not proven", str(int(below.sum())), "0")
