"""How long a reservation takes as the history grows, and how many a second many clients make.

`python -m benchmarks.ledger`, with the URL of an empty PostgreSQL database to measure that one too. Where OpenDP is
installed, many small queries go through its filter as well, whose time grows with their square (opendp/opendp#2909).

The history is written in one transaction, with the chain that single reservations would have made; `verify` is timed on
it too. Times are of the processor, and in brackets of the clock, whose second part is the disk.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import insert, update

from dprounds import Gaussian
from dprounds.ledger import Entry, Ledger, tables
from dprounds.ledger.database import Database
from dprounds.ledger.entries import run_to_text

STEP = Gaussian(2e4)
SIZES = (100, 10_000, 100_000)
CLIENTS, SECONDS = 16, 5.0
QUERIES, MOST_THEIRS = (500, 1_000, 2_000, 4_000), 4_000


def fill(url: str, ledger: Ledger, entries: int) -> None:
    """Reservations up to this number of entries."""
    opened = ledger.history("data", limit=1)[0]
    budget = ledger.budget("data")
    cost = budget.filter.cost(STEP * 1, left=budget.filter.caps)
    text, last, rows, grants = run_to_text(STEP * 1), opened, [], []
    for number in range(2, entries + 1):
        key = f"job {number}"
        last = Entry(
            budget="data",
            number=number,
            kind="reserve",
            key=key,
            at=opened.at,
            description=text,
            cost=cost,
            version=opened.version,
            previous=last.hash,
        ).sealed()
        rows.append(last.row)
        grants.append({"budget": "data", "key": key, "state": "reserved", "number": number})
    database = Database(url, timeout=600.0)
    spent = [str(amount * len(rows)) for amount in cost]
    with database.engine.begin() as connection:
        connection.execute(insert(tables.entries), rows)
        connection.execute(insert(tables.grants), grants)
        connection.execute(update(tables.blocks).values(first_sum=spent[0], second_sum=spent[1]))
        connection.execute(update(tables.budgets).values(number=entries, head=last.hash, reserved=len(rows)))
    database.close()


def reservations(folder: Path) -> None:
    for entries in SIZES:
        url = f"sqlite:///{folder}/{entries}.db"
        ledger = Ledger(url)
        ledger.open("data", epsilon=6.0, delta=1e-5)
        fill(url, ledger, entries)
        for number in range(20):
            ledger.reserve("data", STEP, key=f"warm {number}")
        cpu, clock = time.process_time(), time.perf_counter()
        for number in range(200):
            ledger.reserve("data", STEP, key=f"new {number}")
        cpu, clock = (time.process_time() - cpu) / 200, (time.perf_counter() - clock) / 200
        began = time.process_time()
        ledger.verify()
        checked = time.process_time() - began
        print(
            f"SQLite, {entries:>7,} entries: reserve {cpu * 1e3:.2f} ms ({clock * 1e3:.2f} ms); verify {checked:.2f} s"
        )
        ledger.close()


def rate(url: str) -> None:
    """Reservations a second from many clients at once."""
    ledger = Ledger(url)
    ledger.open("data", epsilon=6.0, delta=1e-5)
    ledger.reserve("data", STEP, key="first")
    before, end, children = ledger.status("data").reserved, time.time() + SECONDS, []
    for client in range(CLIENTS):
        child = os.fork()
        if not child:
            number = 0
            while time.time() < end:
                ledger.reserve("data", STEP, key=f"{client}-{number}")
                number += 1
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    made = ledger.status("data").reserved - before
    print(f"{url.partition(':')[0]}, {CLIENTS} clients: {made / SECONDS:.0f} reservations a second")
    ledger.close()


def small_queries(folder: Path) -> None:
    """Many Gaussian queries, each of a millionth of its budget or less, asked one after the other under one filter."""
    theirs = opendp_filter()
    for number in QUERIES:
        line = f"{number:>6,} queries: "
        ledger = Ledger(f"sqlite:///{folder}/queries-{number}.db")
        ledger.open("data", epsilon=6.0, delta=1e-5)
        began = time.process_time()
        for query in range(number):
            ledger.reserve("data", STEP, key=str(query))
        line += f"reserve {time.process_time() - began:.2f} s of the processor"
        ledger.close()
        if theirs is not None and number <= MOST_THEIRS:
            ask = theirs()
            began = time.process_time()
            for _ in range(number):
                ask()
            line += f"; OpenDP's filter {time.process_time() - began:.2f} s"
        print(line)
    if theirs is None:
        print("OpenDP is not installed: pip install opendp")


def opendp_filter() -> Callable[[], Callable[[], object]] | None:
    """What makes a filter of OpenDP and returns its next query; None where OpenDP is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    query = dp.m.make_gaussian(*space, scale=STEP.noise_multiplier)

    def made() -> Callable[[], object]:
        odometer = dp.c.make_fully_adaptive_composition(*space, dp.zero_concentrated_divergence())
        queryable = dp.c.make_privacy_filter(odometer, d_in=1.0, d_out=1.0)([0.0] * 4)
        return lambda: queryable(query)

    return made


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        reservations(Path(folder))
        small_queries(Path(folder))
        rate(f"sqlite:///{folder}/clients.db")
    for url in sys.argv[1:]:  # of an empty PostgreSQL database
        rate(url)


if __name__ == "__main__":
    main()
