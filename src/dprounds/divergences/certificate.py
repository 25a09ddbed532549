r"""The proof: a line below :math:`H = \pm G - \mu F` on every cell between neighbouring likelihood ratios.

H is the difference A - B of two convex functions of :math:`s = \tanh(u/2)`. On a cell B lies below its chord, and A
above the chords of the two neighbouring cells, extended. So H lies above its own chord less a *tent*: zero at both ends
of the cell, straight up to one apex. The lower convex envelope of the nodes and the apexes at s = 0 is therefore a
lower bound, wherever the functions bend between the nodes. Cells whose apex lies too low are divided.

Where H itself is known to be convex on a cell and its neighbours, its own tent is lower; where it is known to be
concave, there is none. The built-in divergences say so by their second derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds.divergences.boundary import lower_chord, relative_error
from dprounds.divergences.mesh import LOG_ERROR, Chord, Side, pair_log_weights, pair_point
from dprounds.divergences.nodes import Nodes, has_user_function
from dprounds.errors import ParameterError
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["level_bound", "proven_chord"]

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

# Relative error of a width, for each unit of its logarithm: six operations.
WIDTH_ERROR = 8 * UNIT_ROUNDOFF
# Twice the relative error of the part of a cell at which two chords meet.
MEETING_POINT_ERROR = 16 * UNIT_ROUNDOFF
# Twice the relative error of a quotient (H - r)/|s|, and of a height that follows from two of them.
QUOTIENT_ERROR = 16 * UNIT_ROUNDOFF
# Absolute error of the logarithm of a ratio of second derivatives, relative to its terms; and a margin for the rounding
# of the constants.
BEND_ERROR, BEND_MARGIN = 16 * UNIT_ROUNDOFF, 16 * UNIT_ROUNDOFF

# Larger exponents are scaled down to this one. A positive height is then larger in truth; a negative one counts as
# -inf.
LARGEST_HEIGHT_EXPONENT = 600.0
# No apex is put nearer to s = 0 than this. It stands for an apex at zero itself.
NEAREST_APEX = 1e-300

# Takes the place of an infinite log ratio where only its sign counts.
STAND_IN_LOG_RATIO = 1e300

# When a cell is divided, a neighbour that is wider by more than this factor (its logarithm) is divided too.
LOG_WIDTH_RATIO = float(np.log(2.0))
# A cell is divided into four at these parts of it. After forty divisions its ends are neighbouring doubles.
DIVISION_POINTS = np.array([0.25, 0.5, 0.75])
MOST_DIVISIONS = 40
MOST_NODES = 20_000
# Newton's method on an envelope of points takes a few steps. If it took more than this, nothing would be proven.
MOST_ENVELOPE_STEPS = 100

# Relative distance between the proven bound and what a pair attains that is asked for, where rounding allows.
WANTED_GAP = 1e-13
# The slope is reduced by these parts of itself, one after the other. A smaller slope proves more where G/F is nearly
# constant in a tail.
SLOPE_REDUCTIONS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1e-2, 0.1)
# Relative. A pair of nodes that is lower by more than this shows that the search missed a corner.
MISSED_CORNER_DEPTH = 1e-9
# Each search finds at least one corner that the last one missed.
MOST_SEARCHES = 8
# Divisions of the cells in which an interval ends on which f is straight: to a relative 1e-9 or so.
LEVEL_DIVISIONS = 15


def proven_chord(side: Side, log_target: Array) -> Chord:
    """The chord on which the sought extreme lies at each target, and a bound that is proven on every cell.

    Guarantee
    ---------
    Raises, or returns chords whose `log_bound` no pair of distributions crosses whose likelihood ratios are 0,
    infinite, or of a size that both kernels can be evaluated at; provided that the generators are convex and their
    kernels are within their errors.
    """
    answer = Chord.blank(log_target)
    rows = np.arange(log_target.size)
    for _ in range(MOST_SEARCHES):
        chord = lower_chord(side, log_target[rows])
        missed = _prove_all(side, chord)
        answer.put(rows, chord)
        is_missed = ~np.isnan(missed[:, 0])
        if not is_missed.any():
            break
        side, rows = side.with_points(np.abs(missed[is_missed]).ravel()), rows[is_missed]
    return answer


def _prove_all(side: Side, chord: Chord) -> Array:
    """Put the proven bounds into the chords; return pairs of log ratios below their lines, NaN where there is none."""
    nodes = Nodes.of(side)
    missed = np.full((chord.share.size, 2), np.nan)
    size = np.exp(chord.log_value - chord.log_slope_unit)
    f_error = relative_error(np.ones_like(size), chord.log_target)
    g_error = relative_error(size, chord.log_slope_unit)
    # until there is a proof: at least zero, at most infinity
    chord.log_bound[:] = -side.sign * np.inf
    for i in np.flatnonzero(size > 0.0):
        # both boundaries rise, so a slope of the other sign proves no more
        slope = side.sign * max(side.sign * float(chord.slope[i]), 0.0)
        value = side.sign * float(size[i])
        rounding = float(g_error[i] * size[i] + f_error[i] * abs(slope))
        wanted = max(4.0 * rounding * float(chord.relief[i]), WANTED_GAP * abs(value))
        contacts = np.concatenate([chord.left[i], chord.right[i]])
        seeded = nodes.around(side, contacts)
        best = -np.inf
        for tilt in SLOPE_REDUCTIONS:
            tilted = slope - tilt * abs(slope)
            proof = prove(
                side,
                seeded,
                tilted,
                float(chord.log_target[i]),
                float(chord.log_slope_unit[i]),
                max(wanted, tilt * abs(slope)),
            )
            best = max(best, tilted + proof.lowest - rounding)
            if tilt == 0.0:
                one = chord.take(np.array([i]))
                pair = np.array([proof.pair])
                f, g = pair_point(side.f, pair, one.log_target), pair_point(side.g, pair, one.log_slope_unit)
                if side.sign * float(g[0]) + slope * (1.0 - float(f[0])) < value - MISSED_CORNER_DEPTH * abs(value):
                    missed[i] = proof.pair
                    break
            if value - best <= 4.0 * max(wanted, tilt * abs(slope)):
                break
        with np.errstate(divide="ignore"):  # log 0 = -inf
            chord.log_bound[i] = np.log(max(side.sign * best, 0.0)) + chord.log_slope_unit[i]
    return missed


def level_bound(side: Side) -> float:
    """Log of an upper bound of D_g where D_f = 0.

    The ratios then lie in an interval around one on which f is straight. So the chords F/s from ratio one have the same
    slope on both sides of it, and of all pairs on the interval the widest has the largest D_g. The slopes do not fall
    as the ratio grows. So if an interval reaches past a ratio on the left, it ends on the right before the slopes are
    surely larger than at that ratio.
    """
    nodes = Nodes.of(side)
    for _ in range(LEVEL_DIVISIONS):
        size = np.tanh(0.5 * np.abs(nodes.u))
        with np.errstate(divide="ignore", invalid="ignore"):  # ratio one itself is on neither side
            low, high = (np.exp(nodes.log_f) + x * np.exp(nodes.f_log_error) for x in (-1.0, 1.0))
            g = np.logaddexp(nodes.log_g, nodes.g_log_error)
        left, right = np.flatnonzero(nodes.u < 0.0)[::-1], np.flatnonzero(nodes.u > 0.0)
        # intervals that reach past no node on the left, past the first one, and so on; the last reaches to ratio zero
        steepest = np.append((high[right] / size[right]).min(), -low[left] / size[left])
        steepest = np.minimum.accumulate(steepest)[:-1]
        # no interval reaches past a node at which the slopes are surely smaller than at a node before it
        bent = -low[left] / size[left] < np.maximum.accumulate(-high[left] / size[left])
        left = left[: int(np.argmax(bent)) + 1] if bent.any() else left
        steepest = steepest[: left.size]
        surely = np.maximum.accumulate(low[right] / size[right])
        ends = right[np.minimum(np.searchsorted(surely, steepest, side="right"), right.size - 1)]
        weights = pair_log_weights(np.stack([nodes.u[left], nodes.u[ends]], axis=1))
        log_bound = np.logaddexp(weights[:, 0] + g[left], weights[:, 1] + g[ends])
        worst = int(np.argmax(log_bound))
        # the interval ends within these cells
        cells = np.array(
            [[nodes.u[left[worst]], nodes.u[left[worst] + 1]], [nodes.u[ends[worst] - 1], nodes.u[ends[worst]]]]
        )
        cells = cells[np.isfinite(cells).all(axis=1)]
        more = nodes.and_at(side, (cells[:, :1] + (cells[:, 1:] - cells[:, :1]) * DIVISION_POINTS).ravel())
        if more.u.size == nodes.u.size:
            break
        nodes = more
    return float(log_bound[worst] + QUOTIENT_ERROR)


@dataclass(frozen=True)
class Proof:
    """What was proven about ±D_g - slope D_f, in the units of `prove`."""

    lowest: float  # no pair of distributions has a smaller value
    found: float  # the least value of a pair of nodes, less its errors
    pair: tuple[float, float]  # that pair's log ratios


def prove(side: Side, nodes: Nodes, slope: float, log_target: float, log_unit: float, wanted: float) -> Proof:
    """A proven lower bound of ±D_g - slope D_f, within `wanted` of the least at nodes if MOST_NODES suffice.

    D_f is measured in units of exp(log_target), D_g in units of exp(log_unit). The slope has the sign of the side.

    Guarantee
    ---------
    Raises, or returns a `lowest` that no pair of distributions is below whose likelihood ratios are 0, infinite, or
    between the outermost nodes; provided that the generators are convex and their kernels within their errors.
    """
    best = -np.inf
    for _ in range(MOST_DIVISIONS):
        heights = _Heights.of(side, nodes, slope, log_target, log_unit)
        found, pair = heights.envelope(0.0, with_apexes=False)
        lowest, _ = heights.envelope(found, with_apexes=True)
        best = max(best, lowest)
        if not np.isfinite(found) or 2.0 * (found - best) <= wanted or nodes.u.size > MOST_NODES:
            break
        divided = heights.cells_below(found - 0.25 * wanted)
        more = nodes.and_at(side, (divided[:, :1] + (divided[:, 1:] - divided[:, :1]) * DIVISION_POINTS).ravel())
        if more.u.size == nodes.u.size:
            break
        nodes = more
    return Proof(2.0 * best, 2.0 * found, pair)


@dataclass(frozen=True)
class _Cells:
    """The cells between nodes, each seen outward from ratio one: its inner neighbour, itself, its outer neighbour."""

    window: Index  # the nodes of each: inner neighbour's, inner, outer, outer neighbour's
    is_right: Mask
    log_width: Array  # in s
    log_part: Array  # its width in units of the inner and of the outer neighbour's
    part_error: Array  # the relative error of that

    @classmethod
    def of(cls, u: Array, log_width: Array) -> _Cells:
        """The cells of ascending nodes; the outermost have no outer neighbour, and use their own nodes in its place."""
        is_right = u[:-1] >= 0.0
        outward = np.where(is_right, 1, -1)[:, None]
        inner = np.arange(u.size - 1) + np.where(is_right, 0, 1)
        window = np.clip(inner[:, None] + outward * np.arange(-1, 3), 0, u.size - 1).astype(np.intp)
        cell = np.arange(u.size - 1)[:, None]
        neighbour = np.clip(cell + outward * np.array([-1, 1]), 0, u.size - 2)
        error = WIDTH_ERROR * (2.0 + np.abs(log_width))
        return cls(
            window=window,
            is_right=is_right,
            log_width=log_width,
            log_part=log_width[cell] - log_width[neighbour],
            part_error=error[cell] + error[neighbour],
        )

    def of_neighbours(self, flag: Mask) -> tuple[Mask, Mask]:
        """The flag of each cell's inner and of its outer neighbour, False where there is none."""
        before, after = np.append(False, flag[:-1]), np.append(flag[1:], False)
        return np.where(self.is_right, before, after), np.where(self.is_right, after, before)


