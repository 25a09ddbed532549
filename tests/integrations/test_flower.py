"""The strategy on the page about federated training: with Flower where it is installed, else with stand-ins.

Flower needs another Typer than we do, so that it is in no environment of ours; the stand-ins have what the page uses.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dprounds import Accountant, Gaussian, PoissonSampled, max_rounds

PAGE = Path(__file__).parents[2] / "docs/howto/federated.md"
SETTING: dict[str, Any] = {"noise": 2.0, "rate": 0.2, "clip": 0.5, "public_clients": 50, "epsilon": 3.0, "delta": 1e-4}
LAST = max_rounds(PoissonSampled(Gaussian(2.0), 0.2), epsilon=3.0, delta=1e-4)
NODES = range(1, 51)
pytestmark = pytest.mark.filterwarnings("ignore")  # what Flower deprecates is not ours to fix


class Arrays(dict[str, Any]):
    def to_numpy_ndarrays(self) -> list[Any]:
        return list(self.values())


class FedAvg:
    def __init__(self, *, fraction_evaluate: float) -> None:
        assert fraction_evaluate == 0.0


def stand_ins() -> dict[str, ModuleType]:
    app, strategy = ModuleType("flwr.app"), ModuleType("flwr.serverapp.strategy")
    parts: dict[str, Any] = {
        "Array": np.asarray,
        "ArrayRecord": Arrays,
        "Message": SimpleNamespace,
        "ConfigRecord": dict,
        "MessageType": SimpleNamespace(TRAIN="train"),
        "RecordDict": dict,
    }
    vars(app).update(parts)
    vars(strategy)["FedAvg"] = FedAvg
    return {"flwr": ModuleType("flwr"), "flwr.app": app, "flwr.serverapp": ModuleType("s"), strategy.__name__: strategy}


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if importlib.util.find_spec("flwr") is None:
        for name, module in stand_ins().items():
            monkeypatch.setitem(sys.modules, name, module)
    else:
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1  # as in a run of Flower
    (block,) = re.findall(r"^```\{code-block\} python\n(.*?)^```$", PAGE.read_text(), flags=re.S | re.M)
    found: dict[str, Any] = {}
    exec(f"from flwr.app import ConfigRecord\n{block}", found)
    return found


class Quiet:
    """A generator of noise that adds none, and draws every client."""

    def random(self) -> float:
        return 0.0

    def normal(self, *, scale: float, size: tuple[int, ...]) -> Any:
        self.scale = scale
        return np.zeros(size)


GRID = SimpleNamespace(get_node_ids=lambda: NODES)


def reply(page: dict[str, Any], new: list[Any]) -> Any:
    arrays = page["ArrayRecord"]({f"part {i}": page["Array"](each) for i, each in enumerate(new)})
    return SimpleNamespace(has_error=lambda: False, content={"arrays": arrays})


def start(page: dict[str, Any]) -> Any:
    parts = {"part 0": page["Array"](np.zeros(2, dtype=np.float32)), "part 1": page["Array"](np.zeros((2, 2)))}
    return page["ArrayRecord"](parts)


def test_the_strategy_makes_the_rounds_that_the_budget_allows_and_none_after(
    page: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "spent.json"
    strategy, arrays, asked = page["PrivateClients"](path, **SETTING), start(page), []
    for number in range(LAST + 3):
        if number == 20:  # another process goes on, with the same file
            strategy.rounds.close()
            strategy = page["PrivateClients"](path, **SETTING)
        messages = list(strategy.configure_train(number + 1, arrays, page["ConfigRecord"](), GRID))
        asked.append(len(messages))
        held = Accountant.from_json(path.read_text())
        assert held.run.rounds >= min(number + 1, LAST)
        following, metrics = strategy.aggregate_train(number + 1, [])
        assert metrics is None
        assert (following is None) == (number >= LAST)
        arrays = following or arrays
    assert asked[LAST:] == [0, 0, 0]
    assert 6 < sum(asked) / LAST < 14  # a fifth of fifty clients
    assert Accountant.from_json(path.read_text()).epsilon(delta=1e-4) <= 3.0
    assert [each.dtype for each in arrays.to_numpy_ndarrays()] == [np.float32, np.float64]


def test_one_client_moves_the_model_by_one_clipping_norm_over_a_public_number(
    page: dict[str, Any], tmp_path: Path
) -> None:
    strategy, arrays = page["PrivateClients"](tmp_path / "spent.json", **SETTING), start(page)
    strategy.random = Quiet()
    assert len(list(strategy.configure_train(1, arrays, page["ConfigRecord"](), GRID))) == len(NODES)
    small = [np.array([0.1, 0.0]), np.zeros((2, 2))]
    large = [np.array([300.0, 0.0]), np.full((2, 2), 200.0)]
    lost = [np.array([np.nan, 0.0]), np.zeros((2, 2))]
    failed = SimpleNamespace(has_error=lambda: True)
    moved, _ = strategy.aggregate_train(1, [reply(page, small), reply(page, large), reply(page, lost), failed])
    one, two = moved.to_numpy_ndarrays()
    assert strategy.random.scale == 2.0 * 0.5
    # 0.2 * 50 = 10 clients are expected; the large update is 500 long, and shortened to a half
    assert one == pytest.approx([(0.1 + 0.3) / 10, 0.0], abs=1e-7)
    assert two == pytest.approx(np.full((2, 2), 0.2 / 10), abs=1e-12)
