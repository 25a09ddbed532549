"""The API answers as the library does, to the last digit, and refuses in its sentences."""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dprounds import Accountant, curves, questions
from dprounds.questions import Setting, run_from_toml
from dprounds.questions.vocabulary import QUESTIONS
from dprounds.web.app import LARGEST_BODY_BYTES, create_app
from dprounds.web.asked import answer
from dprounds.web.guard import HEADERS, Guard
from tests.web.conftest import Served, start

SGD: dict[str, Any] = {"noise_multiplier": 1.1, "batch_size": 256, "dataset_size": 60_000}
BUDGET: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5}

# What is asked, and what the library itself says to it.
ASKED: dict[str, tuple[str, dict[str, Any], Any]] = {
    "rounds": ("rounds", SGD | BUDGET, lambda: questions.rounds(Setting(**SGD), **BUDGET)),
    "rounds-by-one-method": (
        "rounds",
        {"noise_multiplier": 20, "method": "optimal"} | BUDGET,
        lambda: questions.rounds(Setting(noise_multiplier=20), method="optimal", **BUDGET),
    ),
    "rounds-of-zcdp": (
        "rounds",
        {"mechanism": "zcdp", "rho": 1e-3} | BUDGET,
        lambda: questions.rounds(Setting(mechanism="zcdp", rho=1e-3), **BUDGET),
    ),
    "rounds-of-a-table": (
        "rounds",
        {"mechanism": "rdp-curve", "orders": [2, 8.0, "inf"], "rdps": [0.01, 0.1, "inf"]} | BUDGET,
        lambda: questions.rounds(
            Setting(mechanism="rdp-curve", orders=(2, 8.0, math.inf), rdps=(0.01, 0.1, math.inf)), **BUDGET
        ),
    ),
    "epsilon": (
        "epsilon",
        SGD | {"epochs": 60, "delta": 1e-5},
        lambda: questions.epsilon(Setting(epochs=60, **SGD), delta=1e-5),
    ),
    "epsilon-that-is-infinite": (
        "epsilon",
        {"mechanism": "approximate-dp", "step_epsilon": 0.1, "step_delta": 0.1, "rounds": 9, "delta": 1e-5},
        lambda: questions.epsilon(
            Setting(mechanism="approximate-dp", step_epsilon=0.1, step_delta=0.1, rounds=9), delta=1e-5
        ),
    ),
    "delta": (
        "delta",
        SGD | {"rounds": 14_062, "epsilon": 3},
        lambda: questions.delta(Setting(rounds=14_062, **SGD), epsilon=3),
    ),
    "delta-at-infinity": (
        "delta",
        {"noise_multiplier": 3, "rounds": 2, "epsilon": "inf"},
        lambda: questions.delta(Setting(noise_multiplier=3, rounds=2), epsilon=math.inf),
    ),
    "noise": (
        "noise",
        {"sampling_rate": 0.01, "rounds": 1000} | BUDGET,
        lambda: questions.noise(Setting(sampling_rate=0.01, rounds=1000), **BUDGET),
    ),
    "rate": (
        "rate",
        {"noise_multiplier": 1.0, "rounds": 1000, "dataset_size": 60_000, "method": "balle"} | BUDGET,
        lambda: questions.rate(
            Setting(noise_multiplier=1.0, rounds=1000, dataset_size=60_000), method="balle", **BUDGET
        ),
    ),
    "plan": (
        "plan",
        {"dataset_size": 4000, "epsilon": 1.0, "delta": 1e-5, "epochs": 10, "habit": 64},
        lambda: questions.plan(dataset_size=4000, epsilon=1.0, delta=1e-5, epochs=10, habit=64),
    ),
    "convert": (
        "convert",
        {"order": 8, "rdp": 0.5, "delta": 1e-5},
        lambda: questions.convert(order=8, rdp=0.5, delta=1e-5),
    ),
    "convert-at-infinite-order": (
        "convert",
        {"order": "inf", "rdp": 0.5, "delta": 1e-5},
        lambda: questions.convert(order=math.inf, rdp=0.5, delta=1e-5),
    ),
}


