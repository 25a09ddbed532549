r"""Mellin integrals of :math:`G_n` on a ray, as sums over its nodes, and what these leave out or add.

docs/theory/allocation.md proves the bounds, under the names that stand here: *aliases*, *ends*, *rounding*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError
from dprounds.numerics.doubled import short_below
from dprounds.numerics.log_gamma import loggamma
from dprounds.numerics.lognormal_powers import TERM_UNITS, Average, LognormalPowers, power_coefficients
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["LEAST_EXPONENT", "LognormalRays", "Ray", "phased_sums"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# --- What carries a proof; docs/theory/allocation.md has the propositions.

# Aliases that are added up one by one.
ALIASES = np.array([-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0])

# --- Rounding and cut-offs: counted or measured, with room.

# The logarithm of the gamma function, relative to the size of its value and to four; and other exponents.
GAMMA_UNITS = 16.0
EXPONENT_UNITS = 4.0
# With periods from here on, the sum of e^(qy) G(e^y) over nodes is at most twice its integral, for q up to 128.
LEAST_PERIOD = 16.0

# --- What only tunes speed and tightness.

# Chernoff's bound of what lies beyond the right end is tried with these powers of 1/S.
POWERS_BEYOND = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
# Errors that are not rounding are asked to be below these parts of E[S^(Re w)], in logarithms.
LOG_ALIASES = -40.0
LOG_ENDS = -40.0
# The real part of p lies one unit above this number, unless n is zero.
LEAST_EXPONENT = 2.0
# Largest integer power, largest logarithm of a moment, and largest tables.
MOST_POWER = 84
LARGEST_LOG_MOMENT = 600.0
MOST_TERMS = 2**23
# Periods that are tried, relative to the least one, at first every so many of them, and right ends, beyond the nearest
# one.
PERIOD_FACTORS: Array = np.asarray(1.08 ** np.arange(129), dtype=np.float64)
PERIOD_STRIDE = 8
ENDS: Array = np.asarray(0.125 * np.arange(512), dtype=np.float64)
# Inner length of a sum over the nodes of a ray that serves many powers.
INNER = 128
# Tables of integer moments that are remembered: plans ask for the same mean again and again.
MOST_TABLES = 64
# And of gamma functions at aliases, which are the same for many means.
MOST_RATIOS = 512


class Ray(NamedTuple):
    """G_n on the nodes of a ray: ``exp(log_sizes)`` times `values`; `value_errors` bound the rounding of the values.

    It serves imaginary parts from `least` to `most`. `y` is the logarithm of u over the count.
    """

    n: int
    angle: float
    least: float
    most: float
    step: float
    y: Array
    log_sizes: Array
    values: ComplexArray
    value_errors: Array
    average: Average


@dataclass(frozen=True)
class LognormalRays(LognormalPowers):
    """The same mean, with sums over the nodes of rays."""

    @property
    def most_power(self) -> float:
        """Largest real part of a power that is computed."""
        most = 0.5 + math.sqrt(0.25 + 2.0 * LARGEST_LOG_MOMENT) / self.deviation
        return math.floor(min(MOST_POWER, most)) - LEAST_EXPONENT - 1.0

    def _log_alias(self, period: Array | float, p_real: Array | float, angle: float, s: Array) -> Array:
        """*Aliases*: the logarithm of what the sum over nodes adds, relative to E[S^(Re w)].

        `period` is 2 pi over the step: the imaginary parts that the sum takes together are that far apart. On either
        side the exponents are concave in the number of the alias, so that those beyond the last add no more than that
        one, if it is at most half of the one before.
        """
        turns = np.multiply.outer(period, ALIASES)
        moved = s[:, None] - turns
        size = _gamma_ratios(np.asarray(p_real, dtype=np.float64), s, moved)
        ceiling = -0.5 * (self.deviation * moved) ** 2 / self.count
        exponents = size + ceiling - angle * turns
        ends = np.maximum(exponents[:, 0] - exponents[:, 1], exponents[:, -1] - exponents[:, -2])
        top = exponents.max(axis=1)
        total = top + np.log(2.0 * np.exp(exponents - top[:, None]).sum(axis=1))
        return np.where(ends <= -math.log(2.0), total, math.inf)

    def _period(self, p_real: float, angle: float, s: float) -> float:
        """A period whose aliases are negligible up to s."""

        def first_of(factors: Array) -> int:
            """The number of the first period that is long enough."""
            periods = (s + LEAST_PERIOD) * factors
            aliases = [self._log_alias(periods, p_real, angle, np.full(factors.size, end)) for end in {0.0, s}]
            enough = np.flatnonzero(np.maximum.reduce(aliases) <= LOG_ALIASES)
            if not enough.size:
                raise NumericalError("A mean of so many lognormal values takes too long.")
            return int(enough[0])

        last = PERIOD_STRIDE * first_of(PERIOD_FACTORS[::PERIOD_STRIDE])
        near = PERIOD_FACTORS[max(last - PERIOD_STRIDE + 1, 0) : last + 1]
        return (s + LEAST_PERIOD) * float(near[first_of(near)])

    def _log_beyond(self, p_real: Array | float, n: int, angle: float, right: Array) -> Array:
        """*Ends*, on the right: the logarithm of the sum of e^(py) |G_n| over the nodes from there on, times the step.

        By Chernoff's bound with a larger power q: the sum of e^(qy) G_n(e^y cos) over all nodes is at most twice its
        integral, and S is not below the geometric mean of the values.
        """
        p = np.asarray(p_real)[..., None]
        q = np.maximum(float(n), p) + POWERS_BEYOND
        below = q - n
        variance = self.deviation**2
        log_mean = 0.5 * variance * below + 0.5 * variance * below**2 / self.count
        exponents = loggamma(q).real + log_mean - q * math.log(math.cos(angle) * self.count)
        return np.asarray((exponents - right[:, None] * (q - p)).min(axis=-1) + math.log(2.0))

    @property
    def log_integer_means(self) -> Array:
        """The logarithms of E[S^n], rounded up."""
        return _remembered_integer_means(self)

    def _log_integer_means(self) -> Array:
        most = int(self.most_power + LEAST_EXPONENT + 1.0)
        k = np.arange(most + 1)
        log_scale = math.log(most / math.e)  # so that no coefficient is out of the range of doubles
        logs = 0.5 * self.deviation**2 * (k * (k - 1.0)) - loggamma(k + 1.0).real
        found = power_coefficients(np.exp(logs + k * (log_scale - math.log(self.count)))[None, :], self.count)[:, 0]
        return np.asarray(np.log(found) - k * log_scale + loggamma(k + 1.0).real + 1e-10)

    def _rays(self, n: range, p_low: float, p_high: float, angle: float, s: float) -> list[Ray]:
        """G_n on a ray, for all p with real parts from `p_low` to `p_high` and imaginary parts up to s."""
        most = n[-1]
        log_count = math.log(self.count)
        period = max(self._period(p, angle, s) for p in {p_low, p_high})
        step = short_below(2.0 * math.pi / period)  # so that its multiples are not rounded
        size = min(float(loggamma(p - 1j * s).real) for p in {p_low, p_high})
        target = LOG_ENDS + size + angle * s
        # E[S^(n-p)] is not below E[S^m] for a positive integer m up to n - p
        means = self.log_integer_means
        least = min(float(means[max(m - math.ceil(p_high), 0)] - means[m]) for m in n)
        left = (target + least + math.log(p_low)) / p_low - log_count
        rights: Array = np.asarray(math.log(p_high / math.cos(angle) + 1.0) - log_count + ENDS, dtype=np.float64)
        beyond = np.maximum(*(self._log_beyond(p_high, m, angle, rights) for m in (n[0], most))) + p_high * log_count
        enough = np.flatnonzero(beyond <= target)
        if not enough.size:
            raise NumericalError("A mean of so many lognormal values takes too long.")
        right = float(rights[enough[0]])
        first, last = math.floor(left / step) - 1, math.ceil(right / step) + 1
        average = self._average(most, p_high, angle, step * last)
        if not (last - first) * average.x.size < MOST_TERMS:
            raise NumericalError("A mean of so many lognormal values takes too long.")
        y = step * np.arange(first, last + 1, dtype=np.float64)
        log_sizes, values, errors = self._coefficients(y, average, angle, n)
        return [Ray(m, angle, 0.0, s, step, y, log_sizes, values[i], errors[i], average) for i, m in enumerate(n)]

    def _real_sums(self, ray: Ray, p: Array) -> tuple[Array, Array]:
        """The logarithms of E[S^(n - p)] for real p, and bounds on the relative errors: `_sum` at s = 0, for many p."""
        exponents = np.multiply.outer(p, ray.y) + ray.log_sizes
        top = exponents.max(axis=1)
        exponents -= top[:, None]
        sizes = np.exp(exponents)
        terms = sizes * ray.values.real
        modulus = np.abs(terms)
        log_gamma, log_count = loggamma(p).real, math.log(self.count)
        prefactor = top + p * log_count + math.log(ray.step) - log_gamma
        logs = np.log(terms.sum(axis=1)) + prefactor
        moved = p * (modulus @ np.abs(ray.y)) + (modulus * np.abs(exponents)).sum(axis=1)
        rounding = sizes @ ray.value_errors + UNIT_ROUNDOFF * (2.0 * moved + TERM_UNITS * modulus.sum(axis=1))
        size = EXPONENT_UNITS * (4.0 + np.abs(top) + p * log_count) + GAMMA_UNITS * (4.0 + np.abs(log_gamma))
        with np.errstate(over="ignore"):
            errors = rounding * np.exp(prefactor - logs) + UNIT_ROUNDOFF * size
            grown = math.expm1(min(self.count * math.exp(ray.average.log_error), 1.0))
            errors += 2.0 * grown * np.exp(p * ray.average.log_spread)
            errors += np.exp(self._log_alias(2.0 * math.pi / ray.step, p, 0.0, np.zeros(p.size)))
            left = float(self.log_integer_means[ray.n]) + p * float(ray.y[0])
            left += math.log(ray.step) - np.log(-np.expm1(-p * ray.step))
            right = self._log_beyond(p, ray.n, 0.0, np.full(p.size, ray.y[-1]))
            errors += np.exp(np.logaddexp(left, right) + p * log_count - log_gamma - logs)
        return logs, errors

    def _sum(self, ray: Ray, p_real: float, s: Array, log_real: float) -> tuple[ComplexArray, Array]:
        """The logarithms of E[S^(n - p_real + is)], and bounds on the errors relative to the real one."""
        exponents = p_real * ray.y + ray.log_sizes
        top = float(exponents.max())
        sizes = np.exp(exponents - top)
        terms = sizes * ray.values
        modulus = np.abs(terms)
        center = float(ray.y[int(np.argmax(modulus))])
        offsets = ray.y - center
        found = phased_sums(terms, offsets, ray.step, s)
        log_gamma = loggamma(p_real - 1j * s)
        log_count = math.log(self.count)
        prefactor = top + p_real * log_count + math.log(ray.step) - ray.angle * s - log_gamma.real
        with np.errstate(divide="ignore"):
            logs = np.log(found) + prefactor - 1j * (ray.angle * p_real + s * (center + log_count) + log_gamma.imag)
        # *rounding*, of G, of exponents and of phases
        flat, phases = float(modulus.sum()), float((modulus * np.abs(offsets)).sum())
        moved = float((modulus * (p_real * np.abs(ray.y) + np.abs(exponents - top))).sum())
        rounding = float((sizes * ray.value_errors).sum()) + UNIT_ROUNDOFF * (
            2.0 * moved + TERM_UNITS * flat + 4.0 * s * phases
        )
        with np.errstate(over="ignore"):
            errors = rounding * np.exp(prefactor - log_real)
            size = EXPONENT_UNITS * (4.0 + abs(top) + s * (ray.angle + abs(center)) + p_real * log_count)
            size = size + GAMMA_UNITS * (4.0 + np.abs(log_gamma))
            errors += UNIT_ROUNDOFF * size * np.exp(np.minimum(logs.real - log_real, 0.0))
            # *averages*: each of t averages is off, relative to what it is on the real axis
            grown = math.expm1(min(self.count * math.exp(ray.average.log_error), 1.0))
            spread = p_real * ray.average.log_spread + math.lgamma(p_real) - ray.angle * s - log_gamma.real
            errors += 2.0 * grown * np.exp(spread)
            # *aliases*
            errors += np.exp(self._log_alias(2.0 * math.pi / ray.step, p_real, ray.angle, s))
            # *ends*
            left = float(self.log_integer_means[ray.n]) + p_real * float(ray.y[0])
            left += math.log(ray.step) - math.log(-math.expm1(-p_real * ray.step))
            right = float(self._log_beyond(p_real, ray.n, ray.angle, ray.y[-1:])[0])
            outside = np.logaddexp(left, right) + p_real * log_count
            errors += np.exp(outside - ray.angle * s - log_gamma.real - log_real)
        return logs, errors


def phased_sums(terms: ComplexArray, offsets: Array, step: float, s: Array) -> ComplexArray:
    """Sums of ``terms exp(-i s offset)`` over equidistant offsets, for every s: an inner and an outer factor."""
    rows = -(-terms.size // INNER)
    table = np.zeros(rows * INNER, dtype=np.complex128)
    table[: terms.size] = terms
    inner = np.exp(-1j * np.multiply.outer(step * np.arange(INNER), s))
    outer = np.exp(-1j * np.multiply.outer(offsets[::INNER], s))
    return np.asarray(((table.reshape(rows, INNER) @ inner) * outer).sum(axis=0))


def _gamma_ratios(p_real: Array, s: Array, moved: Array) -> Array:
    """Logarithms of the moduli of gamma functions at aliases, relative to those where there is none."""
    given = [np.ascontiguousarray(row) for row in (p_real, s, moved)]
    return _remembered_ratios(*((row.shape, row.tobytes()) for row in given))


@lru_cache(maxsize=MOST_RATIOS)
def _remembered_ratios(*given: tuple[tuple[int, ...], bytes]) -> Array:
    p_real, s, moved = (np.frombuffer(row).reshape(shape) for shape, row in given)
    own = loggamma(np.asarray(p_real - 1j * s, dtype=np.complex128)).real[:, None]
    return np.asarray(loggamma(np.asarray(p_real[..., None] - 1j * moved, dtype=np.complex128)).real - own)


@lru_cache(maxsize=MOST_TABLES)
def _remembered_integer_means(mean: LognormalRays) -> Array:
    return mean._log_integer_means()
