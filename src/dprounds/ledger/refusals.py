"""Refusals: who was turned away over HTTP, when, from where and why."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import insert, select

from dprounds._validate import count
from dprounds.ledger import tables
from dprounds.ledger.database import Database
from dprounds.ledger.entries import now

__all__ = ["NO_TOKEN", "Refusal", "Refusals"]

NO_TOKEN = "none"
LONGEST_REASON = 2000


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """One request that was turned away.

    Parameters
    ----------
    number
        Its place among all of them; some numbers may be missing.
    at
        When, in UTC.
    token
        The name of the token; ``"none"`` where there was none, or an unknown one.
    address
        From where, as the server saw it: behind a proxy, that of the proxy.
    route
        What was asked for, without what was said to it.
    reason
        Why it was refused.
    """

    number: int
    at: str
    token: str
    address: str
    route: str
    reason: str


class Refusals:
    """The refusals of a ledger: `Ledger.refusals`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, *, token: str | None, address: str, route: str, reason: str) -> None:
        """Remember that a request was turned away; what is too long for the table is cut."""
        row = {
            "at": now(),
            "token": _line(token or NO_TOKEN, tables.LONGEST_NAME),
            "address": _line(address, tables.LONGEST_NAME),
            "route": _line(route, tables.LONGEST_NAME),
            "reason": _line(reason, LONGEST_REASON),
        }
        self._database.write(lambda connection: connection.execute(insert(tables.refusals).values(**row)))

    def last(self, limit: int = 100) -> list[Refusal]:
        """The last refusals, the newest first."""
        wanted = select(tables.refusals).order_by(tables.refusals.c.number.desc()).limit(count("limit", limit))
        rows = self._database.read(lambda connection: connection.execute(wanted).mappings().all())
        return [Refusal(**{str(name): value for name, value in row.items()}) for row in rows]


def _line(text: str, longest: int) -> str:
    """A text as one printable line of limited length."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:longest])
