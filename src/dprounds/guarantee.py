"""The guarantee of a run: at one delta, or for all at once by two normal laws."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["EXACT_WITHIN", "GAUSSIANS_EXACT_WITHIN", "GaussianSummary", "Guarantee", "is_exact"]

# Relative to the reported number: whoever reads six digits of that reads six digits of the truth. Where all noise is
# Gaussian, with Poisson samples or without, that is nine digits.
EXACT_WITHIN = 1e-6
GAUSSIANS_EXACT_WITHIN = 1e-9


def is_exact(lower: float, upper: float, within: float = EXACT_WITHIN) -> bool:
    """Whether the truth, which is between `lower` and `upper`, is within this part of `upper`."""
    return lower == upper or (upper < math.inf and upper - lower <= within * upper)


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """An (ε, δ) that holds, by which method, and how far the truth can be from it.

    Parameters
    ----------
    epsilon, delta
        The guarantee: every pair of neighbours is (epsilon, delta)-close.
    method
        The bound that proved it. ``"exact"`` says that the truth is within a millionth of `upper`, so that six
        printed digits are those of the truth; of Gaussians and their Poisson samples alone it is within a billionth.
        Where the exact accountant proved less than that, it is ``"bound"``, and `lower` says how far the truth may be.
    order
        The Rényi order that proved it; `inf` for pure DP, None where no single order did.
    lower, upper
        The number that was asked for, epsilon or delta, is between them in truth. `upper` is the reported one;
        `lower` is 0 for the Rényi methods, which prove nothing from below.
    relation
        Which data sets are neighbours: ``"add-remove"``, ``"replace-one"`` or ``"zero-out"`` one record; None where
        the sensitivity, or the guarantee of a step, says it all.
    sampling
        How a round chose its records: ``"poisson"``, each independently; ``"truncated"``, each independently, and a
        random so many are kept at most; ``"allocation"``, each record its steps of an epoch; ``"fixed-size"``, so many
        without replacement; ``"shuffled"``, slices of all records in a random order;
        None where every round saw every record.
    """

    epsilon: float
    delta: float
    method: str
    order: float | None
    lower: float
    upper: float
    relation: str | None = None
    sampling: str | None = None


@dataclass(frozen=True, kw_only=True)
class GaussianSummary:
    r"""Two numbers that bound a run at every epsilon at once: no attacker learns more than from two normal laws.

    With probability `delta` everything is revealed, and else one number is drawn, from :math:`N(0, 1)` or from
    :math:`N(\mu, 1)`. Every pair of neighbours is at most as far apart as these two, at every epsilon and in both
    directions. So summaries add up, also where later releases were chosen by looking at earlier ones: the squares of
    `mu`, and `delta` (docs/theory/filters.md).

    Parameters
    ----------
    mu
        The distance of the two normal laws, in [0, inf]; `inf` where none is proven.
    delta
        The probability that everything is revealed; 0 for Gaussian noise, which is exactly two normal laws.
    """

    mu: float
    delta: float
