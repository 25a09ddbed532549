r"""How the moment function of the sampled Laplace mechanism falls along a vertical line.

Far up, what is between the two atoms falls as one over s, by an integration by parts. On the way there the modulus is
known at some points, and does not rise by much between them. docs/theory/accounting.md, "Decay", has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.law import LOG_MOMENT_ERROR
from dprounds.mechanisms.base import ADD
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.mixture import log_mixture
from dprounds.numerics.modulus import log_moduli_above, log_moduli_between, variance_above
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["sampled_laplace_ceiling"]

Array = NDArray[np.float64]

# --- What carries a proof.

# Roundings of a bound, relative to the size of what its exponents are made of: fewer than 32.
BOUND_ERROR = 64.0 * UNIT_ROUNDOFF

# --- What only tunes speed and tightness.

# Where the integration by parts begins: at parts of the way from the lower to the upper atom, which is the last.
CUTS = np.append(np.linspace(-1.0, 0.9, 20), 1.0)
# The part of what is between the atoms that is left where the bound by parts takes over.
LEFT = 0.25
# The distance of the first points at which the modulus is known: relative to the lower one, and at most this over the
# deviation. Between two of them there are more, until the square of the modulus may rise by no more than this part of
# its distance to one.
RATIO = 0.3
CLOSE = 1.0
RISE = 0.3
MOST_POINTS = 2**10
MOST_HALVINGS = 12
FEW_POINTS = 2**7
# Spacing of the three points of the axis that tell the variance.
SPACING = 0.25


class Far(NamedTuple):
    """What bounds M far up a line: logarithms of the atoms, and for each cut of what is below it and by parts above.

    `size` is that of what these are made of.
    """

    atoms: float
    below: Array
    by_parts: Array
    size: float

    def log(self, s: Array) -> Array:
        """Upper bounds of the logarithm of the modulus of M from each s on."""
        between = np.logaddexp(self.below[:, None], self.by_parts[:, None] - np.log(s)).min(axis=0)
        return np.asarray(np.logaddexp(self.atoms, between) + BOUND_ERROR * (self.size + np.abs(np.log(s))))

    def enough(self, value: float) -> float:
        """From where on only a part of what is between the atoms is left, if `value` is K(t); inf if nowhere."""
        between = -math.expm1(min(self.atoms - value, 0.0))
        room = LEFT * between - np.exp(np.minimum(self.below - value, 0.0))
        logs = (self.by_parts - value)[room > 0] - np.log(room[room > 0])
        return math.exp(min(float(logs.min(initial=math.inf)), 700.0))


def far_up(b: float, rate: float, direction: str, t: float) -> Far:
    """The bounds far up the line through t."""
    a = 1.0 / b
    cuts = a * CUTS
    u = log_mixture(rate, cuts)
    power = -t if direction == ADD else t + 1.0
    with np.errstate(divide="ignore"):  # below the first cut there is nothing
        below = math.log(0.5) + np.log(-np.expm1(-0.5 * (cuts + a))) + power * (u if power > 0 else u[0])
    # the density over u', times w^power, whose variation above a cut is at most the sum of its values at both ends
    ends = math.log(0.25) - 0.5 * a - math.log(rate) - 1.5 * cuts + (power + 1.0) * u
    return Far(
        atoms=math.log(0.5) + float(np.logaddexp(power * u[0], power * u[-1] - a)),
        below=below[:-1],
        by_parts=math.log(2.0) + np.logaddexp(ends[:-1], ends[-1]),
        size=4.0 + 3.0 * a - math.log(rate) + (abs(power) + 1.0) * float(np.abs(u).max()),
    )


def sampled_laplace_ceiling(
    log_moment: Callable[[Numbers], Numbers], b: float, rate: float, direction: str, t: float, s: Array
) -> Array:
    """Upper bounds of the real part of K on the half-lines from ``t + is`` upward, for an increasing row s."""
    beyond = far_up(b, rate, direction, t)
    h = SPACING * t
    low, value, high = np.real(log_moment(np.array([t - h, t, t + h]))).tolist()
    far = beyond.enough(value)
    found = beyond.log(s)
    near = s < far
    if not near.any():
        return found
    bend = (high - value) - (value - low) + 8.0 * LOG_MOMENT_ERROR * max(abs(low), abs(value), abs(high))
    u = log_mixture(rate, np.array([-1.0, 1.0]) / b)
    largest = float(u[1] - u[0])
    # no law on an interval has a larger variance than one that is at its ends
    variance = min(variance_above(h, bend), 0.25 * largest * largest) * (1.0 + BOUND_ERROR)
    first = _points(s[near], far, CLOSE / math.sqrt(variance))
    if first is None:
        return np.full_like(s, math.inf)

    def log_moduli(points: Array) -> Array:
        z: NDArray[np.complex128] = np.asarray(t + 1j * points, dtype=np.complex128)
        known = np.empty(points.size)
        # by two octaves each, if there are many: a quadrature is as long as the last of its points needs
        octaves = np.floor(0.5 * np.log2(points)) if points.size > FEW_POINTS else np.zeros(points.size)
        for octave in np.unique(octaves).tolist():
            here = octaves == octave
            known[here] = np.real(log_moment(z[here])) - value
        # what M may err by, relative to M(t) and to the size of what K is made of
        error = 2.0 * LOG_MOMENT_ERROR * (abs(value) + largest * points)
        return log_moduli_above(known, error)

    points, known = _halved(first, log_moduli, variance)
    moduli = log_moduli_between(points, known, variance)
    moduli = moduli * (1.0 - BOUND_ERROR) + LOG_MOMENT_ERROR * abs(value) + value
    worst = np.maximum.accumulate(np.append(moduli, beyond.log(points[-1:]))[::-1])[::-1]
    found[near] = worst[np.searchsorted(points, s[near])]
    return found


def _points(s: Array, far: float, apart: float) -> Array | None:
    """Those of a row, up to a far one and with others between them; None if these would be too many."""
    found = [float(s[0])]
    count = math.log(max(apart / RATIO / s[0], 1.0)) / math.log1p(RATIO) + far / apart
    if not count < MOST_POINTS:
        return None
    while found[-1] < far:
        found.append(found[-1] + min(RATIO * found[-1], apart))
    return np.unique(np.concatenate([found, s]))


def _halved(points: Array, log_moduli: Callable[[Array], Array], variance: float) -> tuple[Array, Array]:
    """More points, until the modulus may rise by little between them, and its logarithms there."""
    known = log_moduli(points)
    for _ in range(MOST_HALVINGS):
        squares = -np.expm1(2.0 * known)
        rise = 0.25 * variance * np.diff(points) ** 2
        wide = np.flatnonzero(rise > RISE * np.minimum(squares[:-1], squares[1:]))
        if not wide.size or points.size + wide.size > MOST_POINTS:
            break
        middle = 0.5 * (points[wide] + points[wide + 1])
        points, known = np.insert(points, wide + 1, middle), np.insert(known, wide + 1, log_moduli(middle))
    return points, known
