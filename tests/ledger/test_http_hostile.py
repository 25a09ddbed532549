"""Whatever is sent to the ledger's routes is answered as described or refused in a sentence, and SQL is never built."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dprounds

httpx: Any = pytest.importorskip("httpx", reason="the tests ask over HTTP with httpx")
fastapi: Any = pytest.importorskip("fastapi", reason="the HTTP side needs the extra web")
schemathesis: Any = pytest.importorskip("schemathesis", reason="the test draws its requests with Schemathesis")

from dprounds.web.budgets.description import SECURITY, operation, responses  # noqa: E402  (after the checks above)
from dprounds.web.budgets.routes import ROUTES  # noqa: E402  (as above)
from tests.ledger.test_http import SAID, WEB, Office, close, office  # noqa: E402  (as above)

SOURCE = Path(dprounds.__file__).parent


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A server for hostile requests, which in the end has no trouble to report, and a ledger that still fits."""
    folder = tmp_path_factory.mktemp("hostile")
    one = office(f"sqlite:///{folder}/budget.db", folder / "log", workers=2, seconds=2.0)
    yield one
    one.ledger.verify()
    close(one)


def described() -> dict[str, Any]:
    """The description of the ledger's routes alone."""
    app = fastapi.FastAPI()
    for route in ROUTES:
        about: dict[str, Any] = {"openapi_extra": operation(route), "responses": responses(route)}
        app.add_api_route(route.path, lambda: None, methods=[route.method], response_class=fastapi.Response, **about)
    found: dict[str, Any] = app.openapi()
    return found | {"components": {"securitySchemes": SECURITY}}


schema = schemathesis.openapi.from_dict(described())


@schema.parametrize()  # type: ignore[untyped-decorator]  # Schemathesis is optional, and so are its types
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_every_response_is_as_described_and_none_is_a_500(case: Any, hostile: Office) -> None:
    headers = {"authorization": f"Bearer {hostile.tokens['admin all']}"}
    response = case.call(base_url=hostile.served.address, headers=headers, timeout=60)
    # what is in range word by word may still be no job, and is then refused in a sentence
    not_promised = schemathesis.checks.CHECKS.get_by_names(["positive_data_acceptance"])
    case.validate_response(response, headers=headers, excluded_checks=not_promised)
    assert response.status_code < 500


def test_the_description_that_is_tested_is_the_one_that_is_served(hostile: Office) -> None:
    served = WEB.get(f"{hostile.served.address}openapi.json").json()
    assert {path: about for path, about in served["paths"].items() if "/ledger/" in path}.keys() == schema.raw_schema[
        "paths"
    ].keys()
    for path, methods in schema.raw_schema["paths"].items():
        for method, about in methods.items():
            mine = {name: value for name, value in about.items() if name != "summary"}
            assert {name: served["paths"][path][method][name] for name in mine} == json.loads(json.dumps(mine))
    assert served["components"]["securitySchemes"] == SECURITY


# Values that have broken parsers, and numbers at the ends of what a double holds.
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False),
    st.floats(0, 1),
    st.sampled_from([1e-308, 1e-200, 1e200, 1e308]),
    st.text(max_size=30),
    st.sampled_from(["patients", "'; DROP TABLE dprounds_entries; --", "{0}", "{x}", "%s", "\x00", "\ud800", "inf"]),
    st.lists(st.integers() | st.text(max_size=5), max_size=4),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
    st.just([[[[]]]]),
)
POSTED = [route for route in ROUTES if route.method == "POST"]


@given(data=st.data())
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_no_json_brings_a_route_down(hostile: Office, data: st.DataObject) -> None:
    route = data.draw(st.sampled_from(POSTED))
    said = {"name": "patients", **SAID.get(route.name, {})} if route.words else {}
    words = st.sampled_from(route.words) if route.words else st.text(max_size=5)
    said |= data.draw(st.dictionaries(words, VALUES, max_size=3))
    headers = {"authorization": f"Bearer {hostile.tokens['admin all']}", "content-type": "application/json"}
    body = json.dumps(said).encode()
    response = WEB.post(hostile.served.address + route.path[1:], content=body, headers=headers, timeout=60)
    assert response.status_code in (200, 404, 409, 422), (said, response.text)
    if response.status_code != 200:
        assert list(response.json()) == ["error"]
        assert "Traceback" not in response.text


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"name": NaN}', b'{"name": 1e999}', b"\xff", b"[" * 20_000, b'{"a":1,"a":2}']
)
def test_a_body_that_is_no_object_is_refused(hostile: Office, body: bytes) -> None:
    for route in POSTED:
        headers = {"authorization": f"Bearer {hostile.tokens['admin all']}", "content-type": "application/json"}
        response = WEB.post(hostile.served.address + route.path[1:], content=body, headers=headers)
        assert response.status_code == 422
        as_text = {**headers, "content-type": "text/plain"}
        response = WEB.post(hostile.served.address + route.path[1:], content=b"{}", headers=as_text)
        assert response.status_code == 415


# What takes SQL as text.
TAKES_SQL = (
    "text",
    "execute",
    "executemany",
    "executescript",
    "exec_driver_sql",
    "literal_column",
    "DDL",
    "TextClause",
)


def built_statements(source: str) -> list[int]:
    """The lines that hand a text to a database which is put together of parts, or that hide where it is."""
    found, tree = [], ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    # the ledger has a `text` of its own, which judges a word
    others = {alias.name for node in imports if node.module != "sqlalchemy" for alias in node.names}
    others |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name not in TAKES_SQL or (isinstance(node.func, ast.Name) and name in others):
            continue
        parts = list(ast.walk(node.args[0]))
        is_built = any(
            isinstance(part, ast.JoinedStr)
            or (isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add | ast.Mod) and has_text(part))
            or (isinstance(part, ast.Call) and getattr(part.func, "attr", "") in ("format", "format_map", "join"))
            for part in parts
        )
        is_hidden = name in ("text", "literal_column", "DDL", "exec_driver_sql") and not has_text(node.args[0])
        if is_built or is_hidden:
            found.append(node.lineno)
    return found


def has_text(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(node))


def test_sql_is_bound_and_never_built() -> None:
    files = [*(SOURCE / "ledger").rglob("*.py"), *(SOURCE / "web" / "budgets").rglob("*.py")]
    assert len(files) > 12
    assert {path.name: lines for path in files if (lines := built_statements(path.read_text()))} == {}


@pytest.mark.parametrize(
    "line",
    [
        'text(f"SELECT {x}")',
        'text("SELECT " + x)',
        'text("SELECT %s" % x)',
        'text("SELECT {}".format(x))',
        "text(x)",
        'connection.execute(text(f"SELECT {x}"))',
        'cursor.execute("SELECT " + x)',
        'connection.exec_driver_sql(" ".join(x))',
        "literal_column(x)",
    ],
)
def test_the_walk_sees_a_statement_that_is_built(line: str) -> None:
    assert built_statements(line) == [1] * len(built_statements(line)) != []
    assert built_statements('connection.execute(text("SELECT :x"), {"x": x}); connection.execute(wanted)') == []
