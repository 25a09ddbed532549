"""The paper's figures and claims, recomputed.

*A Better Bound Gives a Hundred Rounds: Enhanced Privacy Guarantees via f-Divergences* [ALCKS20], under its own names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds.conversions import rdp_from_dp

__all__ = ["Figure1Curve", "figure_1"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Figure1Curve:
    """One pair of curves of Figure 1: γ over δ at one order and epsilon."""

    order: float
    epsilon: float
    delta: Array
    optimal: Array
    theorem_4: Array


def figure_1(
    pairs: Sequence[tuple[float, float]] = ((2.0, 0.1), (4.0, 0.5), (10.0, 1.0)), *, points: int = 300
) -> tuple[Figure1Curve, ...]:
    """The exact γ and Theorem 4's lower bound over δ, for each pair (order, epsilon).

    The paper does not print its three pairs; these show all that its Figure 1 shows: the bound on the curve from
    order · δ = 1 on, close below it before, and farthest at small orders.

    Examples
    --------
    >>> [bool((curve.theorem_4 <= curve.optimal).all()) for curve in figure_1(points=50)]
    [True, True, True]
    """
    # half a step inside (0, 1), where the curves live
    delta = (np.arange(points) + 0.5) / points
    return tuple(
        Figure1Curve(
            order=order,
            epsilon=epsilon,
            delta=delta,
            optimal=np.asarray(rdp_from_dp(epsilon, order=order, delta=delta)),
            theorem_4=np.asarray(rdp_from_dp(epsilon, order=order, delta=delta, method="closed-form")),
        )
        for order, epsilon in pairs
    )
