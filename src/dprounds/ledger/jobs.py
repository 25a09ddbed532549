"""Jobs in the database: charged before they begin, and begun, committed or voided after that."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, update

from dprounds._validate import show
from dprounds.errors import JobStateError, ParameterError, UnsupportedError
from dprounds.ledger import rows, tables
from dprounds.ledger.arguments import WHOLE
from dprounds.ledger.budget import Budget
from dprounds.ledger.database import Database
from dprounds.ledger.entries import (
    BEGIN,
    RESERVE,
    RESERVED,
    STATES,
    VOID,
    VOIDED,
    Entry,
    holds,
    run_from_text,
    run_to_text,
)
from dprounds.ledger.pricing import Pricing, exceeded
from dprounds.mechanisms.base import Run

__all__ = ["Jobs", "least_left", "no_job"]

# A refusal says how many rounds would fit if one cost is computed within this: the search takes a dozen of them.
QUICK_SECONDS = 1.0


class Jobs:
    """What becomes of jobs. Arguments were checked by whoever calls.

    Parameters
    ----------
    database
        Of the ledger.
    pricing
        Where costs are computed.
    """

    def __init__(self, database: Database, pricing: Pricing) -> None:
        self._database, self._pricing = database, pricing
        self._left: dict[str, tuple[int, ...]] = {}  # of budgets without blocks, when this ledger last reserved

    def reserve(
        self, budget: Budget, job: Run, named: tuple[str, ...], *, key: str, by: str, delta: float | None
    ) -> str:
        """The state of a job that is charged now, or was before; raises `BudgetExceededError` if it does not fit."""
        description = run_to_text(job)
        left = None if budget.has_blocks else self._left.pop(budget.name, None)
        is_fresh = left is None
        if left is None:
            found, spent = self._database.read(lambda connection: rows.seen(connection, budget, key, named))
            if found is not None:
                return _same_state(found, budget, key, description, named)
            left = least_left(budget, spent, named)
        while True:
            # computed before anything is locked: whatever others spend meanwhile, it is a cost of this job
            began = time.thread_time()
            try:
                cost = self._pricing.cost(budget.filter, job, left, delta)
            except UnsupportedError:
                if is_fresh:
                    raise
                return self.reserve(budget, job, named, key=key, by=by, delta=delta)  # by what is left now
            is_quick = time.thread_time() - began < QUICK_SECONDS
            found_left = self._database.write(partial(self._reserved, budget, key, by, description, named, cost))
            if isinstance(found_left, str):
                return found_left
            if is_fresh or found_left == left:
                raise exceeded(budget, job, cost, found_left, self._pricing if is_quick else None)
            # what this ledger left of the budget last time is as good to choose a cost by, if the job then fits
            left, is_fresh = found_left, True

    def _reserved(
        self,
        budget: Budget,
        key: str,
        by: str,
        description: str,
        named: tuple[str, ...],
        cost: tuple[int, ...],
        connection: Connection,
    ) -> str | tuple[int, ...]:
        """The state of a job, charged in this transaction; or what is left, where that is too little."""
        head = rows.locked(connection, budget.name)
        granted, spent = rows.seen(connection, budget, key, named)
        if granted is not None:
            return _same_state(granted, budget, key, description, named)
        least = least_left(budget, spent, named)
        if not budget.filter.fits(cost, least):
            return least
        entry = Entry(
            budget=budget.name,
            number=head.number + 1,
            kind=RESERVE,
            key=key,
            by=by,
            description=description,
            cost=cost,
            blocks=named if budget.has_blocks else (),
        )
        rows.reserve(connection, head, entry, budget, named, spent, state=RESERVED)
        if not budget.has_blocks:
            self._left[budget.name] = tuple(most - amount for most, amount in zip(least, cost, strict=True))
        return RESERVED

    def settle(
        self,
        budget: Budget,
        key: str,
        kind: str,
        by: str,
        *,
        reason: str = "",
        made: Run | None = None,
        left_charged: Sequence[int] = (),
    ) -> None:
        """Begin, commit or void a reservation; or commit what was `made`, and leave no more charged than that costs."""
        name, (before, state) = budget.name, STATES[kind]

        def change(connection: Connection) -> None:
            head = rows.locked(connection, name)
            granted = rows.granted(connection, name, key)
            if granted is None:
                raise no_job(name, key)
            if granted.state == state and kind != BEGIN:
                if made is not None and rows.committed_run(connection, name, key, granted.run) != run_to_text(made):
                    raise JobStateError(f"Job {show(key)} of {show(name)} is committed with another number of rounds.")
                return
            if granted.state not in before:
                raise JobStateError(f"Job {show(key)} of {show(name)} is {granted.state}: it cannot be {state}.")
            reservation = rows.entry_of(granted._mapping)
            counts = {}
            if kind != BEGIN:
                counts = {"reserved": head.reserved - 1, state: getattr(head, state) + 1}
            entry = Entry(budget=name, number=head.number + 1, kind=kind, key=key, by=by, detail=reason)
            given_back = reservation.cost if kind == VOID else ()
            if made is not None:
                if not holds(run_from_text(granted.run), made):
                    raise ParameterError(
                        "{argument} must be rounds that were reserved: {given} is for {run}.",
                        argument="made",
                        given=show(key),
                        run=show(run_from_text(granted.run)),
                    )
                pairs = zip(reservation.cost, left_charged, strict=True)
                given_back = tuple(max(before - amount, 0) for before, amount in pairs)
                entry = replace(entry, description=run_to_text(made), cost=tuple(-amount for amount in given_back))
            if given_back:
                named = reservation.blocks or WHOLE
                spent = rows.spent_by_block(connection, budget, named)
                rows.charge(connection, budget, named, spent, [-amount for amount in given_back])
            rows.append(connection, head, entry, **counts)
            mine = (tables.grants.c.budget == name) & (tables.grants.c.key == key)
            connection.execute(update(tables.grants).where(mine).values(state=state))

        self._database.write(change)


def least_left(budget: Budget, spent: Mapping[str, Sequence[int]], named: Sequence[str]) -> tuple[int, ...]:
    """What the fullest of some blocks has left, of each sum."""
    nothing = (0,) * len(budget.filter.sums)
    lefts = [budget.filter.left(spent.get(block, nothing)) for block in named]
    return tuple(min(amounts) for amounts in zip(*lefts, strict=True))


def _same_state(found: Row[Any], budget: Budget, key: str, description: str, named: Sequence[str]) -> str:
    """The state of a job that its key has already, if it was the same job."""
    blocks = tuple(json.loads(found.blocks)) or WHOLE
    if found.run != description or blocks != tuple(named):
        raise ParameterError(
            "{argument} must be new: {given} is a job of {name} with another {what}.",
            argument="key",
            given=show(key),
            name=show(budget.name),
            what="run" if found.run != description else "list of blocks",
            advice="Use another key for another job.",
        )
    if found.state == VOIDED:  # nothing is charged for it any more
        raise JobStateError(f"Job {show(key)} of {show(budget.name)} is voided: reserve it with another key.")
    return str(found.state)


def no_job(name: str, key: str) -> ParameterError:
    """The refusal of a key that no job has."""
    return ParameterError(
        "{argument} must be that of a job: {name} has none with key {given}.",
        argument="key",
        name=show(name),
        given=show(key),
        advice="Reserve it first.",
    )
