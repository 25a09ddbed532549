"""The lattice: never below the truth, never above it from below, and close."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import erfc, exp, log, mp, mpf, sqrt
from scipy.special import ndtr

from dprounds import Gaussian, Laplace, NumericalError, PoissonSampled, RandomizedResponse, max_rounds
from dprounds.accounting import lattice
from dprounds.accounting.cells import CellsOf, LatticeLaw, lower_law, upper_law
from dprounds.accounting.lattice import LatticePlan, fast_length, lattice_line
from dprounds.accounting.law import Composition
from dprounds.accounting.line import Line
from dprounds.accounting.ways.sketch import PRECISE, Sketch
from dprounds.mechanisms import DiscreteGaussian, Run
from dprounds.mechanisms.base import Mechanism
from dprounds.mechanisms.sampled_gaussian import gaussian_cells
from tests.accounting.ways import by_lattice, lattice_law
from tests.references import profile

SGD = PoissonSampled(Gaussian(1.1), 256 / 60_000)


def cells_of(run: Run, direction: str = "remove") -> CellsOf:
    """Those of its first part."""
    cells = run.laws[direction].parts[0][0].cells
    assert cells is not None
    return cells


def line_on(law: Composition, plan: LatticePlan, side: Callable[..., LatticeLaw]) -> Line | None:
    """The line of a law on a lattice, from above or from below."""
    laws = [
        (side(part.cells, plan.step, *ends), rounds) for (part, rounds), ends in zip(law.parts, plan.ends, strict=True)
    ]
    return lattice_line(laws, plan)


def tail(z: mpf) -> mpf:
    return erfc(z / sqrt(mpf(2))) / 2


def one_round(sigma: float, rate: float, epsilon: float, direction: str) -> mpf:
    """Delta of one sampled Gaussian round, from its definition: both laws' masses where the ratio exceeds e^epsilon."""
    with mp.workdps(50):
        s, q, e = mpf(sigma), mpf(rate), mpf(epsilon)
        if direction == "remove":
            y = s * s * log((exp(e) - 1 + q) / q) + mpf(1) / 2
            return (1 - q) * tail(y / s) + q * tail((y - 1) / s) - exp(e) * tail(y / s)
        if exp(-e) - 1 + q <= 0:
            return mpf(0)
        y = s * s * log((exp(-e) - 1 + q) / q) + mpf(1) / 2
        return tail(-y / s) - exp(e) * ((1 - q) * tail(-y / s) + q * tail((1 - y) / s))


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("sigma", [0.5, 1.1, 10.0])
@pytest.mark.parametrize("rate", [1e-4, 256 / 60_000, 0.5])
def test_one_round_is_bracketed(sigma: float, rate: float, direction: str) -> None:
    run = PoissonSampled(Gaussian(sigma), rate) * 1
    one = by_lattice(run, direction)
    top = min(run.max_loss(direction) * 0.9, 40 * rate / sigma)
    for epsilon in (0.0, 0.1 * top, top):
        truth = one_round(sigma, rate, epsilon, direction)
        lower, upper = one.delta(epsilon)
        assert lower <= truth <= upper
        row = one.deltas(np.array([epsilon]))
        assert row.lower[0] <= truth <= row.upper[0]
        if truth > 1e-40:  # beyond, what the cut tail may hold counts for more than the rest
            assert upper - truth <= 1e-4 * truth


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-12])
def test_one_rounds_epsilon_is_bracketed(delta: float) -> None:
    lower, upper = by_lattice(SGD * 1, "remove").epsilon(delta)
    assert one_round(1.1, 256 / 60_000, upper, "remove") <= delta
    if lower > 0:
        assert one_round(1.1, 256 / 60_000, lower, "remove") >= delta
    assert upper - lower <= 5e-4 * upper


