"""Warm worker processes, each computation bounded in time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
from asyncio.subprocess import Process
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from dprounds.web.worker import FRAME, GIVEN_UP, NO_LONGER_WANTED, encoded

__all__ = ["BusyError", "Cache", "CrashedError", "GoneError", "Pool", "Reply", "TooLongError", "key"]

logger = logging.getLogger("uvicorn.error")

T = TypeVar("T")

# Python, NumPy and SciPy start within a second or two, on a machine that has nothing else to do.
START_SECONDS = 60.0
# A computation that is given up ends within milliseconds, unless a single call into C takes longer. To wait for it this
# long costs less than the start of another worker.
STOP_SECONDS = 1.0
# What Python runs as a worker.
WORKER = ("-P", "-m", "dprounds.web.worker")


class BusyError(Exception):
    """More questions wait than may."""


class TooLongError(Exception):
    """A computation took longer than its limit, and was stopped."""


class CrashedError(Exception):
    """A worker ended during a computation; it said why on standard error."""


class GoneError(Exception):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True)
class Reply:
    """Status and JSON of an answer."""

    status: int
    content: bytes


class Cache:
    """The last answers, up to a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.size = 0
        self._known: OrderedDict[bytes, Reply] = OrderedDict()

    def get(self, key: bytes) -> Reply | None:
        """The answer to `key`, if it is still known."""
        if key in self._known:
            self._known.move_to_end(key)
        return self._known.get(key)

    def put(self, key: bytes, reply: Reply) -> None:
        """Keep an answer, and let go of those not asked for the longest."""
        if key in self._known:
            return
        self._known[key] = reply
        self.size += len(key) + len(reply.content)
        while self.size > self.most_bytes:
            old, gone = self._known.popitem(last=False)
            self.size -= len(old) + len(gone.content)


class Worker:
    """One process and what it is doing."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @classmethod
    async def start(cls) -> Worker:
        """A process that is warm."""
        # Each worker has a core to itself: the threads of a BLAS would only get in each other's way.
        alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **alone},
            start_new_session=True,  # an interrupt from the keyboard is for the server, which then ends its workers
        )
        worker = cls(process)
        try:
            await asyncio.wait_for(worker._receive(), START_SECONDS)
        except BaseException:
            await worker.stop()
            raise
        return worker

    async def ask(self, line: bytes) -> Reply:
        """The reply to a line."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line)
            await self.process.stdin.drain()
        except ConnectionError:
            raise CrashedError from None
        return await self._receive()

    def give_up(self) -> None:
        """Say that the last line is no longer wanted: its reply comes soon, `GIVEN_UP` or still the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(NO_LONGER_WANTED)

    async def _receive(self) -> Reply:
        assert self.process.stdout is not None
        try:
            status, length = FRAME.unpack(await self.process.stdout.readexactly(FRAME.size))
            return Reply(status, await self.process.stdout.readexactly(length))
        except asyncio.IncompleteReadError:
            raise CrashedError from None

    async def stop(self) -> None:
        """End the process, whatever it is doing."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


