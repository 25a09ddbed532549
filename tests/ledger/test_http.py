"""The ledger over HTTP: those who have a token get what it is for, and nobody else gets or changes anything."""

from __future__ import annotations

import csv
import io
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from dprounds import Accountant, Gaussian, Laplace
from dprounds.ledger import Ledger

httpx: Any = pytest.importorskip("httpx", reason="the tests ask over HTTP with httpx")
pytest.importorskip("fastapi", reason="the HTTP side needs the extra web")

from starlette.requests import Request  # noqa: E402  (after the check that it can be imported)

from dprounds.web.app import create_app  # noqa: E402  (after the check that it can be imported)
from dprounds.web.budgets import access  # noqa: E402  (as above)
from dprounds.web.budgets.access import Buckets  # noqa: E402  (as above)
from dprounds.web.budgets.routes import ROUTES, Route  # noqa: E402  (as above)
from tests.web.conftest import Served, start  # noqa: E402  (as above)

# A client of its own for each request would read all certificates of the machine for it; no host here has any.
WEB = httpx.Client(verify=False, limits=httpx.Limits(max_keepalive_connections=0))

NO_LIMITS = (
    "from dprounds.web.budgets import access\naccess.TOKEN_BURST = access.FAILED_BURST = access.RECORDED_BURST = 10**9"
)
JOB: dict[str, Any] = {"noise_multiplier": 20, "rounds": 10}
# What each route may be asked about a budget, such that it does something.
SAID: dict[str, dict[str, Any]] = {
    "export": {"format": "csv"},
    "cost": JOB,
    "remaining-rounds": {"noise_multiplier": 20},
    "open": {"epsilon": 1, "delta": 1e-6},
    "reserve": {"key": "new", **JOB},
    "begin": {"key": "reserved"},
    "commit": {"key": "reserved"},
    "void": {"key": "reserved", "reason": "never started"},
}
NAMED = [route for route in ROUTES if "name" in route.words]


@dataclass
class Office:
    """A server, its ledger as this process sees it, and tokens by name."""

    served: Served
    ledger: Ledger
    tokens: dict[str, str]

    def ask(self, token: str | None, route: Route | str, **said: Any) -> Any:
        """The response to a route; `token` is the name of one, and None asks without any."""
        found = route if isinstance(route, Route) else next(one for one in ROUTES if one.name == route)
        headers = {} if token is None else {"authorization": f"Bearer {self.tokens.get(token, token)}"}
        words: dict[str, Any] = {"params": said} if found.method == "GET" else {"json": said}
        return WEB.request(found.method, self.served.address + found.path[1:], headers=headers, timeout=60, **words)

    def state(self) -> str:
        """All that the ledger holds, but for its refusals."""
        found = [
            (name, asdict(self.ledger.status(name)), list(map(asdict, self.ledger.history(name))))
            for name in self.ledger.names()
        ]
        return repr((found, self.ledger.tokens.all()))


def office(url: str, log: Path, *, workers: int = 1, seconds: float = 10.0, before: str = NO_LIMITS) -> Office:
    """A server of a ledger with two budgets, and a token for each scope of one of them and of all."""
    ledger = Ledger(url)
    if not ledger.names():
        for name in ("patients", "secret staff"):
            ledger.open(name, epsilon=6.0, delta=1e-5, note=f"note of {name}")
            ledger.reserve(name, Gaussian(20.0) * 100, key="reserved", by=f"by {name}")
    tokens = {}
    for scope in ("read", "spend", "admin"):
        for budget in ("patients", None):
            name = f"{scope} {budget or 'all'} {secrets.token_hex(4)}"
            tokens[f"{scope} {budget or 'all'}"] = ledger.tokens.create(name, budget=budget, scope=scope)
    arguments = f"port=0, workers={workers}, seconds={seconds}, ledger={url!r}"
    return Office(start(log, arguments, before=before), ledger, tokens)


def close(one: Office) -> None:
    one.ledger.close()
    assert one.served.stop() == 0
    assert "Traceback" not in one.served.log.read_text()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """One server for the tests that change nothing that others need."""
    folder = tmp_path_factory.mktemp("office")
    one = office(f"sqlite:///{folder}/budget.db", folder / "log", workers=2)
    yield one
    close(one)


