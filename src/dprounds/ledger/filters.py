r"""Filters: which costs add up however the next job was chosen, and how much of them a budget admits.

A filter is fixed when a budget is opened. It turns a run into integer costs, rounded up, and has integer caps, rounded
down, both in units of :math:`2^{-60}`. Sums of integers do not depend on their order, and lose nothing.

`gaussian` loses nothing on Gaussian noise, and little on DP-SGD; it is the default. `renyi` is better for many runs
with little noise each, whose Gaussian summaries are loose, and gives rounds back that were not made. `pure` is for
budgets with delta 0.

Docs: docs/theory/filters.md has the theorems; what is not offered there is not valid.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import DELTA, Interval, choice, real
from dprounds.conversions import epsilon_from_rdp, rdp_from_dp
from dprounds.errors import NumericalError, ParameterError, PrivacyError, UnsupportedError
from dprounds.mechanisms import Gaussian, Run
from dprounds.mechanisms.base import ADD
from dprounds.numerics.normal import normal_excess
from dprounds.numerics.search import largest_integer, log_scale_minimum
from dprounds.planning import max_rounds

__all__ = [
    "FILTERS",
    "UNIT",
    "Filter",
    "GaussianFilter",
    "Level",
    "PureFilter",
    "RenyiFilter",
    "filter_from_parameters",
    "new_filter",
    "units_down",
    "units_up",
]

# --- What carries a proof.

# Relative error of a moment function in the direction `add` that a cost allows for, in addition to the errors that its
# laws state themselves: `Release.rdp` promises 1e-11.
MOMENT_ERROR = 1e-10

# --- What only tunes tightness.

# The part of delta that jobs may reveal in all, and the part of what is left of it that one job takes.
REVEALED_PART = 0.01
JOB_PART = 0.1
# A job reveals nothing if that costs its squared distance no more than this factor.
FRUGAL = 1.01
# Digits of the default order: the number of rounds that it admits is flat in it.
ORDER_DIGITS = 3
# Caps are this part below what is proven, so that another version still finds them proven.
CAP_MARGIN = 1e-12
# The odometer's default: this many levels, each epsilon half of the next, and delta shared out equally.
LEVELS = 4
# More rounds than this are no answer to what one job may have.
MOST_ROUNDS = 2**40

UNIT = Fraction(1, 2**60)
FINITE_ORDER = Interval.parse("(1, inf)")
POSITIVE = Interval.parse("(0, inf)")


def units_up(value: float | Fraction) -> int:
    """The fewest units that are not below a number.

    Examples
    --------
    >>> units_up(1.0) == 2**60, units_up(1e-30)
    (True, 1)
    """
    return math.ceil(Fraction(value) / UNIT)


def units_down(value: float | Fraction) -> int:
    """The most units that are not above a number."""
    return math.floor(Fraction(value) / UNIT)


@dataclass(frozen=True, kw_only=True)
class Level:
    """A level of the odometer: while the sums are within `caps`, the reading is at most `epsilon`."""

    epsilon: float
    delta: float
    caps: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Filter(ABC):
    """What may be added up, and up to where.

    Parameters
    ----------
    epsilon, delta
        The budget.
    caps
        What the sums may not exceed, in units, rounded down.
    levels
        Those of the odometer, the lowest first.
    """

    kind: ClassVar[str]
    sums: ClassVar[tuple[str, ...]]  # what is added up, by name
    gives_back: ClassVar[bool] = True  # rounds that were not made, since each of its rounds is a job of its own

    epsilon: float
    delta: float
    caps: tuple[int, ...]
    levels: tuple[Level, ...] = ()

    @abstractmethod
    def cost(self, run: Run, *, left: Sequence[int], delta: float | None = None) -> tuple[int, ...]:
        """What a run costs, in units, rounded up; `left` is what the budget has left.

        Guarantee
        ---------
        Raises `UnsupportedError` where no cost is proven. The cost is a function of its arguments, never of data.
        """

    @abstractmethod
    def epsilon_of(self, sums: Sequence[int]) -> float:
        """The epsilon of a budget that would be used up by these sums: a share of the budget, and no guarantee."""

    @abstractmethod
    def most(self, epsilon: float, delta: float) -> tuple[Fraction, ...]:
        """What the sums may be within a budget of this kind, from below: the filter's own, or that of a level."""

    def caps_at(self, epsilon: float, delta: float) -> tuple[int, ...]:
        """The caps of a budget of this kind; a margin is left for what another machine may compute for `most`."""
        margin = 1 - Fraction(CAP_MARGIN) if delta else 1
        return tuple(units_down(amount * margin) for amount in self.most(epsilon, delta))

    @property
    def parameters(self) -> dict[str, Any]:
        """All that was fixed, as JSON holds it; `filter_from_parameters` restores it."""
        return {
            "kind": self.kind,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "caps": list(map(str, self.caps)),
            "levels": [
                {"epsilon": level.epsilon, "delta": level.delta, "caps": list(map(str, level.caps))}
                for level in self.levels
            ],
        }

    def is_sound(self) -> bool:
        """Whether the caps are proven to keep the budget, and each level's its own; a stored filter is asked."""
        budgets = [(self.epsilon, self.delta, self.caps), *((one.epsilon, one.delta, one.caps) for one in self.levels)]
        within = sum(Fraction(level.delta) for level in self.levels) <= Fraction(self.delta)
        return within and all(
            all(cap * UNIT <= most for cap, most in zip(caps, self.most(epsilon, delta), strict=True))
            for epsilon, delta, caps in budgets
        )

    def fits(self, cost: Sequence[int], left: Sequence[int]) -> bool:
        """Whether a cost is within what is left."""
        return all(amount <= most for amount, most in zip(cost, left, strict=True))

    def left(self, sums: Sequence[int]) -> tuple[int, ...]:
        """What is left of the caps."""
        return tuple(cap - amount for cap, amount in zip(self.caps, sums, strict=True))

    def share_left(self, sums: Sequence[int]) -> float:
        """The smallest part of a cap that is left, rounded down."""
        shares = [1 - Fraction(amount, cap) for amount, cap in zip(sums, self.caps, strict=True) if cap or amount]
        least = max(min(shares, default=Fraction(1)), Fraction(0))
        return math.floor(least * 10**12) / 10**12

    def reading(self, sums: Sequence[int]) -> float | None:
        """The odometer: the least level that the sums have not passed; None beyond the last one."""
        for level in self.levels:
            if self.fits(sums, level.caps):
                return level.epsilon
        return None

    def rounds_that_fit(self, step: Run, left: Sequence[int]) -> int:
        """The most rounds of a step that one job may have within what is left, and one more would not fit."""

        def share(rounds: int) -> float:
            try:
                cost = self.cost(step * rounds, left=left)
                shares = [amount / max(most, 1) for amount, most in zip(cost, left, strict=True)]
            except (NumericalError, UnsupportedError, OverflowError):  # the last where a share is beyond the doubles
                return math.inf
            return min(max(shares), 1.0) if self.fits(cost, left) else max(*shares, 1.0 + 1e-9)

        return largest_integer(share, 1.0, guess=self._guessed_rounds(step, left), most=MOST_ROUNDS) or 0

    def _guessed_rounds(self, step: Run, left: Sequence[int]) -> int:
        """About as many, by the exact account of a run that has the rest of the budget to itself."""
        if not self.delta or min(left) < 0:
            return 1
        with suppress(PrivacyError):
            return max_rounds(step, epsilon=self.epsilon_of([max(amount, 0) for amount in left]), delta=self.delta)
        return 1


