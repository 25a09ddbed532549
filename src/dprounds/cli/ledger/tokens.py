"""Commands about the tokens of the HTTP side: create, list, revoke."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dprounds.cli.ledger.flags import Json, Url, opened_ledger
from dprounds.cli.ledger.wording import as_dict, print_json, print_table, say
from dprounds.errors import ParameterError

__all__ = ["create_token", "list_tokens", "revoke_token"]


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
    with opened_ledger(url) as ledger:
        text = ledger.tokens.create(name, budget=budget, scope=scope, expires_at=expires_at)
    if json:
        print_json({"name": name, "token": text})
        return
    print(text)
    print(f"This is token {name}. Keep it now: it is never shown again.", file=sys.stderr)


def list_tokens(*, url: Url = None, json: Json = False) -> None:
    """All tokens that were ever made, without the tokens themselves.

    Example: dprounds ledger token list
    """
    with opened_ledger(url) as ledger:
        found = ledger.tokens.all()
    if json:
        print_json([as_dict(token) for token in found])
        return
    print_table(
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
    with opened_ledger(url) as ledger:
        ledger.tokens.revoke(name)
    say(json, {"name": name, "state": "revoked"}, f"{name} is revoked.")
