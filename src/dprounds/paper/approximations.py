"""What the paper approximates. **Nothing here is a guarantee**, and no accountant of this library uses it.

The expansions of the variance (Theorem 5) drop a remainder that is not zero. The approximation of sampled SGD behind
Figure 3 holds under conditions; outside them it can be far below the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dprounds import _validate
from dprounds.errors import ParameterError

EPSILON = _validate.Interval.parse("(0, inf)")
ROUNDS = _validate.Interval.parse("[0, inf)")
SAMPLING_RATE = _validate.Interval.parse("(0, 1)")


def _variance_arguments(epsilon: float, delta: float, rounds: float) -> tuple[float, float, float]:
    epsilon = _validate.real("epsilon", epsilon, EPSILON)
    delta = _validate.real("delta", delta, _validate.DELTA)
    return epsilon, -math.log(delta), _validate.real("rounds", rounds, ROUNDS)


def moments_variance(*, epsilon: float, delta: float, rounds: float) -> float:
    """The moments accountant's σ² to leading order as δ → 0: the paper's equation before Theorem 5, an **expansion**.

    Its remainder O(1/log(1/δ)) is dropped: it calibrates nothing.
    """
    epsilon, excess, rounds = _variance_arguments(epsilon, delta, rounds)
    return 2.0 * rounds / epsilon / epsilon * excess + rounds / epsilon


def theorem_5_variance(*, epsilon: float, delta: float, rounds: float) -> float:
    """Theorem 5's σ² to leading order as δ → 0, for ε > 2δ log(1/δ): an **expansion**.

    Its remainder O(log² log(1/δ) / log(1/δ)) is dropped, so the variance may be too small for its own target, and even
    negative: it calibrates nothing. `min_noise_multiplier` does.

    Examples
    --------
    >>> round(theorem_5_variance(epsilon=1.0, delta=1e-5, rounds=100))
    1575
    """
    epsilon, excess, rounds = _variance_arguments(epsilon, delta, rounds)
    if not epsilon > 2.0 * math.exp(-excess) * excess:
        raise ParameterError(
            f"epsilon must be above 2 delta log(1/delta) = {2.0 * math.exp(-excess) * excess:.6g} for Theorem 5, "
            f"got {epsilon:g}."
        )
    saved = 2.0 * rounds / epsilon / epsilon * (math.log(2.0 * excess) + 1.0 - math.log(epsilon))
    return moments_variance(epsilon=epsilon, delta=delta, rounds=rounds) - saved


@dataclass(frozen=True, kw_only=True)
class SampledApproximation:
    """Abadi's Lemma 3 without its O(q³) term: sampled SGD as if it were a Gaussian of this ρ.

    Not a guarantee. It is an approximation where `rate_is_small` and only for orders up to `largest_order`; elsewhere
    it can be far below the truth.
    """

    sampling_rate: float
    noise_multiplier: float
    rho: float
    rate_is_small: bool
    largest_order: float

    def holds_at(self, order: float) -> bool:
        """Whether the lemma's conditions are met at `order`."""
        return self.rate_is_small and _validate.real("order", order, _validate.ORDER) <= self.largest_order


def sampled_approximation(*, sampling_rate: float, noise_multiplier: float) -> SampledApproximation:
    """ρ = q²/((1-q)σ²) of the paper's Figure 3, with the conditions of Abadi's Lemma 3.

    Examples
    --------
    >>> sampled_approximation(sampling_rate=0.001, noise_multiplier=4.0).holds_at(50.0)
    True
    >>> sampled_approximation(sampling_rate=0.1, noise_multiplier=4.0).rate_is_small
    False
    """
    q = _validate.real("sampling_rate", sampling_rate, SAMPLING_RATE)
    sigma = _validate.real("noise_multiplier", noise_multiplier, _validate.NOISE_MULTIPLIER)
    return SampledApproximation(
        sampling_rate=q,
        noise_multiplier=sigma,
        rho=q / sigma / (1.0 - q) * (q / sigma),
        rate_is_small=q < 1.0 / (16.0 * sigma),
        largest_order=1.0 + max(sigma * sigma * math.log(1.0 / (q * sigma)), 0.0),
    )
