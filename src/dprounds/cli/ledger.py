"""``dprounds ledger``: one budget for many jobs, kept in a database."""

from __future__ import annotations

import json as json_text
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprounds.cli.options import number
from dprounds.cli.output import FileError, opened
from dprounds.cli.question import file_option, typed_option
from dprounds.errors import BudgetExceededError, JobStateError, ParameterError
from dprounds.questions.vocabulary import QUESTIONS, SETTING, WORDS

if TYPE_CHECKING:  # the library loads when a command runs, not for --help
    from dprounds.ledger import Ledger, Refusal, Status, Token

__all__ = ["COMMANDS", "HELP", "TOKEN_COMMANDS", "TOKEN_HELP"]

VARIABLE = "DPROUNDS_LEDGER"
HELP = f"""One budget for many jobs, kept in a database: reserve before the work, commit after it.

Every command takes --url, or the environment variable {VARIABLE}: sqlite:///budget.db, or postgresql+psycopg://…

Example: dprounds ledger open patients --epsilon 3 --delta 1e-6 --url sqlite:///budget.db"""
TOKEN_HELP = """Who may ask over HTTP, about which budget, and for what.

A token is for one budget or for all, and has a scope: read, spend (which includes read) or admin (which includes both).

Example: dprounds ledger token create nightly --budget patients --scope spend"""
LEDGER, JOB = "The ledger", "The job"
TIME = "time (UTC)"

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
    with _ledger(url) as ledger:
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
    _say(json, _as_dict(status), f"Opened the {status.filter} budget of {name}: {_budget(status)}.")


def _reserve(
    name: str,
    *,
    key: str,
    by: str,
    block: list[str] | None,
    reveal: float | None,
    run: Path | None,
    url: str | None,
    json: bool,
    **typed: Any,  # noqa: ANN401  (what the flags of a setting hold)
) -> None:
    from dprounds import questions

    job = questions.run_of(questions.Setting(**typed), opened(run))
    with _ledger(url) as ledger:
        grant = ledger.reserve(name, job, key=key, by=by, blocks=block, delta=reveal)
        if grant.state != "reserved":
            raise JobStateError(
                f"{key} is {grant.state} already: a script that goes on from here would do its work again, on one "
                "charge. Use another key for another job."
            )
        status = ledger.status(name)
    told = {"name": name, "key": key, "state": grant.state, "run": repr(job), "share_left": status.share_left}
    _say(json, told, f"{key} is {grant.state}: {_percent(status.share_left)} of the budget of {name} is left.")


def _cost(
    name: str,
    *,
    block: list[str] | None,
    reveal: float | None,
    run: Path | None,
    url: str | None,
    json: bool,
    **typed: Any,  # noqa: ANN401  (as above)
) -> None:
    from dprounds import questions

    job = questions.run_of(questions.Setting(**typed), opened(run))
    with _ledger(url) as ledger:
        found = ledger.cost(name, job, blocks=block, delta=reveal)
    cost = {f"{sum_of}_units": str(amount) for sum_of, amount in found.cost.items()}
    share = "inf" if found.share == math.inf else found.share
    told = {"name": name, "fits": found.fits, "share": share, "share_left": found.share_left, **cost}
    if found.fits or json:
        left = _percent(found.share_left)
        _say(json, told, f"It costs {_percent_up(found.share)} of the budget of {name}, of which {left} is left.")
    if not found.fits:
        raise BudgetExceededError(found.refusal)


