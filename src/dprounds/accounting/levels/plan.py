"""What a levelled line is made from: steps, lines, blocks of nodes, and the places at which errors are bounded.

A plan proves nothing, and whatever it says, the line that is made from it proves its own brackets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.levels.steps import Step
from dprounds.accounting.turnable import Turnable

__all__ = ["Block", "LevelPlan", "Plan", "forward_power"]

Array = NDArray[np.float64]


def forward_power(pair: Turnable, z: Array) -> Array:
    """The p with E_P[e^(zL)] = E_N[w^p]."""
    return z + 1.0 if pair.mixture_first else -z


class Block(NamedTuple):
    """Nodes `first` to `end - 1` of a line, summed over v turned by `angle`; `strip` bounds the quadrature."""

    first: int
    end: int
    angle: float
    strip: float


class LevelPlan(NamedTuple):
    """One level: its steps, its line, and the places at which its errors are bounded.

    `above` and `below` are points r of the axis for the aliases; `knows_below` says that those below are subtracted,
    and `below` then bounds what is left of them. `angles` are tried for the ceiling, until its logarithm is `enough`.
    The grid of v reaches from `ends` to `ends` by `step_of_v`.
    """

    low: Step | None
    high: Step | None
    t: float
    step: float
    blocks: tuple[Block, ...]
    above: Array
    below: Array
    knows_below: bool
    angles: tuple[float, ...]
    enough: float
    ends: tuple[float, float]
    step_of_v: float


class Plan(NamedTuple):
    """Levels from the lowest to the highest, and points r at which runs outside of them are bounded.

    `ends` and `step_of_v` are those of the grid for these bounds, and `strip` that of all bounds on real v.
    """

    levels: tuple[LevelPlan, ...]
    high_points: Array
    low_points: Array
    ends: tuple[float, float]
    step_of_v: float
    strip: float
