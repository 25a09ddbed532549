"""Pictures: what is drawn, that it can be read, and that it is written or refused."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dprounds import Gaussian, ParameterError, PoissonSampled, UnsupportedError, curves, paper, plots, questions
from dprounds.cli import pictures
from dprounds.mechanisms import Run
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.plots import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SGD = PoissonSampled(Gaussian(1.1), 256 / 60_000)
ALLOWED = {"moments": 501, "balle": 603, "closed-form": 603, "optimal": 603, "exact": 685}


def rounds_picture(**given: object) -> Figure:
    curve = curves.epsilon_over_rounds(Gaussian(20.0), delta=1e-5, last=900, points=10)
    return plots.epsilon_over_rounds(curve, **given)  # type: ignore[arg-type]  # each test passes what it is about


PICTURES = {
    "rounds": lambda: rounds_picture(epsilon=6.0, allowed=ALLOWED),
    "one round": lambda: plots.epsilon_over_rounds(
        curves.epsilon_over_rounds(Gaussian(1.0), delta=1e-5, last=1), epsilon=5.0, allowed={"moments": 0, "exact": 1}
    ),
    "many rounds": lambda: plots.epsilon_over_rounds(
        curves.epsilon_over_rounds(SGD, delta=1e-300, last=10**9, points=5, methods=["moments", "balle"])
    ),
    "no guarantee": lambda: plots.epsilon_over_rounds(
        curves.RoundsCurve(
            step=SGD, delta=1e-5, rounds=np.array([1, 2]), epsilon={"optimal": np.array([math.inf, math.inf])}
        ),
        epsilon=0.0,
    ),
    "profile": lambda: plots.privacy_profile(curves.privacy_profile(Gaussian(20.0) * 685, points=9), delta=1e-5),
    "flat profile": lambda: plots.privacy_profile(curves.privacy_profile(Gaussian(1.0) * 0, points=2)),
    "trade-off": lambda: plots.trade_off(curves.trade_off_curve(Gaussian(2.0) * 1, points=9)),
    "a run of parts": lambda: plots.privacy_profile(
        curves.privacy_profile(SGD * 3000 + Gaussian(9.0) * 4 + PoissonSampled(Gaussian(7.0), 0.01) * 5, points=5),
        epsilon=1.0,
        answers={"moments": 0.5, "exact": 0.0},
    ),
    "conversion": lambda: plots.joint_range(
        curves.conversion_picture(epsilon=1.0, order=4.0, points=9, delta=1e-9), point=(1e-9, 0.1)
    ),
    "joint range": lambda: plots.joint_range(curves.conversion_picture(epsilon=1.0, order=4.0, points=9)),
    "answers": lambda: plots.answers_by_method({"moments": 1.3, "exact": math.inf}, quantity="noise multiplier"),
    "figure 1": lambda: plots.figure_1(paper.figure_1(points=9)),
    "figure 2": lambda: plots.rounds_figure(paper.figure_2(points=3, exact=True)),
    "figure 3": lambda: plots.rounds_figure(paper.figure_3(points=2, exact=True)),
}


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_drawn_with_axes_and_letters_that_can_be_read(name: str, tmp_path: Path) -> None:
    from matplotlib.text import Text

    figure = PICTURES[name]()
    (ax,) = figure.axes
    assert ax.get_xlabel()
    assert ax.get_ylabel() or name == "answers"  # whose rows carry the methods' names
    assert plots.save(figure, tmp_path / "picture.png").stat().st_size > 5000
    # at slide size: nothing smaller than 11 points but exponents, and no text beyond the picture
    width, height = figure.get_size_inches() * figure.dpi
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible() and text in [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts]:
            box = text.get_window_extent()
            assert -1 <= box.x0 < box.x1 <= width + 1
            assert -1 <= box.y0 < box.y1 <= height + 1
            assert float(text.get_fontsize()) >= 11


def test_one_look_for_each_method_everywhere() -> None:
    assert tuple(plots.METHOD_STYLES) == RUN_METHODS
    assert len({look.color for look in plots.METHOD_STYLES.values()}) == len(RUN_METHODS)
    # distinguishable without colour: no two have both the same dashes and the same width
    assert len({(str(look.dashes), look.width) for look in plots.METHOD_STYLES.values()}) == len(RUN_METHODS)
    assert {look.color for look in plots.METHOD_STYLES.values()} <= set(plots.COLORS)
    for figure in (PICTURES["rounds"](), PICTURES["profile"]()):
        drawn = {str(line.get_label()).split(":")[0]: line.get_color() for line in figure.axes[0].get_lines()}
        assert drawn["exact"] == plots.METHOD_STYLES["exact"].color


def test_the_rounds_within_the_budget_are_marked_once_where_methods_agree() -> None:
    (ax,) = rounds_picture(epsilon=6.0, allowed=ALLOWED).axes
    texts = [text.get_text() for text in ax.texts]
    assert "budget\nε = 6" in texts
    assert [text for text in texts if text in ("501", "603", "685")] == ["501", "603", "685"]
    legend = ax.get_legend()
    assert legend is not None
    assert "exact: 685" in [text.get_text() for text in legend.get_texts()]


def test_numbers_on_the_budget_line_do_not_overlap() -> None:
    crowded = {"moments": 600, "balle": 603, "closed-form": 610, "optimal": 640, "exact": 685}
    figure = rounds_picture(epsilon=6.0, allowed=crowded)
    figure.draw_without_rendering()
    boxes = sorted(
        (text.get_window_extent() for text in figure.axes[0].texts if text.get_rotation()), key=lambda b: b.x0
    )
    assert len(boxes) >= 2
    assert all(first.x1 <= second.x0 for first, second in pairwise(boxes))


def test_a_line_begins_with_the_first_point_that_is_proven() -> None:
    curve = curves.epsilon_over_rounds(SGD, delta=1e-5, last=25_000, points=12)
    lines = plots.epsilon_over_rounds(curve).axes[0].get_lines()
    exact = next(line for line in lines if line.get_label() == "exact")
    first = np.flatnonzero(np.isfinite(curve.epsilon["exact"]))[0]
    assert first > 0
    assert np.asarray(exact.get_xdata())[0] == curve.rounds[first]
    assert np.isfinite(np.asarray(exact.get_ydata(), dtype=float)).all()


def test_between_two_points_the_line_is_the_power_through_both_or_the_straight_one_above_it() -> None:
    x, y = style.between_rounds([1.0, 2.0, 5.0, 100.0], [1.0, math.inf, math.sqrt(5.0), 10.0])
    assert {1.0, 5.0, 100.0} <= set(x.tolist())
    assert y == pytest.approx(np.sqrt(x))
    x, y = style.between_rounds([1.0, 10.0], [1.0, 100.0])  # convex: there the straight line is the higher
    assert y == pytest.approx(1.0 + 11.0 * (x - 1.0))
    for epsilons in ([0.0, 1.0], [math.inf, 1.0], [math.inf, math.inf]):
        x, y = style.between_rounds([1.0, 10.0], epsilons)
        assert y.tolist() == [value for value in epsilons if value < math.inf]


def test_the_lines_of_a_paper_figure_are_not_below_the_curve_where_it_begins() -> None:
    figure = plots.rounds_figure(paper.figure_2(points=30))
    line = next(line for line in figure.axes[0].get_lines() if line.get_label() == "optimal")
    rounds = [2, 5, 10, 20]
    truth = [(Gaussian(20.0) * n).epsilon(delta=1e-5, method="optimal") for n in rounds]
    drawn = np.interp(rounds, np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float))
    assert drawn == pytest.approx(truth, rel=0.01)


def test_methods_that_coincide_lie_on_each_other_so_that_all_are_seen() -> None:
    curve = curves.RoundsCurve(
        step=SGD,
        delta=1e-5,
        rounds=np.arange(1, 5),
        epsilon={method: np.arange(1.0, 5.0) for method in RUN_METHODS},
    )
    lines = sorted(plots.epsilon_over_rounds(curve).axes[0].get_lines(), key=lambda line: line.get_zorder())
    looks = [plots.METHOD_STYLES[str(line.get_label())] for line in lines]
    for i, lower in enumerate(looks):
        for upper in looks[i + 1 :]:  # narrower, or in dashes that let it through
            assert upper.width < lower.width or upper.dashes != "-"


def test_the_budget_is_named_to_the_right_of_the_axes_where_no_curve_is() -> None:
    for budget in (0.0, 0.01, 6.0, 9.0):
        figure = rounds_picture(epsilon=budget, allowed={"moments": 0})
        figure.draw_without_rendering()
        (ax,) = figure.axes
        name = next(text for text in ax.texts if text.get_text().startswith("budget")).get_window_extent()
        axes = ax.get_window_extent()
        assert name.x0 > axes.x1
        assert name.x1 <= figure.get_size_inches()[0] * figure.dpi
        for tick in ax.get_xticklabels():
            assert not name.overlaps(tick.get_window_extent())


def test_costs_are_marked_at_the_end_of_their_lines_and_rounded_up_in_the_legend() -> None:
    curve = curves.epsilon_over_rounds(Gaussian(20.0), delta=1e-5, last=100, points=10, methods=["moments", "exact"])
    costs = {method: float(epsilons[-1]) for method, epsilons in curve.epsilon.items()}
    (ax,) = plots.epsilon_over_rounds(curve, costs=costs | {"optimal": math.inf}).axes
    dots = [
        (float(np.asarray(line.get_xdata())[0]), float(np.asarray(line.get_ydata())[0]))
        for line in ax.get_lines()
        if line.get_marker() == "o"
    ]
    assert dots == [(100.0, costs["moments"]), (100.0, costs["exact"])]
    legend = ax.get_legend()
    assert legend is not None
    for text in legend.get_texts():
        method, value = text.get_text().split(": ")
        assert costs[method] <= float(value) <= costs[method] * 1.0001
    assert ax.get_title().endswith("ε after 100 rounds:")


def test_the_asked_epsilon_and_its_deltas_are_marked_on_the_profile() -> None:
    run = Gaussian(20.0) * 100
    for epsilon in (1.0, 8.0):  # the profile would end at 3
        answers = {"moments": run.delta(epsilon=epsilon, method="moments"), "exact": run.delta(epsilon=epsilon)}
        curve = curves.privacy_profile(run, points=9, methods=tuple(answers), including=[epsilon])
        (ax,) = plots.privacy_profile(curve, epsilon=epsilon, answers=answers).axes
        for value in answers.values():
            assert any(
                line.get_marker() == "o" and (line.get_xdata()[0], line.get_ydata()[0]) == (epsilon, value)  # type: ignore[index]  # an array of one
                for line in ax.get_lines()
            )
            assert ax.get_ylim()[0] < value
        assert ax.get_xlim()[1] > epsilon
    (ax,) = plots.privacy_profile(curve, epsilon=1.0, answers={"exact": 0.0}).axes
    assert ax.get_legend() is not None


def test_a_converted_point_is_marked_on_a_logarithmic_axis() -> None:
    picture = curves.conversion_picture(epsilon=1.0, order=8.0, delta=1e-5, points=21, methods=["balle"])
    (ax,) = plots.joint_range(picture, point=(1e-5, 0.4), title="asked").axes
    assert ax.get_xscale() == "log"
    assert ax.get_title() == "asked"
    assert any(line.get_marker() == "o" and list(line.get_xdata()) == [1e-5] for line in ax.get_lines())  # type: ignore[arg-type]  # an array
    assert "δ = 1e-5, 0.4 nats" in [text.get_text() for text in ax.texts]
    assert PICTURES["joint range"]().axes[0].get_xscale() == "linear"


def test_where_nothing_is_proven_the_picture_says_so_and_has_no_legend() -> None:
    nothing = np.array([math.inf, math.inf])
    curve = curves.RoundsCurve(step=SGD, delta=1e-5, rounds=np.array([1, 2]), epsilon={"exact": nothing})
    profile = curves.ProfileCurve(run=SGD * 1, epsilon=np.array([0.0, 1.0]), delta={"exact": nothing})
    for figure in (plots.epsilon_over_rounds(curve), plots.privacy_profile(profile)):
        (ax,) = figure.axes
        assert ax.get_legend() is None
        assert any("here." in text.get_text() for text in ax.texts)


def test_a_run_of_several_parts_is_named_in_two_lines_that_fit() -> None:
    run = SGD * 3000 + Gaussian(3.0) * 2 + PoissonSampled(Gaussian(7.0), 0.01) * 5 + Gaussian(9.0)
    lines = style.caption(run).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("PoissonSampled(Gaussian(1.1)")
    assert all(len(line) <= style.LONGEST_CAPTION for line in lines)
    assert "…" in style.caption(run + Gaussian(11.0) * 7 + PoissonSampled(Gaussian(8.0), 0.02) * 3)
    assert style.caption("Gaussian(1.0) * 3") == "Gaussian(1.0) * 3"


@pytest.mark.parametrize(
    ("largest", "word", "ticks"),
    [
        (900.0, "", "800"),
        (25_000.0, "", "20,000"),
        (4e6, "million", "4"),
        (1e9, "million", "1,000"),
        (7e9, "billion", "6"),
    ],
)
def test_ticks_of_any_size_can_be_read(largest: float, word: str, ticks: str) -> None:
    figure, ax = style.canvas()
    ax.set_xlim(0.0, largest)
    assert style.plain_ticks(ax.xaxis, largest=largest, whole=True) == word
    figure.draw_without_rendering()
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert ticks in labels
    assert max(map(len, labels)) <= 7


def test_the_sentence_of_an_attack_is_rounded_up() -> None:
    figure = PICTURES["trade-off"]()
    sentence = figure.axes[0].texts[0].get_text()
    found = curves.trade_off_curve(Gaussian(2.0) * 1, points=9).true_positive_rate_at_one_percent
    percent = float(sentence.split("at most ")[1].split(" %")[0])
    assert 100.0 * found <= percent < 100.0 * found + 0.011


@pytest.mark.parametrize("ending", ["PNG", "svg", "pdf"])
def test_the_same_picture_is_the_same_bytes(ending: str, tmp_path: Path) -> None:
    first, second = (plots.save(PICTURES["rounds"](), tmp_path / f"{i}.{ending}").read_bytes() for i in range(2))
    assert first == second
    assert first.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending.lower()])


def test_a_path_that_cannot_be_written_gets_one_clear_line(tmp_path: Path) -> None:
    figure = PICTURES["answers"]()
    (tmp_path / "folder.png").mkdir()
    for path, words in {
        "picture.jpg": r"^path must end in \.png, \.svg or \.pdf, got",
        "picture": r"^path must end in \.png, \.svg or \.pdf, got",
        "folder.png": r"^path must be a file that can be written, got .*: Is a directory\.$",
        "missing/picture.png": r"^path must be a file that can be written, got .*: No such file or directory\.$",
        "nul\0l.png": r"^path must be a file that can be written",
    }.items():
        with pytest.raises(ParameterError, match=words) as caught:
            plots.save(figure, str(tmp_path / path))
        assert "\n" not in str(caught.value)
    with pytest.raises(ParameterError, match=r"^path must be a file name"):
        plots.save(figure, 3)  # type: ignore[arg-type]  # the point of the test


def test_bad_answers_are_refused() -> None:
    for answers in ({}, {"exact": math.nan}, {"exact": -1.0}, {"best": 1.0}):
        with pytest.raises(ParameterError, match=r"^answers must"):
            plots.answers_by_method(answers, quantity="noise multiplier")
    with pytest.raises(ParameterError, match=r"^epsilon must"):
        rounds_picture(epsilon=math.nan)
    with pytest.raises(ParameterError, match=r"^allowed must"):
        rounds_picture(epsilon=6.0, allowed={"best": 3})
    with pytest.raises(ParameterError, match=r"^costs must"):
        rounds_picture(costs={"exact": math.nan})
    with pytest.raises(ParameterError, match=r"^answers must"):
        plots.privacy_profile(curves.privacy_profile(Gaussian(1.0) * 1, points=3), epsilon=1.0, answers={"exact": 2.0})
    with pytest.raises(ParameterError, match=r"^point must"):
        plots.joint_range(curves.conversion_picture(epsilon=1.0, order=2.0, points=3), point=(math.nan, 1.0))


def test_without_matplotlib_pictures_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = curves.epsilon_over_rounds(Gaussian(20.0), delta=1e-5, last=10, points=2)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UnsupportedError, match=r"pip install '\.\[plots\]'"):
        plots.epsilon_over_rounds(curve)


def test_numbers_and_plots_load_no_matplotlib() -> None:
    code = "import sys, dprounds.plots, dprounds.curves; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


DP_SGD = questions.Setting(noise_multiplier=1.1, batch_size=256, dataset_size=60_000)


def line_of(figure: Figure, method: str) -> tuple[np.ndarray, np.ndarray]:
    """The longest line of a method's colour."""
    color = plots.METHOD_STYLES[method].color
    lines = [line for line in figure.axes[0].get_lines() if line.get_color() == color]
    line = max(lines, key=lambda each: np.size(each.get_xdata()))
    return np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float)


