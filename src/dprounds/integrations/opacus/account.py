"""An account that can be saved: the history of a training, and stamps that say which training it is."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dprounds import _validate
from dprounds.errors import ParameterError
from dprounds.integrations.opacus.history import Line, checked_history, holds
from dprounds.mechanisms.base import ADD_REMOVE, ZERO_OUT

__all__ = ["Account", "GrantName", "Stamp", "new_identity", "stamp_of"]

# The name of an accountant, and the total number of steps when it had recorded its last one.
Stamp: TypeAlias = tuple[str, int]
# The data set and the job of a grant.
GrantName: TypeAlias = tuple[str, str]

STAMP = re.compile(r"[0-9a-f]{32}-[0-9]{1,20}")


def new_identity() -> str:
    """A name that no other accountant has."""
    return secrets.token_hex(16)


def stamp_of(identity: str, steps: int) -> Stamp:
    """The stamp of `steps` steps. It names the process, since after a fork two accountants have one identity."""
    return f"{identity}-{os.getpid()}", steps


@dataclass(frozen=True)
class Account:
    """The steps of a training, and the accountants that have recorded them one after the other.

    Equal numbers do not make the same training: a script that runs again makes as many steps, and they are other steps.
    An accountant that resumes takes a new name, so that two that resumed from one checkpoint are not mistaken for each
    other.

    `relation` says for which neighbours the steps are accounted, and `grant` under which grant they were made, if any.
    With `batches`, a step at rate 1 is a pass over a loader that shuffles the records among so many.
    """

    history: list[Line]
    stamps: list[Stamp]
    relation: str = ZERO_OUT
    grant: GrantName | None = None
    batches: int = 0

    @property
    def state(self) -> dict[str, Any]:
        """All of it, as `checked` takes it; without what older files do not have where that says nothing."""
        state: dict[str, Any] = {"history": self.history, "stamps": self.stamps, "relation": self.relation}
        if self.grant is not None:
            state["grant"] = list(self.grant)
        return {**state, "batches": self.batches} if self.batches else state

    def goes_on_from(self, other: Account) -> bool:
        """Whether the steps of `other` are the first steps of this account: the very same steps, not only as many."""
        if not other.stamps:
            return not any(steps for _, _, steps in other.history)
        *before, (name, steps) = other.stamps
        place = len(before)
        return (
            holds(self.history, other.history)
            and self.stamps[:place] == before
            and place < len(self.stamps)
            and self.stamps[place][0] == name
            and self.stamps[place][1] >= steps
        )

    @classmethod
    def checked(cls, state: Mapping[str, Any]) -> Account:
        """The account in a state, every part of it checked. A state without stamps belongs to a training of its own."""
        history = checked_history(state["history"])
        steps = sum(steps for _, _, steps in history)
        # a state of before there were relations, and one that Opacus wrote, is taken for the weaker one
        relation = _validate.choice("relation", state.get("relation", ZERO_OUT), (ZERO_OUT, ADD_REMOVE))
        grant = None if state.get("grant") is None else _checked_grant(state["grant"])
        batches = _validate.count("batches", state.get("batches", 0))
        if "stamps" not in state:
            return cls(history, [stamp_of(new_identity(), steps)] if steps else [], relation, grant, batches)
        stamps = _checked_stamps(state["stamps"])
        if (stamps[-1][1] if stamps else 0) != steps:
            raise ParameterError("The accountant's state must have as many steps as its stamps say: it was changed.")
        return cls(history, stamps, relation, grant, batches)


def _checked_grant(value: object) -> GrantName:
    """The data set and the job of a grant, as they were written."""
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(name, str) for name in value):
        return value[0], value[1]
    raise ParameterError(f"The accountant's state must name a grant as written, got {_validate.show(value)}.")


def _checked_stamps(value: object) -> list[Stamp]:
    """Stamps as they were written, each of more steps than the one before."""
    stamps: list[Stamp] = []
    for entry in value if isinstance(value, (list, tuple)) else [value]:
        name, steps = entry if isinstance(entry, (list, tuple)) and len(entry) == 2 else (None, None)
        if not (isinstance(name, str) and STAMP.fullmatch(name) and type(steps) is int):
            raise ParameterError(f"The accountant's state must have stamps as written, got {_validate.show(entry)}.")
        if not steps > (stamps[-1][1] if stamps else 0):
            raise ParameterError("The accountant's state must have stamps of more and more steps: it was changed.")
        stamps.append((name, steps))
    return stamps
