"""How many rounds a budget allows."""

from __future__ import annotations

import math
from contextlib import suppress

from dprounds import _validate
from dprounds.accounting.best_order import rounds_by_orders
from dprounds.accounting.rounds import rounds_by_secants, rounds_on_lines
from dprounds.errors import InfeasibleError, NumericalError
from dprounds.guarantee import Guarantee
from dprounds.mechanisms.base import Release, Run
from dprounds.numerics.search import largest_integer
from dprounds.planning.plan import Plan, checked_method, checked_release
from dprounds.planning.search import delta_at_zero

__all__ = ["max_rounds", "plan_rounds"]

# Beyond this, doubles no longer count one by one, so no answer could be told from the next.
MOST_ROUNDS = 2**53


def max_rounds(
    step: Release, *, epsilon: float, delta: float, method: str | None = None, spent: Release | None = None
) -> int:
    """Largest number of rounds of `step` within (`epsilon`, `delta`), beside what is `spent`.

    Guarantee
    ---------
    Raises, or returns an n such that `spent` and n rounds together are within the budget by `method`, and with n + 1
    they are not; 0 if the budget admits no round.

    Parameters
    ----------
    step
        One round: a mechanism, or a run if a round releases several things.
    epsilon
        Budget in nats, in [0, inf).
    delta
        Failure mass, in [0, 1).
    method
        The bound to plan by; by default exact where every part has a moment function.
    spent
        What was released before; nothing by default.

    Examples
    --------
    >>> from dprounds import Gaussian, PoissonSampled
    >>> max_rounds(PoissonSampled(Gaussian(4.0), 0.001), epsilon=1.0, delta=1e-5, method="optimal")
    946597
    """
    return int(plan_rounds(step, epsilon=epsilon, delta=delta, method=method, spent=spent).value)


def plan_rounds(
    step: Release, *, epsilon: float, delta: float, method: str | None = None, spent: Release | None = None
) -> Plan:
    """`max_rounds`, with the epsilon that they cost beside what is `spent`."""
    step = checked_release("step", step)
    before = Run() if spent is None else checked_release("spent", spent) * 1
    epsilon = _validate.real("epsilon", epsilon, _validate.FINITE_EPSILON)
    delta = _validate.real("delta", delta, _validate.FAILURE_MASS)
    method = checked_method(method)
    guess = _guess(step, before, epsilon, delta, method)

    found: dict[int, Guarantee] = {}

    def guarantee(rounds: int) -> Guarantee:
        if rounds not in found:
            found[rounds] = (before + step * rounds).guarantee(delta=delta, method=method)
        return found[rounds]

    def cost(rounds: int) -> float:
        if epsilon or not delta:
            return guarantee(rounds).epsilon
        # all rounds within a budget of epsilon 0 cost the same; delta there tells how far to go
        return delta_at_zero(before + step * rounds, delta, method)

    limit = epsilon or delta
    answer = largest_integer(cost, limit, guess=int(min(guess, MOST_ROUNDS)), most=MOST_ROUNDS)
    if answer == MOST_ROUNDS:
        raise InfeasibleError(
            f"No number of rounds exceeds the budget: {MOST_ROUNDS:.0e} rounds of {step!r} still meet "
            f"epsilon={epsilon:g} at delta={delta:g}. Ask for a smaller epsilon or "
            "delta, or for a step that releases something."
        )
    if answer is None:  # not even no round fits beside what is spent
        return Plan(0, guarantee(0).epsilon, guarantee(0).lower)
    return Plan(answer, guarantee(answer).epsilon, guarantee(answer + 1).lower)


def _guess(step: Release, before: Run, epsilon: float, delta: float, method: str | None) -> float:
    """About how many rounds fit, for a search that checks."""
    if not delta:  # largest losses add up
        each, spent = ((release * 1).epsilon(delta=0.0) for release in (step, before))
        return max(epsilon - spent, 0.0) / each if each else MOST_ROUNDS
    orders = "optimal" if method in (None, "exact") else method
    guess = rounds_by_orders(step.finite_rdp, spent=before.finite_rdp, epsilon=epsilon, delta=delta, method=orders)
    if step.infinite_mass > 0:  # the mass at infinity alone uses up delta by then
        left = math.log1p(-delta) - (math.log1p(-before.infinite_mass) if before.infinite_mass < 1 else -math.inf)
        guess = min(guess, max(left / math.log1p(-step.infinite_mass), 0.0)) if step.infinite_mass < 1 else 0.0
    if method in (None, "exact") and 1.0 <= guess < MOST_ROUNDS:
        guess = _exactly(step, before, epsilon, delta, guess)
    return guess


def _exactly(step: Release, before: Run, epsilon: float, delta: float, guess: float) -> float:
    """Nearer to the rounds at which the exact delta is reached; `guess`, and so a longer search, where it is not."""
    whole = before + step
    if not whole.has_moment_function:
        return guess
    if len(whole.parts) == 1:
        one, each = whole.mechanisms[0] * 1, (step * 1).rounds
        with suppress(NumericalError):
            total = rounds_on_lines(
                lambda rounds: (one * rounds).law(), epsilon=epsilon, delta=delta, guess=before.rounds + each * guess
            )
            return max((total - before.rounds) / each, 0.0)
    with suppress(NumericalError):
        return rounds_by_secants(
            lambda rounds: (before + step * rounds).delta(epsilon=epsilon), delta=delta, guess=guess
        )
    return guess
