"""The database of a ledger: SQLite in one file, or PostgreSQL. Every transaction is durable once it has ended."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from dprounds.errors import LedgerError, ParameterError, UnsupportedError
from dprounds.ledger.tables import STEPS, migrate, version_of

__all__ = ["Database"]

Answer = TypeVar("Answer")

# PostgreSQL's codes for a transaction that another one made impossible, and that may be tried again.
SERIALIZATION_FAILURE, DEADLOCK, UNIQUE_VIOLATION = "40001", "40P01", "23505"
SHUTTING_DOWN, CRASHED, STARTING = "57P01", "57P02", "57P03"
LOCK_TIMEOUT, NO_STATE = "55P03", ""
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5  # seconds between two attempts
# Seconds that a server is given that has never answered: it may be starting, but as a rule its address is wrong.
FIRST_ANSWER = 1.5
# Any number that only this library uses: two processes that make the tables at once wait for each other.
TABLES_LOCK = 0x64_70_72_6F


class Database:
    """Transactions on one database; what goes wrong is a `LedgerError` in one sentence.

    Parameters
    ----------
    url
        ``sqlite:///budget.db``, or ``postgresql+psycopg://user@host/name``.
    timeout
        Seconds to wait for other writers.
    """

    def __init__(self, url: str, *, timeout: float) -> None:
        self.url, self.timeout = _checked_url(url), timeout
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = self._engine()
        self._process = os.getpid()
        self._has_answered = False
        try:
            if self.read(version_of) != len(STEPS):
                self.write(self._migrated)
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """The database as messages name it: without its password."""
        return str(self.url.database) if self.is_sqlite else self.url.render_as_string(hide_password=True)

    def read(self, ask: Callable[[Connection], Answer]) -> Answer:
        """What `ask` finds, in one transaction that sees one state of the database."""
        return self._attempted(ask, write=False)

    def write(self, change: Callable[[Connection], Answer]) -> Answer:
        """What `change` returns, in one transaction that is on disk when this returns, or had no effect at all.

        It may be tried again where another transaction, or a lost connection, made it impossible.
        """
        return self._attempted(change, write=True)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def is_whole(self) -> bool:
        """Whether the database itself finds nothing wrong with its file; PostgreSQL checks its pages as it reads."""
        if not self.is_sqlite:
            return True
        return self.read(lambda connection: connection.execute(text("PRAGMA integrity_check")).scalar()) == "ok"

    def _migrated(self, connection: Connection) -> None:
        if not self.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": TABLES_LOCK})
        migrate(connection)

    def _attempted(self, work: Callable[[Connection], Answer], *, write: bool) -> Answer:
        if os.getpid() != self._process:  # after a fork, the connections belong to the parent
            self.engine.dispose(close=False)
            self._process = os.getpid()
        began, pause = time.monotonic(), FIRST_PAUSE
        options: dict[str, Any] = {"is_write": write}
        if not (write or self.is_sqlite):
            options["isolation_level"] = "REPEATABLE READ"  # one state for all that is read
        while True:
            try:
                with self.engine.connect().execution_options(**options) as connection, connection.begin():
                    self._has_answered = True
                    return work(connection)
            except DBAPIError as error:
                # an error that has a code is an answer
                self._has_answered = self._has_answered or getattr(error.orig, "sqlstate", None) is not None
                end = began + (self.timeout if self._has_answered else min(self.timeout, FIRST_ANSWER))
                if not (_may_be_tried_again(error) and time.monotonic() + pause < end):
                    raise self._trouble(error) from error
            except PoolTimeoutError as error:
                raise LedgerError(
                    f"Waited {self.timeout:g} s for a connection to {self.name}: too many threads use this ledger."
                ) from error
            except UnicodeDecodeError as error:  # SQLite's own complaint names a table whose name is damaged
                raise LedgerError(self._damaged) from error
            except SQLAlchemyError as error:
                raise LedgerError(f"The ledger {self.name} does not work: {_first_line(error)}") from error
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2.0 * pause, LONGEST_PAUSE)

    @property
    def _damaged(self) -> str:
        return f"{self.name} is damaged: restore it from a backup, and run `verify`."

    def _trouble(self, error: DBAPIError) -> LedgerError:
        """One sentence that says what to do."""
        said = _first_line(error.orig)
        known = {
            "database is locked": f"Waited {self.timeout:g} s for another writer to {self.name}, which did not end.",
            "readonly database": f"{self.name} is read-only: make the file and its folder writable.",
            "disk is full": f"The disk of {self.name} is full: nothing was written.",
            "disk I/O error": f"The disk of {self.name} does not take what is written to it, or is full.",
            "unable to open database file": f"{self.name} cannot be opened: check the folder and its permissions.",
            "malformed": self._damaged,
            "Could not decode": self._damaged,
            "not a database": f"{self.name} is no SQLite database, or it is damaged: restore it from a backup.",
        }
        for words, sentence in known.items():
            if words in said:
                return LedgerError(sentence)
        if getattr(error.orig, "sqlstate", None) == LOCK_TIMEOUT:
            return LedgerError(f"Waited {self.timeout:g} s for another writer to {self.name}, which did not end.")
        if error.connection_invalidated or "connection" in said:
            advice = "Check that it runs, and that the address is right."
            return LedgerError(f"The database {self.name} does not answer: {said.rstrip('.')}. {advice}")
        return LedgerError(f"The ledger {self.name} does not work: {said}")

    def _engine(self) -> Engine:
        try:
            if self.is_sqlite:
                engine = create_engine(self.url, connect_args={"timeout": self.timeout})
                event.listen(engine, "connect", _durable_sqlite)
                event.listen(engine, "begin", _begin_sqlite)
                return engine
            # a host that drops what it is sent would otherwise be waited for a long time
            patience = {} if "connect_timeout" in self.url.query else {"connect_timeout": math.ceil(self.timeout)}
            engine = create_engine(self.url, pool_size=4, max_overflow=12, connect_args=patience)
        except ModuleNotFoundError as error:
            raise UnsupportedError(
                f"PostgreSQL needs {error.name}. In a checkout of dprounds: pip install '.[postgres]'"
            ) from None
        milliseconds = round(1000 * self.timeout)

        def durable(connection: Any, _: object) -> None:  # noqa: ANN401  (of whichever driver)
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, false)", (f"{milliseconds}ms",))
                cursor.execute("SET synchronous_commit = on")
            connection.commit()

        event.listen(engine, "connect", durable)
        return engine


def _durable_sqlite(connection: Any, _: object) -> None:  # noqa: ANN401  (SQLite's own connection)
    """Each transaction is on disk when it ends; readers do not stop a writer."""
    connection.isolation_level = None  # transactions begin when we say so
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    """A writer takes the lock at once: two that read before they write would otherwise end each other."""
    write = connection.get_execution_options().get("is_write", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _checked_url(url: str) -> URL:
    advice = "Use sqlite:///FILE, or postgresql+psycopg://USER@HOST/NAME."
    try:
        found = make_url(url)
        backend = found.get_backend_name()
    except (ArgumentError, NoSuchModuleError, AttributeError, TypeError):
        raise ParameterError("{argument} must name a database.", argument="url", advice=advice) from None
    if backend == "postgresql":
        return found.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise ParameterError(
            "{argument} must name an SQLite or PostgreSQL database, got one of {what}.",
            argument="url",
            what=backend,
            advice=advice,
        )
    if not found.database or found.database == ":memory:":
        raise ParameterError(
            "{argument} must name a file: a ledger in memory would forget.", argument="url", advice=advice
        )
    # a relative path means the same file after the program has gone to another folder
    return found.set(database=str(Path(found.database).absolute()))


def _may_be_tried_again(error: DBAPIError) -> bool:
    """Whether the same transaction may succeed soon; a server that does not answer may be about to start."""
    if error.connection_invalidated:
        return True
    state = getattr(error.orig, "sqlstate", NO_STATE)
    if state == NO_STATE:  # SQLite has waited already
        return False
    passing = (SERIALIZATION_FAILURE, DEADLOCK, UNIQUE_VIOLATION, SHUTTING_DOWN, CRASHED, STARTING)
    # an error without a code is one of the connection, if it is not one of our own making
    return state in passing or (state is None and isinstance(error, OperationalError))


def _first_line(error: object) -> str:
    return " ".join(str(error).split("\n", 1)[0].split()) or type(error).__name__