@dataclass(frozen=True)
class _Tent:
    """A convex function is at least the lines from the ends of each cell to `height`, at the part `at` of the cell."""

    at: Array  # outward
    height: Array
    depth: Array  # how far that is below the chord
    noise: Array  # the part of the depth that errors alone may cause
    concave: Mask  # cells at an end of which the function bends the wrong way by more than its errors

    @classmethod
    def over(cls, cells: _Cells, value: Array, error: Array, has_inner: Mask, has_outer: Mask) -> _Tent:
        """The tent of a function with these values and errors at the nodes of the windows."""
        with np.errstate(over="ignore", invalid="ignore"):  # a chord of inf - inf proves nothing
            low = value[:, 1] - error[:, 1]
            high = np.where(np.isposinf(value[:, 2]), np.inf, value[:, 2] - error[:, 2])
            part = np.exp(cells.log_part)
            inner = (value[:, 1] - value[:, 0]) * part[:, 0]
            outer = (value[:, 3] - value[:, 2]) * part[:, 1]
            inner_error = (error[:, 1] + error[:, 0]) * part[:, 0] + cells.part_error[:, 0] * np.abs(inner)
            outer_error = (error[:, 3] + error[:, 2]) * part[:, 1] + cells.part_error[:, 1] * np.abs(outer)
            has_inner = has_inner & np.isfinite(inner) & np.isfinite(inner_error)
            has_outer = has_outer & np.isfinite(outer) & np.isfinite(outer_error)
            # how far the extended chords are from the other end
            inner_bend = np.where(has_inner, np.maximum(high - low - inner + inner_error, 0.0), np.inf)
            outer_bend = np.where(has_outer, np.maximum(outer + outer_error - high + low, 0.0), np.inf)
            # Where they meet. The height is read off the inner one, a sum of positive terms; further outward, so that
            # no rounding puts the outer one below it. Next to an infinite value the inner one reaches across.
            rest = np.where(has_inner, _part(inner_bend, outer_bend) * (1.0 - MEETING_POINT_ERROR), 1.0)
            rest = np.where(np.isposinf(high), 0.0, rest)
            at = 1.0 - rest
            height = np.where(has_inner, low + at * (inner - inner_error), high - (outer + outer_error))
            chord = np.where(rest > 0.0, rest * low, 0.0) + at * high
            rise, rise_error = value[:, 2] - value[:, 1], error[:, 2] + error[:, 1]
            concave = has_inner & (rise - inner < -inner_error - rise_error)
            concave |= has_outer & (outer - rise < -outer_error - rise_error)
            noise = np.minimum(inner_error, outer_error) + rise_error
            height = np.where(has_inner | has_outer, np.minimum(height, chord), -np.inf)
            depth = np.where(np.isposinf(chord), np.inf, chord - height)
        return cls(at, height, depth, noise, concave)


