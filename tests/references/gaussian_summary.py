"""What two normal laws of which a part is revealed tell at a level, in arbitrary precision from the definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath as mp

Number = Any  # mpmath has no types


def bound(mu: float, delta: float, epsilon: Number) -> Number:
    """The largest A_1(E) - e^ε A_0(E): revealed with probability `delta`, else N(0, 1) or N(μ, 1) is seen."""
    with mp.workdps(60):
        m, d, e = mp.mpf(mu), mp.mpf(delta), mp.mpf(epsilon)
        if not m:
            return d + (1 - d) * max(mp.mpf(0), 1 - mp.exp(e))
        return d + (1 - d) * (mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m))


def line(threshold: float, mu: float, delta: float, epsilon: Number) -> Number:
    """A_1(E) - e^ε A_0(E) of the event that 1 is revealed or more than the threshold is seen."""
    with mp.workdps(60):
        x, m, d = mp.mpf(threshold), mp.mpf(mu), mp.mpf(delta)
        return d + (1 - d) * (mp.ncdf(m - x) - mp.exp(mp.mpf(epsilon)) * mp.ncdf(-x))


def pure_distance(epsilon: float) -> Number:
    """The distance of the two normal laws that bound every pure mechanism: 2 Φ^-1(e^ε / (1 + e^ε))."""
    with mp.workdps(40):
        share = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
        return 2 * mp.sqrt(2) * mp.erfinv(2 * share - 1)


def discrete(p: Sequence[Number], q: Sequence[Number], epsilon: Number) -> Number:
    """The largest P(E) - e^ε Q(E) of two lists of masses."""
    with mp.workdps(60):
        return mp.fsum(max(mp.mpf(0), a - mp.exp(mp.mpf(epsilon)) * b) for a, b in zip(p, q, strict=True))
