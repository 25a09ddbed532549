"""The joint range is the classical one where there is a formula, is proven by its bound and shown by its pair."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprounds.divergences import (
    BoundaryPoint,
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
from dprounds.errors import NumericalError, ParameterError

# What the engine promises on well-conditioned boundaries; it reaches about 1e-14.
EXACT = 1e-12

TV = np.array([1e-10, 1e-5, 0.01, 0.2, 0.5, 0.8, 0.99])


def close(value: Any, expected: Any, rel: float = EXACT) -> None:
    np.testing.assert_allclose(value, expected, rtol=rel, atol=0)


def vajda(t: float) -> tuple[float, float]:
    """(TV, least KL) at the parameter t, from the exact parametrisation [FHT03] with V = 2 TV."""
    with mpmath.workdps(40):
        coth, x = mpmath.coth(t), mpmath.mpf(t)
        v = x * (1 - (coth - 1 / x) ** 2)
        least = mpmath.log(x / mpmath.sinh(x)) + x * coth - x**2 / mpmath.sinh(x) ** 2
        return float(v / 2), float(least)


def binary_entropy(x: Any) -> Any:
    return -x * np.log(x) - (1 - x) * np.log1p(-x)


def test_the_least_kl_at_a_total_variation_is_the_sharp_pinsker_inequality() -> None:
    tv, least = np.array([vajda(t) for t in (1e-6, 0.01, 0.3, 1.0, 3.0, 10.0)]).T
    close(joint_range(total_variation, kl).least(tv).value, least)
    # and read the other way, at most that total variation for a KL divergence
    close(joint_range(kl, total_variation).greatest(least).value, tv)


def test_pinsker_and_bretagnolle_huber_hold() -> None:
    least = joint_range(total_variation, kl).least(TV)
    assert np.all(least.bound >= 2 * TV**2 * (1 - EXACT))
    nats = np.array([1e-8, 0.1, 1.0, 5.0])
    greatest = joint_range(kl, total_variation).greatest(nats)
    assert np.all(greatest.bound <= np.sqrt(-np.expm1(-nats)))


def test_hellinger_and_total_variation() -> None:
    region = joint_range(total_variation, squared_hellinger)
    # 1 - sqrt(1 - TV²), without cancellation
    close(region.least(TV).value, TV**2 / (1 + np.sqrt((1 - TV) * (1 + TV))))
    # a straight boundary: mixtures of equal and of disjoint distributions
    close(region.greatest(TV).value, TV)


def test_jensen_shannon_and_le_cam_against_total_variation() -> None:
    js = joint_range(total_variation, jensen_shannon)
    tv = TV[2:]  # below that, the entropy as written keeps no digit
    close(js.least(tv).value, math.log(2) - binary_entropy((1 - tv) / 2), rel=1e-11)
    close(js.greatest(tv).value, tv * math.log(2))
    close(joint_range(total_variation, le_cam).least(TV).value, TV**2)
    close(joint_range(total_variation, le_cam).greatest(TV).value, TV)


def test_chi_squared_against_total_variation_and_kl() -> None:
    # 4 TV² up to one half, TV / (1 - TV) beyond
    close(joint_range(total_variation, chi_squared).least(TV).value, np.where(TV <= 0.5, 4 * TV**2, TV / (1 - TV)))
    chi = np.array([1e-10, 0.01, 1.0, 50.0, 1e6])
    close(joint_range(chi_squared, kl).greatest(chi).value, np.log1p(chi))
    nats = np.array([1e-9, 0.1, 2.0, 20.0])
    close(joint_range(kl, chi_squared).least(nats).value, np.expm1(nats))
    assert np.all(np.asarray(joint_range(kl, chi_squared).greatest(nats).value) == math.inf)


def test_a_smaller_renyi_order_can_be_as_large() -> None:
    # P uniform on a part of Q has one likelihood ratio, and the same divergence at every order
    rdp = np.array([1e-6, 0.3, 2.0, 30.0])
    close(joint_range(renyi(5.0), renyi(1.5)).greatest(rdp).value, rdp)
    close(joint_range(renyi(5.0), kl).greatest(rdp).value, rdp)
    close(joint_range(renyi(1.5), renyi(40.0)).least(rdp).value, rdp)


REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "conversion.json").read_text())["rows"]
# moderate orders and failure masses; every eighth row, because each takes up to half a second
ROWS = [row for row in REFERENCE if 1.01 <= row["order"] <= 900 and row["delta"] >= 1e-30 and row["epsilon"] <= 100][
    ::8
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['order']:.4g}-{row['epsilon']:.3g}-{row['delta']:.3g}")
def test_the_optimal_conversion_is_the_boundary_of_hockey_stick_and_renyi(row: dict[str, Any]) -> None:
    rdp = float(row["rdp"])
    stick, moment = hockey_stick(row["epsilon"]), renyi(row["order"])
    least = joint_range(stick, moment).least(row["delta"])
    close(least.value, rdp)
    # the proof errs downward: an rdp below the bound gives (epsilon, delta)-DP
    assert rdp * (1 - 1e-10) <= least.bound <= rdp * (1 + 1e-15)
    greatest = joint_range(moment, stick).greatest(rdp)
    # d log delta / d log rdp reaches (order - 1) rdp, about 3,000 here
    close(greatest.value, row["delta"], rel=1e-10)
    assert greatest.bound >= row["delta"] * (1 - 1e-10)


BOUNDED = [total_variation, hockey_stick(0.5), squared_hellinger, jensen_shannon, le_cam]
UNBOUNDED = [kl, reverse_kl, chi_squared, chi_alpha(1.5), renyi(3.0)]
PAIRS = [(f, g) for f in BOUNDED + UNBOUNDED for g in BOUNDED + UNBOUNDED if f is not g]


@pytest.mark.parametrize(("f", "g"), PAIRS[::6], ids=str)
def test_the_pair_shows_the_value_and_the_bound_proves_it(f: Divergence, g: Divergence) -> None:
    values = np.array([0.0, 0.01, 0.3]) * min(f.largest, 1.0)
    region = joint_range(f, g)
    for point, outward in ((region.least(values), -1.0), (region.greatest(values), 1.0)):
        value, bound = np.asarray(point.value), np.asarray(point.bound)
        finite = np.isfinite(value)
        assert np.all(outward * (bound[finite] - value[finite]) >= 0)
        close(bound[finite], value[finite], rel=1e-11)
        assert np.all(bound[~finite] == math.inf)
        shown = np.asarray(point.attained)
        # masses rounded to doubles carry a ratio that is off by 1e-16, and divergences of 1e-3 feel that by 1e-13
        np.testing.assert_allclose(f(point.p[shown], point.q[shown]), values[shown], rtol=1e-11, atol=1e-15)
        np.testing.assert_allclose(g(point.p[shown], point.q[shown]), value[shown], rtol=1e-11, atol=1e-15)
        np.testing.assert_allclose(point.p.sum(axis=-1), 1, rtol=1e-14)
        np.testing.assert_allclose(point.q.sum(axis=-1), 1, rtol=1e-14)


masses = st.lists(st.floats(0.02, 1), min_size=4, max_size=4)


@settings(deadline=None, max_examples=25)
@given(masses, masses, st.sampled_from(PAIRS))
def test_no_pair_of_distributions_lies_outside(
    p: list[float], q: list[float], divergences: tuple[Divergence, Divergence]
) -> None:
    f, g = divergences
    p_masses, q_masses = np.array(p) / sum(p), np.array(q) / sum(q)
    value, other = f(p_masses, q_masses), g(p_masses, q_masses)
    region = joint_range(f, g)
    # the divergences of rounded masses next to equality are noise of 1e-32, which no boundary can explain
    if min(value, other) > 1e-12:
        assert region.least(value).bound <= other * (1 + 1e-9)
        assert region.greatest(value).bound >= other * (1 - 1e-9)


@settings(deadline=None, max_examples=15)
@given(
    st.sampled_from([pair for pair in PAIRS if pair[1] in BOUNDED]),
    st.floats(0.001, 0.3),
    st.floats(0.31, 0.65),
)
def test_the_boundaries_rise_and_bend_outward(
    divergences: tuple[Divergence, Divergence], low: float, high: float
) -> None:
    region = joint_range(*divergences)
    # the region of the f-divergences themselves is convex; Rényi's scale bends it
    values = np.array([low, 0.5 * (low + high), high])
    least, greatest = np.asarray(region.least(values).value), np.asarray(region.greatest(values).value)
    assert np.all(np.diff(least) >= 0)
    assert np.all(np.diff(greatest) >= 0)
    assert np.all(least <= greatest * (1 + EXACT))
    if not any(str(d).startswith("renyi") for d in divergences):
        assert least[1] <= 0.5 * (least[0] + least[2]) * (1 + EXACT)
        assert greatest[1] >= 0.5 * (greatest[0] + greatest[2]) * (1 - EXACT)


def test_a_divergence_against_itself_is_the_diagonal() -> None:
    for divergence in (total_variation, kl, chi_squared, renyi(20.0)):
        values = np.array([1e-6, 0.3, 0.9])
        region = joint_range(divergence, divergence)
        close(region.least(values).value, values)
        close(region.greatest(values).value, values)


def test_no_limit_is_inf_with_a_pair_that_has_it_or_a_limit_that_says_so() -> None:
    by_mass = joint_range(total_variation, kl).greatest(0.3)
    assert (by_mass.value, by_mass.bound, by_mass.attained) == (math.inf, math.inf, True)
    assert total_variation(by_mass.p, by_mass.q) == pytest.approx(0.3, rel=1e-14)
    assert kl(by_mass.p, by_mass.q) == math.inf
    one_end = joint_range(kl, reverse_kl).greatest(0.3)
    assert kl(one_end.p, one_end.q) == pytest.approx(0.3, rel=1e-13)
    assert reverse_kl(one_end.p, one_end.q) == one_end.value == math.inf
    approached = joint_range(kl, chi_squared).greatest(0.3)
    assert (approached.value, approached.attained) == (math.inf, False)
    vanishing = joint_range(kl, total_variation).least(0.3)
    assert (vanishing.value, vanishing.bound, vanishing.attained) == (0.0, 0.0, False)
    assert kl(vanishing.p, vanishing.q) == 0.0


def test_at_zero_a_hockey_stick_leaves_room() -> None:
    # ratios up to e^epsilon are free: the pair with ratios 0 and e^epsilon has KL divergence epsilon
    epsilon = 0.75
    point = joint_range(hockey_stick(epsilon), kl).greatest(0.0)
    assert point.value == pytest.approx(epsilon, rel=EXACT)
    assert hockey_stick(epsilon)(point.p, point.q) <= 1e-15
    assert joint_range(hockey_stick(epsilon), reverse_kl).greatest(0.0).value == math.inf
    assert joint_range(hockey_stick(0.0), reverse_kl).greatest(0.0).value == 0.0
    assert joint_range(total_variation, kl).greatest(0.0).value == 0.0


def test_the_ends_of_the_range() -> None:
    region = joint_range(total_variation, jensen_shannon)
    for point in (region.least(1.0), region.greatest(1.0)):
        assert point.value == pytest.approx(math.log(2), rel=1e-15)
        assert total_variation(point.p, point.q) == 1.0
    assert joint_range(total_variation, kl).least(1.0).value == math.inf
    assert joint_range(kl, chi_squared).least(math.inf).value == math.inf
    assert joint_range(chi_squared, kl).least(math.inf).value == 0.0
    assert joint_range(kl, total_variation).greatest(math.inf).value == 1.0


@pytest.mark.parametrize("g", [kl, squared_hellinger], ids=str)
def test_a_function_as_written_has_the_joint_range_of_the_built_in_one(g: Divergence) -> None:
    written = joint_range(lambda t: np.abs(t - 1) / 2, g)
    built_in = joint_range(total_variation, g)
    values = np.array([1e-3, 0.3, 0.9])
    close(written.least(values).value, built_in.least(values).value, rel=1e-9)
    close(written.greatest(values).value, built_in.greatest(values).value, rel=1e-9)


def test_a_corner_is_found_when_named_and_nearly_when_not() -> None:
    stick = f_divergence(lambda t: np.maximum(t - 1.5, 0), kinks=[1.5])
    unnamed = f_divergence(lambda t: np.maximum(t - 1.5, 0))
    expected = joint_range(kl, hockey_stick(math.log(1.5))).greatest(0.2).value
    close(joint_range(kl, stick).greatest(0.2).value, expected, rel=1e-11)
    close(joint_range(kl, unnamed).greatest(0.2).value, expected, rel=1e-7)


def test_growth_at_infinity_bounds_what_a_vanishing_mass_can_carry() -> None:
    # At infinite ratios this is three times chi², whatever the total variation adds: a third is approached, never had.
    steep = f_divergence(lambda t: 3 * (t - 1) ** 2 + np.abs(t - 1), kinks=[1.0])
    value = 0.5
    greatest = joint_range(steep, chi_squared).greatest(value)
    assert greatest.value == pytest.approx(value / 3, rel=1e-12)
    # what only approaches is proven to about a hundredth: the functions are nearly multiples of each other
    assert value / 3 <= greatest.bound <= value / 3 * 1.02


def test_scalars_give_floats_and_arrays_give_their_shape() -> None:
    region = joint_range(total_variation, kl)
    point = region.least(0.25)
    assert isinstance(point, BoundaryPoint)
    assert (type(point.value), type(point.bound), type(point.attained)) == (float, float, bool)
    assert point.p.shape == point.q.shape == (4,)
    many = region.least(np.full((2, 3), 0.25))
    assert np.shape(many.value) == np.shape(many.bound) == np.shape(many.attained) == (2, 3)
    assert many.p.shape == (2, 3, 4)
    close(many.value, point.value, rel=1e-13)
    assert np.shape(region.least(np.empty(0)).value) == (0,)


def test_the_region_is_ready_to_be_drawn() -> None:
    region = joint_range(total_variation, squared_hellinger).region(points=5)
    close(region.value, [0.0, 0.25, 0.5, 0.75, 1.0])
    assert (region.least[0], region.greatest[0]) == (0.0, 0.0)
    assert (region.least[-1], region.greatest[-1]) == (1.0, 1.0)
    unbounded = joint_range(kl, total_variation)
    # the symmetric pair with ratios exp(±4): 4 tanh 2 nats
    assert unbounded.region(points=3).value[-1] == pytest.approx(4 * math.tanh(2), rel=1e-14)
    assert unbounded.region(points=3, upto=7.0).value[-1] == 7.0


@pytest.mark.parametrize("value", [-1e-300, 1.0000000000000002, math.nan, math.inf, [0.5, 2.0]])
def test_a_value_that_no_pair_has_is_refused(value: Any) -> None:
    for ask in (joint_range(total_variation, kl).least, joint_range(total_variation, kl).greatest):
        with pytest.raises(ParameterError, match=r"value must be in \[0, 1\], got"):
            ask(value)


def test_bad_plots_and_bad_functions_are_refused() -> None:
    region = joint_range(total_variation, squared_hellinger)
    with pytest.raises(ParameterError, match=r"points must be an integer in \[2, inf\), got 1"):
        region.region(points=1)
    with pytest.raises(ParameterError, match=r"upto must be in \(0, 1\], got 1.5"):
        region.region(upto=1.5)
    with pytest.raises(ParameterError, match="function must be convex"):
        joint_range(total_variation, np.log)


def test_values_beyond_double_precision_raise_rather_than_answer() -> None:
    with pytest.raises(NumericalError, match="out of reach"):
        joint_range(total_variation, squared_hellinger).least(1e-300)
    written = f_divergence(lambda t: t * np.log(t), name="written")
    with pytest.raises(NumericalError, match="needs likelihood ratios beyond"):
        joint_range(written, chi_squared).least(1e5)
