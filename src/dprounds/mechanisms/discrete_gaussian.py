"""The Gaussian mechanism on the integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import NOISE_MULTIPLIER, real
from dprounds.accounting.bracket import Bracket
from dprounds.accounting.cells import Cells, atoms_in_cells
from dprounds.accounting.law import Lattice, LossLaw
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import Mechanism
from dprounds.mechanisms.sampled_gaussian import sampled_normal_pair
from dprounds.mechanisms.sampling import SampledLaw
from dprounds.numerics.complex_plane import Numbers, log1p_at
from dprounds.numerics.mixture import Mixture
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.theta import SELF_DUAL, dual_theta, significant, theta

__all__ = ["DiscreteGaussian"]

Array = NDArray[np.float64]

# Beyond so many deviations a probability is below the range of doubles.
REACH = 39.0
# Atoms that a lattice may be made of: with more noise they are so close that the losses might as well be continuous.
MOST_ATOMS = 2**20
# Intervals of half a period, on which a ceiling is taken.
INTERVALS = 64


@dataclass(frozen=True, repr=False)
class DiscreteGaussian(Accounted, Mechanism):
    r"""A whole-numbered query of sensitivity one plus discrete Gaussian noise of parameter `noise_multiplier`.

    The noise is k with probability proportional to :math:`e^{-k^2/2\sigma^2}`. With
    :math:`\theta(y) = \sum_k e^{-(k-y)^2/2\sigma^2}`,

    .. math:: M(z) = \sum_k Q(k)\, e^{(z+1)(2k-1)/2\sigma^2} = e^{z(z+1)/2\sigma^2}\, \frac{\theta(z+1)}{\theta(0)}.

    Far below one, more noise may cost more at a fixed delta: less noise has larger losses, but they may be so rare
    that delta covers them. A planned noise of this kind meets its budget, and a larger one need not.

    Theorem
    -------
    [CKS20]; docs/theory/mechanisms.md.

    Examples
    --------
    >>> round(DiscreteGaussian(noise_multiplier=2.0).rdp(order=8.0), 6)
    1.0
    >>> [round(DiscreteGaussian(noise).epsilon(delta=1e-6), 1) for noise in (0.167, 0.2)]
    [17.9, 37.2]
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        self._set(noise_multiplier=real("noise_multiplier", self.noise_multiplier, NOISE_MULTIPLIER))

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        return (
            _summed(self.noise_multiplier, z) if self.noise_multiplier < SELF_DUAL else _dual(self.noise_multiplier, z)
        )

    def _max_loss(self, direction: str) -> float:
        return math.inf

    def _law(self, direction: str) -> LossLaw:
        sigma = self.noise_multiplier
        is_listed = 2.0 * REACH * sigma < MOST_ATOMS
        step = 1 / Fraction(sigma) ** 2
        return LossLaw(
            of=self,
            log_moment=lambda z: self._log_moment(z, direction),
            ceiling=partial(_ceiling, sigma) if sigma >= SELF_DUAL else None,
            cells=self._cells if is_listed else None,
            excess=self._excess if is_listed else None,
            lattice=Lattice(step, step / 2),
            max_loss_is_least=True,
        )

    def sampled(self, rate: float, direction: str) -> SampledLaw:
        """The law of the loss at a rate in (0, 1), by the sum over the integers."""
        return sampled_normal_pair(self.noise_multiplier, Mixture.at_rate(rate), direction, on_integers=True)

    def _excess(self, level: float) -> Bracket:
        """The sum of P(k) (1 - exp(level - loss of k)) over the losses above the level: no term is negative."""
        sigma = self.noise_multiplier
        # the loss of k is (2k - 1) / 2 sigma^2, and P(k) = Q(k - 1)
        first = math.floor(min(level * sigma * sigma + 0.5, 2.0 * MOST_ATOMS))
        k = np.arange(first, max(first, math.ceil(REACH * sigma)) + 3, dtype=np.float64)
        losses = (k - 0.5) / sigma / sigma
        exponents = 0.5 * ((k - 1.0) / sigma) ** 2
        masses = np.exp(-exponents) / theta(sigma)
        shares = -np.expm1(np.minimum(level - losses, 0.0))
        # a difference of a loss and the level is off by units of both; what is beyond the last k is below the doubles
        off = 4.0 * UNIT_ROUNDOFF * (level + np.abs(losses))
        off = np.where(level - losses > off, 0.0, off) + UNIT_ROUNDOFF * (8.0 + 4.0 * exponents) * shares
        value, error = float(masses @ shares), float(masses @ off) + 1e-307
        error += UNIT_ROUNDOFF * k.size * value
        return Bracket(max(value - error, 0.0), min(value + error, 1.0))

    def _cells(self, edges: Array) -> Cells:
        return atoms_in_cells(edges, **_atoms(self.noise_multiplier)._asdict())


class _Atoms(NamedTuple):
    """The losses of the integers, their masses under P and Q, and how well both are known."""

    losses: Array
    p: Array
    q: Array
    error: Array
    blur: float


