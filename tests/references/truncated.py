"""One round of a truncated Poisson sample, by its definition: every draw, and every choice of what is kept.

Outputs are numbers, so that a record adds one of [-1, 1]; nothing here knows of mixtures by cases, or of the library.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

__all__ = ["excess", "sums"]

Array = NDArray[np.float64]
INTERVALS = 801


def sums(gradients: Sequence[float], rate: float, most: int) -> dict[float, float]:
    """The chance of each sum of a batch: records are drawn, and of more than `most` a random `most` are kept."""
    found: defaultdict[float, float] = defaultdict(float)
    for drawn in itertools.product((0, 1), repeat=len(gradients)):
        chance = math.prod(rate if one else 1 - rate for one in drawn)
        batch = [gradient for gradient, one in zip(gradients, drawn, strict=True) if one]
        kept = list(itertools.combinations(batch, min(most, len(batch))))
        for each in kept:
            found[round(math.fsum(each), 12)] += chance / len(kept)
    return dict(found)


def excess(p: Mapping[float, float], q: Mapping[float, float], noise: float, levels: Array) -> Array:
    """The excess of one mixture of normal laws over the other at each level, from below.

    By the masses of many intervals: an event that is made of some of them is no better than the best event.
    """
    ends = [*p, *q]
    x = np.linspace(min(ends) - 9.0 * noise, max(ends) + 9.0 * noise, INTERVALS)
    with_it, without = (
        np.diff(sum((chance * ndtr((x - at) / noise) for at, chance in law.items()), np.zeros(INTERVALS)))
        for law in (p, q)
    )
    return np.array([float(np.maximum(with_it - level * without, 0.0).sum()) for level in levels])
