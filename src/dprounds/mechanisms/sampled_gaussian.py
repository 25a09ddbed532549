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
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dprounds.accounting.cells import Cells
from dprounds.errors import NumericalError
from dprounds.mechanisms.base import ADD
from dprounds.mechanisms.sampling import MOST_TERMS, LawsAt, SampledLaw, sampled_law
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.cumulant import TiltableLaw
from dprounds.numerics.mixture import log_mixture, mixture_share
from dprounds.numerics.quadrature import grid_nodes, scale_above, scale_below, short_binary_below
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.search import increasing_root
from dprounds.numerics.theta import theta

__all__ = ["gaussian_cells", "gaussian_sampled_laws", "sampled_normal_pair"]

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
# For the direction add |w(x+ia)| >= 1 - q + q cos(angle) e^v, which must not fall below 1 - q.
ANGLES_ADD = np.linspace(0.1, 0.5 * math.pi, 12)
# Grids within a factor of two of each other are shared, and all below this many nodes.
SMALL_GRID = 256
# Above this many nodes the far-apart peaks of one order get windows of their own.
LARGE_GRID = 4096
# Steps of grids below that have so few bits, and real parts their coarse scale, that neighbours share a grid. The last
# few, of 100 kB at most as a rule, are remembered: a search asks for neighbours of the same points again and again.
SHARED_BITS = 3
MOST_REMEMBERED = 32
# 32 MB of nodes. The window between the two components alone has about one over sigma of them.
LARGEST_GRID = 2**22
LEAST_NOISE = 1e-6
# The square of more noise than this, which hides everything, may overflow.
MOST_NOISE = 1e100
# In noise multipliers. Beyond it nodes are no longer told apart, and sampling lowers the Rényi bound by less than
# 2 sigma log(1/q) / 1e12 of it.
LARGEST_ORDER = 1e12
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
    """The normal pair at distance one, mixed at a rate in (0, 1)."""

    sigma: float
    rate: float

    def v(self, x: Array) -> Array:
        """The log-ratio of the pair."""
        return (x - 0.5) / self.sigma / self.sigma

    def u(self, x: Array) -> Array:
        """The log-ratio of the mixture."""
        return log_mixture(self.rate, self.v(x))

    @cached_property
    def middle(self) -> float:
        """The x at which both components of the mixture weigh the same, where w bends."""
        return 0.5 + self.sigma * self.sigma * (math.log1p(-self.rate) - math.log(self.rate))

    def is_split(self, t: float) -> bool:
        """Whether w is a pure exponential at x >= 1 and a constant near 0, up to factors 1 + exp(-DIGITS) to the t."""
        bend = (DIGITS + math.log1p(t)) * self.sigma * self.sigma
        return REACH * self.sigma < self.middle - bend and self.middle + bend < 1.0 - REACH * self.sigma


def remove_step(pair: _Pair, t: float, s: float) -> float:
    """The trapezoid step for powers z + 1 with real parts up to t + 1 and imaginary parts up to s."""
    # Strip and step in units of sigma, whose square may overflow.
    strip = WIDEST if pair.is_split(t) else min(WIDEST_REMOVE * pair.sigma, WIDEST)
    # exp(-2 pi strip / h) exp(strip^2 / 2) exp(s strip / sigma) = exp(-DIGITS), solved for h
    return pair.sigma * 2.0 * math.pi / (DIGITS / strip + 0.5 * strip + s / pair.sigma)


class _AddShape(NamedTuple):
    """Where the integrands of the direction add peak, and by how much they grow on lines beside the real one."""

    leftmost: float
    rightmost: float
    strips: Array  # in units of sigma
    growth: Array  # the exponent, for each strip


@lru_cache(maxsize=MOST_REMEMBERED)
def _add_shape(pair: _Pair, low: float, high: float) -> _AddShape:
    """The shape for powers -z with real parts of z between `low` and `high`."""
    t = np.array([low, high])
    peaks = add_peaks(pair, t)
    # On the shifted line w is at least 1 - q + q cos(angle) e^v, whose powers integrate to more than those of w by
    # exp(growth). Both integrands are log-concave and no wider than the normal density: twice a standard deviation
    # samples them well enough for an exponent.
    x = np.arange(min(0.0, float(peaks.min())) - 4.0 * pair.sigma, 4.0 * pair.sigma, 0.5 * pair.sigma)
    angles = np.minimum(ANGLES_ADD, WIDEST / pair.sigma)
    with np.errstate(divide="ignore"):  # log(cos(pi/2)) is -inf up to rounding, and exp of it is 0
        shifts = np.concatenate([[0.0], np.log(np.maximum(np.cos(angles), 0.0))])
        log_mix = log_mixture(pair.rate, np.add.outer(shifts, pair.v(x)))
    exponents = (-0.5 * (x / pair.sigma) ** 2 - t[:, None, None] * log_mix).max(axis=2)
    growth = np.max(exponents[:, 1:] - exponents[:, :1], axis=0)
    return _AddShape(float(peaks.min()), float(peaks.max()), angles * pair.sigma, growth)


