"""The search for the parameter at which a run just meets its budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from dprounds import _validate
from dprounds.accounting.best_order import RenyiCurve, parameter_by_orders
from dprounds.accounting.law import Composition
from dprounds.accounting.rounds import parameter_by_secants, parameter_on_lines
from dprounds.errors import NumericalError, ParameterError
from dprounds.mechanisms.base import Release, Run, total_rdp
from dprounds.numerics.search import RootSearch
from dprounds.planning.plan import checked_method, checked_release

__all__ = ["Search", "delta_at_zero", "total_variation_guess"]

# Below this the steps of a search are lost in rounding.
TOLERANCE = _validate.Interval.parse("[1e-14, 1)")
# Where a search begins: noise as large as the signal.
START = 1.0
# How near a guess by the orders should be that lines then improve.
ROUGH = 1e-2
# How near secants of the cost come, at the least: it is so nearly straight that their next step is closer.
SETTLED = 3e-5
# Where a delta is this near to its limit, the epsilon at the limit may be just above 0 by rounding.
NEAR = 1.0 - 1e-12
# So often a search may meet noise at which nothing is proven before it says that it cannot tell.
MOST_TROUBLES = 4


def delta_at_zero(run: Run, delta: float, method: str | None) -> float:
    """Delta at epsilon 0, above `delta` where the epsilon at `delta` is above 0: a rounding may part the two."""
    found = run.delta(epsilon=0.0, method=method)
    if NEAR * delta <= found <= delta and run.epsilon(delta=delta, method=method) > 0:
        return math.nextafter(delta, 2.0)
    return found


def total_variation_guess(run: Run) -> float:
    """About the delta at epsilon 0, as if the loss were normal: a guess for a search that checks."""
    with suppress(NumericalError):
        return math.sqrt(max(law.expand(1.0).curvature for law in run.laws.values()) / math.tau) if run.parts else 0.0
    return math.nan


def _rdp(run: Run) -> RenyiCurve:
    """The Rényi bound of a run, for a guess: its laws need not be described for a largest loss."""
    return lambda orders: total_rdp([(part.finite_rdp(orders), rounds) for part, rounds in run.parts], orders)


def _guessed_law(run: Run) -> Composition:
    """The law by whose line a guess is made: the first of those whose integral bounds the run, if there are such."""
    integrals = run.account.integrals
    return run.law() if integrals is None else integrals.different[0]


@dataclass(frozen=True, kw_only=True)
class Search:
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
    ) -> Search:
        """A search whose arguments are checked."""
        if not callable(make_run):
            raise ParameterError(
                f"make_run must be a function from a parameter to a run, got {_validate.show(make_run)}."
            )
        return cls(
            make_run=make_run,
            epsilon=_validate.real("epsilon", epsilon, _validate.FINITE_EPSILON),
            delta=_validate.real("delta", delta, _validate.FAILURE_MASS),
            method=checked_method(method),
            tolerance=_validate.real("tolerance", tolerance, TOLERANCE),
            inverted=inverted,
        )

    def run(self, x: float) -> Run:
        """The run that x makes."""
        return checked_release("what make_run returns", self.make_run(1.0 / x if self.inverted else x)) * 1

    def cost(self, x: float) -> float:
        """`cost_of` the run that x makes, computed once; infinite where `method` cannot keep its promise."""
        if x not in self.known:
            try:
                self.known[x] = self.cost_of(self.run(x))
            except NumericalError as trouble:
                self.known[x], self.troubles[x] = math.inf, trouble
        return self.known[x]

    def cost_of(self, run: Run) -> float:
        """What is to be at most `limit`: epsilon, or for a budget of epsilon 0 the delta there.

        All runs within that budget have the same epsilon, which does not tell a search how far to go.
        """
        if self.epsilon or not self.delta:
            return run.account.guarantee(self.delta, self.method, from_above=True).epsilon
        return delta_at_zero(run, self.delta, self.method)

    def epsilon_of(self, x: float) -> float:
        """Epsilon of the run that x makes, which was asked for before."""
        return self.cost(x) if self.epsilon else self.run(x).epsilon(delta=self.delta, method=self.method)

    @property
    def limit(self) -> float:
        """What `cost_of` a run may be at most."""
        return self.epsilon or self.delta

    def meets(self, x: float) -> bool:
        """Whether the run that x makes is within the budget."""
        return self.cost(x) <= self.limit

    def is_hardly_seen(self, x: float) -> bool:
        """Whether a record is seen at all with a probability of at most delta: no delta of the run is above that.

        A law with hardly any noise takes seconds to sum, and need not be summed for that.
        """
        run = self.run(x)
        if self.epsilon or self.method not in (None, "exact") or not run.has_moment_function:
            return False
        return all(law.seen <= self.delta for law in run.laws.values())

    def guess(self, low: float, high: float) -> tuple[float, float]:
        """Where the answer may be, and by what factor to look around there."""
        start = min(max(START, low), high)
        whole = self.run(high)
        if whole.infinite_mass or not self.delta:
            return start, 4.0
        exact = self.method in (None, "exact") and whole.has_moment_function
        if exact and not self.epsilon:
            return self.guess_at_zero(start, low, high)
        guess = parameter_by_orders(
            lambda x: _rdp(self.run(min(max(x, low), high))),
            epsilon=self.epsilon,
            delta=self.delta,
            method="balle" if exact else self.method or "optimal",
            start=start,
            settled=ROUGH if exact else 1e-3 * self.tolerance,
        )
        if guess is None:
            return start, 4.0
        by_orders = min(max(guess.value, low), high)
        found = self.exact_guess(by_orders, low, high) if exact else by_orders
        if found is not None and exact and whole.account.integrals is not None:
            # the line is that of an attack, a few percent below what is proven
            found = self.by_secants(found, low, high)
        if found is None:  # the exact answer is below that of the orders, by a few percent as a rule
            return by_orders, 1.1
        return min(max(found * (1.0 + 0.1 * self.tolerance), low), high), 1.0 + 0.9 * self.tolerance

    def guess_at_zero(self, start: float, low: float, high: float) -> tuple[float, float]:
        """The same for a budget of epsilon 0: from a normal law of the loss to exact deltas, each of which counts."""

        def between(x: float) -> float:
            return min(max(x, low), high)

        normal = parameter_by_secants(
            lambda x: total_variation_guess(self.run(between(x))),
            limit=self.delta,
            guess=start,
            settled=ROUGH,
            longest=math.inf,
        )
        found = self.by_secants(between(normal or start), low, high)
        if found is None:
            return between(normal or start), 1.1
        return between(found * (1.0 + 0.1 * self.tolerance)), 1.0 + 0.9 * self.tolerance

    def by_secants(self, guess: float, low: float, high: float) -> float | None:
        """About the answer, by secants of the cost itself; None where they do not find it."""
        return parameter_by_secants(
            lambda x: self.cost(min(max(x, low), high)),
            limit=self.limit,
            guess=guess,
            settled=max(SETTLED, 0.3 * self.tolerance),
        )

    def exact_guess(self, guess: float, low: float, high: float) -> float | None:
        """About the answer of the exact method, from a guess nearby; None where no line finds it."""
        with suppress(NumericalError):
            return parameter_on_lines(
                lambda x: _guessed_law(self.run(x)),
                epsilon=self.epsilon,
                delta=self.delta,
                guess=guess,
                settled=0.1 * self.tolerance,
            )
        return None

    def least(self, low: float, high: float) -> float | None:
        """The least x in [low, high] that meets the budget, from above; `low` if that does, None if `high` does not.

        The logarithm of the cost is nearly straight in that of the noise.
        """
        if self.is_hardly_seen(low):
            return low
        x, factor = self.guess(low, high)
        search = RootSearch(low, high, on_logs=True, reach=factor)
        while True:
            root = search.following(x, self.log_excess(x))
            if search.seen_high and search.high == low:
                return low
            if search.seen_low and search.low == high:
                self.raise_trouble(high)
                return None
            is_bracketed = search.seen_low and search.seen_high
            if is_bracketed and not search.high > search.low * (1.0 + self.tolerance):
                break
            if is_bracketed and len(self.troubles) > MOST_TROUBLES:
                self.raise_trouble(search.low)
            x = min(max(self.nudged(root, search), low), high)
            if is_bracketed and not search.low < x < search.high:
                break
        passing, failing = search.high, search.low
        self.raise_trouble(failing)
        # At delta 0 the answer may be a short decimal, exactly, and to try it costs nothing.
        short = float(f"{passing:.6g}")
        return short if not self.delta and failing < short < passing and self.meets(short) else passing

    def nudged(self, root: float, search: RootSearch) -> float:
        """A place next to where the root may be, so that either outcome there is an answer or nearly one."""
        if search.seen_high and search.high < root * (1.0 + 0.5 * self.tolerance):
            return search.high / (1.0 + 0.9 * self.tolerance)
        if search.seen_low and root < search.low * (1.0 + 0.5 * self.tolerance):
            return search.low * (1.0 + 0.9 * self.tolerance)
        return root * (1.0 + 0.3 * self.tolerance)  # to the side that meets the budget

    def log_excess(self, x: float) -> float:
        """The logarithm of the cost over the budget, of the sign by which `meets` decides."""
        cost = self.cost(x)
        if not 0 < cost < math.inf or not self.limit:
            return -math.inf if self.meets(x) else math.inf
        return math.log(cost / self.limit) if (cost > self.limit) == (cost / self.limit > 1.0) else cost - self.limit

    def raise_trouble(self, x: float) -> None:
        """Refuse an answer that ends where the computation failed rather than the budget: less noise may do."""
        if x in self.troubles:
            raise self.troubles[x]
