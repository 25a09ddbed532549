"""How many rounds a budget allows."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field

from dprounds import _validate
from dprounds.accounting.best_order import rounds_by_orders
from dprounds.accounting.law import Composition
from dprounds.accounting.rounds import rounds_by_laplace, rounds_by_secants, rounds_on_lines
from dprounds.errors import InfeasibleError, NumericalError
from dprounds.guarantee import Guarantee
from dprounds.mechanisms.base import Release, Run
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.search import largest_integer
from dprounds.planning.plan import Plan, checked_method, checked_release
from dprounds.planning.search import delta_at_zero, total_variation_guess

__all__ = ["max_rounds", "plan_rounds"]

# Beyond this, doubles no longer count one by one, so an answer and the next one could not be distinguished.
MOST_ROUNDS = 2**53


def max_rounds(
    step: Release, *, epsilon: float, delta: float, method: str | None = None, spent: Release | None = None
) -> int:
    """Largest number of rounds of `step` within (`epsilon`, `delta`), in addition to what is `spent`.

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
    return _Rounds.of(step, epsilon, delta, method, spent).most()[0]


def plan_rounds(
    step: Release, *, epsilon: float, delta: float, method: str | None = None, spent: Release | None = None
) -> Plan:
    """`max_rounds`, with the epsilon that they cost together with what is `spent`."""
    asked = _Rounds.of(step, epsilon, delta, method, spent)
    answer, fits = asked.most()
    if not fits:  # what is spent exceeds the budget already
        alone = asked.guarantee(0)
        return Plan(0, alone.epsilon, alone.lower)
    if asked.budget_is_delta:
        return Plan(answer, 0.0, asked.least_epsilon(answer + 1))
    return Plan(answer, asked.guarantee(answer).epsilon, asked.guarantee(answer + 1).lower)


@dataclass(frozen=True, kw_only=True)
class _Rounds:
    """The search for the most rounds within a budget, and what it has computed."""

    step: Release
    before: Run
    epsilon: float
    delta: float
    method: str | None
    guarantees: dict[int, Guarantee] = field(default_factory=dict)

    @classmethod
    def of(cls, step: Release, epsilon: float, delta: float, method: str | None, spent: Release | None) -> _Rounds:
        """A search whose arguments are checked."""
        return cls(
            step=checked_release("step", step),
            before=Run() if spent is None else checked_release("spent", spent) * 1,
            epsilon=_validate.real("epsilon", epsilon, _validate.FINITE_EPSILON),
            delta=_validate.real("delta", delta, _validate.FAILURE_MASS),
            method=checked_method(method),
        )

    @property
    def budget_is_delta(self) -> bool:
        """Whether delta tells how far to go: all rounds within a budget of epsilon 0 cost the same epsilon."""
        return not self.epsilon and self.delta > 0

    def run(self, rounds: int) -> Run:
        """This number of rounds, in addition to what is spent."""
        return self.before + self.step * rounds

    def guarantee(self, rounds: int) -> Guarantee:
        """What so many rounds cost, computed once."""
        if rounds not in self.guarantees:
            self.guarantees[rounds] = self.run(rounds).account.guarantee(self.delta, self.method)
        return self.guarantees[rounds]

    def cost(self, rounds: int) -> float:
        """What is to be within the budget."""
        if self.budget_is_delta:
            return delta_at_zero(self.run(rounds), self.delta, self.method)
        return self.guarantee(rounds).epsilon

    def least_epsilon(self, rounds: int) -> float:
        """A proven lower bound on the epsilon of so many rounds, from their delta at 0.

        With A the event at which P(A) - Q(A) is the delta of epsilon 0, that of another epsilon is at least
        P(A) - exp(epsilon) Q(A), which is at least delta(0) - (exp(epsilon) - 1).
        """
        run = self.run(rounds)
        if self.method not in (None, "exact") or not run.has_moment_function:
            return 0.0
        with suppress(NumericalError):
            excess = run.account.profile.delta(0.0).lower - self.delta
            return max(math.log1p(excess) * (1.0 - 4.0 * UNIT_ROUNDOFF), 0.0)
        return 0.0

    def most(self) -> tuple[int, bool]:
        """The most rounds within the budget, and whether they are."""
        guess = _guess(self.step, self.before, self.epsilon, self.delta, self.method)
        answer = largest_integer(
            self.cost,
            self.delta if self.budget_is_delta else self.epsilon,
            guess=max(int(min(guess, MOST_ROUNDS)), 1),  # one round is tried even if less than one may fit
            most=MOST_ROUNDS,
        )
        if answer == MOST_ROUNDS:
            raise InfeasibleError(
                f"No number of rounds exceeds the budget: {MOST_ROUNDS:.0e} rounds of {self.step!r} still meet "
                f"epsilon={self.epsilon:g} at delta={self.delta:g}. Ask for a smaller epsilon or "
                "delta, or for a step that releases something."
            )
        return answer or 0, answer is not None


def _guess(step: Release, before: Run, epsilon: float, delta: float, method: str | None) -> float:
    """About how many rounds fit, for a search that checks."""
    if not delta:  # largest losses add up
        each, spent = ((release * 1).epsilon(delta=0.0) for release in (step, before))
        return max(epsilon - spent, 0.0) / each if each else MOST_ROUNDS
    if not epsilon and method in (None, "exact") and (before + step).has_moment_function:
        each, spent = (total_variation_guess(release * 1) ** 2 for release in (step, before))  # variances add up
        if each > 0 and spent >= 0:  # else they are not known
            return max(delta**2 - spent, 0.0) / each
    orders = "balle" if method in (None, "exact") else method  # whose formula is short; lines tell more below
    guess = rounds_by_orders(step.finite_rdp, spent=before.finite_rdp, epsilon=epsilon, delta=delta, method=orders)
    if step.infinite_mass > 0:  # the mass at infinity alone uses up delta by then
        left = math.log1p(-delta) - (math.log1p(-before.infinite_mass) if before.infinite_mass < 1 else -math.inf)
        guess = min(guess, max(left / math.log1p(-step.infinite_mass), 0.0)) if step.infinite_mass < 1 else 0.0
    if epsilon and method in (None, "exact") and 1.0 <= guess < MOST_ROUNDS:
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
                lambda rounds: _likely_law(one * rounds),
                epsilon=epsilon,
                delta=delta,
                guess=before.rounds + each * guess,
            )
            return max((total - before.rounds) / each, 0.0)
    near = {"guess": guess}
    with suppress(NumericalError):
        near["guess"], near["slope"] = rounds_by_laplace(
            lambda rounds: _likely_law(before + step * rounds), epsilon=epsilon, delta=delta, guess=guess
        )
    with suppress(NumericalError):
        return rounds_by_secants(lambda rounds: (before + step * rounds).delta(epsilon=epsilon), delta=delta, **near)
    return guess


def _likely_law(run: Run) -> Composition:
    """The law that tells about what a run costs: where an integral of a profile tells it, of that profile."""
    integrals = run.account.integrals
    return run.law() if integrals is None else integrals.different[0]