def test_the_exact_answer_of_a_short_run_is_drawn_and_is_the_end_of_its_line() -> None:
    setting = replace(DP_SGD, rounds=100)
    found = questions.epsilon(setting, delta=1e-5, method="exact")
    figure = pictures.cost_so_far(found, setting.run())
    x, y = line_of(figure, "exact")
    assert x.size > 10
    assert x[-1] == 100
    assert y[-1] == pytest.approx(found.best.values["epsilon"], rel=1e-3)
    assert figure.axes[0].get_legend() is not None


def test_a_budget_of_a_short_run_is_marked_on_its_curve() -> None:
    found = questions.rounds(DP_SGD, epsilon=0.2, delta=1e-5, method="exact")
    allowed = int(found.best.values["rounds"] or 0)
    assert 70 < allowed < 90
    x, y = line_of(pictures.allowed_rounds(found, DP_SGD.step()), "exact")
    assert float(np.interp(allowed, x, y)) == pytest.approx(0.2, rel=0.02)
    assert y[list(x).index(allowed)] <= 0.2


def test_the_exact_delta_of_a_short_run_is_marked_on_its_profile() -> None:
    setting = replace(DP_SGD, rounds=200)
    found = questions.delta(setting, epsilon=0.5, method="exact")
    x, y = line_of(pictures.profile(found, setting.run()), "exact")
    assert y[list(x).index(0.5)] == pytest.approx(found.best.values["delta"], rel=1e-3)
    assert pictures.profile(questions.delta(setting, epsilon=math.inf, method="balle"), setting.run()).axes