@pytest.mark.parametrize(("sigma", "rate"), [(0.5, 1e-3), (1.1, 256 / 60_000), (5.0, 0.3)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_lattice_law_keeps_to_its_side_of_one_rounds_profile(sigma: float, rate: float, direction: str) -> None:
    """Which is all that composition needs: every delta of one round, at coarse and at fine steps."""
    cells = cells_of(PoissonSampled(Gaussian(sigma), rate) * 1, direction)
    for step in (0.3 * rate, 3.0 * rate):
        first, last = -math.ceil(2.0 / step), math.ceil(2.0 / step)
        for make, sign in ((upper_law, 1), (lower_law, -1)):
            law = make(cells, step, first, last)
            points = step * np.arange(first, last + 1) + law.shift
            for epsilon in np.linspace(-1.0, 3.0, 9) * rate:
                if direction == "add" and epsilon >= -math.log1p(-rate):
                    continue
                if direction == "remove" and epsilon <= math.log1p(-rate):
                    continue
                found = law.infinite + float(law.masses @ np.maximum(-np.expm1(epsilon - points), 0.0))
                # the sum above is in doubles: it has some units of its own
                assert sign * (found - one_round(sigma, rate, epsilon, direction)) >= -1e-14


def test_equal_randomized_responses_are_bracketed_as_their_binomial_sum() -> None:
    one = by_lattice(RandomizedResponse(0.3) * 20)
    for epsilon in (0.1, 1.0, 2.0):
        truth = profile.randomized_response(0.3, 20, epsilon)
        lower, upper = one.delta(epsilon)
        assert lower <= truth <= upper <= float(truth) * 1.01


@pytest.mark.parametrize(
    "run", [SGD * 1000, PoissonSampled(Gaussian(2.0), 0.1) * 100, Gaussian(5.0) * 10 + SGD * 1500], ids=repr
)
def test_line_and_lattice_agree(run: Run) -> None:
    line = run.guarantee(delta=1e-5, method="exact")
    lattice = by_lattice(run).epsilon(1e-5)
    assert lattice.lower <= line.upper
    assert line.lower <= lattice.upper <= line.upper * (1 + 3e-5)
    assert lattice.upper - lattice.lower <= 6e-5 * lattice.upper


def test_more_rounds_cost_more_where_line_and_lattice_meet() -> None:
    rounds = (1, 2, 10, 100, 234, 400, 600, 700, 800, 900, 1000)
    epsilons = [(SGD * n).epsilon(delta=1e-5, method="exact") for n in rounds]
    assert epsilons == sorted(epsilons)


def test_a_short_run_is_exact_and_below_the_best_order() -> None:
    guarantee = (SGD * 234).guarantee(delta=1e-5)
    assert guarantee.method == "exact"
    assert guarantee.lower <= guarantee.epsilon < 0.307
    assert guarantee.upper - guarantee.lower < 3e-4 * guarantee.upper
    n = max_rounds(SGD, epsilon=0.1, delta=1e-5)
    assert (SGD * n).epsilon(delta=1e-5) <= 0.1 < (SGD * (n + 1)).epsilon(delta=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    sigma=st.floats(0.05, 10.0),
    rate=st.one_of(st.just(0.0), st.just(1.0), st.floats(1e-4, 0.5)),
    rounds=st.integers(1, 2000),
    log_delta=st.floats(-12.0, -3.0),
    noise=st.sampled_from([Gaussian, Laplace]),
)
def test_any_short_run_has_a_bracket_or_is_refused(
    sigma: float, rate: float, rounds: int, log_delta: float, noise: type
) -> None:
    run, delta = PoissonSampled(noise(sigma), rate) * rounds, 10.0**log_delta
    try:
        lower, upper = by_lattice(run).epsilon(delta)
    except NumericalError:
        return
    assert 0 <= lower <= upper < math.inf
    assert lower <= run.epsilon(delta=delta, method="optimal") * (1 + 1e-9)


def test_normal_probabilities_are_as_good_as_cells_assume() -> None:
    for z in np.linspace(-37.0, 8.0, 200):
        with mp.workdps(40):
            truth = tail(-mpf(float(z)))
            assert abs(mpf(float(ndtr(z))) - truth) <= 8 * 2.0**-53 * (1 + z * z) * truth


def test_cells_of_a_gaussian_err_by_no_more_than_they_say() -> None:
    """Whatever the noise: with much of it nearly all of the mass is in the cell across zero, whose end is 1 - tail."""
    dice = np.random.default_rng(6)
    for sigma in (0.02, 0.3, 1.0, 50.0, 1e4, 1e9, 1e30):
        scale = max(1.0 / sigma, 0.5 / sigma**2)
        for width in (1e-9 * scale, scale, 1e-3, 10.0):
            edges = np.sort(np.append(width * dice.normal(size=8), 0.0))
            found = gaussian_cells(sigma, edges)
            with mp.workdps(60):
                for mean, masses, errors in ((1, found.p, found.p_error), (0, found.q, found.q_error)):
                    # the log-ratio is (2x - 1) / 2 sigma^2
                    z = [mpf(sigma) * mpf(float(edge)) + (mpf(1) / 2 - mean) / mpf(sigma) for edge in edges]
                    ends = [-mp.inf, *z, mp.inf]
                    for low, high, mass, error in zip(ends[:-1], ends[1:], masses, errors, strict=True):
                        truth = tail(low) - tail(high) if low > 0 else tail(-high) - tail(-low)
                        assert abs(mpf(float(mass)) - truth) <= mpf(float(error)) + mpf(1e-307)
    # and what they say is next to nothing where nothing is near an edge
    assert gaussian_cells(1e9, np.array([-1e-4, 1e-4])).p_error.max() <= 1e-15


@pytest.mark.parametrize("rounds", [1, 10, 50])
@pytest.mark.parametrize("noise", [1e3, 1e6, 1e9, 1e12])
@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.01), (0.6, 0.1), (2.9297446403842855, 0.1)])
def test_noise_that_hides_everything_changes_nothing(sigma: float, rate: float, noise: float, rounds: int) -> None:
    """Neither the bracket nor the answer of a real run widens beside rounds of absurd noise."""
    alone = (PoissonSampled(Gaussian(sigma), rate) * rounds).guarantee(delta=1e-5)
    for other in (rate, 1e-6):
        run = PoissonSampled(Gaussian(sigma), rate) * rounds + PoissonSampled(Gaussian(noise), other) * rounds
        both = run.guarantee(delta=1e-5)
        assert both.method in ("exact", "bound")  # not an order's, far above
        assert both.upper - both.lower <= 2e-4 * both.upper
        assert alone.lower <= both.upper <= alone.upper * (1 + 2e-5 + 10 * math.sqrt(rounds) * rate / noise)


