"""The paper in one command: its figures, their data, its claims."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from dprounds import Gaussian, PoissonSampled, paper
from dprounds.cli import main


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_paper_is_recomputed_into_pictures_tables_and_claims(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "figures"
    assert main(["paper", "--out", str(out)]) == 0
    printed, complaints = capsys.readouterr()
    assert complaints == ""
    pictures = ("figure-1", "figure-2", "figure-3", "figures-2-and-3-exact")
    tables = ("figure-1", "figure-2", "figure-3", "claims")
    assert {path.name for path in out.iterdir()} == {
        *(f"{name}.{ending}" for name in pictures for ending in ("png", "svg")),
        *(f"{name}.csv" for name in tables),
    }
    claims = rows(out / "claims.csv")
    assert [row["claim"] for row in claims] == [claim.what for claim in paper.claims()]
    assert {row["agrees"] for row in claims} == {"yes"}
    assert "3 of the paper's 3 claims agree" in printed
    for row in rows(out / "figure-2.csv")[::57]:
        if row["method"] in ("optimal", "exact"):
            run = Gaussian(20.0) * int(row["rounds"])
            assert float(row["epsilon"]) == run.epsilon(delta=1e-5, method=row["method"])
    last = [row for row in rows(out / "figure-3.csv") if row["method"] == "exact"][-1]
    run = PoissonSampled(Gaussian(4.0), 0.001) * int(last["rounds"])
    assert float(last["epsilon"]) == run.epsilon(delta=1e-5, method="exact")


def test_a_place_that_is_no_directory_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["paper", "--out", str(tmp_path / "file")]) == 1
    printed, complaint = capsys.readouterr()
    assert printed == ""
    assert complaint.count("\n") == 1
    assert "cannot be made a directory" in complaint


def test_without_matplotlib_the_data_and_the_claims_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["paper", "--out", str(tmp_path / "figures")]) == 0
    printed, complaints = capsys.readouterr()
    assert complaints == ""
    assert "No figures: pictures need Matplotlib. In a checkout of dprounds: pip install" in " ".join(printed.split())
    assert "3 of the paper's 3 claims agree" in printed
    tables = ("figure-1", "figure-2", "figure-3", "claims")
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {f"{name}.csv" for name in tables}
