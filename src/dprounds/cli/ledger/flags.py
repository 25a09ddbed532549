"""Arguments and flags that the commands of a ledger share, and the ledger that they name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from dprounds.errors import ParameterError

if TYPE_CHECKING:  # the library loads when a command runs, not for --help
    from dprounds.ledger import Ledger

__all__ = ["JOB", "VARIABLE", "Blocks", "By", "Json", "Key", "Name", "Url", "opened_ledger"]

VARIABLE = "DPROUNDS_LEDGER"
LEDGER, JOB = "The ledger", "The job"

Name = Annotated[str, typer.Argument(metavar="NAME", help="The data set.")]
Key = Annotated[
    str, typer.Option("--key", metavar="TEXT", help="Required: the job. A retry with the same key is free.")
]
By = Annotated[str, typer.Option("--by", metavar="TEXT", help="Who asks.")]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help=f"The ledger, or {VARIABLE}.", rich_help_panel=LEDGER)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Blocks = Annotated[
    list[str] | None,
    typer.Option("--block", metavar="TEXT", help="A block that the job reads; may be repeated.", rich_help_panel=JOB),
]


@contextmanager
def opened_ledger(url: str | None) -> Iterator[Ledger]:
    """The ledger that a flag or the environment names; closed at the end."""
    given = url or os.environ.get(VARIABLE)
    if not given:
        raise ParameterError(f"{{argument}} must be given, or {VARIABLE} be set.", argument="url")
    from dprounds.ledger import Ledger

    found = Ledger(given)
    try:
        yield found
    finally:
        found.close()
