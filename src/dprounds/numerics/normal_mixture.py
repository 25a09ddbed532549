r"""Means of powers of a mixture of shifts over a normal law, on the line and on the integers, by quadrature.

The means are those over :math:`x \sim N(0, \sigma^2)` of powers of :math:`w(x) = 1 - q + q\,e^v`,
:math:`v = (2x-1)/(2\sigma^2)`, and of like mixtures. The integrand is analytic in the strip
:math:`|\mathrm{Im}\,x| < \pi\sigma^2`, so the trapezoid rule of step h errs by about :math:`e^{-2\pi a/h}` for a strip
of half-width a; docs/theory/mechanisms.md has the bound, relative to :math:`M(t) - 1`, that `positive_step` and
`negative_step` meet. On the integers the sum *is* the trapezoid rule of step one, and where a larger step would do, a
sum over its multiples is the same number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.cumulant import TiltableLaw, refuse_long
from dprounds.numerics.mixture import Mixture, mixture_law
from dprounds.numerics.quadrature import grid_nodes, scale_above, scale_below, short_binary_below
from dprounds.numerics.search import increasing_root
from dprounds.numerics.theta import theta

__all__ = ["DIGITS", "LARGEST_POWER", "REACH", "WIDEST", "WIDEST_POSITIVE", "NormalMixture"]

Array = NDArray[np.float64]

# exp(-46) = 1e-20. The error bound has other factors than the exponential, below 2 (1 + 2 * 46 * (1 + 1/4)) / cos(1.5),
# which is below 3400 (docs/theory/mechanisms.md), which leave 4e-17.
DIGITS = 46.0
# The tail of the normal density beyond ten standard deviations is below exp(-50).
REACH = 10.0
# The best strip for a normal density alone, in units of sigma. A wider one would need a finer step.
WIDEST = math.sqrt(2.0 * DIGITS)
# Strips in units of sigma^2. The mixture has its zeros at pi. For positive powers |w(x+ia)|^(t-1) is bounded by
# its value on the line over cos(angle / 2), which must not vanish.
WIDEST_POSITIVE = 3.0
# For negative powers no component may turn by a right angle. The least angle counts at the largest powers.
ANGLES_NEGATIVE = np.geomspace(0.02, 1.5, 24)
# What (w - 1)^2 may add to an integrand far from its peak has the logarithm 1 / sigma^2. Below a sigma of 0.2 that is
# not counted in full: w is then nearly a constant or an exponential, and the tests compare with many digits.
MOST_ROOM = 25.0
# For several components: exp(-41) = 1.6e-18, and a factor 1 / cos(1.5) = 14 beside those of `digits`.
LEAST_DIGITS = 41.0
# Intervals that are left when windows are sought; more are taken as they are.
MOST_WINDOWS = 2**12
# Grids within a factor of two of each other are shared, and all below this many nodes.
SMALL_GRID = 256
# Above this many nodes the far-apart peaks of one order get windows of their own.
LARGE_GRID = 4096
# Grids below that are made for bounds on a coarse scale, so that neighbours share one. The last few, of 100 kB at most
# as a rule, are remembered: a search asks for neighbours of the same points again and again.
MOST_REMEMBERED = 32
# 32 MB of nodes. The window between the two components alone has about one over sigma of them.
LARGEST_GRID = 2**22
# Nodes times shifts, where these are several, each with an exponential of its own.
LARGEST_TABLE = 2**20
# In deviations. Powers beyond it do not tell nodes apart.
LARGEST_POWER = 1e12
# Of an exponential that is summed by itself.
LARGEST_EXPONENT = 600.0


@dataclass(frozen=True)
class NormalMixture:
    r"""A normal law of deviation σ, on the line or on the integers, and w, the density over it of a mixture of shifts.

    The shifts are by r_i in (0, 1], the last by one. Of interest are the means of ``w^(z+1)``, or, if it is `inverse`,
    of ``w^-z``.
    """

    sigma: float
    mixture: Mixture
    inverse: bool
    on_integers: bool = False

    def laws_at(self, z: Numbers) -> list[tuple[NDArray[np.intp], TiltableLaw]]:
        """Laws of ``log w``, or of its negative, whose moments at z are these means, as `cumulants` asks for them."""
        laws = []
        for group in _groups(self, z):
            if group.is_small:
                law = _shared_law(self, *group.bounds)
            else:
                grid = _grid(self, *group.bounds, is_small=False)
                if np.iscomplexobj(z):
                    refuse_long(group.indices.size * grid.nodes)
                law = _law(self, grid)
            laws.append((group.indices, law))
        return laws

    def slopes(self, z: Numbers) -> tuple[Numbers, Numbers]:
        r"""The derivatives of the means M at a row z, by σ and by the share q of one shift, on the grid of M itself.

        With p the power of w, z + 1 or -z, and x = σ y for a standard normal y, :math:`M = E[w^p]` and

        .. math:: \partial M = p\,E[w^{p-1}\,\partial w] = p\,E[(w^{p-1} - 1)\,\partial w],\qquad
                  \partial_\sigma w = q e^v (1 - x)/\sigma^3,\quad \partial_q w = e^v - 1,

        because the mean of w is one whatever σ and q are. Within brackets nothing cancels.
        """
        sigma, (q,) = self.sigma, self.mixture.probabilities
        by_sigma, by_share = np.empty(z.shape, dtype=np.complex128), np.empty(z.shape, dtype=np.complex128)
        for indices, is_small, bounds in _groups(self, z):
            step, windows = _grid(self, *bounds, is_small=is_small)
            x = grid_nodes(step, windows)
            v = self.v(x)
            log_density = math.log(step / (sigma * math.sqrt(2.0 * math.pi))) - 0.5 * (x / sigma) ** 2
            power = -z[indices] if self.inverse else z[indices] + 1.0
            exponent = np.multiply.outer(power - 1.0, self.mixture.log(v))
            by_sigma[indices] = power * (_weighted(exponent, log_density + v) @ (q * (1.0 - x) / sigma**3))
            # e^v - 1, over e^v if v > 0
            rise = np.where(v < 0, np.expm1(np.minimum(v, 0.0)), -np.expm1(-np.maximum(v, 0.0)))
            by_share[indices] = power * (_weighted(exponent, log_density + np.maximum(v, 0.0)) @ rise)
        return by_sigma, by_share

    def v(self, x: Array) -> Array:
        """The log-ratio of the pair at distance one."""
        return (x - 0.5) / self.sigma / self.sigma

    @cached_property
    def middle(self) -> float:
        """The x at which both components of a sampled pair weigh the same, where w bends."""
        rate = self.mixture.probabilities[0]
        return 0.5 + self.sigma * self.sigma * (math.log1p(-rate) - math.log(rate))

    def is_split(self, t: float) -> bool:
        """Whether w is a pure exponential at x >= 1 and a constant near 0, up to factors 1 + exp(-DIGITS) to the t."""
        bend = (DIGITS + math.log1p(t)) * self.sigma * self.sigma
        if not self.mixture.is_single or bend > 1.0:
            return False
        return REACH * self.sigma < self.middle - bend and self.middle + bend < 1.0 - REACH * self.sigma

    def digits(self, t: float) -> float:
        """The natural logarithm of the factors other than the exponentials of the error bound, over 4e-17."""
        if self.mixture.is_single:
            return DIGITS + math.log1p(0.1 * t)
        # by logarithms, as the square of a slope may be below the doubles
        log_apart = math.log(min(self.sigma, WIDEST) ** 2 + 0.25 * (t + 3.0)) - 2.0 * math.log(self.mixture.slopes[0])
        return LEAST_DIGITS + float(np.logaddexp(math.log(34.0), math.log(16.0) + log_apart))


def positive_step(pair: NormalMixture, t: float, s: float) -> float:
    """The trapezoid step for powers z + 1 with real parts up to t + 1 and imaginary parts up to s."""
    # Strip and step in units of sigma, whose square may overflow.
    strip = WIDEST if pair.is_split(t) else min(WIDEST_POSITIVE * pair.sigma, WIDEST)
    digits = DIGITS if pair.mixture.is_single else pair.digits(0.0)
    # exp(-2 pi strip / h) exp(strip^2 / 2) exp(s strip / sigma) = exp(-digits), solved for h
    return pair.sigma * 2.0 * math.pi / (digits / strip + 0.5 * strip + s / pair.sigma)


def negative_step(pair: NormalMixture, t: float, s: float, leftmost: float) -> float:
    """The trapezoid step for powers -z with real parts of z up to t, imaginary parts up to s, and this leftmost peak.

    On the line moved by an angle, w is at least what it is further left by sigma^2 times the logarithm of one over the
    cosine, and the powers of that integrate to more by no more than the `growth`; docs/theory/mechanisms.md.
    """
    if pair.is_split(t):
        return positive_step(pair, t, s)
    angles = np.minimum(ANGLES_NEGATIVE, WIDEST / pair.sigma)
    growth = (pair.sigma - leftmost + 2.0) * -np.log(np.cos(angles))
    room = min(1.0 / pair.sigma / pair.sigma, MOST_ROOM)
    strips = angles * pair.sigma
    wanted = (pair.digits(t) + room + growth) / strips + 0.5 * strips + s / pair.sigma
    return pair.sigma * 2.0 * math.pi / float(wanted.min())


@lru_cache(maxsize=MOST_REMEMBERED)
def negative_peaks(pair: NormalMixture, low: float, high: float) -> tuple[float, float]:
    """Where the integrands of negative powers peak: the x <= 0 with ``x = -t slope(x)``, for two t."""
    t = np.array([high, low])

    def residual(y: Array, t: Array) -> tuple[Array, Array]:
        shares = pair.mixture.shares(pair.v(-y))
        return y - t * pair.mixture.slope(shares), 1.0 + t * pair.mixture.bend(shares) / pair.sigma / pair.sigma

    smallest = np.full_like(t, np.finfo(float).tiny)
    guess = t * pair.mixture.slope(pair.mixture.shares(pair.v(np.zeros_like(t))))
    # A window of ten standard deviations is placed there, so three digits are plenty.
    found = -increasing_root(residual, smallest, np.maximum(t, smallest), guess, t, rtol=1e-3)
    return float(found[0]), float(found[1])


def split_windows(pair: NormalMixture, t: float) -> list[tuple[float, float]]:
    """Windows that hold all of the integrand of one positive power, when its peaks may be far apart.

    The exponent ``-x^2 / 2 sigma^2 + (t+1) u(x)`` is taken relative to its value at ``x = t + 1`` for the last
    component alone, so that no huge terms cancel. Between a and b it is at most what the normal density has at b and
    the others add to the last component at a. Intervals of which that is negligible against the largest exponent that
    was seen, or against ``M - 1 >= t KL >= 2 t TV^2`` (Pinsker), are left out, and others are halved.
    """
    sigma, reach, last = pair.sigma, REACH * pair.sigma, pair.mixture.probabilities[-1]
    origin = 0.5 * (t / sigma) * ((t + 1.0) / sigma) + (t + 1.0) * math.log(last)

    def normal(x: Array) -> Array:
        return -0.5 * ((x - t - 1.0) / sigma) ** 2

    def others(x: Array) -> Array:
        return (t + 1.0) * pair.mixture.over_last(pair.v(x))

    # total variation between the components is at least 0.38 min(1, 1/sigma), and its part of that for the mixture
    spent = min(0.0, math.log(t) + 2.0 * math.log(last) + math.log(0.28 * min(1.0, sigma**-2)))
    largest, negligible = spent - origin, 0.5 * REACH * REACH + math.log1p((t + 1.0) / sigma)
    edges = np.array([0.0, t + 1.0])
    low, high = edges[:-1], edges[1:]
    while low.size and float(high[0] - low[0]) > sigma and low.size < MOST_WINDOWS:
        middle = 0.5 * (low + high)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        largest = max(largest, float((normal(high) + others(high)).max()))
        held = normal(high) + others(low) > largest - negligible
        low, high = low[held], high[held]
    # (w - 1)^2, of which M - 1 is made, peaks between 0 and 2
    return [(-reach, 2.0 + reach), *zip(low.tolist(), high.tolist(), strict=True), (t + 1.0 - reach, t + 1.0 + reach)]


class _Group(NamedTuple):
    """Points of a row that share a grid, and whether it is small; what bounds their real and imaginary parts."""

    indices: NDArray[np.intp]
    is_small: bool
    bounds: tuple[float, float, float]


def _groups(pair: NormalMixture, z: Numbers) -> list[_Group]:
    """Points whose grids, from zero to their real part, have sizes within a factor of two.

    Those of large grids come by one real part at a time. Bounds of small grids are on a coarse scale, so that
    neighbours of the same points have the same grid.
    """
    height = np.abs(z.imag)
    size = (z.real + 1.0 + 2.0 * REACH * pair.sigma) / positive_step(pair, float(z.real.max()), float(height.max()))
    if z.real.max() > LARGEST_POWER * pair.sigma:
        raise NumericalError(
            f"Sampled normal noise of deviation {pair.sigma:g} is not resolved at order {z.real.max() + 1.0:g}."
        )
    octave = np.maximum(np.ceil(np.log2(size / SMALL_GRID)), 0.0)
    groups = []
    for number in sorted(set(octave.tolist())):
        indices = np.flatnonzero(octave == number)
        t, s = z.real[indices], height[indices]
        if number <= math.log2(LARGE_GRID / SMALL_GRID):
            bounds = scale_below(float(t.min())), scale_above(float(t.max())), scale_above(float(s.max()))
            groups.append(_Group(indices, True, bounds))
            continue
        for order in np.unique(t).tolist():
            here = t == order
            groups.append(_Group(indices[here], False, (order, order, float(s[here].max()))))
    return groups


class _Grid(NamedTuple):
    """Where an integrand is summed: the multiples of a step in some windows."""

    step: float
    windows: tuple[tuple[float, float], ...]

    @property
    def nodes(self) -> float:
        """About how many there are."""
        return sum(high - low for low, high in self.windows) / self.step


def _grid(pair: NormalMixture, low: float, high: float, s: float, *, is_small: bool) -> _Grid:
    """Where to sum for points with real parts from low to high, and imaginary parts up to s."""
    reach = REACH * pair.sigma
    windows: tuple[tuple[float, float], ...]
    if pair.inverse:
        leftmost, rightmost = negative_peaks(pair, low, high)
        step = negative_step(pair, high, s, leftmost)
        # Where the peak lies 2 REACH deviations below zero, M exceeds exp(2 REACH^2): nothing near zero counts.
        windows = ((leftmost - reach, rightmost + reach if rightmost < -2.0 * reach else 2.0 + reach),)
    else:
        step = positive_step(pair, high, s)
        windows = ((-reach, max(2.0, high + 1.0) + reach),) if is_small else tuple(split_windows(pair, high))
    return _Grid(short_binary_below(max(1.0, math.floor(step)) if pair.on_integers else step), windows)


def _weighted(exponent: Numbers, log_weights: Array) -> Numbers:
    """``weight (exp(exponent) - 1)``, a row for each row of exponents, without overflow before the product."""
    is_near = exponent.real < 1.0
    far = np.where(is_near, 0.0, exponent + log_weights)
    if float(far.real.max()) > LARGEST_EXPONENT:
        raise NumericalError("A moment of this run is outside what doubles resolve.")
    weights = np.exp(log_weights)
    return np.asarray(np.where(is_near, np.expm1(np.where(is_near, exponent, 0.0)) * weights, np.exp(far) - weights))


def _law(pair: NormalMixture, grid: _Grid) -> TiltableLaw:
    """The normal density, or that on the integers, on a grid."""
    shifts = len(pair.mixture.probabilities)
    largest = LARGEST_GRID if shifts == 1 else LARGEST_TABLE // shifts
    if grid.nodes > largest:
        raise NumericalError(
            f"Sampled normal noise of deviation {pair.sigma:g} would need more than {largest:,} nodes here."
        )
    x = grid_nodes(*grid)
    total = theta(pair.sigma) if pair.on_integers else pair.sigma * math.sqrt(2.0 * math.pi)
    log_weights = math.log(grid.step / total) - 0.5 * (x / pair.sigma) ** 2
    return mixture_law(log_weights, pair.v(x), pair.mixture, inverse=pair.inverse)


@lru_cache(maxsize=MOST_REMEMBERED)
def _shared_law(pair: NormalMixture, low: float, high: float, s: float) -> TiltableLaw:
    """The same on a small grid, which is remembered."""
    return _law(pair, _grid(pair, low, high, s, is_small=True))