def add_step(pair: _Pair, t: float, s: float, shape: _AddShape) -> float:
    """The trapezoid step for powers -z with real parts of z up to t, imaginary parts up to s, and this shape."""
    if pair.is_split(t):
        return remove_step(pair, t, s)
    wanted = (DIGITS + shape.growth) / shape.strips + 0.5 * shape.strips + s / pair.sigma
    return pair.sigma * 2.0 * math.pi / float(wanted.min())


def add_peaks(pair: _Pair, t: Array) -> Array:
    """Where the integrand of the direction add peaks: the x <= 0 with ``x = -t share(x)``."""

    def residual(y: Array, t: Array) -> tuple[Array, Array]:
        share = mixture_share(pair.rate, pair.v(-y))
        return y - t * share, 1.0 + t * share * (1.0 - share) / pair.sigma / pair.sigma

    smallest = np.full_like(t, np.finfo(float).tiny)
    guess = t * mixture_share(pair.rate, pair.v(np.zeros_like(t)))
    # A window of ten standard deviations is placed there, so three digits are plenty.
    return -increasing_root(residual, smallest, np.maximum(t, smallest), guess, t, rtol=1e-3)


def upper_peak(pair: _Pair, t: float) -> float | None:
    """The largest x above the bend with ``x = (t + 1) share(x)``, if there is one: the upper peak of `remove`.

    Above the bend the share is concave, so Newton's method from the right of all roots falls monotonically onto it.
    """
    x = t + 1.0
    for _ in range(200):
        if x <= pair.middle:
            return None
        share = float(mixture_share(pair.rate, pair.v(np.array(x))))
        slope = 1.0 - (t + 1.0) * share * (1.0 - share) / pair.sigma / pair.sigma
        fall = x - (t + 1.0) * share
        if slope <= 0 or fall <= 1e-3 * pair.sigma:
            return x
        x -= fall / slope
    return x


def split_windows(pair: _Pair, t: float) -> list[tuple[float, float]]:
    """Windows that hold all of the integrand of `remove` at one order, when its peaks may be far apart.

    The exponent ``-x^2 / 2 sigma^2 + (t+1) u(x)`` has at most two peaks, since its slope is a line plus a logistic
    curve. It is taken relative to its value at ``x = t + 1`` for ``w = rate e^v``, lest huge terms cancel. A window is
    opened, doubling, until the exponent at its end is negligible against the higher peak, or against
    ``M - 1 >= t KL >= 2 t TV^2`` (Pinsker), where that is larger.
    """
    sigma, reach = pair.sigma, REACH * pair.sigma
    log_odds = math.log1p(-pair.rate) - math.log(pair.rate)
    origin = 0.5 * (t / sigma) * ((t + 1.0) / sigma) + (t + 1.0) * math.log(pair.rate)

    def exponent(x: float) -> float:
        v = (x - 0.5) / sigma / sigma
        return -0.5 * ((x - t - 1.0) / sigma) ** 2 + (t + 1.0) * float(np.logaddexp(0.0, log_odds - v))

    top = t + 1.0 + reach  # beyond t + 1 the exponent falls as fast as that of the normal density
    peak = upper_peak(pair, t)
    # total variation between the components is at least 0.38 min(1, 1/sigma), and rate times that for the mixture
    spent = min(0.0, math.log(t) + 2.0 * math.log(pair.rate) + math.log(0.28 * min(1.0, sigma**-2)))
    threshold = max(spent - origin, -math.inf if peak is None else exponent(peak)) - 0.5 * REACH * REACH
    bottom = top
    if peak is not None:
        width = reach
        while exponent(peak - width) > threshold and peak - width > 0:
            width *= 2.0
        bottom = peak - width
    # (w - 1)^2 peaks at 2 where it is a power of e^v, and before that at the bend
    base = min(max(pair.middle, 0.0), 2.0)
    width = reach

    def goes_on(x: float) -> bool:
        # Below the bend a rising exponent still has its lower peak ahead; above it, only the upper one.
        return exponent(x) > threshold or (x < pair.middle and exponent(x + 0.1 * sigma) > exponent(x))

    while base + width < bottom and goes_on(base + width):
        width *= 2.0
    return [(-reach, min(base + width, top)), (bottom, top)]


def _groups(pair: _Pair, z: Numbers, step: float) -> list[tuple[NDArray[np.intp], bool]]:
    """Indices of points whose grids, from zero to their real part, have sizes within a factor of two; and if small.

    Points of large grids come by one real part at a time.
    """
    size = (z.real + 1.0 + 2.0 * REACH * pair.sigma) / step
    if z.real.max() > LARGEST_ORDER * pair.sigma:
        raise NumericalError(
            f"A sampled Gaussian of noise multiplier {pair.sigma:g} is not resolved at order {z.real.max() + 1.0:g}."
        )
    octave = np.maximum(np.ceil(np.log2(size / SMALL_GRID)), 0.0)
    groups = []
    for number in sorted(set(octave.tolist())):
        indices = np.flatnonzero(octave == number)
        if number <= math.log2(LARGE_GRID / SMALL_GRID):
            groups.append((indices, True))
        else:
            groups += [(indices[z.real[indices] == t], False) for t in np.unique(z.real[indices])]
    return groups


