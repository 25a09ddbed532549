"""Evidence on a lattice of losses, where no line ends: few rounds of sampled Gaussians, and losses that have atoms.

Nothing here needs to be right, as for lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dprounds.accounting.profile import Profile
from dprounds.errors import NumericalError
from dprounds.mechanisms import Gaussian, Laplace, Run

__all__ = ["LESS_WORK", "MOST_WORK", "Upper", "largest_loss", "largest_losses", "lattice_near", "one_point"]

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
# Where delta is smaller than what is claimed, it may be raised by this part of the logarithm of their ratio.
SPARE = 0.4
# How many deviations of all rounds together are kept above.
BODY = 12.0
# Tilts at which the chance of a large sum is bounded.
TILTS = np.geomspace(1e-3, 1e4, 71)
# Parts of what the checker allows, where both directions need a lattice and where one does; and its prices.
LESS_WORK, MOST_WORK, MOST_POINTS, MASS = 5_500_000, 9_000_000, 2**19 - 1, 16
# A step is written in this many digits, or as a fraction whose terms have at most so many.
STEP_DIGITS, FRACTION_DIGITS = 4, 40


class Upper(NamedTuple):
    """Evidence for one direction, about how much its bound exceeds the truth, and the work of checking a lattice."""

    evidence: dict[str, Any] | None
    log_excess: float = 0.0
    epsilon_excess: float = 0.0
    work: float = 0.0


class _Part(NamedTuple):
    """A part of a run: losses of one round between which it needs points, and their variance, about."""

    rounds: int
    lowest: float | Fraction
    largest: float | Fraction
    variance: float
    sigma: float  # of a Gaussian, sampled or not; 0 for what has a largest loss
    rate: float


def largest_loss(mechanism: Any) -> Fraction | None:  # noqa: ANN401  (one that a certificate covers)
    """The largest loss of a round as the checker knows it, from the decimals of the claim; None if it has no end."""
    if isinstance(getattr(mechanism, "mechanism", mechanism), Gaussian):
        return None
    if isinstance(mechanism, Laplace):
        return 1 / Fraction(repr(mechanism.noise_multiplier))
    return Fraction(repr(mechanism.epsilon))


def one_point(epsilon: float, delta: float) -> Upper:
    """Of one round: delta itself, in closed form."""
    grid = {"first": 1 if epsilon else 0, "nodes": 1}
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
    grids = [{"first": math.ceil(loss / step) + 1, "nodes": 1} for loss in losses]
    bits = math.ceil(math.log2(sum(rounds) / delta)) + 64
    return Upper({"precision": bits, "step": repr(step), "points": 1, "grids": grids})


def lattice_near(run: Run, direction: str, epsilon: float, delta: float, most_work: float) -> Upper:
    """A lattice whose bound exceeds delta by a millionth of itself or less, if that does not take too long."""
    law = run.law(direction)
    profile = Profile({direction: law})
    parts = [_part(run, number, direction, epsilon, delta) for number in range(len(run.parts))]
    scale = epsilon or math.sqrt(sum(part.rounds * part.variance for part in parts))
    near = min(NEAR * scale, 0.5 * max(law.max_loss - epsilon, 0.0)) or NEAR * scale
    here, beyond = profile.delta(epsilon).upper, profile.delta(epsilon + near).upper
    slope = max(math.log(here / beyond) / near, 1e-3 / scale) if beyond > 0.0 else 1.0 / near
    excess = LOG_EXCESS * min(1.0, slope * scale)
    spare = math.log(delta / max(here, 1e-300))
    excess = max(excess, SPARE * spare)
    products = sum(2 * part.rounds.bit_length() + 1 for part in parts)
    losses = [loss for mechanism, _ in run.parts if (loss := largest_loss(mechanism)) is not None]
    with np.errstate(all="ignore"):  # a moment beyond the largest double bounds nothing
        highs = (epsilon + np.real(law.log_moment(TILTS)) - math.log(NEGLIGIBLE * delta)) / (TILTS + 1.0)
    high = max(float(np.nanmin(highs)), epsilon)
    while True:
        step, is_exact = _step(math.sqrt(12.0 * excess / (run.rounds * slope * (slope + 1.0))), losses, run)
        made = _on_step(parts, step, epsilon, delta, high)
        work = MASS * sum(grid["nodes"] for grid in made["grids"]) + made["points"] * products
        work *= 1.0 + made["precision"] / 128.0
        if work <= most_work and made["points"] <= MOST_POINTS:
            raised = 0.0 if is_exact else max(CAREFUL * excess - spare, 0.0)
            return Upper(made, raised, raised / slope, work)
        excess *= 1.5
        if is_exact or excess > MOST_EXCESS * LOG_EXCESS:
            raise NumericalError("The certificate of this run would take too long to check.")


def _step(most: float, losses: list[Fraction], run: Run) -> tuple[Fraction, bool]:
    """A step of about that length of which the largest losses are multiples, if one can be written.

    And whether it is exact: where losses have no others than these and their opposites, none has to be moved.
    """
    short = Fraction(f"{most:.{STEP_DIGITS}g}")
    common = Fraction(0)
    for loss in losses:
        common = Fraction(
            math.gcd(common.numerator * loss.denominator, loss.numerator * common.denominator),
            common.denominator * loss.denominator,
        )
    if not common or common < short:
        return short, False
    two_valued = len(losses) == len(run.parts) and not any(isinstance(part, Laplace) for part in run.mechanisms)
    fitting = common if two_valued else common / math.ceil(common / short)
    is_written = max(len(str(fitting.numerator)), len(str(fitting.denominator))) <= FRACTION_DIGITS
    return (fitting, two_valued) if is_written else (short, False)


def _part(run: Run, number: int, direction: str, epsilon: float, delta: float) -> _Part:
    mechanism, rounds = run.parts[number]
    bounded = largest_loss(mechanism)
    if bounded is not None:
        return _Part(rounds, -bounded, bounded, float(bounded) ** 2, 0.0, 1.0)
    sigma = float(getattr(mechanism, "mechanism", mechanism).noise_multiplier)  # type: ignore[union-attr]
    rate = getattr(mechanism, "sampling_rate", 1.0)
    variance = rate**2 * math.expm1(min(sigma**-2, 50.0))
    tail = float((mechanism * 1).epsilon(delta=max(delta / run.rounds * NEGLIGIBLE, 1e-290)))
    largest = run.law(direction).max_loss
    if largest < math.inf:
        # with a lower loss of one round all together do not exceed epsilon
        own = mechanism.max_loss(direction)
        return _Part(rounds, max(epsilon - (largest - own), -tail), own, variance, sigma, rate)
    lowest = -mechanism.max_loss("add")
    return _Part(rounds, max(lowest, -tail), tail, variance, sigma, rate)


def _on_step(parts: list[_Part], step: Fraction, epsilon: float, delta: float, most: float) -> dict[str, Any]:
    """A lattice of this step, without sums of losses above `most` that have a negligible chance."""
    h, rounds = float(step), sum(part.rounds for part in parts)
    deviation = math.sqrt(sum(part.rounds * part.variance for part in parts))
    lowest = rounds * h - sum(part.rounds * float(part.lowest) for part in parts)
    below = min(max(lowest, 0.0), deviation * math.sqrt(-2.0 * math.log(NEGLIGIBLE * delta)) + deviation**2)
    grids, high, beyond = [], epsilon, 0.0
    for part in parts:
        first = _multiple(part.lowest, step, math.floor)
        # With a loss that exceeds epsilon by more than others can take back, all of them together exceed epsilon:
        # such losses may be spread as far as infinity.
        last = max(_multiple(min(part.largest, epsilon + below), step, math.ceil), first)
        grids.append({"first": first, "nodes": last - first + 1})
        high = max(high, last * h)
        beyond += part.rounds * _probability(part, last * h)
    # More of such losses at once than these have a negligible chance.
    several, chance = 1, beyond * beyond / 2.0
    while chance > NEGLIGIBLE * delta and several < rounds:
        several += 1
        chance *= beyond / (several + 1)
    above = min(several * high + BODY * deviation, most)
    nodes = sum(grid["nodes"] for grid in grids)
    bits = math.ceil(math.log2((nodes / min(h, 1.0) + (above + below) / h) * rounds / (ROUNDED_DOWN * delta))) + 8
    # Sums are kept from the first whose chance is not rounded down to 0.
    below = min(max(lowest, 0.0), deviation * math.sqrt(2.0 * math.log(2.0) * bits) + deviation**2)
    points = math.ceil((above + below) / h) + 2
    written = f"{step.numerator}/{step.denominator}"
    decimal = repr(h)
    step_text = decimal if Fraction(decimal) == step else written
    return {"precision": bits, "step": step_text, "points": points, "grids": grids}


def _multiple(loss: float | Fraction, step: Fraction, rounded: Callable[[float | Fraction], int]) -> int:
    """The multiple of the step next to a loss on one side: exactly, for one that is known as a fraction."""
    return rounded(loss / step if isinstance(loss, Fraction) else loss / float(step))


def _probability(part: _Part, loss: float) -> float:
    """That a round of the direction `remove` has a larger loss than a positive one."""
    if not part.sigma:
        return 1.0 if loss < part.largest * (1.0 - 1e-12) else 0.0
    level = part.sigma * math.log1p(math.expm1(min(loss, 700.0)) / part.rate)
    ends = ((level + half) / math.sqrt(2.0) for half in (0.5 / part.sigma, -0.5 / part.sigma))
    without, with_record = (0.5 * math.erfc(end) for end in ends)
    return (1.0 - part.rate) * without + part.rate * with_record
