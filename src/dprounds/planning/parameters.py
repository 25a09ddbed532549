"""How much noise a run needs, and at which rate it may sample."""

from __future__ import annotations

import math
from collections.abc import Callable

from dprounds.errors import InfeasibleError
from dprounds.mechanisms.base import Release
from dprounds.numerics.search import largest_integer
from dprounds.planning.plan import Plan, checked_release
from dprounds.planning.search import Search

__all__ = [
    "max_sampling_rate",
    "min_noise_multiplier",
    "plan_batch_size",
    "plan_noise_multiplier",
    "plan_sampling_rate",
]

# Noise multipliers outside of this range are no noise at all, or no signal.
NOISE_RANGE = (1e-6, 1e9)
# A lower sampling rate than this samples nobody from any data set there is.
LEAST_RATE = 1e-12


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
        Failure mass, in [0, 1).
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
    search = Search.of(make_run, epsilon, delta, method, tolerance)
    low, high = NOISE_RANGE
    found = search.least(low, high)
    if found is None:
        cost = search.epsilon_of(high)
        raise InfeasibleError(
            f"No noise_multiplier up to {high:g} meets epsilon={epsilon:g} at delta={delta:g}: there epsilon is still "
            f"{cost:.6g}. " + _remedy(cost, delta, "Raise epsilon or delta, plan fewer rounds")
        )
    if found == low:
        raise InfeasibleError(
            f"Every noise_multiplier down to {low:g} meets epsilon={epsilon:g} at delta={delta:g}: the budget is "
            "larger than the run can spend. Check its rounds, its sampling rate and the budget."
        )
    return Plan(found, search.epsilon and search.cost(found))


def _remedy(cost: float, delta: float, remedies: str) -> str:
    """What would help; at delta 0 nothing but another delta, where the noise has no largest loss."""
    if not delta and cost == math.inf:
        return "The loss of this noise has no largest value, so at delta=0 no epsilon holds. Choose delta above 0."
    return f"{remedies}, or leave out what costs that much by itself."


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
        The run that a sampling rate makes; it must cost more as the rate grows.
    epsilon
        Budget in nats, in [0, inf).
    delta
        Failure mass, in [0, 1).
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
    # in 1/q, as in the noise, less costs more
    search = Search.of(make_run, epsilon, delta, method, tolerance, inverted=True)
    found = search.least(1.0, 1.0 / LEAST_RATE)
    if found is None:
        cost = search.epsilon_of(1.0 / LEAST_RATE)
        raise InfeasibleError(
            f"No sampling_rate down to {LEAST_RATE:g} meets epsilon={epsilon:g} at delta={delta:g}: there epsilon is "
            f"still {cost:.6g}. " + _remedy(cost, delta, "Raise epsilon or delta, add noise, plan fewer rounds")
        )
    return Plan(1.0 / found, search.epsilon and search.cost(found))


def plan_batch_size(
    make_run: Callable[[float], Release],
    dataset_size: int,
    *,
    epsilon: float,
    delta: float,
    method: str | None = None,
) -> Plan:
    """A large batch whose run, ``make_run(batch / dataset_size)``, is within the budget, with its epsilon.

    For runs whose rounds follow from the rate, so that no rate between two batches has a meaning. Raises
    `InfeasibleError` if there is none; the next larger batch, unless the answer is all records, exceeds the budget. If
    of the batches that are the smallest for their number of batches an epoch the larger one always costs more, as it
    does unless the noise is small, it is the largest batch of all.
    """
    search = Search.of(make_run, epsilon, delta, method, tolerance=1e-6, inverted=True)
    guess, _ = search.guess(1.0, float(dataset_size))
    costs: dict[int, float] = {0: 0.0}

    def cost(batch: int) -> float:
        if batch not in costs:  # at the very rate that is meant, which search would take by its inverse
            run = checked_release("what make_run returns", make_run(batch / dataset_size)) * 1
            costs[batch] = search.cost_of(run)
        return costs[batch]

    def smallest(batch: int) -> int:
        """The smallest batch of which an epoch needs no more than of this one."""
        return -(-dataset_size // -(-dataset_size // batch)) if batch else 0

    # Of batches that make as many rounds the larger cost more; where they make fewer rounds, costs fall back.
    last = largest_integer(
        lambda batch: cost(smallest(batch)),
        search.limit,
        guess=max(int(dataset_size / guess), 1),
        most=dataset_size,
    )
    first = smallest(last or 0)
    more = largest_integer(lambda extra: cost(first + extra), search.limit, guess=0, most=(last or 0) - first)
    best = first + (more or 0)
    if not best:
        raise InfeasibleError(
            f"Not even batches of one out of {dataset_size:,} meet epsilon={epsilon:g} at delta={delta:g}. "
            "Raise epsilon or delta, add noise, or plan fewer rounds."
        )
    return Plan(best, search.epsilon and costs[best])
