"""Any mechanism of which only its pure guarantee is known."""

from __future__ import annotations

from dataclasses import dataclass

from dprounds.mechanisms.randomized_response import RandomizedResponse

__all__ = ["PureDP"]


@dataclass(frozen=True, repr=False)
class PureDP(RandomizedResponse):
    r"""Any `epsilon`-DP mechanism, by the randomized response that dominates it.

    .. math:: K(z) = \log \frac{\cosh((z + 1/2)\varepsilon)}{\cosh(\varepsilon/2)}

    Theorem
    -------
    [KOV15, proof of Theorem 3.3]: every output is a random function of that bit; docs/theory/mechanisms.md.

    Examples
    --------
    >>> round(PureDP(epsilon=1.0).rdp(order=2.0), 6)
    0.735326
    """
