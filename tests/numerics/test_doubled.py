"""Sums and products with what rounding takes away: nothing is lost."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dprounds.numerics.doubled import short_below, two_product, two_sum


def test_a_sum_and_a_product_are_exact_with_their_second_part() -> None:
    random = np.random.default_rng(3)
    a, b = (random.standard_normal(500) * 10.0 ** random.integers(-20, 20, 500) for _ in range(2))
    for parts, exact in ((two_sum(a, b), Fraction.__add__), (two_product(a, b), Fraction.__mul__)):
        for x, y, high, low in zip(a.tolist(), b.tolist(), *(part.tolist() for part in parts), strict=True):
            assert Fraction(high) + Fraction(low) == exact(Fraction(x), Fraction(y))
            assert abs(low) <= 2.0**-53 * abs(high)


def test_multiples_of_a_short_number_are_not_rounded() -> None:
    for value in (0.1, 3.0, 1e-7, 2.0 / 3.0):
        short = short_below(value)
        assert value * (1 - 2.0**-23) <= short <= value
        for number in (3, 12_345, 2**28 + 1):
            assert Fraction(short * number) == Fraction(short) * number
