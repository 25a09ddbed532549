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
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from dprounds.errors import ParameterError
from dprounds.web.app import create_app
from dprounds.web.guard import HEADERS
from dprounds.web.server import _config, _Server, serve
from tests.web.conftest import Start
from tests.web.test_pool import LONG, OTHER, QUICK, freeze

# A worker for which no noise is ever enough.
ENDLESS_NOISE = """
import numpy as np
from dprounds.web import worker

answer = worker.answer

def answer_or_go_on(question, *given):
    while question == "noise":
        np.exp(1.0)
    return answer(question, *given)

worker.answer = answer_or_go_on
worker.main()
"""

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")


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
    assert server.stop() == 0
    asking.join()
    assert not any(map(is_running, workers))


@on_linux
def test_workers_do_not_outlive_a_server_that_is_killed(start_server: Start) -> None:
    server = start_server("port=0, workers=2")
    workers = server.workers()
    asking, _ = asked_aside(f"{server.address}api/noise", LONG)  # one of them computes
    server.process.kill()
    server.process.wait()
    asking.join()
    assert until(lambda: not any(map(is_running, workers)))


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
    server = start_server("port=0, workers=1, seconds=0.5", ENDLESS_NOISE)
    workers = server.workers()
    for hears, address in ((True, f"noise?{urlencode(LONG)}"), (False, f"convert?{urlencode(QUICK)}")):
        refused = httpx.get(f"{server.address}api/{address}", timeout=60)
        assert refused.status_code == 422
        assert refused.json()["error"].startswith("This takes longer than 0.5 s to compute, and was stopped.")
        if hears:
            assert server.workers() == workers  # it heard, and is free; the next is asked of one that does not hear
            freeze(workers)
    assert httpx.get(f"{server.address}api/convert?{urlencode(OTHER)}", timeout=60).status_code == 200
    assert server.workers() != workers


@on_linux
def test_a_client_that_hangs_up_leaves_its_worker_to_the_next(start_server: Start) -> None:
    server = start_server("port=0, workers=1, seconds=3600", ENDLESS_NOISE)
    workers = server.workers()
    for seconds in (0.5, 0.05, 0.005):
        with pytest.raises(httpx.ReadTimeout):
            httpx.get(f"{server.address}api/noise?{urlencode(LONG)}", timeout=httpx.Timeout(20, read=seconds))
    # what was given up has no end, and nobody else computes
    assert httpx.get(f"{server.address}api/convert?{urlencode(QUICK)}", timeout=60).status_code == 200
    assert server.workers() == workers
    assert server.stop() == 0
    assert server.log.read_text() == ""


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
        ({"port": -1}, "port must be an integer in [0, 65535], got -1."),
        ({"workers": 0}, "workers must be an integer in [1, inf), got 0."),
        ({"seconds": float("nan")}, "seconds must be in (0, 3600], got nan."),
    ],
)
def test_what_cannot_be_served_is_refused(wrong: dict[str, float], sentence: str) -> None:
    with pytest.raises(ParameterError) as refused:
        serve(**wrong)  # type: ignore[arg-type]  # wrong on purpose
    assert str(refused.value) == sentence


def test_a_host_that_is_unknown_is_refused() -> None:
    for host in ("no.such.host.invalid", "192.0.2.1"):  # nobody's name, and an address kept for documentation
        with pytest.raises(ParameterError, match=f"^host must be an address of this machine, got '{host}'"):
            serve(host=host)


# By a clock that the test moves. They are long, so that what passes meanwhile by itself is nothing.
HEADER_SECONDS = 1000.0
BODY_SECONDS = 3000.0
IDLE_SECONDS = 5000.0
GET = b"GET /static/icon.svg HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /api/convert HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
BODY = b'{"order":8,"rdp":0.5,"delta":1e-5}'


class MovedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test can move on."""

    moved = 0.0

    def time(self) -> float:
        """The time, as the loop and all its timers take it."""
        return super().time() + self.moved


async def pass_by(seconds: float) -> None:
    """Let so much time pass, and whatever is due then happen."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MovedLoop)
    await settled()
    loop.moved += seconds
    await settled()


async def settled() -> None:
    """Let what was sent arrive and be read: on loopback, within a turn or two of the loop."""
    for _ in range(20):
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[int]:
    """The port of a server in this process."""
    ready = asyncio.Event()
    config = _config(create_app(workers=1))
    config.timeout_keep_alive = IDLE_SECONDS  # type: ignore[assignment]  # uvicorn only adds it to the time
    server = _Server(config, ready.set)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = asyncio.ensure_future(server.serve(sockets=[listener]))
        await asyncio.wait_for(ready.wait(), 60)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await running