@lru_cache(maxsize=2)
def _atoms(sigma: float) -> _Atoms:
    last = math.ceil(REACH * sigma) + 1
    k = np.arange(-last, last + 1, dtype=np.float64)
    masses = np.exp(-0.5 * (k / sigma) ** 2) / theta(sigma)
    # a release of k has the log-ratio (2k - 1) / 2 sigma^2, probability Q(k) under Q and Q(k - 1) under P
    losses = (k[1:] - 0.5) / sigma / sigma
    # an exponent is off by units of itself, and that of the further of both integers is the larger one
    error = 8.0 * UNIT_ROUNDOFF * (1.0 + (np.maximum(np.abs(k[1:]), np.abs(k[:-1])) / sigma) ** 2)
    return _Atoms(losses, masses[:-1], masses[1:], error, blur=4.0 * UNIT_ROUNDOFF * float(losses[-1]))


def _ceiling(sigma: float, t: float, s: Array) -> Array:
    r"""Ceilings up to half of the period, :math:`s = \pi\sigma^2`, by the Fourier dual of the sum.

    There :math:`|\theta(z+1)/\theta(0)| \le 1 + \sum_n \rho_n (e^{2\pi ns} + 3)`, which rises with s, while the other
    factor of M falls; each of a few intervals takes the one at its end and the other at its start.
    """
    half = math.pi * sigma * sigma
    found = np.empty_like(s)
    for i, start in enumerate(np.minimum(s, half).tolist()):
        ends = np.linspace(start, half, INTERVALS + 1)
        growth = np.zeros(INTERVALS)
        for n in (1, 2, 3):  # from there on the terms are below 1e-12 of the first, for a sigma of 0.4 or more
            rate = 2.0 * (math.pi * sigma * n) ** 2
            growth += np.exp(2.0 * math.pi * n * ends[1:] - rate) + 3.0 * math.exp(-rate)
        bounds = 0.5 * (t * (t + 1.0) - ends[:-1] ** 2) / sigma / sigma + np.log1p(growth * (1.0 + 1e-9))
        found[i] = bounds.max()
    return found


def _summed(sigma: float, z: Numbers) -> Numbers:
    r"""K by the sum over the integers around ``Re z + 1``, for small noise.

    With n the nearest integer and y = z + 1 - n, the exponent of the term k = n + m is
    [z(2n-1) - (n-1)^2 + 2my - m^2] / 2 sigma^2. Terms m and -m together are 2 + 4 sinh^2(my / 2 sigma^2), and that
    difference from 2 goes to zero with y, so that K does with z.
    """
    precision = 1.0 / sigma / sigma
    nearest = np.round(z.real + 1.0)
    y = z + (1.0 - nearest)
    y = np.where(y.real < 0, -y, y)  # the sum is even in y; a positive real part keeps exponents below zero
    excess = np.zeros_like(y)
    for m in significant(precision / 2.0, reach=1.0):
        # 4 sinh(c)^2 = exp(2c) expm1(-2c)^2, which does not overflow before it is weighted
        excess = excess + np.exp((m * y - 0.5 * m * m) * precision) * np.expm1(-m * y * precision) ** 2
    offset = 0.5 * precision * (z * (2.0 * nearest - 1.0) - (nearest - 1.0) ** 2)
    return offset + log1p_at(excess / theta(sigma))


def _dual(sigma: float, z: Numbers) -> Numbers:
    r"""K by the Fourier dual of the sum, for large noise.

    theta(z+1) / theta(0) = 1 - 4 sum_n rho_n sin^2(pi n z) / sum rho_n with rho_n = exp(-2 (pi sigma n)^2), which is
    one at integers. The losses are odd multiples of 1 / 2 sigma^2, so M changes its sign when z moves by
    2 pi i sigma^2; within half of that period the dual terms never exceed one.
    """
    turn = np.zeros_like(z.real)
    if np.iscomplexobj(z):
        period = 2.0 * math.pi * sigma * sigma
        turn = np.round(z.imag / period)
        z = z - 1j * period * turn
    rate = 2.0 * (math.pi * sigma) ** 2
    fraction = z - np.round(
        z.real
    )  # sin^2(pi n z) has period one; the fraction is exact, and so is the sign of its zeros
    deficit = np.zeros_like(z)
    for n in significant(rate, reach=1.0 if np.iscomplexobj(z) else 0.0):
        deficit = deficit + _damped_sine_square(rate * n * n, math.pi * n * fraction)
    value = 0.5 * (z / sigma) * ((z + 1.0) / sigma) + log1p_at(-4.0 * deficit / dual_theta(sigma))
    return value + 1j * math.pi * turn if np.iscomplexobj(z) else value


def _damped_sine_square(decay: float, y: Numbers) -> Numbers:
    """``exp(-decay) sin(y)^2`` without overflow: sin^2 = -(exp(2iy) expm1(-2iy)^2) / 4, and its conjugate below."""
    if not np.iscomplexobj(y):
        return np.asarray(math.exp(-decay) * np.sin(y) ** 2)
    upper = np.where(y.imag > 0, -y, y)  # sin^2 is even; now |exp(2iy)| = exp(-2 Im y) >= 1 is the large factor
    return np.asarray(-0.25 * np.exp(2j * upper - decay) * np.expm1(-2j * upper) ** 2)
