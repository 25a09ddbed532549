"""What the commands of a ledger print: sentences, tables, JSON and files."""

from __future__ import annotations

import json as json_text
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprounds.cli.output import FileError

if TYPE_CHECKING:
    from dprounds.ledger import Refusal, Status, Token

__all__ = [
    "TIME",
    "as_dict",
    "budget_of",
    "described",
    "percent",
    "percent_up",
    "print_json",
    "print_table",
    "say",
    "write_file",
]

TIME = "time (UTC)"  # the head of a column of times, which do not wrap


def described(found: Status, block: str | None) -> Iterator[str]:
    """A budget, or one block of it, in a few lines, with what may be published of it."""
    from dprounds.questions.wording import EPSILON, plain

    yield f"{found.name}: {budget_of(found)}, {found.filter} filter, {found.relation}"
    if found.note:
        yield found.note
    of, about = "", ""
    if block is not None:
        of, about = f" of block {block}", f" about the records of block {block} alone"
    elif found.has_blocks and found.blocks:
        of = " of its one block" if found.blocks == 1 else f" of the fullest of {found.blocks:,} blocks"
    yield f"{percent(found.share_left)} is left{of}; about ε = {EPSILON.text(found.epsilon_spent)} is spent."
    jobs = "1 job" if found.reserved == 1 else f"{found.reserved:,} jobs"
    yield f"{jobs} reserved, {found.committed:,} committed, {found.voided:,} voided."
    yield f"You may publish: {budget_of(found)}, whatever was asked and however it was chosen."
    if found.reading is not None:
        at = f" at δ = {plain(found.delta)}" if found.delta else ""
        said = f"ε = {EPSILON.text(found.reading)}{at}"
        yield f"You may also publish{about} what is spent so far by the odometer: {said}."
    if found.delta:
        yield "What is left and about what is spent is no guarantee: do not state it as one."


def budget_of(found: Status) -> str:
    """A budget: ε, and δ if it has one."""
    from dprounds.questions.wording import plain

    return f"ε = {plain(found.epsilon)}" + (f" at δ = {plain(found.delta)}" if found.delta else "")


def percent(share: float) -> str:
    """A share in percent, rounded down."""
    return f"{int(share * 10_000) / 100:.2f} %"


def percent_up(share: float) -> str:
    """A share in percent, rounded up."""
    return "more than all" if share == math.inf else f"{math.ceil(share * 10_000) / 100:.2f} %"


def as_dict(found: Status | Token | Refusal) -> dict[str, Any]:
    """What is found, as JSON holds it."""
    from dataclasses import asdict

    return asdict(found)


def write_file(path: Path, pieces: Iterator[bytes]) -> None:
    """Write a file piece by piece."""
    try:
        with path.open("wb") as file:
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror}.") from None


def say(json: bool, told: dict[str, Any], sentence: str) -> None:
    """Print an answer, as JSON or as a sentence."""
    if json:
        print_json(told)
    else:
        print(sentence)


def print_json(told: object) -> None:
    """Print JSON, in letters that the terminal knows."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(json_text.dumps(told, indent=2, ensure_ascii=encoding.lower().replace("-", "") != "utf8", allow_nan=False))


def print_table(columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    """Print rows below their columns."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        drawn.add_column(column, no_wrap=column == TIME)
    for row in rows:
        drawn.add_row(*(escape(f"{value:,}" if isinstance(value, int) else str(value)) for value in row))
    Console(highlight=False).print(drawn)
