"""A grant: leave to make a run whose cost is charged already."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dprounds._validate import show
from dprounds.errors import JobStateError, UnsupportedError
from dprounds.ledger.entries import BEGUN, COMMITTED, RESERVED, holds
from dprounds.mechanisms.base import Release, Run
from dprounds.planning import checked_release

if TYPE_CHECKING:
    from dprounds.ledger.book import Ledger

__all__ = ["Grant"]


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
