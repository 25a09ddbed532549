"""Each test of a ledger runs on SQLite and, where it is installed, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dprounds.ledger import Ledger
from tests.ledger.server import Server, missing


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    why = missing()
    if why is not None:
        pytest.skip(why)
    found = Server()
    yield found
    found.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/budget.db"
    found: Server = request.getfixturevalue("server")
    return found.new_database()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    found = Ledger(url)
    yield found
    found.close()
