"""The fewest epochs at which each batch size is near the floor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from dprounds.numerics.search import largest_integer
from dprounds.planning.frontier_rows import Planner
from dprounds.planning.loaders import batches_per_epoch

__all__ = ["epochs_within"]

# Nobody trains longer than this many epochs.
MOST_EPOCHS = 10**5
# The noise at which a sampled Gaussian is about a tenth above the floor, where the search for epochs begins.
NOISE_AT_TENTH = 1.7
# With about this power of one over the epochs the logarithm of the allowance of delta nears its limit. Where the ratio
# of what it lacks to the limit is this near to one, in logarithms, the power of the next batch size is right to the
# first part, and that of a secant to the second.
POWER = 0.9
NEAR_ALLOWANCE = 0.15
POWER_ERROR = 0.4
SECANT_ERROR = 0.3
# About the power of the epochs with which the allowance grows near the answer.
GROWTH = 1.8
# From one batch size to the next that noise changes by about this part of its last change, in logarithms, at first and
# at least.
FIRST_SLOWING = 0.7
LEAST_SLOWING = 0.3
# Numbers of epochs that are tried by secants, before a slower search.
MOST_SECANTS = 6
# No step is longer, in logarithms of the epochs; and what stands for a delta of nothing.
LONGEST = 5.0
TINY = 1e-300
# The largest number below one.
NOT_WITHIN = math.nextafter(1.0, 0.0)


def epochs_within(planner: Planner, sizes: Sequence[int], within: float) -> dict[int, int | None]:
    """The fewest whole epochs at which each batch size is within a part `within` of the floor.

    The noise that is just so far above the floor grows with the root of the rounds, and so the cost of the run falls
    with them: no noise need be sought.
    """
    found: dict[int, int | None] = {}
    # the noise of each batch size with which its fewest epochs are just enough, and by how much it changes
    noise, change, slowing, power = NOISE_AT_TENTH, 0.0, FIRST_SLOWING, POWER
    is_first = True
    # many epochs cost as much as one release of all records with their noise
    many = planner.loader.run((1.0 + within) * planner.floor_noise_multiplier, *2 * (planner.dataset_size,), 1)
    limit = math.log(planner.delta / max(many.delta(epsilon=planner.epsilon), TINY))
    for size in sorted(sizes, reverse=True):
        batches = batches_per_epoch(size, planner.dataset_size)
        records = float(planner.loader.records_per_round(size, planner.dataset_size))
        at_one = (1.0 + within) * planner.floor * records * math.sqrt(batches)  # the noise for one epoch

        @cache
        def allowance(epochs: int, size: int = size, batches: int = batches, at_one: float = at_one) -> float:
            """The budget's delta over that of the run: one and more where the run is within it."""
            if not epochs:
                return 0.0
            run = planner.loader.run(at_one * math.sqrt(epochs), size, planner.dataset_size, epochs * batches)
            reached = run.delta(epsilon=planner.epsilon)
            ratio = planner.delta / reached if reached else math.inf
            return max(ratio, 1.0) if reached <= planner.delta else min(ratio, NOT_WITHIN)

        guess = round(min(max((noise * math.exp(slowing * change) / at_one) ** 2, 1.0), MOST_EPOCHS))
        fewest = _fewest_by_secants(allowance, guess, limit, power)
        if fewest is None:
            last = largest_integer(allowance, NOT_WITHIN, guess=guess, most=MOST_EPOCHS, slope=GROWTH) or 0
            fewest = _Fewest(last + 1, last + 0.5, power)
        found[size] = fewest.epochs if fewest.epochs <= MOST_EPOCHS else None
        if 1 < fewest.crossing < MOST_EPOCHS:
            further = math.log(at_one * math.sqrt(fewest.crossing) / noise)
            slowing = min(max(further / change, LEAST_SLOWING), 1.0) if change else FIRST_SLOWING
            noise, change, power = noise * math.exp(further), 0.0 if is_first else further, fewest.power
            is_first = False
    return found


class _Fewest(NamedTuple):
    """The fewest epochs, where between whole numbers the allowance is about one, and the power of its approach."""

    epochs: int
    crossing: float
    power: float


def _fewest_by_secants(allowance: Callable[[int], float], guess: int, limit: float, power: float) -> _Fewest | None:
    """The fewest epochs that are within the allowance; None where a few values do not tell.

    What the logarithm of the allowance lacks to its limit falls about with a power of the epochs. So a value near one
    tells them if it leaves no other whole number, whatever the power is within its error.
    """
    n, error = guess, POWER_ERROR
    tried: dict[int, float] = {}
    before: tuple[int, float] | None = None
    for _ in range(MOST_SECANTS):
        value = allowance(n)
        if not 0 < value < math.inf or n >= MOST_EPOCHS:
            return None
        tried[n] = math.log(value)
        least = max([1, *(epochs + 1 for epochs, log in tried.items() if log < 0)])
        most = min([MOST_EPOCHS, *(epochs for epochs, log in tried.items() if log >= 0)])
        lacking = limit - tried[n]
        if least == most == 1:
            return _Fewest(1, 0.0, power)
        if not (lacking > 0 and limit > 0):
            return None
        off = math.log(lacking / limit)
        if before is not None:
            power = (before[1] - off) / math.log(n / before[0])
            if not power > 0:
                return None
            error = SECANT_ERROR if abs(before[1]) <= NEAR_ALLOWANCE else POWER_ERROR
        crossing = n * math.exp(min(off / power, LONGEST))
        if abs(off) <= NEAR_ALLOWANCE:
            ends = (n * math.exp(off / (power * part)) for part in (1.0 - error, 1.0 + error))
            first, last = sorted(math.ceil(end) for end in ends)
            if first == last and least <= first <= most:
                return _Fewest(first, crossing, power)
        if least == most:
            return _Fewest(most, crossing, power)
        before = n, off
        following = min(max(math.ceil(crossing), least), most)
        near = [epochs for epochs in (following, following - 1, following + 1) if epochs not in tried]
        n = next((epochs for epochs in near if least <= epochs <= most), 0)
        if not n:
            return None
    return None
