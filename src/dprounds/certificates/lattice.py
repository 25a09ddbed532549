"""Evidence on a lattice of losses, where no line ends: few rounds of sampled Gaussians, and losses that have atoms.

Nothing here needs to be right, as for lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.law import Composition
from dprounds.accounting.profile import Profile
from dprounds.certificates.doubles import within_doubles
from dprounds.errors import NumericalError
from dprounds.mechanisms import Gaussian, Laplace, Run
from dprounds.mechanisms.base import ADD, REMOVE
from dprounds.numerics.special import ndtr

__all__ = [
    "ALL_WORK",
    "ALL_WORK_WITH_EFFORT",
    "MOST_WORK",
    "Upper",
    "largest_loss",
    "largest_losses",
    "lattice_below",
    "lattice_near",
    "one_point",
]

# All of these tune speed and how often a check succeeds.
# By how much of itself delta may be raised, where epsilon is then raised by as much of itself at most; where it would
# take too long, from how many times that on the check may take so much longer; and at most how many times that.
LOG_EXCESS = 4e-7
MUCH_EXCESS, MORE_WORK, MOST_EXCESS = 1e4, 1.7, 1e6
# The model of the excess, a spread over cells of one step, is right to a half.
CAREFUL = 1.55
# A unit of effort divides the excess of the model by this, and so the step by two.
FINER = 0.25
# The slope of log delta is taken over this part of epsilon.
NEAR = 0.01
# What losses that are too large to be kept may add to delta, as a part of it; and what rounding down may.
NEGLIGIBLE, ROUNDED_DOWN = 1e-9, 1e-9
# Where delta is smaller than what is claimed, it may be raised by this part of the logarithm of their ratio, up to a
# logarithm at which the model of the excess still holds.
SPARE, MOST_SPARE = 0.4, 0.5
# A loss whose deviation is small against a cell is moved by so many times their ratio of what one within a cell is.
MOVED = 5.0
# So many of the lowest losses of a round at once have a chance that is rounded down to 0.
SEVERAL = 4.0
# How many deviations of all rounds together are kept above.
BODY = 12.0
# Tilts at which the chance of a large sum is bounded.
TILTS = np.geomspace(1e-3, 1e4, 71)
# Parts of what the checker allows: from above, for all directions together and for one. What is left is for one side
# from below. And its prices.
ALL_WORK, MOST_WORK, MOST_POINTS, MASS = 13_500_000, 12_000_000, 2**19 - 1, 32
# The same with effort, which leaves little for a side from below.
ALL_WORK_WITH_EFFORT = 22_000_000
# From below all losses together are lowered by so much in the mean; steps that are tried, from the longest on; how many
# shifts are; and bits beyond those from above, for differences of tails.
LOWERED, LONGEST_BELOW, MOST_STEPS_BELOW, MOST_SHIFTS, GUARD_BELOW = 3e-5, 2e-3, 20, 200, 24
# A smaller chance of a group says nothing about its mean in doubles.
LEAST_CHANCE = 1e-13
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
    between: float = 1.0  # the chance of a loss that is neither the largest nor its opposite


def largest_loss(mechanism: Any) -> Fraction | None:  # noqa: ANN401  (one that a certificate covers)
    """The largest loss of a round as the checker knows it, from the decimals of the claim; None if it has no end."""
    if isinstance(getattr(mechanism, "mechanism", mechanism), Gaussian):
        return None
    if isinstance(mechanism, Laplace):
        return 1 / Fraction(repr(mechanism.noise_multiplier))
    return Fraction(repr(mechanism.epsilon))


@within_doubles()
def one_point(epsilon: float, delta: float) -> Upper:
    """Of one round: delta itself, in closed form."""
    grid = {"first": 1 if epsilon else 0, "nodes": 1}
    bits = math.ceil(-math.log2(delta)) + 64
    return Upper({"precision": bits, "step": repr(epsilon or 1.0), "points": 1, "shift": "0", "grids": [grid]})


@within_doubles()
def largest_losses(run: Run, direction: str, epsilon: float, delta: float) -> Upper:
    """Every loss at the largest one of its round, where all of these together do not exceed epsilon."""
    losses = [part.max_loss(direction if direction in part.directions else REMOVE) for part in run.mechanisms]
    rounds = [rounds for _, rounds in run.parts]
    spare = epsilon - sum(loss * count for loss, count in zip(losses, rounds, strict=True))
    step = float(f"{min(spare / (2.0 * sum(rounds)), *losses):.3g}")
    if not step * 1e9 > max(losses):
        raise NumericalError("The largest loss of this run is too close to epsilon for a certificate.")
    grids = [{"first": math.ceil(loss / step) + 1, "nodes": 1} for loss in losses]
    bits = math.ceil(math.log2(sum(rounds)) - math.log2(delta)) + 64
    return Upper({"precision": bits, "step": repr(step), "points": 1, "shift": "0", "grids": grids})


@within_doubles()
def lattice_near(run: Run, direction: str, epsilon: float, delta: float, most_work: float, effort: int = 0) -> Upper:
    """A lattice whose bound exceeds delta by a millionth of itself or less, if that does not take too long.

    That is the model's word. More effort asks for much less, as is needed next to rare large losses, where the model
    does not hold, and spends none of what delta may be raised by.
    """
    if not NEGLIGIBLE * delta > 0:
        raise NumericalError(f"A delta of {delta:g} is smaller than doubles resolve, so no certificate is made of it.")
    law = run.law(direction)
    parts = [_part(run, number, direction, epsilon, delta) for number in range(len(run.parts))]
    scale = epsilon or math.sqrt(sum(part.rounds * part.variance for part in parts))
    if not scale > 0:
        raise NumericalError(
            "The losses of this run are smaller than doubles resolve, so no certificate is made of it."
        )
    near = min(NEAR * scale, 0.5 * max(law.max_loss - epsilon, 0.0)) or NEAR * scale
    here, slope = _size_and_slope(law, epsilon, delta, scale, near)
    excess = LOG_EXCESS * min(1.0, slope * scale)
    spare = math.log(delta / max(here, 1e-300))
    excess = excess * FINER**effort if effort else max(excess, min(SPARE * spare, MOST_SPARE))
    common = _common(parts)
    with np.errstate(all="ignore"):  # a moment beyond the largest double bounds nothing
        highs = (epsilon + np.real(law.log_moment(TILTS)) - math.log(NEGLIGIBLE * delta)) / (TILTS + 1.0)
    high = max(float(np.nanmin(highs)), epsilon)
    while True:
        most = math.sqrt(12.0 * excess / (slope * (slope + 1.0)))
        step, moved = _step(most, common, parts)
        made = _on_step(parts, step, epsilon, delta, high, is_whole=effort > 0)
        work = _work(parts, made)
        allowed = most_work if excess < MUCH_EXCESS * LOG_EXCESS else MORE_WORK * most_work
        if work <= allowed and made["points"] <= MOST_POINTS:
            raised = max(CAREFUL * excess - spare, 0.0) if moved else 0.0
            return Upper(made, raised, raised / slope, work)
        excess *= 1.5
        if effort and excess > MOST_EXCESS * LOG_EXCESS:
            return lattice_near(run, direction, epsilon, delta, most_work)
        if not moved or excess > MOST_EXCESS * LOG_EXCESS:
            raise NumericalError("The certificate of this run would take too long to check.")


def _size_and_slope(law: Composition, epsilon: float, delta: float, scale: float, near: float) -> tuple[float, float]:
    """Delta at an epsilon, and by how much its logarithm falls for a unit of epsilon, about."""
    try:
        here, beyond = (Profile({"": law}).delta(each).upper for each in (epsilon, epsilon + near))
    except NumericalError:  # where the library has a bound alone
        return delta, -2.0 * math.log(delta) / scale
    return here, max(math.log(here / beyond) / near, 1e-3 / scale) if beyond > 0.0 else 1.0 / near


@within_doubles()
def lattice_below(run: Run, direction: str, epsilon: float, delta: float, effort: int = 0) -> dict[str, Any]:
    """A lattice from below, on which all losses together are lowered by `LOWERED` or less in the mean.

    With effort it is the finest that the checker allows: one that is coarse also merges losses on both sides of a kink.
    """
    found: dict[str, Any] | None = None
    parts = [_part(run, number, direction, epsilon, delta) for number in range(len(run.parts))]
    common = _common(parts)
    for n in range(MOST_STEPS_BELOW):
        step = _step_below(LONGEST_BELOW * 0.7**n, common, parts)
        made = _on_step(parts, step, epsilon, delta, math.inf)
        for part, grid in zip(parts, made["grids"], strict=True):
            grid["first"] = _multiple(part.lowest, step, math.floor) - 1
            grid["nodes"] = _multiple(part.largest, step, math.ceil) - grid["first"] + 2
        made["points"] = max(made["points"], *(grid["nodes"] for grid in made["grids"]))
        made["precision"] += GUARD_BELOW
        if _work(parts, made) > MOST_WORK or made["points"] > MOST_POINTS:
            break
        shift, lowered = _shift(parts, made["grids"], direction, float(step))
        if lowered <= LOWERED:
            found = {**made, "shift": f"{shift:.17g}"}
            if not effort:
                break
    if found is not None:
        return found
    raise NumericalError("The certificate of this run from below would take too long to check.")


def _step_below(longest: float, common: Fraction, parts: list[_Part]) -> Fraction:
    """A step from below, of which largest losses are multiples if it has few digits: these atoms are not lowered."""
    if common and not any(part.between for part in parts):
        longest = max(longest, float(common))
    fitting = common / math.ceil(common / Fraction(longest)) if common else Fraction(0)
    if common and max(len(str(fitting.numerator)), len(str(fitting.denominator))) <= FRACTION_DIGITS:
        return fitting
    return Fraction(f"{longest:.{STEP_DIGITS}g}")


def _shift(parts: list[_Part], grids: list[dict[str, int]], direction: str, h: float) -> tuple[float, float]:
    """By how much to lower every loss of a lattice, and how far below their means all are then together."""
    chances, losses = [], []
    for part, grid in zip(parts, grids, strict=True):
        middles = h * (grid["first"] - 0.5 + np.arange(grid["nodes"] + 1, dtype=np.float64))
        p, q = _tails(part, direction, middles)
        p, q = -np.diff(p), -np.diff(q)
        known = (p > LEAST_CHANCE) & (q > LEAST_CHANCE)
        chances.append(part.rounds * p[known])
        losses.append(np.log(p[known] / q[known]))
    weights, points = np.concatenate(chances), np.concatenate(losses)
    # the heaviest groups are tried: one of them is lowered to the point below by just the shift
    heavy = points[np.argsort(weights)[-MOST_SHIFTS:]]
    tried = np.unique(np.mod(-heavy, h)) * (1.0 + 1e-9) + 1e-9 * h
    lowered = [float(weights @ np.mod(points + shift, h)) for shift in tried]
    best = int(np.argmin(lowered))
    return float(tried[best]), lowered[best]


def _tails(part: _Part, direction: str, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The chances of a larger loss than each, under P and under Q; none of them is the largest loss of an atom."""
    if not part.sigma:
        a, is_inside = float(part.largest), np.abs(x) < float(part.largest)
        if part.between:
            p, q = 1.0 - 0.5 * np.exp(np.minimum(0.5 * (x - a), 0.0)), 0.5 * np.exp(-0.5 * (x + a))
        else:
            p, q = np.full_like(x, 1.0 / (1.0 + math.exp(-a))), np.full_like(x, 1.0 / (1.0 + math.exp(a)))
        outside = np.where(x < 0.0, 1.0, 0.0)
        return np.where(is_inside, p, outside), np.where(is_inside, q, outside)
    sign = 1.0 if direction == REMOVE else -1.0
    c = np.maximum(1.0 + np.expm1(sign * x) / part.rate, 1e-300)
    level = part.sigma * np.log(c)
    without, with_record = (ndtr(-sign * (level + half)) for half in (0.5 / part.sigma, -0.5 / part.sigma))
    mixed = (1.0 - part.rate) * without + part.rate * with_record
    return (mixed, without) if direction == REMOVE else (without, mixed)


