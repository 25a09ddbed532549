r"""The privacy profile of a release: delta at an epsilon, epsilon at a delta, each between proven bounds.

A `Profile` holds the law of the loss in each direction; delta is the larger of the two. `direction` answers for one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket, Brackets
from dprounds.accounting.crude import crude_delta
from dprounds.accounting.direction import (
    DISTANCE_ERROR_PER_PART,
    delta_of,
    deltas_of,
    epsilon_of,
    is_met,
    seems_met,
)
from dprounds.accounting.law import Composition
from dprounds.accounting.sums import WithinDoubles
from dprounds.accounting.ways.choice import Way
from dprounds.accounting.ways.rough_profile import about_log_deltas
from dprounds.errors import NumericalError
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["Profile"]

Array = NDArray[np.float64]

# It only tunes speed: by how much, as a logarithm, a rough picture may be off.
MARGIN = 0.05


@dataclass(frozen=True, eq=False)
class Profile:
    """Delta over epsilon of a release, by the law of its loss in each direction.

    Guarantee
    ---------
    Every method but `seems_above` raises, or returns bounds with the truth between them, if K is accurate to
    `LOG_MOMENT_ERROR`, and the ceilings, cells and closed forms of the laws hold.

    Theorem
    -------
    [AGACKS23, Section 4] for the integral; docs/theory/accounting.md for the bounds.
    """

    laws: Mapping[str, Composition]

    @property
    def normal_distance(self) -> float | None:
        """The distance, from above, of the two normal laws of variance one that the release is, if it is such."""
        distances = [law.normal_distance for law in self.laws.values()]
        if not distances or None in distances:
            return None
        parts = max(len(law.parts) for law in self.laws.values())
        largest = max(distance for distance in distances if distance is not None)
        return largest * (1.0 + DISTANCE_ERROR_PER_PART * parts + 4.0 * UNIT_ROUNDOFF)

    def delta(self, epsilon: float) -> Bracket:
        """Delta at `epsilon`, in [0, inf]."""
        if epsilon == 0:
            # the total variation, the same in both directions: the one with smaller losses brackets it better
            laws = sorted(self.laws.values(), key=lambda law: law.max_loss)
            with suppress(NumericalError):
                return delta_of(laws[0], epsilon)
            return delta_of(laws[-1], epsilon)
        found = Bracket(0.0, 0.0)
        for law in self.laws.values():
            if found.lower > 0 and crude_delta(law, epsilon) <= found.lower:
                continue
            try:
                here = delta_of(law, epsilon)
            except NumericalError:
                here = Bracket(0.0, crude_delta(law, epsilon))  # which may do, if the other direction is known
                if here.upper >= 1 or not found.upper:
                    raise
            found = found.larger(here)
        return found

    def epsilon(self, delta: float) -> Bracket:
        """The least epsilon >= 0 at which delta is at most `delta`, in (0, 1)."""
        return self._epsilon(delta)

    def least_epsilon(self, delta: float) -> float:
        """The lower end of `epsilon`, at less cost."""
        return self._epsilon(delta, from_below=True).lower

    def seems_above(self, epsilon: float, delta: float) -> bool:
        """Whether rough pictures of the laws put delta at `epsilon` above `delta`: no proof."""
        return bool(self.seem_above(np.array([epsilon]), np.array([delta]))[0])

    def seem_above(self, epsilons: Array, deltas: Array) -> NDArray[np.bool_]:
        """The same for a row of them."""
        found = np.zeros(epsilons.shape, dtype=np.bool_)
        with suppress(NumericalError), WithinDoubles():
            for law in self.laws.values():
                if found.all():
                    break
                if law.has_cells:
                    found |= about_log_deltas(law, epsilons) > np.log(deltas) + MARGIN
        return found

    def _epsilon(self, delta: float, *, from_below: bool = False) -> Bracket:
        found: Bracket = Bracket(0.0, 0.0)
        way: Way | None = None  # to the direction before
        for law in self.laws.values():
            if 0 < found.lower < math.inf:
                if from_below and seems_met(law, found.lower, delta):
                    continue  # a lower bound may leave out a direction
                if is_met(law, found.lower, delta, way):
                    continue  # the other direction is the more expensive one
            try:
                here, way = epsilon_of(law, delta, way, from_below=from_below)
            except NumericalError:
                if not from_below:
                    raise
                continue  # as above
            found = found.larger(here)
        if found.lower == 0 < found.upper:  # then epsilon may be 0, which one value of delta decides
            with suppress(NumericalError):
                if self.delta(0.0).upper <= delta:
                    return Bracket(0.0, 0.0)
        return found

    def deltas(
        self,
        epsilons: Array,
        *,
        most_nodes: int | None = None,
        all_or_none: bool = True,
        narrow: float | Array = 0.0,
        log_delta: float | None = None,
        from_above: bool = False,
    ) -> Brackets:
        """Delta at every epsilon of a row. Sums made for one serve for all around it that they bracket well.

        That is to a `narrow` part of delta, if it is given, for all or for each. Where no sum is proven it raises, or,
        if not `all_or_none`, has an upper bound of inf. Where deltas are wanted `from_above`, lower ends are no bounds.
        An estimate of the logarithm of delta in the middle of the row saves a search for it.
        """
        lower, upper = np.zeros_like(epsilons), np.zeros_like(epsilons)
        for law in self.laws.values():
            found, trouble = deltas_of(
                law,
                epsilons,
                most_nodes,
                np.broadcast_to(narrow, epsilons.shape),
                log_delta=log_delta,
                from_above=from_above,
            )
            if trouble is not None and all_or_none:
                raise trouble
            lower, upper = np.maximum(lower, found.lower), np.maximum(upper, found.upper)
        return Brackets(lower, upper)
