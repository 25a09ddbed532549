r"""How the two-sided loss of a replaced record changes with the noise and with the rate, for sensitivities.

With v the log-ratio of the pair, q the rate, :math:`w = 1 - q + q e^v`, E the mean under Q where v > 0, and the same
panels as for M itself,

.. math:: M = 1 + E[(w^z - 1)(w - w^{-z})], \qquad
          \partial_q M = E[((z+1)(w^z - 1) - z(w^{-z-1} - 1))(e^v - 1)],

and the derivative by the noise has the first integrand times that of the logarithm of the density. Nothing cancels
within brackets, however small the rate.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.mixture import log_mixture, log_mixture_inverse
from dprounds.numerics.normal_mixture import REACH
from dprounds.numerics.quadrature import panel_rule

__all__ = ["NATS", "POINTS", "WIDEST", "panel_edges", "replaced_slopes"]

Array = NDArray[np.float64]

# Panels of the Gauss-Legendre rule: over each the log-ratio changes by at most WIDEST and two deviations, and exponent
# and phase by NATS; docs/theory/loaders.md has the error.
POINTS = 20
WIDEST = 2.0
NATS = 8.0
# Products of nodes and points at which derivatives are computed.
MOST_TERMS = 2**23
# The logarithm of the largest product that is computed as one.
LARGEST_EXPONENT = 700.0


def panel_edges(noise: float, rate: float, t: float, s: float) -> Array:
    """Edges of panels from 0 to a log-ratio, fit for moments at real parts up to t and imaginary parts up to s."""
    spread = 1.0 / noise  # the standard deviation of v
    end, width = (max(t + 1.0, 2.0) + REACH * noise - 0.5) / noise / noise, NATS / (t + 2.0 + s)
    even = np.linspace(0.0, end, math.ceil(end / min(WIDEST, 2.0 * spread)) + 1)
    if rate == 1:  # the loss is v itself
        return np.unique(np.concatenate([even, np.arange(0.0, end, width)[1:]]))
    last = float(log_mixture(rate, np.array(end)))
    inner = log_mixture_inverse(rate, np.arange(0.0, last, width)[1:])
    return np.unique(np.concatenate([even, inner[inner < end]]))


def replaced_slopes(noise: float, rate: float, z: Numbers, values: Numbers) -> dict[str, Numbers]:
    """The derivatives of K at a row z, given K, by the noise over the distance of the pair and by the rate."""
    edges = panel_edges(noise, rate, float(z.real.max()), float(np.abs(z.imag).max()))
    if edges.size * POINTS * z.size > MOST_TERMS:
        raise NumericalError("The derivatives of this run take too long.")
    v, weights = panel_rule(edges, POINTS)
    x = noise * v + 0.5 / noise
    log_q = np.log(weights * noise / math.sqrt(2.0 * math.pi)) - 0.5 * x * x
    u, z_column = v if rate == 1 else log_mixture(rate, v), z[:, None]
    grown, shrunk = z_column * u, -(z_column + 1.0) * u
    # (w^z - 1)(w - w^-z) = w (w^z - 1)(1 - w^(-z-1)), times the derivative of the logarithm of the density
    score = 1.0 / noise - x * (v - 0.5 / noise / noise)
    by_noise = (_less_one(grown, log_q + u) * -np.expm1(shrunk)) @ score
    # e^v - 1 = e^v (1 - e^-v), of which the first factor is taken into the density
    slope = (z_column + 1.0) * _less_one(grown, log_q + v) - z_column * _less_one(shrunk, log_q + v)
    moment = np.exp(values)
    return {"noise_multiplier": by_noise / moment, "sampling_rate": (slope @ -np.expm1(-v)) / moment}


def _less_one(exponent: Numbers, log_weights: Array) -> Numbers:
    """``weight (exp(exponent) - 1)``, without overflow before the product."""
    is_near = exponent.real < 1.0
    far = np.where(is_near, 0.0, exponent + log_weights)
    if float(far.real.max(initial=0.0)) > LARGEST_EXPONENT:
        raise NumericalError("A moment of this run is outside what doubles resolve.")
    weights = np.exp(log_weights)
    near = np.expm1(np.where(is_near, exponent, 0.0)) * weights
    return np.asarray(np.where(is_near, near, np.exp(far) - weights))
