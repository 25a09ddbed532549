"""Gaussian noise on a sum that moves by one of several distances, each with its probability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import NOISE_MULTIPLIER, Interval, real, real_array
from dprounds.accounting.bracket import Bracket
from dprounds.accounting.cells import Cells
from dprounds.accounting.law import LossLaw
from dprounds.errors import NumericalError, ParameterError
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import (
    ABSOLUTE_ERROR,
    ADD,
    BOTH_DIRECTIONS,
    RELATIVE_ERROR,
    REMOVE,
    Mechanism,
)
from dprounds.mechanisms.gaussian import Gaussian
from dprounds.mechanisms.sampled_gaussian import normal_cells, sampled_normal_pair
from dprounds.mechanisms.sampling import SampledLaw, nothing_law
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.cumulant import cumulants
from dprounds.numerics.mixture import Mixture
from dprounds.numerics.normal import Estimate, normal_excess
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above
from dprounds.numerics.special import ndtr

__all__ = ["MixtureOfGaussians"]

Array = NDArray[np.float64]

SHIFT = Interval.parse("[0, inf)")
PROBABILITY = Interval.parse("[0, 1]")
# Components, each of which costs an exponential a node.
MOST_SHIFTS = 1024
# Beyond this cost the farthest shift alone tells as much.
LARGEST_COST = 1e15

# --- What carries a proof; docs/theory/loaders.md.

# Probabilities that were rounded to doubles sum to one up to so many units for each, and a few.
UNITS_OF_A_SUM = 16.0


@dataclass(frozen=True, repr=False)
class MixtureOfGaussians(Accounted, Mechanism):
    r"""A sum that the record moves by at most `shifts[i]` with probability `probabilities[i]`, plus normal noise.

    The worst pair is :math:`P = \sum_i p_i N(s_i, \sigma^2)` against :math:`Q = N(0, \sigma^2)`. With
    :math:`w(x) = \sum_i p_i\,e^{(2 s_i x - s_i^2)/2\sigma^2}`, averaged over :math:`Q`,

    .. math:: M_{\text{remove}}(z) = E[w^{z+1}], \qquad M_{\text{add}}(z) = E[w^{-z}].

    The shifts bound L2 norms of vectors, whose directions may be any and may depend on all that was released before.
    Which of them it is must be chosen by chance, independently of the data and of other rounds, and stay secret.

    Parameters
    ----------
    noise_multiplier
        The standard deviation of the noise, in the unit of the shifts, in (0, inf).
    shifts
        By how much the record moves the sum, each in [0, inf).
    probabilities
        Of the shifts, each in [0, 1]; they sum to one, up to rounding.

    Theorem
    -------
    [Gan24]; docs/theory/loaders.md, "Groups".

    Examples
    --------
    Three records of one person, each of which is sampled by itself with probability 1/100:

    >>> bound = MixtureOfGaussians(2.0, shifts=(0, 1, 2, 3), probabilities=(0.970299, 0.029403, 0.000297, 0.000001))
    >>> round((bound * 1000).epsilon(delta=1e-5), 4)
    2.0922

    Two passes over one batch, sampled with probability 1/100, with one noise on the sum of both:

    >>> round((MixtureOfGaussians(2.0, (0, 2), (0.99, 0.01)) * 1000).epsilon(delta=1e-5), 4)
    1.8282
    """

    noise_multiplier: float
    shifts: Sequence[float]
    probabilities: Sequence[float]

    def __post_init__(self) -> None:
        shifts = real_array("shifts", self.shifts, SHIFT)
        probabilities = real_array("probabilities", self.probabilities, PROBABILITY)
        if shifts.ndim != 1 or probabilities.shape != shifts.shape or not 0 < shifts.size <= MOST_SHIFTS:
            raise ParameterError(
                f"shifts and probabilities must be rows of one length in [1, {MOST_SHIFTS}], got shapes "
                f"{shifts.shape} and {probabilities.shape}."
            )
        defect = math.fsum([*probabilities.tolist(), -1.0])
        if not abs(defect) <= (UNITS_OF_A_SUM + shifts.size) * UNIT_ROUNDOFF:
            raise ParameterError(
                f"probabilities must sum to 1 up to rounding, got 1 {'+' if defect > 0 else '-'} {abs(defect):g}."
            )
        self._set(
            noise_multiplier=real("noise_multiplier", self.noise_multiplier, NOISE_MULTIPLIER),
            shifts=tuple(shifts.tolist()),
            probabilities=tuple(probabilities.tolist()),
        )

    @property
    def directions(self) -> tuple[str, ...]:
        """Both, unless one shift is certain."""
        return (REMOVE,) if self._is_gaussian else BOTH_DIRECTIONS

    @property
    def _is_gaussian(self) -> bool:
        """Whether one shift is certain."""
        return len(self._components) == 1 and not self._unmoved

    @cached_property
    def _components(self) -> list[tuple[float, float]]:
        """The shifts that are possible and not zero, each once, with their probabilities; the smallest first."""
        found: dict[float, list[float]] = {}
        for shift, probability in zip(self.shifts, self.probabilities, strict=True):
            if shift > 0 and probability > 0:
                found.setdefault(shift, []).append(probability)
        return [(shift, math.fsum(found[shift])) for shift in sorted(found)]

    @cached_property
    def _unmoved(self) -> float:
        """The probability that the sum does not move."""
        return math.fsum(p for s, p in zip(self.shifts, self.probabilities, strict=True) if not s)

    @cached_property
    def _noise(self) -> float:
        """The noise over the largest shift, not above it."""
        largest = self._components[-1][0]
        return self.noise_multiplier if largest == 1 else math.nextafter(self.noise_multiplier / largest, 0.0)

    @cached_property
    def _mixture(self) -> Mixture:
        """In units of the largest shift."""
        largest = self._components[-1][0]
        # a quotient below the doubles is raised to the least of them, which costs no less
        slopes = [max(shift / largest, math.ulp(0.0)) for shift, _ in self._components]
        offsets = [0.5 * slope * (1.0 - slope) / self._noise / self._noise for slope in slopes]
        return Mixture(self._unmoved, tuple(p for _, p in self._components), tuple(slopes), tuple(offsets))

    def _rdp(self, orders: Array) -> Array:
        if not self._components:
            return np.zeros_like(orders)
        if self._is_gaussian:
            return Gaussian(self._noise)._bounds(orders)
        return np.minimum(
            self._mean_bounds(orders),
            np.maximum(*(self._bounds_in(direction, orders) for direction in BOTH_DIRECTIONS)),
        )

    def _mean_bounds(self, orders: Array) -> Array:
        """Rényi bounds of both directions by the mean over the shifts: powers of w are convex in w."""
        t, bounds = orders - 1.0, []
        for shift, _ in self._components:
            bounds.append(t * Gaussian(math.nextafter(self.noise_multiplier / shift, 0.0))._bounds(orders))
        rows, shares = np.array(bounds), np.array([[p] for _, p in self._components])
        with np.errstate(over="ignore"):
            costs = np.log1p((shares * np.expm1(rows)).sum(axis=0))
        # beyond the doubles, where the sum need not move at all, with a chance of at most one
        costs = np.where(costs < math.inf, costs, np.logaddexp.reduce(np.log(shares) + rows, axis=0, initial=0.0))
        return np.where(
            costs < LARGEST_COST, above(costs / t, RELATIVE_ERROR * costs / t + ABSOLUTE_ERROR), bounds[-1] / t
        )

    def _bounds_in(self, direction: str, orders: Array) -> Array:
        """The Rényi bounds of one direction; inf where the quadrature does not reach."""
        bounds, t, sampled = np.full_like(orders, math.inf), orders - 1.0, self._sampled(direction)
        reached = np.flatnonzero(orders <= sampled.largest_order)
        if reached.size:
            with suppress(NumericalError):  # too many nodes
                for indices, law in sampled.laws_at(t[reached]):
                    here = reached[indices]
                    value, error = law.real_cumulant_with_error(t[here])
                    bounds[here] = above(value / t[here], ((error + RELATIVE_ERROR) * value) / t[here] + ABSOLUTE_ERROR)
        return bounds

    def _sampled(self, direction: str) -> SampledLaw:
        """The law of the loss, of which that of one shift knows more."""
        if self._mixture.is_single:
            return Gaussian(self._noise).sampled(self._mixture.probabilities[0], direction)
        return sampled_normal_pair(self._noise, self._mixture, direction, on_integers=False)

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        return self.law(direction).log_moment(z)

    def _max_loss(self, direction: str) -> float:
        if not self._components:
            return 0.0
        if direction == REMOVE or not self._unmoved:
            return math.inf
        moved = math.fsum(p for _, p in self._components)
        # by the probability that the sum does move, where that is small: its complement may have lost its digits
        loss = -math.log1p(-moved) if moved < 0.5 else -math.log(self._unmoved)
        return float(above(np.array(loss), 8.0 * UNIT_ROUNDOFF * loss))

    def _law(self, direction: str) -> LossLaw:
        if not self._components:
            return nothing_law(self)
        if self._is_gaussian:
            return replace(Gaussian(self._noise).law(), of=self, slopes=None)
        sampled = self._sampled(direction)
        return LossLaw(
            of=self,
            log_moment=partial(cumulants, sampled.laws_at),
            ceiling=sampled.ceiling,
            cells=partial(self._cells, direction),
            excess=partial(self._excess, direction),
            turnable=sampled.turnable,
            max_loss=self._max_loss(direction),
            max_loss_is_least=True,
            seen=min(float(above(np.array(math.fsum(p for _, p in self._components)))), 1.0),
            most_nodes=sampled.most_nodes,
        )

    def _cells(self, direction: str, edges: Array) -> Cells:
        """The masses between the losses at points found for the edges: w rises with x, so these are intervals of x."""
        sigma, mixture = self._noise, self._mixture
        log_mix = -edges[::-1] if direction == ADD else edges
        v = mixture.inverse(log_mix)
        finite = np.isfinite(v)
        least = math.log(mixture.rest) if mixture.rest else -math.inf
        at = np.where(finite, v, 0.0)
        # no inverse is exact, and none need be: the cells are those of the v that were found
        found = np.where(finite, mixture.log(at), np.minimum(log_mix, least))
        units = np.where(finite, mixture.units(at, found), 8.0 * np.abs(found))
        off = np.abs(found - log_mix) + UNIT_ROUNDOFF * (units + 4.0 * np.abs(log_mix))
        # v is (2x - 1) / 2 sigma^2, and a shift by r moves x / sigma by r / sigma
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.maximum(np.abs(sigma * v), 1.0 / sigma)
            q, q_error = normal_cells(sigma * v + 0.5 / sigma, size)
        p, p_error = mixture.rest * q, mixture.rest * q_error
        for probability, slope in zip(mixture.probabilities, mixture.slopes, strict=True):
            with np.errstate(over="ignore", invalid="ignore"):
                here, error = normal_cells(sigma * v + (0.5 - slope) / sigma, size)
            p, p_error = p + probability * here, p_error + probability * error
        p_error = p_error + (8.0 + 2.0 * len(mixture.slopes)) * UNIT_ROUNDOFF * p
        blur = float(off.max(initial=0.0))
        if direction == ADD:
            return Cells(q[::-1], p[::-1], q_error[::-1], p_error[::-1], blur)
        return Cells(p, q, p_error, q_error, blur)

    def _excess(self, direction: str, level: float) -> Bracket:
        r"""Delta of one round, in closed form.

        At the x with :math:`w(x) = e^{\pm\text{level}}` it is the sum over the components of the excess of one normal
        law over another, each at its own level, of which no term is negative; docs/theory/loaders.md.
        """
        if level == math.inf or not level < self._max_loss(direction):
            return Bracket(0.0, 0.0)
        mixture, sign = self._mixture, -1.0 if direction == ADD else 1.0
        (v,) = mixture.inverse(np.array([sign * level])).tolist()
        if not math.isfinite(v):
            raise NumericalError("The largest loss of this mixture is out of reach of doubles.")
        log_mix = mixture.log(np.array([v]))
        off = abs(float(log_mix[0]) - sign * level)
        off += UNIT_ROUNDOFF * (float(mixture.units(np.array([v]), log_mix)[0]) + 4.0 * level)
        x = self._noise * v + 0.5 / self._noise  # over sigma
        # by how much delta moves with the level: at most by the mass of the tail
        tail = math.exp(min(level, 700.0)) * float(ndtr(-x)) if direction == REMOVE else float(ndtr(x))
        value, error = 0.0, (off + 8.0 * UNIT_ROUNDOFF * (abs(x) + 1.0)) * 1.01 * tail
        for p, r, offset in zip(mixture.probabilities, mixture.slopes, mixture.offsets, strict=True):
            here = r * v + offset
            scale = p if direction == REMOVE else p * math.exp(here + level)
            found = _normal_excess(r / self._noise, sign * here)
            rounding = UNIT_ROUNDOFF * (16.0 + 8.0 * (abs(r * v) + offset + level))  # of the level, and of the scale
            value += scale * found.value
            error += scale * found.error + rounding * (scale * found.value + 1.01 * p * tail)
        error += UNIT_ROUNDOFF * len(mixture.slopes) * value + 5e-324
        return Bracket(max(value - error, 0.0), min(value + error, 1.0))


def _normal_excess(distance: float, level: float) -> Estimate:
    """`normal_excess` at a level of either sign: at a negative one by the exchange of the two laws."""
    found = normal_excess(distance, abs(level), distance_error=4.0 * UNIT_ROUNDOFF)
    if level >= 0:
        return found
    value = -math.expm1(level) + math.exp(level) * found.value
    return Estimate(value, found.error + 8.0 * UNIT_ROUNDOFF * value)
