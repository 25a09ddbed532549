r"""The profile of many rounds of a sampled mechanism, by the level of the largest round.

With soft steps :math:`E_0 < \dots < E_K` in :math:`X = e^v`, :math:`\eta_k = \Phi((X - E_k)/\omega_k)` and :math:`g_k =
1 - \eta_k`, runs with a round above :math:`E_K` and runs with all rounds below :math:`E_0` have closed forms. A level
between two neighbours is a positive measure of transform :math:`F = M^T - A^T`, whose losses have one scale, so that
its sum along a vertical line is short.

What parts the number that is computed from the truth has a name each, here and in docs/theory/levels.md, which proves
the bounds: *overlap*, *high*, *low*, *alias above*, *alias below*, *truncation*, *quadrature*, *rounding*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket, Brackets
from dprounds.accounting.kernel import log_zeta
from dprounds.accounting.levels.level import BOUND_ROUNDINGS, Level, Share, least_bound
from dprounds.accounting.levels.one_round import LARGEST_EXPONENT, Masses, OneRound, exp_or_infinity
from dprounds.accounting.levels.plan import Plan, forward_power
from dprounds.accounting.levels.steps import Factor, Grid
from dprounds.accounting.turnable import Turnable
from dprounds.errors import NumericalError
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["LevelledLine"]

Array = NDArray[np.float64]


@dataclass(eq=False)
class LevelledLine:
    """Delta of many rounds of one sampled mechanism in one direction, near one epsilon.

    Guarantee
    ---------
    `at` raises, or returns bounds with the truth between them, if one round's sums are within `SUM_ERROR` of the sizes
    of their terms. It is right at every epsilon, and tight near the one it was placed for.

    Theorem
    -------
    docs/theory/levels.md.
    """

    pair: Turnable
    rounds: int
    plan: Plan

    def __post_init__(self) -> None:
        plan, pair, rounds = self.plan, self.pair, float(self.rounds)
        grid = self._grid = Grid(pair, *plan.ends, plan.step_of_v)
        self._high, self._low = plan.levels[-1].high, plan.levels[0].low
        masses = {level.high: Masses(grid, level.high, plan.strip) for level in plan.levels}
        self._levels = [Level(OneRound(pair, level, masses[level.high]), rounds, plan.strip) for level in plan.levels]
        ends = self._high if pair.mixture_first else self._low
        self._ends = masses[ends] if ends in masses else Masses(grid, ends, plan.strip)

    @cached_property
    def _overlap(self) -> float:
        """*Overlap*: runs that count in two levels."""
        p = forward_power(self.pair, np.zeros(1))
        overlaps = [
            self._grid.mean(p, (Factor(level.low, False), Factor(level.high, True)), self.plan.strip).upper[0]
            for level in self.plan.levels
            if level.low is not None and level.high is not None
        ]
        return (
            float(self.rounds)
            * sum(exp_or_infinity(float(one)) for one in overlaps)
            * (1.0 + BOUND_ROUNDINGS * UNIT_ROUNDOFF)
        )

    @cached_property
    def _remainders(self) -> list[Callable[[float], float]]:
        return [*self._high_remainder(), *self._low_remainder()]

    @property
    def t(self) -> float:
        """The largest real part of a line."""
        return max(level.t for level in self.plan.levels)

    def _high_remainder(self) -> list[Callable[[float], float]]:
        """*High*: runs with a round above the highest step whose loss is on the other side of epsilon."""
        if self._high is None:
            return []
        r, grid, strip = self.plan.high_points, self._grid, self.plan.strip
        one, others = grid.mean(-r, (Factor(self._high, True),), strip).upper, grid.mean(-r, (), strip).upper
        rest = (self.rounds - 1.0) * others
        log = math.log(self.rounds) + one + rest
        return [self._chernoff(log, np.abs(one) + np.abs(rest), r, is_q=self.pair.mixture_first)]

    def _low_remainder(self) -> list[Callable[[float], float]]:
        """*Low*: runs with all rounds below the lowest step whose loss is on the other side of epsilon."""
        if self._low is None:
            return []
        r = self.plan.low_points
        log = self.rounds * self._grid.mean(1.0 + r, (Factor(self._low, False),), self.plan.strip).upper
        # with P the mixture, (1 - e^-y)_+ <= zeta(r) e^(ry)
        zeta = log_zeta(r) if self.pair.mixture_first else 0.0
        return [self._chernoff(log + zeta, np.abs(log), r, is_q=not self.pair.mixture_first)]

    @staticmethod
    def _chernoff(log: Array, sizes: Array, r: Array, *, is_q: bool) -> Callable[[float], float]:
        """The least of e^(log - r eps), or of e^(log + (1 + r) eps) for a probability under Q."""
        slope = 1.0 + r if is_q else -r
        return lambda epsilon: least_bound(log + slope * epsilon, sizes + np.abs(slope) * epsilon)

    def at(self, epsilon: float) -> Bracket:
        """Lower and upper bounds of delta at one epsilon."""
        value, _, error, surplus = self._total(epsilon)
        left_out = sum(remainder(epsilon) for remainder in self._remainders)
        room = 1e-12  # the errors are sums of a few dozen positive numbers, and round by far less than this part
        lower = (value - (error + surplus) * (1.0 + room)) - 8.0 * UNIT_ROUNDOFF * abs(value)
        upper = (value + (error + left_out) * (1.0 + room)) + 8.0 * UNIT_ROUNDOFF * abs(value)
        if not lower <= upper:  # also where one is not a number
            raise NumericalError("A level of this run lost all its digits.")
        return Bracket(max(lower, 0.0), min(max(upper, 0.0), 1.0))

    def bracket(self, epsilon: Array) -> Brackets:
        """Lower and upper bounds of delta at every epsilon of a row."""
        found = [self.at(one) for one in epsilon.tolist()]
        return Brackets(np.array([one.lower for one in found]), np.array([one.upper for one in found]))

    def value_and_slope(self, epsilon: float) -> tuple[float, float]:
        """The sum as computed and its derivative in epsilon: not a bound."""
        known = self._known(epsilon)
        found = [level.value_and_slope(epsilon) for level in self._levels]
        return known.value + sum(value for value, _ in found), known.slope + sum(slope for _, slope in found)

    def _total(self, epsilon: float) -> Share:
        known = self._known(epsilon)
        shares = [level.share(epsilon) for level in self._levels]
        known = known._replace(error=known.error + self._error_of_known(epsilon))
        value, slope, error, surplus = (sum(part) for part in zip(known, *shares, strict=True))
        size = sum(abs(one.value) for one in (known, *shares))
        return Share(value, slope, error + 16.0 * UNIT_ROUNDOFF * size, surplus + self._overlap)

    def _known(self, epsilon: float) -> Share:
        """P - e^eps Q of the runs with a round above the highest step, or of those with all below the lowest."""
        if (self._high if self.pair.mixture_first else self._low) is None:
            return Share(0.0, 0.0, 0.0, 0.0)
        if not epsilon < LARGEST_EXPONENT:
            raise NumericalError("The sums of a level are outside what doubles resolve.")
        rounds, masses, grown = float(self.rounds), self._ends, math.expm1(epsilon)
        if self.pair.mixture_first:  # Q is N
            none = rounds * math.log1p(-masses.n)
            some = -math.expm1(none)
            first = -math.exp(none) * math.expm1(rounds * math.log1p(-masses.excess / (1.0 - masses.n)))
            second, slope = grown * some, -(1.0 + grown) * some
        else:
            none = rounds * math.log1p(-masses.w)
            first = math.exp(none) * math.expm1(rounds * math.log1p(masses.excess / (1.0 - masses.w)))
            second = grown * math.exp(none)
            slope = -(1.0 + grown) * math.exp(none)
        rounding = 32.0 * UNIT_ROUNDOFF * (abs(first) + abs(second)) * (1.0 + abs(none))
        return Share(first - second, slope, rounding, 0.0)

    def _error_of_known(self, epsilon: float) -> float:
        """What the errors of the masses add to `_known`, whose own is its rounding."""
        rounds, masses = float(self.rounds), self._ends
        if masses.step is None:
            return 0.0
        off = math.expm1(epsilon) + min(rounds * masses.excess / (1.0 - masses.w), 1.0)
        return rounds * (masses.excess_error + max(masses.n_error, masses.w_error) * off) * (1.0 + 1e-6)
