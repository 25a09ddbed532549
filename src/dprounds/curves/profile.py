"""The privacy profile: delta over epsilon, by every method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds import _validate
from dprounds.conversions import delta_from_rdp
from dprounds.curves.by_orders import least_by_orders
from dprounds.curves.on_lines import exact_deltas
from dprounds.curves.rounds import checked_methods, table_orders
from dprounds.errors import NumericalError, ParameterError
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.mechanisms.base import Release
from dprounds.mechanisms.composition import Run
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.planning import checked_release

__all__ = ["ProfileCurve", "last_epsilon", "privacy_profile"]

Array = NDArray[np.float64]

# Where no finite epsilon meets the last delta, the curve ends at the first of these that one meets.
LARGER_DELTAS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.5)
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
        For each method, a delta that holds at each epsilon; in [0, 1].
    """

    run: Run
    epsilon: Array
    delta: dict[str, Array]

    def to_rows(self) -> list[dict[str, float | str]]:
        """A row for every point and method."""
        return [
            {"epsilon": float(epsilon), "method": method, "delta": float(delta)}
            for method, deltas in self.delta.items()
            for epsilon, delta in zip(self.epsilon, deltas, strict=True)
        ]


def privacy_profile(
    run: Release,
    *,
    epsilons: ArrayLike | None = None,
    last_delta: float = 1e-10,
    points: int = 81,
    methods: Sequence[str] = RUN_METHODS,
) -> ProfileCurve:
    """Delta over epsilon, by each of `methods` that applies.

    Guarantee
    ---------
    Raises, or returns deltas that hold. They are within a thousandth above what the run itself answers, but for the
    exact ones of a loss with atoms (few rounds of Laplace noise), which may be wider. ``"exact"`` is left out where the
    run has no exact answer.

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
    if epsilons is None:
        at = np.linspace(0.0, last_epsilon(whole, last_delta), points)
    else:
        at = np.unique(_validate.real_array("epsilons", epsilons, _validate.FINITE_EPSILON))
        if not at.size:
            raise ParameterError("epsilons must hold one number or more, got none.")
    delta = _by_orders(whole, at, methods)
    if "exact" in methods and whole.has_moment_function:
        try:
            exact = exact_deltas(whole, at)
        except NumericalError:
            pass
        else:
            delta["exact"] = np.minimum(exact, delta["optimal"]) if "optimal" in delta else exact
    return ProfileCurve(run=whole, epsilon=at, delta=delta)


def last_epsilon(run: Run, delta: float) -> float:
    """Epsilon at `delta`, or at the next larger delta that has a finite one: where a picture may end."""
    found = (run.epsilon(delta=at) for at in (delta, *(larger for larger in LARGER_DELTAS if larger > delta)))
    last = next((epsilon for epsilon in found if epsilon < math.inf), SOME_EPSILON)
    return last if last > 0 else 1.0


def _by_orders(run: Run, at: Array, methods: Sequence[str]) -> dict[str, Array]:
    """Delta at each epsilon by the Rényi methods among `methods`."""
    mass = run.infinite_mass

    def rdps(orders: Array) -> Array:
        return np.broadcast_to(run.finite_rdp(orders), (at.size, orders.size))

    def convert(known: Array, orders: Array, method: str) -> Array:
        return np.asarray(delta_from_rdp(known, order=orders, epsilon=at[:, None], method=method))

    finite = least_by_orders(rdps, convert, methods, corners=table_orders(run))
    # m + (1 - m) δ, rounded up
    return {
        method: np.minimum((mass + (1.0 - mass) * deltas) * (1.0 + 4.0 * UNIT_ROUNDOFF) if mass else deltas, 1.0)
        for method, deltas in finite.items()
    }
