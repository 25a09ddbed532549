"""Derivatives of epsilon at a fixed delta for the other loaders, by differences in 40 digits; nothing of ours is used.

Delta is the integral along Re z = t of what each loader's moments are by definition: powers of a mean of lognormal
values for random allocation, which is between whole numbers of steps what its Mellin integral says; two Gaussian halves
for a replaced record; closed forms for Gaussians without sampling and, over one number, for two rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
from mpmath.calculus.quadrature import GaussLegendre

from tests.references.stored import stored
from tests.references.two_rounds import two_rounds_delta

__all__ = [
    "allocation_power_mean",
    "allocation_slope",
    "fixed_size_slope",
    "gaussian_slope",
    "two_rounds_slope",
]

Number = Any  # mpmath has no types

DIGITS = 45
# Central differences of this relative step err by its square.
STEP = "1e-12"


def _slope(by: str, delta: Callable[..., Number], **given: Number) -> Number:
    """The derivative of epsilon, from differences of delta(epsilon, ...)."""

    def of_delta(name: str) -> Number:
        small = given[name] * mp.mpf(STEP)
        ends = [delta(**{**given, name: given[name] + sign * small}) for sign in (1, -1)]
        return (ends[0] - ends[1]) / (2 * small)

    by_epsilon = of_delta("epsilon")
    return 1 / by_epsilon if by == "delta" else -of_delta(by) / by_epsilon


def _contour(moment: Callable[[Number], Number], rounds: Number, epsilon: Number, line: tuple[str, str, int]) -> Number:
    """Delta by a sum along a line, given M of one round."""
    t, h, nodes = mp.mpf(line[0]), mp.mpf(line[1]), line[2]
    total, before = mp.mpf(0), mp.mpf(0)
    for n in range(nodes + 1):
        z = mp.mpc(t, n * h)
        log = mp.log(moment(z))
        # the branch that is continuous along the line
        log += 2j * mp.pi * mp.nint((before - log.imag) / (2 * mp.pi))
        before = log.imag
        value = mp.exp(rounds * log - epsilon * z) / (z * (1 + z))
        total += value.real / (1 if n else 2)
    return total * h / mp.pi


class _Mellin:
    """E[S^w] for the mean of `steps` lognormal values, any positive real number, by its Mellin integral."""

    def __init__(self, sigma: Number, steps: Number, n: int, height: Number) -> None:
        nats = mp.mp.dps * mp.log(10)
        self.n, self.steps, d = n, steps, 1 / sigma
        # aliases of the gamma function fall as exp(-pi / 2) for each unit between the nodes of a period
        self.h = 2 * mp.pi / (2 * height + 4 * nats / mp.pi)
        x_step = mp.pi * d * mp.pi / nats if d * d > 10 else mp.mpf(1) / 6
        xs = [x_step * j for j in range(-int(15 / x_step), int((15 + n * d) / x_step) + 1)]
        values = [mp.exp(d * x - d * d / 2) for x in xs]
        density = [x_step * mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) for x in xs]
        powers = [[p * v**k / mp.factorial(k) for p, v in zip(density, values, strict=True)] for k in range(n + 1)]
        self.table = []
        for j in range(-int((nats + 10) / (2 * self.h)), int(12 / self.h) + 1):
            y = j * self.h
            falls = [mp.exp(-mp.exp(y) * v) for v in values]
            a = [mp.fdot(row, falls) for row in powers]
            self.table.append((y, self._coefficient(a)))

    def _coefficient(self, a: list[Number]) -> Number:
        """n! over t^n times the n-th coefficient of the t-th power, by Miller's recurrence."""
        t, found = self.steps, [a[0] ** self.steps]
        for m in range(1, self.n + 1):
            found.append(sum((k * (t + 1) - m) * a[k] * found[m - k] for k in range(1, m + 1)) / (m * a[0]))
        return found[-1] * mp.factorial(self.n) / t**self.n

    def __call__(self, w: Number) -> Number:
        p = self.n - w
        total = mp.fsum(mp.exp(p * y) * g for y, g in self.table)
        return total * self.h * self.steps**p / mp.gamma(p)


