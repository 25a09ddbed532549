r"""Quadrature for the sampled Gaussian, on the line and on the integers.

The moments are averages over :math:`x \sim N(0, \sigma^2)` of powers of
:math:`w(x) = 1 - q + q\,e^v`, :math:`v = (2x-1)/(2\sigma^2)`. The integrand is analytic in the strip
:math:`|\mathrm{Im}\,x| < \pi\sigma^2`, so the trapezoid rule of step h errs by about :math:`e^{-2\pi a/h}` for a strip
of half-width a; docs/theory/mechanisms.md has the bound, relative to :math:`M(t) - 1`, that `remove_step` and
`add_step` meet. For the discrete Gaussian the sum over the integers *is* the trapezoid rule of step one, and where a
larger step would do, a sum over its multiples is the same number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.cells import Cells
from dprounds.errors import NumericalError
from dprounds.mechanisms.base import ADD
from dprounds.mechanisms.decay import sampled_gaussian_ceiling
from dprounds.mechanisms.sampling import MOST_TERMS, LawsAt, SampledLaw, sampled_law
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.cumulant import TiltableLaw
from dprounds.numerics.mixture import Mixture
from dprounds.numerics.quadrature import grid_nodes, scale_above, scale_below, short_binary_below
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.search import increasing_root
from dprounds.numerics.special import ndtr
from dprounds.numerics.theta import theta

__all__ = [
    "gaussian_cells",
    "gaussian_sampled_laws",
    "normal_cells",
    "sampled_gaussian_slopes",
    "sampled_normal_pair",
]

Array = NDArray[np.float64]

# exp(-46) = 1e-20. The error bound has factors beside the exponential, at most 2 (1 + 2 * 46 * (1 + 1/4)) / cos(1.5) <
# 3400 (docs/theory/mechanisms.md), which leave 4e-17.
DIGITS = 46.0
# The tail of the normal density beyond ten standard deviations is below exp(-50).
REACH = 10.0
# The best strip for a normal density alone, in units of sigma. A wider one would need a finer step.
WIDEST = math.sqrt(2.0 * DIGITS)
# Strips in units of sigma^2. The mixture has its zeros at pi. For the direction remove |w(x+ia)|^(t-1) is bounded by
# its value on the line over cos(angle / 2), which must not vanish.
WIDEST_REMOVE = 3.0
# For the direction add no component may turn by a right angle. The least angle counts at the largest orders.
ANGLES_ADD = np.geomspace(0.02, 1.5, 24)
# What (w - 1)^2 may add to an integrand far from its peak has the logarithm 1 / sigma^2. Below a noise of 0.2 that is
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
LEAST_NOISE = 1e-6
# The square of more noise than this, which hides everything, may overflow.
MOST_NOISE = 1e100
# In noise multipliers. Beyond it nodes are no longer told apart, and sampling lowers the Rényi bound by less than
# 2 sigma log(1/q) / 1e12 of it.
LARGEST_ORDER = 1e12
# Of an exponential that is summed by itself.
LARGEST_EXPONENT = 600.0
# With less noise than this one order takes seconds, and a batch tells all that it holds: the unsampled bound answers.
LEAST_NOISE_OF_ORDERS = 1e-3
# With less noise than this a line of the exact accountant takes seconds.
LEAST_NOISE_OF_LINES = 0.02
# A quadrature gets longer as it goes up the line. Of 40 DP-SGD runs 37 needed no more nodes than this, and the others
# ten times as many and more.
MOST_NODES_OF_LINES = 2**8
MOST_NODES_OF_SUMS = 2**13
MOST_NOISE_OF_SUMS = 8.0


@dataclass(frozen=True)
class _Pair:
    """A normal law, and the mixture of its shifts by r_i in (0, 1]; one shift, by one, if it is sampled at a rate."""

    sigma: float
    mixture: Mixture

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
        """The natural logarithm of the factors beside the exponentials of the error bound, over 4e-17."""
        if self.mixture.is_single:
            return DIGITS + math.log1p(0.1 * t)
        apart = (min(self.sigma, WIDEST) ** 2 + 0.25 * (t + 3.0)) / self.mixture.slopes[0] ** 2
        return LEAST_DIGITS + math.log(2.0 + 16.0 * (2.0 + apart))


def remove_step(pair: _Pair, t: float, s: float) -> float:
    """The trapezoid step for powers z + 1 with real parts up to t + 1 and imaginary parts up to s."""
    # Strip and step in units of sigma, whose square may overflow.
    strip = WIDEST if pair.is_split(t) else min(WIDEST_REMOVE * pair.sigma, WIDEST)
    digits = DIGITS if pair.mixture.is_single else pair.digits(0.0)
    # exp(-2 pi strip / h) exp(strip^2 / 2) exp(s strip / sigma) = exp(-digits), solved for h
    return pair.sigma * 2.0 * math.pi / (digits / strip + 0.5 * strip + s / pair.sigma)


def add_step(pair: _Pair, t: float, s: float, leftmost: float) -> float:
    """The trapezoid step for powers -z with real parts of z up to t, imaginary parts up to s, and this leftmost peak.

    On the line moved by an angle, w is at least what it is further left by sigma^2 times the logarithm of one over the
    cosine, and the powers of that integrate to more by no more than the `growth`; docs/theory/mechanisms.md.
    """
    if pair.is_split(t):
        return remove_step(pair, t, s)
    angles = np.minimum(ANGLES_ADD, WIDEST / pair.sigma)
    growth = (pair.sigma - leftmost + 2.0) * -np.log(np.cos(angles))
    room = min(1.0 / pair.sigma / pair.sigma, MOST_ROOM)
    strips = angles * pair.sigma
    wanted = (pair.digits(t) + room + growth) / strips + 0.5 * strips + s / pair.sigma
    return pair.sigma * 2.0 * math.pi / float(wanted.min())


@lru_cache(maxsize=MOST_REMEMBERED)
def add_peaks(pair: _Pair, low: float, high: float) -> tuple[float, float]:
    """Where the integrands of the direction add peak: the x <= 0 with ``x = -t slope(x)``, for two t."""
    t = np.array([high, low])

    def residual(y: Array, t: Array) -> tuple[Array, Array]:
        shares = pair.mixture.shares(pair.v(-y))
        return y - t * pair.mixture.slope(shares), 1.0 + t * pair.mixture.bend(shares) / pair.sigma / pair.sigma

    smallest = np.full_like(t, np.finfo(float).tiny)
    guess = t * pair.mixture.slope(pair.mixture.shares(pair.v(np.zeros_like(t))))
    # A window of ten standard deviations is placed there, so three digits are plenty.
    found = -increasing_root(residual, smallest, np.maximum(t, smallest), guess, t, rtol=1e-3)
    return float(found[0]), float(found[1])


def split_windows(pair: _Pair, t: float) -> list[tuple[float, float]]:
    """Windows that hold all of the integrand of `remove` at one order, when its peaks may be far apart.

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


