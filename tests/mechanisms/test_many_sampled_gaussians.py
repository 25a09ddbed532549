"""Many sampled Gaussians at once: the same K and ceilings as one by one, and the same guarantee of a history."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dprounds import Gaussian, Laplace, PoissonSampled
from dprounds.accounting.law import LOG_MOMENT_ERROR, Composition
from dprounds.accounting.profile import Profile
from dprounds.mechanisms import many_sampled_gaussians
from dprounds.mechanisms.base import Run
from dprounds.mechanisms.many_sampled_gaussians import ManySampledGaussians

DIRECTIONS = ("remove", "add")
RNG = np.random.default_rng(0)
MEMBERS = np.column_stack([10 ** RNG.uniform(-0.1, 1.0, 30), 10 ** RNG.uniform(-6.0, -0.31, 30)])


def on_line(t: float, s: NDArray[np.float64]) -> NDArray[np.complex128]:
    return np.asarray(t + 1j * s, dtype=np.complex128)


def family(direction: str) -> ManySampledGaussians:
    return ManySampledGaussians(direction == "add")


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("t", [0.01, 0.3, 2.0, 6.0])
def test_k_is_that_of_each(direction: str, t: float) -> None:
    laws = [PoissonSampled(Gaussian(sigma), rate).law(direction) for sigma, rate in MEMBERS.tolist()]
    points = t * np.array([1.0, 1.5, 3.0])
    s: NDArray[np.float64] = 0.25 * (1.0 + t) * np.arange(20, dtype=np.float64)
    real, line = family(direction).log_moments(MEMBERS, points), family(direction).log_moments(MEMBERS, on_line(t, s))
    assert real is not None
    assert line is not None
    for law, here, along in zip(laws, real, line, strict=True):
        np.testing.assert_allclose(here, law.log_moment(points), rtol=3e-14)
        saddle = (law * 1).expand(t)
        size = abs(saddle.value) + saddle.steepest * s + 0.5 * saddle.square * s * s
        own = law.log_moment(on_line(t, s))
        off = np.abs(np.expm1(along - own)) * np.exp(own.real - saddle.value)
        assert (off <= 0.2 * LOG_MOMENT_ERROR * size).all()


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("t", [0.3, 4.0])
def test_no_value_is_above_the_ceiling(direction: str, t: float) -> None:
    s = np.linspace(0.5, 60.0, 40)
    rounds = np.arange(1.0, 31.0)
    found = family(direction).ceiling(MEMBERS, rounds, t, s)
    assert found is not None
    laws = [PoissonSampled(Gaussian(sigma), rate).law(direction) for sigma, rate in MEMBERS.tolist()]
    total = np.zeros_like(s)
    for n, law in zip(rounds.tolist(), laws, strict=True):
        total += n * law.log_moment(on_line(t, s)).real
    assert (found >= total).all()
    assert (np.diff(found[np.isfinite(found)]) <= 0).all()
    # and the same after a step to one side of each s, as it holds on half-lines
    assert (found[:-1] >= total[1:]).all()


def test_a_nearly_normal_ceiling_is_no_lower_than_what_it_bounds() -> None:
    """At a short s it is within rounding of the truth, from above: its error terms are needed."""
    members = np.array([[4.0, 0.3], [5.0, 0.2]])
    s = np.array([1e-6])
    grids = family("remove")
    best = np.zeros(2)
    found = grids._ceilings(members, 3.0, float(s[0]), best)
    assert found is not None
    truth = [PoissonSampled(Gaussian(a), q).law("remove").log_moment(np.array([2.0]))[0] for a, q in members.tolist()]
    assert (found >= truth).all()
    assert (found <= np.array(truth) + 1e-11).all()


def history(count: int) -> Run:
    rng = np.random.default_rng(count)
    noises, rates = rng.uniform(0.7, 3.0, count), 10 ** rng.uniform(-3.0, -1.0, count)
    run: Run = Laplace(20.0) * 3
    for noise, rate, rounds in zip(noises.tolist(), rates.tolist(), rng.integers(5, 200, count).tolist(), strict=True):
        run = run + PoissonSampled(Gaussian(noise), rate) * rounds
    return run


def test_a_history_costs_what_it_costs_one_by_one() -> None:
    laws = history(20).laws
    apart = {
        direction: Composition(tuple((replace(part, family=None), rounds) for part, rounds in law.parts))
        for direction, law in laws.items()
    }
    found, other = Profile(laws).epsilon(1e-6), Profile(apart).epsilon(1e-6)
    assert found.upper - found.lower <= 1e-9 * found.upper
    assert max(found.lower, other.lower) <= min(found.upper, other.upper)


def test_what_is_out_of_reach_is_left_to_each(monkeypatch: pytest.MonkeyPatch) -> None:
    own = family("remove")
    assert own.log_moments(np.array([[1.0, 0.6]]), np.array([1.0])) is None
    assert own.log_moments(np.array([[1e-3, 0.1]]), np.array([1.0])) is None
    assert own.log_moments(np.array([[1.0, 0.1]]), np.array([1.0 + 1j, 2.0 + 1j])) is None
    assert own.log_moments(np.array([[1.0, 0.1]]), on_line(1.0, np.array([0.0, 1.0, 3.0]))) is None
    run = history(10)
    expected = run.epsilon(delta=1e-6)
    monkeypatch.setattr(many_sampled_gaussians, "MOST_POINTS", 0)
    assert run.epsilon(delta=1e-6) == pytest.approx(expected, rel=1e-11)
