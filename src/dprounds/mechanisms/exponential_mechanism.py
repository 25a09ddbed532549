"""The exponential mechanism, and every other of bounded range."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import FINITE_EPSILON, real
from dprounds.accounting.bracket import Bracket
from dprounds.accounting.cells import Cells
from dprounds.accounting.law import LossLaw
from dprounds.mechanisms.base import Mechanism
from dprounds.numerics.complex_plane import Numbers, log1p_at
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["ExponentialMechanism"]

Array = NDArray[np.float64]

# Below this exponent K is a series; above it, a few logarithms.
SERIES = 1.0
# log(sinh(y)/y) = y^2/6 - y^4/180 + ..., the sum of 2^(2n) B_2n y^(2n) / (2n (2n)!). For |y| < 1 the first term that is
# left out is below 1e-15 of the first.
COEFFICIENTS = (
    1.0 / 6.0,
    -1.0 / 180.0,
    1.0 / 2835.0,
    -1.0 / 37800.0,
    1.0 / 467775.0,
    -691.0 / 3831077250.0,
    2.0 / 127702575.0,
    -3617.0 / 2605132530000.0,
    43867.0 / 350813659321125.0,
    -174611.0 / 15313294652906250.0,
    155366.0 / 147926426347074375.0,
    -236364091.0 / 2423034863565078262500.0,
    1315862.0 / 144228265688397515625.0,
)


def _log_moment(epsilon: float, z: Numbers) -> Numbers:
    """K, to small error relative to it however small it is."""
    near = np.abs(z + 0.5) * epsilon < SERIES
    # near: the difference of two series, at y^2 = a and at y^2 = b, by (a^n - b^n) / (a - b), which takes no difference
    small = np.where(near, z, 0.0)
    a, b = ((small + 0.5) * epsilon) ** 2, (0.5 * epsilon) ** 2
    quotient, total = np.ones_like(a), np.zeros_like(a)
    for n, coefficient in enumerate(COEFFICIENTS, start=1):
        total = total + coefficient * quotient
        quotient = a * quotient + b**n
    series = total * (small * (small + 1.0)) * epsilon * epsilon
    large = np.where(near, SERIES / max(epsilon, SERIES), z)
    rest = np.exp(-epsilon) * np.expm1(-2.0 * large * epsilon) / np.expm1(-max(epsilon, 1e-300))
    far = large * epsilon + log1p_at(rest) - log1p_at(2.0 * large)
    return np.where(near, series, far)


@dataclass(frozen=True, repr=False)
class ExponentialMechanism(Mechanism):
    r"""Any mechanism of bounded range `epsilon`: losses on a pair of neighbours differ by at most that much.

    The exponential mechanism that chooses with probabilities proportional to :math:`e^{\varepsilon u / 2\Delta}` has
    range :math:`\varepsilon`, and half of that if its utility u moves in one direction only. One round has the profile

    .. math:: \delta(a) = \frac{(e^{\varepsilon/2} - e^{a/2})^2}{e^\varepsilon - 1}, \qquad |a| \le \varepsilon,

    which is that of a loss of density proportional to :math:`e^{L/2}` on :math:`[-\varepsilon, \varepsilon]`, so

    .. math:: K(z) = \log \frac{\sinh((z + 1/2)\,\varepsilon)}{(2z + 1)\,\sinh(\varepsilon/2)} .

    Theorem
    -------
    [DDR20, Lemma 3.2] for the range and its pairs, [ZDW22, Proposition 8] for the pair of their profile;
    docs/theory/mechanisms.md.

    Examples
    --------
    A hundred choices, as such, and as releases of which only epsilon is known:

    >>> from dprounds import PureDP
    >>> [round((one * 100).epsilon(delta=1e-6), 4) for one in (ExponentialMechanism(0.1), PureDP(0.1))]
    [2.6118, 4.7746]
    """

    epsilon: float

    def __post_init__(self) -> None:
        self._set(epsilon=real("epsilon", self.epsilon, FINITE_EPSILON))

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        return _log_moment(self.epsilon, z)

    def _max_loss(self, direction: str) -> float:
        return self.epsilon

    def _law(self, direction: str) -> LossLaw:
        return LossLaw(
            of=self,
            log_moment=lambda z: self._log_moment(z, direction),
            ceiling=self._ceiling if self.epsilon > 0 else None,
            cells=self._cells,
            excess=self._excess,
            max_loss=self.epsilon,
            max_loss_is_least=True,
        )

    def _ceiling(self, t: float, s: Array) -> Array:
        """The hyperbolic sine is at most the cosine of its real part, over |2z + 1|, which is at least 2s."""
        e = self.epsilon
        high = (t + 0.5) * e
        log_cosh = high + math.log1p(math.exp(-2.0 * high)) - math.log(2.0)
        log_sinh = 0.5 * e + math.log(-math.expm1(-e)) - math.log(2.0)
        size = abs(log_cosh) + abs(log_sinh) + 1.0
        return np.asarray(log_cosh - log_sinh - np.log(2.0 * s) + 32.0 * UNIT_ROUNDOFF * (size + np.abs(np.log(s))))

    def _cells(self, edges: Array) -> Cells:
        """Masses c (exp(y/2) - exp(x/2)) of the interval from x to y, under Q with the other signs."""
        e = self.epsilon
        v = np.clip(np.concatenate([[-e], edges, [e]]), -e, e)
        width = -np.expm1(-0.5 * np.diff(v))
        # 2c = 1 / (2 sinh(epsilon/2)) = exp(-epsilon/2) / (1 - exp(-epsilon))
        log_scale = -0.5 * e - math.log(-math.expm1(-e)) if e > 0 else 0.0
        p, q = np.exp(0.5 * v[1:] + log_scale) * width, np.exp(-0.5 * v[:-1] + log_scale) * width
        error = 16.0 * UNIT_ROUNDOFF * (2.0 + e)
        return Cells(p, q, error * p, error * q, 0.0)

    def _excess(self, level: float) -> Bracket:
        e = self.epsilon
        if level >= e:
            return Bracket(0.0, 0.0)
        # (1 - exp((level - epsilon)/2))^2 / (1 - exp(-epsilon))
        share = math.expm1(0.5 * (level - e))
        value = share * share / -math.expm1(-e)
        error = UNIT_ROUNDOFF * (16.0 * value + 4.0 * abs(share) * (e + level) / -math.expm1(-e)) + 5e-324
        return Bracket(max(value - error, 0.0), min(value + error, 1.0))
