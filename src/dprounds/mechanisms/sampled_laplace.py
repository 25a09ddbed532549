r"""Quadrature for the sampled Laplace mechanism.

With :math:`a = 1/b`, the log-ratio v of the pair has under Q an atom of mass 1/2 at -a, one of mass
:math:`e^{-a}/2` at a, and between them the density :math:`e^{-(v+a)/2}/4`. Powers of :math:`w = 1 - q + q\,e^v` are
analytic in the strip :math:`|\mathrm{Im}\,v| < \pi`, and their exponent is monotone and convex in v or its negative:
what counts lies at the ends, in layers as thin as one over the order.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.cells import Cells, atoms_in_cells
from dprounds.errors import NumericalError
from dprounds.mechanisms.base import ADD
from dprounds.mechanisms.sampled_laplace_decay import sampled_laplace_ceiling
from dprounds.mechanisms.sampling import SampledLaw
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.cumulant import TiltableLaw, cumulants
from dprounds.numerics.mixture import Mixture, log_mixture, log_mixture_inverse, mixture_law
from dprounds.numerics.quadrature import panel_rule, scale_above, scale_below
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["laplace_cells", "laplace_sampled_laws", "sampled_laplace_pair"]

Array = NDArray[np.float64]

# Gauss-Legendre points a panel. A panel is at most 2 wide, so the ellipse through the zeros of w, at distance pi, has
# axes that add to 6.4: 6.4^-40 = exp(-74). Over a panel the exponent varies by at most 8 and the phase by at most 8,
# for which 20 points err by less than 2 (8 sqrt(2) / 4)^40 / 40! = 4e-30 of the largest value.
POINTS = 20
WIDEST = 2.0
NATS = 8.0
# exp(-50) of the largest term does not reach a double.
NEGLIGIBLE = 50.0
# 16 MB of nodes.
MOST_PANELS = 100_000
# Laws of up to about so many panels, 100 kB each, are remembered: a search asks for neighbours of the same few points.
FEW_PANELS = 256
MOST_REMEMBERED = 32
# With less noise than this one order, or a line, takes seconds.
LEAST_NOISE_OF_ORDERS = 1e-3
LEAST_NOISE_OF_LINES = 0.02
MOST_NOISE = 1e100
# A quadrature gets longer as it goes up the line.
MOST_NODES_OF_LINES = 2**8
# A line is tried where it falls by this exponent at least.
FALL_OF_LINES = 10.0


def _octaves(t: Array) -> list[tuple[NDArray[np.intp], float, float]]:
    """Indices of the t within a factor of two of each other, all t <= 1 together, and bounds of these t."""
    octave = np.ceil(np.log2(np.maximum(t, 1.0)))
    found = []
    for number in sorted(set(octave.tolist())):
        indices = np.flatnonzero(octave == number)
        found.append((indices, scale_below(float(t[indices].min())), scale_above(float(t[indices].max()))))
    return found


def _edges(a: float, rate: float, powers: Array, s: float) -> Array:
    """Edges of the panels on [-a, a], for real powers between those given and imaginary parts up to s.

    Over a panel v changes by at most `WIDEST`, and neither the exponent nor the phase by more than `NATS` where the
    power of w is not negligible against the largest. In between, panels need to integrate only 1 and w.
    """
    ends = np.array([-a, a])
    u_ends = log_mixture(rate, ends)
    count = int(np.ceil(2.0 * a / WIDEST))
    if count > MOST_PANELS:
        raise NumericalError(f"A sampled Laplace of noise multiplier {1.0 / a:g} would need {count:,} panels.")
    spacing = NATS / (np.abs(powers).max() + s)
    # The exponent is monotone in u, so only this far from either end of u can a term be within NEGLIGIBLE of the top.
    depth = (NEGLIGIBLE + 2.0 * a) / np.abs(powers).min()
    layer = np.arange(spacing, min(depth, u_ends[1] - u_ends[0]), spacing)
    inner = log_mixture_inverse(rate, np.concatenate([u_ends[0] + layer, u_ends[1] - layer]))
    edges = np.concatenate([np.linspace(-a, a, count + 1), inner])
    return np.unique(edges[(edges >= -a) & (edges <= a)])


def sampled_laplace_pair(b: float, rate: float, direction: str) -> SampledLaw:
    """The law of the sampled privacy loss of a Laplace pair, with what its quadrature can do."""
    laws_at = partial(laplace_sampled_laws, b, rate, direction)
    most_nodes = MOST_NODES_OF_LINES if b >= LEAST_NOISE_OF_LINES else 0
    ceiling = partial(sampled_laplace_ceiling, partial(cumulants, laws_at), b, rate, direction)
    return SampledLaw(
        laws_at=laws_at,
        largest_order=np.inf if LEAST_NOISE_OF_ORDERS <= b <= MOST_NOISE else 0.0,
        most_nodes=most_nodes,
        ceiling=ceiling if most_nodes else None,
        fewest_falling=FALL_OF_LINES / (-0.5 * math.expm1(-1.0 / b)),  # over what is between the atoms
    )


def laplace_sampled_laws(
    b: float, rate: float, direction: str, z: Numbers
) -> list[tuple[NDArray[np.intp], TiltableLaw]]:
    """The law of the sampled privacy loss of a Laplace mechanism, as `cumulants` asks for it."""
    laws = []
    for indices, low, high in _octaves(z.real):
        s = float(np.abs(z.imag[indices]).max())
        s = scale_above(s)
        few = 1.0 / b * (1.0 + 4.0 * (high + 1.0 + s) / NATS) <= FEW_PANELS
        laws.append((indices, (_remembered_law if few else _law)(b, rate, direction, low, high, s)))
    return laws


def _law(b: float, rate: float, direction: str, low: float, high: float, s: float) -> TiltableLaw:
    """The law for real parts between `low` and `high`, and imaginary parts up to `s`."""
    a = 1.0 / b
    t = np.array([low, high])
    edges = _edges(a, rate, -t if direction == ADD else t + 1.0, s)
    v, weights = panel_rule(edges, POINTS)
    log_weights = np.concatenate([[np.log(0.5)], np.log(0.25 * weights) - 0.5 * (v + a), [np.log(0.5) - a]])
    return mixture_law(log_weights, np.concatenate([[-a], v, [a]]), Mixture.at_rate(rate), inverse=direction == ADD)


_remembered_law = lru_cache(maxsize=MOST_REMEMBERED)(_law)


def laplace_cells(b: float, edges: Array) -> Cells:
    """Masses of the Laplace pair between increasing edges of its log-ratio."""
    a = 1.0 / b
    half = 0.5 * np.exp(-a)
    atoms = atoms_in_cells(
        edges,
        np.array([-a, a]),
        np.array([half, 0.5]),
        np.array([0.5, half]),
        error=8.0 * UNIT_ROUNDOFF * (1.0 + a),
        blur=2.0 * UNIT_ROUNDOFF * a,
    )
    v = np.clip(np.concatenate([[-a], edges, [a]]), -a, a)
    width = -0.5 * np.expm1(-0.5 * np.diff(v))  # the difference of two exponentials, over the larger
    p, q = np.exp(0.5 * (v[1:] - a)) * width, np.exp(-0.5 * (v[:-1] + a)) * width
    error = 16.0 * UNIT_ROUNDOFF * (1.0 + a)
    return Cells(atoms.p + p, atoms.q + q, atoms.p_error + error * p, atoms.q_error + error * q, atoms.blur)
