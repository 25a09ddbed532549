"""The grid of the how-to is one, and its table is what the page says."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from dprounds.sweep import grid_from_toml, run_sweep

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "sweep.md"


def test_the_page_shows_a_grid_and_what_becomes_of_it(tmp_path: Path) -> None:
    page = PAGE.read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    summary = run_sweep(grid_from_toml(text), tmp_path / "rounds.csv", workers=1)
    assert summary.sentence.replace(str(summary.path), "rounds.csv") in page
    with summary.path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == summary.rows
    assert "reached_epsilon" in rows[0]
    for row in rows:
        assert 0.0 < float(row["reached_epsilon"]) <= float(row["epsilon"])
    for moments, balle, exact in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        assert int(moments["rounds"]) <= int(balle["rounds"]) <= int(exact["rounds"])
