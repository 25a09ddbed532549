"""The joint range of two divergences, with bounds on its edge."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds import _validate
from dprounds.conversions import METHODS, rdp_from_dp
from dprounds.curves.spacing import deltas_to_draw
from dprounds.divergences import Divergence, hockey_stick, joint_range, renyi

__all__ = ["JointRangePicture", "conversion_picture", "joint_range_picture"]

Array = NDArray[np.float64]

ORDER = _validate.Interval.parse("(1, 1e6]")
# What an axis says of the divergences that have no unit in their name.
AXES = {
    "total_variation": "total variation (probability)",
    "kl": "Kullback-Leibler divergence (nats)",
    "reverse_kl": "reverse Kullback-Leibler divergence (nats)",
    "squared_hellinger": "squared Hellinger distance",
    "chi_squared": "chi-squared divergence",
    "jensen_shannon": "Jensen-Shannon divergence (nats)",
    "le_cam": "Le Cam divergence",
}
INSIDE = _validate.Interval.parse("(0, 1)")
# Where the deltas end that are drawn; beyond one that is to be seen, at this part of its distance from 1.
LAST_DELTA = 0.99
NEARER = 0.1
MOST_DELTA = 1.0 - 1e-15
# And where they begin, seen from it.
SMALLER = 1e-3
# A joint range has no smaller values.
LEAST_DELTA = 1e-249
SEEN = _validate.Interval.parse("[1e-249, 1)")


@dataclass(frozen=True, kw_only=True, eq=False)
class JointRangePicture:
    """All values that two divergences can have together.

    Attributes
    ----------
    first, second
        What the two are, as an axis says it.
    value
        Values of the first divergence, increasing.
    least, greatest
        The range of the second at each; the greatest may be inf.
    bounds
        For each method, what it proves of the second at each value of the first: never above `least`.
    """

    first: str
    second: str
    value: Array
    least: Array
    greatest: Array
    bounds: dict[str, Array]

    def to_rows(self) -> list[dict[str, float]]:
        """A row for every value of the first divergence; a greatest that is not finite is left out."""
        rows = []
        for i, value in enumerate(self.value):
            row = {"value": float(value), "least": float(self.least[i])}
            if self.greatest[i] < math.inf:
                row["greatest"] = float(self.greatest[i])
            row.update((method, float(bound[i])) for method, bound in self.bounds.items())
            rows.append({name: number for name, number in row.items() if number < math.inf})
        return rows


def joint_range_picture(
    f: Divergence | Callable[[Array], ArrayLike],
    g: Divergence | Callable[[Array], ArrayLike],
    *,
    points: int = 101,
    upto: float | None = None,
) -> JointRangePicture:
    """Both edges of the joint range of two f-divergences, at equally spaced values of the first.

    The parameters are those of `joint_range` and of its `region`.

    Examples
    --------
    >>> from dprounds.divergences import squared_hellinger, total_variation
    >>> picture = joint_range_picture(total_variation, squared_hellinger, points=3)
    >>> picture.least.round(3).tolist(), picture.greatest.round(3).tolist()
    ([0.0, 0.134, 1.0], [0.0, 0.5, 1.0])
    """
    both = joint_range(f, g)
    region = both.region(points, upto=upto)
    return JointRangePicture(
        first=AXES.get(str(both.f), str(both.f)),
        second=AXES.get(str(both.g), str(both.g)),
        value=region.value,
        least=region.least,
        greatest=region.greatest,
        bounds={},
    )


def conversion_picture(
    *,
    epsilon: float,
    order: float,
    points: int = 121,
    upto: float | None = None,
    delta: float | None = None,
    methods: Sequence[str] = METHODS,
) -> JointRangePicture:
    """The joint range of delta at `epsilon` and the Rényi divergence of `order`, and what each method makes of it.

    Its lower edge is the optimal conversion: no method can promise a larger Rényi budget for a delta. The points are
    proven. The edge rises steeply at both ends, where they are denser; a straight line between two of them is off by
    less than a line is wide.

    Parameters
    ----------
    epsilon
        In nats, in [0, inf).
    order
        Rényi order, in (1, 1e6].
    points
        How many values of delta, at least 2.
    upto
        The last of them, in (0, 1), since at one the Rényi divergence is inf; by default 0.99, or beyond `delta`.
    delta
        A delta in [1e-249, 1) that is to be seen: it is among the points, which are even in their logarithm and begin a
        thousand times lower. Without it they begin at 0.
    methods
        Which of the four, in any order.

    Examples
    --------
    >>> picture = conversion_picture(epsilon=1.0, order=4.0, points=3, upto=0.5)
    >>> {method: bound.round(3).tolist() for method, bound in picture.bounds.items()}["optimal"]
    [0.0, 0.836, 1.693]
    """
    epsilon = _validate.real("epsilon", epsilon, _validate.FINITE_EPSILON)
    order = _validate.real("order", order, ORDER)
    points = _validate.count("points", points, least=2)
    chosen = {_validate.choice("methods", method, METHODS) for method in methods}
    seen = None if delta is None else _validate.real("delta", delta, SEEN)
    if upto is not None:
        last = _validate.real("upto", upto, INSIDE)
    else:
        last = LAST_DELTA if seen is None else max(LAST_DELTA, min(1.0 - NEARER * (1.0 - seen), MOST_DELTA))
    both = joint_range(hockey_stick(epsilon), renyi(order))
    if seen is None:
        value = deltas_to_draw(0.0, last, points)
    else:
        value = np.union1d(deltas_to_draw(min(max(SMALLER * seen, LEAST_DELTA), 0.5 * last), last, points), [seen])
    some = value > 0
    bounds = {}
    for method in METHODS:
        if method in chosen:
            bounds[method] = np.zeros_like(value)
            bounds[method][some] = rdp_from_dp(epsilon, order=order, delta=value[some], method=method)
    return JointRangePicture(
        first=f"δ at ε {_equals(epsilon)} (failure mass)",
        second=f"Rényi divergence of order {order:.12g} (nats)",
        value=value,
        least=np.asarray(both.least(value).value),
        greatest=np.asarray(both.greatest(value).value),
        bounds=bounds,
    )


def _equals(value: float) -> str:
    """What a label says of a number: all of it, or about five digits of it."""
    return f"= {value:g}" if float(f"{value:g}") == value else f"≈ {value:.5g}"
