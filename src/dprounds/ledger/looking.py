"""What is left of a budget and of its blocks, as the database holds it now."""

from __future__ import annotations

from functools import cache

from sqlalchemy import Connection, select

from dprounds.ledger import rows, tables
from dprounds.ledger.budget import BlockLeft, Budget, Status

__all__ = ["blocks_of", "status_of"]


def status_of(connection: Connection, budget: Budget, block: str | None) -> Status:
    """What is left of a budget, or of one of its blocks."""
    name, fixed = budget.name, budget.filter
    head = connection.execute(select(tables.budgets).where(tables.budgets.c.name == name)).one()
    wanted = select(tables.blocks).where(tables.blocks.c.budget == name)
    if block is not None:
        wanted = wanted.where(tables.blocks.c.block == block)
    found = list(connection.execute(wanted))
    first = select(tables.entries.c.at).where(tables.entries.c.budget == name, tables.entries.c.number == 1)
    opened_at = connection.execute(first).scalar_one()
    sums = [rows.sums_of(row, budget) for row in found] or [(0,) * len(fixed.sums)]
    fullest = [max(amounts) for amounts in zip(*sums, strict=True)]
    readings = [fixed.reading(one) for one in sums]
    return Status(
        name=name,
        epsilon=fixed.epsilon,
        delta=fixed.delta,
        filter=fixed.kind,
        relation=budget.relation,
        note=budget.note,
        order=getattr(fixed, "order", None),
        has_blocks=budget.has_blocks,
        blocks=len(found) if budget.has_blocks else 0,
        epsilon_spent=min(fixed.epsilon_of(fullest), fixed.epsilon),
        share_left=min(map(fixed.share_left, sums)),
        reading=None if None in readings else max(one for one in readings if one is not None),
        entries=head.number,
        reserved=head.reserved,
        committed=head.committed,
        voided=head.voided,
        opened_at=opened_at,
        changed_at=head.at,
        head=head.head,
    )


def blocks_of(connection: Connection, budget: Budget) -> list[BlockLeft]:
    """What is left of each block that a job has named, the least first."""
    found = connection.execute(select(tables.blocks).where(tables.blocks.c.budget == budget.name)).all()
    share_left = cache(budget.filter.share_left)  # many blocks have spent the same
    lefts = (BlockLeft(row.block, share_left(rows.sums_of(row, budget))) for row in found)
    return sorted(lefts, key=lambda one: (one.share_left, one.block))
