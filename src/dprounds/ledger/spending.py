"""What was spent of a budget at each time, for a picture."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select

from dprounds.ledger import tables
from dprounds.ledger.arguments import WHOLE
from dprounds.ledger.budget import Budget
from dprounds.ledger.entries import COMMIT, OPEN, RESERVE, VOID

__all__ = ["Moment", "spending"]

ROWS_AT_ONCE = 1000


class Moment(NamedTuple):
    """The share of a budget, of its fullest block, that was reserved or committed from a time on."""

    at: str
    share: float


def spending(connection: Connection, budget: Budget, points: int) -> list[Moment]:
    """The share that was spent after each entry that changed it; at most about so many, the first and last of them."""
    of = tables.entries.c
    wanted = (
        select(of.at, of.kind, of.key, of.cost, of.blocks)
        .where(of.budget == budget.name, of.kind.in_([OPEN, RESERVE, COMMIT, VOID]))
        .order_by(of.number)
    )
    caps, found = budget.filter.caps, list[Moment]()
    charged: dict[str, tuple[list[int], Sequence[str]]] = {}
    sums: dict[str, list[int]] = {}
    shares: dict[str, float] = {}
    most = 0.0
    for row in connection.execute(wanted).yield_per(ROWS_AT_ONCE):
        cost, blocks = list(map(int, json.loads(row.cost))), json.loads(row.blocks) or WHOLE
        if row.kind == RESERVE:
            charged[row.key] = cost, blocks
        elif row.kind != OPEN:  # a job that ends gives all back, or what its entry says, which may be nothing
            given_back, blocks = charged.pop(row.key)
            cost = [-amount for amount in given_back] if row.kind == VOID else cost
        if not cost and row.kind != OPEN:
            continue
        for block in blocks if cost else ():
            sums[block] = [a + b for a, b in zip(sums.get(block, [0] * len(cost)), cost, strict=True)]
            shares[block] = max((amount / cap for amount, cap in zip(sums[block], caps, strict=True) if cap), default=0)
            most = max(most, shares[block])
        if row.kind != RESERVE:  # the fullest block may have become emptier
            most = max(shares.values(), default=0.0)
        found.append(Moment(row.at, most))
    return found if len(found) <= points else _thinned(found, points)


def _thinned(found: Sequence[Moment], points: int) -> list[Moment]:
    """The first moment; and of each part of the others the highest, so that no peak is hidden, and the last."""
    first, *others = found
    length = math.ceil(len(others) / max((points - 1) // 2, 1))
    kept = [first]
    for start in range(0, len(others), length):
        part = others[start : start + length]
        highest = max(range(len(part)), key=lambda place: part[place].share)
        kept += [part[place] for place in sorted({highest, len(part) - 1})]
    return kept
