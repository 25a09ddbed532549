r"""Gaussian noise on a Poisson sample, where one record is replaced by another.

In units of the clipping norm the worst pair is :math:`P = (1-q) N(0, \sigma^2) + q N(1, \sigma^2)` against
:math:`Q = (1-q) N(0, \sigma^2) + q N(-1, \sigma^2)`; docs/theory/loaders.md, "Poisson samples, one record replaced".
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.cells import Cells, CellsOf
from dprounds.mechanisms.base import Mechanism
from dprounds.mechanisms.fixed_size_sampled import FixedSizeSampled
from dprounds.mechanisms.gaussian import Gaussian
from dprounds.mechanisms.sampled_gaussian import normal_cells
from dprounds.numerics.mixture import log_mixture, log_mixture_ulps
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["Replaced", "replaced", "replaced_cells"]

Array = NDArray[np.float64]

# Above this a hyperbolic sine is half of an exponential, to the last digit.
LARGE = 20.0


class Replaced(NamedTuple):
    """What a sampled mechanism costs where one record is replaced by another.

    Parameters
    ----------
    bound
        A mechanism that reveals no less, whose moments are taken.
    cells
        Those of the loss itself; None where `bound` is the pair itself.
    """

    bound: Mechanism
    cells: CellsOf | None = None


def replaced(noise: float, rate: float) -> Replaced:
    """That pair at a rate in (0, 1].

    Its moments and Rényi bounds are at most those of a batch of fixed size at the same rate, where a record that is not
    drawn has another one in its place, which may be twice as far away: an empty one is a special case.
    """
    if rate == 1:
        return Replaced(Gaussian(0.5 * noise))
    drawn, of = Fraction(rate).as_integer_ratio()
    return Replaced(FixedSizeSampled(Gaussian(noise), drawn, of), partial(replaced_cells, noise, rate))


def replaced_cells(noise: float, rate: float, edges: Array) -> Cells:
    """Masses of intervals of the loss between increasing edges."""
    x = _output_of(noise, rate, edges)
    # No inverse is exact, and none need be: the cells are those of the outputs that were found.
    off = 4.0 * UNIT_ROUNDOFF * np.abs(edges)
    found = np.zeros_like(x)
    for sign in (1.0, -1.0):
        v = (sign * 2.0 * x - 1.0) / (2.0 * noise * noise)
        log_mix = log_mixture(rate, v)
        found += sign * log_mix
        off += UNIT_ROUNDOFF * (log_mixture_ulps(rate, v, log_mix) * np.abs(log_mix) + 8.0 * np.abs(v))
        off += 8.0 * UNIT_ROUNDOFF / (noise * noise)
    off += np.abs(found - edges)
    size = np.abs(x / noise) + 1.0 / noise
    none, here, there = (normal_cells((x - shift) / noise, size) for shift in (0.0, 1.0, -1.0))
    (p, p_error), (q, q_error) = (
        (
            (1.0 - rate) * none[0] + rate * moved[0],
            (1.0 - rate) * none[1] + rate * moved[1] + 4.0 * UNIT_ROUNDOFF * ((1.0 - rate) * none[0] + rate * moved[0]),
        )
        for moved in (here, there)
    )
    return Cells(p, q, p_error, q_error, float(off.max(initial=0.0)))


def _output_of(noise: float, rate: float, losses: Array) -> Array:
    r"""The outputs with these losses, :math:`x = \sigma^2 [L/2 + \operatorname{arsinh}(a \sinh(L/2))]`.

    Here :math:`a = (1-q)/q\; e^{1/2\sigma^2}`: for :math:`u = e^{x/\sigma^2 - L/2}` the loss is L where
    :math:`u - 1/u = 2 a \sinh(L/2)`.
    """
    square = noise * noise
    half = 0.5 * np.abs(losses)
    log_a = math.log1p(-rate) - math.log(rate) + 0.5 / square
    with np.errstate(divide="ignore", over="ignore"):
        log_sinh = np.where(half > LARGE, half - math.log(2.0), np.log(np.sinh(np.minimum(half, LARGE))))
        log_product = log_a + log_sinh
        angle = np.where(
            log_product > LARGE, log_product + math.log(2.0), np.arcsinh(np.exp(np.minimum(log_product, LARGE)))
        )
    return np.asarray(np.sign(losses) * square * (half + angle))
