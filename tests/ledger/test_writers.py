"""A hundred processes on one budget, every tenth killed: nothing is overspent, nothing that was promised is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dprounds import Gaussian
from dprounds.ledger import Ledger
from dprounds.ledger.filters import UNIT

WRITERS, JOBS = 100, 30


def test_no_overspend_and_no_lost_job(url: str, tmp_path: Path) -> None:
    ledger = Ledger(url)
    ledger.open("data", epsilon=3.5, delta=1e-5)
    told = tmp_path / "told"
    told.mkdir()
    subprocess.run(
        [sys.executable, "-m", "tests.ledger.writers", url, str(WRITERS), str(JOBS), str(told)], check=True, timeout=300
    )
    assert [path.read_text() for path in told.glob("*.error")] == []
    ledger.verify()
    budget = ledger.budget("data").filter
    history = ledger.history("data")
    reserved = {entry.key for entry in history if entry.kind == "reserve"}
    committed = {entry.key for entry in history if entry.kind == "commit"}
    heard = [line.split() for path in told.glob("*.txt") for line in path.read_text().splitlines()]
    assert {key for word, key in heard if word == "reserved"} <= reserved
    assert {key for word, key in heard if word == "committed"} <= committed
    # fewer fit than the 2,700 jobs that the writers who live ask for
    most = int(budget.caps[0] * UNIT * 4096)
    assert len(reserved) <= most
    assert len(reserved) > 0.8 * most
    status = ledger.status("data")
    assert (status.reserved, status.committed) == (len(reserved - committed), len(committed))
    left = ledger.remaining_rounds("data", Gaussian(64.0))
    assert len(reserved) + left == most
    ledger.close()
