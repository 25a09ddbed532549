"""Privacy profiles from the definition δ(ε) = E_P[(1 - e^{ε-L})_+], without moment functions or contours.

Sums over atoms and one-dimensional integrals in arbitrary precision, and a brute-force convolution whose losses are
rounded up or down to a grid, so that it brackets the truth by itself. Imports nothing of dprounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
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


def two_losses(high: Number, low: Number, mass: Number, rounds: int, epsilon: Number) -> Number:
    """Delta of rounds of two losses each, of which the larger one has this mass: a binomial sum, or 1e-50 of it less.

    Losses and epsilon are all fractions or all mpmath numbers, so that no two that differ are taken for one.
    """
    mode, deviation = int(rounds * mass), float(mp.sqrt(rounds * mass * (1 - mass)))
    first = max(int(mp.floor(_number((epsilon - rounds * low) / (high - low)))) - 1, 0)
    first = max(first, mode - math.ceil(40.0 * deviation) - 200)  # below, there is less than exp(-100) of anything
    if first > rounds:
        return mp.mpf(0)
    term, total = mp.binomial(rounds, first) * mass**first * (1 - mass) ** (rounds - first), mp.mpf(0)
    for k in range(first, rounds + 1):
        excess = _number(k * high + (rounds - k) * low - epsilon)
        if excess > 0:
            total -= term * mp.expm1(-excess)
        if k > mode and term * (rounds - k) < total * mp.mpf(10) ** -50:
            break
        term = term * (rounds - k) / (k + 1) * (mass / (1 - mass))
    return min(total, mp.mpf(1))


def _number(value: Number) -> Number:
    return mp.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


def discrete_gaussian_rounds(sigma: float, rounds: int, epsilon: float, *, bits: int = 200) -> tuple[Number, Number]:
    """Delta of rounds of the discrete Gaussian, from below and from above, by convolution of whole numbers.

    Masses are rounded down to multiples of 2^-bits before and after each convolution; what that drops is counted.
    """
    with mp.workdps(bits // 3):
        most = math.ceil(sigma * math.sqrt(2 * bits * math.log(2))) + 2
        weights = [mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(sigma) ** 2)) for k in range(-most, most + 1)]
        total = mp.fsum(weights)
        one = np.array([int(mp.floor(w / total * 2**bits)) for w in weights], dtype=object)
        power, count = np.array([2**bits], dtype=object), 0
        for bit in bin(rounds)[2:]:
            power, count = np.convolve(power, power) // 2**bits, 2 * count
            if bit == "1":
                power, count = np.convolve(power, one) // 2**bits, count + 1
        # with noise k, a round of the shifted law has the loss (2 (k + 1) - 1) / 2 sigma^2
        square = Fraction(sigma) ** 2
        found = mp.mpf(0)
        for i, mass in enumerate(power):
            excess = Fraction(2 * (i - most * rounds) + rounds) / (2 * square) - Fraction(epsilon)
            if excess > 0:
                found -= mp.mpf(int(mass)) * mp.expm1(-mp.mpf(excess.numerator) / excess.denominator)
        dropped = 2**bits - int(power.sum())
        return found / 2**bits, (found + dropped) / 2**bits


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


def sampled_gaussian_once(sigma: float, rate: float, epsilon: Number, direction: str) -> Number:
    """Delta of one sampled round at any real epsilon: below the least loss everything counts."""
    x, q = mp.mpf(epsilon), mp.mpf(rate)
    if direction == "remove" and not mp.expm1(x) > -q:
        return -mp.expm1(x)
    return sampled_once(lambda y: gaussian(1 / mp.mpf(sigma), y), rate, x, direction)


def sampled_gaussian_twice(sigma: float, rate: float, epsilon: float, direction: str, *, digits: int = 30) -> Number:
    """Delta of two sampled rounds: that of one, averaged over the loss of the other; good to 1e-12 of itself."""
    with mp.workdps(digits):
        s, q, e = mp.mpf(sigma), mp.mpf(rate), mp.mpf(epsilon)
        sign = 1 if direction == "remove" else -1

        def loss(x: Number) -> Number:
            return sign * mp.log1p(q * mp.expm1((2 * x - 1) / (2 * s * s)))

        def integrand(x: Number) -> Number:
            density = mp.exp(-((x / s) ** 2) / 2)
            if sign > 0:
                density = (1 - q) * density + q * mp.exp(-(((x - 1) / s) ** 2) / 2)
            return density * sampled_gaussian_once(sigma, rate, e - loss(x), direction)

        ends = [k * s for k in range(-14, 15, 2)] + [1 + k * s for k in range(-14, 15, 2)]
        # where the other round's delta has its kink, and where it begins to count
        for level in (e - mp.log1p(-q), e, e + mp.log1p(-q), e / 2):
            share = mp.expm1(sign * level) / q
            if share > -1:
                ends.append(mp.mpf(1) / 2 + s * s * mp.log1p(share))
        ends = sorted({min(max(end, -14 * s), 1 + 14 * s) for end in ends})
        return mp.quad(integrand, ends) / (s * mp.sqrt(2 * mp.pi))


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
