"""A saddle point: where a line is put, and Laplace's method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Saddle"]

# It only tunes speed: the factor within which K's bend is about a normal law's.
NEARLY_NORMAL = 1.5


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

    @cached_property
    def bend(self) -> float:
        """By what factor K bends more than that of a normal law, t(t+1) over the variance, which has this value."""
        return self.curvature * self.t * (self.t + 1.0) / (2.0 * self.value) if self.value > 0 else math.inf

    @property
    def is_nearly_normal(self) -> bool:
        """Whether K may be taken for a parabola."""
        return 1.0 / NEARLY_NORMAL <= self.bend <= NEARLY_NORMAL

    def log_kernel(self, t: float) -> float:
        """What 1/(z(z+1)) adds to the logarithm of delta by Laplace's method, at another t with the same curvature."""
        width_squared = 1.0 / (self.curvature + t**-2 + (1.0 + t) ** -2)
        return t / (1.0 + t) - math.log(t) - math.log1p(t) + 0.5 * math.log(width_squared)

    def log_delta(self, epsilon: float) -> float:
        """The logarithm of delta by Laplace's method, within a few percent at `self.epsilon`; NaN where it fails."""
        if not self.width > 0:
            return math.nan
        exponent = self.value - self.t * epsilon - math.log(self.t) - math.log1p(self.t)
        return exponent + math.log(self.width / math.sqrt(2.0 * math.pi))

    def epsilon_at(self, log_delta: float) -> float:
        """About the epsilon at a delta near its own: there log delta falls by t, and t grows by width^2."""
        excess = self.log_delta(self.epsilon) - log_delta
        square = self.t**2 + 2.0 * self.width**2 * excess
        return self.epsilon + 2.0 * excess / (self.t + math.sqrt(square)) if square > 0 else self.epsilon
