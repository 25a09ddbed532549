"""A sweep that cannot begin leaves nothing behind; one that is ended by SIGTERM ends its workers too."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dprounds.cli import main

GRID = """
question = "epsilon"
[grid]
noise_multiplier = { from = 1, to = 2, points = 400 }
sampling_rate = 0.01
rounds = [1000, 2000]
delta = 1e-5
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return path


def test_without_dask_a_cluster_is_refused_and_nothing_is_written(
    grid: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    words = ["sweep", str(grid), "--out", str(grid.parent / "x.csv"), "--scheduler", "tcp://127.0.0.1:1"]
    assert main(words) == 1
    assert "pip install '.[dask]'" in capsys.readouterr().err
    assert list(grid.parent.iterdir()) == [grid]


def test_sigterm_ends_a_sweep_in_one_line_with_its_rows_kept(grid: Path) -> None:
    partial = grid.parent / "x.csv.partial"
    words = ["sweep", str(grid), "--out", str(grid.parent / "x.csv"), "--workers", "2"]
    with subprocess.Popen(
        [sys.executable, "-m", "dprounds", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        end = time.monotonic() + 60
        while not partial.exists() or partial.read_bytes().count(b"\n") < 3:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (143, "", "stopped; run the same command to go on\n")
    assert partial.exists()
