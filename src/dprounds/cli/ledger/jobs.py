"""Commands about a job: what it costs, reserve, begin, commit, void."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from dprounds.cli.ledger.flags import JOB, Blocks, By, Json, Key, Name, Url, opened_ledger
from dprounds.cli.ledger.wording import percent, percent_up, say
from dprounds.cli.options import number
from dprounds.cli.output import opened
from dprounds.cli.question import file_option, typed_option
from dprounds.errors import BudgetExceededError, JobStateError
from dprounds.questions.vocabulary import QUESTIONS, SETTING, WORDS

__all__ = ["begin", "commit", "cost", "reserve", "void"]

RESERVE_HELP = """Charge a job before it begins; exit code 1, and nothing is charged, if it does not fit.

    Exit code 1 too if a job with this key has begun, was committed or was voided. The flags are those of
    `dprounds epsilon`, or --run FILE.

    Example: dprounds ledger reserve patients --key means --noise-multiplier 20 --rounds 100
    """
COST_HELP = """What a job would cost, and whether it fits: exit code 1 if it does not. Nothing is charged.

    The flags are those of `dprounds epsilon`, or --run FILE.

    Example: dprounds ledger cost patients --noise-multiplier 20 --rounds 100
    """


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
    with opened_ledger(url) as ledger:
        grant = ledger.reserve(name, job, key=key, by=by, blocks=block, delta=reveal)
        if grant.state != "reserved":
            raise JobStateError(
                f"{key} is {grant.state} already: a script that goes on from here would do its work again, on one "
                "charge. Use another key for another job."
            )
        status = ledger.status(name)
    told = {"name": name, "key": key, "state": grant.state, "run": repr(job), "share_left": status.share_left}
    say(json, told, f"{key} is {grant.state}: {percent(status.share_left)} of the budget of {name} is left.")


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
    with opened_ledger(url) as ledger:
        found = ledger.cost(name, job, blocks=block, delta=reveal)
    cost = {f"{sum_of}_units": str(amount) for sum_of, amount in found.cost.items()}
    share = "inf" if found.share == math.inf else found.share
    told = {"name": name, "fits": found.fits, "share": share, "share_left": found.share_left, **cost}
    if found.fits or json:
        left = percent(found.share_left)
        say(json, told, f"It costs {percent_up(found.share)} of the budget of {name}, of which {left} is left.")
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


def begin(name: Name, *, key: Key, by: By = "", url: Url = None, json: Json = False) -> None:
    """Record that the work of a reserved job begins; exit code 1 if it has begun before.

    So a script that runs twice, or again after a crash, does its work once for one charge.

    Example: dprounds ledger begin patients --key means
    """
    with opened_ledger(url) as ledger:
        ledger.begin(name, key, by=by)
    say(json, {"name": name, "key": key, "state": "begun"}, f"{key} has begun.")


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
    with opened_ledger(url) as ledger:
        made = None if rounds_made is None else ledger.grant(name, key).of_rounds(rounds_made)
        ledger.commit(name, key, made=made, by=by)
    told: dict[str, Any] = {"name": name, "key": key, "state": "committed"}
    say(json, told if rounds_made is None else {**told, "rounds_made": rounds_made}, f"{key} is committed.")


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
    with opened_ledger(url) as ledger:
        ledger.void(name, key, reason=reason, by=by)
    say(json, {"name": name, "key": key, "state": "voided"}, f"{key} is voided; it stays in the history.")


cost = _job_command(_cost, COST_HELP, {})
reserve = _job_command(_reserve, RESERVE_HELP, {"key": (Key, ...), "by": (By, "")})