@pytest.fixture(scope="session")
def client(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.address, timeout=60) as opened:
        yield opened


def in_query(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {name: ",".join(map(str, value)) if isinstance(value, list) else value for name, value in asked.items()}


@pytest.mark.parametrize("case", ASKED)
def test_answers_are_the_librarys_to_the_last_digit(client: httpx.Client, case: str) -> None:
    question, asked, answers = ASKED[case]
    expected = json.loads(answers().to_json())
    posted = client.post(f"/api/{question}", json=asked)
    assert posted.status_code == 200
    assert posted.json() == expected
    assert client.get(f"/api/{question}", params=in_query(asked)).json() == expected


def test_the_curve_is_that_of_the_library(client: httpx.Client) -> None:
    found = client.get("/api/curve", params=SGD | {"delta": 1e-5, "last": 1000, "points": 7}).json()
    expected = curves.epsilon_over_rounds(Setting(**SGD).step(), delta=1e-5, last=1000, points=7, own=6, shortest=20)
    assert found["answers"] == expected.to_rows()
    assert found["inputs"] == SGD | {"mechanism": "gaussian", "delta": 1e-5, "last": 1000}


def test_the_curve_reaches_as_far_as_the_run_if_nothing_else_is_said(client: httpx.Client) -> None:
    found = client.post("/api/curve", json={"noise_multiplier": 20, "rounds": 77, "delta": 1e-5, "method": "balle"})
    assert found.json()["answers"][-1]["rounds"] == 77
    assert {row["method"] for row in found.json()["answers"]} == {"balle"}


def test_the_profile_is_that_of_the_library(client: httpx.Client) -> None:
    found = client.get("/api/profile", params={"noise_multiplier": 20, "rounds": 685, "points": 9}).json()
    expected = curves.privacy_profile(Setting(noise_multiplier=20, rounds=685).run(), points=9)
    assert found["answers"] == expected.to_rows()


def test_the_trade_off_is_that_of_the_library_and_says_what_one_percent_finds(client: httpx.Client) -> None:
    found = client.get("/api/trade-off", params={"noise_multiplier": 20, "rounds": 685, "points": 9}).json()
    expected = curves.trade_off_curve(Setting(noise_multiplier=20, rounds=685).run(), points=9)
    assert found["answers"] == expected.to_rows()
    assert found["advantage"] == expected.advantage
    assert found["true_positive_rate_at_one_percent"] == expected.true_positive_rate_at_one_percent
    assert found["sentence"].startswith("An attacker with 1 % false alarms finds at most ")
    said = float(found["sentence"].split(" at most ")[1].split(" %")[0])
    assert 0 <= said - 100 * expected.true_positive_rate_at_one_percent < 0.1  # rounded up, or it would be untrue


def test_the_statement_is_that_of_the_library_in_every_form(client: httpx.Client) -> None:
    asked = {"noise_multiplier": 1.1, "batch_size": 256, "dataset_size": 60_000, "rounds": 14_100, "delta": 1e-5}
    found = client.get("/api/statement", params=asked).json()
    expected = (
        Setting(noise_multiplier=1.1, batch_size=256, dataset_size=60_000, rounds=14_100).run().statement(delta=1e-5)
    )
    forms = (str(expected), expected.markdown(), expected.latex(), expected.json())
    assert tuple(found[form] for form in ("text", "markdown", "latex", "json")) == forms
    assert found["sentence"] == expected.clauses["Guarantee"]
    refused = client.get("/api/statement", params={"noise_multiplier": 1.1, "rounds": 5, "delta": 0})
    assert (refused.status_code, list(refused.json())) == (422, ["error"])


def test_delta_zero_is_answered_and_every_answer_says_what_it_holds_for() -> None:
    pure: dict[str, Any] = {"mechanism": "laplace", "noise_multiplier": 2, "delta": 0}
    found = answer("epsilon", pure | {"rounds": 3})
    assert {row["epsilon"] for row in found["answers"]} == {1.5}
    assert (found["relation"], found["sampling"]) == (None, None)
    assert answer("curve", pure | {"last": 4, "points": 3, "method": "exact"})["answers"][-1]["epsilon"] == 2.0
    sampled = {"noise_multiplier": 1.1, "sampling_rate": 0.01, "rounds": 9}
    asked: list[tuple[str, dict[str, float]]] = [("profile", {}), ("trade-off", {}), ("curve", {"delta": 1e-5})]
    for question, words in asked:
        said = answer(question, sampled | {"points": 3} | words)
        assert (said["relation"], said["sampling"], said["remarks"]) == ("add-remove", "poisson", [])
        assert "Poisson sampling" in said["holds_for"]
    found = answer("curve", {"noise_multiplier": 1.1, "batch_size": 2, "dataset_size": 10, "last": 3, "delta": 0.1})
    assert "is not below 1/10" in found["remarks"][0]


# What is refused, and in which words.
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a rate that is a batch size": (
        "rounds",
        {"noise_multiplier": 1.1, "sampling_rate": 256} | BUDGET,
        "sampling_rate must be in [0, 1], got 256. It is a probability, not a batch size: "
        "pass batch_size / dataset_size.",
    ),
    "delta one": ("rounds", {"noise_multiplier": 1, "epsilon": 1, "delta": 1}, "delta must be in [0, 1), got 1."),
    "delta missing": (
        "rounds",
        {"noise_multiplier": 1, "epsilon": 1},
        "delta is missing: choose it below one over the number of records.",
    ),
    "delta of a curve missing": (
        "curve",
        {"noise_multiplier": 1, "last": 9},
        "delta is missing: choose it below one over the number of records.",
    ),
    "text": (
        "rounds",
        {"noise_multiplier": "much"} | BUDGET,
        "noise_multiplier must be a real number in (0, inf), got 'much'.",
    ),
    "infinite noise": (
        "rounds",
        {"noise_multiplier": "inf"} | BUDGET,
        "noise_multiplier must be a real number in (0, inf), got 'inf'.",
    ),
    "rounds where they are asked for": (
        "rounds",
        {"noise_multiplier": 1, "rounds": 3} | BUDGET,
        "rounds has no place here: ",
    ),
    "unknown mechanism": (
        "epsilon",
        {"mechanism": "magic", "rounds": 3, "delta": 1e-5},
        "mechanism must be one of 'gaussian', 'laplace', 'discrete-gaussian', 'discrete-laplace', "
        "'randomized-response', 'pure-dp', 'exponential', "
        "'approximate-dp', 'zcdp', 'rdp-curve', got 'magic'.",
    ),
    "unknown word": (
        "convert",
        {"alpha": 3},
        "'alpha' is not known here. The words are order, rdp, epsilon, delta, method.",
    ),
    "many points": (
        "profile",
        {"noise_multiplier": 1, "rounds": 3, "points": 401},
        "points must be an integer in [3, 400], got 401.",
    ),
    "half a round": (
        "epsilon",
        {"noise_multiplier": 1, "rounds": 0.5, "delta": 0.1},
        "rounds must be an integer in [0, inf), got 0.5.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_the_librarys_sentence(client: httpx.Client, case: str) -> None:
    question, asked, sentence = REFUSED[case]
    for response in (client.post(f"/api/{question}", json=asked), client.get(f"/api/{question}", params=asked)):
        assert response.status_code == 422
        assert list(response.json()) == ["error"]
        assert response.json()["error"].startswith(sentence)


DEEP = 10_000
BODIES = {
    "nothing": b"",
    "not JSON": b"{epsilon: 3}",
    "cut off": b'{"epsilon": 3',
    "not an object": b"[1, 2]",
    "a number": b"3",
    "null": b"null",
    "null inside": b'{"epsilon": null}',
    "nan": b'{"epsilon": NaN}',
    "infinity": b'{"epsilon": -Infinity}',
    "beyond doubles": b'{"noise_multiplier": 1, "epsilon": 1e400, "delta": 1e-5}',
    "below doubles": b'{"noise_multiplier": 1, "epsilon": 1, "delta": 1e-5, "sampling_rate": 1e-400}',
    "an integer beyond doubles": b'{"noise_multiplier": 1, "delta": 1e-5, "epsilon": 1' + b"0" * 399 + b"}",
    "too many digits": b'{"epsilon": ' + b"9" * 5000 + b"}",
    "deep lists": b'{"epsilon": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "ragged list": b'{"noise_multiplier": [1, [2]], "epsilon": 1, "delta": 1e-5}',
    "an object for a number": b'{"noise_multiplier": {}, "epsilon": 1, "delta": 1e-5}',
    "a list for a word": b'{"mechanism": ["gaussian"], "epsilon": 1, "delta": 1e-5}',
    "true": b'{"noise_multiplier": true, "epsilon": 1, "delta": 1e-5}',
    "half a surrogate": b'{"mechanism": "\\ud800", "epsilon": 1, "delta": 1e-5}',
    "half a surrogate as a name": b'{"\\udfff": 1}',
    "not UTF-8": b'{"mechanism": "\xff"}',
    "a name twice": b'{"epsilon": 1, "epsilon": 2}',
    "a zero byte": b'{"mechanism": "\\u0000", "epsilon": 1, "delta": 1e-5}',
    "text for a list": b'{"mechanism": "rdp-curve", "orders": "23", "rdps": 5, "epsilon": 1, "delta": 1e-5}',
    "an empty list": b'{"mechanism": "rdp-curve", "orders": [], "rdps": [], "epsilon": 1, "delta": 1e-5}',
    "a long list": b'{"mechanism": "rdp-curve", "orders": [' + b"2," * 300 + b'3], "rdps": [1]}',
}


def is_one_sentence(response: httpx.Response) -> bool:
    """Whether a refusal holds one line of text, and nothing of the program's inside."""
    content = response.json()
    text = content["error"]
    return (
        list(content) == ["error"]
        and text.endswith(".")
        and "\n" not in text
        and len(text) < 400
        and not any(word in text for word in ("Traceback", 'File "', ".py", "pydantic", "Error("))
    )


@pytest.mark.parametrize("case", BODIES)
def test_a_body_that_is_no_question_is_refused_in_a_sentence(client: httpx.Client, case: str) -> None:
    response = client.post("/api/rounds", content=BODIES[case], headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert is_one_sentence(response), response.text


@pytest.mark.parametrize(
    "query",
    [
        "epsilon=1&epsilon=2",
        "epsilon=nan&delta=1e-5&noise_multiplier=1",
        "epsilon=1e400&delta=1e-5&noise_multiplier=1",
        "epsilon=0x10&delta=1e-5&noise_multiplier=1",
        "epsilon=&delta=1e-5&noise_multiplier=1",
        "mechanism=%ff",
        "mechanism=%ed%a0%80",
        "&".join(f"a{i}=1" for i in range(100)),
        "epsilon=" + "9" * 5000,
        "orders=&rdps=,,&mechanism=rdp-curve&epsilon=1&delta=1e-5",
    ],
)
def test_an_address_that_is_no_question_is_refused_in_a_sentence(served: Served, query: str) -> None:
    response = httpx.get(f"{served.address}api/rounds?{query}")
    assert response.status_code == 422
    assert is_one_sentence(response), response.text


def test_a_number_in_the_address_may_be_written_as_json_writes_it(client: httpx.Client) -> None:
    found = client.get("/api/convert?order=8&rdp=5E-1&delta=1.0e-05&method=optimal").json()
    assert found["answers"] == questions.convert(order=8, rdp=0.5, delta=1e-5, method="optimal").to_dict()["answers"]


def test_a_large_body_is_refused_before_it_is_read(served: Served) -> None:
    place = urlsplit(served.address)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=20)
    connection.putrequest("POST", "/api/rounds")
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", "999999999999")
    connection.endheaders()
    response = connection.getresponse()  # though nothing of the body was sent
    assert response.status == 413
    assert "at most" in json.loads(response.read())["error"]
    connection.close()


def test_a_large_body_of_unknown_length_is_refused(client: httpx.Client) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(LARGEST_BODY_BYTES // 1000 + 2):
            yield b" " * 1000

    response = client.post("/api/rounds", content=pieces(), headers={"content-type": "application/json"})
    assert response.status_code == 413
    assert is_one_sentence(response)


def test_a_body_of_the_largest_size_is_read(client: httpx.Client) -> None:
    body = json.dumps({"order": 8, "rdp": 0.5, "delta": 1e-5}).encode().ljust(LARGEST_BODY_BYTES)
    response = client.post("/api/convert", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 200


def test_a_body_must_be_declared_as_json_so_that_other_sites_cannot_send_one(client: httpx.Client) -> None:
    response = client.post("/api/convert", content=b'{"order": 8}', headers={"content-type": "text/plain"})
    assert response.status_code == 415


def test_a_long_address_is_refused(client: httpx.Client) -> None:
    response = client.get("/api/rounds?mechanism=" + "a" * 9000)
    assert response.status_code == 414


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "localhost@evil", "[::1"]
)
def test_a_name_that_is_not_the_servers_is_refused(client: httpx.Client, host: str) -> None:
    response = client.get("/", headers={"host": host})
    assert response.status_code == 421
    assert "<html" not in response.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8765", "127.0.0.1", "[::1]:8765", "[::1]", "192.168.1.7:80"])
def test_the_servers_own_names_are_taken(client: httpx.Client, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


def test_pages_of_other_sites_may_not_ask_but_links_lead_here(client: httpx.Client) -> None:
    foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert client.get("/api/convert?order=8&rdp=1&delta=0.1", headers=foreign).status_code == 403
    assert client.get("/", headers=foreign | {"sec-fetch-mode": "navigate"}).status_code == 200


def test_every_response_carries_the_security_headers(client: httpx.Client) -> None:
    responses = [
        client.get("/"),
        client.get("/static/main.js"),
        client.get("/openapi.json"),
        client.get("/api/convert?order=8&rdp=1&delta=0.1"),
        client.get("/api/convert"),
        client.get("/nowhere"),
        client.get("/static/../../../../etc/passwd"),
        client.put("/api/rounds"),
        client.post("/api/rounds", content=b"{"),
        client.get("/", headers={"host": "evil.example"}),
        client.get("/api/rounds?" + "a" * 9000),
    ]
    assert {response.status_code for response in responses} == {200, 404, 405, 414, 415, 421, 422}
    for response in responses:
        for name, value in HEADERS.items():
            assert response.headers[name] == value
    for response in responses[3:]:
        assert response.headers["cache-control"] == "no-store"
        assert response.status_code == 200 or is_one_sentence(response)
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_what_is_no_http_is_refused_with_the_same_headers(served: Served) -> None:
    place = urlsplit(served.address)
    with socket.create_connection((str(place.hostname), place.port), timeout=20) as connection:
        connection.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    assert answer.startswith("HTTP/1.1 400 ")
    assert '{"error":"This is no HTTP request."}' in answer
    for name, value in HEADERS.items():
        assert f"{name}: {value}\r\n" in answer


def test_requests_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Guard(create_app(), hosts=())
    monkeypatch.setattr("dprounds.web.guard.MOST_REQUESTS_AT_ONCE", 0)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing of it is read")

    scope = {"type": "http", "headers": [(b"host", b"localhost")], "query_string": b"", "path": "/"}
    asyncio.run(guard(scope, receive, send))
    assert sent[0]["status"] == 503
    assert (b"x-frame-options", b"DENY") in sent[0]["headers"]


def test_the_page_names_no_other_host(client: httpx.Client) -> None:
    page = client.get("/").text
    for name in (
        "style.css",
        "main.js",
        "asking.js",
        "chart.js",
        "fields.js",
        "form.js",
        "words.js",
        "plan.js",
        "icon.svg",
    ):
        page += client.get(f"/static/{name}").raise_for_status().text
    assert page.replace("http://www.w3.org/", "").count("//www.") == 0
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page


def test_a_page_that_is_known_already_is_not_sent_again(client: httpx.Client) -> None:
    tag = client.get("/static/main.js").headers["etag"]
    again = client.get("/static/main.js", headers={"if-none-match": tag})
    assert again.status_code == 304
    assert again.content == b""


@pytest.mark.parametrize("question", QUESTIONS)
def test_other_methods_are_refused_and_the_right_ones_named(client: httpx.Client, question: str) -> None:
    response = client.delete(f"/api/{question}")
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, POST"


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A server that gives up soon, so that no example takes long; it must have no trouble to report in the end."""
    log = tmp_path_factory.mktemp("impatient") / "log"
    server = start(log, "port=0, workers=2, seconds=1.0")
    with httpx.Client(base_url=server.address, timeout=60) as opened:
        yield opened
    assert server.stop() == 0
    assert "Traceback" not in log.read_text()


# Whatever a double or an integer can hold, in a question that is complete.
POSITIVE = st.floats(0.0, exclude_min=True, allow_infinity=False) | st.floats(1e-3, 1e3)
WHOLE = st.integers(0, 10**30) | st.integers(0, 10**4)
MECHANISM = st.one_of(
    st.fixed_dictionaries(
        {
            "mechanism": st.sampled_from(["gaussian", "laplace", "discrete-gaussian", "discrete-laplace"]),
            "noise_multiplier": POSITIVE,
        }
    ),
    st.fixed_dictionaries({"mechanism": st.sampled_from(["randomized-response", "pure-dp"]), "step_epsilon": POSITIVE}),
    st.fixed_dictionaries(
        {"mechanism": st.just("approximate-dp"), "step_epsilon": POSITIVE, "step_delta": st.floats(0.0, 1.0)}
    ),
    st.fixed_dictionaries({"mechanism": st.just("zcdp"), "rho": POSITIVE}),
)
SAMPLING: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"sampling_rate": st.floats(0.0, 1.0)}),
    st.fixed_dictionaries({"batch_size": st.integers(1, 10**6), "dataset_size": st.integers(10**6, 10**30)}),
)
LENGTH = st.fixed_dictionaries({"rounds": WHOLE}) | st.fixed_dictionaries({"epochs": POSITIVE})
BUDGETS = st.fixed_dictionaries({"epsilon": st.floats(0.0, allow_infinity=False) | st.floats(0, 20), "delta": POSITIVE})


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_every_complete_question_is_answered_or_refused_in_a_sentence(
    impatient: httpx.Client, data: st.DataObject
) -> None:
    question = data.draw(st.sampled_from(list(QUESTIONS)))
    asked: dict[str, Any]
    if question == "convert":
        asked = data.draw(st.fixed_dictionaries({"order": POSITIVE, "rdp": POSITIVE, "delta": POSITIVE}))
    else:
        asked = data.draw(MECHANISM) | data.draw(SAMPLING) | data.draw(BUDGETS)
        if question != "rounds":
            asked |= data.draw(LENGTH)
        if question == "noise":
            asked.pop("noise_multiplier", None)
        asked = {name: value for name, value in asked.items() if name in QUESTIONS[question].words}
    response = impatient.get(f"/api/{question}?{urlencode(asked)}")
    assert response.status_code in (200, 422), (asked, response.text)
    content = response.json()
    assert is_one_sentence(response) if response.status_code == 422 else content["question"] == question


def served_with(documentation: Path, address: str) -> httpx.Response:
    """What a server with this documentation says at an address."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=create_app(documentation=documentation))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(address)

    return asyncio.run(ask())


def test_the_page_links_to_the_documentation_where_it_was_built(tmp_path: Path) -> None:
    assert "make docs" in served_with(tmp_path / "nothing", "/").text
    assert 'href="/docs/' not in served_with(tmp_path / "nothing", "/").text
    assert served_with(tmp_path / "nothing", "/docs/index.html").status_code == 404

    (tmp_path / "_static").mkdir()
    (tmp_path / "index.html").write_text("<p>documentation</p>")
    (tmp_path / "_static" / "theme.css").write_text("p{}")
    (tmp_path / ".buildinfo").write_text("secret")
    assert served_with(tmp_path, "/").text.count('href="/docs/index.html">Documentation</a>') == 2
    found = served_with(tmp_path, "/docs/index.html")
    assert found.text == "<p>documentation</p>"
    assert found.headers["content-type"].startswith("text/html")
    assert found.headers["x-frame-options"] == "DENY"
    # its own inline scripts and styles run; those of the page itself still may not, and nothing comes from elsewhere
    assert "script-src 'self' 'unsafe-inline'" in found.headers["content-security-policy"]
    assert "default-src 'none'" in found.headers["content-security-policy"]
    assert "unsafe" not in served_with(tmp_path, "/").headers["content-security-policy"]
    assert served_with(tmp_path, "/docs/_static/theme.css").headers["content-type"].startswith("text/css")
    for outside in ("/docs/.buildinfo", "/docs/../index.html", "/docs/%2e%2e/app.py"):
        assert served_with(tmp_path, outside).status_code == 404


@pytest.mark.parametrize(("text", "size"), [("1e400", "large"), ("-1e400", "large"), ("1e-400", "small")])
def test_a_number_that_no_double_holds_is_refused_by_its_name(client: httpx.Client, text: str, size: str) -> None:
    sentence = f"delta must be a number that a double holds, got '{text}': too {size}."
    asked = client.get("/api/rounds", params={"epsilon": 1, "noise_multiplier": 20, "delta": text})
    body = f'{{"epsilon": 1, "noise_multiplier": 20, "delta": {text}}}'
    posted = client.post("/api/rounds", content=body, headers={"content-type": "application/json"})
    for found in (asked, posted):
        assert (found.status_code, found.json()) == (422, {"error": sentence})


def test_a_curve_of_plans_has_points_for_the_batch_sizes_in_question(client: httpx.Client) -> None:
    asked = {
        "dataset_size": 4000,
        "epsilon": 1.0,
        "delta": 1e-5,
        "epochs": 10,
        "habit": 64,
        "batch_size": 256,
        "points": 3,
    }
    found = client.get("/api/plan-curve", params=asked).raise_for_status().json()["answers"]
    assert {64, 256} <= {row["batch_size"] for row in found}
    mine = [row["excess"] for row in found if row["batch_size"] == 64]
    assert len(mine) == 3
    assert mine == sorted(mine, reverse=True)


PARTS = """
[[part]]
noise_multiplier = 1.1
batch_size = 256
dataset_size = 60_000
epochs = 60

[[part]]
noise_multiplier = 20
rounds = 10
"""


def test_a_run_of_several_parts_is_asked_as_a_text(client: httpx.Client) -> None:
    run = run_from_toml(PARTS)
    for question, more in (
        ("epsilon", {"delta": 1e-5}),
        ("delta", {"epsilon": 3}),
        ("rounds", {"epsilon": 6, "delta": 1e-5}),
    ):
        found = getattr(questions, question)(questions.Setting(), run=run, **more).to_dict()
        by_address = client.get(f"/api/{question}", params={"run": PARTS, **more}).json()
        by_body = client.post(f"/api/{question}", json={"run": PARTS, **more}).json()
        assert by_address == by_body == found
    accountant = Accountant()
    accountant.record(run)
    asked = {"run": accountant.to_json(), "delta": 1e-5}
    assert client.post("/api/epsilon", json=asked).json()["inputs"]["run"] == repr(run)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"run": 7}, "run must be a text, as a file of a run holds it, got 7."),
        ({"run": "{"}, "The accountant's JSON cannot be read: it is not JSON, or it was cut short."),
        (
            {"run": "[[part]]\nnoise_multiplier = nan\nrounds = 1"},
            "part 1: noise_multiplier must be in (0, inf), got nan. "
            "It is the noise standard deviation divided by the sensitivity.",
        ),
        ({"run": PARTS, "noise_multiplier": 2}, "noise_multiplier has no place here: the run is given already."),
    ],
)
def test_a_run_that_is_none_is_refused_in_a_sentence(
    client: httpx.Client, asked: dict[str, Any], sentence: str
) -> None:
    response = client.post("/api/epsilon", json={"delta": 1e-5, **asked})
    assert (response.status_code, response.json()) == (422, {"error": sentence})


def test_only_questions_about_a_run_take_one(client: httpx.Client) -> None:
    response = client.get("/api/noise", params={"run": PARTS, "epsilon": 3, "delta": 1e-5})
    assert response.status_code == 422
    assert "'run' is not known here" in response.json()["error"]
