"""The numbers that the paper prints, and where its approximations are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprounds import Gaussian, ParameterError, PoissonSampled, min_noise_multiplier, paper, plots


def test_every_claim_of_the_paper_is_reproduced() -> None:
    table = paper.claims()
    assert len(table) == 3
    assert all(claim.agrees for claim in table)
    assert table[0].ours == "0.7588 at T = 1000"
    assert table[1].ours.startswith("102 at ε = 6")
    assert "332.8 and 488.4" in table[2].ours


def test_figure_1_lies_above_its_bound_and_meets_it_from_order_times_delta_one_on() -> None:
    for curve in paper.figure_1():
        assert (curve.theorem_4 <= curve.optimal).all()
        exact = curve.order * curve.delta >= 1.0
        assert curve.theorem_4[exact] == pytest.approx(curve.optimal[exact], rel=1e-14)


def test_figure_2_shows_its_gain() -> None:
    figure = paper.figure_2(points=12)
    moments, lemma, optimal = (figure.epsilon[key] for key in ("moments accountant", "Lemma 2", "optimal"))
    assert (moments > lemma).all()
    assert (optimal <= lemma * (1 + 1e-12)).all()
    assert np.max(moments - lemma) == pytest.approx(0.7588, abs=5e-5)


def test_figure_3_is_twice_too_large_where_it_holds() -> None:
    figure = paper.figure_3(points=5, epochs=488.4)
    assert figure.epsilon["Lemma 2, approximated"][-1] == pytest.approx(1.0, abs=1e-3)
    assert figure.epsilon["optimal, true moment function"][-1] < 0.75


def test_the_approximation_is_unsound_outside_its_conditions() -> None:
    """q = 0.01, σ = 1, T = 1: it says 0.045 where the truth is 0.1995."""
    given = paper.sampled_approximation(sampling_rate=0.01, noise_multiplier=1.0)
    says = paper.lemma_2(rho=given.rho, rounds=1, delta=1e-5)
    order = (PoissonSampled(Gaussian(1.0), 0.01) * 1).guarantee(delta=1e-5, method="optimal").order
    assert says == pytest.approx(0.045, abs=1e-3)
    assert order is not None
    assert not given.holds_at(order)
    assert 0.1994 < (PoissonSampled(Gaussian(1.0), 0.01) * 1).epsilon(delta=1e-5) < 0.1996
    with pytest.raises(ParameterError, match="sampling_rate must be below"):
        paper.figure_3(sampling_rate=0.1)


def test_theorem_5_is_an_expansion_and_too_small_for_its_target() -> None:
    """At ε = 1, T = 100, δ = 1e-5 it says σ² = 1575, while Lemma 2 needs 1636."""
    variance = paper.theorem_5_variance(epsilon=1.0, delta=1e-5, rounds=100)
    needed = min_noise_multiplier(lambda s: Gaussian(s) * 100, epsilon=1.0, delta=1e-5, method="closed-form") ** 2
    assert round(variance) == 1575
    assert round(needed) == 1636
    assert paper.lemma_2(rho=0.5 / variance, rounds=100, delta=1e-5) > 1.0


def test_theorem_5_saves_what_it_says_over_the_moments_accountant() -> None:
    given = {"epsilon": 0.5, "delta": 1e-8, "rounds": 1000.0}
    excess = math.log(1e8)
    saved = 2 * 1000 / 0.25 * (math.log(2 * excess) + 1 - math.log(0.5))
    difference = paper.moments_variance(**given) - paper.theorem_5_variance(**given)
    assert difference == pytest.approx(saved, rel=1e-12)
    with pytest.raises(ParameterError, match="Theorem 5"):
        paper.theorem_5_variance(epsilon=1e-4, delta=1e-3, rounds=10)


@pytest.mark.parametrize("bad", [math.nan, -1.0, "x"])
def test_the_paper_s_functions_refuse_bad_input(bad: object) -> None:
    for name in ("rho", "rounds", "delta"):
        with pytest.raises(ParameterError, match=rf"^{name} must be"):
            paper.lemma_2(**{"rho": 0.1, "rounds": 10, "delta": 1e-5, name: bad})  # type: ignore[arg-type]  # the point of the test


def test_figures_are_drawn() -> None:
    for figure in (
        plots.figure_1(paper.figure_1(points=20)),
        plots.rounds_figure(paper.figure_2(points=4)),
        plots.rounds_figure(paper.figure_3(points=3)),
    ):
        assert figure.axes[0].get_xlabel()
        assert figure.axes[0].get_ylabel()
        assert len(figure.axes[0].get_lines()) >= 3
