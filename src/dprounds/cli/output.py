"""How an answer is shown: the table, the sentence, the picture, or JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the library loads when a question is asked, not for --help
    from matplotlib.figure import Figure
    from rich.table import Table

    from dprounds.mechanisms import Run
    from dprounds.questions import Answer, Answers
    from dprounds.questions.wording import Quantity

__all__ = ["opened", "show", "table"]

# What the columns beside the answer are called for people, and whether a reader wants them rounded up.
BESIDE = {"epochs": ("epochs", False), "batch_size": ("batch size", False), "order": ("order", True)}
SPENT = {"epsilon": ("ε spent", True)}
# Below this a change in percent with one decimal reads as none.
LEAST_PERCENT = 0.05
# And below this it is the rounding of two searches.
NO_PERCENT = 1e-9
# The questions whose answer is a plan, of which one wants to know what it spends.
PLANS = ("rounds", "noise", "rate")


def opened(path: Path | None) -> Run | None:
    """The run that a file describes, if one is named."""
    from dprounds.questions import run_from_file

    return None if path is None else run_from_file(path)


def show(found: Answers, *, json: bool, plot: Path | None, draw: Callable[[], Figure]) -> None:
    """Print the answers, and draw them if asked to."""
    if plot is not None:
        from dprounds.plots import save

        save(draw(), plot)
    if json:
        print(found.to_json())
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print()
    console.print(table(found))
    for row in found.answers:
        if row.error is not None:
            console.print(f"{row.method}: {row.error}", style="yellow", markup=False)
    console.print()
    console.print(found.sentence, style="bold", markup=False)
    if plot is not None:
        console.print(f"Drawn to {plot}.", markup=False)


def table(found: Answers) -> Table:
    """A row for each method, with what it gains over the moments accountant and over Balle's bound."""
    from rich import box
    from rich.table import Table

    quantity = found.quantity
    beside = BESIDE | (SPENT if found.question in PLANS else {})
    columns = [name for name in beside if any(row.values.get(name) is not None for row in found.answers)]
    compared = [
        base for base in ("moments", "balle") if any(f"change_from_{base}" in row.values for row in found.answers)
    ]
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    drawn.add_column("method")
    drawn.add_column(quantity.title, justify="right")
    for base in compared:
        drawn.add_column({"moments": "over moments", "balle": "over Balle"}[base], justify="right")
    for name in columns:
        drawn.add_column(beside[name][0], justify="right")
    for row in found.answers:
        cells = [row.method, "-" if row.error is not None else quantity.text(row.values[quantity.name] or 0)]
        cells += [_gain(row, base, quantity) for base in compared]
        cells += [_cell(row, name, up=beside[name][1]) for name in columns]
        drawn.add_row(*cells, style="bold" if row is found.best else None)
    return drawn


def _cell(row: Answer, name: str, *, up: bool) -> str:
    from dprounds.questions.wording import rounded

    value = row.values.get(name)
    return "" if value is None else rounded(value, up=up)


def _gain(row: Answer, base: str, quantity: Quantity) -> str:
    """The change from another method: a count's in full, and in percent."""
    change = row.values.get(f"change_from_{base}")
    ours = row.values.get(quantity.name)
    if change is None or ours is None:
        return ""
    if change == 0:
        return "same"
    theirs = ours - change
    if not theirs or math.isinf(change):
        return f"{change:+,g}"
    percent = 100.0 * change / theirs
    if abs(percent) < NO_PERCENT:
        return "same"
    if isinstance(change, int):
        return f"{change:+,} ({percent:+.0f} %)"
    return f"{percent:+.1f} %" if abs(percent) >= LEAST_PERCENT else f"{percent:+.0e} %"
