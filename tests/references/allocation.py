"""One epoch of random allocation from the definition, in arbitrary precision.

Each of t values is ``exp(v)``, v normal with mean -1 / 2 sigma^2 and deviation 1 / sigma; S is their mean. The loss of
one epoch is log S under the law with density S (remove), and -log S (add).
"""

from __future__ import annotations

from functools import cache

from mpmath import binomial, cosh, exp, factorial, log, mp, mpc, mpf, ncdf, pi, sqrt

__all__ = [
    "epoch_delta",
    "epoch_delta_of_two",
    "integer_power_mean",
    "limited_power_means",
    "power_mean_of_three",
    "power_mean_of_two",
]

DIGITS = 40


def power_mean_of_two(sigma: float, power: complex) -> mpc:
    """E[S^power] for two values: their mean and half of their difference are independent."""
    with mp.workdps(DIGITS):
        s, w = mpf(sigma), mpc(power)
        deviation = 1 / (s * sqrt(mpf(2)))
        step = mpf(1) / 10
        points = [step * j for j in range(-300, 301)]
        total = sum(exp(-x * x / 2) * cosh(deviation * x) ** w for x in points) * step / sqrt(2 * pi)
        return +(exp(w * w * deviation**2 / 2 - w / (2 * s * s)) * total)


def power_mean_of_three(sigma: float, power: complex) -> mpc:
    """E[S^power] for three values: their mean, and the plane at right angles to it."""
    with mp.workdps(20):
        s, w = mpf(sigma), mpc(power)
        step = mpf(1) / 4
        points = [step * j for j in range(-44, 45)]
        density = [exp(-x * x / 2) for x in points]
        total = mpc(0)
        for x, d in zip(points, density, strict=True):
            for y, e in zip(points, density, strict=True):
                a, b = x / sqrt(mpf(2)), y / sqrt(mpf(6))
                rest = (exp((a + b) / s) + exp((b - a) / s) + exp(-2 * b / s)) / 3
                total += d * e * rest**w
        mean = exp(w * w / (6 * s * s) - w / (2 * s * s))
        return +(mean * total * step * step / (2 * pi))


def integer_power_mean(sigma: float, steps: int, power: int) -> mpf:
    """E[S^n], by the multinomial theorem and E[exp(k v)] = exp(k (k - 1) / 2 sigma^2)."""
    with mp.workdps(DIGITS):
        s = mpf(sigma)
        moments = [exp(mpf(k * (k - 1)) / (2 * s * s)) / factorial(k) for k in range(power + 1)]

        # The coefficients of the power of 1 + a by the binomial series, where the polynomial a starts with its first
        # power: that series ends.
        base = [mpf(0), *moments[1:]]
        found, term = [mpf(1)] + [mpf(0)] * power, [mpf(1)] + [mpf(0)] * power
        for j in range(1, min(power, steps) + 1):
            term = [sum(term[i] * base[n - i] for i in range(n + 1)) for n in range(power + 1)]
            found = [old + binomial(steps, j) * new for old, new in zip(found, term, strict=True)]
        return +(found[power] * factorial(power) / mpf(steps) ** power)


@cache
def epoch_delta(sigma: float, steps: int, epsilon: float, direction: str, last: float, nodes: int = 400) -> mpf:
    """Delta of one epoch, by a Laplace inversion: E[(k - S)_+] is the integral of e^(uk) E[e^(-uS)] / u^2 on a line.

    `last` is an imaginary part beyond which next to nothing is left; the trapezoid rule takes so many nodes up to it.
    A value takes some ten seconds.
    """
    with mp.workdps(DIGITS):
        s, level = mpf(sigma), exp(mpf(epsilon) if direction == "remove" else -mpf(epsilon))
        h = mpf(1) / 24
        points = [h * j for j in range(-12 * 24, 12 * 24 + 1)]
        weights = [h * exp(-x * x / 2) / sqrt(2 * pi) for x in points]
        values = [exp(x / s - 1 / (2 * s * s)) / steps for x in points]
        step = mpf(last) / nodes
        line = 40 * step / pi  # what wraps around is below exp(-80)
        total = mpf(0)
        for j in range(nodes + 1):
            u = mpc(line, step * j)
            one = sum(w * exp(-u * x) for w, x in zip(weights, values, strict=True))
            summand = (exp(u * level) * one**steps / u**2).real
            total += summand / 2 if j == 0 else summand
        below = total * step / pi
        return +(1 - level + below if direction == "remove" else below / level)


def epoch_delta_of_two(sigma: float, epsilon: float) -> mpf:
    """Delta of one epoch of two steps in the direction remove: given the difference of both, S is lognormal."""
    with mp.workdps(DIGITS):
        s, level = mpf(sigma), exp(mpf(epsilon))
        deviation = 1 / (s * sqrt(mpf(2)))

        def given(x: mpf) -> mpf:
            mean = cosh(deviation * x) * exp(-(deviation**2) / 2)
            far = log(level / mean) / deviation
            tail = mean * ncdf(deviation / 2 - far) - level * ncdf(-far - deviation / 2)
            return exp(-x * x / 2) / sqrt(2 * pi) * tail

        step = mpf(1) / 16  # the trapezoid rule errs by exp(-2 pi a / step), and by less than 1e-30 here
        return +(step * sum(given(step * j) for j in range(-16 * 14, 16 * 14 + 1)))


def limited_power_means(sigma: float, steps: int, limit: float, highest: float, power: int) -> tuple[mpf, mpf]:
    """E[S^n] over outputs without a value above a limit, and with exactly one, which is not above the highest one.

    By the multinomial theorem and E[X^k; x < cut] = exp(k (k - 1) / 2 sigma^2) Phi(cut - k / sigma).
    """
    with mp.workdps(60):
        d, low, high = 1 / mpf(sigma), mpf(limit), mpf(highest)
        full = [exp(mpf(k * (k - 1)) * d * d / 2) / factorial(k) for k in range(power + 1)]
        below = [one * ncdf(low - k * d) for k, one in enumerate(full)]
        above = [one * (ncdf(high - k * d) - ncdf(low - k * d)) for k, one in enumerate(full)]

        def coefficients(t: int) -> list[mpf]:
            """Of the t-th power of the polynomial of those below, by Miller's recurrence."""
            found = [below[0] ** t]
            for m in range(1, power + 1):
                terms = ((k * (t + 1) - m) * below[k] * found[m - k] for k in range(1, m + 1))
                found.append(sum(terms) / (m * below[0]))
            return found

        scale = factorial(power) / mpf(steps) ** power
        others = coefficients(steps - 1)
        one = steps * sum(above[k] * others[power - k] for k in range(power + 1))
        return +(coefficients(steps)[power] * scale), +(one * scale)
