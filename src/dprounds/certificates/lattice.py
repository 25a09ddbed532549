"""Evidence for few rounds of Gaussians, sampled or not: a lattice of losses, where no line ends.

Nothing here needs to be right, as for lines.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dprounds.accounting.profile import Profile
from dprounds.errors import NumericalError
from dprounds.mechanisms import Run

__all__ = ["Upper", "largest_losses", "lattice_near", "one_point"]

# All of these tune speed and how often a check succeeds.
# By how much of itself delta may be raised, where epsilon is then raised by as much of itself at most; and where it
# would take too long, at most how many times that.
LOG_EXCESS = 4e-7
MOST_EXCESS = 1e4
# The model of the excess, a spread over cells of one step, is right to a third.
CAREFUL = 1.5
# The slope of log delta is taken over this part of epsilon.
NEAR = 0.01
# What losses that are too large to be kept may add to delta, as a part of it; and what rounding down may.
NEGLIGIBLE, ROUNDED_DOWN = 1e-9, 1e-9
# A direction whose delta is so much smaller than what is claimed may be bounded coarsely.
MUCH_SMALLER = math.exp(-4.0)
# Points of a grid until its stride doubles, beyond twice epsilon, where a spread costs nothing.
DOUBLING = 64
# How many deviations of all rounds together lie around twice epsilon and below 0.
BODY = 12.0
# A part of what the checker allows, and its prices.
MOST_WORK, MOST_POINTS, MASS, POINT = 9_000_000, 2**19 - 1, 100, 5


class Upper(NamedTuple):
    """Evidence for one direction, and by how much log delta of its bound exceeds the truth, about."""

    evidence: dict[str, Any] | None
    log_excess: float = 0.0
    epsilon_excess: float = 0.0


class _Part(NamedTuple):
    sigma: float
    rate: float
    rounds: int
    lowest: float  # the least loss of a round, or what may be taken for it
    largest: float  # the largest, or what may be taken for it


def _gaussian(mechanism: Any) -> tuple[float, float]:  # noqa: ANN401  (a Gaussian, or one that is sampled)
    return getattr(mechanism, "mechanism", mechanism).noise_multiplier, getattr(mechanism, "sampling_rate", 1.0)


def one_point(epsilon: float, delta: float) -> Upper:
    """Of one round: delta itself, in closed form."""
    grid = {"first": 1 if epsilon else 0, "fine": 0, "doubling": 1, "nodes": 1}
    bits = math.ceil(-math.log2(delta)) + 64
    return Upper({"precision": bits, "step": repr(epsilon or 1.0), "points": 1, "grids": [grid]})


def largest_losses(run: Run, direction: str, epsilon: float, delta: float) -> Upper:
    """Every loss at the largest one of its round, where all of these together do not exceed epsilon."""
    losses = [part.max_loss(direction) for part in run.mechanisms]
    rounds = [rounds for _, rounds in run.parts]
    spare = epsilon - sum(loss * count for loss, count in zip(losses, rounds, strict=True))
    step = float(f"{min(spare / (2.0 * sum(rounds)), *losses):.3g}")
    if not step * 1e9 > max(losses):
        raise NumericalError("The largest loss of this run is too close to epsilon for a certificate.")
    grids = [{"first": math.ceil(loss / step) + 1, "fine": 0, "doubling": 1, "nodes": 1} for loss in losses]
    bits = math.ceil(math.log2(sum(rounds) / delta)) + 64
    return Upper({"precision": bits, "step": repr(step), "points": 1, "grids": grids})


def lattice_near(run: Run, direction: str, epsilon: float, delta: float, effort: int) -> Upper:
    """A lattice whose bound exceeds delta by a millionth of itself or less, if that does not take too long."""
    profile = Profile({direction: run.law(direction)})
    gaussians = [(*_gaussian(mechanism), rounds) for mechanism, rounds in run.parts]
    variance = sum(rounds * rate**2 * math.expm1(min(sigma**-2, 50.0)) for sigma, rate, rounds in gaussians)
    scale = epsilon or math.sqrt(variance)
    here, beyond = profile.delta(epsilon).upper, profile.delta(epsilon + NEAR * scale).upper
    slope = max(math.log(here / beyond) / (NEAR * scale), 1e-3 / scale) if beyond > 0.0 else 1.0 / scale
    excess = LOG_EXCESS * min(1.0, slope * scale) / 4.0**effort
    if here < MUCH_SMALLER * delta:
        excess = 0.5 * math.log(delta / max(here, 1e-300))
    ends = [_ends(run, number, direction, epsilon, delta) for number in range(len(gaussians))]
    products = sum(2 * rounds.bit_length() + 1 for *_, rounds in gaussians)
    while True:
        step = float(f"{math.sqrt(12.0 * excess / (run.rounds * slope * (slope + 1.0))):.4g}")
        made = _on_step(gaussians, ends, step, epsilon, delta, math.sqrt(variance))
        work = MASS * sum(grid["nodes"] for grid in made["grids"]) + POINT * made["points"] * products
        if work <= MOST_WORK and made["points"] <= MOST_POINTS:
            return Upper(made, CAREFUL * excess, CAREFUL * excess / slope)
        excess *= 1.5
        if excess > MOST_EXCESS * LOG_EXCESS:
            raise NumericalError("The certificate of this run would take too long to check.")


def _ends(run: Run, number: int, direction: str, epsilon: float, delta: float) -> tuple[float, float]:
    """The losses of one round between which a part needs points."""
    mechanism, _ = run.parts[number]
    largest = run.law(direction).max_loss
    if largest < math.inf:
        # with a lower loss of one round all together do not exceed epsilon
        own = mechanism.max_loss(direction)
        return epsilon - (largest - own), own
    lowest = (
        -mechanism.max_loss("add") if mechanism.max_loss("add") < math.inf else -_tail(mechanism, delta / run.rounds)
    )
    return lowest, _tail(mechanism, delta / run.rounds)


def _tail(mechanism: Any, delta: float) -> float:  # noqa: ANN401  (a mechanism that answers)
    """A loss beyond which nothing of a round needs to be known."""
    return float((mechanism * 1).epsilon(delta=max(delta * NEGLIGIBLE, 1e-290)))


def _on_step(
    gaussians: list[tuple[float, float, int]],
    ends: list[tuple[float, float]],
    step: float,
    epsilon: float,
    delta: float,
    deviation: float,
) -> dict[str, Any]:
    grids, low, high, rounds = [], 0.0, epsilon, 0
    for (_, _, count), (lowest, largest) in zip(gaussians, ends, strict=True):
        first = math.floor(lowest / step)
        fine = math.ceil(min(largest, 2.0 * max(epsilon, 0.0) + BODY * deviation) / step) - first
        nodes, last = fine + 1, first + fine
        stride = 1
        while last * step < largest:
            nodes, last, stride = nodes + DOUBLING, last + DOUBLING * stride, 2 * stride
        grids.append({"first": first, "fine": fine, "doubling": DOUBLING, "nodes": nodes})
        low, rounds = low + count * first * step, rounds + count
        high = max(high, epsilon + max(last * step, BODY * deviation))
    low = max(low, -BODY * deviation - deviation**2)
    points = math.ceil((high - low) / step) + 2
    nodes = sum(grid["nodes"] for grid in grids)
    bits = math.ceil(math.log2((nodes / min(step, 1.0) + points) * rounds / (ROUNDED_DOWN * delta))) + 8
    return {"precision": bits, "step": repr(step), "points": points, "grids": grids}