def _part(x: Array, y: Array) -> Array:
    """x / (x + y), 1/2 where both are zero or infinite."""
    large = np.maximum(x, y)
    scale = np.where((large > 0.0) & np.isfinite(large), large, 1.0)
    x, y = (np.where(np.isinf(large), np.isinf(v), v / scale) for v in (x, y))
    return np.where(large > 0.0, x / np.where(large > 0.0, x + y, 1.0), 0.5)


def _between(at: Array, ends: Array) -> Array:
    """The straight line through the two `ends` of each cell."""
    with np.errstate(invalid="ignore"):  # zero times infinity: an infinite end with weight zero
        return np.where(at < 1.0, (1.0 - at) * ends[:, 0], 0.0) + np.where(at > 0.0, at * ends[:, 1], 0.0)


def _in_units(log_value: Array, log_error: Array, shift: float) -> tuple[Array, Array]:
    """Logarithms of values and errors in other units; the exponentials of large ones have a slightly larger error."""
    exponent = log_value + shift
    with np.errstate(divide="ignore", invalid="ignore"):  # zero and infinite values have no error
        rounding = np.where(np.isfinite(exponent), exponent + np.log(LOG_ERROR * np.abs(exponent)), -np.inf)
    return exponent, np.logaddexp(log_error + shift, rounding)


