"""What may still be spent: rounds, noise and sampling rate under a budget.

>>> from dprounds import Gaussian, PoissonSampled, max_rounds, min_noise_multiplier
>>> max_rounds(Gaussian(20.0), epsilon=6.0, delta=1e-5, method="moments")
501
>>> max_rounds(Gaussian(20.0), epsilon=6.0, delta=1e-5, method="optimal")
603
>>> round(min_noise_multiplier(lambda s: Gaussian(s) * 603, epsilon=6.0, delta=1e-5, method="optimal"), 2)
19.99

Every answer has been checked: the parameter that is returned was put back into the run, and the run met the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dprounds import _validate
from dprounds.accounting.best_order import parameter_by_orders, rounds_by_orders
from dprounds.accounting.rounds import parameter_on_lines, rounds_by_secants, rounds_on_lines
from dprounds.errors import InfeasibleError, NumericalError, ParameterError
from dprounds.guarantee import Guarantee
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.mechanisms.base import Release
from dprounds.mechanisms.composition import Run
from dprounds.numerics.search import largest_integer

__all__ = [
    "Plan",
    "checked_release",
    "max_rounds",
    "max_sampling_rate",
    "min_noise_multiplier",
    "plan_batch_size",
    "plan_noise_multiplier",
    "plan_rounds",
    "plan_sampling_rate",
]

# Beyond this, doubles no longer count one by one, so no answer could be told from the next.
MOST_ROUNDS = 2**53
# Below this the steps of a search are lost in rounding.
TOLERANCE = _validate.Interval.parse("[1e-14, 1)")
# Noise multipliers outside of this range are no noise at all, or no signal.
NOISE_RANGE = (1e-6, 1e9)
# A lower sampling rate than this samples nobody from any data set there is.
LEAST_RATE = 1e-12
# Where a search begins, noise as large as the signal, and how fast the ratio of its steps grows.
START = 1.0
GALLOP = 3.0
# How near a guess by the orders should be that lines then improve.
ROUGH = 1e-2
# So often a search may meet noise at which nothing is proven before it says that it cannot tell.
MOST_TROUBLES = 4


class Plan(NamedTuple):
    """A number of rounds, a noise multiplier or a sampling rate, and the epsilon of the run that it makes.

    `beyond` is a proven lower bound on epsilon with one more round, where the method has one: above the budget it
    proves that not one more fits.
    """

    value: float
    epsilon: float
    beyond: float | None = None


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
        Failure mass, in (0, 1).
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
    delta = _validate.real("delta", delta, _validate.DELTA)
    method = _method(method)
    orders = "optimal" if method in (None, "exact") else method
    guess = rounds_by_orders(step.finite_rdp, spent=before.finite_rdp, epsilon=epsilon, delta=delta, method=orders)
    if step.infinite_mass > 0:  # the mass at infinity alone uses up delta by then
        left = math.log1p(-delta) - (math.log1p(-before.infinite_mass) if before.infinite_mass < 1 else -math.inf)
        guess = min(guess, max(left / math.log1p(-step.infinite_mass), 0.0)) if step.infinite_mass < 1 else 0.0
    if method in (None, "exact") and 1.0 <= guess < MOST_ROUNDS:
        guess = _exactly(step, before, epsilon, delta, guess)

    found: dict[int, Guarantee] = {}

    def cost(rounds: int) -> float:
        found[rounds] = (before + step * rounds).guarantee(delta=delta, method=method)
        return found[rounds].epsilon

    answer = largest_integer(cost, epsilon, guess=int(min(guess, MOST_ROUNDS)), most=MOST_ROUNDS)
    if answer == MOST_ROUNDS:
        raise InfeasibleError(
            f"No number of rounds exceeds the budget: {MOST_ROUNDS:.0e} rounds of {step!r} still meet "
            f"epsilon={epsilon:g} at delta={delta:g}. Ask for a smaller epsilon or "
            "delta, or for a step that releases something."
        )
    if answer is None:  # not even no round fits beside what is spent
        return Plan(0, found[0].epsilon, found[0].lower)
    return Plan(answer, found[answer].epsilon, found[answer + 1].lower)


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


def min_noise_multiplier(
    make_run: Callable[[float], Release],
    *,
    epsilon: float,
    delta: float,
    method: str | None = None,
    tolerance: float = 1e-6,
) -> float:
    """Least noise multiplier whose run is within (`epsilon`, `delta`), from above within a relative `tolerance`.

    Guarantee
    ---------
    Raises, or returns an s such that ``make_run(s)`` is within the budget by `method`, and ``make_run`` of some
    multiplier above ``s / (1 + tolerance)`` is not.

    Parameters
    ----------
    make_run
        The run that a noise multiplier makes; it must get cheaper as the noise grows.
    epsilon
        Budget in nats, in [0, inf).
    delta
        Failure mass, in (0, 1).
    method
        The bound to plan by; by default exact where every part has a moment function.
    tolerance
        Relative width of the last bracket, in [1e-14, 1).

    Examples
    --------
    >>> from dprounds import Gaussian
    >>> s = min_noise_multiplier(lambda s: Gaussian(s) * 100, epsilon=1.0, delta=1e-5, method="moments")
    >>> round(s, 3)
    49.006
    """
    return plan_noise_multiplier(make_run, epsilon=epsilon, delta=delta, method=method, tolerance=tolerance).value


def plan_noise_multiplier(
    make_run: Callable[[float], Release],
    *,
    epsilon: float,
    delta: float,
    method: str | None = None,
    tolerance: float = 1e-6,
) -> Plan:
    """`min_noise_multiplier`, with the epsilon of its run."""
    search = _Search.of(make_run, epsilon, delta, method, tolerance)
    low, high = NOISE_RANGE
    found = search.least(low, high)
    if found is None:
        raise InfeasibleError(
            f"No noise_multiplier up to {high:g} meets epsilon={epsilon:g} at delta={delta:g}: there epsilon is still "
            f"{search.cost(high):.6g}. Raise epsilon or delta, plan fewer rounds, or leave out what costs that much by "
            "itself."
        )
    if found == low:
        raise InfeasibleError(
            f"Every noise_multiplier down to {low:g} meets epsilon={epsilon:g} at delta={delta:g}: the budget is "
            "larger than the run can spend. Check its rounds, its sampling rate and the budget."
        )
    return Plan(found, search.cost(found))


def max_sampling_rate(
    make_run: Callable[[float], Release],
    *,
    epsilon: float,
    delta: float,
    method: str | None = None,
    tolerance: float = 1e-6,
) -> float:
    """Greatest sampling rate whose run is within (`epsilon`, `delta`), from below within a relative `tolerance`.

    Guarantee
    ---------
    Raises, or returns a q such that ``make_run(q)`` is within the budget by `method`, and ``make_run`` of some rate
    below ``q (1 + tolerance)`` is not, unless q is 1.

    Parameters
    ----------
    make_run
        The run that a sampling rate makes; it must get dearer as the rate grows.
    epsilon
        Budget in nats, in [0, inf).
    delta
        Failure mass, in (0, 1).
    method
        The bound to plan by; by default exact where every part has a moment function.
    tolerance
        Relative width of the last bracket, in [1e-14, 1).

    Examples
    --------
    >>> from dprounds import Gaussian, PoissonSampled
    >>> q = max_sampling_rate(lambda q: PoissonSampled(Gaussian(1.0), q) * 1000, epsilon=3.0, delta=1e-5)
    >>> (PoissonSampled(Gaussian(1.0), q) * 1000).epsilon(delta=1e-5) <= 3.0
    True
    """
    return plan_sampling_rate(make_run, epsilon=epsilon, delta=delta, method=method, tolerance=tolerance).value


def plan_sampling_rate(
    make_run: Callable[[float], Release],
    *,
    epsilon: float,
    delta: float,
    method: str | None = None,
    tolerance: float = 1e-6,
) -> Plan:
    """`max_sampling_rate`, with the epsilon of its run."""
    # in 1/q, as in the noise, less is dearer
    search = _Search.of(make_run, epsilon, delta, method, tolerance, inverted=True)
    found = search.least(1.0, 1.0 / LEAST_RATE)
    if found is None:
        raise InfeasibleError(
            f"No sampling_rate down to {LEAST_RATE:g} meets epsilon={epsilon:g} at delta={delta:g}: there epsilon is "
            f"still {search.cost(1.0 / LEAST_RATE):.6g}. Raise epsilon or delta, add noise, plan fewer rounds, or "
            "leave out what costs that much by itself."
        )
    return Plan(1.0 / found, search.cost(found))


def plan_batch_size(
    make_run: Callable[[float], Release],
    dataset_size: int,
    *,
    epsilon: float,
    delta: float,
    method: str | None = None,
    most: int | None = None,
) -> Plan:
    """The largest batch whose run, ``make_run(batch / dataset_size)``, is within the budget, with its epsilon.

    For runs whose rounds follow from the rate, so that no rate between two batches has a meaning. Raises
    `InfeasibleError` if there is none; the next larger batch, unless the answer is `most`, exceeds the budget.
    """
    most = dataset_size if most is None else most
    search = _Search.of(make_run, epsilon, delta, method, tolerance=1e-6, inverted=True)
    guess, _ = search.guess(dataset_size / most, float(dataset_size))
    costs: dict[int, float] = {0: 0.0}

    def cost(batch: int) -> float:
        if batch:  # at the very rate that is meant, which search would take by its inverse
            run = checked_release("what make_run returns", make_run(batch / dataset_size)) * 1
            costs[batch] = run.epsilon(delta=search.delta, method=search.method)
        return costs[batch]

    best = largest_integer(cost, search.epsilon, guess=max(int(dataset_size / guess), 1), most=most)
    if not best:
        raise InfeasibleError(
            f"Not even batches of one out of {dataset_size:,} meet epsilon={epsilon:g} at delta={delta:g}. "
            "Raise epsilon or delta, add noise, or plan fewer rounds."
        )
    return Plan(best, costs[best])


def checked_release(name: str, value: object) -> Release:
    """`value`, if it is a mechanism or a run."""
    if not isinstance(value, Release):
        raise ParameterError(
            f"{name} must be a mechanism or a run, such as Gaussian(1.0) * 100, got {_validate.show(value)}."
        )
    return value


def _method(method: str | None) -> str | None:
    """None, which lets every run answer as well as it can, or one of the methods by name."""
    return None if method is None else _validate.choice("method", method, RUN_METHODS)


@dataclass(frozen=True, kw_only=True)
class _Search:
    """For the least x whose run meets the budget; `make_run` gets cheaper as x grows, or as 1/x falls if `inverted`."""

    make_run: Callable[[float], Release]
    epsilon: float
    delta: float
    method: str | None
    tolerance: float
    inverted: bool
    known: dict[float, float] = field(default_factory=dict)
    troubles: dict[float, NumericalError] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        make_run: Callable[[float], Release],
        epsilon: float,
        delta: float,
        method: str | None,
        tolerance: float,
        *,
        inverted: bool = False,
    ) -> _Search:
        """A search whose arguments are checked."""
        if not callable(make_run):
            raise ParameterError(
                f"make_run must be a function from a parameter to a run, got {_validate.show(make_run)}."
            )
        return cls(
            make_run=make_run,
            epsilon=_validate.real("epsilon", epsilon, _validate.FINITE_EPSILON),
            delta=_validate.real("delta", delta, _validate.DELTA),
            method=_method(method),
            tolerance=_validate.real("tolerance", tolerance, TOLERANCE),
            inverted=inverted,
        )

    def run(self, x: float) -> Run:
        """The run that x makes."""
        return checked_release("what make_run returns", self.make_run(1.0 / x if self.inverted else x)) * 1

    def cost(self, x: float) -> float:
        """Epsilon of the run that x makes, computed once; infinite where `method` cannot keep its promise."""
        if x not in self.known:
            try:
                self.known[x] = self.run(x).epsilon(delta=self.delta, method=self.method)
            except NumericalError as trouble:
                self.known[x], self.troubles[x] = math.inf, trouble
        return self.known[x]

    def meets(self, x: float) -> bool:
        """Whether the run that x makes is within the budget."""
        return self.cost(x) <= self.epsilon

    def guess(self, low: float, high: float) -> tuple[float, float]:
        """Where the answer may be, and by what factor to look around there."""
        start = min(max(START, low), high)
        whole = self.run(high)
        if whole.infinite_mass:
            return start, 4.0
        exact = self.method in (None, "exact") and whole.has_moment_function
        by_orders = parameter_by_orders(
            lambda x: self.run(min(max(x, low), high)).finite_rdp,
            epsilon=self.epsilon,
            delta=self.delta,
            method="balle" if exact else self.method or "optimal",
            start=start,
            settled=ROUGH if exact else 1e-3 * self.tolerance,
        )
        if by_orders is None:
            return start, 4.0
        by_orders = min(max(by_orders, low), high)
        found = self.exact_guess(by_orders) if exact else by_orders
        if found is None:  # the exact answer is below that of the orders, by a few percent as a rule
            return by_orders, 1.1
        return min(max(found * (1.0 + 0.1 * self.tolerance), low), high), 1.0 + 0.9 * self.tolerance

    def exact_guess(self, guess: float) -> float | None:
        """About the answer of the exact method, from a guess nearby; None where no line finds it."""
        with suppress(NumericalError):
            return parameter_on_lines(
                lambda x: self.run(x).law(),
                epsilon=self.epsilon,
                delta=self.delta,
                guess=guess,
                settled=0.1 * self.tolerance,
            )
        return None

    def least(self, low: float, high: float) -> float | None:
        """The least x in [low, high] that meets the budget, from above; `low` if that does, None if `high` does not.

        Brackets by galloping from the guess, then takes secants on the logarithms, in which the cost of noise is nearly
        straight, while they stay inside of the bracket.
        """
        x, factor = self.guess(low, high)
        if self.meets(x):
            passing, failing = x, x
            while failing == passing:
                if passing == low:
                    return low
                x = max(passing / factor, low)
                passing, failing = (x, x) if self.meets(x) else (passing, x)
                factor **= GALLOP
        else:
            passing, failing = x, x
            while failing == passing:
                if failing == high:
                    self.raise_trouble(high)
                    return None
                x = min(failing * factor, high)
                passing, failing = (x, failing) if self.meets(x) else (x, x)
                factor **= GALLOP
        older, newer = failing, passing
        turns = 0
        while passing > failing * (1.0 + self.tolerance):
            if len(self.troubles) > MOST_TROUBLES:
                self.raise_trouble(failing)
            root = self.crossing(older, newer)
            if not failing < root < passing:
                root = self.crossing(failing, passing)
            if passing < root * (1.0 + 0.5 * self.tolerance):  # the answer, if the other side of the root is seen too
                x = passing / (1.0 + 0.9 * self.tolerance)
            elif root < failing * (1.0 + 0.5 * self.tolerance):
                x = failing * (1.0 + 0.9 * self.tolerance)
            else:  # a nudge to the passing side, so that a step that is nearly right is an answer
                x = root * (1.0 + 0.3 * self.tolerance)
            turns += 1
            if not failing < x < passing or turns % 6 == 0:  # a bisection now and then, whatever the secants do
                x = math.sqrt(failing) * math.sqrt(passing)
            if not failing < x < passing:
                break
            older, newer = newer, x
            passing, failing = (x, failing) if self.meets(x) else (passing, x)
        self.raise_trouble(failing)
        return passing

    def crossing(self, x: float, y: float) -> float:
        """Where the line through two costs, on logarithms, meets the budget; NaN where it does not."""
        with np.errstate(all="ignore"):  # zeros and infinities end as NaN
            above, below = (np.log(self.cost(point)) - np.log(self.epsilon) for point in (x, y))
            return float(x * np.exp(above / (above - below) * np.log(y / x)))

    def raise_trouble(self, x: float) -> None:
        """Refuse an answer that ends where the computation failed rather than the budget: less noise may do."""
        if x in self.troubles:
            raise self.troubles[x]
