"""The ledger: one durable account for each data set, that never lets the total pass its budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, select

from dprounds._validate import Interval, choice, count, real, show
from dprounds.errors import LedgerError, ParameterError, UnsupportedError
from dprounds.ledger import rows, tables
from dprounds.ledger.arguments import named_blocks, text, word
from dprounds.ledger.budget import BlockLeft, Budget, Status
from dprounds.ledger.database import Database
from dprounds.ledger.entries import BEGIN, COMMIT, RESERVED, VOID, Entry, run_from_text
from dprounds.ledger.filters import new_filter
from dprounds.ledger.grants import Grant
from dprounds.ledger.jobs import Jobs, least_left, no_job
from dprounds.ledger.looking import blocks_of, status_of
from dprounds.ledger.pricing import Here, Price, Pricing, exceeded
from dprounds.ledger.refusals import Refusals
from dprounds.ledger.spending import Moment, spending
from dprounds.ledger.tokens import Tokens
from dprounds.ledger.verification import verified
from dprounds.mechanisms.base import ADD_REMOVE, RELATIONS, Release, Run
from dprounds.planning import checked_release

__all__ = ["Ledger"]

TIMEOUT = Interval.parse("(0, inf)")
# The largest number of an entry that the tables hold.
LAST_NUMBER = 2**63 - 1


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
        self._pricing = Here() if pricing is None else pricing
        self._jobs = Jobs(self._database, self._pricing)
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
            rows.open(connection, budget, by)

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
        state = self._jobs.reserve(budget, job, named, key=key, by=by, delta=delta)
        return Grant(self, name, key, job, state)

    def cost(
        self, name: str, run: Release, *, blocks: Sequence[str] | None = None, delta: float | None = None
    ) -> Price:
        """What a job would cost if it were reserved now; nothing is charged. Arguments are those of `reserve`."""
        budget, job, named = self._asked(name, run, blocks)
        spent = self._database.read(lambda connection: rows.spent_by_block(connection, budget, named))
        left = least_left(budget, spent, named)
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
        self._jobs.settle(self.budget(name), word("key", key), BEGIN, _who(by))

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
        key, by = word("key", key), _who(by)
        if made is None:
            self._jobs.settle(self.budget(name), key, COMMIT, by)
            return
        run, budget = checked_release("made", made).as_run(), self.budget(name)
        fixed = budget.filter
        if not fixed.gives_back:
            raise UnsupportedError(
                f"A {fixed.kind} budget charges a job whole, and gives no rounds back.",
                advice="Commit it without made; for rounds to be given back, open a budget with filter='renyi'.",
            )
        left_charged = self._pricing.cost(fixed, run, fixed.caps, None)
        self._jobs.settle(budget, key, COMMIT, by, made=run, left_charged=left_charged)

    def void(self, name: str, key: str, *, reason: str, by: str = "") -> None:
        """Give a reservation back, on the caller's word that the job never looked at the data.

        The reason is recorded, and the reservation stays in the history. A job that read anything at all, released or
        not, must be committed instead.
        """
        reason = word("reason", reason, longest=2000)
        self._jobs.settle(self.budget(name), word("key", key), VOID, _who(by), reason=reason)

    def grant(self, name: str, key: str) -> Grant:
        """The grant of a job that was reserved before, to go on with after a crash."""
        budget, key = self.budget(name), word("key", key)
        found = self._database.read(lambda connection: rows.granted(connection, name, key))
        if found is None:
            raise no_job(budget.name, key)
        return Grant(self, name, key, run_from_text(found.run), found.state)

    def status(self, name: str, *, block: str | None = None) -> Status:
        """What is left of a budget, and which of its numbers may be published; of one block if it is named."""
        budget = self.budget(name)
        if block is not None:
            named_blocks(budget, [block])
        return self._database.read(lambda connection: status_of(connection, budget, block))

    def blocks(self, name: str) -> list[BlockLeft]:
        """What is left of each block that a job has named, the least first; none of a budget without blocks.

        A block that is not among them has the whole budget.
        """
        budget = self.budget(name)
        if not budget.has_blocks:
            return []
        return self._database.read(lambda connection: blocks_of(connection, budget))

    def remaining_rounds(self, name: str, step: Release, *, blocks: Sequence[str] | None = None) -> int:
        """The most rounds of `step` that one more job may have."""
        budget, job = self.budget(name), checked_release("step", step).as_run()
        named = named_blocks(budget, blocks)
        spent = self._database.read(lambda connection: rows.spent_by_block(connection, budget, named))
        return self._pricing.rounds_that_fit(budget.filter, job, least_left(budget, spent, named))

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


def _who(by: str) -> str:
    """Who asks, if their name fits its column."""
    return text("by", by, longest=tables.LONGEST_NAME)
