"""The guesses of a search: they prove nothing, and must not fail."""

from __future__ import annotations

import math

import pytest

from dprounds.accounting.rounds import parameter_by_secants


def test_secants_find_where_a_power_meets_its_limit() -> None:
    found = parameter_by_secants(lambda x: x**-2.5, limit=1e-3, guess=1.0, settled=1e-9, longest=math.inf)
    assert found == pytest.approx(1e-3 ** (-1 / 2.5), rel=1e-9)


def test_a_secant_of_a_cost_that_is_flat_but_for_its_rounding_does_not_overflow() -> None:
    """As that of little noise on small samples; the first secant of it points to about exp(1e15)."""
    flat = parameter_by_secants(
        lambda x: 0.5 if x < 2.0 else 0.5 - 2**-50, limit=0.1, guess=1.0, settled=0.1, longest=math.inf
    )
    assert flat is None or math.isfinite(flat)
