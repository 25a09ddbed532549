r"""What the levelled line knows of a sampled Gaussian: its log-ratio v off the real axis.

Under the second law of the pair v is normal with mean :math:`-1/2\sigma^2` and deviation :math:`1/\sigma`, and the
mixture is :math:`w = 1 - q + q\,e^v`. Both are analytic for :math:`|\mathrm{Im}\,v| < \pi`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dprounds.numerics.complex_plane import Numbers, log1p_at

__all__ = ["TurnedNormal"]

# With less noise X = e^v leaves the range of doubles, and with more it does not differ from one.
LEAST_NOISE = 0.2
MOST_NOISE = 1e6


@dataclass(frozen=True)
class TurnedNormal:
    """The log-ratio v of a normal pair that is sampled at a rate, as `Turnable` asks for it."""

    sigma: float
    rate: float
    mixture_first: bool

    @property
    def is_resolved(self) -> bool:
        """Whether doubles resolve v and X = e^v."""
        return LEAST_NOISE <= self.sigma <= MOST_NOISE

    @cached_property
    def mean(self) -> float:
        """The mean of v."""
        return -0.5 / self.sigma**2

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of v."""
        return 1.0 / self.sigma

    def log_density(self, v: Numbers) -> Numbers:
        """The logarithm of the density of v, at real or complex points."""
        distance = self.sigma * (v - self.mean)
        return -0.5 * distance * distance + math.log(self.sigma / math.sqrt(2.0 * math.pi))

    def log_mixture(self, v: Numbers) -> Numbers:
        """log w at real or complex v, to small error relative to its modulus."""
        excess = self.rate * np.expm1(v)
        sinking = excess.real < -0.5  # there 1 + excess would cancel, while 1 - rate is exact
        if not sinking.any():
            return log1p_at(excess)
        low = np.log((1.0 - self.rate) + self.rate * np.exp(np.where(sinking, v, 0.0)))
        return np.where(sinking, low, log1p_at(np.where(sinking, 0.0, excess)))
