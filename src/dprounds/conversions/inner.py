"""The conversions behind the public functions: arrays of one shape in, none of them checked.

One file per theorem family; here the limits are put in their places, delta 0 and everything infinite, and long rows are
worked through in blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from dprounds.conversions import balle, closed_form, moments, optimal
from dprounds.errors import NumericalError

__all__ = ["METHODS", "converted_delta", "converted_epsilon", "converted_rdp", "in_blocks"]

Array = NDArray[np.float64]

_FAMILIES: dict[str, ModuleType] = {
    "moments": moments,
    "balle": balle,
    "closed-form": closed_form,
    "optimal": optimal,
}
METHODS = tuple(_FAMILIES)


# Elements converted at a time. Some thirty temporaries of this many doubles fit in a core's second-level cache.
ELEMENTS_PER_BLOCK = 4096


def in_blocks(function: Callable[..., Array | tuple[Array, ...]], *arguments: Array, outputs: int = 1) -> list[Array]:
    """`function` over flattened arguments, block by block; raises rather than hand on a NaN."""
    size = arguments[0].size
    if not size:
        return [np.empty(0)] * outputs
    parts = []
    # Every branch of a formula is computed for every element, and the right one is chosen afterwards. Overflow or 0/0
    # in a branch that is not chosen does no harm. In a chosen one it is caught as NaN below.
    with np.errstate(all="ignore"):
        for start in range(0, size, ELEMENTS_PER_BLOCK):
            block = itemgetter(slice(start, start + ELEMENTS_PER_BLOCK))
            parts.append(np.atleast_2d(function(*map(block, arguments))))
    answer = np.concatenate(parts, axis=1)
    if np.isnan(answer).any():
        raise NumericalError("The conversion lost all precision for these arguments; please report them.")
    return list(answer)


def converted_epsilon(rdp: Array, order: Array, delta: Array, method: str) -> Array:
    """Epsilon at `delta`, as `epsilon_from_rdp` explains it."""
    family = _FAMILIES[method]
    (answer,) = in_blocks(family.epsilon, _resolved(rdp, order), order.ravel(), _positive(delta))
    # At delta 0 the infinite order is the pure guarantee itself. A finite order bounds no largest loss, unless its rdp
    # is zero: then the two laws are equal, which only the paper's formulas account for.
    knows_zero = family in (closed_form, optimal)
    pure = np.where(order < np.inf, np.where((rdp == 0.0) & knows_zero, 0.0, np.inf), rdp).ravel()
    answer = np.where(delta.ravel() > 0.0, answer, pure)
    return np.where(rdp.ravel() < np.inf, answer, np.inf).reshape(rdp.shape)


def converted_delta(rdp: Array, order: Array, epsilon: Array, method: str) -> Array:
    """Delta at `epsilon`, as `delta_from_rdp` explains it."""
    (answer,) = in_blocks(_FAMILIES[method].delta, _resolved(rdp, order), order.ravel(), _finite(epsilon))
    # a finite Rényi divergence leaves no mass outside the other's support, so at epsilon = inf delta is zero
    answer = np.where(epsilon.ravel() < np.inf, answer, 0.0)
    return np.where(rdp.ravel() < np.inf, answer, 1.0).reshape(rdp.shape)


def converted_rdp(epsilon: Array, order: Array, delta: Array, method: str) -> Array:
    """The budget of a target, as `rdp_from_dp` explains it."""
    (answer,) = in_blocks(_FAMILIES[method].rdp, _finite(epsilon), order.ravel(), _positive(delta))
    # at delta 0 only the infinite order certifies anything, and what it does is the target itself
    answer = np.where(delta.ravel() > 0.0, answer, np.where(order < np.inf, 0.0, epsilon).ravel())
    return np.where(epsilon.ravel() < np.inf, answer, np.inf).reshape(epsilon.shape)


def _resolved(rdp: Array, order: Array) -> Array:
    """`rdp`, flat, raised where (order - 1) rdp would be too small for doubles to keep its digits; zero stays zero."""
    least = 2.3e-308 / np.minimum(order - 1.0, 1.0)  # the least normal double
    return _finite(np.where(rdp > 0.0, np.maximum(rdp, least), 0.0))


def _positive(deltas: Array) -> Array:
    """`deltas`, flat, with 0.5 in the place of 0: the callers put the limit's answer there."""
    return np.where(deltas > 0.0, deltas, 0.5).ravel()


def _finite(values: Array) -> Array:
    """`values`, flat, with 1 in the place of `inf`: the callers put the limit's answer there."""
    return np.where(values < np.inf, values, 1.0).ravel()
