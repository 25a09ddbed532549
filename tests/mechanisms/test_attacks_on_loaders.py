"""Attackers who know both data sets and choose the second step's gradients by the first output, against upper ends.

Two steps of one number each: the likelihood of both outputs is a sum over what the loader may have drawn, exactly. Its
integrals are sums over a grid, which are good to `GRID_ERROR` of the largest of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from dprounds import FixedSizeSampled, Gaussian, PoissonSampled, RandomAllocation, Shuffled, TruncatedPoissonSampled
from dprounds.mechanisms import Run

Array = NDArray[np.float64]
# What a round sees of the sum in the first step, and in the second one given the first output, with its probability.
Draw = tuple[float, float, Array]
GRID_ERROR = 1e-4
EPSILONS = (0.0, 0.4, 1.2)
SIGMA = 1.4
GRID = np.linspace(-3.0 - 6.0 * SIGMA, 3.0 + 6.0 * SIGMA, 301)


def density(draws: list[Draw]) -> Array:
    """The density of both outputs: the first along the first axis."""
    scale = SIGMA * math.sqrt(math.tau)
    total = np.zeros((GRID.size, GRID.size))
    for chance, first, second in draws:
        one = np.exp(-0.5 * ((GRID - first) / SIGMA) ** 2) / scale
        two = np.exp(-0.5 * ((GRID[None, :] - second[:, None]) / SIGMA) ** 2) / scale
        total += chance * one[:, None] * two
    return total


def reached(p: Array, q: Array, epsilon: float) -> float:
    """The larger delta of both orders."""
    cell = float(GRID[1] - GRID[0]) ** 2
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum()) * cell for a, b in ((p, q), (q, p)))


def rules() -> Iterator[Array]:
    """Gradients of the second step as functions of the first output: both signs, and either side of a threshold."""
    yield np.ones_like(GRID)
    yield -np.ones_like(GRID)
    for threshold in (0.0, 0.8):
        yield np.where(threshold > GRID, 1.0, -1.0)
        yield np.where(threshold > GRID, -1.0, 1.0)


NOTHING = np.zeros_like(GRID)


def allocation(group: int) -> Iterator[tuple[list[Draw], list[Draw]]]:
    """Records of a person and one other record, each put into one of two steps."""
    for mine, other in itertools.product(itertools.combinations_with_replacement(list(rules()), group), (0.0, -1.0)):
        with_it: list[Draw] = []
        without: list[Draw] = []
        for place in range(2):  # of the other record, whose gradient does not look
            rest = (other, NOTHING) if place == 0 else (0.0, other + NOTHING)
            without.append((0.5, *rest))
            for places in itertools.product(range(2), repeat=group):
                first = rest[0] + places.count(0)
                second = rest[1] + sum((g for at, g in zip(places, mine, strict=True) if at), NOTHING)
                with_it.append((0.5 / 2**group, first, second))
        yield with_it, without


def poisson_group() -> Iterator[tuple[list[Draw], list[Draw]]]:
    """Two records of one person, sampled in each of two rounds by themselves."""
    q = 0.4
    for one, other in itertools.combinations_with_replacement(list(rules()), 2):
        with_it = [
            (
                math.prod(q if coin else 1 - q for coin in coins),
                float(coins[0] + coins[1]),
                coins[2] * one + coins[3] * other,
            )
            for coins in itertools.product((0, 1), repeat=4)
        ]
        yield with_it, [(1.0, 0.0, NOTHING)]


def fixed_size(after: float) -> Iterator[tuple[list[Draw], list[Draw]]]:
    """One of three records a round; the first is 1, or `after` if it is replaced; the others move against it."""
    for others, mine in itertools.product(rules(), (1.0, -1.0)):
        worlds = []
        for gradient in (1.0, after):
            draws: list[Draw] = []
            for first, second in itertools.product(range(3), repeat=2):
                one = gradient if first == 0 else -1.0
                two = gradient * mine + NOTHING if second == 0 else others
                draws.append((1 / 9, one, two))
            worlds.append(draws)
        yield worlds[0], worlds[1]


def shuffled(after: float) -> Iterator[tuple[list[Draw], list[Draw]]]:
    """Two records in two batches; the first is 1, or `after` if it is replaced."""
    for mine, other in itertools.product(rules(), repeat=2):
        yield tuple(  # type: ignore[misc]  # two lists
            [(0.5, gradient, other), (0.5, -1.0, gradient * mine)] for gradient in (1.0, after)
        )


def truncated(after: float | None) -> Iterator[tuple[list[Draw], list[Draw]]]:
    """At most one of three records a round, each drawn with chance 0.6; the first is 1, or absent, or `after`."""
    rate = 0.6

    def kept(records: int) -> list[tuple[float, int | None]]:
        """Which record is in the batch, if any, and how likely that is."""
        chances: dict[int | None, float] = {}
        for drawn in itertools.product((0, 1), repeat=records):
            chance = math.prod(rate if one else 1 - rate for one in drawn)
            batch: list[int | None] = [i for i, one in enumerate(drawn) if one]
            for one in batch or [None]:
                chances[one] = chances.get(one, 0.0) + chance / max(len(batch), 1)
        return [(chance, one) for one, chance in chances.items()]

    for others, mine in itertools.product([NOTHING, *rules()], (1.0, -1.0)):
        first_of_others = 0.0 if others is NOTHING else -1.0
        worlds = []
        for gradient in (1.0, after):
            present = gradient is not None
            draws: list[Draw] = []
            for (p, first), (q, second) in itertools.product(kept(3 if present else 2), repeat=2):
                at = [each if present or each is None else each + 1 for each in (first, second)]
                one = 0.0 if at[0] is None else (gradient or 0.0) if at[0] == 0 else first_of_others
                two = NOTHING if at[1] is None else (gradient or 0.0) * mine + NOTHING if at[1] == 0 else others
                draws.append((p * q, one, two))
            worlds.append(draws)
        yield worlds[0], worlds[1]


Attacks = Callable[[], Iterator[tuple[list[Draw], list[Draw]]]]
CASES: dict[str, tuple[Run, Attacks, float]] = {
    # the run, the attacks, and what part of the bound the best of them reaches: weak attacks would test nothing
    "allocation": (RandomAllocation(Gaussian(SIGMA), 2) * 1, lambda: allocation(1), 0.999),
    "allocation of a group": (RandomAllocation(Gaussian(SIGMA), 2, group_size=2) * 1, lambda: allocation(2), 0.8),
    "group": (PoissonSampled(Gaussian(SIGMA), 0.4, group_size=2) * 2, poisson_group, 0.999),
    "fixed size, replaced": (FixedSizeSampled(Gaussian(SIGMA), 1, 3) * 2, lambda: fixed_size(-1.0), 0.9),
    "fixed size, emptied": (
        FixedSizeSampled(Gaussian(SIGMA), 1, 3, relation="zero-out") * 2,
        lambda: fixed_size(0.0),
        0.6,
    ),
    "truncated": (TruncatedPoissonSampled(Gaussian(SIGMA), 0.6, 1, 3) * 2, lambda: truncated(None), 0.5),
    "truncated, replaced": (
        TruncatedPoissonSampled(Gaussian(SIGMA), 0.6, 1, 3, relation="replace-one") * 2,
        lambda: truncated(-1.0),
        0.5,
    ),
    "truncated, emptied": (
        TruncatedPoissonSampled(Gaussian(SIGMA), 0.6, 1, 3, relation="zero-out") * 2,
        lambda: truncated(0.0),
        0.5,
    ),
    "shuffled, replaced": (Shuffled(Gaussian(SIGMA), 2, relation="replace-one") * 1, lambda: shuffled(-1.0), 0.5),
    "shuffled, emptied": (Shuffled(Gaussian(SIGMA), 2) * 1, lambda: shuffled(0.0), 0.5),
}


@pytest.mark.parametrize("name", CASES)
def test_no_attacker_who_looks_passes_the_upper_end(name: str) -> None:
    run, attacks, least_part = CASES[name]
    bounds = [run.delta(epsilon=epsilon) for epsilon in EPSILONS]
    best = [0.0] * len(EPSILONS)
    for with_it, without in attacks():
        p, q = density(with_it), density(without)
        best = [max(most, reached(p, q, epsilon)) for most, epsilon in zip(best, EPSILONS, strict=True)]
    for bound, most in zip(bounds, best, strict=True):
        assert most <= bound + GRID_ERROR * bounds[0]
    assert best[0] >= least_part * bounds[0]
