"""Whether a ledger's entries prove its totals: the chain, every cost from its run, and every sum."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache

from sqlalchemy import Connection, select

from dprounds._validate import show
from dprounds.errors import LedgerError, PrivacyError
from dprounds.ledger import tables
from dprounds.ledger.entries import (
    BEGIN,
    COMMIT,
    FIRST,
    OPEN,
    RESERVE,
    STATES,
    VOID,
    Entry,
    holds,
    run_from_text,
)
from dprounds.ledger.filters import UNIT, Filter, filter_from_parameters, units_up

__all__ = ["verified"]

# A stored cost may be this part below the recomputed one: another version may find a slightly larger number.
COST_TOLERANCE = Fraction(1, 10**5)
ROWS_AT_ONCE = 1000
BEGUN_IS = {"begun": "reserved"}


def verified(connection: Connection) -> None:
    """Raise `LedgerError` for the first thing that does not follow from the entries."""
    names = set(connection.execute(select(tables.budgets.c.name)).scalars())
    for table in (tables.blocks, tables.grants, tables.entries):
        for name in connection.execute(select(table.c.budget).distinct()).scalars():
            if name not in names:
                raise LedgerError(f"There are rows of {show(name)}, which is not a budget of this ledger.")
    for name in sorted(names):
        _Replay(name, connection).check()


@dataclass
class _Replay:
    """The state that the entries of one budget lead to."""

    name: str
    connection: Connection
    number: int = 0
    head: str = FIRST
    at: str = ""
    filter: Filter | None = None
    parameters: str = ""
    reservations: dict[str, Entry] = field(default_factory=dict)
    states: dict[str, tuple[str, int]] = field(default_factory=dict)
    sums: dict[str, list[int]] = field(default_factory=dict)

    def check(self) -> None:
        """Replay all entries, and compare what they lead to with what is stored."""
        opening = self.connection.execute(
            select(tables.budgets.c.opening).where(tables.budgets.c.name == self.name)
        ).scalar_one()
        for entry in self._entries():
            self._chain(entry)
            if entry.kind == OPEN:
                self._open(entry, opening)
            elif entry.kind == RESERVE:
                self._reserve(entry)
            elif entry.kind in (BEGIN, COMMIT, VOID):
                self._settle(entry)
            else:
                raise self._wrong(f"is of an unknown kind, {show(entry.kind)}")
        if self.filter is None:
            raise LedgerError(f"The budget of {show(self.name)} has no entries.")
        self._compare()

    def _entries(self) -> Iterator[Entry]:
        wanted = select(tables.entries).where(tables.entries.c.budget == self.name).order_by(tables.entries.c.number)
        for row in self.connection.execute(wanted).yield_per(ROWS_AT_ONCE).mappings():
            self.number += 1
            try:
                yield Entry.from_row({str(name): value for name, value in row.items()})
            except (ValueError, TypeError, KeyError):
                raise self._wrong("cannot be read") from None

    def _chain(self, entry: Entry) -> None:
        if entry.number != self.number:
            raise self._wrong("is missing")
        if entry.previous != self.head:
            raise self._wrong("does not follow from the entry before it")
        if entry.digest() != entry.hash:
            raise self._wrong("was changed: its hash does not fit")
        if entry.at < self.at:
            raise self._wrong("is older than the entry before it")
        self.head, self.at = entry.hash, entry.at

    def _open(self, entry: Entry, opening: str) -> None:
        if self.filter is not None:
            raise self._wrong("opens the budget again")
        if entry.detail != opening:
            raise self._wrong("opens another budget than the one that is stored")
        try:
            fixed = json.loads(entry.detail)
            self.filter = filter_from_parameters(fixed["filter"])
            self.parameters = json.dumps(fixed["filter"], sort_keys=True)
            is_sound = self.filter.is_sound()
        except (ValueError, TypeError, KeyError, PrivacyError):
            raise self._wrong("cannot be read") from None
        if not is_sound:
            raise self._wrong("has caps that do not keep the budget")
        if not fixed["has_blocks"]:
            self.sums[""] = [0] * len(self.filter.sums)

    def _reserve(self, entry: Entry) -> None:
        if self.filter is None:
            raise self._wrong("comes before the budget was opened")
        if entry.key in self.states:
            raise self._wrong(f"reserves the job {show(entry.key)} again")
        self._check_cost(self.filter, entry)
        for block in entry.blocks or ("",):
            sums = self.sums.setdefault(block, [0] * len(self.filter.sums))
            for i, amount in enumerate(entry.cost):
                sums[i] += amount
            if not self.filter.fits(sums, self.filter.caps):
                raise self._wrong("passes the budget")
        self.reservations[entry.key] = entry
        self.states[entry.key] = ("reserved", entry.number)

    def _check_cost(self, fixed: Filter, entry: Entry) -> None:
        if len(entry.cost) != len(fixed.sums) or any(amount < 0 for amount in entry.cost):
            raise self._wrong("has no cost of this budget's kind")
        try:
            least = _recomputed(self.parameters, entry.description, entry.cost)
        except PrivacyError as error:
            raise self._wrong(f"has a run whose cost cannot be computed: {error}") from None
        for amount, needed in zip(entry.cost, least, strict=True):
            if amount < needed * (1 - COST_TOLERANCE):
                raise self._wrong("is charged less than its run costs")

    def _settle(self, entry: Entry) -> None:
        state, number = self.states.get(entry.key, ("missing", 0))
        if state not in STATES[entry.kind].before or self.filter is None:
            raise self._wrong(f"changes the job {show(entry.key)}, which is {state}")
        self.states[entry.key] = (STATES[entry.kind].after, number)
        if entry.kind == BEGIN:
            return
        reservation = self.reservations.pop(entry.key)
        change: tuple[int, ...] = ()
        if entry.kind == VOID:
            change = tuple(-amount for amount in reservation.cost)
        elif entry.description or entry.cost:
            change = self._given_back(self.filter, entry, reservation)
        for block in (reservation.blocks or ("",)) if change else ():
            for i, amount in enumerate(change):
                self.sums[block][i] += amount

    def _given_back(self, fixed: Filter, entry: Entry, reservation: Entry) -> tuple[int, ...]:
        """What a commit changes where not all rounds were made: those that were are still charged."""
        if not fixed.gives_back or len(entry.cost) != len(fixed.sums) or any(amount > 0 for amount in entry.cost):
            raise self._wrong("gives back what this kind of budget does not")
        try:
            if not holds(run_from_text(reservation.description), run_from_text(entry.description)):
                raise self._wrong("has rounds that were not reserved")
        except PrivacyError as error:
            raise self._wrong(f"has a run that cannot be read: {error}") from None
        charged = tuple(amount + change for amount, change in zip(reservation.cost, entry.cost, strict=True))
        self._check_cost(fixed, replace(entry, cost=charged))
        return entry.cost

    def _compare(self) -> None:
        head = self.connection.execute(select(tables.budgets).where(tables.budgets.c.name == self.name)).one()
        if (head.number, head.head, head.at) != (self.number, self.head, self.at):
            raise LedgerError(
                f"The budget of {show(self.name)} ends with entry {head.number} by its head, and with entry "
                f"{self.number} by its entries: entries were removed or added."
            )
        # a job that has begun is still reserved
        counts = [BEGUN_IS.get(state, state) for state, _ in self.states.values()]
        for state in ("reserved", "committed", "voided"):
            if getattr(head, state) != counts.count(state):
                raise LedgerError(
                    f"The budget of {show(self.name)} has {counts.count(state)} {state} jobs by its entries, and "
                    f"{getattr(head, state)} by its head."
                )
        grants = select(tables.grants).where(tables.grants.c.budget == self.name)
        if {row.key: (row.state, row.number) for row in self.connection.execute(grants)} != self.states:
            raise LedgerError(f"The jobs of {show(self.name)} are not those of its entries.")
        stored = {}
        blocks = select(tables.blocks).where(tables.blocks.c.budget == self.name)
        for row in self.connection.execute(blocks):
            stored[row.block] = [row.first_sum, row.second_sum]
        expected = {block: [str(amount) for amount in (*sums, 0)[:2]] for block, sums in self.sums.items()}
        if stored != expected:
            block = next(one for one in sorted({*stored, *expected}) if stored.get(one) != expected.get(one))
            of = f" in block {show(block)}" if block else ""
            raise LedgerError(f"The total of {show(self.name)}{of} is not the sum of its entries.")

    def _wrong(self, what: str) -> LedgerError:
        return LedgerError(f"Entry {self.number} of {show(self.name)} {what}.")


@lru_cache(maxsize=2**12)
def _recomputed(parameters: str, description: str, cost: tuple[int, ...]) -> tuple[int, ...]:
    """What a run costs: a Gaussian summary with what the stored one reveals."""
    fixed = filter_from_parameters(json.loads(parameters))
    run = run_from_text(description)
    if fixed.kind != "gaussian":
        return fixed.cost(run, left=fixed.caps)
    mass = run.infinite_mass
    if cost[1] < units_up(mass):
        raise LedgerError("less is revealed than the run reveals by itself")
    # a unit less, so that what was rounded up to units is not taken for more than was asked for
    delta = max(float((cost[1] - 1) * UNIT), mass)
    mu = run.gaussian(delta=delta).mu
    if mu == math.inf:
        raise LedgerError("no Gaussian noise bounds it with what is revealed")
    return units_up(Fraction(mu) ** 2), 0
