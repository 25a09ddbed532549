"""What a grant of a ledger still covers while a training of another library uses it up."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from dprounds._validate import show
from dprounds.accountant import Accountant
from dprounds.errors import BudgetExceededError, ParameterError
from dprounds.integrations.checkpoints import locked, resolved, sync_folder
from dprounds.mechanisms import Gaussian, PoissonSampled, Shuffled
from dprounds.mechanisms.base import REPLACE_ONE, Mechanism, Run

if TYPE_CHECKING:  # a ledger needs SQLAlchemy, and this file does not
    from dprounds.ledger import Grant

__all__ = ["Granted", "GrantedRun", "reveals_no_more"]

FORMAT = "dprounds.granted"
VERSION = 1
KEYS = {"format", "version", "budget", "key", "made"}


class Granted:
    """The rounds of a grant that are left.

    Each round that is made takes the place of one that was granted: an equal one, or one that reveals more.

    Parameters
    ----------
    grant
        Of a ledger whose budget counts data sets as neighbours by `relation`.
    relation
        That of the training: a word of `dprounds.mechanisms.base.RELATIONS`.
    advice
        What to do where it is another one.
    """

    def __init__(self, grant: Grant, *, relation: str, advice: str = "") -> None:
        from dprounds.ledger import Grant  # noqa: PLC0415  (whoever has a grant has SQLAlchemy)

        if not isinstance(grant, Grant):
            raise ParameterError(f"grant must be a Grant of a ledger, got {show(grant)}.")
        if grant.relation != relation:
            raise ParameterError(
                f"grant must be of a budget for {relation}, which is what this training keeps, got one of "
                f"{show(grant.budget)}, whose neighbours are those of {grant.relation}. " + advice
            )
        self.grant, self._left, self._is_taken = grant, dict(grant.run.parts), False

    @property
    def name(self) -> tuple[str, str]:
        """The data set and the job."""
        return self.grant.budget, self.grant.key

    def begin(self, *, resumes: bool) -> None:
        """Take the grant before the first release; raises `LedgerError` where the work may have been done before."""
        if not self._is_taken:
            self.grant.take(resumes=resumes)
            self._is_taken = True

    def rounds_left(self, step: Mechanism) -> int:
        """The most rounds of `step` that are covered."""
        return sum(left for part, left in self._left.items() if reveals_no_more(step, part))

    def check(self, run: Run) -> None:
        """Raise `BudgetExceededError` where not all of a run is covered."""
        self._after(run)

    def use(self, run: Run) -> None:
        """Take a run off; raises `BudgetExceededError`, and takes nothing, where not all of it is covered."""
        self._left = self._after(run)

    def _after(self, run: Run) -> dict[Mechanism, int]:
        left = dict(self._left)
        for step, rounds in run.parts:
            needed = rounds
            # an equal round first, so that those which reveal more are left for the steps that need them
            for part in sorted(left, key=lambda part: part != step):
                if reveals_no_more(step, part):
                    taken = min(left[part], needed)
                    left[part], needed = left[part] - taken, needed - taken
            if needed:
                raise BudgetExceededError(
                    f"The grant {show(self.grant.key)} of {show(self.grant.budget)} does not cover {rounds:,} more of "
                    f"{step!r}, so nothing was done: it is for {show(self.grant.run)}, of which "
                    f"{rounds - needed:,} such rounds are left. Reserve another job for more."
                )
        return left


class GrantedRun:
    """A run that is made part by part under a grant, each part on disk before it is made.

    Parameters
    ----------
    grant, relation
        As for `Granted`.
    checkpoint
        A file to resume from if it exists; None for work that a crash ends.
    """

    def __init__(self, grant: Grant, *, relation: str, checkpoint: str | os.PathLike[str] | None) -> None:
        self._granted = Granted(grant, relation=relation)
        self._path = None if checkpoint is None else resolved(checkpoint)
        self._lock = ExitStack()
        self._lock.enter_context(locked(self._path))  # until this object is gone, or its process
        found = None if self._path is None else self._read(self._path)
        self._resumes, self.made = found is not None, found or Run()
        self._granted.use(self.made)

    def make(self, run: Run) -> None:
        """Count a run before it is made; raises, and counts nothing, where the grant does not cover all of it."""
        self._granted.check(run)
        self._granted.begin(resumes=self._resumes)
        made = self.made + run
        if self._path is not None:
            self._write(self._path, made)
        self._granted.use(run)
        self.made = made

    def _write(self, path: Path, made: Run) -> None:
        total = Accountant()
        total.record(made)
        budget, key = self._granted.name
        text = json.dumps(
            {"format": FORMAT, "version": VERSION, "budget": budget, "key": key, "made": json.loads(total.to_json())}
        )
        new = path.with_name(path.name + ".new")
        with new.open("w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
        sync_folder(path)

    def _read(self, path: Path) -> Run | None:
        """What was made, None if there is no file, or `ParameterError`: a damaged file is not an empty one."""
        try:
            data = json.loads(path.read_text(encoding="ascii"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            raise ParameterError(f"checkpoint {path.name!r} cannot be read: it is damaged, or no checkpoint.") from None
        if not isinstance(data, dict) or set(data) != KEYS or (data["format"], data["version"]) != (FORMAT, VERSION):
            raise ParameterError(f"checkpoint {path.name!r} must have format '{FORMAT}' and version {VERSION}.")
        if (data["budget"], data["key"]) != self._granted.name:
            raise ParameterError(
                f"checkpoint {path.name!r} must be of the grant {show(self._granted.name[1])}, got one of "
                f"{show(data['key'])} of {show(data['budget'])}."
            )
        return Accountant.from_json(json.dumps(data["made"])).run


def reveals_no_more(step: Mechanism, granted: Mechanism) -> bool:
    """Whether a round is an equal one, or one of Gaussian noise with at least as much noise and at most the rate.

    Such a round can be computed from the other one, by more noise and by leaving the record out more often
    (docs/theory/filters.md, "Rounds that reveal less").
    """
    if step == granted:
        return True
    one, other = _sampled_gaussian(step), _sampled_gaussian(granted)
    return one is not None and other is not None and one[0] >= other[0] and one[1] <= other[1]


def _sampled_gaussian(step: Mechanism) -> tuple[float, float] | None:
    """Noise and rate; None for other mechanisms."""
    if isinstance(step, Gaussian):
        return step.noise_multiplier, 1.0
    if isinstance(step, Shuffled) and isinstance(step.mechanism, Gaussian):
        # it is charged as noise without any sampling, whatever its batches; a record that is replaced moves a sum twice
        noise = step.mechanism.noise_multiplier
        return (0.5 * noise if step.relation == REPLACE_ONE else noise), 1.0
    if isinstance(step, PoissonSampled) and isinstance(step.mechanism, Gaussian) and step.group_size == 1:
        return step.mechanism.noise_multiplier, step.sampling_rate
    return None
