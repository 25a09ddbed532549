"""The command as a person runs it: in a process of its own that is killed, interrupted, or refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dprounds.sweep import local, run_sweep
from dprounds.sweep.rows import Task, answer_chunk
from tests.sweep.grids import QUICK, SLOW, lines, slow

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")

COMMAND = (sys.executable, "-m", "dprounds", "sweep")


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a shell that runs the tests in the background ignores the interrupt, and what it starts inherits that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  (no thread runs here)
    )


def until(condition: Any, *, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


@contextmanager
def halted(leader: int) -> Iterator[None]:
    """Let the processes of a session wait, so that nothing ends meanwhile."""
    os.killpg(leader, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(leader, signal.SIGCONT)


def group(leader: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if fields[0] != "Z" and int(fields[3]) == leader:
            found.append(int(path.parent.name))
    return found


def deaf(process: int) -> bool:
    """Whether SIGINT is blocked or ignored there."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return bool((int(status["SigBlk"], 16) | int(status["SigIgn"], 16)) >> (signal.SIGINT - 1) & 1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The slow grid's table, made without a stop by one worker."""
    path = tmp_path_factory.mktemp("whole") / "out.csv"
    run_sweep(slow(), path, workers=1)
    return path.read_bytes()


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(SLOW)
    return path


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted in /proc")
def test_a_killed_sweep_goes_on_and_neither_loses_nor_recomputes_a_row(
    finished: bytes, grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, partial = tmp_path / "out.csv", tmp_path / "out.csv.partial"
    with start(grid, "--out", path, "--workers", "2") as process:
        until(lambda: lines(partial) > 10)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not path.exists()
    until(lambda: not group(process.pid), seconds=20.0)  # the workers end with it
    chunks = lines(partial) - 1
    asked: list[int] = []

    def answer(task: Task) -> list[list[Any]]:
        asked.append(len(task[3]))
        return answer_chunk(task)

    monkeypatch.setattr(local, "answer_chunk", answer)
    summary = run_sweep(slow(), path, workers=1)
    assert path.read_bytes() == finished
    assert 10 <= chunks <= summary.kept < len(slow())
    assert sum(asked) == len(slow()) - summary.kept
    assert sorted(file.name for file in tmp_path.iterdir()) == ["grid.toml", "out.csv"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted in /proc")
def test_ctrl_c_says_how_to_go_on(finished: bytes, grid: Path, tmp_path: Path) -> None:
    path, partial = tmp_path / "out.csv", tmp_path / "out.csv.partial"
    with start(grid, "--out", path, "--workers", "2") as process:
        until(lambda: lines(partial) > 10)
        with halted(process.pid):
            children = set(group(process.pid)) - {process.pid}
            assert len(children) >= 2
            assert all(deaf(child) for child in children)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (130, "", "stopped; run the same command to go on\n")
    until(lambda: not group(process.pid), seconds=20.0)
    assert run_sweep(slow(), path, workers=1).kept >= 10
    assert path.read_bytes() == finished


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted in /proc")
def test_a_worker_that_dies_ends_the_sweep_with_a_sentence_and_its_rows_kept(
    finished: bytes, grid: Path, tmp_path: Path
) -> None:
    path, partial = tmp_path / "out.csv", tmp_path / "out.csv.partial"
    with start(grid, "--out", path, "--workers", "2") as process:
        until(lambda: lines(partial) > 10)
        with halted(process.pid):
            # the youngest: the oldest child of a pool keeps its resources, and is no worker
            os.kill(max(set(group(process.pid)) - {process.pid}), signal.SIGKILL)
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert error.startswith("Error: A worker process died")
    assert error.count("\n") == 1
    run_sweep(slow(), path, workers=1)
    assert path.read_bytes() == finished


def test_the_end_is_one_sentence_and_no_bar_where_there_is_no_terminal(tmp_path: Path) -> None:
    grid, path = tmp_path / "grid.toml", tmp_path / "out.csv"
    grid.write_text(QUICK)
    for sentence in (
        f"192 rows, 96 with an error: {path}\n",
        f"{path} holds all 192 rows already; --restart asks again.\n",
    ):
        with start(grid, "--out", path, "--workers", "1") as process:
            found = process.communicate(timeout=60)
        assert (process.returncode, *found) == (0, sentence, "")


def test_a_terminal_sees_a_bar(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty", reason="terminals are those of POSIX")
    grid, path = tmp_path / "grid.toml", tmp_path / "out.csv"
    grid.write_text(QUICK)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, grid, "--out", path, "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        text=True,
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                read = os.read(ours, 4096)
            except OSError:  # how Linux says that nobody holds the other end
                break
            if not read:
                break
            shown += read
        out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert b"192/192" in shown
    assert out == f"192 rows, 96 with an error: {path}\n"


def test_a_bad_grid_gets_one_line(tmp_path: Path) -> None:
    with start(tmp_path, "--out", tmp_path / "out.csv") as process:
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert error == f"Error: {tmp_path} cannot be read: Is a directory.\n"
