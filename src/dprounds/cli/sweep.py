"""``dprounds sweep``: one question of every setting of a grid."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from dprounds.cli.output import FileError
from dprounds.errors import ParameterError

__all__ = ["sweep"]

# As shells count: 128 and the signal's number.
INTERRUPTED, TERMINATED = 130, 143


def sweep(
    grid: Annotated[
        Path, typer.Argument(metavar="GRID", help="A TOML file: a question, methods, and a grid of values.")
    ],
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The table: .csv or .parquet by its ending.")
    ],
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes; as many as the machine has cores by default.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="A Dask scheduler whose workers answer instead, as tcp://HOST:8786."),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start over, and replace what FILE or FILE.partial holds.")
    ] = False,
) -> None:
    """Ask one question of every setting of a grid, by every method, into a table.

    A sweep that was stopped goes on where it was if the same command is run again. Bad rows say why, under error.

    Example: dprounds sweep grid.toml --out rounds.csv
    """
    from dprounds.sweep import grid_from_file, run_sweep

    try:
        asked = grid_from_file(grid)
    except ParameterError as error:
        raise FileError(str(error)) from None
    try:
        with _terminable(), _bar(len(asked)) as progress:
            done = run_sweep(asked, out, workers=workers, scheduler=scheduler, restart=restart, progress=progress)
    except KeyboardInterrupt as end:
        print("stopped; run the same command to go on", file=sys.stderr)
        raise typer.Exit(TERMINATED if isinstance(end, _Terminated) else INTERRUPTED) from None
    print(done.sentence)


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a sweep as Ctrl-C does: its workers first, so that they leave nothing behind."""


@contextmanager
def _terminable() -> Iterator[None]:
    """While this is entered, let SIGTERM end the sweep in good order."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread has signals
        return

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _bar(rows: int) -> Iterator[Callable[[int], None]]:
    """A function that shows how many rows are done, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), "rows,", TimeRemainingColumn(), "left")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=rows)
        yield lambda done: bar.update(task, completed=done)
