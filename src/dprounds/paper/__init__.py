"""The paper's figures and claims, recomputed.

*A Better Bound Gives a Hundred Rounds: Enhanced Privacy Guarantees via f-Divergences* [ALCKS20], under its own names: ρ
is 1/(2σ²), T the rounds. Two things here are **not guarantees** and are used by nothing else in the library: the
expansions of the variance (Theorem 5), whose remainder is not zero, and the approximation of sampled SGD behind
Figure 3, which holds under conditions and is unsound without them. docs/theory/paper.md says by how much.
"""

from __future__ import annotations

from dprounds.paper.approximations import (
    SampledApproximation,
    moments_variance,
    sampled_approximation,
    theorem_5_variance,
)
from dprounds.paper.claim_table import Claim, claims
from dprounds.paper.figures import Figure1Curve, RoundsCurves, figure_1, figure_2, figure_3
from dprounds.paper.gaussian_rounds import epsilon_0, epsilon_1, lemma_2, moments_epsilon, moments_rounds

__all__ = [
    "Claim",
    "Figure1Curve",
    "RoundsCurves",
    "SampledApproximation",
    "claims",
    "epsilon_0",
    "epsilon_1",
    "figure_1",
    "figure_2",
    "figure_3",
    "lemma_2",
    "moments_epsilon",
    "moments_rounds",
    "moments_variance",
    "sampled_approximation",
    "theorem_5_variance",
]
