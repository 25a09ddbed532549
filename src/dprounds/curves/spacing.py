"""Where a curve is computed: close enough that straight lines between its points are the curve to the eye."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["deltas_to_draw", "rounds_to_draw", "some_rounds"]

Array = NDArray[np.float64]

# Epsilon grows about as the root of the rounds, whose chords all miss it by as much between third to fourth powers. Of
# these two the lower leaves more points where methods differ.
POWER = 3.0
# One point in this number goes between the first two powers, so that a curve of millions of rounds shows how it begins.
AT_THE_START = 6
# Deltas above this are spaced by their distance from 1, where the Rényi divergence has its pole.
MIDDLE = 0.5


def rounds_to_draw(last: int, points: int) -> NDArray[np.int64]:
    """At most `points` increasing numbers of rounds from 1 to `last`, denser at the start; all of them if so few.

    Examples
    --------
    >>> rounds_to_draw(4, 10).tolist(), rounds_to_draw(1000, 6).tolist()
    ([1, 2, 3, 4], [1, 4, 17, 126, 422, 1000])
    """
    if last <= points:
        return np.arange(1, last + 1, dtype=np.int64)
    early = points // AT_THE_START
    steps = points - early
    rounds = _powers(last, steps, early)
    # powers below one round fall together: as many more as there is room for
    while (finer := _powers(last, steps + 1, early)).size <= points and steps < 8 * points:
        rounds, steps = finer, steps + 1
    return rounds


def _powers(last: int, steps: int, early: int) -> NDArray[np.int64]:
    late = 1.0 + (last - 1.0) * np.linspace(0.0, 1.0, steps) ** POWER
    begin = np.geomspace(1.0, late[1], early + 2)[1:-1]
    return np.unique(np.rint(np.append(begin, late)).astype(np.int64))


def some_rounds(rounds: Sequence[int], most: int) -> set[int]:
    """At most `most` of increasing numbers of rounds, from the first to the last, as dense at the start as a curve.

    Examples
    --------
    >>> sorted(some_rounds(range(1, 101), 5))
    [1, 7, 22, 52, 100]
    """
    if most >= len(rounds):
        return set(rounds)
    if most < 2:
        return set(rounds[-1:]) if most else set()
    roots = np.cbrt(np.asarray(rounds, dtype=np.float64))
    wanted = np.linspace(roots[0], roots[-1], most)
    return {rounds[int(np.abs(roots - root).argmin())] for root in wanted}


def deltas_to_draw(first: float, last: float, points: int) -> Array:
    """`points` increasing deltas from `first`, which may be 0, to `last`, denser towards both 0 and 1.

    Towards 0 they are third powers, or even in their logarithm if `first` is above 0; towards 1 they are even in the
    logarithm of the distance, since the Rényi divergence grows as that.
    """
    if points == 2:
        return np.array([first, last])
    low = min(last, MIDDLE)
    below = points if last <= MIDDLE else points // 2 + 1
    lower = np.geomspace(first, low, below) if first > 0 else low * np.linspace(0.0, 1.0, below) ** 3
    upper = 1.0 - np.geomspace(1.0 - low, 1.0 - last, points - below + 1)[1:]
    return np.concatenate([lower, upper])
