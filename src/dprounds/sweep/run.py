"""A sweep from its grid to its table, through the journal that survives a kill."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dprounds import _validate
from dprounds.questions import QuestionError
from dprounds.sweep.cluster import answer_on_cluster
from dprounds.sweep.grid import Grid
from dprounds.sweep.journal import Journal, SweepError
from dprounds.sweep.local import answer_locally
from dprounds.sweep.rows import chunk_of
from dprounds.sweep.table import check_output, errors_in_table_of, write_table

__all__ = ["Summary", "run_sweep"]

# Rows that are asked together. Few, because a kill loses those under way; more than one, because sending them to a
# worker costs a fraction of a millisecond.
MOST_ROWS_TOGETHER = 8
LEAST_CHUNKS = 64


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How a sweep ended: its rows, those with an error, those kept from before, and its file."""

    rows: int
    errors: int
    kept: int
    path: Path

    @property
    def sentence(self) -> str:
        """The end in plain words."""
        kept = f" ({self.kept:,} kept from before)" if self.kept else ""
        return f"{self.rows:,} row{'' if self.rows == 1 else 's'}{kept}, {self.errors:,} with an error: {self.path}"


@dataclass(frozen=True, kw_only=True)
class DoneBefore(Summary):
    """The table was there already."""

    @property
    def sentence(self) -> str:
        """The end in plain words."""
        return f"{self.path} holds all {self.rows:,} rows already; --restart asks again."


def run_sweep(
    grid: Grid,
    path: Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    restart: bool = False,
    progress: Callable[[int], None] = lambda rows: None,
) -> Summary:
    """What became of the sweep, whose table is now in `path`: the same file from any scheduler, kill or not.

    Parameters
    ----------
    grid
        What to ask.
    path
        The table, which ends in ``.csv`` or ``.parquet``. What is done is kept in ``path.partial`` until all is.
    workers
        Processes; as many as the machine has cores by default.
    scheduler
        The address of a Dask scheduler, whose workers are used instead.
    restart
        Whether to start over, and replace what is in `path`, rather than go on.
    progress
        Called with the number of rows that are done.
    """
    if scheduler is not None and workers is not None:
        raise QuestionError(
            "{argument} have no place here: the cluster of the {scheduler} has its own.", argument="workers"
        )
    cores = _validate.count("workers", (os.cpu_count() or 1) if workers is None else workers, least=1)
    size = max(1, min(MOST_ROWS_TOGETHER, len(grid) // LEAST_CHUNKS))
    partial = path.with_name(path.name + ".partial")
    try:
        check_output(path)
        with Journal(partial, fingerprint=grid.fingerprint, rows=len(grid), chunk=size, restart=restart) as journal:
            return _go_on(grid, path, journal, workers=cores, scheduler=scheduler, restart=restart, progress=progress)
    except OSError as error:
        raise SweepError(f"{error.filename or path} cannot be written: {error.strerror or error}.") from None


def _go_on(
    grid: Grid,
    path: Path,
    journal: Journal,
    *,
    workers: int,
    scheduler: str | None,
    restart: bool,
    progress: Callable[[int], None],
) -> Summary:
    if not journal.found:
        if path.exists() and not restart:
            journal.discard()
            if (errors := errors_in_table_of(path, grid)) is None:
                raise SweepError(f"{path} is there and is not this sweep's: choose another file, or pass --restart.")
            return DoneBefore(rows=len(grid), errors=errors, kept=len(grid), path=path)
        journal.start()
    kept = journal.rows
    progress(kept)
    chunks = (chunk_of(grid, index, journal.chunk) for index in journal.missing())
    if kept < len(grid):
        answered = (
            answer_locally(chunks, workers=min(workers, -(-(len(grid) - kept) // journal.chunk)))
            if scheduler is None
            else answer_on_cluster(chunks, scheduler=scheduler)
        )
        with closing(answered):
            for index, rows in answered:
                journal.add(index, rows)
                progress(journal.rows)
    write_table(path, grid, journal.answers())
    journal.discard()
    return Summary(rows=len(grid), errors=journal.errors, kept=kept, path=path)
