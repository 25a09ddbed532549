"""What has been spent: the running total inside a training loop."""

from __future__ import annotations

import json
import math
import os
import re
import threading
from dataclasses import MISSING, fields
from typing import Any

from dprounds import _validate, mechanisms
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.guarantee import Guarantee
from dprounds.mechanisms.base import Mechanism, Release, Run, check_relations
from dprounds.planning import checked_release, max_rounds

__all__ = ["Accountant", "checked_accountant"]

FORMAT = "dprounds.accountant"
VERSION = 1
# Written since the first files; a text without them is read as well.
OPTIONAL_KEYS = frozenset({"stamp", "relation"})
# The name of an accountant, the process that recorded, and the number of its changes: see `Accountant.stamp`.
STAMP = re.compile(r"[0-9a-f]{32}-[0-9]{1,20}-[0-9]{1,20}")


class Accountant:
    """The releases made so far, and what they cost.

    The guarantee holds if the parameters of the releases (noise, sampling rate, number of rounds) were fixed before the
    first of them, or if nothing that was released steered them. What is asked of the data may depend on all that was
    released before; how much is spent may not. If noise was raised or a run was ended because of what came out, or if
    the epsilon of the rounds so far is quoted because the model was good enough then, the exact total of the history is
    no guarantee: fix the budget beforehand and publish that one. A ledger (`dprounds.ledger`) keeps such a budget, also
    where each job is chosen by looking at the last.

    It is tied to no training library: call `record` once per step. Equal steps merge, so that a record takes
    microseconds, and a million of them take no more memory than one. Threads may share one accountant.

    A copy is an independent accountant, and so is what pickle brings to another process: the original never learns what
    a copy records. So the training loops here refuse copies. To move an accountant, use `to_json` and `from_json`.

    Examples
    --------
    >>> from dprounds import Accountant, Gaussian, PoissonSampled
    >>> accountant, step = Accountant(), PoissonSampled(Gaussian(1.1), 256 / 60_000)
    >>> for _ in range(1000):
    ...     accountant.record(step)
    >>> round(accountant.epsilon(delta=1e-5, method="optimal"), 3)
    0.862
    >>> accountant.would_exceed(step, epsilon=3.0, delta=1e-5)
    False
    >>> Accountant.from_json(accountant.to_json()) == accountant
    True
    """

    def __init__(self) -> None:
        self._rounds: dict[Mechanism, int] = {}
        self._made_here()

    def _made_here(self) -> None:
        """Give this accountant an identity that no other one has, whatever it holds already."""
        self._lock = threading.RLock()  # re-entrant, since a signal handler may read what this thread is changing
        self._identity = os.urandom(16).hex()
        self._changes = 0
        self._given_stamp: tuple[int, str] | None = None  # a number of changes, and the stamp that holds there
        self._process: int | None = os.getpid()

    def record(self, step: Release, *, rounds: int = 1) -> None:
        """Add `rounds` rounds of `step` to the total."""
        # the usual call, kept fast
        if type(rounds) is int and rounds == 1 and isinstance(step, Mechanism) and type(step).__hash__ is not None:
            with self._lock:
                if step not in self._rounds:
                    check_relations((step, *self._rounds) if step.relation else (step,))
                self._changes += 1
                self._rounds[step] = self._rounds.get(step, 0) + 1
            return
        added = checked_release("step", step) * rounds
        with self._lock:
            # the sum is checked before anything is changed
            self._rounds, self._changes = dict((self.run + added).parts), self._changes + 1

    @property
    def run(self) -> Run:
        """Everything recorded, as one run."""
        with self._lock:
            return Run(tuple(self._rounds.items()))

    @property
    def stamp(self) -> str:
        """A name that no other total has: two accountants with one stamp hold the same releases, not only as many.

        It changes whenever something is recorded. A copy, and what `from_json` restores, keep it until they record.
        """
        given = self._given_stamp
        if given is not None and given[0] == self._changes:
            return given[1]
        # with the process, since after a fork two accountants have one identity
        return f"{self._identity}-{os.getpid()}-{self._changes}"

    def record_if(self, step: Mechanism, stamp: str) -> str | None:
        """Record one more round of `step` and return the new stamp; None, unrecorded, if anything was since `stamp`."""
        with self._lock:
            if self.stamp != stamp:
                return None
            self.record(step)
            return self.stamp

    def replace_if(self, other: Accountant, stamp: str) -> bool:
        """Take over the total of `other`, which holds all of this one; False if anything was recorded since `stamp`."""
        with self._lock:
            if self.stamp != stamp:
                return False
            self._rounds, self._changes = dict(other.run.parts), self._changes + 1
            self._given_stamp = self._changes, other.stamp
            return True

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {**self.__dict__, "_lock": None, "_rounds": dict(self._rounds), "_given_stamp": (0, self.stamp)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._made_here()
        made = {name: self.__dict__[name] for name in ("_lock", "_identity", "_changes")}
        self.__dict__.update({**state, **made, "_process": None})

    def __eq__(self, other: object) -> bool:
        return self.run == other.run if isinstance(other, Accountant) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes as it records

    def __repr__(self) -> str:
        return f"<Accountant of {self.run!r}>"

    def epsilon(self, *, delta: float, method: str | None = None) -> float:
        """Epsilon of everything recorded, at `delta`. Errs upward."""
        return self.run.epsilon(delta=delta, method=method)

    def delta(self, *, epsilon: float, method: str | None = None) -> float:
        """Delta of everything recorded, at `epsilon`. Errs upward."""
        return self.run.delta(epsilon=epsilon, method=method)

    def guarantee(self, *, delta: float, method: str | None = None) -> Guarantee:
        """The guarantee of everything recorded, at `delta`."""
        return self.run.guarantee(delta=delta, method=method)

    def remaining_rounds(self, step: Release, *, epsilon: float, delta: float, method: str | None = None) -> int:
        """Largest number of further rounds of `step` within the budget; 0 also if it is exceeded already."""
        return max_rounds(step, epsilon=epsilon, delta=delta, method=method, spent=self.run)

    def would_exceed(self, step: Release, epsilon: float, delta: float, *, method: str | None = None) -> bool:
        """Whether one more round of `step` would leave the budget: ask before the round, not after it."""
        budget = _validate.real("epsilon", epsilon, _validate.EPSILON)
        return (self.run + checked_release("step", step)).epsilon(delta=delta, method=method) > budget

    def to_json(self) -> str:
        """The total as JSON that `from_json` restores exactly.

        Guarantee
        ---------
        Raises `ParameterError` for a mechanism of your own: JSON would keep its name and not what it does.
        """
        with self._lock:
            run, stamp = self.run, self.stamp
        parts = [{"mechanism": _describe(mechanism), "rounds": rounds} for mechanism, rounds in run.parts]
        whole = {"format": FORMAT, "version": VERSION, "relation": run.relation, "parts": parts, "stamp": stamp}
        return json.dumps(whole, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Accountant:
        """The accountant that `to_json` wrote.

        Guarantee
        ---------
        Raises `ParameterError` for anything that is not exactly such a text, or restores every recorded round. A text
        of an earlier version, which does not name its relation, holds what its mechanisms meant then: a Poisson-sampled
        one, adding or removing a record.
        """
        try:
            data = json.loads(text, object_pairs_hook=_without_repeats)
        except (TypeError, ValueError, RecursionError):
            raise ParameterError("The accountant's JSON cannot be read: it is not JSON, or it was cut short.") from None
        data = _keys(data, {"format", "version", "parts"}, "the accountant's JSON", optional=OPTIONAL_KEYS)
        if data["format"] != FORMAT:
            raise ParameterError(f"The accountant's JSON must have format '{FORMAT}', got {data['format']!r:.60}.")
        if type(data["version"]) is not int or data["version"] != VERSION:
            raise ParameterError(
                f"The accountant's JSON must have version {VERSION}, got {_validate.show(data['version'])}. "
                "If a newer dprounds wrote it, read it with that one."
            )
        if not isinstance(data["parts"], list):
            raise ParameterError(f"The accountant's JSON must list its parts, got {data['parts']!r:.60}.")
        stamp = data.get("stamp")
        if "stamp" in data and not (isinstance(stamp, str) and STAMP.fullmatch(stamp)):
            raise ParameterError(f"The accountant's JSON must have a stamp as it was written, got {stamp!r:.60}.")
        accountant = cls()
        for part in data["parts"]:
            entry = _keys(part, {"mechanism", "rounds"}, "a part of the accountant's JSON")
            if type(entry["rounds"]) is not int:
                raise ParameterError(f"rounds must be an integer in [0, inf), got {entry['rounds']!r:.60}.")
            try:
                accountant.record(_rebuild(entry["mechanism"]), rounds=entry["rounds"])
            except UnsupportedError as error:
                raise ParameterError(f"The accountant's JSON holds what is not supported: {error}") from None
        if "relation" in data and data["relation"] != accountant.run.relation:
            raise ParameterError(
                f"The accountant's JSON must have the relation of its parts, {accountant.run.relation!r}, got "
                f"{data['relation']!r:.60}."
            )
        if stamp is not None:
            accountant._given_stamp = accountant._changes, stamp
        return accountant


def checked_accountant(name: str, value: object) -> Accountant:
    """`value`, an accountant of this process and not a copy: the original never learns what a copy records."""
    if not isinstance(value, Accountant):
        raise ParameterError(f"{name} must be an Accountant, got {_validate.show(value)}.")
    if value._process != os.getpid():
        raise ParameterError(
            f"{name} must be the accountant itself, got a copy, or one of another process: the original would not "
            "learn what it records. Use threads instead of processes, or move it by to_json and from_json."
        )
    return value


def _describe(value: object) -> Any:  # noqa: ANN401  (JSON is a tree of anything)
    """A mechanism as its name and parameters; infinity, which JSON lacks, as text."""
    if isinstance(value, Mechanism):
        if getattr(mechanisms, type(value).__name__, None) is not type(value):
            raise ParameterError(
                f"The accountant's JSON takes the library's own mechanisms only, got a {type(value).__name__} of "
                f"{type(value).__module__}."
            )
        parameters = {field.name: _describe(getattr(value, field.name)) for field in fields(value)}  # type: ignore[arg-type]  # every mechanism is a dataclass
        return {"name": type(value).__name__, **parameters}
    if isinstance(value, tuple):
        return [_describe(item) for item in value]
    return "inf" if value == math.inf else value


def _rebuild(value: Any, depth: int = 0) -> Any:  # noqa: ANN401  (JSON is a tree of anything)
    """What `_describe` described; every parameter is checked by the constructor it belongs to."""
    if isinstance(value, list):
        return [_rebuild(item, depth + 1) if depth < 3 else None for item in value]
    if not isinstance(value, dict):
        return math.inf if value == "inf" else value
    kind = getattr(mechanisms, str(value.get("name")), None)
    if depth > 1 or not (isinstance(kind, type) and issubclass(kind, Mechanism) and kind is not Mechanism):
        raise ParameterError(f"The accountant's JSON names an unknown mechanism, {value.get('name')!r:.60}.")
    parts = fields(kind)  # type: ignore[arg-type]  # every mechanism is a dataclass
    # what earlier files do not have was not there to be chosen, and has its default
    later = frozenset(part.name for part in parts if part.default is not MISSING)
    needed = {part.name for part in parts} - later
    parameters = _keys(value, {"name", *needed}, f"{kind.__name__} in the accountant's JSON", optional=later)
    return kind(**{name: _rebuild(item, depth + 1) for name, item in parameters.items() if name != "name"})


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, each key once."""
    if len(dict(pairs)) != len(pairs):
        raise ValueError
    return dict(pairs)


def _keys(value: object, expected: set[str], where: str, *, optional: frozenset[str] = frozenset()) -> dict[str, Any]:
    """`value` as a dictionary with exactly the `expected` keys, and perhaps the `optional` ones."""
    if not isinstance(value, dict) or set(value) - optional != expected:
        found = sorted(value) if isinstance(value, dict) else value
        wanted = ", ".join(sorted(expected))
        raise ParameterError(f"{where[0].upper()}{where[1:]} must hold exactly {wanted}, got {found!r:.80}.")
    return value
