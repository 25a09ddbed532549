"""The ledger: one durable account for each data set, that never lets the total pass its budget."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from dprounds._validate import Interval, choice, count, real, show
from dprounds.errors import JobStateError, LedgerError, ParameterError, UnsupportedError
from dprounds.ledger import rows, tables
from dprounds.ledger.arguments import WHOLE, named_blocks, text, word
from dprounds.ledger.budget import BlockLeft, Budget, Status
from dprounds.ledger.database import Database
from dprounds.ledger.entries import (
    BEGIN,
    COMMIT,
    OPEN,
    RESERVE,
    STATES,
    VOID,
    Entry,
    holds,
    now,
    run_from_text,
    run_to_text,
)
from dprounds.ledger.filters import new_filter
from dprounds.ledger.pricing import Here, Price, Pricing, exceeded
from dprounds.ledger.refusals import Refusals
from dprounds.ledger.spending import Moment, spending
from dprounds.ledger.tokens import Tokens
from dprounds.ledger.verification import verified
from dprounds.mechanisms.base import ADD_REMOVE, RELATIONS, Release, Run
from dprounds.planning import checked_release

__all__ = ["Grant", "Ledger"]

RESERVED, BEGUN, COMMITTED, VOIDED = "reserved", "begun", "committed", "voided"
TIMEOUT = Interval.parse("(0, inf)")
# A refusal says how many rounds would fit if one cost is computed within this: the search takes a dozen of them.
QUICK_SECONDS = 1.0
# The largest number of an entry that the tables hold.
LAST_NUMBER = 2**63 - 1


@dataclass(eq=False)
class Grant:
    """Leave to make a run: its cost is charged already.

    `state` is ``"reserved"``, ``"begun"``, ``"committed"`` or ``"voided"``, as far as this process knows.
    """

    ledger: Ledger = field(repr=False)
    budget: str
    key: str
    run: Run
    state: str
    _is_unused: bool = field(default=False, repr=False)  # begun by this object, and nothing was done since

    @property
    def relation(self) -> str:
        """Which data sets are neighbours by the budget."""
        return self.ledger.budget(self.budget).relation

    def begin(self, *, by: str = "") -> None:
        """Say that the work begins, once: whoever asks again is refused, and the job can no longer be voided.

        So no work is done twice for one charge, by two processes or again after a crash. `Ledger.spend` and the
        training loops here say so by themselves.
        """
        self.ledger.begin(self.budget, self.key, by=by)
        self.state, self._is_unused = BEGUN, True

    def take(self, *, resumes: bool) -> None:
        """Let one training have the grant: the first, or one that goes on from a checkpoint of the same work.

        Guarantee
        ---------
        Raises `LedgerError` where the work may have been done before, in this process or in another.
        """
        if self.state == RESERVED:
            self.begin()
        elif not (self.state == BEGUN and (resumes or self._is_unused)):
            raise JobStateError(
                f"Job {show(self.key)} of {show(self.budget)} is {self.state}: it may have looked at the data already. "
                "Go on from its checkpoint, or reserve another job."
            )
        self._is_unused = False

    def commit(self, *, made: Release | None = None, by: str = "") -> None:
        """Say that the work was done. The cost was charged before; this records it, as `Ledger.commit` does."""
        self.ledger.commit(self.budget, self.key, made=made, by=by)
        self.state = COMMITTED

    def of_rounds(self, rounds: int) -> Run:
        """The job with this many rounds, for `commit`; raises `UnsupportedError` if it has rounds of several kinds."""
        if len(self.run.parts) != 1:
            raise UnsupportedError(
                f"Job {show(self.key)} has rounds of several kinds, and a number does not say which were made.",
                advice="Commit it in Python, with made=….",
            )
        return self.run.mechanisms[0] * rounds

    def covers(self, run: Release) -> bool:
        """Whether a run makes no release that was not granted, nor one more often than that."""
        return holds(self.run, checked_release("run", run).as_run())


class Ledger:
    """Budgets in a database, each an account of one data set.

    No sequence of calls, processes, crashes and retries makes what is reserved and committed exceed a budget. `reserve`
    charges before the work begins, so that a crash leaves the job charged.

    Parameters
    ----------
    url
        ``sqlite:///FILE``, or ``postgresql+psycopg://USER@HOST/NAME``. Tables are made, or brought to the present
        version, where they are not.
    timeout
        Seconds to wait for other writers, in (0, inf).
    pricing
        Where costs are computed; by default, here.

    Examples
    --------
    >>> import tempfile, os
    >>> from dprounds import Gaussian
    >>> from dprounds.ledger import Ledger
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(f"sqlite:///{folder.name}/budget.db")
    >>> ledger.open("patients", epsilon=3.0, delta=1e-6)
    >>> with ledger.spend("patients", Gaussian(20.0) * 100, key="means", by="research") as grant:
    ...     pass  # the work
    >>> ledger.status("patients").committed, ledger.remaining_rounds("patients", Gaussian(20.0))
    (1, 67)
    >>> ledger.verify()
    >>> ledger.close(); folder.cleanup()
    """

    def __init__(self, url: str, *, timeout: float = 30.0, pricing: Pricing | None = None) -> None:
        self._database = Database(url, timeout=real("timeout", timeout, TIMEOUT))
        self._budgets: dict[str, Budget] = {}
        self._left: dict[str, tuple[int, ...]] = {}  # of budgets without blocks, when this ledger last reserved
        self._pricing = Here() if pricing is None else pricing
        self.tokens = Tokens(self._database)
        self.refusals = Refusals(self._database)

    def __repr__(self) -> str:
        return f"<Ledger in {self._database.name}>"

    def close(self) -> None:
        """Close the connections to the database; the ledger opens new ones if it is used again."""
        self._database.close()

    def open(
        self,
        name: str,
        *,
        epsilon: float,
        delta: float | None = None,
        filter: str = "gaussian",
        relation: str = ADD_REMOVE,
        note: str = "",
        blocks: bool = False,
        order: float | None = None,
        revealed: float | None = None,
        by: str = "",
    ) -> None:
        """Open the budget of a data set. Everything that follows from it is fixed here, and never changes.

        Parameters
        ----------
        name
            The data set.
        epsilon, delta
            The budget: what may be published when all of it is spent. A pure one has no delta.
        filter
            What is added up. ``"gaussian"`` for DP-SGD and Gaussian queries; ``"renyi"`` for many runs with little
            noise, and for rounds to be given back; ``"pure"`` for delta 0.
        relation
            Which data sets are neighbours; jobs of another relation are refused.
        blocks
            Whether records belong to blocks, each of which has the whole budget; for add-remove only.
        order
            Of ``renyi``, in (1, inf); by default the one that admits the most Gaussian releases.
        revealed
            Of ``gaussian``: the part of delta that jobs may reveal, a hundredth of it by default.
        """
        name, by = word("name", name), _who(by)
        relation = choice("relation", relation, RELATIONS)
        if type(blocks) is not bool:
            raise ParameterError("{argument} must be True or False.", argument="blocks")
        if blocks and relation != ADD_REMOVE:
            raise UnsupportedError(
                "Blocks are for relation='add-remove': a record that is replaced may move from one block to another, "
                "and then two of them count."
            )
        fixed = new_filter(filter, epsilon=epsilon, delta=delta, order=order, revealed=revealed)
        budget = Budget(name=name, filter=fixed, relation=relation, has_blocks=blocks, note=text("note", note))

        def change(connection: Connection) -> None:
            if connection.execute(select(tables.budgets.c.name).where(tables.budgets.c.name == name)).first():
                raise ParameterError(
                    "{argument} must be new: there is a budget named {given} already, and it never changes.",
                    argument="name",
                    given=show(name),
                    advice="Open one of another name.",
                )
            entry = Entry(
                budget=name, number=1, kind=OPEN, by=by, at=now(), detail=budget.opening, version=rows.library_version()
            ).sealed()
            head = {"number": 1, "head": entry.hash, "at": entry.at, "reserved": 0, "committed": 0, "voided": 0}
            connection.execute(insert(tables.budgets).values(name=name, opening=budget.opening, **head))
            connection.execute(insert(tables.entries).values(**entry.row))
            if not blocks:
                connection.execute(insert(tables.blocks).values(budget=name, block="", first_sum="0", second_sum="0"))

        self._database.write(change)

    def reserve(
        self,
        name: str,
        run: Release,
        *,
        key: str,
        by: str = "",
        blocks: Sequence[str] | None = None,
        delta: float | None = None,
    ) -> Grant:
        """Charge a job before it begins.

        Guarantee
        ---------
        Raises `BudgetExceededError`, and charges nothing, where any block that is named has too little left; or
        `JobStateError` where the job was voided, which gave its charge back; or returns a grant, charged to all of
        them, that is on disk.

        Parameters
        ----------
        name
            The data set.
        run
            All that the job releases: rounds, rates and noise are fixed now, and only queries may adapt.
        key
            The job. The same key with the same run and blocks returns the same grant, so that a retry charges nothing.
        by
            Who asks.
        blocks
            Those that the job reads, where the budget has blocks; named by a public rule.
        delta
            Of a ``gaussian`` budget: what the job may reveal; by default a tenth of what is left of that.
        """
        key, by = word("key", key), _who(by)
        budget, job, named = self._asked(name, run, blocks)
        description = run_to_text(job)

        left = None if budget.has_blocks else self._left.pop(name, None)
        is_fresh = left is None
        if left is None:
            found, spent = self._database.read(lambda connection: rows.seen(connection, budget, key, named))
            if found is not None:
                return self._same_grant(found, budget, key, description, named)
            left = _least_left(budget, spent, named)
        while True:
            # computed before anything is locked: whatever others spend meanwhile, it is a cost of this job
            began = time.thread_time()
            try:
                cost = self._pricing.cost(budget.filter, job, left, delta)
            except UnsupportedError:
                if is_fresh:
                    raise
                return self.reserve(name, run, key=key, by=by, blocks=blocks, delta=delta)  # by what is left now
            is_quick = time.thread_time() - began < QUICK_SECONDS
            granted = self._database.write(partial(self._reserved, budget, job, key, by, description, named, cost))
            if isinstance(granted, Grant):
                return granted
            if is_fresh or granted == left:
                raise exceeded(budget, job, cost, granted, self._pricing if is_quick else None)
            # what this ledger left of the budget last time is as good to choose a cost by, if the job then fits
            left, is_fresh = granted, True

    def _reserved(
        self,
        budget: Budget,
        job: Run,
        key: str,
        by: str,
        description: str,
        named: tuple[str, ...],
        cost: tuple[int, ...],
        connection: Connection,
    ) -> Grant | tuple[int, ...]:
        """A grant, charged in this transaction; or what is left, where that is too little."""
        head = rows.locked(connection, budget.name)
        granted, spent = rows.seen(connection, budget, key, named)
        if granted is not None:
            return self._same_grant(granted, budget, key, description, named)
        least = _least_left(budget, spent, named)
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
        return Grant(self, budget.name, key, job, RESERVED)

    def cost(
        self, name: str, run: Release, *, blocks: Sequence[str] | None = None, delta: float | None = None
    ) -> Price:
        """What a job would cost if it were reserved now; nothing is charged. Arguments are those of `reserve`."""
        budget, job, named = self._asked(name, run, blocks)
        spent = self._database.read(lambda connection: rows.spent_by_block(connection, budget, named))
        left = _least_left(budget, spent, named)
        cost = self._pricing.cost(budget.filter, job, left, delta)
        refusal = "" if budget.filter.fits(cost, left) else str(exceeded(budget, job, cost, left, self._pricing))
        return Price.of(budget, cost, left, refusal, new_blocks=sum(block not in spent for block in named))

    @contextmanager
    def spend(
        self,
        name: str,
        run: Release,
        *,
        key: str,
        by: str = "",
        blocks: Sequence[str] | None = None,
        delta: float | None = None,
    ) -> Iterator[Grant]:
        """A grant to work under: committed when the work ends, and left charged where it raises.

        Work that has begun before is refused, since it may have looked at the data: what is done again, with other
        noise, is another release. To go on from a checkpoint of it, take `grant` and `commit` it at the end.
        """
        grant = self.reserve(name, run, key=key, by=by, blocks=blocks, delta=delta)
        if grant.state != RESERVED:
            raise ParameterError(
                "{argument} must be that of a job that is still to be done: {given} is {state} already.",
                argument="key",
                given=show(key),
                state=grant.state,
                advice="Use another key for another job, or go on from a checkpoint with `grant`.",
            )
        grant.begin(by=by)
        yield grant
        grant.commit(by=by)

    def begin(self, name: str, key: str, *, by: str = "") -> None:
        """Record that the work of a reserved job begins; raises `LedgerError` where it has begun already."""
        self._settle(name, key, BEGIN, by, "")

    def commit(self, name: str, key: str, *, made: Release | None = None, by: str = "") -> None:
        """Record that a reserved job was done; again, if that was recorded already.

        Parameters
        ----------
        name, key
            The data set, and the job.
        made
            The rounds that were made, if they are fewer than those that were reserved: the others are given back. For
            ``renyi`` and ``pure`` budgets. When to stop may be chosen by what the job released, and by nothing else of
            the data. A round that was begun was made.
        by
            Who asks.
        """
        if made is None:
            self._settle(name, key, COMMIT, by, "")
            return
        run, fixed = checked_release("made", made).as_run(), self.budget(name).filter
        if not fixed.gives_back:
            raise UnsupportedError(
                f"A {fixed.kind} budget charges a job whole, and gives no rounds back.",
                advice="Commit it without made; for rounds to be given back, open a budget with filter='renyi'.",
            )
        self._settle(name, key, COMMIT, by, "", made=run, left_charged=self._pricing.cost(fixed, run, fixed.caps, None))

    def void(self, name: str, key: str, *, reason: str, by: str = "") -> None:
        """Give a reservation back, on the caller's word that the job never looked at the data.

        The reason is recorded, and the reservation stays in the history. A job that read anything at all, released or
        not, must be committed instead.
        """
        self._settle(name, key, VOID, by, word("reason", reason, longest=2000))

    def grant(self, name: str, key: str) -> Grant:
        """The grant of a job that was reserved before, to go on with after a crash."""
        budget, key = self.budget(name), word("key", key)
        found = self._database.read(lambda connection: rows.granted(connection, name, key))
        if found is None:
            raise _no_job(budget.name, key)
        return Grant(self, name, key, run_from_text(found.run), found.state)

    def status(self, name: str, *, block: str | None = None) -> Status:
        """What is left of a budget, and which of its numbers may be published; of one block if it is named."""
        budget = self.budget(name)
        if block is not None:
            named_blocks(budget, [block])

        def ask(connection: Connection) -> tuple[Row[Any], list[Row[Any]], str]:
            head = connection.execute(select(tables.budgets).where(tables.budgets.c.name == name)).one()
            wanted = select(tables.blocks).where(tables.blocks.c.budget == name)
            if block is not None:
                wanted = wanted.where(tables.blocks.c.block == block)
            blocks = list(connection.execute(wanted))
            first = select(tables.entries.c.at).where(tables.entries.c.budget == name, tables.entries.c.number == 1)
            return head, blocks, connection.execute(first).scalar_one()

        head, found, opened_at = self._database.read(ask)
        fixed = budget.filter
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

    def blocks(self, name: str) -> list[BlockLeft]:
        """What is left of each block that a job has named, the least first; none of a budget without blocks.

        A block that is not among them has the whole budget.
        """
        budget = self.budget(name)
        if not budget.has_blocks:
            return []
        wanted = select(tables.blocks).where(tables.blocks.c.budget == name)
        found = self._database.read(lambda connection: connection.execute(wanted).all())
        share_left = cache(budget.filter.share_left)  # many blocks have spent the same
        lefts = (BlockLeft(row.block, share_left(rows.sums_of(row, budget))) for row in found)
        return sorted(lefts, key=lambda one: (one.share_left, one.block))

    def remaining_rounds(self, name: str, step: Release, *, blocks: Sequence[str] | None = None) -> int:
        """The most rounds of `step` that one more job may have."""
        budget, job = self.budget(name), checked_release("step", step).as_run()
        named = named_blocks(budget, blocks)
        spent = self._database.read(lambda connection: rows.spent_by_block(connection, budget, named))
        return self._pricing.rounds_that_fit(budget.filter, job, _least_left(budget, spent, named))

    def spending(self, name: str, *, points: int = 400) -> list[Moment]:
        """The share that was spent at each time, oldest first; of many entries, about so many."""
        budget, points = self.budget(name), count("points", points, least=2)
        return self._database.read(lambda connection: spending(connection, budget, points))

    def names(self) -> list[str]:
        """The data sets, in the order of their names."""
        wanted = select(tables.budgets.c.name).order_by(tables.budgets.c.name)
        return list(self._database.read(lambda connection: connection.execute(wanted).scalars().all()))

    def history(self, name: str, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        """The entries of a data set after a number, oldest first; all by default."""
        self.budget(name)
        wanted = (
            select(tables.entries)
            .where(tables.entries.c.budget == name, tables.entries.c.number > count("after", after, most=LAST_NUMBER))
            .order_by(tables.entries.c.number)
        )
        if limit is not None:
            wanted = wanted.limit(count("limit", limit, most=LAST_NUMBER))
        found = self._database.read(lambda connection: connection.execute(wanted).mappings().all())
        return [rows.entry_of(row) for row in found]

    def verify(self) -> None:
        """Recompute the chain, every cost from its run, and every total of every data set.

        Guarantee
        ---------
        Raises `LedgerError` that names the first entry that does not fit, or everything that the ledger holds follows
        from its entries, and no budget was ever exceeded.
        """
        if not self._database.is_whole():
            raise LedgerError(f"{self._database.name} is damaged: restore it from a backup, and verify again.")
        self._database.read(verified)

    def budget(self, name: str) -> Budget:
        """What was fixed when a data set was opened."""
        name = word("name", name)
        known = self._budgets.get(name)
        if known is not None:
            return known
        wanted = select(tables.budgets.c.opening).where(tables.budgets.c.name == name)
        opening = self._database.read(lambda connection: connection.execute(wanted).scalar())
        if opening is None:
            raise ParameterError(
                "{argument} must be that of an open budget: there is none named {given} in {ledger}.",
                argument="name",
                given=show(name),
                ledger=self._database.name,
                advice="Open it first, or check the ledger's URL.",
            )
        try:
            budget = Budget.from_opening(name, opening)
        except (ValueError, TypeError, KeyError):
            raise LedgerError(f"The opening of {show(name)} cannot be read: run `verify`.") from None
        self._budgets[name] = budget
        return budget

    def _asked(self, name: str, run: Release, blocks: Sequence[str] | None) -> tuple[Budget, Run, tuple[str, ...]]:
        """The budget, the run and the blocks of a job, if they fit together."""
        job = checked_release("run", run).as_run()
        budget = self.budget(name)
        named = named_blocks(budget, blocks)
        if job.relation not in (None, budget.relation):
            raise UnsupportedError(
                f"The budget of {show(name)} counts data sets as neighbours by {budget.relation}, and this job by "
                f"{job.relation}.",
                advice="Open a budget of that relation, or describe the job by this one.",
            )
        return budget, job, named

    def _settle(
        self,
        name: str,
        key: str,
        kind: str,
        by: str,
        reason: str,
        *,
        made: Run | None = None,
        left_charged: Sequence[int] = (),
    ) -> None:
        """Begin, commit or void a reservation; or commit what was `made`, and leave no more charged than that costs."""
        key, by = word("key", key), _who(by)
        budget = self.budget(name)
        before, state = STATES[kind]

        def change(connection: Connection) -> None:
            head = rows.locked(connection, name)
            granted = rows.granted(connection, name, key)
            if granted is None:
                raise _no_job(name, key)
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

    def _same_grant(self, found: Row[Any], budget: Budget, key: str, description: str, named: Sequence[str]) -> Grant:
        """The grant that a key has already, if it was for the same job."""
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
        return Grant(self, budget.name, key, run_from_text(found.run), found.state)


def _least_left(budget: Budget, spent: Mapping[str, Sequence[int]], named: Sequence[str]) -> tuple[int, ...]:
    """What the fullest of some blocks has left, of each sum."""
    nothing = (0,) * len(budget.filter.sums)
    lefts = [budget.filter.left(spent.get(block, nothing)) for block in named]
    return tuple(min(amounts) for amounts in zip(*lefts, strict=True))


def _who(by: str) -> str:
    """Who asks, if their name fits its column."""
    return text("by", by, longest=tables.LONGEST_NAME)


def _no_job(name: str, key: str) -> ParameterError:
    return ParameterError(
        "{argument} must be that of a job: {name} has none with key {given}.",
        argument="key",
        name=show(name),
        given=show(key),
        advice="Reserve it first.",
    )
