"""Mixtures of Gaussians, and groups of records under Poisson sampling, against the definition."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprounds import (
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    NumericalError,
    ParameterError,
    PoissonSampled,
    UnsupportedError,
)
from dprounds.accounting.profile import Profile
from dprounds.numerics.normal_mixture_ceiling import ceiling_of_powers
from tests.references import mixture_of_gaussians as reference

# Group size, rate, noise, rounds, delta, and epsilon in both directions: independent lattices agree to 1e-8.
TABLE = [
    (4, 0.01, 2.0, 1000, 1e-5, 2.8933843406948, 2.6605191149105),
    (8, 0.005, 4.0, 2000, 1e-6, 2.056085166190, 1.998999998622),
    (16, 0.001, 3.0, 5000, 1e-5, 1.51807104175, 1.48569428129),
]
CASES = [
    (2.0, (0.0, 1.0, 2.0), (0.98, 0.015, 0.005)),
    (0.8, (0.0, 1.0, 3.0), (0.5, 0.3, 0.2)),
    (5.0, (0.0, 0.25, 1.0, 4.0), (1 - 3e-6, 1e-6, 1e-6, 1e-6)),
    (1.0, (0.5, 1.0), (0.75, 0.25)),
]


@pytest.mark.parametrize(("k", "rate", "sigma", "rounds", "delta", "remove", "add"), TABLE)
def test_groups_meet_the_table_to_its_digits(
    k: int, rate: float, sigma: float, rounds: int, delta: float, remove: float, add: float
) -> None:
    run = PoissonSampled(Gaussian(sigma), rate, group_size=k) * rounds
    for direction, known in (("remove", remove), ("add", add)):
        lower, upper = Profile({direction: run.laws[direction]}).epsilon(delta)
        assert upper - lower <= 2e-11 * upper
        assert abs(upper - known) <= 2e-11 * known  # the table has so many digits
    found = run.guarantee(delta=delta)
    assert (found.method, found.relation, found.sampling) == ("exact", "add-remove", "poisson")
    assert abs(found.epsilon - remove) <= 1e-11 * remove


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("sigma", "shifts", "probabilities"), CASES)
@pytest.mark.parametrize("z", [1e-4, 6.5, 3.0 + 15.0j])
def test_moments_meet_the_definition(
    sigma: float, shifts: tuple[float, ...], probabilities: tuple[float, ...], z: complex, direction: str
) -> None:
    exact = reference.log_moment(sigma, shifts, probabilities, z, direction)
    found = MixtureOfGaussians(sigma, shifts, probabilities).log_moment(z, direction)
    top = reference.log_moment(sigma, shifts, probabilities, z.real, direction)
    # M is compared, since K is on some branch of the logarithm, relative to M(t); terms turn by |z| times a loss
    off = abs(mp.expm1(mp.mpmathify(found) - exact) * mp.exp(exact - top))
    assert off <= 1e-13 * top * (1 + abs(z.imag)) ** 2


@pytest.mark.parametrize(("sigma", "shifts", "probabilities"), CASES)
def test_renyi_bounds_are_never_below_the_definition(
    sigma: float, shifts: tuple[float, ...], probabilities: tuple[float, ...]
) -> None:
    mechanism = MixtureOfGaussians(sigma, shifts, probabilities)
    for order in (1.001, 2.5, 12.0):
        exact = max(
            reference.log_moment(sigma, shifts, probabilities, order - 1.0, direction)
            for direction in mechanism.directions
        )
        excess = mp.mpf(mechanism.rdp(order)) * (mp.mpf(order) - 1) / exact - 1
        assert 0 <= excess < 1e-11


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("sigma", "shifts", "probabilities"), CASES)
def test_one_round_meets_the_definition(
    sigma: float, shifts: tuple[float, ...], probabilities: tuple[float, ...], direction: str
) -> None:
    law = MixtureOfGaussians(sigma, shifts, probabilities).law(direction)
    assert law.excess is not None
    for epsilon in (0.0, 1e-7, 0.01, 0.4, 6.0):
        exact = reference.delta_of_one_round(sigma, shifts, probabilities, epsilon, direction)
        lower, upper = law.excess(epsilon)
        assert lower <= exact <= upper
        if exact > 1e-200:
            assert upper - lower <= 1e-8 * exact + 1e-20


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("sigma", "shifts", "probabilities"), CASES)
def test_cells_have_the_masses_of_the_definition(
    sigma: float, shifts: tuple[float, ...], probabilities: tuple[float, ...], direction: str
) -> None:
    law = MixtureOfGaussians(sigma, shifts, probabilities).law(direction)
    assert law.cells is not None
    edges = np.array([-1.0, -0.3, -1e-3, 0.0, 2e-6, 0.01, 0.2, 1.0, 4.0])
    cells = law.cells(edges)
    assert cells.blur < 1e-12
    p, q = reference.cell_masses(sigma, shifts, probabilities, edges.tolist(), direction)
    # the ends of the cells may be off by the blur, which moves a mass by as much of the density of the loss, below 1e7
    for found, error, exact in ((cells.p, cells.p_error, p), (cells.q, cells.q_error, q)):
        for one, off, true in zip(found, error, exact, strict=True):
            assert abs(one - true) <= off + 1e7 * cells.blur


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("sigma", "shifts", "probabilities"), CASES[:3])
def test_no_moment_is_above_its_ceiling(
    sigma: float, shifts: tuple[float, ...], probabilities: tuple[float, ...], direction: str
) -> None:
    mechanism = MixtureOfGaussians(sigma, shifts, probabilities)
    law = mechanism.law(direction)
    assert law.ceiling is not None
    for t in (0.3, 4.0, 15.0):
        s = np.geomspace(0.5, 80.0, 12)
        ceilings = law.ceiling(t, s)
        tried, top = np.geomspace(0.5, 300.0, 60), mechanism.log_moment(t, direction)
        values = np.asarray(mechanism.log_moment(t + 1j * tried, direction)).real
        for start, ceiling in zip(s, ceilings, strict=True):
            # of M far below M(t) only the rounding of its terms is seen
            assert (values[tried >= start] <= np.logaddexp(ceiling, top + math.log(1e-10)) + 1e-12 * abs(top)).all()
        assert ceilings[-1] < top  # it falls


def test_a_ceiling_counts_the_rounding_of_turned_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    mixture = MixtureOfGaussians(2.0, (0, 1, 2), (0.98, 0.015, 0.005))._mixture
    s = np.array([1.0, 10.0])
    counted = ceiling_of_powers(1.0, mixture, False, 5.0, s)
    monkeypatch.setattr("dprounds.numerics.normal_mixture_ceiling.MODULUS_ERROR", 0.0)
    assert (ceiling_of_powers(1.0, mixture, False, 5.0, s) < counted).all()


def test_a_group_of_one_and_two_shifts_are_the_sampled_gaussian() -> None:
    sampled, delta = PoissonSampled(Gaussian(1.1), 0.01), 1e-6
    for rounds in (1, 3, 2000):
        plain = (sampled * rounds).guarantee(delta=delta)
        assert (PoissonSampled(Gaussian(1.1), 0.01, group_size=1) * rounds).guarantee(delta=delta) == plain
        mixed = (MixtureOfGaussians(1.1, (0, 1), (0.99, 0.01)) * rounds).guarantee(delta=delta)
        assert mixed.method == "exact"
        assert mixed.lower <= plain.upper
        assert plain.lower <= mixed.upper
    assert MixtureOfGaussians(1.1, (0, 1), (0.99, 0.01)).rdp(7.0) == pytest.approx(sampled.rdp(7.0), rel=1e-12)
    scaled = MixtureOfGaussians(3.3, (0, 3), (0.99, 0.01)) * 2000
    assert scaled.epsilon(delta=delta) == pytest.approx((sampled * 2000).epsilon(delta=delta), rel=1e-9)


def test_certain_shifts_are_gaussians_and_none_is_nothing() -> None:
    run = MixtureOfGaussians(3.0, (2.0,), (1.0,)) * 10
    assert run.directions == ("remove",)
    assert run.epsilon(delta=1e-5) == pytest.approx((Gaussian(1.5) * 10).epsilon(delta=1e-5), rel=1e-12)
    assert run.epsilon(delta=1e-5) >= (Gaussian(1.5) * 10).guarantee(delta=1e-5).lower
    assert (MixtureOfGaussians(3.0, (0.0, 5.0), (1.0, 0.0)) * 10).epsilon(delta=1e-5) == 0.0
    everyone = PoissonSampled(Gaussian(4.0), 1.0, group_size=4) * 3
    assert everyone.epsilon(delta=1e-5) == pytest.approx((Gaussian(1.0) * 3).epsilon(delta=1e-5), rel=1e-12)
    assert (PoissonSampled(Gaussian(4.0), 0.0, group_size=4) * 3).epsilon(delta=1e-5) == 0.0


def test_larger_groups_cost_more_and_less_than_a_person_who_is_always_there_whole() -> None:
    costs = [(PoissonSampled(Gaussian(3.0), 0.01, group_size=k) * 500).epsilon(delta=1e-5) for k in (1, 2, 3, 5, 8)]
    assert costs == sorted(costs)
    for k, cost in zip((2, 3, 5, 8), costs[1:], strict=True):
        # all of the records at once, in a batch with a probability that is at least that of any of them
        together = MixtureOfGaussians(3.0, (0, k), ((1 - 0.01) ** k, 1 - (1 - 0.01) ** k))
        assert cost < (together * 500).epsilon(delta=1e-5)


@pytest.mark.parametrize("rounds", [1, 2, 12])
def test_few_rounds_are_between_their_bounds_by_simulation(rounds: int) -> None:
    """Monte Carlo at delta = 1e-2: the share of outcomes that show a loss above epsilon, weighted."""
    sigma, shifts, probabilities = 1.5, np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.6, 0.25, 0.1, 0.05])
    run = MixtureOfGaussians(sigma, tuple(shifts), tuple(probabilities)) * rounds
    random = np.random.default_rng(13)
    samples = 200_000
    for direction in ("remove", "add"):
        x = sigma * random.standard_normal((samples, rounds))
        if direction == "remove":
            x += random.choice(shifts, p=probabilities, size=x.shape)
        exponents = (2.0 * np.multiply.outer(x, shifts) - shifts**2) / (2.0 * sigma**2)
        losses = np.log(np.exp(exponents) @ probabilities).sum(axis=1)
        losses = losses if direction == "remove" else -losses
        lower, upper = Profile({direction: run.laws[direction]}).epsilon(1e-2)
        gains = np.maximum(-np.expm1(0.5 * (lower + upper) - losses), 0.0)
        error = gains.std() / math.sqrt(samples)
        assert abs(gains.mean() - 1e-2) < 4.5 * error
        assert upper - lower <= 1e-3 * upper


@given(
    sigma=st.floats(0.4, 20.0),
    rate=st.floats(-6.0, -0.3).map(lambda x: 10.0**x),
    k=st.integers(2, 12),
    rounds=st.sampled_from([1, 10, 1000]),
)
@settings(deadline=None, max_examples=15)
def test_no_group_is_cheaper_than_one_of_its_members(sigma: float, rate: float, k: int, rounds: int) -> None:
    group = (PoissonSampled(Gaussian(sigma), rate, group_size=k) * rounds).guarantee(delta=1e-6)
    one = (PoissonSampled(Gaussian(sigma), rate) * rounds).guarantee(delta=1e-6)
    assert group.epsilon >= one.lower
    assert group.epsilon <= (Gaussian(sigma / k) * rounds).epsilon(delta=1e-6) * (1 + 1e-9)


def test_probabilities_below_the_doubles_are_raised_and_not_dropped() -> None:
    sampled = PoissonSampled(Gaussian(4.0), 1e-9, group_size=40)
    assert isinstance(sampled._other_pair, MixtureOfGaussians)
    assert min(sampled._other_pair.probabilities) == 1e-300
    # at a high order the largest shift counts, however rare it is
    assert sampled.rdp(400.0) > 0.9 * Gaussian(4.0 / 40.0).rdp(400.0)


def test_what_cannot_be_is_refused_in_one_line() -> None:
    with pytest.raises(ParameterError, match=r"^probabilities must sum to 1 up to rounding, got 1 - 0\.1\.$"):
        MixtureOfGaussians(1.0, (0, 1), (0.5, 0.4))
    with pytest.raises(ParameterError, match="must be rows of one length"):
        MixtureOfGaussians(1.0, (0, 1), (0.5, 0.3, 0.2))
    with pytest.raises(ParameterError, match=r"group_size must be an integer in \[1, 1000\], got 0"):
        PoissonSampled(Gaussian(1.0), 0.1, group_size=0)
    with pytest.raises(UnsupportedError, match="sample a Gaussian, or set group_size to 1"):
        PoissonSampled(Laplace(1.0), 0.1, group_size=2)


@pytest.mark.parametrize(("sigma", "rare"), [(0.5, 1e-5), (1.0, 1e-3), (2.0, 0.2)])
def test_the_mean_over_the_shifts_bounds_both_directions(sigma: float, rare: float) -> None:
    """Little noise needs too many nodes; then the mean of the shifts' Rényi bounds answers."""
    shifts, chances = (0.0, 1.0, 2.0), (1.0 - rare - rare**2, rare, rare**2)
    step = MixtureOfGaussians(sigma, shifts, chances)
    for order in (1.01, 1.5, 3.0, 12.0):
        bound = float(step._mean_bounds(np.array([order]))[0])
        for direction in ("remove", "add"):
            exact = reference.log_moment(sigma, shifts, chances, order - 1.0, direction) / (order - 1.0)
            assert bound >= exact
        assert bound <= Gaussian(sigma / 2.0).rdp(order) * (1 + 1e-12)
        assert float(step.rdp(order)) <= bound


