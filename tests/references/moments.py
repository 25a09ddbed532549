"""Moments of privacy losses in arbitrary precision, from the definition E_P[(dP/dQ)^z] and nothing else.

A pair of laws is given by its densities or its atoms; no closed form of a moment function is used, except the binomial
expansion of an integer power of a mixture, which is a second way to the same number. Imports nothing of dprounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from typing import Any

import mpmath as mp

Number = Any  # mpmath has no types: an mpf or an mpc
Density = Callable[[Number], Number]

DIGITS = 32
POINTS = 24


@cache
def _legendre() -> list[tuple[Number, Number]]:
    """Gauss-Legendre nodes and weights on [-1, 1], by Newton's method on the three-term recurrence."""
    rule = []
    with mp.workdps(DIGITS + 10):
        for k in range(POINTS):
            x = mp.cos(mp.pi * (k + mp.mpf("0.75")) / (POINTS + mp.mpf("0.5")))
            for _ in range(8):
                before, here = mp.mpf(1), x
                for n in range(2, POINTS + 1):
                    before, here = here, ((2 * n - 1) * x * here - (n - 1) * before) / n
                slope = POINTS * (x * here - before) / (x * x - 1)
                x -= here / slope
            rule.append((x, 2 / ((1 - x * x) * slope * slope)))
    return rule


def integral(function: Density, edges: Iterable[Number]) -> Number:
    """The integral over the union of the panels between neighbouring edges."""
    edges = [mp.mpf(edge) for edge in edges]
    return mp.fsum(
        (high - low) / 2 * weight * function((high + low) / 2 + (high - low) / 2 * node)
        for low, high in pairwise(edges)
        for node, weight in _legendre()
    )


def spaced(low: Number, high: Number, width: Number) -> list[Number]:
    """Edges from `low` to `high`, at most `width` apart."""
    low, high = mp.mpf(low), mp.mpf(high)
    panels = int(mp.ceil((high - low) / mp.mpf(width)))
    return [low + (high - low) * k / panels for k in range(panels + 1)]


def moment_of_densities(p: Density, q: Density, z: Number, edges: Iterable[Number]) -> Number:
    """E_P[(p/q)^z] by quadrature."""
    z = mp.mpmathify(z)

    def integrand(x: Number) -> Number:
        density = p(x)
        return density * mp.exp(z * mp.log(density / q(x)))

    return integral(integrand, edges)


def moment_of_atoms(p: Iterable[Number], q: Iterable[Number], z: Number) -> Number:
    """The sum of p (p/q)^z over atoms that Q has too."""
    z = mp.mpmathify(z)
    return mp.fsum(a * mp.exp(z * mp.log(a / b)) for a, b in zip(p, q, strict=True) if a > 0 and b > 0)


def directed(p: Density, q: Density, rate: Number, direction: str) -> tuple[Density, Density]:
    """The pair of a sampled mechanism: the mixture against Q, or Q against the mixture."""
    rate = mp.mpf(rate)

    def mixture(x: Number) -> Number:
        return (1 - rate) * q(x) + rate * p(x)

    return (mixture, q) if direction == "remove" else (q, mixture)


def normal(mean: Number, sigma: Number) -> Density:
    """The normal density."""
    mean, sigma = mp.mpf(mean), mp.mpf(sigma)
    return lambda x: mp.exp(-(((x - mean) / sigma) ** 2) / 2) / (sigma * mp.sqrt(2 * mp.pi))


def laplace(mean: Number, scale: Number) -> Density:
    """The Laplace density."""
    mean, scale = mp.mpf(mean), mp.mpf(scale)
    return lambda x: mp.exp(-abs(x - mean) / scale) / (2 * scale)


def gaussian(sigma: Number, z: Number, *, rate: Number = 1, direction: str = "remove") -> Number:
    """K of the (sampled) Gaussian mechanism."""
    with mp.workdps(DIGITS):
        p, q = directed(normal(1, sigma), normal(0, sigma), rate, direction)
        z, sigma = mp.mpmathify(z), mp.mpf(sigma)
        reach = 13 * sigma  # beyond it the normal density falls below 1e-36
        low, high = (-reach, max(2, z.real + 1) + reach) if direction == "remove" else (-z.real - reach, 2 + reach)
        # w bends over sigma^2, the normal density over sigma, and the phase turns by Im z / sigma^2 for a unit of x
        width = min(sigma, sigma**2, 12 * sigma**2 / (1 + abs(z.imag)))
        return mp.log(moment_of_densities(p, q, z, spaced(low, high, width)))


