"""The exact accountant: speed, its growth with the rounds, and the peers at their defaults in the same run."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from benchmarks.timing import row, seconds
from dprounds import Gaussian, PoissonSampled, max_rounds, min_noise_multiplier

RATE, SIGMA, ROUNDS, DELTA, EPSILON = 256 / 60_000, 1.1, 14_062, 1e-5, 3.0


def main() -> None:
    step = PoissonSampled(Gaussian(SIGMA), RATE)
    run = step * ROUNDS
    print(f"Exact, rate {RATE:.5f}, noise {SIGMA}, {ROUNDS:,} rounds, delta {DELTA:g}")
    exact = seconds(lambda: run.epsilon(delta=DELTA))
    guarantee = run.guarantee(delta=DELTA)
    row("epsilon", f"{1e3 * exact:.1f} ms", "≤ 20 ms", exact <= 0.020)
    width = (guarantee.upper - guarantee.lower) / guarantee.upper
    row("  relative width of its proven bracket", f"{width:.0e}", "≤ 1e-9", width <= 1e-9)
    times = {n: seconds(lambda n=n: (step * n).epsilon(delta=DELTA)) for n in (10**3, 10**4, 10**6, 10**9)}  # type: ignore[misc]  # mypy cannot type a default
    for rounds, took in times.items():
        row(f"  {rounds:.0e} rounds", f"{1e3 * took:.1f} ms")
    growth = times[10**9] / times[10**3]
    row("  10^9 rounds over 10^3", f"{growth:.2f} times", "≤ 2 times", growth <= 2.0)
    planning = seconds(lambda: max_rounds(step, epsilon=EPSILON, delta=DELTA), repeats=3)
    row("max_rounds", f"{1e3 * planning:.0f} ms", "≤ 5 epsilons", planning <= 5 * exact)
    noise = seconds(
        lambda: min_noise_multiplier(
            lambda s: PoissonSampled(Gaussian(s), RATE) * ROUNDS, epsilon=EPSILON, delta=DELTA
        ),
        repeats=3,
    )
    row("min_noise_multiplier", f"{1e3 * noise:.0f} ms", "≤ 30 epsilons", noise <= 30 * exact)
    for name, peer, target in (("dp-accounting PLD", _dp_accounting, 20.0), ("prv-accountant", _prv_accountant, 100.0)):
        try:
            ask = peer()
        except ImportError:
            row(name, "not installed")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they deprecate is not ours to mend
            took = seconds(ask, repeats=2)
            theirs = ask()
        row(f"{name} at its defaults", f"{1e3 * took:.0f} ms", f"we take 1/{took / exact:.0f}", took >= target * exact)
        row("  its epsilon over ours", f"{theirs / guarantee.epsilon - 1:+.1e}")


def _dp_accounting() -> Callable[[], float]:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    event = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(SIGMA))

    def ask() -> float:
        accountant = PLDAccountant()
        accountant.compose(event, ROUNDS)
        return float(accountant.get_epsilon(DELTA))

    return ask


def _prv_accountant() -> Callable[[], float]:
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

    step = PoissonSubsampledGaussianMechanism(noise_multiplier=SIGMA, sampling_probability=RATE)

    def ask() -> float:
        accountant = PRVAccountant(prvs=[step], max_self_compositions=[ROUNDS], eps_error=0.01, delta_error=1e-10)
        return float(accountant.compute_epsilon(DELTA, [ROUNDS])[2])

    return ask
