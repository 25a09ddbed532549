"""Hugging Face's `Trainer` within a privacy budget: it stops at the last safe step, and keeps the account.

::

    engine = PrivacyEngine(accountant="dprounds")
    model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, ...)
    trainer = Trainer(model=model, args=TrainingArguments("out", num_train_epochs=100))
    keep_budget(trainer, optimizer, loader, epsilon=3.0, delta=1e-5)
    trainer.train()
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

try:
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.trainer_callback import ExportableState
except ModuleNotFoundError as missing:
    if str(missing.name).partition(".")[0] != "transformers":
        raise
    raise ModuleNotFoundError(
        "dprounds.integrations.transformers needs Transformers. In a checkout of dprounds: "
        "pip install '.[transformers]'",
        name=missing.name,
    ) from None

import torch
from opacus.optimizers import DPOptimizer
from torch.utils.data import DataLoader

from dprounds import _validate
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.integrations.opacus.watch import Watch, check_one_process

__all__ = ["PrivacyCallback", "keep_budget", "mean_over_records"]

ACCOUNT = "privacy-account.json"
# Labels that count for nothing, as Transformers marks padding.
NO_LABEL = -100
# What the trainer logs of the records without noise: the training loss, and the norm of gradients before clipping.
WITHOUT_NOISE = ("loss", "grad_norm", "train_loss", "total_flos", "num_input_tokens_seen")


def mean_over_records(
    outputs: Any,  # noqa: ANN401  (a model's own class)
    labels: torch.Tensor,
    num_items_in_batch: object = None,
) -> torch.Tensor:
    """The loss of each record by itself, averaged over its own tokens, and then over the records of the batch.

    The usual loss of a language model divides by all tokens of the batch. Then a record's gradient depends on how long
    the other records are, one record more changes all clipped gradients, and the sum moves by more than one norm:
    **epsilon is below the truth**. Here what a record adds depends on nothing but that record.

    Parameters
    ----------
    outputs
        With ``logits``, of the shape (records, classes), or (records, tokens, words) of a causal language model.
    labels
        A class for each record, or a word for each token; -100 counts for nothing.
    num_items_in_batch
        Given by the trainer, and not used.
    """
    logits = outputs["logits"] if isinstance(outputs, dict) else outputs.logits
    if logits.ndim == 3:
        logits, labels = logits[:, :-1], labels[:, 1:]
    elif logits.ndim != 2 or labels.ndim != 1:
        raise UnsupportedError(
            f"mean_over_records takes logits of shape (records, classes) or (records, tokens, words), got "
            f"{tuple(logits.shape)}. Pass a compute_loss_func of your own, in which no record counts other records."
        )
    shape = (labels.shape[0], labels.shape[1] if labels.ndim == 2 else 1)  # by name, since a batch may be empty
    by_token = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]).float(), labels.reshape(-1), ignore_index=NO_LABEL, reduction="none"
    ).reshape(shape)
    counted = (labels != NO_LABEL).reshape(shape).sum(dim=1)
    by_record = by_token.sum(dim=1) / counted.clamp(min=1)
    return by_record.sum() / max(len(by_record), 1)


class PrivacyCallback(TrainerCallback, ExportableState):  # type: ignore[misc]  # Any where it is not installed
    """Ends a training before the step that would exceed its budget; `keep_budget` makes one and adds it."""

    def __init__(self, watch: Watch, name: str | None) -> None:
        self.watch, self.name = watch, name

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: object
    ) -> None:
        """Open the account, and go on from that of the checkpoint if the training is resumed."""
        _check_arguments(args)
        saved = (state.stateful_callbacks or {}).get(type(self).__name__)
        if state.global_step and isinstance(saved, dict):
            self.watch.restore(saved["attributes"])
        self.watch.begin(
            others["train_dataloader"],
            others["optimizer"],
            accumulated=args.gradient_accumulation_steps,
            steps_before=state.global_step,
        )

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: object
    ) -> None:
        """Clear Opacus's sums, which the trainer's ``model.zero_grad()`` leaves."""
        self.watch.optimizer.zero_grad()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: object
    ) -> None:
        """Stop, and save, where one more step would exceed the budget."""
        if not self.watch.goes_on():
            control.should_training_stop = control.should_log = True
            control.should_save = control.should_save or args.save_strategy != "no"

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **others: object,
    ) -> None:
        """Log epsilon, and take out what is computed from the records without noise."""
        kept = state.log_history[-1] if state.log_history else {}
        for log in (logs if logs is not None else {}, kept):
            for name in WITHOUT_NOISE:
                log.pop(name, None)
            if self.name:
                log[self.name] = self.watch.epsilon_spent()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: object
    ) -> None:
        """Close the account."""
        self.watch.end()

    def state(self) -> dict[str, Any]:
        """The account, which the trainer puts into the file of its state in each checkpoint."""
        return {"args": {}, "attributes": self.watch.state()}


def keep_budget(
    trainer: Trainer,
    optimizer: DPOptimizer,
    loader: DataLoader[Any],
    *,
    epsilon: float,
    delta: float,
    account: str | os.PathLike[str] | None = None,
    reserve: int = 100,
    own_loss: bool = False,
    own_sampler: bool = False,
    method: str | None = None,
    name: str | None = "epsilon",
) -> PrivacyCallback:
    """A callback, added to `trainer`, that keeps it within (`epsilon`, `delta`).

    The trainer steps `optimizer`, draws from `loader`, and takes the loss of each record by itself
    (`mean_over_records`). It stops at the last safe step, saves, and logs epsilon. The training loss and the norm of
    the gradients are taken out of its logs: both are computed from the records without noise, and checkpoints would
    publish them. The account is in ``trainer_state.json`` of each checkpoint, and in a file in which every step is
    counted before it is made. Checkpoints hold the model without Opacus's wrapper, for ``from_pretrained``. To resume,
    call ``trainer.train(resume_from_checkpoint=…)`` as usual: what was made after the checkpoint is in the file, and
    counts.

    Guarantee
    ---------
    As for Lightning's callback: raises, or every step that was made is in the account and all are within the budget.
    The result of ``trainer.train()`` holds the training loss; that is for you, and not to be published.

    Parameters
    ----------
    trainer
        A `Trainer` of Transformers whose model is the one that ``make_private`` returned.
    optimizer, loader
        What ``PrivacyEngine(accountant="dprounds").make_private`` returned.
    epsilon, delta
        The budget, in nats, in [0, inf); and its failure mass, in (0, 1).
    account
        The file of the account; by default `privacy-account.json` in the trainer's folder.
    reserve
        Steps written to it at a time, at least 1.
    own_loss
        The trainer has a loss of its own, in which what a record adds depends on that record alone.
    own_sampler, method, name
        As for Lightning's callback.
    """
    if not isinstance(trainer, Trainer):
        raise ParameterError(f"trainer must be a Trainer of Transformers, got {_validate.show(trainer)}.")
    _check_arguments(trainer.args)
    if own_loss is not True:
        if type(trainer).compute_loss is not Trainer.compute_loss or trainer.compute_loss_func is not None:
            raise ParameterError(
                "trainer must take the loss of each record by itself, and has a loss of its own. If what a record adds "
                "to it depends on that record alone, and on no other of the batch, pass own_loss=True."
            )
        trainer.compute_loss_func = mean_over_records
    if account is None:
        folder = Path(trainer.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        account = folder / ACCOUNT
    watch = Watch(
        optimizer,
        epsilon=epsilon,
        delta=delta,
        account=account,
        reserve=reserve,
        own_sampler=own_sampler,
        method=method,
    )
    callback = PrivacyCallback(watch, name)
    trainer.optimizer, trainer.get_train_dataloader = optimizer, lambda: loader
    for kept in ("_save", "_load_from_checkpoint"):
        setattr(trainer, kept, _of_inner_model(trainer, getattr(trainer, kept)))
    # the number of items counts the records and tokens of a batch, and not every model takes it
    trainer.model_accepts_loss_kwargs = False
    # first, so that what it takes out of the logs is reported nowhere
    trainer.callback_handler.callbacks.insert(0, callback)
    return callback


def _of_inner_model(trainer: Trainer, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of the trainer that sees the model inside Opacus's wrapper, so that checkpoints are as usual."""

    @wraps(method)
    def seeing_the_inner_model(*given: object, **named: object) -> object:
        model = trainer.model
        trainer.model = getattr(model, "_module", model)
        try:
            return method(*given, **named)
        finally:
            trainer.model = model

    return seeing_the_inner_model


def _check_arguments(args: TrainingArguments) -> None:
    """Refuse arguments under which steps are not what they are accounted as."""
    check_one_process(args.world_size * max(args.n_gpu, 1))
    for name, instead in (("fp16", "bf16"), ("auto_find_batch_size", "BatchMemoryManager")):
        if getattr(args, name, False):
            raise UnsupportedError(
                f"{name} is not supported: it skips or repeats steps by looking at the records. Use {instead}."
            )
