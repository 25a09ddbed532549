r"""K of many different sampled Gaussians at once, for histories of hundreds of them.

With :math:`u = x/\sigma` all of them are averages over one standard normal law, of powers of :math:`w = 1 - q +
q\,e^v`, :math:`v = u/\sigma - 1/2\sigma^2`. So neighbours in :math:`\sigma` share a grid of u: its step is the least
that one of them needs, and its window the union of theirs. docs/theory/mechanisms.md has the bounds, which a shorter
step and a longer window keep.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics import normal_mixture_ceiling as decay
from dprounds.numerics.cancellation import SMALL, half_square_series
from dprounds.numerics.complex_plane import Numbers, log1p_at
from dprounds.numerics.cumulant import FAR
from dprounds.numerics.normal_mixture import DIGITS, REACH, WIDEST, WIDEST_POSITIVE
from dprounds.numerics.quadrature import short_binary_below
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["ManySampledGaussians"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# --- What limits the formulas below; outside of it each mechanism is computed by itself.

# Up to this rate w - 1 is above -1/2, and log1p of it loses nothing.
LARGEST_RATE = 0.5
# Exponents up to here do not overflow, nor do sums of their exponentials.
LARGEST_EXPONENT = 600.0

# Strips of the direction add, as angles.
ANGLES = np.linspace(0.1, 2.8, 28)

# --- What only tunes speed.

# Members that share a grid.
MOST_TOGETHER = 64
# Longer grids are left to the mechanism itself.
MOST_POINTS = 2**11
# Multiples of the best angle that are tried for a ceiling.
TRIED = (0.8, 1.0)
# A ceiling is computed for the s at which |M| of nearly normal losses has fallen by these exponents, until it has
# fallen by enough to end any sum. What bounds a half-line bounds every one inside it.
FALLS = np.array([30.0, 36.0, 43.0, 52.0, 65.0, 90.0, 130.0, 200.0, 350.0, 700.0, 2000.0, math.inf])
ENOUGH = 60.0


class _Grid(NamedTuple):
    """Points of u, logarithms of the normal weights there, and log w of every member."""

    u: Array
    log_normal: Array
    log_mix: Array


@dataclass(frozen=True)
class ManySampledGaussians:
    """Poisson-sampled Gaussians in one direction; each member is a row (noise multiplier, sampling rate)."""

    is_add: bool

    def log_moments(self, members: Array, z: Numbers) -> Numbers | None:
        """K of each member, a row for each, at real points or on one vertical line; None where it is out of reach."""
        if np.iscomplexobj(z) and not _is_equally_spaced(z):
            return None
        values: Numbers = np.empty((len(members), z.size))
        if np.iscomplexobj(z):
            values = np.empty((len(members), z.size), dtype=np.complex128)
        for rows in self._together(members):
            found = self._some_log_moments(members[rows], z)
            if found is None:
                return None
            values[rows] = found
        return values

    def _together(self, members: Array) -> Iterator[NDArray[np.intp]]:
        """Rows of members with neighbouring noise."""
        order = np.argsort(members[:, 0])
        return (order[start : start + MOST_TOGETHER] for start in range(0, order.size, MOST_TOGETHER))

    def _some_log_moments(self, members: Array, z: Numbers) -> Numbers | None:
        high = float(z.real.max())
        grid = self._grid(members, high, float(np.abs(z.imag).max()))
        if grid is None:
            return None
        loss = -grid.log_mix if self.is_add else grid.log_mix
        log_weights = grid.log_normal + (np.zeros_like(loss) if self.is_add else grid.log_mix)
        if not float((log_weights + high * np.maximum(loss, 0.0)).max()) < LARGEST_EXPONENT:
            return None
        weights = np.exp(log_weights)
        reverse = (weights * _exp_minus_tangent(-loss)).sum(axis=1)  # E[exp(-L) - 1 + L]
        if np.iscomplexobj(z):
            return _on_line(weights, loss, reverse, float(z.real[0]), z.imag)
        found = np.empty((len(members), z.size))
        for i, t in enumerate(z.real.tolist()):
            y = t * loss
            excess = (weights * _exp_minus_tangent(y)).sum(axis=1) + t * reverse
            found[:, i] = np.log1p(excess)
            far = found[:, i] > FAR
            if far.any():
                found[far, i] = np.log(np.exp(log_weights[far] + y[far]).sum(axis=1))
        return found

    def _grid(self, members: Array, high: float, s: float) -> _Grid | None:
        """The grid for real parts of z up to `high`, and imaginary parts up to s."""
        sigma, rate = members[:, :1], members[:, 1:]
        if not (rate.max() <= LARGEST_RATE and high > 0):
            return None
        if self.is_add:
            # |w| on the line of an angle is at least w cos(angle / 2), and the remainder has its power -t - 2
            strips = np.minimum(ANGLES, WIDEST / sigma) * sigma
            growth = -(high + 2.0) * np.log(np.cos(0.5 * strips / sigma))
            wanted = ((DIGITS + growth) / strips + 0.5 * strips).min(axis=1, keepdims=True) + s / sigma
            left, right = -high / sigma - REACH, 2.0 / sigma + REACH
        else:
            strips = np.minimum(WIDEST_POSITIVE * sigma, WIDEST)
            wanted = DIGITS / strips + 0.5 * strips + s / sigma
            left, right = np.full_like(sigma, -REACH), max(2.0, high + 1.0) / sigma + REACH
        step = short_binary_below(2.0 * math.pi / float(wanted.max()))
        first, last = math.floor(float(left.min()) / step), math.ceil(float(right.max()) / step)
        if not last - first < MOST_POINTS:
            return None
        u = step * np.arange(first, last + 1, dtype=np.float64)
        v = (u - 0.5 / sigma) / sigma
        if not float(v.max()) < LARGEST_EXPONENT:
            return None
        log_normal = math.log(step / math.sqrt(2.0 * math.pi)) - 0.5 * u * u
        return _Grid(u, log_normal, np.log1p(rate * np.expm1(v)))

    def ceiling(self, members: Array, rounds: Array, t: float, s: Array) -> Array | None:
        """An upper bound of the sum over all rounds of Re K, from each ``t + is`` on; None where it is out of reach.

        Theorem
        -------
        docs/theory/accounting.md, "Decay", for each member.
        """
        power = -t if self.is_add else t + 1.0
        best, fall, flat = (np.empty(len(members)) for _ in range(3))
        for rows in self._together(members):
            known = self._fall(members[rows], power)
            if known is None:
                return None
            best[rows], fall[rows], flat[rows] = known
        wanted = np.sqrt(FALLS / max(float(rounds @ fall), 1e-300))
        total = np.full(s.size, math.inf)
        for number in np.unique(np.minimum(np.searchsorted(s, wanted), s.size - 1)).tolist():
            bounds = np.empty(len(members))
            for rows in self._together(members):
                found = self._ceilings(members[rows], power, float(s[number]), best[rows])
                if found is None:
                    return None
                bounds[rows] = found
            total[number] = float(rounds @ bounds)
            if total[number] <= float(rounds @ flat) - ENOUGH:
                break
        return np.minimum.accumulate(total)

    def _fall(self, members: Array, power: float) -> tuple[Array, Array, Array] | None:
        """The best angle over s and the fall of log |M| over s^2, if the losses are nearly normal, and log M(t)."""
        grid = self._ceiling_grid(members, power, np.zeros((len(members), 1)))
        if grid is None:
            return None
        sigma, (share, weight, _, log_total, _) = members[:, 0], _tilted(members, power, grid)
        mean = (weight * share).sum(axis=1)
        bend = np.maximum(1.0 - power * (weight * share * (1.0 - share)).sum(axis=1) / sigma**2, 1e-3)
        return mean / (bend * sigma**2), 0.5 * mean**2 / (bend * sigma**2), log_total

    def _ceilings(self, members: Array, power: float, s: float, best: Array) -> Array | None:
        """`ceiling_of_powers` of each member at one s."""
        sigma, widest = members[:, :1], decay.WIDEST_ANGLE
        if power < 0:
            widest = min(widest, 2.0 * math.acos(math.exp(decay.NEGATIVE_POWER_ROOM / power)))
        angles = np.minimum(s * best[:, None] * np.array(TRIED), widest)
        grid = self._ceiling_grid(members, power, angles)
        if grid is None:
            return None
        share, weight, units, log_total, largest = _tilted(members, power, grid)
        bound = np.full(len(members), math.inf)
        for angle in angles.T:
            half = np.sin(0.5 * angle)[:, None] ** 2
            log_modulus = 0.5 * np.log1p(-4.0 * share * (1.0 - share) * half)
            argument = np.arctan2(share * np.sin(angle)[:, None], 1.0 - 2.0 * share * half)
            exponents = power * log_modulus - s * argument
            terms = weight * np.exp(exponents)
            rounding = 4.0 * UNIT_ROUNDOFF * (terms * np.abs(exponents) * units).sum(axis=1)
            moved = np.log(terms.sum(axis=1) + rounding + decay.WINDOW_ERROR + decay.QUADRATURE_ERROR)
            bound = np.minimum(bound, 0.5 * (sigma[:, 0] * angle) ** 2 + moved)
        return np.asarray(bound + log_total + 4.0 * UNIT_ROUNDOFF * (decay.FIXED_ERROR + largest + np.abs(log_total)))

    def _ceiling_grid(self, members: Array, power: float, angles: Array) -> _Grid | None:
        """A grid of u that meets the step and the window of `decay` for each member, at each of its angles."""
        sigma, rate = members[:, :1], members[:, 1:]
        if not rate.max() <= LARGEST_RATE:
            return None
        strip = np.maximum(0.5 * math.pi - angles, 0.9 * np.minimum(angles, math.pi - angles))
        strip = np.minimum(strip, np.sqrt(2.0 * decay.DIGITS / (sigma**2 + max(-power, 0.0) / 4.0)))
        growth = 0.5 * sigma**2 * (angles**2 + strip**2)
        if power < 0:
            growth = growth + power * np.log(np.cos(0.5 * (angles + strip)))
        step = float((2.0 * math.pi * sigma * strip / (decay.DIGITS + growth)).min())
        left = float((min(0.0, power) / sigma).min()) - decay.REACH
        right = float((max(0.0, power) / sigma).max()) + decay.REACH
        if not (right - left) / step < MOST_POINTS:
            return None
        u = step * np.arange(math.floor(left / step), math.ceil(right / step) + 1, dtype=np.float64)
        v = (u - 0.5 / sigma) / sigma
        if not float(v.max()) < LARGEST_EXPONENT:
            return None
        return _Grid(u, math.log(step / math.sqrt(2.0 * math.pi)) - 0.5 * u * u, np.log1p(rate * np.expm1(v)))


def _is_equally_spaced(z: Numbers) -> bool:
    """Whether z are nodes of a vertical line, up to the rounding of their multiples."""
    if (z.real != z.real[0]).any():
        return False
    steps = np.diff(z.imag)
    return z.size < 3 or bool(np.ptp(steps) <= 4.0 * UNIT_ROUNDOFF * np.abs(z.imag).max())


def _tilted(members: Array, power: float, grid: _Grid) -> tuple[Array, Array, Array, Array, Array]:
    """As `decay`: shares, weights that sum to one, units of rounding, log M(t), and the largest exponents."""
    sigma, rate = members[:, :1], members[:, 1:]
    v = (grid.u - 0.5 / sigma) / sigma
    exponents = grid.log_normal + power * grid.log_mix
    peak = exponents.max(axis=1, keepdims=True)
    weight = np.exp(exponents - peak)
    total = weight.sum(axis=1, keepdims=True)
    # v is a difference, off by units of its terms
    units = 16.0 + np.abs(v) + 1.0 / sigma**2 + np.abs(grid.u) / sigma + np.abs(grid.log_mix) - np.log(rate)
    share = np.exp(np.log(rate) + v - grid.log_mix)
    largest = (np.abs(power * grid.log_mix) + np.abs(grid.log_normal)).max(axis=1)
    return share, weight / total, units, (peak + np.log(total))[:, 0], largest


def _exp_minus_tangent(y: Array) -> Array:
    """``exp(y) - 1 - y``."""
    found = np.expm1(y) - y
    small = np.abs(y) < SMALL
    near = y[small]
    found[small] = 0.5 * near * near * half_square_series(near)
    return found


def _rotation(angle: Array) -> tuple[ComplexArray, ComplexArray]:
    """``exp(iy) - 1`` and ``exp(iy) - 1 - iy``, each to small error relative to itself."""
    half = np.sin(0.5 * angle)
    sine = np.sin(angle)
    turned = -2.0 * half * half + 1j * sine
    curved = turned - 1j * angle
    small = np.abs(angle) < 1.0
    square = angle[small] ** 2
    series = np.ones_like(square)
    for divisor in SINE_DIVISORS:
        series = 1.0 - square * series / divisor
    curved.imag[small] = -angle[small] * square * series / 6.0
    return turned, curved


# sin(y) - y = -y^3/6 (1 - y^2/20 (1 - y^2/42 (...))). For |y| < 1 the first term left out is below 6 / 19! = 5e-17.
SINE_DIVISORS = tuple(float(n * (n + 1)) for n in range(16, 2, -2))


def _on_line(weights: Array, loss: Array, reverse: Array, t: float, s: Array) -> ComplexArray:
    r"""K at ``t + is`` for equally spaced s, of each row.

    .. math:: e^{zx} - 1 - zx = [e^{tx} - 1 - tx] + isx(e^{tx} - 1) + e^{tx}[e^{isx} - 1 - isx],

    and for s = a + b the last bracket is (e^(iax) - 1)(e^(ibx) - 1) and the brackets of a and b: a matrix product.
    """
    along = _exp_minus_tangent(t * loss)
    tilted = weights * (along + 1.0 + t * loss)
    slope = (weights * (along + t * loss) * loss).sum(axis=1)
    width = max(1, math.isqrt(s.size))
    step = float(s[1] - s[0]) if s.size > 1 else 0.0
    rows = s[0] + step * width * np.arange(-(-s.size // width))
    columns = step * np.arange(width)
    left, left_curved = _rotation(loss[:, None, :] * rows[:, None])
    right, right_curved = _rotation(loss[:, None, :] * columns[:, None])
    curved = (left * tilted[:, None, :]) @ right.transpose(0, 2, 1)
    curved += (left_curved @ tilted[:, :, None]) + (right_curved @ tilted[:, :, None]).transpose(0, 2, 1)
    rotated = curved.reshape(len(loss), -1)[:, : s.size]
    along_sum = (weights * along).sum(axis=1)[:, None]
    z = t + 1j * s
    excess = along_sum + 1j * s * slope[:, None] + rotated + z * reverse[:, None]
    return np.asarray(log1p_at(excess), dtype=np.complex128)