def gaussian_delta(mean: mpf, epsilon: float) -> mpf:
    """Delta of a Gaussian loss, of mean `mean`^2 / 2: what rounds of Gaussian noise add up to."""
    with mp.workdps(60):
        e = mpf(epsilon)
        return tail(e / mean - mean / 2) - exp(e) * tail(e / mean + mean / 2)


@pytest.mark.parametrize(
    ("sigma", "rounds", "delta"), [(30.0, 1_000, 1e-5), (1000.0, 10**6, 1e-12), (5.0, 100, 1e-2), (500.0, 1000, 0.03)]
)
def test_few_frequencies_bracket_what_has_a_closed_form(sigma: float, rounds: int, delta: float) -> None:
    law = lattice_law(Gaussian(sigma) * rounds)
    lower, upper = by_lattice(Gaussian(sigma) * rounds).epsilon(delta)
    with mp.workdps(60):
        mean = sqrt(mpf(rounds)) / mpf(sigma)
    assert gaussian_delta(mean, upper) <= delta
    assert lower == 0 or gaussian_delta(mean, lower) >= delta
    assert upper - lower <= 1e-5 * upper
    plan = Sketch(law).plans(upper, math.log(delta), PRECISE)[0]
    assert 0 < plan.frequencies < 300
    above, below = line_on(law, plan, upper_law), line_on(law, plan, lower_law)
    assert above is not None
    assert below is not None
    for epsilon in (0.3 * upper, upper, 1.3 * upper):
        truth = gaussian_delta(mean, epsilon)
        assert below.at(epsilon).lower <= truth <= above.at(epsilon).upper
        assert above.at(epsilon).lower <= above.at(epsilon).upper


