"""Privacy profiles from the definition δ(ε) = E_P[(1 - e^{ε-L})_+], without moment functions or contours.

Sums over atoms and one-dimensional integrals in arbitrary precision, and a brute-force convolution whose losses are
rounded up or down to a grid, so that it brackets the truth by itself. Imports nothing of dprounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve
from scipy.special import ndtr

Number = Any  # mpmath has no types
Array = NDArray[np.float64]
Masses = Callable[[Array], Array]  # P(L <= l) at every l of a row


def randomized_response(local_epsilon: float, rounds: int, epsilon: Number) -> Number:
    """Delta of so many rounds, as a sum over how many answers were true."""
    with mp.workdps(40):
        e, x = mp.mpf(local_epsilon), mp.mpf(epsilon)
        truth = 1 / (1 + mp.exp(-e))
        return mp.fsum(
            mp.binomial(rounds, k)
            * truth**k
            * (1 - truth) ** (rounds - k)
            * max(0, 1 - mp.exp(x - (2 * k - rounds) * e))
            for k in range(rounds + 1)
        )


def laplace(scale: Number, epsilon: Number) -> Number:
    """Delta of one round, in closed form: the loss is at most 1/scale, and 1 - e^ε is exact below minus that."""
    a, x = 1 / mp.mpf(scale), mp.mpf(epsilon)
    if x >= a:
        return mp.mpf(0)
    return 1 - mp.exp((x - a) / 2) if x >= -a else 1 - mp.exp(x)


def gaussian(mean: Number, epsilon: Number) -> Number:
    """Delta of a normal loss of this shift over its deviation, at any real epsilon."""
    m, x = mp.mpf(mean), mp.mpf(epsilon)
    root = mp.sqrt(2)
    return (mp.erfc((x / m - m / 2) / root) - mp.exp(x) * mp.erfc((x / m + m / 2) / root)) / 2


def response(local_epsilon: Number, epsilon: Number) -> Number:
    """Delta of one randomized response, at any real epsilon, without a difference of its masses."""
    a, x = mp.mpf(local_epsilon), mp.mpf(epsilon)
    return sum(-mp.expm1(x - loss) / (1 + mp.exp(-loss)) for loss in (a, -a) if x < loss) + mp.mpf(0)


def sampled_once(delta: Callable[[Number], Number], rate: float, epsilon: float, direction: str) -> Number:
    """Delta of one sampled round, by that of the symmetric pair (P, Q) which is sampled.

    (1 - q) Q + q P - e^x Q = q (P - c Q) with c = 1 + (e^x - 1)/q, and with d = 1 - e^x (1 - q) the other direction is
    Q - e^x ((1 - q) Q + q P) = d (Q - e^x q/d P).
    """
    q, x = mp.mpf(rate), mp.mpf(epsilon)
    if direction == "remove":
        return q * delta(mp.log1p(mp.expm1(x) / q))
    d = 1 - mp.exp(x) * (1 - q)
    return d * delta(x + mp.log(q / d)) if d > 0 else mp.mpf(0)


def laplace_twice(scale: float, epsilon: float) -> Number:
    """Delta of two rounds: the first one's loss is averaged over its two atoms and its density between."""
    with mp.workdps(30):
        a, x = 1 / mp.mpf(scale), mp.mpf(epsilon)
        inner = mp.quad(
            lambda l: mp.exp((l - a) / 2) / 4 * laplace(scale, x - l),
            sorted({-a, min(max(x - a, -a), a), min(x + a, a), a}),
        )
        return laplace(scale, x - a) / 2 + mp.exp(-a) / 2 * laplace(scale, x + a) + inner


def normal_loss(sigma: float) -> Masses:
    """The law of the Gaussian mechanism's loss, which is normal."""
    mean, deviation = 0.5 / sigma**2, 1.0 / sigma
    return lambda l: ndtr((l - mean) / deviation)


def atomic_loss(losses: list[float], masses: list[float]) -> Masses:
    return lambda l: np.asarray(sum(mass * (l >= loss) for loss, mass in zip(losses, masses, strict=True)))


def sampled_normal_loss(sigma: float, rate: float) -> Masses:
    """Direction remove: the loss rises with x, whose law is the mixture itself."""

    def masses(l: Array) -> Array:
        ratio = (np.exp(l) - (1.0 - rate)) / rate
        with np.errstate(divide="ignore"):
            x = 0.5 + sigma**2 * np.log(np.maximum(ratio, 0.0))
        return np.asarray((1.0 - rate) * ndtr(x / sigma) + rate * ndtr((x - 1.0) / sigma))

    return masses


def convolution(parts: list[tuple[Masses, int]], epsilon: float, *, grid: float, reach: float) -> tuple[float, float]:
    """Delta of a composition, from below and from above: losses rounded down, and up, to multiples of `grid`.

    The transforms round by some 1e-15, so this is for deltas far above that.
    """
    size = math.ceil(reach / grid)
    edges: Array = grid * np.arange(-size, size + 1, dtype=np.float64)
    answers = []
    for up in (False, True):
        total, infinite, origin = np.ones(1), 0.0, 0
        for masses, rounds in parts:
            cumulative = masses(np.asarray(edges, dtype=np.float64))
            inner = np.diff(cumulative)
            # Losses in (edge, next edge] go to the upper edge or to the lower one; the tails to the end on their side.
            low, high = cumulative[0], 1.0 - cumulative[-1]
            one = np.append(low, inner) if up else np.append(inner, high)
            # going down, the lower tail would go to minus infinity, where it adds nothing to delta
            for _ in range(rounds):
                total = fftconvolve(total, one)
                origin += size
                infinite += high if up else 0.0
        losses = grid * (np.arange(total.size) - origin)
        answers.append(float(total @ np.maximum(-np.expm1(epsilon - losses), 0.0)) + infinite)
    return answers[0], answers[1]
