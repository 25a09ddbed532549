"""A process that answers one question after another, over its standard input and output.

A computation in a thread cannot be stopped; one in a process can. A line of JSON comes in, ``[question, given]``; out
go the status and the length of the answer as `FRAME` packs them, and the answer. What is not foreseen ends the process,
with its traceback on standard error: its parent starts another. It also ends when its parent does, even amid a
computation.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
from queue import SimpleQueue
from typing import BinaryIO

from dprounds.errors import PrivacyError
from dprounds.web.asked import answer

__all__ = ["FRAME", "READY", "encoded", "main"]

# Status and length.
FRAME = struct.Struct(">HI")
# What a worker says when it is warm, in place of an answer.
READY = FRAME.pack(200, 0)


def encoded(content: object) -> bytes:
    """`content` as JSON in UTF-8; every number reads back as the same double, and half a surrogate stays an escape."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        errors="backslashreplace"
    )


def reply(line: bytes) -> tuple[int, bytes]:
    """Status and answer to one line: 200, or 422 with the library's sentence."""
    question, given = json.loads(line)
    try:
        return 200, encoded(answer(question, given))
    except PrivacyError as error:
        return 422, encoded({"error": str(error)})


def warm_up() -> None:
    """Load and compute what first questions need, so that they need not wait for it."""
    asked = {"noise_multiplier": 1.1, "batch_size": 256, "dataset_size": 60_000, "delta": 1e-5}
    answer("rounds", asked | {"epsilon": 3.0})
    answer("curve", asked | {"last": 1000, "points": 8})


def _read(lines: BinaryIO, jobs: SimpleQueue[bytes]) -> None:
    """Hand on every line, and end the process when there are no more, whatever it is doing."""
    for line in lines:
        jobs.put(line)
    os._exit(0)


def main() -> None:
    """Answer until the input ends."""
    # A stray print must not be taken for an answer: what is printed goes to standard error.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    jobs: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, jobs), daemon=True).start()
    warm_up()
    _write(answers, READY)
    while True:
        status, content = reply(jobs.get())
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
