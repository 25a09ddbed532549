r"""One side of the region of two f-divergences, for many values at once.

The convex hull of the binary pairs is the whole region [HV11]. So the least :math:`D_g` at :math:`D_f = v` lies on a
chord between two binary pairs, and a line below every binary pair proves it.

The search holds such a chord, asks for the binary pair farthest below it, and lets that pair replace the end on its
own side of v. The distance found bounds what any further search could gain. All sums are of non-negative terms, and
both divergences are measured in units of their own size, so that tiny values keep their digits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dprounds.divergences.mesh import LOG_ERROR, Chord, Side, pair_point
from dprounds.divergences.support import (
    ALL_LEVELS,
    FIRST_LEVELS,
    LARGEST_POINT_EXPONENT,
    LOG_OF_ZERO_TARGET,
    PAIR_ERROR,
    supporting_pair,
)
from dprounds.errors import NumericalError

__all__ = ["level_chord", "lower_chord", "relative_error"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# A target needs points of up to size one within LARGEST_POINT_EXPONENT of it, so the smallest is about 1e-250.
SMALLEST_LOG_TARGET = 64.0 - LARGEST_POINT_EXPONENT
# A cell of the mesh is little more than a factor of two wide, so this many halvings end at neighbouring doubles.
CELL_HALVINGS = 54
# Among pairs of nearly equal cost the nearest is taken: relatively, a pair may cost this much more for each factor of e
# that it is nearer. This is far above rounding and far below a gain.
TIE_PER_E_FOLD = 1e-6

# Most searches take ten to twenty steps. The first few only find the right dip, so they use FIRST_LEVELS of the zoom.
# Halving alone would cross the 250 decades of a target in about 800 steps.
COARSE_STEPS = 6
MOST_CHORD_STEPS = 800
# In units of the target. A right end beyond this has not reached the size of the target yet; there a power law is the
# better guess half the time.
FAR_IN_TARGETS = 4.0
# Where one end of a chord is UNEVEN_RATIO times as far as the other, the slope is read LEAN_RATIO times the shorter
# distance towards the farther end.
UNEVEN_RATIO, LEAN_RATIO = 10.0, 4.0
# Where only rounding keeps a line from being proven, its slope is reduced by RELIEF_FACTOR times as many rounding
# errors, up to LARGEST_RELIEF of them, which is a relative 1e-9 or so.
RELIEF_FACTOR, LARGEST_RELIEF = 8.0, 1e5


def _start(side: Side, log_target: Array) -> Chord:
    """The best chord from equal distributions to a symmetric pair of the mesh that reaches the target."""
    if not (log_target >= SMALLEST_LOG_TARGET).all():
        raise NumericalError(f"A value of {side.f} is positive but below exp({SMALLEST_LOG_TARGET:.0f}), out of reach.")
    log_f, log_g = (np.logaddexp(*logs) for logs in (side.log_f, side.log_g))
    usable = np.isfinite(log_f) & (log_g < np.inf)
    if not (log_target <= log_f[usable].max()).all():
        raise NumericalError(
            f"A value of {side.f} needs likelihood ratios beyond exp({side.size[-2]:.3g}), the largest that "
            f"{side.f} and {side.g} can be evaluated at."
        )
    cost = np.where(usable, side.sign * (log_g - np.where(usable, log_f, 0.0)), np.inf)
    excess = log_f - log_target[:, None]
    reaching = (excess >= 0) & (excess <= LARGEST_POINT_EXPONENT) & usable
    # among equally cheap pairs take the nearest, whose likelihood ratios are the smallest
    index = np.argmin(np.where(reaching, cost + TIE_PER_E_FOLD * np.where(reaching, excess, 0.0), np.inf), axis=1)
    # A steep kernel may pass all of that range within one cell of the mesh: then halve the cell.
    first = np.argmax(excess >= 0, axis=1)
    low, high = side.size[np.maximum(first - 1, 0)], side.size[first]
    for _ in range(0 if reaching.any(axis=1).all() else CELL_HALVINGS):
        middle = 0.5 * (low + high)
        reached = np.logaddexp(side.f.log_kernel(-middle), side.f.log_kernel(middle)) >= log_target
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    size = np.where(reaching.any(axis=1), side.size[index], high)
    chord = Chord.blank(log_target)
    chord.right = np.stack([-size, size], axis=1)
    chord.displaced = chord.right.copy()
    # the unit is D_g on this chord, if that is positive and finite; both points of a symmetric pair weigh one
    log_ends = [np.logaddexp(*d.log_kernel_everywhere(np.stack([-size, size]))) for d in (side.f, side.g)]
    log_value = log_ends[1] + log_target - log_ends[0]
    chord.log_unit = np.where(np.isfinite(log_value), log_value, 0.0)
    return chord


def relative_error(size: Array, log_unit: Array) -> Array:
    """Relative rounding error of a divergence of `size` units: its kernels come from logarithms of up to that size."""
    log_size = np.log(np.where(size > 0, size, 1.0)) + log_unit
    return np.asarray(PAIR_ERROR + LOG_ERROR * np.maximum(np.abs(log_unit), np.abs(log_size)))


def _parabola_slope(f: Array, g: Array, chord_slope: Array) -> Array:
    """Slope next to D_f = 1 of the parabola through left, right and displaced point; the chord's where there is none.

    Where one end is much nearer than the other, the slope is read a little beyond 1, towards the far end, so that the
    next pair replaces the far end.
    """
    below, above = 1.0 - f[0], f[1] - 1.0
    aim = np.where(
        above > UNEVEN_RATIO * below,
        LEAN_RATIO * below,
        np.where(below > UNEVEN_RATIO * above, -LEAN_RATIO * above, 0.0),
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # coinciding points make no parabola
        bend = ((g[2] - g[1]) / (f[2] - f[1]) - chord_slope) / (f[2] - f[0])
        slope = chord_slope + bend * (below + aim + aim - above)
    return np.where((bend > 0) & np.isfinite(slope), slope, chord_slope)


def _power_law_slope(f: Array, g: Array, chord_slope: Array) -> Array:
    """Slope at D_f = 1 of the power law through the right end and the left one (the displaced one if left is zero)."""
    other = np.where(f[0] > 0, 0, 2)[None]
    with np.errstate(
        divide="ignore", invalid="ignore", over="ignore"
    ):  # points at zero or coinciding make no power law
        log_f, log_g = (np.log(np.take_along_axis(np.abs(x), other, axis=0)[0]) for x in (f, g))
        power = (np.log(np.abs(g[1])) - log_g) / (np.log(f[1]) - log_f)
        slope = np.sign(g[1]) * power * np.exp(np.log(np.abs(g[1])) - power * np.log(f[1]))
    return np.where(np.isfinite(slope), slope, chord_slope)


def level_chord(side: Side) -> Chord:
    """The greatest D_g at D_f = 0, over the pairs whose ratios all lie where f is zero; one value.

    It is zero unless f is zero on both sides of ratio one, as the hockey-stick's is.
    """
    chord = Chord.blank(np.array([LOG_OF_ZERO_TARGET]))
    level = np.isneginf(side.log_f)
    farthest = np.where(level, side.size, 0.0).max(axis=1)
    unlimited = level[:, -1] & (side.log_g[:, -1] == np.inf) & (farthest[::-1] > 0)
    if unlimited.any():
        chord.left = farthest[None, :] * np.array([-1.0, 1.0])
        chord.log_value = chord.log_bound = np.array([np.inf])
        return chord
    pair, lowest = supporting_pair(side, np.zeros(1), np.zeros(1), chord, ALL_LEVELS)
    chord.left = np.where(np.isnan(pair), 0.0, pair)
    with np.errstate(divide="ignore"):  # log 0 = -inf
        chord.log_value = np.log(-lowest)
    chord.log_bound = chord.log_value + relative_error(-lowest, np.zeros(1))
    return chord


def _is_near(side: Side, chord: Chord, log_bound: Array, slope: Array, small: Array) -> Mask:
    """Keep the slope of the better bound, and say where that is within `small` times the relief of the value."""
    better = np.isnan(chord.log_bound) | (side.sign * log_bound > side.sign * chord.log_bound)
    chord.log_bound = np.where(better, log_bound, chord.log_bound)
    chord.slope = np.where(better, slope, chord.slope)
    chord.log_slope_unit = np.where(better, chord.log_unit, chord.log_slope_unit)
    with np.errstate(invalid="ignore"):  # both are -inf where the value is zero, which needs no proof
        gap = side.sign * (chord.log_value - chord.log_bound)
    return np.isneginf(chord.log_value) | (gap <= small * chord.relief)


def _replace_end(chord: Chord, pair: Array, is_left: Mask, accepted: Mask) -> None:
    """Let each accepted pair replace the end of the chord on its own side of the target."""
    to_left, to_right = (is_left & accepted)[:, None], (~is_left & accepted)[:, None]
    chord.displaced = np.where(to_left, chord.left, np.where(to_right, chord.right, chord.displaced))
    chord.left = np.where(to_left, pair, chord.left)
    chord.right = np.where(to_right, pair, chord.right)


def lower_chord(side: Side, log_target: Array) -> Chord:
    """The chord on which the sought extreme lies at each target, and the slope of the line that supports it.

    Its `log_bound` holds unless H dips between two neighbours of the mesh; `proven_chord` proves one.
    """
    answer = _start(side, log_target)
    active = np.arange(log_target.size)
    for step in range(MOST_CHORD_STEPS):
        chord = answer.take(active)
        pairs = np.stack([chord.left, chord.right, chord.displaced])
        f = pair_point(side.f, pairs, chord.log_target)
        g = side.sign * pair_point(side.g, pairs, chord.log_unit)
        run = f[1] - f[0]
        with np.errstate(divide="ignore", invalid="ignore"):  # the ends coincide once both hit the target
            slope = np.where(run > 0, (g[1] - g[0]) / run, 0.0)
            chord.share = np.where(run > 0, np.clip((1.0 - f[0]) / run, 0.0, 1.0), 0.0)
        with np.errstate(over="ignore", invalid="ignore"):  # a slope of zero or infinity is the same in all units
            steepest = side.steepest * np.exp(chord.log_target - chord.log_unit)
        steepest = np.where(np.isnan(steepest), side.steepest, steepest)
        chord.ray = slope > steepest
        slope = np.where(chord.ray, steepest, slope)
        chord.share = np.where(chord.ray, 0.0, chord.share)
        value = g[0] + slope * (1.0 - f[0])
        chord_slope = slope
        # The chord's own slope always makes progress. In every other step the slope of a curve converges faster.
        on_chord = step % 2 == 0
        if not on_chord:
            far = (f[1] > FAR_IN_TARGETS) & (f[1] > FAR_IN_TARGETS * f[0]) & (step % 4 == 3)
            slope = np.where(far, _power_law_slope(f, g, chord_slope), _parabola_slope(f, g, chord_slope))
            slope = np.minimum(slope, steepest)
        f_error = relative_error(f[1], chord.log_target)
        g_error = relative_error(np.abs(g[1]), chord.log_unit)
        # Relative errors of the kernels act like relative errors of the two divergences. A slope that is smaller by
        # that much keeps them from making a height negative at points that are heavy in units of the target.
        slope = slope - chord.relief * (f_error + g_error) * np.abs(slope)
        start = np.minimum(g[0] - slope * f[0], np.where(chord.ray, np.inf, g[1] - slope * f[1]))
        levels = ALL_LEVELS if step >= COARSE_STEPS else FIRST_LEVELS
        pair, lowest = supporting_pair(side, slope, start, chord, levels)
        found = ~np.isnan(pair[:, 0])
        pair = np.where(found[:, None], pair, chord.left)
        f_pair = pair_point(side.f, pair, chord.log_target)
        g_pair = pair_point(side.g, pair, chord.log_unit)
        noise = g_error * g_pair + f_error * np.abs(slope) * f_pair
        # A pair below the chord's line improves the chord, also beyond its ends.
        found &= side.sign * g_pair + noise < g[0] + chord_slope * (f_pair - f[0])
        bound = slope + lowest - g_error * np.abs(value) - f_error * np.abs(slope)
        with np.errstate(divide="ignore"):  # a value of zero has the logarithm -inf
            chord.log_value = np.log(np.maximum(side.sign * value, 0.0)) + chord.log_unit
            log_bound = np.log(np.maximum(side.sign * bound, 0.0)) + chord.log_unit
        done = np.zeros(active.size, dtype=np.bool_)
        if levels == ALL_LEVELS:
            small = 4.0 * (g_error + f_error * np.abs(slope) / np.where(value == 0, 1.0, np.abs(value)))
            done = _is_near(side, chord, log_bound, slope, small)
            # The chord is as good as rounding allows, but its line passes below a heavy pair: reduce the slope more.
            stuck = ~found & ~done & on_chord
            chord.relief = np.where(stuck, RELIEF_FACTOR * chord.relief, chord.relief)
            done |= chord.relief > LARGEST_RELIEF
        # The unit follows the answer, so that the answer neither overflows nor underflows.
        size = np.abs(value)
        size = np.where((size > 0) & (size < np.inf), size, 1.0)
        chord.log_unit = chord.log_unit + np.log(size)
        _replace_end(chord, pair, f_pair <= 1.0, found & ~done)
        answer.put(active, chord)
        active = active[~done]
        if active.size == 0:
            return answer
    raise NumericalError(f"The boundary of the region of {side.f} and {side.g} did not settle.")
