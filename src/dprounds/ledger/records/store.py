"""The record store: what each of many records has spent, and which of them may still join a job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._validate import Interval, real
from dprounds.errors import LedgerError, ParameterError
from dprounds.ledger.arguments import text, word
from dprounds.ledger.filters import Filter, filter_from_parameters, new_filter
from dprounds.ledger.records.amounts import Amounts, Part, Writer, added_up
from dprounds.ledger.records.asked import Costs, Digest, Scale, checked_ids, in_order
from dprounds.ledger.records.folder import Charge, Folder, Manifest
from dprounds.mechanisms.base import Release

__all__ = ["RecordStore"]

Integers = NDArray[np.int64]

TIMEOUT = Interval.parse("(0, inf)")
ROWS_OF_A_BASE_FILE = 2**24


class RecordStore:
    r"""What each of many records has spent of a budget that each has for itself.

    `charge` says which records still fit into a job, and charges those; the others must be left out of it. That is an
    individual filter: the whole interaction keeps the budget, for one record added or removed, **if a record's cost
    depends on that record and on what was released before, and on nothing else** [docs/theory/filters.md, Theorem 6].

    **Private.** Which records fit, how many they are, and what each has spent depend on the data. They may steer the
    job. They must never leave it: no log, no message, no rate or number of rounds that is computed from those that fit.
    The folder itself, the lengths of its files included, is as private as the data.

    Guarantee
    ---------
    No sequence of calls, processes, crashes and retries makes what a record is charged exceed the cap. A charge is on
    disk when `charge` returns; if the process ends before, it was made whole or not at all. Amounts are integers: costs
    are rounded up, the cap down.

    Parameters
    ----------
    folder
        A folder that `create` made, on a local disk.
    timeout
        Seconds to wait for another process, in (0, inf): one writes at a time.

    Examples
    --------
    >>> import tempfile
    >>> from dprounds import Gaussian
    >>> from dprounds.ledger.records import RecordStore
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = RecordStore.create(f"{folder.name}/users", epsilon=3.0, delta=1e-6)
    >>> store.charge([7, 8, 9], Gaussian(2.0), key="first")
    array([ True,  True,  True])
    >>> store.charge([9, 10], Gaussian(2.0), key="second")  # 9 has too little left: leave it out
    array([False,  True])
    >>> folder.cleanup()
    """

    def __init__(self, folder: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        self._folder = Folder(Path(folder).absolute(), timeout=real("timeout", timeout, TIMEOUT))
        opening = self._folder.read().opening
        try:
            self.filter: Filter = filter_from_parameters(opening["filter"])
            self.note: str = opening["note"]
            self._scale = Scale.of(self.filter)
        except (ValueError, TypeError, KeyError):
            raise LedgerError(f"The opening of {self._folder.path} cannot be read.") from None

    def __repr__(self) -> str:
        return f"<RecordStore in {self._folder.path}>"

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float | None = None,
        filter: str = "renyi",
        order: float | None = None,
        note: str = "",
        timeout: float = 30.0,
    ) -> RecordStore:
        """A new store, in a folder that is new or empty. The budget of each record is fixed here, and never changes.

        Parameters
        ----------
        folder
            Where; on a local disk.
        epsilon, delta
            The budget of each record, and of the whole interaction; a pure one has no delta.
        filter
            What is added up: ``"renyi"`` (the Rényi bound at one order), ``"gaussian"`` (squared mu; for Gaussian and
            pure jobs, since nothing may be revealed, not even with a small probability) or ``"pure"`` (epsilon).
        order
            Of ``renyi``.
        """
        revealed = 0.0 if filter == "gaussian" else None
        fixed = new_filter(filter, epsilon=epsilon, delta=delta, order=order, revealed=revealed)
        Scale.of(fixed)  # raises if there is nothing to spend
        place = Folder(Path(folder).absolute(), timeout=real("timeout", timeout, TIMEOUT))
        place.begin({"filter": fixed.parameters, "note": text("note", note)})
        return cls(folder, timeout=timeout)

    def charge(self, ids: ArrayLike, cost: Release | ArrayLike, *, key: str) -> NDArray[np.bool_]:
        """Which of some records still fit into a job; those are charged, and the others are not.

        The answer is private: it says who may join the job, and must not leave it.

        Parameters
        ----------
        ids
            The records, as distinct 64-bit integers in any order. One that was never charged has the whole budget.
        cost
            A run; or what it costs, in what the filter adds up (squared mu, the Rényi bound in the worse direction, or
            epsilon), in [0, inf]: one number, or one for each record.
        key
            The job. The same key with the same records and costs returns the same answer and charges nothing, for a
            caller who lost it; a job whose work has begun needs another key. After `compact` the key is refused.
        """
        key, given = word("key", key), checked_ids(ids)
        costs = Costs.of(self.filter, cost, records=len(given))
        with self._folder.locked(shared=False):
            manifest = self._folder.read()
            known = manifest.charges.get(key)
            if known is not None:
                return self._same_answer(known, given, costs)
            writer, made, digest = Writer(self._folder.new_file("delta")), np.zeros(len(given), np.bool_), Digest()
            try:
                files = self._files(manifest.parts)
                for places, some in in_order(given):
                    amounts = costs.at(places)
                    digest.add(some, amounts)
                    fits = self._spent(files, some) + amounts <= self._scale.cap
                    made[places] = fits
                    writer.write(some[fits], np.broadcast_to(amounts, some.shape)[fits])
                part = writer.end()
            except BaseException:
                writer.give_up()
                raise
            self._folder.replace(replace(manifest, charges={**manifest.charges, key: Charge(digest.hexdigest(), part)}))
        return made

    def spent(self, ids: ArrayLike) -> NDArray[np.float64]:
        """What each of some records has spent, in what the filter adds up, rounded up. Private, as `charge` is."""
        given = checked_ids(ids)
        found = np.zeros(len(given))
        with self._folder.locked(shared=True):
            files = self._files(self._folder.read().parts)
            for places, some in in_order(given):
                found[places] = self._scale.real(self._spent(files, some))
        return found

    def compact(self) -> None:
        """Add all charges to the base files, so that later ones are faster, and remove files that count no longer."""
        with self._folder.locked(shared=False):
            manifest = self._folder.read()
            self._folder.tidy(manifest)
            if not any(charge.file for charge in manifest.charges.values()):
                return
            base, writer = list[Part](), Writer(self._folder.new_file("base"))
            try:
                for ids, amounts in self._totals(manifest):
                    if writer.rows >= ROWS_OF_A_BASE_FILE:
                        base.append(writer.end())
                        writer = Writer(self._folder.new_file("base"))
                    writer.write(ids, amounts)
                base.append(writer.end())
            except BaseException:
                writer.give_up()
                self._folder.tidy(manifest)
                raise
            charges = {key: replace(charge, file=None) for key, charge in manifest.charges.items()}
            compacted = replace(manifest, base=tuple(base), charges=charges)
            self._folder.replace(compacted)
            self._folder.tidy(compacted)

    def verify(self) -> None:
        """Read everything: raises `LedgerError` where a file is missing or damaged, or a record has passed the cap."""
        with self._folder.locked(shared=True):
            manifest = self._folder.read()
            if not self.filter.is_sound():
                raise LedgerError(f"The cap of {self._folder.path} does not keep the budget.")
            for _ in self._totals(manifest):
                pass

    def _files(self, parts: list[Part]) -> list[Amounts]:
        return [Amounts(self._folder.path, part) for part in parts]

    def _spent(self, files: list[Amounts], ids: Integers) -> Integers:
        """What records, in ascending order, have spent."""
        found = np.zeros(len(ids), np.int64)
        for file in files:
            for places, amounts in file.matches(ids):
                found[places] += amounts
        if ((found < 0) | (found > self._scale.cap)).any():
            raise self._passed()
        return found

    def _totals(self, manifest: Manifest) -> Iterator[tuple[Integers, Integers]]:
        """All records with what they have spent."""
        for ids, amounts in added_up(self._files(manifest.parts)):
            if ((amounts < 0) | (amounts > self._scale.cap)).any():
                raise self._passed()
            yield ids, amounts

    def _passed(self) -> LedgerError:
        return LedgerError(f"What {self._folder.path} holds passes the cap: restore it from a backup, and verify it.")

    def _same_answer(self, known: Charge, given: Integers, costs: Costs) -> NDArray[np.bool_]:
        """What was answered to a key before, if the same was asked."""
        answer, digest = np.zeros(len(given), np.bool_), Digest()
        file = None if known.file is None else Amounts(self._folder.path, known.file)
        for places, some in in_order(given):
            digest.add(some, costs.at(places))
            fits = np.zeros(len(some), np.bool_)
            for matched, _ in [] if file is None else file.matches(some):
                fits[matched] = True
            answer[places] = fits
        if digest.hexdigest() != known.digest:
            raise ParameterError(
                "{argument} must be new: there is a charge with this key, of other records or costs.",
                argument="key",
                advice="Use another key for another job.",
            )
        if file is None:
            raise LedgerError("This charge was made, and is part of the base by now, which does not tell its answer.")
        return answer
