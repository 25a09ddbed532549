"""The Laplace mechanism."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import NOISE_MULTIPLIER, real
from dprounds.accounting.cells import Cells
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import Sampleable
from dprounds.mechanisms.sampled_laplace import laplace_cells, laplace_sampled_laws
from dprounds.numerics.complex_plane import Numbers, exp_minus_tangent_at, log1p_at
from dprounds.numerics.cumulant import TiltableLaw
from dprounds.numerics.rounding import ratio_above

__all__ = ["Laplace"]

# Above this exponent M is summed in log space; below it, as M - 1, which is exact however small. Both are accurate
# between 1 and 700, so the place of the switch does not matter.
LOG_SPACE = 4.0


@dataclass(frozen=True, repr=False)
class Laplace(Accounted, Sampleable):
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
        return self._max_loss_of(1, direction)

    def _max_loss_of(self, rounds: int, direction: str) -> float:
        over, under = self.noise_multiplier.as_integer_ratio()
        return ratio_above(rounds * under, over)

    @property
    def _max_loss_is_least(self) -> bool:
        return True

    def _sampled_laws(self, z: Numbers, rate: float, direction: str) -> Iterator[tuple[NDArray[np.intp], TiltableLaw]]:
        return laplace_sampled_laws(self.noise_multiplier, z, rate, direction)

    @property
    def _has_cells(self) -> bool:
        return True

    def _cells(self, edges: NDArray[np.float64], direction: str) -> Cells:
        return laplace_cells(self.noise_multiplier, edges)
