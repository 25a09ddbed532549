"""Amounts of records in Parquet files: written once, in ascending order of the records, then matched or added up.

No message names a record, an amount or a number of records: they are private.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow import parquet

from dprounds.errors import LedgerError

__all__ = ["Amounts", "Part", "Writer", "added_up", "writing"]

Integers = NDArray[np.int64]

ROWS_AT_ONCE = 2**18  # of a row group, which is read as a whole
SCHEMA = pyarrow.schema([("id", pyarrow.int64()), ("amount", pyarrow.int64())])


class Part(NamedTuple):
    """A file of a store: its name, its number of rows, its length in bytes, and the SHA-256 of its footer.

    The footer says which records are in which group of rows, and has no checksum of its own as the pages do.
    """

    name: str
    rows: int
    length: int
    footer: str


class Writer:
    """A new file that is on disk when `end` returns; a file that was not ended is not one of the store's.

    Parameters
    ----------
    path
        A file that is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, 0
        with writing(path):
            self._file = path.open("xb")
        self._table = parquet.ParquetWriter(
            self._file,
            SCHEMA,
            compression="none",
            use_dictionary=["amount"],  # a charge is often the same for all
            column_encoding={"id": "DELTA_BINARY_PACKED"},
            write_page_checksum=True,
        )

    def write(self, ids: Integers, amounts: Integers) -> None:
        """Append records that are above all earlier ones, in ascending order."""
        if not len(ids):  # a group without rows would have no first one
            return
        table = pyarrow.Table.from_arrays([ids, amounts], schema=SCHEMA)
        with writing(self.path):
            self._table.write_table(table, row_group_size=ROWS_AT_ONCE)
        self.rows += len(ids)

    def end(self) -> Part:
        """The finished file."""
        with writing(self.path):
            self._table.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            length = self._file.tell()
            self._file.close()
        return Part(self.path.name, self.rows, length, _footer(self.path))

    def give_up(self) -> None:
        """Remove what was written."""
        with contextlib.suppress(OSError, ValueError, pyarrow.ArrowException):
            self._table.close()
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


class Amounts:
    """A file that a `Writer` ended. A page whose checksum does not fit raises `LedgerError`.

    It is open only while it is read: a store may have more files than a process may have open.
    """

    def __init__(self, folder: Path, part: Part) -> None:
        self.path = folder / part.name
        with _reading(self.path):
            found = self._footer = parquet.read_metadata(self.path)
            is_it = Part(part.name, found.num_rows, self.path.stat().st_size, _footer(self.path)) == part
            if not is_it or not found.schema.to_arrow_schema().equals(SCHEMA):
                raise _damaged(self.path)
            ends = [found.row_group(i).column(0).statistics for i in range(found.num_row_groups)]
            if not all(one is not None and one.has_min_max for one in ends):
                raise _damaged(self.path)
            self.first = np.array([one.min for one in ends], dtype=np.int64)
            self.last = np.array([one.max for one in ends], dtype=np.int64)

    def rows(self, group: int) -> tuple[Integers, Integers]:
        """The records and the amounts of one group of rows."""
        with (
            _reading(self.path),
            parquet.ParquetFile(self.path, metadata=self._footer, page_checksum_verification=True) as file,
        ):
            table = file.read_row_group(group, use_threads=False)
        ids, amounts = table["id"].to_numpy(), table["amount"].to_numpy()
        if not len(ids) or (ids[0], ids[-1]) != (self.first[group], self.last[group]):
            raise _damaged(self.path)
        return ids, amounts

    def matches(self, ids: Integers) -> Iterator[tuple[Any, Integers]]:
        """The places of records in ascending `ids` that are here too, part by part, each with their amounts."""
        starts, ends = np.searchsorted(ids, self.first), np.searchsorted(ids, self.last, side="right")
        for group in np.flatnonzero(starts < ends):
            start, asked = int(starts[group]), ids[starts[group] : ends[group]]
            here, amounts = self.rows(int(group))
            if len(here) == len(asked) and np.array_equal(here, asked):
                yield slice(start, start + len(asked)), amounts
            elif len(asked) <= len(here):
                places = np.searchsorted(here, asked)  # inside: no record asked for is above the last one here
                is_here = here[places] == asked
                yield start + np.flatnonzero(is_here), amounts[places[is_here]]
            else:
                places = np.minimum(np.searchsorted(asked, here), len(asked) - 1)
                is_asked = asked[places] == here
                yield start + places[is_asked], amounts[is_asked]


def added_up(files: Sequence[Amounts]) -> Iterator[tuple[Integers, Integers]]:
    """Every record of some files with the sum of its amounts, in ascending order, part by part.

    Guarantee
    ---------
    Raises `LedgerError` where a file is not in ascending order or an amount is negative.
    """
    cursors = [_Cursor(file) for file in files]
    for end in np.unique(np.concatenate([np.empty(0, np.int64), *(file.last for file in files)])):
        parts = [part for cursor in cursors for part in cursor.up_to(int(end))]
        ids = np.concatenate([part[0] for part in parts])
        amounts = np.concatenate([part[1] for part in parts])
        if len(parts) > 1:
            order = np.argsort(ids, kind="stable")
            ids = ids[order]
            starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
            ids, amounts = ids[starts], np.add.reduceat(amounts[order], starts)
        yield ids, amounts


class _Cursor:
    """A place in a file, from its beginning on."""

    def __init__(self, file: Amounts) -> None:
        self.file, self.group, self.end = file, 0, -(2**63)
        self.ids, self.amounts = np.empty(0, np.int64), np.empty(0, np.int64)

    def up_to(self, end: int) -> Iterator[tuple[Integers, Integers]]:
        """The rows that follow, up to a record."""
        while len(self.ids) or self._next(end):
            place = int(np.searchsorted(self.ids, end, side="right"))
            yield self.ids[:place], self.amounts[:place]
            self.ids, self.amounts = self.ids[place:], self.amounts[place:]
            if len(self.ids):
                return

    def _next(self, end: int) -> bool:
        if self.group == len(self.file.first) or self.file.first[self.group] > end:
            return False
        self.ids, self.amounts = self.file.rows(self.group)
        is_first = self.group == 0
        ascends = bool((self.ids[1:] > self.ids[:-1]).all()) and (is_first or self.ids[0] > self.end)
        if not ascends or (self.amounts < 0).any():
            raise _damaged(self.file.path)
        self.group, self.end = self.group + 1, int(self.ids[-1])
        return True


def _footer(path: Path) -> str:
    """The SHA-256 of the end of a Parquet file: its footer, the length of that, and four letters."""
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-min(length + 8, file.tell() + 4), os.SEEK_END)
        return hashlib.sha256(file.read()).hexdigest()


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever goes wrong with a file is one sentence."""
    try:
        yield
    except (OSError, pyarrow.ArrowException) as error:
        raise _damaged(path) from error


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """A full disk, or one that is read-only, is one sentence; whether a charge was made, the same key tells."""
    try:
        yield
    except (OSError, pyarrow.ArrowException) as error:
        why = getattr(error, "strerror", None) or "the disk does not take it"
        raise LedgerError(f"{path} cannot be written: {why}. Ask again with the same key.") from error


def _damaged(path: Path) -> LedgerError:
    return LedgerError(f"{path} is missing or damaged: restore the whole folder from a backup.")
