"""The Gaussian mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import NOISE_MULTIPLIER, real
from dprounds.accounting.cells import Cells
from dprounds.accounting.decay import gaussian_ceiling
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import Sampleable
from dprounds.mechanisms.sampled_gaussian import LARGEST_ORDER, gaussian_cells, gaussian_sampled_laws
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.cumulant import TiltableLaw

__all__ = ["Gaussian"]


@dataclass(frozen=True, repr=False)
class Gaussian(Accounted, Sampleable):
    r"""A query of L2 sensitivity one plus normal noise of standard deviation `noise_multiplier`.

    .. math:: K(z) = \frac{z (z + 1)}{2 \sigma^2}

    Theorem
    -------
    [Mir17, Proposition 7]; docs/theory/mechanisms.md.

    Examples
    --------
    >>> round(Gaussian(noise_multiplier=2.0).rdp(order=8.0), 6)
    1.0
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        self._set(noise_multiplier=real("noise_multiplier", self.noise_multiplier, NOISE_MULTIPLIER))

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        # Divided one sigma at a time: its square may underflow where the quotient does not.
        return 0.5 * (z / self.noise_multiplier) * ((z + 1.0) / self.noise_multiplier)

    def _max_loss(self, direction: str) -> float:
        return math.inf

    @property
    def _max_loss_is_least(self) -> bool:
        return True

    @property
    def _largest_sampled_order(self) -> float:
        return LARGEST_ORDER * self.noise_multiplier

    def _sampled_laws(self, z: Numbers, rate: float, direction: str) -> Iterator[tuple[NDArray[np.intp], TiltableLaw]]:
        return gaussian_sampled_laws(self.noise_multiplier, z, rate, direction, on_integers=False)

    @property
    def _falls(self) -> bool:
        return True

    def _ceiling(self, t: float, s: NDArray[np.float64], direction: str) -> NDArray[np.float64]:
        return gaussian_ceiling(self.noise_multiplier, t, s)

    @property
    def _has_cells(self) -> bool:
        return True

    def _cells(self, edges: NDArray[np.float64], direction: str) -> Cells:
        return gaussian_cells(self.noise_multiplier, edges)

    def _fewest_rounds(self) -> float:
        return math.inf  # K is a polynomial, accurate relative to itself wherever it is
