"""Randomized response, the worst of all pure mechanisms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import FINITE_EPSILON, real
from dprounds.accounting.bracket import Bracket
from dprounds.accounting.cells import Cells, atoms_in_cells
from dprounds.accounting.law import LOG_MOMENT_ERROR, MOST_NODES, Lattice, LossLaw
from dprounds.mechanisms.base import ADD, Mechanism
from dprounds.mechanisms.response_rounds import response_rounds
from dprounds.mechanisms.sampling import SampledLaw
from dprounds.numerics.complex_plane import Numbers, log1p_at
from dprounds.numerics.cumulant import TiltableLaw
from dprounds.numerics.mixture import Mixture, mixture_law
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["RandomizedResponse", "two_point_law", "two_point_log_moment", "two_point_log_weights"]

Array = NDArray[np.float64]

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


def two_point_ceiling(
    log_moment: Callable[[Numbers], Numbers], log_odds: float, step: float, t: float, s: Array
) -> Array:
    r"""Ceilings of a law of two losses, `step` apart, whose masses have the logarithm `log_odds` of their ratio.

    With the share p of the larger loss under the law tilted by t, the modulus of M is that on the axis times the root
    of
    :math:`1 - 4p(1-p)\sin^2(s\,\text{step}/2)`, which falls up to half of the period.
    """
    value = float(np.real(log_moment(np.array([t])))[0])
    odds = log_odds + t * step
    product = math.exp(-abs(odds)) / (1.0 + math.exp(-abs(odds))) ** 2  # p (1 - p)
    half = np.minimum(0.5 * step * s, 0.5 * math.pi)
    fall = 4.0 * product * np.sin(half) ** 2 * (1.0 - 64.0 * UNIT_ROUNDOFF * (1.0 + abs(odds)))
    return np.asarray(value + LOG_MOMENT_ERROR * abs(value) + 0.5 * np.log1p(-fall))


def two_point_law(of: Mechanism, epsilon: float, log_mass: float = 0.0, infinite_mass: float = 0.0) -> LossLaw:
    """The law of a randomized response that is made with a probability, whose logarithm is given."""

    def log_moment(z: Numbers) -> Numbers:
        return log_mass + two_point_log_moment(epsilon, z) if log_mass else two_point_log_moment(epsilon, z)

    # an epsilon of 0 releases nothing, and has no lattice
    lattice = Lattice(2 * Fraction(epsilon), -Fraction(epsilon)) if epsilon > 0 else None
    return LossLaw(
        of=of,
        log_moment=log_moment,
        ceiling=partial(two_point_ceiling, log_moment, epsilon, 2.0 * epsilon),
        cells=None if infinite_mass else partial(_cells, epsilon),
        excess=None if infinite_mass else partial(_excess, epsilon),
        summed=partial(response_rounds, epsilon, log_mass),
        lattice=lattice,
        infinite_mass=infinite_mass,
        max_loss=epsilon,
        max_loss_is_least=True,
    )


def _cells(epsilon: float, edges: Array) -> Cells:
    lie, truth = np.exp(two_point_log_weights(epsilon))
    error = 8.0 * UNIT_ROUNDOFF * (1.0 + epsilon)
    losses = np.array([-epsilon, epsilon])
    return atoms_in_cells(edges, losses, np.array([lie, truth]), np.array([truth, lie]), error=error, blur=0.0)


def _excess(epsilon: float, level: float) -> Bracket:
    if level >= epsilon:
        return Bracket(0.0, 0.0)
    value = -math.expm1(level - epsilon) / (1.0 + math.exp(-epsilon))
    error = UNIT_ROUNDOFF * (epsilon - level + 8.0 * value) + 5e-324
    return Bracket(max(value - error, 0.0), value + error)


@dataclass(frozen=True, repr=False)
class RandomizedResponse(Mechanism):
    r"""A bit that is reported truly with probability :math:`e^\varepsilon / (1 + e^\varepsilon)`, and else inverted.

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

    def _law(self, direction: str) -> LossLaw:
        return two_point_law(self, self.epsilon)

    def sampled(self, rate: float, direction: str) -> SampledLaw:
        """The law of the loss at a rate in (0, 1): two losses again."""
        log_ratios = np.array([self.epsilon, -self.epsilon])
        mixture = Mixture.at_rate(rate)
        law = mixture_law(two_point_log_weights(self.epsilon), log_ratios, mixture, inverse=direction == ADD)

        def laws_at(z: Numbers) -> list[tuple[NDArray[np.intp], TiltableLaw]]:
            return [(np.arange(z.size, dtype=np.intp), law)]

        high, low = (1, 0) if direction == ADD else (0, 1)
        step = Fraction(law.values[high]) - Fraction(law.values[low])
        blur = 4.0 * UNIT_ROUNDOFF * float((law.ulps * np.abs(law.values)).max())
        log_odds = float(law.log_weights[high] - law.log_weights[low])

        def log_moment(z: Numbers) -> Numbers:
            return law.real_cumulant(z.real)

        return SampledLaw(
            laws_at=laws_at,
            largest_order=math.inf,
            most_nodes=MOST_NODES,
            ceiling=partial(two_point_ceiling, log_moment, log_odds, float(step)) if step > 0 else None,
            lattice=Lattice(step, Fraction(law.values[low]), blur) if step > 0 else None,
        )
