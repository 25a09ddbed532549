"""The command that plans batch size and epochs, and the same question in a sweep."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dprounds import best_plan, curves
from dprounds.questions import plan
from dprounds.sweep.grid import grid_from_toml
from dprounds.sweep.rows import answer_chunk, chunk_of

Command = Callable[[str], tuple[int, str, str]]
ASKED = "--dataset-size 4000 --epsilon 1 --delta 1e-5 --epochs 10 --habit 64"


def test_the_table_has_a_row_for_each_batch_size_and_last_the_plan(
    dprounds: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = dprounds(f"plan {ASKED}")
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines())
    rows = [line.split() for line in out.splitlines() if line.rstrip().endswith(("epochs", "epoch")) and "%" in line]
    rows = [row for row in rows if row[0].replace(",", "").isdigit()]
    assert [row[0] for row in rows] == ["16", "32", "64", "128", "256", "512", "1,024", "2,048", "4,000", "256"]
    assert rows[-1][:4] == ["256", "128", "8", "2.9242"]
    assert "Multiply the learning rate by 4.92." in " ".join(out.split())


def test_a_narrow_terminal_keeps_the_batch_size_its_noise_and_what_it_wastes(
    dprounds: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = dprounds(f"plan {ASKED}")
    assert all(len(line) <= 40 for line in out.splitlines())
    head = next(line for line in out.splitlines() if "noise" in line)
    assert head.split() == ["batch", "size", "noise", "above", "floor"]
    assert "2.9242" in next(line for line in reversed(out.splitlines()) if line.split()[:1] == ["256"])


def test_json_holds_what_python_answers(dprounds: Command) -> None:
    code, out, _ = dprounds(f"plan {ASKED} --json")
    assert code == 0
    row = json.loads(out)["answers"][-1]
    best = best_plan(4_000, epsilon=1.0, delta=1e-5, epochs=10, habit=64).plan
    assert (row["batch_size"], row["rounds"], row["excess"]) == (best.batch_size, best.rounds, best.excess)
    assert row["one_more_epoch_epsilon"] == best.sensitivities.one_more_epoch.epsilon


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ("--dataset-size 4000 --epsilon 1 --delta 1e-5", 2, "give one of --epochs, --rounds and --examples."),
        ("--dataset-size 4000 --epsilon 1 --epochs 3", 2, "--delta is missing: choose it below"),
        ("--dataset-size 4000 --epsilon 0 --delta 1e-5 --epochs 3", 1, "--epsilon must be in (0, inf), got 0"),
        ("--dataset-size 4000 --epsilon 1 --delta 1e-5 --epochs 3 --habit 5000", 1, "--habit must be an integer in"),
        ("--dataset-size 4000 --epsilon 1 --delta 1e-5 --epochs nan", 1, "--epochs must be in (0, inf), got nan"),
        ("--dataset-size 4000 --epsilon 9 --delta 1e-5 --examples 500 --min-rounds 99", 1, "or lower --min-rounds."),
    ],
)
def test_a_refusal_is_one_line_in_flags(dprounds: Command, typed: str, code: int, said: str) -> None:
    found, out, err = dprounds(f"plan {typed}")
    assert (found, out) == (code, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_picture_is_drawn(dprounds: Command, tmp_path: Path) -> None:
    target = tmp_path / "plan.svg"
    asked = "--dataset-size 4000 --epsilon 1 --delta 1e-5 --epochs 200 --habit 4000 --sampling none"
    code, _, err = dprounds(f"plan {asked} --plot {target}")
    assert (code, err) == (0, "")
    assert target.read_text().startswith("<?xml")


def test_a_picture_shows_the_curves_that_reach_it_and_names_several_epochs() -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra plots")
    from dprounds import plots

    curve = curves.excess_over_epochs(
        60_000, epsilon=3.0, delta=1e-5, batch_sizes=[256, 16_384], epochs=30, points=3, sampling="shuffled"
    )
    figure = plots.excess_over_epochs(curve, marked={"plan": (30.0, 1.0)})
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines if np.size(line.get_xdata()) > 1] == ["batches of 16,384"]
    low, high = axes.get_xlim()
    named = [place for place in axes.xaxis.get_major_locator()() if low <= place <= high]
    assert len(named) >= 3


def test_a_plan_writes_large_numbers_out_and_calls_rounding_nothing() -> None:
    found = plan(dataset_size=60_000, epsilon=3.0, delta=1e-5, epochs=30, habit=16, sampling="shuffled")
    assert "e+" not in found.sentence
    assert re.search(r"Batches of 16 are \d,\d\d\d % above it\.", found.sentence)
    assert re.search(r"Multiply the learning rate by [\d,]+\.", found.sentence)
    assert "one more epoch changes the total noise by about 0 %," in found.remarks[0]


def test_the_curve_of_a_batch_size_goes_through_its_plan() -> None:
    found = plan(dataset_size=4_000, epsilon=1.0, delta=1e-5, rounds=160, min_rounds=1)
    row = next(row.values for row in found.answers if row.values["batch_size"] == 256)
    curve = curves.excess_over_epochs(4_000, epsilon=1.0, delta=1e-5, batch_sizes=[256], epochs=4, points=2)
    assert curve.epochs[256].tolist() == [10 / 16, 10.0]
    assert curve.excess[256][-1] == pytest.approx(row["excess"], abs=1e-5)
    assert curve.excess[256][0] > curve.excess[256][-1]


def test_a_sweep_asks_for_plans() -> None:
    grid = grid_from_toml(
        """
        question = "plan"
        [grid]
        dataset_size = 4000
        epsilon = [1.0, 3.0]
        delta = 1e-5
        epochs = 10
        """
    )
    assert len(grid) == 2
    rows = answer_chunk(chunk_of(grid, 0, 2)[1])
    names = grid.answered
    assert names[:3] == ("batch_size", "rounds", "reached_epochs")
    assert [row[:3] for row in rows] == [[256, 128, 8.0], [256, 160, 10.0]]
    assert [row[-1] for row in rows] == [None, None]
