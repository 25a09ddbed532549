"""The comparison's page is what the generator makes of the committed data, and says what the data says."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import comparison, page
from benchmarks.client import Client
from benchmarks.peers import PEERS, Part
from benchmarks.runs import BAD_INPUTS, CASES, gaussian, sampled, shown
from dprounds import Gaussian

DOCS = Path(__file__).resolve().parent.parent / "docs"
TEXT = (DOCS / "comparison.md").read_text()


@pytest.fixture
def data() -> dict[str, Any]:
    return dict(json.loads((DOCS / "comparison.json").read_text()))


def test_the_page_is_made_from_the_data(data: dict[str, Any]) -> None:
    assert page.rendered(data) == TEXT


def test_the_data_answers_the_cases_of_today(data: dict[str, Any]) -> None:
    assert [(case["name"], case["delta"]) for case in data["cases"]] == [(case.name, case.delta) for case in CASES]
    assert data["bad_inputs"] == [shown(bad) for bad in BAD_INPUTS]
    assert list(data["peers"]) == list(PEERS)
    assert all(len(peer["answers"]) == len(CASES) for peer in data["peers"].values())


def test_every_table_is_rectangular() -> None:
    tables = re.findall(r"(?:^\|.*\|\n)+", TEXT + "\n", flags=re.MULTILINE)
    assert len(tables) >= 10
    for table in tables:
        widths = {line.count("|") for line in table.splitlines()}
        assert len(widths) == 1, table.splitlines()[0]


def test_headings_are_one_title_and_sections() -> None:
    assert re.findall(r"^# .*", TEXT, flags=re.MULTILINE) == ["# Comparison with the libraries people use"]
    assert {"## Where we lose", "## Below the truth", "## Bad input", "## Speed", "## Memory", "## Tightness"} <= set(
        TEXT.splitlines()
    )
    assert "```python" not in TEXT


def test_the_page_names_no_place() -> None:
    assert not re.search(r"(?<!`)/(?:home|work|tmp|usr|root)\b|site-packages", TEXT)


def test_ours_is_never_below_the_truth(data: dict[str, Any]) -> None:
    for k in range(len(CASES)):
        share = page.excess(data, "dprounds", k)
        assert share is not None
        assert share >= 0.0


def test_ours_refuses_every_bad_input_or_gives_the_limit(data: dict[str, Any]) -> None:
    assert {one["verdict"] for one in data["peers"]["dprounds"]["bad"]} <= {"refused", "right limit"}


def test_ours_does_with_bad_input_what_the_page_says(data: dict[str, Any]) -> None:
    """After a change on purpose, `python -m benchmarks.abilities` writes the page anew."""
    told = [one["verdict"] for one in data["peers"]["dprounds"]["bad"]]
    assert [one["verdict"] for one in comparison.our_bad_input()] == told


def test_a_loss_would_be_printed(data: dict[str, Any]) -> None:
    worse = copy.deepcopy(data)
    answer = worse["peers"]["dprounds"]["answers"][14]  # a Gaussian, where nobody is tighter
    answer["value"] *= 1.5
    answer["seconds"] *= 1e4
    losses = page.rendered(worse).split("## Where we lose")[1].split("\n## ")[0]
    assert page._full(worse, 14) in losses
    assert "| Gaussian | dp-accounting PLD | 1 |" in losses  # it is slower everywhere else
    answer["value"] *= 0.5
    below = page.rendered(worse).split("## Below the truth")[1].split("\n## ")[0]
    assert "| dprounds | bound | " + page._full(worse, 14) in below


def test_a_worker_answers_what_the_library_does() -> None:
    with Client("dprounds", 60.0) as client:
        found = client.ask([gaussian(2.0, 3)], 1e-5)
        assert found["value"] == (Gaussian(2.0) * 3).epsilon(delta=1e-5)
        assert found["peak_megabytes"] > 0
        refused = client.ask([gaussian(float("nan"), 3)], 1e-5)
        assert (refused["error"], refused["refused"]) == ("ParameterError", True)
        assert client.ask([Part("no such noise", {}, 1)], 1e-5) == {"not_covered": True}


def test_a_worker_that_is_too_slow_is_ended_and_started_again() -> None:
    with Client("dprounds", 60.0) as client:
        client.limit = 1e-3
        assert client.ask([sampled(0.01, 1.0, 100)], 1e-5) == {"over": 1e-3}
        client.limit = 60.0
        assert "value" in client.ask([gaussian(2.0, 3)], 1e-5)
