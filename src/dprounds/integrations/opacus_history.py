"""Lines of Opacus's history, ``(noise_multiplier, sample_rate, num_steps)``: checked, and as releases."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from dprounds import _validate
from dprounds.errors import ParameterError
from dprounds.mechanisms import Gaussian, PoissonSampled
from dprounds.mechanisms.composition import Run

__all__ = ["Line", "checked_history", "checked_line", "drawn_rate", "holds", "one_step", "shared_noise"]

Line: TypeAlias = tuple[float, float, int]

# No noise at all is Opacus's way to switch privacy off: allowed, at an epsilon of infinity.
NOISE = _validate.Interval.parse("[0, inf)")
MOST_NOISE = float(np.finfo(np.float64).max)
# More than a root, a quotient and a product round.
HAIR = 2.0**-50
# Single precision draws from multiples of one over this.
GRID = 2.0**24


def checked_line(noise: Any, rate: Any, steps: Any) -> Line:  # noqa: ANN401  (a checkpoint holds anything)
    """A line of the history, every number inside its range."""
    # what nearly every line holds, told in less time than the checks below take
    if (
        (isinstance(noise, float) or type(noise) is int)
        and isinstance(rate, float)
        and type(steps) is int
        and 0.0 <= noise <= MOST_NOISE
        and 0.0 <= rate <= 1.0
        and steps >= 0
    ):
        return float(noise), float(rate), steps
    return (
        _validate.real("noise_multiplier", noise, NOISE),
        _validate.real("sample_rate", rate, _validate.SAMPLING_RATE),
        _validate.count("num_steps", steps),
    )


def checked_history(history: Any) -> list[Line]:  # noqa: ANN401  (a checkpoint holds anything)
    """A history, every line of it checked."""
    try:
        lines = [(noise, rate, steps) for noise, rate, steps in history]
    except (TypeError, ValueError):
        raise ParameterError(
            "history must list (noise_multiplier, sample_rate, num_steps), got " + _validate.show(history) + "."
        ) from None
    return [checked_line(*line) for line in lines]


def holds(longer: list[Line], shorter: list[Line]) -> bool:
    """Whether a training that left `shorter` may have gone on to leave `longer`."""
    longer, shorter = _merged(longer), _merged(shorter)
    if not shorter:
        return True
    *before, (noise, rate, steps) = shorter
    place = len(before)
    return (
        longer[:place] == before
        and place < len(longer)
        and longer[place][:2] == (noise, rate)
        and longer[place][2] >= steps
    )


def _merged(history: list[Line]) -> list[Line]:
    """The history, equal neighbours as one line and no line of no steps."""
    lines: list[Line] = []
    for noise, rate, steps in history:
        if lines and lines[-1][:2] == (noise, rate):
            lines[-1] = (noise, rate, lines[-1][2] + steps)
        elif steps:
            lines.append((noise, rate, steps))
    return lines


def drawn_rate(rate: float) -> float:
    """The probability with which Opacus's sampler draws a record for `rate`, or `rate` if that is more.

    It asks whether ``torch.rand`` is below the rate. PyTorch draws multiples of 2^-24 in single precision, and rounds
    the rate to that too. So the record is drawn with the least multiple that is not below the rounded rate.
    """
    return max(rate, math.ceil(float(np.float32(rate)) * GRID) / GRID)


@lru_cache(maxsize=4096)  # a schedule's steps are asked for again and again
def one_step(noise: float, rate: float) -> Run:
    """One step. At rate 1 nothing is sampled, and one direction answers for both; at rate 0 nobody is in the batch."""
    if rate == 0:
        return Run()
    rate = drawn_rate(rate)
    return (Gaussian(noise) if rate == 1 else PoissonSampled(Gaussian(noise), rate)) * 1


def shared_noise(noise_multiplier: float, batches: int) -> float:
    r"""The noise of each of `batches` batches whose gradients are summed before noise is added once.

    Normal noise of deviation s is the sum of k independent ones of :math:`s/\sqrt{k}`, so that the step tells no more
    than k releases with that noise on one batch each. (A single release at k times the rate would be too little: a
    record may be in several of the batches.) Rounded down.
    """
    return noise_multiplier if batches == 1 else noise_multiplier / math.sqrt(batches) * (1.0 - HAIR)
