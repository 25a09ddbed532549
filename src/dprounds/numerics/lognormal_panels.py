r"""Averages over one lognormal value by Gauss-Legendre rules, on panels that are halved where their error is too large.

A rule of N points on a panel errs by at most :math:`8M\rho^{1-2N}/(\rho-1)` times its half-width, if the integrand is
analytic on the ellipse around the panel whose half-axes add up to rho times the half-width, and at most M there.
docs/theory/allocation.md proves the bounds, under the name *panels*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError
from dprounds.numerics.normal_tails import upper_tail
from dprounds.numerics.quadrature import panel_rule, scale_above

__all__ = ["POINTS", "WIDEST_ANGLE", "average_by_panels", "half_axes", "log_panel_errors", "panels"]

Array = NDArray[np.float64]

# --- What only tunes speed and tightness.

# Values turn by no more than this on an ellipse, which a test holds below a right angle.
WIDEST_ANGLE = 1.5
# Below this many deviations values are left out of an average; what they have there is added.
LOWEST = -20.0
# Points of a panel, and the ellipses, by rho, on which it is bounded.
POINTS = 20
ELLIPSES = np.array([1.3, 1.6, 2.0, 2.5, 3.0, 4.0, 5.5, 8.0, 12.0])
# The error of an average is asked to be below this part over the number of values, in logarithms.
LOG_PANELS = -38.0
FIRST_PANELS = 8
MOST_PANELS = 256
MOST_REMEMBERED = 64


def average_by_panels(
    deviation: float, count: float, limit: float, tilts: Array, turn: float
) -> tuple[Array, Array, float]:
    """X - 1 at nodes and their weights, for E[exp(q) - 1 - q] with q = u (X - 1)/t up to a limit; and its error.

    The real part of u is at most the largest of the tilts, and not below the least; its imaginary part up to the turn.
    """
    steps = [scale_above(float(x)) for x in (max(tilts.max(), 0.0), max(-tilts.min(), 0.0), turn)]
    return _remembered_average(deviation, count, limit, *steps)


@lru_cache(maxsize=MOST_REMEMBERED)
def _remembered_average(
    d: float, t: float, limit: float, up: float, down: float, turn: float
) -> tuple[Array, Array, float]:
    def log_errors(middle: Array, half: Array) -> Array:
        """What the rule errs by on each panel, by the best ellipse."""
        wide, high = half_axes(half)
        value = np.exp(np.minimum(d * (middle[:, None] + wide) - 0.5 * d * d, 700.0))
        least = np.exp(d * (middle[:, None] - wide) - 0.5 * d * d)
        angle = np.minimum(d * high, 0.5 * math.pi)
        size = (max(up, down) + turn) / t * (value + 1.0)
        top = (
            up / t * value + turn / t * value * np.sin(angle) + down / t * np.maximum(1.0 - least * np.cos(angle), 0.0)
        )
        grown = np.minimum(np.logaddexp(top, np.log1p(size)), 2.0 * np.log(size) - math.log(2.0) + top)
        return log_panel_errors(middle, half, np.where(d * high < WIDEST_ANGLE, grown, math.inf))

    edges, error = panels(LOWEST, limit, log_errors, LOG_PANELS - math.log(t))
    x, weights = panel_rule(edges, POINTS)
    error += float(upper_tail(-LOWEST)) * (2.0 + (max(up, down) + turn) / t + math.exp(down / t))
    return np.expm1(d * x - 0.5 * d * d), weights * np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi), error


def half_axes(half: Array) -> tuple[Array, Array]:
    """Those of the ellipses around panels."""
    return (
        np.multiply.outer(half, 0.5 * (ELLIPSES + 1.0 / ELLIPSES)),
        np.multiply.outer(half, 0.5 * (ELLIPSES - 1.0 / ELLIPSES)),
    )


def log_panel_errors(middle: Array, half: Array, log_top: Array) -> Array:
    """*Panels*: by how much the rule errs on each panel, the integrand at most the normal density times exp(log_top).

    The rule is right for polynomials of degree 2 N - 1, and on an ellipse of rho the nearest one of these misses by at
    most 2 M rho^(1 - 2N) / (rho - 1).
    """
    wide, high = half_axes(half)
    nearest = np.maximum(np.abs(middle)[:, None] - wide, 0.0)
    density = 0.5 * (high * high - nearest * nearest) - 0.5 * math.log(2.0 * math.pi)
    fall = (1.0 - 2.0 * POINTS) * np.log(ELLIPSES) + np.log(8.0 / (ELLIPSES - 1.0))
    return np.asarray((log_top + density + fall).min(axis=-1) + np.log(half))


def panels(
    low: float, high: float, log_errors: Callable[[Array, Array], Array], target: float, first: int = FIRST_PANELS
) -> tuple[Array, float]:
    """Edges of panels on which each error is below the target, and the sum of the errors."""
    edges = np.linspace(low, high, first + 1)
    while True:
        found = log_errors(0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges))
        poor = np.flatnonzero(~(found <= target))
        if not poor.size:
            return edges, float(np.exp(found).sum())
        if edges.size + poor.size > MOST_PANELS:
            raise NumericalError("A mean of lognormal values is not resolved at such a power.")
        edges = np.sort(np.append(edges, 0.5 * (edges[poor] + edges[poor + 1])))
