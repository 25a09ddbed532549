r"""The profile of equal randomized responses, which is a sum over a binomial law.

After n rounds of loss :math:`\pm a` the privacy loss is :math:`(2k - n)a` with k binomial, and

.. math:: \delta(\varepsilon) = \sum_{(2k-n)a > \varepsilon} \binom nk \frac{e^{ka}}{(1+e^a)^n}
          \bigl(1 - e^{\varepsilon - (2k-n)a}\bigr).

That is the optimal composition theorem [KOV15, Theorem 3.3]. Its points are atoms of the loss, exactly where a virtual
Gaussian would blur the contour integral, so it is summed as it stands: all terms are positive and none cancels.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dprounds.accounting.contour import Bracket
from dprounds.errors import NumericalError
from dprounds.numerics.rounding import UNIT_ROUNDOFF, above, below

__all__ = ["MOST_ROUNDS", "binomial_delta", "binomial_epsilon"]

Array = NDArray[np.float64]

# Terms that are summed in less than a millisecond; with more rounds the atoms are so close that they do not matter.
MOST_ROUNDS = 10_000
# Halvings of [0, largest loss] until it is one double wide.
HALVINGS = 60
# How far below the answer the lower end is tried, relative to it.
NARROW = 1e-12
# A total loss beyond this is rounded by more than 1e-3, and tells everything anyway.
LARGEST_LOSS = 1e12


def binomial_delta(loss: float, rounds: int, *, epsilon: float) -> Bracket:
    """Delta at `epsilon` of `rounds` randomized responses of this loss, from below and from above.

    Theorem
    -------
    [KOV15, Theorem 3.3]; the roundings below are those of the terms, each relative to what it was made of.
    """
    if not rounds * loss <= LARGEST_LOSS:
        raise NumericalError(f"{rounds} responses of epsilon {loss:g} lose more than doubles tell apart.")
    if Fraction(epsilon) >= rounds * Fraction(loss):
        return Bracket(0.0, 0.0)  # exactly nothing is lost at and above the largest loss, and something below it
    k = np.arange(rounds + 1.0)
    losses = (2.0 * k - rounds) * loss
    log_truth = -np.log1p(np.exp(-loss))
    log_mass = gammaln(rounds + 1.0) - gammaln(k + 1.0) - gammaln(rounds - k + 1.0) + k * log_truth
    log_mass += (rounds - k) * (log_truth - loss)
    # a loss that rounds to epsilon, or just below it, may be just above
    hair = 4.0 * UNIT_ROUNDOFF * rounds * loss
    lost = losses > epsilon - hair
    log_mass, losses = log_mass[lost], losses[lost]
    # relative to the largest mass, which may be too small for a double itself
    top = float(log_mass.max())
    masses = np.exp(log_mass - top)
    total = float((masses * -np.expm1(np.minimum(epsilon - losses, 0.0))).sum())
    # a logarithm is off by ulps of its largest part, and so is the exponential; a loss by ulps of itself
    size = 3.0 * float(gammaln(rounds + 1.0)) + rounds * (loss + 1.0) + 10.0
    error = 4.0 * UNIT_ROUNDOFF * size
    blur = hair * float(masses.sum()) * (1.0 + error)
    ends = np.array([max(total * (1.0 - error) - blur, 0.0), total * (1.0 + error) + blur])
    with np.errstate(divide="ignore"):
        logs = top + np.log(ends)
    lower, upper = np.exp(logs * (1.0 + 4.0 * UNIT_ROUNDOFF * np.array([1.0, -1.0])))
    # outward by the least double, since what is positive and too small for doubles is not nothing
    return Bracket(max(float(below(lower)), 0.0), min(float(above(upper)), 1.0))


def binomial_epsilon(loss: float, rounds: int, *, delta: Bracket) -> Bracket:
    """Epsilon of `rounds` randomized responses of this loss, from below and from above, at a delta known likewise."""
    low, high = 0.0, rounds * loss * (1.0 + 2.0 * UNIT_ROUNDOFF)  # nothing is lost above the largest loss
    if binomial_delta(loss, rounds, epsilon=low).upper <= delta.lower:
        return Bracket(0.0, 0.0)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (
            (low, middle) if binomial_delta(loss, rounds, epsilon=middle).upper <= delta.lower else (middle, high)
        )
    below = high * (1.0 - NARROW)
    return Bracket(below if binomial_delta(loss, rounds, epsilon=below).lower >= delta.upper else 0.0, high)
