"""The runs that every library is asked about, and the inputs that it should refuse."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from benchmarks.peers import History, Part

NAN, INF = math.nan, math.inf


class Case(NamedTuple):
    """A run, its delta, and the name of its row."""

    name: str
    family: str
    history: History
    delta: float
    fine: bool = False  # whether the finer, slower settings are asked as well


def gaussian(noise_multiplier: float, rounds: int) -> Part:
    """Rounds of the Gaussian mechanism."""
    return Part("gaussian", {"noise_multiplier": noise_multiplier}, rounds)


def sampled(sampling_rate: float, noise_multiplier: float, rounds: int) -> Part:
    """Rounds of the Gaussian mechanism on a Poisson sample."""
    return Part("sampled-gaussian", {"noise_multiplier": noise_multiplier, "sampling_rate": sampling_rate}, rounds)


def laplace(noise_multiplier: float, rounds: int) -> Part:
    """Rounds of the Laplace mechanism."""
    return Part("laplace", {"noise_multiplier": noise_multiplier}, rounds)


def response(epsilon: float, rounds: int) -> Part:
    """Rounds of randomized response."""
    return Part("randomized-response", {"epsilon": epsilon}, rounds)


MNIST = sampled(256 / 60_000, 1.1, 14_062)

CASES = [
    # the first one is every library's first answer after its import
    Case("MNIST, 60 epochs", "Sampled Gaussian", [MNIST], 1e-5, fine=True),
    Case("MNIST, 60 epochs", "Sampled Gaussian", [MNIST], 1e-10),
    Case("q 0.01, σ 1, T 1", "Sampled Gaussian", [sampled(0.01, 1.0, 1)], 1e-5, fine=True),
    Case("q 0.01, σ 1, T 10", "Sampled Gaussian", [sampled(0.01, 1.0, 10)], 1e-5),
    Case("q 0.01, σ 1, T 1000", "Sampled Gaussian", [sampled(0.01, 1.0, 1_000)], 1e-5, fine=True),
    Case("q 0.01, σ 1, T 10^4", "Sampled Gaussian", [sampled(0.01, 1.0, 10_000)], 1e-5),
    Case("q 0.001, σ 4, T 10^5", "Sampled Gaussian", [sampled(0.001, 4.0, 100_000)], 1e-12),
    Case("q 0.001, σ 0.8, T 10^6", "Sampled Gaussian", [sampled(0.001, 0.8, 1_000_000)], 1e-6),
    Case("q 0.0001, σ 0.7, T 10^6", "Sampled Gaussian", [sampled(1e-4, 0.7, 1_000_000)], 1e-8),
    Case("q 0.0001, σ 1, T 10^8", "Sampled Gaussian", [sampled(1e-4, 1.0, 10**8)], 1e-8),
    Case("q 0.1, σ 0.7, T 1000", "Sampled Gaussian", [sampled(0.1, 0.7, 1_000)], 1e-5),
    Case("q 0.5, σ 4, T 1000", "Sampled Gaussian", [sampled(0.5, 4.0, 1_000)], 1e-5),
    Case("σ 1, T 1", "Gaussian", [gaussian(1.0, 1)], 1e-5),
    Case("σ 1, T 1", "Gaussian", [gaussian(1.0, 1)], 1e-12),
    Case("σ 20, T 685", "Gaussian", [gaussian(20.0, 685)], 1e-5, fine=True),
    Case("σ 20, T 1000", "Gaussian", [gaussian(20.0, 1_000)], 1e-13),
    Case("σ 300, T 10^5", "Gaussian", [gaussian(300.0, 100_000)], 1e-10),
    Case("σ 100, T 10^6", "Gaussian", [gaussian(100.0, 1_000_000)], 1e-8),
    Case("scale 1, T 1", "Laplace", [laplace(1.0, 1)], 1e-5),
    Case("scale 10, T 100", "Laplace", [laplace(10.0, 100)], 1e-8),
    Case("scale 20, T 1000", "Laplace", [laplace(20.0, 1_000)], 1e-5, fine=True),
    Case("ε 1, T 5", "Randomized response", [response(1.0, 5)], 1e-5),
    Case("ε 0.1, T 1000", "Randomized response", [response(0.1, 1_000)], 1e-5),
    Case("ε 0.01, T 10^5", "Randomized response", [response(0.01, 100_000)], 1e-10),
    Case("MNIST, then q 0.02, σ 2, T 1000", "Mixtures", [MNIST, sampled(0.02, 2.0, 1_000)], 1e-5),
    Case("q 0.01, σ 1, T 5000; σ 10, T 10", "Mixtures", [sampled(0.01, 1.0, 5_000), gaussian(10.0, 10)], 1e-5),
    Case("σ 10, T 100; Laplace 20, T 50", "Mixtures", [gaussian(10.0, 100), laplace(20.0, 50)], 1e-6),
]


class BadInput(NamedTuple):
    """An argument that is no number of its range, and what a limit would allow as the answer."""

    argument: str
    value: Any  # anything
    # an answer that is right in the limit, as an infinite epsilon without noise; None if only refusing is right
    limit: float | None = None
    kind: str = "sampled-gaussian"


BASE = {"noise_multiplier": 1.0, "sampling_rate": 0.01, "rounds": 100, "delta": 1e-5}

BAD_INPUTS = [
    BadInput("noise_multiplier", NAN, kind="gaussian"),
    BadInput("noise_multiplier", INF, 0.0, kind="gaussian"),
    BadInput("noise_multiplier", NAN),
    BadInput("noise_multiplier", -1.0),
    BadInput("noise_multiplier", 0.0, INF),
    BadInput("noise_multiplier", INF, 0.0),
    BadInput("noise_multiplier", "1.0"),
    BadInput("sampling_rate", NAN),
    BadInput("sampling_rate", -0.01),
    BadInput("sampling_rate", 1.5),
    BadInput("sampling_rate", 256),
    BadInput("rounds", NAN),
    BadInput("rounds", -1),
    BadInput("rounds", 2.5),
    BadInput("rounds", 10**30, INF),
    BadInput("delta", NAN),
    BadInput("delta", 0.0, INF),
    BadInput("delta", 1.0, 0.0),
    BadInput("delta", -1e-5),
    BadInput("delta", 2.0, 0.0),
]


def bad_question(bad: BadInput) -> tuple[History, Any]:
    """The base run with one argument replaced, and its delta."""
    given = {**BASE, bad.argument: bad.value}
    parameters = {"noise_multiplier": given["noise_multiplier"]}
    if bad.kind == "sampled-gaussian":
        parameters["sampling_rate"] = given["sampling_rate"]
    return [Part(bad.kind, parameters, given["rounds"])], given["delta"]


def shown(bad: BadInput) -> str:
    """A bad input as a reader would write it."""
    value = "10**30" if bad.value == 10**30 else repr(bad.value)
    return f"{bad.argument} = {value}" + (", not sampled" if bad.kind == "gaussian" else "")
