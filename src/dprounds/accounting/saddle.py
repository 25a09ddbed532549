r"""Where to put the line: the saddle point of :math:`e^{K(z) - \varepsilon z} / (z(z+1))` on the positive axis.

Every line proves its bracket, so nothing here needs to be right; a line through the saddle point has no cancellation
and needs the fewest nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import Numbers

__all__ = ["Saddle", "expand", "saddle_at_delta", "saddle_at_epsilon"]

Array = NDArray[np.float64]
LogMoment = Callable[[Numbers], Numbers]

# Relative spacing of the three points from which derivatives are taken: the error of second differences is its square,
# 2e-4, and the rounding of K is magnified by less than 1e4.
SPACING = 1.0 / 64.0
# A line within this many deviations of the saddle point loses a factor exp(1/32) to cancellation.
CLOSE_ENOUGH = 0.25
# The search moves by at most this factor at a time; forty such steps cross the scale of doubles' exponents that matter.
LARGEST_FACTOR = 8.0
MOST_STEPS = 80
RANGE = (1e-12, 1e15)


class Saddle(NamedTuple):
    """A point t of the positive axis, K there, its slope and curvature, and what the saddle-point method makes of them.

    `epsilon` is where t is the saddle point; `curvature` is that of K alone, and `width` one over the root of that
    of the whole exponent.
    """

    t: float
    value: float
    slope: float
    curvature: float

    @property
    def width(self) -> float:
        """One standard deviation of the integrand along the line."""
        return 1.0 / math.sqrt(self.curvature + self.t**-2 + (1.0 + self.t) ** -2)

    @property
    def epsilon(self) -> float:
        """The epsilon whose saddle point this is."""
        return self.slope - 1.0 / self.t - 1.0 / (1.0 + self.t)

    def log_delta(self, epsilon: float) -> float:
        """The logarithm of delta by Laplace's method, within a few percent at `self.epsilon`; NaN where it fails."""
        if not self.width > 0:
            return math.nan
        exponent = self.value - self.t * epsilon - math.log(self.t) - math.log1p(self.t)
        return exponent + math.log(self.width / math.sqrt(2.0 * math.pi))


def expand(log_moment: LogMoment, t: float) -> Saddle:
    """K, slope and curvature at t by central differences."""
    low, middle, high = (
        float(value) for value in np.real(log_moment(t * np.array([1.0 - SPACING, 1.0, 1.0 + SPACING])))
    )
    slope = (high - low) / (2.0 * SPACING * t)
    curvature = max((high - middle) - (middle - low), 0.0) / (SPACING * t) ** 2
    return Saddle(t, middle, slope, curvature)


def _search(log_moment: LogMoment, start: float, move: Callable[[Saddle], float]) -> Saddle:
    """The point at which `move`, in units of t, is a small part of the width; Newton's method with bounded steps."""
    t, low, high = start, *RANGE
    for _ in range(MOST_STEPS):
        here = expand(log_moment, t)
        step = move(here)
        if not math.isfinite(step):
            break
        if abs(step) <= CLOSE_ENOUGH * here.width:
            return here
        low, high = (t, high) if step > 0 else (low, t)
        following = min(max(t + step, t / LARGEST_FACTOR), t * LARGEST_FACTOR)
        # what Newton's method would throw out of the bracket is halved towards its end, on the scale of logarithms
        t = following if low < following < high else math.sqrt(t * (high if step > 0 else low))
        if high <= low * (1.0 + SPACING**2):
            return here
    raise NumericalError("The loss of this run is outside what doubles resolve.")


def saddle_at_epsilon(log_moment: LogMoment, epsilon: float, *, start: float = 1.0) -> Saddle:
    """The saddle point for `epsilon`."""
    return _search(log_moment, start, lambda here: (epsilon - here.epsilon) * here.width**2)


def saddle_at_delta(log_moment: LogMoment, log_delta: float, *, start: float = 1.0) -> Saddle:
    """The point whose own epsilon has about this delta."""
    # d log_delta(epsilon(t)) / dt = -t / width^2, up to the derivative of the width
    return _search(log_moment, start, lambda here: (here.log_delta(here.epsilon) - log_delta) * here.width**2 / here.t)
