"""What goes wrong with a ledger's database has one clear error, and loses nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text

from dprounds import Gaussian
from dprounds.ledger import Ledger, LedgerError, database, entries, tables
from dprounds.ledger.entries import run_to_text
from tests.ledger.server import Server

STEP = Gaussian(20.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


@pytest.fixture
def filled(path: Path) -> Iterator[Ledger]:
    """A ledger with some jobs, on SQLite."""
    ledger = Ledger(f"sqlite:///{path}", timeout=5.0)
    ledger.open("patients", epsilon=6.0, delta=1e-5)
    for number in range(20):
        ledger.reserve("patients", STEP * 5, key=f"job {number}").commit()
    ledger.reserve("patients", STEP * 5, key="still reserved")
    ledger.reserve("patients", STEP * 5, key="voided")
    ledger.void("patients", "voided", reason="never started")
    yield ledger
    ledger.close()


def settled(path: Path, ledger: Ledger) -> None:
    """All of the ledger in one file."""
    ledger.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


CHANGES = {
    "a cost": 'UPDATE dprounds_entries SET cost = \'["1","0"]\' WHERE number = 4',
    "a time": "UPDATE dprounds_entries SET at = '2020' WHERE number = 4",
    "a reason": "UPDATE dprounds_entries SET detail = 'x' WHERE kind = 'void'",
    "a run": "UPDATE dprounds_entries SET run = replace(run, '20.0', '40.0') WHERE number = 4",
    "who": "UPDATE dprounds_entries SET \"by\" = 'nobody' WHERE number = 4",
    "a hash": "UPDATE dprounds_entries SET hash = previous WHERE number = 4",
    "what is no cost": "UPDATE dprounds_entries SET cost = 'x' WHERE number = 4",
    "an entry less": "DELETE FROM dprounds_entries WHERE number = 5",
    "the last entry": "DELETE FROM dprounds_entries WHERE kind = 'void'",
    "the first entry": "DELETE FROM dprounds_entries WHERE number = 1",
    "a total": "UPDATE dprounds_blocks SET first_sum = '0'",
    "another total": "UPDATE dprounds_blocks SET second_sum = '7'",
    "a block more": "INSERT INTO dprounds_blocks VALUES ('patients', 'x', '0', '0')",
    "a state": "UPDATE dprounds_grants SET state = 'voided' WHERE \"key\" = 'job 3'",
    "a job less": "DELETE FROM dprounds_grants WHERE \"key\" = 'job 3'",
    "a count": "UPDATE dprounds_budgets SET committed = committed + 1",
    "the head": "UPDATE dprounds_budgets SET head = 'x'",
    "the opening": "UPDATE dprounds_budgets SET opening = replace(opening, '6.0', '7.0')",
}


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_a_changed_row_is_found(url: str, change: str) -> None:
    ledger = Ledger(url)
    ledger.open("patients", epsilon=6.0, delta=1e-5)
    for number in range(4):
        ledger.reserve("patients", STEP * 5, key=f"job {number}").commit()
    ledger.reserve("patients", STEP * 5, key="voided")
    ledger.void("patients", "voided", reason="never started")
    ledger.verify()
    ledger.close()
    engine = create_engine(url)
    with engine.begin() as connection:
        assert connection.execute(text(CHANGES[change])).rowcount >= 1
    engine.dispose()
    ledger = Ledger(url)
    with pytest.raises(LedgerError, match="patients"):
        ledger.verify()
    ledger.close()


def resealed(connection: Connection, change: Callable[[entries.Entry], entries.Entry]) -> None:
    """Change entries, and give all of them hashes that fit: only what they say can then betray it."""
    rows = connection.execute(tables.entries.select().order_by(tables.entries.c.number)).mappings().all()
    head = entries.FIRST
    for row in rows:
        entry = change(entries.Entry.from_row({str(name): value for name, value in row.items()}))
        entry = entries.Entry(**{**vars(entry), "previous": head}).sealed()
        head = entry.hash
        connection.execute(tables.entries.update().where(tables.entries.c.number == entry.number).values(**entry.row))
    connection.execute(tables.budgets.update().values(head=head))


def test_a_cost_below_that_of_its_run_is_found_though_the_chain_fits(filled: Ledger, path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}")

    def cheaper(entry: entries.Entry) -> entries.Entry:
        return entries.Entry(**{**vars(entry), "cost": (1, 0)}) if entry.number == 4 else entry

    with engine.begin() as connection:
        resealed(connection, lambda entry: entry)
    filled.verify()
    with engine.begin() as connection:
        resealed(connection, cheaper)
    engine.dispose()
    with pytest.raises(LedgerError, match="Entry 4 of 'patients' is charged less than its run costs"):
        filled.verify()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"description": run_to_text(STEP * 3)}, "is charged less than its run costs"),
        ({"cost": (-(2**61), -(2**61))}, "has no cost of this budget's kind"),
        ({"cost": (1, 1)}, "gives back what this kind of budget does not"),
        ({"cost": (-1,)}, "gives back what this kind of budget does not"),
        ({"description": run_to_text(STEP * 99)}, "has rounds that were not reserved"),
        ({"description": ""}, "has a run that cannot be read"),
        ({"cost": (), "description": run_to_text(STEP * 2)}, "gives back what this kind of budget does not"),
    ],
)
def test_more_given_back_than_was_not_made_is_found_though_the_chain_fits(
    path: Path, changed: dict[str, object], said: str
) -> None:
    ledger = Ledger(f"sqlite:///{path}")
    ledger.open("patients", epsilon=6.0, delta=1e-5, filter="renyi")
    ledger.reserve("patients", STEP * 90, key="job").commit(made=STEP * 2)
    ledger.verify()
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        resealed(connection, lambda entry: replace(entry, **changed) if entry.number == 3 else entry)  # type: ignore[arg-type]  # fields by name
    engine.dispose()
    with pytest.raises(LedgerError, match=f"Entry 3 of 'patients' {said}"):
        ledger.verify()
    ledger.close()


def test_caps_that_were_raised_are_found_though_the_chain_fits(filled: Ledger, path: Path) -> None:
    cap = str(filled.budget("patients").filter.caps[0])
    engine = create_engine(f"sqlite:///{path}")

    def raised(entry: entries.Entry) -> entries.Entry:
        return entries.Entry(**{**vars(entry), "detail": entry.detail.replace(cap, "9" + cap)})

    with engine.begin() as connection:
        resealed(connection, raised)
        connection.execute(
            text("UPDATE dprounds_budgets SET opening = replace(opening, :old, :new)"), {"old": cap, "new": "9" + cap}
        )
    engine.dispose()
    with pytest.raises(LedgerError, match="Entry 1 of 'patients' has caps that do not keep the budget"):
        filled.verify()


def test_a_total_that_is_missing_is_not_taken_for_nothing(url: str) -> None:
    ledger = Ledger(url)
    ledger.open("patients", epsilon=6.0, delta=1e-5)
    ledger.reserve("patients", STEP * 600, key="a")
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(tables.blocks.delete())
    engine.dispose()
    with pytest.raises(LedgerError, match="The total of 'patients' is missing"):
        ledger.reserve("patients", STEP * 600, key="b")
    with pytest.raises(LedgerError, match="The total of 'patients' is not the sum of its entries"):
        ledger.verify()
    ledger.close()


def test_a_ledger_is_verified_while_others_write(url: str) -> None:
    ledger, other = Ledger(url), Ledger(url)
    ledger.open("patients", epsilon=6.0, delta=1e-5)
    end = threading.Event()

    def write() -> None:
        number = 0
        while not end.is_set():
            other.reserve("patients", Gaussian(2000.0), key=str(number)).commit()
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(8):
            ledger.verify()
    finally:
        end.set()
        writer.join()
    assert ledger.status("patients").committed > 0
    ledger.close()
    other.close()


def test_a_byte_that_was_changed_is_found_or_changes_nothing(filled: Ledger, path: Path, tmp_path: Path) -> None:
    """Every 97th byte of the file in turn: `verify` raises, or the ledger says what it said before."""
    expected = filled.status("patients"), filled.history("patients")
    settled(path, filled)
    whole, found = path.read_bytes(), 0
    assert len(whole) > 10_000
    copy = tmp_path / "copy.db"
    for place in range(11, len(whole), 97 * 12):
        for leftover in tmp_path.glob("copy.db*"):
            leftover.unlink()
        copy.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            ledger = Ledger(f"sqlite:///{copy}", timeout=1.0)
            try:
                ledger.verify()
                assert (ledger.status("patients"), ledger.history("patients")) == expected
            finally:
                ledger.close()
        except LedgerError:
            found += 1
    assert found > 10


def test_a_table_whose_name_is_damaged_is_refused(filled: Ledger, path: Path) -> None:
    """SQLite's own message holds the damaged name then, which is no UTF-8."""
    settled(path, filled)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"dprounds_settings", b"dpro\xf5nds_settings", 1))
    with pytest.raises(LedgerError, match="is damaged: restore it from a backup"):
        Ledger(f"sqlite:///{path}", timeout=1.0)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_file_cut_short_is_refused(filled: Ledger, path: Path, share: float) -> None:
    settled(path, filled)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(LedgerError, match="is damaged"):
        Ledger(f"sqlite:///{path}", timeout=1.0).verify()


