"""Derivatives of epsilon at a fixed delta by differences of the contour integral, in 45 digits."""

from __future__ import annotations

import mpmath as mp

from tests.references import contour
from tests.references.stored import stored

__all__ = ["epsilon_slope"]

# Differences of this relative step, of values in 45 digits, are right to 25 and more.
STEP = "1e-15"
DIGITS = 45


@stored
def epsilon_slope(
    by: str, sigma: float, rate: float, rounds: int, epsilon: float, direction: str, t: float, step: float, nodes: int
) -> contour.Number:
    """The derivative of epsilon by "sigma", "rate", "rounds" or "delta" of a run of a sampled Gaussian.

    The integral goes along Re z = t, by a sum of so many nodes.
    """
    with mp.workdps(DIGITS + 15):
        given = {"sigma": mp.mpf(sigma), "rate": mp.mpf(rate), "rounds": mp.mpf(rounds), "epsilon": mp.mpf(epsilon)}

        def delta_slope(name: str) -> contour.Number:
            small = given[name] * mp.mpf(STEP)
            ends = []
            for at in (given[name] + small, given[name] - small):
                moved = {**given, name: at}
                part = contour.Part(
                    "sampled", moved["rounds"], (mp.nstr(moved["sigma"], 60), mp.nstr(moved["rate"], 60))
                )
                ends.append(
                    contour.delta(
                        [part], direction, mp.nstr(moved["epsilon"], 60), repr(t), repr(step), nodes, digits=DIGITS
                    )
                )
            return (ends[0] - ends[1]) / (2 * small)

        by_epsilon = delta_slope("epsilon")
        return 1 / by_epsilon if by == "delta" else -delta_slope(by) / by_epsilon
