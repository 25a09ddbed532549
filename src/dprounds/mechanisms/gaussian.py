"""The Gaussian mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import NOISE_MULTIPLIER, real
from dprounds.accounting.bracket import Bracket
from dprounds.accounting.known_profile import normal_delta
from dprounds.accounting.law import LossLaw, Slopes
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import ADD, Mechanism
from dprounds.mechanisms.many_sampled_gaussians import ManySampledGaussians
from dprounds.mechanisms.sampled_gaussian import gaussian_cells, sampled_normal_pair
from dprounds.mechanisms.sampling import SampledLaw
from dprounds.mechanisms.turned_normal import TurnedNormal
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.mixture import Mixture
from dprounds.numerics.normal_mixture import NormalMixture
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["Gaussian", "gaussian_ceiling", "unsampled_slopes"]

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Gaussian(Accounted, Mechanism):
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

    def _law(self, direction: str) -> LossLaw:
        sigma = self.noise_multiplier
        return LossLaw(
            of=self,
            log_moment=lambda z: self._log_moment(z, direction),
            ceiling=partial(gaussian_ceiling, sigma),
            cells=partial(gaussian_cells, sigma),
            excess=self._excess,
            normal_distance=1.0 / sigma,
            max_loss_is_least=True,
            is_accurate=True,  # K is a polynomial
            slopes=partial(unsampled_slopes, sigma),
        )

    def _excess(self, level: float) -> Bracket:
        return normal_delta(1.0 / self.noise_multiplier, level, UNIT_ROUNDOFF)

    def sampled(self, rate: float, direction: str) -> SampledLaw:
        """The law of the loss at a rate in (0, 1), by a quadrature."""
        law = sampled_normal_pair(self.noise_multiplier, Mixture.at_rate(rate), direction, on_integers=False)
        turnable = TurnedNormal(self.noise_multiplier, rate, direction != ADD)
        if not law.most_nodes:
            return law
        return law._replace(
            turnable=turnable if turnable.is_resolved else None,
            family=ManySampledGaussians(direction == ADD),
            member=(self.noise_multiplier, rate),
        )

    def sampling_slopes(self, rate: float, direction: str) -> Slopes:
        """The derivatives of K by the noise multiplier and by the rate."""
        return partial(_slopes, self.noise_multiplier, rate, direction)

    @property
    def normal_noise(self) -> float:
        """The standard deviation of the noise, over the clipping norm."""
        return self.noise_multiplier

    def for_norm(self, norm: int) -> Gaussian:
        """The same noise for records of so many times the norm, rounded down."""
        return self if norm == 1 else Gaussian(math.nextafter(self.noise_multiplier / norm, 0.0))


def gaussian_ceiling(noise_multiplier: float, t: float, s: Array) -> Array:
    r"""Ceiling of one Gaussian round: :math:`(t(t+1) - s^2) / 2\sigma^2`, which is :math:`\mathrm{Re}\,K(t+is)` itself.

    Theorem
    -------
    docs/theory/accounting.md, "Decay".
    """
    return np.asarray(0.5 * (t * (t + 1.0) - s * s) / noise_multiplier / noise_multiplier)  # a square may overflow


def unsampled_slopes(noise: float, z: Numbers, values: Numbers) -> dict[str, Numbers]:
    """The derivative of K, given K, of a Gaussian whose noise is in proportion to `noise`, and that nothing samples."""
    return {"noise_multiplier": -2.0 / noise * values}


def _slopes(sigma: float, rate: float, direction: str, z: Numbers, values: Numbers) -> dict[str, Numbers]:
    """The derivatives of K at a row z, given K; at rate one M is exp(p (p - 1) / 2 sigma^2)."""
    if rate < 1:
        moment = np.exp(values)
        by_noise, by_rate = NormalMixture(sigma, Mixture.at_rate(rate), direction == ADD).slopes(z)
        return {"noise_multiplier": by_noise / moment, "sampling_rate": by_rate / moment}
    power = -z if direction == ADD else z + 1.0
    by_noise = -power * (power - 1.0) / sigma**3
    return {"noise_multiplier": by_noise, "sampling_rate": -power * np.expm1(-(power - 1.0) / sigma**2)}
