"""The federated example: one client moves the sum by one clipping norm, and a kill loses no round of the account."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dprounds import Accountant

FILE = Path(__file__).resolve().parent.parent / "examples/federated.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = spec_from_file_location("federated", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_client_moves_the_mean_by_at_most_a_clipping_norm_over_a_public_number(example: ModuleType) -> None:
    world = np.random.default_rng(0)
    others = [world.normal(size=3) * size for size in (0.01, 0.1, 100.0)]
    for one in (np.array([3e5, 0.0, 0.0]), np.full(3, np.nan), np.array([np.inf, 0.0, 1.0]), np.zeros(3)):
        # the same noise with and without the client
        means = [
            example.noisy_mean(updates, (3,), 1.0, np.random.default_rng(7)) for updates in (others, [*others, one])
        ]
        moved = float(np.linalg.norm(means[1] - means[0]))
        assert moved <= example.CLIP_NORM / (example.RATE * example.PUBLIC_CLIENTS) * (1 + 1e-12)
        assert (moved > 0) == bool(np.isfinite(one).all() and one.any())


def test_the_noise_has_the_deviation_that_is_accounted(example: ModuleType) -> None:
    drawn = example.noisy_mean([], (100_000,), 1.5, np.random.default_rng(7))
    wanted = 1.5 * example.CLIP_NORM / (example.RATE * example.PUBLIC_CLIENTS)
    assert float(drawn.std()) == pytest.approx(wanted, rel=0.02)


def test_training_goes_on_after_a_kill_and_ends_with_the_budget(example: ModuleType, tmp_path: Path) -> None:
    command = [sys.executable, str(FILE), "--folder", str(tmp_path)]

    def spent() -> Accountant:
        return Accountant.from_json((tmp_path / "spent.json").read_text())

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if line == "round 25\n":
                running.kill()
                break
    assert running.returncode == -signal.SIGKILL
    held = spent().run.rounds
    assert held >= 25
    assert held % 10 == 0  # reserved by ten, and none of them is forgotten
    kept = np.load(tmp_path / "model.npy")
    assert np.linalg.norm(kept) > 0.3
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rounds = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("round ")]
    assert rounds == list(range(held + 1, example.ROUNDS + 1))
    assert spent().run.rounds == example.ROUNDS
    assert 1.99 < spent().epsilon(delta=example.DELTA) <= example.EPSILON
    assert "spent: ε = 2.0000 at δ = 1e-05 for one client" in done.stdout
    assert 0 < np.linalg.norm(np.load(tmp_path / "model.npy") - kept) < 2.0
    right = float(done.stdout.split("took no part: ")[1].split(" %")[0])
    assert right > 70
