"""``dprounds ledger``: one budget for many jobs, kept in a database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprounds.cli.ledger import budgets, jobs, tokens
from dprounds.cli.ledger.flags import VARIABLE

__all__ = ["COMMANDS", "HELP", "TOKEN_COMMANDS", "TOKEN_HELP"]

HELP = f"""One budget for many jobs, kept in a database: reserve before the work, commit after it.

Every command takes --url, or the environment variable {VARIABLE}: sqlite:///budget.db, or postgresql+psycopg://…

Example: dprounds ledger open patients --epsilon 3 --delta 1e-6 --url sqlite:///budget.db"""
TOKEN_HELP = """Who may ask over HTTP, about which budget, and for what.

A token is for one budget or for all, and has a scope: read, spend (which includes read) or admin (which includes both).

Example: dprounds ledger token create nightly --budget patients --scope spend"""

TOKEN_COMMANDS: Mapping[str, Any] = {
    "create": tokens.create_token,
    "list": tokens.list_tokens,
    "revoke": tokens.revoke_token,
}
COMMANDS: Mapping[str, Any] = {
    "open": budgets.open_budget,
    "cost": jobs.cost,
    "reserve": jobs.reserve,
    "begin": jobs.begin,
    "commit": jobs.commit,
    "void": jobs.void,
    "status": budgets.status,
    "history": budgets.history,
    "verify": budgets.verify,
    "refusals": budgets.refusals,
}
