r"""How fast the mean of a power of a mixture over a normal law falls as the power goes up a vertical line.

Ceilings end an infinite sum along such a line; docs/theory/accounting.md, "Decay".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.numerics.mixture import Mixture
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["ceiling_of_powers"]

Array = NDArray[np.float64]

# --- What carries a proof; docs/theory/accounting.md, "Decay".

# The trapezoid rule is made to err by at most 2 / (exp(46) - 1) < 3e-20 of M(t), which is added.
DIGITS = 46.0
QUADRATURE_ERROR = 3e-20
# Ten deviations beyond the outermost peaks, what is left out is below 1e-22 of M(t), times exp(8) where the power is
# negative. That is added too.
REACH = 10.0
NEGATIVE_POWER_ROOM = 8.0
WINDOW_ERROR = 1e-18
# The mixture has its zeros at an angle of pi; near it the quadrature would need a narrow strip.
WIDEST_ANGLE = 2.5
# Where several components turn, the square of the modulus is one less a difference of sums of shares, each below two,
# that rounds by 8 units and two for each component; it is at least cos(WIDEST_ANGLE / 2)^2 > 0.09, and the argument is
# off by no more.
MODULUS_ERROR = 64.0 * UNIT_ROUNDOFF
LARGEST_FALL = 0.91
# In units of rounding, a logarithm and an exponential below exp(-745) = 0, and sums of MOST_NODES terms.
FIXED_ERROR = 1000.0

# --- What only tunes speed and tightness.

# The best shift of the contour for nearly normal losses, and the fractions and multiples of it that are tried. A poor
# choice makes the ceiling higher and no less true.
TRIED = np.array([0.2, 0.4, 0.6, 0.8, 1.0, 1.3])
# A longer grid costs more than it saves, and no ceiling is given.
MOST_NODES = 2**14


def ceiling_of_powers(sigma: float, mixture: Mixture, inverse: bool, t: float, s: Array) -> Array:
    r"""A number that ``log |M(t + is')|`` does not exceed for any s' from s on, at every s of a row.

    M(z) is the mean of ``w^(z+1)``, or, if it is `inverse`, of ``w^-z``, as `NormalMixture` has it.

    With the contour of the average moved up by :math:`\sigma^2\vartheta`, where :math:`w` has a positive argument,

    .. math:: |M(t+is')| \le e^{\sigma^2\vartheta^2/2}\,E\bigl[|w_\vartheta|^{p}\,e^{-s'\arg w_\vartheta}\bigr],
              \qquad w_\vartheta = p_0 + \sum_i p_i\,e^{v_i + ir_i\vartheta},

    with :math:`p = t + 1`, or :math:`p = -t` for the inverse. The right side falls as :math:`s'` grows,
    so its value at s bounds all that follows; the least over several angles is taken.

    Guarantee
    ---------
    Returns ceilings that are never below the truth; ``inf`` where the quadrature would be too long.

    Parameters
    ----------
    sigma
        The deviation of the normal law, over the largest shift.
    mixture, inverse
        As for `NormalMixture`.
    t, s
        The half-lines from ``t + is`` upward; both positive, s increasing.

    Theorem
    -------
    docs/theory/accounting.md, "Decay"; the quadrature error by [TW14, Theorem 5.1].
    """
    power = -t if inverse else t + 1.0
    angles = _angles(sigma, mixture, power, s)
    x = None if angles is None else _nodes(sigma, power, angles)
    if angles is None or x is None:
        return np.full_like(s, math.inf)
    law = _tilted(sigma, mixture, power, x)
    shares, weight = law.shares, law.weight
    bound = np.full_like(s, math.inf)
    for angle in angles.T:
        log_modulus, argument = _turned(mixture, shares, angle)
        exponents = power * log_modulus - s[:, None] * argument
        terms = np.exp(exponents)
        ratio = terms @ weight
        # A share is off by as many units as the logarithm that it was made of is large, and so is the exponent.
        rounding = 4.0 * UNIT_ROUNDOFF * ((terms * np.abs(exponents)) @ (weight * law.units))
        if not mixture.is_single:
            rounding += MODULUS_ERROR * (abs(power) + s) * len(mixture.slopes) * ratio
        moved = np.log(ratio + rounding + WINDOW_ERROR + QUADRATURE_ERROR)
        bound = np.minimum(bound, 0.5 * (sigma * angle) ** 2 + moved)
    units = FIXED_ERROR + law.largest_exponent + abs(law.log_total)
    # What bounds a half-line bounds every one inside it.
    return np.asarray(np.minimum.accumulate(bound)) + law.log_total + 4.0 * UNIT_ROUNDOFF * units


class _Tilted(NamedTuple):
    """The law ``phi w^power`` on a grid: shares, weights that sum to one, log M(t), and what rounding depends on."""

    shares: Array
    weight: Array
    units: Array
    log_total: float
    largest_exponent: float


def _tilted(sigma: float, mixture: Mixture, power: float, x: Array) -> _Tilted:
    v = (x - 0.5) / sigma / sigma
    log_mix = mixture.log(v)
    normal = -0.5 * (x / sigma) ** 2
    exponents = normal + power * log_mix
    peak = float(exponents.max())
    weight = np.exp(exponents - peak)
    total = float(weight.sum())
    log_total = peak + math.log(total * float(x[1] - x[0]) / (sigma * math.sqrt(2.0 * math.pi)))
    units = 16.0 + np.abs(v) + max(mixture.offsets) + np.abs(log_mix) - math.log(min(mixture.probabilities))
    largest_exponent = float(np.max(np.abs(power * log_mix) - normal))
    return _Tilted(mixture.shares(v, log_mix), weight / total, units, log_total, largest_exponent)


def _turned(mixture: Mixture, shares: Array, angle: Array) -> tuple[Array, Array]:
    """The logarithm of the modulus, and the argument, of w_θ / w at every angle and node."""
    if mixture.is_single:
        share, half = shares[0], np.sin(0.5 * angle)[:, None]
        # |w_θ|^2 / w^2 = 1 - 4 β (1 - β) sin^2(θ/2), with the share β of the second component
        log_modulus = 0.5 * np.log1p(-4.0 * share * (1.0 - share) * (half * half))
        return log_modulus, np.arctan2(share * np.sin(angle)[:, None], 1.0 - 2.0 * share * (half * half))
    turns = np.multiply.outer(angle, mixture.slopes)
    fall = (2.0 * np.sin(0.5 * turns) ** 2) @ shares  # by how much the real part of w_θ / w is below one
    imaginary = np.sin(turns) @ shares
    log_modulus = 0.5 * np.log1p(-np.clip(2.0 * fall - fall * fall - imaginary * imaginary, 0.0, LARGEST_FALL))
    return log_modulus, np.arctan2(imaginary, 1.0 - fall)


def _angles(sigma: float, mixture: Mixture, power: float, s: Array) -> Array | None:
    """Angles to try for every s, in rows."""
    x = _nodes(sigma, power, np.zeros(1))
    if x is None:
        return None
    law = _tilted(sigma, mixture, power, x)
    # With f the logarithm of the integrand, the shift s E[u'] / E[-f''] is best where the losses are nearly normal.
    bend = 1.0 - power * float(law.weight @ mixture.bend(law.shares)) / sigma**2
    best = s * float(law.weight @ mixture.slope(law.shares)) / (max(bend, 1e-3) * sigma**2)
    widest = WIDEST_ANGLE
    if power < 0:  # |w_θ|^power is at most w^power cos(θ/2)^power
        widest = min(widest, 2.0 * math.acos(math.exp(NEGATIVE_POWER_ROOM / power)))
    return np.asarray(np.minimum(np.multiply.outer(best, TRIED), widest))


def _nodes(sigma: float, power: float, angles: Array) -> Array | None:
    """A grid that meets `DIGITS` at each of the angles, or None where it would be too long.

    The peaks of ``phi w^power`` lie between 0 and the power (docs/theory/mechanisms.md). The slopes of a mixture are at
    most one, so that no component turns by more than the angle.
    """
    # Moved by a further angle b the integrand grows by no more than the normal density and, for a negative power, the
    # cosine below, as long as b + θ <= π/2, or b <= θ and b + θ < π. The tenth keeps off the zeros of w.
    strip = np.maximum(0.5 * math.pi - angles, 0.9 * np.minimum(angles, math.pi - angles))
    # the best strip for a normal density alone, and for a power that grows like exp(|power| angle^2 / 8)
    strip = np.minimum(strip, math.sqrt(2.0 * DIGITS / (sigma**2 + max(-power, 0.0) / 4.0)))
    growth = 0.5 * sigma**2 * (angles**2 + strip**2)
    if power < 0:
        growth = growth + power * np.log(np.cos(0.5 * (angles + strip)))
    step = float(np.min(2.0 * math.pi * sigma**2 * strip / (DIGITS + growth)))
    low, high = min(0.0, power) - REACH * sigma, max(0.0, power) + REACH * sigma
    if not (high - low) / step < MOST_NODES:
        return None
    return np.asarray(step * np.arange(math.floor(low / step), math.ceil(high / step) + 1))
