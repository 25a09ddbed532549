"""The Gaussian mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from dprounds._validate import NOISE_MULTIPLIER, real
from dprounds.accounting.bracket import Bracket
from dprounds.accounting.law import LossLaw
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import ADD, Mechanism
from dprounds.mechanisms.decay import gaussian_ceiling
from dprounds.mechanisms.many_sampled_gaussians import ManySampledGaussians
from dprounds.mechanisms.sampled_gaussian import gaussian_cells, sampled_normal_pair
from dprounds.mechanisms.sampling import SampledLaw
from dprounds.mechanisms.turned_normal import TurnedNormal
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.mixture import Mixture
from dprounds.numerics.normal import normal_excess
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["Gaussian"]


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
        )

    def _excess(self, level: float) -> Bracket:
        value, error = normal_excess(1.0 / self.noise_multiplier, level, distance_error=UNIT_ROUNDOFF)
        return Bracket(max(value - error, 0.0), min(value + error, 1.0))

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

    def moved_by(self, shifts: Sequence[float], probabilities: Sequence[float]) -> Mechanism:
        """The same noise on a sum that moves by one of these distances."""
        from dprounds.mechanisms.mixture_of_gaussians import MixtureOfGaussians  # noqa: PLC0415  (it is made of Gaussians)

        return MixtureOfGaussians(self.noise_multiplier, shifts, probabilities)
