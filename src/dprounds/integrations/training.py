"""Train until the budget is spent: a loop that ends before the step that would exceed it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from dprounds import _validate
from dprounds.accountant import Accountant
from dprounds.mechanisms.base import Release, Run
from dprounds.planning import checked_release, max_rounds

__all__ = ["Check", "guarded", "rounds_left", "while_affordable"]

Batch = TypeVar("Batch")
# Whether one more round is within the plan. It is called before each batch, so it must be fast.
Check = Callable[[], bool]

# With many different releases spent, a plan takes several exact sums over all of them. Checking one number of rounds
# takes a single sum. So a loop that also records other releases checks whether this many rounds fit, and then whether
# one does.
ROUNDS_AHEAD = 1024


def while_affordable(
    batches: Iterable[Batch],
    accountant: Accountant,
    step: Release,
    *,
    epsilon: float,
    delta: float,
    method: str | None = None,
) -> Iterator[Batch]:
    """The batches, until one more round of `step` would exceed the budget.

    The loop's body records what it releases, at most one round of `step` for each batch. If it records anything else,
    that is noticed before the next batch, and the rest of the budget is planned again.

    Guarantee
    ---------
    Raises, or stops such that all that `accountant` holds, with one more round of `step` after each batch that was
    yielded, is within (`epsilon`, `delta`) by `method`.

    Parameters
    ----------
    batches
        What to train on. ``itertools.chain.from_iterable(itertools.repeat(loader))`` passes over a loader forever.
    accountant
        What has been spent, and where the body records.
    step
        One round, a mechanism or a run.
    epsilon
        Budget in nats, in [0, inf).
    delta
        Failure mass, in [0, 1).
    method
        The bound to plan by; by default exact where every part has a moment function.

    Examples
    --------
    >>> from itertools import count
    >>> from dprounds import Accountant, Gaussian
    >>> accountant, step = Accountant(), Gaussian(20.0)
    >>> for batch in while_affordable(count(), accountant, step, epsilon=6.0, delta=1e-5):
    ...     accountant.record(step)
    >>> accountant.run, accountant.epsilon(delta=1e-5) <= 6.0, accountant.would_exceed(step, 6.0, 1e-5)
    (Gaussian(20.0) * 685, True, True)
    """
    once = checked_release("step", step) * 1
    planned: tuple[Run, int] | None = None

    def plan() -> Check:
        nonlocal planned
        now = accountant.run
        again = planned is not None and _rounds_since(planned[0], now, once) == planned[1]
        left = rounds_left(now, once, epsilon=epsilon, delta=delta, method=method, again=again)
        planned = now, left
        return lambda: _rounds_since(now, accountant.run, once) < left

    return guarded(batches, plan)


def guarded(batches: Iterable[Batch], plan: Callable[[], Check]) -> Iterator[Batch]:
    """The batches, until a fresh plan does not admit one more.

    `plan` is called at once, so that it can refuse arguments at the call, and again whenever its check says no.
    """
    return _guarded(iter(batches), plan, plan())


def _guarded(batches: Iterator[Batch], plan: Callable[[], Check], check: Check) -> Iterator[Batch]:
    while check() or (check := plan())():
        try:
            batch = next(batches)
        except StopIteration:
            return
        yield batch


def rounds_left(
    spent: Run, step: Release, *, epsilon: float, delta: float, method: str | None = None, again: bool = False
) -> int:
    """A number of rounds of `step` that fits in addition to what is `spent`, and 0 only if none does.

    It is the largest such number if nothing else is spent, or if the rounds of an earlier answer were used up and this
    is called `again`. Otherwise it may be `ROUNDS_AHEAD`, or one.
    """
    budget = _validate.real("epsilon", epsilon, _validate.FINITE_EPSILON)
    if len(spent.parts) > 1 and not again:
        # fewer rounds of the same step cost less, so all up to this number fit
        for rounds in (ROUNDS_AHEAD, 1):
            if (spent + step * rounds).epsilon(delta=delta, method=method) <= budget:
                return rounds
        return 0
    return max_rounds(step, epsilon=budget, delta=delta, method=method, spent=spent)


def _rounds_since(before: Run, now: Run, step: Run) -> float:
    """Rounds of `step` recorded since `before`; infinitely many, which no plan admits, if anything else was."""
    if not step.parts:
        return 0.0 if now == before else float("inf")
    mechanism, once = step.parts[0]
    rounds = (dict(now.parts).get(mechanism, 0) - dict(before.parts).get(mechanism, 0)) // once
    return rounds if rounds >= 0 and now == before + step * rounds else float("inf")
