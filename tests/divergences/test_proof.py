"""No pair of distributions crosses a bound, wherever the functions have corners that nobody named."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

from dprounds.divergences import (
    Divergence,
    chi_alpha,
    chi_squared,
    f_divergence,
    hockey_stick,
    jensen_shannon,
    joint_range,
    kl,
    le_cam,
    renyi,
    reverse_kl,
    squared_hellinger,
    total_variation,
)
from dprounds.divergences.certificate import _Heights
from dprounds.divergences.family import STRAIGHT
from dprounds.divergences.mesh import Side
from dprounds.divergences.nodes import Nodes
from dprounds.errors import ParameterError
from tests.references.divergence import DIGITS, Generator, extreme_pairs, mixture


def below(x: Any) -> float:
    """The largest double that is not above x."""
    with mpmath.workdps(DIGITS):
        return float(x) if mpmath.mpf(float(x)) <= x else float(np.nextafter(float(x), 0.0))


def above(x: Any) -> float:
    """The smallest double that is not below x."""
    with mpmath.workdps(DIGITS):
        return float(x) if mpmath.mpf(float(x)) >= x else float(np.nextafter(float(x), math.inf))


def assert_between(f: Generator, g: Generator, p: list[Any], q: list[Any]) -> None:
    """One-sided and without tolerance: both boundaries rise, so a value may be rounded to the side that stays true."""
    exact, other = f.divergence(p, q), g.divergence(p, q)
    both = joint_range(f, g)
    assert both.least(below(exact)).bound <= other <= both.greatest(above(exact)).bound


def random_generator(rng: np.random.Generator, near: list[float]) -> Generator:
    """Up to four corners of steepness 0.01 to 1000, some next to those of another function, and up to two powers."""
    count = int(rng.integers(0, 5))
    places = np.exp(rng.normal(0.0, rng.choice([0.01, 0.3, 2.0]), count))
    if near and rng.random() < 0.6:
        places = np.array(near[:count]) * (1.0 + rng.normal(0.0, 10.0 ** rng.uniform(-6, -1), min(count, len(near))))
    corners = tuple((float(k), float(10.0 ** rng.uniform(-2, 3))) for k in places)
    powers = tuple(
        (float(rng.choice([1.0, 1.1, 1.5, 2.0, 3.0, rng.uniform(1, 4)])), float(10.0 ** rng.uniform(-3, 1)))
        for _ in range(int(rng.integers(0 if corners else 1, 3)))
    )
    return Generator(corners, powers)


@pytest.mark.parametrize("seed", range(6))
def test_no_pair_crosses_a_bound_between_functions_with_corners_that_nobody_named(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = random_generator(rng, [])
    g = random_generator(rng, [k for k, _ in f.corners])
    places = np.array([k for k, _ in f.corners + g.corners])
    ratios = np.exp(np.concatenate([np.linspace(-6, 6, 241), rng.normal(0, 1, 60), rng.normal(0, 0.05, 60)]))
    ratios = np.unique(np.concatenate([ratios, places, places * (1 + 1e-9), places * (1 - 1e-9)]))
    # not every value is within reach of the ratios
    pairs = [pair for value in 10.0 ** rng.uniform(-6, 1, 2) for pair in extreme_pairs(f, g, value, ratios)]
    pairs.append((float(np.exp(-rng.exponential())), float(np.exp(rng.exponential())), 0.25))
    for low, high, share in pairs:
        assert_between(f, g, *mixture(low, high, max(share, 0.0)))


STEEP = Generator(((1.5, 1e3),), ((2.0, 1.0),)), Generator(((1.52, 1e3),), ((2.0, 1.0),))


def test_two_corners_within_one_cell_of_the_mesh() -> None:
    # this pair has D_f = 0.1; a search that saw neither corner said that D_g is at least 0.0038587
    q = 0.00493298
    p = 1.52 * q
    masses = [mpmath.mpf(p), 1 - mpmath.mpf(p)], [mpmath.mpf(q), 1 - mpmath.mpf(q)]
    assert float(STEEP[0].divergence(*masses)) == pytest.approx(0.1, rel=1e-3)
    assert_between(*STEEP, *masses)
    point = joint_range(*STEEP).least(0.1)
    assert point.value == pytest.approx(0.00134049, rel=1e-5)
    assert point.bound == pytest.approx(point.value, rel=1e-6)
    assert float(f_divergence(STEEP[0])(point.p, point.q)) == pytest.approx(0.1, rel=1e-9)


@pytest.mark.parametrize("power", [1.1, 1.5])
@pytest.mark.parametrize("step", [2.0**-27, 2.0**-20, 2.0**-13, 2.0**-4])
def test_a_power_between_one_and_two_has_no_polynomial_next_to_ratio_one(power: float, step: float) -> None:
    g = f_divergence(lambda t: np.abs(t - 1) ** power)
    exact = float((2 * mpmath.mpf(step)) ** mpmath.mpf(power))
    # the masses are doubles, so the ratios 1 ± 2 step are exact
    assert g([0.5 + step, 0.5 - step], [0.5, 0.5]) == pytest.approx(exact, rel=1e-8)
    point = joint_range(total_variation, g).least(step)
    assert point.bound <= exact
    assert point.value == pytest.approx(exact, rel=1e-7)
    assert point.bound == pytest.approx(exact, rel=0.1)


# pairs that touch their lines in different ways: at a corner, at an end, inside, nearly everywhere
TOUCHING: list[tuple[Divergence, Divergence, float]] = [
    (total_variation, kl, 0.3),
    (total_variation, kl, 1e-10),
    (hockey_stick(1.0), renyi(8.0), 1e-5),
    (chi_squared, kl, 2.0),
    (jensen_shannon, squared_hellinger, 1e-9),
    (jensen_shannon, le_cam, 0.4),
    (renyi(5.0), renyi(1.5), 0.2),
    (kl, kl, 0.3),
    (hockey_stick(1e-6), renyi(1.5), 1e-5),
]


@pytest.mark.parametrize(("f", "g", "value"), TOUCHING, ids=str)
def test_built_in_divergences_are_proven_to_eleven_digits(f: Divergence, g: Divergence, value: float) -> None:
    both = joint_range(f, g)
    for point in (both.least(value), both.greatest(value)):
        if 0.0 < point.value < math.inf:
            assert point.bound == pytest.approx(point.value, rel=1e-11)


EXACT_SUMS: dict[Divergence, Callable[[Any, Any], Any]] = {
    total_variation: lambda x, y: abs(x - y) / 2,
    hockey_stick(1.0): lambda x, y: max(x - mpmath.e * y, 0),
    kl: lambda x, y: x * mpmath.log(x / y) if x else mpmath.mpf(0),
    squared_hellinger: lambda x, y: (mpmath.sqrt(x) - mpmath.sqrt(y)) ** 2 / 2,
    chi_squared: lambda x, y: (x - y) ** 2 / y,
    le_cam: lambda x, y: (x - y) ** 2 / (x + y) / 2 if x + y else mpmath.mpf(0),
}
NEIGHBOURS = [(f, g) for f in EXACT_SUMS for g in EXACT_SUMS if f is not g]


@pytest.mark.parametrize(("f", "g"), NEIGHBOURS, ids=str)
@pytest.mark.parametrize("value", [1e-6, 0.2, 0.9])
def test_the_pair_that_shows_an_extreme_does_not_cross_its_bound(f: Divergence, g: Divergence, value: float) -> None:
    both = joint_range(f, g)
    for point in (both.least(value), both.greatest(value)):
        if not (point.attained and 0.0 < point.value < math.inf):
            continue
        with mpmath.workdps(DIGITS):
            # masses that sum to one exactly: the largest is what the others leave
            p, q = ([mpmath.mpf(float(m)) for m in masses] for masses in (point.p, point.q))
            k = int(np.argmax(np.minimum(point.p, point.q)))
            p[k], q[k] = 1 - sum(p) + p[k], 1 - sum(q) + q[k]
            exact, other = (sum(EXACT_SUMS[d](x, y) for x, y in zip(p, q, strict=True)) for d in (f, g))
        assert both.least(below(exact)).bound <= other <= both.greatest(min(above(exact), f.largest)).bound


def polyline(side: Side, nodes: Nodes, slope: float, u: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What the cells of a proof say that H is at least, at log ratios u."""
    heights = _Heights.of(side, nodes, slope, 0.0, 0.0)
    cell = np.clip(np.searchsorted(heights.u, u, side="right") - 1, 0, heights.u.size - 2)
    s, apex = np.tanh(0.5 * u), heights.apex_s[cell]
    # an apex may lie upon a node, and then it is the apex that counts
    towards = np.where(s < apex, cell, cell + 1)
    width = heights.node_s[towards] - apex
    share = np.where(width == 0.0, 0.0, (s - apex) / np.where(width == 0.0, 1.0, width))
    return np.asarray((1.0 - share) * heights.apex_height[cell] + share * heights.node_height[towards])


