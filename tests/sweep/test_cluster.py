"""A Dask cluster of two worker processes makes the table that this machine makes, even if one of them is killed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dprounds.errors import ParameterError, UnsupportedError
from dprounds.sweep import SweepError, cluster, run_sweep
from tests.sweep.grids import quick, slow

SECONDS = 60.0


@contextmanager
def process(module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A part of a cluster, which is gone afterwards whatever happens."""
    with subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{module}", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as part:
        try:
            yield part
        finally:
            part.kill()


@contextmanager
def running_scheduler(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a scheduler of our own, and its process."""
    file = folder / "scheduler.json"
    with process(
        "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)
    ) as part:
        end = time.monotonic() + SECONDS
        while True:
            assert part.poll() is None, "the scheduler ended"
            assert time.monotonic() < end, "the scheduler did not start"
            try:
                address: str = json.loads(file.read_text())["address"]
            except (FileNotFoundError, json.JSONDecodeError):  # not yet, or half of it
                time.sleep(0.05)
            else:
                break
        yield address, part


def worker(address: str, folder: Path) -> str:
    """The arguments of a worker without a nanny, which nobody starts again when it is killed."""
    return f"{address} --nthreads 1 --no-nanny --no-dashboard --host 127.0.0.1 --local-directory {folder}"


def wait_for_workers(address: str, count: int) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.Client(address, set_as_default=False, timeout=SECONDS) as client:
        client.wait_for_workers(count, timeout=SECONDS)


def test_a_cluster_that_loses_a_worker_midway_makes_the_same_table(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    grid = slow()
    run_sweep(grid, tmp_path / "local.csv", workers=1)
    with running_scheduler(tmp_path) as (address, _):
        arguments = worker(address, tmp_path).split()
        with process("dask_worker", *arguments) as first, process("dask_worker", *arguments):
            wait_for_workers(address, 2)
            killed_at: list[int] = []

            def progress(done: int) -> None:
                if done >= len(grid) // 4 and not killed_at:
                    first.kill()
                    first.wait()
                    killed_at.append(done)

            summary = run_sweep(grid, tmp_path / "cluster.csv", scheduler=address, progress=progress)
            assert killed_at
            assert killed_at[0] < len(grid)
            assert (summary.rows, summary.kept) == (len(grid), 0)
    assert (tmp_path / "cluster.csv").read_bytes() == (tmp_path / "local.csv").read_bytes()


@pytest.mark.parametrize(("lost", "sentence"), [("the workers", "has no workers left"), ("the scheduler", "went away")])
def test_a_cluster_that_goes_away_leaves_its_rows_to_be_gone_on_with(
    lost: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    monkeypatch.setattr(cluster, "IDLE_SECONDS", 2.0)
    monkeypatch.setattr(cluster, "LOOK_SECONDS", 1.0)
    grid, path = quick(), tmp_path / "out.csv"
    with (
        running_scheduler(tmp_path) as (address, scheduler),
        process("dask_worker", *worker(address, tmp_path).split()) as only,
    ):
        wait_for_workers(address, 1)

        def progress(done: int) -> None:
            if done:
                (only if lost == "the workers" else scheduler).kill()

        with pytest.raises(SweepError, match=rf"{sentence}\. The rows that are done are kept"):
            run_sweep(grid, path, scheduler=address, progress=progress)
    assert 0 < run_sweep(grid, path, workers=1).kept < len(grid)


@pytest.mark.parametrize("address", ["nonsense", "", "ftp://127.0.0.1:1", "tcp://[::1", "127.0.0.1"])
def test_a_malformed_address_gets_one_sentence(address: str, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    with pytest.raises(ParameterError, match="scheduler must be an address such as") as caught:
        run_sweep(quick(), tmp_path / "out.csv", scheduler=address)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("reply", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\nThis is no scheduler."])
def test_what_does_not_answer_as_a_scheduler_is_given_up(
    reply: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:  # closed: the test is over
                    return
                held.append(connection)
                if reply:
                    connection.sendall(reply)
                elif reply is not None:
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(SweepError, match=r"No Dask scheduler answers|is not a Dask scheduler"):
            run_sweep(quick(), tmp_path / "out.csv", scheduler=f"tcp://127.0.0.1:{server.getsockname()[1]}")
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10.0)
        for connection in held:
            connection.close()


def test_where_nothing_listens_is_given_up_in_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    with pytest.raises(SweepError, match=r"No Dask scheduler answers at 'tcp://127\.0\.0\.1:1' within 1 seconds"):
        run_sweep(quick(), tmp_path / "out.csv", scheduler="tcp://127.0.0.1:1")


def test_a_cluster_without_its_extra_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(cluster, "import_module", not_installed)
    with pytest.raises(UnsupportedError, match=r"pip install '\.\[dask\]'"):
        run_sweep(quick(), tmp_path / "out.csv", scheduler="tcp://127.0.0.1:1")