def test_an_emptied_file_forgets_its_budgets_and_grants_nothing(filled: Ledger, path: Path) -> None:
    settled(path, filled)
    path.write_bytes(b"")
    ledger = Ledger(f"sqlite:///{path}")
    with pytest.raises(ValueError, match="there is none named 'patients'"):
        ledger.reserve("patients", STEP, key="a")
    ledger.close()


def test_what_is_no_database_is_refused(path: Path) -> None:
    path.write_text("not a database, " * 100)
    with pytest.raises(LedgerError, match="is no SQLite database, or it is damaged"):
        Ledger(f"sqlite:///{path}")
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger(f"sqlite:///{path.parent}/no/such/folder/budget.db")


def test_a_database_of_a_newer_version_is_left_alone(url: str) -> None:
    Ledger(url).close()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(tables.settings.update().values(value=str(len(tables.STEPS) + 1)))
    engine.dispose()
    with pytest.raises(LedgerError, match="made by a newer dprounds"):
        Ledger(url)


def test_a_version_that_is_no_number_is_refused(url: str) -> None:
    Ledger(url).close()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(tables.settings.update().values(value="x"))
    engine.dispose()
    with pytest.raises(LedgerError, match="which version it has"):
        Ledger(url)


def test_an_older_ledger_is_brought_to_the_present_version_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(url)
    ledger.open("patients", epsilon=6.0, delta=1e-5)
    ledger.close()
    made = []

    def step(connection: Connection) -> None:
        made.append(connection.execute(text("SELECT count(*) FROM dprounds_budgets")).scalar())
        connection.execute(text("CREATE TABLE dprounds_added (a INTEGER)"))

    monkeypatch.setattr(tables, "STEPS", steps := [*tables.STEPS, step])
    monkeypatch.setattr(database, "STEPS", steps)
    for _ in range(2):
        ledger = Ledger(url)
        assert ledger.names() == ["patients"]
        ledger.close()
    assert made == [1]


