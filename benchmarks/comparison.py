"""Tightness, speed, memory and bad input against the peers: one set of runs, each library in a process of its own."""

from __future__ import annotations

import json
import math
import os
import platform
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import abilities, page
from benchmarks.client import Client
from benchmarks.peers import PEERS, Accounting
from benchmarks.runs import BAD_INPUTS, CASES, bad_question, shown
from benchmarks.timing import row
from benchmarks.truth import truth

# Seconds of the processor that a library has for one answer, and for one that it should refuse.
LIMIT, BAD_LIMIT = 10.0, 3.0
FINER = ("dp-accounting-pld-fine", "prv-accountant-fine")
# Other settings of the same library see the same checks, or none.
ASKED_BADLY = (
    "dprounds",
    "dp-accounting-pld",
    "dp-accounting-rdp",
    "opacus-prv",
    "opacus-rdp",
    "prv-accountant",
    "autodp",
)
DOCS = Path(__file__).resolve().parent.parent / "docs"
DATA, PAGE = DOCS / "comparison.json", DOCS / "comparison.md"


def main() -> None:
    print(f"Comparison, {len(CASES)} runs, each library in a process of its own, {LIMIT:g} s an answer")
    data = measured()
    DATA.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page.rendered(json.loads(DATA.read_text())))
    row("written", "docs/comparison.md")


def measured() -> dict[str, Any]:
    """All that the page says, as data: JSON without NaN or infinity."""
    truths = [truth(case.history, case.delta) for case in CASES]
    cases = [
        {
            "name": case.name,
            "family": case.family,
            "delta": case.delta,
            "truth": None if known is None else known._asdict(),
        }
        for case, known in zip(CASES, truths, strict=True)
    ]
    # The processor's time is what is measured, so two libraries may run side by side on the two cores there are.
    with ThreadPoolExecutor(max_workers=2) as pool:
        peers = {name: found for name, found in zip(PEERS, pool.map(_asked, PEERS), strict=True) if found}
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "numpy": metadata.version("numpy"),
            "scipy": metadata.version("scipy"),
            "load": round(os.getloadavg()[0], 1),
        },
        "limit": LIMIT,
        "bad_limit": BAD_LIMIT,
        "cases": cases,
        "bad_inputs": [shown(bad) for bad in BAD_INPUTS],
        "abilities": abilities.answers([]),
        "peers": peers,
    }


def _asked(name: str) -> dict[str, Any]:
    """One library's answers to every case and, where its checks are its own, to every bad input."""
    kind: type[Accounting] = PEERS[name]  # type: ignore[assignment]  # the factories are the classes
    try:
        with Client(name, LIMIT) as first:  # this start may read from the disk, and warms its caches
            first_start = first.start
    except ImportError:
        row(kind.title, "not installed")
        return {}
    with Client(name, LIMIT) as client:
        answers = [
            _plain(client.ask(case.history, case.delta, repeat=True)) if case.fine or name not in FINER else {}
            for case in CASES
        ]
        row(kind.title, f"{sum(answer.get('seconds', 0.0) for answer in answers):.1f} s in answers")
        client.limit = BAD_LIMIT
        bad = [_verdict(client, k) for k in range(len(BAD_INPUTS))] if name in ASKED_BADLY else []
        start = min(first_start, client.start, key=lambda one: one["import_seconds"])
    return {
        "title": kind.title,
        "library": kind.library,
        "version": metadata.version(kind.library),
        "claim": kind.claim,
        "import_seconds": _short(start["import_seconds"]),
        "import_megabytes": _short(start["import_megabytes"]),
        "answers": answers,
        "bad": bad,
    }


def our_bad_input() -> list[dict[str, str]]:
    """What dprounds makes of every bad input."""
    with Client("dprounds", 10 * BAD_LIMIT) as client:
        return [_verdict(client, k) for k in range(len(BAD_INPUTS))]


def _verdict(client: Client, k: int) -> dict[str, str]:
    """What became of one bad input: refused, right in the limit, infinite, accepted, crashed, died, or too long."""
    bad = BAD_INPUTS[k]
    history, delta = bad_question(bad)
    found = client.ask(history, delta)
    if "value" in found:
        value = float(found["value"])
        # so many rounds that epsilon is far above any that is of use
        right = bad.limit is not None and (value == bad.limit or (bad.argument == "rounds" and value > 1e6))
        verdict = "right limit" if right else ("infinite" if value == math.inf else "accepted")
        return {"verdict": verdict, "shown": f"{value:.6g}"}
    if "error" in found:
        verdict = "refused" if found["refused"] else "crashed"
        return {"verdict": verdict, "shown": f"{found['error']}: {found['message']}".rstrip(": ")}
    if found.get("not_covered"):
        return {"verdict": "not covered", "shown": ""}
    return {"verdict": "died" if "died" in found else "too long", "shown": ""}


def _plain(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer for JSON: times and sizes to three digits, an epsilon that is no number as text."""
    value = answer.get("value")
    if isinstance(value, float) and not math.isfinite(value):
        answer = {**answer, "value": str(value)}
    return {key: _short(found) if key.endswith(("seconds", "megabytes")) else found for key, found in answer.items()}


def _short(number: float) -> float:
    return float(f"{number:.3g}")
