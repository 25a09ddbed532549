"""Where to put the steps and the lines of a levelled line for one epsilon.

Every levelled line proves its brackets, so nothing here needs to be right: the sums are rough ones, on a coarse grid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.kernel import log_zeta
from dprounds.accounting.levels.levelled_line import LevelledLine
from dprounds.accounting.levels.plan import Block, LevelPlan, Plan, forward_power
from dprounds.accounting.levels.steps import BOTH_ENDS, Factor, Grid, Step, log_sum
from dprounds.accounting.turnable import Turnable
from dprounds.errors import NumericalError

__all__ = ["levels_near"]

Array = NDArray[np.float64]

# All of these tune speed and tightness.
# Deviations of v that a grid covers, and up to which a step may lie; widths of a step that a grid goes beyond it.
REACH = 11.5
FURTHEST = 38.0
WIDTHS_BEYOND = 32.0
# Steps of v, in units of v and in deviations: for rough sums, and for those that bound.
COARSE = (0.12, 0.5)
FINE = (0.04, 0.2)
# Angles and strips in tenths, or less where the deviation of v is small.
ANGLES = (0, 1, 2, 3)
STRIPS = (1, 2, 3)
TENTH = 0.1
DEVIATIONS_OF_TENTH = 0.8
# Angles at which the ceiling is tried: small ones by their ratio, and these tenths.
SMALL_ANGLES = 6
WIDE_ANGLES = np.array([2.0, 3.0, 4.0, 5.0])
# Places along the line at which it may end.
ENDS = 90
# Points r of the axis, relative to one over the scale of the loss.
FIRST_POINT, LAST_POINT, POINTS = 0.02, 2000.0, 24
# Between these multiples of the logarithm of one over delta, where lines are as a rule, there are this many points.
NEAR_LINES = (0.1, 1.2)
NEAR_POINTS = 16
EVERY, SOME = slice(None), slice(None, None, 3)
# Losses at neighbouring steps have this ratio, or the next one where the first needs many nodes or has large summands.
RATIOS = (24.0, 8.0)
CHEAP = 2e5
PRECISE_SUMMAND = 8.0
# The lowest step of several levels, where the one below it is a level too, as parts of the scale of the loss.
LOW_STEPS = np.array([0.65, 0.3, 0.1])
# What a level costs in addition to its nodes, in products of nodes and points.
COST_OF_A_LEVEL = 1e5
# A level of fewer nodes whose summands are not much larger than delta is taken as it is.
FEW_NODES = 1500
LARGEST_SUMMAND = 8.0
LARGEST_SUMMAND_OF_CARE = 5.0
MOST_NODES = 2**14
# All nodes are one block, unless the step of v that it needs is less than WHOLE_LINE of the step of other sums. Then
# each block ends at this multiple of its first node.
BLOCK_RATIO = 6
WHOLE_LINE = 0.6
# The logarithm of summands over delta, up to which all nodes may be one block.
LARGEST_TURNED_SUMMAND = 8.5
# The square of a step's place over its width, for each unit of the logarithm of the precision.
SHARPNESS = 2.7
# No step is sharper than this part of its place and than a deviation of v.
LEAST_WIDTH = 1e-6


def levels_near(
    pair: Turnable, rounds: int, *, epsilon: float, log_delta: float, tolerance: float, careful: bool = False
) -> LevelledLine:
    """The levelled line that brackets delta at `epsilon` to about `tolerance` of itself, if delta is about this.

    A `careful` one has smaller summands, and loses fewer digits to rounding.
    """
    return LevelledLine(pair, rounds, _Places(pair, float(rounds), epsilon, log_delta, tolerance, careful).plan())


def _first_fit(count: int, fits: Callable[[int], bool]) -> int | None:
    """The first of a row that fits, by halving; None if the last does not."""
    if not count or not fits(count - 1):
        return None
    below, fit = -1, count - 1
    while fit - below > 1:
        middle = (below + fit) // 2
        below, fit = (below, middle) if fits(middle) else (middle, fit)
    return fit


def _least_of(values: Array) -> float:
    return float(np.min(np.where(np.isnan(values), math.inf, values), initial=math.inf))


def _around(values: Array, points: Array) -> Array:
    """The point of the least value, and its neighbours."""
    best = int(np.argmin(np.where(np.isnan(values), math.inf, values)))
    return points[max(best - 1, 0) : best + 2]


class _Places:
    """One run at one epsilon."""

    def __init__(
        self,
        pair: Turnable,
        rounds: float,
        epsilon: float,
        log_delta: float,
        tolerance: float,
        careful: bool = False,
    ) -> None:
        self.pair, self.rounds, self.epsilon, self.log_delta, self.careful = pair, rounds, epsilon, log_delta, careful
        self.largest_summand = LARGEST_SUMMAND_OF_CARE if careful else LARGEST_SUMMAND
        self.target = log_delta + math.log(tolerance)
        mean, deviation, rate = pair.mean, pair.deviation, pair.rate
        self.edge = -math.log1p(-rate)
        self.tenth = min(TENTH, DEVIATIONS_OF_TENTH * deviation)
        self.coarse = min(COARSE[0], COARSE[1] * deviation)
        self.fine = min(FINE[0], FINE[1] * deviation)
        more = 0.0 if pair.mixture_first else 10.0 * deviation * min(1.0, 10.0 * rate)
        self.bottom = mean - REACH * deviation - more
        self.lowest, self.furthest = math.exp(mean - 8.0 * deviation), mean + FURTHEST * deviation
        grid = Grid(pair, self.bottom, -mean + REACH * deviation, self.coarse)
        p = np.exp(grid.log_n + (grid.log_w if pair.mixture_first else 0.0))
        spread = math.sqrt(rounds * float(p @ np.minimum(np.abs(grid.log_w), 1.0) ** 2))
        self.scale = epsilon + min(rounds * self.edge, spread)
        if not 0 < self.scale < math.inf:
            raise NumericalError("The losses of this run are outside what doubles resolve.")
        last = LAST_POINT * max(1.0, 0.02 * self.scale / spread)
        ends = np.geomspace(FIRST_POINT, last, POINTS + int(4.0 * math.log(last / LAST_POINT)))
        small = min(max(0.1, -log_delta), 1000.0)  # whatever was guessed of delta
        near, far = NEAR_LINES[0] * small, NEAR_LINES[1] * small
        between = np.geomspace(near, far, NEAR_POINTS)
        self.r: Array = np.concatenate([ends[ends < 0.95 * near], between, ends[ends > 1.05 * far]]) / self.scale
        self.narrow = 1.0 / math.sqrt(SHARPNESS * max(math.log(rounds) - self.target, 4.0))
        # angles at which ceilings are tried, after those of strips
        least, wide = min(0.001, 3.0 * deviation / math.sqrt(rounds)), self.tenth * WIDE_ANGLES
        narrow = np.geomspace(min(least, 0.5 * wide[0]), wide[0], SMALL_ANGLES)[:-1]
        self.angles: Array = np.append(self.tenth * np.arange(ANGLES[-1] + STRIPS[-1] + 1.0), narrow)
        self.tried = np.append(np.arange(narrow.size) + self.angles.size - narrow.size, WIDE_ANGLES.astype(int))

    def steps(self, distances: Array) -> list[Step]:
        """Steps at these distances of log w from its lower end."""
        at = 1.0 + np.expm1(np.minimum(distances - self.edge, 600.0)) / self.pair.rate
        return [self.step(one) for one in at[(at > self.lowest) & (at < math.exp(self.furthest))].tolist()]

    def step(self, at: float) -> Step:
        """A step whose tail at the bulk of v is negligible; a sharper one if v has a small deviation."""
        return Step(at, min(self.narrow * (at - self.lowest), at * max(self.pair.deviation, LEAST_WIDTH)))

    def top(self, step: Step | None) -> float:
        """Where v ends for what is below a step."""
        return self.furthest if step is None else math.log(step.at + WIDTHS_BEYOND * step.width)

    def plan(self) -> Plan:
        """The steps and lines that cost least."""
        far = self.furthest + 4.0 * self.pair.deviation
        grid = Grid(self.pair, self.bottom, far, self.coarse)
        last = math.exp(self.furthest)
        tried = [*self.steps(self.scale * np.geomspace(0.3, 300.0, 40)), self.step(last)]
        others = grid.rough(-self.r, ())
        i = _first_fit(len(tried), lambda n: _least_of(self._high(grid, tried[n], others, SOME)) + 1.0 <= self.target)
        high = None if i is None else tried[i]
        drafts = self._drafts(high)
        top = max([far, *(self.top(one.high) for one in drafts)])
        low = drafts[0].low
        none = np.empty(0)
        if high is not None:  # the grids need not go further than its rounds
            top = max(self.top(high), max(-self.pair.mean, math.log(high.at)) + REACH * self.pair.deviation)
        return Plan(
            levels=tuple(draft.plan() for draft in drafts),
            high_points=none if high is None else _around(self._high(grid, high, others), self.r),
            low_points=none if low is None else _around(self._low(grid, low), self.r),
            ends=(self.bottom, top),
            step_of_v=self.fine,
            strip=3.0 * self.tenth,
        )

    def _drafts(self, high: Step | None) -> list[_Draft]:
        grid = Grid(self.pair, self.bottom, self.top(high), self.coarse)
        lines = _TurnedLines(grid, self.angles)
        pure = [_Draft(self, lines, None, high)]
        if not self.careful and pure[0].nodes < FEW_NODES and pure[0].size < LARGEST_SUMMAND:
            return pure
        limit = math.inf if high is None else high.at
        made: dict[tuple[Step | None, Step | None], _Draft] = {}
        options = [pure]

        def add(edges: list[Step | None]) -> None:
            for one in itertools.pairwise(edges):
                made[one] = made.get(one) or _Draft(self, lines, *one)
            options.append([made[one] for one in itertools.pairwise(edges)])

        tried = [step for step in self.steps(self.scale * np.geomspace(1.0, 1e-3, 30)) if step.at < limit]
        i = _first_fit(len(tried), lambda n: _least_of(self._low(grid, tried[n], SOME)) + 1.0 <= self.target)
        lowest: list[tuple[list[Step | None], Step]] = [] if i is None else [([], tried[i])]
        # or one below which several rounds decide, and above it one by itself
        middles: list[tuple[list[Step | None], Step]] = [
            ([None], step)
            for step in self.steps(self.scale * LOW_STEPS)
            if step.at < limit and (i is None or step.at > tried[i].at) and self._mass_above(step) < 0.5
        ]
        for bottoms, ratio in itertools.product((lowest, middles), RATIOS):  # fewer levels first
            for first, low in bottoms:
                add([*first, low, *self._between(low, high, ratio), high])
            best = min(options, key=lambda drafts: sum(draft.cost + COST_OF_A_LEVEL for draft in drafts))
            if not self.careful and self._is_good(best):
                break
        if self.careful and max(draft.nodes for draft in best) > MOST_NODES:
            raise NumericalError("The levels of this run need more nodes than are allowed.")
        return best

    def _is_good(self, drafts: list[_Draft]) -> bool:
        """Whether levels cost little and have small summands."""
        largest = LARGEST_SUMMAND_OF_CARE if self.careful else PRECISE_SUMMAND
        return sum(draft.cost for draft in drafts) < CHEAP and max(draft.size for draft in drafts) < largest

    def _mass_above(self, step: Step) -> float:
        """About the probability that a round lies above a step, if the step were sharp."""
        pair, v = self.pair, math.log(step.at)
        means = {pair.mean: 1.0}
        if pair.mixture_first:
            means = {pair.mean: 1.0 - pair.rate, pair.mean + pair.deviation**2: pair.rate}
        return sum(
            share * 0.5 * math.erfc((v - mean) / (pair.deviation * math.sqrt(2.0))) for mean, share in means.items()
        )

    def _between(self, low: Step, high: Step | None, ratio: float) -> list[Step]:
        """The steps between a step and the highest one, at losses of about this ratio."""
        rate, last = self.pair.rate, math.exp(self.furthest) if high is None else high.at
        bottom, end = (math.log1p(rate * (at - 1.0)) + self.edge for at in (low.at, last))
        count = max(1, round(math.log(end / bottom) / math.log(ratio)))
        return self.steps(bottom * (end / bottom) ** (np.arange(1, count) / count))

    def _high(self, grid: Grid, step: Step, others: Array, some: slice = EVERY) -> Array:
        """About the logarithm of the remainder above a step, at some r."""
        r = self.r[some]
        one = grid.rough(-r, (Factor(step, True),))
        slope = 1.0 + r if self.pair.mixture_first else -r
        return np.asarray(math.log(self.rounds) + one + (self.rounds - 1.0) * others[some] + slope * self.epsilon)

    def _low(self, grid: Grid, step: Step, some: slice = EVERY) -> Array:
        """About the logarithm of the remainder below a step, at some r."""
        r = self.r[some]
        log = self.rounds * grid.rough(1.0 + r, (Factor(step, False),))
        if self.pair.mixture_first:
            return np.asarray(log + log_zeta(r) - r * self.epsilon)
        return np.asarray(log + (1.0 + r) * self.epsilon)


class _TurnedLines:
    """Rough sums on lines turned by a row of angles, for all levels that are tried."""

    def __init__(self, grid: Grid, angles: Array) -> None:
        self.grid, self.angles = grid, angles
        self.moduli, self.arguments = grid.turned_by(angles[:, None])
        self.growth = 0.5 * (angles / grid.pair.deviation) ** 2
        self.logs: dict[Factor, Array] = {}

    def exponents(self, power: float, factors: tuple[Factor, ...]) -> tuple[Array, Array]:
        """Those of the terms on every line, and the logarithms of what is outside of the grid; infinite if unknown."""
        found = self.grid.log_n + power * self.moduli + self.growth[:, None]
        for one in factors:
            if one not in self.logs:
                self.logs[one] = np.logaddexp(*one.parts(self.grid.x, self.angles[:, None]))
            found = found + self.logs[one]
        outside = self.grid.outside(found[:, BOTH_ENDS], np.array(power), factors, self.angles)
        return np.where(np.isinf(outside)[:, None], math.inf, found), outside


class _Draft:
    """A level, by rough sums: where its line is, and what it costs."""

    def __init__(self, run: _Places, lines: _TurnedLines, low: Step | None, high: Step | None) -> None:
        self.run, self.lines, self.low, self.high = run, lines, low, high
        self.inside = () if high is None else (Factor(high, False),)
        self.both = self.inside if low is None else (*self.inside, Factor(low, True))
        self.ends = run.bottom, run.top(high)
        self.grid = lines.grid
        self.turned: dict[int, tuple[Array, Array]] = {}
        self._period()
        self._end()

    @property
    def cost(self) -> float:
        """In relative terms."""
        points = (self.ends[1] - self.ends[0]) / self.run.coarse
        return self.nodes * points * math.exp(min(max(self.size - self.run.largest_summand, 0.0), 700.0))

    def _period(self) -> None:
        """The t and the period that need the fewest nodes and keep the digits."""
        run, r = self.run, self.run.r
        points = np.concatenate([r, -1.0 - r, [0.0]])
        powers = forward_power(run.pair, points)
        m = self.grid.rough(powers, self.inside)
        f = run.rounds * m
        if self.low is not None:
            share = np.minimum(np.exp(self.grid.rough(powers, self.both) - m), 1.0)
            f = np.where(np.isfinite(m), f + np.log(-np.expm1(run.rounds * np.log1p(-share))), np.inf)
        self.f, self.f_left, log_p = f[: r.size], f[r.size : -1], float(f[-1])
        size = self.f - r * run.epsilon - np.log1p(r) - run.log_delta  # of the integral, whose width is about r
        bound = np.maximum(self.f + log_zeta(r) - r * run.epsilon - run.target + 1.0, 1.0)
        distance = r - r[:, None]
        above = np.where(distance > 0, bound / distance, np.inf).min(axis=1)
        left = np.maximum(self.f_left + (1.0 + r) * 1.1 * run.epsilon - run.target + 1.0, 1.0)  # for larger epsilons
        known = np.maximum((left / (1.0 + r + r[:, None])).min(axis=1), (log_p - run.log_delta - 5.0) / r)
        below = np.where(distance < 0, bound / -distance, np.inf).min(axis=1)
        below = np.minimum(below, max(log_p - run.target + 1.0, 1.0) / r)
        period = np.maximum(np.maximum(above, np.minimum(below, known)), 1.0 / r)
        cost = np.log(period) + np.maximum(size - run.largest_summand + 1.0, 0.0)
        i = int(np.argmin(np.where(np.isfinite(cost), cost, np.inf)))
        if not math.isfinite(float(cost[i])):
            raise NumericalError("The losses of this run are outside what doubles resolve.")
        self.knows_below = bool(known[i] < below[i])
        self.t, self.step, self.size = float(r[i]), 2.0 * math.pi / float(period[i]), float(size[i])
        self.power = float(forward_power(run.pair, np.array(self.t)))

    def _turned(self, kind: int) -> tuple[Array, Array]:
        """The exponents of rough sums on all turned lines, and what is outside of the grid.

        Of M (0) and B (1) at t, and of M under both laws at 0 (2).
        """
        if kind not in self.turned:
            factors = self.both if kind == 1 else self.inside
            self.turned[kind] = self.lines.exponents(self.power if kind < 2 else 0.5, factors)
        return self.turned[kind]

    @cached_property
    def _whole(self) -> float:
        """About the logarithm of M at t."""
        return float(log_sum(self._turned(0)[0][0]))

    def _end(self) -> None:
        """The number of nodes, and the angles of the ceiling there."""
        run, kind = self.run, 0 if self.low is None else 1
        exponents, outside = (part[run.tried] for part in self._turned(kind))
        arguments = self.lines.arguments[run.tried]
        tops = exponents.max(axis=1)
        weights = exponents - tops[:, None]
        top = self._whole if kind else 0.0

        def bounds(s: float) -> Array:
            found = tops + np.log(np.exp(weights - s * arguments).sum(axis=1))
            return np.where(np.isnan(found), math.inf, np.logaddexp(found, outside))

        def ends(s: float) -> bool:
            best = float(bounds(s).min())
            log_ceiling = math.log(run.rounds) + best + (run.rounds - 1.0) * top if kind else run.rounds * best
            return log_ceiling - self.t * run.epsilon - math.log(math.pi * s) - run.target + 1.0 <= 0

        s = np.geomspace(0.3, 1e6 * max(1.0, 1e-3 * run.scale * self.t), ENDS) / run.scale
        last = _first_fit(s.size, lambda i: ends(float(s[i])))  # the bounds fall with s
        self.nodes = math.inf if last is None else float(s[last]) / self.step
        end = float(s[-1 if last is None else last])
        chosen = int(np.argmin(bounds(end)))
        # the bound at a wide angle may be worse than it seems, as it needs a finer grid
        self.angles = tuple(run.angles[run.tried][max(chosen - 1, 0) : chosen + 1][::-1].tolist())
        self.enough = self.t * run.epsilon + math.log(math.pi * end) + run.target

    def _rough_bounds(self, kind: int, s: float) -> Array:
        """About the logarithms of the moduli of one round's sums at s, on lines turned by 0, 1, 2, ... tenths."""
        exponents, outside = self._turned(kind)
        # what is outside of the grid is bounded as if nothing were damped
        if s < 0:
            ends = exponents[:, BOTH_ENDS] - s * self.lines.arguments[:, BOTH_ENDS]
            power, factors = self.power if kind < 2 else 0.5, self.both if kind == 1 else self.inside
            outside = self.grid.outside(ends, np.array(power), factors, self.lines.angles, back=-s)
        damped = exponents - s * self.lines.arguments if s else exponents
        return np.asarray(np.logaddexp(log_sum(damped), outside))

    def _strips(self, kind: int, low: float, high: float) -> Array:
        """About the logarithms of the integrals on both lines of every strip, around every angle."""
        outward = self._rough_bounds(kind, low)
        backward = outward if low == high == 0 else self._rough_bounds(kind, -high)
        angle, strip = np.array(ANGLES)[:, None], np.array(STRIPS)
        inner = np.where(angle >= strip, outward[np.abs(angle - strip)], backward[np.abs(angle - strip)])
        return np.asarray(np.logaddexp(outward[angle + strip], inner))

    def plan(self) -> LevelPlan:
        """The level, with blocks of nodes and the places at which its errors are bounded."""
        run, r, t = self.run, self.run.r, self.t
        period = 2.0 * math.pi / self.step
        over, under = r > t, r < t
        above = self.f + log_zeta(r) - r * run.epsilon - (r - t) * period
        if self.knows_below:
            below = _around(self.f_left + (1.0 + r) * run.epsilon - (1.0 + r) * period, r)
        else:
            below = np.array([0.0])
            if under.any():
                values = self.f + log_zeta(r) - r * run.epsilon - (t - r) * period
                below = np.append(below, _around(values[under], r[under]))
        blocks, step = self._blocks()
        return LevelPlan(
            low=self.low,
            high=self.high,
            t=t,
            step=self.step,
            blocks=blocks,
            above=_around(above[over], r[over]),
            below=below,
            knows_below=self.knows_below,
            angles=self.angles,
            enough=self.enough,
            ends=self.ends,
            step_of_v=min(step, run.fine),
        )

    def _blocks(self) -> tuple[tuple[Block, ...], float]:
        """Blocks of nodes with their angles and strips, and the step of v that suits all of them.

        One block, if the step that suits it is not much finer than what other sums take. On a line that is turned from
        its first node on, B is a little less precise, which few levels cannot afford.
        """
        count = math.ceil(min(self.nodes, MOST_NODES)) + 1
        is_precise = not self.run.careful and (self.low is None or self.size < LARGEST_TURNED_SUMMAND)
        block, step = self._block(0, count)
        if is_precise and step >= WHOLE_LINE * self.run.fine:
            return (block,), step
        least = max(4, int(20.0 / max(abs(float(self.grid.log_w[-1])), 1e-300) / self.step))
        found, first = [], 0
        while first < count:
            end = min(count, max(least, BLOCK_RATIO * first))
            found.append(self._block(first, end))
            first = end
        finest = min(one for _, one in found)
        if not finest > 0:
            raise NumericalError("The losses of this run are outside what doubles resolve.")
        if is_precise and step >= WHOLE_LINE * finest:
            return (block,), step
        return tuple(one for one, _ in found), finest

    def _block(self, first: int, end: int) -> tuple[Block, float]:
        """A block of nodes with the angle and the strip that allow the largest step of v, and that step."""
        run = self.run
        low, high = self.step * first, self.step * (end - 1)
        still = self._strips(2, 0.0, 0.0) + math.log(2.0 + 2.0 * abs(self.t + 1j * high))
        whole, log_rounds = self._whole, math.log(run.rounds)
        growth = np.logaddexp(self._strips(0, low, high), still) + log_rounds + 29.0 + max(self.size, 0.0) - whole
        if self.low is not None:
            size = run.rounds * whole - self.t * run.epsilon - math.log1p(self.t) - run.target + 2.0
            growth = np.maximum(growth, self._strips(1, low, high) - whole + log_rounds + size)
        steps = 2.0 * math.pi * run.tenth * np.array(STRIPS) / np.maximum(growth, 1.0)
        steps = np.where(np.isnan(steps), 0.0, steps)
        i, j = np.unravel_index(int(np.argmax(steps)), steps.shape)
        return Block(first, end, ANGLES[i] * run.tenth, STRIPS[j] * run.tenth), float(steps[i, j])