def sampled_gaussian_at_integer(sigma: Number, order: int, rate: Number) -> Number:
    """K(order - 1) of the sampled Gaussian, direction remove, by the binomial theorem: exact for integer orders."""
    with mp.workdps(DIGITS + 10):
        rate, sigma = mp.mpf(rate), mp.mpf(sigma)
        term, total = (1 - rate) ** order, mp.mpf(0)
        odds = rate / (1 - rate)
        for k in range(order + 1):
            total += term * mp.exp(mp.mpf(k) * (k - 1) / (2 * sigma**2))
            term *= odds * (order - k) / (k + 1)
        return mp.log(total)


def laplace_mechanism(scale: Number, z: Number, *, rate: Number = 1, direction: str = "remove") -> Number:
    """K of the (sampled) Laplace mechanism; its log-ratio is constant left of 0 and right of 1."""
    with mp.workdps(DIGITS):
        p, q = directed(laplace(1, scale), laplace(0, scale), rate, direction)
        z, scale = mp.mpmathify(z), mp.mpf(scale)
        # the logarithm of a mixture rises by its share of the log-ratio, which is at most this
        share = min(mp.mpf(1), mp.mpf(rate) * mp.exp(1 / scale) / (1 - mp.mpf(rate))) if rate < 1 else mp.mpf(1)
        steepness = (1 + abs(z) * share) / scale
        reach = 60 * scale
        middle = spaced(0, 1, 8 / (8 + steepness))
        tails = [*spaced(-reach, 0, scale * 4)[:-1], *middle, *spaced(1, 1 + reach, scale * 4)[1:]]
        return mp.log(moment_of_densities(p, q, z, tails))


def randomized_response(
    epsilon: Number, z: Number, *, rate: Number = 1, direction: str = "remove", failure: Number = 0
) -> Number:
    """K of the (sampled) two-point pair; with `failure`, of the four-point pair with an atom of infinite loss."""
    with mp.workdps(DIGITS + 20):
        truth = (1 - mp.mpf(failure)) / (1 + mp.exp(-mp.mpf(epsilon)))
        lie = (1 - mp.mpf(failure)) / (1 + mp.exp(mp.mpf(epsilon)))
        told, inverted = [mp.mpf(failure), truth, lie, mp.mpf(0)], [mp.mpf(0), lie, truth, mp.mpf(failure)]
        rate = mp.mpf(rate)
        mixture = [(1 - rate) * b + rate * a for a, b in zip(told, inverted, strict=True)]
        first, second = (mixture, inverted) if direction == "remove" else (inverted, mixture)
        return mp.log(moment_of_atoms(first, second, z))


def discrete_gaussian(sigma: Number, z: Number, *, rate: Number = 1, direction: str = "remove") -> Number:
    """K of the (sampled) discrete Gaussian mechanism, by summation over the integers."""
    with mp.workdps(DIGITS + 20):
        sigma, z, rate = mp.mpf(sigma), mp.mpmathify(z), mp.mpf(rate)
        reach = int(20 * sigma) + 20
        low, high = (-reach, int(z.real) + 2 + reach) if direction == "remove" else (-int(z.real) - reach, 2 + reach)
        support = range(low, high + 1)
        weight = mp.fsum(mp.exp(-(mp.mpf(k) ** 2) / (2 * sigma**2)) for k in range(-reach, reach + 1))
        q = [mp.exp(-(mp.mpf(k) ** 2) / (2 * sigma**2)) / weight for k in support]
        p = [mp.exp(-(mp.mpf(k - 1) ** 2) / (2 * sigma**2)) / weight for k in support]
        mixture = [(1 - rate) * b + rate * a for a, b in zip(p, q, strict=True)]
        first, second = (mixture, q) if direction == "remove" else (q, mixture)
        return mp.log(moment_of_atoms(first, second, z))
