"""The exact accountant: speed, its growth with the rounds, and the peers at their defaults in the same run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from operator import mul

import numpy as np

from benchmarks.timing import cold, cpu_seconds, row, seconds
from dprounds import (
    Gaussian,
    Laplace,
    PoissonSampled,
    RandomAllocation,
    RandomizedResponse,
    max_rounds,
    max_sampling_rate,
    min_noise_multiplier,
)
from dprounds.mechanisms.base import Run

RATE, SIGMA, ROUNDS, DELTA, EPSILON = 256 / 60_000, 1.1, 14_062, 1e-5, 3.0


def sampled(noise: float, rate: float) -> PoissonSampled:
    return PoissonSampled(Gaussian(noise), rate)


def history(parts: int) -> Run:
    """As many different noises and rates in one run."""
    rng = np.random.default_rng(1)
    noises, rates = rng.uniform(0.8, 2.0, parts).tolist(), rng.uniform(1e-3, 1e-2, parts).tolist()
    rounds = rng.integers(10, 100, parts).tolist()
    runs: list[Run] = [sampled(noise, rate) * n for noise, rate, n in zip(noises, rates, rounds, strict=True)]
    whole: Run = runs[0]
    for run in runs[1:]:
        whole = whole + run
    return whole


def allocated(noise: float, steps: int, epochs: int) -> Run:
    """Epochs of random allocation, of which no table is remembered."""
    cold()
    return RandomAllocation(Gaussian(noise), steps=steps) * epochs


# What is asked, the run and its delta, the milliseconds that it may take, and the relative width that it may have.
TABLE: tuple[tuple[str, Callable[[], Run], float, float, float], ...] = (
    *((f"DP-SGD, {n:.0e} rounds", partial(mul, sampled(SIGMA, RATE), n), 1e-5, 4, 1e-9) for n in (10**3, 10**6, 10**9)),
    ("1000 Gaussians", partial(mul, Gaussian(20.0), 1000), 1e-5, 0.1, 1e-9),
    *(
        (f"Laplace, {n} rounds", partial(mul, Laplace(noise), n), 1e-6, 10, 1e-6)
        for noise, n in ((2.0, 10), (10.0, 100), (100.0, 10**5))
    ),
    *(
        (f"randomized response, {n} rounds", partial(mul, RandomizedResponse(each), n), 1e-6, 5, 1e-6)
        for each, n in ((1.0, 5), (0.1, 1000), (0.01, 10**5))
    ),
    *((f"sampled Gaussian, {n} rounds", partial(mul, sampled(1.0, 0.01), n), 1e-5, 10, 1e-7) for n in (1, 2, 5, 10)),
    ("rate 1e-4, noise 0.7, 1e6 rounds", partial(mul, sampled(0.7, 1e-4), 10**6), 1e-8, 50, 1e-6),
    ("rate 3e-5, noise 0.45, 5e5 rounds", partial(mul, sampled(0.45, 3e-5), 500_000), 1e-5, 50, 1e-6),
    *(
        (
            f"random allocation, noise {noise:g}, {steps} steps, epochs {n}",
            partial(allocated, noise, steps, n),
            1e-5,
            50,
            1e-9,
        )
        for noise, steps, n in ((1.0, 100, 1), (1.0, 100, 10), (1.0, 234, 60), (2.0, 1000, 100))
    ),
    ("a history of 400 different noises", partial(history, 400), 1e-5, 200, 1e-9),
)


def table() -> None:
    """Each row of the speed table, in milliseconds of the processor; a run is made anew each time."""
    print("Exact epsilon by kind of run, processor time")
    for name, make, delta, milliseconds, width in TABLE:
        took = 1e3 * min(cpu_seconds(partial(make().epsilon, delta=delta)) for _ in range(5))
        found = make().guarantee(delta=delta)
        wide = (found.upper - found.lower) / found.upper
        is_met = took <= milliseconds and wide <= width
        row(f"  {name}", f"{took:.2f} ms, {wide:.0e} wide", f"≤ {milliseconds:g} ms, {width:.0e}", is_met)
    plans: tuple[tuple[str, Callable[[], float]], ...] = (
        ("max_rounds", lambda: max_rounds(sampled(1.0, 0.01), epsilon=0.5, delta=1e-6)),
        (
            "min_noise_multiplier",
            lambda: min_noise_multiplier(lambda x: sampled(x, 0.01) * 10, epsilon=1.0, delta=1e-5),
        ),
        ("max_sampling_rate", lambda: max_sampling_rate(lambda x: sampled(1.0, x) * 10, epsilon=1.0, delta=1e-5)),
    )
    for name, plan in plans:
        row(f"  {name} of few rounds", f"{1e3 * min(cpu_seconds(plan) for _ in range(3)):.0f} ms")


def main() -> None:
    table()
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
    planning = seconds(lambda: max_rounds(step, epsilon=EPSILON, delta=DELTA), repeats=9)
    row("max_rounds", f"{1e3 * planning:.0f} ms", "≤ 5 epsilons", planning <= 5 * exact)
    noise = seconds(
        lambda: min_noise_multiplier(
            lambda s: PoissonSampled(Gaussian(s), RATE) * ROUNDS, epsilon=EPSILON, delta=DELTA
        ),
        repeats=9,
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
