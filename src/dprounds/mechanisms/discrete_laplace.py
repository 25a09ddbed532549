"""Geometric noise on the integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dprounds._validate import NOISE_MULTIPLIER, real
from dprounds.accounting.law import LossLaw
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import Mechanism
from dprounds.mechanisms.randomized_response import RandomizedResponse
from dprounds.mechanisms.sampling import SampledLaw
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.rounding import ratio_above

__all__ = ["DiscreteLaplace"]


@dataclass(frozen=True, repr=False)
class DiscreteLaplace(Accounted, Mechanism):
    r"""A whole-numbered query of sensitivity one plus noise k of probability proportional to :math:`e^{-|k|/b}`.

    The loss of an output is :math:`1/b` or :math:`-1/b`, as that of a randomized response of that size, and has its
    moment function:

    .. math:: K(z) = \log \frac{\cosh((z + 1/2)/b)}{\cosh(1/2b)}

    Parameters
    ----------
    noise_multiplier
        The scale b, in (0, inf): the larger, the more noise.

    Theorem
    -------
    [GRS12, Definition 2.1] for the noise; docs/theory/mechanisms.md.

    Examples
    --------
    >>> round(DiscreteLaplace(noise_multiplier=2.0).rdp(order=float("inf")), 6)
    0.5
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        self._set(noise_multiplier=real("noise_multiplier", self.noise_multiplier, NOISE_MULTIPLIER))

    @property
    def _response(self) -> RandomizedResponse:
        """The randomized response that is not cheaper: its size is the least double not below 1/b."""
        size = 1 / Fraction(self.noise_multiplier)
        return RandomizedResponse(ratio_above(size.numerator, size.denominator))

    @property
    def attacked(self) -> Mechanism:
        """Where 1/b is no double, the randomized response of the next one below."""
        response = self._response
        is_double = Fraction(response.epsilon) * Fraction(self.noise_multiplier) == 1
        return self if is_double else RandomizedResponse(math.nextafter(response.epsilon, 0.0))

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        return self._response._log_moment(z, direction)

    def _max_loss(self, direction: str) -> float:
        return self._response.epsilon

    def _law(self, direction: str) -> LossLaw:
        return self._response.law()

    def sampled(self, rate: float, direction: str) -> SampledLaw:
        """The law of the loss at a rate in (0, 1)."""
        return self._response.sampled(rate, direction)