@dataclass
class Connection:
    """What a client sends piece by piece, and what it gets."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def drip(self, content: bytes, *, seconds: float) -> None:
        """Send `content` in ten pieces, the last of them after so many seconds."""
        for piece in range(10):
            await pass_by(seconds / 9 if piece else 0.0)
            self.writer.write(content[piece * len(content) // 10 : (piece + 1) * len(content) // 10])

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content of the next response."""
        lines = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 60)).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), headers, await self.reader.readexactly(int(headers["content-length"]))

    async def rest(self) -> bytes:
        """All that comes until the server hangs up."""
        return await asyncio.wait_for(self.reader.read(), 60)


Scene = Callable[[Connection], Awaitable[None]]


async def _headers_in_the_last_moment(client: Connection) -> None:
    await client.drip(GET + b"\r\n", seconds=0.9 * HEADER_SECONDS)
    assert (await client.response())[0] == 200


async def _headers_that_drip(client: Connection) -> None:
    await client.drip(GET + b"x: " + b"y" * 200, seconds=0.9 * HEADER_SECONDS)
    await pass_by(0.2 * HEADER_SECONDS)
    status, headers, content = await client.response()
    assert status == 408
    assert content == b'{"error":"The headers must arrive within 1000 s."}'
    assert HEADERS.items() <= headers.items()
    assert headers["connection"] == "close"
    assert await client.rest() == b""


async def _nothing_sent(client: Connection) -> None:
    await pass_by(1.1 * HEADER_SECONDS)
    assert await client.rest() == b""  # a browser that connects ahead would take a refusal for its answer


async def _kept_alive(client: Connection) -> None:
    client.writer.write(GET + b"\r\n")
    assert (await client.response())[0] == 200
    await pass_by(1.2 * HEADER_SECONDS)
    await client.drip(GET + b"\r\n", seconds=0.3 * HEADER_SECONDS)
    assert (await client.response())[0] == 200
    client.writer.write(GET)  # and no end
    await pass_by(1.1 * HEADER_SECONDS)
    status, headers, _ = await client.response()
    assert status == 408
    assert HEADERS.items() <= headers.items()
    assert await client.rest() == b""


async def _pipelined(client: Connection) -> None:
    client.writer.write(2 * (GET + b"\r\n"))
    assert (await client.response())[0] == (await client.response())[0] == 200


async def _a_slow_body(client: Connection) -> None:
    client.writer.write(POST + b"content-length: %d\r\n\r\n" % len(BODY))
    await client.drip(BODY, seconds=1.5 * HEADER_SECONDS)
    status, _, content = await client.response()
    assert (status, b'"question":"convert"' in content) == (200, True)


async def _a_body_that_does_not_end(client: Connection) -> None:
    client.writer.write(POST + b"content-length: 99\r\n\r\n{")
    await pass_by(1.1 * BODY_SECONDS)
    status, _, content = await client.response()
    assert (status, content) == (408, b'{"error":"The body must arrive within 3000 s."}')


async def _a_body_cut_short(client: Connection) -> None:
    client.writer.write(POST + b"content-length: 99\r\n\r\n{")
    await pass_by(0.5 * HEADER_SECONDS)
    client.writer.close()
    await settled()


async def _a_body_after_the_answer(client: Connection) -> None:
    client.writer.write(GET + b"content-length: 99\r\n\r\n")
    assert (await client.response())[0] == 200
    client.writer.write(b"{")
    await pass_by(1.1 * HEADER_SECONDS)
    assert await client.rest() == b""


async def _nonsense_after_the_answer(client: Connection) -> None:
    client.writer.write(GET + b"transfer-encoding: chunked\r\n\r\n")
    assert (await client.response())[0] == 200
    client.writer.write(b"no length\r\n")
    assert await client.rest() == b""


SCENES: dict[str, Scene] = {
    "headers may take as long as they may": _headers_in_the_last_moment,
    "headers that drip in are refused in a sentence": _headers_that_drip,
    "a connection that says nothing is closed without a word": _nothing_sent,
    "a connection is kept for further requests, each in time": _kept_alive,
    "requests may come at once": _pipelined,
    "a body may take longer than headers": _a_slow_body,
    "a body that does not end is refused in its own time": _a_body_that_does_not_end,
    "a body cut short by who hangs up is no trouble": _a_body_cut_short,
    "a body that follows the answer holds no connection": _a_body_after_the_answer,
    "nonsense that follows the answer is not answered": _nonsense_after_the_answer,
}


def test_a_slow_client_gets_its_time_and_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dprounds.web.server.HEADER_SECONDS", HEADER_SECONDS)
    monkeypatch.setattr("dprounds.web.app.BODY_SECONDS", BODY_SECONDS)
    # what is logged is looked at below
    monkeypatch.setattr("uvicorn.Config.configure_logging", lambda _: None)

    async def all_scenes() -> None:
        async with listening() as port:
            for name, scene in SCENES.items():
                client = Connection(*await asyncio.open_connection("127.0.0.1", port))
                try:
                    await scene(client)
                except Exception as trouble:
                    trouble.add_note(name)
                    raise
                finally:
                    client.writer.close()

    with asyncio.Runner(loop_factory=MovedLoop) as runner:
        runner.run(all_scenes())
    assert not [record for record in caplog.records if record.exc_info]
