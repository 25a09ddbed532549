"""The entries of a ledger: what was reserved, committed or voided, each with the hash of the one before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from dprounds.accountant import Accountant
from dprounds.mechanisms import Run

__all__ = [
    "BEGIN",
    "BEGUN",
    "COMMIT",
    "COMMITTED",
    "FIRST",
    "OPEN",
    "RESERVE",
    "RESERVED",
    "STATES",
    "VOID",
    "VOIDED",
    "Change",
    "Entry",
    "holds",
    "now",
    "run_from_text",
    "run_to_text",
]

OPEN, RESERVE, BEGIN, COMMIT, VOID = "open", "reserve", "begin", "commit", "void"
RESERVED, BEGUN, COMMITTED, VOIDED = "reserved", "begun", "committed", "voided"  # the states of a job
FIRST = "0" * 64  # the hash before the first entry


class Change(NamedTuple):
    """What an entry does to a job: from one of the states before to the state after."""

    before: tuple[str, ...]
    after: str


# A job that has begun may have looked at the data, and can no longer be voided.
STATES = {
    BEGIN: Change((RESERVED,), BEGUN),
    COMMIT: Change((RESERVED, BEGUN), COMMITTED),
    VOID: Change((RESERVED,), VOIDED),
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a data set's history.

    Parameters
    ----------
    budget
        The data set.
    number
        Its place, from 1 on.
    kind
        ``"open"``, ``"reserve"``, ``"begin"``, ``"commit"`` or ``"void"``.
    key
        The job.
    by
        Who asked, as they said.
    at
        When, in UTC; never before the entry before it.
    description
        The run of a reservation, as JSON; of a commit, the rounds that were made where others are given back.
    cost
        What it costs, in units of 2^-60; negative where a commit gives something back.
    blocks
        Those that it is charged to.
    detail
        The caller's reason, or all that was fixed when the budget was opened.
    version
        Of the dprounds that wrote it.
    previous, hash
        The SHA-256 of the entry before it, and its own.
    """

    budget: str
    number: int
    kind: str
    key: str = ""
    by: str = ""
    at: str = ""
    description: str = ""
    cost: tuple[int, ...] = ()
    blocks: tuple[str, ...] = ()
    detail: str = ""
    version: str = ""
    previous: str = FIRST
    hash: str = ""

    @property
    def run(self) -> Run | None:
        """The run of a reservation; of a commit, what was made if that is less."""
        return run_from_text(self.description) if self.description else None

    @property
    def row(self) -> dict[str, Any]:
        """The entry as its table holds it."""
        return {
            "budget": self.budget,
            "number": self.number,
            "kind": self.kind,
            "key": self.key,
            "by": self.by,
            "at": self.at,
            "run": self.description,
            "cost": _json(list(map(str, self.cost))),
            "blocks": _json(list(self.blocks)),
            "detail": self.detail,
            "version": self.version,
            "previous": self.previous,
            "hash": self.hash,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Entry:
        """The entry that a row holds; raises ValueError where it holds none."""
        given = dict(row)
        given["description"] = given.pop("run")
        given["cost"] = tuple(int(amount) for amount in json.loads(given["cost"]))
        given["blocks"] = tuple(json.loads(given["blocks"]))
        return cls(**given)

    def sealed(self) -> Entry:
        """With its hash."""
        return replace(self, hash=self.digest())

    def digest(self) -> str:
        """The SHA-256 of all that it says, the hash of the entry before it included."""
        said = {name: value for name, value in self.row.items() if name != "hash"}
        return hashlib.sha256(_json(said).encode()).hexdigest()


def holds(granted: Run, run: Run) -> bool:
    """Whether a run makes no release that was not granted, nor one more often than that."""
    most = dict(granted.parts)
    return all(most.get(part, 0) >= rounds for part, rounds in run.parts)


def now(last: str = "") -> str:
    """The time in UTC; that of the last entry where the clock was set back, so that times never fall."""
    return max(datetime.now(UTC).isoformat(timespec="microseconds"), last)


@lru_cache(maxsize=2**10)
def run_to_text(run: Run) -> str:
    """A run as JSON, the same for equal runs.

    Examples
    --------
    >>> from dprounds import Gaussian, Laplace
    >>> run = Gaussian(2.0) * 3 + Laplace(5.0)
    >>> run_to_text(run) == run_to_text(Laplace(5.0) + 3 * Gaussian(2.0)), run_from_text(run_to_text(run)) == run
    (True, True)
    """
    accountant = Accountant()
    accountant.record(run)
    data = json.loads(accountant.to_json())
    del data["stamp"]
    data["parts"].sort(key=_json)
    return _json(data)


@lru_cache(maxsize=2**10)
def run_from_text(text: str) -> Run:
    """The run that `run_to_text` wrote."""
    return Accountant.from_json(text).run


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
