"""Means of lognormal values below a limit, or with one above it: the truth is within the errors that are stated."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from mpmath import exp, mp, mpf

from dprounds.numerics import lognormal_limited, lognormal_panels, lognormal_window
from dprounds.numerics.log_gamma import loggamma
from dprounds.numerics.lognormal_limited import LimitedMean, OneAbove
from dprounds.numerics.lognormal_mean import LognormalMean
from dprounds.numerics.lognormal_window import Tilted
from dprounds.numerics.normal_tails import log_upper_tail, upper_tail
from tests.references.allocation import integer_power_mean, limited_power_means

# Noise, steps, limit, highest: from nearly normal sums to ones that one value takes over.
MEANS = [(1.4214, 3083, 8.0, 10.5), (0.9555, 1991, 8.0, 11.0), (2.66, 330, 8.0, 10.0), (0.9, 3000, 7.5, 10.0)]
# The stated errors are not above it, relative to the mean.
STATED = 1e-9


@pytest.fixture(autouse=True)
def _forget() -> None:
    """Remembered tables were made with other tolerances."""
    lognormal_window.remembered_tilted.cache_clear()
    lognormal_limited._remembered_reals.cache_clear()
    lognormal_panels._remembered_average.cache_clear()


def both(sigma: float, steps: int, limit: float, highest: float) -> list[LimitedMean | OneAbove]:
    return [LimitedMean(1 / sigma, steps, True, limit), OneAbove(1 / sigma, steps, limit, highest)]


@cache
def truths(sigma: float, steps: int, limit: float, highest: float, power: int) -> tuple[mpf, mpf]:
    """E[S^n] if no value is above the limit, and if exactly one is."""
    return limited_power_means(sigma, steps, limit, highest, power)


def missed(mean: LimitedMean | OneAbove, power: int, truth: mpf) -> tuple[float, float]:
    """By how much a mean is off, relative to it, and what is stated."""
    logs, errors = mean.means(np.array([power + 0j]))
    with mp.workdps(40):
        return float(abs(exp(mpf(float(logs[0].real))) / truth - 1)), float(errors[0])


@pytest.mark.parametrize("power", [2, 5, 9])
@pytest.mark.parametrize("given", MEANS)
def test_integer_powers_are_those_of_the_multinomial_theorem(
    given: tuple[float, int, float, float], power: int
) -> None:
    for mean, truth in zip(both(*given), truths(*given, power), strict=True):
        off, error = missed(mean, power, truth)
        assert off <= error < STATED


@pytest.mark.parametrize(("given", "power"), [(MEANS[0], 60), (MEANS[0], 150), (MEANS[2], 250)])
def test_large_powers_are_known_too(given: tuple[float, int, float, float], power: int) -> None:
    for mean, truth in zip(both(*given), truths(*given, power), strict=True):
        off, error = missed(mean, power, truth)
        assert off <= error < STATED


@pytest.mark.parametrize(("given", "power"), [((1.43, 1000, 6.0, 12.0), 5), ((2.0, 400, 5.5, 12.0), 10)])
def test_complex_powers_add_up_to_those_of_all_values(given: tuple[float, int, float, float], power: int) -> None:
    """What is left of the Mellin integral is the mean over two values above the limit, and not above that at s = 0."""
    sigma, steps, _, _ = given
    whole = integer_power_mean(sigma, steps, power)
    with mp.workdps(40):
        rest = float(1 - sum(truths(*given, power)) / whole)
        log_whole = float(mp.log(whole))
    w = power + 1j * np.array([0.0, 5.0, 20.0, 40.0, 80.0, 120.0])
    all_values = LognormalMean(1 / sigma, steps).means(np.asarray(w, dtype=np.complex128))
    left, allowed = np.exp(all_values.logs - log_whole), all_values.errors + rest
    for mean in both(*given):
        found = mean.means(np.asarray(w, dtype=np.complex128))
        left = left - np.exp(found.logs - log_whole)
        allowed = allowed + found.errors * np.exp(found.logs[0].real - log_whole)
    assert (np.abs(left) <= allowed).all()
    assert (allowed < 1e-8).all()


@pytest.mark.parametrize("power", [3.0, 12.0])
@pytest.mark.parametrize("given", [*MEANS, (0.9555, 1991, 7.2, 9.0), (2.0, 400, 5.0, 7.0)])
def test_no_mean_is_above_its_ceiling(given: tuple[float, int, float, float], power: float) -> None:
    for mean in both(*given):
        spread = math.sqrt(math.expm1(given[0] ** -2) / given[1])
        s = np.arange(0.0, 10.0, 0.5) / spread
        found = mean.means(np.asarray(power + 1j * s, dtype=np.complex128))
        sizes = np.exp(found.logs.real - found.logs[0].real) - 2.0 * found.errors
        ceilings = np.exp(mean.log_fall(power, np.maximum(s, 1e-9)))
        assert (sizes <= ceilings).all()
        assert (np.diff(ceilings) <= 0).all()


@cache
def rule(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for averages over a normal law."""
    x, weights = np.polynomial.legendre.leggauss(400)
    x, weights = 0.5 * (high - low) * x + 0.5 * (high + low), 0.5 * (high - low) * weights
    return x, weights * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