@pytest.mark.parametrize("noise", [Gaussian(4.0), Laplace(3.0), DiscreteGaussian(4.0)], ids=repr)
@pytest.mark.parametrize("side", [upper_law, lower_law])
def test_few_frequencies_and_all_of_them_are_the_same_sum(noise: Mechanism, side: Callable[..., LatticeLaw]) -> None:
    """On one lattice, with the same laws, up to what each of them says that it may be off by."""
    run = PoissonSampled(noise, 0.05) * 700 + PoissonSampled(Gaussian(2.0), 0.03) * 300
    law = lattice_law(run)
    plan = Sketch(law).plans(1.0, -10.0, 1e-3)[-1]
    assert plan.frequencies == 0
    deviation = Sketch(law).deviation
    few = line_on(law, plan._replace(frequencies=math.ceil(16.0 / deviation * plan.step * plan.points / 6.28)), side)
    every = line_on(law, plan, side)
    assert few is not None
    assert every is not None
    for epsilon in (0.9, 1.0, 1.3):
        one, other = few.at(epsilon), every.at(epsilon)
        assert max(one.lower, other.lower) <= min(one.upper, other.upper)
        value, slope = few.value_and_slope(epsilon)
        assert value == pytest.approx(every.value_and_slope(epsilon)[0], rel=1e-7)
        assert slope == pytest.approx(every.value_and_slope(epsilon)[1], rel=1e-7)
        assert slope == pytest.approx((few.value_and_slope(epsilon + 1e-7)[0] - value) / 1e-7, rel=1e-4)


@settings(max_examples=50, deadline=None)
@given(
    weights=st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1.0)), min_size=2, max_size=40),
    frequencies=st.integers(1, 40),
    rounds=st.integers(1, 10_000),
)
def test_no_frequency_beyond_the_lowest_exceeds_its_bound(weights: list[float], frequencies: int, rounds: int) -> None:
    """The ceiling of a line of few frequencies, against the spectrum itself beyond the last of them."""
    if np.count_nonzero(weights) < 1:
        return
    masses = np.array(weights) / np.sum(weights)
    plan = LatticePlan(
        step=0.1,
        ends=((0, masses.size - 1),),
        atoms=(None,),
        points=128,
        t=0.5,
        sides=np.array([1.0]),
        frequencies=frequencies,
    )
    line = lattice_line([(LatticeLaw(0, masses, 0.0, 0.0), rounds)], plan)
    if line is None:
        return
    turns = np.linspace(2.0 * math.pi / 128 * (frequencies + 1), math.pi, 2000)
    tilted = masses * np.exp(0.5 * 0.1 * np.arange(masses.size))
    modulus = np.abs(np.exp(1j * np.outer(turns, np.arange(masses.size))) @ tilted) / tilted.sum()
    bound = line.ceiling - line.values[0].real  # relative to the moment at t, as the tilted law is
    assert rounds * math.log(modulus.max()) <= bound + 1e-12 * rounds
    if bound > rounds * math.log(0.99):  # and is not far off where it counts
        assert math.exp(bound / rounds) <= modulus.max() + 0.02


