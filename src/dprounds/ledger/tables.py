"""The tables of a ledger, and how an older one becomes the present one."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    insert,
    inspect,
    select,
    update,
)

from dprounds.errors import LedgerError

__all__ = [
    "LONGEST_NAME",
    "STEPS",
    "blocks",
    "budgets",
    "entries",
    "grants",
    "migrate",
    "refusals",
    "settings",
    "tokens",
    "version_of",
]

LONGEST_NAME = 200

metadata = MetaData()

settings = Table(
    "dprounds_settings",
    metadata,
    Column("name", String(50), primary_key=True),
    Column("value", String(200), nullable=False),
)

# One row a data set. Whoever writes anything about it locks this row first.
budgets = Table(
    "dprounds_budgets",
    metadata,
    Column("name", String(LONGEST_NAME), primary_key=True),
    Column("opening", Text, nullable=False),  # JSON: the filter with its caps, the relation, blocks, a note
    Column("number", BigInteger, nullable=False),  # of the last entry
    Column("head", String(64), nullable=False),  # the hash of the last entry
    Column("at", String(40), nullable=False),  # the time of the last entry
    Column("reserved", BigInteger, nullable=False),
    Column("committed", BigInteger, nullable=False),
    Column("voided", BigInteger, nullable=False),
)

# What each block has spent: integers as text, since they may exceed 64 bits. A budget without blocks has one, named "".
blocks = Table(
    "dprounds_blocks",
    metadata,
    Column("budget", String(LONGEST_NAME), primary_key=True),
    Column("block", String(LONGEST_NAME), primary_key=True),
    Column("first_sum", String(60), nullable=False),
    Column("second_sum", String(60), nullable=False),
    ForeignKeyConstraint(["budget"], ["dprounds_budgets.name"]),
)

grants = Table(
    "dprounds_grants",
    metadata,
    Column("budget", String(LONGEST_NAME), primary_key=True),
    Column("key", String(LONGEST_NAME), primary_key=True),
    Column("state", String(10), nullable=False),
    Column("number", BigInteger, nullable=False),  # of the entry that reserved it
    ForeignKeyConstraint(["budget"], ["dprounds_budgets.name"]),
)

# Never changed and never deleted: each entry has the hash of the one before it.
entries = Table(
    "dprounds_entries",
    metadata,
    Column("budget", String(LONGEST_NAME), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(10), nullable=False),
    Column("key", String(LONGEST_NAME), nullable=False),
    Column("by", String(LONGEST_NAME), nullable=False),
    Column("at", String(40), nullable=False),
    Column("run", Text, nullable=False),
    Column("cost", Text, nullable=False),
    Column("blocks", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("version", String(40), nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    ForeignKeyConstraint(["budget"], ["dprounds_budgets.name"]),
    Index("dprounds_entries_by_key", "budget", "key"),
)

# Who may ask over HTTP. Of a token itself only its hash is kept; a name stays taken after the token was revoked.
tokens = Table(
    "dprounds_tokens",
    metadata,
    Column("name", String(LONGEST_NAME), primary_key=True),
    Column("selector", String(16), nullable=False, unique=True),  # the part of the token by which it is looked up
    Column("hash", String(64), nullable=False),
    Column("budget", String(LONGEST_NAME), nullable=True),  # null for all of them
    Column("scope", String(10), nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("expires_at", String(40), nullable=True),
    Column("revoked_at", String(40), nullable=True),
)

# Who was refused over HTTP, and why.
refusals = Table(
    "dprounds_refusals",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),  # counted by the database
    Column("at", String(40), nullable=False),
    Column("token", String(LONGEST_NAME), nullable=False),  # its name, or "none"
    Column("address", String(LONGEST_NAME), nullable=False),
    Column("route", String(LONGEST_NAME), nullable=False),
    Column("reason", Text, nullable=False),
)


def _create(connection: Connection) -> None:
    """From nothing to version 1."""
    metadata.create_all(connection, tables=[settings, budgets, blocks, grants, entries])


def _add_tokens(connection: Connection) -> None:
    """From version 1 to version 2."""
    metadata.create_all(connection, tables=[tokens])


def _add_refusals(connection: Connection) -> None:
    """From version 2 to version 3."""
    metadata.create_all(connection, tables=[refusals])


# Each step leads from the version of its place to the next; a step is never edited once it was released.
STEPS: list[Callable[[Connection], None]] = [_create, _add_tokens, _add_refusals]


def version_of(connection: Connection) -> int:
    """The version of the tables that are there; 0 if there are none."""
    if not inspect(connection).has_table(settings.name):
        return 0
    found = connection.execute(select(settings.c.value).where(settings.c.name == "version")).scalar()
    if found is None or not str(found).isdecimal():
        raise LedgerError("The ledger does not say which version it has: it is damaged, or something else's database.")
    return int(found)


def migrate(connection: Connection) -> None:
    """Bring the tables to the present version, in the transaction of the connection.

    Guarantee
    ---------
    Raises `LedgerError` where a newer dprounds made them, and changes nothing then.
    """
    found = version_of(connection)
    if found > len(STEPS):
        raise LedgerError(
            f"The ledger has version {found}, made by a newer dprounds; this one reads up to {len(STEPS)}. "
            "Upgrade dprounds."
        )
    if found == len(STEPS):
        return
    for step in STEPS[found:]:
        step(connection)
    if found == 0:
        connection.execute(insert(settings).values(name="version", value=str(len(STEPS))))
    else:
        connection.execute(update(settings).where(settings.c.name == "version").values(value=str(len(STEPS))))
