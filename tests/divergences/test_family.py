"""Each divergence is the one its definition says, also next to equality and at empty points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprounds.divergences import (
    Divergence,
    chi_alpha,
    chi_squared,
    f_divergence,
    hockey_stick,
    jensen_shannon,
    kl,
    le_cam,
    renyi,
    reverse_kl,
    squared_hellinger,
    total_variation,
)
from dprounds.errors import ParameterError

# A divergence is the exponential of a logarithm: a few ulps for each unit of the logarithm, here at most 60.
ROUNDING = 1e-13

# mpmath has no types
Exact = Callable[[Any, Any], Any]


def renyi_sum(order: float) -> Exact:
    a = mpmath.mpf(order)
    return lambda p, q: mpmath.log(sum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True))) / (a - 1)


def chi_sum(order: float) -> Exact:
    a = mpmath.mpf(order)
    return lambda p, q: (sum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True)) - 1) / (a - 1)


def pointwise(term: Exact) -> Exact:
    return lambda p, q: sum(term(x, y) for x, y in zip(p, q, strict=True))


def kl_term(x: Any, y: Any) -> Any:
    return x * mpmath.log(x / y) if x else mpmath.mpf(0)


def js_term(x: Any, y: Any) -> Any:
    return (kl_term(x, (x + y) / 2) + kl_term(y, (x + y) / 2)) / 2


# The definitions as sums over points, for p and q in arbitrary precision.
DEFINITIONS: list[tuple[Divergence, Exact]] = [
    (total_variation, pointwise(lambda x, y: abs(x - y) / 2)),
    (hockey_stick(0.0), pointwise(lambda x, y: max(x - y, 0))),
    (hockey_stick(0.4), pointwise(lambda x, y: max(x - mpmath.exp(mpmath.mpf(0.4)) * y, 0))),
    (kl, pointwise(kl_term)),
    (reverse_kl, pointwise(lambda x, y: kl_term(y, x))),
    (squared_hellinger, pointwise(lambda x, y: (mpmath.sqrt(x) - mpmath.sqrt(y)) ** 2 / 2)),
    (chi_squared, pointwise(lambda x, y: (x - y) ** 2 / y)),
    (jensen_shannon, pointwise(js_term)),
    (le_cam, pointwise(lambda x, y: (x - y) ** 2 / (x + y) / 2)),
    *((chi_alpha(order), chi_sum(order)) for order in (1.0001, 1.5, 2.0, 7.0)),
    *((renyi(order), renyi_sum(order)) for order in (1.0001, 1.5, 2.0, 7.0, 150.0)),
]
ALL = [divergence for divergence, _ in DEFINITIONS]
name = repr


def normalised(masses: list[float]) -> list[Any]:
    """Masses in arbitrary precision that sum to one exactly, the first n - 1 of them doubles."""
    exact = [mpmath.mpf(m) for m in masses[:-1]]
    return [*exact, 1 - sum(exact)]


@pytest.mark.parametrize(("divergence", "definition"), DEFINITIONS, ids=map(str, ALL))
@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.5, 0.5], [0.25, 0.75]),
        ([0.125, 0.25, 0.625], [0.5, 0.375, 0.125]),
        ([1e-9, 0.999999999], [0.75, 0.25]),
        ([0.9375, 0.0625], [0.0009765625, 0.9990234375]),
    ],
)
def test_a_divergence_is_the_sum_that_defines_it(
    divergence: Divergence, definition: Exact, p: list[float], q: list[float]
) -> None:
    with mpmath.workdps(60):
        expected = definition(normalised(p), normalised(q))
        value = divergence(p, q)
        assert isinstance(value, float)
        # the last mass of the third case is rounded in doubles, by at most 1e-16 of it
        assert abs(value - expected) <= ROUNDING * expected


@pytest.mark.parametrize(("divergence", "definition"), DEFINITIONS, ids=map(str, ALL))
def test_next_to_equality_no_digit_is_lost(divergence: Divergence, definition: Exact) -> None:
    step = 2.0**-30
    p, q = [0.5 + step, 0.5 - step], [0.5, 0.5]
    with mpmath.workdps(80):
        expected = definition([mpmath.mpf(m) for m in p], [mpmath.mpf(m) for m in q])
        assert abs(divergence(p, q) - expected) <= ROUNDING * expected


@pytest.mark.parametrize("divergence", ALL, ids=name)
def test_equal_distributions_are_at_zero_and_disjoint_ones_at_the_largest(divergence: Divergence) -> None:
    assert divergence([0.25, 0.75, 0.0], [0.25, 0.75, 0.0]) == 0.0
    assert divergence([1.0, 0.0], [0.0, 1.0]) == pytest.approx(divergence.largest, rel=ROUNDING)


@pytest.mark.parametrize(
    ("divergence", "p_empty", "q_empty"),
    [
        (total_variation, 0.5, 0.5),
        (hockey_stick(math.log(1.5)), 0.25, 0.5),
        (kl, math.log(2), math.inf),
        (reverse_kl, math.inf, math.log(2)),
        (squared_hellinger, 1 - math.sqrt(0.5), 1 - math.sqrt(0.5)),
        (chi_squared, 1.0, math.inf),
        (renyi(3.0), math.log(2), math.inf),
        (le_cam, 1 / 3, 1 / 3),
    ],
    ids=str,
)
def test_points_that_one_distribution_lacks_count_by_the_limit(
    divergence: Divergence, p_empty: float, q_empty: float
) -> None:
    one, half = [1.0, 0.0], [0.5, 0.5]
    assert divergence(one, half) == pytest.approx(p_empty, rel=ROUNDING)
    assert divergence(half, one) == pytest.approx(q_empty, rel=ROUNDING)


def test_the_normalisations_are_the_documented_ones() -> None:
    assert [d.largest for d in (total_variation, squared_hellinger, le_cam, hockey_stick(2.0))] == [1.0] * 4
    assert jensen_shannon.largest == pytest.approx(math.log(2), rel=1e-15)
    assert [d.largest for d in (kl, reverse_kl, chi_squared, chi_alpha(3.0), renyi(3.0))] == [math.inf] * 5


def test_orders_that_overflow_a_power_sum_still_have_a_renyi_divergence() -> None:
    # (0.9 / 1e-6)^999 is 1e5950; the largest ratio dominates: log(0.9/1e-6) + log(0.9)/999 to within e^-10000
    value = renyi(1000.0)([0.9, 0.1], [1e-6, 1 - 1e-6])
    assert value == pytest.approx(math.log(0.9 / 1e-6) + math.log(0.9) / 999, rel=1e-14)


def test_arrays_of_distributions_broadcast() -> None:
    p = np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])
    values = total_variation(p, [0.25, 0.75])
    assert isinstance(values, np.ndarray)
    np.testing.assert_allclose(values, [0.25, 0.0, 0.75], rtol=ROUNDING, atol=0)
    assert np.shape(kl(p[:, None, :], p[None, :, :])) == (3, 3)


def test_divergences_are_values() -> None:
    assert hockey_stick(1.0) == hockey_stick(1.0) != hockey_stick(2.0)
    assert repr(renyi(2.5)) == "renyi(2.5)"
    assert len({kl, kl, reverse_kl, chi_alpha(2.0), chi_alpha(2.0)}) == 3


# Functions as a user would write them, not in the non-negative form.
WRITTEN: list[tuple[Divergence, Callable[[Any], Any]]] = [
    (total_variation, lambda t: np.abs(t - 1) / 2),
    (hockey_stick(0.7), lambda t: np.maximum(t - np.exp(0.7), 0)),
    (kl, lambda t: t * np.log(t)),
    (reverse_kl, lambda t: -np.log(t)),
    (squared_hellinger, lambda t: 1 - np.sqrt(t)),
    (chi_squared, lambda t: t**2 - 1),
    (chi_alpha(1.5), lambda t: (t**1.5 - 1) / 0.5),
    (jensen_shannon, lambda t: (t * np.log(t) - (t + 1) * np.log((t + 1) / 2)) / 2),
    (le_cam, lambda t: (t - 1) ** 2 / (2 * t + 2)),
]


@pytest.mark.parametrize(("built_in", "function"), WRITTEN, ids=[str(d) for d, _ in WRITTEN])
def test_a_function_as_written_gives_the_built_in_divergence(
    built_in: Divergence, function: Callable[[Any], Any]
) -> None:
    given_f = f_divergence(function)
    assert given_f.at_zero == pytest.approx(built_in.at_zero, rel=1e-12)
    assert given_f.slope_at_infinity == pytest.approx(built_in.slope_at_infinity, rel=1e-12)
    step = 1e-5
    pairs = [([0.5, 0.5], [0.25, 0.75]), ([1.0, 0.0], [0.5, 0.5]), ([0.5 + step, 0.5 - step], [0.5, 0.5])]
    for p, q in pairs:
        # the documented nine digits; most of them are lost next to equality by the function as written
        assert given_f(p, q) == pytest.approx(built_in(p, q), rel=1e-9)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=5).filter(
        lambda rows: min(map(sum, zip(*rows, strict=True))) > 1e-3
    )
)
def test_merging_points_never_raises_a_divergence(rows: list[tuple[float, float]]) -> None:
    # the data-processing inequality, which every f-divergence has
    p, q = (np.array(column) / sum(column) for column in zip(*rows, strict=True))
    merged_p, merged_q = ([float(m[0] + m[1]), *m[2:]] for m in (p, q))
    if len(merged_p) == 1:
        return
    for divergence in ALL:
        before, after = divergence(p, q), divergence(merged_p, merged_q)
        # masses of 1e-16 are lost in rounded sums: an absolute error of that size is no increase
        assert after <= before * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([0.5, 0.75], [0.5, 0.5], "p must sum to 1 along the last axis, got 1.25."),
        ([0.5, 0.5], [0.5, 0.4999], "q must sum to 1"),
        ([math.nan, 1.0], [0.5, 0.5], "p must be in [0, 1], got nan."),
        ([-0.5, 1.5], [0.5, 0.5], "p must be in [0, 1], got -0.5."),
        (1.0, [1.0], "p must be an array of probabilities, got one number."),
        ([0.5, 0.5], [0.2, 0.3, 0.5], "p and q must have shapes that broadcast together"),
    ],
)
def test_what_is_not_a_distribution_is_refused(p: Any, q: Any, message: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        kl(p, q)
    assert message in str(refusal.value)


@pytest.mark.parametrize("order", [1.0, 0.5, math.inf, math.nan])
@pytest.mark.parametrize("make", [renyi, chi_alpha])
def test_an_order_outside_its_range_is_refused(make: Callable[[float], Divergence], order: float) -> None:
    with pytest.raises(ParameterError, match=r"order must be in \(1, 1e6\], got"):
        make(order)


@pytest.mark.parametrize("epsilon", [-1e-9, math.inf, math.nan])
def test_an_epsilon_outside_its_range_is_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match=r"epsilon must be in \[0, inf\), got"):
        hockey_stick(epsilon)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda t: t, "function must be zero at ratio 1, got 1."),
        (lambda t: -((t - 1) ** 2), "function must be convex in the ratio, got slopes that fall"),
        (lambda t: np.sin(t - 1), "function must be convex in the ratio"),
        (lambda t: 3 * (t - 1), "function must bend somewhere"),
        (lambda t: t * np.nan, "function must be finite at every ratio in (0, inf), got nan"),
        (lambda t: 0.0, "function must return one value per ratio"),
        (2.0, "function must be a callable of the likelihood ratio, got 2."),
    ],
)
def test_what_is_not_a_generator_is_refused(function: Any, message: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        f_divergence(function)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"at_zero": math.nan}, "at_zero must be in (-inf, inf], got nan."),
        ({"slope_at_infinity": math.nan}, "slope_at_infinity must be in (-inf, inf], got nan."),
        ({"kinks": [-1.0]}, "kinks must be in (0, inf), got -1."),
    ],
)
def test_limits_and_kinks_outside_their_ranges_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        f_divergence(lambda t: (t - 1) ** 2, **arguments)
    assert message in str(refusal.value)
