r"""Powers of the mean S of independent lognormal values of mean one, averaged: real and complex powers.

With :math:`X = e^v`, v normal of deviation d and mean :math:`-d^2/2`, S the mean of t copies and n an integer,

.. math:: E[S^w] = \frac1{\Gamma(p)} \int e^{p(y - i\theta)}\, G_n(e^{y - i\theta})\, dy, \qquad
          G_n(u) = E[S^n e^{-uS}], \quad p = n - w, \quad \mathrm{Re}\,p > 0,

a Mellin integral on the ray of angle :math:`\theta`. The rotation takes back what :math:`1/\Gamma` grows by. One of the
t values is averaged first, and :math:`G_n` is a coefficient of the t-th power of a polynomial (`lognormal_powers`).
Then the integral is summed (`lognormal_rays`). Here it is chosen which ray serves which powers.
docs/theory/allocation.md has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.log_gamma import loggamma
from dprounds.numerics.lognormal_rays import LEAST_EXPONENT, LognormalRays, Ray

__all__ = ["LognormalMean", "Means", "split_power"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# --- What carries a proof; docs/theory/allocation.md has the propositions.

# The logarithm of what is taken for zero.
LOG_OF_NOTHING = -100.0

# --- What only tunes speed and tightness.

# A mean is taken for zero where its ceiling is below this part of E[S^(Re w)], in logarithms.
LOG_FALLEN = -40.0
# Rounding may be amplified by the exponential of this; nodes whose angle suits them no better have rays of their own.
# A line divides its nodes by the square of their imaginary parts: an octave beyond this one may have as much more.
LOG_AMPLIFICATION = 1.5
FULL_WEIGHT = 16.0
# Powers with a smaller logarithm of their mean than this share a table.
LARGEST_SHARED = 8.0
# So many of them at first, then by octaves; and others in groups of so many.
SHARED_FIRST = 24
SHARED = 3
MOST_REMEMBERED = 64


class Means(NamedTuple):
    """Logarithms of E[S^w], on some branch, and bounds on the errors of E[S^w], relative to E[S^(Re w)]."""

    logs: ComplexArray
    errors: Array


@dataclass(frozen=True)
class LognormalMean(LognormalRays):
    """The mean of `count` independent lognormal values whose logarithm has deviation `deviation`, each of mean one."""

    def means(self, w: Numbers) -> Means:
        """E[S^w] at a row of powers whose imaginary parts are not negative."""
        logs, errors = np.zeros(w.size, dtype=np.complex128), np.zeros(w.size)
        reals = np.unique(w.real).tolist()
        if not reals or not reals[-1] <= self.most_power:
            raise NumericalError(f"A mean of lognormal values is not resolved at the power {reals[-1]:g}.")
        known = self._real_means(reals)
        if not w.imag.any():
            logs[:], errors[:] = np.array([known[real] for real in w.real.tolist()]).T
            return Means(logs, errors)
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
        start, end = (int(i) for i in np.searchsorted(ordered, [0.0, self.largest_imaginary], side="right"))
        gone = order[end:]
        logs[gone] = log_real + LOG_OF_NOTHING
        errors[gone] = np.exp(-0.5 * (self.deviation * imaginary[gone]) ** 2 / self.count) + 2.0 * math.exp(
            LOG_OF_NOTHING
        )
        n, p_real = split_power(real)
        while start < end:
            ray = self.ray(n, p_real, float(ordered[start]))
            following = min(int(np.searchsorted(ordered, ray.most, side="right")), end)
            here = order[start:following]
            logs[here], errors[here] = self._sum(ray, p_real, imaginary[here], log_real)
            errors[here] += 2.0 * real_error * np.exp(np.minimum(logs[here].real - log_real, 0.0))
            start = following
        return Means(logs, errors)

    @property
    def largest_imaginary(self) -> float:
        """Powers with a larger imaginary part have a mean that has fallen to nothing, by its ceiling."""
        return math.sqrt(-2.0 * LOG_FALLEN * self.count) / self.deviation

    def ray(self, n: int, p_real: float, s: float) -> Ray:
        """G_n on a ray that suits an imaginary part s, and as many larger ones as it can."""
        known = _remembered_list(self, n, p_real)
        found = next((ray for ray in known if ray.least <= s <= ray.most), None)
        if found is None:
            least = 2.0 ** math.floor(math.log2(s))
            angle, most = _angle(p_real, least)
            (found,) = self._rays(
                range(n, n + 1), p_real, p_real, angle, min(max(most, 2.0 * least), self.largest_imaginary)
            )
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
        n, p_real = split_power(power)
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


def split_power(real: float) -> tuple[int, float]:
    """n and the real part of p = n - w for a real part of w."""
    n = max(math.floor(real) + 1 + int(LEAST_EXPONENT), 0)
    return n, n - real


def _angle(p_real: float, s: float) -> tuple[float, float]:
    """The largest angle that suits an imaginary part s, and the largest imaginary part that it suits."""
    at = s * 2.0 ** (np.arange(0, 65) / 8.0)
    size = math.lgamma(p_real) - loggamma(p_real - 1j * at).real
    allowed = LOG_AMPLIFICATION + np.log(np.maximum(at / FULL_WEIGHT, 1.0))
    # from the saddle point's angle towards a right angle
    gaps = math.atan2(p_real, s) * 2.0 ** -(np.arange(0, 33) / 4.0)
    growth = -p_real * np.log(np.sin(gaps)) - (0.5 * math.pi - gaps) * s + size[0]
    gap = float(gaps[np.flatnonzero(growth <= max(float(allowed[0]), float(growth[0])))[-1]])
    along = -p_real * math.log(math.sin(gap)) - (0.5 * math.pi - gap) * at + size
    beyond = np.flatnonzero(along > np.maximum(allowed, float(along[0])))
    return 0.5 * math.pi - gap, float(at[beyond[0] - 1]) if beyond.size else float(at[-1])


@lru_cache(maxsize=MOST_REMEMBERED)
def _remembered_rays(mean: LognormalMean, n: range, p_low: float, p_high: float) -> list[Ray]:
    return mean._rays(n, p_low, p_high, 0.0, 0.0)


@lru_cache(maxsize=MOST_REMEMBERED)
def _remembered_list(mean: LognormalMean, n: int, p_real: float) -> list[Ray]:
    """The rays of one line, to which new ones are added."""
    return []


@lru_cache(maxsize=MOST_REMEMBERED)
def _remembered_real_means(mean: LognormalMean) -> dict[float, tuple[float, float]]:
    """What is known of real powers, to which more are added: S^0 and S itself have the mean one."""
    return {0.0: (0.0, 0.0), 1.0: (0.0, 0.0)}
