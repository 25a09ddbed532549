"""The folder of a record store: which files count, replaced as a whole, and one writer at a time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dprounds.errors import LedgerError, ParameterError, UnsupportedError
from dprounds.ledger.records.amounts import Part, writing

try:
    import fcntl
except ModuleNotFoundError:  # no POSIX
    fcntl = None  # type: ignore[assignment]  # a module, or none

__all__ = ["Charge", "Folder", "Manifest"]

MANIFEST, LOCK = "manifest.json", "lock"
VERSION = 1
PAUSE = 0.02  # seconds between two attempts to get the lock


@dataclass(frozen=True)
class Charge:
    """A charge that was made: the digest of what was asked, and its file until that is added to the base."""

    digest: str
    file: Part | None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a store consists of. A file that no manifest names is not part of it.

    Parameters
    ----------
    opening
        All that was fixed when the store was made.
    base
        The files with what each record has spent, the lowest records first.
    charges
        All charges ever made, by key; the files of some are not in the base yet.
    """

    opening: Mapping[str, Any]
    base: tuple[Part, ...] = ()
    charges: Mapping[str, Charge] = field(default_factory=dict)

    @property
    def parts(self) -> list[Part]:
        """All files that count."""
        return [*self.base, *(charge.file for charge in self.charges.values() if charge.file is not None)]

    def to_json(self) -> str:
        """The manifest as text, with a checksum."""
        charges = {key: [one.digest, one.file] for key, one in self.charges.items()}
        said = {"version": VERSION, "opening": self.opening, "base": self.base, "charges": charges}
        return json.dumps({"sha256": _checksum(said), **said})

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """The manifest that `to_json` wrote; raises ValueError, TypeError or KeyError where it did not."""
        said = json.loads(text)
        if said["version"] > VERSION:
            raise LedgerError("The record store was made by a newer dprounds. Upgrade dprounds.")
        if said.pop("sha256") != _checksum(said):
            raise ValueError
        charges = {
            key: Charge(digest, None if file is None else Part(*file))
            for key, (digest, file) in said["charges"].items()
        }
        return cls(opening=said["opening"], base=tuple(Part(*part) for part in said["base"]), charges=charges)


class Folder:
    """The files of a store.

    Parameters
    ----------
    path
        The folder.
    timeout
        Seconds to wait for another process.
    """

    def __init__(self, path: Path, *, timeout: float) -> None:
        self.path, self.timeout = path, timeout

    def begin(self, opening: Mapping[str, Any]) -> None:
        """Make a store where none is."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)  # what it will hold is private
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be made: {error.strerror}.") from None
        with self.locked(shared=False, is_new=True):
            if any(one.name != LOCK for one in self.path.iterdir()):  # a lost manifest must not open a new budget
                raise ParameterError(
                    "{argument} must be a new or an empty folder: {path} is not empty.",
                    argument="folder",
                    path=str(self.path),
                )
            self.replace(Manifest(opening=opening))
        self._sync_folder(self.path.parent)

    @contextlib.contextmanager
    def locked(self, *, shared: bool, is_new: bool = False) -> Iterator[None]:
        """Keep other processes out meanwhile; `shared` ones only keep out those that write.

        The lock is the operating system's on the file ``lock``, so that it ends with the process that holds it.
        """
        if fcntl is None:
            raise UnsupportedError("The record store needs the file locks of POSIX, which this system does not have.")
        try:
            descriptor = os.open(self.path / LOCK, os.O_RDWR | (os.O_CREAT if is_new else 0), 0o600)
        except OSError as error:
            raise LedgerError(
                f"There is no record store that can be locked in {self.path}: {error.strerror}."
            ) from None
        try:
            self._wait(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _wait(self, descriptor: int, kind: int) -> None:
        end = time.monotonic() + self.timeout
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise LedgerError(
                        f"Waited {self.timeout:g} s for another process that uses {self.path}, which did not end."
                    ) from None
                time.sleep(PAUSE)
            except OSError as error:
                raise LedgerError(f"{self.path} cannot be locked: {error.strerror}.") from None
            else:
                return

    def read(self) -> Manifest:
        """The manifest as it is now."""
        try:
            return Manifest.from_json((self.path / MANIFEST).read_text())
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise LedgerError(
                f"{self.path / MANIFEST} is missing or damaged: restore the whole folder from a backup."
            ) from error

    def replace(self, manifest: Manifest) -> None:
        """Let a manifest take the place of the one before it, at once: its files are on disk already."""
        new = self.path / f"{MANIFEST}.new"
        with writing(self.path):
            self._sync_folder(self.path)
            with new.open("w") as file:
                file.write(manifest.to_json())
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.path / MANIFEST)
            self._sync_folder(self.path)

    def new_file(self, kind: str) -> Path:
        """The path of a file that is not there, and never was."""
        return self.path / f"{kind}-{secrets.token_hex(8)}.parquet"

    def tidy(self, manifest: Manifest) -> None:
        """Remove files that count no longer, or never did: a process ended before it could name them."""
        named = {part.name for part in manifest.parts}
        for path in self.path.glob("*.parquet"):
            if path.name not in named:
                path.unlink(missing_ok=True)

    @staticmethod
    def _sync_folder(path: Path) -> None:
        """Have the names in a folder on disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _checksum(said: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
