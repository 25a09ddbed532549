"""The values at which an extreme needs no search: equal and disjoint distributions, and no limit at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dprounds.divergences.boundary import level_chord
from dprounds.divergences.certificate import level_bound, proven_chord
from dprounds.divergences.family import Divergence
from dprounds.divergences.mesh import Chord, Side, end_ratios, pair_point
from dprounds.divergences.nodes import has_user_function

__all__ = ["greatest_by_rule", "least_by_rule"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Relative, and far more than the rounding error of a largest value.
BELOW_LARGEST = 1e-9

EQUAL = (0.0, 0.0)
DISJOINT = (-np.inf, np.inf)


def _fill(chord: Chord, where: Mask, pair: tuple[float, float], value: float, *, attained: bool = True) -> None:
    """Claim that `value` is exact, shown by one binary pair."""
    chord.left[where] = pair
    chord.ray[where] = not attained
    with np.errstate(divide="ignore"):  # log 0 = -inf
        chord.log_value[where] = chord.log_bound[where] = np.log(value)


def least_by_rule(f: Divergence, g: Divergence, chord: Chord, top: Mask) -> Mask:
    """Fill in the least at D_f = 0 and at the largest D_f (`top`); where that was done."""
    zero = np.isneginf(chord.log_target)
    _fill(chord, zero, EQUAL, 0.0)
    if 0.0 in end_ratios(f, g):
        # an infinite D_f may sit on a vanishing mass, and D_g vanishes with it
        _fill(chord, top, EQUAL, 0.0, attained=False)
    else:
        _fill(chord, top, DISJOINT, g.at_zero + g.slope_at_infinity)
        side = Side.of(f, g, 1.0)
        if top.any() and has_user_function(side) and np.isfinite(f.largest):
            # The largest value is known only up to rounding. The least does not fall as D_f grows, so a bound that is
            # proven at a smaller D_f holds.
            chord.log_bound[top] = proven_chord(side, chord.log_target[top][:1] - BELOW_LARGEST).log_bound
    return zero | top


def greatest_by_rule(f: Divergence, g: Divergence, chord: Chord, top: Mask) -> Mask:
    """Fill in the greatest at D_f = 0, at the largest D_f (`top`), and where there is none; where that was done."""
    _fill(chord, top, DISJOINT, g.at_zero + g.slope_at_infinity)
    zero = np.isneginf(chord.log_target)
    rest = ~top & ~zero
    for direction, f_end, g_end in ((-1.0, f.at_zero, g.at_zero), (1.0, f.slope_at_infinity, g.slope_at_infinity)):
        if np.isinf(g_end) and not np.isinf(f_end) and rest.any():
            # a point that only one of the distributions has: any mass of it makes D_g infinite
            _mix_in_an_end(f, g, direction, chord, rest)
            rest = np.zeros_like(rest)
    if np.inf in end_ratios(f, g):
        _fill(chord, rest, EQUAL, np.inf, attained=False)
        rest = np.zeros_like(rest)
    if zero.any():
        where = np.flatnonzero(zero)
        side = Side.of(f, g, -1.0)
        level = level_chord(side)
        if has_user_function(side):
            level.log_bound = np.maximum(level.log_bound, level_bound(side))
        chord.put(where, level.take(np.zeros_like(where)))
    return ~rest


def _mix_in_an_end(f: Divergence, g: Divergence, direction: float, chord: Chord, where: Mask) -> None:
    """Pairs of the wanted D_f with a point of ratio zero (`direction` -1) or infinity (1): equal ones and a share."""
    size = Side.of(f, g, -1.0).size
    size = size if np.isfinite(f.largest) else size[:-1]
    end = np.full_like(size, direction * np.inf)
    pairs = np.stack([end, size] if direction < 0 else [-size, end], axis=1)
    with np.errstate(divide="ignore"):  # a pair may lie where f is zero
        log_f = np.log(pair_point(f, pairs, np.zeros_like(size)))
    # spreading the points out never lowers D_f, so the pairs ascend
    index = np.minimum(np.searchsorted(log_f, chord.log_target[where]), size.size - 1)
    chord.right[where] = pairs[index]
    chord.share[where] = np.minimum(np.exp(chord.log_target[where] - log_f[index]), 1.0)
    chord.log_value[where] = chord.log_bound[where] = np.inf