class Pool:
    """Workers, a queue of bounded length before them, and the answers that were given last.

    Parameters
    ----------
    workers
        How many compute at once.
    seconds
        How long a computation may take.
    waiting
        How many may wait for a worker.
    cache_bytes
        How much of the answers to remember.
    """

    def __init__(self, *, workers: int, seconds: float, waiting: int, cache_bytes: int) -> None:
        self.workers = workers
        self.seconds = seconds
        self.waiting = waiting
        self.cache = Cache(cache_bytes)
        self._idle: asyncio.LifoQueue[Worker] = asyncio.LifoQueue()
        # One worker is kept for quick questions, so that an answer need not wait for the curves of the last one.
        self._permits: asyncio.LifoQueue[int] = asyncio.LifoQueue()
        for permit in range(max(workers - 1, 1)):
            self._permits.put_nowait(permit)
        self._alive: set[Worker] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._in_line = 0
        self._open = False

    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [worker.process.pid for worker in self._alive]

    async def open(self) -> None:
        """Start the workers, and return when all are warm."""
        self._open = True
        await asyncio.gather(*(self._add() for _ in range(self.workers)))

    async def close(self) -> None:
        """End the workers."""
        self._open = False
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in self._alive))
        self._alive.clear()

    async def ask(
        self,
        question: str,
        given: Mapping[str, object],
        gone: Callable[[], Awaitable[object]] | None = None,
        *,
        quick: bool = False,
        parts: Iterable[str] = (),
    ) -> Reply:
        """The reply to a question, computed or remembered.

        Parameters
        ----------
        question, given
            As `asked.answer` takes them.
        gone
            Returns when nobody waits for the answer any more.
        quick
            Whether the answer is soon there; all workers but one may be busy with what is not.
        parts
            Methods that have a row each in the answer: what one of them answered to the same question is not computed
            again.
        """
        name = key(question, given)
        if known := self.cache.get(name):
            return known
        rows = self._rows(question, given, parts)
        line = encoded([question, dict(given), rows]) + b"\n"
        if self._in_line >= self.workers + self.waiting:
            raise BusyError
        self._in_line += 1
        leaving = asyncio.ensure_future(gone()) if gone else None
        try:
            reply = await self._in_turn(name, line, leaving, quick=quick)
        finally:
            self._in_line -= 1
            if leaving:
                leaving.cancel()
        self.cache.put(name, reply)
        return reply

    def _rows(self, question: str, given: Mapping[str, object], parts: Iterable[str]) -> list[object]:
        """The rows that are remembered of an answer that has one for each of these methods."""
        replies = (self.cache.get(key(question, {**given, "method": method})) for method in parts)
        return [
            row for reply in replies if reply and reply.status == 200 for row in json.loads(reply.content)["answers"]
        ]

    async def _in_turn(self, name: bytes, line: bytes, leaving: asyncio.Future[object] | None, *, quick: bool) -> Reply:
        if quick:
            return await self._computed(name, line, leaving)
        permit = await self._taken(self._permits, leaving)
        try:
            return await self._computed(name, line, leaving)
        finally:
            self._permits.put_nowait(permit)

    async def _computed(self, name: bytes, line: bytes, leaving: asyncio.Future[object] | None) -> Reply:
        worker = await self._taken(self._idle, leaving)
        # Someone in the queue before us may have asked the same.
        if known := self.cache.get(name):
            self._idle.put_nowait(worker)
            return known
        asking = asyncio.ensure_future(worker.ask(line))
        reply = None
        given_up: Exception | None = None
        try:
            await _first(asking, leaving, seconds=self.seconds)
            if not asking.done():
                given_up = GoneError() if leaving and leaving.done() else TooLongError()
                worker.give_up()
                await _first(asking, None, seconds=STOP_SECONDS)
                if not asking.done() or asking.exception():
                    raise given_up
            reply = asking.result()
        finally:
            if reply is not None:
                self._idle.put_nowait(worker)
            else:  # it does not react, it crashed, or the server stops: what the worker does now no longer matters
                await self._replace(worker, asking)
        if given_up and reply.status == GIVEN_UP:
            raise given_up
        return reply  # which may have been on its way when it was given up

    async def _taken(self, queue: asyncio.LifoQueue[T], leaving: asyncio.Future[object] | None) -> T:
        """What a queue holds, as soon as it does."""
        getting = asyncio.ensure_future(queue.get())
        ours = False
        try:
            await _first(getting, leaving, seconds=self.seconds + START_SECONDS / 2.0)
            if leaving and leaving.done():
                raise GoneError
            if not getting.done():
                raise BusyError
            ours = True
        finally:
            if not ours and getting.done() and not getting.cancelled():
                queue.put_nowait(getting.result())
            getting.cancel()
        return getting.result()

    async def _replace(self, worker: Worker, asking: asyncio.Future[Reply]) -> None:
        self._alive.discard(worker)
        asking.cancel()
        await asyncio.gather(asking, worker.stop(), return_exceptions=True)
        if self._open:
            task = asyncio.ensure_future(self._add(again=True))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _add(self, *, again: bool = False) -> None:
        """One more worker; after trouble at the start, tried `again` until the pool is closed."""
        while True:
            try:
                worker = await Worker.start()
            except (CrashedError, TimeoutError, OSError) as trouble:
                if not again:
                    raise
                logger.warning("A worker did not start: %r", trouble)
                await asyncio.sleep(1.0)
            else:
                self._alive.add(worker)
                self._idle.put_nowait(worker)
                return


def key(question: str, given: Mapping[str, object]) -> bytes:
    """What an answer is remembered by."""
    return encoded([question, dict(sorted(given.items()))])


async def _first(wanted: asyncio.Future[Any], leaving: asyncio.Future[object] | None, *, seconds: float) -> None:
    """Wait for either, but not longer than this."""
    await asyncio.wait({wanted, leaving} if leaving else {wanted}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
