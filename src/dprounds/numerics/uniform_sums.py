r"""Means of hyperbolic functions over sums of uniform variables, at the points of a lattice of step one.

The density :math:`b_k` of the sum :math:`W_k` of k variables, uniform on [0, 1], is a spline with its knots at the
integers. It follows from that of one variable less, without any difference of close numbers (de Boor's recurrence):

.. math:: b_{k+1}(x) = \frac{x\, b_k(x) + (k + 1 - x)\, b_k(x - 1)}{k} .
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["gauss_error", "hyperbolic_means"]

Array = NDArray[np.float64]


@cache
def _gauss(nodes: int) -> tuple[Array, Array]:
    """Places and weights of Gauss's rule on [0, 1]."""
    places, weights = np.polynomial.legendre.leggauss(nodes)
    return 0.5 * (1.0 + places), 0.5 * weights


def hyperbolic_means(rate: float, fraction: float, points: int, most: int, nodes: int) -> tuple[Array, Array]:
    r"""Means over the part of :math:`W_k` below each :math:`c_i = \text{fraction} + i`.

    Returns :math:`E[\sinh(a(c_i - W_k))_+]` and :math:`E[\cosh(a(c_i - W_k));\, W_k < c_i]`, with a the `rate`: rows
    are k from 1 to `most`, columns i from 0 to `points` - 1. Gauss's rule has so many `nodes` on each piece of a unit
    interval.

    Guarantee
    ---------
    All terms are positive, so that a mean has the relative error of a few roundings for each step of the recurrences,
    at most `most` + `points` of them. To this comes `gauss_error` for each of the points up to its own, times the
    exponential of the rate and their distance.
    """
    places, gauss_weights = _gauss(nodes)
    lower, upper = fraction * places, fraction + (1.0 - fraction) * places
    within = np.concatenate([lower, upper])  # where a density is needed, above each integer
    # the distance of c_i to a place is an integer and this rest
    to_lower, to_upper = fraction * (1.0 - places), 1.0 - (1.0 - fraction) * places
    weights = np.concatenate([fraction * gauss_weights, (1.0 - fraction) * gauss_weights])
    distance = rate * np.concatenate([to_lower, to_upper])
    kernel = weights[:, None] * np.stack([np.cosh(distance), np.sinh(distance)], axis=1)

    place = np.arange(points, dtype=np.float64)[:, None] + within
    density = np.zeros_like(place)
    density[0] = 1.0
    cosh_parts, sinh_parts = np.zeros((most, points)), np.zeros((most, points))
    for k in range(1, most + 1):
        here = density[: min(k, points)]
        low, high = here[:, :nodes] @ kernel[:nodes], here[:, nodes:] @ kernel[nodes:]
        count = here.shape[0]
        cosh_parts[k - 1, :count], sinh_parts[k - 1, :count] = low.T
        # a place above the fraction belongs to the next point
        shifted = min(count, points - 1)
        cosh_parts[k - 1, 1 : shifted + 1] += high[:shifted, 0]
        sinh_parts[k - 1, 1 : shifted + 1] += high[:shifted, 1]
        if k < most:
            count = min(k + 1, points)
            following = place[:count] * density[:count]
            following[1:] += (k + 1.0 - place[1:count]) * density[: count - 1]
            density[:count] = following / k
    sinh_means, cosh_means = np.empty((most, points)), np.empty((most, points))
    cosh, sinh = math.cosh(rate), math.sinh(rate)
    x, y = np.zeros(most), np.zeros(most)
    for i in range(points):
        x, y = sinh_parts[:, i] + (cosh * x + sinh * y), cosh_parts[:, i] + (cosh * y + sinh * x)
        sinh_means[:, i], cosh_means[:, i] = x, y
    return sinh_means, cosh_means


def gauss_error(rate: float, nodes: int) -> float:
    """A bound on the error of Gauss's rule over one unit interval, by the derivative of twice its order.

    The derivatives of a density are differences of densities, which are at most one: that of order m is at most 2^m.
    """
    order = 2 * nodes
    log_constant = 4.0 * math.lgamma(nodes + 1) - math.log(order + 1) - 3.0 * math.lgamma(order + 1)
    return 2.0 * math.exp(log_constant + order * math.log(2.0 + rate) + rate) * (1.0 + 1e-9)
