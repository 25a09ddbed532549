r"""A line whose values are watched far up, and that a virtual Gaussian of very small variance ends.

Where no ceiling is proven for a law, as for one of atoms on no common lattice, the modulus of its moment function is
known at points, and bounded between them by the variance of the tilted loss. Up to where it stays small, it is a
ceiling; from there on :math:`|M| \le M(t)`, and the Gaussian ends the sum. Its variance is that much smaller than that
of one that would end the sum at the last node. docs/theory/accounting.md, "Smoothing", has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.law import LOG_MOMENT_ERROR, Composition, LossLaw
from dprounds.accounting.line import Line
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.ways.place import LOG_TOLERANCE, line_near
from dprounds.errors import NumericalError
from dprounds.numerics.modulus import log_moduli_above, log_moduli_between, variance_above
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["watched_line"]

Array = NDArray[np.float64]

# --- What carries a proof.

# Roundings of a bound, relative to the size of what it is made of.
BOUND_ERROR = 64.0 * UNIT_ROUNDOFF

# --- What only tunes speed and tightness.

# The part of epsilon that the virtual Gaussian may cost, which says how far the line is watched.
COST = 1e-8
# Where the virtual Gaussian would cost more than this part, the line is given up: other ways have narrower brackets.
LARGEST_COST = 3e-6
# The distance of the first points that are watched: relative to the lower one, and at most this over the deviation of
# a round. Where the modulus may rise too much between two of them, there are more.
RATIO = 0.3
APART = 0.7
MOST_POINTS = 2**14
MOST_HALVINGS = 6
# It is given up where the modulus is nowhere small at this many points.
FIRST_LOOK = 32
# Spacing of the three points of the axis that bound the variance, relative to t.
SPACING = 0.25
# Margins: what the exponents of a bound should be below those that are needed.
MARGIN = 2.0


@dataclass(frozen=True, eq=False)
class _Watched(Composition):
    """A composition whose ceilings are those of its sum with a virtual Gaussian, which depend on epsilon and delta."""

    epsilon: float = 0.0
    log_delta: float = 0.0
    variances: dict[float, float] = field(default_factory=dict)  # of the virtual Gaussian, at each t

    def ceiling(self, saddle: Saddle, s: Array) -> Array:
        """Upper bounds of the real part of K and the Gaussian's, on the half-lines from each s upward."""
        t = saddle.t
        square = t * (t + 1.0)
        needed = t * self.epsilon + self.log_delta + LOG_TOLERANCE - MARGIN  # what bounds should be below, at s = 1/pi
        parts = [_Part(law, float(rounds), t) for law, rounds in self.parts]
        value = sum(part.rounds * part.value for part in parts)
        top = value + LOG_MOMENT_ERROR * abs(value)
        excess = max(top - needed, 1.0)
        least = COST * max(self.epsilon, 1.0 / t) / (t + 1.0)  # the variance that may be
        reach = math.sqrt(square + 2.0 * excess / least)
        points, bounds = _watch(parts, s, reach, needed)
        is_small = bounds <= needed
        if not is_small.any():
            raise NumericalError("The exact sum of this run converges too slowly.")
        first = int(np.argmax(is_small))
        after = np.flatnonzero(~is_small[first:])
        last = first + int(after[0]) if after.size else bounds.size
        end = float(points[last])
        if not end * end > 2.0 * square:
            raise NumericalError("The exact sum of this run converges too slowly.")
        variance = 2.0 * max(top - needed, 1.0) / (end * end - square)
        if not variance <= LARGEST_COST / COST * least:
            raise NumericalError("The exact sum of this run converges too slowly.")
        self.variances[t] = variance
        worst = np.append(np.maximum.accumulate(bounds[:last][::-1])[::-1], -math.inf)
        at = np.searchsorted(points[: last + 1], s)
        watched = np.where(at < worst.size, worst[np.minimum(at, worst.size - 1)], -math.inf)
        smoothed = _beyond(watched, top, 0.5 * variance, end, s) + 0.5 * variance * square
        gone = np.maximum(s, end)
        return np.where(
            s * s > square, smoothed + BOUND_ERROR * (abs(top) + variance * (square + gone * gone)), math.inf
        )


def _beyond(watched: Array, top: float, half_variance: float, end: float, s: Array) -> Array:
    """What bounds a sum beyond each s whose terms are below two Gaussians, one up to the `end` and one from there on.

    With B the larger of the two where each of them begins, no term exceeds exp(B), and all that lie at least h <= s
    apart add up, times h, to no more than exp(B) (1/vs + 1/vs + h): this is B with the logarithm of that, over 1/vs.
    """
    gone = np.maximum(s, end)
    larger = np.maximum(watched - half_variance * s * s, top - half_variance * gone * gone)
    return np.asarray(larger + np.log(2.0 + 2.0 * half_variance * s * s))


