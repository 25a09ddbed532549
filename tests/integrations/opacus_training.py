"""A small training with the real Opacus, for the tests of what happens inside it."""

from __future__ import annotations

import warnings
from itertools import chain, islice, repeat
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch deprecates is not ours to fix
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    opacus: Any = pytest.importorskip("opacus", reason="Opacus is not installed")
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    from dprounds.integrations.opacus import ExactAccountant

__all__ = ["DELTA", "TENTH", "Training", "marks"]

# The models are tiny, and threads that wait for each other take ten times as long where several tests run at once.
torch.set_num_threads(1)

DELTA = 1e-5
# What Opacus's sampler makes of a rate of 0.1: the least multiple of 2^-24 that is not below it in single precision.
TENTH = 1677722 / 2**24

marks = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),  # tests need no cryptographic noise
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),  # PyTorch, of a model of a single layer
    pytest.mark.filterwarnings("ignore:Optimal order is the"),  # Opacus, whose list of orders may be too short
]


class Training:
    """A small model on random records, made private by the real engine."""

    def __init__(
        self,
        *,
        records: int = 120,
        batch: int = 12,
        workers: int = 0,
        module: Any = None,
        accountant: str = "dprounds",
        shuffle: bool = False,
        **options: Any,
    ) -> None:
        torch.manual_seed(0)
        data = torch.utils.data.TensorDataset(torch.randn(records, 4), torch.randint(0, 2, (records,)))
        loader = torch.utils.data.DataLoader(data, batch_size=batch, num_workers=workers, shuffle=shuffle)
        module = torch.nn.Linear(4, 2) if module is None else module
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        self.engine = opacus.PrivacyEngine(accountant=accountant)
        make = self.engine.make_private_with_epsilon if "target_epsilon" in options else self.engine.make_private
        # with ghost clipping there is a loss between the optimizer and the loader
        self.module, self.optimizer, *loss, self.loader = make(
            module=module, optimizer=optimizer, data_loader=loader, **{"max_grad_norm": 1.0, **options}
        )
        self.loss = loss[0] if loss else torch.nn.CrossEntropyLoss()

    @property
    def accountant(self) -> ExactAccountant:
        accountant = self.engine.accountant
        assert isinstance(accountant, ExactAccountant)
        return accountant

    def backward(self, batch: Any) -> None:
        features, labels = batch
        self.loss(self.module(features), labels).backward()

    def step(self, batch: Any) -> None:
        self.optimizer.zero_grad()
        self.backward(batch)
        self.optimizer.step()

    def endless(self) -> Any:
        """More batches than any budget here holds."""
        return islice(chain.from_iterable(repeat(self.loader)), 300)

    def split(self, size: int = 3) -> Any:
        """The loader's batches in parts of at most `size` records."""
        return BatchMemoryManager(data_loader=self.loader, max_physical_batch_size=size, optimizer=self.optimizer)
