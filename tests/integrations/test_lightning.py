"""The real Lightning within a budget: the last safe step, a kill and a resume, and what is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from dprounds import InfeasibleError, ParameterError, UnsupportedError
from tests.integrations.lightning_training import Module, PrivacyCallback, fit, lightning, trainer
from tests.integrations.opacus_training import DELTA, Training, marks, torch

pytestmark = [
    *marks,
    pytest.mark.filterwarnings("ignore:.*(workers|Checkpoint directory|litlogger|isinstance|treespec|Initializing).*"),
]
# At noise 2 and rate 0.1, within epsilon = 2: `max_rounds` of Opacus's own test.
LAST_SAFE_STEP = 73


def steps_in(path: Path) -> int:
    return sum(steps for _, _, steps in json.loads(path.read_text())["history"])


def test_training_ends_at_the_last_safe_step_logs_epsilon_and_saves_the_account(tmp_path: Path) -> None:
    training, module, callback, made = fit(tmp_path)
    assert len(training.accountant) == module.steps == made.global_step == LAST_SAFE_STEP
    assert steps_in(tmp_path / "account.json") == LAST_SAFE_STEP
    assert 1.9 < float(made.callback_metrics["epsilon"]) <= 2.0
    saved = torch.load(tmp_path / "checkpoints/epoch=0-step=5.ckpt", weights_only=False)
    assert sum(steps for _, _, steps in saved["callbacks"][callback.state_key]["history"]) == 5
    with pytest.raises(InfeasibleError, match="Not one step is left"):
        fit(tmp_path, resume=True)
    assert steps_in(tmp_path / "account.json") == LAST_SAFE_STEP


def test_nothing_is_forgotten_when_a_training_is_killed_and_resumed(tmp_path: Path) -> None:
    script = """
import sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from tests.integrations.lightning_training import fit
fit(Path(sys.argv[1]), kill_after=12)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert steps_in(tmp_path / "account.json") == 14  # twelve made, fourteen reserved
    training, module, _, made = fit(tmp_path, resume=True)
    assert module.steps == LAST_SAFE_STEP - 14
    assert made.global_step == 10 + module.steps  # the checkpoint was of the tenth step
    assert len(training.accountant) == steps_in(tmp_path / "account.json") == LAST_SAFE_STEP
    assert len((tmp_path / "made").read_text().splitlines()) == 12 + LAST_SAFE_STEP - 14


def test_a_trainer_that_goes_on_is_stopped_before_the_weights_move(tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError, match="would exceed"):
        fit(tmp_path, min_epochs=30)
    assert len((tmp_path / "made").read_text().splitlines()) == LAST_SAFE_STEP
    assert steps_in(tmp_path / "account.json") == LAST_SAFE_STEP


def test_summed_batches_are_counted_one_by_one(tmp_path: Path) -> None:
    training, module, _, _ = fit(tmp_path, accumulate_grad_batches=2, max_epochs=2)
    assert module.steps == 10
    assert len(training.accountant) == 20


def test_noise_and_batches_do_not_follow_a_seed(tmp_path: Path) -> None:
    weights = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        lightning.seed_everything(7, verbose=False)
        training, *_ = fit(tmp_path / name, max_steps=2)
        weights.append([p.detach().clone() for p in training.module.parameters()])
    assert not any(torch.equal(p, q) for p, q in zip(*weights, strict=True))


def callback_for(training: Training, folder: Path, **options: Any) -> PrivacyCallback:
    given = {"epsilon": 2.0, "delta": DELTA, "account": folder / "account.json", **options}
    return PrivacyCallback(training.optimizer, **given)


def test_a_loader_that_was_not_made_private_is_refused(tmp_path: Path) -> None:
    training = Training(noise_multiplier=2.0)
    shuffled = torch.utils.data.DataLoader(training.loader.dataset, batch_size=12, shuffle=True)
    with pytest.raises(ParameterError, match="BatchSampler"):
        trainer(tmp_path, callback_for(training, tmp_path)).fit(Module(training), shuffled)
    other = Training(noise_multiplier=2.0, batch=24)
    with pytest.raises(ParameterError, match="draws at a rate"):
        trainer(tmp_path, callback_for(training, tmp_path)).fit(Module(training), other.loader)
    assert len(training.accountant) == 0


def test_an_optimizer_without_noise_is_refused(tmp_path: Path) -> None:
    training = Training(noise_multiplier=2.0)
    module = Module(training)
    module.configure_optimizers = lambda: training.optimizer.original_optimizer  # type: ignore[method-assign]
    with pytest.raises(ParameterError, match="add no noise"):
        trainer(tmp_path, callback_for(training, tmp_path)).fit(module, training.loader)


def test_a_module_that_steps_by_itself_is_refused(tmp_path: Path) -> None:
    training = Training(noise_multiplier=2.0)
    module = Module(training)
    module.automatic_optimization = False
    with pytest.raises(UnsupportedError, match="automatic_optimization"):
        trainer(tmp_path, callback_for(training, tmp_path)).fit(module, training.loader)


def test_a_checkpoint_without_an_account_is_refused(tmp_path: Path) -> None:
    fit(tmp_path, max_steps=5)
    path = tmp_path / "checkpoints/last.ckpt"
    saved = torch.load(path, weights_only=False)
    saved["callbacks"].pop(next(name for name in saved["callbacks"] if "PrivacyCallback" in name))
    torch.save(saved, path)
    (tmp_path / "account.json").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ParameterError, match="holds none"):
            fit(tmp_path, resume=True)