class _Part:
    """One round of a part on the line through t: the modulus of M over M(t), and the variance of its tilted loss."""

    def __init__(self, law: LossLaw, rounds: float, t: float) -> None:
        self.law, self.rounds, self.t = law, rounds, t
        h = SPACING * t
        low, self.value, high = np.real(law.log_moment(np.array([t - h, t, t + h]))).tolist()
        size = max(abs(low), abs(self.value), abs(high))
        bend = (high - self.value) - (self.value - low) + 8.0 * LOG_MOMENT_ERROR * size
        self.variance = variance_above(h, bend) * (1.0 + BOUND_ERROR)
        # at least the mean loss: the slope of a convex function is between two differences
        self.slope = max(abs(high - self.value), abs(self.value - low)) / h

    def log_moduli(self, s: Array) -> Array:
        """From above."""
        z: NDArray[np.complex128] = np.asarray(self.t + 1j * s, dtype=np.complex128)
        known = np.real(self.law.log_moment(z)) - self.value
        turned = self.slope * s
        size = abs(self.value) + turned + 0.5 * (turned * turned + self.variance * s * s)
        return log_moduli_above(known, 2.0 * LOG_MOMENT_ERROR * size)


def _watch(parts: list[_Part], s: Array, reach: float, needed: float) -> tuple[Array, Array]:
    """Points from the first s to about the reach, and upper bounds of K on the intervals between them."""
    deviation = math.sqrt(max(part.variance for part in parts))
    apart = APART / deviation
    found = [float(s[0])]
    while found[-1] < reach and len(found) < MOST_POINTS // 4:
        found.append(found[-1] + min(RATIO * found[-1], apart))
    points = np.unique(np.concatenate([found, s[s <= found[-1]]]))
    if not _total(parts, [part.log_moduli(points[:FIRST_LOOK]) for part in parts]).min() <= needed:
        raise NumericalError("The exact sum of this run converges too slowly.")
    logs = [part.log_moduli(points) for part in parts]
    for _ in range(MOST_HALVINGS):
        bounds = _bounds(parts, points, logs)
        at_points = _total(parts, logs)
        # an interval at whose ends the modulus is small, and which may yet hold a larger one
        wide = np.flatnonzero((bounds > needed) & (np.maximum(at_points[:-1], at_points[1:]) <= needed))
        if not wide.size or points.size + wide.size > MOST_POINTS:
            break
        middle = 0.5 * (points[wide] + points[wide + 1])
        logs = [np.insert(one, wide + 1, part.log_moduli(middle)) for part, one in zip(parts, logs, strict=True)]
        points = np.insert(points, wide + 1, middle)
    return points, _bounds(parts, points, logs)


def _total(parts: list[_Part], logs: list[Array]) -> Array:
    """K of all rounds, given the logarithms of the moduli of each part."""
    found = np.zeros(logs[0].size)
    for part, one in zip(parts, logs, strict=True):
        found += part.rounds * (part.value + LOG_MOMENT_ERROR * abs(part.value) + one)
    return found


def _bounds(parts: list[_Part], points: Array, logs: list[Array]) -> Array:
    return _total(
        parts,
        [
            log_moduli_between(points, one, part.variance) * (1.0 - BOUND_ERROR)
            for part, one in zip(parts, logs, strict=True)
        ],
    )


def watched_line(law: Composition, saddle: Saddle, *, epsilon: float, log_delta: float) -> Line:
    """The line at or near a saddle point, ended by a virtual Gaussian beyond what is watched of it.

    Raises `NumericalError` where the modulus does not become small within the nodes that may be spent.
    """
    if law.states_errors:  # the moduli are known to `LOG_MOMENT_ERROR`, and not to other errors
        raise NumericalError("The exact sum of this run converges too slowly.")
    watched = _Watched(law.parts, epsilon, log_delta)
    line = line_near(watched, saddle, epsilon=epsilon, log_delta=log_delta, smoothed=False)
    variance = watched.variances[line.t]
    last = line.step * (line.values.size - 1)
    own = 0.5 * variance * (line.t * (1.0 + line.t) - last * last)
    if not own < 0:  # else a bound of K is none of the sum with the Gaussian
        raise NumericalError("The exact sum of this run converges too slowly.")
    return replace(line, variance=variance, ceiling=line.ceiling - own * (1.0 + BOUND_ERROR), is_of_one_run=True)