@dataclass(frozen=True, kw_only=True)
class GaussianFilter(Filter):
    """Sums of squared distances of two normal laws, and of what is revealed [docs/theory/filters.md, Theorem 2].

    Parameters
    ----------
    revealed
        The part of delta that jobs may reveal in all.
    """

    kind: ClassVar[str] = "gaussian"
    sums: ClassVar[tuple[str, ...]] = ("mu_squared", "delta")
    gives_back: ClassVar[bool] = False  # the distance is that of the whole run

    revealed: float

    def cost(self, run: Run, *, left: Sequence[int], delta: float | None = None) -> tuple[int, ...]:
        """The square of mu, and delta: a tenth of what is left of it by default, and none where none is needed."""
        if delta is None:
            part = float(max(left[1], 0) * UNIT) * JOB_PART
            delta = 2.0 ** math.floor(math.log2(part)) if part > 0 else 0.0  # so that equal jobs find equal costs
        mu, used = _summary(run, delta)
        if mu == math.inf:
            raise UnsupportedError(
                "No Gaussian noise is proven to bound this job: what it reveals, or its loss, is too large for the "
                "budget.",
                advice="Plan fewer rounds or more noise.",
            )
        return units_up(Fraction(mu) ** 2), units_up(used)

    def epsilon_of(self, sums: Sequence[int]) -> float:
        """Epsilon through the sum of squares, with all that may be revealed."""
        mu = math.sqrt(sums[0] * UNIT) * (1.0 + 1e-15)
        rest = _difference_below(self.delta, self.revealed)
        return (Gaussian(math.nextafter(1.0 / mu, 0.0)) * 1).epsilon(delta=rest) if mu else 0.0

    @property
    def parameters(self) -> dict[str, Any]:
        """With what may be revealed."""
        return {**super().parameters, "revealed": self.revealed}

    def most(self, epsilon: float, delta: float) -> tuple[Fraction, ...]:
        """The largest distance whose profile leaves room for what is revealed, squared."""
        rest = _difference_below(delta, self.revealed)
        if not rest > 0:
            return Fraction(0), Fraction(0)
        return Fraction(_largest_distance(epsilon, rest)) ** 2, Fraction(self.revealed)

    def caps_at(self, epsilon: float, delta: float) -> tuple[int, ...]:
        """As above; what may be revealed was given and is not computed."""
        squared, revealed = self.most(epsilon, delta)
        return units_down(squared * (1 - Fraction(CAP_MARGIN))), units_down(revealed)


