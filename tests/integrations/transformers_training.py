"""A small training with the real Trainer of Transformers, for its tests and for the process that they kill."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.opacus_training import DELTA, opacus, torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch deprecates is not ours to fix
    transformers: Any = pytest.importorskip("transformers", reason="Transformers is not installed")
    pytest.importorskip("accelerate", reason="Accelerate is not installed")
    from dprounds.integrations.transformers import PrivacyCallback, keep_budget, mean_over_records

__all__ = ["Records", "Small", "Trained", "keep_budget", "mean_over_records", "train"]


class Records(torch.utils.data.Dataset):  # type: ignore[misc]  # Any where PyTorch is not installed
    """Random records, as dictionaries of tensors."""

    def __init__(self, records: int = 120) -> None:
        generator = torch.Generator().manual_seed(0)
        self.features = torch.randn(records, 4, generator=generator)
        self.labels = torch.randint(0, 2, (records,), generator=generator)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return {"features": self.features[place], "labels": self.labels[place]}


class Small(torch.nn.Module):  # type: ignore[misc]  # Any where PyTorch is not installed
    """A linear classifier with the face of a model of Transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, features: Any, labels: Any = None) -> dict[str, Any]:
        logits = self.linear(features)
        return {"logits": logits} if labels is None else {"loss": logits.sum(), "logits": logits}


class Trained:
    """A trainer whose budget is kept, and how many steps have moved its weights."""

    def __init__(self, folder: Path, *, kill_after: int | None = None, epsilon: float = 2.0, **options: Any) -> None:
        torch.manual_seed(0)
        model = Small()
        self.engine = opacus.PrivacyEngine(accountant="dprounds")
        self.model, self.optimizer, self.loader = self.engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(Records(), batch_size=12),
            noise_multiplier=2.0,
            max_grad_norm=1.0,
        )
        if options.get("gradient_accumulation_steps", 1) > 1:
            self.model.allow_grad_accumulation()
        given: dict[str, Any] = {"num_train_epochs": 30, "save_steps": 5, "logging_steps": 5, **options}
        self.trainer = transformers.Trainer(
            model=self.model,
            args=transformers.TrainingArguments(str(folder), report_to=[], use_cpu=True, disable_tqdm=True, **given),
        )
        self.callback: PrivacyCallback = keep_budget(
            self.trainer, self.optimizer, self.loader, epsilon=epsilon, delta=DELTA, reserve=7
        )
        self.steps, self.kill_after, self.made = 0, kill_after, folder / "made"
        self.optimizer.original_optimizer.register_step_post_hook(self._count)

    def _count(self, *_: object) -> None:
        self.steps += 1
        with self.made.open("a") as file:
            file.write("step\n")
        if self.steps == self.kill_after:
            os.kill(os.getpid(), signal.SIGKILL)


def train(folder: Path, *, resume: str | None = None, **options: Any) -> Trained:
    """A training until its budget is spent, or until it kills itself."""
    trained = Trained(folder, **options)
    trained.trainer.train(resume_from_checkpoint=resume)
    return trained