def test_little_noise_on_many_shifts_is_answered_without_its_moments() -> None:
    """Thirty-eight records of one person, and noise that hides none of them: nodes times shifts are limited."""
    step = PoissonSampled(Gaussian(0.13652404155861472), 2.7829156957049497e-05, "zero-out", group_size=38)
    found = (step * 202_484).guarantee(delta=0.0007775510947770158)
    assert 5_000 < found.lower <= found.upper < 5_200
    with pytest.raises(NumericalError, match="nodes here"):
        step.log_moment(2.0)


def test_the_inverse_of_many_values_is_that_of_each() -> None:
    mixture = MixtureOfGaussians(0.7, (0.0, 1.0, 2.0, 5.0), (0.9, 0.05, 0.03, 0.02))._mixture
    values = np.linspace(-0.2, 40.0, 1000)
    found = mixture.inverse(values)
    alone = np.array([float(mixture.inverse(np.array([value]))[0]) for value in values[::50].tolist()])
    np.testing.assert_array_equal(np.isfinite(found[::50]), np.isfinite(alone))
    reached = np.isfinite(alone)
    np.testing.assert_allclose(found[::50][reached], alone[reached], rtol=1e-9)
    np.testing.assert_allclose(mixture.log(found[np.isfinite(found)]), values[np.isfinite(found)], atol=1e-9)


@pytest.mark.parametrize(("sigma", "largest"), [(1.0, 1.0), (1e300, 1e300)])
def test_a_shift_below_the_doubles_counts_as_the_least_of_them(sigma: float, largest: float) -> None:
    found = (MixtureOfGaussians(sigma, (5e-324, largest), (0.5, 0.5)) * 10).guarantee(delta=1e-5)
    still = (MixtureOfGaussians(sigma, (0.0, largest), (0.5, 0.5)) * 10).guarantee(delta=1e-5)
    assert still.lower <= found.upper
    assert found.lower <= found.upper <= still.upper * (1 + 1e-9)