def _work(parts: list[_Part], lattice: dict[str, Any]) -> float:
    """What the checker counts for a lattice."""
    products = sum(2 * part.rounds.bit_length() + 1 for part in parts)
    work = MASS * sum(grid["nodes"] for grid in lattice["grids"]) + lattice["points"] * products
    return float(work * (1.0 + lattice["precision"] / 128.0))


def _common(parts: list[_Part]) -> Fraction:
    """The largest number of which all largest losses are multiples; 0 where there are none."""
    common = Fraction(0)
    for loss in (part.largest for part in parts if isinstance(part.largest, Fraction)):
        terms = common.numerator * loss.denominator, loss.numerator * common.denominator
        common = Fraction(math.gcd(*terms), common.denominator * loss.denominator)
    return common


def _step(most: float, common: Fraction, parts: list[_Part]) -> tuple[Fraction, float]:
    """A step at which losses that are moved add up to one that moves one round by `most`; and how many are moved.

    Largest losses and their opposites are not moved if they are multiples of the step.
    """
    short, moved = _longest(most, parts, [part.between for part in parts])
    if common and (not moved or common > short):
        fitting = common / math.ceil(common / Fraction(short)) if moved else common
        if max(len(str(fitting.numerator)), len(str(fitting.denominator))) <= FRACTION_DIGITS:
            return fitting, moved
    short, moved = _longest(most, parts, [1.0] * len(parts))
    return Fraction(f"{short:.{STEP_DIGITS}g}"), moved


