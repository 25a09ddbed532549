"""The adapters and the accountants that they replace: the price of a step, of an epsilon and of a calibration."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from benchmarks.timing import row, seconds

RATE, SIGMA, ROUNDS, DELTA = 256 / 60_000, 1.1, 14_062, 1e-5
STEPS = 20_000
SCHEDULE = [(SIGMA * 0.98**epoch, RATE, 234) for epoch in range(20)]


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyTorch deprecates and Opacus advises is not ours to mend
        try:
            _opacus()
        except ImportError:
            row("Opacus", "not installed")
        try:
            _dp_accounting()
        except ImportError:
            row("dp-accounting", "not installed")


def _opacus() -> None:
    from opacus.accountants import PRVAccountant, RDPAccountant

    from dprounds.integrations.opacus import ExactAccountant

    print(f"In Opacus, rate {RATE:.5f}, noise {SIGMA}, delta {DELTA:g}")

    def train(kind: Callable[[], Any], *, rise: float = 0.0) -> None:
        accountant = kind()
        for i in range(STEPS):
            accountant.step(noise_multiplier=SIGMA + rise * i, sample_rate=RATE)

    # in turns, so that what else the machine does meets both alike
    turns = [(seconds(lambda: train(ExactAccountant)), seconds(lambda: train(RDPAccountant))) for _ in range(3)]
    ours, theirs = min(ours for ours, _ in turns), min(theirs for _, theirs in turns)
    row("a step", f"{1e9 * ours / STEPS:.0f} ns")
    row("  over a step of Opacus's RDP accountant", f"{ours / theirs:.2f} times", "≤ 1", ours <= theirs)
    new = min(seconds(lambda: train(ExactAccountant, rise=1e-6)) for _ in range(3))
    row("a step of other noise, over one of the same", f"{new / ours:.1f} times", "≤ 10", new <= 10 * ours)
    accountant = ExactAccountant()
    accountant.history = [(SIGMA, RATE, 10**6)]
    million = seconds(lambda: accountant.get_epsilon(DELTA))
    row("get_epsilon after a million steps", f"{1e3 * million:.1f} ms", "≤ 20 ms", million <= 0.020)
    took = {}
    for kind in (ExactAccountant, RDPAccountant, PRVAccountant):
        peer = kind()
        peer.history = list(SCHEDULE)
        took[kind] = seconds(lambda peer=peer: peer.get_epsilon(DELTA), repeats=1)  # type: ignore[misc]  # mypy cannot type a default
    row(f"get_epsilon of {len(SCHEDULE)} different noises", f"{1e3 * took[ExactAccountant]:.0f} ms")
    for name, kind in (("RDP", RDPAccountant), ("PRV", PRVAccountant)):
        row(f"  Opacus's {name} accountant over it", f"{took[kind] / took[ExactAccountant]:.1f} times")


def _dp_accounting() -> None:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    from dprounds.integrations.dp_accounting import ExactAccountant

    print(f"In dp-accounting, rate {RATE:.5f}, noise {SIGMA}, {ROUNDS:,} rounds, delta {DELTA:g}")

    def events(noise: float) -> object:
        step = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(noise))
        return dp_accounting.SelfComposedDpEvent(step, ROUNDS)

    def epsilon(kind: Callable[[], Any]) -> float:
        return float(kind().compose(events(SIGMA)).get_epsilon(DELTA))

    def noise(kind: Callable[[], Any]) -> float:
        bracket = dp_accounting.ExplicitBracketInterval(0.5, 2.0)
        return float(dp_accounting.calibrate_dp_mechanism(kind, events, 3.0, DELTA, bracket))

    ours = seconds(lambda: epsilon(ExactAccountant)), seconds(lambda: noise(ExactAccountant), repeats=1)
    row("compose and get_epsilon", f"{1e3 * ours[0]:.1f} ms")
    row("calibrate_dp_mechanism", f"{1e3 * ours[1]:.0f} ms")
    for name, kind in (("RDP", RdpAccountant), ("PLD", PLDAccountant)):
        theirs = seconds(lambda kind=kind: epsilon(kind), repeats=1), seconds(lambda kind=kind: noise(kind), repeats=1)  # type: ignore[misc]  # mypy cannot type a default
        row(f"  with its {name} accountant, over ours", f"{theirs[0] / ours[0]:.1f}, {theirs[1] / ours[1]:.1f} times")
        row("    its epsilon over ours", f"{epsilon(kind) / epsilon(ExactAccountant) - 1:+.1e}")
        row("    its noise over ours", f"{noise(kind) / noise(ExactAccountant) - 1:+.1e}")


if __name__ == "__main__":
    main()
