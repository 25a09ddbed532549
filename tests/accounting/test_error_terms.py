"""Terms of the proof by their names: each is at least the error that is measured in arbitrary precision.

Where a margin is so wide that no answer shows it, its own claim is measured; elsewhere an answer needs it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray

from dprounds import ApproximateDP, DiscretePair, Gaussian, Laplace, NumericalError, PoissonSampled, RandomizedResponse
from dprounds.accounting import lattice, line, premises
from dprounds.accounting.cells import LatticeLaw
from dprounds.accounting.direction import DISTANCE_ERROR_PER_PART
from dprounds.accounting.lattice import LatticePlan, lattice_line
from dprounds.accounting.line import Line
from dprounds.accounting.over_rounds import least_mass
from dprounds.mechanisms import Mechanism, Run, discrete_pair
from dprounds.numerics import cumulant
from dprounds.numerics import normal_mixture_ceiling as decay
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from tests.references import profile

Array = NDArray[np.float64]


@pytest.mark.parametrize("points", [2**10, 1152, 1280, 1536, 1920])
def test_transforms_err_by_less_than_their_term(points: int) -> None:
    """In the Euclidean norm, against a sum in extended precision; lengths of every radix that is used."""
    if np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps:
        pytest.skip("this machine has no floating-point numbers longer than doubles")
    dice = np.random.default_rng(points)
    k = np.arange(points // 2 + 1)[:, None] * np.arange(points) % points
    turn = 8 * np.arctan(np.longdouble(1)) / points
    cosine, sine = np.cos(turn * k), np.sin(turn * k)
    for masses in (dice.dirichlet(np.ones(points)), dice.normal(size=points)):
        found = np.fft.rfft(masses)
        exact = np.asarray(masses, dtype=np.longdouble)
        real, imaginary = cosine @ exact, -(sine @ exact)
        error = np.sqrt(((found.real - real) ** 2 + (found.imag - imaginary) ** 2).sum())
        norm = np.sqrt((real**2 + imaginary**2).sum())
        assert float(error) <= lattice.TRANSFORM_ERROR * math.log2(points) * float(norm)


def some_line(seed: int, t: float) -> tuple[Line, LatticeLaw, float]:
    dice = np.random.default_rng(seed)
    law = LatticeLaw(-150, dice.dirichlet(np.ones(300)), 0.0, 0.0)
    step = 1.0 / 256.0
    plan = LatticePlan(
        step=step, ends=((-150, 149),), atoms=(None,), points=1024, t=t, sides=np.array([0.5 * t, 3.0 * t])
    )
    line = lattice_line([(law, 1)], plan)
    assert line is not None
    return line, law, step


@pytest.mark.parametrize("part", [1e-12, 1e-6, 1.0, math.nan])
@pytest.mark.parametrize("frequencies", [0, 200])
def test_a_transform_that_contradicts_parseval_is_refused(
    monkeypatch: pytest.MonkeyPatch, part: float, frequencies: int
) -> None:
    law = LatticeLaw(-150, np.random.default_rng(1).dirichlet(np.ones(300)), 0.0, 0.0)
    sides = np.array([0.5, 3.0])
    plan = LatticePlan(step=1 / 256, ends=((-150, 149),), points=1024, t=1.0, sides=sides, frequencies=frequencies)
    true = np.fft.rfft
    monkeypatch.setattr(np.fft, "rfft", lambda values: true(values) * np.array(1.0 + part))
    with pytest.raises(NumericalError, match="Parseval"):
        lattice_line([(law, 1000)], plan)
    monkeypatch.setattr(np.fft, "rfft", true)
    assert lattice_line([(law, 1000)], plan) is not None


def exact_log_moment(law: LatticeLaw, step: float, t: Any) -> Any:
    return mp.log(
        mp.fsum(mpf(float(mass)) * mp.exp(mpf(t) * mpf(step) * (law.first + k)) for k, mass in enumerate(law.masses))
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("t", [1e-9, 2.0])
def test_tilted_masses_err_by_less_than_their_term(seed: int, t: float) -> None:
    """Together with that of their logarithm, which is all that a line knows of their sum."""
    line, law, step = some_line(seed, t)
    with mp.workdps(40):
        center = mpf(line.center.numerator) / line.center.denominator
        found = mpf(float(line.values[0].real)) + mpf(t) * center
        assert abs(mp.expm1(found - exact_log_moment(law, step, t))) <= line.relative_error


@pytest.mark.parametrize("seed", range(8))
def test_moments_at_the_sides_err_by_less_than_their_term(seed: int) -> None:
    line, law, step = some_line(seed, 2.0)
    of_masses = 4.0 * line.relative_error * np.maximum(line.sides[1:] / line.t, 1.0)
    with mp.workdps(40):
        for side, value, slack in zip(line.sides[1:], line.side_values[1:], of_masses, strict=True):
            exact = exact_log_moment(law, step, float(side))
            assert mpf(float(value)) >= exact
            computed = mpf(float(value)) - mpf(float(slack)) - mpf(lattice.SIDE_ERROR)
            assert abs(computed - exact) <= lattice.SIDE_ERROR


def test_a_mass_at_infinity_is_known_from_both_sides() -> None:
    dice = np.random.default_rng(1)
    with mp.workdps(60):
        for _ in range(50):
            mass, rounds = float(10 ** dice.uniform(-12, -1)), int(10 ** dice.uniform(0.5, 4))
            found = (ApproximateDP(0.1, mass) * rounds).infinite_mass
            truth = -mp.expm1(rounds * mp.log1p(-mpf(mass)))
            assert mpf(least_mass(found)) <= truth <= mpf(found)
        for rounds in (2, 3, 7, 100):  # where doubles have no relative precision
            found = (ApproximateDP(0.1, 5e-324) * rounds).infinite_mass
            assert mpf(least_mass(found)) <= rounds * mpf(5e-324) <= mpf(found)


@pytest.mark.parametrize("rate", [0.3, 1e-3, 0.99])
@pytest.mark.parametrize("mechanism", [RandomizedResponse(1.0), Laplace(0.7), RandomizedResponse(7.3)], ids=repr)
def test_the_largest_loss_is_known_from_both_sides(mechanism: Mechanism, rate: float) -> None:
    with mp.workdps(60):
        inner = 1 / mpf(mechanism.noise_multiplier) if isinstance(mechanism, Laplace) else mpf(mechanism.max_loss())
        for rounds in (1, 3, 1001):
            found = (PoissonSampled(mechanism, rate) * rounds).guarantee(delta=0.0)
            truth = rounds * max(mp.log1p(mpf(rate) * mp.expm1(inner)), -mp.log1p(mpf(rate) * mp.expm1(-inner)))
            assert mpf(found.lower) <= truth <= mpf(found.upper)


def test_second_orders_are_below_their_factors() -> None:
    """Of relative errors up to the largest one of a line, and of the factors of a product (Rounding)."""
    with mp.workdps(30):
        x = mpf(line.LARGEST_RELATIVE_ERROR)
        assert mp.expm1(x) <= line.SECOND_ORDER * x
        assert 1 / (1 - x) - 1 <= line.SECOND_ORDER * x
        assert mp.expm1(mpf(1) / 10) <= premises.SECOND_ORDER_OF_PRODUCT / mpf(10)


@pytest.mark.parametrize("t", [0.3, 2.0, 15.0])
def test_the_sizes_of_a_line_are_at_least_what_k_is_made_of(t: float) -> None:
    """|K(t)| + s |E_t[L]| + s^2/2 E_t[L^2], the last term at most s times the largest loss."""
    p, q = (0.2, 0.3, 0.5), (0.45, 0.3, 0.25)
    law = DiscretePair(p, q).law() * 7
    losses = [mp.log(mpf(a)) - mp.log(mpf(b)) for a, b in zip(p, q, strict=True)]
    weights = [mpf(a) * mp.exp(t * loss) for a, loss in zip(p, losses, strict=True)]
    total = mp.fsum(weights)
    first = mp.fsum(w * loss for w, loss in zip(weights, losses, strict=True)) / total
    second = mp.fsum(w * loss**2 for w, loss in zip(weights, losses, strict=True)) / total
    s = np.array([0.1, 1.0, 3.0])
    found = premises.sizes(law, law.expand(t), s)
    for here, size in zip(s.tolist(), found.tolist(), strict=True):
        turning = min(here**2 / 2 * second, here * max(losses))
        assert size >= 7 * (abs(mp.log(total)) + here * abs(first) + turning) * (1 - mpf(10) ** -12)


def test_distances_of_many_gaussians_are_rounded_by_less_than_their_term() -> None:
    """The noises are no short doubles, and epsilon is so far out that delta magnifies what their distance is off by."""
    dice = np.random.default_rng(2)
    for _ in range(40):
        parts = [(float(10 ** dice.uniform(0, 1)), int(10 ** dice.uniform(0, 3))) for _ in range(1 + dice.integers(4))]
        run = sum((Gaussian(sigma) * rounds for sigma, rounds in parts), start=Run())
        with mp.workdps(60):
            distance = mp.sqrt(mp.fsum(rounds / mpf(sigma) ** 2 for sigma, rounds in parts))
            measured = run.laws["remove"].normal_distance
            assert measured is not None
            assert abs(mpf(measured) / distance - 1) <= DISTANCE_ERROR_PER_PART * len(parts)
            epsilon = float(distance * distance / 2 + distance * float(dice.uniform(0.0, 30.0)))
            truth = profile.gaussian(distance, mpf(epsilon))
        found = run.account.profile.delta(epsilon)
        assert mpf(found.lower) <= truth <= mpf(found.upper)


def sampled_power(sigma: float, rate: float, power: float, ends: tuple[Any, Any]) -> Any:
    """The integral of the normal density times w to this power, between two ends."""
    s, q = mpf(sigma), mpf(rate)

    def integrand(x: Any) -> Any:
        return mp.exp(-x * x / (2 * s * s)) * (1 - q + q * mp.exp((2 * x - 1) / (2 * s * s))) ** mpf(power)

    middle = [end for end in (mpf(0), mpf(power)) if ends[0] < end < ends[1]]
    return mp.quad(integrand, sorted([ends[0], *middle, ends[1]]))


@pytest.mark.parametrize(("sigma", "rate", "power"), [(1.0, 0.1, 4.0), (2.0, 0.5, -3.0), (0.6, 0.02, 6.0)])
def test_what_is_outside_of_the_window_of_a_ceiling_is_less_than_its_term(
    sigma: float, rate: float, power: float
) -> None:
    with mp.workdps(40):
        low, high = min(0.0, power) - decay.REACH * sigma, max(0.0, power) + decay.REACH * sigma
        left = sampled_power(sigma, rate, power, (mpf(low) - 40 * mpf(sigma), mpf(low)))
        right = sampled_power(sigma, rate, power, (mpf(high), mpf(high) + 40 * mpf(sigma)))
        all_of_it = sampled_power(sigma, rate, power, (mpf(low), mpf(high)))
        room = mp.exp(decay.NEGATIVE_POWER_ROOM) if power < 0 else 1
        assert room * (left + right) / all_of_it <= decay.WINDOW_ERROR


def test_the_quadrature_of_a_ceiling_errs_by_less_than_its_term() -> None:
    """By the theorem twice the growth, which the step divides out, over exp(DIGITS) - 1."""
    with mp.workdps(30):
        assert 2 / mp.expm1(decay.DIGITS) <= decay.QUADRATURE_ERROR
    # and measured, with a step as coarse as it may be: a normal density, on a strip of its best width
    with mp.workdps(40):
        step = 2 * mp.pi * mp.sqrt(2 * mpf(decay.DIGITS)) / (2 * mpf(decay.DIGITS))
        total = mp.fsum(mp.exp(-((k * step) ** 2) / 2) for k in range(-60, 61)) * step / mp.sqrt(2 * mp.pi)
        assert 0 < abs(total - 1) <= decay.QUADRATURE_ERROR


def test_the_fixed_rounding_of_a_ceiling_covers_what_it_counts() -> None:
    """An exponential down to the least double, a sum of as many terms as a grid may have, and a logarithm."""
    least_exponent = -math.log(5e-324)
    assert least_exponent + math.log2(decay.MOST_NODES) + 2.0 <= decay.FIXED_ERROR


def test_the_rounding_of_a_modulus_of_several_components_covers_what_it_counts() -> None:
    """The square of a modulus rounds by 8 units and two a component, and is divided by the least that it may be."""
    least = math.cos(0.5 * decay.WIDEST_ANGLE) ** 2
    assert least >= 1.0 - decay.LARGEST_FALL
    for components in range(1, 100):
        units = 0.5 * (8.0 + 2.0 * components) / least
        assert units * UNIT_ROUNDOFF <= decay.MODULUS_ERROR * components


def test_the_fixed_rounding_of_a_cumulant_covers_what_it_counts() -> None:
    """A pairwise sum of a whole table, sixteen operations on a term, a logarithm and the quadrature."""
    assert math.log2(cumulant.LARGEST_TABLE) + 16.0 + 2.0 <= cumulant.FIXED_ERROR


def laplace_rdp(scale: float, order: float) -> Any:
    b, z = mpf(scale), mpf(order) - 1
    return mp.log(((z + 1) * mp.exp(z / b) + z * mp.exp(-(z + 1) / b)) / (2 * z + 1)) / z


def response_rdp(epsilon: float, order: float) -> Any:
    e, z = mpf(epsilon), mpf(order) - 1
    return mp.log(mp.cosh((z + mpf(1) / 2) * e) / mp.cosh(e / 2)) / z


def test_no_closed_form_of_a_renyi_bound_is_below_the_truth_by_its_last_digits() -> None:
    dice = np.random.default_rng(3)
    with mp.workdps(400):  # the smallest cancel by hundreds of digits
        for _ in range(1500):
            size, order = float(10 ** dice.uniform(-4, 2)), 1.0 + float(10 ** dice.uniform(-6, 4))
            assert mpf(Laplace(size).rdp(order)) >= min(laplace_rdp(size, order), 1 / mpf(size))
            assert mpf(RandomizedResponse(size).rdp(order)) >= min(response_rdp(size, order), mpf(size))


def test_what_underflows_on_the_way_to_a_renyi_bound_is_not_lost() -> None:
    """Next to order one the moment is divided by 2^-52, and so is what it has lost."""
    order = 1.0 + 2.0**-52
    with mp.workdps(60):
        for exponent in np.linspace(152.0, 158.0, 60):
            sigma = float(10**exponent)
            assert mpf(Gaussian(sigma).rdp(order)) >= mpf(order) / (2 * mpf(sigma) ** 2)


def test_the_sum_over_many_parts_is_not_rounded_below_the_truth() -> None:
    dice = np.random.default_rng(4)
    noises, rounds_each = dice.uniform(1, 9, 900).tolist(), dice.integers(1, 99, 900).tolist()
    run = Run(tuple((Gaussian(sigma), rounds) for sigma, rounds in zip(noises, rounds_each, strict=True)))
    orders = 1.0 + 10 ** dice.uniform(-1, 3, 40)
    total = np.asarray(run.rdp(orders))
    for order, found in zip(orders.tolist(), total.tolist(), strict=True):
        exact = sum((rounds * Fraction(part.rdp(order)) for part, rounds in run.parts), start=Fraction(0))
        assert Fraction(found) >= exact  # of the bounds of the parts, which are not below theirs


def some_pair(dice: np.random.Generator) -> tuple[list[float], list[float]]:
    """Two rows of probabilities: of two rare outcomes, of a common one, and of what remains."""
    rare = 10 ** dice.uniform(-12 if dice.random() < 0.7 else -290, -1, size=2)
    rows = []
    for _ in range(2):
        row = [*(rare * dice.uniform(0.2, 5.0, size=2) / 20.0).tolist(), float(dice.uniform(0.05, 0.3))]
        rows.append([*row, float(1 - mp.fsum(map(mpf, row)))])
    return rows[0], rows[1]


def test_a_discrete_pair_is_bracketed_to_the_last_digit() -> None:
    """Its largest loss and delta of one round, from the masses divided by their sums; its mass at infinity as given."""
    dice = np.random.default_rng(5)
    with mp.workdps(60):
        for _ in range(300):
            p, q = some_pair(dice)
            pair = DiscretePair(p, q)
            for direction in pair.directions:
                one, other = (p, q) if direction == "remove" else (q, p)
                first, second = ([mpf(mass) / mp.fsum(map(mpf, row)) for mass in row] for row in (one, other))
                losses = [mp.log(a / b) for a, b in zip(first, second, strict=True)]
                assert mpf(pair.max_loss(direction)) >= max(losses), (p, q)
                assert mpf(pair.max_loss(direction)) <= max(losses) * (1 + mpf(10) ** -14) + mpf(10) ** -300
                law = pair.law(direction)
                assert law.excess is not None
                for epsilon in (
                    0.0,
                    float(max(losses)) * float(dice.uniform(0.0, 1.0)),
                    float(max(losses)) * (1 - 1e-15),
                ):
                    truth = mp.fsum(max(a - mp.exp(mpf(epsilon)) * b, 0) for a, b in zip(first, second, strict=True))
                    found = law.excess(epsilon)
                    assert mpf(found.lower) <= truth <= mpf(found.upper), (p, q, epsilon)
            told = DiscretePair([*p[:3], p[3], 0.0], [*q[:3], 0.0, q[3]]).law().infinite_mass
            assert mpf(p[3]) < mpf(told) <= mpf(p[3]) * (1 + 2 * mpf(discrete_pair.MASS_ERROR))
            assert least_mass(told) <= p[3]
