"""Poisson samples of which one record is replaced by another: never below the truth, and close to it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from dprounds import FixedSizeSampled, Gaussian, Laplace, ParameterError, PoissonSampled, UnsupportedError
from dprounds.certificates import certify
from dprounds.mechanisms import Run
from tests.references import replaced_record as reference

REPLACED = "replace-one"


def step(noise: float, rate: float) -> PoissonSampled:
    return PoissonSampled(Gaussian(noise), rate, relation=REPLACED)


@pytest.mark.parametrize(("noise", "rate"), [(1.0, 0.1), (0.4, 0.3), (3.0, 1e-3), (8.0, 0.9)])
def test_one_round_is_between_its_ends(noise: float, rate: float) -> None:
    for epsilon in (0.0, 0.01, 0.5, 2.0):
        with mp.workdps(25):
            truth = reference.one_round(noise, rate, mpf(epsilon))
        found = (step(noise, rate) * 1).delta(epsilon=epsilon)
        if truth > 1e-14:
            assert truth <= found <= truth * (1 + mpf(10) ** -3) + mpf(10) ** -12


def test_two_rounds_are_between_their_ends() -> None:
    truth = 0.01629834733975  # reference.two_rounds(1.0, 0.2, 1.0), which takes seconds
    found = (step(1.0, 0.2) * 2).delta(epsilon=1.0)
    assert truth * (1.0 - 1e-12) <= found <= truth * (1.0 + 1e-4)


def test_a_guarantee_is_exact_and_names_its_relation() -> None:
    found = (step(2.2, 256 / 60_000) * 14_062).guarantee(delta=1e-5)
    assert (found.method, found.relation, found.sampling) == ("exact", REPLACED, "poisson")
    assert found.lower == pytest.approx(1.822164, abs=2e-6)
    # a record that is present or absent costs less, and one in a batch of fixed size more
    present = (PoissonSampled(Gaussian(2.2), 256 / 60_000) * 14_062).epsilon(delta=1e-5)
    fixed = (FixedSizeSampled(Gaussian(2.2), 256, 60_000) * 14_062).guarantee(delta=1e-5)
    assert present < found.lower < found.upper < fixed.lower


def test_no_pair_of_vectors_is_easier_to_tell_apart_than_two_that_are_opposite() -> None:
    """Any two vectors of the ball in two dimensions, on a grid: the proof says that their angle only helps."""
    noise, rate = 1.0, 0.3
    axis = np.linspace(-7.0, 7.0, 281)
    x, y = np.meshgrid(axis, axis)
    cell = (axis[1] - axis[0]) ** 2

    def law(vector: tuple[float, float]) -> Any:
        moved = np.exp(-0.5 * ((x - vector[0]) ** 2 + (y - vector[1]) ** 2) / noise**2)
        absent = np.exp(-0.5 * (x**2 + y**2) / noise**2)
        return ((1.0 - rate) * absent + rate * moved) / (2.0 * math.pi * noise**2) * cell

    first = law((1.0, 0.0))
    for epsilon in (0.0, 0.2, 0.8):
        most = (step(noise, rate) * 1).delta(epsilon=epsilon)
        for angle in np.linspace(0.0, math.pi, 5):
            for length in (0.3, 1.0):
                other = law((length * math.cos(angle), length * math.sin(angle)))
                for p, q in ((first, other), (other, first)):
                    assert np.maximum(p - math.exp(epsilon) * q, 0.0).sum() <= most + 2e-5  # what the grid errs by


def test_its_moments_bound_those_of_the_pair() -> None:
    noise, rate = 1.0, 0.2
    x = np.linspace(-40.0, 60.0, 200_001)
    log_none, log_here, log_there = (-0.5 * ((x - m) / noise) ** 2 for m in (0.0, 1.0, -1.0))
    p, q = ((1.0 - rate) * np.exp(log_none) + rate * np.exp(log) for log in (log_here, log_there))
    with np.errstate(divide="ignore", invalid="ignore"):
        for order in (1.5, 2.0, 5.0):
            density = np.where(p > 0, p * (p / q) ** (order - 1.0), 0.0) / (noise * math.sqrt(2.0 * math.pi))
            truth = math.log(float(np.nansum(density[np.abs(x) < 30.0])) * (x[1] - x[0])) / (order - 1.0)
            assert truth <= step(noise, rate).rdp(order=order)


def test_ends_of_the_rate() -> None:
    assert (step(3.0, 1.0) * 5).epsilon(delta=1e-5) == (Gaussian(1.5) * 5).epsilon(delta=1e-5)
    assert (step(3.0, 0.0) * 5).epsilon(delta=1e-5) == 0.0
    assert step(3.0, 0.1).directions == ("remove",)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="replaced by another is known here for Gaussian noise"):
        PoissonSampled(Laplace(1.0), 0.1, relation=REPLACED)
    with pytest.raises(UnsupportedError, match="cannot be added up"):
        Run(((step(1.0, 0.1), 1), (PoissonSampled(Gaussian(1.0), 0.1), 1)))
    with pytest.raises(ParameterError, match="relation must be one of"):
        PoissonSampled(Gaussian(1.0), 0.1, relation="replace")
    pytest.importorskip("flint", reason="python-flint is not installed")
    with pytest.raises(UnsupportedError, match="No certificate covers"):
        certify(step(1.0, 0.1) * 10, delta=1e-5)
