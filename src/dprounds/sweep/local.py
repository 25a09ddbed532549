"""Chunks answered by the cores of this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from dprounds.sweep.journal import SweepError
from dprounds.sweep.rows import Chunk, answer_chunk

__all__ = ["answer_locally"]

# Chunks that wait for each worker, so that none is idle while the journal is written.
CHUNKS_AHEAD = 3


def answer_locally(chunks: Iterator[Chunk], *, workers: int) -> Generator[tuple[int, list[list[Any]]]]:
    """Each chunk's answers, as they come; with one worker in this process."""
    if workers == 1:
        for index, task in chunks:
            yield index, answer_chunk(task)
        return
    # Spawned, not forked: a fork of a process with threads may hang, and not every system has it.
    context = get_context("spawn")
    # Only this process holds the other end: when it closes it, or dies of whatever cause, the workers stop at once.
    life, death = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_follow, initargs=(life,))
    pending: dict[Future[list[list[Any]]], int] = {}
    try:
        with _without_interrupts():  # the workers inherit it: Ctrl-C is for this process
            for index, task in islice(chunks, CHUNKS_AHEAD * workers):
                pending[pool.submit(answer_chunk, task)] = index
        while pending:
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                index = pending.pop(future)
                answers = future.result()
                for following, task in islice(chunks, 1):
                    pending[pool.submit(answer_chunk, task)] = following
                yield index, answers
        pool.shutdown()
    except BrokenProcessPool:
        raise SweepError(
            "A worker process died, of too little memory perhaps. The rows that are done are kept: run the same "
            "command to go on, with fewer --workers."
        ) from None
    finally:
        death.close()
        pool.shutdown(cancel_futures=True)
        life.close()


def _follow(life: Connection) -> None:
    """Make this worker end with the process that started it."""
    threading.Thread(target=_wait_for_end, args=(life,), daemon=True).start()


def _wait_for_end(life: Connection) -> None:
    try:
        life.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold back SIGINT, here until the end, and for good in processes that are started in between."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
