"""A process that answers one question after another, over its standard input and output.

A computation in a thread cannot be stopped; one in a process can. A line of JSON comes in, which `asked.answer`
takes as ``[question, given, known]``; out go the status and the length of the answer as `FRAME` packs them, and the
answer. An empty line says that the last question is no longer wanted: if it is not answered yet, `GIVEN_UP` takes the
answer's place. So there is one reply to each question, and the process stays warm.

What is not foreseen ends the process, with its traceback on standard error: its parent starts another. It also ends
when its parent does, even during a computation.
"""

from __future__ import annotations

import _thread
import json
import os
import signal
import struct
import sys
import threading
from contextvars import copy_context
from queue import SimpleQueue
from types import FrameType
from typing import BinaryIO

from dprounds.errors import PrivacyError
from dprounds.web.asked import PRICED, answer

__all__ = [
    "FRAME",
    "GIVEN_UP",
    "NO_LONGER_WANTED",
    "READY",
    "encoded",
    "main",
]

# Status and length.
FRAME = struct.Struct(">HI")
# What a worker says when it is warm, in place of an answer.
READY = FRAME.pack(200, 0)
# The line that gives up the question before it, and the status of the reply to a question that was; it has no content.
NO_LONGER_WANTED = b"\n"
GIVEN_UP = 499


def encoded(content: object) -> bytes:
    """`content` as JSON in UTF-8; every number reads back as the same double, and half a surrogate stays an escape."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        errors="backslashreplace"
    )


def reply(line: bytes) -> tuple[int, bytes]:
    """Status and answer to one line: 200, or 422 with the library's sentence."""
    question, given, known = json.loads(line)
    try:
        if question in PRICED:
            from dprounds.web.budgets import priced  # noqa: PLC0415  (needs the extra `ledger`, as no other question)

            return 200, encoded(priced.answer(question, given))
        return 200, encoded(answer(question, given, known))
    except PrivacyError as error:
        return 422, encoded({"error": str(error)})


def warm_up() -> None:
    """Load and compute what first questions need, so that they need not wait for it."""
    asked = {"noise_multiplier": 1.1, "batch_size": 256, "dataset_size": 60_000, "delta": 1e-5}
    answer("rounds", asked | {"epsilon": 3.0})
    answer("curve", asked | {"last": 1000, "points": 8})


class _GivenUpError(BaseException):
    """The question under way is no longer wanted. No error of the library's, which none of its handlers may take."""


class Desk:
    """The questions that came in, which of them is under way, and which was given up last.

    One thread reads, the main thread computes. An interrupt reaches the main thread between two of its instructions,
    maybe long after it was sent. It ends the question under way only if that is the one that was given up, and only
    the main thread says which is under way: a late interrupt never hits the next question, and one that comes between
    two questions nothing at all.
    """

    def __init__(self) -> None:
        self._came_in: SimpleQueue[tuple[int, bytes]] = SimpleQueue()
        self._given_up = 0
        self._under_way: int | None = None

    def read(self, lines: BinaryIO) -> None:
        """Take in every line, and end the process when there are no more, whatever it is doing."""
        number = 0
        for line in lines:
            if line == NO_LONGER_WANTED:
                self._given_up = number
                _thread.interrupt_main()
            else:
                number += 1
                self._came_in.put((number, line))
        os._exit(0)

    def interrupted(self, _: int, __: FrameType | None) -> None:
        """Leave the question under way, if it was given up."""
        self._leave_if_given_up()

    def next_reply(self) -> tuple[int, bytes]:
        """Status and answer to the next question; nothing interrupts what is done with them."""
        number, line = self._came_in.get()
        try:
            self._under_way = number
            self._leave_if_given_up()  # if it was before it was under way, the interrupt came too soon
            # In a context of its own: an interrupt during `with np.errstate` may leave NumPy's settings changed in it.
            found = copy_context().run(reply, line)
            # Nobody knows what was computed after an interrupt that something else caught.
            is_whole = self._under_way == number
            self._under_way = None
        except _GivenUpError:
            return GIVEN_UP, b""
        return found if is_whole else (GIVEN_UP, b"")

    def _leave_if_given_up(self) -> None:
        if self._under_way == self._given_up:
            self._under_way = None  # once: what follows must not be interrupted again
            raise _GivenUpError


def main() -> None:
    """Answer until the input ends."""
    # A stray print must not be taken for an answer: what is printed goes to standard error.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    desk = Desk()
    signal.signal(signal.SIGINT, desk.interrupted)
    threading.Thread(target=desk.read, args=(sys.stdin.buffer,), daemon=True).start()
    warm_up()
    _write(answers, READY)
    while True:
        status, content = desk.next_reply()
        _write(answers, FRAME.pack(status, len(content)) + content)


def _write(answers: BinaryIO, content: bytes) -> None:
    """All of `content`; a raw file may take a part at a time."""
    view = memoryview(content)
    try:
        while view:
            view = view[answers.write(view) :]
    except BrokenPipeError:  # nobody is there to read it
        os._exit(0)


if __name__ == "__main__":
    main()
