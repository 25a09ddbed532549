"""Random allocation between the bounds of its inventors' package, random-allocation, which needs an older NumPy."""

from __future__ import annotations

from typing import Any

import pytest

from dprounds import Gaussian, RandomAllocation

theirs: Any = pytest.importorskip("random_allocation", reason="random-allocation is not installed")


@pytest.mark.parametrize(
    ("sigma", "steps", "epochs", "delta"), [(1.0, 1000, 1, 1e-6), (2.0, 1000, 1, 1e-5), (1.0, 100, 10, 1e-5)]
)
def test_the_bounds_of_its_inventors_hold_ours(sigma: float, steps: int, epochs: int, delta: float) -> None:
    from random_allocation.random_allocation_scheme.combined import allocation_epsilon_combined
    from random_allocation.random_allocation_scheme.lower_bound import allocation_epsilon_lower_bound

    ours = (RandomAllocation(Gaussian(sigma), steps) * epochs).guarantee(delta=delta)
    asked = theirs.PrivacyParams(sigma=sigma, num_steps=steps, num_epochs=epochs, delta=delta)
    config = theirs.SchemeConfig(epsilon_tolerance=1e-4, allocation_direct_alpha_orders=list(range(2, 33)))
    assert ours.upper <= allocation_epsilon_combined(asked, config)
    if epochs == 1:  # it knows no other
        assert allocation_epsilon_lower_bound(asked, config) <= ours.lower
