"""What levels must know of a sampled mechanism: the log-ratio behind its loss, and its law off the real axis."""

from __future__ import annotations

from typing import Protocol

from dprounds.numerics.complex_plane import Numbers

__all__ = ["Turnable"]


class Turnable(Protocol):
    """One round of a sampled mechanism by its log-ratio v, which is normal under N, and analytic.

    With ``w = 1 - rate + rate exp(v)``, P is w N and Q is N if the mixture comes first, and else P is N and Q is w N.
    """

    @property
    def rate(self) -> float:
        """The sampling rate, in (0, 1)."""
        ...

    @property
    def mixture_first(self) -> bool:
        """Whether P is the mixture."""
        ...

    @property
    def mean(self) -> float:
        """The mean of v under N."""
        ...

    @property
    def deviation(self) -> float:
        """The standard deviation of v under N."""
        ...

    def log_density(self, v: Numbers) -> Numbers:
        """The logarithm of the density of v under N, at real or complex points."""
        ...

    def log_mixture(self, v: Numbers) -> Numbers:
        """log w, at real or complex points."""
        ...
