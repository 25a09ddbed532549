"""Checkpoints of noisy SGD: the weights and the record of what is spent, on disk before it is spent."""

from __future__ import annotations

import copy
import io
import os
import secrets
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from dprounds import _validate
from dprounds.accountant import Accountant
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.integrations.gradients import Array
from dprounds.mechanisms.base import Run

__all__ = ["REAL", "Saved", "joined", "locked", "read", "resolved", "spent_before", "sync_folder", "write"]

REAL = _validate.Interval.parse("(-inf, inf)")
FORMAT = "dprounds.noisy_sgd"
VERSION = 4
# The name of the number from which the divisor was made. Up to version 3 that was the true number of records.
# Accountants of version 2 had no stamp, so no accountant that is passed counts as theirs, and everything spent adds up.
PUBLIC_RECORDS = {
    f"{FORMAT} 2": "records.npy",
    f"{FORMAT} 3": "records.npy",
    f"{FORMAT} {VERSION}": "public_records.npy",
}
COUNT = _validate.Interval.parse("[1, inf)")
# Every exception that was seen, or is documented, when bytes are read that are not a whole archive of arrays.
UNREADABLE = (
    OSError,
    EOFError,
    KeyError,
    ValueError,
    TypeError,
    IndexError,
    OverflowError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds.

    It holds no state of a random generator: whoever reads that could subtract the noise. It does not hold the true
    number of records either: that number could show who is among them.

    `start` is the accountant as it was when the training began. `accountant` is everything spent, with `start` and the
    reserved rounds. `stamp` is a name that no other save has.
    """

    weights: Array
    rounds: int
    public_records: float
    start: Accountant
    accountant: Accountant
    stamp: str = field(default_factory=lambda: secrets.token_hex(16))


# By the stamp of a checkpoint: the accountant of this process that has recorded everything the checkpoint says was
# computed, and maybe more since then. Equal totals would not show that: two trainings with one budget end at the same
# total.
_holders: WeakValueDictionary[str, Accountant] = WeakValueDictionary()


def resolved(checkpoint: str | os.PathLike[str]) -> Path:
    """The path of the file itself, so that neither a link to it nor a change of folder makes a second record."""
    try:
        return Path(checkpoint).resolve()
    except (TypeError, ValueError, OSError, RuntimeError):  # links in a circle are one of the last two
        raise ParameterError(f"checkpoint must be the path of a file, got {_validate.show(checkpoint)}.") from None


def spent_before(checkpoint: str | os.PathLike[str] | None, accountant: Accountant) -> Run:
    """What was spent when the training in `checkpoint` began, or until now if there is no checkpoint."""
    saved = None if checkpoint is None else read(resolved(checkpoint))
    return accountant.run if saved is None else joined(saved, accountant)[0].run


def joined(saved: Saved, accountant: Accountant) -> tuple[Accountant, Accountant]:
    """What counts as spent before the training, and everything spent, when it goes on with this accountant."""
    given, total = copy.copy(accountant), Accountant()
    if not given.run.parts or any(_same(given, state) for state in (saved.start, saved.accountant)):
        return saved.start, saved.accountant
    if _holders.get(saved.stamp) is not accountant:
        total.record(given.run + saved.accountant.run)
        return given, total
    # rounds that both hold are the same rounds, so they are not added up
    held, kept = dict(given.run.parts), dict(saved.accountant.run.parts)
    total.record(Run(tuple((step, max(held.get(step, 0), kept.get(step, 0))) for step in {**held, **kept})))
    return saved.start, total


def _same(first: Accountant, second: Accountant) -> bool:
    """Whether both hold the same releases. Equal numbers do not show that: a script that runs again makes others."""
    return first.stamp == second.stamp and first == second


def write(path: Path, saved: Saved, accountant: Accountant, previous: Saved | None) -> None:
    """Replace the checkpoint: a reader sees all of the old one or all of the new one, even after a power cut.

    `accountant` is the one that recorded what is saved. `previous` is what it saved before.
    """
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        np.savez(
            file,
            format=np.array(f"{FORMAT} {VERSION}"),
            weights=saved.weights,
            rounds=np.array(saved.rounds),
            public_records=np.array(saved.public_records),
            start=np.array(saved.start.to_json()),
            accountant=np.array(saved.accountant.to_json()),
            stamp=np.array(saved.stamp),
        )
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    if previous is not None:
        _holders.pop(previous.stamp, None)
    _holders[saved.stamp] = accountant


def sync_folder(path: Path) -> None:
    """Write the name of a new file to disk too, before the rounds that the file reserves are made."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: Path) -> Saved | None:
    """The checkpoint, None if there is none, or `ParameterError`: a damaged record never counts as an empty one."""
    if not path.parent.is_dir():
        raise ParameterError(f"checkpoint {path.name!r} must be in a folder that exists.")
    unreadable = ParameterError(f"checkpoint {path.name!r} cannot be read: it is damaged, or no checkpoint.")
    try:
        # every member is compared with its checksum before NumPy looks at it
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        form = _text(members["format.npy"])
    except FileNotFoundError:
        return None
    except UNREADABLE:
        raise unreadable from None
    if form not in PUBLIC_RECORDS:
        raise ParameterError(f"checkpoint {path.name!r} must have format '{FORMAT} {VERSION}', got {form!r:.60}.")
    try:
        return Saved(
            _validate.real_array("weights", _array(members["weights.npy"]), REAL),
            _validate.count("rounds", _array(members["rounds.npy"]).item()),
            _validate.real("public_records", _array(members[PUBLIC_RECORDS[form]]).item(), COUNT),
            Accountant.from_json(_text(members["start.npy"])),
            Accountant.from_json(_text(members["accountant.npy"])),
            _text(members["stamp.npy"]),
        )
    except UNREADABLE:  # a `ParameterError` is a `ValueError`
        raise unreadable from None


def _array(member: bytes) -> NDArray[np.generic]:
    """One array of a checkpoint."""
    array: NDArray[np.generic] = np.lib.format.read_array(io.BytesIO(member), allow_pickle=False)
    return array


def _text(member: bytes) -> str:
    """One text of a checkpoint."""
    text = _array(member).item()
    if not isinstance(text, str):
        raise TypeError
    return text


@contextmanager
def locked(checkpoint: Path | None) -> Iterator[None]:
    """One run at a time may spend from a checkpoint; the lock ends with its process."""
    if checkpoint is None:
        yield
        return
    try:
        import fcntl  # noqa: PLC0415  (POSIX only, and only checkpoints need it)
    except ImportError:
        raise UnsupportedError(
            "Checkpoints need the file locks of a POSIX system: two runs of one would under-count."
        ) from None
    try:
        lock = os.open(checkpoint.with_name(checkpoint.name + ".lock"), os.O_CREAT | os.O_RDWR)
    except OSError as error:
        raise ParameterError(f"checkpoint {checkpoint.name!r} cannot be locked: {error.strerror}.") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ParameterError(f"checkpoint {checkpoint.name!r} is in use by another run.") from None
        yield
    finally:
        os.close(lock)
