"""Tokens: who may ask a ledger over HTTP, about which budget, and for what."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, RowMapping, insert, select, update

from dprounds._validate import choice, show
from dprounds.errors import ParameterError
from dprounds.ledger import tables
from dprounds.ledger.arguments import word
from dprounds.ledger.database import Database
from dprounds.ledger.entries import now

__all__ = ["SCOPES", "Token", "Tokens"]

# What a token may do; each scope includes those before it.
SCOPES = ("read", "spend", "admin")
# 32 random bytes, 256 bits: nobody guesses them, so that one SHA-256 protects them. A slow hash is for passwords, which
# people choose from far fewer.
SECRET_BYTES, SELECTOR_BYTES = 32, 8
WRITTEN = re.compile(r"dpr_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
# The hash that a token with an unknown selector is compared with, so that it takes as long as another.
NOBODY = "0" * 64


@dataclass(frozen=True, kw_only=True)
class Token:
    """What is known about a token; not the token itself, which nobody can read again.

    Parameters
    ----------
    name
        What people call it; also written into the history, as who asked.
    budget
        The one budget that it is for; None for all of them.
    scope
        ``"read"``, ``"spend"`` or ``"admin"``, each of which includes those before it.
    created_at, expires_at, revoked_at
        Times in UTC; None for a token that does not expire, or was not revoked.
    """

    name: str
    budget: str | None
    scope: str
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None

    def allows(self, scope: str) -> bool:
        """Whether its scope includes this one."""
        return SCOPES.index(self.scope) >= SCOPES.index(scope)

    def is_for(self, budget: str) -> bool:
        """Whether it is for this budget."""
        return self.budget is None or self.budget == budget

    @property
    def trouble(self) -> str:
        """Why it is no longer taken; empty if it is."""
        if self.revoked_at is not None:
            return "revoked"
        # times of one format, so that their order is that of their texts
        return "expired" if self.expires_at is not None and now() >= self.expires_at else ""


class Tokens:
    """The tokens of a ledger: `Ledger.tokens`.

    Examples
    --------
    >>> import tempfile
    >>> from dprounds.ledger import Ledger
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(f"sqlite:///{folder.name}/budget.db")
    >>> ledger.open("patients", epsilon=3.0, delta=1e-6)
    >>> text = ledger.tokens.create("nightly", budget="patients", scope="spend")
    >>> ledger.tokens.find(text).allows("read"), ledger.tokens.find(text).is_for("staff")
    (True, False)
    >>> ledger.tokens.revoke("nightly")
    >>> ledger.tokens.find(text).trouble
    'revoked'
    >>> ledger.close(); folder.cleanup()
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, *, budget: str | None, scope: str, expires_at: str | None = None) -> str:
        """A new token, which only its caller ever sees: the ledger keeps its hash.

        Parameters
        ----------
        name
            What people call it; never used before.
        budget
            The one budget that it is for; None for all of them, also those that are opened later. A token with scope
            ``"admin"`` may be for a budget that is still to be opened.
        scope
            ``"read"``, ``"spend"`` or ``"admin"``, each of which includes those before it.
        expires_at
            The time from which it is refused, such as ``"2027-01-31"`` or ``"2027-01-31T18:00+01:00"``, in UTC where it
            does not say; by default never.
        """
        name, scope = word("name", name), choice("scope", scope, SCOPES)
        budget = None if budget is None else word("budget", budget)
        expires_at = None if expires_at is None else _future(expires_at)
        selector = secrets.token_hex(SELECTOR_BYTES)
        text = f"dpr_{selector}_{secrets.token_urlsafe(SECRET_BYTES)}"
        row = {
            "name": name,
            "selector": selector,
            "hash": _hash(text),
            "budget": budget,
            "scope": scope,
            "created_at": now(),
            "expires_at": expires_at,
            "revoked_at": None,
        }

        def change(connection: Connection) -> None:
            if connection.execute(select(tables.tokens.c.name).where(tables.tokens.c.name == name)).first():
                raise ParameterError(
                    "{argument} must be new: there is, or was, a token named {given}.",
                    argument="name",
                    given=show(name),
                    advice="Use another name, so that the history stays clear.",
                )
            is_open = select(tables.budgets.c.name).where(tables.budgets.c.name == budget)
            if budget is not None and scope != "admin" and not connection.execute(is_open).first():
                raise ParameterError(
                    "{argument} must be that of an open budget: there is none named {given}.",
                    argument="budget",
                    given=show(budget),
                    advice="Open it first; only an admin token may be made before.",
                )
            connection.execute(insert(tables.tokens).values(**row))

        self._database.write(change)
        return text

    def find(self, text: str) -> Token | None:
        """What a token may do; None if it is unknown. Ask its `trouble` before it is taken."""
        written = WRITTEN.fullmatch(text)
        if written is None:
            return None
        wanted = select(tables.tokens).where(tables.tokens.c.selector == written[1])
        row = self._database.read(lambda connection: connection.execute(wanted).mappings().first())
        is_right = hmac.compare_digest(_hash(text), NOBODY if row is None else str(row["hash"]))
        return _token(row) if row is not None and is_right else None

    def all(self) -> list[Token]:
        """All tokens ever made, by name."""
        wanted = select(tables.tokens).order_by(tables.tokens.c.name)
        rows = self._database.read(lambda connection: connection.execute(wanted).mappings().all())
        return [_token(row) for row in rows]

    def revoke(self, name: str) -> None:
        """Refuse a token from now on; again, if it was revoked already."""
        name = word("name", name)
        mine = tables.tokens.c.name == name

        def change(connection: Connection) -> None:
            if not connection.execute(select(tables.tokens.c.name).where(mine)).first():
                raise ParameterError(
                    "{argument} must be that of a token: there is none named {given}.",
                    argument="name",
                    given=show(name),
                )
            valid = mine & tables.tokens.c.revoked_at.is_(None)
            connection.execute(update(tables.tokens).where(valid).values(revoked_at=now()))

        self._database.write(change)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _token(row: RowMapping) -> Token:
    """What may be known of a row."""
    return Token(**{str(name): value for name, value in row.items() if name not in ("selector", "hash")})


def _future(text: str) -> str:
    """A time to come, as the ledger writes times."""
    try:
        given = datetime.fromisoformat(text)
        found = (given.replace(tzinfo=UTC) if given.tzinfo is None else given).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            "{argument} must be a date or a time, such as 2027-01-31, got {value}.",
            argument="expires_at",
            value=show(text),
        ) from None
    written = found.isoformat(timespec="microseconds")
    if written <= now():
        raise ParameterError("{argument} must be in the future, got {value}.", argument="expires_at", value=show(text))
    return written
