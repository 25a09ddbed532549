r"""The conversion that today's Rényi accountants use.

.. math:: \varepsilon = \gamma - \log(\delta/\zeta_\alpha) / (\alpha - 1),
          \qquad \zeta_\alpha = \tfrac1\alpha (1 - \tfrac1\alpha)^{\alpha - 1}

It is the optimal conversion without the second outcome of the two-point pair, so it is never below it. Each function
takes validated arrays of one shape. Theorem: [BBGHS20, Theorem 21]; docs/theory/conversions.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dprounds.conversions import moments
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above, below

__all__ = ["delta", "epsilon", "log_zeta", "rdp", "saving"]

Array = NDArray[np.float64]

# Three logarithms, a division and two additions, each within an ulp of the largest of their terms.
ROUNDINGS = 12.0 * UNIT_ROUNDOFF


def log_zeta(order: Array) -> Array:
    """log ζ = -log(order) - (order - 1) log(1 + 1/(order - 1)) < 0, for a finite order."""
    t = order - 1.0
    return -np.log(order) - t * np.log1p(1.0 / t)


def saving(order: Array) -> Array:
    """-log(ζ)/(order - 1) >= 0: what ε gains over the moments accountant, whatever δ is."""
    t = order - 1.0
    return np.where(t < np.inf, np.log(order) / t + np.log1p(1.0 / t), 0.0)


def epsilon(rdp: Array, order: Array, delta: Array) -> Array:
    """Epsilon that `rdp` at `order` certifies at `delta`. Errs upward."""
    by_moments = moments.epsilon(rdp, order, delta)
    gain = saving(order)
    return np.minimum(np.maximum(above(by_moments - gain, ROUNDINGS * (by_moments + gain)), 0.0), by_moments)


def delta(rdp: Array, order: Array, epsilon: Array) -> Array:
    """Delta that `rdp` at `order` certifies at `epsilon`, at most one. Errs upward."""
    raw = moments.exponential_delta(rdp, order, epsilon, log_factor=log_zeta(order))
    return np.minimum(raw, moments.delta(rdp, order, epsilon))


def rdp(epsilon: Array, order: Array, delta: Array) -> Array:
    """Greatest rdp at `order` that certifies (`epsilon`, `delta`), 0 if none does. Errs downward."""
    cost = -np.log(delta) / (order - 1.0)
    gain = saving(order)
    raw = np.maximum(below(epsilon - cost + gain, ROUNDINGS * (epsilon + cost + gain)), 0.0)
    return np.maximum(raw, moments.rdp(epsilon, order, delta))
