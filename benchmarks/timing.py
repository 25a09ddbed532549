"""How long a call takes, and what a row of the report looks like."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable


def seconds(call: Callable[[], object], *, repeats: int = 5) -> float:
    """The least of several timings: what the work takes when nothing else runs."""
    call()  # warm caches, finish lazy imports
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def row(name: str, value: str, target: str = "", met: bool | None = None) -> None:
    verdict = "" if met is None else ("met" if met else "MISSED")
    print(f"  {name:<58} {value:>18}  {target:<22} {verdict}")


def cpu_seconds(work: Callable[[], object]) -> float:
    """Processor time of one call, which a busy machine disturbs less than time on the clock."""
    start = time.process_time()
    work()
    return time.process_time() - start


def cold() -> None:
    """Forget every table that the library remembers between answers."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "dprounds":
            for value in list(vars(module).values()):
                if callable(getattr(value, "cache_clear", None)):
                    value.cache_clear()
