r"""One record that a Poisson sample of the others may hold: what it costs that it is present or absent.

With :math:`w = 1 - q + q\,dP/dQ` for the pair :math:`(P, Q)` of a mechanism, averaged over :math:`Q`,

.. math:: M_{\text{remove}}(z) = E[w^{z+1}], \qquad M_{\text{add}}(z) = E[w^{-z}].

docs/theory/mechanisms.md, "Poisson sampling".
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache, partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.law import LossLaw
from dprounds.mechanisms.base import ABSOLUTE_ERROR, BOTH_DIRECTIONS, RELATIVE_ERROR, REMOVE, Mechanism
from dprounds.mechanisms.sampling import (
    Sampleable,
    SampledLaw,
    Sloped,
    nothing_law,
    sampled_atoms,
    sampled_cells,
    sampled_excess,
)
from dprounds.numerics.cumulant import cumulants
from dprounds.numerics.mixture import log_mixture, log_mixture_ulps
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above

__all__ = ["one_record_law", "one_record_max_loss", "one_record_rdp"]

Array = NDArray[np.float64]

# These only tune speed.
# A loss of which the exponential of the negative is 0.
INFINITE = 1e4
# Every method scans the same few dozen orders first, and a table of methods or of rounds asks for them again and again.
# So few are remembered; more, which would fill the memory, are not.
MOST_REMEMBERED = 128


def one_record_law(of: object, mechanism: Mechanism, rate: float, direction: str) -> LossLaw:
    """The law of the loss at a rate in [0, 1], of a mechanism that can be sampled; messages name it as `of`."""
    inner = mechanism.law()
    slopes = mechanism.sampling_slopes(rate, direction) if isinstance(mechanism, Sloped) else None
    if rate == 1:
        return replace(inner, of=of, slopes=slopes)
    max_loss = one_record_max_loss(mechanism, rate, direction)
    if max_loss == 0:
        return nothing_law(of)
    sampled = _sampled(mechanism, rate, direction)
    return LossLaw(
        of=of,
        log_moment=partial(cumulants, sampled.laws_at),
        ceiling=sampled.ceiling,
        fewest_falling=sampled.fewest_falling,
        cells=None if inner.cells is None else partial(sampled_cells, inner.cells, rate, direction),
        excess=None if inner.excess is None else partial(sampled_excess, inner.excess, rate, direction),
        turnable=sampled.turnable,
        family=sampled.family,
        member=sampled.member,
        lattice=sampled.lattice,
        atoms=None if inner.atoms is None else sampled_atoms(inner.atoms, rate, direction),
        max_loss=max_loss,
        max_loss_is_least=inner.max_loss_is_least,
        seen=rate,
        most_nodes=sampled.most_nodes,
        slopes=slopes,
    )


def one_record_max_loss(mechanism: Mechanism, rate: float, direction: str) -> float:
    """The least upper bound of the finite losses. Errs upward by a margin."""
    inner = mechanism.max_loss()
    if rate in (0.0, 1.0):
        return rate * inner if rate else 0.0
    if inner == 0:
        return 0.0
    if direction == REMOVE and inner == math.inf:
        return math.inf
    v = np.array(inner if direction == REMOVE else -min(inner, INFINITE))
    log_mix = log_mixture(rate, v)
    error = UNIT_ROUNDOFF * log_mixture_ulps(rate, v, log_mix) * np.abs(log_mix)
    # by the least double too, where the loss is too small for doubles: zero means that nothing is released
    return float(above(np.abs(log_mix), error))


def one_record_rdp(mechanism: Mechanism, rate: float, orders: Array) -> Array:
    """Rényi bounds at a row of finite orders: those of the direction `remove`, which are the larger ones."""
    if _releases_nothing(mechanism, rate):
        return np.zeros_like(orders)
    if rate == 1:
        return mechanism._bounds(orders)
    bounds = np.empty_like(orders)
    is_sampled = orders <= _sampled(mechanism, rate, REMOVE).largest_order
    if is_sampled.any():
        few = np.count_nonzero(is_sampled) <= MOST_REMEMBERED
        asked = orders[is_sampled]
        bounds[is_sampled] = (
            _remembered_rdp(mechanism, rate, asked.tobytes()) if few else _sampled_rdp(mechanism, rate, asked)
        )
    if not is_sampled.all():
        # M is convex in the rate and one at rate 0, so the mechanism itself bounds it at every rate.
        bounds[~is_sampled] = mechanism._bounds(orders[~is_sampled])
    return bounds


def _sampled_rdp(mechanism: Mechanism, rate: float, orders: Array) -> Array:
    t = orders - 1.0
    bound, error = np.empty_like(t), np.empty_like(t)
    for indices, law in _sampled(mechanism, rate, REMOVE).laws_at(t):
        bound[indices], error[indices] = law.real_cumulant_with_error(t[indices])
    bound /= t
    return above(bound, (error + RELATIVE_ERROR) * bound + ABSOLUTE_ERROR)


@lru_cache(maxsize=256)
def _releases_nothing(mechanism: Mechanism, rate: float) -> bool:
    return max(one_record_max_loss(mechanism, rate, direction) for direction in BOTH_DIRECTIONS) == 0


@lru_cache(maxsize=256)
def _sampled(mechanism: Mechanism, rate: float, direction: str) -> SampledLaw:
    """At a rate in (0, 1)."""
    return cast(Sampleable, mechanism).sampled(rate, direction)  # whoever samples it has made sure


@lru_cache(maxsize=256)
def _remembered_rdp(mechanism: Mechanism, rate: float, orders: bytes) -> Array:
    """Rényi bounds at the orders behind these bytes."""
    return _sampled_rdp(mechanism, rate, np.frombuffer(orders))
