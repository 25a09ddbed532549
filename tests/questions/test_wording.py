"""Printed numbers stay on the true side, and look no more exact than they are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprounds.questions.wording import NOISE, RATE, rounded

POSITIVE = st.floats(1e-300, 1e300) | st.floats(1e-3, 1e10)


def read(text: str) -> float:
    return float(text.replace(",", ""))


@given(POSITIVE)
def test_a_printed_number_is_on_the_true_side_and_near(value: float) -> None:
    up, down = read(rounded(value, up=True)), read(rounded(value, up=False))
    assert down <= value <= up
    assert math.isclose(down, up, rel_tol=1.01e-4)


@given(st.integers(1, 99_999), st.integers(-8, 3))
def test_a_number_of_five_digits_is_printed_as_it_is_written(digits: int, exponent: int) -> None:
    value = float(f"{digits}e{exponent}")
    assert read(rounded(value, up=True)) == read(rounded(value, up=False)) == value


@pytest.mark.parametrize(
    ("value", "up", "text"),
    [
        (0.022, False, "0.022"),
        (22 / 1000, False, "0.022"),
        (9 * 0.01, False, "0.09"),
        (232.38, False, "232.38"),
        (2_030_875.4, False, "2,030,875"),
        (158_119.3, True, "158,120"),
        (158_121.3, True, "158,122"),
        (9985.81, True, "9,985.9"),
        (999_999_999.5, True, "1e+09"),
        (1.2345678e12, True, "1.2346e+12"),
        (1.23e-7, True, "1.23e-07"),
        (14062, True, "14,062"),
        (10**30, True, "1" + ",000" * 10),
        (0.0, True, "0"),
        (math.inf, True, "inf"),
    ],
)
def test_what_is_known_is_shown(value: float, up: bool, text: str) -> None:
    assert rounded(value, up=up) == text


def test_noise_is_rounded_up_and_a_rate_down() -> None:
    assert NOISE.text(0.9684061) == "0.96841"
    assert RATE.text(0.00618829) == "0.0061882"
