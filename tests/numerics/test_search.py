"""The library's root search: it finds every root of a monotone function, from any guess, in few steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dprounds import NumericalError
from dprounds.numerics.search import RootSearch, falling_root, log_scale_minimum, root_by_secants

Function = Callable[[float], float]
Array = NDArray[np.float64]

# Falling functions of x over their root.
SHAPES: dict[str, Function] = {
    "straight": lambda ratio: 1.0 - ratio,
    "logarithm": lambda ratio: -math.log(ratio) if ratio > 0 else 1e3,
    "steep": lambda ratio: math.tanh(50.0 * (1.0 - ratio)),
    "flat before it": lambda ratio: -math.expm1(min(30.0 * (ratio - 1.0), 600.0)),
    "a step": lambda ratio: 1.0 if ratio < 1.0 else -1.0,
    "signs alone": lambda ratio: math.inf if ratio < 1.0 else -math.inf,
}
ROOTS = st.floats(-12.0, 12.0).map(math.exp)


@pytest.mark.parametrize("shape", SHAPES)
@given(root=ROOTS, below=st.floats(0.0, 0.9), above=st.floats(1.1, 16.0))
def test_a_root_between_two_ends_is_found_to_its_last_digits(
    shape: str, root: float, below: float, above: float
) -> None:
    found = falling_root(lambda x: SHAPES[shape](x / root), below * root, above * root)
    assert abs(found - root) <= 1e-14 * root


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rises", [False, True])
@pytest.mark.parametrize("on_logs", [False, True])
@given(root=ROOTS, guess=st.floats(-10.0, 10.0).map(math.exp))
def test_the_bracket_holds_the_root_and_closes_from_any_guess(
    shape: str, rises: bool, on_logs: bool, root: float, guess: float
) -> None:
    search, x = RootSearch(0.0, math.inf, rises=rises, on_logs=on_logs), guess
    for _ in range(200):
        excess = SHAPES[shape](x / root)
        x = search.following(x, -excess if rises else excess)
        assert search.low <= root * (1.0 + 1e-14)
        assert search.high >= root * (1.0 - 1e-14)
        if search.high - search.low <= 1e-6 * search.high or abs(x - root) <= 1e-6 * root:
            break
    else:
        pytest.fail(f"[{search.low}, {search.high}] after 200 steps")


@given(root=ROOTS, guess=st.floats(-2.0, 2.0).map(math.exp))
def test_slopes_are_used(root: float, guess: float) -> None:
    search, x, steps = RootSearch(0.0, math.inf), guess * root, 0
    while abs(x - root) > 1e-12 * root:
        x, steps = search.following(x, 1.0 - (x / root) ** 2, -2.0 * x / root**2), steps + 1
    assert steps <= 10


def test_ends_are_asked_for_and_not_passed() -> None:
    search = RootSearch(1.0, 8.0, on_logs=True)
    assert search.following(2.0, math.inf) == 4.0
    assert search.following(4.0, math.inf) == 8.0
    assert (search.low, search.high, search.seen_low, search.seen_high) == (4.0, 8.0, True, False)
    search = RootSearch(1.0, 8.0, slope=-1.0)
    assert search.following(2.0, -100.0) == 1.0


def test_a_step_of_rounding_ends_a_search_beside_its_bracket() -> None:
    search = RootSearch(0.0, math.inf)
    search.following(1.0, 1e-17, -1.0)
    assert search.following(1.0, -1e-17, -1.0) == pytest.approx(1.0, rel=1e-15)


def test_what_is_not_a_number_is_refused() -> None:
    with pytest.raises(NumericalError):
        RootSearch(0.0, 1.0).following(0.5, math.nan)


@given(root=ROOTS, power=st.floats(0.3, 30.0), guess=st.floats(-1.0, 1.0).map(math.exp))
def test_secants_settle_on_powers_at_once(root: float, power: float, guess: float) -> None:
    asked = []

    def excess(x: float) -> float:
        asked.append(x)
        return -power * math.log(x / root)

    found = root_by_secants(excess, guess * root, slope=-1.0, settled=1e-9)
    assert found == pytest.approx(root, rel=1e-8)
    assert len(asked) <= 8


def test_secants_give_up_where_a_guess_was_not_near() -> None:
    assert root_by_secants(lambda x: 100.0 - x, 1.0, slope=-1.0, settled=1e-9, longest=1.0) is None
    assert root_by_secants(lambda _: math.nan, 1.0, slope=-1.0, settled=1e-9) is None


def test_places_that_were_seen_are_not_asked_for_again() -> None:
    search = RootSearch(1e-12, 1e15)
    assert search.following(1.0, 7.0, -1.0) == 8.0
    assert search.following(8.0, -7.0, -1.0) == pytest.approx(math.sqrt(8.0))


# Functions of log x minus that of the least value, each least at zero.
VALLEYS: dict[str, Callable[[Array], Array]] = {
    "a parabola": np.square,
    "a hyperbola": lambda u: np.exp(u) + np.exp(-u),
    "steeper to one side": lambda u: np.exp(3.0 * u) - 3.0 * u,
    "a wall to one side": lambda u: np.where(u < 1.0, np.square(u) / np.maximum(1.0 - u, 1e-9), np.inf),
    "a bend": np.abs,
    "a bend of two slopes": lambda u: np.where(u > 0, 0.1 * u, -3.0 * u),
    "a step": lambda u: np.where(u < 0, 1.0 - u, u),
}
SMOOTH = ("a parabola", "a hyperbola", "steeper to one side", "a wall to one side")


@pytest.mark.parametrize("valley", VALLEYS)
@given(least=st.floats(-11.0, 14.0))
def test_the_least_value_on_a_logarithmic_scale_is_found(valley: str, least: float) -> None:
    """Of smooth functions to the last digits in few rows, of others to the width of the last bracket."""
    shape, rows = VALLEYS[valley], []

    def function(x: Array) -> Array:
        rows.append(x.size)
        return shape(np.log(x) - least * math.log(10.0))

    found = log_scale_minimum(function)
    assert found.value == function(np.array([found.x]))[0]
    assert found.x in found.visited
    assert found.value - float(shape(np.array([1e-12]))[0]) <= (1e-13 if valley in SMOOTH else 1e-5)
    # a scan as far as the function falls, and a few rows nearby
    assert len(rows) <= 11 if valley in SMOOTH else len(rows) <= 30


def test_where_neighbours_have_one_logarithm_the_search_ends() -> None:
    """Far out different x have the same logarithm: no polynomial is put through such points."""
    begin = np.array([1e15, np.nextafter(1e15, 2e15), 1.1e15, 2e15])
    found = log_scale_minimum(lambda x: np.abs(x / 1e15 - 1.0), begin=begin)
    assert found.value <= 1e-15


def test_a_place_at_which_the_sign_alone_is_known_makes_no_secant() -> None:
    """From 0.1 a search goes on to where a value is known, and from there further on, and not to the same place."""
    search = RootSearch(0.0, 10.0)
    here = search.following(0.1, -math.inf)
    following = search.following(here, -30.0)
    assert following < 0.9 * here
