"""A rough profile is close to the exact one, so that levels are made once; nothing that is proven rests on it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprounds.accounting.profile import Profile
from dprounds.accounting.ways.rough_profile import rough_epsilon, rough_profile
from dprounds.accounting.ways.sketch import Sketch
from dprounds.mechanisms import Gaussian, PoissonSampled

RUNS = [
    (1.0, 0.01, 5, 1e-5),
    (0.7, 1e-4, 100_000, 1e-8),
    (5.0, 0.02, 8, 1e-7),
    (84.7, 4.9e-5, 23, 1e-9),
    (84.7, 4.9e-5, 2300, 1e-20),  # below what a transform of plain masses tells
    (3.0, 7e-6, 7, 1e-24),  # so few rounds are convolved
    (1.5, 1e-6, 3, 1e-28),
    (100.0, 0.01, 64, 1e-30),
]


@pytest.mark.parametrize(("sigma", "rate", "rounds", "delta"), RUNS)
def test_it_is_close_to_the_exact_profile(sigma: float, rate: float, rounds: int, delta: float) -> None:
    law = (PoissonSampled(Gaussian(sigma), rate) * rounds).laws["remove"]
    exact = Profile({"remove": law}).epsilon(delta).upper
    sketch = Sketch(law)
    with np.errstate(all="ignore"):
        saddle = sketch.saddle(exact)
        for guess in (0.2 * exact, exact, 30.0 * exact):
            found, profile = rough_epsilon(sketch, math.log(delta), guess, saddle.t)
            assert found == pytest.approx(exact, rel=0.01)
            assert profile is not None
            assert profile.log_delta(exact) == pytest.approx(math.log(delta), abs=0.2)
        around = rough_profile(sketch, exact, saddle)
    assert around is not None
    assert around.log_delta(exact) == pytest.approx(math.log(delta), abs=0.2)


def test_it_says_where_it_tells_nothing() -> None:
    sketch = Sketch((PoissonSampled(Gaussian(1.0), 0.01) * 5).laws["remove"])
    with np.errstate(all="ignore"):
        epsilon, profile = rough_epsilon(sketch, math.log(1e-5), 0.3, 1.0)
        assert profile is not None
        assert math.isnan(profile.log_delta(100.0 * epsilon))
        assert rough_epsilon(sketch, math.log(0.9), 0.3, 1.0)[0] == 0.0
        assert math.isnan(rough_epsilon(sketch, math.log(1e-5), 0.0, 1.0)[0])
