"""The numbers behind pictures: never below the truth, and close to what a run answers by itself."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dprounds import (
    ZCDP,
    ApproximateDP,
    DiscreteGaussian,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    NumericalError,
    ParameterError,
    PoissonSampled,
    RandomizedResponse,
    RdpCurve,
    curves,
    paper,
)
from dprounds.accounting.bracket import Bracket, Brackets
from dprounds.accounting.line import Line
from dprounds.accounting.profile import Profile
from dprounds.accounting.ways import by_line, place
from dprounds.conversions import rdp_from_dp
from dprounds.curves import attack, on_lines, spacing
from dprounds.curves import profile as profile_curve
from dprounds.divergences import squared_hellinger, total_variation
from dprounds.mechanisms import Release
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.mechanisms.base import Run
from tests.references import gaussian, profile

SGD = PoissonSampled(Gaussian(1.1), 256 / 60_000)
STEPS: dict[str, tuple[Release, int, float]] = {
    "DP-SGD": (SGD, 25_000, 1e-5),
    "Gaussian": (Gaussian(20.0), 1000, 1e-5),
    "tiny delta": (Gaussian(20.0), 1000, 1e-300),
    "large delta": (Gaussian(20.0), 1000, 0.3),
    "many rounds": (SGD, 10**9, 1e-6),
    "one round": (Gaussian(1.0), 1, 1e-5),
    "Laplace": (Laplace(20.0), 500, 1e-5),
    "responses": (RandomizedResponse(0.1), 40, 1e-5),
    "lattice": (DiscreteGaussian(10.0), 100, 1e-5),
    "infinite mass": (ApproximateDP(0.1, 1e-7), 80, 1e-5),
    "two parts": (Gaussian(20.0) * 2 + Laplace(30.0), 300, 1e-5),
    "curve only": (ZCDP(0.01), 500, 1e-5),
    "table": (RdpCurve([2.0, 4.0, 8.0], [0.01, 0.02, 0.05]), 100, 1e-5),
}


@pytest.mark.parametrize("name", STEPS)
def test_drawn_epsilons_are_those_of_the_run_or_a_thousandth_more(name: str) -> None:
    step, last, delta = STEPS[name]
    curve = curves.epsilon_over_rounds(step, delta=delta, last=last, points=25)
    assert curve.rounds[0] == 1
    assert curve.rounds[-1] == last
    expected = RUN_METHODS if step.has_moment_function else RUN_METHODS[:-1]
    assert tuple(curve.epsilon) == expected
    for method, epsilons in curve.epsilon.items():
        for i in sorted({curve.rounds.size // 3, 2 * curve.rounds.size // 3, curve.rounds.size - 1}):
            own = (step * int(curve.rounds[i])).guarantee(delta=delta, method=method)
            assert epsilons[i] >= own.lower
            assert epsilons[i] <= own.epsilon * (1.0 + 1e-3)
            # no method is below what its own search finds, but for the last digits of that search; of two proofs
            # of the exact one either may be the tighter
            assert epsilons[i] >= own.epsilon * (1.0 - (1e-7 if method != "exact" else 1e-4))


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-40])
def test_exact_epsilons_on_shared_lines_are_never_below_the_gaussian_truth(delta: float) -> None:
    curve = curves.epsilon_over_rounds(Gaussian(20.0), delta=delta, last=3000, points=30, methods=["exact"])
    for n, epsilon in zip(curve.rounds, curve.epsilon["exact"], strict=True):
        assert gaussian.delta(math.sqrt(float(n)) / 20.0, float(epsilon)) <= delta


@pytest.mark.parametrize("rounds", [3, 12, 40])
def test_exact_epsilons_of_atoms_are_never_below_the_truth(rounds: int) -> None:
    epsilons = on_lines.exact_epsilons(RandomizedResponse(0.1), [1, rounds], delta=1e-5)
    assert profile.randomized_response(0.1, rounds, float(epsilons[-1])) <= 1e-5


@pytest.mark.parametrize("name", ["DP-SGD", "large delta", "responses", "two parts"])
def test_better_methods_are_never_drawn_above_looser_ones(name: str) -> None:
    step, last, delta = STEPS[name]
    curve = curves.epsilon_over_rounds(step, delta=delta, last=last, points=20)
    rows = list(curve.epsilon.values())
    for looser, better in pairwise(rows):
        assert (better[np.isfinite(better)] <= looser[np.isfinite(better)]).all()


def test_a_page_can_draw_dp_sgd_from_a_handful_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[float] = []
    line_near: Callable[..., Any] = place.line_near

    def counted(*arguments: object, **given: Any) -> object:
        made.append(given["epsilon"])
        return line_near(*arguments, **given)

    monkeypatch.setattr(on_lines, "line_near", counted)
    curve = curves.epsilon_over_rounds(SGD, delta=1e-5, last=25_000, points=40)
    assert np.isfinite(curve.epsilon["exact"]).sum() > 30
    assert len(made) <= 8  # two directions


def test_each_point_of_a_curve_is_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture is there within tenths of a second: no point takes a search for the last digit."""
    looked: list[int] = []
    bracket = Line.bracket

    def counted(line: Line, epsilon: NDArray[np.float64]) -> Brackets:
        looked.append(epsilon.size)
        return bracket(line, epsilon)

    monkeypatch.setattr(Line, "bracket", counted)
    curve = curves.epsilon_over_rounds(SGD, delta=1e-5, last=25_000, points=60, methods=["exact"], shortest=500, own=6)
    assert np.isfinite(curve.epsilon["exact"]).sum() > 40
    assert len(looked) <= 3 * curve.rounds.size  # twice in one direction and once in the other, and some for the lines


