"""What jobs cost, as a worker computes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprounds.ledger.entries import run_from_text
from dprounds.ledger.filters import filter_from_parameters
from dprounds.web.asked import PRICE_OF_A_JOB

__all__ = ["answer"]


def answer(question: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The price of a job, or the rounds of one that fit."""
    fixed, run = filter_from_parameters(given["filter"]), run_from_text(given["run"])
    left = tuple(map(int, given["left"]))
    if question == PRICE_OF_A_JOB:
        return {"cost": list(map(str, fixed.cost(run, left=left, delta=given["delta"])))}
    return {"rounds": fixed.rounds_that_fit(run, left)}
