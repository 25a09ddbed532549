"""A small training with the real Lightning and Opacus, for its tests and for the process that they kill."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.opacus_training import DELTA, Training, torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch deprecates is not ours to fix
    lightning: Any = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
    from lightning.pytorch.callbacks import ModelCheckpoint

    from dprounds.integrations.lightning import PrivacyCallback

__all__ = ["Module", "PrivacyCallback", "fit", "trainer"]


class Module(lightning.LightningModule):  # type: ignore[misc]  # Any where Lightning is not installed
    """The private network of a training, as a module of Lightning; `made` counts the steps that moved its weights."""

    def __init__(self, training: Training, made: Path | None = None, kill_after: int | None = None) -> None:
        super().__init__()
        self.network, self.training_, self.made, self.kill_after = training.module, training, made, kill_after
        self.steps = 0
        training.optimizer.original_optimizer.register_step_post_hook(self._count)

    def _count(self, *_: object) -> None:
        self.steps += 1
        if self.made is not None:
            with self.made.open("a") as file:
                file.write("step\n")

    def training_step(self, batch: Any, _: int) -> Any:
        features, labels = batch
        return torch.nn.functional.cross_entropy(self.network(features), labels, reduction="sum") / max(len(labels), 1)

    def configure_optimizers(self) -> Any:
        return self.training_.optimizer

    def on_train_batch_end(self, *_: object) -> None:
        if self.kill_after is not None and self.steps >= self.kill_after:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)


def trainer(folder: Path, callback: PrivacyCallback, **options: Any) -> Any:
    saving = ModelCheckpoint(dirpath=folder / "checkpoints", every_n_train_steps=5, save_top_k=-1, save_last=True)
    given = {"max_epochs": 30, "accelerator": "cpu", "devices": 1, "log_every_n_steps": 1, **options}
    return lightning.Trainer(
        callbacks=[callback, saving],
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **given,
    )


def fit(
    folder: Path, *, resume: bool = False, kill_after: int | None = None, epsilon: float = 2.0, **options: Any
) -> tuple[Training, Module, PrivacyCallback, Any]:
    """A training until its budget is spent, or until it kills itself."""
    training = Training(noise_multiplier=2.0)
    if options.get("accumulate_grad_batches", 1) > 1:
        training.module.allow_grad_accumulation()
    module = Module(training, folder / "made", kill_after)
    callback = PrivacyCallback(
        training.optimizer, epsilon=epsilon, delta=DELTA, account=folder / "account.json", reserve=7
    )
    made = trainer(folder, callback, **options)
    made.fit(module, training.loader, ckpt_path=folder / "checkpoints/last.ckpt" if resume else None)
    return training, module, callback, made
