"""The privacy profile: delta over epsilon, by every method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds import _validate
from dprounds.accounting.best_order import delta_of_all_losses
from dprounds.conversions.inner import converted_delta
from dprounds.curves.by_orders import least_by_orders
from dprounds.curves.on_lines import exact_deltas
from dprounds.curves.rounds import checked_methods, table_orders
from dprounds.errors import ParameterError
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.mechanisms.base import Release, Run
from dprounds.planning import checked_release

__all__ = ["ProfileCurve", "last_epsilon", "least_deltas", "privacy_profile"]

Array = NDArray[np.float64]

# Where no finite epsilon meets the last delta, the curve ends at the first of these that one meets.
LARGER_DELTAS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.5)
# Room beyond an epsilon that is to be among the points, and points on the way to one that is far.
BEYOND = 1.06
ON_THE_WAY = 12
# Where no epsilon is finite there is nothing to see, and any range will do.
SOME_EPSILON = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class ProfileCurve:
    """Delta over epsilon, by several methods.

    Attributes
    ----------
    run
        What was released.
    epsilon
        In nats, increasing.
    delta
        For each method, a delta in [0, 1] that holds at each epsilon; inf where the method proves none.
    """

    run: Run
    epsilon: Array
    delta: dict[str, Array]

    def to_rows(self) -> list[dict[str, float | str]]:
        """A row for every point and method; points at which a method says nothing have none."""
        return [
            {"epsilon": float(epsilon), "method": method, "delta": float(delta)}
            for method, deltas in self.delta.items()
            for epsilon, delta in zip(self.epsilon, deltas, strict=True)
            if delta < math.inf
        ]


def privacy_profile(
    run: Release,
    *,
    epsilons: ArrayLike | None = None,
    last_delta: float = 1e-10,
    points: int = 81,
    methods: Sequence[str] = RUN_METHODS,
    including: ArrayLike = (),
) -> ProfileCurve:
    """Delta over epsilon, by each of `methods` that applies.

    Guarantee
    ---------
    Raises, or returns deltas that hold. They are within a thousandth above what the run itself answers, but for the
    exact ones of a loss with atoms (few rounds of Laplace noise), which may be wider. The points are proven; a line
    drawn between two of them is not. ``"exact"`` is left out where the run has no exact answer.

    Parameters
    ----------
    run
        A mechanism or a run.
    epsilons
        Where, in nats, each in [0, inf); by default from 0 to where delta is `last_delta`.
    last_delta
        In (0, 1).
    points
        How many by default, at least 2.
    methods
        Which of the five, in any order.
    including
        Epsilons in [0, inf) that are to be among the points, in addition to the others; the curve reaches beyond them.

    Examples
    --------
    >>> from dprounds import Gaussian
    >>> curve = privacy_profile(Gaussian(1.0) * 1, epsilons=[0.0, 1.0], methods=["exact"])
    >>> curve.delta["exact"].round(6).tolist()
    [0.382925, 0.126937]
    """
    whole = checked_release("run", run) * 1
    last_delta = _validate.real("last_delta", last_delta, _validate.DELTA)
    points = _validate.count("points", points, least=2)
    methods = checked_methods(methods)
    always = _validate.real_array("including", including, _validate.FINITE_EPSILON).ravel()
    if epsilons is None:
        near = np.linspace(0.0, last_epsilon(whole, last_delta), points)
    else:
        near = np.unique(_validate.real_array("epsilons", epsilons, _validate.FINITE_EPSILON))
        if not near.size:
            raise ParameterError("epsilons must hold one number or more, got none.")
    last = near[-1]
    near = np.union1d(near, always[always <= last])
    far = always[always > last]
    if far.size and epsilons is None:
        far = np.union1d(far, np.geomspace(last, BEYOND * far.max(), ON_THE_WAY)[1:])
    at = np.append(near, np.unique(far))
    is_exact = "exact" in methods and whole.has_moment_function
    by_orders = _by_orders(whole, at, (*methods, "optimal") if is_exact else methods)
    delta = {method: by_orders[method] for method in methods if method in by_orders}
    if is_exact:
        exact, _ = exact_deltas(whole, at)
        # as in a run, a best order that proves less is as exact
        exact = np.where(exact < math.inf, np.minimum(exact, by_orders["optimal"]), exact)
        if (exact < math.inf).any():
            delta["exact"] = exact
    return ProfileCurve(run=whole, epsilon=at, delta=delta)


def last_epsilon(run: Run, delta: float) -> float:
    """Epsilon at `delta`, or at the next larger delta that has a finite one: where a picture may end."""
    found = (run.epsilon(delta=at) for at in (delta, *(larger for larger in LARGER_DELTAS if larger > delta)))
    last = next((epsilon for epsilon in found if epsilon < math.inf), SOME_EPSILON)
    return last if last > 0 else 1.0


def least_deltas(run: Run, at: Array) -> Array:
    """The least delta that is proven at each of increasing epsilons; errs upward, as `privacy_profile` does.

    The best order is asked only where the exact delta may be further above the truth than a picture shows. It takes
    three times as long as an exact delta that is not.
    """
    exact, is_tight = exact_deltas(run, at) if run.has_moment_function else (np.full_like(at, math.inf), False)
    return exact if is_tight else np.asarray(np.minimum(exact, _by_orders(run, at, ("optimal",))["optimal"]))


def _by_orders(run: Run, at: Array, methods: Sequence[str]) -> dict[str, Array]:
    """Delta at each epsilon by the Rényi methods among `methods`."""
    mass = run.infinite_mass

    def rdps(orders: Array) -> Array:
        return np.broadcast_to(run.finite_rdp(orders), (at.size, orders.size))

    def convert(known: Array, orders: Array, method: str) -> Array:
        given, at_order, at_epsilon = np.broadcast_arrays(known, orders, at[:, None])
        return converted_delta(given, at_order, at_epsilon, method)

    finite = least_by_orders(rdps, convert, methods, corners=table_orders(run))
    return {method: np.minimum(delta_of_all_losses(mass, deltas), 1.0) for method, deltas in finite.items()}
