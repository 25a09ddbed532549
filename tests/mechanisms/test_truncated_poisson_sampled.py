"""Poisson samples of which at most so many records are kept: bounds hold, and say how close they are."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray

from dprounds import (
    FixedSizeSampled,
    Gaussian,
    Laplace,
    ParameterError,
    PoissonSampled,
    TruncatedPoissonSampled,
    UnsupportedError,
)
from dprounds.accounting.law import LOG_MOMENT_ERROR
from dprounds.accounting.premises import sizes
from dprounds.mechanisms.grouped_batches import mean_of_ceilings
from tests.references import moments, truncated

Array = NDArray[np.float64]
RELATIONS = ("add-remove", "zero-out", "replace-one")
RATE, RECORDS = 256 / 60_000, 60_000
EPSILONS = np.array([0.0, 0.3, 1.0, 2.5])
# Of sums of a few hundred masses.
ROUNDING = 1e-13


def neighbours(others: tuple[float, ...], relation: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """A record at 1, and what takes its place."""
    return (*others, 1.0), {"add-remove": others, "zero-out": (*others, 0.0), "replace-one": (*others, -1.0)}[relation]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("rate", "noise"), [(0.15, 1.5), (0.5, 0.6), (0.9, 0.6), (1.0, 1.5)])
def test_one_round_is_below_its_bound_whatever_the_other_records_are(relation: str, rate: float, noise: float) -> None:
    best = 0.0
    for records, most in ((2, 1), (2, 2), (3, 2), (4, 1), (4, 3)):
        step = TruncatedPoissonSampled(Gaussian(noise), rate, most, records, relation)
        bounds = np.asarray(step.profile(EPSILONS))
        # a data set of so many records, and one record less; and, if records join, one more
        for number in {records - 1, records if relation == "add-remove" else records - 1}:
            for others in itertools.combinations_with_replacement((-1.0, 0.0, 0.7), number):
                p, q = (truncated.sums(data, rate, most) for data in neighbours(others, relation))
                for one, other in ((p, q), (q, p)):
                    reached = truncated.excess(one, other, noise, np.exp(EPSILONS))
                    assert (reached <= bounds + ROUNDING).all()
                    best = max(best, float((reached / np.maximum(bounds, 1e-9)).max()))
    assert best > 0.8


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("rate", "most"), [(0.2, 3), (0.5, 1), (0.9, 2)])
def test_lower_ends_are_reached_by_some_others(relation: str, rate: float, most: int) -> None:
    found = TruncatedPoissonSampled(Gaussian(1.2), rate, most, 4, relation).guarantee(delta=1e-2)
    assert 0 < found.lower < found.upper
    reached = []
    for others in ((0.0,) * 3, (-1.0,) * 3):
        p, q = (truncated.sums(data, rate, most) for data in neighbours(others, relation))
        reached += [
            float(truncated.excess(*pair, 1.2, np.array([math.exp(found.lower)]))[0]) for pair in ((p, q), (q, p))
        ]
    assert max(reached) >= 1e-2 * (1 - 1e-3)  # of a sum over intervals


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("most", [2, 8])
def test_simulated_attacks_are_between_both_ends(relation: str, most: int) -> None:
    """Twenty rounds of ten records drawn with chance 0.4, the others all away from the record: 40,000 times."""
    noise, rate, rounds, times = 1.5, 0.4, 20, 40_000
    data = neighbours((-1.0,) * 9, relation)
    laws = [truncated.sums(each, rate, most) for each in data]
    found = (TruncatedPoissonSampled(Gaussian(noise), rate, most, 10, relation) * rounds).guarantee(delta=1e-2)
    random = np.random.default_rng(1)

    def log_density(x: Array, law: dict[float, float]) -> Array:
        return np.log(sum(chance * np.exp(-0.5 * ((x - at) / noise) ** 2) for at, chance in law.items()))

    reached = []
    for one, other in (laws, laws[::-1]):
        drawn = random.choice(list(one), p=list(one.values()), size=(times, rounds))
        x = drawn + noise * random.standard_normal(drawn.shape)
        losses = (log_density(x, one) - log_density(x, other)).sum(axis=1)
        shown = -np.expm1(np.minimum(found.upper - losses, 0.0))
        reached.append(float(shown.mean()) - 5.0 * float(shown.std()) / math.sqrt(times))
    assert max(reached) <= 1e-2


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_moments_are_those_of_the_mixture(direction: str) -> None:
    """On the axis to the digits of K, however small, and off it as well as a line needs."""
    for most, z in ((280, 0.5), (330, 20.0), (330, 3.0 + 4.0j)):
        step = TruncatedPoissonSampled(Gaussian(1.1), RATE, most, RECORDS)
        weights, mechanisms = step._parts
        with mp.workdps(30):
            exact = mp.log1p(
                sum(mpf(w) * grown(part, z, direction) for w, part in zip(weights, mechanisms, strict=True))
            )
            found = mp.mpmathify(step.log_moment(z, direction))
            # the size of what K is made of: what it is on the axis, and how far its phase may turn
            size = abs(mp.mpmathify(z) / mp.mpmathify(z).real) * mpf(step.log_moment(complex(z).real, direction))
            assert abs(mp.expm1(found - exact)) <= mpf("1e-13") * size


def grown(part: object, z: complex, direction: str) -> mpf:
    """M - 1 of a part, by its definition."""
    assert isinstance(part, PoissonSampled)
    assert isinstance(part.mechanism, Gaussian)
    noise, rate = mpf(part.mechanism.noise_multiplier), mpf(part.sampling_rate)
    return mp.expm1(moments.gaussian(noise, mp.mpmathify(z), rate=rate, direction=direction))


def test_figures() -> None:
    table = {  # largest batch: lower and upper ends
        280: (2.376432, 5.539821),
        300: (2.381405, 3.430654),
        320: (2.381594, 2.407648),
        350: (2.381596, 2.381603),
    }
    for most, (lower, upper) in table.items():
        found = (TruncatedPoissonSampled(Gaussian(1.1), RATE, most, RECORDS) * 14_062).guarantee(delta=1e-5)
        assert found.method == "bound"
        assert lower <= found.lower <= lower + 1e-6
        assert upper - 1e-6 <= found.upper <= upper
    never = (TruncatedPoissonSampled(Gaussian(1.1), RATE, 500, RECORDS) * 14_062).guarantee(delta=1e-5)
    plain = (PoissonSampled(Gaussian(1.1), RATE) * 14_062).guarantee(delta=1e-5)
    assert (never.method, never.sampling) == ("exact", "truncated")
    assert never.upper == pytest.approx(plain.upper, rel=1e-11)


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_record_is_left_out_of_batches_that_may_hold_all(relation: str) -> None:
    for records in (9, 10):
        step = TruncatedPoissonSampled(Gaussian(2.0), 0.3, 11, records, relation)
        plain = PoissonSampled(Gaussian(2.0), 0.3, relation)
        assert step.is_tight
        assert step.rdp(3.0) == plain.rdp(3.0)
        assert (step * 50).epsilon(delta=1e-5) == (plain * 50).epsilon(delta=1e-5)
    # of ten records and one more, ten are kept
    assert TruncatedPoissonSampled(Gaussian(2.0), 0.3, 10, 10).is_tight is False


@pytest.mark.parametrize("relation", RELATIONS[1:])
def test_all_records_drawn_and_so_many_kept_is_a_batch_of_fixed_size(relation: str) -> None:
    for rounds in (1, 500):
        cut = (TruncatedPoissonSampled(Gaussian(2.0), 1.0, 10, 500, relation) * rounds).guarantee(delta=1e-5)
        fixed = (FixedSizeSampled(Gaussian(2.0), 10, 500, relation) * rounds).guarantee(delta=1e-5)
        assert cut.upper == pytest.approx(fixed.upper, rel=2e-5)
        assert cut.upper >= fixed.lower


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_smaller_largest_batch_is_no_plain_sample_and_no_order_is_below_the_profile(relation: str) -> None:
    step = TruncatedPoissonSampled(Gaussian(1.1), RATE, 300, RECORDS, relation)
    run = step * 14_062
    assert run.relation == relation
    assert (
        run.epsilon(delta=1e-5) >= (PoissonSampled(Gaussian(1.1), RATE, relation) * 14_062).guarantee(delta=1e-5).lower
    )
    assert run.epsilon(delta=1e-5, method="optimal") >= run.guarantee(delta=1e-5).lower
    assert run.delta(epsilon=run.epsilon(delta=1e-5)) == pytest.approx(1e-5, rel=1e-3)
    if relation != "replace-one":  # whose Rényi bounds are those of batches of fixed size
        assert step.rdp(4.0) > PoissonSampled(Gaussian(1.1), RATE, relation).rdp(4.0)


def test_what_is_not_known_is_refused_in_one_line() -> None:
    with pytest.raises(UnsupportedError, match="What Laplace costs on truncated Poisson samples is not known here"):
        TruncatedPoissonSampled(Laplace(1.0), 0.1, 10, 100)
    with pytest.raises(ParameterError, match="largest_batch must be"):
        TruncatedPoissonSampled(Gaussian(1.0), 0.1, 0, 100)
    with pytest.raises(ParameterError, match="dataset_size must be"):
        TruncatedPoissonSampled(Gaussian(1.0), 0.1, 10, 0)
    with pytest.raises(ParameterError, match="relation must be one of"):
        TruncatedPoissonSampled(Gaussian(1.0), 0.1, 10, 100, relation="swap")
    with pytest.raises(UnsupportedError, match="chooses its batches itself"):
        PoissonSampled(TruncatedPoissonSampled(Gaussian(1.0), 0.1, 10, 100), 0.1)
    with pytest.raises(UnsupportedError, match="cannot be added up"):
        TruncatedPoissonSampled(Gaussian(1.0), 0.1, 10, 100, "zero-out") + PoissonSampled(Gaussian(1.0), 0.1)


def test_rounding_moves_weight_to_what_costs_most() -> None:
    """The chances are those of 40 digits, to the stated side."""
    step = TruncatedPoissonSampled(Gaussian(1.1), 0.3, 4, 9)
    (plain, cut, either), (_, displacing, worst) = step._parts
    with mp.workdps(40):
        q = mpf(0.3)

        def tail(trials: int, least: int) -> mpf:
            return sum(mp.binomial(trials, m) * q**m * (1 - q) ** (trials - m) for m in range(least, trials + 1))

        assert mpf(cut) <= tail(8, 4) <= mpf(cut) * (1 + mpf("1e-12"))
        assert tail(9, 4) - mpf(cut) <= mpf(either) <= (tail(9, 4) - mpf(cut)) * (1 + mpf("1e-11"))
        assert mpf(plain) + mpf(cut) + mpf(either) >= 1
        rate = 4 * tail(9, 5) / 9 / tail(8, 4)
        assert isinstance(displacing, PoissonSampled)
        assert isinstance(worst, PoissonSampled)
        assert rate <= mpf(displacing.sampling_rate) <= rate * (1 + mpf("1e-12"))
    assert worst.sampling_rate == 0.3


def test_the_mean_of_ceilings_is_above_its_rounding() -> None:
    random = np.random.default_rng(5)
    for _ in range(300):
        weights = random.dirichlet(np.ones(3)).tolist()
        rows = [random.normal(size=1) * 10.0 ** random.uniform(-9, 1) for _ in range(3)]
        found = float(mean_of_ceilings(weights, rows)[0])
        with mp.workdps(40):
            exact = mp.log1p(sum(mpf(w) * mp.expm1(mpf(float(row[0]))) for w, row in zip(weights, rows, strict=True)))
            assert exact <= mpf(found)


@pytest.mark.parametrize(("noise", "most", "t"), [(1.1, 400, 6.0), (1.0, 340, 4.0), (0.7, 370, 3.0), (2.0, 280, 8.0)])
def test_errors_of_a_mixture_are_at_least_those_of_its_parts(noise: float, most: int, t: float) -> None:
    """Each part's M errs by its own size, which may be far above that of the mixture where the part is rare."""
    step = TruncatedPoissonSampled(Gaussian(noise), 256 / 60_000, largest_batch=most, dataset_size=60_000)
    law = step.law()
    assert law.moment_error is not None
    z = t + 1j * np.array([0.0, 0.5, 3.0])
    whole = float(law.log_moment(np.array([t]))[0])
    errors = np.zeros(3)
    for weight, part in zip(step._parts.weights, step._parts.mechanisms, strict=True):
        one = part.law() * 1
        saddle = one.expand(t)
        share = weight * math.exp(saddle.value - whole)
        errors += share * LOG_MOMENT_ERROR * sizes(one, saddle, z.imag)
    assert (law.moment_error(z) >= errors * (1.0 - 1e-9)).all()
    assert (law.moment_error(z) <= 20.0 * errors).all()
