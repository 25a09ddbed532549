"""The exact privacy profile of the Gaussian mechanism in arbitrary precision [BW18, Theorem 5]."""

from __future__ import annotations

import mpmath
from mpmath import mp, mpf


def delta(mu: float, epsilon: float) -> mpf:
    """δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) for a shift of μ standard deviations."""
    with mp.workdps(50):
        m, e = mpf(mu), mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