@dataclass(frozen=True, kw_only=True)
class RenyiFilter(Filter):
    """Sums of Rényi bounds at one order, each direction by itself [docs/theory/filters.md, Theorem 1]."""

    kind: ClassVar[str] = "renyi"
    sums: ClassVar[tuple[str, ...]] = ("rdp_remove", "rdp_add")

    order: float

    def cost(self, run: Run, *, left: Sequence[int], delta: float | None = None) -> tuple[int, ...]:
        """The Rényi bound of the run in each direction."""
        if delta is not None:
            raise ParameterError("delta is for gaussian budgets: a Rényi bound reveals nothing.", argument="delta")
        both = run.rdp(self.order)  # a bound for either direction
        if both == math.inf:
            raise UnsupportedError(
                f"This job has no finite Rényi bound at order {self.order:g}, the one of this budget.",
                advice="A budget with filter='gaussian' takes jobs that reveal something with a small probability.",
            )
        add = both
        if ADD in run.directions and run.has_moment_function:
            t = self.order - 1.0
            value = run.log_moment(t, ADD)
            error = MOMENT_ERROR * abs(value) + run.laws[ADD].error_on_axis(t)
            add = min(both, (value + error) / t)
        return units_up(both), units_up(add)

    def epsilon_of(self, sums: Sequence[int]) -> float:
        """Epsilon that the larger sum certifies."""
        rdp = math.nextafter(float(max(sums) * UNIT), math.inf) if max(sums) else 0.0
        return float(epsilon_from_rdp(rdp, order=self.order, delta=self.delta))

    @property
    def parameters(self) -> dict[str, Any]:
        """With the order."""
        return {**super().parameters, "order": self.order}

    def most(self, epsilon: float, delta: float) -> tuple[Fraction, ...]:
        """The optimal conversion, the same for both directions."""
        cap = Fraction(float(rdp_from_dp(epsilon, order=self.order, delta=delta)))
        return cap, cap


@dataclass(frozen=True, kw_only=True)
class PureFilter(Filter):
    """Sums of pure epsilon."""

    kind: ClassVar[str] = "pure"
    sums: ClassVar[tuple[str, ...]] = ("epsilon",)

    def cost(self, run: Run, *, left: Sequence[int], delta: float | None = None) -> tuple[int, ...]:
        """The largest privacy loss of the run."""
        if delta is not None:
            raise ParameterError("delta is for gaussian budgets: a pure guarantee reveals nothing.", argument="delta")
        epsilon = run.epsilon(delta=0.0)
        if epsilon == math.inf:
            raise UnsupportedError(
                "This job has no largest privacy loss, which a pure budget adds up.",
                advice="Open a budget with filter='gaussian' and a delta, or use noise with a largest loss, such as "
                "Laplace's.",
            )
        return (units_up(epsilon),)

    def epsilon_of(self, sums: Sequence[int]) -> float:
        """The sum itself, which is its own odometer."""
        return float(sums[0] * UNIT)

    def reading(self, sums: Sequence[int]) -> float | None:
        """What has been spent: valid at every moment."""
        return self.epsilon_of(sums)

    def most(self, epsilon: float, delta: float) -> tuple[Fraction, ...]:
        """Epsilon itself."""
        return (Fraction(epsilon),)


FILTERS: Mapping[str, type[Filter]] = {one.kind: one for one in (GaussianFilter, RenyiFilter, PureFilter)}