def test_no_line_is_made_for_runs_too_short_to_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    by_lines: Callable[..., Any] = on_lines._by_lines

    def counted(run: Run, rounds: int, *others: Any) -> object:
        made.append(rounds)
        return by_lines(run, rounds, *others)

    monkeypatch.setattr(on_lines, "_by_lines", counted)
    curve = curves.epsilon_over_rounds(SGD, delta=1e-5, last=25_000, shortest=500)
    assert (curve.epsilon["exact"][curve.rounds >= 500] < math.inf).all()
    assert len(made) == 2


def test_an_attackers_curve_of_discrete_noise_takes_a_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line serves for all epsilons that it brackets as closely as a picture shows; it took half a minute."""
    made: list[float] = []
    line_near: Callable[..., Any] = place.line_near

    def counted(*arguments: object, **given: Any) -> object:
        made.append(given["epsilon"])
        return line_near(*arguments, **given)

    monkeypatch.setattr(by_line, "line_near", counted)
    run = PoissonSampled(DiscreteGaussian(2.0), 256 / 60_000) * 14_100
    curve = curves.trade_off_curve(run)
    assert len(made) <= 40
    assert curve.false_negative_rate[30] <= run.trade_off(curve.false_positive_rate[30]) + 1e-9
    assert curve.false_negative_rate[30] == pytest.approx(run.trade_off(curve.false_positive_rate[30]), abs=1e-3)


def test_the_dearer_direction_counts_whichever_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    step = PoissonSampled(Gaussian(1.0), 0.05)
    usual = on_lines.exact_epsilons(step, [500, 800], delta=1e-5)
    monkeypatch.setattr(Run, "directions", ("add", "remove"))
    assert on_lines.exact_epsilons(step, [500, 800], delta=1e-5) == pytest.approx(usual, rel=1e-4)
    monkeypatch.setattr(Run, "directions", ("add",))
    assert (on_lines.exact_epsilons(step, [500, 800], delta=1e-5) < 0.99 * usual).all()


def test_rounds_too_few_for_a_shared_sum_are_gaps_in_a_curve_that_moves_and_have_no_rows() -> None:
    curve = curves.epsilon_over_rounds(SGD, delta=1e-5, last=25_000, points=20)
    assert curve.epsilon["exact"][0] == math.inf
    assert all(row["rounds"] != 1 for row in curve.to_rows() if row["method"] == "exact")
    assert "exact" not in curves.epsilon_over_rounds(SGD, delta=1e-5, last=3, points=3).epsilon


# Runs that no line serves: every one is answered by itself.
SHORT: dict[str, tuple[Release, int]] = {
    "DP-SGD": (SGD, 100),
    "sampled Laplace": (PoissonSampled(Laplace(1.0), 0.01), 1000),
    "little noise": (PoissonSampled(Gaussian(0.6), 0.01), 300),
}


def asked_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rounds of the runs that are asked for an exact epsilon of their own from here on."""
    asked: list[int] = []
    exactly = Profile.epsilon

    def noted(profile: Profile, delta: float) -> Bracket:
        asked.append(next(iter(profile.laws.values())).rounds)
        return exactly(profile, delta)

    monkeypatch.setattr(Profile, "epsilon", noted)
    return asked