def test_a_step_that_fails_changes_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(url)
    ledger.open("patients", epsilon=6.0, delta=1e-5)
    ledger.close()

    def step(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE dprounds_added (a INTEGER)"))
        connection.execute(text("SELECT * FROM no_such_table"))

    with monkeypatch.context() as patched:
        patched.setattr(tables, "STEPS", steps := [*tables.STEPS, step])
        patched.setattr(database, "STEPS", steps)
        with pytest.raises(LedgerError, match="no_such_table"):
            Ledger(url)
    ledger = Ledger(url)
    ledger.verify()
    ledger.close()


def test_times_never_fall_though_the_clock_does(filled: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    last = filled.history("patients")[-1].at

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]  # a clock that was set back
            return datetime(2001, 1, 1, tzinfo=UTC) + timedelta(seconds=1)

    monkeypatch.setattr(entries, "datetime", Earlier)
    filled.reserve("patients", STEP, key="later")
    assert filled.history("patients")[-1].at == last
    filled.verify()


def test_a_writer_that_does_not_end_is_waited_for_and_named(filled: Ledger, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = Ledger(f"sqlite:///{path}", timeout=0.2)
    with pytest.raises(LedgerError, match=r"Waited 0.2 s for another writer to .*budget.db"):
        waiting.reserve("patients", STEP, key="a")
    assert waiting.status("patients").entries == 44  # readers do not wait
    other.execute("ROLLBACK")
    other.close()
    assert waiting.reserve("patients", STEP, key="a").state == "reserved"
    waiting.close()


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may write to any file")
def test_a_read_only_file_is_refused(filled: Ledger, path: Path) -> None:
    settled(path, filled)
    code = (
        "import sys\nfrom dprounds import Gaussian\nfrom dprounds.ledger import Ledger, LedgerError\n"
        "try:\n    Ledger(sys.argv[1]).reserve('patients', Gaussian(20.0), key='a')\n"
        "except LedgerError as error:\n    print(error)\n"
    )
    path.chmod(0o444)
    before = path.read_bytes()
    path.parent.chmod(0o555)
    command = [sys.executable, "-c", code, f"sqlite:///{path}"]
    if os.geteuid() == 0:  # without root's right to write anywhere
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    path.parent.chmod(0o755)
    path.chmod(0o644)
    assert "read-only" in done.stdout or "cannot be opened" in done.stdout, done.stdout + done.stderr
    assert path.read_bytes() == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("a small file system needs the right to mount one")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_refused_and_loses_nothing(small_disk: Path) -> None:
    ledger = Ledger(f"sqlite:///{small_disk}/budget.db", timeout=1.0)
    ledger.open("patients", epsilon=6.0, delta=1e-5)
    promised, said = 0, ""
    while not said and promised < 500:
        try:
            ledger.reserve("patients", STEP, key=str(promised))
        except LedgerError as error:
            said = str(error)
        else:
            promised += 1
    assert "is full" in said
    assert promised > 10
    assert ledger.status("patients").reserved == promised
    ledger.verify()
    ledger.close()


def test_a_server_that_dies_between_reserve_and_commit_keeps_the_job_charged(server: Server) -> None:
    url = server.new_database()
    ledger = Ledger(url, timeout=120.0)  # the recovery of a server takes as long as its disk does
    ledger.open("patients", epsilon=6.0, delta=1e-5)
    grant = ledger.reserve("patients", STEP * 100, key="train")
    server.kill()
    with pytest.raises(LedgerError, match="does not answer"):
        Ledger(url, timeout=0.2)
    restart = threading.Timer(1.0, server.start)
    restart.start()
    try:
        grant.commit()  # waits until the server is back
    finally:
        restart.join()
    assert ledger.status("patients").committed == 1
    assert ledger.remaining_rounds("patients", STEP) == 585
    ledger.verify()
    ledger.close()
