"""The history of a budget as a file: CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from dprounds._validate import choice
from dprounds.errors import UnsupportedError
from dprounds.ledger.book import Ledger
from dprounds.ledger.entries import Entry

__all__ = ["FORMATS", "exported", "flat"]

ENTRIES_AT_ONCE = 1000

Rows = list[dict[str, Any]]


def flat(entry: Entry, sums: Iterable[str]) -> dict[str, Any]:
    """An entry as a row of a table: each cost by its name, in units of 2^-60 and exact."""
    costs = {f"{name}_units": "" for name in sums}
    costs |= dict(zip(costs, map(str, entry.cost), strict=False))  # entries that charge nothing have no cost
    return {
        "number": entry.number,
        "at": entry.at,
        "kind": entry.kind,
        "key": entry.key,
        "by": entry.by,
        "run": "" if entry.run is None else repr(entry.run),
        **costs,
        "blocks": json.dumps(entry.blocks, ensure_ascii=False) if entry.blocks else "",  # a name may hold spaces
        "detail": entry.detail,
        "version": entry.version,
        "hash": entry.hash,
    }


def exported(ledger: Ledger, name: str, format: str, *, after: int = 0) -> Iterator[bytes]:
    """The whole history of a budget after a number, piece by piece, as ``csv``, ``json`` or ``parquet``.

    It is read in parts. As entries are never changed, they are those of one history, whatever is written meanwhile.
    """
    write = FORMATS[choice("format", format, tuple(FORMATS))]
    if format == "parquet" and find_spec("pyarrow") is None:
        raise UnsupportedError("Parquet needs PyArrow. In a checkout of dprounds: pip install '.[parquet]'")
    sums = ledger.budget(name).filter.sums
    columns = list(flat(Entry(budget=name, number=0, kind=""), sums))
    return write(columns, _parts(ledger, name, sums, after))


def _parts(ledger: Ledger, name: str, sums: Iterable[str], after: int) -> Iterator[Rows]:
    while entries := ledger.history(name, after=after, limit=ENTRIES_AT_ONCE):
        yield [flat(entry, sums) for entry in entries]
        after = entries[-1].number


def _csv(columns: list[str], parts: Iterator[Rows]) -> Iterator[bytes]:
    held = io.StringIO(newline="")
    table = csv.DictWriter(held, fieldnames=columns)
    table.writeheader()
    for rows in parts:
        table.writerows(rows)
        yield held.getvalue().encode()
        held.seek(0)
        held.truncate()
    yield held.getvalue().encode()


def _json(_: list[str], parts: Iterator[Rows]) -> Iterator[bytes]:
    before = "[\n"
    for rows in parts:
        yield (before + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)).encode()
        before = ",\n"
    yield b"[]\n" if before == "[\n" else b"\n]\n"


def _parquet(columns: list[str], parts: Iterator[Rows]) -> Iterator[bytes]:
    import pyarrow  # noqa: PLC0415  (an extra, loaded on use)
    from pyarrow import parquet  # noqa: PLC0415  (as above)

    types = [(column, pyarrow.int64() if column == "number" else pyarrow.string()) for column in columns]
    schema = pyarrow.schema(types)
    held = io.BytesIO()
    with parquet.ParquetWriter(held, schema) as table:
        for rows in parts:
            table.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    yield held.getvalue()


FORMATS: Mapping[str, Callable[[list[str], Iterator[Rows]], Iterator[bytes]]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
}