@dataclass(frozen=True)
class _Heights:
    """Nodes and apexes with heights that H is never below, for one slope."""

    u: Array
    node_s: Array
    node_height: Array
    apex_s: Array
    apex_height: Array
    log_width: Array
    is_divisible: Mask

    @classmethod
    def of(cls, side: Side, nodes: Nodes, slope: float, log_target: float, log_unit: float) -> _Heights:
        """The heights of ±G - slope F = A - B."""
        with np.errstate(divide="ignore"):  # a slope of zero
            f_shift = float(np.log(abs(slope))) - log_target
        f = _in_units(nodes.log_f, nodes.f_log_error, f_shift)
        g = _in_units(nodes.log_g, nodes.g_log_error, -log_unit)
        (a, a_error), (b, b_error) = (g, f) if side.sign > 0 else (f, g)
        # Where B is infinite no cell reaches the end.
        keep = slice(int(np.isposinf(b[0])), b.size - int(np.isposinf(b[-1])))
        u, a, a_error, b, b_error = (x[keep].copy() for x in (nodes.u, a, a_error, b, b_error))
        log_width = nodes.log_width(by_user=has_user_function(side))[keep.start : keep.stop - 1]
        cells = _Cells.of(u, log_width)
        # Where only A is infinite, it is at least what it is at the last node: no tent, and no chord for a neighbour.
        flat = np.zeros(u.size - 1, dtype=np.bool_)
        for end, inner in ((0, 1), (-1, -2)):
            if np.isposinf(a[end]):
                a[end], a_error[end], flat[end] = a[inner], a_error[inner], True
        has_inner, has_outer = cells.of_neighbours(~flat)
        # Each node has a scale of its own, and each cell that of its inner node, which the others may exceed.
        node_shift = np.maximum(np.maximum(a, b) - LARGEST_HEIGHT_EXPONENT, 0.0)
        node = np.exp(a - node_shift) - np.exp(a_error - node_shift)
        node -= np.exp(b - node_shift) + np.exp(b_error - node_shift)
        shift = node_shift[cells.window[:, 1]]
        with np.errstate(over="ignore"):
            a_at, a_err, b_at, b_err = (np.exp(x[cells.window] - shift[:, None]) for x in (a, a_error, b, b_error))
        b_above = b_at[:, 1:3] + b_err[:, 1:3]
        tent = _Tent.over(cells, a_at, a_err, has_inner, has_outer)
        at, apex = tent.at, tent.height - _between(tent.at, b_above)
        depth, noise = tent.depth, tent.noise + b_err[:, 1] + b_err[:, 2]
        if side.f.log_bend is None or side.g.log_bend is None:
            concave = tent.concave | _Tent.over(cells, b_at, b_err, has_inner, has_outer).concave
            _refuse_concave(concave & ~flat, nodes.ratio[keep])
        else:
            bend, kink = _bend(side, u, slope, log_unit - log_target)
            convex_inner, convex_outer = cells.of_neighbours(bend > 0)
            with np.errstate(invalid="ignore"):  # inf - inf beyond a cell that proves nothing
                own = _Tent.over(
                    cells,
                    a_at - b_at,
                    a_err + b_err,
                    has_inner & (bend > 0) & convex_inner & ~kink[cells.window[:, 1]],
                    has_outer & (bend > 0) & convex_outer & ~kink[cells.window[:, 2]],
                )
            better = own.depth < depth
            at, apex = np.where(better, own.at, at), np.where(better, own.height, apex)
            depth, noise = np.where(better, own.depth, depth), np.where(better, own.noise, noise)
            flat |= bend < 0
        # A straight line from node to node needs no apex: the outer node takes its place.
        at, depth = np.where(flat, 1.0, at), np.where(flat, 0.0, depth)
        apex = np.where(flat, node[cells.window[:, 2]], apex)
        shift = np.where(flat, node_shift[cells.window[:, 2]], shift)
        size = np.tanh(0.5 * np.abs(u))
        distance = size[cells.window[:, 1]] + at * np.exp(log_width)
        sign = np.where(cells.is_right, 1.0, -1.0)
        return cls(
            u=u,
            node_s=np.tanh(0.5 * u),
            node_height=np.where((node_shift > 0.0) & ~(node >= 0.0), -np.inf, node),
            apex_s=sign * np.clip(distance, NEAREST_APEX, 1.0),
            apex_height=np.where((shift > 0.0) & ~(apex >= 0.0), -np.inf, apex),
            log_width=log_width,
            is_divisible=np.isfinite(u[:-1]) & np.isfinite(u[1:]) & (depth > 2.0 * noise),
        )

    def envelope(self, r: float, *, with_apexes: bool) -> tuple[float, tuple[float, float]]:
        """The lower convex envelope at s = 0, at most r, and the log ratios (of nodes) of the pair that has it.

        Newton's method as in `supporting_pair`, with quotients reduced by their rounding errors, until they show that r
        is low enough.
        """
        apart = self.node_s != 0.0
        s, height, u = self.node_s[apart], self.node_height[apart], self.u[apart]
        if with_apexes:
            s, height = np.append(s, self.apex_s), np.append(height, self.apex_height)
        size, is_right = np.abs(s), s > 0.0
        sides = [(size[m], height[m]) for m in (~is_right, is_right)]
        labels = [u[m[: u.size]] for m in (~is_right, is_right)]
        if np.isneginf(height).any():
            return -np.inf, (0.0, 0.0)
        pair = (0.0, 0.0)
        for _ in range(MOST_ENVELOPE_STEPS):
            with np.errstate(over="ignore"):  # next to s = 0 a quotient may become inf, which is not least
                quotients = [(h - r) / x for x, h in sides]
            quotients = [q - QUOTIENT_ERROR * np.abs(q) for q in quotients]
            at = [int(np.argmin(q)) for q in quotients]
            total = float(quotients[0][at[0]] + quotients[1][at[1]])
            if total >= 0.0:
                return r, pair
            x, y = (float(side[0][k]) for side, k in zip(sides, at, strict=True))
            if not with_apexes:
                pair = float(labels[0][at[0]]), float(labels[1][at[1]])
            r += total * (x / (x + y)) * y - QUOTIENT_ERROR * abs(r)
        return -np.inf, pair

    def cells_below(self, r: float) -> Array:
        """The ends, as log ratios, of the divisible cells whose apex is below a line of height r at s = 0."""
        apart = self.node_s != 0.0
        quotient = (self.node_height[apart] - r) / np.abs(self.node_s[apart])
        is_right = self.node_s[apart] > 0.0
        incline = 0.5 * (float(quotient[is_right].min()) - float(quotient[~is_right].min()))
        low = self.is_divisible & (self.apex_height < r + incline * self.apex_s)
        # A chord is not extended over a cell that is much wider than its own: errors would grow by the same factor.
        wide = np.diff(self.log_width)
        low |= (
            np.isfinite(self.u[:-1])
            & np.isfinite(self.u[1:])
            & (
                np.append(False, low[:-1] & (wide > LOG_WIDTH_RATIO))
                | np.append(low[1:] & (wide < -LOG_WIDTH_RATIO), False)
            )
        )
        return np.stack([self.u[:-1][low], self.u[1:][low]], axis=1)


