"""Any mechanism of which only its zero-concentrated guarantee is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import Interval, real
from dprounds.errors import UnsupportedError
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import ABSOLUTE_ERROR, RELATIVE_ERROR, Mechanism
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.rounding import above

__all__ = ["ZCDP"]

RHO = Interval.parse("[0, inf)")


@dataclass(frozen=True, repr=False)
class ZCDP(Accounted, Mechanism):
    r"""Any `rho`-zCDP mechanism: :math:`\gamma(\alpha) = \rho\alpha` at every order.

    The Gaussian mechanism is the case :math:`\rho = 1/(2\sigma^2)`, and also has a moment function, which this has
    not: pairs that meet the bound at all orders may differ off the real line.

    Theorem
    -------
    [BS16, Definition 1.1].

    Examples
    --------
    >>> round(ZCDP(rho=0.125).rdp(order=8.0), 6)
    1.0
    """

    rho: float

    def __post_init__(self) -> None:
        self._set(rho=real("rho", self.rho, RHO))

    @property
    def has_moment_function(self) -> bool:
        """Never."""
        return False

    def _rdp(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.rho == 0:
            return np.zeros_like(orders)
        bound = self.rho * orders
        return above(bound, RELATIVE_ERROR * bound + ABSOLUTE_ERROR)

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        raise UnsupportedError("ZCDP has no moment function.")

    def _max_loss(self, direction: str) -> float:
        return math.inf if self.rho > 0 else 0.0
