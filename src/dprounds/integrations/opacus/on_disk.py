"""Steps of Opacus that are written to disk before they are made."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from dprounds import _validate
from dprounds.errors import ParameterError
from dprounds.integrations.checkpoints import locked, resolved, sync_folder
from dprounds.integrations.opacus.account import Account, GrantName
from dprounds.integrations.opacus.accountant import NAME, ExactAccountant
from dprounds.integrations.opacus.history import merged

__all__ = ["count_ahead"]

FORMAT = "dprounds.opacus"
VERSION = 1
KEYS = {"format", "version", "history", "stamps"}
OPTIONAL_KEYS = {"relation", "grant", "batches"}  # written since the first files


@contextmanager
def count_ahead(
    accountant: ExactAccountant, path: str | os.PathLike[str], *, reserve: int = 100
) -> Iterator[ExactAccountant]:
    """A block in which every step is in the file at `path` before the weights move.

    Steps are written `reserve` at a time, each time before the first of them is made, and not more than the budget of a
    `while_affordable` has planned. A block that ends by itself, or by an exception, gives back the steps that were not
    made. A process that is killed cannot give them back, and every reserved step counts as made: it may have been seen.

    Guarantee
    ---------
    Raises, or has a file that holds every step that any process has made in such a block, also after ``kill -9`` or a
    power cut. What it held when the block began is in the accountant from then on.

    Parameters
    ----------
    accountant
        ``engine.accountant``. If the file exists, one must go on from the other: load the training's checkpoint before
        the block, if there is one, or begin with a new engine. Within the block an older checkpoint is refused.
    path
        The file, one for each training. A link is followed to its file.
    reserve
        Steps written at a time, at least 1. A larger number takes less time, and loses more steps to a kill.
    """
    if not isinstance(accountant, ExactAccountant):
        raise ParameterError(f"accountant must be an engine's ExactAccountant, got {_validate.show(accountant)}.")
    if accountant._journal is not None:
        raise ParameterError("accountant must be in no other block of count_ahead.")
    file = resolved(path)
    if not file.parent.is_dir():
        raise ParameterError(f"path {file.name!r} must be in a folder that exists.")
    journal = _File(accountant, file, _validate.count("reserve", reserve, least=1))
    with locked(file):
        saved = _join(accountant, file)
        journal.grant = None if saved is None else saved.grant
        accountant._count_in(file, saved)
        journal.write(accountant._account())
        accountant._journal = journal
        try:
            yield accountant
        finally:
            accountant._journal = None
            journal.write(accountant._account())


@dataclass
class _File:
    """The file of a block: the account, and `left` more steps of `kind`; `grant` is the one that it held before."""

    accountant: ExactAccountant
    path: Path
    ahead: int
    kind: tuple[float, float] = (0.0, 0.0)
    left: int = 0
    grant: GrantName | None = None
    process: int = field(default_factory=os.getpid)

    def take(self, noise: float, rate: float) -> None:
        """Write one more step to disk before it is recorded."""
        self.reserve(noise, rate, 1)
        self.left -= 1

    def reserve(self, noise: float, rate: float, steps: int, most_ahead: float = float("inf")) -> None:
        """Write `steps` more steps to disk, and at most `most_ahead` after those."""
        if self.kind == (noise, rate) and self.left >= steps:
            return
        reserved = steps + int(min(max(self.ahead - steps, 0), max(most_ahead, 0)))
        account = self.accountant._account()
        history = merged([*account.history, (noise, rate, reserved)])
        made = sum(steps for _, _, steps in account.history)
        # under the stamp of the accountant that makes them, so that one that resumes from here goes on after them
        self.write(replace(account, history=history, stamps=self.accountant._stamps_after(made + reserved)))
        self.kind, self.left = (noise, rate), reserved

    def write(self, account: Account) -> None:
        """Write this account to disk; a reader sees all of the old one or all of the new one."""
        if os.getpid() != self.process:
            raise ParameterError("count_ahead counts the steps of the process that began it, and of no other.")
        self.left = 0
        text = json.dumps({"format": FORMAT, "version": VERSION, **account.state}, allow_nan=False)
        new = self.path.with_name(self.path.name + ".new")
        with new.open("w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path)
        sync_folder(self.path)


def _join(accountant: ExactAccountant, path: Path) -> Account | None:
    """Bring the accountant up to what the file holds, and return that."""
    saved = _read(path)
    mine = accountant._account()
    if saved is None:
        return None
    if mine.goes_on_from(saved):
        accountant._adopt(saved)
        return saved
    if not saved.goes_on_from(mine):
        raise ParameterError(
            f"path {path.name!r} holds the steps of another training than this accountant. Use a file for each "
            "training; or to resume the one in the file, begin with a new engine, or with its checkpoint."
        )
    accountant.load_state_dict({"mechanism": NAME, **saved.state})
    return saved


def _read(path: Path) -> Account | None:
    """The account in the file, None if there is none, or `ParameterError`: a damaged file is not an empty one."""
    try:
        state = json.loads(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        raise ParameterError(f"path {path.name!r} cannot be read: it is damaged, or no file of count_ahead.") from None
    held = set(state) - OPTIONAL_KEYS if isinstance(state, dict) else set()
    if held != KEYS or state["format"] != FORMAT or state["version"] != VERSION:
        raise ParameterError(f"path {path.name!r} must have format '{FORMAT}' and version {VERSION}.")
    try:
        return Account.checked(state)
    except ParameterError as error:
        raise ParameterError(f"path {path.name!r} cannot be read: {error}") from None
