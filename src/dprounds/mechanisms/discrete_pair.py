"""Any pair of discrete laws, given by their masses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import Interval, real_array
from dprounds.accounting.bracket import Bracket
from dprounds.accounting.cells import atoms_in_cells
from dprounds.accounting.law import Lattice, LossLaw
from dprounds.errors import ParameterError
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import (
    ABSOLUTE_ERROR,
    ADD,
    BOTH_DIRECTIONS,
    RELATIVE_ERROR,
    REMOVE,
    Mechanism,
)
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.cumulant import TiltableLaw
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above

__all__ = ["DiscretePair"]

Array = NDArray[np.float64]

MASS = Interval.parse("[0, 1]")
# Probabilities that were rounded to doubles sum to one up to so many units for each, and a few. What is missing beyond
# that is an outcome that was left out, which may tell everything.
UNITS_OF_A_SUM = 16.0
# Outcomes of one pair, each of which is a double of a tuple.
MOST_OUTCOMES = 2**20

# --- What carries a proof.

# Masses are taken as they are given; they are summed, and multiplied by a share.
MASS_ERROR = 8.0 * UNIT_ROUNDOFF
# Units of rounding of a loss relative to itself: next to one the difference of two masses is exact, and log1p is used.
LOSS_UNITS = 8.0

# --- What only tunes tightness.

# Losses that differ from the points of a lattice by no more than rounding, as a part of the largest one, lie on it. K
# is that of the losses, so a larger difference would not be covered by the error of K.
ON_LATTICE = 4.0 * LOSS_UNITS * UNIT_ROUNDOFF
LARGEST_MULTIPLE = 2**8
# A largest loss above this is known to a small part of itself, whatever the sums of the masses are rounded by.
LEAST_SHARP_LOSS = 1e-6


@dataclass(frozen=True, repr=False)
class DiscretePair(Accounted, Mechanism):
    r"""A mechanism whose worst pair of neighbours has finitely many outcomes, of probabilities `p` and `q`.

    .. math:: K(z) = \log \sum_{p_i, q_i > 0} p_i\,(p_i/q_i)^z, \qquad P(L = \infty) = \sum_{q_i = 0} p_i

    in one direction, and with p and q exchanged in the other. The pair must dominate: at every epsilon no pair of
    neighbours is easier to tell apart, in either direction.

    Parameters
    ----------
    p, q
        Probabilities in [0, 1] of the same outcomes under both laws; each row sums to one, up to rounding.

    Theorem
    -------
    [ZDW22, Theorem 10] for the composition of pairs that dominate; docs/theory/mechanisms.md.

    Examples
    --------
    A survey of ten answers, of which the true one is twice as likely as any other:

    >>> truth = DiscretePair([2 / 11, 1 / 11] + [1 / 11] * 8, [1 / 11, 2 / 11] + [1 / 11] * 8)
    >>> round(truth.rdp(order=2.0), 6), round((truth * 50).epsilon(delta=1e-6), 4)
    (0.127833, 14.7958)
    """

    p: Sequence[float]
    q: Sequence[float]

    def __post_init__(self) -> None:
        p, q = (real_array(name, values, MASS) for name, values in (("p", self.p), ("q", self.q)))
        if p.ndim != 1 or p.shape != q.shape or not 0 < p.size <= MOST_OUTCOMES:
            raise ParameterError(
                f"p and q must be rows of one length in [1, {MOST_OUTCOMES}], got shapes {p.shape} and {q.shape}."
            )
        for name, row in (("p", p), ("q", q)):
            defect = math.fsum([*row.tolist(), -1.0])
            if not abs(defect) <= (UNITS_OF_A_SUM + row.size) * UNIT_ROUNDOFF:
                raise ParameterError(
                    f"{name} must sum to 1 up to rounding, got 1 {'+' if defect > 0 else '-'} {abs(defect):g}. "
                    "Name what is left out as an outcome, or divide by the sum if nothing is."
                )
        self._set(p=tuple(p.tolist()), q=tuple(q.tolist()))

    @property
    def directions(self) -> tuple[str, ...]:
        """Both, unless the outcomes can be paired so that exchanging p and q changes nothing."""
        forth, back = sorted(zip(self.p, self.q, strict=True)), sorted(zip(self.q, self.p, strict=True))
        return (REMOVE,) if forth == back else BOTH_DIRECTIONS

    @property
    def infinite_mass(self) -> float:
        """The larger of the masses that one law has where the other has none."""
        return max(self.law(direction).infinite_mass for direction in self.directions)

    def _rdp(self, orders: Array) -> Array:
        if self.infinite_mass:
            return np.full(orders.shape, math.inf)
        return self._finite_bounds(orders)

    def finite_rdp(self, orders: Array) -> Array:
        """The larger one of both directions, of the losses that are finite."""
        return self._finite_bounds(orders)

    def _finite_bounds(self, orders: Array) -> Array:
        bounds = np.zeros_like(orders)
        for direction in self.directions:
            law, at = self._atoms(direction), np.isfinite(orders)
            here = np.full(orders.shape, law.largest + max(law.log_ratio, 0.0))
            t = orders[at] - 1.0
            if law.largest > 0:
                # that of the two laws given that the outcome is possible under both; the losses are those of these laws
                # less the ratio, which is credited to nobody: conversions speak of laws of mass one
                value, error = law.law.real_cumulant_with_error(t)
                raised = value - t * min(law.log_ratio, 0.0)
                margin = (error + RELATIVE_ERROR) * value + 4.0 * UNIT_ROUNDOFF * raised
                here[at] = above(raised / t, margin / t + ABSOLUTE_ERROR)
            bounds = np.maximum(bounds, here)
        return bounds

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        return self._atoms(direction).log_moment(z)

    def _max_loss(self, direction: str) -> float:
        return self._atoms(direction).largest

    def _atoms(self, direction: str) -> _Atoms:
        p, q = np.array(self.p), np.array(self.q)
        return _Atoms.of(q, p) if direction == ADD else _Atoms.of(p, q)

    def _law(self, direction: str) -> LossLaw:
        atoms = self._atoms(direction)
        blur = atoms.blur
        return LossLaw(
            of=self,
            log_moment=atoms.log_moment,
            cells=partial(atoms_in_cells, losses=atoms.losses, p=atoms.p, q=atoms.q, error=atoms.mass_error, blur=blur)
            if atoms.losses.size
            else None,
            excess=None if atoms.infinite_mass else atoms.excess,
            lattice=_lattice(atoms.losses, blur),
            infinite_mass=atoms.infinite_mass,
            max_loss=atoms.largest,
            max_loss_is_least=atoms.largest > LEAST_SHARP_LOSS,
        )


@dataclass(frozen=True, eq=False)
class _Atoms:
    """Outcomes that are possible under both laws, by increasing loss, and the mass of the others under the first."""

    p: Array
    q: Array
    losses: Array
    infinite_mass: float
    log_mass: float  # of all these outcomes under the first law
    log_ratio: float  # of that under the second law to that under the first
    moved: float  # by how much all losses were moved, for masses that sum to one
    mass_error: float  # by how much of themselves masses may be off, their sum to one included
    law: TiltableLaw

    @classmethod
    def of(cls, p: Array, q: Array) -> _Atoms:
        both = (p > 0) & (q > 0)
        infinite, is_whole = math.fsum(p[~both]), not ((p > 0) ^ (q > 0)).any()
        p, q = p[both], q[both]
        losses = _log_ratios(p, q)
        order = np.argsort(losses, kind="stable")
        p, q, losses = p[order], q[order], losses[order]
        log_mass = log_ratio = 0.0
        if p.size:  # sums and their difference are exact up to one rounding each
            log_mass = _log_of_quotient(math.fsum(p), 1.0, math.fsum([*p.tolist(), -1.0]))
            log_ratio = _log_of_quotient(math.fsum(q), math.fsum(p), math.fsum([*q.tolist(), *(-p).tolist()]))
        moved = 0.0
        if is_whole:  # the masses are those of two laws, divided by their sums
            moved, losses, log_ratio = abs(log_ratio), losses + log_ratio, 0.0
        # the law given these outcomes, whose negative exponential has mean one
        shifted = losses + log_ratio
        size = np.abs(losses) + abs(log_ratio)
        ulps = 4.0 * LOSS_UNITS * (1.0 + size / np.where(shifted == 0, 1.0, np.abs(shifted)))
        law = TiltableLaw(np.log(p) - log_mass, shifted, ulps)
        mass_error = MASS_ERROR + (UNITS_OF_A_SUM + p.size) * UNIT_ROUNDOFF
        mass = min(float(above(np.array(infinite), MASS_ERROR * infinite)), 1.0) if infinite else 0.0
        return cls(p, q, losses, mass, log_mass, log_ratio, moved, mass_error, law)

    @property
    def blur(self) -> float:
        """By how much any loss may be off."""
        return LOSS_UNITS * UNIT_ROUNDOFF * (float(np.abs(self.losses).max(initial=0.0)) + self.moved)

    @property
    def largest(self) -> float:
        """An upper bound on the losses."""
        if not self.losses.size or not (self.losses != 0).any():
            return 0.0
        loss = self.losses[-1]
        return max(float(above(loss, LOSS_UNITS * UNIT_ROUNDOFF * (abs(loss) + self.moved))), 0.0)

    def log_moment(self, z: Numbers) -> Numbers:
        """K at a row of points."""
        if not self.losses.size:
            return np.full_like(z, -math.inf)
        if not (self.losses != 0).any():
            return np.full_like(z, self.log_mass if self.infinite_mass else 0.0)
        if np.iscomplexobj(z):
            value: Numbers = self.law.complex_cumulant(z.astype(np.complex128))
        else:
            value = self.law.real_cumulant(z.real)
        if self.log_ratio:
            value = value - z * self.log_ratio
        if self.infinite_mass:
            return value + self.log_mass
        if np.iscomplexobj(z):
            return value
        # rounding may put K of tiny losses below 0, or above what the largest loss allows: it is between these
        return np.where(z.real > 0, np.clip(value.real, 0.0, np.maximum(z.real, 0.0) * self.largest), value.real)

    def excess(self, level: float) -> Bracket:
        """The sum of p (1 - exp(level - loss)) over the losses above the level: no term is negative."""
        shares = -np.expm1(np.minimum(level - self.losses, 0.0))
        off = LOSS_UNITS * UNIT_ROUNDOFF * (level + np.abs(self.losses)) + self.blur
        off = np.where(level - self.losses > off, 0.0, off) + (self.mass_error + 4.0 * UNIT_ROUNDOFF) * shares
        value = float(self.p @ shares)
        error = float(self.p @ off) * (1.0 + 1e-9) + UNIT_ROUNDOFF * self.p.size * value + 5e-324
        return Bracket(max(value - error, 0.0), min(value + error, 1.0))


def _log_of_quotient(part: float, whole: float, difference: float) -> float:
    """``log(part / whole)`` to a few units of itself, given ``part - whole``, which is close where they are alike."""
    return math.log1p(difference / whole) if abs(difference) <= 0.5 * whole else math.log(part) - math.log(whole)


def _log_ratios(p: Array, q: Array) -> Array:
    """``log(p / q)`` to a few units of itself, for positive masses.

    The logarithms of rare outcomes are large, and their difference would have the rounding of those.
    """
    with np.errstate(over="ignore", under="ignore"):
        close = np.abs(p - q) <= 0.5 * q  # there the difference is exact, and its ratio to q is small
        ratio = p / q
        # a quotient that is no normal double has lost its digits, but then the logarithms differ by 700 and more
        held = (ratio >= np.finfo(np.float64).tiny) & (ratio < math.inf)
    far = np.where(held, np.log(np.where(held, ratio, 1.0)), np.log(p) - np.log(q))
    return np.asarray(np.where(close, np.log1p(np.where(close, p - q, 0.0) / q), far))


def _lattice(losses: Array, blur: float) -> Lattice | None:
    """The lattice on which all losses lie, up to their blur, if there is one."""
    gaps = np.diff(losses)
    gaps = gaps[gaps > 4.0 * blur]
    if not gaps.size:
        return None
    step = float(gaps.min())
    step = float(losses[-1] - losses[0]) / round(float(losses[-1] - losses[0]) / step)
    multiples = np.round((losses - losses[0]) / step)
    off = float(np.abs(losses[0] + step * multiples - losses).max())
    if not (off <= ON_LATTICE * float(np.abs(losses).max()) and multiples[-1] <= LARGEST_MULTIPLE):
        return None
    # the points are exact as fractions; the losses differ from them by what is seen, and by their own blur
    rounding = 4.0 * UNIT_ROUNDOFF * float(np.abs(losses).max())
    return Lattice(Fraction(step), Fraction(float(losses[0])), off + blur + rounding)
