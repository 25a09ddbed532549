"""The same grid makes the same table, whatever happens on the way."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dprounds import questions
from dprounds.errors import ParameterError, PrivacyError, UnsupportedError
from dprounds.questions import QuestionError, Setting
from dprounds.sweep import Grid, SweepError, grid_from_toml, local, run_sweep
from dprounds.sweep.journal import Journal
from dprounds.sweep.rows import Task, answer_chunk
from tests.sweep.grids import QUICK, quick


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The quick grid's table, made without a stop by one worker."""
    path = tmp_path_factory.mktemp("whole") / "out.csv"
    run_sweep(quick(), path, workers=1)
    return path.read_bytes()


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class Stop(Exception):  # noqa: N818  (not an error: a stand-in for whatever ends a process)
    pass


def stop_after(rows: int) -> Callable[[int], None]:
    def progress(done: int) -> None:
        if done >= rows:
            raise Stop

    return progress


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The rows that are asked from now on, by one worker."""
    seen: list[Any] = []

    def answer(task: Task) -> list[list[Any]]:
        seen.extend(task[3])
        return answer_chunk(task)

    monkeypatch.setattr(local, "answer_chunk", answer)
    return seen


def test_two_workers_write_the_same_bytes_as_one(finished: bytes, tmp_path: Path) -> None:
    done: list[int] = []
    summary = run_sweep(quick(), tmp_path / "out.csv", workers=2, progress=done.append)
    assert (tmp_path / "out.csv").read_bytes() == finished
    assert sorted(done) == done
    assert done[-1] == summary.rows == len(quick())
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_a_row_is_what_the_question_answers(finished: bytes, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(finished)
    for row in rows_of(path)[:30:7]:
        setting = Setting(
            mechanism=row["mechanism"], noise_multiplier=float(row["noise_multiplier"]), rounds=int(row["rounds"])
        )
        found = questions.epsilon(setting, delta=float(row["delta"]), method=row["method"]).best.values
        assert (float(row["epsilon"]), float(row["order"])) == (found["epsilon"], found["order"])
        assert row["error"] == ""


def test_bad_rows_say_why_and_the_others_are_answered(finished: bytes, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(finished)
    rows = rows_of(path)
    for row in rows:
        if row["noise_multiplier"] in ("-1", "nan"):
            assert row["error"].startswith("noise_multiplier must be in (0, inf), got")
            assert row["epsilon"] == row["order"] == ""
    assert {bool(row["error"]) for row in rows} == {True, False}


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (
            'question = "epsilon"\nmethods = ["optimal"]\n[grid]\nnoise_multiplier = 1.1\nbatch_size = 256\n'
            "dataset_size = 60_000\nepochs = 60\ndelta = 1e-5",
            {"sampling_rate": 256 / 60_000, "rounds": 14100, "epsilon": 2.6003315, "order": 8.113, "lower": 0.0},
        ),
        (
            'question = "delta"\nmethods = ["exact"]\n[grid]\nnoise_multiplier = 20\nrounds = 685\nepsilon = 6',
            {"delta": 9.8401935e-6},
        ),
        (
            'question = "noise"\nmethods = ["moments"]\n[grid]\nrounds = 100\nepsilon = 1\ndelta = 1e-5',
            {"noise_multiplier": 49.0055566, "reached_epsilon": 1.0},
        ),
        (
            'question = "rate"\nmethods = ["balle"]\n[grid]\nnoise_multiplier = 4\nrounds = 100\ndataset_size = 1_000\n'
            "epsilon = 1\ndelta = 1e-5",
            {"sampling_rate": 0.0929994, "batch_size": 92, "reached_epsilon": 1.0},
        ),
        (
            'question = "rate"\nmethods = ["balle"]\n[grid]\nnoise_multiplier = 2\nepochs = 2\ndataset_size = 60\n'
            "epsilon = 2\ndelta = 1e-3",
            {"batch_size": 31, "rounds": 4, "reached_epsilon": 1.98078039},
        ),
        (
            'question = "epsilon"\nmethods = ["optimal"]\n[grid]\nmechanism = "rdp-curve"\norders = [2, 8]\n'
            "rdps = [0.1, 0.5]\nrounds = 1\ndelta = 1e-5",
            {"epsilon": 1.7097313},
        ),
    ],
    ids=["epsilon", "delta", "noise", "rate", "rate by epochs", "curve"],
)
def test_every_question_has_its_columns(text: str, row: dict[str, float], tmp_path: Path) -> None:
    grid = grid_from_toml(text)
    run_sweep(grid, tmp_path / "out.csv", workers=1)
    (found,) = rows_of(tmp_path / "out.csv")
    assert tuple(found) == grid.columns
    assert found["error"] == ""
    for name, value in row.items():
        # counts are exact, plans are found to a relative 1e-6, and epsilon hardly changes around the best order
        precision = {"rounds": 0.0, "batch_size": 0.0, "order": 1e-3}.get(name, 1e-6)
        assert float(found[name]) == pytest.approx(value, rel=precision, abs=0.0)


def test_a_stopped_sweep_goes_on_without_asking_twice(finished: bytes, tmp_path: Path, asked: list[Any]) -> None:
    path, grid = tmp_path / "out.csv", quick()
    for rows in (1, 60, 61, 150):
        with pytest.raises(Stop):
            run_sweep(grid, path, workers=1, progress=stop_after(rows))
        assert not path.exists()
    summary = run_sweep(grid, path, workers=1)
    assert path.read_bytes() == finished
    assert [row.words for row in asked if row.words["noise_multiplier"] == 5.0] == [
        row.words for row in grid.rows() if row.words["noise_multiplier"] == 5.0
    ]
    assert len(asked) == len(grid)
    assert 150 <= summary.kept < len(grid)
    assert f"({summary.kept:,} kept from before)" in summary.sentence


def test_a_journal_cut_anywhere_loses_only_what_was_cut(finished: bytes, tmp_path: Path, asked: list[Any]) -> None:
    path, partial, grid = tmp_path / "out.csv", tmp_path / "out.csv.partial", quick()
    with pytest.raises(Stop):
        run_sweep(grid, path, workers=1, progress=stop_after(len(grid)))
    whole = partial.read_bytes()
    assert partial.exists()
    for cut in (0, 1, 50, len(whole) // 2, len(whole) - 1):
        partial.write_bytes(whole[:cut])
        kept = max(whole[:cut].count(b"\n") - 1, 0)
        asked.clear()
        path.unlink(missing_ok=True)
        run_sweep(grid, path, workers=1)
        assert path.read_bytes() == finished
        assert len(asked) == len(grid) - 3 * kept


@pytest.mark.parametrize("damage", [b"\0" * 200, b"00000000 [0, []]\n", b"\xff\n"])
def test_a_damaged_line_is_asked_again(damage: bytes, finished: bytes, tmp_path: Path, asked: list[Any]) -> None:
    path, partial, grid = tmp_path / "out.csv", tmp_path / "out.csv.partial", quick()
    with pytest.raises(Stop):
        run_sweep(grid, path, workers=1, progress=stop_after(60))
    partial.write_bytes(partial.read_bytes() + damage)
    run_sweep(grid, path, workers=1)
    assert path.read_bytes() == finished
    assert len(asked) == len(grid)


def test_a_flipped_digit_is_asked_again_and_not_believed(finished: bytes, tmp_path: Path) -> None:
    path, partial, grid = tmp_path / "out.csv", tmp_path / "out.csv.partial", quick()
    with pytest.raises(Stop):
        run_sweep(grid, path, workers=1, progress=stop_after(60))
    head, second, rest = partial.read_bytes().split(b"\n", 2)
    place = second.index(b"[[") + 2
    digit = b"8" if second[place : place + 1] != b"8" else b"7"
    partial.write_bytes(b"\n".join([head, second[:place] + digit + second[place + 1 :], rest]))
    run_sweep(grid, path, workers=1)
    assert path.read_bytes() == finished


def other() -> Grid:
    return grid_from_toml(QUICK.replace("20.0", "21.0"))


def test_a_journal_of_another_grid_or_version_is_refused_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, partial = tmp_path / "out.csv", tmp_path / "out.csv.partial"
    with pytest.raises(Stop):
        run_sweep(quick(), path, workers=1, progress=stop_after(60))
    before = partial.read_bytes()
    with pytest.raises(SweepError, match=r"out\.csv\.partial holds rows of another grid .* --restart"):
        run_sweep(other(), path, workers=1)
    monkeypatch.setattr("dprounds.sweep.grid.version", lambda name: "9.9")
    with pytest.raises(SweepError, match="or of another version"):
        run_sweep(quick(), path, workers=1)
    assert partial.read_bytes() == before
    partial.write_bytes(b"somebody's notes\n")
    with pytest.raises(SweepError, match="delete the file"):
        run_sweep(quick(), path, workers=1)
    assert run_sweep(other(), path, workers=1, restart=True).kept == 0


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_finished_table_is_neither_asked_again_nor_replaced(ending: str, tmp_path: Path, asked: list[Any]) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    path = tmp_path / f"out.{ending}"
    first = run_sweep(quick(), path, workers=1)
    before = path.read_bytes()
    asked.clear()
    again = run_sweep(quick(), path, workers=1)
    assert (again.rows, again.errors, asked) == (first.rows, first.errors, [])
    assert "already" in again.sentence
    with pytest.raises(SweepError, match="is not this sweep's: choose another file, or pass --restart"):
        run_sweep(other(), path, workers=1)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    run_sweep(other(), path, workers=1, restart=True)
    assert path.read_bytes() != before


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\xff\xfe", b'"', b"cut"])
def test_a_file_that_is_not_the_table_is_not_replaced(content: bytes, ending: str, tmp_path: Path) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    path = tmp_path / f"out.{ending}"
    if content == b"cut":
        run_sweep(quick(), path, workers=1)
        content = path.read_bytes()[:-40]
    path.write_bytes(content)
    with pytest.raises(SweepError, match="is not this sweep's"):
        run_sweep(quick(), path, workers=1)
    assert path.read_bytes() == content


def test_two_sweeps_do_not_write_one_file(tmp_path: Path) -> None:
    path, grid = tmp_path / "out.csv", quick()
    partial = tmp_path / "out.csv.partial"
    with Journal(partial, fingerprint=grid.fingerprint, rows=len(grid), chunk=3, restart=False) as held:
        held.start()
        for restart in (False, True):
            with pytest.raises(SweepError, match=r"Another sweep is writing .*out\.csv:"):
                run_sweep(grid, path, workers=1, restart=restart)
    run_sweep(grid, path, workers=1)


def test_parquet_holds_what_csv_holds(finished: bytes, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    run_sweep(quick(), tmp_path / "out.parquet", workers=1)
    table = pq.read_table(tmp_path / "out.parquet")
    (tmp_path / "out.csv").write_bytes(finished)
    expected = rows_of(tmp_path / "out.csv")
    assert table.column_names == list(quick().columns)
    assert [str(kind) for kind in table.schema.types] == [
        *("string", "double", "double", "int64", "string", "double", "double", "double", "string")
    ]
    for ours, theirs in zip(table.to_pylist(), expected, strict=True):
        for name, value in ours.items():
            if value is None:
                assert theirs[name] == ""
            elif isinstance(value, str):
                assert theirs[name] == value
            else:
                assert float(theirs[name]) == value or math.isnan(value)


def test_counts_that_no_integer_column_holds_are_kept(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    text = 'question = "epsilon"\nmethods = ["moments"]\n[grid]\nnoise_multiplier = 1e18\ndelta = 0.1\n'
    text += "sampling_rate = 1e-10\n"
    run_sweep(grid_from_toml(f"{text}epochs = 1e20"), tmp_path / "a.parquet", workers=1)
    assert pq.read_table(tmp_path / "a.parquet")["rounds"].to_pylist() == [1e30]
    run_sweep(grid_from_toml(f"{text}rounds = [3, 2.5]"), tmp_path / "b.parquet", workers=1)
    assert pq.read_table(tmp_path / "b.parquet")["rounds"].to_pylist() == [3.0, 2.5]


def test_parquet_without_its_extra_is_refused_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dprounds.sweep.table.import_module", _not_installed)
    with pytest.raises(UnsupportedError, match=r"pip install '\.\[parquet\]'"):
        run_sweep(quick(), tmp_path / "out.parquet", workers=1)
    assert list(tmp_path.iterdir()) == []


def _not_installed(name: str) -> None:
    raise ImportError(name)


@pytest.mark.parametrize(
    "name", ["out.xlsx", "out", "missing/out.csv", "folder.csv", "grid.toml/out.csv", "o" * 300 + ".csv"]
)
def test_an_output_that_cannot_be_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "grid.toml").touch()
    with pytest.raises(PrivacyError) as caught:
        run_sweep(quick(), tmp_path / name, workers=1)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.csv", "grid.toml"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(SweepError, match="cannot be written: Permission denied"):
        run_sweep(quick(), tmp_path / "out.csv", workers=1)


def test_a_full_disk_keeps_the_rows_that_are_done(
    finished: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.csv"
    with monkeypatch.context() as patch:
        patch.setattr("dprounds.sweep.run.write_table", _full)
        with pytest.raises(SweepError, match="cannot be written: No space left"):
            run_sweep(quick(), path, workers=1)
    assert run_sweep(quick(), path, workers=1).kept == len(quick())
    assert path.read_bytes() == finished


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("workers", [0, -1, 1.5, math.nan])
def test_workers_are_counted(workers: Any, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="workers must be an integer in"):
        run_sweep(quick(), tmp_path / "out.csv", workers=workers)


def test_a_cluster_has_its_own_workers(tmp_path: Path) -> None:
    with pytest.raises(QuestionError, match="the cluster of the scheduler has its own"):
        run_sweep(quick(), tmp_path / "out.csv", workers=2, scheduler="tcp://127.0.0.1:1")


@pytest.mark.parametrize("kind", [ZeroDivisionError, OverflowError, ValueError, RecursionError])
def test_a_row_that_breaks_the_library_is_one_bad_row(
    kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = questions.epsilon

    def broken(setting: Setting, **budget: float) -> object:
        if setting.rounds == 2:
            raise kind("of\nsome sort")
        return asked(setting, **budget)  # type: ignore[arg-type]  # the method is no number

    monkeypatch.setattr(questions, "epsilon", broken)
    run_sweep(quick(), tmp_path / "out.csv", workers=1)
    rows = rows_of(tmp_path / "out.csv")
    assert {row["error"] for row in rows if row["rounds"] == "2"} == {f"{kind.__name__}: of some sort"}
    assert any(row["error"] == "" for row in rows)


def test_windows_has_no_lock_but_a_sweep(finished: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprounds.sweep.journal.fcntl", None)
    run_sweep(quick(), tmp_path / "out.csv", workers=1)
    assert (tmp_path / "out.csv").read_bytes() == finished
