"""How an answer is shown: the table, the sentence, the picture, or JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from dprounds.errors import InfeasibleError, ParameterError, PrivacyError, UnsupportedError
from dprounds.questions.vocabulary import QUESTIONS

if TYPE_CHECKING:  # the library loads when a question is asked, not for --help
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

    from dprounds.mechanisms import Run
    from dprounds.questions import Answer, Answers
    from dprounds.questions.wording import Quantity

__all__ = ["FileError", "opened", "show", "table"]

# Columns in addition to the answer: their titles, and whether they are rounded up.
EXTRA_COLUMNS = {"epochs": ("epochs", False), "batch_size": ("batch size", False), "order": ("order", True)}
SPENT_COLUMN = {"epsilon": ("ε spent", True)}
# A smaller change, in percent with one decimal, would read as 0.0.
LEAST_SHOWN_PERCENT = 0.05
# Below this it is the rounding of two searches, and the answers count as the same.
ROUNDING_PERCENT = 1e-9
# Outside of these a factor says more than percents: −99.9 % reads as a loss of everything.
LARGE_FACTOR, SMALL_FACTOR = Decimal(100), Decimal("0.001")
MOST_PLAIN_FACTOR = Decimal(10**6)
# Columns that a narrow terminal goes without, the first of them first; and a width, in characters, beyond any table.
EXPENDABLE = ("epsilon", "order", "moments", "batch_size", "epochs", "balle")
EXPENDABLE_OF_PLANS = ("epochs_within", "renyi_excess", "epochs", "rounds")
WIDEST_TABLE = 1000


def opened(path: Path | None) -> Run | None:
    """The run that a file describes, if one is named."""
    from dprounds.questions import run_from_file

    try:
        return None if path is None else run_from_file(path)
    except ParameterError as error:
        raise FileError(str(error)) from None


class FileError(ParameterError):
    """What is wrong in a file, in the words of the file instead of flags."""


def show(found: Answers, *, json: bool, plot: Path | None, draw: Callable[[], Figure]) -> None:
    """Print the answers, then draw them if asked to: a picture that fails takes no answer with it.

    Raises if no ε is proven, so that the exit code says so; JSON is printed before.
    """
    if json:
        print(found.to_json(ascii_only=not _encodes(found.to_json())))
    if found.quantity.name == "epsilon" and found.best.values["epsilon"] == math.inf:
        raise InfeasibleError(found.sentence)
    if not json:
        _print(found)
    if plot is None:
        return
    if sys.stdout is not None:
        sys.stdout.flush()  # before an error of the picture is printed
    _drawn(draw, plot)
    if not json:
        print(f"Drawn to {plot}.")


def _encodes(text: str) -> bool:
    """Whether the output can write all letters of `text`; the codes that it would write instead may not be JSON."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _print(found: Answers) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print()
    drawn, width = _fitting(found, console)
    # a table that does not fit even without these columns is broken by the terminal, and never cut
    (console if width <= console.width else Console(highlight=False, width=width)).print(drawn)
    for row in found.answers:
        if row.error is not None:
            console.print(f"{row.method}: {row.error}", style="yellow", markup=False)
    console.print()
    console.print(found.sentence, style="bold", markup=False)
    console.print(found.holds_for, markup=False)
    for remark in found.remarks:
        console.print(remark, style="yellow", markup=False)


def _fitting(found: Answers, console: Console) -> tuple[Table, int]:
    """The fullest table that fits the terminal, and how wide it is: first counts go, then columns."""
    from rich.measure import Measurement

    expendable = EXPENDABLE_OF_PLANS if found.question == "plan" else EXPENDABLE
    for counts, left_out in ((True, 0), *((False, number) for number in range(len(expendable) + 1))):
        drawn = table(found, counts=counts, without=expendable[:left_out])
        width = Measurement.get(console, console.options.update(max_width=WIDEST_TABLE), drawn).maximum
        if width <= console.width:
            break
    return drawn, width


def _drawn(draw: Callable[[], Figure], path: Path) -> None:
    from dprounds.plots import save

    try:
        figure = draw()
    except PrivacyError as error:
        raise UnsupportedError(f"The picture cannot be drawn: {error}") from None
    try:
        save(figure, path)
    except ParameterError as error:
        raise FileError(f"{path} cannot be written: {str(error).rpartition(': ')[2]}") from None