def is_one_sentence(response: Any) -> bool:
    """Whether a refusal is the JSON that other routes refuse with, and says nothing of the server's inside."""
    said = response.json()
    sentence = said["error"]
    return list(said) == ["error"] and sentence.endswith(".") and "\n" not in sentence and "/" not in sentence


def described(one: Office) -> list[tuple[str, str]]:
    """The methods and addresses of the ledger, as the description of the API has them."""
    paths = WEB.get(f"{one.served.address}openapi.json").json()["paths"]
    found = [(method, path) for path, methods in paths.items() for method in methods if "ledger" in path]
    assert sorted(found) == sorted((route.method.lower(), route.path) for route in ROUTES)
    return found


def test_no_request_without_a_valid_token_shows_or_changes_anything(shared: Office) -> None:
    revoked = shared.ledger.tokens.create(f"revoked {secrets.token_hex(4)}", budget=None, scope="admin")
    shared.ledger.tokens.revoke(shared.ledger.tokens.find(revoked).name)  # type: ignore[union-attr]  # it is there
    expired = shared.ledger.tokens.create(
        f"expired {secrets.token_hex(4)}", budget=None, scope="admin", expires_at="2999-01-01"
    )
    engine = create_engine(str(shared.ledger._database.url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE dprounds_tokens SET expires_at = '2001' WHERE expires_at IS NOT NULL"))
    engine.dispose()
    good = shared.tokens["admin all"]
    wrong: list[list[tuple[str, str]]] = [
        [],
        [("authorization", "")],
        [("authorization", "Bearer")],
        [("authorization", f"Basic {good}")],
        [("authorization", good)],
        [("authorization", f"Bearer {good[:-1]}")],
        [("authorization", f"Bearer {good}x")],
        [("authorization", f"Bearer {good} {good}")],
        [("authorization", f"Bearer dpr_{'0' * 16}_{'A' * 43}")],
        [("authorization", f"Bearer {revoked}")],
        [("authorization", f"Bearer {expired}")],
        [("authorization", f"Bearer {good}"), ("authorization", f"Bearer {good}")],
        [("cookie", f"token={good}")],
    ]
    before = shared.state()
    for method, path in described(shared):
        said = {"name": "patients", **SAID.get(path.rpartition("/")[2], {})}
        for headers in wrong:
            words: dict[str, Any] = {"params": said} if method == "get" else {"json": said}
            response = WEB.request(method, shared.served.address + path[1:], headers=headers, **words)
            assert response.status_code == 401, (method, path, headers)
            assert response.headers["www-authenticate"] == "Bearer"
            assert is_one_sentence(response)
            assert "patients" not in response.text
        in_address = f"{shared.served.address}{path[1:]}?token={good}&access_token={good}"
        assert WEB.request(method, in_address).status_code == 401
    assert shared.state() == before
    last = shared.ledger.refusals.last(20)
    assert {one.token.split()[0] for one in shared.ledger.refusals.last(500)} >= {"none", "revoked", "expired"}
    assert last[0].address == "127.0.0.1"
    assert good not in repr(last)


@pytest.mark.parametrize("route", NAMED, ids=lambda route: route.name)
def test_a_token_of_one_budget_cannot_tell_another_from_none(shared: Office, route: Route) -> None:
    before = shared.state()
    for scope in ("read", "spend", "admin"):
        said = SAID.get(route.name, {})
        hidden, missing = (
            shared.ask(f"{scope} patients", route, name=name, **said) for name in ("secret staff", "nothing at all")
        )
        if shared.ledger.tokens.find(shared.tokens[f"{scope} patients"]).allows(route.scope):  # type: ignore[union-attr]
            assert hidden.status_code == 404
        assert hidden.status_code == missing.status_code
        assert hidden.content == missing.content
        assert is_one_sentence(hidden)
        different = {"date"}
        assert {name: value for name, value in hidden.headers.items() if name not in different} == {
            name: value for name, value in missing.headers.items() if name not in different
        }
    assert shared.state() == before


def test_nothing_that_one_budgets_token_sees_names_another(shared: Office) -> None:
    for token in ("read patients", "admin patients"):
        for route in ROUTES:
            if route.name in ("open", "begin", "commit", "void", "reserve"):
                continue
            said = SAID.get(route.name, {}) | ({"name": "patients"} if "name" in route.needs else {})
            response = shared.ask(token, route, **said)
            assert "secret" not in response.text
            assert response.status_code == (403 if route.whole else 200), response.text
    assert [one["name"] for one in shared.ask("read patients", "status").json()["budgets"]] == ["patients"]
    assert len(shared.ask("read all", "status").json()["budgets"]) == 2


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_scope_that_is_too_small_is_refused(shared: Office, route: Route) -> None:
    before = shared.state()
    said = SAID.get(route.name, {}) | ({"name": "patients"} if "name" in route.words else {})
    for scope in ("read", "spend", "admin"):
        token = f"{scope} all"
        if shared.ledger.tokens.find(shared.tokens[token]).allows(route.scope):  # type: ignore[union-attr]
            continue
        response = shared.ask(token, route, **said)
        assert (response.status_code, response.json()) == (
            403,
            {"error": f"This needs a token with scope {route.scope}."},
        )
        assert shared.ledger.refusals.last(1)[0].reason == f"scope {route.scope} is needed"
    if route.whole:
        response = shared.ask("admin patients", route, **said)
        assert (response.status_code, response.json()) == (403, {"error": "This needs a token for all budgets."})
    assert shared.state() == before


def test_rounds_that_were_not_made_are_given_back_over_http(url: str, tmp_path: Path) -> None:
    one = office(url, tmp_path / "log")
    assert one.ask("admin all", "open", name="early", epsilon=6, delta=1e-5, filter="renyi").status_code == 200
    for key, rounds in (("whole", 100), ("half", 200)):
        assert one.ask("spend all", "reserve", name="early", key=key, noise_multiplier=20, rounds=rounds).is_success
    for bad in (-1, 201, 2**60, "ten", 1.5, None, [3], True):
        refused = one.ask("spend all", "commit", name="early", key="half", rounds_made=bad)
        assert (refused.status_code, list(refused.json())) == (422, ["error"])
    assert one.ask("spend all", "commit", name="early", key="half", rounds_made=50).json()["state"] == "committed"
    assert one.ask("spend all", "commit", name="early", key="whole").json()["state"] == "committed"
    assert one.ask("read all", "remaining-rounds", name="early", noise_multiplier=20).json()["rounds"] == 603 - 150
    # a gaussian budget charges a job whole, and of several kinds a number does not say which
    assert one.ask("admin all", "open", name="once", epsilon=6, delta=1e-5, filter="gaussian").is_success
    assert one.ask("spend all", "reserve", name="once", key="a", **JOB).is_success
    assert "charges a job whole" in one.ask("spend all", "commit", name="once", key="a", rounds_made=3).json()["error"]
    run = Accountant()
    run.record(Gaussian(20.0), rounds=3)
    run.record(Laplace(50.0))
    given = json.loads(run.to_json())
    assert one.ask("spend all", "reserve", name="early", key="two", run=given).is_success
    assert "several kinds" in one.ask("spend all", "commit", name="early", key="two", rounds_made=3).json()["error"]
    one.ledger.verify()
    close(one)


def test_a_job_goes_its_way_over_http(url: str, tmp_path: Path) -> None:
    one = office(url, tmp_path / "log")
    spend, ledger = "spend all", one.ledger
    assert one.ask("admin all", "open", name="a/b ü", epsilon=6, delta=1e-5, filter="gaussian").status_code == 200
    assert one.ask("admin all", "open", name="a/b ü", epsilon=7, delta=1e-5).status_code == 422
    price = one.ask("read all", "cost", name="a/b ü", **JOB).json()
    reserved = one.ask(spend, "reserve", name="a/b ü", key="train", **JOB)
    assert reserved.json() == {
        "name": "a/b ü",
        "key": "train",
        "state": "reserved",
        "share_left": ledger.status("a/b ü").share_left,
    }
    # the same key is charged once, and another job with it is refused
    assert one.ask(spend, "reserve", name="a/b ü", key="train", **JOB).json() == reserved.json()
    assert one.ask(spend, "reserve", name="a/b ü", key="train", noise_multiplier=20, rounds=11).status_code == 422
    entry = ledger.history("a/b ü")[1]
    assert [str(amount) for amount in entry.cost] == list(price["cost_units"].values())
    assert (entry.run, entry.by.split()[:2]) == (Gaussian(20.0) * 10, ["spend", "all"])
    assert price["fits"]
    assert one.ask("read all", "remaining-rounds", name="a/b ü", noise_multiplier=20).json()["rounds"] == 675

    # work begins once, and then it cannot be given back, nor be taken for new
    assert one.ask(spend, "begin", name="a/b ü", key="train").json()["state"] == "begun"
    for route, said in (("begin", {}), ("void", {"reason": "regret"}), ("reserve", JOB)):
        refused = one.ask(spend, route, name="a/b ü", key="train", **said)
        assert (refused.status_code, list(refused.json())) == (409, ["error"])
    assert one.ask(spend, "commit", name="a/b ü", key="train").json()["state"] == "committed"
    assert one.ask(spend, "commit", name="a/b ü", key="train").status_code == 200

    run = Accountant()
    run.record(Gaussian(20.0), rounds=3)
    run.record(Laplace(50.0))
    given = json.loads(run.to_json())
    assert one.ask(spend, "reserve", name="a/b ü", key="file", run=given).status_code == 200
    assert ledger.history("a/b ü")[-1].run == Gaussian(20.0) * 3 + Laplace(50.0)
    assert one.ask(spend, "void", name="a/b ü", key="file", reason="never started").json()["state"] == "voided"
    assert one.ask(spend, "reserve", name="a/b ü", key="file", run=given).status_code == 409

    over = one.ask(spend, "reserve", name="a/b ü", key="large", noise_multiplier=20, rounds=1000)
    assert over.status_code == 409
    assert over.json()["error"].endswith("675 of its 1,000 rounds would fit.")
    assert (
        one.ask("read all", "cost", name="a/b ü", noise_multiplier=20, rounds=1000)
        .json()["refusal"]
        .endswith("675 of its 1,000 rounds would fit.")
    )
    assert one.ask("admin all", "refusals").json()["refusals"][0]["reason"].startswith("over budget: The budget of")

    assert one.ask("read all", "status", name="a/b ü").json()["budgets"] == [asdict(ledger.status("a/b ü"))]
    rows = one.ask("read all", "history", name="a/b ü", after=1, limit=2).json()["entries"]
    assert [row["kind"] for row in rows] == ["reserve", "begin"]
    moments = one.ask("read all", "spending", name="a/b ü").json()["moments"]
    assert [moment["share"] for moment in moments] == [moment.share for moment in ledger.spending("a/b ü")]
    assert one.ask("admin all", "verify").json()["heads"]["a/b ü"] == ledger.status("a/b ü").head

    files = {kind: one.ask("read all", "export", name="a/b ü", format=kind) for kind in ("csv", "json", "parquet")}
    entries = files["json"].json()
    assert [row["number"] for row in entries] == list(range(1, 7))
    as_text = [{name: str(value) for name, value in row.items()} for row in entries]
    assert list(csv.DictReader(io.StringIO(files["csv"].text, newline=""))) == as_text
    assert files["csv"].headers["content-disposition"] == 'attachment; filename="history.csv"'
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs the extra parquet")
    assert parquet.read_table(io.BytesIO(files["parquet"].content)).to_pylist() == entries
    ledger.verify()

    # what a token is called is who asked; a budget that was changed by hand is found
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE dprounds_entries SET detail = 'x' WHERE kind = 'void'"))
    engine.dispose()
    found = one.ask("admin all", "verify")
    assert (found.status_code, "was changed" in found.json()["error"]) == (409, True)
    close(one)


def test_blocks_and_words_of_a_request_are_those_of_the_library(shared: Office) -> None:
    name = f"days {secrets.token_hex(4)}"
    assert shared.ask("admin all", "open", name=name, epsilon=3, delta=1e-6, blocks=True).status_code == 200
    days = [f"day {number}" for number in range(2000)]
    assert shared.ask("spend all", "reserve", name=name, key="a", blocks=days, **JOB).status_code == 200
    assert shared.ledger.status(name).blocks == 2000
    for day, rounds in (("day 7", 157), ("another", 167)):
        found = shared.ask("read all", "remaining-rounds", name=name, noise_multiplier=20, blocks=[day]).json()
        assert found["rounds"] == rounds
    one_day = shared.ask("read all", "status", name=name, block="another").json()["budgets"][0]
    assert one_day["share_left"] == 1.0
    assert shared.ask("spend all", "reserve", name=name, key="b", blocks=["day 9", "day 1"], **JOB).status_code == 200
    listed = shared.ask("read all", "blocks", name=name, limit=3).json()
    assert [one["block"] for one in listed["blocks"]] == ["day 1", "day 9", "day 0"]
    assert listed["blocks"][0]["share_left"] == shared.ledger.status(name).share_left < listed["share_left_of_others"]
    assert (listed["others"], listed["share_left_of_others"]) == (1997, listed["blocks"][2]["share_left"])
    assert len(shared.ask("read all", "blocks", name=name).json()["blocks"]) == 100
    none = {"name": "patients", "blocks": [], "others": 0, "share_left_of_others": 1.0}
    assert shared.ask("read all", "blocks", name="patients").json() == none
    price = shared.ask("read all", "cost", name=name, blocks=["day 7", "another"], **JOB).json()
    assert (price["fits"], price["new_blocks"]) == (True, 1)
    for route, said, sentence in (
        ("blocks", {"limit": 1001}, "limit must be an integer in [0, 1000], got 1001."),
        ("blocks", {"block": "day 7"}, "'block' is not known here. The words are name, limit."),
        ("cost", {"blocks": 3, **JOB}, "blocks must be a list of names, got 3."),
        ("cost", {"blocks": [3], **JOB}, "blocks must be text on one line, got 3."),
        ("cost", JOB, "blocks must list those that the job reads"),
        ("cost", {"blocks": ["a"], "reveal": 2, **JOB}, "reveal must be in [0, 1), got 2."),
        ("cost", {"blocks": ["a"], "run": []}, "run must be a JSON object"),
        ("cost", {"blocks": ["a"], "run": {"parts": []}}, "The accountant's JSON must hold"),
        ("cost", {"blocks": ["a"], "noise_multiplier": -1, "rounds": 3}, "noise_multiplier must be in"),
        ("cost", {"alpha": 3}, "'alpha' is not known here. The words are name, run, blocks, reveal"),
        ("remaining-rounds", {"noise_multiplier": 1, "rounds": 3}, "'rounds' is not known here."),
        ("history", {"limit": 1001}, "limit must be an integer in [0, 1000], got 1001."),
        ("history", {"after": "x"}, "after must be an integer in"),
        ("history", {"after": 10**30}, "after must be an integer in"),
        ("export", {}, "format must be given."),
        ("export", {"format": "xlsx"}, "format must be one of"),
    ):
        response = shared.ask("read all", route, name=name, **said)
        assert response.status_code == 422, response.text
        assert sentence in response.json()["error"]
    assert shared.ask("read all", "status", block="a").json() == {"error": "block needs name."}
    large = shared.ask("read all", "cost", name=name, blocks=["b" * 200] * 6000)
    assert (large.status_code, is_one_sentence(large)) == (413, True)


def test_failed_tokens_are_limited_by_address_and_good_ones_by_themselves(tmp_path: Path) -> None:
    few = "from dprounds.web.budgets import access\naccess.TOKEN_BURST, access.TOKEN_PER_SECOND = 12, 1e-6"
    one = office(f"sqlite:///{tmp_path}/budget.db", tmp_path / "log", before=few)
    assert one.ask("read all", "token").json()["scope"] == "read"
    for _ in range(access.FAILED_BURST):
        assert one.ask("nobody", "token").status_code == 401
    held_up = one.ask("nobody", "token")
    assert (held_up.status_code, is_one_sentence(held_up)) == (429, True)
    assert 1 <= int(held_up.headers["retry-after"]) <= 6
    assert one.ask("spend all", "token").status_code == 429  # never seen before, so it is not looked up
    for _ in range(11):
        assert one.ask("read all", "token").status_code == 200  # which was good before
    assert one.ask("read all", "token").json()["error"].startswith("Too many requests with this token.")
    # those that were held up without a look are not written down
    assert [found.reason for found in one.ledger.refusals.last()] == ["too many requests", *["unknown token"] * 10]
    close(one)


def test_a_bucket_is_full_at_first_and_fills_with_time() -> None:
    clock = [0.0]
    buckets = Buckets(2, 0.5, lambda: clock[0])
    assert [buckets.take("a") for _ in range(3)] == [True, True, False]
    assert (buckets.wait("a"), buckets.wait("b")) == (2.0, 0.0)
    clock[0] = 1.0
    assert not buckets.take("a")
    assert buckets.wait("a") == 1.0
    clock[0] = 1000.0
    assert [buckets.take("a") for _ in range(3)] == [True, True, False]
    for number in range(access.MOST_REMEMBERED + 5):
        buckets.take(str(number))
    assert len(buckets._levels) == access.MOST_REMEMBERED


def test_threads_share_a_bucket() -> None:
    """A clock that lets other threads run: what one of them takes meanwhile is taken."""

    def clock() -> float:
        time.sleep(0)
        return 0.0

    buckets, taken = Buckets(50, 1.0, clock), list[bool]()

    def take() -> None:
        taken.extend(buckets.take("a") for _ in range(50))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken.count(True) == 50


def test_many_refusals_are_counted_and_not_all_written_down(shared: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "RECORDED_BURST", 2)
    door = access.Access(shared.ledger)
    clock = [0.0]
    door._recorded.clock = lambda: clock[0]
    request = Request({"type": "http", "method": "GET", "path": "/x", "headers": [], "query_string": b""})
    refused = access.RefusedError(401, "No.", reason="no token")
    for _ in range(5):
        door.record(request, None, refused)
    clock[0] = 10.0
    door.record(request, None, refused)
    assert [one.reason for one in shared.ledger.refusals.last(3)] == [
        "no token (3 others before it were not written down)",
        "no token",
        "no token",
    ]


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:2", "2001:db8::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("testclient", "testclient"),
    ],
)
def test_an_address_is_counted_with_its_household(host: str, counted: str) -> None:
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": (host, 1)}
    assert access.address_of(Request(scope)) == counted


