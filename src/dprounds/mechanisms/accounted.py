"""What a release costs, by every method, and what an attacker can make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._validate import EPSILON, FAILURE_MASS, Interval, choice, real, real_array, show
from dprounds.accounting.best_order import delta_by_orders, epsilon_by_orders
from dprounds.accounting.binomial import MOST_ROUNDS, binomial_delta, binomial_epsilon
from dprounds.accounting.contour import Bracket, crude_delta, delta_brackets, worst
from dprounds.accounting.lattice import lattice_delta, lattice_deltas, lattice_epsilon
from dprounds.accounting.loss_law import least_mass
from dprounds.accounting.trade_off import false_negative_rates
from dprounds.conversions import METHODS
from dprounds.errors import NumericalError, UnsupportedError
from dprounds.guarantee import Guarantee, is_exact
from dprounds.mechanisms.base import MAX_LOSS_ERROR, Release
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["RUN_METHODS", "Accounted"]

Array = NDArray[np.float64]

RUN_METHODS = (*METHODS, "exact")
RATE = Interval.parse("[0, 1]")
# A bracket wider than this may contain what the best order proves, which is then the better answer.
WIDE = 1e-6
# Below this doubles have no relative precision.
LEAST_RESOLVED = 1e-300
# Nodes of a line that need not tell more than a rate's four digits.
FEW_NODES = 2**12


class Accounted(Release):
    """A release that answers what it costs.

    Runs do, and every mechanism but those that have an epsilon of their own: ask ``RandomizedResponse(1.0) * 1``.

    `method` is ``"moments"``, ``"balle"``, ``"closed-form"``, ``"optimal"`` or ``"exact"``. Without it the answer is
    exact where every part has a moment function, and else by the best Rényi order; the guarantee says which.
    """

    def epsilon(self, *, delta: float, method: str | None = None) -> float:
        """Epsilon at `delta`.

        Guarantee
        ---------
        Raises, or returns an epsilon at which every pair of neighbours is (epsilon, delta)-close; `inf` where none is
        proven. Errs upward: exactly by less than 1e-9 of itself for Gaussian and sampled Gaussian runs.

        Parameters
        ----------
        delta
            Failure mass, in [0, 1). At 0 the answer is the largest privacy loss, `inf` where there is none.
        method
            The bound; exact where there is a moment function by default.
        """
        return self.guarantee(delta=delta, method=method).epsilon

    def delta(self, *, epsilon: float, method: str | None = None) -> float:
        """Delta at `epsilon`.

        Guarantee
        ---------
        Raises, or returns a delta at which every pair of neighbours is (epsilon, delta)-close. Errs upward.

        Parameters
        ----------
        epsilon
            Privacy loss in nats, in [0, inf].
        method
            The bound; exact where there is a moment function by default.
        """
        epsilon = real("epsilon", epsilon, EPSILON)
        by = self._chosen(method)
        if by == "exact":
            try:
                found = self._exact_delta(epsilon)
            except NumericalError as trouble:
                if method is not None:
                    raise _with_advice(trouble) from trouble
            else:
                return min(found.upper, self._delta_by_orders(epsilon, "optimal")) if self._near(found) else found.upper
            return min(self._delta_by_orders(epsilon, "optimal"), self._reach)
        return self._delta_by_orders(epsilon, by)

    def guarantee(self, *, delta: float, method: str | None = None) -> Guarantee:
        """What may be said at `delta`: epsilon, its proven bracket, and the method or order that proves it.

        Where the exact accountant cannot keep its promise and was not asked for by name, or where its bracket is wide
        and the best Rényi order proves less than its upper end, that order answers and `method` says ``"optimal"``.
        Where its bracket is wider than a thousandth of epsilon, `method` says ``"bound"``, by name or not.

        Examples
        --------
        >>> from dprounds import Gaussian
        >>> guarantee = (Gaussian(20.0) * 500).guarantee(delta=1e-5, method="optimal")
        >>> round(guarantee.epsilon, 4), round(guarantee.order, 2)
        (5.3777, 4.98)
        >>> round((Gaussian(20.0) * 500).guarantee(delta=1e-5).epsilon, 4)
        4.9833

        It also says for which neighbours and which sampling it holds:

        >>> from dprounds import PoissonSampled
        >>> guarantee = (PoissonSampled(Gaussian(1.1), 0.004) * 500).guarantee(delta=1e-5)
        >>> guarantee.relation, guarantee.sampling
        ('add-remove', 'poisson')
        """
        delta = real("delta", delta, FAILURE_MASS)
        return replace(self._guarantee(delta, method), relation=self.relation, sampling=self.sampling)

    def _guarantee(self, delta: float, method: str | None) -> Guarantee:
        by = self._chosen(method)
        if by == "exact" and delta == self.infinite_mass == 0:
            return self._pure_guarantee()
        if by == "exact" and not self.infinite_mass < delta:
            by = "optimal"  # nothing is left for finite losses: the answer is their bound, or inf
        if by == "exact":
            try:
                found = self._exact_epsilon(delta)
            except NumericalError as trouble:
                if method is not None:
                    raise _with_advice(trouble) from trouble
                by = "optimal"
            else:
                best = self._by_orders(delta, "optimal") if self._near(found) else None
                if best is not None and best.epsilon < found.upper:
                    if _is_wide(found):  # then it is the order that proves the answer
                        return replace(best, lower=min(found.lower, best.epsilon))
                    found = Bracket(min(found.lower, best.epsilon), best.epsilon)
                lower, upper = found
                by = "exact" if is_exact(lower, upper) else "bound"
                return Guarantee(epsilon=upper, delta=delta, method=by, order=None, lower=lower, upper=upper)
        return self._by_orders(delta, by)

    def profile(self, epsilons: ArrayLike, *, method: str | None = None) -> float | Array:
        """Delta at every epsilon, the privacy profile. Errs upward.

        Examples
        --------
        >>> from dprounds import Gaussian
        >>> (Gaussian(1.0) * 1).profile([0.0, 1.0, 2.0]).round(6).tolist()
        [0.382925, 0.126937, 0.020924]
        """
        given = real_array("epsilons", epsilons, EPSILON)
        deltas = self._profile(given.ravel(), method)
        return deltas.reshape(given.shape) if given.ndim else float(deltas[0])

    def _profile(self, flat: Array, method: str | None = None, *, most_nodes: int | None = None) -> Array:
        """Delta at every epsilon of a row, on lines of no more nodes than are given."""
        by = self._chosen(method)
        if by == "exact":
            try:
                with _within_doubles():
                    return self._exact_profile(flat, most_nodes)
            except NumericalError as trouble:
                if method is not None:
                    raise _with_advice(trouble) from trouble
                by = "optimal"
        return np.array([self._delta_by_orders(epsilon, by) for epsilon in flat.tolist()])

    def _exact_profile(self, flat: Array, most_nodes: int | None) -> Array:
        """Delta at every epsilon by the responses' own sum, by lines, or else on a lattice."""
        if self._responses() is not None:
            return np.array([self._exact_delta(epsilon).upper for epsilon in flat.tolist()])
        deltas = np.zeros_like(flat)
        try:
            for direction in self.directions:
                law = self.law(direction)
                if most_nodes is not None:
                    law = replace(law, most_nodes=min(law.most_nodes, most_nodes))
                deltas = np.maximum(deltas, delta_brackets(law, epsilon=flat).upper)
        except NumericalError:
            if not self._is_carried:
                raise
            deltas = self._lattice_profile(flat)
        if not (deltas >= 0).all():  # also where one is not a number
            raise NumericalError(f"The profile of {show(self)} is outside what doubles resolve.")
        return deltas

    def trade_off(self, false_positive_rates: ArrayLike) -> float | Array:
        """Least false-negative rate of any attacker who tells neighbours apart, at each false-positive rate.

        Guarantee
        ---------
        Errs downward: no attacker does better. Exact from the profile where both directions have the same one.

        Examples
        --------
        >>> from dprounds import Gaussian
        >>> (Gaussian(1.0) * 1).trade_off([0.01, 0.1, 0.5]).round(4).tolist()
        [0.9076, 0.6109, 0.1587]
        """
        rates = real_array("false_positive_rates", false_positive_rates, RATE)
        # a rate is wanted to four digits, for which a hundred long sums would be dear
        found = false_negative_rates(
            lambda epsilons: self._profile(epsilons, most_nodes=FEW_NODES),
            rates.ravel(),
            infinite_mass=self.infinite_mass,
        )
        return found.reshape(rates.shape) if rates.ndim else float(found[0])

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """Greatest share of members that an attacker finds with this share of false alarms. Errs upward."""
        return 1.0 - float(self.trade_off(real("false_positive_rate", false_positive_rate, RATE)))

    def attack_advantage(self) -> float:
        """Greatest true-positive less false-positive rate of any attacker: delta at epsilon 0. Errs upward."""
        return self.delta(epsilon=0.0)

    def _chosen(self, method: str | None) -> str:
        """The method that answers; exact only where there is a moment function."""
        if method is None:
            return "exact" if self.has_moment_function else "optimal"
        by = choice("method", method, RUN_METHODS)
        if by == "exact" and not self.has_moment_function:
            raise UnsupportedError(
                f"No exact accounting of {show(self)}: a part of it bounds real Rényi orders only. "
                "Use method='optimal'."
            )
        return by

    def _responses(self) -> tuple[float, int] | None:
        """Loss and rounds, if this is nothing but few enough randomized responses of one size."""
        rounds = getattr(self, "rounds", 1)
        loss = self._response_loss
        return (loss, rounds) if loss is not None and rounds <= MOST_ROUNDS else None

    def _exact_delta(self, epsilon: float) -> Bracket:
        responses = self._responses()
        if responses is None:
            # at epsilon 0 it is the total variation, which is the same in both directions
            directions = self.directions if epsilon else self.directions[:1]
            found = self._by_line_or_lattice(
                lambda: worst([self.law(direction) for direction in directions], epsilon=epsilon),
                lambda: self._lattice_delta(epsilon, directions),
            )
            return Bracket(min(found.lower, self._reach), min(found.upper, self._reach))
        finite, mass = binomial_delta(*responses, epsilon=epsilon), self.infinite_mass
        # m + (1 - m) δ, to either side
        return Bracket(
            (least_mass(mass) + (1.0 - mass) * finite.lower) * (1.0 - 8.0 * UNIT_ROUNDOFF),
            min((mass + (1.0 - mass) * finite.upper) * (1.0 + 8.0 * UNIT_ROUNDOFF), 1.0),
        )

    def _exact_epsilon(self, delta: float) -> Bracket:
        if self._reach <= delta:  # that the record is seen at all is no likelier
            return Bracket(0.0, 0.0)
        responses = self._responses()
        if responses is None:
            found = self._by_line_or_lattice(
                lambda: worst([self.law(direction) for direction in self.directions], delta=delta),
                lambda: self._lattice_epsilon(delta),
            )
            # where nothing is proven from below, epsilon may be 0, which one value of delta tells
            if found.lower == 0 < found.upper and self._exact_delta(0.0).upper <= delta:
                return Bracket(0.0, 0.0)
            return found
        # (δ - m)/(1 - m), to either side
        mass = self.infinite_mass
        rest = Bracket(
            (delta - mass) / (1.0 - mass) * (1.0 - 8.0 * UNIT_ROUNDOFF),
            (delta - least_mass(mass)) / (1.0 - mass) * (1.0 + 8.0 * UNIT_ROUNDOFF),
        )
        return binomial_epsilon(*responses, delta=rest)

    @property
    def _is_carried(self) -> bool:
        """Whether a lattice can carry the loss, all of which is finite."""
        return self._has_cells and not self.infinite_mass

    def _by_line_or_lattice(self, by_line: Callable[[], Bracket], by_lattice: Callable[[], Bracket]) -> Bracket:
        """The line's bracket; where there is none, the lattice's; where it is wide, what both prove.

        The lattice's own brackets are some 1e-5 wide.
        """
        with _within_doubles():
            try:
                found = by_line()
            except NumericalError:
                if not self._is_carried:
                    raise
                found = by_lattice()
            else:
                if self._is_carried and not is_exact(*found):
                    with suppress(NumericalError):
                        other = by_lattice()
                        found = Bracket(max(found.lower, other.lower), min(found.upper, other.upper))
        if not 0 <= found.lower <= found.upper:  # also where one is not a number
            raise NumericalError(f"The loss of {show(self)} is outside what doubles resolve.")
        return found

    def _lattice_delta(self, epsilon: float, directions: Sequence[str]) -> Bracket:
        lower, upper = 0.0, 0.0
        for direction in directions:
            if epsilon < self.max_loss(direction):
                found = lattice_delta(self._lattice_parts(direction), epsilon=epsilon)
                lower, upper = max(lower, found.lower), max(upper, found.upper)
        return Bracket(lower, upper)

    def _lattice_epsilon(self, delta: float) -> Bracket:
        lower, upper = 0.0, 0.0
        for direction in self.directions:
            most = self.max_loss(direction)
            if not most > lower or (lower > 0 and self._is_crudely_met(lower, delta, direction)):
                continue  # the other direction is dearer
            found = lattice_epsilon(self._lattice_parts(direction), delta=delta, known=lower, most=most)
            lower, upper = max(lower, found.lower), max(upper, found.upper)
        return Bracket(lower, upper)

    def _is_crudely_met(self, epsilon: float, delta: float, direction: str) -> bool:
        """Whether one value of K shows that `delta` is met; close below a largest loss no lattice could."""
        try:
            return crude_delta(self.law(direction), epsilon) <= delta
        except NumericalError:
            return False

    def _lattice_profile(self, epsilons: Array) -> Array:
        deltas = np.zeros_like(epsilons)
        for direction in self.directions:
            inside = epsilons < self.max_loss(direction)
            if inside.any():
                found = lattice_deltas(self._lattice_parts(direction), epsilons=epsilons[inside])
                deltas[inside] = np.maximum(deltas[inside], found)
        return deltas

    def _pure_guarantee(self) -> Guarantee:
        """At delta 0 epsilon must be above every loss, and need not be above the largest."""
        self._refuse_contradictions()
        largest = max(map(self._max_loss, self.directions))
        if not largest >= 0:  # also where it is not a number
            raise NumericalError(f"The loss of {show(self)} is outside what doubles resolve.")
        known = self._max_loss_is_least and largest > LEAST_RESOLVED
        lower = largest * (1.0 - MAX_LOSS_ERROR) if known else 0.0
        return Guarantee(epsilon=largest, delta=0.0, method="exact", order=None, lower=lower, upper=largest)

    def _by_orders(self, delta: float, method: str) -> Guarantee:
        proof = epsilon_by_orders(self.finite_rdp, infinite_mass=self.infinite_mass, delta=delta, method=method)
        return Guarantee(
            epsilon=proof.value, delta=delta, method=method, order=proof.order, lower=0.0, upper=proof.value
        )

    def _delta_by_orders(self, epsilon: float, method: str) -> float:
        return delta_by_orders(self.finite_rdp, infinite_mass=self.infinite_mass, epsilon=epsilon, method=method).value

    def _near(self, found: Bracket) -> bool:
        """Whether the best order may prove more than the bracket: if that is wide, or close under a largest loss."""
        return _is_wide(found) or self.max_loss() < np.inf


def _with_advice(trouble: NumericalError) -> NumericalError:
    """The same trouble for someone who asked for the exact method by name, with what to ask for instead."""
    return NumericalError(f"{trouble} Use method='optimal'.")


def _is_wide(bracket: Bracket) -> bool:
    return not bracket.upper - bracket.lower <= WIDE * bracket.upper


@contextmanager
def _within_doubles() -> Iterator[None]:
    """Let numbers overflow far from any privacy: what is then not a number is refused, and what raises says so."""
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            yield
    except ArithmeticError:
        raise NumericalError("The loss of this run is outside what doubles resolve.") from None