def new_filter(
    kind: str, *, epsilon: float, delta: float | None, order: float | None = None, revealed: float | None = None
) -> Filter:
    """The filter of a budget that is opened: every cap and every level is fixed here.

    Parameters
    ----------
    kind
        ``"gaussian"``, ``"renyi"`` or ``"pure"``.
    epsilon, delta
        The budget; a pure one has no delta.
    order
        Of ``renyi``; by default the one that admits the most Gaussian releases.
    revealed
        Of ``gaussian``: the part of delta that jobs may reveal in all, a hundredth of it by default.

    Examples
    --------
    >>> new_filter("renyi", epsilon=6.0, delta=1e-5).order
    4.64
    """
    kind = choice("filter", kind, tuple(FILTERS))
    epsilon = real("epsilon", epsilon, POSITIVE)
    if kind == "pure":
        if delta not in (None, 0, 0.0):
            raise ParameterError("A pure budget has delta 0, or use filter='gaussian' or 'renyi'.", argument="delta")
    elif delta is None:
        raise ParameterError("{argument} must be given, or use filter='pure'.", argument="delta")
    else:
        delta = real("delta", delta, DELTA)
    if order is not None and kind != "renyi":
        raise ParameterError("{argument} is for filter='renyi'.", argument="order")
    if revealed is not None and kind != "gaussian":
        raise ParameterError("{argument} is for filter='gaussian'.", argument="revealed")
    if kind == "pure":
        return _with_caps(PureFilter(epsilon=epsilon, delta=0.0, caps=()))
    at = float(delta or 0.0)
    if kind == "renyi":
        order = default_order(epsilon, at) if order is None else real("order", order, FINITE_ORDER)
        return _with_caps(RenyiFilter(epsilon=epsilon, delta=at, caps=(), order=order))
    revealed = REVEALED_PART * at if revealed is None else real("revealed", revealed, Interval.parse("[0, 1)"))
    if not revealed < at:
        raise ParameterError(
            "{argument} must be below delta, got {value}.", argument="revealed", value=f"{revealed:.17g}"
        )
    return _with_caps(GaussianFilter(epsilon=epsilon, delta=at, caps=(), revealed=revealed))


def filter_from_parameters(parameters: Mapping[str, Any]) -> Filter:
    """The filter whose `parameters` these are."""
    given = dict(parameters)
    kind = FILTERS[given.pop("kind")]
    caps, levels = tuple(map(int, given.pop("caps"))), given.pop("levels")
    return kind(
        caps=caps,
        levels=tuple(
            Level(epsilon=one["epsilon"], delta=one["delta"], caps=tuple(map(int, one["caps"]))) for one in levels
        ),
        **given,
    )


def default_order(epsilon: float, delta: float) -> float:
    """The order that admits the most Gaussian releases, to three digits."""

    def loss(shift: NDArray[np.float64]) -> NDArray[np.float64]:
        orders = 1.0 + shift
        return -np.asarray(rdp_from_dp(epsilon, order=orders, delta=delta)) / orders

    best = log_scale_minimum(loss, narrow=1e-4).x
    return float(f"{1.0 + best:.{ORDER_DIGITS}g}") if best > 0.01 else 1.0 + best


def _with_caps(fixed: Filter) -> Filter:
    """A filter with its caps, and the levels of its odometer."""
    levels = []
    if fixed.delta:
        for number in range(LEVELS):
            epsilon, delta = fixed.epsilon * 2.0 ** (number + 1 - LEVELS), fixed.delta / LEVELS
            levels.append(Level(epsilon=epsilon, delta=delta, caps=fixed.caps_at(epsilon, delta)))
    return replace(fixed, caps=fixed.caps_at(fixed.epsilon, fixed.delta), levels=tuple(levels))


@lru_cache(maxsize=2**12)
def _summary(run: Run, delta: float) -> tuple[float, float]:
    """Mu, and the delta that it needs: no more than what is revealed anyway where that costs next to nothing."""
    least = run.infinite_mass
    frugal = run.gaussian(delta=least)
    asked = run.gaussian(delta=least + delta) if delta else frugal
    used = frugal if frugal.mu <= math.sqrt(FRUGAL) * asked.mu else asked  # squares may be beyond the doubles
    return used.mu, used.delta


def _normal_delta(mu: float, epsilon: float) -> float:
    value, error = normal_excess(mu, epsilon)
    return value + error


def _largest_distance(epsilon: float, delta: float) -> float:
    """About the largest distance of two normal laws that are (epsilon, delta)-close, from below."""
    low, high = 0.0, 1.0
    while _normal_delta(high, epsilon) <= delta:
        low, high = high, 2.0 * high
    while not low and _normal_delta(high / 2.0, epsilon) > delta:
        high /= 2.0
        if high < 1e-12:
            return 0.0
    while high - low > 1e-15 * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if _normal_delta(middle, epsilon) <= delta else (low, middle)
    return low


def _difference_below(more: float, less: float) -> float:
    """A double that is not above the difference of two."""
    exact = Fraction(more) - Fraction(less)
    value = float(exact)
    return value if Fraction(value) <= exact else math.nextafter(value, -math.inf)
