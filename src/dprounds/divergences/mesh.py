r"""The plane in which two f-divergences are compared, and the mesh of likelihood ratios that covers it.

Put a point of log ratio u at :math:`s = \tanh(u/2) \in [-1, 1]` with weight :math:`w = p + q`. Two distributions are
then a measure with :math:`\sum w = 2` and :math:`\sum w s = 0`, and both divergences are linear in it:
:math:`D_f = \sum w F`, :math:`D_g = \sum w G`. A binary pair has one point on either side of s = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds.divergences.family import Divergence
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["LOG_ERROR", "Chord", "Side", "end_ratios", "main_mesh", "pair_log_weights", "pair_point"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Magnitudes of log ratios. Below the smallest, a smooth kernel (about u²) underflows. Up to the knee kernels are powers
# of u, and one point per decade finds the right dip; beyond it their shape varies. The proof shows if a dip was missed.
SMALLEST_LOG_RATIO, KNEE_LOG_RATIO = 1e-150, 1e-3
POINTS_PER_DECADE_BELOW, POINTS_PER_DECADE_ABOVE = 1, 12
# Around a corner: from where u itself is rounded, to where the main mesh is fine enough.
CORNER_OFFSETS = np.geomspace(1e-12, 1.0, 73)

# Kernels are computed as logarithms. Measured against arbitrary precision, they carry a relative error of up to two
# units for each unit of the logarithm. This is twice that.
LOG_ERROR = 4 * UNIT_ROUNDOFF


@dataclass(frozen=True)
class Side:
    """Which extreme of g is sought at given f, and the mesh of log ratios it is sought on."""

    f: Divergence
    g: Divergence
    sign: float  # 1 for the least g; -1 for the greatest, as the least of -g
    steepest: float  # the largest slope that a line below the region can have: its recession direction
    size: Array  # magnitudes of the mesh, ascending, the last one infinite
    log_f: Array  # shape (2, mesh): negative log ratios, then positive ones
    log_g: Array

    @classmethod
    def of(cls, f: Divergence, g: Divergence, sign: float) -> Side:
        """The least (`sign` 1) or greatest (-1) side, with its mesh."""
        limit = min(f.largest_log_ratio, g.largest_log_ratio)
        corners = [
            center + direction * CORNER_OFFSETS
            for center in {abs(kink) for kink in f.log_kinks + g.log_kinks} - {0.0}
            for direction in (-1.0, 0.0, 1.0)
        ]
        size = np.unique(np.concatenate([main_mesh(limit), *corners]))
        size = np.append(size[(size >= SMALLEST_LOG_RATIO) & (size <= limit)], np.inf)
        steepest = min((sign * ratio for ratio in end_ratios(f, g)), default=np.inf)
        return cls._at(f, g, sign, steepest, size)

    @classmethod
    def _at(cls, f: Divergence, g: Divergence, sign: float, steepest: float, size: Array) -> Side:
        """The side with a given mesh."""
        both = np.stack([-size, size])
        return cls(f, g, sign, steepest, size, f.log_kernel_everywhere(both), g.log_kernel_everywhere(both))

    def with_points(self, size: Array) -> Side:
        """The side with a mesh that has some further magnitudes."""
        return Side._at(self.f, self.g, self.sign, self.steepest, np.union1d(self.size, size))


def main_mesh(limit: float) -> Array:
    """Magnitudes of log ratios up to `limit`, ascending."""
    below = np.geomspace(
        SMALLEST_LOG_RATIO,
        KNEE_LOG_RATIO,
        1 + round(POINTS_PER_DECADE_BELOW * np.log10(KNEE_LOG_RATIO / SMALLEST_LOG_RATIO)),
    )
    above = np.geomspace(KNEE_LOG_RATIO, limit, 1 + round(POINTS_PER_DECADE_ABOVE * np.log10(limit / KNEE_LOG_RATIO)))
    return np.append(below, above[1:])


def end_ratios(f: Divergence, g: Divergence) -> list[float]:
    """Limits of G/F at those ends, ratio zero and ratio infinity, where f is infinite.

    A vanishing mass there adds a given amount to :math:`D_f` and this multiple of it to :math:`D_g`.
    """
    reach = min(f.largest_log_ratio, g.largest_log_ratio)
    ratios = []
    for sign, f_end, g_end in ((-1.0, f.at_zero, g.at_zero), (1.0, f.slope_at_infinity, g.slope_at_infinity)):
        if not np.isinf(f_end):
            continue
        if not np.isinf(g_end):
            ratios.append(0.0)
            continue
        u = sign * reach * np.array([0.5, 1.0])
        halfway, final = g.log_kernel(u) - f.log_kernel(u)
        # When the log ratio doubles, every power of the ratio or of its logarithm changes by far more than a tenth.
        if abs(final - halfway) > 0.1:
            ratios.append(float(np.inf if final > halfway else 0.0))
        else:
            ratios.append(float(np.exp(final)))
    return ratios


@dataclass
class Chord:
    """Mixtures of two binary pairs `left` and `right`, one per value, and what is known of D_g on them.

    Pairs are log ratios, shape (n, 2), the first <= 0 <= the second; `share` is the weight of the right pair. Where the
    right end is a `ray`, share is 0 and the left pair is what remains in the limit.
    """

    left: Array
    right: Array
    displaced: Array  # the pair that was last replaced, a third point next to the boundary
    share: Array
    ray: Mask
    log_value: Array  # log of D_g on the chord
    log_bound: Array  # log of what no pair crosses; NaN until there is a proof
    log_unit: Array  # log of the unit in which D_g is measured: about its own size
    slope: Array  # of the line that the bound is read off, with D_g in units of exp(log_slope_unit)
    log_slope_unit: Array
    relief: Array  # by how many rounding errors the slope of the proof is less than the chord's
    log_target: Array  # log of the wanted D_f, which is the unit of D_f

    @classmethod
    def blank(cls, log_target: Array) -> Chord:
        """Equal distributions, of which nothing is claimed."""
        n = log_target.size
        return cls(
            left=np.zeros((n, 2)),
            right=np.zeros((n, 2)),
            displaced=np.zeros((n, 2)),
            share=np.zeros(n),
            ray=np.zeros(n, dtype=np.bool_),
            log_value=np.full(n, np.nan),
            log_bound=np.full(n, np.nan),
            log_unit=np.zeros(n),
            slope=np.zeros(n),
            log_slope_unit=np.zeros(n),
            relief=np.ones(n),
            log_target=log_target,
        )

    def take(self, where: NDArray[np.intp]) -> Chord:
        """The chords at some of the values."""
        return Chord(**{name: value[where] for name, value in vars(self).items()})

    def put(self, where: NDArray[np.intp], part: Chord) -> None:
        """Write the chords of some of the values back."""
        for name, value in vars(part).items():
            getattr(self, name)[where] = value


def pair_log_weights(pair: Array) -> Array:
    """Logs of w on the two points of a binary pair: they sum to two and balance at s = 0."""
    s = np.tanh(0.5 * np.abs(pair))
    total = s[..., :1] + s[..., 1:]
    with np.errstate(divide="ignore", invalid="ignore"):  # a point opposite s = 0 has weight zero
        return np.asarray(np.log(np.where(total > 0, 2.0 * s[..., ::-1] / total, 1.0)))


def pair_point(f: Divergence, pair: Array, log_unit: Array) -> Array:
    """D_f of binary pairs, in units of exp(log_unit)."""
    log_weight = pair_log_weights(pair)
    with np.errstate(over="ignore", invalid="ignore"):  # -inf + inf: weight zero on an infinite kernel, worth nothing
        terms = np.exp(log_weight + f.log_kernel_everywhere(pair) - log_unit[..., None])
    return np.asarray(np.where(np.isneginf(log_weight), 0.0, terms).sum(axis=-1))
