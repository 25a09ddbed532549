"""Steps of the real Opacus that are on disk before they are made, and what a killed training leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from dprounds import ParameterError
from tests.integrations.opacus_training import DELTA, Training, marks, torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch deprecates is not ours to fix
    from dprounds.integrations.opacus import ExactAccountant, count_ahead, on_disk, while_affordable

pytestmark = marks


def steps_in(path: Path) -> int:
    return sum(steps for _, _, steps in json.loads(path.read_text())["history"])


def test_steps_are_on_disk_before_they_are_made(tmp_path: Path) -> None:
    training, path = Training(noise_multiplier=1.0), tmp_path / "spent.json"
    on_disk_then: list[int] = []
    training.optimizer.original_optimizer.register_step_pre_hook(lambda *_: on_disk_then.append(steps_in(path)))
    with count_ahead(training.accountant, path, reserve=4):
        for batch in training.loader:
            training.step(batch)
    assert on_disk_then == [4, 4, 4, 4, 8, 8, 8, 8, 12, 12]
    assert steps_in(path) == len(training.accountant) == 10  # what was not made is given back


def test_nothing_is_forgotten_when_a_training_is_killed(tmp_path: Path) -> None:
    path, made = tmp_path / "spent.json", tmp_path / "made"
    script = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
from tests.integrations.opacus_training import Training
from dprounds.integrations.opacus import count_ahead
training = Training(noise_multiplier=1.0)
with count_ahead(training.accountant, sys.argv[1], reserve=7), open(sys.argv[2], "a", buffering=1) as made:
    for number, batch in enumerate(training.endless()):
        training.step(batch)
        made.write("step\\n")
        if number == 9:
            os.kill(os.getpid(), signal.SIGKILL)
"""
    for killed in (1, 2):
        done = subprocess.run([sys.executable, "-c", script, str(path), str(made)], check=False, cwd=Path.cwd())
        assert done.returncode == -signal.SIGKILL
        assert len(made.read_text().splitlines()) == 10 * killed
        assert steps_in(path) == 14 * killed  # ten steps made, fourteen reserved
    accountant = ExactAccountant()
    with count_ahead(accountant, path):
        assert accountant.history == [(1.0, 0.1, 28)]


def test_a_checkpoint_is_brought_up_to_what_was_reserved_after_it(tmp_path: Path) -> None:
    training, path, checkpoint = Training(noise_multiplier=1.0), tmp_path / "spent.json", tmp_path / "checkpoint.pt"
    killed = count_ahead(training.accountant, path, reserve=6)
    killed.__enter__()
    for batch in islice(training.loader, 8):
        training.step(batch)
        if len(training.accountant) == 3:
            training.engine.save_checkpoint(path=checkpoint, module=training.module, optimizer=training.optimizer)
    left = path.read_text()
    killed.__exit__(None, None, None)
    path.write_text(left)  # as if it had been killed
    resumed = Training(noise_multiplier=1.0)
    resumed.engine.load_checkpoint(path=checkpoint, module=resumed.module, optimizer=resumed.optimizer)
    assert len(resumed.accountant) == 3
    with count_ahead(resumed.accountant, path):
        assert len(resumed.accountant) == 12
        resumed.step(next(iter(resumed.loader)))
        with pytest.raises(ParameterError, match="lacks some of them"):
            resumed.engine.load_checkpoint(path=checkpoint, module=resumed.module, optimizer=resumed.optimizer)
    assert steps_in(path) == len(resumed.accountant) == 13


def test_no_more_is_reserved_than_a_budget_has_planned(tmp_path: Path) -> None:
    training, path = Training(noise_multiplier=2.0), tmp_path / "spent.json"
    most = 0
    with count_ahead(training.accountant, path, reserve=50):
        for batch in while_affordable(training.endless(), training.optimizer, epsilon=2.0, delta=DELTA):
            training.step(batch)
            most = max(most, steps_in(path))
    assert most == len(training.accountant) == 73


