"""A line that is watched brackets the truth, and every term of its ceiling is needed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from mpmath import mpf
from numpy.typing import NDArray

from dprounds.accounting import watched_line as module
from dprounds.accounting.law import Composition
from dprounds.accounting.profile import Profile
from dprounds.accounting.watched_line import _beyond, _Watched, watched_line
from dprounds.accounting.ways.place import saddle_at_epsilon
from dprounds.errors import NumericalError
from dprounds.mechanisms import DiscreteGaussian, DiscretePair, PoissonSampled, RandomizedResponse, Run
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from tests.references.multinomial import three_outcomes_delta

# Losses of no common lattice. Three of them come near to one phase again and again.
THREE = ((0.5, 0.3, 0.2), (0.25, 0.35, 0.4))
UNEVEN = ((0.125, 0.375, 0.5), (0.0625, 0.5, 0.4375))
PAIRS = [(THREE, 100, 25.0), (THREE, 60, 12.0), (UNEVEN, 150, 8.0), (UNEVEN, 100, 3.0)]


@pytest.fixture
def whatever_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three losses soon come back, so that their Gaussian has a large variance: it tests the proof all the more."""
    monkeypatch.setattr(module, "LARGEST_COST", math.inf)


def truth_of(pair: Any, rounds: int, epsilon: float) -> Any:
    return three_outcomes_delta(pair[0], pair[1], rounds, epsilon)


def law_of(pair: Any, rounds: int) -> Composition:
    return DiscretePair(*pair).law("remove") * rounds


@pytest.mark.usefixtures("whatever_it_costs")
@pytest.mark.parametrize(("pair", "rounds", "epsilon"), PAIRS)
def test_the_truth_is_inside(pair: Any, rounds: int, epsilon: float) -> None:
    truth, law = truth_of(pair, rounds, epsilon), law_of(pair, rounds)
    with np.errstate(all="ignore"):
        line = watched_line(law, saddle_at_epsilon(law, epsilon), epsilon=epsilon, log_delta=math.log(truth))
    assert line.variance > 0
    found = line.at(epsilon)
    assert mpf(found.lower) <= truth <= mpf(found.upper)


def smoothed(law: Composition, t: float, s: Any, variance: float) -> Any:
    """The real part of K with that of the virtual Gaussian."""
    z = np.asarray(t + 1j * np.asarray(s), dtype=np.complex128)
    return np.real(law.log_moment(z)) + 0.5 * variance * (t * (t + 1.0) - np.asarray(s) ** 2)


@pytest.mark.usefixtures("whatever_it_costs")
@pytest.mark.parametrize(("pair", "rounds", "epsilon"), PAIRS)
def test_no_value_further_up_is_above_the_ceiling(pair: Any, rounds: int, epsilon: float) -> None:
    law, log_delta = law_of(pair, rounds), math.log(truth_of(pair, rounds, epsilon))
    watched = _Watched(law.parts, epsilon, log_delta)
    with np.errstate(all="ignore"):
        saddle = saddle_at_epsilon(law, epsilon)
        starts: NDArray[np.float64] = saddle.width * 4.0 * 1.5 ** np.arange(20, dtype=np.float64)
        found = watched.ceiling(saddle, starts)
        for start, ceiling in zip(starts, found, strict=True):
            values = smoothed(law, saddle.t, np.linspace(start, 30.0 * start, 20_001), watched.variances[saddle.t])
            assert (values <= ceiling).all()


