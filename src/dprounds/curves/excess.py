"""The excess of the total noise over the floor, over epochs, for several batch sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dprounds import _validate
from dprounds.planning.frontier_rows import Planner
from dprounds.planning.loaders import batches_per_epoch
from dprounds.planning.trends import Trends

__all__ = ["ExcessCurve", "compared_sizes", "excess_over_epochs"]

Array = NDArray[np.float64]
LAST_EPOCH = _validate.Interval.parse("(0, 1e12]")
# The curves reach this many times as far as the epochs in question, and down to this part of them.
FURTHER, LEAST_PART = 2.5, 0.15
# Fewer epochs than this are one round too.
LEAST_EPOCHS = 1e-300


# Of a picture: each point of a curve takes a search for noise.
MOST_SIZES = 4


def compared_sizes(known: Sequence[int], chosen: Sequence[int]) -> list[int]:
    """A few batch sizes for one picture: the chosen ones, and others of the known ones at equal distances.

    None is far below the chosen ones, so that the lines can be distinguished.

    Examples
    --------
    >>> compared_sizes([16, 32, 64, 128, 256, 512, 1024, 2048, 4000], [64, 256])
    [16, 64, 256, 1024]
    """
    sizes = set(chosen)
    others = [size for size in known if 4 * size >= min(sizes, default=size)]
    for size in others[:: max(len(others) // MOST_SIZES, 1)]:
        if len(sizes) < MOST_SIZES:
            sizes.add(size)
    return sorted(sizes)


@dataclass(frozen=True, kw_only=True, eq=False)
class ExcessCurve:
    """For each batch size the epochs of its points, whole rounds each, and the excess at them."""

    dataset_size: int
    epsilon: float
    delta: float
    sampling: str
    epochs: dict[int, Array]
    excess: dict[int, Array]

    def to_rows(self) -> list[dict[str, float | int | str]]:
        """A row for each point, as JSON holds it."""
        return [
            {"method": "exact", "batch_size": size, "epochs": float(epochs), "excess": float(excess)}
            for size in self.epochs
            for epochs, excess in zip(self.epochs[size], self.excess[size], strict=True)
        ]


def excess_over_epochs(
    dataset_size: int,
    *,
    epsilon: float,
    delta: float,
    batch_sizes: Sequence[int],
    epochs: float,
    sampling: str = "poisson",
    points: int = 12,
) -> ExcessCurve:
    """The excess at each batch size, at `points` lengths from a seventh of `epochs` to two and a half times as many.

    Guarantee
    ---------
    Raises, or returns points each of which is the excess of a noise multiplier that keeps the budget.
    """
    planner = Planner.of(dataset_size, epsilon, delta, sampling)
    last = _validate.real("epochs", epochs, LAST_EPOCH)
    first, further = max(LEAST_PART * last, LEAST_EPOCHS), max(FURTHER * last, LEAST_EPOCHS)
    wanted = np.geomspace(first, further, _validate.count("points", points, least=2))
    at: dict[int, Array] = {}
    excess: dict[int, Array] = {}
    for size in planner.sizes(batch_sizes):
        batches = batches_per_epoch(size, planner.dataset_size)
        # whole epochs, where a loader has no others
        unit = batches if planner.loader.is_by_epochs else 1
        rounds = sorted({max(math.ceil(each * batches / unit), 1) * unit for each in wanted.tolist()}, reverse=True)
        trends = Trends()
        known = [planner.row(size, length, trends, with_renyi=False) for length in rounds]
        at[size] = np.array([row.epochs for row in reversed(known)])
        excess[size] = np.array([max(row.excess, 0.0) for row in reversed(known)])
    return ExcessCurve(
        dataset_size=planner.dataset_size,
        epsilon=planner.epsilon,
        delta=planner.delta,
        sampling=planner.loader.name,
        epochs=at,
        excess=excess,
    )
