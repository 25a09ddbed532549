r"""Powers of the mean S of independent lognormal values of mean one, averaged: real and complex powers.

With :math:`X = e^v`, v normal of deviation d and mean :math:`-d^2/2`, S the mean of t copies and n an integer,

.. math:: E[S^w] = \frac1{\Gamma(p)} \int e^{p(y - i\theta)}\, G_n(e^{y - i\theta})\, dy, \qquad
          G_n(u) = E[S^n e^{-uS}], \quad p = n - w, \quad \mathrm{Re}\,p > 0,

a Mellin integral on the ray of angle :math:`\theta`. The rotation takes back what :math:`1/\Gamma` grows by. One of the
t values is averaged by a trapezoid rule on a line that is moved off the real axis too, and :math:`G_n` is a coefficient
of the t-th power of a polynomial. docs/theory/allocation.md proves the bounds, under the names that stand here:
*averages*, *aliases*, *ends*, *rounding*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import Numbers, log1p_at
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.special import loggamma

__all__ = ["LognormalMean", "Means"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
Matrix = TypeVar("Matrix", Array, ComplexArray)

# --- What carries a proof; docs/theory/allocation.md has the propositions.

# Below this modulus an exponential is summed as a series of so many terms: 0.25^13 / 13! < 3e-18.
SMALL = 0.25
SERIES = 13
# Terms beyond the peak of an average, smaller by the exponential of this than the largest, are left out.
LOG_LEFT_OUT = 60.0
# Aliases that are added up one by one.
ALIASES = np.array([-4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0])
# The logarithm of what is taken for zero.
LOG_OF_NOTHING = -100.0

# --- Rounding and cut-offs: counted or measured, with room.

# Units of rounding of one term of an average, its sum included, of its exponent, and of one step of a recurrence.
TERM_UNITS = 16.0
EXPONENT_UNITS = 4.0
STEP_UNITS = 8.0
# Rounding errors between the nodes at which they are summed exceed what their logarithms tell by less than this factor.
BETWEEN = 1.5
# SciPy's logarithm of the gamma function, relative to the size of its value and to one.
GAMMA_UNITS = 4.0
# An average that underflows is replaced by this; it is raised to the power of the count, and nothing is left of it.
LEAST_AVERAGE = 1e-290
# With periods from here on, the sum of e^(qy) G(e^y) over nodes is at most twice its integral, for q up to 128.
LEAST_PERIOD = 16.0

# --- What only tunes speed and tightness.

# Chernoff's bound of what lies beyond the right end is tried with these powers of 1/S.
POWERS_BEYOND = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
# Errors that are not rounding are asked to be below these parts of E[S^(Re w)], in logarithms.
LOG_ALIASES = -40.0
LOG_ENDS = -40.0
LOG_AVERAGES = -40.0
LOG_FALLEN = -40.0
# The real part of p lies one unit above this number, unless n is zero.
LEAST_EXPONENT = 2.0
# Rounding may be amplified by the exponential of this; nodes whose angle suits them no better have rays of their own.
LOG_AMPLIFICATION = 2.5
# The line of an average is moved up by at most so many deviations: rounding grows by exp(1.5^2 / 2) = 3.
MOST_SHIFT = 1.5
# Its strip of analyticity is used up to here.
MOST_STRIP = 5.0
# A ray may make averages' errors grow by so much more than its own angle does, in logarithms.
LOG_STRIP_ROOM = 4.0
# Largest integer power, largest logarithm of a moment, and largest tables.
MOST_POWER = 84
LARGEST_LOG_MOMENT = 600.0
MOST_TERMS = 2**23
LARGEST_BLOCK = 2**17
# Periods that are tried, relative to the least one, and right ends, beyond the nearest one.
PERIOD_FACTORS: Array = np.asarray(1.08 ** np.arange(128), dtype=np.float64)
ENDS: Array = np.asarray(0.125 * np.arange(512), dtype=np.float64)
# Averages are taken for nodes so close together at once.
BLOCK = 2.0
# Powers with a smaller logarithm of their mean than this share a table.
LARGEST_SHARED = 8.0
# So many of them at first, then by octaves; and others in groups of so many.
SHARED_FIRST = 24
SHARED = 3
# Distance of the nodes at which rounding errors are summed.
ERROR_SPACING = 0.5
# Inner length of a sum over the nodes of a ray that serves many powers.
INNER = 128
MOST_REMEMBERED = 64


class Means(NamedTuple):
    """Logarithms of E[S^w], on some branch, and bounds on the errors of E[S^w], relative to E[S^(Re w)]."""

    logs: ComplexArray
    errors: Array


class _Average(NamedTuple):
    """How one value is averaged: a trapezoid rule in deviations x, on a line that is moved up by `shift`.

    An average errs by at most ``exp(log_error)`` times what it is on the real axis at the cosine ``exp(-log_spread)``.
    """

    x: Array
    distance: float
    shift: float
    log_error: float
    log_spread: float


class _Ray(NamedTuple):
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
    average: _Average


@dataclass(frozen=True)
class LognormalMean:
    """The mean of `count` independent lognormal values whose logarithm has deviation `deviation`, each of mean one."""

    deviation: float
    count: int

    @property
    def most_power(self) -> float:
        """Largest real part of a power that is computed."""
        most = 0.5 + math.sqrt(0.25 + 2.0 * LARGEST_LOG_MOMENT) / self.deviation
        return min(MOST_POWER, math.floor(most)) - LEAST_EXPONENT - 1.0

    def means(self, w: Numbers) -> Means:
        """E[S^w] at a row of powers whose imaginary parts are not negative."""
        logs, errors = np.zeros(w.size, dtype=np.complex128), np.zeros(w.size)
        reals = np.unique(w.real).tolist()
        if not reals or not reals[-1] <= self.most_power:
            raise NumericalError(f"A mean of lognormal values is not resolved at the power {reals[-1]:g}.")
        known = self._real_means(reals)
        for real in reals:
            here = np.flatnonzero(w.real == real)
            logs[here], errors[here] = self._on_line(real, w.imag[here], *known[real])
        return Means(logs, errors)

    def _on_line(self, real: float, imaginary: Array, log_real: float, real_error: float) -> Means:
        """E[S^w] at powers of one real part, given the logarithm of E[S^real] and its error."""
        logs, errors = np.full(imaginary.size, log_real, dtype=np.complex128), np.full(imaginary.size, real_error)
        order = np.argsort(imaginary)
        ordered = imaginary[order]
        # where the mean has fallen to nothing, by its ceiling, it is taken for zero
        fallen = math.sqrt(-2.0 * LOG_FALLEN * self.count) / self.deviation
        start, end = (int(number) for number in np.searchsorted(ordered, [0.0, fallen], side="right"))
        gone = order[end:]
        logs[gone] = log_real + LOG_OF_NOTHING
        errors[gone] = np.exp(-0.5 * (self.deviation * imaginary[gone]) ** 2 / self.count) + 2.0 * math.exp(
            LOG_OF_NOTHING
        )
        n, p_real = _split(real)
        while start < end:
            ray = self._ray(n, p_real, float(ordered[start]), fallen)
            following = min(int(np.searchsorted(ordered, ray.most, side="right")), end)
            here = order[start:following]
            logs[here], errors[here] = self._sum(ray, p_real, imaginary[here], log_real)
            errors[here] += 2.0 * real_error * np.exp(np.minimum(logs[here].real - log_real, 0.0))
            start = following
        return Means(logs, errors)

    def _ray(self, n: int, p_real: float, s: float, fallen: float) -> _Ray:
        """G_n on a ray that suits an imaginary part s, and as many larger ones as it can."""
        known = _remembered_list(self, n, p_real)
        found = next((ray for ray in known if ray.least <= s <= ray.most), None)
        if found is None:
            least = 2.0 ** math.floor(math.log2(s))
            angle, most = _angle(p_real, least)
            (found,) = self._rays(range(n, n + 1), p_real, p_real, angle, min(max(most, 2.0 * least), fallen))
            found = found._replace(least=least)
            known.append(found)
        return found

    def _real_means(self, powers: list[float]) -> dict[float, tuple[float, float]]:
        """For each real power the logarithm of E[S^power], and a bound on the relative error of the mean.

        Powers that are wanted together are summed together, if one ray serves them.
        """
        known = _remembered_real_means(self)
        together: dict[tuple[range, float, float, int], list[float]] = {}
        for power in powers:
            if power not in known:
                together.setdefault(self._real_ray(power), []).append(power)
        for (numbers, low, high, n), asked in together.items():
            ray = _remembered_rays(self, numbers, low, high)[n - numbers[0]]
            logs, errors = self._real_sums(ray, n - np.array(asked))
            known.update(zip(asked, zip(logs.tolist(), errors.tolist(), strict=True), strict=True))
        return known

    def _real_ray(self, power: float) -> tuple[range, float, float, int]:
        """Which rays serve a real power: their n, the least and the largest real part of p, and the n of this one."""
        n, p_real = _split(power)
        if not n:
            low = 2.0 ** math.floor(math.log2(p_real))
            return range(1), low, 2.0 * low, 0
        # one table for the powers of an octave, if their means are alike, and else for a few
        few = int(np.searchsorted(self.log_integer_means, LARGEST_SHARED)) - 1
        if n <= few:
            last = SHARED_FIRST * 2 ** max(math.ceil(math.log2(n / SHARED_FIRST)), 0)
            numbers = range(1 if last == SHARED_FIRST else last // 2 + 1, min(last, few) + 1)
        else:
            start = few + 1 + SHARED * ((n - few - 1) // SHARED)
            numbers = range(start, min(start + SHARED, self.log_integer_means.size))
        return numbers, LEAST_EXPONENT, LEAST_EXPONENT + 1.0, n

    # --- rays

    def _log_alias(self, period: Array | float, p_real: Array | float, angle: float, s: Array) -> Array:
        """*Aliases*: the logarithm of what the sum over nodes adds, relative to E[S^(Re w)].

        `period` is 2 pi over the step: the imaginary parts that the sum takes together are that far apart. On either
        side the exponents are concave in the number of the alias, so that those beyond the last add no more than that
        one, if it is at most half of the one before.
        """
        turns = np.multiply.outer(period, ALIASES)
        moved = s[:, None] - turns
        size = loggamma(np.asarray(p_real)[..., None] - 1j * moved).real - loggamma(p_real - 1j * s).real[:, None]
        ceiling = -0.5 * (self.deviation * moved) ** 2 / self.count
        exponents = size + ceiling - angle * turns
        ends = np.maximum(exponents[:, 0] - exponents[:, 1], exponents[:, -1] - exponents[:, -2])
        top = exponents.max(axis=1)
        total = top + np.log(2.0 * np.exp(exponents - top[:, None]).sum(axis=1))
        return np.where(ends <= -math.log(2.0), total, math.inf)

    def _period(self, p_real: float, angle: float, s: float) -> float:
        """A period whose aliases are negligible up to s."""
        periods: Array = np.asarray((s + LEAST_PERIOD) * PERIOD_FACTORS, dtype=np.float64)
        first = self._log_alias(periods, p_real, angle, np.zeros(periods.size))
        last = self._log_alias(periods, p_real, angle, np.full(periods.size, s))
        enough = np.flatnonzero(np.maximum(first, last) <= LOG_ALIASES)
        if not enough.size:
            raise NumericalError("A mean of so many lognormal values takes too long.")
        return float(periods[enough[0]])

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
        found = _power_coefficients(np.exp(logs + k * (log_scale - math.log(self.count)))[None, :], self.count)[:, 0]
        return np.asarray(np.log(found) - k * log_scale + loggamma(k + 1.0).real + 1e-10)

    def _rays(self, n: range, p_low: float, p_high: float, angle: float, s: float) -> list[_Ray]:
        """G_n on a ray, for all p with real parts from `p_low` to `p_high` and imaginary parts up to s."""
        most = n[-1]
        log_count = math.log(self.count)
        period = max(self._period(p, angle, s) for p in {p_low, p_high})
        step = 2.0 * math.pi / period
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
        return [_Ray(m, angle, 0.0, s, step, y, log_sizes, values[i], errors[i], average) for i, m in enumerate(n)]

    def _average(self, n: int, p_high: float, angle: float, right: float) -> _Average:
        """*Averages*: nodes for the average of one value, and how far they are off."""
        sigma = 1.0 / self.deviation
        shift = min(MOST_SHIFT, sigma * angle)
        widest = max(angle, math.acos(math.cos(angle) * math.exp(-LOG_STRIP_ROOM / p_high)))
        strip = min(sigma * (widest - angle) + shift, MOST_STRIP)
        log_spread = -math.log(math.cos(widest))
        log_wanted = LOG_AVERAGES - math.log(self.count) - p_high * (log_spread + math.log(math.cos(angle)))
        growth = 0.5 * (shift + strip) ** 2 + math.log(2.0)
        distance = 2.0 * math.pi * strip / (growth - log_wanted)
        reach = math.sqrt(2.0 * (math.log(4.0) + 0.5 * shift**2 - log_wanted))
        turns = 2.0 * math.pi * strip / distance
        of_strip = growth - turns - math.log(-math.expm1(-turns))
        of_window = math.log(4.0) + 0.5 * (shift**2 - reach**2)
        log_error = float(np.logaddexp(of_strip, of_window)) + 1e-9
        # The highest peak is that of X^n alone; the lowest that of exp(-uX/t) for the largest u.
        lowest = -sigma * max(right - 0.5 * self.deviation**2, 0.0) - self.deviation
        low, high = lowest - reach - 1.0, n * self.deviation + reach + 1.0
        x: Array = distance * np.arange(
            math.floor(low / distance) - 1, math.ceil(high / distance) + 2, dtype=np.float64
        )
        return _Average(x, distance, shift, log_error, log_spread)

    def _coefficients(self, y: Array, average: _Average, angle: float, n: range) -> tuple[Array, ComplexArray, Array]:
        """G_n = exp(log_size) value on a ray, for each n, and bounds on the rounding errors of the values."""
        d, x = self.deviation, average.x
        turn = d * average.shift
        most = n[-1]
        k = np.arange(most + 1, dtype=np.float64)[:, None]
        # X^k / k! times the normal density: a square that is completed, and a constant
        parts = 0.5 * d * d * (k * (k - 1.0)), loggamma(k + 1.0).real
        squares = 0.5 * (x - k * d) ** 2
        scale = average.distance / math.sqrt(2.0 * math.pi) * math.exp(0.5 * average.shift**2)
        sizes = np.exp(parts[0] - parts[1] - squares) * scale
        log_x = d * x - 0.5 * d * d
        factor = np.exp(1j * (turn - angle)) if angle else np.float64(1.0)  # of the turned X and of u
        weights = (sizes * np.exp(1j * (k * turn - average.shift * x)) if angle else sizes).T
        first, averages = _averages(y, log_x, weights, factor)
        log_sizes, values = self._powers(first, averages, n)
        # *Rounding* varies slowly along the ray, and is summed at some of the nodes.
        some = np.unique(np.append(np.arange(0, y.size, max(1, round(ERROR_SPACING / (y[1] - y[0])))), y.size - 1))
        exponents = np.add.outer(y[some], log_x)
        moved = np.exp(exponents)
        modulus = np.exp(-factor.real * moved)
        moved *= modulus * (EXPONENT_UNITS + np.abs(exponents) + 2.0 * (np.abs(d * x) + 0.5 * d * d))
        near = UNIT_ROUNDOFF * ((TERM_UNITS * np.minimum(np.exp(exponents), 1.0) + moved) @ sizes[0])
        units = TERM_UNITS + 2.0 * squares + 2.0 * average.shift * np.abs(x) + 4.0 * (parts[0] + parts[1])
        errors = UNIT_ROUNDOFF * (modulus @ (sizes * units).T + moved @ sizes.T)
        found = self._rounding(first[some], averages[some], near, errors, n)
        return log_sizes, values, _between(y, y[some], found)

    def _powers(self, first: ComplexArray, averages: ComplexArray, n: range) -> tuple[Array, ComplexArray]:
        """G_n from the averages a_k, times the count to the power k; `first` is a_0 - 1."""
        logs = self.count * _log_of(first, averages[:, 0])
        turned = np.exp(1j * logs.imag)
        if n[-1] == 0:
            return logs.real, turned[None, :]
        ratios = averages / np.where(np.abs(averages[:, 0]) < LEAST_AVERAGE, LEAST_AVERAGE, averages[:, 0])[:, None]
        scales, factors = self._scales(n)
        return logs.real, _power_coefficients(ratios * scales, self.count)[n[0] :] * (factors * turned)

    def _scales(self, n: range) -> tuple[Array, Array]:
        """What keeps coefficients in the range of doubles, and n! over the count to the power n with it taken out."""
        log_scale = math.log(max(n[-1], 3) / math.e)
        k, numbers = np.arange(n[-1] + 1, dtype=np.float64), np.asarray(n, dtype=np.float64)
        factors = np.exp(loggamma(numbers + 1.0).real - numbers * log_scale)
        return np.exp(k * (log_scale - math.log(self.count))), factors[:, None]

    def _rounding(self, first: ComplexArray, averages: ComplexArray, near: Array, errors: Array, n: range) -> Array:
        """Bounds on the rounding errors of what `_powers` finds, given those of a_0 - 1 and of the averages."""
        t, u = self.count, UNIT_ROUNDOFF
        size = np.maximum(np.abs(averages[:, 0]), LEAST_AVERAGE)
        of_first = np.where(np.abs(first) < 0.5, near, errors[:, 0]) / size
        of_first += STEP_UNITS * u * np.abs(_log_of(first, averages[:, 0]))
        if n[-1] == 0:
            return np.asarray(t * of_first)[None, :]
        sizes = (np.abs(averages) + errors) / size[:, None]
        sizes[:, 0] = 1.0
        relative = errors[:, 1:] / size[:, None] / np.maximum(sizes[:, 1:], 1e-300) + of_first[:, None]
        # in a product of coefficients of total degree n, relative errors of k times this much add up to n times it
        relative = (relative / np.arange(1, n[-1] + 1)).max(axis=1)
        numbers = np.asarray(n)[:, None]
        counted = (
            t * of_first + numbers * (relative + (8.0 + math.log(t)) * 4.0 * u) + 2.0 * STEP_UNITS * u * (numbers + 1.0)
        )
        scales, factors = self._scales(n)
        return np.asarray(_power_coefficients(sizes * scales, t)[n[0] :] * factors * counted)

    # --- sums over the nodes of a ray

    def _real_sums(self, ray: _Ray, p: Array) -> tuple[Array, Array]:
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
        size = 4.0 + np.abs(top) + np.abs(log_gamma) + p * log_count
        with np.errstate(over="ignore"):
            errors = rounding * np.exp(prefactor - logs) + GAMMA_UNITS * UNIT_ROUNDOFF * size
            grown = math.expm1(min(self.count * math.exp(ray.average.log_error), 1.0))
            errors += 2.0 * grown * np.exp(p * ray.average.log_spread)
            errors += np.exp(self._log_alias(2.0 * math.pi / ray.step, p, 0.0, np.zeros(p.size)))
            left = float(self.log_integer_means[ray.n]) + p * float(ray.y[0])
            left += math.log(ray.step) - np.log(-np.expm1(-p * ray.step))
            right = self._log_beyond(p, ray.n, 0.0, np.full(p.size, ray.y[-1]))
            errors += np.exp(np.logaddexp(left, right) + p * log_count - log_gamma - logs)
        return logs, errors

    def _sum(self, ray: _Ray, p_real: float, s: Array, log_real: float) -> tuple[ComplexArray, Array]:
        """The logarithms of E[S^(n - p_real + is)], and bounds on the errors relative to the real one."""
        exponents = p_real * ray.y + ray.log_sizes
        top = float(exponents.max())
        sizes = np.exp(exponents - top)
        terms = sizes * ray.values
        modulus = np.abs(terms)
        center = float(ray.y[int(np.argmax(modulus))])
        offsets = ray.y - center
        found = _phased_sums(terms, offsets, ray.step, s)
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
            size = 4.0 + abs(top) + np.abs(log_gamma) + s * (ray.angle + abs(center)) + p_real * log_count
            errors += GAMMA_UNITS * UNIT_ROUNDOFF * size * np.exp(np.minimum(logs.real - log_real, 0.0))
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


def _averages(
    y: Array, log_x: Array, weights: Matrix, factor: np.complex128 | np.float64
) -> tuple[ComplexArray, ComplexArray]:
    """Sums of ``weights exp(-q)``, one for each column of weights, and of ``exp(-q) - 1`` with the first column.

    In a row of y, q is ``factor exp(y + log_x)``. Where q is small its powers are summed, for all rows of a block at
    once. Points beyond the peak that add next to nothing to the last column add less to the others, and are left out.
    """
    first = np.empty(y.size, dtype=np.complex128)
    averages = np.empty((y.size, weights.shape[1]), dtype=np.complex128)
    numbers = np.arange(SERIES)
    series = (-factor) ** numbers / np.exp(loggamma(numbers + 1.0).real)
    with np.errstate(divide="ignore"):
        log_last = np.log(np.abs(weights[:, -1]))
    x = np.exp(log_x)
    beyond = np.append(np.cumsum(weights[::-1, 0])[::-1], 0.0)
    height = max(1, int(BLOCK / (y[1] - y[0])))
    for start in range(0, y.size, height):
        rows = slice(start, min(start + height, y.size))
        here = y[rows]
        low = int(np.searchsorted(log_x, math.log(SMALL) - here[-1]))
        heights = log_last - (factor.real * math.exp(here[0])) * x
        high = max(int(np.flatnonzero(heights >= heights.max() - LOG_LEFT_OUT)[-1]) + 1, low)
        values = np.exp(-factor * np.exp(np.add.outer(here, log_x[low:high])))
        averages[rows] = values @ weights[low:high]
        first[rows] = (values - 1.0) @ weights[low:high, 0] - beyond[high]
        if low:
            powers = np.exp(np.multiply.outer(log_x[:low] + here[-1], numbers)) * series
            partial = powers.T @ weights[:low]
            shrunk = np.exp(np.multiply.outer(here - here[-1], numbers))
            averages[rows] += shrunk @ partial
            first[rows] += shrunk[:, 1:] @ partial[1:, 0]
    return first, averages


def _split(real: float) -> tuple[int, float]:
    """n and the real part of p = n - w for a real part of w."""
    n = max(math.floor(real) + 1 + int(LEAST_EXPONENT), 0)
    return n, n - real


def _angle(p_real: float, s: float) -> tuple[float, float]:
    """The largest angle that suits an imaginary part s, and the largest imaginary part that it suits."""
    at = s * 2.0 ** (np.arange(0, 65) / 8.0)
    size = math.lgamma(p_real) - loggamma(p_real - 1j * at).real
    # from the saddle point's angle towards a right angle
    gaps = math.atan2(p_real, s) * 2.0 ** -(np.arange(0, 33) / 4.0)
    growth = -p_real * np.log(np.sin(gaps)) - (0.5 * math.pi - gaps) * s + size[0]
    gap = float(gaps[np.flatnonzero(growth <= max(LOG_AMPLIFICATION, float(growth[0])))[-1]])
    along = -p_real * math.log(math.sin(gap)) - (0.5 * math.pi - gap) * at + size
    beyond = np.flatnonzero(along > max(LOG_AMPLIFICATION, float(along[0])))
    return 0.5 * math.pi - gap, float(at[beyond[0] - 1]) if beyond.size else float(at[-1])


def _log_of(less: ComplexArray, whole: ComplexArray) -> ComplexArray:
    """The logarithm of ``whole = 1 + less``, to its own size; of what underflows, that of the least average."""
    is_near = np.abs(less) < 0.5
    far = np.where(is_near | (np.abs(whole) < LEAST_AVERAGE), LEAST_AVERAGE, whole)
    return np.where(is_near, log1p_at(np.where(is_near, less, 0.0)), np.log(far))


def _between(y: Array, at: Array, values: Array) -> Array:
    """Rows of values between the points at which they are given, and a margin: their logarithms bend little."""
    logs = np.log(np.maximum(values, 1e-300)) + math.log(BETWEEN)
    return np.asarray(np.exp(np.stack([np.interp(y, at, row) for row in logs])))


def _phased_sums(terms: ComplexArray, offsets: Array, step: float, s: Array) -> ComplexArray:
    """Sums of ``terms exp(-i s offset)`` over equidistant offsets, for every s: an inner and an outer factor."""
    rows = -(-terms.size // INNER)
    table = np.zeros(rows * INNER, dtype=np.complex128)
    table[: terms.size] = terms
    inner = np.exp(-1j * np.multiply.outer(step * np.arange(INNER), s))
    outer = np.exp(-1j * np.multiply.outer(offsets[::INNER], s))
    return np.asarray(((table.reshape(rows, INNER) @ inner) * outer).sum(axis=0))


def _power_coefficients(polynomials: Matrix, t: int) -> Matrix:
    """The coefficients of the t-th powers of polynomials, one in each row, up to their degree; a row for each.

    By Miller's recurrence where no factor in it is negative, and else by repeated squaring: sums and products alone.
    """
    columns = np.ascontiguousarray(polynomials.T)
    n = columns.shape[0] - 1
    if t >= n - 1:
        found = np.empty_like(columns)
        found[0] = 1.0
        for m in range(1, n + 1):
            factors = (np.arange(1, m + 1) * (t + 1.0) - m) / m
            found[m] = (columns[1 : m + 1] * found[m - 1 :: -1][:m] * factors[:, None]).sum(axis=0)
        return found
    powers, square = None, columns
    while t:
        if t & 1:
            powers = square if powers is None else _product(powers, square)
        t >>= 1
        square = _product(square, square) if t else square
    return columns if powers is None else powers


def _product(one: Matrix, other: Matrix) -> Matrix:
    """The product of polynomials, cut at their degree."""
    return np.stack([(one[: m + 1] * other[m::-1][: m + 1]).sum(axis=0) for m in range(one.shape[0])])


@lru_cache(maxsize=MOST_REMEMBERED)
def _remembered_rays(mean: LognormalMean, n: range, p_low: float, p_high: float) -> list[_Ray]:
    return mean._rays(n, p_low, p_high, 0.0, 0.0)


@lru_cache(maxsize=MOST_REMEMBERED)
def _remembered_integer_means(mean: LognormalMean) -> Array:
    return mean._log_integer_means()


@lru_cache(maxsize=MOST_REMEMBERED)
def _remembered_list(mean: LognormalMean, n: int, p_real: float) -> list[_Ray]:
    """The rays of one line, to which new ones are added."""
    return []


@lru_cache(maxsize=MOST_REMEMBERED)
def _remembered_real_means(mean: LognormalMean) -> dict[float, tuple[float, float]]:
    """What is known of real powers, to which more are added: S^0 and S itself have the mean one."""
    return {0.0: (0.0, 0.0), 1.0: (0.0, 0.0)}
