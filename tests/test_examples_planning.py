"""The page about plans says what was measured, with the plans of today."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dprounds import frontier

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_by_plan", ROOT / "examples/train_by_plan.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up their annotations
    spec.loader.exec_module(module)
    return module


def test_the_page_holds_the_table_and_the_setting_of_the_measurements(example: ModuleType) -> None:
    rows, facts = example.read_csv(ROOT / "docs/planning.csv", example.Measurement)
    text = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    assert sys.modules["measured"].between("plans", text)[1] == example.table(rows)
    assert sys.modules["measured"].between("setting of the plans", text)[1] == example.setting(facts)
    assert {len(group) for group in example.by_plan(rows).values()} == {20}


def test_the_file_of_measurements_is_written_as_it_is_read(example: ModuleType, tmp_path: Path) -> None:
    rows, facts = example.read_csv(ROOT / "docs/planning.csv", example.Measurement)
    example.write_csv(tmp_path / "again.csv", rows, facts, example.FORMATS)
    assert (tmp_path / "again.csv").read_bytes() == (ROOT / "docs/planning.csv").read_bytes()


def test_the_text_of_the_page_says_what_the_table_says(example: ModuleType) -> None:
    text = " ".join((ROOT / "docs/training.md").read_text(encoding="utf-8").split())
    rows, _ = example.read_csv(ROOT / "docs/planning.csv", example.Measurement)
    table = example.table(rows)
    for said in ("+0.55 ± 0.28", "+0.71 ± 0.33", "+0.09 ± 0.32", "+0.08 ± 0.32", "+0.72 ± 0.32", "+0.04 ± 0.25"):
        assert said in table
        assert text.count(said) > 1


@pytest.mark.parametrize(("task", "epsilon", "batch_size"), [("digits, ε = 3", 3.0, 64), ("digits, ε = 1", 1.0, 256)])
def test_the_measured_plans_are_those_of_today(example: ModuleType, task: str, epsilon: float, batch_size: int) -> None:
    rows, _ = example.read_csv(ROOT / "docs/planning.csv", example.Measurement)
    mine = next(row for row in rows if row.task == task and row.batch_size == batch_size and row.epochs == 10)
    (plan,) = frontier(4_000, epsilon=epsilon, delta=1e-5, epochs=10, batch_sizes=[batch_size])
    assert plan.rounds == mine.rounds
    assert plan.noise_multiplier == pytest.approx(mine.noise_multiplier, rel=1e-5)
