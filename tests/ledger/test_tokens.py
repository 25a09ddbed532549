"""Tokens say who may ask, and the ledger cannot betray them: it keeps hashes alone."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from dprounds import Gaussian, ParameterError
from dprounds.ledger import Ledger, LedgerError, database, entries, tables, tokens


@pytest.fixture
def opened(ledger: Ledger) -> Ledger:
    ledger.open("patients", epsilon=6.0, delta=1e-5)
    return ledger


def test_a_token_is_found_by_itself_alone(opened: Ledger) -> None:
    mine = opened.tokens.create("mine", budget="patients", scope="spend")
    other = opened.tokens.create("other", budget=None, scope="read")
    assert mine != other
    found = opened.tokens.find(mine)
    assert found is not None
    assert (found.name, found.budget, found.scope, found.trouble) == ("mine", "patients", "spend", "")
    swapped = f"{mine[:20]}_{other[21:]}"  # a selector with another token's secret
    for wrong in ("", "mine", mine[:-1], mine + "x", mine.upper(), f" {mine}", swapped, mine[:-1] + "é", other[:20]):
        assert opened.tokens.find(wrong) is None


def test_scopes_include_each_other_and_budgets_do_not(opened: Ledger) -> None:
    allowed = {}
    for scope in tokens.SCOPES:
        found = opened.tokens.find(opened.tokens.create(scope, budget="patients", scope=scope))
        assert found is not None
        allowed[scope] = [each for each in tokens.SCOPES if found.allows(each)]
        assert found.is_for("patients")
        assert not found.is_for("staff")
    assert allowed == {"read": ["read"], "spend": ["read", "spend"], "admin": ["read", "spend", "admin"]}
    every = opened.tokens.find(opened.tokens.create("every", budget=None, scope="read"))
    assert every is not None
    assert every.is_for("staff")


def test_only_the_hash_is_kept_and_it_is_compared_in_constant_time(
    opened: Ledger, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = opened.tokens.create("mine", budget=None, scope="admin")
    engine = create_engine(url)
    with engine.begin() as connection:
        row = connection.execute(tables.tokens.select()).mappings().one()
    engine.dispose()
    assert row["hash"] == hashlib.sha256(given.encode()).hexdigest()
    assert not any(given[21:] in str(value) for value in row.values())
    compared = []

    def compare(one: str, other: str) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("dprounds.ledger.tokens.hmac.compare_digest", compare)
    assert opened.tokens.find(given) is not None
    assert opened.tokens.find("dpr_" + "0" * 16 + given[20:]) is None  # an unknown selector takes as long
    assert [other for _, other in compared] == [row["hash"], tokens.NOBODY]


def test_a_revoked_token_and_an_expired_one_are_in_trouble(opened: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).astimezone().isoformat()  # in the zone of whoever asks
    brief = opened.tokens.create("brief", budget=None, scope="read", expires_at=soon)
    lasting = opened.tokens.create("lasting", budget=None, scope="read")
    opened.tokens.revoke("lasting")
    first = opened.tokens.all()[1].revoked_at
    opened.tokens.revoke("lasting")
    assert opened.tokens.all()[1].revoked_at == first

    def trouble(given: str) -> str:
        found = opened.tokens.find(given)
        assert found is not None
        return found.trouble

    assert (trouble(brief), trouble(lasting)) == ("", "revoked")

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]  # a clock that has gone on
            return datetime.now(tz) + timedelta(hours=1)

    monkeypatch.setattr(entries, "datetime", Later)
    assert trouble(brief) == "expired"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": ""}, "name must not be empty"),
        ({"name": "two\nlines"}, "name must be text on one line"),
        ({"name": "taken"}, "there is, or was, a token named 'taken'"),
        ({"budget": "nobody"}, "there is none named 'nobody'"),
        ({"scope": "root"}, "scope must be one of"),
        ({"expires_at": "soon"}, "expires_at must be a date or a time"),
        ({"expires_at": 3}, "expires_at must be a date or a time"),
        ({"expires_at": "0001-01-01T00:00+23:00"}, "expires_at must be a date or a time"),
        ({"expires_at": "2001-01-01"}, "expires_at must be in the future"),
    ],
)
def test_a_token_that_is_wrong_is_refused(opened: Ledger, given: dict[str, Any], said: str) -> None:
    opened.tokens.create("taken", budget=None, scope="read")
    opened.tokens.revoke("taken")
    with pytest.raises(ParameterError, match=said):
        opened.tokens.create(**{"name": "new", "budget": None, "scope": "read", **given})
    assert [token.name for token in opened.tokens.all()] == ["taken"]
    with pytest.raises(ParameterError, match="there is none named 'new'"):
        opened.tokens.revoke("new")


def test_an_admin_token_may_come_before_its_budget(opened: Ledger) -> None:
    opened.tokens.create("opener", budget="staff", scope="admin")
    with pytest.raises(ParameterError, match="only an admin token may be made before"):
        opened.tokens.create("reader", budget="staff", scope="read")


def test_a_ledger_of_version_1_gets_tokens_and_loses_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(tables, "STEPS", tables.STEPS[:1])
        before.setattr(database, "STEPS", tables.STEPS)
        ledger = Ledger(url)
        ledger.open("patients", epsilon=6.0, delta=1e-5)
        ledger.reserve("patients", Gaussian(20.0) * 3, key="job")
        history = ledger.history("patients")
        with pytest.raises(LedgerError):
            ledger.tokens.all()
        ledger.close()
    ledger = Ledger(url)
    assert ledger.history("patients") == history
    assert ledger.tokens.all() == []
    assert ledger.tokens.find(ledger.tokens.create("mine", budget="patients", scope="read")) is not None
    ledger.verify()
    ledger.close()
    engine = create_engine(url)
    with engine.connect() as connection:
        version = connection.execute(text("SELECT value FROM dprounds_settings")).scalar_one()
        assert (version, inspect(connection).has_table("dprounds_tokens")) == (str(len(tables.STEPS)), True)
    engine.dispose()
