"""Mechanisms that see each record with a fixed probability."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import SAMPLING_RATE, real, show
from dprounds.accounting.cells import Cells, atoms_in_cells
from dprounds.accounting.decay import sampled_gaussian_ceiling
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.mechanisms.accounted import Accounted
from dprounds.mechanisms.base import (
    ABSOLUTE_HAIR,
    ADD,
    ADD_REMOVE,
    BOTH_DIRECTIONS,
    RELATIVE_HAIR,
    REMOVE,
    Mechanism,
    Sampleable,
)
from dprounds.mechanisms.gaussian import Gaussian
from dprounds.mechanisms.randomized_response import RandomizedResponse
from dprounds.mechanisms.sampled_gaussian import MOST_NOISE
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.mixture import log_mixture, log_mixture_inverse, log_mixture_ulps
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above

__all__ = ["PoissonSampled"]

Array = NDArray[np.float64]

# With less noise than this one order takes seconds, and a batch tells all that it holds: the unsampled bound answers.
LEAST_SAMPLED_NOISE = 1e-3
# With less noise than this a line of the exact accountant takes seconds.
LEAST_EXACT_NOISE = 0.02
# A loss of which the exponential of the negative is 0.
INFINITE = 1e4
# Every method scans the same few dozen orders first, and a table of methods or of rounds asks for them again and again.
# So few are remembered; more, which would fill the memory, are not.
MOST_REMEMBERED = 128


@dataclass(frozen=True, repr=False)
class PoissonSampled(Accounted, Mechanism):
    r"""A mechanism run on a batch that holds each record independently with probability `sampling_rate`.

    With :math:`w = 1 - q + q\,dP/dQ` for the pair :math:`(P, Q)` of the mechanism, averaged over :math:`Q`,

    .. math:: M_{\text{remove}}(z) = E[w^{z+1}], \qquad M_{\text{add}}(z) = E[w^{-z}].

    Neighbours differ by one record, present or absent. Both directions must be accounted, each composed by itself; the
    Rényi bound is that of ``"remove"``, which is the larger one at every order. A rate of 0 costs nothing, and a rate
    of 1 costs what the mechanism costs.

    Parameters
    ----------
    mechanism
        `Gaussian`, `Laplace`, `RandomizedResponse`, `PureDP` or `DiscreteGaussian`.
    sampling_rate
        The probability, in [0, 1], with which each record enters the batch.

    Theorem
    -------
    [ZDW22, Theorem 11] for the pairs, [MTZ19, Theorem 5] for the larger direction; docs/theory/mechanisms.md.

    Examples
    --------
    >>> from dprounds.mechanisms import Gaussian
    >>> step = PoissonSampled(Gaussian(noise_multiplier=1.1), sampling_rate=256 / 60_000)
    >>> f"{step.rdp(order=8.0):.6e}"
    '9.834106e-05'
    """

    mechanism: Mechanism
    sampling_rate: float

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise ParameterError(f"mechanism must be a mechanism, got {show(self.mechanism)}.")
        if not isinstance(self.mechanism, Sampleable):
            raise UnsupportedError(
                f"No moment function is known here for a Poisson-sampled {type(self.mechanism).__name__}: sample a "
                "Gaussian, Laplace, RandomizedResponse, PureDP or DiscreteGaussian."
            )
        self._set(sampling_rate=real("sampling_rate", self.sampling_rate, SAMPLING_RATE))

    @property
    def directions(self) -> tuple[str, ...]:
        """``"remove"`` and ``"add"``: a record among those that may be sampled is taken away, or joins them."""
        return BOTH_DIRECTIONS

    @property
    def relation(self) -> str:
        """``"add-remove"``: neighbours differ by one record, present or absent."""
        return ADD_REMOVE

    @property
    def sampling(self) -> str:
        """``"poisson"``: each record is taken independently of all others."""
        return "poisson"

    @property
    def _reach(self) -> float:
        return self.sampling_rate

    @property
    def _inner(self) -> Sampleable:
        return cast(Sampleable, self.mechanism)  # the constructor has made sure

    def _rdp(self, orders: Array) -> Array:
        if self._max_loss(REMOVE) == 0:
            return np.zeros_like(orders)
        # M is convex in the rate and one at rate 0, so the mechanism itself bounds it at every rate.
        bounds = np.asarray(self.mechanism.rdp(orders))
        sampled = (orders <= self._inner._largest_sampled_order) & (self.sampling_rate < 1)
        if sampled.any() and (LEAST_SAMPLED_NOISE <= self._noise <= MOST_NOISE or self._noise == math.inf):
            few = np.count_nonzero(sampled) <= MOST_REMEMBERED
            asked = orders[sampled]
            bounds[sampled] = _remembered_rdp(self, asked.tobytes()) if few else self._sampled_rdp(asked)
        return bounds

    def _sampled_rdp(self, orders: Array) -> Array:
        t = orders - 1.0
        bound, error = np.empty_like(t), np.empty_like(t)
        for indices, law in self._inner._sampled_laws(t, self.sampling_rate, REMOVE):
            bound[indices], error[indices] = law.real_cumulant(t[indices])
        bound /= t
        return above(bound, (error + RELATIVE_HAIR) * bound + ABSOLUTE_HAIR)

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        if self.sampling_rate == 1:
            return self.mechanism._log_moment(z, REMOVE)
        if self._max_loss(direction) == 0:
            return np.zeros_like(z)
        value = np.empty_like(z)
        for indices, law in self._inner._sampled_laws(z, self.sampling_rate, direction):
            if np.iscomplexobj(z):
                value[indices] = law.complex_cumulant(z[indices].astype(np.complex128))
            else:
                value[indices], _ = law.real_cumulant(z[indices].real)
        return value

    @property
    def _lacks_noise(self) -> bool:
        return self._is_dear and self._noise < LEAST_EXACT_NOISE

    @property
    def _noise(self) -> float:
        """The noise multiplier; randomized responses have none, and no quadrature either."""
        return getattr(self.mechanism, "noise_multiplier", math.inf)

    @property
    def _is_dear(self) -> bool:
        """Whether the sample is of a continuous or infinite law; two outcomes are as cheap sampled as not."""
        return 0 < self.sampling_rate < 1 and not isinstance(self.mechanism, RandomizedResponse)

    @property
    def _falls(self) -> bool:
        if self.sampling_rate in (0.0, 1.0):
            return self.sampling_rate == 1 and self.mechanism._falls
        return isinstance(self.mechanism, Gaussian) and self._noise <= MOST_NOISE

    def _ceiling(self, t: float, s: Array, direction: str) -> Array:
        if self.sampling_rate == 1:
            return self.mechanism._ceiling(t, s, REMOVE)
        flat = super()._ceiling(t, s, direction)
        if not self._falls:
            return flat
        return np.minimum(flat, sampled_gaussian_ceiling(self._noise, self.sampling_rate, direction, t, s))

    @property
    def _has_cells(self) -> bool:
        return self.sampling_rate == 0 or self.mechanism._has_cells

    def _cells(self, edges: Array, direction: str) -> Cells:
        rate = self.sampling_rate
        if rate == 1:
            return self.mechanism._cells(edges, REMOVE)
        if rate == 0:
            return atoms_in_cells(edges, np.zeros(1), np.ones(1), np.ones(1), error=0.0, blur=0.0)
        log_mix = -edges[::-1] if direction == ADD else edges
        v = log_mixture_inverse(rate, log_mix)
        # No inverse is exact, and none need be: the cells are those of the v that were found.
        least = math.log1p(-rate)  # the logarithm of the mixture where v is minus infinity
        found = np.where(
            np.isfinite(v), log_mixture(rate, np.where(np.isfinite(v), v, 0.0)), np.minimum(log_mix, least)
        )
        inner = self.mechanism._cells(v, REMOVE)
        ulps = np.where(np.isfinite(v), log_mixture_ulps(rate, np.where(np.isfinite(v), v, 0.0), found), 8.0)
        off = np.abs(found - log_mix) + UNIT_ROUNDOFF * (ulps * np.abs(found) + 4.0 * np.abs(log_mix))
        mixed = (1.0 - rate) * inner.q + rate * inner.p
        error = (1.0 - rate) * inner.q_error + rate * inner.p_error + 4.0 * UNIT_ROUNDOFF * mixed
        blur = float(off.max(initial=0.0)) + inner.blur
        if direction == ADD:
            return Cells(inner.q[::-1], mixed[::-1], inner.q_error[::-1], error[::-1], blur)
        return Cells(mixed, inner.q, error, inner.q_error, blur)

    @property
    def _max_loss_is_least(self) -> bool:
        return self.mechanism._max_loss_is_least

    def _max_loss(self, direction: str) -> float:
        if self.sampling_rate in (0.0, 1.0):
            return self.sampling_rate * self.mechanism.max_loss() if self.sampling_rate else 0.0
        inner = self.mechanism.max_loss()
        if inner == 0:
            return 0.0
        if direction == REMOVE and inner == math.inf:
            return math.inf
        v = np.array(inner if direction == REMOVE else -min(inner, INFINITE))
        log_mix = log_mixture(self.sampling_rate, v)
        error = UNIT_ROUNDOFF * log_mixture_ulps(self.sampling_rate, v, log_mix) * np.abs(log_mix)
        # by the least double too, where the loss is too small for doubles: zero means that nothing is released
        return float(above(np.abs(log_mix), error))


@lru_cache(maxsize=256)
def _remembered_rdp(sampled: PoissonSampled, orders: bytes) -> Array:
    """Rényi bounds of a sampled mechanism at the orders behind these bytes."""
    return sampled._sampled_rdp(np.frombuffer(orders))
