"""Epsilon over rounds, by every method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dprounds import _validate
from dprounds.accounting.best_order import delta_of_finite_losses
from dprounds.conversions.inner import converted_epsilon
from dprounds.curves.by_orders import least_by_orders
from dprounds.curves.on_lines import exact_epsilons
from dprounds.curves.spacing import rounds_to_draw
from dprounds.errors import ParameterError
from dprounds.mechanisms import RdpCurve
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.mechanisms.base import Release, total_rdp
from dprounds.planning import checked_release

__all__ = ["RoundsCurve", "checked_methods", "epsilon_over_rounds", "table_orders"]

Array = NDArray[np.float64]

# Beyond this, doubles no longer count one by one.
MOST_ROUNDS = 2**53
# A curve of fewer points is redrawn while a slider moves: a run that answers by itself would be too slow for it.
FEWEST_POINTS_AT_REST = 48
# On other curves one point in this number may be a run that answers by itself: ten of sixty take a second.
POINTS_PER_OWN_RUN = 6


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundsCurve:
    """Epsilon over rounds, by several methods.

    Attributes
    ----------
    step
        What one round releases.
    delta
        Failure mass, in (0, 1).
    rounds
        Increasing integers.
    epsilon
        For each method, an epsilon that holds after each number of rounds; inf where it proves none, or was not asked.
    """

    step: Release
    delta: float
    rounds: NDArray[np.int64]
    epsilon: dict[str, Array]

    def counted_in_rounds(self, rounds_of_step: int) -> RoundsCurve:
        """The same curve over rounds, where each step stands for `rounds_of_step` of them: an epoch.

        Examples
        --------
        >>> from dprounds import Gaussian, RandomAllocation
        >>> epoch = RandomAllocation(Gaussian(1.0), steps=100)
        >>> epsilon_over_rounds(epoch, delta=1e-5, last=3, methods=["optimal"]).counted_in_rounds(100).rounds.tolist()
        [100, 200, 300]
        """
        return replace(self, rounds=self.rounds * _validate.count("rounds_of_step", rounds_of_step, least=1))

    def to_rows(self) -> list[dict[str, float | int | str]]:
        """A row for every point and method; points at which a method says nothing have none."""
        return [
            {"rounds": int(n), "delta": self.delta, "method": method, "epsilon": float(epsilon)}
            for method, epsilons in self.epsilon.items()
            for n, epsilon in zip(self.rounds, epsilons, strict=True)
            if epsilon < math.inf
        ]


def epsilon_over_rounds(
    step: Release,
    *,
    delta: float,
    last: int,
    points: int = 60,
    methods: Sequence[str] = RUN_METHODS,
    including: Sequence[int] = (),
    own: int | None = None,
    shortest: int = 1,
) -> RoundsCurve:
    """Epsilon after 1 to `last` rounds of `step`, by each of `methods` that applies.

    Guarantee
    ---------
    Raises, or returns epsilons that hold; each is inf or within a thousandth above what the run itself answers by that
    method. The points are proven; a line drawn between two of them is not. A method that covers no such step
    (``"exact"`` without a moment function) is left out if it proves nothing anywhere.

    Parameters
    ----------
    step
        One round: a mechanism, or a run if a round releases several things.
    delta
        Failure mass, in [0, 1).
    last
        The most rounds, an integer in [1, 2^53].
    points
        At most how many numbers of rounds, at least 2. They are denser at the start, where the curve bends.
    methods
        Which of the five, in any order.
    including
        Numbers of rounds in [1, `last`] that are to be among the points, in addition to the others.
    own
        The exact epsilons of runs too short to share their work take a tenth of a second each: at how many of the
        points, in addition to those of `including`. By default at a sixth of them, or none if there are fewer than 48.
    shortest
        Shorter runs than this are not among those: at the left edge of a picture nobody sees them.

    Examples
    --------
    >>> from dprounds import Laplace
    >>> curve = epsilon_over_rounds(Laplace(10.0), delta=1e-5, last=100, points=3, methods=["moments", "exact"])
    >>> [row["epsilon"] < 10 for row in curve.to_rows() if row["rounds"] == 100]
    [True, True]
    """
    step = checked_release("step", step)
    delta = _validate.real("delta", delta, _validate.FAILURE_MASS)
    last = _validate.count("last", last, least=1)
    if not last <= MOST_ROUNDS:
        raise ParameterError(f"last must be an integer in [1, 2^53], got {_validate.show(last)}.")
    points = _validate.count("points", points, least=2)
    methods = checked_methods(methods)
    always = {_validate.count("including", n, least=1) for n in including}
    if always and not max(always) <= last:
        raise ParameterError(f"including must be integers in [1, last], got {_validate.show(max(always))}.")
    most = (
        (points // POINTS_PER_OWN_RUN if points >= FEWEST_POINTS_AT_REST else 0)
        if own is None
        else _validate.count("own", own)
    )
    shortest = _validate.count("shortest", shortest, least=1)
    rounds = np.union1d(rounds_to_draw(last, points), np.array(sorted(always), dtype=np.int64))
    counts = [int(n) for n in rounds]
    is_exact = "exact" in methods and step.has_moment_function
    if not delta:  # the largest loss of each run, at no cost
        answering = [method for method in methods if is_exact or method != "exact"]
        pure = np.array([(step * n).epsilon(delta=0.0) for n in counts])
        return RoundsCurve(step=step, delta=delta, rounds=rounds, epsilon=dict.fromkeys(answering, pure))
    by_orders = _by_orders(step, counts, delta, (*methods, "optimal") if is_exact else methods)
    epsilon = {method: by_orders[method] for method in methods if method in by_orders}
    if is_exact:
        exact = exact_epsilons(step, counts, delta=delta, own=most, always=always, shortest=shortest)
        # as in a run, a best order that proves less is as exact
        exact = np.where(exact < math.inf, np.minimum(exact, by_orders["optimal"]), exact)
        if (exact < math.inf).any():
            epsilon["exact"] = exact
    return RoundsCurve(step=step, delta=delta, rounds=rounds, epsilon=epsilon)


def checked_methods(methods: Sequence[str]) -> tuple[str, ...]:
    """`methods`, each one of the five words, from the loosest to the best."""
    if isinstance(methods, str) or not len(methods):
        raise ParameterError(f"methods must list one or more methods, got {_validate.show(methods)}.")
    chosen = {_validate.choice("methods", method, RUN_METHODS) for method in methods}
    return tuple(method for method in RUN_METHODS if method in chosen)


def table_orders(release: Release) -> list[float]:
    """The orders at which a part of the release is given by a table."""
    tables = [part for part in (release * 1).mechanisms if isinstance(part, RdpCurve)]
    return [order for table in tables for order in table.orders]


def _by_orders(step: Release, counts: Sequence[int], delta: float, methods: Sequence[str]) -> dict[str, Array]:
    """Epsilon after each count by the Rényi methods among `methods`."""
    mass = np.array([(step * n).infinite_mass for n in counts])
    # where nothing is left of δ any number will do, since the answer is put in below
    some = mass < delta
    rest = np.where(some, delta_of_finite_losses(delta, np.where(some, mass, 0.0)), 0.5)

    def rdps(orders: Array) -> Array:
        known = step.finite_rdp(orders)  # once for all counts
        return np.stack([total_rdp([(known, n)], orders) for n in counts])

    def convert(known: Array, orders: Array, method: str) -> Array:
        given, at_order, at_delta = np.broadcast_arrays(known, orders, rest[:, None])
        return converted_epsilon(given, at_order, at_delta, method)

    answers = least_by_orders(rdps, convert, methods, corners=table_orders(step))
    if some.all():
        return answers
    most = rdps(np.array([math.inf]))[:, 0]
    without = np.where(mass == delta, most, math.inf)  # at equality epsilon must be above every finite loss
    return {method: np.where(some, epsilons, without) for method, epsilons in answers.items()}