@pytest.mark.parametrize("name", SHORT)
def test_a_curve_of_short_runs_has_some_exact_points_from_its_first_to_its_last(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, last = SHORT[name]
    asked = asked_runs(monkeypatch)
    curve = curves.epsilon_over_rounds(step, delta=1e-5, last=last, methods=["exact"])
    assert len(asked) <= 10
    exact = curve.epsilon["exact"]
    assert np.isfinite(exact[[0, -1]]).all()
    assert np.isfinite(exact).sum() >= 8
    own = (step * last).guarantee(delta=1e-5, method="exact")
    assert own.lower <= exact[-1] <= own.epsilon * (1.0 + 1e-3)


def test_a_curve_that_moves_asks_no_run_by_itself_but_those_that_it_must_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = asked_runs(monkeypatch)
    for last in (100, 3000):
        curves.epsilon_over_rounds(SGD, delta=1e-5, last=last, points=24)
    assert asked == []
    curve = curves.epsilon_over_rounds(SGD, delta=1e-5, last=91, points=24, including=[79], methods=["exact"])
    assert set(asked) <= {79}  # or by a line
    assert dict(zip(curve.rounds.tolist(), curve.epsilon["exact"].tolist(), strict=True))[79] <= 0.2


@pytest.mark.parametrize("step", [Laplace(1.0), PoissonSampled(DiscreteGaussian(1.0), 0.1)], ids=repr)
def test_runs_of_atoms_are_asked_for_at_a_bounded_number_of_points(
    step: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asked_runs(monkeypatch)
    curve = curves.epsilon_over_rounds(step, delta=1e-5, last=60, points=60, methods=["exact"], own=2)
    assert len(asked) <= on_lines.FEW_OWN + 2
    assert np.isfinite(curve.epsilon["exact"][[0, -1]]).all()


@pytest.mark.parametrize(("last", "points"), [(1, 24), (17, 24), (100, 24), (100, 60), (25_000, 60), (2**53, 60)])
def test_rounds_are_drawn_from_the_first_to_the_last_and_no_more_than_asked(last: int, points: int) -> None:
    rounds = spacing.rounds_to_draw(last, points)
    assert rounds[0] == 1
    assert rounds[-1] == last
    assert (np.diff(rounds) > 0).all()
    assert rounds.size == min(points, last)
    if last > 100:  # the start too is seen on a logarithmic scale
        assert rounds[1] < last ** (1 / 3)


def test_straight_lines_between_the_points_lie_below_the_curve_by_less_than_a_pixel() -> None:
    """A slide has a thousand pixels or fewer in height; the first segment is where it was a third too low."""
    for step, last in ((SGD, 25_000), (Gaussian(20.0), 1000), (Laplace(20.0), 500)):
        curve = curves.epsilon_over_rounds(step, delta=1e-5, last=last, methods=["moments", "optimal"], points=100)
        between = np.unique(np.geomspace(1.0, last, 200).astype(np.int64))
        truth = curves.epsilon_over_rounds(
            step, delta=1e-5, last=last, methods=["moments", "optimal"], points=2, including=between.tolist()
        )
        for method, epsilons in curve.epsilon.items():
            drawn = np.interp(truth.rounds, curve.rounds, epsilons)
            assert (drawn >= truth.epsilon[method] - 1e-3 * epsilons[-1]).all()
            assert (drawn >= truth.epsilon[method] * (1.0 - 0.01)).all()


def test_mass_at_infinity_above_delta_has_no_epsilon() -> None:
    curve = curves.epsilon_over_rounds(ApproximateDP(0.1, 1e-3), delta=1e-2, last=40, points=40)
    for n, epsilon in zip(curve.rounds, curve.epsilon["optimal"], strict=True):
        assert (epsilon == math.inf) == ((ApproximateDP(0.1, 1e-3) * int(n)).infinite_mass > 1e-2)


def test_methods_are_chosen_by_name() -> None:
    curve = curves.epsilon_over_rounds(Gaussian(20.0), delta=1e-5, last=10, points=3, methods=("exact", "balle"))
    assert tuple(curve.epsilon) == ("balle", "exact")


@pytest.mark.parametrize("run", [SGD * 5000, Laplace(3.0) * 5, RandomizedResponse(0.5) * 8, ZCDP(0.1) * 3])
def test_drawn_deltas_are_those_of_the_run_or_a_thousandth_more(run: Any) -> None:
    curve = curves.privacy_profile(run, points=9)
    for method, deltas in curve.delta.items():
        for i in (0, 3, 6):
            own = run.delta(epsilon=float(curve.epsilon[i]), method=method)
            assert own * (1.0 - 1e-5) <= deltas[i] <= own * (1.0 + 1e-3)


@pytest.mark.parametrize("run", [SGD * 200, PoissonSampled(Gaussian(0.6), 0.01) * 300, Laplace(3.0) * 3])
def test_the_exact_profile_of_a_short_run_is_that_of_the_run(run: Run) -> None:
    curve = curves.privacy_profile(run, points=33, methods=["exact"], including=[0.5])
    exact = curve.delta["exact"]
    known = np.flatnonzero(np.isfinite(exact))
    assert known.size >= 12
    assert {0, exact.size - 1} <= set(known.tolist())
    assert np.isfinite(exact[curve.epsilon == 0.5]).all()
    for i in known[:: known.size // 3].tolist():
        own = run.delta(epsilon=float(curve.epsilon[i]), method="exact")
        assert own * (1.0 - 1e-3) <= exact[i] <= own * (1.0 + 1e-2)


@pytest.mark.parametrize("run", [SGD * 200, Laplace(3.0) * 3, Laplace(1e-3) * 100], ids=repr)
def test_a_delta_that_no_sum_proves_is_not_called_tight(run: Run) -> None:
    """Nor does it take others with it: what a run proves by itself, its row has too."""
    at = np.append(np.linspace(0.0, 1.0, 12), 0.999 * min(run.max_loss(), 1e3))
    deltas, is_tight = on_lines.exact_deltas(run, at)
    assert not is_tight or np.isfinite(deltas).all()
    for i in (0, 5, 11):
        try:
            own = run.account.profile.delta(float(at[i]))
        except NumericalError:
            continue
        assert own.lower <= deltas[i] <= own.upper * (1.0 + 1e-2)


@pytest.mark.parametrize("parts", [2, 5])
def test_rounds_of_several_releases_are_counted_by_the_round(parts: int) -> None:
    """A step of several releases, on a line that is shared by many numbers of rounds."""
    step = PoissonSampled(Gaussian(2.0), 0.05) * (parts - 1) + Gaussian(80.0)
    found = on_lines.exact_epsilons(step, [200, 300], delta=1e-5)
    for n, epsilon in zip((200, 300), found.tolist(), strict=True):
        own = (step * n).guarantee(delta=1e-5)
        assert own.lower <= epsilon <= own.upper * (1.0 + 1e-3)


def test_a_profile_reaches_beyond_the_epsilon_that_was_asked_for() -> None:
    run = SGD * 5000
    curve = curves.privacy_profile(run, points=9, including=[30.0, 1.0])
    assert {1.0, 30.0} <= set(curve.epsilon.tolist())
    assert 30.0 < curve.epsilon[-1] < 33.0
    assert curve.epsilon.size <= 9 + 2 + 12
    at = int(np.flatnonzero(curve.epsilon == 30.0)[0])
    assert curve.delta["exact"][at] == pytest.approx(run.delta(epsilon=30.0), rel=1e-3)


def test_the_gaussian_profile_is_never_below_the_truth_and_ends_where_asked() -> None:
    curve = curves.privacy_profile(Gaussian(20.0) * 500, last_delta=1e-20, points=21)
    mu = math.sqrt(500.0) / 20.0
    for epsilon, delta in zip(curve.epsilon, curve.delta["exact"], strict=True):
        assert gaussian.delta(mu, float(epsilon)) <= delta
    assert curve.delta["exact"][-1] == pytest.approx(1e-20, rel=1e-6)


def test_a_profile_with_mass_at_infinity_counts_it() -> None:
    run = ApproximateDP(0.1, 1e-4) * 20 + Gaussian(5.0)
    curve = curves.privacy_profile(run, epsilons=[0.5, 50.0])
    for deltas in curve.delta.values():
        assert deltas[1] >= run.infinite_mass
    assert curve.delta["exact"][0] == pytest.approx(run.delta(epsilon=0.5), rel=1e-3)


@pytest.mark.parametrize("mu", [0.05, 1.0, 4.0])
def test_no_attacker_is_below_the_trade_off_curve(mu: float) -> None:
    curve = curves.trade_off_curve(Gaussian(1.0 / mu) * 1, points=31)
    truth = ndtr(ndtri(1.0 - curve.false_positive_rate) - mu)
    assert (curve.false_negative_rate <= truth + 1e-15).all()  # the reference is in doubles
    assert (curve.false_negative_rate[1:] >= truth[1:] - 1e-3).all()
    assert curve.advantage == pytest.approx(2.0 * ndtr(0.5 * mu) - 1.0, rel=1e-9)
    at_one_percent = 1.0 - ndtr(ndtri(0.99) - mu)
    assert at_one_percent <= curve.true_positive_rate_at_one_percent <= at_one_percent + 1e-3


@pytest.mark.parametrize("run", [Gaussian(1e-3) * 1000, Gaussian(1.0) * 10**8, Laplace(1e-3) * 100])
def test_where_there_is_no_privacy_none_is_drawn(run: Any) -> None:
    assert curves.trade_off_curve(run, points=3).advantage >= 1.0 - 1e-12
    for deltas in curves.privacy_profile(run, epsilons=[0.0, 1.0]).delta.values():
        assert (deltas >= 1.0 - 1e-12).all()


def test_a_profile_is_interpolated_from_above() -> None:
    at = np.linspace(0.0, 6.0, 7)
    delta = np.array([float(gaussian.delta(1.0, epsilon)) for epsilon in at])
    between = np.linspace(0.0, 8.0, 50)
    truth = np.array([float(gaussian.delta(1.0, epsilon)) for epsilon in between])
    assert (attack._between(between, at, delta) >= truth).all()


def test_the_optimal_conversion_is_the_edge_of_the_joint_range() -> None:
    picture = curves.conversion_picture(epsilon=1.0, order=4.0, points=21)
    assert picture.bounds["optimal"] == pytest.approx(picture.least, rel=1e-9, abs=1e-12)
    for bound in picture.bounds.values():
        assert (bound <= picture.least * (1.0 + 1e-9)).all()


@pytest.mark.parametrize("delta", [None, 1e-5])
def test_between_its_points_the_edge_is_drawn_less_than_a_hundredth_of_a_nat_too_high(delta: float | None) -> None:
    """Too high is the unsafe side: straight lines lie above an edge that has its pole at 1."""
    picture = curves.conversion_picture(epsilon=1.0, order=8.0, delta=delta, methods=["optimal"])
    at = np.append(np.linspace(0.5, 0.99, 40), 0.975)
    drawn = np.interp(at, picture.value, picture.bounds["optimal"])
    assert (drawn <= rdp_from_dp(1.0, order=8.0, delta=at, method="optimal") + 0.01).all()


def test_a_conversion_is_drawn_around_its_delta_and_by_the_methods_that_were_asked() -> None:
    picture = curves.conversion_picture(epsilon=1.0, order=1.0000001, delta=1e-5, points=21, methods=["balle"])
    assert list(picture.bounds) == ["balle"]
    assert picture.second == "Rényi divergence of order 1.0000001 (nats)"
    assert 1e-5 in picture.value
    assert picture.value[0] == pytest.approx(1e-8)
    assert picture.value[-1] == pytest.approx(0.99)
    assert (np.diff(picture.value) > 0).all()
    assert curves.conversion_picture(epsilon=1.0, order=2.0, delta=0.999, points=9).value[-1] > 0.999
    assert curves.conversion_picture(epsilon=1.70973, order=2.0, points=2).first.startswith("δ at ε = 1.70973 ")
    assert curves.conversion_picture(epsilon=1.709730001, order=2.0, points=2).first.startswith("δ at ε ≈ 1.7097 ")


def test_the_joint_range_of_any_two_divergences_has_axes() -> None:
    picture = curves.joint_range_picture(total_variation, squared_hellinger, points=5)
    assert picture.first == "total variation (probability)"
    assert (picture.least <= picture.greatest).all()
    assert picture.greatest == pytest.approx(picture.value)


def test_rows_are_json_with_the_words_of_the_library() -> None:
    run = Gaussian(20.0) * 100
    rows: dict[str, list[Any]] = {
        "rounds delta method epsilon": list(curves.epsilon_over_rounds(SGD, delta=1e-5, last=500, points=4).to_rows()),
        "epsilon method delta": list(curves.privacy_profile(run, points=3).to_rows()),
        "false_positive_rate false_negative_rate": list(curves.trade_off_curve(run, points=3).to_rows()),
        "order epsilon delta method rdp": list(paper.figure_1(points=3)[0].to_rows()),
        "noise_multiplier delta rounds method epsilon": list(paper.figure_2(points=2).to_rows()),
        "noise_multiplier delta sampling_rate rounds epochs method epsilon": list(paper.figure_3(points=2).to_rows()),
    }
    for keys, table in rows.items():
        assert table
        assert all(list(row) == keys.split() for row in table)
        json.dumps(table, allow_nan=False)
    conversion = curves.conversion_picture(epsilon=1.0, order=2.0, points=3).to_rows()
    assert set(conversion[1]) == {"value", "least", "moments", "balle", "closed-form", "optimal"}
    json.dumps(conversion, allow_nan=False)


def test_the_paper_s_figures_with_the_exact_curve_below_the_others() -> None:
    seen: list[None] = []
    for figure in (
        paper.figure_2(points=4, exact=True, progress=lambda: seen.append(None)),
        paper.figure_3(points=3, exact=True, progress=lambda: seen.append(None)),
    ):
        names = list(figure.epsilon)
        assert names[-1] == "exact"
        assert (figure.epsilon["exact"] < figure.epsilon[names[-2]]).all()
    assert len(seen) == 4 + 3


BAD: list[Callable[[], object]] = [
    lambda: curves.epsilon_over_rounds(SGD, delta=math.nan, last=10),
    lambda: curves.epsilon_over_rounds(SGD, delta=1.0, last=10),
    lambda: curves.epsilon_over_rounds(SGD, delta=1e-5, last=0),
    lambda: curves.epsilon_over_rounds(SGD, delta=1e-5, last=2**53 + 1),
    lambda: curves.epsilon_over_rounds(SGD, delta=1e-5, last=10, points=1),
    lambda: curves.epsilon_over_rounds(SGD, delta=1e-5, last=10, methods="exact"),
    lambda: curves.epsilon_over_rounds(SGD, delta=1e-5, last=10, methods=[]),
    lambda: curves.epsilon_over_rounds(SGD, delta=1e-5, last=10, methods=["best"]),
    lambda: curves.epsilon_over_rounds(SGD, delta=1e-5, last=10, including=[11]),
    lambda: curves.epsilon_over_rounds(SGD, delta=1e-5, last=10, including=[0]),
    lambda: curves.epsilon_over_rounds(SGD, delta=1e-5, last=10, own=-1),
    lambda: curves.epsilon_over_rounds(1.1, delta=1e-5, last=10),  # type: ignore[arg-type]  # the point of the test
    lambda: curves.privacy_profile(SGD, epsilons=[math.nan]),
    lambda: curves.privacy_profile(SGD, epsilons=[-1.0]),
    lambda: curves.privacy_profile(SGD, epsilons=[]),
    lambda: curves.privacy_profile(SGD, last_delta=0.0),
    lambda: curves.privacy_profile(SGD, including=[math.inf]),
    lambda: curves.trade_off_curve(SGD, false_positive_rates=[1.5]),
    lambda: curves.trade_off_curve(SGD, false_positive_rates=[math.nan]),
    lambda: curves.trade_off_curve(SGD, false_positive_rates=[]),
    lambda: curves.conversion_picture(epsilon=math.nan, order=2.0),
    lambda: curves.conversion_picture(epsilon=1.0, order=1.0),
    lambda: curves.conversion_picture(epsilon=1.0, order=2.0, upto=1.0),
    lambda: curves.conversion_picture(epsilon=1.0, order=2.0, delta=0.0),
    lambda: curves.conversion_picture(epsilon=1.0, order=2.0, methods=["exact"]),
    lambda: paper.figure_2(last=0),
    lambda: paper.figure_3(points=0),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_curves_refuse_bad_input(number: int) -> None:
    with pytest.raises(ParameterError):
        BAD[number]()


@pytest.mark.parametrize("run", [Gaussian(11.593458515437078) * 35_184_586, Gaussian(0.02) * 10, Gaussian(1e-3) * 1])
def test_no_protection_is_drawn_where_there_is_none(run: Run) -> None:
    """Losses of thousands of nats: their exponentials overflow, and what lies between two points must not hide them."""
    curve = curves.trade_off_curve(run, false_positive_rates=[0.01, 0.5])
    assert curve.false_negative_rate.max() < 1e-6
    assert curve.advantage > 1 - 1e-6


def test_runs_too_short_to_be_seen_do_not_answer_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_runs(monkeypatch)
    curve = curves.epsilon_over_rounds(SGD, delta=1e-5, last=30_000, own=6, shortest=600)
    assert not asked
    exact = curve.epsilon["exact"]
    assert (exact[curve.rounds >= 600] < math.inf).all()
    curves.epsilon_over_rounds(SGD, delta=1e-5, last=1000, own=6, shortest=20)
    assert asked
    assert min(asked) >= 20


def test_the_best_order_is_not_asked_for_an_attackers_curve_that_is_tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """It proves no less there, and takes three times as long."""
    before = curves.trade_off_curve(SGD * 20_000)
    orders = curves.privacy_profile(SGD * 20_000, epsilons=[0.0, 1.0, 3.0], methods=["optimal", "exact"]).delta
    assert (orders["exact"] <= orders["optimal"]).all()

    def refuse(*_: object) -> None:
        raise AssertionError("the best order was asked")

    monkeypatch.setattr(profile_curve, "_by_orders", refuse)
    after = curves.trade_off_curve(SGD * 20_000)
    assert (after.false_negative_rate == before.false_negative_rate).all()
    with pytest.raises(AssertionError):  # where there is no moment function nothing else answers
        curves.trade_off_curve(ZCDP(0.001) * 10)


def test_of_nothing_released_an_attacker_finds_what_guessing_finds_and_no_rounding_above() -> None:
    nothing = PoissonSampled(Gaussian(1.0), 0.01) * 0
    assert nothing.true_positive_rate(0.01) == curves.trade_off_curve(nothing).true_positive_rate_at_one_percent == 0.01


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_pictures_of_few_batches_of_fixed_size_are_within_a_thousandth(relation: str) -> None:
    """They take coarser lattices, which bound from above too: a fine one has a hundred thousand nodes."""
    step = FixedSizeSampled(Gaussian(1.1), 256, 60_000, relation=relation)
    curve = curves.epsilon_over_rounds(step, delta=1e-5, last=40, methods=["exact"], own=3)
    shown = {int(n): float(e) for n, e in zip(curve.rounds, curve.epsilon["exact"], strict=True) if 0 < e < math.inf}
    assert len(shown) >= 3
    for rounds in sorted(shown)[-2:]:
        own = (step * rounds).epsilon(delta=1e-5)
        assert own * (1 - 1e-6) <= shown[rounds] <= own * (1 + 1e-3)
    run = step * 40
    rates = [0.01, 0.3]
    pictured = curves.trade_off_curve(run, false_positive_rates=rates).false_negative_rate
    assert pictured == pytest.approx(run.trade_off(np.array(rates)), rel=1e-3)


def test_pictures_of_few_batches_of_fixed_size_take_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes: list[int] = []
    table = Line._table

    def counting(self: Line, epsilon: NDArray[np.float64]) -> Any:
        nodes.append(self.values.size)
        return table(self, epsilon)

    monkeypatch.setattr(Line, "_table", counting)
    curves.trade_off_curve(FixedSizeSampled(Gaussian(1.1), 256, 60_000) * 61)
    assert max(nodes) < 30_000
