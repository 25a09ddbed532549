"""A saddle point: where a line is put, and Laplace's method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Saddle"]


@dataclass(frozen=True)
class Saddle:
    """A point t of the positive axis, and K there: its value, slope and curvature.

    These are differences, and place a line. `steepest`, at least the slope, and `square`, at least the sum over the
    rounds of E[L^2] under the law tilted by t, are proven, and enter the error of K.
    """

    t: float
    value: float
    slope: float
    curvature: float
    steepest: float = 0.0
    square: float = 0.0
    values_by_part: tuple[float, ...] = ()

    @cached_property
    def width(self) -> float:
        """One standard deviation of the integrand along the line."""
        return 1.0 / math.sqrt(self.curvature + self.t**-2 + (1.0 + self.t) ** -2)

    @cached_property
    def epsilon(self) -> float:
        """The epsilon whose saddle point this is."""
        return self.slope - 1.0 / self.t - 1.0 / (1.0 + self.t)

    def log_delta(self, epsilon: float) -> float:
        """The logarithm of delta by Laplace's method, within a few percent at `self.epsilon`; NaN where it fails."""
        if not self.width > 0:
            return math.nan
        exponent = self.value - self.t * epsilon - math.log(self.t) - math.log1p(self.t)
        return exponent + math.log(self.width / math.sqrt(2.0 * math.pi))
