"""Any mechanism of which only its pure guarantee is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import FINITE_EPSILON, real
from dprounds.mechanisms.base import RatioLaw, Sampleable
from dprounds.mechanisms.randomized_response import two_point_log_moment, two_point_ratio_law
from dprounds.numerics.complex_plane import Numbers

__all__ = ["PureDP"]


@dataclass(frozen=True, repr=False)
class PureDP(Sampleable):
    r"""Any `epsilon`-DP mechanism, by the randomized response that dominates it.

    .. math:: K(z) = \log \frac{\cosh((z + 1/2)\varepsilon)}{\cosh(\varepsilon/2)}

    Theorem
    -------
    [KOV15, proof of Theorem 3.3]: every output is a random function of that bit; docs/theory/mechanisms.md.

    Examples
    --------
    >>> round(PureDP(epsilon=1.0).rdp(order=2.0), 6)
    0.735326
    """

    epsilon: float

    def __post_init__(self) -> None:
        self._set(epsilon=real("epsilon", self.epsilon, FINITE_EPSILON))

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        return two_point_log_moment(self.epsilon, z)

    def _max_loss(self, direction: str) -> float:
        return self.epsilon

    def _ratio_laws(self, z: Numbers, rate: float, direction: str) -> Iterator[tuple[NDArray[np.intp], RatioLaw]]:
        yield np.arange(z.size, dtype=np.intp), two_point_ratio_law(self.epsilon)

    @property
    def _response_loss(self) -> float | None:
        return self.epsilon
