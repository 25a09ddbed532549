"""The law of a privacy loss, and the line that suits it at one epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import show
from dprounds.accounting.line import LOG_MOMENT_ERROR, Line, log_zeta
from dprounds.accounting.saddle import Saddle, expand
from dprounds.errors import NumericalError, ParameterError
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["LossLaw", "least_mass", "line_near", "refuse_contradictions"]

Array = NDArray[np.float64]

# Each of truncation and aliasing is asked to stay below this part of delta, a thousandth of the precision promised.
LOG_TOLERANCE = math.log(1e-12)
# Distances, in units of t and of the saddle's width, of the points at which K bounds the aliases. The best distance for
# a normal law is sqrt(2 * 28) = 7.5 widths; a heavy tail needs a short one, a bounded loss a long one.
SIDES_BELOW = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.75])
SIDES_ABOVE = np.array([0.0625, 0.125, 0.25, 0.5, 1.0])
SIDES_FAR = np.array([3.0, 9.0])
SIDE_WIDTHS = np.array([1.0, 2.0, 4.0, 7.5, 12.0])
# Below the saddle point of a law with a heavy upper tail the integrand is larger, but aliases fall faster. The summands
# may exceed delta by exp(7), which costs three digits of sixteen, if that saves a third of the nodes.
LARGEST_LOSS = 7.0
WORTH_MOVING = 1.5
# A virtual Gaussian of more variance than this blurs epsilon by ten, and nothing is left to see from below.
LARGEST_VARIANCE = 100.0
# The sum may stop at one of these numbers of widths: a normal law needs eight, and 4 * 1.2^30 = 950.
STOPS = 4.0 * 1.2 ** np.arange(31)
# K is evaluated in blocks whose last node is twice the one before, since its cost can grow with the imaginary part.
FIRST_BLOCK = 64
# A mass at infinity is above the truth by at most 20 units of rounding, and by two doubles where it is so small that
# doubles have no relative precision; `infinite_mass` of a run counts them.
MASS_ERROR = 32.0 * UNIT_ROUNDOFF
LEAST_MASS_ERROR = 1e-323
# A moment function and a largest loss contradict each other if they differ by more than this part of them, a thousand
# times and more what rounding may do, or by more than what underflows.
CONTRADICTION = 1e-9
LEAST_CONTRADICTION = 1e-290
# Over the largest loss, a point at which K(t)/t is as near to it as to show one that is 1 % too small as a rule.
SEEN = 1000.0


@dataclass(frozen=True, kw_only=True)
class LossLaw:
    r"""One direction of a release, as the law of its privacy loss, known by its moment function.

    Parameters
    ----------
    log_moment
        :math:`K(z) = \log E_P[e^{zL};\, L < \infty]` at rows of real or complex z with positive real part.
    of
        The release whose law it is, as messages name it.
    ceiling
        ``ceiling(t, s)``, for an increasing row s: upper bounds of the real part of K on the half-lines from
        ``t + is`` upward; ``inf`` where none is known. None where nothing is known to fall.
    infinite_mass
        An upper bound on :math:`P(L = \infty)`, in [0, 1], of which `least_mass` makes a lower one.
    max_loss
        An upper bound on the finite losses; `inf` where there is none.
    fewest_rounds
        The least number of rounds of any part; `inf` if all parts have a K that is accurate relative to itself even
        where M is small, as plain Gaussians have.
    most_nodes
        How many values of K one line may cost.
    smoothed
        Whether a virtual Gaussian may end a sum that does not fall by itself. It needs nearly all of the nodes, far up
        the line, so a law whose K is dear there says no and the sum is refused.
    """

    log_moment: Callable[[Numbers], Numbers]
    of: object = "A law"
    ceiling: Callable[[float, Array], Array] | None = None
    infinite_mass: float = 0.0
    max_loss: float = math.inf
    fewest_rounds: float = 1.0
    most_nodes: int = 2**16
    smoothed: bool = True

    def __post_init__(self) -> None:
        """Refuse a law that contradicts itself."""
        t = np.array([1.0, SEEN / self.max_loss if self.smoothed and 0 < self.max_loss < math.inf else 1.0])
        with np.errstate(all="ignore"):  # what is not a number is refused where it is used
            self.refuse_contradictions(t, np.real(self.log_moment(t)))

    def refuse_contradictions(self, t: Array, values: Array) -> None:
        """Raise where values K(t) on the real axis contradict the rest of the law."""
        refuse_contradictions(self.of, self.max_loss, self.infinite_mass, t, values)


def refuse_contradictions(of: object, max_loss: float, infinite_mass: float, t: Array, values: Array) -> None:
    """Raise `ParameterError` where a largest loss, a mass m at infinity and values K(t) cannot all be true.

    From a largest loss that is too small would follow an epsilon that is too small. It bounds K(t) by t times itself;
    and by Jensen's inequality K(t) >= (t + 1) log(1 - m).
    """
    wrong = None
    if not 0 <= infinite_mass <= 1:
        wrong = f"the mass at infinity must be in [0, 1], got {infinite_mass}."
    elif not max_loss >= 0:
        wrong = f"the largest loss must be in [0, inf], got {max_loss}."
    else:
        # next to one, the rounding of the mass is most of what is left of it
        least = (t + 1.0) * (math.log1p(-infinite_mass) if infinite_mass < 1 - 1e-6 else -math.inf)
        below = values < least * (1.0 + CONTRADICTION) - LEAST_CONTRADICTION
        if below.any():
            i = int(np.argmax(below))
            wrong = f"the moment function K({t[i]:g}) must not be below {least[i] + 0.0:g}, got {values[i]:g}."
        elif max_loss < math.inf:
            above = (values > t * max_loss * (1.0 + CONTRADICTION) + LEAST_CONTRADICTION) & (values < math.inf)
            if above.any():
                i = int(np.argmax(above))
                shown = f"K(t)/t = {values[i] / t[i]:g} at t = {t[i]:g}"
                wrong = f"the largest loss must not be below {shown}, got {max_loss:g}."
    if wrong is not None:
        raise ParameterError(f"{show(of)} contradicts itself: {wrong}")


def least_mass(infinite_mass: float) -> float:
    """A lower bound on the mass at infinity, given the upper one."""
    return max(infinite_mass * (1.0 - MASS_ERROR) - LEAST_MASS_ERROR, 0.0)


def line_near(law: LossLaw, saddle: Saddle, *, epsilon: float, log_delta: float) -> Line:
    """The line through or beside a saddle point that brackets delta at `epsilon` to about 1e-12 of itself.

    A poor guess of `log_delta` makes the brackets wide, never wrong.
    """
    t, width = saddle.t, saddle.width
    target = log_delta + LOG_TOLERANCE
    above = np.append(t * SIDES_ABOVE, width * SIDE_WIDTHS)
    above = np.append(above, t * SIDES_FAR) if law.max_loss < math.inf else above
    below = np.append(t * SIDES_BELOW, width * SIDE_WIDTHS)
    sides = np.sort(np.concatenate([t - below[below < t], t + above]))
    at_sides = np.real(law.log_moment(sides))
    law.refuse_contradictions(sides, at_sides)
    # At 0, K is at most 0: there the bound is that delta is at most one.
    sides, at_sides = np.append(0.0, sides), np.append(0.0, at_sides + LOG_MOMENT_ERROR * np.abs(at_sides))

    # The line may stand beside the saddle point, which is then one of the sides, where that needs fewer nodes.
    sides, order = np.unique(np.append(sides, t), return_index=True)
    at_sides = np.append(at_sides, saddle.value + LOG_MOMENT_ERROR * abs(saddle.value))[order]
    bound = at_sides + log_zeta(sides) - sides * epsilon - target
    here = int(np.searchsorted(sides, t))
    periods = {here: _period(sides, bound, here)}
    for other in range(1, here):
        size = at_sides[other] - sides[other] * epsilon - math.log(sides[other]) - math.log1p(sides[other])
        if size - log_delta < LARGEST_LOSS:
            periods[other] = WORTH_MOVING * _period(sides, bound, other)
    best = min(periods, key=lambda number: periods[number])
    step = 2.0 * math.pi / _period(sides, bound, best)
    if best != here:
        saddle = expand(law.log_moment, float(sides[best]))
        t = saddle.t
    sides, at_sides = np.delete(sides, best), np.delete(at_sides, best)

    flat = saddle.value + LOG_MOMENT_ERROR * abs(saddle.value)  # |M| <= M(t) on all of the line
    stops: Array = np.unique(np.append(np.minimum(np.ceil(STOPS * width / step), law.most_nodes), law.most_nodes))
    ceilings = np.full(stops.shape, flat)
    if law.ceiling is not None:
        ceilings = np.minimum(law.ceiling(t, step * stops), flat)
    exponent = ceilings - t * epsilon - np.log(math.pi * step * stops) - target
    enough = np.flatnonzero(exponent <= 0)
    number = int(enough[0]) if enough.size else stops.size - 1
    last = float(step * stops[number])
    variance = 0.0
    if not enough.size:
        if not law.smoothed:
            raise NumericalError("The exact sum of this run converges too slowly.")
        if not last * last > 2.0 * t * (t + 1.0):  # else the Gaussian grows along the line at first
            raise NumericalError(
                f"The exact sum of this run needs more than the {law.most_nodes:,} terms that are allowed."
            )
        variance = 2.0 * float(exponent[number]) / (last * last - t * (t + 1.0))
        if not variance <= LARGEST_VARIANCE:
            raise NumericalError("The exact sum of this run converges too slowly.")

    count = int(stops[number]) + 1
    s: Array = step * np.arange(count, dtype=np.float64)
    turning = 0.5 * saddle.curvature * s * s
    if law.max_loss < math.inf:
        turning = np.minimum(turning, law.max_loss * s)
    return Line(
        t=t,
        step=step,
        values=_on_line(law, t, s),
        ceiling=float(ceilings[number]),
        sides=sides,
        side_values=at_sides,
        sizes=np.asarray(abs(saddle.value) + abs(saddle.slope) * s + turning, dtype=np.float64),
        fewest_rounds=law.fewest_rounds,
        variance=variance,
    )


def _period(sides: Array, bound: Array, number: int) -> float:
    """The least period at which aliases seen from one of the sides are negligible by the best of the others."""
    distance = np.abs(sides - sides[number])
    distance[number] = math.nan
    wanted = np.maximum(bound, 1.0) / distance
    if not (np.isfinite(wanted[:number]).any() and np.isfinite(wanted[number + 1 :]).any()):
        raise NumericalError("The loss of this run is outside what doubles resolve.")
    return max(float(np.nanmin(wanted[:number])), float(np.nanmin(wanted[number + 1 :])))


def _on_line(law: LossLaw, t: float, s: Array) -> NDArray[np.complex128]:
    """K at ``t + is``, block by block."""
    values = np.empty(s.size, dtype=np.complex128)
    start, end = 0, FIRST_BLOCK
    while start < s.size:
        z: NDArray[np.complex128] = np.asarray(t + 1j * s[start:end], dtype=np.complex128)
        values[start:end] = law.log_moment(z)
        start, end = end, 2 * end
    if np.isnan(values).any():
        raise NumericalError("A moment of this run is not a number in doubles.")
    return values