def _longest(most: float, parts: list[_Part], between: list[float]) -> tuple[float, float]:
    """The step, and how many rounds are moved by a cell: a loss that is much smaller than a cell is moved by less."""
    step, moved = math.inf, 0.0
    deviations = [math.sqrt(part.variance) for part in parts]
    for _ in range(3):
        shares = [min(1.0, MOVED * each / step) if step < math.inf else 1.0 for each in deviations]
        moved = sum(part.rounds * a * b for part, a, b in zip(parts, between, shares, strict=True))
        step = most / math.sqrt(moved) if moved else math.inf
    return step, moved


def _part(run: Run, number: int, direction: str, epsilon: float, delta: float) -> _Part:
    mechanism, rounds = run.parts[number]
    bounded = largest_loss(mechanism)
    if bounded is not None:
        between = -0.5 * math.expm1(-float(bounded)) if isinstance(mechanism, Laplace) else 0.0
        return _Part(rounds, -bounded, bounded, float(bounded) ** 2, 0.0, 1.0, between)
    sigma = float(getattr(mechanism, "mechanism", mechanism).noise_multiplier)  # type: ignore[union-attr]  # a Gaussian
    rate = getattr(mechanism, "sampling_rate", 1.0)
    variance = rate**2 * math.expm1(min(sigma**-2, 50.0))
    tail = float((mechanism * 1).epsilon(delta=max(delta / run.rounds * NEGLIGIBLE, 1e-290)))
    largest = run.law(direction).max_loss
    if largest < math.inf:
        # with a lower loss of one round all together do not exceed epsilon
        own = mechanism.max_loss(direction)
        return _Part(rounds, min(max(epsilon - (largest - own), -tail), own), own, variance, sigma, rate)
    lowest = -mechanism.max_loss(ADD if ADD in mechanism.directions else REMOVE)
    return _Part(rounds, max(lowest, -tail), tail, variance, sigma, rate)


