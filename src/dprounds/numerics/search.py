"""Roots of increasing functions, many at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError

__all__ = ["increasing_root"]

Array = NDArray[np.float64]

# Bisection alone, in ratio, takes a bracket of 2^2000 to a relative 1e-16 in 64 steps; Newton needs 3 to 8.
MOST_STEPS = 120


def increasing_root(
    function: Callable[..., tuple[Array, Array]],
    lower: Array,
    upper: Array,
    guess: Array,
    *parameters: Array,
    rtol: float,
) -> Array:
    """The x > 0 at which each of many increasing functions is zero.

    `function(x, *parameters)` returns the values and the slopes. Newton's step is taken where it stays inside the
    bracket, else the bracket is halved in ratio, so a poor slope costs time and never the answer. A value of NaN is
    not a sign: it raises. Elements that have converged are set aside, so a few hard ones do not hold up the rest.

    Guarantee
    ---------
    Raises `NumericalError`, or returns points whose last Newton step or bracket was within `rtol` of them.
    """
    root = np.clip(guess, lower, upper)
    active = np.arange(root.size)
    x = root.copy()
    low, high = lower.copy(), upper.copy()
    for _ in range(MOST_STEPS):
        value, slope = function(x, *parameters)
        if np.isnan(value).any():
            raise NumericalError("A root search met a value that is not a number.")
        low = np.where(value <= 0, x, low)
        high = np.where(value >= 0, x, high)
        step = x - value / slope
        near = np.abs(step - x) <= rtol * x  # at a bracket's end too, where the step may leave it by an ulp
        following = np.where((step > low) & (step < high) | near, step, np.sqrt(low) * np.sqrt(high))
        done = near | (high - low <= rtol * low)
        root[active] = following
        if done.all():
            return root
        if done.any():
            keep = ~done
            active, x, low, high = active[keep], following[keep], low[keep], high[keep]
            parameters = tuple(parameter[keep] for parameter in parameters)
        else:
            x = following
    raise NumericalError(f"A root search did not settle within {MOST_STEPS} steps.")
