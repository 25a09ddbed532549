"""The server: its port, its signals, its end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from dprounds import _validate
from dprounds.errors import ParameterError
from dprounds.web.app import create_app
from dprounds.web.guard import HEADERS
from dprounds.web.worker import encoded

__all__ = ["DEFAULT_PORT", "serve"]

DEFAULT_PORT = 8765
# Ports that are tried, from the default one on, where none is named.
PORTS_TRIED = 20
# When the server is stopped, requests under way may take this long.
GRACE_SECONDS = 3
# The guard refuses sooner and in a sentence; this is for connections that ask nothing.
MOST_CONNECTIONS = 1024
# Headers come at once, or over a slow line within seconds; a client that takes longer only holds a connection.
HEADER_SECONDS = 10.0
SECONDS_RANGE = _validate.Interval.parse("(0, 3600]")


class _Protocol(H11Protocol):
    """HTTP that waits a limited time for a request, and whose refusals carry the same headers as everything else."""

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in H11Protocol
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def handle_events(self) -> None:
        """Take in what came, and see whether it ends a wait or begins one."""
        super().handle_events()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Refuse, and hang up."""
        del msg
        self._refuse(400, "This is no HTTP request.")

    def _watch(self) -> None:
        """Keep the clock running while the client has a request to finish, or what is left of its body.

        Between requests uvicorn's own clock runs, until the first byte.
        """
        is_clients_turn = self.conn.our_state in (h11.IDLE, h11.DONE) and self.timeout_keep_alive_task is None
        if self.transport.is_closing() or not is_clients_turn:
            if self._overdue is not None:
                self._overdue.cancel()
                self._overdue = None
        elif self._overdue is None:
            self._overdue = self.loop.call_later(HEADER_SECONDS, self._hang_up)

    def _hang_up(self) -> None:
        """Refuse what is not complete; close without a word if there is nothing.

        A browser may connect before it has a question, and would take the refusal for the answer to it.
        """
        begun, _ = self.conn.trailing_data
        if begun:
            self._refuse(408, f"The headers must arrive within {HEADER_SECONDS:g} s.")
        else:
            self.transport.close()

    def _refuse(self, status: int, sentence: str) -> None:
        """Refuse, if nothing was answered yet, and hang up."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            content = encoded({"error": sentence})
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(content))),
                ("connection", "close"),
                ("cache-control", "no-store"),
                *HEADERS.items(),
            ]
            response = h11.Response(status_code=status, headers=headers)
            for event in (response, h11.Data(data=content), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class _Server(uvicorn.Server):
    """A server that says when it is ready, and for which a signal to stop is a good end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        if self.started:
            self.ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal, without raising it again afterwards: the exit code is 0."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread has signals
            return

        def handle(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _say(line: str) -> None:
    print(line, flush=True)


def serve(
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    open_browser: bool = False,
    workers: int = 3,
    seconds: float = 10.0,
    hosts: Sequence[str] = (),
    ledger: str | None = None,
    say: Callable[[str], None] = _say,
) -> None:
    """Serve the page until SIGTERM or SIGINT.

    Parameters
    ----------
    host
        The address to listen at; by default only this machine can reach it.
    port
        The port, 0 for any that is free; by default 8765, or one of the next if that is taken.
    open_browser
        Whether to open the page once it is there.
    workers
        How many processes compute.
    seconds
        How long one computation may take.
    hosts
        Names that the server goes by, in addition to `host`, localhost and numeric addresses.
    ledger
        The URL of a ledger, to be asked over HTTP by those who have a token; by default there is none.
    say
        What takes the one line that says where the page is.
    """
    workers = _validate.count("workers", workers, least=1)
    seconds = _validate.real("seconds", seconds, SECONDS_RANGE)
    listening = _listen(host, port)
    address = _address(host, listening.getsockname()[1])

    def ready() -> None:
        say(f"The page is at {address} (Ctrl-C stops it).")
        if open_browser:
            # in a thread of its own: some browsers return only when they are closed
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    try:
        app = create_app(workers=workers, seconds=seconds, hosts=(host, *hosts), ledger=ledger)
    except ParameterError as error:
        listening.close()
        if error.argument == "url":  # of the ledger
            raise ParameterError(error.sentence, argument="ledger", advice=error.advice, **error.fields) from None
        raise
    with listening:
        _Server(_config(app), ready).run(sockets=[listening])


def _config(app: ASGIApp) -> uvicorn.Config:
    """How uvicorn is to serve `app`."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=16_384,
        limit_concurrency=MOST_CONNECTIONS,
        http=_Protocol,
        proxy_headers=False,
        ws="none",
    )


def _listen(host: str, port: int | None) -> socket.socket:
    """A socket that listens at `port`, or if that is None at the first free one from the default."""
    first = DEFAULT_PORT if port is None else _validate.count("port", port, most=65535)
    last_trouble: OSError | None = None
    for candidate in range(first, first + (PORTS_TRIED if port is None else 1)):
        try:
            return _bound(host, candidate)
        except OSError as trouble:
            last_trouble = trouble
            if isinstance(trouble, socket.gaierror) or trouble.errno == errno.EADDRNOTAVAIL:  # no port will help
                raise ParameterError(
                    "{argument} must be an address of this machine, got {value}: {trouble}.",
                    argument="host",
                    value=_validate.show(host),
                    trouble=trouble.strerror or trouble,
                ) from None
    assert last_trouble is not None
    raise ParameterError(
        "{argument} must be free at {place}, got {value}: {trouble}.",
        argument="port",
        place=host,
        value=first,
        trouble=last_trouble.strerror or last_trouble,
        advice="Name another, or 0 for any that is free.",
    )


def _bound(host: str, port: int) -> socket.socket:
    """A socket bound to `host` and `port`."""
    family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
        0
    ]
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port left a moment ago is free
        found.bind(place)
        found.listen(128)
    except OSError:
        found.close()
        raise
    return found


def _address(host: str, port: int) -> str:
    """Where a browser on this machine finds the page."""
    name = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}/"