def height(side: Side, slope: float, u: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """H itself."""
    return np.asarray(side.sign * np.exp(side.g.log_kernel(u)) - slope * np.exp(side.f.log_kernel(u)))


CURVED = [total_variation, hockey_stick(0.5), kl, reverse_kl, squared_hellinger, chi_squared, jensen_shannon, le_cam]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("f", [*CURVED, chi_alpha(3.0)], ids=str)
def test_between_its_nodes_h_is_never_below_what_the_cells_say(f: Divergence, sign: float) -> None:
    rng = np.random.default_rng(0)
    dense = np.concatenate([np.linspace(-6, 6, 2001), 0.5 + np.linspace(-1e-3, 1e-3, 21)])
    for g in CURVED:
        side = Side.of(f, g, sign)
        for _ in range(8):
            # few nodes, and a named corner only by chance: convex, concave and mixed cells, corners inside of cells
            places = np.sort(rng.choice([*rng.uniform(-6, 6, 12), 0.5], 8, replace=False))
            nodes = Nodes.at(side, np.unique(np.concatenate([[-math.inf, -7.0, 0.0, 7.0, math.inf], places])))
            slope = sign * float(np.exp(rng.uniform(-3, 3)))
            exact = height(side, slope, dense)
            # straight functions are their own chords, and here both sides are rounded
            rounding = 1e-15 * (1.0 + abs(slope)) * (f.log_bend == g.log_bend == STRAIGHT)
            assert np.all(polyline(side, nodes, slope, dense) <= exact + rounding)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("bent", [True, False], ids=["bend known", "bend unknown"])
def test_the_cells_hold_for_all_values_within_the_errors_of_the_nodes(sign: float, bent: bool) -> None:
    rng = np.random.default_rng(1)
    dense = np.linspace(-6, 6, 1001)
    f, g = (d if bent else replace(d, log_bend=None) for d in (kl, chi_squared))
    side = Side.of(f, g, sign)
    places = np.sort(np.concatenate([[-math.inf, 0.0, math.inf], np.linspace(-7, -0.01, 40), np.linspace(0.01, 7, 40)]))
    exact = Nodes.at(side, places)
    error = 1e-3
    for _ in range(40):
        wrong = {}
        for kernel in ("log_f", "log_g"):
            log_kernel = getattr(exact, kernel)
            wrong[kernel] = log_kernel + np.log1p(error * rng.choice([-1.0, 1.0], log_kernel.size))
            wrong[kernel.replace("log_", "") + "_log_error"] = log_kernel + math.log(1.01 * error)
        slope = sign * float(np.exp(rng.uniform(-2, 2)))
        assert np.all(polyline(side, replace(exact, **wrong), slope, dense) <= height(side, slope, dense))


BENT: list[Divergence] = [kl, squared_hellinger, chi_squared, jensen_shannon, le_cam, renyi(3.5), total_variation]


@pytest.mark.parametrize("divergence", BENT, ids=str)
def test_the_second_derivative_is_what_the_divergence_says(divergence: Divergence) -> None:
    assert divergence.log_bend is not None
    a, b, c = divergence.log_bend
    for u in (-3.0, -0.5, 0.7, 4.0):
        # F(u) (1 + t) is f(t), up to a straight line: its second difference over a small step
        t = math.exp(u)
        step = t * 1e-3
        ratios = np.array([t - step, t, t + step])
        f = np.exp(divergence.log_kernel(np.log(ratios))) * (1.0 + ratios)
        bend = (f[0] - 2 * f[1] + f[2]) / step**2
        assert bend == pytest.approx(math.exp(a + b * u + c * math.log1p(t)), rel=1e-4, abs=1e-8)


def test_a_ray_that_is_neither_flat_nor_upright_has_the_slope_of_the_tail() -> None:
    # D_f = 3 D_g + E|t - 1| and D_g >= (E|t - 1|)², so y = E|t - 1| solves 3 y² + y = 1/2 where both are equalities
    f = f_divergence(lambda t: 3 * (t - 1) ** 2 + np.abs(t - 1))
    y = (math.sqrt(7.0) - 1.0) / 6.0
    point = joint_range(f, chi_squared).least(0.5)
    assert point.value == pytest.approx(y**2, rel=1e-9)
    assert point.bound <= y**2
    assert point.bound == pytest.approx(y**2, rel=1e-9)


def test_where_d_f_is_zero_the_ratios_lie_between_the_corners() -> None:
    # all ratios in [0, 1.5]: at most log 1.5, by the pair with both
    level = joint_range(lambda t: np.maximum(t - 1.5, 0), kl).greatest(0.0)
    assert math.log(1.5) <= level.bound == pytest.approx(math.log(1.5), rel=1e-7)


def test_a_function_that_bends_the_wrong_way_between_the_ratios_of_the_first_look_is_refused() -> None:
    # a dent of depth 1e-3 and width 1e-3, inside one cell of the sample
    def dented(t: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return (t - 1) ** 2 + 1e-2 * (np.minimum(np.abs(t - 1.335), 1e-3) - 1e-3)

    f = f_divergence(dented)
    with pytest.raises(ParameterError, match="function must be convex in the ratio, got slopes that fall"):
        joint_range(total_variation, f).least(0.1675)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"at_zero": -1.0}, "at_zero must agree with the function, which says about 1, got -1."),
        ({"at_zero": 0.0}, "at_zero must agree with the function, which says about 1, got 0."),
        ({"at_zero": 2.0}, "at_zero must agree with the function"),
        ({"at_zero": math.inf}, "at_zero must agree with the function"),
        ({"slope_at_infinity": 5.0}, "slope_at_infinity must agree with the function, which says at least"),
    ],
)
def test_limits_that_contradict_the_function_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        f_divergence(lambda t: (t - 1) ** 2, **arguments)
    assert message in str(refusal.value)


