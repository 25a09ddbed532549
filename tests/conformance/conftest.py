"""``pytest tests/conformance --peers`` runs the contract over the other libraries too."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--peers", action="store_true", help="run the conformance suite over the peers that are installed")
