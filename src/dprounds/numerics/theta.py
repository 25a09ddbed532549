r"""The theta sum :math:`\theta = \sum_k e^{-k^2/2\sigma^2}` over the integers, and its Fourier dual.

By Poisson summation it is :math:`\sigma\sqrt{2\pi}\,\sum_n e^{-2\pi^2\sigma^2n^2}`. One of the two converges in a few
terms, whatever sigma is.
"""

from __future__ import annotations

import math

__all__ = ["SELF_DUAL", "dual_theta", "significant", "theta"]

# Terms below exp(-41) = 2^-59 of the first do not reach a double.
NEGLIGIBLE = 41.0

# Here the two exponents, 1/(2 sigma^2) and 2 pi^2 sigma^2, are equal.
SELF_DUAL = 1.0 / math.sqrt(2.0 * math.pi)


def significant(decay: float, reach: float = 0.0) -> range:
    """The n >= 1 for which ``exp(-decay (n^2 - reach n))`` is not negligible."""
    return range(1, math.floor(reach / 2.0 + math.sqrt(reach * reach / 4.0 + NEGLIGIBLE / decay)) + 2)


def _sum(decay: float) -> float:
    return 1.0 + 2.0 * math.fsum(math.exp(-decay * n * n) for n in significant(decay))


def dual_theta(sigma: float) -> float:
    """The sum of ``exp(-2 (pi sigma n)^2)`` over the integers, for sigma not below `SELF_DUAL`."""
    return _sum(2.0 * (math.pi * sigma) ** 2)


def theta(sigma: float) -> float:
    """The sum of ``exp(-k^2 / 2 sigma^2)`` over the integers."""
    if sigma < SELF_DUAL:
        return _sum(0.5 / sigma / sigma)
    return sigma * math.sqrt(2.0 * math.pi) * dual_theta(sigma)
