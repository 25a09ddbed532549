"""Nodes and weights for integrals of analytic functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["grid_nodes", "panel_rule", "scale_above", "scale_below", "short_binary_below"]

Array = NDArray[np.float64]

# Bits of a grid step. Multiples k * step are then exact doubles up to k = 2^44, so nodes carry no rounding error.
STEP_BITS = 9
# Numbers a factor of two, of the scale on which grids that may be shared have their parameters.
OCTAVE = 4


def short_binary_below(step: float) -> float:
    """The largest number of at most `STEP_BITS` bits that is not above `step`."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(math.ldexp(mantissa, STEP_BITS)), exponent - STEP_BITS)


def scale_above(x: float) -> float:
    """A number of a coarse scale, not below x >= 0 and at most 1.42 times it: neighbours have the same."""
    if x == 0:
        return 0.0
    above: float = 2.0 ** (math.ceil(OCTAVE * math.log2(x)) / OCTAVE)
    return above if above >= x else 2.0 ** (1.0 / OCTAVE) * above


def scale_below(x: float) -> float:
    """The same from below."""
    below: float = 2.0 ** (math.floor(OCTAVE * math.log2(x)) / OCTAVE)
    return below if below <= x else 2.0 ** (-1.0 / OCTAVE) * below


def grid_nodes(step: float, windows: Sequence[tuple[float, float]]) -> Array:
    """The multiples of `step` in the union of the windows, in increasing order."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(windows):
        first, last = math.floor(low / step), math.ceil(high / step)
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return step * np.concatenate([np.arange(first, last + 1, dtype=np.float64) for first, last in merged])


@cache
def _legendre(points: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return nodes, weights


def panel_rule(edges: Array, points: int) -> tuple[Array, Array]:
    """Nodes and weights of the Gauss-Legendre rule of `points` points on every panel between neighbouring edges."""
    nodes, weights = _legendre(points)
    half_widths = 0.5 * np.diff(edges)
    middles = 0.5 * (edges[1:] + edges[:-1])
    return (middles[:, None] + np.multiply.outer(half_widths, nodes)).ravel(), np.multiply.outer(
        half_widths, weights
    ).ravel()
