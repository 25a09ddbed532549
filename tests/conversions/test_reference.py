"""The optimal conversion against figures in 20 digits, in all three directions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray

from dprounds import delta_from_rdp, epsilon_from_rdp, rdp_from_dp
from dprounds.conversions import optimal
from tests.references import conversion as reference

DATA = json.loads((Path(__file__).parents[1] / "data" / "conversion.json").read_text())
ROWS: list[dict[str, Any]] = DATA["rows"]
PROMISED = 1e-10  # the relative error that the library promises over its whole range

# What one ulp of the given rdp moves epsilon by, relative to epsilon, is beyond PROMISED in one row: there epsilon is
# 4e-17 because rdp was rounded up from the value at which it is zero. No function of doubles resolves it.
ILL_DETERMINED = 1e-13


def column(name: str) -> NDArray[np.float64]:
    return np.array([float(row[name]) for row in ROWS])


def exact(name: str) -> list[mpf]:
    with mp.workdps(25):
        return [mpf(row[name]) for row in ROWS]


def relative_errors(answers: object, name: str) -> list[mpf]:
    with mp.workdps(25):
        pairs = zip(np.asarray(answers), exact(name), strict=True)
        return [(mpf(float(answer)) - truth) / truth if truth else mpf(float(answer)) for answer, truth in pairs]


def test_there_are_136_rows() -> None:
    assert len(ROWS) == 136


def test_rdp_is_the_reference_and_never_above_it() -> None:
    errors = relative_errors(rdp_from_dp(column("epsilon"), order=column("order"), delta=column("delta")), "rdp")
    assert max(errors) <= 0
    assert min(errors) >= -PROMISED


def test_epsilon_is_the_reference_and_never_below_it() -> None:
    answers = epsilon_from_rdp(column("rdp_double"), order=column("order"), delta=column("delta"))
    for answer, truth in zip(np.asarray(answers), exact("epsilon_at_rdp_double"), strict=True):
        assert mpf(float(answer)) >= truth
        assert mpf(float(answer)) - truth <= max(PROMISED * truth, ILL_DETERMINED if truth < 1e-16 else 0)


def test_delta_is_the_reference_and_never_below_it() -> None:
    errors = relative_errors(
        delta_from_rdp(column("rdp_double"), order=column("order"), epsilon=column("epsilon")), "delta_at_rdp_double"
    )
    assert min(errors) >= 0
    assert max(errors) <= PROMISED


def test_one_element_at_a_time_gives_what_the_array_gives() -> None:
    together = np.asarray(epsilon_from_rdp(column("rdp_double"), order=column("order"), delta=column("delta")))
    for row, answer in zip(ROWS, together, strict=True):
        alone = epsilon_from_rdp(row["rdp_double"], order=row["order"], delta=row["delta"])
        assert isinstance(alone, float)
        # the array searches longer where a neighbour needs it: the same certificate up to its rounding
        assert alone == pytest.approx(answer, rel=1e-12, abs=ILL_DETERMINED)


@pytest.mark.parametrize("row", ROWS[::9] + [row for row in ROWS if row.get("recomputed")])
def test_the_data_are_the_definition(row: dict[str, Any]) -> None:
    with mp.workdps(40):
        truth = reference.rdp(row["order"], row["epsilon"], row["delta"])
        assert abs(mpf(row["rdp"]) / truth - 1) < mpf(10) ** -18


def _random_triples(size: int) -> tuple[NDArray[np.float64], ...]:
    """Orders in (1 + 1e-6, 1e6), deltas in (1e-300, 1), epsilons up to 700, a tenth of them zero."""
    dice = np.random.default_rng(2020)
    order = 1.0 + 10.0 ** dice.uniform(-6, 6, size)
    delta = np.minimum(10.0 ** (-300.0 * dice.uniform(0, 1, size) ** 3), 1.0 - 1e-6)
    epsilon = np.where(dice.uniform(size=size) < 0.1, 0.0, 10.0 ** dice.uniform(-9, np.log10(700), size))
    return order, delta, epsilon


@pytest.mark.parametrize("share", [1.0, 1 / 3])
def test_over_the_whole_range_no_answer_is_on_the_wrong_side(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the margins for rounding as they are, and with a third of them."""
    monkeypatch.setattr(optimal, "ROUNDINGS", share * optimal.ROUNDINGS)
    monkeypatch.setattr(optimal, "DELTA_ROUNDINGS", share * optimal.DELTA_ROUNDINGS)
    order, delta, epsilon = _random_triples(80)
    rdp = np.asarray(rdp_from_dp(epsilon, order=order, delta=delta))
    back_epsilon = np.asarray(epsilon_from_rdp(rdp, order=order, delta=delta))
    back_delta = np.asarray(delta_from_rdp(rdp, order=order, epsilon=epsilon))
    checked = 0
    for a, d, e, g, e2, d2 in zip(order, delta, epsilon, rdp, back_epsilon, back_delta, strict=True):
        if g < 1e-290:  # a budget that underflows is 0, which is on the safe side and has no relative error
            continue
        truth = reference.rdp(a, e, d)
        assert g <= truth
        assert truth - mpf(g) <= PROMISED * truth
        # every mechanism with this rdp is (e2, d)-DP and (e, d2)-DP, because the budgets of those targets reach it
        assert reference.rdp(a, e2, d) >= g
        if d2 < 1.0:
            assert reference.rdp(a, e, d2) >= g
            assert reference.rdp(a, e, mpf(d2) * (1 - mpf(PROMISED))) <= g
        checked += 1
    assert checked > 60