# Of the logarithm of each of two values with a low limit, near which they may be often.
DEVIATION = 0.3


def parts_of_two(limit: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Values below the bend and above it, and their weights."""
    bend = limit - lognormal_limited.BEND
    rules = [rule(-12.0, bend), rule(bend, limit)]
    return [np.exp(DEVIATION * x - 0.5 * DEVIATION**2) for x, _ in rules], [weights for _, weights in rules]


def log_psi_of_two(u: complex, limit: float) -> complex:
    """The logarithm of E[exp(u (S - 1))] of two values below the limit."""
    values, weights = parts_of_two(limit)
    one = sum(w @ np.exp(0.5 * u * (x - 1.0)) for x, w in zip(values, weights, strict=True))
    return complex(2.0 * np.log(complex(one)))


def table_of_two(c: float, limit: float, deviation: float) -> Tilted:
    """A tilted law of the two of which no more is known than bounds need."""
    u = np.linspace(-60.0, 60.0, 241)
    logs = np.array([log_psi_of_two(one, limit).real for one in u.tolist()])
    table = Tilted(LimitedMean(DEVIATION, 2, True, limit), c)
    table.__dict__.update(_middle=(1.0, deviation), _chernoff=(u, logs), _log_at=log_psi_of_two(c, limit).real)
    return table


# Limit, slope, the deviation of the mean that bounds take for granted, angle and imaginary part. The third needs the
# bend, and the last what is said of small sums.
SUMS = [
    (1.5, 4.0, 0.02, 0.6, 2.0),
    (1.5, 4.0, 0.1, 0.6, 40.0),
    (5.0, 5.0, 0.08, 0.8, 6.0),
    (5.0, 1.0, 0.02, 0.3, 45.0),
]


@pytest.mark.parametrize(("limit", "slope", "deviation", "angle", "s"), SUMS)
def test_sums_on_a_line_that_bends_are_below_their_bound(
    limit: float, slope: float, deviation: float, angle: float, s: float
) -> None:
    """E[exp(slope (S - m)) exp(-s sin part)] over all pairs of values, with the slanted lines near the limit."""
    middle = 1.0
    values, weights = parts_of_two(limit)
    slanted = math.hypot(1.0, angle / DEVIATION / lognormal_limited.BEND)
    total = 0.0
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        first, second = values[i][:, None], values[j][None, :]
        turned = (i == 0) * first + (j == 0) * second
        share = turned / (first + second)
        terms = np.exp(slope * (0.5 * (first + second) - middle) - s * math.sin(angle) * share)
        total += slanted ** (i + j) * float(weights[i] @ terms @ weights[j])
    table = table_of_two(slope, limit, deviation)
    given = np.array([slope]), np.zeros(1), np.array([s]), np.array([angle])
    bound = LimitedMean(DEVIATION, 2, True, limit).turned_bound(table, *given)
    assert math.log(total) <= bound[0, 0]


def test_a_transform_of_values_below_a_limit_is_below_its_bound() -> None:
    """Where it has fallen to what the limit leaves, it is above what all other values have."""
    c, limit = 3.0, 1.5
    table, two = table_of_two(c, limit, 0.2), LimitedMean(DEVIATION, 2, True, limit)
    at_c = log_psi_of_two(c, limit).real
    v = np.array([5.0, 40.0, 120.0, 300.0])
    angle = np.array([0.1, 0.6, 1.0, 1.2])
    turned = c * np.cos(angle) - v * np.sin(angle)
    fallen = np.array([log_psi_of_two(u, limit).real + u - at_c - c for u in turned.tolist()])
    truth = np.array([log_psi_of_two(c + 1j * one, limit).real - at_c for one in v.tolist()])
    assert (truth <= two.add_edges(table, angle, fallen)).all()
    assert (truth > 0.5 * two.count * (angle / DEVIATION) ** 2 + fallen).any()


@pytest.mark.parametrize("given", MEANS)
def test_tangents_bound_the_powers(given: tuple[float, int, float, float]) -> None:
    powers = np.array([2.0, 5.0, 9.0])
    for number, mean in enumerate(both(*given)):
        above = mean.log_above(powers)
        for bound, power in zip(above.tolist(), (2, 5, 9), strict=True):
            log_truth = float(mp.log(truths(*given, power)[number]))
            assert log_truth <= bound <= log_truth + 0.5


@pytest.mark.parametrize(
    ("module", "constant", "poor", "points", "number"),
    [
        (LimitedMean, "depth", 0.1, 20, 0),
        (LimitedMean, "depth", 0.1, 20, 1),
        (lognormal_panels, "LOG_PANELS", 0.0, 4, 0),
        (lognormal_limited, "LOG_LIVE", -7.0, 20, 1),
    ],
)
def test_errors_that_are_not_rounding_are_real_and_bounded(
    monkeypatch: pytest.MonkeyPatch, module: object, constant: str, poor: float, points: int, number: int
) -> None:
    """With a poor tolerance for one term the truth is outside of what all others allow, and inside with it."""
    for one in (lognormal_window, lognormal_limited):
        monkeypatch.setattr(one, "LARGEST_ERROR", math.inf)
    monkeypatch.setattr(lognormal_panels, "POINTS", points)
    monkeypatch.setattr(module, constant, poor)
    off, error = missed(both(*MEANS[0])[number], 9, truths(*MEANS[0], 9)[number])
    assert 1e-11 < off <= error


def test_the_integral_over_the_large_value_errs_by_less_than_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_few_points(middle: np.ndarray, half: np.ndarray, log_top: np.ndarray) -> np.ndarray:
        with monkeypatch.context() as few:
            few.setattr(lognormal_panels, "POINTS", 4)
            return lognormal_panels.log_panel_errors(middle, half, log_top)

    monkeypatch.setattr(lognormal_limited, "LARGEST_ERROR", math.inf)
    monkeypatch.setattr(lognormal_limited, "POINTS", 4)
    monkeypatch.setattr(lognormal_limited, "log_panel_errors", with_few_points)
    monkeypatch.setattr(lognormal_limited, "LOG_ONE_PANELS", 0.0)
    off, error = missed(both(*MEANS[0])[1], 9, truths(*MEANS[0], 9)[1])
    assert 1e-9 < off <= error


def test_no_value_turns_by_a_right_angle() -> None:
    assert max(lognormal_limited.WIDEST_TURN, lognormal_panels.WIDEST_ANGLE) < 0.5 * math.pi


def test_turns_that_are_summed_together_are_as_if_each_were_summed() -> None:
    random = np.random.default_rng(7)
    terms, angles = random.random(500), random.random(500) * 3.0 - 0.5
    s = np.linspace(0.0, 400.0, 30)
    found = lognormal_limited._turned_sums(terms, angles, s)
    truth = np.exp(1j * np.multiply.outer(s, angles)) @ terms
    units = 2.0**-53 * (lognormal_limited.TURN_UNITS + lognormal_limited.PHASE_UNITS * s * np.abs(angles).max())
    assert (np.abs(found - truth) <= units * terms.sum()).all()


def test_the_gamma_function_is_within_its_units() -> None:
    random = np.random.default_rng(3)
    for i in range(600):
        real = random.uniform(0.5, 4.0) if i % 2 else random.uniform(0.5, 90.0)
        imaginary = (-1.0) ** i * math.exp(random.uniform(-8.0, 8.0))
        with mp.workdps(30):
            truth = mp.loggamma(mp.mpc(real, imaginary))
            off = float(abs(mp.mpc(complex(loggamma(np.array([complex(real, imaginary)]))[0])) - truth))
            assert off <= 16.0 * 2.0**-53 * (4.0 + float(abs(truth)))
    assert loggamma(np.array([0.5, 1.0, 7.5]))[2].real == math.lgamma(7.5)


def test_tails_of_a_normal_law_are_known_to_their_own_size() -> None:
    for x in (-9.0, -1.0, 0.0, 0.3, 4.0, 12.0, 30.0):
        with mp.workdps(40):
            truth = mp.ncdf(-mpf(x))
            assert abs(float(upper_tail(x) / truth - 1)) <= 2.0**-53 * (40.0 + x * x)
            assert abs(float(log_upper_tail(x) - mp.log(truth))) <= 2.0**-53 * (40.0 + x * x)


def test_an_exponential_beyond_the_doubles_bounds_nothing() -> None:
    """Cut off at the largest double it would be a bound that is too small."""
    assert lognormal_limited.exp_above(np.array([-1e9, 0.0, 700.0, 1e9])).tolist() == [0.0, 1.0, math.inf, math.inf]
    # the first power of what is next to nothing, and one: a logarithm of 0
    assert lognormal_limited._with(np.array([-1e6]), np.array([1.0]), 1.0)[0] >= 0