def test_limits_that_agree_with_the_function_are_taken() -> None:
    assert f_divergence(lambda t: (t - 1) ** 2, at_zero=1.0, slope_at_infinity=math.inf).at_zero == 1.0
    assert f_divergence(lambda t: t * np.log(t), at_zero=0.0).at_zero == pytest.approx(1.0)
    assert f_divergence(lambda t: np.abs(t - 1), slope_at_infinity=1.0).slope_at_infinity == 1.0
    assert f_divergence(lambda t: -np.log(t), at_zero=math.inf, slope_at_infinity=0.0).at_zero == math.inf
    # a limit that is approached too slowly to be read off
    slow = f_divergence(lambda t: t * (1 - 1 / np.log(t + np.e)) - 1 + 1 / np.log(1 + np.e), slope_at_infinity=1.0)
    assert slow.largest < math.inf


def raising(t: Any) -> Any:
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: f_divergence(lambda t: "x"), "function must return real numbers, got array('x'"),
        (lambda: f_divergence(lambda t: t + 1j), "function must return real numbers"),
        (lambda: f_divergence(raising), "function must take an array of ratios, got ZeroDivisionError"),
        (lambda: f_divergence(math.log), "function must take an array of ratios, got TypeError"),
        (lambda: f_divergence(list(range(1000))), "function must be a callable of the likelihood ratio, got [0, 1"),  # type: ignore[arg-type]
        (lambda: joint_range(10**400, kl), "got an integer of 1329 bits."),  # type: ignore[arg-type]
        (lambda: joint_range(total_variation, kl).region(10**400), "points must be an integer in [2, 1000000], got"),
        (lambda: joint_range(total_variation, kl).region(10**7), "points must be an integer in [2, 1000000], got"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_short_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        call()
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 200
    assert "\n" not in str(refusal.value)


def test_the_nodes_of_a_proof_hold_the_corners_and_the_ends() -> None:
    nodes = Nodes.of(Side.of(hockey_stick(0.5), total_variation, 1.0))
    assert {-math.inf, 0.0, 0.5, math.inf} <= set(nodes.u.tolist())
    assert np.all(np.diff(nodes.u) > 0)
