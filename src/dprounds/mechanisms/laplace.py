"""The Laplace mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import NOISE_MULTIPLIER, real
from dprounds.accounting.bracket import Bracket
from dprounds.accounting.law import LossLaw
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import Mechanism
from dprounds.mechanisms.laplace_rounds import laplace_rounds
from dprounds.mechanisms.sampled_laplace import laplace_cells, sampled_laplace_pair
from dprounds.mechanisms.sampling import SampledLaw
from dprounds.numerics.complex_plane import Numbers, exp_minus_tangent_at, log1p_at
from dprounds.numerics.rounding import UNIT_ROUNDOFF, ratio_above

__all__ = ["Laplace"]

Array = NDArray[np.float64]

# Above this exponent M is summed in log space; below it, as M - 1, which is exact however small. Both are accurate
# between 1 and 700, so the place of the switch does not matter.
LOG_SPACE = 4.0


@dataclass(frozen=True, repr=False)
class Laplace(Accounted, Mechanism):
    r"""A query of L1 sensitivity one plus Laplace noise of scale `noise_multiplier`.

    .. math:: M(z) = \frac{(z + 1)\, e^{z/b} + z\, e^{-(z+1)/b}}{2z + 1}

    Theorem
    -------
    [Mir17, Proposition 6]; docs/theory/mechanisms.md.

    Examples
    --------
    >>> round(Laplace(noise_multiplier=2.0).rdp(order=float("inf")), 6)
    0.5
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        self._set(noise_multiplier=real("noise_multiplier", self.noise_multiplier, NOISE_MULTIPLIER))

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        b = self.noise_multiplier
        near = z.real / b < LOG_SPACE
        # (z+1) z - z (z+1) = 0, so the tangents of both exponentials drop out of M - 1.
        small = np.where(near, z, 0.0)
        excess = (small + 1.0) * exp_minus_tangent_at(small / b) + small * exp_minus_tangent_at(-(small + 1.0) / b)
        # z / (z+1) exp(-(2z+1)/b) is at most exp(-2 LOG_SPACE) there; written in halves, for 1/b may overflow
        large = np.where(near, LOG_SPACE * b + 1.0, z)
        tail = large / (large + 1.0) * np.exp(-(2.0 * large + 1.0) / b)
        far = large / b + np.log((large + 1.0) / (2.0 * large + 1.0)) + log1p_at(tail)
        return np.where(near, log1p_at(excess / (2.0 * small + 1.0)), far)

    def _max_loss(self, direction: str) -> float:
        over, under = self.noise_multiplier.as_integer_ratio()
        return ratio_above(under, over)

    def _law(self, direction: str) -> LossLaw:
        return LossLaw(
            of=self,
            log_moment=lambda z: self._log_moment(z, direction),
            ceiling=self._ceiling,
            cells=partial(laplace_cells, self.noise_multiplier),
            excess=self._excess,
            summed=partial(laplace_rounds, self.noise_multiplier),
            atoms=(-1.0 / self.noise_multiplier, 1.0 / self.noise_multiplier),
            max_loss=self._max_loss(direction),
            exact_max_loss=1 / Fraction(self.noise_multiplier),
            max_loss_is_least=True,
        )

    def _ceiling(self, t: float, s: Array) -> Array:
        """M is exp(-1/2b) (cosh(y) + sinh(y)/(2z + 1)), y = (z + 1/2)/b: both at most cosh(Re y), and |2z + 1| > 2s."""
        a = 1.0 / self.noise_multiplier
        high = (t + 0.5) * a
        log_cosh = high + math.log1p(math.exp(-2.0 * high)) - math.log(2.0)
        found = log_cosh - 0.5 * a + np.log1p(0.5 / s)
        return np.asarray(found + 32.0 * UNIT_ROUNDOFF * (high + a + 1.0 + np.log1p(0.5 / s)))

    def _excess(self, level: float) -> Bracket:
        largest = 1.0 / self.noise_multiplier
        if level >= self._max_loss("remove"):
            return Bracket(0.0, 0.0)
        value = -math.expm1(0.5 * (level - largest))
        # The quotient and the difference are rounded; the exponential moves by half as much, at most.
        error = UNIT_ROUNDOFF * (largest + abs(level - largest) + 4.0 * abs(value)) + 5e-324
        return Bracket(max(value - error, 0.0), max(value + error, 0.0))

    def sampled(self, rate: float, direction: str) -> SampledLaw:
        """The law of the loss at a rate in (0, 1), by a quadrature."""
        return sampled_laplace_pair(self.noise_multiplier, rate, direction)