@pytest.mark.parametrize("log_rest", [-0.5, -2.0, -8.0])
def test_frequencies_that_a_transform_leaves_out_are_counted(monkeypatch: pytest.MonkeyPatch, log_rest: float) -> None:
    law = lattice_law(PoissonSampled(Gaussian(4.0), 0.05) * 700)
    plan = Sketch(law).plans(1.0, -10.0, 1e-3)[-1]
    monkeypatch.setattr(lattice, "LOG_REST", -math.inf)
    every = line_on(law, plan, upper_law)
    monkeypatch.setattr(lattice, "LOG_REST", log_rest)
    few = line_on(law, plan, upper_law)
    assert every is not None
    assert few is not None
    assert few.values.size < every.values.size == plan.points // 2 + 1
    for epsilon in (0.7, 1.0, 1.3):
        one, other = few.at(epsilon), every.at(epsilon)
        assert one.lower <= other.lower <= other.upper <= one.upper
        # and they count: without them the sum is another one
        assert abs(few.value_and_slope(epsilon)[0] / every.value_and_slope(epsilon)[0] - 1.0) > 1e-6


def test_a_window_holds_for_epsilons_hundreds_of_nats_apart() -> None:
    """Further than the exponential of a double goes."""
    law = lattice_law(Gaussian(1.0) * 40_000)
    lower, upper = by_lattice(Gaussian(1.0) * 40_000).epsilon(1e-9)
    assert gaussian_delta(mpf(200), upper) <= 1e-9 <= gaussian_delta(mpf(200), lower)
    plan = Sketch(law).plans(upper, math.log(1e-9), PRECISE)[-1]
    assert plan.frequencies == 0
    above, below = line_on(law, plan, upper_law), line_on(law, plan, lower_law)
    assert above is not None
    assert below is not None
    for epsilon in (upper - 1000.0, upper - 100.0, upper, upper + 800.0):
        truth = gaussian_delta(mpf(200), epsilon)
        assert below.at(epsilon).lower <= truth <= above.at(epsilon).upper
    # what it was made for, and larger deltas nearby
    assert above.at(upper).upper <= float(gaussian_delta(mpf(200), upper)) * 1.01
    assert above.at(upper - 100.0).upper <= float(gaussian_delta(mpf(200), upper - 100.0)) * 1.01


@settings(max_examples=15, deadline=None)
@example(noise=4.133956175213107, rate=0.0011137460368668454, rounds=5, log_delta=math.log10(1.6604078997652122e-09))
@given(
    noise=st.floats(0.3, 10.0),
    rate=st.floats(1e-4, 0.5),
    rounds=st.integers(1, 12),
    log_delta=st.floats(-12.0, -3.0),
)
def test_close_below_a_largest_loss_no_epsilon_is_too_small(
    noise: float, rate: float, rounds: int, log_delta: float
) -> None:
    """The largest loss of every round has half of the noise's mass, so its product alone bounds delta from below."""
    try:
        _, upper = by_lattice(PoissonSampled(Laplace(noise), rate) * rounds).epsilon(10.0**log_delta)
    except NumericalError:
        return
    with mp.workdps(40):
        q, a = mpf(rate), 1 / mpf(noise)
        largest, mass = log(1 - q + q * exp(a)), ((1 - q) * exp(-a) + q) / 2
        assert mass**rounds * (1 - exp(mpf(upper) - rounds * largest)) <= 10.0**log_delta


def test_a_spectrum_that_does_not_end_is_transformed_as_a_whole() -> None:
    law = lattice_law(SGD * 234)
    (plan,) = Sketch(law).plans(0.3, math.log(1e-5), PRECISE)
    assert plan.frequencies == 0
    assert line_on(law, plan._replace(frequencies=20), upper_law) is None  # too few, and it says so
    every = line_on(law, plan, upper_law)
    assert every is not None
    # the profile makes its lattice for the delta that it finds, 1.2e-5
    found = by_lattice(SGD * 234, "remove").delta(0.3)
    assert found.lower <= every.at(0.3).upper <= found.upper * (1 + 1e-6)