def test_a_database_that_waits_holds_up_nobody_else(shared: Office) -> None:
    """A writer waits for a lock that this test holds; whatever needs no lock is answered meanwhile."""
    lock = sqlite3.connect(str(shared.ledger._database.url.database), isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    answers: list[Any] = []
    key = f"waits {secrets.token_hex(4)}"
    writer = threading.Thread(
        target=lambda: answers.append(shared.ask("spend all", "reserve", name="patients", key=key, **JOB))
    )
    writer.start()
    try:
        assert WEB.get(f"{shared.served.address}api/convert?order=8&rdp=1&delta=0.1").status_code == 200
        assert shared.ask("read all", "status", name="patients").status_code == 200
        assert WEB.get(shared.served.address).status_code == 200
        assert answers == []
    finally:
        lock.execute("ROLLBACK")
        lock.close()
        writer.join()
    assert answers[0].status_code == 200


def test_a_damaged_database_is_refused_without_a_word_about_the_server(tmp_path: Path) -> None:
    one = office(f"sqlite:///{tmp_path}/budget.db", tmp_path / "log")
    engine = create_engine(f"sqlite:///{tmp_path}/budget.db")
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE dprounds_blocks"))
    engine.dispose()
    response = one.ask("spend all", "reserve", name="patients", key="new", **JOB)
    assert (response.status_code, is_one_sentence(response)) == (503, True)
    assert "no such table" in one.served.log.read_text()
    close(one)


def test_without_a_ledger_there_are_no_such_routes() -> None:
    app: Any = create_app()
    assert not [path for path in app.app.openapi()["paths"] if "ledger" in path]
    paths = {getattr(route, "path", "") for route in app.app.routes}
    assert "/static/main.js" in paths
    assert not [path for path in paths if "budgets" in path]


def test_a_server_killed_between_reserve_and_commit_has_charged_the_job(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/budget.db"
    one = office(url, tmp_path / "log")
    before = one.ledger.status("patients").share_left
    assert one.ask("spend patients", "reserve", name="patients", key="train", **JOB).status_code == 200
    one.served.process.kill()
    one.served.process.wait()
    assert one.ledger.status("patients").share_left < before
    again = Office(start(tmp_path / "log2", f"port=0, workers=1, ledger={url!r}"), one.ledger, one.tokens)
    # a retry of the same request finds the same grant, and charges nothing
    charged = one.ledger.status("patients").share_left
    assert again.ask("spend patients", "reserve", name="patients", key="train", **JOB).status_code == 200
    assert again.ask("spend patients", "commit", name="patients", key="train").status_code == 200
    status = one.ledger.status("patients")
    assert (status.committed, status.share_left) == (1, charged)
    one.ledger.verify()
    assert one.served.process.stdout is not None
    one.served.process.stdout.close()
    close(again)
