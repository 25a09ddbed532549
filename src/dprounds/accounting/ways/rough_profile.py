"""About delta over epsilon: the atoms of a sketch on one lattice, and the sum of all rounds by a Fourier transform.

Of few rounds the masses themselves are convolved, which loses no digits however small delta is.

It proves nothing: it says where levels should be made, and for which delta.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.law import Composition
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.ways.sketch import Sketch
from dprounds.errors import NumericalError

__all__ = ["RoughProfile", "about_log_deltas", "rough_epsilon", "rough_profile"]

Array = NDArray[np.float64]

# All of these tune speed.
# Points of the lattice, and deviations of the sum that it reaches below zero.
POINTS = 2**12
DEVIATIONS_BELOW = 9.0
# A round's losses below this part of that are raised to it, so that sums of a few of them stay on the lattice.
LOWEST_OF_FEW, LOWEST = 0.5, 0.125
# Points of the lattice of few rounds, and up to how many rounds there are that: each power of two takes 0.1 ms.
POINTS_OF_FEW = 2**10
FEW_ROUNDS = 64
# Below this delta, or this part of one over the rounds, the rounding of a transform may exceed delta, so masses are
# tilted first.
LEAST_PLAIN = 1e-11
LEAST_PLAIN_PER_ROUND = 1e-15
# The lattice reaches to this multiple of a guess; another is made if epsilon is a small part of that, or beyond it.
BEYOND = 2.5
SMALL_PART = 0.1
LARGE_PART = 0.7
MOST_LATTICES = 4
# Where a tail is heavy, epsilon is between these multiples of that by one large round or by a normal law.
LEAST_RATIO, LARGEST_RATIO = 0.9, 1.8
# Tilted masses resolve deltas within this factor, as a logarithm, of the one for which they are tilted.
FARTHEST = 15.0
# A row of epsilons takes no more profiles, and none tells those that are a smaller part of the last one on its lattice.
MOST_PROFILES = 8
NEAR_ZERO = 0.02
# The logarithm of the least delta that is resolved by convolution.
LEAST_LOG_CONVOLVED = -600.0


class _Tilt(NamedTuple):
    """A tilt t of the masses, and the logarithms of the least and the largest delta that they resolve then.

    Where masses are `convolved` there is no tilt.
    """

    t: float
    resolved: tuple[float, float]
    convolved: bool = False


CONVOLVED = _Tilt(0.0, (LEAST_LOG_CONVOLVED, 0.0), convolved=True)


class RoughProfile:
    """About delta at the epsilons of a lattice that reaches to `largest`, by tilted masses."""

    def __init__(self, sketch: Sketch, largest: float, tilt: _Tilt) -> None:
        t, self.resolved, convolved = tilt
        self.is_tilted = t > 0
        points = POINTS_OF_FEW if convolved else POINTS
        below = DEVIATIONS_BELOW * min(sketch.deviation, largest)
        lowest = LOWEST_OF_FEW if sketch.total <= FEW_ROUNDS else LOWEST
        self.step = (largest + below) / (points - 4)
        count = int(largest / self.step) + 3
        self.losses: Array = self.step * np.arange(count, dtype=np.float64)
        spectrum, log_scale = np.ones(points // 2 + 1, dtype=np.complex128), 0.0
        far_p = far_q = 0.0
        for (masses, losses), rounds in zip(sketch.atoms, sketch.rounds, strict=True):
            last = int(np.searchsorted(losses, largest, side="right"))
            if not last:
                raise NumericalError("The losses of this run are too far apart for an exact sum in doubles.")
            # one round that is beyond the lattice decides by itself
            far_p += rounds * float(masses[last:].sum())
            far_q += rounds * float((masses[last:] * np.exp(-losses[last:])).sum())
            p, x = masses[:last], losses[:last]
            exponents = np.log(p) + t * x
            top = float(exponents.max())
            weights = np.exp(exponents - top)
            total = float(weights.sum())
            log_scale += rounds * (top + math.log(total))
            # every atom is spread to three neighbours, which keeps its mean and its square
            at = np.maximum(x, -lowest * below) / self.step
            nearest = np.rint(at)
            apart, number, weights = at - nearest, nearest.astype(int), weights / total
            spread: Array = np.bincount(number % points, weights * (1.0 - apart * apart), points).astype(np.float64)
            for side in (-1, 1):
                spread += np.bincount((number + side) % points, 0.5 * weights * apart * (apart + side), points)
            if not convolved:
                spectrum *= np.exp(rounds * np.log(np.fft.rfft(spread)))
        whole = _power(spread, count, int(rounds)) if convolved else np.fft.irfft(spectrum, points)[:count]
        whole = np.maximum(whole, 0.0) * np.exp(log_scale - t * self.losses)
        above = np.cumsum(whole[::-1])[::-1] - whole
        # delta at a point is that at the next one times e^-h, and (1 - e^-h) times the mass above it
        fallen = np.exp(-self.losses)
        deltas = -math.expm1(-self.step) * np.cumsum((fallen * above)[::-1])[::-1] / fallen
        self.log_deltas: Array = np.log(deltas + np.maximum(far_p - far_q / fallen, 0.0))

    def log_delta(self, epsilon: float) -> float:
        """About the logarithm of delta; not a number where the lattice does not resolve it."""
        if not epsilon <= LARGE_PART * float(self.losses[-1]):
            return math.nan
        found = float(np.interp(epsilon, self.losses, self.log_deltas))
        return found if self.resolved[0] < found < self.resolved[1] else math.nan

    def is_near(self, guess: float, epsilon: float) -> bool:
        """Whether an epsilon may be right, given a guess by the heavy tail, which may mislead the tilt."""
        return not self.is_tilted or LEAST_RATIO * guess < epsilon < LARGEST_RATIO * guess

    def epsilon(self, log_delta: float) -> float:
        """About the epsilon at a delta: 0 if it is met there, and infinite if it is beyond the lattice."""
        met = self.log_deltas <= log_delta
        if not met.any():
            return math.inf
        i = int(np.argmax(met))
        if not i or not math.isfinite(float(self.log_deltas[i])):
            return self.step * i
        high, low = float(self.log_deltas[i - 1]), float(self.log_deltas[i])
        return self.step * (i - (log_delta - low) / (high - low))


def rough_epsilon(sketch: Sketch, log_delta: float, guess: float, t: float) -> tuple[float, RoughProfile | None]:
    """About the epsilon at a delta, given a guess within some orders of magnitude, and the last profile.

    It is not a number, and there is no profile, where no lattice resolves it.
    """
    largest, tilt = BEYOND * guess, _tilt(sketch, log_delta, t)
    for _ in range(MOST_LATTICES):
        if not 0 < largest < math.inf:
            break
        profile = RoughProfile(sketch, largest, tilt)
        found = profile.epsilon(log_delta)
        if math.isnan(found):
            break
        if found > LARGE_PART * largest:
            largest *= BEYOND
        elif 0 < found < SMALL_PART * largest:
            largest = BEYOND * max(found, 10.0 * profile.step)
        else:
            return found, profile
    return math.nan, None


def rough_profile(sketch: Sketch, epsilon: float, saddle: Saddle) -> RoughProfile | None:
    """The profile around an epsilon, given its saddle point; None if there is no lattice for it."""
    largest = BEYOND * max(epsilon, sketch.deviation)
    if not 0 < largest < math.inf:
        return None
    # a heavy tail misleads Laplace's method, which convolved masses do not need
    tilt = CONVOLVED if _are_few(sketch) else _tilt(sketch, saddle.log_delta(epsilon), saddle.t)
    return RoughProfile(sketch, largest, tilt)


def about_log_deltas(law: Composition, epsilons: Array) -> Array:
    """About the logarithm of delta at some epsilons, to some percent of delta; not a number where none is told."""
    found = np.full_like(epsilons, math.nan)
    sketch, profile, made = Sketch(law), None, 0
    for i in np.argsort(-epsilons).tolist():
        epsilon = float(epsilons[i])
        if profile is not None and epsilon > NEAR_ZERO * float(profile.losses[-1]):
            found[i] = profile.log_delta(epsilon)
        if math.isnan(found[i]) and made < MOST_PROFILES:
            with suppress(NumericalError):
                made += 1
                profile = rough_profile(sketch, epsilon, sketch.saddle(epsilon)) or profile
                found[i] = math.nan if profile is None else profile.log_delta(epsilon)
    return found


def _are_few(sketch: Sketch) -> bool:
    return len(sketch.rounds) == 1 and sketch.total <= FEW_ROUNDS


def _tilt(sketch: Sketch, log_delta: float, t: float) -> _Tilt:
    """The tilt that resolves a delta."""
    least = math.log(max(LEAST_PLAIN, LEAST_PLAIN_PER_ROUND * sketch.total))
    if log_delta > least:
        return _Tilt(0.0, (least, 0.0))
    if _are_few(sketch):
        return CONVOLVED
    return _Tilt(t, (log_delta - FARTHEST, min(log_delta + FARTHEST, 0.0)))


def _power(circle: Array, count: int, rounds: int) -> Array:
    """Masses of a sum of rounds at the points 0, 1, ..., `count` - 1, given those of one round on a circle.

    Sums that leave the lattice are dropped.
    """
    below = circle.size - count
    one, found = np.roll(circle, below), None
    while True:
        if rounds & 1:
            found = one if found is None else np.convolve(found, one)[below : below + circle.size]
        rounds >>= 1
        if not rounds:
            return np.asarray(found)[below:]
        one = np.convolve(one, one)[below : below + circle.size]
