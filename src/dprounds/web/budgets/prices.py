"""What jobs cost, asked of workers: a computation in a thread of the server could not be stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from dprounds.errors import UnsupportedError
from dprounds.ledger.entries import run_to_text
from dprounds.ledger.filters import Filter
from dprounds.mechanisms import Run
from dprounds.web.asked import PRICE_OF_A_JOB, ROUNDS_OF_A_JOB
from dprounds.web.pool import Pool, TooLongError

__all__ = ["InWorkers"]


class InWorkers:
    """A `Pricing` by the workers of a pool, for ledgers that are used in threads while the pool's loop runs."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.loop: asyncio.AbstractEventLoop | None = None  # known once the server runs

    def cost(self, fixed: Filter, run: Run, left: Sequence[int], delta: float | None) -> tuple[int, ...]:
        """What the filter says, in a worker."""
        return tuple(map(int, self._asked(PRICE_OF_A_JOB, fixed, run, left, {"delta": delta})["cost"]))

    def rounds_that_fit(self, fixed: Filter, step: Run, left: Sequence[int]) -> int:
        """What the filter says, in a worker."""
        return int(self._asked(ROUNDS_OF_A_JOB, fixed, step, left, {})["rounds"])

    def _asked(
        self, question: str, fixed: Filter, run: Run, left: Sequence[int], more: dict[str, float | None]
    ) -> dict[str, Any]:
        assert self.loop is not None
        given = {"filter": fixed.parameters, "run": run_to_text(run), "left": list(map(str, left)), **more}
        try:
            reply = asyncio.run_coroutine_threadsafe(
                self.pool.ask(question, given, quick=question == PRICE_OF_A_JOB), self.loop
            ).result()
        except TooLongError:
            raise UnsupportedError(
                f"The cost of this job takes longer than {self.pool.seconds:g} s to compute. Nothing was charged."
            ) from None
        found: dict[str, Any] = json.loads(reply.content)
        if reply.status != 200:
            raise UnsupportedError(found["error"])
        return found
