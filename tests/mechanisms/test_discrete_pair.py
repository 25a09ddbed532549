"""Pairs of discrete laws that hardly overlap: their moments, from the definition in many digits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from dprounds import DiscretePair

HARDLY = ([0.5, 0.499999, 1e-6, 0.0], [3e-16, 7e-16, 0.0, 1.0])
FAR = ([0.75, 0.25 - 1e-9, 1e-9, 0.0], [1e-4, 3e-9, 0.0, 1.0 - 1.00003e-4])


@pytest.mark.parametrize("masses", [HARDLY, FAR], ids=["hardly", "far"])
@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("t", [0.25, 1.0, 7.0])
def test_moments_of_pairs_that_hardly_overlap_are_their_definition(
    masses: tuple[list[float], list[float]], direction: str, t: float
) -> None:
    p, q = masses if direction == "remove" else masses[::-1]
    with mp.workdps(40):
        terms = [mpf(x) * (mpf(x) / mpf(y)) ** t for x, y in zip(p, q, strict=True) if x and y]
        truth = mp.log(mp.fsum(terms))
        found = float(DiscretePair(*masses).law(direction).log_moment(np.array([t])).real[0])
        assert abs(found - truth) <= 1e-13 * (abs(truth) + 1)


@pytest.mark.parametrize(
    "masses",
    [
        ([1.0, 2.424735953323356e-17, 0.0], [0.0, 1.0, 0.0]),
        ([1.0, 3.770985495891838e-133], [0.0, 1.0]),
        ([1.0 - 2.2e-7, 1.8e-17, 2.2e-7], [1.7e-17, 1.7e-17, 1.0]),
    ],
)
def test_pairs_that_all_but_exclude_each_other_get_an_answer(masses: tuple[list[float], list[float]]) -> None:
    run = DiscretePair(*masses) * 10
    assert run.guarantee(delta=1e-5).epsilon > 100 or run.guarantee(delta=1e-5).epsilon == math.inf
    assert 0.99 < run.delta(epsilon=1.0) <= 1.0


@pytest.mark.parametrize(
    "masses",
    [
        ([3.4789621984003496e-124, 1.0, 0.0], [4.330694290648606e-151, 1.0, 0.0]),
        ([1.0, 0.0, 1.5854647296097792e-51], [1.0, 4.9398850972840607e-60, 1.4072305096902847e-34]),
    ],
)
def test_pairs_that_are_all_but_equal_do_not_contradict_themselves(masses: tuple[list[float], list[float]]) -> None:
    run = DiscretePair(*masses) * 20
    found = run.guarantee(delta=1e-7)
    assert found.lower <= found.upper <= 1e-9
    assert run.delta(epsilon=0.0) <= 1e-14


def test_an_outcome_that_is_impossible_under_both_laws_changes_nothing() -> None:
    plain, longer = DiscretePair([0.3, 0.7], [0.6, 0.4]), DiscretePair([0.3, 0.7, 0.0], [0.6, 0.4, 0.0])
    assert (plain * 7).guarantee(delta=1e-3) == (longer * 7).guarantee(delta=1e-3)
