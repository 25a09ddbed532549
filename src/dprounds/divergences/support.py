r"""The supporting pair: the binary pair that lies lowest above lines of a given slope.

With :math:`H = \pm G - \mu F` as a function of :math:`s = \tanh(u/2)`, the least :math:`\pm D_g - \mu D_f` over all
pairs of distributions is twice the lower convex envelope of H at s = 0, and a binary pair attains it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dprounds.divergences.mesh import Chord, Side
from dprounds.errors import NumericalError
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = [
    "ALL_LEVELS",
    "FIRST_LEVELS",
    "LARGEST_POINT_EXPONENT",
    "LOG_OF_ZERO_TARGET",
    "PAIR_ERROR",
    "supporting_pair",
]

Array = NDArray[np.float64]

# exp(LARGEST_POINT_EXPONENT) leaves a factor of 1e30 for slopes and sums. A point that is heavier than that, in units
# of the answer, could only carry a weight below 1e-278. It is a ray, and rays are treated separately.
LARGEST_POINT_EXPONENT = 640.0
# The log that stands for a target of zero: it makes every point with F > 0 too heavy, and none with F = 0.
LOG_OF_ZERO_TARGET = -1e300

# Each level of the zoom divides a bracket by eight. Eight levels reach 1e-7 of a mesh cell, and the error of the value
# is the square of that. At a corner that the mesh holds there is no error.
ZOOM_POINTS = np.linspace(0.0, 1.0, 17)
FIRST_LEVELS, ALL_LEVELS = 3, 8
# A local minimum of the mesh counts from this relative depth on. It is far above rounding, and a true dip is far
# deeper.
DIP_DEPTH = 1e-12

# Twice the relative rounding error of a pair in addition to that of its kernels: two weights, two products, a sum.
PAIR_ERROR = 16 * UNIT_ROUNDOFF

# Newton's method on an envelope takes three to ten pairs.
MOST_NEWTON_PAIRS = 60


def _height(side: Side, log_f: Array, log_g: Array, slope: Array, chord: Chord) -> Array:
    """H = ±G - slope F at mesh points, one row per value; inf where LARGEST_POINT_EXPONENT is exceeded."""
    f_exponent = log_f - chord.log_target[:, None]
    g_exponent = log_g - chord.log_unit[:, None]
    heavy = (f_exponent > LARGEST_POINT_EXPONENT) | (g_exponent > LARGEST_POINT_EXPONENT)
    height = side.sign * np.exp(np.where(heavy, 0.0, g_exponent)) - slope[:, None] * np.exp(
        np.where(heavy, 0.0, f_exponent)
    )
    return np.where(heavy, np.inf, height)


def supporting_pair(side: Side, slope: Array, start: Array, chord: Chord, levels: int) -> tuple[Array, Array]:
    """The binary pair with the least ±D_g - slope D_f, and that least value; the pair is NaN where `start` is least.

    Twice the lower convex envelope of H at s = 0. From a height r, the least (H - r)/|s| on either side of zero gives
    the pair whose own height is the next, lower r: Newton's method, and no step subtracts large from large.
    """
    heights = [_height(side, side.log_f[end], side.log_g[end], slope, chord) for end in (0, 1)]
    mesh_s = np.tanh(0.5 * side.size)
    # The point s = 0 itself has H = 0.
    r = np.minimum(0.5 * start, 0.0)
    best = np.where((start > 0)[:, None], 0.0, np.full((r.size, 2), np.nan))
    work = np.arange(r.size)
    for _ in range(MOST_NEWTON_PAIRS):
        with np.errstate(over="ignore"):  # next to s = 0 a positive quotient may become inf, which is not least
            tilted = np.stack([(height[work] - r[work, None]) / mesh_s for height in heights])
        at, quotient = _polished(side, tilted, slope[work], r[work], chord.take(work), levels)
        s = np.tanh(0.5 * at)
        # the pair's height above r, from the two quotients
        drop = quotient.sum(axis=0) * s.prod(axis=0) / s.sum(axis=0)
        pair = at.copy()
        for end in (0, 1):
            # Far above the solution Newton's steps are short. A better partner on the mesh covers most of the distance.
            fixed = s[end][:, None]
            above = (heights[1 - end][work] - r[work, None]) * fixed + (quotient[end] * s[end])[:, None] * mesh_s
            above /= mesh_s + fixed
            index = np.argmin(above, axis=1)
            partner_drop = np.take_along_axis(above, index[:, None], axis=1)[:, 0]
            closer = partner_drop < drop
            pair[end] = np.where(closer, at[end], pair[end])
            pair[1 - end] = np.where(closer, side.size[index], pair[1 - end])
            drop = np.minimum(drop, partner_drop)
        better = drop < -UNIT_ROUNDOFF * np.abs(r[work])
        moved = work[better]
        best[moved] = pair.T[better] * np.array([-1.0, 1.0])
        r[moved] += drop[better]
        # A step that gains less than the rounding error of the pair is the last one.
        work = moved[drop[better] < -PAIR_ERROR * np.abs(r[moved])]
        if work.size == 0:
            return best, 2.0 * r
    raise NumericalError(f"The search for a supporting pair of {side.f} and {side.g} did not settle.")


def _dips(tilted: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and mesh indices of all local minima, in the order of the rows."""
    wall = np.full((tilted.shape[0], 1), np.inf)
    before = np.concatenate([wall, tilted[:, :-1]], axis=1)
    after = np.concatenate([tilted[:, 1:], wall], axis=1)
    # a plateau's rounding noise is not a dip
    edge = tilted + DIP_DEPTH * np.abs(tilted)
    dip = (tilted <= before) & (tilted <= after) & ((edge < before) | (edge < after))
    dip[np.arange(tilted.shape[0]), np.argmin(tilted, axis=1)] = True
    rows, index = np.nonzero(dip)
    return rows, index


def _polished(side: Side, mesh: Array, slope: Array, r: Array, chord: Chord, levels: int) -> tuple[Array, Array]:
    """Log ratio (its size) and value of the least (H - r)/|s|, by subdivision of the two cells next to each dip.

    The mesh has shape (2, values, sizes): ratios below one, then those above. So have the results.
    """
    flat = mesh.reshape(-1, mesh.shape[-1])
    rows, index = _dips(flat)
    direction = np.where(rows < r.size, -1.0, 1.0)[:, None]
    slope, r, chord = slope[rows % r.size], r[rows % r.size], chord.take(rows % r.size)
    last = side.size.size - 2
    low = side.size[np.clip(index - 1, 0, last)]
    high = side.size[np.clip(index + 1, 0, last)]
    at, least = side.size[index], flat[rows, index]
    count = np.arange(rows.size)
    for _ in range(levels):
        u = low[:, None] + (high - low)[:, None] * ZOOM_POINTS
        signed = direction * u
        height = _height(side, side.f.log_kernel(signed), side.g.log_kernel(signed), slope, chord)
        tilted = (height - r[:, None]) / np.tanh(0.5 * u)
        k = np.argmin(tilted, axis=1)
        low, high = u[count, np.maximum(k - 1, 0)], u[count, np.minimum(k + 1, ZOOM_POINTS.size - 1)]
        found = tilted[count, k]
        at = np.where(found < least, u[count, k], at)
        least = np.minimum(found, least)
    order = np.lexsort((least, rows))
    first = order[np.searchsorted(rows[order], np.arange(flat.shape[0]))]
    return at[first].reshape(mesh.shape[:2]), least[first].reshape(mesh.shape[:2])
