"""Arguments of a ledger: short texts on one line, and the blocks of a job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dprounds._validate import show
from dprounds.errors import ParameterError
from dprounds.ledger.budget import Budget
from dprounds.ledger.tables import LONGEST_NAME

__all__ = ["WHOLE", "named_blocks", "text", "word"]

WHOLE = ("",)  # the one block of a budget that has no blocks


def named_blocks(budget: Budget, blocks: Sequence[str] | None) -> tuple[str, ...]:
    """The blocks of a job in order, each once."""
    if not budget.has_blocks:
        if blocks is not None:
            raise ParameterError("The budget of {name} has no {argument}.", argument="blocks", name=show(budget.name))
        return WHOLE
    if not isinstance(blocks, Iterable) or isinstance(blocks, str) or not list(blocks):
        raise ParameterError(
            "{argument} must list those that the job reads: the budget of {name} has blocks.",
            argument="blocks",
            name=show(budget.name),
        )
    return tuple(sorted({word("blocks", block) for block in blocks}))


def word(name: str, value: object, *, longest: int = LONGEST_NAME) -> str:
    """A short text that is not empty."""
    found = text(name, value, longest=longest)
    if not found:
        raise ParameterError("{argument} must not be empty.", argument=name)
    return found


def text(name: str, value: object, *, longest: int = 2000) -> str:
    """A text on one line."""
    if not isinstance(value, str) or not value.isprintable():
        raise ParameterError("{argument} must be text on one line, got {value}.", argument=name, value=show(value))
    if len(value) > longest:
        raise ParameterError(
            "{argument} must have at most {longest} letters, got {found}.",
            argument=name,
            longest=longest,
            found=len(value),
        )
    return value
