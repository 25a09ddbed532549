"""A Rényi curve that is known at some orders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import ORDER, RDP, real_array, show
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import ABSOLUTE_ERROR, RELATIVE_ERROR, Mechanism
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.rounding import above

__all__ = ["RdpCurve"]

Array = NDArray[np.float64]

# Tables are printed to ten digits or so, and flat ones waver by their rounding. No bound here rests on a table that
# does not fall, so what this lets through is as safe as the entries are.
ROUNDING = 1e-9


@dataclass(frozen=True, repr=False)
class RdpCurve(Accounted, Mechanism):
    r"""Any mechanism whose Rényi divergence of each of `orders` is at most the entry of `rdps` at the same place.

    Between orders :math:`(\alpha - 1)\gamma(\alpha)` is interpolated linearly: it is convex, so each of its chords lies
    above it, and the lowest is taken. Below the first order the curve does not exceed its first value, because it never
    falls. Above the last finite order it is ``inf``, unless the infinite order is given, which bounds the slope from
    there on.

    Parameters
    ----------
    orders
        Rényi orders in (1, inf], strictly increasing.
    rdps
        As many bounds in [0, inf], which do not fall but by rounding (a relative 1e-9).

    Theorem
    -------
    [EH14, Theorem 3 and Corollary 2]; docs/theory/mechanisms.md.

    Examples
    --------
    >>> curve = RdpCurve(orders=[2.0, 4.0], rdps=[0.5, 1.0])
    >>> curve.rdp([1.5, 2.0, 3.0, 5.0]).round(6).tolist()
    [0.5, 0.5, 0.875, inf]
    """

    orders: Sequence[float]
    rdps: Sequence[float]

    def __post_init__(self) -> None:
        orders = real_array("orders", self.orders, ORDER)
        rdps = real_array("rdps", self.rdps, RDP)
        if orders.ndim != 1 or orders.shape != rdps.shape or not orders.size:
            raise ParameterError(
                "orders and rdps must be rows of the same length, at least one, "
                f"got shapes {orders.shape} and {rdps.shape}."
            )
        if not (orders[1:] > orders[:-1]).all():
            raise ParameterError(f"orders must be strictly increasing, got {show(orders.tolist())}.")
        if not (rdps[1:] >= rdps[:-1] * (1.0 - ROUNDING)).all():
            raise ParameterError(
                f"rdps must not fall as the order grows, got {show(rdps.tolist())}. A bound at a higher order holds at "
                "the lower ones too: pass numpy.minimum.accumulate(rdps[::-1])[::-1]."
            )
        self._set(orders=tuple(orders.tolist()), rdps=tuple(rdps.tolist()))

    @property
    def has_moment_function(self) -> bool:
        """Never: a curve on the real line does not fix the moments off it."""
        return False

    @property
    def infinite_mass(self) -> float:
        """Zero if any order is bounded, for a finite moment leaves no mass at infinity; one if nothing is known."""
        return 0.0 if self.rdps[0] < math.inf else 1.0

    def _rdp(self, orders: Array) -> Array:
        if self.rdps[-1] == 0:
            # The first value that is not zero is infinity or none, so there is nothing to interpolate below the last.
            return np.where(orders <= self.orders[-1], 0.0, math.inf)
        corners = self._corners()
        if not corners:
            # Only the infinite order, or nothing, is bounded; it bounds them all.
            return np.full(orders.shape, self._slope_at_infinity())
        known, bounds = np.array(corners).T
        chord = np.interp(orders - 1.0, known - 1.0, (known - 1.0) * bounds)
        beyond = np.maximum(orders - known[-1], 0.0)
        rise = np.where(beyond > 0, np.where(beyond > 0, beyond, 1.0) * self._slope_at_infinity(), 0.0)
        bound = np.where(orders <= known[0], bounds[0], (chord + rise) / (orders - 1.0))
        return above(bound, RELATIVE_ERROR * bound + ABSOLUTE_ERROR)

    def _corners(self) -> list[tuple[float, float]]:
        """The entries that no chord between two others, or from the origin, undercuts: those of a convex function."""
        corners: list[tuple[float, float]] = []
        for order, rdp in self._finite():
            while corners:
                # K at the last corner, and the chord from the one before it, or from 0 at order 1, to this entry
                last, bound = corners[-1]
                before, level = corners[-2] if len(corners) > 1 else (1.0, 0.0)
                share = (last - before) / (order - before)
                if (last - 1.0) * bound <= (1.0 - share) * (before - 1.0) * level + share * (order - 1.0) * rdp:
                    break
                corners.pop()
            corners.append((order, rdp))
        return corners

    def _finite(self) -> list[tuple[float, float]]:
        """The finite orders whose bound is finite; the others bound nothing."""
        return [(a, g) for a, g in zip(self.orders, self.rdps, strict=True) if a < math.inf and g < math.inf]

    def _slope_at_infinity(self) -> float:
        """A bound on the privacy loss itself, the Rényi bound of infinite order."""
        return self.rdps[-1] if self.orders[-1] == math.inf else math.inf

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        raise UnsupportedError("RdpCurve has no moment function.")

    def _max_loss(self, direction: str) -> float:
        return self._slope_at_infinity()
