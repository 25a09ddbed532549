r"""The sampled Gaussian: its moments by a quadrature, what they cost, and the masses of its intervals.

The moments are averages over :math:`x \sim N(0, \sigma^2)` of powers of a mixture (`numerics/normal_mixture.py`).
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.cells import Cells
from dprounds.errors import NumericalError
from dprounds.mechanisms.base import ADD
from dprounds.mechanisms.sampling import SampledLaw
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.cumulant import LawsAt, TiltableLaw
from dprounds.numerics.mixture import Mixture
from dprounds.numerics.normal_mixture import LARGEST_POWER, NormalMixture
from dprounds.numerics.normal_mixture_ceiling import ceiling_of_powers
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.special import ndtr

__all__ = ["gaussian_cells", "normal_cells", "sampled_normal_pair"]

Array = NDArray[np.float64]

# All of these tune speed.
LEAST_NOISE = 1e-6
# The square of more noise than this, which hides everything, may overflow.
MOST_NOISE = 1e100
# With less noise than this one order takes seconds, and a batch tells all that it holds: the unsampled bound answers.
LEAST_NOISE_OF_ORDERS = 1e-3
# With less noise than this a line of the exact accountant takes seconds.
LEAST_NOISE_OF_LINES = 0.02
# A quadrature gets longer as it goes up the line. Of 40 DP-SGD runs 37 needed no more nodes than this, and the others
# ten times as many and more.
MOST_NODES_OF_LINES = 2**8
MOST_NODES_OF_SUMS = 2**13
MOST_NOISE_OF_SUMS = 8.0


def _affordable_nodes(sigma: float, on_integers: bool) -> int:
    """Values of K that one line may cost: on the integers no value takes more than some twenty terms a deviation."""
    return MOST_NODES_OF_SUMS if on_integers and sigma <= MOST_NOISE_OF_SUMS else MOST_NODES_OF_LINES


def sampled_normal_pair(sigma: float, mixture: Mixture, direction: str, *, on_integers: bool) -> SampledLaw:
    """The law of the privacy loss of a normal law against a mixture of its shifts, with what its quadrature can do."""
    most_nodes = _affordable_nodes(sigma, on_integers) if LEAST_NOISE_OF_LINES <= sigma <= MOST_NOISE else 0
    is_add = direction == ADD
    return SampledLaw(
        laws_at=_laws_at(NormalMixture(sigma, mixture, is_add, on_integers)),
        # beyond it sampling lowers the Rényi bound by less than 2 sigma log(1/q) / 1e12 of it
        largest_order=LARGEST_POWER * sigma if LEAST_NOISE_OF_ORDERS <= sigma <= MOST_NOISE else 0.0,
        most_nodes=most_nodes,
        ceiling=partial(ceiling_of_powers, sigma, mixture, is_add) if most_nodes and not on_integers else None,
    )


def _laws_at(pair: NormalMixture) -> LawsAt:
    if LEAST_NOISE <= pair.sigma <= MOST_NOISE:
        return pair.laws_at

    def refuse(z: Numbers) -> list[tuple[NDArray[np.intp], TiltableLaw]]:
        bound = f"below {LEAST_NOISE:g}" if pair.sigma < LEAST_NOISE else f"above {MOST_NOISE:g}"
        raise NumericalError(f"A sampled Gaussian of noise multiplier {pair.sigma:g}, {bound}, is not resolved.")

    return refuse


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