def _on_step(
    parts: list[_Part], step: Fraction, epsilon: float, delta: float, most: float, *, is_whole: bool = False
) -> dict[str, Any]:
    """A lattice of this step, without sums of losses above `most`, which have a negligible chance.

    Unless it must be whole, it is also without sums of more rare large losses than are likely, counted as if each were
    the largest on its grid. That is shorter, and often enough.
    """
    h, rounds = float(step), sum(part.rounds for part in parts)
    deviation = math.sqrt(sum(part.rounds * part.variance for part in parts))
    lowest = rounds * h - sum(part.rounds * float(part.lowest) for part in parts)
    below = min(max(lowest, 0.0), deviation * math.sqrt(-2.0 * math.log(NEGLIGIBLE * delta)) + deviation**2)
    grids, high, beyond = [], epsilon, 0.0
    for part in parts:
        # Losses that are so low that no sum with them exceeds epsilon may be raised.
        first = _multiple(max(part.lowest, epsilon - most), step, math.floor)
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
    above = most if is_whole else min(several * high + BODY * deviation, most)
    nodes = sum(grid["nodes"] for grid in grids)
    bits = math.ceil(math.log2((nodes / min(h, 1.0) + (above + below) / h) * rounds / (ROUNDED_DOWN * delta))) + 8
    # Sums are kept from the first whose chance is not rounded down to 0.
    rare = SEVERAL * max(
        (-grid["first"] * h for grid, part in zip(grids, parts, strict=True) if part.sigma), default=0.0
    )
    below = min(max(lowest, 0.0), deviation * math.sqrt(2.0 * math.log(2.0) * bits) + deviation**2 + max(rare, 0.0))
    points = math.ceil((above + below) / h) + 2
    written = f"{step.numerator}/{step.denominator}"
    decimal = repr(h)
    step_text = decimal if Fraction(decimal) == step else written
    return {"precision": bits, "step": step_text, "points": points, "shift": "0", "grids": grids}


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
