"""PyTorch Lightning within a privacy budget: a callback that stops at the last safe step, and keeps the account.

::

    engine = PrivacyEngine(accountant="dprounds")
    network, optimizer, loader = engine.make_private(module=network, optimizer=optimizer, data_loader=loader, ...)
    callback = PrivacyCallback(optimizer, epsilon=3.0, delta=1e-5, account="account.json")
    Trainer(max_epochs=-1, callbacks=[callback]).fit(YourModule(network, optimizer), loader)

The module's ``training_step`` calls the private network; ``configure_optimizers`` returns the private optimizer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError as missing:
    if str(missing.name).partition(".")[0] != "lightning":
        raise
    raise ModuleNotFoundError(
        "dprounds.integrations.lightning needs Lightning. In a checkout of dprounds: pip install '.[lightning]'",
        name=missing.name,
    ) from None

from opacus.optimizers import DPOptimizer

from dprounds.errors import UnsupportedError
from dprounds.integrations.opacus.watch import Watch, check_one_process

__all__ = ["PrivacyCallback"]


class PrivacyCallback(Callback):  # type: ignore[misc]  # Lightning's class is Any where it is not installed
    """Ends a training before the step that would exceed its budget, logs epsilon, and keeps the account.

    The account is in Lightning's checkpoints, and in a file in which every step is counted before it is made. To
    resume, pass ``ckpt_path`` to ``fit`` as usual: what was made after the checkpoint is in the file, and counts. A
    training that begins anew with the same file goes on from what that holds: the records are the same, and so is the
    budget.

    Guarantee
    ---------
    Raises, or every step that was made is in the account, and all of them are within the budget, under the assumptions
    of `ExactAccountant <dprounds.integrations.opacus.ExactAccountant>`. Where the trainer goes on beyond the last safe
    step, as ``min_epochs`` makes it, the step raises `InfeasibleError` before the weights move.

    Parameters
    ----------
    optimizer, epsilon, delta, account, reserve, own_sampler, method
        As for `Watch <dprounds.integrations.opacus.watch.Watch>`.
    name
        Under which epsilon is logged, every ``log_every_n_steps`` of the trainer; None for not at all.
    """

    def __init__(
        self,
        optimizer: DPOptimizer,
        *,
        epsilon: float,
        delta: float,
        account: str | os.PathLike[str],
        reserve: int = 100,
        own_sampler: bool = False,
        method: str | None = None,
        name: str | None = "epsilon",
    ) -> None:
        super().__init__()
        self.watch = Watch(
            optimizer,
            epsilon=epsilon,
            delta=delta,
            account=account,
            reserve=reserve,
            own_sampler=own_sampler,
            method=method,
        )
        self.name = name

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Open the account; refuse what is not accounted for."""
        check_one_process(trainer.world_size)
        if not pl_module.automatic_optimization:
            raise UnsupportedError("A module that steps by itself is not supported: set automatic_optimization=True.")
        if len(trainer.optimizers) != 1:
            raise UnsupportedError(f"One optimizer is accounted for, and the module has {len(trainer.optimizers)}.")
        if trainer.precision in ("16-mixed", "16"):
            raise UnsupportedError(
                "In 16-mixed precision steps are skipped by looking at gradients without noise. Use bf16-mixed or 32."
            )
        self.watch.begin(
            trainer.train_dataloader,
            trainer.optimizers[0],
            accumulated=trainer.accumulate_grad_batches,
            steps_before=trainer.global_step,
        )

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,  # noqa: ANN401  (whatever the module returns)
        batch: Any,  # noqa: ANN401  (whatever the loader yields)
        batch_idx: int,
    ) -> None:
        """Stop where one more step would exceed the budget, and log."""
        if not self.watch.goes_on():
            trainer.should_stop = True
        if self.name and (trainer.should_stop or trainer.global_step % trainer.log_every_n_steps == 0):
            # by a batch size of one, since the true one is as private as the records
            pl_module.log(self.name, self.watch.epsilon_spent(), on_step=True, on_epoch=False, batch_size=1)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Close the account."""
        self.watch.end()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Close the account: what was reserved and not made is given back."""
        self.watch.end()

    def state_dict(self) -> dict[str, Any]:
        """The account, which Lightning puts into its checkpoints."""
        return self.watch.state()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from the account of a checkpoint."""
        self.watch.restore(state_dict)
