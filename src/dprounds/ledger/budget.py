"""A budget as it was opened, and what is left of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

from dprounds.ledger.filters import Filter, filter_from_parameters

__all__ = ["BlockLeft", "Budget", "Status"]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What was fixed when a data set was opened."""

    name: str
    filter: Filter
    relation: str
    has_blocks: bool
    note: str

    @property
    def opening(self) -> str:
        """The same as JSON."""
        fixed = {
            "filter": self.filter.parameters,
            "relation": self.relation,
            "has_blocks": self.has_blocks,
            "note": self.note,
        }
        return json.dumps(fixed, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_opening(cls, name: str, opening: str) -> Budget:
        """The budget that `opening` describes."""
        fixed = json.loads(opening)
        return cls(
            name=name,
            filter=filter_from_parameters(fixed["filter"]),
            relation=fixed["relation"],
            has_blocks=fixed["has_blocks"],
            note=fixed["note"],
        )


class BlockLeft(NamedTuple):
    """The part of the budget that one block has left, in [0, 1], rounded down; not for publication."""

    block: str
    share_left: float


@dataclass(frozen=True, kw_only=True)
class Status:
    """What is left of a budget.

    `epsilon` and `delta` may be published: they hold whatever was asked, and however it was chosen. So may `reading`,
    with `delta`: it holds at every moment, also one that was chosen by looking. `epsilon_spent` and `share_left` say
    how much of the budget is used up. They are no guarantee, and are not for publication (docs/theory/filters.md).

    Parameters
    ----------
    name, epsilon, delta, filter, relation, note
        As the budget was opened.
    order
        The Rényi order of a ``renyi`` budget.
    has_blocks, blocks
        Whether it has blocks, and how many were named so far. The numbers below are those of the fullest block.
    epsilon_spent
        The epsilon of a budget that would be used up by now.
    share_left
        The part of the budget that is left, in [0, 1], rounded down.
    reading
        The odometer: the least level that was not passed; None beyond the last one. Asked of one block, it holds for
        the records of that block alone.
    entries
        The number of entries of the history.
    reserved, committed, voided
        The number of jobs in each state; reserved ones are charged.
    opened_at, changed_at
        The times of the first and the last entry.
    head
        The hash of the last entry. Keep it elsewhere to prove later that nothing before it was changed.
    """

    name: str
    epsilon: float
    delta: float
    filter: str
    relation: str
    note: str
    order: float | None
    has_blocks: bool
    blocks: int
    epsilon_spent: float
    share_left: float
    reading: float | None
    entries: int
    reserved: int
    committed: int
    voided: int
    opened_at: str
    changed_at: str
    head: str
