"""Batches by random allocation: the loader that `RandomAllocation` accounts for, as lists of record numbers.

>>> from dprounds.integrations.allocation import AllocatedBatches
>>> batches = AllocatedBatches(60_000, steps=234)
>>> (batches.epoch(noise_multiplier=1.1) * 60).epsilon(delta=1e-5) < 2.341
True

It is a batch sampler for PyTorch, ``DataLoader(dataset, batch_sampler=batches)``, and needs no PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dprounds._validate import count
from dprounds.mechanisms import Gaussian, RandomAllocation

__all__ = ["AllocatedBatches", "allocate"]

Indices = NDArray[np.intp]


def allocate(
    dataset_size: int, *, steps: int, participations: int = 1, generator: np.random.Generator
) -> list[Indices]:
    """The numbers of the records in each step of one epoch, where every record joins random steps.

    Each record joins `participations` of the steps, all sets of so many being equally likely, independently of all
    other records. Steps may be empty, and are steps all the same.

    Parameters
    ----------
    dataset_size
        Number of records, an integer in [1, inf).
    steps
        Steps of the epoch, an integer in [1, inf).
    participations
        How many of them each record joins, an integer in [1, steps].
    generator
        Where the randomness comes from. Whoever can guess it knows the steps of a record.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> batches = allocate(10, steps=4, generator=generator)
    >>> sorted(int(number) for batch in batches for number in batch) == list(range(10))
    True
    """
    size = count("dataset_size", dataset_size, least=1)
    steps = count("steps", steps, least=1)
    participations = count("participations", participations, least=1, most=steps)
    # Floyd's way to a random set: each new step is drawn from one more than the last, and is the newest one if it was
    # drawn already.
    chosen = np.empty((participations, size), dtype=np.intp)
    for row, last in enumerate(range(steps - participations, steps)):
        drawn = generator.integers(last + 1, size=size, dtype=np.intp)
        chosen[row] = np.where((chosen[:row] == drawn).any(axis=0), last, drawn)
    order = np.argsort(chosen, axis=None, kind="stable")
    ends = np.searchsorted(chosen.ravel()[order], np.arange(1, steps))
    return [np.sort(batch) for batch in np.split(order % size, ends)]


class AllocatedBatches:
    """Batches of an epoch, in each of which every record joins random steps; each pass is one epoch.

    A pass yields exactly `steps` lists of record numbers. Some may be empty: they are steps all the same, and skipping
    one would tell that it was empty. So a training step must take an empty batch, add its noise, and divide by
    `expected_batch_size`, a public number, and never by the size of the batch.

    Record one round of `epoch(noise_multiplier=…)` for each pass that is begun; with `repeats`, for each pass with a
    new allocation. A pass that is not finished costs no more than one that is.

    Parameters
    ----------
    dataset_size
        Number of records, an integer in [1, inf).
    steps
        Steps of an epoch, an integer in [1, inf).
    participations
        How many of them each record joins, an integer in [1, steps].
    repeats
        How many passes use one allocation, an integer in [1, inf).
    seed
        For tests alone. Without it the randomness comes from the operating system, as a guarantee needs.

    Examples
    --------
    >>> batches = AllocatedBatches(10, steps=5)
    >>> len(batches), batches.expected_batch_size
    (5, 2.0)
    >>> sorted(number for batch in batches for number in batch) == list(range(10))
    True
    >>> batches.epoch(noise_multiplier=1.0)
    RandomAllocation(Gaussian(1.0), steps=5)
    """

    def __init__(
        self, dataset_size: int, *, steps: int, participations: int = 1, repeats: int = 1, seed: int | None = None
    ) -> None:
        self.dataset_size = count("dataset_size", dataset_size, least=1)
        self.steps = count("steps", steps, least=1)
        self.participations = count("participations", participations, least=1, most=self.steps)
        self.repeats = count("repeats", repeats, least=1)
        self._generator = np.random.default_rng(seed)
        self._passes = 0
        self._batches: list[list[int]] = []

    def __len__(self) -> int:
        """The number of steps of a pass."""
        return self.steps

    def __iter__(self) -> Iterator[list[int]]:
        """One pass."""
        if self._passes % self.repeats == 0:
            allocated = allocate(
                self.dataset_size, steps=self.steps, participations=self.participations, generator=self._generator
            )
            self._batches = [batch.tolist() for batch in allocated]
        self._passes += 1
        return iter([list(batch) for batch in self._batches])

    @property
    def expected_batch_size(self) -> float:
        """Records of a step on average, by which the sum of a step may be divided."""
        return self.dataset_size * self.participations / self.steps

    def epoch(self, *, noise_multiplier: float, relation: str = "add-remove") -> RandomAllocation:
        """What one allocation costs, with all its repeats, if each step adds noise of this size."""
        return RandomAllocation(
            Gaussian(noise_multiplier),
            steps=self.steps,
            participations=self.participations,
            repeats=self.repeats,
            relation=relation,
        )
