from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprounds.errors import ParameterError, UnsupportedError
from dprounds.mechanisms import ZCDP, ApproximateDP, Gaussian, Laplace, PoissonSampled, RandomizedResponse, Run

STEP = PoissonSampled(Gaussian(1.0), 0.01)
ORDERS = np.array([1.5, 8.0, 40.0])


@given(counts=st.lists(st.integers(0, 50), min_size=1, max_size=6))
@settings(deadline=None, max_examples=20)
def test_order_of_parts_does_not_matter_and_equal_ones_merge(counts: list[int]) -> None:
    kinds = [Gaussian(2.0), Laplace(3.0), Gaussian(4.0)]
    terms = [kinds[index % 3] * rounds for index, rounds in enumerate(counts)]
    forward, backward = sum(terms, start=Run()), sum(reversed(terms), start=Run())
    assert forward == backward
    assert hash(forward) == hash(backward)
    assert forward.rounds == sum(counts)
    assert len(forward.parts) <= 3


def test_costs_of_different_mechanisms_add() -> None:
    run = STEP * 100 + Laplace(5.0) * 3
    expected = 100 * np.asarray(STEP.rdp(ORDERS)) + 3 * np.asarray(Laplace(5.0).rdp(ORDERS))
    got = np.asarray(run.rdp(ORDERS))
    np.testing.assert_allclose(got, expected, rtol=1e-14)
    assert (got >= expected).all()  # the run adds its own hair and never subtracts


def test_each_direction_is_composed_by_itself() -> None:
    run = STEP * 100 + Laplace(5.0)
    assert run.directions == ("remove", "add")
    for direction in run.directions:
        expected = 100 * STEP.log_moment(3.0 + 1j, direction) + Laplace(5.0).log_moment(3.0 + 1j)
        assert run.log_moment(3.0 + 1j, direction) == pytest.approx(expected, rel=1e-14)
    assert (Laplace(5.0) * 3).directions == ("remove",)
    with pytest.raises(ParameterError, match="direction"):
        (Laplace(5.0) * 3).log_moment(1.0, "add")


@pytest.mark.parametrize("rounds", [True, -1, 2.5, math.nan, math.inf, "3", None, 1j, Gaussian(1.0)])
def test_counts_that_are_not_whole_are_refused(rounds: object) -> None:
    with pytest.raises(ParameterError, match="rounds must be an integer in"):
        STEP * rounds  # type: ignore[operator]


def test_whole_floats_and_numpy_integers_count() -> None:
    assert STEP * 1e6 == STEP * 10**6 == np.int64(10**6) * STEP == STEP * np.int64(10**6)  # type: ignore[operator]


def test_a_run_repeats() -> None:
    assert (STEP * 3 + Laplace(2.0)) * 4 == STEP * 12 + Laplace(2.0) * 4


def test_huge_counts_cost_nothing_to_hold() -> None:
    run = STEP * 10**12
    assert run.rounds == 10**12
    assert run.rdp(2.0) == pytest.approx(1e12 * STEP.rdp(2.0), rel=1e-14)
    with pytest.raises(ParameterError, match="rounds must be at most"):
        STEP * 10**400


def test_only_releases_join() -> None:
    with pytest.raises(TypeError):
        STEP + 3  # type: ignore[operator]
    with pytest.raises(ParameterError, match="parts"):
        Run(((3, 4),))  # type: ignore[arg-type]


def test_infinite_mass_composes_without_cancellation() -> None:
    run = ApproximateDP(0.1, 1e-12) * 1000 + ApproximateDP(0.2, 1e-3)
    assert run.infinite_mass == pytest.approx(1 - (1 - 1e-3) * (1 - 1e-9), rel=1e-12)
    assert (ApproximateDP(0.1, 1e-12) * 1000).infinite_mass == pytest.approx(1e-9 - 999 * 1e-24 / 2, rel=1e-15)
    assert run.rdp(2.0) == math.inf
    assert run.rdp(math.inf) == math.inf
    assert run.max_loss() == pytest.approx(100.2, rel=1e-14)


def test_infinite_order_is_the_sum_of_pure_bounds() -> None:
    run = RandomizedResponse(0.5) * 10 + Laplace(4.0) * 8
    assert run.rdp(math.inf) == pytest.approx(7.0, rel=1e-14)
    assert run.rdp(math.inf) >= 7.0
    assert (run + Gaussian(1.0)).rdp(math.inf) == math.inf


def test_a_run_with_a_part_without_moments_has_none() -> None:
    run = STEP * 3 + ZCDP(0.1)
    assert not run.has_moment_function
    assert run.rdp(4.0) == pytest.approx(3 * STEP.rdp(4.0) + 0.4, rel=1e-13)
    with pytest.raises(UnsupportedError):
        run.log_moment(1.0)


def test_free_parts_are_free() -> None:
    assert (PoissonSampled(Gaussian(1.0), 0.0) * 10**9).rdp([2.0, math.inf]).tolist() == [0.0, 0.0]  # type: ignore[union-attr]
