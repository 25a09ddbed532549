"""The server starts, stops and fails in an orderly way, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from dprounds.errors import ParameterError
from dprounds.web.pool import BusyError, Cache, CrashedError, GoneError, Pool, Reply, TooLongError
from dprounds.web.server import serve
from tests.web.conftest import Start

on_posix = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="freezes processes by signal")
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")

QUICK = {"order": 8, "rdp": 0.5, "delta": 1e-5}
OTHER = {"order": 9, "rdp": 0.5, "delta": 1e-5}
LONG = {"mechanism": "laplace", "noise_multiplier": 1.1, "rounds": 14_000, "points": 400}


def freeze(pids: Iterable[int]) -> None:
    """Make workers take forever."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def is_running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def until(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def asked_aside(address: str, asked: Mapping[str, object]) -> tuple[threading.Thread, list[httpx.Response]]:
    """A question asked by a thread of its own, and where its answer will be, if any comes."""
    answers: list[httpx.Response] = []

    def ask() -> None:
        with contextlib.suppress(httpx.HTTPError):
            answers.append(httpx.get(f"{address}?{urlencode(asked)}", timeout=60))

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.5)
    return thread, answers


@on_linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_and_its_workers_with_exit_code_0(start_server: Start, number: int) -> None:
    server = start_server("port=0, workers=2")
    workers = server.workers()
    assert len(workers) == 2
    assert server.stop(number) == 0
    assert not any(map(is_running, workers))
    assert server.log.read_text() == ""


@on_linux
def test_a_signal_stops_the_server_amid_a_computation(start_server: Start) -> None:
    server = start_server()
    workers = server.workers()
    freeze(workers)
    asking, _ = asked_aside(f"{server.address}api/convert", QUICK)
    begun = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - begun < 10
    asking.join()
    assert not any(map(is_running, workers))


@on_linux
def test_workers_do_not_outlive_a_server_that_is_killed(start_server: Start) -> None:
    server = start_server("port=0, workers=2")
    workers = server.workers()
    asking, _ = asked_aside(f"{server.address}api/trade-off", LONG)  # one of them computes
    server.process.kill()
    server.process.wait()
    asking.join()
    assert until(lambda: not any(map(is_running, workers)), seconds=5)


@on_linux
def test_a_worker_that_dies_gives_a_500_that_says_nothing_and_another_takes_its_place(start_server: Start) -> None:
    server = start_server()
    workers = server.workers()
    freeze(workers)
    asking, answers = asked_aside(f"{server.address}api/convert", QUICK)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    asking.join()
    assert answers[0].status_code == 500
    assert answers[0].json() == {
        "error": "Something went wrong here, and nothing was answered. The server's log says more."
    }
    assert answers[0].headers["x-content-type-options"] == "nosniff"
    assert httpx.get(f"{server.address}api/convert?{urlencode(QUICK)}", timeout=60).status_code == 200
    assert "A worker ended while it answered convert" in server.log.read_text()


@on_linux
def test_a_computation_that_takes_too_long_is_stopped_in_a_sentence_and_the_next_is_answered(
    start_server: Start,
) -> None:
    server = start_server("port=0, workers=1, seconds=0.5")
    freeze(server.workers())
    begun = time.monotonic()
    refused = httpx.get(f"{server.address}api/convert?{urlencode(QUICK)}", timeout=30)
    assert 0.5 <= time.monotonic() - begun < 5
    assert refused.status_code == 422
    assert refused.json()["error"].startswith("This takes longer than 0.5 s to compute, and was stopped.")
    assert httpx.get(f"{server.address}api/convert?{urlencode(OTHER)}", timeout=60).status_code == 200


def test_a_port_that_is_taken_is_refused_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ParameterError, match=rf"^port must be free at 127\.0\.0\.1, got {port}: .*\.$"):
            serve(port=port)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"port": 65_536}, "port must be an integer in [0, 65535], got 65536."),
        ({"port": -1}, "port must be an integer in [0, inf), got -1."),
        ({"workers": 0}, "workers must be an integer in [1, inf), got 0."),
        ({"seconds": float("nan")}, "seconds must be in (0, 3600], got nan."),
    ],
)
def test_what_cannot_be_served_is_refused(wrong: dict[str, float], sentence: str) -> None:
    with pytest.raises(ParameterError) as refused:
        serve(**wrong)  # type: ignore[arg-type]  # wrong on purpose
    assert str(refused.value) == sentence