def _bend(side: Side, u: Array, slope: float, log_unit: float) -> tuple[Array, Mask]:
    """1 on the cells on which H is convex, -1 where it is concave or straight, else 0; and which nodes are corners.

    The second derivative of H in s has the sign of ±g'' - slope f''. Its zeros are those of log(g''/f'') - log|slope|,
    which the divergences know as a + b u + c log(1 + exp(u)), a function of u with one turn at most.
    """
    kinks = np.array(side.f.log_kinks + side.g.log_kinks)
    has_kink = np.zeros(u.size - 1, dtype=np.bool_)
    has_kink[np.searchsorted(u, kinks[~np.isin(kinks, u)]) - 1] = True
    f, g = np.array(side.f.log_bend), np.array(side.g.log_bend)
    f_is_straight, g_is_straight = np.isneginf(f[0]) or slope == 0.0, np.isneginf(g[0])
    if f_is_straight or g_is_straight:
        bend = np.full(
            u.size - 1, -1.0 if f_is_straight and g_is_straight else side.sign * (1.0 if f_is_straight else -1.0)
        )
        return np.where(has_kink, 0.0, bend), np.isin(u, kinks)
    b, c = (g - f)[1:]
    log_slope = np.log(abs(slope))

    def excess(x: Array) -> tuple[Array, Array]:
        """The function and its rounding error."""
        value = (g - f)[0] - log_slope - log_unit + b * x + c * np.logaddexp(0.0, x)
        # the numbers b and c of each divergence are exact
        total = abs(g[0]) + abs(f[0]) + abs(log_slope) + abs(log_unit)
        return value, BEND_MARGIN + BEND_ERROR * (total + np.abs(b * x) + np.abs(c) * np.logaddexp(0.0, x))

    value, error = excess(np.clip(u, -STAND_IN_LOG_RATIO, STAND_IN_LOG_RATIO))
    low = np.minimum((value - error)[:-1], (value - error)[1:])
    high = np.maximum((value + error)[:-1], (value + error)[1:])
    share = -b / c if c != 0.0 else 0.0
    if 0.0 < share < 1.0:
        turn = np.array([np.log(share) - np.log1p(-share)])
        value, error = excess(turn)
        # the cell that has the turn, and those next to it, since rounding may put the turn in either
        around = np.clip(np.searchsorted(u, turn) + np.arange(-2, 1), 0, u.size - 2)
        low[around] = np.minimum(low[around], value - error)
        high[around] = np.maximum(high[around], value + error)
    bend = side.sign * np.where(low > 0.0, 1.0, np.where(high < 0.0, -1.0, 0.0))
    return np.where(has_kink, 0.0, bend), np.isin(u, kinks)


def _refuse_concave(concave: Mask, ratio: Array) -> None:
    """Raise if a user's function is concave somewhere."""
    if concave.any():
        k = int(np.argmax(concave))
        raise ParameterError(
            f"function must be convex in the ratio, got slopes that fall by more than rounding between ratios "
            f"{ratio[max(k - 1, 0)]:.9g} and {ratio[min(k + 2, ratio.size - 1)]:.9g}."
        )
