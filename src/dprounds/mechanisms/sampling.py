r"""Mechanisms that can follow Poisson sampling, and the law of their loss when they do.

With :math:`w = 1 - q + q\,e^v` for the log-ratio v of the pair at rate q, the loss is :math:`\log w` under the mixture
in the direction remove, and :math:`-\log w` under Q in the direction add.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket
from dprounds.accounting.cells import Cells, CellsOf, atoms_in_cells
from dprounds.accounting.law import Family, Lattice, LossLaw, Slopes
from dprounds.accounting.turnable import Turnable
from dprounds.mechanisms.base import ADD, Mechanism
from dprounds.numerics.cumulant import LawsAt
from dprounds.numerics.mixture import log_mixture, log_mixture_inverse, log_mixture_ulps
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = [
    "Sampleable",
    "SampledLaw",
    "Sloped",
    "nothing_law",
    "sampled_atoms",
    "sampled_cells",
    "sampled_excess",
]

Array = NDArray[np.float64]


class SampledLaw(NamedTuple):
    """What a mechanism knows of its loss when it is sampled at a rate in (0, 1), in one direction.

    Parameters
    ----------
    laws_at
        Laws that stand for the loss, each fit for its moments at some points, as `cumulants` asks for them.
    largest_order
        Up to here the moments are computed; beyond, sampling is not credited.
    most_nodes
        How many values of K a line may cost; 0 where K is out of reach of any line.
    ceiling, fewest_falling, lattice, turnable, family, member
        As for a `LossLaw`.
    """

    laws_at: LawsAt
    largest_order: float
    most_nodes: int
    ceiling: Callable[[float, Array], Array] | None = None
    fewest_falling: float = 0.0
    lattice: Lattice | None = None
    turnable: Turnable | None = None
    family: Family | None = None
    member: tuple[float, ...] = ()


@runtime_checkable
class Sampleable(Protocol):
    r"""A mechanism that can follow Poisson sampling.

    Its pair must be symmetric: an involution of the outputs swaps P and Q. Then one direction of the sampled pair is
    never cheaper in Rényi terms than the other; see docs/theory/mechanisms.md.
    """

    def sampled(self, rate: float, direction: str) -> SampledLaw:
        """The law of the loss at a rate in (0, 1)."""
        ...


@runtime_checkable
class Summing(Protocol):
    """A mechanism that adds normal noise to a sum: what groups cost is known, and records that are replaced."""

    @property
    def normal_noise(self) -> float:
        """The standard deviation of the noise, over the clipping norm."""
        ...

    def for_norm(self, norm: int) -> Mechanism:
        """The same noise for records of so many times the norm, or a little less noise."""
        ...


@runtime_checkable
class Sloped(Protocol):
    """A mechanism that knows how the law of its loss changes with its noise and with the rate of sampling."""

    def sampling_slopes(self, rate: float, direction: str) -> Slopes:
        """The derivatives of K at a rate in (0, 1], as `LossLaw.slopes`."""
        ...


def nothing_law(of: object) -> LossLaw:
    """That of a round which releases nothing."""
    return LossLaw(
        of=of,
        log_moment=np.zeros_like,
        cells=partial(atoms_in_cells, losses=np.zeros(1), p=np.ones(1), q=np.ones(1), error=0.0, blur=0.0),
        max_loss=0.0,
        max_loss_is_least=True,
    )


def sampled_cells(cells_of: CellsOf, rate: float, direction: str, edges: Array) -> Cells:
    """The cells of the sampled pair, from those of the pair at the log-ratios behind the edges."""
    log_mix = -edges[::-1] if direction == ADD else edges
    v = log_mixture_inverse(rate, log_mix)
    # No inverse is exact, and none need be: the cells are those of the v that were found.
    finite = np.isfinite(v)
    least = math.log1p(-rate)  # the logarithm of the mixture where v is minus infinity
    found = np.where(finite, log_mixture(rate, np.where(finite, v, 0.0)), np.minimum(log_mix, least))
    inner = cells_of(v)
    ulps = np.where(finite, log_mixture_ulps(rate, np.where(finite, v, 0.0), found), 8.0)
    off = np.abs(found - log_mix) + UNIT_ROUNDOFF * (ulps * np.abs(found) + 4.0 * np.abs(log_mix))
    mixed = (1.0 - rate) * inner.q + rate * inner.p
    error = (1.0 - rate) * inner.q_error + rate * inner.p_error + 4.0 * UNIT_ROUNDOFF * mixed
    blur = float(off.max(initial=0.0)) + inner.blur
    if direction == ADD:
        return Cells(inner.q[::-1], mixed[::-1], inner.q_error[::-1], error[::-1], blur)
    return Cells(mixed, inner.q, error, inner.q_error, blur)


def sampled_atoms(atoms: tuple[float, float], rate: float, direction: str) -> tuple[float, float]:
    """Where two atoms of the log-ratio are in the sampled loss."""
    low, high = log_mixture(rate, np.array(atoms)).tolist()
    return (-high, -low) if direction == ADD else (low, high)


def sampled_excess(excess: Callable[[float], Bracket], rate: float, direction: str, epsilon: float) -> Bracket:
    r"""Delta of one sampled round, from the excess E of the mechanism at other levels.

    .. math:: \delta_{\text{remove}} = q\,E(\log(1 + (e^\varepsilon - 1)/q)), \qquad
              \delta_{\text{add}} = A\,E(\log(1 + (e^\varepsilon - 1)/A)), \quad A = 1 - (1-q)\,e^\varepsilon

    where A is positive, and else nothing; docs/theory/mechanisms.md.
    """
    if epsilon == math.inf:
        return Bracket(0.0, 0.0)
    if direction != ADD:
        return _scaled_excess(excess, rate, rate, epsilon)
    if epsilon >= 709.0:
        return Bracket(0.0, 0.0)  # the largest loss of the direction add is at most -log(2^-53)
    spent = (1.0 - rate) * math.expm1(epsilon)
    off = 4.0 * UNIT_ROUNDOFF * (rate + spent) + 5e-324
    if not rate - spent + off > 0:
        return Bracket(0.0, 0.0)
    return _scaled_excess(excess, max(rate - spent - off, 0.0), rate - spent + off, epsilon)


def _scaled_excess(excess: Callable[[float], Bracket], least: float, most: float, epsilon: float) -> Bracket:
    """A E(log(1 + (exp(epsilon) - 1) / A)), which grows with A, for an A between two numbers."""
    lower = 0.0
    if least > 0:
        level, off = _raised_level(least, epsilon)
        lower = least * excess(level + off).lower * (1.0 - 2.0 * UNIT_ROUNDOFF)
    level, off = _raised_level(most, epsilon)
    upper = excess(max(level - off, 0.0)).upper
    # a product of positive numbers is positive, also where it is below the range of doubles
    return Bracket(lower, min(most * upper * (1.0 + 2.0 * UNIT_ROUNDOFF) + 5e-324, 1.0) if upper > 0 else 0.0)


def _raised_level(share: float, epsilon: float) -> tuple[float, float]:
    """``log(1 + (exp(epsilon) - 1) / share)`` for a share in (0, 1], and a bound on its rounding."""
    quotient = math.expm1(epsilon) / share if epsilon < 300.0 else math.inf
    if quotient < 1e300:
        level = math.log1p(quotient)
        return level, 8.0 * UNIT_ROUNDOFF * level
    # the logarithm of (exp(epsilon) - 1) / share, to which one adds nothing that doubles see
    level = epsilon + math.log1p(-math.exp(-epsilon)) - math.log(share)
    return level, 8.0 * UNIT_ROUNDOFF * (epsilon - math.log(share) + 1.0)