def _affordable_nodes(sigma: float, on_integers: bool) -> int:
    """Values of K that one line may cost: on the integers no value takes more than some twenty terms a deviation."""
    return MOST_NODES_OF_SUMS if on_integers and sigma <= MOST_NOISE_OF_SUMS else MOST_NODES_OF_LINES


def sampled_normal_pair(sigma: float, rate: float, direction: str, *, on_integers: bool) -> SampledLaw:
    """The law of the sampled privacy loss of a normal pair, with what its quadrature can do."""
    return SampledLaw(
        laws_at=lambda z: gaussian_sampled_laws(sigma, z, rate, direction, on_integers=on_integers),
        largest_order=LARGEST_ORDER * sigma if LEAST_NOISE_OF_ORDERS <= sigma <= MOST_NOISE else 0.0,
        most_nodes=_affordable_nodes(sigma, on_integers) if LEAST_NOISE_OF_LINES <= sigma <= MOST_NOISE else 0,
    )


def gaussian_sampled_laws(sigma: float, z: Numbers, rate: float, direction: str, *, on_integers: bool) -> LawsAt:
    """The law of the sampled privacy loss of a normal pair, as `Sampleable` asks for it."""
    if sigma < LEAST_NOISE:
        raise NumericalError(
            f"A sampled Gaussian of noise multiplier {sigma:g}, below {LEAST_NOISE:g}, is not resolved."
        )
    if sigma > MOST_NOISE:
        raise NumericalError(
            f"A sampled Gaussian of noise multiplier {sigma:g}, above {MOST_NOISE:g}, is not resolved."
        )
    pair = _Pair(sigma, rate)
    largest_s = float(np.abs(z.imag).max())
    overall = remove_step(pair, float(z.real.max()), largest_s)
    laws = []
    for indices, small in _groups(pair, z, overall):
        low, high = float(z.real[indices].min()), float(z.real[indices].max())
        if small:
            low, high = scale_below(low), scale_above(high)
        s = float(np.abs(z.imag[indices]).max())
        reach = REACH * sigma
        windows: tuple[tuple[float, float], ...]
        if direction == ADD:
            shape = _add_shape(pair, low, high)
            step = add_step(pair, high, s, shape)
            # Where the peak lies 2 REACH deviations below zero, M exceeds exp(2 REACH^2): nothing near zero counts.
            far = shape.rightmost < -2.0 * reach
            right = shape.rightmost + reach if far else min(max(pair.middle, 1.0), 2.0) + reach
            windows = ((shape.leftmost - reach, right),)
        else:
            step = remove_step(pair, high, s)
            windows = ((-reach, max(2.0, high + 1.0) + reach),) if small else tuple(split_windows(pair, high))
        step = max(1.0, math.floor(step)) if on_integers else step
        if np.iscomplexobj(z) and indices.size * sum(end - start for start, end in windows) > MOST_TERMS * step:
            raise NumericalError("The exact sum of this run takes too long: its losses are too small.")
        if small:
            law = _remembered_law(pair, direction, short_binary_below(step, SHARED_BITS), windows, on_integers)
        else:
            law = _law(pair, direction, short_binary_below(step), windows, on_integers)
        laws.append((indices, law))
    return laws


def _law(
    pair: _Pair, direction: str, step: float, windows: tuple[tuple[float, float], ...], on_integers: bool
) -> TiltableLaw:
    """The normal density, or that of the discrete Gaussian, on the multiples of `step` in the windows."""
    if sum(high - low for low, high in windows) / step > LARGEST_GRID:
        raise NumericalError(
            f"A sampled Gaussian of noise multiplier {pair.sigma:g} would need more than {LARGEST_GRID:,} nodes here."
        )
    x = grid_nodes(step, windows)
    total = theta(pair.sigma) if on_integers else pair.sigma * math.sqrt(2.0 * math.pi)
    return sampled_law(math.log(step / total) - 0.5 * (x / pair.sigma) ** 2, pair.v(x), pair.rate, direction)


_remembered_law = lru_cache(maxsize=MOST_REMEMBERED)(_law)


def gaussian_cells(sigma: float, edges: Array) -> Cells:
    """Masses of the normal pair, N(1, sigma^2) and N(0, sigma^2), between increasing edges of its log-ratio."""
    with np.errstate(over="ignore", invalid="ignore"):
        # the log-ratio v is (2x - 1) / 2 sigma^2, so x / sigma is sigma v + 1 / 2 sigma
        under_q = sigma * edges + 0.5 / sigma
        under_p = sigma * edges - 0.5 / sigma
    largest = np.maximum(np.abs(sigma * edges), 0.5 / sigma)  # what either was rounded at
    p, p_error = _normal_cells(under_p, largest)
    q, q_error = _normal_cells(under_q, largest)
    return Cells(p, q, p_error, q_error, 0.0)


def _normal_cells(z: Array, rounded_at: Array) -> tuple[Array, Array]:
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
