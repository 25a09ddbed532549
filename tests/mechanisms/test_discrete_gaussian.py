"""Discrete Gaussian noise that is wide costs what Gaussian noise costs, sampled too."""

from __future__ import annotations

import pytest

from dprounds import DiscreteGaussian, Gaussian, PoissonSampled, min_noise_multiplier


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
