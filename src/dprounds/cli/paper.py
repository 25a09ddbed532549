"""``dprounds paper``: the paper's figures and claims, recomputed."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprounds.cli.options import NO_PICTURES, has_matplotlib

if TYPE_CHECKING:  # the library and Matplotlib load when the command runs
    from matplotlib.figure import Figure

    from dprounds.paper import Claim

__all__ = ["paper"]

ENDINGS = ("png", "svg")
FIGURE_2_POINTS, FIGURE_3_POINTS = 100, 60
# the points, and as one step each Figure 1, the claims and the drawing
STEPS = FIGURE_2_POINTS + FIGURE_3_POINTS + 3


def paper(
    *,
    out: Annotated[Path, typer.Option("--out", help="Where the files go; made if it is not there.", metavar="DIR")],
) -> None:
    """Recompute the paper: its three figures, their data, its claims, and the exact curve that it lacks.

    Without Matplotlib the data and the claims are written, and no figures. The rounds of the paper are not sampled: the
    numbers hold for the neighbours for which the sensitivity was taken.

    Example: dprounds paper --out figures/
    """
    from rich.console import Console

    from dprounds import paper as recomputed
    from dprounds import plots

    directory = _made(out)
    console = Console(highlight=False)
    with _bar(STEPS) as advance:
        figure_1 = recomputed.figure_1()
        advance()
        figure_2 = recomputed.figure_2(points=FIGURE_2_POINTS, exact=True, progress=advance)
        figure_3 = recomputed.figure_3(points=FIGURE_3_POINTS, exact=True, progress=advance)
        claims = recomputed.claims()
        advance()
        rows: dict[str, Sequence[Mapping[str, object]]] = {
            "figure-1": [row for curve in figure_1 for row in curve.to_rows()],
            "figure-2": figure_2.to_rows(),
            "figure-3": figure_3.to_rows(),
            "claims": [_claim_row(claim) for claim in claims],
        }
        pictures: dict[str, Callable[[], Figure]] = {
            "figure-1": lambda: plots.figure_1(figure_1),
            "figure-2": lambda: plots.rounds_figure(figure_2.without_exact()),
            "figure-3": lambda: plots.rounds_figure(figure_3.without_exact()),
            "figures-2-and-3-exact": lambda: plots.rounds_figures([figure_2, figure_3]),
        }
        written = [_write_rows(directory / f"{name}.csv", table) for name, table in rows.items()]
        drawn = has_matplotlib()
        for name, draw in pictures.items() if drawn else ():
            figure = draw()
            written += [plots.save(figure, directory / f"{name}.{ending}") for ending in ENDINGS]
        advance()
    _print_claims(claims)
    console.print(f"\nWrote {', '.join(sorted(path.name for path in written))} to {directory}.", markup=False)
    if not drawn:
        console.print(f"No figures: {NO_PICTURES[0].lower()}{NO_PICTURES[1:]}", style="yellow", markup=False)
    agree = sum(claim.agrees for claim in claims)
    console.print(f"{agree} of the paper's {len(claims)} claims agree with what comes out here.", style="bold")


def _made(directory: Path) -> Path:
    from dprounds.errors import ParameterError

    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"{directory} cannot be made a directory: {error.strerror or error}.") from None
    return directory


@contextmanager
def _bar(steps: int) -> Iterator[Callable[[], None]]:
    """A step of a progress bar on stderr, for a person who waits at a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Recomputing the paper", total=steps)
        yield lambda: progress.advance(task)


def _claim_row(claim: Claim) -> dict[str, object]:
    return {"claim": claim.what, "paper": claim.paper, "ours": claim.ours, "agrees": "yes" if claim.agrees else "no"}


def _write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    from dprounds.errors import ParameterError

    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise ParameterError(f"{path} cannot be written: {error.strerror or error}.") from None
    return path


def _print_claims(claims: Sequence[Claim]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("claim", "paper", "ours", "agrees?"):
        table.add_column(column)
    for claim in claims:
        table.add_row(claim.what, claim.paper, claim.ours, "yes" if claim.agrees else "NO")
    Console(highlight=False).print(table)
