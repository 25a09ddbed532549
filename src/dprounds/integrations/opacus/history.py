"""Lines of Opacus's history, ``(noise_multiplier, sample_rate, num_steps)``: checked, and as releases."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from dprounds import _validate
from dprounds.errors import ParameterError
from dprounds.mechanisms import Gaussian, PoissonSampled, Shuffled
from dprounds.mechanisms.base import ADD_REMOVE, REPLACE_ONE, Run

__all__ = [
    "ANY",
    "ONE",
    "READINGS",
    "ROUNDING",
    "SEPARATE",
    "Line",
    "checked_history",
    "checked_line",
    "drawn_rate",
    "holds",
    "line_of_passes",
    "merged",
    "one_step",
]

Line: TypeAlias = tuple[float, float, int]

# What several backward() before one step may be passes over: see `line_of_passes`.
SEPARATE, ONE, ANY = READINGS = ("separate batches", "one batch", "any batches")

# Opacus switches privacy off by a noise of zero. That is allowed, at an epsilon of infinity.
NOISE = _validate.Interval.parse("[0, inf)")
LARGEST_NOISE = float(np.finfo(np.float64).max)
# More than the relative error of four roundings: a root or a logarithm, two products and a quotient.
ROUNDING = 2.0**-50
# In single precision, PyTorch draws multiples of one over this.
DRAWS_PER_UNIT = 2.0**24


def checked_line(noise: Any, rate: Any, steps: Any) -> Line:  # noqa: ANN401  (a checkpoint holds anything)
    """A line of the history, every number inside its range."""
    # nearly every line passes this test, which is faster than the checks below
    if (
        (isinstance(noise, float) or type(noise) is int)
        and isinstance(rate, float)
        and type(steps) is int
        and 0.0 <= noise <= LARGEST_NOISE
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
    """Whether the steps of `shorter`, by their numbers, are the first ones of `longer`."""
    longer, shorter = merged(longer), merged(shorter)
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


def merged(history: list[Line]) -> list[Line]:
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

    The sampler asks whether ``torch.rand`` is below the rate. PyTorch draws multiples of 2^-24 in single precision, and
    rounds the rate to that type too. So the record is drawn with the least multiple that is not below the rounded rate.
    """
    return max(rate, math.ceil(float(np.float32(rate)) * DRAWS_PER_UNIT) / DRAWS_PER_UNIT)


@lru_cache(maxsize=4096)  # a schedule looks the same steps up again and again
def one_step(noise: float, rate: float, relation: str = ADD_REMOVE, batches: int = 0) -> Run:
    """One step. At rate 1 it is a plain Gaussian, whose two directions are equal; at rate 0 the batch is empty.

    It costs the same for add-remove and for zero-out. With `batches`, a step at rate 1 is a pass over a loader that
    shuffles the records among so many of them.
    """
    if rate == 0:
        return Run()
    rate = drawn_rate(rate)
    if rate < 1:
        return PoissonSampled(Gaussian(noise), rate, relation=relation) * 1
    if batches:
        return Shuffled(Gaussian(noise), batches, relation) * 1
    return Gaussian(0.5 * noise if relation == REPLACE_ONE else noise) * 1


def line_of_passes(noise: float, rate: float, passes: int, over: str) -> Line:
    r"""The line that bounds a step whose sum holds k = `passes` clipped gradients of each record that was drawn.

    Noise of :math:`s` clipping norms is added once to the sum over k calls of ``backward``.

    *Over separate batches*, each a Poisson sample of its own at rate q: k releases of noise :math:`s/\sqrt{k}`. Normal
    noise of deviation s is the sum of k independent ones of :math:`s/\sqrt{k}`, so the step is computed from those
    releases. (One release at rate kq would cost too little: a record may be in several of the batches.)

    *Over one batch*: one release of noise s/k at rate q, since a record that was drawn moves the sum by up to k norms.

    *Over any batches*, of which nothing is known but that each is a Poisson sample: one release of noise s/k at the
    rate :math:`r = 1 - (1 - q)^k`. Proof. Fix a record, what was released before, and the draws of all other records,
    of which its own are independent. Its clipped gradients add up to a vector v of at most k norms, which is not zero
    only if one of at most k batches holds the record, so with probability at most r. Without the record the sum is
    :math:`N(m, s^2)`; with it, it is a mixture over v of :math:`(1 - r) N(m, s^2) + r N(m + v, s^2)`. The hockey-stick
    divergence is jointly convex, so to either side it is at most that of the worst v, and of the largest norm: the
    sampled Gaussian of noise s/k at rate r. This bounds the other two readings as well, and neither of those bounds
    the other: separate batches are worse at small epsilon, one batch at large epsilon.

    Rounded to the safe side: noise down, rate up.
    """
    if passes == 1:
        return checked_line(noise, rate, 1)
    noise, rate, _ = checked_line(noise, rate, 1)
    if over == SEPARATE:
        return noise / math.sqrt(passes) * (1.0 - ROUNDING), rate, passes
    if over == ANY and 0.0 < rate < 1.0:
        drawn = drawn_rate(rate)
        rate = 1.0 if drawn == 1.0 else min(-math.expm1(passes * math.log1p(-drawn)) * (1.0 + ROUNDING), 1.0)
    return noise / passes * (1.0 - ROUNDING), rate, 1