def _groups(pair: _Pair, z: Numbers) -> list[_Group]:
    """Points whose grids, from zero to their real part, have sizes within a factor of two.

    Those of large grids come by one real part at a time. Bounds of small grids are on a coarse scale, so that
    neighbours of the same points have the same grid.
    """
    height = np.abs(z.imag)
    size = (z.real + 1.0 + 2.0 * REACH * pair.sigma) / remove_step(pair, float(z.real.max()), float(height.max()))
    if z.real.max() > LARGEST_ORDER * pair.sigma:
        raise NumericalError(
            f"A sampled Gaussian of noise multiplier {pair.sigma:g} is not resolved at order {z.real.max() + 1.0:g}."
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


def _affordable_nodes(sigma: float, on_integers: bool) -> int:
    """Values of K that one line may cost: on the integers no value takes more than some twenty terms a deviation."""
    return MOST_NODES_OF_SUMS if on_integers and sigma <= MOST_NOISE_OF_SUMS else MOST_NODES_OF_LINES


def sampled_normal_pair(sigma: float, mixture: Mixture, direction: str, *, on_integers: bool) -> SampledLaw:
    """The law of the privacy loss of a normal law against a mixture of its shifts, with what its quadrature can do."""
    most_nodes = _affordable_nodes(sigma, on_integers) if LEAST_NOISE_OF_LINES <= sigma <= MOST_NOISE else 0
    return SampledLaw(
        laws_at=lambda z: gaussian_sampled_laws(sigma, z, mixture, direction, on_integers=on_integers),
        largest_order=LARGEST_ORDER * sigma if LEAST_NOISE_OF_ORDERS <= sigma <= MOST_NOISE else 0.0,
        most_nodes=most_nodes,
        ceiling=partial(sampled_gaussian_ceiling, sigma, mixture, direction)
        if most_nodes and not on_integers
        else None,
    )


def gaussian_sampled_laws(sigma: float, z: Numbers, mixture: Mixture, direction: str, *, on_integers: bool) -> LawsAt:
    """The law of the sampled privacy loss of a normal pair, as `Sampleable` asks for it."""
    if sigma < LEAST_NOISE:
        raise NumericalError(
            f"A sampled Gaussian of noise multiplier {sigma:g}, below {LEAST_NOISE:g}, is not resolved."
        )
    if sigma > MOST_NOISE:
        raise NumericalError(
            f"A sampled Gaussian of noise multiplier {sigma:g}, above {MOST_NOISE:g}, is not resolved."
        )
    pair = _Pair(sigma, mixture)
    laws = []
    for group in _groups(pair, z):
        if group.is_small:
            law = _shared_law(pair, direction, *group.bounds, on_integers)
        else:
            grid = _grid(pair, direction, *group.bounds, is_small=False, on_integers=on_integers)
            if np.iscomplexobj(z) and group.indices.size * grid.nodes > MOST_TERMS:
                raise NumericalError("The exact sum of this run takes too long: its losses are too small.")
            law = _law(pair, direction, grid, on_integers)
        laws.append((group.indices, law))
    return laws


class _Grid(NamedTuple):
    """Where an integrand is summed: the multiples of a step in some windows."""

    step: float
    windows: tuple[tuple[float, float], ...]

    @property
    def nodes(self) -> float:
        """About how many there are."""
        return sum(high - low for low, high in self.windows) / self.step


def _grid(
    pair: _Pair, direction: str, low: float, high: float, s: float, *, is_small: bool, on_integers: bool
) -> _Grid:
    """Where to sum for points with real parts from low to high, and imaginary parts up to s."""
    reach = REACH * pair.sigma
    windows: tuple[tuple[float, float], ...]
    if direction == ADD:
        leftmost, rightmost = add_peaks(pair, low, high)
        step = add_step(pair, high, s, leftmost)
        # Where the peak lies 2 REACH deviations below zero, M exceeds exp(2 REACH^2): nothing near zero counts.
        windows = ((leftmost - reach, rightmost + reach if rightmost < -2.0 * reach else 2.0 + reach),)
    else:
        step = remove_step(pair, high, s)
        windows = ((-reach, max(2.0, high + 1.0) + reach),) if is_small else tuple(split_windows(pair, high))
    return _Grid(short_binary_below(max(1.0, math.floor(step)) if on_integers else step), windows)


def sampled_gaussian_slopes(sigma: float, rate: float, direction: str, z: Numbers) -> dict[str, Numbers]:
    r"""The derivatives of M at a row z, by the noise multiplier and by the sampling rate, on the grid of M itself.

    With p the power of w, z + 1 or -z, and x = σ y for a standard normal y, :math:`M = E[w^p]` and

    .. math:: \partial M = p\,E[w^{p-1}\,\partial w] = p\,E[(w^{p-1} - 1)\,\partial w],\qquad
              \partial_\sigma w = q e^v (1 - x)/\sigma^3,\quad \partial_q w = e^v - 1,

    because the mean of w is one whatever σ and q are. Within brackets nothing cancels.
    """
    pair = _Pair(sigma, Mixture.at_rate(rate))
    by_noise, by_rate = np.empty(z.shape, dtype=np.complex128), np.empty(z.shape, dtype=np.complex128)
    for indices, is_small, bounds in _groups(pair, z):
        step, windows = _grid(pair, direction, *bounds, is_small=is_small, on_integers=False)
        x = grid_nodes(step, windows)
        v = pair.v(x)
        log_mix = pair.mixture.log(v)
        log_density = math.log(step / (sigma * math.sqrt(2.0 * math.pi))) - 0.5 * (x / sigma) ** 2
        power = -z[indices] if direction == ADD else z[indices] + 1.0
        exponent = np.multiply.outer(power - 1.0, log_mix)
        by_noise[indices] = power * (_weighted(exponent, log_density + v) @ (rate * (1.0 - x) / sigma**3))
        rise = np.where(
            v < 0, np.expm1(np.minimum(v, 0.0)), -np.expm1(-np.maximum(v, 0.0))
        )  # e^v - 1, over e^v if v > 0
        by_rate[indices] = power * (_weighted(exponent, log_density + np.maximum(v, 0.0)) @ rise)
    return {"noise_multiplier": by_noise, "sampling_rate": by_rate}


def _weighted(exponent: Numbers, log_weights: Array) -> Numbers:
    """``weight (exp(exponent) - 1)``, a row for each row of exponents, without overflow before the product."""
    is_near = exponent.real < 1.0
    far = np.where(is_near, 0.0, exponent + log_weights)
    if float(far.real.max()) > LARGEST_EXPONENT:
        raise NumericalError("A moment of this run is outside what doubles resolve.")
    weights = np.exp(log_weights)
    return np.asarray(np.where(is_near, np.expm1(np.where(is_near, exponent, 0.0)) * weights, np.exp(far) - weights))


def _law(pair: _Pair, direction: str, grid: _Grid, on_integers: bool) -> TiltableLaw:
    """The normal density, or that of the discrete Gaussian, on a grid."""
    if grid.nodes > LARGEST_GRID:
        raise NumericalError(
            f"A sampled Gaussian of noise multiplier {pair.sigma:g} would need more than {LARGEST_GRID:,} nodes here."
        )
    x = grid_nodes(*grid)
    total = theta(pair.sigma) if on_integers else pair.sigma * math.sqrt(2.0 * math.pi)
    return sampled_law(math.log(grid.step / total) - 0.5 * (x / pair.sigma) ** 2, pair.v(x), pair.mixture, direction)


@lru_cache(maxsize=MOST_REMEMBERED)
def _shared_law(pair: _Pair, direction: str, low: float, high: float, s: float, on_integers: bool) -> TiltableLaw:
    """The same on a small grid, which is remembered."""
    return _law(
        pair, direction, _grid(pair, direction, low, high, s, is_small=True, on_integers=on_integers), on_integers
    )


def gaussian_cells(sigma: float, edges: Array) -> Cells:
    """Masses of the normal pair, N(1, sigma^2) and N(0, sigma^2), between increasing edges of its log-ratio."""
    with np.errstate(over="ignore", invalid="ignore"):
        # the log-ratio v is (2x - 1) / 2 sigma^2, so x / sigma is sigma v + 1 / 2 sigma
        under_q = sigma * edges + 0.5 / sigma
        under_p = sigma * edges - 0.5 / sigma
    largest = np.maximum(np.abs(sigma * edges), 0.5 / sigma)  # what either was rounded at
    p, p_error = normal_cells(under_p, largest)
    q, q_error = normal_cells(under_q, largest)
    return Cells(p, q, p_error, q_error, 0.0)


def normal_cells(z: Array, rounded_at: Array) -> tuple[Array, Array]:
    """Standard normal masses between increasing z, each known to three units of `rounded_at`, and their errors."""
    z = np.concatenate([[-np.inf], z, [np.inf]])
    rounded_at = np.concatenate([[0.0], np.where(np.isfinite(rounded_at), rounded_at, 0.0), [0.0]])
    tail = ndtr(-np.abs(z))
    low = np.where(z > 0, 1.0 - tail, tail)  # above zero this is wanted at the end of one cell, that across zero
    right = z[:-1] > 0
    masses = np.where(right, tail[:-1] - tail[1:], low[1:] - low[:-1])
    # An error d of z moves a tail by at most (|z| + 1) d of itself, since the density is at most |z| + 1 times the
    # tail beyond; `ndtr` itself is good to a few units times 1 + z^2 (tests/accounting/test_lattice.py measures it).
    with np.errstate(invalid="ignore"):
        size = np.where(np.isfinite(z), np.abs(z), 0.0)
    moved = UNIT_ROUNDOFF * (3.0 * (size + 1.0) * rounded_at + 8.0 * (1.0 + size * size) + 2.0) * tail
    # 1 - tail, the end of the cell across zero, has the error of the tail and one rounding more; so has the difference
    across = ~right & (z[1:] > 0)
    return masses, moved[:-1] + moved[1:] + 2.0 * UNIT_ROUNDOFF * across
