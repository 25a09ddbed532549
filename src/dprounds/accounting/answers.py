"""What a release costs, by every method, and what an attacker can make of it: epsilon and delta are made here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import choice, show
from dprounds.accounting.best_order import RenyiCurve, delta_by_orders, epsilon_by_orders
from dprounds.accounting.bracket import Bracket
from dprounds.accounting.gaussian_summary import least_distance
from dprounds.accounting.integrated import IntegratedProfile
from dprounds.accounting.law import MAX_LOSS_ERROR, Composition
from dprounds.accounting.profile import Profile
from dprounds.accounting.sums import LEAST_RESOLVED
from dprounds.accounting.trade_off import false_negative_rates
from dprounds.conversions import METHODS
from dprounds.errors import NumericalError, UnsupportedError
from dprounds.guarantee import EXACT_WITHIN, GAUSSIANS_EXACT_WITHIN, GaussianSummary, Guarantee, is_exact

__all__ = ["RUN_METHODS", "Account"]

Array = NDArray[np.float64]

RUN_METHODS = (*METHODS, "exact")
# Nodes of a line from which only the four digits of a rate are wanted.
FEW_NODES = 2**12
# Up to this number of deltas that a row does not prove are computed one by one; more of them by the best order.
FEW_MISSING = 4
# If a bracket of delta is wider than this part of itself, the best order is tried too.
CLOSE = 1e-3
# An epsilon by an integral that is no further above what an attack proves is not compared with that by the profile, or
# with that of the best order, which is far above both.
NEAR_ATTACK, CLOSE_TO_ATTACK = 1.02, 1.2
# Of fewer rounds the profile may tell all that there is.
FEW_ROUNDS = 64
# The part of epsilon that a lattice may cost where an attack tells the lower end. An upper end that is as near that one
# is looked at again, as closely as can be.
ROUGHLY = 1e-6
NEARLY_SHOWN = 1.0 + 1e-5
# From this part of the largest loss on, the best order is asked too, unless epsilon is known to its last digits.
NEAR_LARGEST_LOSS = 0.99
LAST_DIGITS = 1e-15


@dataclass(frozen=True, eq=False)
class Account:
    """A release as accounting sees it: by its laws, if it has any, and by its Rényi curve.

    Parameters
    ----------
    of
        The release, as messages name it.
    laws_of_loss
        Makes the laws of the loss in each direction; none where only Rényi orders are known.
    finite_rdp
        The Rényi bound given that no loss is infinite.
    infinite_mass
        An upper bound on the probability of an infinite loss.
    attacks
        Makes the laws of a pair of real neighbours, or None where the laws are those: then nothing is lost by them.
    integrated
        Makes laws whose profiles have integrals that those of the release are below; None where the laws prove as much.
    """

    of: object
    laws_of_loss: Callable[[], Mapping[str, Composition]]
    finite_rdp: RenyiCurve
    infinite_mass: float
    attacks: Callable[[], Mapping[str, Composition] | None] = lambda: None
    integrated: Callable[[], Mapping[str, Composition] | None] = lambda: None

    @cached_property
    def laws(self) -> Mapping[str, Composition]:
        """Of the loss in each direction, made when they are first asked for: Rényi orders need none."""
        return self.laws_of_loss()

    @cached_property
    def profile(self) -> Profile:
        """The exact privacy profile."""
        return Profile(self.laws)

    @cached_property
    def _attack_laws(self) -> Mapping[str, Composition] | None:
        return self.attacks()

    @cached_property
    def integrals(self) -> IntegratedProfile | None:
        """What integrals of profiles prove of the release, where that may be more than the profiles do."""
        laws = self.integrated() if self.laws else None
        return None if laws is None else IntegratedProfile(laws)

    @cached_property
    def _is_attained(self) -> bool:
        """Whether a pair of real neighbours has the laws of the attacks, or of the release."""
        return all(law.is_attained for law in (self._attack_laws or self.laws).values())

    @cached_property
    def _rounds(self) -> int:
        return max(law.rounds for law in self.laws.values())

    @cached_property
    def _exact_within(self) -> float:
        """The width, as a part of epsilon, of the widest bracket that is called exact."""
        parts = [part for law in self.laws.values() for part, _ in law.parts]
        are_gaussians = all(part.turnable is not None or part.normal_distance is not None for part in parts)
        return GAUSSIANS_EXACT_WITHIN if are_gaussians else EXACT_WITHIN

    @cached_property
    def _largest_loss(self) -> float:
        return max(law.max_loss for law in self.laws.values())

    def guarantee(self, delta: float, method: str | None, *, from_above: bool = False) -> Guarantee:
        """What may be said at `delta`; where it is wanted `from_above`, no attack is asked for its lower end."""
        by = self.chosen(method)
        if by == "exact" and delta == self.infinite_mass == 0:
            return self._pure_guarantee()
        if by == "exact" and not self.infinite_mass < delta:
            by = "optimal"  # nothing is left for finite losses: the answer is their bound, or inf
        if by == "exact":
            try:
                found = self.epsilon(delta)
            except NumericalError as trouble:
                if method is not None:
                    raise _with_advice(trouble) from trouble
                by = "optimal"
            else:
                return self._exact_guarantee(delta, found, from_above=from_above)
        return self._by_orders(delta, by)

    def epsilon(self, delta: float) -> Bracket:
        """Epsilon by the profile, or by its integral if that proves less; its lower end is that of the laws."""
        if self.integrals is None:
            return self.profile.epsilon(delta)
        least = math.inf
        with suppress(NumericalError):
            least = self.integrals.epsilon(delta, near=self._shown(delta))
            is_near = least <= NEAR_ATTACK * self._shown(delta) and self._rounds >= FEW_ROUNDS
            if is_near or self.profile.seems_above(least, delta):
                return Bracket(0.0, least)
        try:
            found = self._rough_profile.epsilon(delta)
            if found.upper <= NEARLY_SHOWN * self._shown(delta):
                found = self.profile.epsilon(delta)
        except NumericalError:
            if least == math.inf:
                raise
            found = Bracket(0.0, least)
        return Bracket(min(found.lower, least), min(found.upper, least))

    @cached_property
    def _rough_profile(self) -> Profile:
        """The profile from above, a little less closely, where attacks tell how low it may be."""
        if self.integrals is None or self._rounds == 1:  # then its lower end may be that of neighbours
            return self.profile
        return Profile({direction: law.from_above(ROUGHLY) for direction, law in self.laws.items()})

    def _exact_guarantee(self, delta: float, found: Bracket, *, from_above: bool) -> Guarantee:
        is_close = self.integrals is not None and found.upper <= CLOSE_TO_ATTACK * self._shown(delta)
        if not (is_exact(*found) or is_close) or self._is_near_largest_loss(found):
            best = self._by_orders(delta, "optimal")
            if best.epsilon < found.upper and not is_exact(*found):  # then it is the order that proves the answer
                lower = 0.0 if from_above else self._within_reach(delta, Bracket(found.lower, best.epsilon)).lower
                return replace(best, lower=lower)
            found = Bracket(min(found.lower, best.epsilon), min(found.upper, best.epsilon))
        lower, upper = Bracket(0.0, found.upper) if from_above else self._within_reach(delta, found)
        by = "exact" if is_exact(lower, upper, self._exact_within) else "bound"
        return Guarantee(epsilon=upper, delta=delta, method=by, order=None, lower=lower, upper=upper)

    def _within_reach(self, delta: float, found: Bracket) -> Bracket:
        """The same bracket; where the laws are not those of neighbours, its lower end is what an attack proves."""
        if not self._is_attained:
            return Bracket(0.0, found.upper)  # no pair of neighbours is known to come near
        if self._attack_laws is None:
            return Bracket(min(found), found.upper)
        shown = self._shown(delta)
        if not shown <= found.upper:
            raise NumericalError(
                "An attack on this run proves more than its bound: one of them is wrong, so none holds."
            )
        return Bracket(shown, found.upper)

    def _shown(self, delta: float) -> float:
        """The epsilon that an attack proves, which is asked for once; 0 where none is known."""
        if delta not in self._shown_at:
            self._shown_at[delta] = 0.0
            with suppress(NumericalError):
                self._shown_at[delta] = Profile(self._attack_laws or {}).least_epsilon(delta)
        return self._shown_at[delta]

    @cached_property
    def _shown_at(self) -> dict[float, float]:
        return {}

    def delta(self, epsilon: float, method: str | None) -> float:
        """Delta at `epsilon`, from above."""
        by = self.chosen(method)
        if by != "exact":
            return self._delta_by_orders(epsilon, by)
        try:
            found = self._delta(epsilon)
        except NumericalError as trouble:
            if method is not None:
                raise _with_advice(trouble) from trouble
            seen = max(law.seen for law in self.laws.values())
            return min(self._delta_by_orders(epsilon, "optimal"), seen)
        upper, is_close = found
        return upper if is_close else min(upper, self._delta_by_orders(epsilon, "optimal"))

    def _delta(self, epsilon: float) -> tuple[float, bool]:
        """Delta from above, and whether no other bound is expected to be lower by much."""
        least = float(self.integrated_deltas(np.array([epsilon]))[0])
        if 0 < least < 1 and self.profile.seems_above(epsilon, least):
            return least, True
        lower, upper = self._rough_profile.delta(epsilon)
        return min(upper, least), min(upper, least) - lower <= CLOSE * min(upper, least)

    def integrated_deltas(self, epsilons: Array) -> Array:
        """Delta at every finite epsilon of a row by integrals of profiles; infinite where these prove nothing."""
        found = np.full_like(epsilons, np.inf)
        is_finite = np.isfinite(epsilons)
        if self.integrals is not None and is_finite.any():
            with suppress(NumericalError):
                found[is_finite] = self.integrals.deltas(epsilons[is_finite])
        return found

    def _not_above(self, epsilons: Array, deltas: Array) -> NDArray[np.intp]:
        """Where the profile may be below what integrals prove; as a rule it tells by how much it is above."""
        known = np.flatnonzero((deltas > 0) & (deltas < 1))
        is_above = np.zeros(deltas.shape, dtype=np.bool_)
        if known.size:
            is_above[known] = self.profile.seem_above(epsilons[known], deltas[known])
        return np.flatnonzero(~is_above)

    def deltas(self, epsilons: Array, method: str | None, *, most_nodes: int | None = None) -> Array:
        """Delta at every epsilon of a row, from above, on lines of no more nodes than are given."""
        by = self.chosen(method)
        if by != "exact":
            return np.array([self._delta_by_orders(epsilon, by) for epsilon in epsilons.tolist()])
        upper = self.integrated_deltas(epsilons)
        asked = self._not_above(epsilons, upper)
        try:
            profile = self.profile.deltas(epsilons[asked], most_nodes=most_nodes, all_or_none=method is not None)
        except NumericalError as trouble:
            if method is not None:
                raise _with_advice(trouble) from trouble
        else:
            upper[asked] = np.minimum(upper[asked], profile.upper)
        # an epsilon whose delta the row does not prove is computed alone, if there are few such
        missing = np.flatnonzero(upper == np.inf)
        for i in missing.tolist():
            epsilon = float(epsilons[i])
            is_short = missing.size <= FEW_MISSING
            upper[i] = self.delta(epsilon, None) if is_short else self._delta_by_orders(epsilon, "optimal")
        rising = np.argsort(epsilons)  # delta falls, so that what is proven before holds further on
        upper[rising] = np.minimum.accumulate(upper[rising])
        return upper

    def gaussian(self, delta: float) -> GaussianSummary:
        """The two normal laws that bound the release at every epsilon, if `delta` may be revealed."""
        distance = self.profile.normal_distance if self.laws else None
        if distance is not None:
            return GaussianSummary(mu=distance, delta=0.0)
        last = self.guarantee(delta, None).epsilon
        return GaussianSummary(mu=least_distance(delta, last, self._close_deltas), delta=delta)

    def _close_deltas(self, epsilons: Array) -> Array:
        """Delta at every epsilon of a row, from above; where the row is not close, each is computed alone."""
        upper = np.full_like(epsilons, np.inf)
        is_close = np.zeros(epsilons.shape, dtype=np.bool_)
        if self.laws:
            upper = self.integrated_deltas(epsilons)
            asked = self._not_above(epsilons, upper)
            is_close = np.ones_like(is_close)
            found = self.profile.deltas(epsilons[asked], all_or_none=False)
            least = np.minimum(upper[asked], found.upper)
            upper[asked], is_close[asked] = least, np.isfinite(least) & (least - found.lower <= CLOSE * least)
        for i in np.flatnonzero(~is_close).tolist():
            upper[i] = min(upper[i], self.delta(float(epsilons[i]), None))
        return upper

    def trade_off(self, rates: Array) -> Array:
        """Least false-negative rate at each false-positive rate; a rate is wanted to four digits, no more."""
        return false_negative_rates(
            lambda epsilons: self.deltas(epsilons, None, most_nodes=FEW_NODES),
            rates,
            infinite_mass=self.infinite_mass,
        )

    def chosen(self, method: str | None) -> str:
        """The method that answers; exact only where there is a moment function."""
        if method is None:
            return "exact" if self.laws else "optimal"
        by = choice("method", method, RUN_METHODS)
        if by == "exact" and not self.laws:
            raise UnsupportedError(
                f"No exact accounting of {show(self.of)}: a part of it bounds real Rényi orders only. "
                "Use method='optimal'."
            )
        return by

    def _pure_guarantee(self) -> Guarantee:
        """At delta 0 epsilon must be above every loss, and need not be above the largest."""
        largest = self._largest_loss
        known = largest > LEAST_RESOLVED and all(
            part.max_loss_is_least for law in self.laws.values() for part, _ in law.parts
        )
        lower = largest * (1.0 - MAX_LOSS_ERROR) if known else 0.0
        by = "exact" if is_exact(lower, largest) else "bound"
        return Guarantee(epsilon=largest, delta=0.0, method=by, order=None, lower=lower, upper=largest)

    def _is_near_largest_loss(self, found: Bracket) -> bool:
        """Whether an order may be as good as the exact sum, up to its last digits, as it is for two losses."""
        if found.upper - found.lower <= LAST_DIGITS * found.upper:
            return False
        return found.upper > NEAR_LARGEST_LOSS * self._largest_loss

    def _by_orders(self, delta: float, method: str) -> Guarantee:
        proof = epsilon_by_orders(self.finite_rdp, infinite_mass=self.infinite_mass, delta=delta, method=method)
        return Guarantee(
            epsilon=proof.value, delta=delta, method=method, order=proof.order, lower=0.0, upper=proof.value
        )

    def _delta_by_orders(self, epsilon: float, method: str) -> float:
        return delta_by_orders(self.finite_rdp, infinite_mass=self.infinite_mass, epsilon=epsilon, method=method).value


def _with_advice(trouble: NumericalError) -> NumericalError:
    """The same trouble for someone who asked for the exact method by name, with what to ask for instead."""
    return NumericalError(f"{trouble} Use method='optimal'.")
