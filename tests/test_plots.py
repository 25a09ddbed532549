"""Pictures: what is drawn, that it can be read, and that it is written or refused."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dprounds import Gaussian, ParameterError, PoissonSampled, UnsupportedError, curves, paper, plots
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
    # told apart without colour: no two have both the same dashes and the same width
    assert len({(str(look.dashes), look.width) for look in plots.METHOD_STYLES.values()}) == len(RUN_METHODS)
    assert {look.color for look in plots.METHOD_STYLES.values()} <= set(plots.COLORS)
    for figure in (PICTURES["rounds"](), PICTURES["profile"]()):
        drawn = {str(line.get_label()).split(":")[0]: line.get_color() for line in figure.axes[0].get_lines()}
        assert drawn["exact"] == plots.METHOD_STYLES["exact"].color


def test_the_rounds_within_the_budget_are_marked_once_where_methods_agree() -> None:
    (ax,) = rounds_picture(epsilon=6.0, allowed=ALLOWED).axes
    texts = [text.get_text() for text in ax.texts]
    assert "budget ε = 6" in texts
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


def test_a_point_that_is_not_proven_is_a_gap() -> None:
    curve = curves.epsilon_over_rounds(SGD, delta=1e-5, last=25_000, points=12)
    lines = plots.epsilon_over_rounds(curve).axes[0].get_lines()
    exact = next(line for line in lines if line.get_label() == "exact")
    assert np.isnan(np.asarray(exact.get_ydata(), dtype=float)[0])


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


def test_without_matplotlib_pictures_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = curves.epsilon_over_rounds(Gaussian(20.0), delta=1e-5, last=10, points=2)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UnsupportedError, match=r"pip install dprounds\[plots\]"):
        plots.epsilon_over_rounds(curve)


def test_numbers_and_plots_load_no_matplotlib() -> None:
    code = "import sys, dprounds.plots, dprounds.curves; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
