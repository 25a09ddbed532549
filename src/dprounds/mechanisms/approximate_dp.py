"""Any mechanism of which only its (epsilon, delta) guarantee is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import FAILURE_MASS, FINITE_EPSILON, real
from dprounds.accounting.law import LossLaw
from dprounds.mechanisms.base import Mechanism
from dprounds.mechanisms.randomized_response import RandomizedResponse, two_point_law, two_point_log_moment
from dprounds.numerics.complex_plane import Numbers

__all__ = ["ApproximateDP"]


@dataclass(frozen=True, repr=False)
class ApproximateDP(Mechanism):
    r"""Any (`epsilon`, `delta`)-DP mechanism, by the pair that dominates it.

    With probability `delta` everything is revealed, and else a randomized response:

    .. math:: P(L = \infty) = \delta_0, \qquad
              K(z) = \log(1 - \delta_0) + \log \frac{\cosh((z + 1/2)\varepsilon_0)}{\cosh(\varepsilon_0/2)}

    No Rényi order sees past the infinite loss, so `rdp` is ``inf`` unless `delta` is zero.

    Theorem
    -------
    [KOV15, proof of Theorem 3.3]; docs/theory/mechanisms.md.

    Examples
    --------
    >>> run = ApproximateDP(0.1, delta=1e-6) * 10
    >>> f"{run.infinite_mass:.6e}"
    '9.999955e-06'
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        self._set(
            epsilon=real("epsilon", self.epsilon, FINITE_EPSILON),
            delta=real("delta", self.delta, FAILURE_MASS),
        )

    @property
    def infinite_mass(self) -> float:
        """The probability `delta` with which everything is revealed."""
        return self.delta

    def _rdp(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.full(orders.shape, math.inf) if self.delta > 0 else super()._rdp(orders)

    def finite_rdp(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """That of the randomized response which is left when nothing is revealed."""
        return np.asarray(RandomizedResponse(self.epsilon).rdp(orders))

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        return float(np.log1p(-self.delta)) + two_point_log_moment(self.epsilon, z)

    def _max_loss(self, direction: str) -> float:
        return self.epsilon

    def _law(self, direction: str) -> LossLaw:
        return two_point_law(self, self.epsilon, float(np.log1p(-self.delta)), self.delta)
