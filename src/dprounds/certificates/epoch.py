"""An epoch of random allocation: the nodes of the checker's sum, the bits it needs, and M on the axis.

Nothing here needs to be right, as for lines.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.law import LossLaw
from dprounds.certificates.quadrature import ROUNDED, written
from dprounds.numerics.log_gamma import loggamma

__all__ = ["Epoch"]

Array = NDArray[np.float64]

# All of these tune speed and how often a check succeeds.
# Strips that are tried, in radians.
STRIPS = np.linspace(0.01, 1.56, 156)
# Where means are tabulated: from here on, at so many points a unit, up to so far, and so many deviations further.
LOWEST, SPACING, HIGHEST, DEVIATIONS = -16.0, 0.01, 14.0, 30.0
# Values of one step at which a mean is taken, and how many deviations they reach.
VALUES, REACH = 501, 40.0
# As few nodes of a mean as the checker takes.
LEAST_REACH = 200
# The natural logarithm of a margin for all that is only estimated.
MARGIN = 6.0


@lru_cache(maxsize=64)
def _table(sigma: float, steps: int) -> tuple[Array, Array]:
    """Points y, and log E[exp(-e^y X / t)]^t there."""
    y = np.arange(LOWEST, HIGHEST + DEVIATIONS / sigma, SPACING)
    xi = np.linspace(-REACH, REACH, VALUES)
    weights = np.exp(-0.5 * xi**2)
    with np.errstate(over="ignore", under="ignore"):
        exponent = np.exp(y[:, None] + (xi / sigma - 0.5 / sigma**2)) / -steps
        # next to one a mean is what it lacks; far from one, the largest of its terms times the rest
        lacks = -np.expm1(exponent) @ weights / weights.sum()
        exponent -= 0.5 * xi**2
        top = exponent.max(axis=1)
        small = top + np.log(np.exp(exponent - top[:, None]).sum(axis=1)) - math.log(weights.sum())
        means = np.where(lacks < 0.5, np.log1p(-np.minimum(lacks, 0.5)), small)
    return y, steps * means


class Epoch(NamedTuple):
    """An epoch of random allocation in the direction add, of which the checker sums Gamma(z) M(z)."""

    sigma: float
    steps: int

    def _log_terms(self, tau: float) -> tuple[Array, Array]:
        """Points y, and the logarithm of e^(tau y) times the mean there."""
        y, means = _table(self.sigma, self.steps)
        return y, tau * y + means

    def _log_sum(self, tau: float) -> float:
        """log Gamma(tau) M(tau): below the table a mean is 1 - e^y, about."""
        _, exponent = self._log_terms(tau)
        top = float(exponent.max())
        below = math.exp(tau * LOWEST - top) * (1.0 / tau - 0.5 * SPACING)
        return top + math.log(float(np.exp(exponent - top).sum()) * SPACING + below)

    def log_moment(self, t: Any) -> Any:  # noqa: ANN401  (an array; complex ones are not asked for)
        """K at positive points of the axis."""
        return np.array([self._log_sum(tau) - float(loggamma(np.array([tau]))[0].real) for tau in np.real(t).tolist()])

    def law(self) -> LossLaw:
        """The law of its loss, as far as a line is placed by it."""

        def ceiling(t: float, s: Array) -> Array:
            return np.asarray(self.log_moment(np.array([t]))[0] - 0.5 * (s / self.sigma) ** 2 / self.steps)

        return LossLaw(of=self, log_moment=self.log_moment, ceiling=ceiling)

    def power(self, tau: float) -> float:
        """What is raised to this power and averaged is the mean of the steps."""
        return -tau

    def quadrature(self, powers: list[float], height: float, log_error: float) -> tuple[dict[str, Any], float]:
        """The longest step that serves, its nodes, how far means go, and the logarithm of one over their error.

        Gamma falls along the line, and so do its sums; errors do not.
        """
        taus, variance = [-power for power in powers], self.sigma**2
        ends = loggamma(np.array([taus[0], taus[0] + 1j * height])).real
        needed = log_error + float(ends[0] - ends[1]) + MARGIN
        low, high, exact = 0.0, 0.0, needed + math.log(self.steps)
        for tau in taus:
            y, exponent = self._log_terms(tau)
            least = self._log_sum(tau) - needed
            last = int(np.flatnonzero(exponent > least)[-1])
            low, high = min(low, least / tau), max(high, float(y[last]) + SPACING)
            # an error of a mean counts as often as there are steps, and the smallest mean must be known too
            exact = max(exact, (tau * float(y[last]) - float(exponent[last])) / self.steps + needed / self.steps)
        exact += MARGIN
        growth = exact + 0.5 * variance * STRIPS**2 - max(taus) * np.log(np.cos(STRIPS)) + height * STRIPS
        steps = 2.0 * math.pi * variance * STRIPS / growth
        best = int(np.argmax(steps))
        step = float(written(float(steps[best]) / ROUNDED, 5))
        return {
            "step": written(step, 5),
            "strip": written(STRIPS[best]),
            "first": math.floor(low * variance / step),
            "last": max(math.ceil(high * variance / step), 1),
            "reach": max(math.ceil(self.sigma * math.sqrt(2.0 * exact + MARGIN) / step), LEAST_REACH),
        }, exact
