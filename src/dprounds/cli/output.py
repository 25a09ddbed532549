"""How an answer is shown: the table, the sentence, the picture, or JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from dprounds.cli.sentences import without_python
from dprounds.errors import InfeasibleError, ParameterError, PrivacyError, UnsupportedError

if TYPE_CHECKING:  # the library loads when a question is asked, not for --help
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

    from dprounds.mechanisms import Run
    from dprounds.questions import Answer, Answers
    from dprounds.questions.wording import Quantity

__all__ = ["FileError", "drawable", "opened", "show", "table"]

# What the columns beside the answer are called for people, and whether a reader wants them rounded up.
BESIDE = {"epochs": ("epochs", False), "batch_size": ("batch size", False), "order": ("order", True)}
SPENT = {"epsilon": ("ε spent", True)}
# Below this a change in percent with one decimal reads as none.
LEAST_PERCENT = 0.05
# And below this it is the rounding of two searches.
NO_PERCENT = 1e-9
# Outside of these a factor says more than percents: less than a thousandth would read as a loss of everything.
LARGE_FACTOR, SMALL_FACTOR = Decimal(100), Decimal("0.001")
MOST_PLAIN_FACTOR = Decimal(10**6)
# Beyond this, doubles no longer count one by one.
MOST_DRAWN_ROUNDS = 2**53
# What a narrow terminal can do without, first to last; the answer stays. And wider than any table.
EXPENDABLE = ("epsilon", "order", "moments", "batch_size", "epochs", "balle")
WIDEST = 1000
# The questions whose answer is a plan, of which one wants to know what it spends.
PLANS = ("rounds", "noise", "rate")


def opened(path: Path | None) -> Run | None:
    """The run that a file describes, if one is named."""
    from dprounds.questions import run_from_file

    try:
        return None if path is None else run_from_file(path)
    except ParameterError as error:
        raise FileError(str(error)) from None


class FileError(ParameterError):
    """What is wrong in a file, said in the file's words and not in flags."""


def drawable(run: Run) -> Run:
    """`run`, if its rounds can be told apart on an axis."""
    if len(run.parts) == 1 and run.rounds > MOST_DRAWN_ROUNDS:
        raise UnsupportedError(f"{run.rounds:.0e} rounds are more than the 2^53 that doubles count one by one.")
    return run


def show(found: Answers, *, json: bool, plot: Path | None, draw: Callable[[], Figure]) -> None:
    """Print the answers, then draw them if asked to: a picture that fails takes no answer with it.

    Raises if no ε is proven: that is no answer for whoever reads the exit code, and JSON holds it all the same.
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
        sys.stdout.flush()  # before the picture's trouble, if it has any
    _drawn(draw, plot)
    if not json:
        print(f"Drawn to {plot}.")


def _encodes(text: str) -> bool:
    """Whether the output has letters for this; a code that takes the place of one need not be JSON's."""
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
    # what does not even fit without its last column is left to the terminal to break, and never cut
    (console if width <= console.width else Console(highlight=False, width=width)).print(drawn)
    for row in found.answers:
        if row.error is not None:
            why = without_python(row.error).removesuffix(" Use --method optimal.")  # which the table has already
            console.print(f"{row.method}: {why}", style="yellow", markup=False)
    console.print()
    console.print(found.sentence, style="bold", markup=False)
    console.print(found.holds_for, markup=False)
    for remark in found.remarks:
        console.print(remark, style="yellow", markup=False)


def _fitting(found: Answers, console: Console) -> tuple[Table, int]:
    """The fullest table that fits the terminal, and how wide it is: first counts go, then columns."""
    from rich.measure import Measurement

    for counts, left_out in ((True, 0), *((False, number) for number in range(len(EXPENDABLE) + 1))):
        drawn = table(found, counts=counts, without=EXPENDABLE[:left_out])
        width = Measurement.get(console, console.options.update(max_width=WIDEST), drawn).maximum
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

    quantity = found.quantity
    beside = {name: how for name, how in _beside(found).items() if name not in without}
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
    for title, _ in beside.values():
        drawn.add_column(title, justify="right", no_wrap=True)
    answered = [row for row in found.answers if row.error is None]
    texts = quantity.texts([row.values[quantity.name] or 0 for row in answered])
    answers = {row.method: text for row, text in zip(answered, texts, strict=True)}
    for row in found.answers:
        cells = [row.method, answers.get(row.method, "-")]
        cells += [_gain(row, bases[base], quantity, counts=counts) for base in compared]
        cells += [_cell(row, name, up=up) for name, (_, up) in beside.items()]
        drawn.add_row(*cells, style="bold" if row is found.best else None)
    return drawn


def _beside(found: Answers) -> dict[str, tuple[str, bool]]:
    """The columns beside the answer, of which some row has a value."""
    beside = BESIDE | (SPENT if found.question in PLANS else {})
    return {name: how for name, how in beside.items() if any(row.values.get(name) is not None for row in found.answers)}


def _cell(row: Answer, name: str, *, up: bool) -> str:
    from dprounds.questions.wording import rounded

    value = row.values.get(name)
    if value is None:
        return ""
    if name == "order" and 1.0 < value < 2.0:  # what counts of an order near one is how far above it is
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
    if abs(percent) < NO_PERCENT:
        return "same"
    if ratio >= LARGE_FACTOR:
        return f"× {_factor(ratio)}"
    if 0 < ratio <= SMALL_FACTOR:
        return f"÷ {_factor(1 / ratio)}"
    if abs(percent) < LEAST_PERCENT:
        return f"{percent:+.{-percent.adjusted()}f} %"  # one digit that is not zero
    return f"{percent:+.0f} %" if whole and abs(percent) >= 1 and ratio > 1 / LARGE_FACTOR else f"{percent:+.1f} %"


def _factor(factor: Decimal) -> str:
    return f"{factor:,.0f}" if factor < MOST_PLAIN_FACTOR else f"{factor:.1e}"
