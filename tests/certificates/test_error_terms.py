"""Every term of the checker's bounds, alone: each case is wrong without it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from flint import acb, arb, ctx

from dprounds.certificates import checker
from dprounds.certificates.checker import RefusedError

PART = {"noise_multiplier": Fraction(1), "sampling_rate": Fraction(1, 10)}
FINE = {"step": Fraction(1, 25), "first": -300, "last": 400, "strip": Fraction(2)}
GAUSSIAN = [
    {"mechanism": "gaussian", "rounds": 1, "noise_multiplier": Fraction(1), "variance": Fraction(1), "sum": None}
]
LINE = {"precision": 120, "quadratures": [], "smoothing": Fraction(0)}


@pytest.fixture(autouse=True)
def bits() -> Any:
    with ctx.workprec(120):
        yield


def sampled(
    direction: str, height: int = 0, tau: int = 3, angle: str = "0", angle_strip: str = "0", **other: Any
) -> Any:
    turned = {"angle": Fraction(angle), "angle_strip": Fraction(angle_strip)}
    return checker._Sum(PART, direction, Fraction(tau), {**FINE, **turned, **other}, arb(height))


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_ceiling_counts_what_lies_outside_the_nodes(direction: str) -> None:
    right = 102 if direction == "remove" else 5
    whole = sampled(direction, 1, angle="0.1", angle_strip="1")
    short = sampled(direction, 1, angle="0.1", angle_strip="1", first=-30, last=right)
    assert sum(short.weights) < sum(whole.weights) * (1 - arb("1e-3"))
    assert short.ceiling() >= whole.ceiling() * (1 - arb("1e-20"))


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_ceiling_counts_the_error_of_its_quadrature(direction: str) -> None:
    whole = sampled(direction, 2, angle="0.6", angle_strip="0.9").ceiling()
    for tenths in range(8, 20):
        step = Fraction(tenths, 10)
        try:
            coarse = sampled(direction, 2, angle="0.6", angle_strip="0.9", step=step, first=-12, last=15).ceiling()
        except RefusedError:
            continue  # too coarse for any bound
        assert coarse >= whole * (1 - arb("1e-20"))


@pytest.mark.parametrize(
    ("angle", "strip"), [("2.5", "0.7"), ("0.2", "1.4"), ("1", "0.6"), ("0.5", "0"), ("3.2", "0.1")]
)
def test_a_strip_that_the_angle_does_not_allow_is_refused(angle: str, strip: str) -> None:
    allowed = (angle, strip) == ("1", "0.6")  # narrower than the angle, and their sum below pi
    if allowed:
        sampled("remove", 1, angle=angle, angle_strip=strip).ceiling()
    else:
        with pytest.raises(RefusedError, match="angle_strip"):
            sampled("remove", 1, angle=angle, angle_strip=strip).ceiling()


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_quadrature_errs_more_the_higher_it_goes(direction: str) -> None:
    height = 12
    truth = sampled(direction, height).values([acb(3, 4 * n) for n in range(4)])
    coarse = sampled(direction, height, step=Fraction(1, 2), first=-24, last=30)
    terms = [acb(weight) for weight in coarse.weights]
    turns = [acb(0, 12 * turn).exp() for _, turn in coarse.terms]
    found = sum(term * turn for term, turn in zip(terms, turns, strict=True))
    errs = abs(found - truth[3])
    assert errs > 1000 * abs(sum(coarse.weights) - truth[0].real)
    assert coarse.error >= errs


def test_a_turned_power_is_bounded_by_the_cosine() -> None:
    law = sampled("add", tau=40)
    for angle in ("0.5", "1.5", "3"):
        turn = acb(0, checker._ball(Fraction(angle))).exp()
        ratios = [abs(1 - law.rate + turn * odds) / (1 - law.rate + odds) for odds in law.odds]
        assert all(ratio**law.power <= law._turned(Fraction(angle)) for ratio in ratios)
        assert any(ratio**law.power > 2 for ratio in ratios)


@pytest.mark.parametrize("tau", [1, 12])
def test_laplace_noise_falls_no_faster_than_its_ceiling(tau: int) -> None:
    part = {"mechanism": "laplace", "largest_loss": Fraction(1, 20)}
    top = checker._formula(part, checker._ball(tau))
    for height in (1, 30, 62, 126, 400):  # at multiples of 20 pi the hyperbolic cosine is at its largest
        ceiling = checker._formula(part, checker._ball(tau), checker._ball(height))
        values = [abs(checker._formula(part, acb(tau, height + checker._ball(n) / 4))) for n in range(600)]
        assert all(value <= ceiling for value in values)
        assert ceiling.lower() <= top
    assert ceiling < top
    assert max(float(value) for value in values) > float(ceiling) * (1 - 1e-2)


# N(1, 1) against N(0, 1) at epsilon 1: Phi(-1/2) - e Phi(-3/2).
TRUTH = Fraction("0.1269367375")


@pytest.mark.parametrize(
    ("tau", "above", "period", "nodes"), [("3", "5", 3, 8), ("1/2", "3", 3, 8), ("2", "6", 3, 8), ("1", "4", 20, 60)]
)
def test_aliases_are_subtracted_from_below(tau: str, above: str, period: int, nodes: int) -> None:
    step = Fraction(2 * 355, 113 * period)
    line = {**LINE, "tau": Fraction(tau), "above": Fraction(above), "step": step, "nodes": nodes}
    low = checker._delta(GAUSSIAN, "remove", Fraction(1), line, from_below=True)
    high = checker._delta(GAUSSIAN, "remove", Fraction(1), line, from_below=False)
    assert low.lower() <= checker._ball(TRUTH) * (1 + arb("1e-9"))
    assert high.upper() >= checker._ball(TRUTH) * (1 - arb("1e-9"))
    if period == 20:  # then nothing is lost
        assert low >= checker._ball(TRUTH) * (1 - arb("1e-6"))


def test_from_below_the_density_is_counted_as_far_as_it_goes() -> None:
    line = {**LINE, "tau": Fraction(1), "above": Fraction(4), "step": Fraction(1, 3), "smoothing": Fraction(1, 10)}
    bounds = [
        checker._delta(GAUSSIAN, "remove", Fraction(1), {**line, "nodes": nodes}, from_below=True)
        for nodes in (2, 5, 40)
    ]
    assert all(bound.lower() <= checker._ball(TRUTH) for bound in bounds)
    # three nodes of a wide Gaussian: their sum alone says that the density is far below 0
    few = {**line, "tau": Fraction(19, 5), "above": Fraction(59, 10), "step": Fraction(1, 20), "nodes": 3}
    few["smoothing"] = Fraction(24)
    assert checker._delta(GAUSSIAN, "remove", Fraction(14), few, from_below=True) < 1


def test_smoothing_is_counted_twice_from_below() -> None:
    line = {**LINE, "tau": Fraction(1), "above": Fraction(4), "step": Fraction(1, 3), "nodes": 60}
    smooth = {**line, "smoothing": Fraction(1, 2)}
    high = checker._delta(GAUSSIAN, "remove", Fraction(1), smooth, from_below=False)
    low = checker._delta(GAUSSIAN, "remove", Fraction(1), smooth, from_below=True)
    assert low < checker._ball(TRUTH) < high


def test_a_mass_at_infinity_is_all_that_is_left_beyond_the_losses() -> None:
    parts = [{"mechanism": "approximate-dp", "rounds": 50, "epsilon": Fraction(1, 10), "delta": Fraction(1, 10**7)}]
    assert checker._infinite_mass(parts).overlaps(1 - (1 - checker._ball(Fraction(1, 10**7))) ** 50)
    assert checker._infinite_mass(parts) > arb("4.99e-6")


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("window", [{"first": 60}, {"last": 20}])
def test_nodes_that_end_before_the_terms_fall_are_refused(direction: str, window: dict[str, Any]) -> None:
    """There a geometric series of what lies outside would be negative; in the direction add terms fall from 0 on."""
    window = {"last": -10} if direction == "add" and "last" in window else window
    with pytest.raises(RefusedError, match="must reach further"):
        sampled(direction, **window)
