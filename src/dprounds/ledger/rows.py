"""The rows behind a ledger: what is read and written inside one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from dprounds._validate import show
from dprounds.errors import LedgerError
from dprounds.ledger import tables
from dprounds.ledger.budget import Budget
from dprounds.ledger.entries import COMMIT, OPEN, Entry, now

__all__ = [
    "append",
    "charge",
    "committed_run",
    "entry_of",
    "granted",
    "library_version",
    "locked",
    "open",
    "reserve",
    "seen",
    "spent_by_block",
    "sums_of",
]

# SQLite takes at most some thousands of values in one statement.
BLOCKS_AT_ONCE = 500

# Statements are made once: to make one takes longer than to execute it.
LOCKED = select(tables.budgets).where(tables.budgets.c.name == bindparam("of")).with_for_update()
GRANTED = (
    select(tables.grants.c.state, tables.entries)
    .join(
        tables.entries,
        (tables.entries.c.budget == tables.grants.c.budget) & (tables.entries.c.number == tables.grants.c.number),
    )
    .where(tables.grants.c.budget == bindparam("of"), tables.grants.c.key == bindparam("job"))
)
COMMITTED = select(tables.entries.c.run).where(
    tables.entries.c.budget == bindparam("of"),
    tables.entries.c.key == bindparam("job"),
    tables.entries.c.kind == bindparam("of_kind"),
)
SPENT = select(tables.blocks).where(tables.blocks.c.budget == bindparam("of"))
SPENT_BY_ONE = SPENT.where(tables.blocks.c.block == bindparam("named"))
SPENT_BY_MANY = SPENT.where(tables.blocks.c.block.in_(bindparam("named", expanding=True)))
CHARGE = (
    update(tables.blocks)
    .where(tables.blocks.c.budget == bindparam("of"), tables.blocks.c.block == bindparam("named"))
    .values(first_sum=bindparam("first"), second_sum=bindparam("second"))
)
APPEND = insert(tables.entries)
GRANT = insert(tables.grants)
HEAD = (
    update(tables.budgets)
    .where(tables.budgets.c.name == bindparam("of"))
    .values({name: bindparam(f"new_{name}") for name in ("number", "head", "at", "reserved", "committed", "voided")})
)
# What a reservation asks of a budget without blocks, and all that it writes, each at once: while a row is locked, every
# message to a server and back is time for which all other writers wait. SQLite has no such messages.
SEEN = (
    select(tables.grants.c.state, tables.entries, tables.blocks.c.first_sum, tables.blocks.c.second_sum)
    .select_from(tables.blocks)
    .outerjoin(
        tables.grants, (tables.grants.c.budget == tables.blocks.c.budget) & (tables.grants.c.key == bindparam("job"))
    )
    .outerjoin(
        tables.entries,
        (tables.entries.c.budget == tables.grants.c.budget) & (tables.entries.c.number == tables.grants.c.number),
    )
    .where(tables.blocks.c.budget == bindparam("of"), tables.blocks.c.block == bindparam("named"))
)
RESERVE_AT_ONCE = (
    insert(tables.grants)
    .values({column.name: bindparam(f"grant_{column.name}") for column in tables.grants.c})
    .add_cte(
        CHARGE.returning(tables.blocks.c.block).cte("charged"),
        insert(tables.entries)
        .values({column.name: bindparam(f"entry_{column.name}") for column in tables.entries.c})
        .returning(tables.entries.c.number)
        .cte("appended"),
        HEAD.returning(tables.budgets.c.number).cte("moved"),
    )
)


def open(connection: Connection, budget: Budget, by: str) -> None:
    """Write down a new budget, with its first entry."""
    name, opening = budget.name, budget.opening
    entry = Entry(budget=name, number=1, kind=OPEN, by=by, at=now(), detail=opening, version=library_version()).sealed()
    head = {"number": 1, "head": entry.hash, "at": entry.at, "reserved": 0, "committed": 0, "voided": 0}
    connection.execute(insert(tables.budgets).values(name=name, opening=opening, **head))
    connection.execute(insert(tables.entries).values(**entry.row))
    if not budget.has_blocks:
        connection.execute(insert(tables.blocks).values(budget=name, block="", first_sum="0", second_sum="0"))


def locked(connection: Connection, name: str) -> Row[Any]:
    """The row of a budget, locked until the transaction ends."""
    return connection.execute(LOCKED, {"of": name}).one()


def granted(connection: Connection, name: str, key: str) -> Row[Any] | None:
    """The state of a job with the entry that reserved it."""
    return connection.execute(GRANTED, {"of": name, "job": key}).first()


def committed_run(connection: Connection, name: str, key: str, reserved: str) -> str:
    """The run of a committed job, as JSON: what was made, or what was `reserved` if none of it was given back."""
    return connection.execute(COMMITTED, {"of": name, "job": key, "of_kind": COMMIT}).scalar() or reserved


def spent_by_block(connection: Connection, budget: Budget, named: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """What each block has spent that was ever charged."""
    if len(named) == 1:
        found = list(connection.execute(SPENT_BY_ONE, {"of": budget.name, "named": named[0]}))
    else:
        parts = [list(named[start : start + BLOCKS_AT_ONCE]) for start in range(0, len(named), BLOCKS_AT_ONCE)]
        found = [row for part in parts for row in connection.execute(SPENT_BY_MANY, {"of": budget.name, "named": part})]
    spent = {row.block: sums_of(row, budget) for row in found}
    if not budget.has_blocks and not spent:  # its one row was made when it was opened
        raise LedgerError(f"The total of {show(budget.name)} is missing: the ledger is damaged. Restore a backup.")
    return spent


def charge(
    connection: Connection,
    budget: Budget,
    named: Sequence[str],
    spent: Mapping[str, Sequence[int]],
    cost: Sequence[int],
) -> None:
    """Add a cost to what each block has spent; a block comes into being when it is first charged."""
    changed, new = [], []
    for block in named:
        sums = _sums(budget.name, block, spent.get(block, (0,) * len(cost)), cost)
        if block in spent:
            changed.append(sums)
        else:
            row = {"budget": budget.name, "block": block, "first_sum": sums["first"], "second_sum": sums["second"]}
            new.append(row)
    if changed:
        connection.execute(CHARGE, changed)
    if new:
        connection.execute(insert(tables.blocks), new)


def seen(
    connection: Connection, budget: Budget, key: str, named: Sequence[str]
) -> tuple[Row[Any] | None, dict[str, tuple[int, ...]]]:
    """The state of a job with the entry that reserved it, if there is one, and what each block has spent."""
    if not budget.has_blocks:
        row = connection.execute(SEEN, {"of": budget.name, "job": key, "named": named[0]}).first()
        if row is not None:
            return (None if row.state is None else row), {named[0]: sums_of(row, budget)}
    return granted(connection, budget.name, key), spent_by_block(connection, budget, named)


def reserve(
    connection: Connection,
    head: Row[Any],
    entry: Entry,
    budget: Budget,
    named: Sequence[str],
    spent: Mapping[str, Sequence[int]],
    *,
    state: str,
) -> None:
    """Charge the cost of a reservation to its blocks, append it, and make it a job."""
    grant = {"budget": budget.name, "key": entry.key, "state": state, "number": entry.number}
    if budget.has_blocks or connection.dialect.name != "postgresql":
        charge(connection, budget, named, spent, entry.cost)
        append(connection, head, entry, reserved=head.reserved + 1)
        connection.execute(GRANT, grant)
        return
    sealed, moved = _sealed(head, entry, reserved=head.reserved + 1)
    connection.execute(
        RESERVE_AT_ONCE,
        {
            **_sums(budget.name, named[0], spent[named[0]], entry.cost),
            **moved,
            **{f"entry_{name}": value for name, value in sealed.row.items()},
            **{f"grant_{name}": value for name, value in grant.items()},
        },
    )


def append(connection: Connection, head: Row[Any], entry: Entry, **counts: int) -> Entry:
    """The entry at the end of the chain, and the head that points to it."""
    sealed, moved = _sealed(head, entry, **counts)
    connection.execute(APPEND, sealed.row)
    connection.execute(HEAD, moved)
    return sealed


def _sealed(head: Row[Any], entry: Entry, **counts: int) -> tuple[Entry, dict[str, Any]]:
    """An entry as it is appended, and what becomes of the head."""
    fixed = {"at": now(head.at), "version": library_version(), "previous": head.head}
    sealed = Entry(**{**vars(entry), **fixed}).sealed()
    known = {"reserved": head.reserved, "committed": head.committed, "voided": head.voided}
    changed = {"number": sealed.number, "head": sealed.hash, "at": sealed.at, **known, **counts}
    return sealed, {"of": entry.budget, **{f"new_{name}": value for name, value in changed.items()}}


def _sums(budget: str, block: str, before: Sequence[int], cost: Sequence[int]) -> dict[str, str]:
    """What `CHARGE` writes for a block."""
    first, second = (*(str(a + b) for a, b in zip(before, cost, strict=True)), "0")[:2]
    return {"of": budget, "named": block, "first": first, "second": second}


def sums_of(row: Row[Any], budget: Budget) -> tuple[int, ...]:
    """What one block has spent."""
    return (int(row.first_sum), int(row.second_sum))[: len(budget.filter.sums)]


def entry_of(row: Mapping[Any, Any]) -> Entry:
    """The entry of a row."""
    given = {str(name): value for name, value in row.items() if name != "state"}
    try:
        return Entry.from_row(given)
    except (ValueError, TypeError, KeyError):
        raise LedgerError(
            f"Entry {row['number']} of {show(row['budget'])} cannot be read: run `verify`, or restore a backup."
        ) from None


@cache
def library_version() -> str:
    """The version that an entry is written by."""
    return version("dprounds")
