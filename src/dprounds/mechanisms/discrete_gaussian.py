"""The Gaussian mechanism on the integers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import NOISE_MULTIPLIER, real
from dprounds.accounting.cells import Cells, atoms_in_cells
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import Sampleable
from dprounds.mechanisms.sampled_gaussian import LARGEST_ORDER, gaussian_sampled_laws
from dprounds.numerics.complex_plane import Numbers, log1p_at
from dprounds.numerics.cumulant import TiltableLaw
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.theta import SELF_DUAL, dual_theta, significant, theta

__all__ = ["DiscreteGaussian"]

# Beyond so many deviations a probability is below the range of doubles.
REACH = 39.0
# Atoms that a lattice may be made of: with more noise they are so close that the losses might as well be continuous.
MOST_ATOMS = 2**20


@dataclass(frozen=True, repr=False)
class DiscreteGaussian(Accounted, Sampleable):
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

    @property
    def _max_loss_is_least(self) -> bool:
        return True

    @property
    def _largest_sampled_order(self) -> float:
        return LARGEST_ORDER * self.noise_multiplier

    def _sampled_laws(self, z: Numbers, rate: float, direction: str) -> Iterator[tuple[NDArray[np.intp], TiltableLaw]]:
        return gaussian_sampled_laws(self.noise_multiplier, z, rate, direction, on_integers=True)

    @property
    def _has_cells(self) -> bool:
        return 2.0 * REACH * self.noise_multiplier < MOST_ATOMS

    def _cells(self, edges: NDArray[np.float64], direction: str) -> Cells:
        sigma = self.noise_multiplier
        last = math.ceil(REACH * sigma) + 1
        k = np.arange(-last, last + 1, dtype=np.float64)
        masses = np.exp(-0.5 * (k / sigma) ** 2) / theta(sigma)
        # a release of k has the log-ratio (2k - 1) / 2 sigma^2, probability Q(k) under Q and Q(k - 1) under P
        losses = (k[1:] - 0.5) / sigma / sigma
        error = 8.0 * UNIT_ROUNDOFF * (1.0 + REACH * REACH)
        blur = 4.0 * UNIT_ROUNDOFF * float(losses[-1])
        return atoms_in_cells(edges, losses, masses[:-1], masses[1:], error=error, blur=blur)


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
