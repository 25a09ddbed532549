"""Commands about a budget: open, status, history; and about the whole ledger: verify, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprounds.cli.ledger.flags import By, Json, Name, Url, opened_ledger
from dprounds.cli.ledger.wording import (
    TIME,
    as_dict,
    budget_of,
    described,
    percent,
    print_json,
    print_table,
    say,
    write_file,
)
from dprounds.cli.options import number
from dprounds.cli.output import FileError
from dprounds.errors import ParameterError

__all__ = ["history", "open_budget", "refusals", "status", "verify"]


def open_budget(
    name: Name,
    *,
    epsilon: Annotated[float | None, typer.Option(parser=number, metavar="NUMBER", help="Required: budget ε.")] = None,
    delta: Annotated[
        float | None, typer.Option(parser=number, metavar="NUMBER", help="Budget δ; none for a pure one.")
    ] = None,
    filter: Annotated[
        str, typer.Option(metavar="WORD", help="What is added up: gaussian, renyi or pure.")
    ] = "gaussian",
    relation: Annotated[
        str, typer.Option(metavar="WORD", help="Which data sets are neighbours: add-remove, replace-one or zero-out.")
    ] = "add-remove",
    blocks: Annotated[bool, typer.Option("--blocks", help="Records belong to blocks, each with all of it.")] = False,
    order: Annotated[float | None, typer.Option(parser=number, metavar="NUMBER", help="Rényi order, of renyi.")] = None,
    revealed: Annotated[
        float | None, typer.Option(parser=number, metavar="NUMBER", help="The part of δ that jobs may reveal.")
    ] = None,
    note: Annotated[str, typer.Option(metavar="TEXT", help="What to remember.")] = "",
    by: By = "",
    url: Url = None,
    json: Json = False,
) -> None:
    """Open the budget of a data set, which never changes.

    gaussian is for DP-SGD and Gaussian queries; renyi for many runs with little noise; pure for δ = 0.

    Example: dprounds ledger open patients --epsilon 3 --delta 1e-6
    """
    if epsilon is None:
        raise ParameterError("{argument} must be given.", argument="epsilon")
    with opened_ledger(url) as ledger:
        ledger.open(
            name,
            epsilon=epsilon,
            delta=delta,
            filter=filter,
            relation=relation,
            blocks=blocks,
            order=order,
            revealed=revealed,
            note=note,
            by=by,
        )
        status = ledger.status(name)
    say(json, as_dict(status), f"Opened the {status.filter} budget of {name}: {budget_of(status)}.")


def status(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The data set; all of them by default.")] = None,
    *,
    block: Annotated[str | None, typer.Option("--block", metavar="TEXT", help="Of one block.")] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """What is left, and which numbers may be published.

    Example: dprounds ledger status patients
    """
    with opened_ledger(url) as ledger:
        names = ledger.names() if name is None else [name]
        found = [ledger.status(each, block=block) for each in names]
    if json:
        every = [as_dict(each) for each in found]
        print_json(every if name is None else every[0])
        return
    if name is None:
        print_table(
            ("data set", "budget", "filter", "left", "reserved", "committed"),
            [
                (each.name, budget_of(each), each.filter, percent(each.share_left), each.reserved, each.committed)
                for each in found
            ],
        )
        return
    for line in described(found[0], block):
        print(line)


def history(
    name: Name,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it to a file: .csv, .json or .parquet.")
    ] = None,
    after: Annotated[int, typer.Option(metavar="N", help="Only entries after this number.")] = 0,
    url: Url = None,
    json: Json = False,
) -> None:
    """All entries of a data set, oldest first.

    Example: dprounds ledger history patients --out history.csv
    """
    with opened_ledger(url) as ledger:
        from dprounds.ledger.export import exported, flat

        if out is not None:
            if out.suffix.lower() not in (".csv", ".json", ".parquet"):
                raise FileError(f"{out} must end in .csv, .json or .parquet.")
            write_file(out, exported(ledger, name, out.suffix.lower()[1:], after=after))
            print(f"The history of {name} was written to {out}.")
            return
        entries = [flat(entry, ledger.budget(name).filter.sums) for entry in ledger.history(name, after=after)]
    if json:
        print_json(entries)
    else:
        rows = []
        for entry in entries:  # the detail of an opening is all that was fixed; a file holds it
            reason = entry["detail"] if entry["kind"] == "void" else entry["run"]
            time = entry["at"][:19].replace("T", " ")
            rows.append((entry["number"], time, entry["kind"], entry["key"], entry["by"], reason))
        print_table(("number", TIME, "kind", "key", "by", "run or reason"), rows)


def verify(*, url: Url = None, json: Json = False) -> None:
    """Recompute the chain, every cost from its run, and every total; exit code 1 if anything does not fit.

    Example: dprounds ledger verify
    """
    with opened_ledger(url) as ledger:
        ledger.verify()
        heads = {name: ledger.status(name).head for name in ledger.names()}
    sets = "1 data set" if len(heads) == 1 else f"{len(heads):,} data sets"
    say(json, {"verified": True, "heads": heads}, f"Everything fits: {sets}.")


def refusals(
    *,
    limit: Annotated[int, typer.Option(metavar="N", help="At most this many.")] = 100,
    url: Url = None,
    json: Json = False,
) -> None:
    """Who was turned away over HTTP, and why: the newest first.

    Example: dprounds ledger refusals --limit 20
    """
    with opened_ledger(url) as ledger:
        found = ledger.refusals.last(limit)
    if json:
        print_json([as_dict(refusal) for refusal in found])
        return
    columns = ("at", "token", "address", "route", "reason")
    print_table(columns, [tuple(getattr(refusal, column) for column in columns) for refusal in found])
