"""How long charges of a record store take, and how much memory.

`python -m benchmarks.records 1e6 1e7`: sizes of the store. Each runs in a process of its own, in a temporary folder of
``TMPDIR``. Records have numbers far apart, and each a cost of its own, so that files are not small by luck. Times are
of the processor, all threads together, and in brackets of the clock, which has the disk in it; memory is the most that
the process held, the lists of records included.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dprounds.ledger.records import RecordStore

SOME = 1_000_000
SIZES = (1_000_000, 10_000_000)


def timed(what: str, work: Callable[[], object]) -> None:
    clock, processor = time.perf_counter(), time.process_time()
    work()
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"  {what:<44} {processor:7.2f} s ({clock:6.2f}), memory {most:.2f} GB", flush=True)


def measured(records: int) -> None:
    rng = np.random.default_rng(0)
    ids = np.cumsum(rng.integers(1, 2**36, records))
    some = rng.choice(ids, min(SOME, records), replace=False)
    with tempfile.TemporaryDirectory() as folder:
        store = RecordStore.create(Path(folder) / "records", epsilon=1.0, filter="pure", timeout=600.0)
        print(f"{records:,} records")
        timed("charge all, each its own cost", lambda: store.charge(ids, rng.random(records) * 1e-2, key="first"))
        timed("compact", store.compact)
        timed(f"charge {len(some):,}, in random order", lambda: store.charge(some, 1e-3, key="some"))
        timed("charge all, in order", lambda: store.charge(ids, 1e-3, key="all"))
        timed(f"charge {len(some):,}, after those", lambda: store.charge(some, 1e-3, key="some more"))
        timed(f"the same key again, {len(some):,}", lambda: store.charge(some, 1e-3, key="some more"))
        timed("compact", store.compact)
        timed("verify", store.verify)
        length = sum(path.stat().st_size for path in (Path(folder) / "records").iterdir())
        print(f"  {length / 2**20:,.0f} MB on disk", flush=True)


def main(sizes: list[str]) -> None:
    if sizes[:1] == ["--one"]:
        measured(int(float(sizes[1])))
        return
    for size in sizes or map(str, SIZES):
        subprocess.run([sys.executable, "-m", "benchmarks.records", "--one", size], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
