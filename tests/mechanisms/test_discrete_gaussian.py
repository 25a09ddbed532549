"""Discrete Gaussian noise that is wide costs what Gaussian noise costs, sampled too."""

from __future__ import annotations

import pytest

from dprounds import DiscreteGaussian, Gaussian, PoissonSampled, min_noise_multiplier
from dprounds.accounting.profile import Profile


@pytest.mark.parametrize(("rate", "rounds", "delta"), [(0.01, 1000, 1e-5), (0.01, 10, 1e-5), (0.0001, 1000, 1e-5)])
def test_a_plan_at_epsilon_0_needs_hardly_more_wide_discrete_noise_than_gaussian_noise(
    rate: float, rounds: int, delta: float
) -> None:
    """The masses of a million integers are known one by one, each to a few units of itself."""

    def planned(noise: type[Gaussian] | type[DiscreteGaussian]) -> float:
        return min_noise_multiplier(lambda s: PoissonSampled(noise(s), rate) * rounds, epsilon=0.0, delta=delta)

    gaussian = planned(Gaussian)
    assert gaussian > 12.0  # where the integers are close against the noise
    assert planned(DiscreteGaussian) == pytest.approx(gaussian, rel=1e-5)


def test_the_total_variation_is_taken_in_the_direction_of_the_smaller_losses() -> None:
    """In the direction remove there are rare large losses, and the bracket of the same number is 2 % wide."""
    run = PoissonSampled(DiscreteGaussian(0.35), 0.0001) * 1000
    found = Profile(run.laws).delta(0.0)
    assert 0 < found.upper - found.lower < 1e-9 * found.upper
    assert run.delta(epsilon=0.0) == found.upper
    assert run.epsilon(delta=found.upper) == 0.0
