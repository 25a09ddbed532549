"""Random allocation where delta is as small as what a window leaves out, or the two directions reach to different t."""

from __future__ import annotations

import math

import pytest

from dprounds import Gaussian, RandomAllocation
from dprounds.guarantee import is_exact


@pytest.mark.parametrize(
    ("sigma", "steps", "epochs", "delta"),
    [
        (1.5036194637629994, 7970, 1, 3.68e-28),
        (1.55, 8072, 1000, 1e-22),
        (2.04, 1916, 2, 1e-29),
        (2.04, 1916, 2, 1e-206),
        (2.5475796114576, 1145, 337, 2.9857853615744707e-30),
    ],
)
def test_what_is_left_out_is_no_infinite_loss_from_below(sigma: float, steps: int, epochs: int, delta: float) -> None:
    """Gaussian noise has a finite epsilon at every positive delta: a lower end of infinity was above the truth."""
    found = (RandomAllocation(Gaussian(sigma), steps) * epochs).guarantee(delta=delta)
    plain = (Gaussian(sigma) * epochs).guarantee(delta=delta)
    assert found.lower <= found.upper <= plain.upper
    assert found.method in ("exact", "bound", "optimal")


@pytest.mark.parametrize(
    ("sigma", "steps", "epochs", "delta"),
    [(1.55, 8072, 1000, 1e-22), (1.8, 3000, 100, 1e-21), (2.04, 1916, 2, 1e-29)],
)
def test_events_answer_where_a_window_leaves_out_more_than_delta(
    sigma: float, steps: int, epochs: int, delta: float
) -> None:
    found = (RandomAllocation(Gaussian(sigma), steps) * epochs).guarantee(delta=delta)
    assert found.method == "exact"
    # delta is larger at a lower epsilon, by what is left out or not
    run = RandomAllocation(Gaussian(sigma), steps) * epochs
    assert run.delta(epsilon=found.lower * (1 - 1e-6)) >= delta


@pytest.mark.parametrize(
    ("sigma", "steps", "epochs", "delta", "epsilon"),
    [
        (6.0, 100, 1, 1e-28, 0.17590525),
        (5.6711908130556425, 61, 1, 6.420844570035644e-25, 0.2198138),
        (7.448451198757766, 23, 1, 1.825881791426867e-21, 0.24850697),
        (9.651440593075618, 10, 3, 4.251946327233974e-30, 0.62004872),
    ],
)
def test_a_direction_whose_moments_reach_less_far_does_not_hide_the_other(
    sigma: float, steps: int, epochs: int, delta: float, epsilon: float
) -> None:
    found = (RandomAllocation(Gaussian(sigma), steps) * epochs).guarantee(delta=delta)
    assert found.method == "exact"
    assert found.upper == pytest.approx(epsilon, rel=1e-6)


def test_infinity_is_not_within_a_part_of_itself() -> None:
    assert not is_exact(1.0, math.inf)
    assert is_exact(math.inf, math.inf)


def test_events_whose_moments_are_beyond_the_doubles_are_given_up() -> None:
    """Nothing is known of their profile then, and no list of points may be empty."""
    found = (RandomAllocation(Gaussian(10.472132487269109), 8, participations=2) * 3).guarantee(delta=1.5e-277)
    assert found.lower < found.upper < 20
    run = RandomAllocation(Gaussian(8.2358381234074), 358) * 1
    assert 0 < run.delta(epsilon=0.11433638710413582) < 1e-50