def allocation_power_mean(sigma: float, steps: float, power: complex, n: int) -> Number:
    """E[S^power]; n exceeds the real part of the power by two or three."""
    with mp.workdps(DIGITS):
        return +_Mellin(mp.mpf(sigma), mp.mpf(steps), n, abs(mp.mpc(power).imag))(mp.mpc(power))


@stored
def allocation_slope(
    by: str, sigma: float, steps: int, epochs: int, epsilon: float, direction: str, t: str, step: str, nodes: int
) -> Number:
    """By "sigma", "steps", "rounds" (epochs) or "delta"."""
    with mp.workdps(DIGITS):
        line = (t, step, nodes)
        largest = mp.mpf(t) + 1 if direction == "remove" else -mp.mpf(t)
        n = max(int(mp.floor(largest)) + 3, 0)

        def delta(sigma: Number, steps: Number, rounds: Number, epsilon: Number) -> Number:
            mean = _Mellin(sigma, steps, n, mp.mpf(step) * nodes)
            return _contour(lambda z: mean(z + 1 if direction == "remove" else -z), rounds, epsilon, line)

        return +_slope(
            by, delta, sigma=mp.mpf(sigma), steps=mp.mpf(steps), rounds=mp.mpf(epochs), epsilon=mp.mpf(epsilon)
        )


@stored
def fixed_size_slope(
    by: str, sigma: float, rate: float, rounds: int, epsilon: float, t: str, step: str, nodes: int
) -> Number:
    """Of a replaced record, by "sigma" (over the clipping norm), "rate", "rounds" or "delta"."""
    with mp.workdps(DIGITS):
        gauss = GaussLegendre(mp.mp).calc_nodes(6, mp.mp.prec)

        def delta(sigma: Number, rate: Number, rounds: Number, epsilon: Number) -> Number:
            s = sigma / 2  # two vectors of the ball are twice the norm apart
            end = (mp.mpf(t) + 1 + 15 * s) / s**2
            panels = 12
            points = []
            for i in range(panels):
                for x, weight in gauss:
                    v = end / panels * (i + (x + 1) / 2)
                    density = s / mp.sqrt(2 * mp.pi) * mp.exp(-((s * v + 1 / (2 * s)) ** 2) / 2)
                    points.append((mp.log(1 - rate + rate * mp.exp(v)), density * weight * end / panels / 2))
            rest = (1 - rate) * mp.erf(1 / (2 * mp.sqrt(2) * s))

            def moment(z: Number) -> Number:
                return rest + mp.fsum(q * (mp.exp((z + 1) * u) + mp.exp(-z * u)) for u, q in points)

            return _contour(moment, rounds, epsilon, (t, step, nodes))

        return +_slope(
            by, delta, sigma=mp.mpf(sigma), rate=mp.mpf(rate), rounds=mp.mpf(rounds), epsilon=mp.mpf(epsilon)
        )


def gaussian_slope(by: str, sigma: float, rounds: int, epsilon: float) -> Number:
    """Of Gaussians that nothing samples, by "sigma", "rounds" or "delta": the closed form."""
    with mp.workdps(DIGITS):

        def delta(sigma: Number, rounds: Number, epsilon: Number) -> Number:
            mu = mp.sqrt(rounds) / sigma
            return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)

        return +_slope(by, delta, sigma=mp.mpf(sigma), rounds=mp.mpf(rounds), epsilon=mp.mpf(epsilon))


@stored
def two_rounds_slope(by: str, sigma: float, rate: float, epsilon: float, direction: str) -> Number:
    """Of two rounds of Poisson samples, by "sigma", "rate" or "delta"."""
    with mp.workdps(DIGITS):

        def delta(sigma: Number, rate: Number, epsilon: Number) -> Number:
            return two_rounds_delta.__wrapped__(sigma, rate, epsilon, direction)  # type: ignore[attr-defined]  # functools.wraps sets it

        return +_slope(by, delta, sigma=mp.mpf(sigma), rate=mp.mpf(rate), epsilon=mp.mpf(epsilon))