def test_an_exception_gives_back_what_was_not_made(tmp_path: Path) -> None:
    training, path = Training(noise_multiplier=1.0), tmp_path / "spent.json"

    def train() -> None:
        with count_ahead(training.accountant, path):
            training.step(next(iter(training.loader)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train()
    assert steps_in(path) == 1
    training.step(next(iter(training.loader)))  # outside of the block nothing is written
    assert steps_in(path) == 1
    with count_ahead(training.accountant, path):
        assert steps_in(path) == 2


def test_other_noise_is_written_when_it_comes(tmp_path: Path) -> None:
    accountant, path = ExactAccountant(), tmp_path / "spent.json"
    with count_ahead(accountant, path, reserve=3):
        for noise in (2.0, 2.0, 1.0, 2.0, 2):
            accountant.step(noise_multiplier=noise, sample_rate=0.1)
            written = on_disk._read(path)
            assert written is not None
            assert written.goes_on_from(accountant._account())
        assert json.loads(path.read_text())["history"] == [[2.0, 0.1, 2], [1.0, 0.1, 1], [2.0, 0.1, 3]]
        with pytest.raises(ParameterError):
            accountant.step(noise_multiplier=-1.0, sample_rate=0.1)
    assert json.loads(path.read_text())["history"] == [[2.0, 0.1, 2], [1.0, 0.1, 1], [2.0, 0.1, 2]]


def test_a_step_that_cannot_be_written_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training, path = Training(noise_multiplier=1.0), tmp_path / "spent.json"
    first, second, *_ = training.loader

    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    with count_ahead(training.accountant, path, reserve=1):
        training.step(first)
        weights = [p.detach().clone() for p in training.module.parameters()]
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space"):
                training.step(second)
        assert all(torch.equal(p, q) for p, q in zip(training.module.parameters(), weights, strict=True))
        assert training.accountant.history == [(1.0, 0.1, 1)]
        training.step(second)
    assert steps_in(path) == 2


def test_a_file_is_used_by_one_block_and_an_accountant_by_one_file(tmp_path: Path) -> None:
    accountant, path = ExactAccountant(), tmp_path / "spent.json"
    with count_ahead(accountant, path):
        with pytest.raises(ParameterError, match="in use"), count_ahead(ExactAccountant(), path):
            pass
        with pytest.raises(ParameterError, match="no other block"), count_ahead(accountant, tmp_path / "other.json"):
            pass


def test_the_file_of_another_training_is_refused(tmp_path: Path) -> None:
    first, second, path = ExactAccountant(), ExactAccountant(), tmp_path / "spent.json"
    for accountant in (first, second):
        accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with count_ahead(first, path):
        pass
    with pytest.raises(ParameterError, match="another training"), count_ahead(second, path):
        pass
    assert (len(first), len(second), steps_in(path)) == (1, 1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "\xff",
        '{"format": "dprounds.opacus", "version": 1, "history": []}',
        '{"format": "dprounds.opacus", "version": 2, "history": [], "stamps": []}',
        '{"format": "dprounds.opacus", "version": 1, "history": [[1.0, 0.1, 1]], "stamps": []}',
        '{"format": "dprounds.opacus", "version": 1, "history": [[NaN, 0.1, 0]], "stamps": []}',
    ],
)
def test_a_damaged_file_never_counts_as_an_empty_one(text: str, tmp_path: Path) -> None:
    path = tmp_path / "spent.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ParameterError, match=r"spent\.json"), count_ahead(ExactAccountant(), path):
        pass
    assert path.read_bytes() == text.encode("latin-1")


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"accountant": None}, "accountant"),
        ({"path": "missing/spent.json"}, "folder"),
        ({"path": 3}, "path"),
        ({"reserve": 0}, "reserve"),
        ({"reserve": 1.5}, "reserve"),
    ],
)
def test_invalid_arguments_of_a_block_are_refused(bad: dict[str, Any], match: str, tmp_path: Path) -> None:
    if isinstance(bad.get("path"), str):
        bad = {"path": tmp_path / bad["path"]}
    given: dict[str, Any] = {"accountant": ExactAccountant(), "path": tmp_path / "spent.json", **bad}
    with pytest.raises(ParameterError, match=match), count_ahead(**given):
        pass
