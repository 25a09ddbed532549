"""The API keeps to its own description, whatever it is sent, and nothing it is sent breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, settings

from dprounds.web.app import create_app
from dprounds.web.guard import Guard
from tests.web.conftest import Served, start

schemathesis: Any = pytest.importorskip("schemathesis", reason="the test draws its requests with Schemathesis")


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that gives up soon, so that no example takes long; it must have no trouble to report in the end."""
    log: Path = tmp_path_factory.mktemp("impatient") / "log"
    server = start(log, "port=0, workers=2, seconds=0.7")
    yield server
    assert server.stop() == 0
    assert "Traceback" not in log.read_text()


guarded = create_app()
assert isinstance(guarded, Guard)
assert isinstance(guarded.app, FastAPI)
DESCRIPTION = guarded.app.openapi()
described = schemathesis.openapi.from_dict(DESCRIPTION)
# What is in range word by word may still be no question, so that a sentence with 422 is an answer to it.
NOT_PROMISED = schemathesis.checks.CHECKS.get_by_names(["positive_data_acceptance"])
# An address that is too long is refused as such, with 414, which Schemathesis does not count among refusals.
REFUSALS = schemathesis.checks.CHECKS.get_by_names(["negative_data_rejection"])


@described.parametrize()  # type: ignore[untyped-decorator]  # Schemathesis is optional, and so are its types
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_every_response_is_as_described_and_none_is_a_500(case: Any, impatient: Served) -> None:
    response = case.call(base_url=impatient.address, timeout=20)
    too_long = response.status_code == HTTPStatus.REQUEST_URI_TOO_LONG
    case.validate_response(response, excluded_checks=[*NOT_PROMISED, *(REFUSALS if too_long else [])])


def test_the_description_that_is_served_is_the_one_that_is_tested(impatient: Served) -> None:
    assert httpx.get(f"{impatient.address}openapi.json").json() == DESCRIPTION
