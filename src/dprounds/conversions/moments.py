r"""The moments accountant's conversion, the oldest and loosest.

.. math:: \varepsilon = \gamma + \log(1/\delta) / (\alpha - 1)

Each function takes validated arrays of one shape and errs to the side its first line states. Theorem: [ALCKS20,
Theorem 1], first in [ACGMMTZ16] and [Mir17]; docs/theory/conversions.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.rounding import UNIT_ROUNDOFF, above, below

__all__ = ["delta", "epsilon", "rdp"]

Array = NDArray[np.float64]

# A logarithm, a division and an addition, each within an ulp of the largest of their terms.
ROUNDINGS = 8.0 * UNIT_ROUNDOFF


def epsilon(rdp: Array, order: Array, delta: Array) -> Array:
    """Epsilon that `rdp` at `order` certifies at `delta`. Errs upward."""
    sum_ = rdp - np.log(delta) / (order - 1.0)
    # the infinite order costs nothing beyond rdp itself, exactly
    return np.where(order < np.inf, above(sum_, ROUNDINGS * sum_), rdp)


def delta(rdp: Array, order: Array, epsilon: Array) -> Array:
    """Delta that `rdp` at `order` certifies at `epsilon`, at most one. Errs upward."""
    return exponential_delta(rdp, order, epsilon, log_factor=np.zeros_like(rdp))


def exponential_delta(rdp: Array, order: Array, epsilon: Array, *, log_factor: Array) -> Array:
    """min(1, factor · e^{(order - 1)(rdp - epsilon)}), rounded up; at order inf, 0 from epsilon = rdp on."""
    t = order - 1.0
    gap = rdp - epsilon
    exponent = t * gap + log_factor
    error = ROUNDINGS * (1.0 + np.abs(t * gap) + np.abs(log_factor))
    bound = np.minimum(above(np.exp(np.minimum(exponent + error, 1.0))), 1.0)
    return np.where(t < np.inf, bound, np.where(gap <= 0.0, 0.0, 1.0))


def rdp(epsilon: Array, order: Array, delta: Array) -> Array:
    """Greatest rdp at `order` that certifies (`epsilon`, `delta`), 0 if none does. Errs downward."""
    cost = -np.log(delta) / (order - 1.0)
    return np.where(order < np.inf, np.maximum(below(epsilon - cost, ROUNDINGS * (epsilon + cost)), 0.0), epsilon)
