"""The rows that are done, kept in a file next to the output until all are, so that a kill does not lose them."""

from __future__ import annotations

import json
import os
import time
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dprounds.errors import PrivacyError

try:
    import fcntl
except ImportError:  # Windows: two sweeps into one file are not noticed
    fcntl = None  # type: ignore[assignment]  # a module, or none

__all__ = ["Journal", "SweepError"]

# Killing the process loses nothing that was written; only a power failure does, and then at most this many seconds.
SYNC_SECONDS = 1.0


class SweepError(PrivacyError):
    """A sweep cannot go on; the rows that are done are kept."""


class Journal:
    """An append-only file of answered chunks, a checked line each, that one process at a time holds.

    A line that was cut short, or does not match its checksum, is dropped with all that follow: those rows are asked
    again. A journal of another grid or version is refused.
    """

    def __init__(self, path: Path, *, fingerprint: str, rows: int, chunk: int, restart: bool) -> None:
        self.path = path
        self.total, self.chunk = rows, chunk
        self.header = (json.dumps({"dprounds sweep": fingerprint, "chunk": chunk}) + "\n").encode()
        self.places = array("q", [-1]) * -(-rows // chunk)
        self.rows = self.errors = 0
        self.synced = time.monotonic()
        self.file = _locked(path)
        try:
            self.found = not restart and self._load()
        except SweepError:
            self.file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not self.rows:  # nothing is kept, so nothing is left behind
            self.discard()
        self.file.close()

    def start(self) -> None:
        """Start over."""
        self.places = array("q", [-1]) * len(self.places)
        self.rows = self.errors = 0
        self.file.seek(0)
        self.file.truncate()
        self.file.write(self.header)
        self.file.flush()

    def missing(self) -> Iterator[int]:
        """The chunks that are not yet answered."""
        return (index for index, place in enumerate(self.places) if place < 0)

    def add(self, index: int, rows: list[list[Any]]) -> None:
        """Keep the answers of a chunk."""
        content = json.dumps([index, rows], ensure_ascii=False).encode()
        self.file.seek(0, os.SEEK_END)
        place = self.file.tell()
        self.file.write(b"%08x %b\n" % (zlib.crc32(content), content))
        self.file.flush()
        if time.monotonic() - self.synced > SYNC_SECONDS:
            os.fsync(self.file.fileno())
            self.synced = time.monotonic()
        self._note(index, rows, place)

    def answers(self) -> Iterator[list[Any]]:
        """What every row was answered, in the grid's order."""
        for place in self.places:
            self.file.seek(place)
            found = _checked(self.file.readline())
            if found is None:
                raise SweepError(f"{self.path} was changed by another program: delete it and run the sweep again.")
            yield from found[1]

    def discard(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)

    def _load(self) -> bool:
        """Whether the file holds this sweep's header; its good lines are noted and the rest is cut off."""
        first = self.file.readline(4096)
        if self.header.startswith(first) and first != self.header:
            return False  # empty, or killed while it wrote the header
        if first != self.header:
            raise SweepError(
                f"{self.path} holds rows of another grid or of another version of dprounds: "
                "finish that sweep, delete the file, or pass --restart."
            )
        place = self.file.tell()
        for line in self.file:
            found = _checked(line)
            if found is None or not self._fits(*found):
                break
            self._note(*found, place)
            place += len(line)
        self.file.seek(place)
        self.file.truncate()
        return True

    def _fits(self, index: int, rows: list[list[Any]]) -> bool:
        if not 0 <= index < len(self.places) or self.places[index] >= 0:
            return False
        return len(rows) == min(self.chunk, self.total - index * self.chunk)

    def _note(self, index: int, rows: list[list[Any]], place: int) -> None:
        self.places[index] = place
        self.rows += len(rows)
        self.errors += sum(row[-1] is not None for row in rows)


def _checked(line: bytes) -> tuple[int, list[list[Any]]] | None:
    """The chunk that a line holds, or None if it is not what was written."""
    content = line[9:-1]
    if line[-1:] != b"\n" or line[:9] != b"%08x " % zlib.crc32(content):
        return None
    index, rows = json.loads(content)
    return index, rows


def _locked(path: Path) -> Any:  # noqa: ANN401  (a binary file, whose class depends on how it was opened)
    """The journal's file, held until it is closed or the process ends."""
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last holder may have removed it since it was opened: then that name is free, or another file's.
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except BlockingIOError:
            file.close()
            raise SweepError(
                f"Another sweep is writing {path.with_suffix('')}: wait for it, or choose another file."
            ) from None
        file.close()
