"""Rows answered: the same function on every scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dprounds import questions
from dprounds.errors import PrivacyError
from dprounds.questions.vocabulary import QUESTIONS
from dprounds.sweep.grid import Grid, Row

__all__ = ["Chunk", "answer_chunk", "chunk_of"]

# What a row is asked as, and the columns of its answer.
Task = tuple[str, tuple[str, ...], tuple[str, ...], tuple[Row, ...]]
Chunk = tuple[int, Task]


def chunk_of(grid: Grid, index: int, size: int) -> Chunk:
    """The rows that are asked together, small enough to be sent to any machine."""
    rows = tuple(grid.rows(index * size, min((index + 1) * size, len(grid))))
    return index, (grid.question, grid.derived, grid.answered, rows)


def answer_chunk(task: Task) -> list[list[Any]]:
    """For each row its derived inputs, its answer and its error, of which either the last or all others are None."""
    question, derived, answered, rows = task
    return [_answer(question, derived, answered, row) for row in rows]


def _answer(question: str, derived: Sequence[str], answered: Sequence[str], row: Row) -> list[Any]:
    budget = {word: value for word, value in row.words.items() if word in ("epsilon", "delta")}
    try:
        if not QUESTIONS[question].has_setting:
            return _columns(getattr(questions, question)(**row.words), derived, answered)
        setting = questions.Setting(**{word: value for word, value in row.words.items() if word not in budget})  # type: ignore[arg-type]  # the library judges the values
        found = getattr(questions, question)(setting, **budget, method=row.method)
    except PrivacyError as error:
        return [None] * (len(derived) + len(answered)) + [_sentence(str(error))]
    except (ArithmeticError, ValueError, MemoryError, RecursionError) as error:
        # No such error is known. Should there be one, it spoils this row and not a million others.
        return [None] * (len(derived) + len(answered)) + [_sentence(f"{type(error).__name__}: {error}")]
    return _columns(found, derived, answered)


def _columns(found: questions.Answers, derived: Sequence[str], answered: Sequence[str]) -> list[Any]:
    values = found.best.values
    inputs = [_number(found.inputs.get(name)) for name in derived]
    return [*inputs, *(_number(values.get(name.removeprefix("reached_"))) for name in answered), None]


def _sentence(text: str) -> str:
    return " ".join(text.split())


def _number(value: object) -> float | int | None:
    """A number of Python's own, which JSON writes and reads back to the last digit."""
    if value is None or isinstance(value, int):
        return value
    return float(value)  # type: ignore[arg-type]  # answers hold numbers
