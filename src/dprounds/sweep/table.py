"""The finished table, CSV or Parquet, written whole or not at all."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from dprounds.errors import ParameterError, UnsupportedError
from dprounds.questions.vocabulary import WORDS
from dprounds.sweep.axis import Listed
from dprounds.sweep.grid import Grid

__all__ = ["check_output", "errors_in_table_of", "write_table"]

ENDINGS = (".csv", ".parquet")
METADATA_KEY = b"dprounds sweep"
# Rows that a Parquet file keeps together; a batch of them is all that is held in memory.
ROWS_PER_BATCH = 50_000


def check_output(path: Path) -> None:
    """Raise if no table can be written there."""
    if path.suffix.lower() not in ENDINGS:
        raise ParameterError(f"The output must end in {' or '.join(ENDINGS)}, got {path.name!r}.")
    if path.is_dir():
        raise ParameterError(f"{path} is a directory: name a file.")
    if not path.parent.is_dir():
        raise ParameterError(f"{path.parent} is not a directory: make it first, or choose another file.")
    if _is_parquet(path):
        _parquet()


def write_table(path: Path, grid: Grid, answers: Iterable[list[Any]]) -> None:
    """Write the table under another name, then give it its own."""
    part = path.with_name(path.name + ".tmp")
    rows = _rows(grid, answers)
    if _is_parquet(path):
        _write_parquet(part, grid, rows)
    else:
        with part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(grid.columns)
            writer.writerows([_text(cell) for cell in row] for row in rows)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)


def errors_in_table_of(path: Path, grid: Grid) -> int | None:
    """How many rows have an error, if the file is the finished table of this grid; else None."""
    if _is_parquet(path):
        pa, pq = _parquet()
        try:
            found = pq.read_metadata(path)
            if (found.metadata or {}).get(METADATA_KEY) != grid.fingerprint.encode() or found.num_rows != len(grid):
                return None
            column = pq.read_table(path, columns=["error"])["error"]
        except pa.ArrowException:
            return None
        return int(found.num_rows - column.null_count)
    errors, known, method = 0, len(grid.axes), grid.columns.index("method")
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file, strict=True)
            if next(lines, None) != list(grid.columns):
                return None
            for line, row in zip_longest(lines, grid.rows()):
                if line is None or row is None or len(line) != len(grid.columns) or line[method] != row.method:
                    return None
                if line[:known] != [_text(cell) for cell in row.words.values()]:
                    return None
                errors += line[-1] != ""
    except (csv.Error, UnicodeDecodeError):
        return None
    return errors


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _rows(grid: Grid, answers: Iterable[list[Any]]) -> Iterator[list[Any]]:
    cut = len(grid.derived)
    for row, answer in zip(grid.rows(), answers, strict=True):
        yield [*row.words.values(), *answer[:cut], row.method, *answer[cut:]]


def _text(cell: object) -> str:
    """A cell of CSV: numbers to the last digit, and None as an empty cell."""
    if cell is None:
        return ""
    if isinstance(cell, tuple):
        return json.dumps(cell)
    return repr(cell) if isinstance(cell, float) else str(cell)


def _parquet() -> tuple[Any, Any]:
    """PyArrow and its Parquet, an extra that is loaded on use."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise UnsupportedError(
            "Parquet needs PyArrow. In a checkout of dprounds: pip install '.[parquet]'; or choose a file that ends "
            "in .csv."
        ) from None


def _write_parquet(path: Path, grid: Grid, rows: Iterator[list[Any]]) -> None:
    pa, pq = _parquet()
    schema = pa.schema(
        [(name, _kind(grid, name, pa)) for name in grid.columns], metadata={METADATA_KEY: grid.fingerprint}
    )
    with pq.ParquetWriter(path, schema) as writer:
        while batch := list(islice(rows, ROWS_PER_BATCH)):
            columns = [
                pa.array([_cell(cell, field.type, pa) for cell in column], type=field.type)
                for column, field in zip(zip(*batch, strict=True), schema, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _kind(grid: Grid, name: str, pa: Any) -> Any:  # noqa: ANN401  (PyArrow has no types)
    """Text, 64-bit integers, or doubles; a count that was not given as an integer makes a column of doubles."""
    kind = "text" if name == "error" else WORDS[name].kind if name in WORDS else "number"
    if kind in ("text", "choice", "list"):
        return pa.string()
    if kind != "count" or name in grid.derived:  # the rounds that epochs make may be beyond an integer of 64 bits
        return pa.float64()
    axis = grid.axes.get(name, Listed(()))
    return pa.int64() if all(isinstance(axis[index], int) for index in range(len(axis))) else pa.float64()


def _cell(cell: object, kind: object, pa: Any) -> object:  # noqa: ANN401  (PyArrow has no types)
    if cell is None or kind == pa.string():
        return None if cell is None else _text(cell)
    if kind == pa.float64():
        return float(cell)  # type: ignore[arg-type]  # a number, as its column says
    return cell