def test_a_host_that_is_unknown_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"^port must be free at no\.such\.host\.invalid"):
        serve(host="no.such.host.invalid")


@contextlib.asynccontextmanager
async def opened(**changes: float) -> AsyncIterator[Pool]:
    """A pool of one worker."""
    arguments: dict[str, Any] = {"workers": 1, "seconds": 30.0, "waiting": 4, "cache_bytes": 10_000} | changes
    pool = Pool(**arguments)
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


@on_posix
def test_a_pool_stops_what_takes_too_long_and_refuses_what_may_not_wait() -> None:
    async def scene() -> None:
        async with opened(seconds=0.5, waiting=0) as pool:
            freeze(pool.pids())
            first = asyncio.ensure_future(pool.ask("convert", QUICK))
            await asyncio.sleep(0.05)
            with pytest.raises(BusyError):
                await pool.ask("convert", QUICK)
            with pytest.raises(TooLongError):
                await first
            assert (await pool.ask("convert", QUICK)).status == 200

    asyncio.run(scene())


@on_posix
@pytest.mark.parametrize("leaves_after", [0.0, 0.7])
def test_a_pool_stops_what_nobody_waits_for(leaves_after: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprounds.web.pool.WORTH_FINISHING", 0.5)

    async def scene() -> None:
        async with opened() as pool:
            freeze(pool.pids())
            waiting = asyncio.ensure_future(pool.ask("convert", QUICK, lambda: asyncio.sleep(leaves_after + 0.1)))
            with pytest.raises(GoneError):
                await pool.ask("convert", OTHER, lambda: asyncio.sleep(leaves_after))
            with pytest.raises(GoneError):  # it waited for the same worker
                await waiting
            assert (await pool.ask("convert", QUICK)).status == 200

    asyncio.run(scene())


@on_posix
def test_a_cancelled_question_costs_the_pool_no_worker() -> None:
    async def scene() -> None:
        async with opened() as pool:
            freeze(pool.pids())
            tasks = [asyncio.ensure_future(pool.ask("convert", asked)) for asked in (QUICK, OTHER)]
            await asyncio.sleep(0.1)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert (await pool.ask("convert", QUICK)).status == 200

    asyncio.run(scene())


@on_posix
def test_long_questions_leave_a_worker_for_quick_ones() -> None:
    async def scene() -> None:
        async with opened(workers=2) as pool:
            long = [asyncio.ensure_future(pool.ask("trade-off", LONG | {"rounds": rounds})) for rounds in (1, 2, 3)]
            await asyncio.sleep(0.1)
            assert (await pool.ask("convert", QUICK, quick=True)).status == 200
            assert not all(task.done() for task in long)
            assert {reply.status for reply in await asyncio.gather(*long)} == {200}

    asyncio.run(scene())


@on_posix
def test_what_is_remembered_needs_no_worker() -> None:
    async def scene() -> None:
        async with opened() as pool:
            first = await pool.ask("convert", QUICK)
            freeze(pool.pids())
            assert await pool.ask("convert", dict(reversed(QUICK.items()))) == first

    asyncio.run(scene())


def test_an_error_that_nobody_foresaw_ends_the_worker_only(capfd: pytest.CaptureFixture[str]) -> None:
    async def scene() -> None:
        async with opened() as pool:
            with pytest.raises(CrashedError):
                await pool.ask("no such question", {})
            assert (await pool.ask("convert", QUICK)).status == 200

    asyncio.run(scene())
    assert "KeyError" in capfd.readouterr().err  # said on standard error, where the owner looks


def test_a_cache_keeps_the_last_answers_up_to_its_size() -> None:
    cache = Cache(most_bytes=100)
    for i in range(10):
        cache.put(b"%d" % i, Reply(200, bytes(29)))
        cache.get(b"0")
    assert cache.size <= 100
    assert cache.get(b"0")
    assert cache.get(b"9")
    assert cache.get(b"8") is None or cache.get(b"7") is None
    cache.put(b"large", Reply(200, bytes(1000)))
    assert cache.size <= 100
