"""Randomized response, the worst of all pure mechanisms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import FINITE_EPSILON, real
from dprounds.accounting.cells import Cells, atoms_in_cells
from dprounds.mechanisms.base import Sampleable, sampled_law
from dprounds.numerics.complex_plane import Numbers, log1p_at
from dprounds.numerics.cumulant import TiltableLaw
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["RandomizedResponse", "two_point_log_moment", "two_point_log_weights"]


# Above this exponent M is summed in log space; below it, as M - 1, which is exact however small.
LOG_SPACE = 4.0


def two_point_log_moment(epsilon: float, z: Numbers) -> Numbers:
    r"""K of the pair that answers the truth with probability :math:`e^\varepsilon / (1 + e^\varepsilon)`.

    .. math:: M(z) = \frac{\cosh((z + 1/2)\varepsilon)}{\cosh(\varepsilon/2)}, \qquad
              M(z) - 1 = \frac{(e^{z\varepsilon} - 1)(1 - e^{-(z+1)\varepsilon})}{1 + e^{-\varepsilon}}
    """
    near = z.real * epsilon < LOG_SPACE
    small = np.where(near, z, 0.0) * epsilon
    excess = np.expm1(small) * -np.expm1(-(small + epsilon)) / (1.0 + np.exp(-epsilon))
    large = np.where(near, LOG_SPACE, z * epsilon)
    far = large + log1p_at(np.exp(-(2.0 * large + epsilon))) - np.log1p(np.exp(-epsilon))
    return np.where(near, log1p_at(excess), far)


def two_point_log_weights(epsilon: float) -> NDArray[np.float64]:
    """The same pair, as log-probabilities under Q of the log-ratios epsilon and -epsilon: the lie, then the truth."""
    log_truth = -np.log1p(np.exp(-epsilon))
    return np.array([log_truth - epsilon, log_truth])


@dataclass(frozen=True, repr=False)
class RandomizedResponse(Sampleable):
    r"""A bit that is told truly with probability :math:`e^\varepsilon / (1 + e^\varepsilon)`, and else inverted.

    .. math:: K(z) = \log \frac{\cosh((z + 1/2)\varepsilon)}{\cosh(\varepsilon/2)}

    Theorem
    -------
    [Mir17, Proposition 5]; docs/theory/mechanisms.md.

    Examples
    --------
    >>> round(RandomizedResponse(epsilon=1.0).rdp(order=2.0), 6)
    0.735326
    """

    epsilon: float

    def __post_init__(self) -> None:
        self._set(epsilon=real("epsilon", self.epsilon, FINITE_EPSILON))

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        return two_point_log_moment(self.epsilon, z)

    def _max_loss(self, direction: str) -> float:
        return self.epsilon

    @property
    def _max_loss_is_least(self) -> bool:
        return True

    def _sampled_laws(self, z: Numbers, rate: float, direction: str) -> Iterator[tuple[NDArray[np.intp], TiltableLaw]]:
        law = sampled_law(two_point_log_weights(self.epsilon), np.array([self.epsilon, -self.epsilon]), rate, direction)
        yield np.arange(z.size, dtype=np.intp), law

    @property
    def _response_loss(self) -> float | None:
        return self.epsilon

    @property
    def _has_cells(self) -> bool:
        return True

    def _cells(self, edges: NDArray[np.float64], direction: str) -> Cells:
        lie, truth = np.exp(two_point_log_weights(self.epsilon))
        error = 8.0 * UNIT_ROUNDOFF * (1.0 + self.epsilon)
        losses = np.array([-self.epsilon, self.epsilon])
        return atoms_in_cells(edges, losses, np.array([lie, truth]), np.array([truth, lie]), error=error, blur=0.0)