def table(found: Answers, *, counts: bool = True, without: Sequence[str] = ()) -> Table:
    """A row for each method, with what it gains over the moments accountant and over Balle's bound.

    A gain is in percent, and of rounds also in rounds if `counts`; columns may be left out.
    """
    from rich import box
    from rich.table import Table

    if found.question == "plan":
        return _plan_table(found, without)
    quantity = found.quantity
    extra = {name: how for name, how in _extra_columns(found).items() if name not in without}
    bases = {row.method: row for row in found.answers}
    compared = [
        base
        for base in ("moments", "balle")
        if base not in without and any(f"change_from_{base}" in row.values for row in found.answers)
    ]
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    drawn.add_column("method", no_wrap=True)
    drawn.add_column(quantity.title, justify="right", no_wrap=True)
    for base in compared:
        drawn.add_column({"moments": "over moments", "balle": "over Balle"}[base], justify="right", no_wrap=True)
    for title, _ in extra.values():
        drawn.add_column(title, justify="right", no_wrap=True)
    answered = [row for row in found.answers if row.error is None]
    texts = quantity.texts([row.values[quantity.name] or 0 for row in answered])
    answers = {row.method: text for row, text in zip(answered, texts, strict=True)}
    for row in found.answers:
        cells = [row.method, answers.get(row.method, "-")]
        cells += [_gain(row, bases[base], quantity, counts=counts) for base in compared]
        cells += [_cell(row, name, up=up) for name, (_, up) in extra.items()]
        drawn.add_row(*cells, style="bold" if row is found.best else None)
    return drawn


def _plan_table(found: Answers, without: Sequence[str]) -> Table:
    """A row for each batch size at the whole compute, and last, in bold, that of the plan."""
    from rich import box
    from rich.table import Table

    from dprounds.questions.wording import rounded

    near = f"{100 * float(found.inputs['within']):g} %"
    columns = {
        "batch_size": "batch size",
        "rounds": "rounds",
        "epochs": "epochs",
        "noise_multiplier": "noise",
        "excess": "above floor",
        "renyi_excess": "by Rényi",
        "epochs_within": f"{near} after",
    }
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    shown = [name for name in columns if name not in without]
    for name in shown:
        drawn.add_column(columns[name], justify="right", no_wrap=True)
    for row in found.answers:
        cells = []
        for name in shown:
            value = row.values[name]
            if name in ("excess", "renyi_excess"):
                cells.append(f"{100 * float(value or 0):.1f} %")
            elif name == "epochs_within":
                cells.append("never" if value is None else f"{value:,} epoch{'' if value == 1 else 's'}")
            else:
                cells.append(rounded(value or 0, up=name == "noise_multiplier"))
        drawn.add_row(*cells, style="bold" if row is found.best else None)
    return drawn


def _extra_columns(found: Answers) -> dict[str, tuple[str, bool]]:
    """The columns in addition to the answer, of which some row has a value."""
    known = EXTRA_COLUMNS | (SPENT_COLUMN if QUESTIONS[found.question].is_plan else {})
    return {name: how for name, how in known.items() if any(row.values.get(name) is not None for row in found.answers)}


def _cell(row: Answer, name: str, *, up: bool) -> str:
    from dprounds.questions.wording import rounded

    value = row.values.get(name)
    if value is None:
        return ""
    if (
        name == "order" and 1.0 < value < 2.0
    ):  # of an order near 1, the digits that matter are those of its distance from 1
        above = -math.floor(math.log10(value - 1.0))
        return rounded(value, up=up, digits=max(5, above + 3))
    return rounded(value, up=up)


def _gain(row: Answer, base: Answer, quantity: Quantity, *, counts: bool = True) -> str:
    """The change from another method in percent, or as a factor where it is large; a count's in full, if `counts`."""
    change = row.values.get(f"change_from_{base.method}")
    ours, theirs = row.values.get(quantity.name), base.values.get(quantity.name)
    if change is None or ours is None or theirs is None:
        return ""
    if change == 0:
        return "same"
    if not theirs:
        return f"{change:+,}" if isinstance(change, int) else f"+{quantity.text(change)}"
    share = _share(Decimal(ours) / Decimal(theirs), whole=isinstance(change, int))
    return f"{change:+,} ({share})" if counts and isinstance(change, int) and share != "same" else share


def _share(ratio: Decimal, *, whole: bool) -> str:
    """A ratio in percent more or less, as a factor where percents say little. It may be beyond the doubles."""
    percent = 100 * (ratio - 1)
    if abs(percent) < ROUNDING_PERCENT:
        return "same"
    if ratio >= LARGE_FACTOR:
        return f"× {_factor(ratio)}"
    if 0 < ratio <= SMALL_FACTOR:
        return f"÷ {_factor(1 / ratio)}"
    if abs(percent) < LEAST_SHOWN_PERCENT:
        return f"{percent:+.{-percent.adjusted()}f} %"  # one digit that is not zero
    return f"{percent:+.0f} %" if whole and abs(percent) >= 1 and ratio > 1 / LARGE_FACTOR else f"{percent:+.1f} %"


def _factor(factor: Decimal) -> str:
    return f"{factor:,.0f}" if factor < MOST_PLAIN_FACTOR else f"{factor:.1e}"