@pytest.mark.parametrize(
    "run", [SGD * 300 + Gaussian(9.0) * 4, Gaussian(9.0) * 1, Gaussian(9.0) * 0, Gaussian(1e9) * 2**60]
)
def test_what_has_no_curve_is_drawn_as_bars(run: Run) -> None:
    found = questions.epsilon(questions.Setting(), delta=1e-5, run=run)
    (ax,) = pictures.cost_so_far(found, run).axes
    assert len(ax.patches) == len(RUN_METHODS)
    assert ax.get_title().startswith("ε at δ = 1e-5\n")
    assert ax.get_xlabel() == "ε (nats)"


def test_the_title_and_the_axis_of_a_conversion_say_one_epsilon() -> None:
    (ax,) = pictures.conversion(questions.convert(order=8.0, rdp=0.5, delta=1e-5)).axes
    assert "is (1.7098, 1e-05)-DP" in ax.get_title()
    assert ax.get_xlabel() == "δ at ε = 1.7098 (failure mass)"


def test_the_title_of_bars_says_what_was_asked() -> None:
    setting = replace(DP_SGD, noise_multiplier=None, epochs=60.0)
    (ax,) = pictures.by_method(questions.noise(setting, epsilon=3.0, delta=1e-5, method="balle")).axes
    assert ax.get_title() == "noise multiplier within ε = 3, δ = 1e-5\ngaussian, sampling rate 0.0042667, 14,100 rounds"
    setting = questions.Setting(noise_multiplier=1.1, rounds=1)
    rate = questions.rate(setting, epsilon=3.0, delta=1e-5, method="balle", spent=Gaussian(50.0) * 2)
    (ax,) = pictures.by_method(rate).axes
    assert ax.get_title() == (
        "sampling rate within ε = 3, δ = 1e-5\ngaussian, noise multiplier 1.1, 1 round\nwith what was spent before"
    )


def test_a_conversion_is_drawn_by_the_method_that_was_asked_and_says_what_was_found() -> None:
    found = questions.convert(order=8.0, rdp=0.5, delta=1e-5, method="balle")
    (ax,) = pictures.conversion(found).axes
    assert ax.get_title() == "(8, 0.5)-RDP is (1.7142, 1e-05)-DP by balle"
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["every pair of distributions", "balle"]
    for found in (
        questions.convert(order=8.0, rdp=0.0, epsilon=1.0),
        questions.convert(order=2.0, rdp=3.0, delta=1e-300),
        questions.convert(order=math.inf, rdp=1.0, delta=0.1),
    ):
        assert pictures.conversion(found).axes[0].patches  # no such point on the axes: bars
