"""Chunks answered by a Dask cluster that is there already (the extra ``dask``)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Generator, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.metadata import version
from itertools import islice
from typing import Any

from dprounds import _validate
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.sweep.journal import SweepError
from dprounds.sweep.rows import Chunk, Task, answer_chunk

__all__ = ["answer_on_cluster", "check_scheduler"]

# Seconds to wait for a scheduler; one in the same building answers far sooner.
CONNECT_SECONDS = 10.0
# Seconds without a single worker after which a cluster is taken to be gone, not restarting.
IDLE_SECONDS = 60.0
# Seconds between looks at whether there are workers at all.
LOOK_SECONDS = 5.0
# Chunks that wait for each thread of the cluster, as locally.
CHUNKS_AHEAD = 3
# Times that a chunk is tried again after an error where it ran; Dask itself moves the chunks of a dead worker.
RETRIES = 3

# What Dask raises for work whose scheduler is gone.
CANCELLED = (asyncio.CancelledError, CancelledError)
ROWS_ARE_KEPT = "The rows that are done are kept: run the same command to go on."
Answers = tuple[str, list[list[Any]]]


def answer_on_cluster(chunks: Iterator[Chunk], *, scheduler: str) -> Generator[tuple[int, list[list[Any]]]]:
    """Each chunk's answers, as they come."""
    distributed = _distributed()
    with _quiet():
        check_scheduler(scheduler)
        yield from _answers(chunks, distributed, scheduler)


def _answers(
    chunks: Iterator[Chunk],
    distributed: Any,  # noqa: ANN401  (a module that may not be installed)
    scheduler: str,
) -> Generator[tuple[int, list[list[Any]]]]:
    client = distributed.Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False, name="dprounds-sweep")
    pending: dict[Any, int] = {}
    try:
        width = CHUNKS_AHEAD * _threads(client)
        seen = time.monotonic()
        while True:
            for index, task in islice(chunks, max(width - len(pending), 0)):
                pending[client.submit(_answer, task, pure=False, retries=RETRIES)] = index
            if not pending:
                return
            try:
                with client.as_current():
                    done = distributed.wait(list(pending), timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                done = set()
            except CANCELLED:
                raise SweepError(f"The scheduler at {scheduler} went away. {ROWS_ARE_KEPT}") from None
            for future in done:
                answers = _result(future, scheduler)
                if answers is not None:
                    yield pending.pop(future), answers
            if done:
                seen = time.monotonic()
            elif threads := _threads(client, least=0):
                seen, width = time.monotonic(), CHUNKS_AHEAD * threads
            elif time.monotonic() - seen > IDLE_SECONDS:
                raise SweepError(
                    f"The cluster at {scheduler} has no workers left. {ROWS_ARE_KEPT} "
                    "(Workers that end at once may lack dprounds.)"
                )
    finally:
        pending.clear()
        with suppress(TimeoutError):  # a scheduler that is gone does not answer
            client.close(timeout=CONNECT_SECONDS)


def check_scheduler(address: str) -> None:
    """Raise unless a scheduler answers there, in bounded time, whatever else may listen."""
    distributed = _distributed()

    async def identity() -> dict[str, Any]:
        async with distributed.rpc(address, timeout=CONNECT_SECONDS) as scheduler:
            found: dict[str, Any] = await scheduler.identity()
            return found

    try:
        found = asyncio.run(asyncio.wait_for(identity(), CONNECT_SECONDS))
    except OSError:
        raise SweepError(
            f"No Dask scheduler answers at {_validate.show(address)} within {CONNECT_SECONDS:g} seconds: "
            "start one with `dask scheduler`, or check the address."
        ) from None
    except ValueError as error:
        raise ParameterError(
            "{argument} must be an address such as tcp://127.0.0.1:8786, got {value} ({trouble}).",
            argument="scheduler",
            value=_validate.show(address),
            trouble=error,
        ) from None
    except (MemoryError, TypeError, AttributeError, EOFError):  # what another protocol's bytes look like to Dask
        found = {}
    if found.get("type") != "Scheduler":
        raise SweepError(f"What answers at {_validate.show(address)} is not a Dask scheduler: check the address.")


def _answer(task: Task) -> Answers:
    """The answers, and the version that gave them."""
    return _version(), answer_chunk(task)


@cache
def _version() -> str:
    return version("dprounds")


def _result(future: Any, scheduler: str) -> list[list[Any]] | None:  # noqa: ANN401  (Dask's future)
    """A chunk's answers, or None if they were lost with their worker and are on their way again."""
    try:
        theirs, answers = future.result(timeout=LOOK_SECONDS)
    except TimeoutError:
        return None
    except (ImportError, RuntimeError) as error:  # the latter is Dask's for what its scheduler could not load
        why = " ".join(str(error).split())[:120]
        raise SweepError(
            f"The cluster at {scheduler} cannot run dprounds ({why}): install this version on all of it."
        ) from None
    except _distributed().KilledWorker:
        raise SweepError(
            f"The same rows ended several workers at {scheduler}, of too little memory perhaps. {ROWS_ARE_KEPT}"
        ) from None
    except (*CANCELLED, OSError):
        raise SweepError(f"The scheduler at {scheduler} went away. {ROWS_ARE_KEPT}") from None
    if theirs != _version():
        raise SweepError(f"A worker at {scheduler} has dprounds {theirs}, not {_version()}: install the same there.")
    found: list[list[Any]] = answers
    return found


def _threads(client: Any, least: int = 1) -> int:  # noqa: ANN401  (Dask's client)
    """How many chunks the cluster works on at once."""
    threads: dict[str, int] = client.nthreads()
    return max(sum(threads.values()), least)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask from logging errors that are raised as a sentence."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _distributed() -> Any:  # noqa: ANN401  (a module that may not be installed)
    """Dask's scheduler client, an extra that is loaded on use."""
    try:
        return import_module("distributed")
    except ImportError:
        raise UnsupportedError(
            "A cluster needs Dask. In a checkout of dprounds: pip install '.[dask]'; or leave out --scheduler."
        ) from None
