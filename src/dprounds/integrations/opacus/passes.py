"""Loaders of Opacus that are not Poisson samplers: those that go through all records once in a pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from dprounds.errors import UnsupportedError

__all__ = ["Passes", "counted_passes"]


class Passes(BatchSampler):  # type: ignore[misc]  # PyTorch's class is Any where PyTorch is not installed
    """The batches of a loader that goes through all records once in a pass, counted as they are drawn.

    `batches` is the number of batches among which a pass shuffles the records, 1 if it does not. `begun` is the number
    of passes so far, and `drawn` that of the batches of the last one.
    """

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:  # noqa: ANN401  (PyTorch's)
        super().__init__(sampler, batch_size, drop_last)
        self.batches = len(self) if isinstance(sampler, RandomSampler) else 1
        self.begun = self.drawn = 0

    def __iter__(self) -> Iterator[list[int]]:
        """One pass; an earlier one that is not at its end cannot go on after it."""
        self.begun, self.drawn = self.begun + 1, 0
        this = self.begun
        for batch in super().__iter__():
            if self.begun != this:
                raise UnsupportedError("A pass over this loader cannot go on after another one has begun.")
            self.drawn += 1
            yield batch


def counted_passes(loader: DataLoader[Any]) -> Passes | None:
    """What counts the passes over a loader; None for one of Opacus's that draws Poisson samples.

    Guarantee
    ---------
    Raises `UnsupportedError`, or every pass holds each record at most once, in a batch that no record has chosen.
    """
    batches = loader.batch_sampler
    if isinstance(batches, Passes):
        return batches
    if type(batches) is UniformWithReplacementSampler:
        return None
    sampler: Any = batches.sampler if type(batches) is BatchSampler else None
    known = type(sampler) is SequentialSampler or (
        type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == len(sampler.data_source)
    )
    if not known or getattr(loader, "_iterator", None) is not None:
        raise UnsupportedError(
            "It is not known what this loader draws, so no epsilon is known for it: pass a new DataLoader with "
            "shuffle=True and no sampler of its own, or leave poisson_sampling=True."
        )
    return Passes(sampler, batches.batch_size, batches.drop_last)