def test_where_a_rare_loss_takes_over_a_saddle_point_is_found() -> None:
    guarantee = (PoissonSampled(Gaussian(0.55), 0.055) * 5).guarantee(delta=1e-9)
    assert guarantee.method == "exact"
    assert 11.4815 < guarantee.lower <= guarantee.upper < 11.4816


@given(least=st.floats(1.0, 1e6))
def test_a_fast_length_is_even_and_close(least: float) -> None:
    length = fast_length(least)
    assert least <= length <= max(1.26 * least, 16)
    assert length % 2 == 0
    for factor in (2, 3, 5):
        while length % factor == 0:
            length //= factor
    assert length == 1


def test_a_row_of_deltas_is_as_close_as_each_by_itself() -> None:
    run = PoissonSampled(Gaussian(1.1), 256 / 60_000) * 200
    epsilons = [0.0, 0.05, 0.2, 0.6, 1.5, 3.0]
    row = np.asarray(run.profile(epsilons, method="exact"))
    alone = np.array([run.delta(epsilon=epsilon, method="exact") for epsilon in epsilons])
    np.testing.assert_allclose(row, alone, rtol=1e-3)


def sampled_pair(run: Run) -> tuple[list[tuple[mpf, mpf]], float]:
    """Probabilities under P and Q of one round of a sampled discrete Gaussian, without the sampling, and its rate."""
    (step,) = run.mechanisms
    assert isinstance(step, PoissonSampled)
    assert isinstance(step.mechanism, DiscreteGaussian)
    sigma, rate = mpf(step.mechanism.noise_multiplier), step.sampling_rate
    weights = {k: mp.exp(-(mpf(k) ** 2) / (2 * sigma**2)) for k in range(-60, 61)}
    total = mp.fsum(weights.values())
    return [(weights.get(k - 1, mpf(0)) / total, weights.get(k, mpf(0)) / total) for k in range(-60, 62)], rate


def true_delta(run: Run, epsilon: float) -> mpf:
    """Delta of one round of a sampled discrete Gaussian, the larger of both directions."""
    pairs, rate = sampled_pair(run)
    bound, q = mp.exp(mpf(epsilon)), mpf(rate)
    mixed = [((1 - q) * b + q * a, b) for a, b in pairs]
    return max(
        mp.fsum(max(a - bound * b, 0) for a, b in mixed),
        mp.fsum(max(b - bound * a, 0) for a, b in mixed),
    )


@pytest.mark.parametrize("epsilon", [712.69611, 712.79511, 712.79610])
def test_a_loss_whose_exponential_overflows_is_not_lowered(epsilon: float) -> None:
    run = PoissonSampled(DiscreteGaussian(0.0264), 0.01) * 1
    with mp.workdps(60):
        assert true_delta(run, epsilon) <= run.delta(epsilon=epsilon, method="exact") <= 1e-3


@pytest.mark.parametrize(
    ("sigma", "rate", "delta"),
    [
        (0.051876722230168516, 0.5, 2.15283e-84),
        (0.10384283016583334, 0.5, 2.78057e-184),
        (0.0777525902028526, 0.03025880224380178, 7.53013e-149),
    ],
)
def test_probabilities_that_are_no_normal_doubles_are_still_bracketed(sigma: float, rate: float, delta: float) -> None:
    run = PoissonSampled(DiscreteGaussian(sigma), rate) * 1
    found = run.guarantee(delta=delta, method="exact")
    with mp.workdps(60):
        assert true_delta(run, found.upper) <= delta
        assert found.lower == 0 or true_delta(run, found.lower) >= delta


def test_tiny_deltas_are_not_met_at_the_lower_end() -> None:
    sigma, rate, delta = 16.286199463446284, 0.0015433388871180103, 4.486611405889135e-298
    lower = (PoissonSampled(Gaussian(sigma), rate) * 1).guarantee(delta=delta, method="exact").lower
    assert 0.0129 < lower < 0.0130
    assert max(one_round(sigma, rate, lower, direction) for direction in ("remove", "add")) >= delta