def _job_command(work: Callable[..., None], about: str, own: dict[str, tuple[object, object]]) -> Any:  # noqa: ANN401  (as below)
    """A command about a job, with a flag for each word that describes one."""
    asked = QUESTIONS["epsilon"]
    reveal = typer.Option(
        "--reveal", parser=number, metavar="NUMBER", help="What the job may reveal of δ.", rich_help_panel=JOB
    )
    parameters: dict[str, tuple[object, object]] = {
        **own,
        "block": (Blocks, None),
        "reveal": (Annotated[float | None, reveal], None),
        **{word: typed_option(asked, WORDS[word]) for word in asked.flags if word in SETTING},
        "run": (Annotated[Path | None, file_option("run")], None),
        "url": (Url, None),
        "json": (Json, False),
    }
    kinds = [Parameter("name", Parameter.POSITIONAL_OR_KEYWORD, annotation=Name)]
    kinds += [
        Parameter(word, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for word, (annotation, default) in parameters.items()
    ]

    def command(*given: Any, **typed: Any) -> None:  # noqa: ANN401  (a function whose flags are made of the vocabulary)
        work(*given, **typed)

    vars(command)["__signature__"] = Signature(kinds)
    command.__doc__ = about
    return command


RESERVE_HELP = """Charge a job before it begins; exit code 1, and nothing is charged, if it does not fit.

    Exit code 1 too if a job with this key has begun, was committed or was voided. The flags are those of
    `dprounds epsilon`, or --run FILE.

    Example: dprounds ledger reserve patients --key means --noise-multiplier 20 --rounds 100
    """
COST_HELP = """What a job would cost, and whether it fits: exit code 1 if it does not. Nothing is charged.

    The flags are those of `dprounds epsilon`, or --run FILE.

    Example: dprounds ledger cost patients --noise-multiplier 20 --rounds 100
    """


def begin(name: Name, *, key: Key, by: By = "", url: Url = None, json: Json = False) -> None:
    """Record that the work of a reserved job begins; exit code 1 if it has begun before.

    So a script that runs twice, or again after a crash, does its work once for one charge.

    Example: dprounds ledger begin patients --key means
    """
    with _ledger(url) as ledger:
        ledger.begin(name, key, by=by)
    _say(json, {"name": name, "key": key, "state": "begun"}, f"{key} has begun.")


def commit(
    name: Name,
    *,
    key: Key,
    rounds_made: Annotated[
        int | None,
        typer.Option("--rounds-made", metavar="N", help="Give the other rounds back; for renyi and pure budgets."),
    ] = None,
    by: By = "",
    url: Url = None,
    json: Json = False,
) -> None:
    """Record that a reserved job was done.

    With --rounds-made, only so many of its rounds: when to stop was chosen by what the job released, or not at all by
    the data.

    Example: dprounds ledger commit patients --key means
    """
    with _ledger(url) as ledger:
        made = None if rounds_made is None else ledger.grant(name, key).of_rounds(rounds_made)
        ledger.commit(name, key, made=made, by=by)
    told: dict[str, Any] = {"name": name, "key": key, "state": "committed"}
    _say(json, told if rounds_made is None else {**told, "rounds_made": rounds_made}, f"{key} is committed.")


def void(
    name: Name,
    *,
    key: Key,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Required: why it never read the data.")],
    by: By = "",
    url: Url = None,
    json: Json = False,
) -> None:
    """Give a reservation back, on your word that the job never looked at the data.

    Example: dprounds ledger void patients --key means --reason "never started"
    """
    with _ledger(url) as ledger:
        ledger.void(name, key, reason=reason, by=by)
    _say(json, {"name": name, "key": key, "state": "voided"}, f"{key} is voided; it stays in the history.")


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
    with _ledger(url) as ledger:
        names = ledger.names() if name is None else [name]
        found = [ledger.status(each, block=block) for each in names]
    if json:
        every = [_as_dict(each) for each in found]
        _print_json(every if name is None else every[0])
        return
    if name is None:
        _table(
            ("data set", "budget", "filter", "left", "reserved", "committed"),
            [
                (each.name, _budget(each), each.filter, _percent(each.share_left), each.reserved, each.committed)
                for each in found
            ],
        )
        return
    for line in _described(found[0], block):
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
    with _ledger(url) as ledger:
        from dprounds.ledger.export import exported, flat

        if out is not None:
            if out.suffix.lower() not in (".csv", ".json", ".parquet"):
                raise FileError(f"{out} must end in .csv, .json or .parquet.")
            _write(out, exported(ledger, name, out.suffix.lower()[1:], after=after))
            print(f"The history of {name} was written to {out}.")
            return
        entries = [flat(entry, ledger.budget(name).filter.sums) for entry in ledger.history(name, after=after)]
    if json:
        _print_json(entries)
    else:
        rows = []
        for entry in entries:  # the detail of an opening is all that was fixed; a file holds it
            reason = entry["detail"] if entry["kind"] == "void" else entry["run"]
            time = entry["at"][:19].replace("T", " ")
            rows.append((entry["number"], time, entry["kind"], entry["key"], entry["by"], reason))
        _table(("number", TIME, "kind", "key", "by", "run or reason"), rows)


def verify(*, url: Url = None, json: Json = False) -> None:
    """Recompute the chain, every cost from its run, and every total; exit code 1 if anything does not fit.

    Example: dprounds ledger verify
    """
    with _ledger(url) as ledger:
        ledger.verify()
        heads = {name: ledger.status(name).head for name in ledger.names()}
    sets = "1 data set" if len(heads) == 1 else f"{len(heads):,} data sets"
    _say(json, {"verified": True, "heads": heads}, f"Everything fits: {sets}.")


def refusals(
    *,
    limit: Annotated[int, typer.Option(metavar="N", help="At most this many.")] = 100,
    url: Url = None,
    json: Json = False,
) -> None:
    """Who was turned away over HTTP, and why: the newest first.

    Example: dprounds ledger refusals --limit 20
    """
    with _ledger(url) as ledger:
        found = ledger.refusals.last(limit)
    if json:
        _print_json([_as_dict(refusal) for refusal in found])
        return
    columns = ("at", "token", "address", "route", "reason")
    _table(columns, [tuple(getattr(refusal, column) for column in columns) for refusal in found])


def create_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it, never used before.")],
    *,
    budget: Annotated[str | None, typer.Option("--budget", metavar="NAME", help="The one budget it is for.")] = None,
    all_budgets: Annotated[
        bool, typer.Option("--all-budgets", help="It is for all budgets, also those opened later.")
    ] = False,
    scope: Annotated[str, typer.Option(metavar="WORD", help="What it may do: read, spend or admin.")] = "read",
    expires_at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Refused from then on, such as 2027-01-31, in UTC; never if it is not given."
        ),
    ] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Make a token and show it, once: the ledger keeps only its hash.

    Example: dprounds ledger token create nightly --budget patients --scope spend
    """
    if (budget is None) is not all_budgets:
        raise ParameterError("Give either {budget} NAME or {all_budgets}.", argument="budget")
    with _ledger(url) as ledger:
        text = ledger.tokens.create(name, budget=budget, scope=scope, expires_at=expires_at)
    if json:
        _print_json({"name": name, "token": text})
        return
    print(text)
    print(f"This is token {name}. Keep it now: it is never shown again.", file=sys.stderr)


def list_tokens(*, url: Url = None, json: Json = False) -> None:
    """All tokens that were ever made, without the tokens themselves.

    Example: dprounds ledger token list
    """
    with _ledger(url) as ledger:
        found = ledger.tokens.all()
    if json:
        _print_json([_as_dict(token) for token in found])
        return
    _table(
        ("name", "budget", "scope", "created", "expires", "state"),
        [
            (
                token.name,
                "all" if token.budget is None else repr(token.budget),
                token.scope,
                token.created_at[:10],
                (token.expires_at or "never")[:16],
                token.trouble or "valid",
            )
            for token in found
        ],
    )


def revoke_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The token's name.")],
    *,
    url: Url = None,
    json: Json = False,
) -> None:
    """Refuse a token from now on.

    Example: dprounds ledger token revoke nightly
    """
    with _ledger(url) as ledger:
        ledger.tokens.revoke(name)
    _say(json, {"name": name, "state": "revoked"}, f"{name} is revoked.")


TOKEN_COMMANDS: Mapping[str, Any] = {"create": create_token, "list": list_tokens, "revoke": revoke_token}
COMMANDS: Mapping[str, Any] = {
    "open": open_budget,
    "cost": _job_command(_cost, COST_HELP, {}),
    "reserve": _job_command(_reserve, RESERVE_HELP, {"key": (Key, ...), "by": (By, "")}),
    "begin": begin,
    "commit": commit,
    "void": void,
    "status": status,
    "history": history,
    "verify": verify,
    "refusals": refusals,
}


@contextmanager
def _ledger(url: str | None) -> Iterator[Ledger]:
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


def _described(found: Status, block: str | None) -> Iterator[str]:
    """A budget, or one block of it, in a few lines, with what may be published of it."""
    from dprounds.questions.wording import EPSILON, plain

    yield f"{found.name}: {_budget(found)}, {found.filter} filter, {found.relation}"
    if found.note:
        yield found.note
    of, about = "", ""
    if block is not None:
        of, about = f" of block {block}", f" about the records of block {block} alone"
    elif found.has_blocks and found.blocks:
        of = " of its one block" if found.blocks == 1 else f" of the fullest of {found.blocks:,} blocks"
    yield f"{_percent(found.share_left)} is left{of}; about ε = {EPSILON.text(found.epsilon_spent)} is spent."
    jobs = "1 job" if found.reserved == 1 else f"{found.reserved:,} jobs"
    yield f"{jobs} reserved, {found.committed:,} committed, {found.voided:,} voided."
    yield f"You may publish: {_budget(found)}, whatever was asked and however it was chosen."
    if found.reading is not None:
        at = f" at δ = {plain(found.delta)}" if found.delta else ""
        said = f"ε = {EPSILON.text(found.reading)}{at}"
        yield f"You may also publish{about} what is spent so far by the odometer: {said}."
    if found.delta:
        yield "What is left and about what is spent is no guarantee: do not state it as one."


def _budget(found: Status) -> str:
    from dprounds.questions.wording import plain

    return f"ε = {plain(found.epsilon)}" + (f" at δ = {plain(found.delta)}" if found.delta else "")


def _percent(share: float) -> str:
    """A share in percent, rounded down."""
    return f"{int(share * 10_000) / 100:.2f} %"


def _percent_up(share: float) -> str:
    """A share in percent, rounded up."""
    return "more than all" if share == math.inf else f"{math.ceil(share * 10_000) / 100:.2f} %"


def _as_dict(found: Status | Token | Refusal) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(found)


def _write(path: Path, pieces: Iterator[bytes]) -> None:
    try:
        with path.open("wb") as file:
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror}.") from None


def _say(json: bool, told: dict[str, Any], sentence: str) -> None:
    if json:
        _print_json(told)
    else:
        print(sentence)


def _print_json(told: object) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(json_text.dumps(told, indent=2, ensure_ascii=encoding.lower().replace("-", "") != "utf8", allow_nan=False))


def _table(columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
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
