"""Every way to account satisfies the contract; the peers are held to it on request (``--peers``)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import ClassVar

import pytest

from benchmarks.client import Client
from benchmarks.peers import PEERS, Accounting, History, NotCovered
from tests.conformance.accountants import Api, InsideDpAccounting, InsideOpacus, Recorded, RecordedOneByOne, Resumed
from tests.conformance.contract import CLAUSES, Contract

OURS: list[type[Accounting]] = [Api, Recorded, RecordedOneByOne, Resumed, InsideOpacus, InsideDpAccounting]
OPTIONAL = {InsideOpacus: "opacus", InsideDpAccounting: "dp_accounting"}

# The error in epsilon that the peers work to: a grid of losses, a list of orders, `eps_error` over an epsilon near one.
PEERS_PRECISION = 0.03
PEER_SECONDS = 10.0
PEER_NAMES = [name for name in PEERS if not name.startswith("dprounds") and not name.endswith("-fine")]

each_clause = pytest.mark.parametrize("clause", CLAUSES)


@pytest.fixture(scope="module", params=OURS, ids=lambda kind: kind.title)
def ours(request: pytest.FixtureRequest) -> Accounting:
    kind: type[Accounting] = request.param
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyTorch deprecates is not ours to mend
        if kind in OPTIONAL:
            pytest.importorskip(OPTIONAL[kind], reason="the library to integrate with is not installed")
        return kind()


@each_clause
def test_ours_satisfies(ours: Accounting, clause: str) -> None:
    CLAUSES[clause](Contract(ours, precision=1e-12))


class Remote:
    """A peer in a process of its own, asked with a time limit."""

    library: ClassVar[str] = ""
    title: ClassVar[str]
    claim: ClassVar[str] = "bound"

    def __init__(self, client: Client) -> None:
        self._client = client
        self.title = client.name  # type: ignore[misc]  # each remote has its own
        self.errors: tuple[type[BaseException], ...] = ()

    def epsilon(self, history: History, delta: float) -> float:
        return self._ask("epsilon", history, delta)

    def delta(self, history: History, epsilon: float) -> float:
        return self._ask("delta", history, epsilon)

    def _ask(self, ask: str, history: History, value: float) -> float:
        found = self._client.ask(history, value, ask=ask)
        if found.get("not_covered"):
            raise NotCovered(ask)
        if "error" in found:
            raise ValueError(f"{self.title}: {found['error']}: {found['message']}")
        if "value" not in found:
            raise TimeoutError(f"{self.title}: no answer in {PEER_SECONDS:g} s, or the process ended")
        return float(found["value"])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every peer and clause, on request; without it one skip stands for all."""
    if "peer" not in metafunc.fixturenames:
        return
    asked = metafunc.config.getoption("--peers", default=False)
    skip = pytest.mark.skip(reason="on request: pytest tests/conformance --peers")
    peers = PEER_NAMES if asked else [pytest.param("", marks=skip)]
    metafunc.parametrize("peer", peers, indirect=True, scope="module")  # one process for all clauses
    metafunc.parametrize("clause", CLAUSES if asked else [""])


@pytest.fixture(scope="module")
def peer(request: pytest.FixtureRequest) -> Iterator[Remote]:
    try:
        client = Client(request.param, PEER_SECONDS)
    except ImportError:
        pytest.skip(f"{request.param} is not installed")
    with client:
        yield Remote(client)


def test_a_peer_satisfies(peer: Remote, clause: str) -> None:
    CLAUSES[clause](Contract(peer, precision=PEERS_PRECISION))