@pytest.mark.usefixtures("whatever_it_costs")
def test_what_the_modulus_may_rise_by_between_points_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one point before a peak and one behind it."""
    pair, rounds, epsilon = PAIRS[0]
    law, log_delta = law_of(pair, rounds), math.log(truth_of(pair, rounds, epsilon))
    with np.errstate(all="ignore"):
        saddle = saddle_at_epsilon(law, epsilon)
        s: NDArray[np.float64] = np.linspace(20.0, 400.0, 40_001) * saddle.width
        values = np.real(law.log_moment(np.asarray(saddle.t + 1j * s, dtype=np.complex128)))
        peak = int(np.argmax(values))
        before = int(np.argmin(values[:peak]))
        behind = peak + int(np.argmin(values[peak : peak + 400]))
        monkeypatch.setattr(module, "APART", 1e9)
        monkeypatch.setattr(module, "RATIO", s[behind] / s[before] - 1.0)
        monkeypatch.setattr(module, "MOST_HALVINGS", 0)
        watched = _Watched(law.parts, epsilon, log_delta)
        try:
            (found,) = watched.ceiling(saddle, s[[before]])
        except NumericalError:  # it says so
            return
        assert (smoothed(law, saddle.t, s[before:], watched.variances[saddle.t]) <= found).all()


def test_atoms_on_no_lattice_are_narrow() -> None:
    """Of sampled discrete Gaussian noise."""
    for run, delta in [
        (PoissonSampled(DiscreteGaussian(8.56), 0.1024) * 2834, 2e-8),
        (PoissonSampled(DiscreteGaussian(0.96), 0.016384) * 3133, 7.7e-7),
        (PoissonSampled(DiscreteGaussian(4.6), 1e-4) * 8000, 3e-7),
    ]:
        found = run.guarantee(delta=delta)
        assert found.method == "exact"
        assert found.upper - found.lower <= 1e-7 * found.upper


def test_the_rounding_of_moduli_next_to_one_is_counted_once_for_each_round() -> None:
    """Of 10^17 rounds and more, whose losses are next to nothing. Losses that all are the smaller one cost less."""
    e, rounds = 5e-10, 130_000_000_000_000_000
    run = RandomizedResponse(e) * rounds + RandomizedResponse(e * (1.0 + 1e-12)) * rounds
    assert run.epsilon(delta=0.1) >= (RandomizedResponse(e) * (2 * rounds)).guarantee(delta=0.1).lower
    e, rounds, delta = 8.768912163146683e-10, 86_759_203_593_037_162, 0.17641803680835522
    run = sum((RandomizedResponse(e * (1.0 + k * 1e-12)) * rounds for k in range(3)), start=Run())
    assert run.epsilon(delta=delta) >= (RandomizedResponse(e) * (3 * rounds)).guarantee(delta=delta).lower


def test_a_watched_line_is_of_one_number_of_rounds() -> None:
    law = PoissonSampled(DiscreteGaussian(2.5), 0.01).law("remove") * 500
    epsilon = Profile({"": law}).epsilon(1e-6).upper
    saddle = saddle_at_epsilon(law, epsilon)
    line = watched_line(law, saddle, epsilon=epsilon, log_delta=saddle.log_delta(epsilon))
    with pytest.raises(TypeError, match="watched ceiling"):
        line * 2.0


def test_a_narrow_bracket_meets_that_of_lattices() -> None:
    law = PoissonSampled(DiscreteGaussian(2.5), 0.01).law("remove") * 500
    narrow = Profile({"": law}).epsilon(1e-6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dprounds.accounting.ways.choice.FEWEST_WATCHED", 10**9)
        wide = Profile({"": law}).epsilon(1e-6)
    assert wide.lower <= narrow.upper
    assert narrow.lower <= wide.upper
    assert narrow.upper - narrow.lower < 0.1 * (wide.upper - wide.lower)


def test_where_nothing_falls_it_says_so() -> None:
    law = PoissonSampled(DiscreteGaussian(1.0), 1e-4).law("remove") * 20
    with np.errstate(all="ignore"), pytest.raises(NumericalError):
        watched_line(law, law.expand(3.0), epsilon=0.5, log_delta=math.log(1e-5))


def test_the_constant_of_the_proof_counts_its_roundings() -> None:
    """A bound is a sum of a few products over the parts, each of fewer than 16 operations."""
    assert module.BOUND_ERROR >= 32 * UNIT_ROUNDOFF


@pytest.mark.usefixtures("whatever_it_costs")
def test_a_law_with_errors_of_its_own_is_not_watched() -> None:
    pair, rounds, epsilon = PAIRS[0]
    (part, n) = law_of(pair, rounds).parts[0]
    law = replace(part, moment_error=lambda z: np.full(z.shape, 1e-9)) * n
    with np.errstate(all="ignore"), pytest.raises(NumericalError):
        watched_line(law, saddle_at_epsilon(law, epsilon), epsilon=epsilon, log_delta=math.log(1e-9))


@pytest.mark.parametrize("step", [0.03, 0.5, 4.0])
def test_all_terms_beyond_a_point_add_up_to_no_more_than_one_gaussian_of_its_bound(step: float) -> None:
    """Those of a density, whose terms are below two Gaussians, the second of which begins where the first is small."""
    low, top, half_variance, end, s = 0.0, 22.5, 0.5, 9.0, 6.0
    places = s + step * np.arange(1, math.ceil(40.0 / step))
    total = step * np.exp(np.where(places < end, low, top) - half_variance * places**2).sum()
    (found,) = _beyond(np.array([low]), top, half_variance, end, np.array([s]))
    assert total <= math.exp(found) / (2.0 * half_variance * s)
    if step < 1.0:  # that no term exceeds the larger of the two is not enough
        assert total > math.exp(low - half_variance * s * s) / (2.0 * half_variance * s)
