"""Delta of many rounds of a pair on three outcomes, by the sum over how often each occurs; imports nothing of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath as mp

__all__ = ["three_outcomes_delta"]

DIGITS = 50


def three_outcomes_delta(p: Sequence[float], q: Sequence[float], rounds: int, epsilon: float) -> Any:
    """The sum of (P - e^epsilon Q)_+ over the counts of the three outcomes."""
    with mp.workdps(DIGITS):
        ps, qs, level = [mp.mpf(x) for x in p], [mp.mpf(x) for x in q], mp.exp(mp.mpf(epsilon))
        total = mp.mpf(0)
        for i in range(rounds + 1):
            for j in range(rounds + 1 - i):
                counts = (i, j, rounds - i - j)
                ways = mp.binomial(rounds, i) * mp.binomial(rounds - i, j)
                a, b = (mp.fprod(x**n for x, n in zip(row, counts, strict=True)) for row in (ps, qs))
                total += ways * max(a - level * b, 0)
        return total
