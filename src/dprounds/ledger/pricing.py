"""What a job costs: where that is computed, and the answer to whoever asks before it is reserved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Protocol

from dprounds._validate import show
from dprounds.errors import BudgetExceededError, PrivacyError
from dprounds.ledger.budget import Budget
from dprounds.ledger.filters import UNIT, Filter
from dprounds.mechanisms import Run

__all__ = ["Here", "Price", "Pricing", "exceeded"]

# What people call the sums of each filter.
SUMS_IN_WORDS = {
    "mu_squared": "squared mu",
    "delta": "revealed delta",
    "rdp_remove": "the Rényi bound",
    "rdp_add": "the Rényi bound",
    "epsilon": "epsilon",
}


class Pricing(Protocol):
    """Where costs are computed. A server computes them in processes that it can stop."""

    def cost(self, fixed: Filter, run: Run, left: Sequence[int], delta: float | None) -> tuple[int, ...]:
        """What `Filter.cost` returns."""

    def rounds_that_fit(self, fixed: Filter, step: Run, left: Sequence[int]) -> int:
        """What `Filter.rounds_that_fit` returns."""


class Here:
    """Costs are computed where they are asked for."""

    def cost(self, fixed: Filter, run: Run, left: Sequence[int], delta: float | None) -> tuple[int, ...]:
        """What the filter says."""
        return fixed.cost(run, left=left, delta=delta)

    def rounds_that_fit(self, fixed: Filter, step: Run, left: Sequence[int]) -> int:
        """What the filter says."""
        return fixed.rounds_that_fit(step, left)


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a job would cost; nothing is charged.

    Parameters
    ----------
    name
        The budget.
    cost
        What would be added to each of the filter's sums, by name, in units of 2^-60.
    share
        The largest part of a cap that it takes, rounded up; infinite where a cap is 0.
    share_left
        The part of the budget that is left before it, rounded down.
    refusal
        Why it does not fit, and what would; empty if it fits.
    new_blocks
        How many of its blocks no job has named before: a misspelt name is one of them.
    """

    name: str
    cost: dict[str, int]
    share: float
    share_left: float
    refusal: str
    new_blocks: int = 0

    @property
    def fits(self) -> bool:
        """Whether it would be granted now."""
        return not self.refusal

    @classmethod
    def of(cls, budget: Budget, cost: Sequence[int], left: Sequence[int], refusal: str, *, new_blocks: int) -> Price:
        """The price of a job with this cost."""
        fixed = budget.filter
        shares = [_share_up(amount, cap) for amount, cap in zip(cost, fixed.caps, strict=True)]
        spent = [cap - amount for cap, amount in zip(fixed.caps, left, strict=True)]
        return cls(
            name=budget.name,
            cost=dict(zip(fixed.sums, cost, strict=True)),
            share=max(shares),
            share_left=fixed.share_left(spent),
            refusal=refusal,
            new_blocks=new_blocks,
        )


def exceeded(
    budget: Budget, job: Run, cost: Sequence[int], left: Sequence[int], pricing: Pricing | None
) -> BudgetExceededError:
    """Why a job is refused: what it costs, what is left, and by `pricing`, if there is one, what would fit."""
    fixed = budget.filter
    over = next(i for i, (amount, most) in enumerate(zip(cost, left, strict=True)) if amount > most)
    has = max(left[over], 0)
    fit: int | None = None
    if pricing is not None and len(job.parts) == 1:
        with suppress(PrivacyError):
            fit = pricing.rounds_that_fit(fixed, job.mechanisms[0] * 1, left)
    advice = "Not one of its rounds would fit."
    if fit is None:
        advice = ""
    elif fit:
        advice = f"{fit:,} of its {job.rounds:,} rounds would fit."
    return BudgetExceededError(
        "The budget of {name} (epsilon {epsilon:g}, delta {delta:g}) does not allow this job: it costs {cost:.6g} of "
        "{what}, and {left:.6g} is left, {share:.2%} of the budget.",
        advice=advice,
        name=show(budget.name),
        epsilon=fixed.epsilon,
        delta=fixed.delta,
        cost=_six_digits(cost[over], ROUND_CEILING),
        what=SUMS_IN_WORDS[fixed.sums[over]],
        left=_six_digits(has, ROUND_FLOOR),
        share=math.floor(Fraction(has, fixed.caps[over]) * 10**4) / 10**4 if fixed.caps[over] else 0.0,
        rounds=fit,
    )


def _share_up(amount: int, cap: int) -> float:
    """The part of a cap that an amount takes, rounded up."""
    if not amount:
        return 0.0
    try:
        return math.nextafter(amount / cap, math.inf)
    except (ZeroDivisionError, OverflowError):
        return math.inf


def _six_digits(units: int, rounding: str) -> float:
    """An amount as a number of six digits, rounded to a side; infinite beyond the doubles."""
    return float(Context(prec=6, rounding=rounding).divide(Decimal(units), Decimal(UNIT.denominator)))
