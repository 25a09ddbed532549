"""The exact accountant as users meet it: runs, plans and curves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import norm

from dprounds import (
    ZCDP,
    Accountant,
    ApproximateDP,
    DiscreteGaussian,
    DiscretePair,
    Gaussian,
    InfeasibleError,
    Laplace,
    NumericalError,
    ParameterError,
    PoissonSampled,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    UnsupportedError,
    max_rounds,
    max_sampling_rate,
    min_noise_multiplier,
)
from dprounds.accounting.answers import Account
from dprounds.accounting.trade_off import false_negative_rates
from dprounds.mechanisms import Mechanism, Release, Run
from dprounds.mechanisms.accounted import Accounted
from tests.references import gaussian

SGD = PoissonSampled(Gaussian(1.1), 256 / 60_000)


@pytest.mark.parametrize(
    ("rate", "sigma", "rounds", "epsilon"),
    [(0.01, 1.0, 10**4, 6.18771), (256 / 60_000, 1.1, 14_062, 2.38160), (0.001, 4.0, 10**5, 0.26867)],
)
def test_exact_is_the_default(rate: float, sigma: float, rounds: int, epsilon: float) -> None:
    guarantee = (PoissonSampled(Gaussian(sigma), rate) * rounds).guarantee(delta=1e-5)
    assert guarantee.method == "exact"
    assert guarantee.epsilon == pytest.approx(epsilon, abs=1e-5)
    assert guarantee.lower <= guarantee.epsilon == guarantee.upper <= guarantee.lower * (1 + 1e-9)


@pytest.mark.parametrize(("rounds", "epsilon"), [(100, 1.9931), (500, 4.9833), (1000, 7.5113)])
def test_the_paper_s_gaussian_exactly(rounds: int, epsilon: float) -> None:
    assert round((Gaussian(20.0) * rounds).epsilon(delta=1e-5), 4) == epsilon


def test_rounds_are_exact() -> None:
    assert max_rounds(Gaussian(20.0), epsilon=6.0, delta=1e-5) == 685
    step = PoissonSampled(Gaussian(4.0), 0.001)
    rounds = max_rounds(step, epsilon=1.0, delta=1e-5)
    assert rounds == 1_113_160
    assert (step * rounds).epsilon(delta=1e-5) <= 1.0 < (step * (rounds + 1)).epsilon(delta=1e-5)


def test_noise_and_rate_are_exact() -> None:
    def by_noise(sigma: float) -> Release:
        return PoissonSampled(Gaussian(sigma), 0.01) * 1000

    sigma = min_noise_multiplier(by_noise, epsilon=3.0, delta=1e-5)
    assert (by_noise(sigma) * 1).epsilon(delta=1e-5) <= 3.0 < (by_noise(sigma / (1 + 1e-6)) * 1).epsilon(delta=1e-5)
    assert sigma < min_noise_multiplier(by_noise, epsilon=3.0, delta=1e-5, method="optimal")

    def by_rate(rate: float) -> Release:
        return PoissonSampled(Gaussian(1.0), rate) * 1000

    rate = max_sampling_rate(by_rate, epsilon=3.0, delta=1e-5)
    assert (by_rate(rate) * 1).epsilon(delta=1e-5) <= 3.0 < (by_rate(rate * (1 + 1e-6)) * 1).epsilon(delta=1e-5)


def test_the_accountant_is_exact() -> None:
    accountant = Accountant()
    accountant.record(SGD, rounds=14_062)
    assert accountant.epsilon(delta=1e-5) == (SGD * 14_062).epsilon(delta=1e-5, method="exact")
    left = accountant.remaining_rounds(SGD, epsilon=3.0, delta=1e-5)
    assert left + 14_062 == max_rounds(SGD, epsilon=3.0, delta=1e-5)


def test_no_moment_function_no_exact_answer() -> None:
    run = Gaussian(1.0) * 2 + ZCDP(0.1)
    assert run.guarantee(delta=1e-5).method == "optimal"
    with pytest.raises(UnsupportedError, match="No exact accounting"):
        run.epsilon(delta=1e-5, method="exact")


def delta_of_three_rounds(sigma: float, rate: float, epsilon: float, *, step: float = 0.02) -> float:
    """Delta of three sampled Gaussian rounds, direction remove: two summed over their outputs, one in closed form.

    The trapezoid sum is accurate to 1e-7 of its value: half the step changes 5e-8 of it.
    """
    x = np.arange(-12.0, 13.0, step)
    mixture = (1 - rate) * norm.pdf(x, scale=sigma) + rate * norm.pdf(x, loc=1.0, scale=sigma)
    loss = np.log1p(rate * np.expm1((2 * x - 1) / (2 * sigma**2)))
    level = np.exp(epsilon - loss[:, None] - loss)  # what the third likelihood ratio must exceed
    with np.errstate(divide="ignore", invalid="ignore"):  # below 1 - rate every output exceeds it
        at = 0.5 + sigma**2 * np.log((level - 1 + rate) / rate)
        one = (1 - rate - level) * ndtr(-at / sigma) + rate * ndtr((1 - at) / sigma)
    one = np.where(level > 1 - rate, one, 1 - level)
    return float(mixture @ one @ mixture) * step**2


def test_few_rounds_are_exact_too() -> None:
    guarantee = (SGD * 3).guarantee(delta=1e-5)
    assert guarantee.method == "exact"
    low, high = 0.06988006, 0.06988008
    assert delta_of_three_rounds(1.1, 256 / 60_000, low) > 1e-5 > delta_of_three_rounds(1.1, 256 / 60_000, high)
    assert low <= guarantee.lower <= guarantee.epsilon <= high


def test_what_no_line_resolves_the_lattice_brackets() -> None:
    run = PoissonSampled(Laplace(2.0), 0.1) * 500
    guarantee = run.guarantee(delta=1e-5)
    assert guarantee.method == "exact"
    assert guarantee.lower <= guarantee.epsilon < run.epsilon(delta=1e-5, method="optimal")
    assert guarantee.upper - guarantee.lower <= 2e-2 * guarantee.upper  # atoms of 500 rounds, no two alike


def kairouz_oh_viswanath(epsilon: float, delta: float, rounds: int, at: float) -> mpf:
    """δ of the k-fold composition of (ε₀, δ₀)-DP [KOV15, Theorem 3.3], from the binomial law of the privacy loss."""
    with mp.workdps(40):
        e0, d0, e = mpf(epsilon), mpf(delta), mpf(at)
        total = mpf(0)
        for truths in range(rounds + 1):
            loss = (2 * truths - rounds) * e0
            if loss > e:
                mass = mp.binomial(rounds, truths) * mp.exp(truths * e0) / (1 + mp.exp(e0)) ** rounds
                total += mass * (1 - mp.exp(e - loss))
        finite = (1 - d0) ** rounds
        return 1 - finite + finite * total


@pytest.mark.parametrize(
    ("epsilon", "delta", "rounds"), [(0.1, 1e-6, 10), (0.5, 0.0, 7), (0.05, 1e-8, 100), (1.0, 1e-3, 3), (2.0, 0.0, 1)]
)
def test_composition_is_the_optimal_theorem(epsilon: float, delta: float, rounds: int) -> None:
    run = ApproximateDP(epsilon, delta) * rounds
    # between the atoms of the loss and, where the theorem states it, at them
    for at in (
        0.0,
        0.37 * epsilon * math.sqrt(rounds),
        0.81 * epsilon * rounds,
        (rounds % 2) * epsilon,
        rounds * epsilon,
    ):
        truth = kairouz_oh_viswanath(epsilon, delta, rounds, at)
        answer = run.delta(epsilon=at)
        assert answer >= truth
        # next to the largest loss the only term left is a difference of two nearly equal losses
        assert answer == pytest.approx(float(truth), rel=1e-11, abs=1e-14)


def test_the_advanced_composition_theorem_is_beside_it() -> None:
    """Dwork, Rothblum and Vadhan: ε sqrt(2k log(1/δ')) + kε(e^ε - 1) at δ' + kδ; the optimal one is never above."""
    epsilon, rounds, slack = 0.1, 100, 1e-6
    advanced = epsilon * math.sqrt(2 * rounds * math.log(1 / slack)) + rounds * epsilon * math.expm1(epsilon)
    assert (PureDP(epsilon) * rounds).epsilon(delta=slack) < 0.8 * advanced


def enumerate_response(epsilons: list[float], at: float) -> mpf:
    """δ(at) of one randomized response for each epsilon, over all their outcomes."""
    with mp.workdps(40):
        total = mpf(0)
        for outcome in product((1, -1), repeat=len(epsilons)):
            p, excess = mpf(1), -Fraction(at)
            for sign, epsilon in zip(outcome, epsilons, strict=True):
                truth = 1 / (1 + mp.exp(-mpf(epsilon)))
                p *= truth if sign > 0 else 1 - truth
                excess += sign * Fraction(epsilon)  # of the loss log(p/q) over `at`, free of rounding
            if excess > 0:
                total -= p * mp.expm1(-mpf(excess.numerator) / excess.denominator)
        return total


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0.05, 2.0), min_size=1, max_size=6), st.floats(0.0, 3.0))
def test_responses_of_different_sizes_are_enumerated(epsilons: list[float], at: float) -> None:
    run = sum((RandomizedResponse(epsilon) * 1 for epsilon in epsilons), start=Run())
    truth = enumerate_response(epsilons, at)
    answer = run.delta(epsilon=at)
    assert answer >= truth
    # smoothing and aliases are relative to the scale of the sum, which next to the largest loss exceeds delta
    assert answer <= float(truth) + 1e-3


@settings(deadline=None, max_examples=40)
@given(
    st.floats(-1.0, 2.0).map(lambda x: 10.0**x), st.integers(1, 10**9), st.floats(0.0, 5.0), st.sampled_from([1.0, 0.3])
)
def test_exact_is_never_below_the_gaussian_and_never_above_optimal(
    sigma: float, rounds: int, deviations: float, share: float
) -> None:
    """Searches for a run that breaks the promise, the noise split over two parts or not."""
    scale = sigma * math.sqrt(rounds)
    run = Gaussian(scale / math.sqrt(share)) * rounds
    if share < 1.0:
        run = run + Gaussian(scale / math.sqrt(1.0 - share)) * rounds
    with mp.workdps(50):  # the shift of these very doubles
        mu = mp.sqrt(sum(mpf(count) / mpf(part.noise_multiplier) ** 2 for part, count in run.parts))  # type: ignore[attr-defined]  # every part is Gaussian
    epsilon = min(float(mu * mu / 2 + deviations * mu), 700.0)
    truth = gaussian.delta(mu, epsilon)
    delta = run.delta(epsilon=epsilon)
    assert truth <= delta <= run.delta(epsilon=epsilon, method="optimal")
    if truth > 1e-290:
        assert delta <= float(truth) * (1 + 1e-9)


@settings(deadline=None, max_examples=150)
@given(
    st.floats(-5.0, 5.0).map(lambda x: 10.0**x),
    st.floats(0.0, 12.0).map(lambda x: int(10.0**x)),
    st.one_of(st.just(0.0), st.floats(-12.0, 6.0).map(lambda x: 10.0**x)),
    st.sampled_from([None, "exact", "optimal"]),
)
@example(sigma=1e-3, rounds=1000, epsilon=0.0, method="exact")
@example(sigma=1e-3, rounds=1000, epsilon=0.0, method=None)
@example(sigma=1.0, rounds=10**7, epsilon=0.0, method=None)
def test_delta_of_a_gaussian_is_never_below_the_truth_over_the_whole_range(
    sigma: float, rounds: int, epsilon: float, method: str | None
) -> None:
    """Where next to nothing is private delta is close to one, the line close to zero, and no sum may pretend."""
    with mp.workdps(60):
        mu = mp.sqrt(rounds) / mpf(sigma)
        truth = mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)
        try:
            found = (Gaussian(sigma) * rounds).delta(epsilon=epsilon, method=method)
        except NumericalError:
            assert method == "exact"
            return
        assert mpf(found) >= min(truth, 1)


@settings(deadline=None, max_examples=15)
@given(st.floats(0.5, 3.0), st.floats(-3.0, -0.7).map(lambda x: 10.0**x), st.integers(1, 10**6), st.floats(-12.0, -2.0))
def test_exact_is_never_above_optimal_for_sampled_runs(
    sigma: float, rate: float, rounds: int, log_delta: float
) -> None:
    run = PoissonSampled(Gaussian(sigma), rate) * rounds
    guarantee = run.guarantee(delta=10.0**log_delta)
    assert guarantee.lower <= guarantee.epsilon <= run.epsilon(delta=10.0**log_delta, method="optimal")
    # what holds for the unsampled mechanism holds for the sample, and no sample is worse than its rate allows
    assert guarantee.epsilon <= (Gaussian(sigma) * rounds).epsilon(delta=10.0**log_delta) * (1 + 1e-9)


def test_the_profile_is_vectorised_and_falls() -> None:
    run = SGD * 14_062
    epsilons = np.linspace(0.0, 6.0, 25)
    deltas = np.asarray(run.profile(epsilons))
    assert (np.diff(deltas) < 0).all()
    assert deltas[8] == pytest.approx(run.delta(epsilon=float(epsilons[8])), rel=1e-8)
    assert isinstance(run.profile(1.0), float)
    with pytest.raises(ParameterError, match=r"^epsilons must be in"):
        run.profile([1.0, math.nan])


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_the_trade_off_of_a_gaussian_is_its_formula(mu: float) -> None:
    """f(α) = Φ(Φ⁻¹(1 - α) - μ) [DRS22]."""
    rates = np.array([1e-4, 0.01, 0.1, 0.3, 0.5, 0.9])
    truth = norm.cdf(norm.ppf(1 - rates) - mu)
    found = np.asarray(Gaussian(1 / mu).trade_off(rates))
    assert (found <= truth).all()
    assert found == pytest.approx(truth, rel=1e-5)
    assert Gaussian(1 / mu).attack_advantage() == pytest.approx(2 * norm.cdf(mu / 2) - 1, rel=1e-9)
    assert Gaussian(1 / mu).true_positive_rate(0.01) == pytest.approx(1 - truth[1], rel=1e-4)


@pytest.mark.parametrize("rate", [1e-4, 0.01, 0.2])
@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_one_rate_is_as_close_where_the_curve_has_corners(rounds: int, rate: float) -> None:
    """Of randomized response the best test counts the answers that speak for the record [Neyman-Pearson]."""
    truthful = 1 / (1 + math.exp(-0.5))
    counts = range(rounds, -1, -1)
    seen = [math.comb(rounds, n) * truthful**n * (1 - truthful) ** (rounds - n) for n in counts]
    alarms = list(reversed(seen))
    left, truth = rate, 0.0
    for hit, alarm in zip(seen, alarms, strict=True):
        truth += hit * min(left / alarm, 1.0)
        left = max(left - alarm, 0.0)
    found = (RandomizedResponse(0.5) * rounds).true_positive_rate(rate)
    assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-5)


@pytest.mark.parametrize(
    "run",
    [PoissonSampled(Gaussian(2.0), 0.1) * 50, PoissonSampled(Gaussian(0.6), 1e-4) * 100, Laplace(2.0) * 5],
    ids=["steep", "no row tells all", "atoms"],
)
def test_one_rate_is_no_looser_than_a_row_of_rates(run: Run) -> None:
    row = 1.0 - np.asarray(run.trade_off([0.003, 0.01, 0.03, 0.1, 0.3]))
    for rate, found in zip((0.01, 0.1), row[[1, 3]], strict=True):
        assert run.true_positive_rate(rate) <= found * (1 + 3e-6)


def test_one_rate_asks_few_epsilons_and_none_far_beyond_the_best() -> None:
    asked: list[float] = []

    def profile(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        asked.extend(epsilons.tolist())
        return np.asarray(norm.cdf(0.05 - epsilons / 0.1) - np.exp(epsilons) * norm.cdf(-0.05 - epsilons / 0.1))

    found = false_negative_rates(profile, np.array([0.01]), infinite_mass=0.0)
    assert found == pytest.approx(norm.cdf(norm.ppf(0.99) - 0.1), rel=1e-6)
    assert len(asked) < 40
    assert max(asked) < 1.5  # the best is 0.23, and a row of rates goes up to 5.6


def test_attackers_of_nothing_guess() -> None:
    nothing = Gaussian(1.0) * 0
    assert np.asarray(nothing.trade_off([0.0, 0.25, 1.0])) == pytest.approx([1.0, 0.75, 0.0], abs=1e-12)
    assert nothing.attack_advantage() == 0.0
    with pytest.raises(ParameterError, match=r"^false_positive_rates must be in"):
        nothing.trade_off([1.5])


def test_laplace_alone_is_its_closed_form() -> None:
    """One Laplace release of scale b: δ = 1 - e^{(ε - 1/b)/2}."""
    for scale, epsilon in ((1.0, 0.3), (2.0, 0.1), (0.5, 1.7)):
        truth = -math.expm1((epsilon - 1 / scale) / 2)
        found = Laplace(scale).delta(epsilon=epsilon)
        assert truth <= found <= truth * (1 + 1e-3)


def test_no_delta_exceeds_the_probability_that_a_record_is_seen() -> None:
    # seen in any of 50 rounds with probability 1 - (1 - 1e-4)^50 = 0.0049878
    for sigma in (5.0, 0.3, 0.005):
        run = PoissonSampled(Gaussian(sigma), 1e-4) * 50
        assert run.delta(epsilon=0.0) <= 0.0049879
        assert run.epsilon(delta=0.004988) == 0.0
        assert (run + PoissonSampled(Laplace(0.01), 1e-5) * 7).delta(epsilon=0.0) <= 0.0049878 + 7e-5
    with mp.workdps(30):
        seen = 1 - (1 - mp.mpf(1e-4)) ** 50
        assert (PoissonSampled(Gaussian(0.005), 1e-4) * 50).delta(epsilon=1.0) >= seen  # it tells all that it sees
    assert (PoissonSampled(Gaussian(0.005), 1e-4) * 50 + Gaussian(0.005)).delta(epsilon=1.0) > 0.99


def test_a_plan_ends_where_sampling_alone_meets_the_budget() -> None:
    with pytest.raises(InfeasibleError, match="Every noise_multiplier down to"):
        min_noise_multiplier(lambda noise: PoissonSampled(Gaussian(noise), 1e-4) * 50, epsilon=1.0, delta=1e-2)


@pytest.mark.parametrize(
    "run",
    [
        PoissonSampled(Gaussian(1.0), 1e-7) * 2,
        PoissonSampled(Gaussian(0.45), 3e-5) * 500_000,
        DiscreteGaussian(0.0876) * 1,
        PoissonSampled(Gaussian(1.1), 256 / 60_000) * 234,
        Gaussian(20.0) * 500,
        Laplace(2.0) * 10,
        PoissonSampled(DiscreteGaussian(1.0), 0.01) * 10,  # some 1e-4 wide
    ],
    ids=repr,
)
@pytest.mark.parametrize("delta", [1e-5, 1e-14])
@pytest.mark.parametrize("method", [None, "exact"])
def test_only_a_narrow_bracket_is_called_exact(run: Run, delta: float, method: str | None) -> None:
    found = run.guarantee(delta=delta, method=method)
    if found.method == "exact":
        assert found.upper - found.lower <= 1e-6 * found.upper
    else:
        assert found.method in ("bound", "optimal")
        assert found.upper - found.lower > 1e-6 * found.upper


@dataclass(frozen=True, repr=False)
class Untold(Accounted, Mechanism):
    """A randomized response of which only the moments are told: beside its atoms no sum of them is narrow."""

    loss: float

    def _log_moment(self, z: Any, direction: str) -> Any:
        return RandomizedResponse(self.loss)._log_moment(z, direction)

    def _max_loss(self, direction: str) -> float:
        return self.loss


def test_a_wide_bracket_is_a_bound() -> None:
    delta = float(enumerate_response([1.0, 1.0], 1e-4))  # next to the atom of two opposite answers, at 0
    found = (Untold(1.0) * 2).guarantee(delta=delta)
    assert (found.method, found.order) == ("bound", None)
    assert found.lower <= 1e-4 < found.upper == found.epsilon < 1.0
    assert enumerate_response([1.0, 1.0], found.upper) <= delta
    told = (RandomizedResponse(1.0) * 2).guarantee(delta=delta)
    assert told.method == "exact"
    assert told.lower <= 1e-4 * (1 + 1e-11)
    assert told.upper >= 1e-4 * (1 - 1e-11)
    assert (Gaussian(20.0) * 0).guarantee(delta=1e-5).method == "exact"


@pytest.mark.parametrize(
    ("parts", "delta"),
    [
        ([(4.2509285913828645, 0.04096, 5), (0.6197264478318036, 0.034133333333333335, 4)], 4.2699705440862485e-08),
        ([(0.7090234538896791, 0.15954769958813136, 2)], 0.12516161475494267),
        ([(1.1, 256 / 60_000, 14_062)], 1e-5),
        ([(1.1, 256 / 60_000, 14_062), (1.3, 512 / 60_000, 2_000)], 1e-5),
        ([(0.9, 1.0, 3), (1.3, 512 / 60_000, 2_000)], 1e-5),
    ],
)
def test_sampled_gaussians_are_called_exact_within_a_billionth(
    parts: list[tuple[float, float, int]], delta: float
) -> None:
    runs = [PoissonSampled(Gaussian(sigma), rate) * rounds for sigma, rate, rounds in parts]
    found = sum(runs[1:], runs[0]).guarantee(delta=delta)
    assert found.method == ("exact" if found.upper - found.lower <= 1e-9 * found.upper else "bound")
    if len(parts) == 2 and parts[0][2] == 5:
        assert 1e-9 < (found.upper - found.lower) / found.upper < 1e-6


@pytest.mark.parametrize(
    ("sigma", "rate", "rounds", "delta"),
    [
        (0.7090234538896791, 0.15954769958813136, 2, 0.12516161475494267),
        (0.36541300988542674, 0.01897666341059849, 5, 0.0629631926117838),
        (0.5985545230865299, 0.014372437958200092, 29, 0.08338017368630259),
    ],
)
def test_levels_are_exact_where_delta_hardly_falls(sigma: float, rate: float, rounds: int, delta: float) -> None:
    found = (PoissonSampled(Gaussian(sigma), rate) * rounds).guarantee(delta=delta)
    assert found.method == "exact"
    assert found.upper - found.lower <= 1e-9 * found.upper


def test_other_noise_is_called_exact_within_a_millionth() -> None:
    sampled = PoissonSampled(Gaussian(1.06), 0.0356, relation="replace-one") * 20
    found = sampled.guarantee(delta=7e-21)
    assert found.method == "exact"
    assert 1e-9 < (found.upper - found.lower) / found.upper < 1e-6


def test_rare_losses_of_two_rounds_are_between_their_bounds() -> None:
    """The truth is 2.39162439e-5, by quadrature over both rounds."""
    found = (PoissonSampled(Gaussian(1.0), 1e-7) * 2).guarantee(delta=1e-14)
    assert found.method == "exact"
    assert 2.39162439e-5 < found.lower <= found.upper == found.epsilon < 2.39162440e-5


def test_an_attack_that_proves_more_than_the_bound_is_no_answer() -> None:
    """It would show that one of both is wrong: nothing is hidden by taking the lesser one."""
    bound, attack = Gaussian(2.0) * 1, Gaussian(1.0) * 1
    account = Account(bound, lambda: bound.laws, bound.finite_rdp, 0.0, lambda: attack.laws)
    with pytest.raises(NumericalError, match="An attack on this run proves more than its bound"):
        account.guarantee(1e-5, None)
    weaker = Account(attack, lambda: attack.laws, attack.finite_rdp, 0.0, lambda: bound.laws)
    found = weaker.guarantee(1e-5, None)
    assert found.lower < found.upper == found.epsilon


@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-7, 1e-3, 1.0])
def test_at_delta_zero_an_exact_answer_has_two_close_ends(size: float) -> None:
    """Next to nothing no lower end is known of a pair of masses; then it is a bound, and says so."""
    p = 0.5 * (1.0 + size / 2.0)
    found = (DiscretePair((p, 1.0 - p), (1.0 - p, p)) * 3).guarantee(delta=0.0)
    assert found.method == ("exact" if found.upper - found.lower <= 1e-6 * found.upper else "bound")
    assert (found.method == "exact") == (size == 0 or size >= 1e-3)
    with mp.workdps(40):
        assert found.lower <= 3 * (mp.log(mpf(p)) - mp.log(mpf(1.0 - p))) <= found.upper


def test_random_allocation_has_no_finite_epsilon_at_delta_zero() -> None:
    found = (RandomAllocation(Gaussian(1.0), steps=10) * 2).guarantee(delta=0.0)
    assert found.method == "exact"
    assert found.lower == found.upper == math.inf
