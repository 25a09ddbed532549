"""Answers, a row for each method, in the one form that the command line, the page and saved files share."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dprounds.questions.wording import Quantity

__all__ = ["Answer", "Answers", "as_json", "tightest"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one method answers; `error` says why it has no answer, and then `values` is empty."""

    method: str
    values: dict[str, float | int | None] = field(default_factory=dict)
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON holds it; infinity, which JSON lacks, as text."""
        row: dict[str, Any] = {"method": self.method}
        row |= {name: as_json(value) for name, value in self.values.items()}
        return row if self.error is None else {**row, "error": self.error}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Answer:
        """The answer whose row JSON holds.

        Examples
        --------
        >>> Answer.from_dict({"method": "exact", "epsilon": "inf", "delta": 1e-5})
        Answer(method='exact', values={'epsilon': inf, 'delta': 1e-05}, error=None)
        """
        values = {name: value for name, value in row.items() if name not in ("method", "error")}
        values = {name: math.inf if value == "inf" else value for name, value in values.items()}
        return cls(method=row["method"], values=values, error=row.get("error"))


@dataclass(frozen=True, kw_only=True)
class Answers:
    """A question, what it was asked of, and the answer of each method from the loosest to the tightest.

    Parameters
    ----------
    question
        The word of the command line.
    inputs
        What was given, and the sampling rate and rounds that follow from it.
    quantity
        What was asked for; `values` of every row that has an answer hold it by this name.
    answers
        The rows.
    sentence
        The answer in plain words.
    holds_for
        What it holds for, in plain words: between which data sets, and for which sampling.
    relation, sampling
        The same as a `Guarantee <dprounds.guarantee.Guarantee>` has them.
    remarks
        What else to know before the answer is used, a sentence each.
    """

    question: str
    inputs: dict[str, Any]
    quantity: Quantity
    answers: tuple[Answer, ...]
    sentence: str
    holds_for: str
    relation: str | None = None
    sampling: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def best(self) -> Answer:
        """The row to go by: the tightest method that answered."""
        return tightest(self.answers)

    def to_dict(self) -> dict[str, Any]:
        """The whole as JSON holds it."""
        inputs = {name: as_json(value) for name, value in self.inputs.items()}
        rows = [row.to_dict() for row in self.answers]
        return {
            "question": self.question,
            "inputs": inputs,
            "answers": rows,
            "sentence": self.sentence,
            "relation": self.relation,
            "sampling": self.sampling,
            "holds_for": self.holds_for,
            "remarks": list(self.remarks),
        }

    def to_json(self, *, ascii_only: bool = False) -> str:
        """The whole as JSON text; every number reads back as the same double."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=ascii_only, allow_nan=False)


def tightest(rows: Sequence[Answer]) -> Answer:
    """The last row that has an answer; rows go from the loosest method to the tightest."""
    return next(row for row in reversed(rows) if row.error is None)


def as_json(value: object) -> object:
    """`value` as JSON can hold it: infinity as text."""
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    return "inf" if value == math.inf else value
