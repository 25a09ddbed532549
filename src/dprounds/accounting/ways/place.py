r"""Where to put the line for one epsilon: near the saddle point of :math:`e^{K(z) - \varepsilon z} / (z(z+1))`.

Every line proves its bracket from its `premises`, so nothing that is chosen here needs to be right; a line through the
saddle point has no cancellation and needs the fewest nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.kernel import log_zeta
from dprounds.accounting.law import Composition
from dprounds.accounting.line import Line
from dprounds.accounting.premises import FIRST_BLOCK, axis_from_above, ceilings, sizes, values_on_line
from dprounds.accounting.saddle import Saddle
from dprounds.errors import NumericalError
from dprounds.numerics.search import RootSearch

__all__ = [
    "line_near",
    "line_until_small",
    "line_with_nodes_of",
    "no_line",
    "saddle_at_delta",
    "saddle_at_epsilon",
    "search_saddle",
]

Array = NDArray[np.float64]

# All of these tune speed.
# A line within this many deviations of the saddle point loses a factor exp(1/32) to cancellation.
CLOSE_ENOUGH = 0.25
# The search moves by at most this factor at a time; forty such steps cross the scale of doubles' exponents that matter.
LARGEST_FACTOR = 8.0
MOST_SADDLE_STEPS = 100
# The search stops when the ends of its bracket of t differ by this part of t: there K bends faster than its differences
# show.
NARROWEST = 1e-4
# Fixed-point steps for the kernel's part of the exponent, which is no parabola.
KERNEL_STEPS = 3
TILT_RANGE = (1e-12, 1e15)
# Each of truncation and aliasing is asked to stay below this part of delta, a thousandth of the precision promised.
LOG_TOLERANCE = math.log(1e-12)
# Distances, in units of t and of the saddle's width, of the points at which K bounds the aliases. The best distance for
# a normal law is sqrt(2 * 28) = 7.5 widths; a heavy tail needs a short one, a bounded loss a long one.
SIDES_BELOW = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.75])
SIDES_ABOVE = np.array([0.0625, 0.125, 0.25, 0.5, 1.0])
SIDES_FAR = np.array([3.0, 9.0])
SIDE_WIDTHS = np.array([1.0, 2.0, 4.0, 7.5, 12.0])
# Below the saddle point of a law with a heavy upper tail the integrand is larger, but aliases fall faster. The summands
# may exceed delta by exp(7), which costs three digits of sixteen, if that saves a third of the nodes.
LOG_LARGEST_SUMMAND = 7.0
WORTH_MOVING = 1.5
# Points that bound the aliases may lie beyond the largest t of a line, as far as K is known; and where K is expensive
# on the axis, no further than this part of t.
BEYOND_LARGEST = 1.5
FARTHEST_COSTLY = 0.6
# Nodes at a smaller t than that of the line whose nodes they are: so much closer, besides the quotient of both.
CLOSER = 0.5
# A coarse line ends where the summands fall below this part of the first one.
LOG_COARSE = math.log(1e-6)
# A virtual Gaussian of more variance than this blurs epsilon by ten, which makes the lower bound useless.
LARGEST_VARIANCE = 100.0
# The sum may stop at one of these numbers of widths: a normal law needs eight, and 4 * 1.2^30 = 950.
STOPS = 4.0 * 1.2 ** np.arange(31)
# As a rule the sum stops at one of the first of these.
FIRST_STOPS = 10
# Where the curvature at the saddle point is that of a rare large loss, the sum may need thousands of widths.
FAR_STOPS = 4.0 * 1.2 ** np.arange(50)
# The mean loss of a tilted lattice is this part of a step below the largest loss when hardly any other is left.
ALL_BUT_THE_LARGEST = 1e-9
# A line that proves nothing ends where its last octave of nodes adds less than this part of delta. If an octave, not
# the first, adds more than this part of the one before, M hardly falls any more, as that of few rounds with an atom.
SMALL_OCTAVE = 1e-8
SLOW_OCTAVE = 0.25
# Points of a period, for a law on a lattice.
FEWEST_POINTS = 8


def search_saddle(
    expand: Callable[[float], Saddle],
    move: Callable[[Saddle], float],
    *,
    start: Saddle | float,
    close: float = CLOSE_ENOUGH,
    most: float = math.inf,
) -> Saddle:
    """The point at which `move`, in units of t, is a small part of the width; Newton's method with bounded steps.

    If that is beyond `most`, it is `most`.
    """
    if isinstance(start, Saddle) and start.t <= most:
        here = start
    else:
        here = expand(min(start.t if isinstance(start, Saddle) else start, most))
    search = None
    for _ in range(MOST_SADDLE_STEPS):
        t, step = here.t, move(here)
        if not math.isfinite(step):
            break
        is_narrow = search is not None and search.high <= search.low * (1.0 + NARROWEST)
        if abs(step) <= close * here.width or is_narrow or (t == most and step > 0):
            return here
        search = search or RootSearch(TILT_RANGE[0], min(TILT_RANGE[1], most))
        step = min(max(step, t / LARGEST_FACTOR - t), t * LARGEST_FACTOR - t)
        here = expand(search.following(t, step, -1.0))  # the step is Newton's
    raise NumericalError("The loss of this run is outside what doubles resolve.")


def no_line() -> NumericalError:
    """Why a law has no line whose values of K could be afforded."""
    return NumericalError("A sampled part of this run has too little noise for an exact sum.")


def saddle_at_epsilon(law: Composition, epsilon: float, *, start: Saddle | float = 1.0) -> Saddle:
    """The saddle point for `epsilon`.

    Close below the largest loss of a lattice it is the point at which hardly any other loss is left: a larger tilt
    shows nothing more, and its exponents lose their digits.
    """
    near = 0.0 if law.lattice is None else ALL_BUT_THE_LARGEST * float(law.lattice.step)

    def move(here: Saddle) -> float:
        step = (epsilon - here.epsilon) * here.width**2
        return 0.0 if step > 0 and law.max_loss - here.slope <= near else step

    return search_saddle(law.expand, move, start=start, most=law.largest_t)


def saddle_at_delta(law: Composition, log_delta: float, *, start: Saddle | float = 1.0) -> Saddle:
    """The point whose own epsilon has about this delta."""

    def move(here: Saddle) -> float:
        fall = here.log_delta(here.epsilon) - log_delta
        t = here.t
        if here.is_nearly_normal:
            # log delta falls by t^2 K''/2 and the kernel's part, which changes little and is put in again
            for _ in range(KERNEL_STEPS):
                square = here.t**2 + 2.0 * (fall + here.log_kernel(t) - here.log_kernel(here.t)) / here.curvature
                t = math.sqrt(max(square, 0.0)) or here.t
        return t - here.t if t != here.t else fall * here.width**2 / here.t

    return search_saddle(law.expand, move, start=start, most=law.largest_t)


def line_near(
    law: Composition,
    saddle: Saddle,
    *,
    epsilon: float,
    log_delta: float,
    most_nodes: int | None = None,
    smoothed: bool = True,
) -> Line:
    """The line at or near a saddle point that brackets delta at `epsilon` to about 1e-12 of itself.

    A poor guess of `log_delta` makes the brackets wide, never wrong. Raises `NumericalError` where no line of
    `most_nodes` nodes ends, or none without a virtual Gaussian if it may not be `smoothed`.
    """
    most_nodes = law.most_nodes if most_nodes is None else min(most_nodes, law.most_nodes)
    if not most_nodes:
        raise no_line()
    target = log_delta + LOG_TOLERANCE
    sides, at_sides = _sides(law, saddle)
    saddle, period, best = _tilt(law, saddle, sides, at_sides, epsilon, log_delta)
    t = saddle.t
    points = 0
    if law.lattice is not None:
        points = max(math.ceil(Fraction(period) / law.lattice.step), FEWEST_POINTS)
        period = float(points * law.lattice.step)
    step = 2.0 * math.pi / period
    last_of_all = points // 2 if law.lattice is not None else most_nodes  # no node beyond it is another one

    most = min(most_nodes, last_of_all)
    widths = FAR_STOPS if law.states_errors else STOPS  # whose ceilings cost nothing
    stops: Array = np.unique(np.append(np.minimum(np.ceil(widths * saddle.width / step), most), most))
    number, ceiling, excess = _end(law, saddle, step, stops, target + t * epsilon)
    variance = 0.0
    if number == last_of_all and law.lattice is not None:
        ceiling = -math.inf
    elif not excess <= 0:
        if not (smoothed and law.is_cheap and law.lattice is None):  # the nodes far up the line would be expensive
            raise NumericalError("The exact sum of this run converges too slowly.")
        variance = _variance(t, step * number, excess)
    s: Array = step * np.arange(number + 1, dtype=np.float64)
    return Line(
        t=t,
        step=step,
        values=values_on_line(law, t, s),
        ceiling=ceiling,
        sides=np.delete(sides, best),
        side_values=np.delete(at_sides, best),
        sizes=sizes(law, saddle, s),
        fewest_rounds=law.fewest_rounds,
        variance=variance,
        lattice=law.lattice,
        points=points,
    )


def line_until_small(law: Composition, saddle: Saddle, *, epsilon: float, log_delta: float, most_nodes: int) -> Line:
    """A line at or near a saddle point that ends where its summands are seen to be small: no bracket of it is proven.

    It serves for derivatives where no ceiling is low enough. Raises `NumericalError` where the summands do not become
    small within `most_nodes` nodes, or all losses lie on a lattice.
    """
    if law.lattice is not None:
        raise no_line()
    saddle, period, _ = _tilt(law, saddle, *_sides(law, saddle), epsilon, log_delta)
    t, step = saddle.t, 2.0 * math.pi / period
    values, end, before = np.empty(0, dtype=np.complex128), FIRST_BLOCK, math.inf
    while end <= most_nodes:
        s: Array = step * np.arange(values.size, end, dtype=np.float64)
        z: NDArray[np.complex128] = np.asarray(t + 1j * s, dtype=np.complex128)
        more = np.asarray(law.log_moment(z), dtype=np.complex128)
        if np.isnan(more).any():
            raise NumericalError("A moment of this run is not a number in doubles.")
        values = np.append(values, more)
        exponents = more.real - t * epsilon - np.log(np.abs(z * (1.0 + z))) - log_delta
        octave = step / math.pi * float(np.exp(np.minimum(exponents, 700.0)).sum())
        if octave < SMALL_OCTAVE:
            return Line(
                t=t,
                step=step,
                values=values,
                ceiling=math.inf,
                sides=np.empty(0),
                side_values=np.empty(0),
                sizes=np.abs(values),
            )
        if end > 2 * FIRST_BLOCK and octave > SLOW_OCTAVE * before:
            break
        end, before = 2 * end, octave
    raise NumericalError("The exact sum of this run converges too slowly.")


def line_with_nodes_of(law: Composition, other: Line, saddle: Saddle, *, coarse: bool = False) -> Line:
    """The line of a law on the nodes of another one's line, for upper bounds: it knows no side, so no lower bound.

    The saddle point is at the t of that line, or at a smaller one, where nodes are closer. A `coarse` one takes every
    second node, as long as these count for something: a few millionths of delta are too much then. Raises
    `NumericalError` where the nodes are those of a lattice, or the other line ends by a virtual Gaussian.
    """
    if law.lattice is not None or other.lattice is not None or other.variance or not law.most_nodes:
        raise NumericalError("No line of another direction serves here.")
    step, number = other.step, other.values.size
    if saddle.t < other.t:  # aliases fall by less there
        step *= CLOSER * saddle.t / other.t
        number = math.ceil((number - 1) * other.step / step) + 1
    elif coarse:
        sizes_of_other = other.values.real - np.log(np.abs(other.nodes * (1.0 + other.nodes)))
        number = int(np.flatnonzero(sizes_of_other >= sizes_of_other[0] + LOG_COARSE)[-1]) // 2 + 2
        step = 2.0 * step
    s: Array = step * np.arange(number, dtype=np.float64)
    return Line(
        t=saddle.t,
        step=step,
        values=values_on_line(law, saddle.t, s),
        ceiling=float(ceilings(law, saddle, s[-1:])[0]),
        sides=np.empty(0),
        side_values=np.empty(0),
        sizes=sizes(law, saddle, s),
        fewest_rounds=law.fewest_rounds,
    )


def _end(law: Composition, saddle: Saddle, step: float, stops: Array, enough: float) -> tuple[int, float, float]:
    """The first stop beyond which the nodes add little enough, else the last; its ceiling, and how far it is off."""
    number, ceiling, excess = 0, math.inf, math.inf
    for some in np.split(stops, [FIRST_STOPS]):
        if not excess <= 0 and some.size:
            beyond = ceilings(law, saddle, step * some)
            excesses = beyond - np.log(math.pi * step * some) - enough
            fit = np.flatnonzero(excesses <= 0)
            best = int(fit[0]) if fit.size else some.size - 1
            number, ceiling, excess = int(some[best]), float(beyond[best]), float(excesses[best])
    return number, ceiling, excess


def _sides(law: Composition, saddle: Saddle) -> tuple[Array, Array]:
    """Points of the axis around a saddle point, that one and 0 among them, and upper bounds of K there."""
    t, width = saddle.t, saddle.width
    over = np.append(t * SIDES_ABOVE, width * SIDE_WIDTHS)
    over = np.append(over, t * SIDES_FAR) if law.max_loss < math.inf else over
    under = np.append(t * SIDES_BELOW, width * SIDE_WIDTHS)
    if law.states_errors and not law.is_event:
        over = over[(over <= FARTHEST_COSTLY * t) & (t + over <= BEYOND_LARGEST * law.largest_t)]
    sides = np.sort(np.concatenate([t - under[under < t], t + over]))
    bounds = law.log_moment_above(sides)
    if bounds is None:
        values = np.asarray(np.real(law.log_moment(sides)))
        law.refuse_contradictions(sides, values)
        bounds = axis_from_above(law, sides, values)
    own = axis_from_above(law, np.array([t]), np.array([saddle.value]))
    # At 0, K is at most 0: there the bound is that delta is at most one.
    sides, order = np.unique(np.concatenate([[0.0], sides, [t]]), return_index=True)
    return sides, np.concatenate([[0.0], bounds, own])[order]


def _tilt(
    law: Composition, saddle: Saddle, sides: Array, at_sides: Array, epsilon: float, log_delta: float
) -> tuple[Saddle, float, int]:
    """The saddle point, or a side below it that needs fewer nodes; the period of its sum, and its index in `sides`."""
    here = int(np.searchsorted(sides, saddle.t))
    tried = np.arange(1, here + 1)  # 0 is no place for a line
    t = sides[tried]
    bound = at_sides + log_zeta(sides) - sides * epsilon - (log_delta + LOG_TOLERANCE)
    distance = sides - t[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        # the least period at which the aliases of each are negligible by the best side below it, and above it
        wanted = np.maximum(bound, 1.0) / np.abs(distance)
        wanted[~np.isfinite(wanted)] = math.inf
        periods = np.maximum(
            np.where(distance < 0, wanted, math.inf).min(axis=1), np.where(distance > 0, wanted, math.inf).min(axis=1)
        )
        size = at_sides[tried] - t * epsilon - np.log(t) - np.log1p(t)
    room = -math.inf if law.is_event else LOG_LARGEST_SUMMAND  # the line of an event is short at its saddle point
    cost = np.where(size - log_delta < room, WORTH_MOVING * periods, math.inf)
    cost[-1] = periods[-1]
    best = int(np.argmin(cost))
    if not periods[best] < math.inf:
        raise NumericalError("The loss of this run is outside what doubles resolve.")
    if best != here - 1:
        saddle = law.expand(float(t[best]))
    return saddle, float(periods[best]), best + 1


def _variance(t: float, last: float, excess: float) -> float:
    """That of the least virtual Gaussian that ends the sum at the last node."""
    if not last * last > 2.0 * t * (t + 1.0):  # else the Gaussian grows along the line at first
        raise NumericalError("The exact sum of this run needs more terms than are allowed.")
    variance = 2.0 * excess / (last * last - t * (t + 1.0))
    if not variance <= LARGEST_VARIANCE:
        raise NumericalError("The exact sum of this run converges too slowly.")
    return variance
