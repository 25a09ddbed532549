"""The run that a loader makes of a noise, a batch size and a number of rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dprounds.mechanisms import FixedSizeSampled, Gaussian, PoissonSampled, RandomAllocation, Run, Shuffled
from dprounds.mechanisms.base import Mechanism

__all__ = ["LOADERS", "Loader", "batches_per_epoch"]


@dataclass(frozen=True)
class Loader:
    """How batches are chosen: what one step of it is, and whether that is a whole epoch.

    Where it `is_by_integrals`, an integral of a profile may prove less than the profile, and lines do not tell epsilon.
    """

    name: str
    step: Callable[[float, int, int], Mechanism]  # of a noise multiplier, a batch size and the records in all
    is_by_epochs: bool = False
    is_by_integrals: bool = False

    def run(self, noise_multiplier: float, batch_size: int, dataset_size: int, rounds: int) -> Run:
        """So many rounds of Gaussian noise; where a step is an epoch, the last epoch is counted whole."""
        step = self.step(noise_multiplier, batch_size, dataset_size)
        return step * (-(-rounds // batches_per_epoch(batch_size, dataset_size)) if self.is_by_epochs else rounds)

    def records_per_round(self, batch_size: int, dataset_size: int) -> Fraction:
        """How many records a round sees on average; where all records are dealt out, the last batch may be smaller."""
        if not self.is_by_epochs:
            return Fraction(batch_size)
        return Fraction(dataset_size, batches_per_epoch(batch_size, dataset_size))


def batches_per_epoch(batch_size: int, dataset_size: int) -> int:
    """How many batches hold all records once, the last perhaps not full."""
    return -(-dataset_size // batch_size)


LOADERS = {
    loader.name: loader
    for loader in (
        Loader("poisson", lambda noise, batch, records: PoissonSampled(Gaussian(noise), batch / records)),
        Loader(
            "allocation",
            lambda noise, batch, records: RandomAllocation(Gaussian(noise), batches_per_epoch(batch, records)),
            is_by_epochs=True,
        ),
        Loader(
            "fixed-size",
            lambda noise, batch, records: FixedSizeSampled(Gaussian(noise), batch, records),
            is_by_integrals=True,
        ),
        Loader(
            "shuffled",
            lambda noise, batch, records: Shuffled(Gaussian(noise), batches_per_epoch(batch, records)),
            is_by_epochs=True,
        ),
        Loader("none", lambda noise, batch, records: Gaussian(noise)),  # a batch is all records
    )
}
