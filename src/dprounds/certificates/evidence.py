"""Where the checker is to look: the line, its nodes, and the quadrature of each sampled part.

Nothing here needs to be right: the checker computes every bound again, and evidence that does not suit makes it fail.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.kernel import log_zeta
from dprounds.accounting.law import Composition, LossLaw
from dprounds.accounting.profile import Profile
from dprounds.accounting.saddle import Saddle
from dprounds.accounting.ways.place import line_near, saddle_at_epsilon
from dprounds.certificates.doubles import within_doubles
from dprounds.certificates.epoch import Epoch
from dprounds.certificates.lattice import (
    ALL_WORK,
    ALL_WORK_WITH_EFFORT,
    MOST_WORK,
    Upper,
    largest_loss,
    largest_losses,
    lattice_below,
    lattice_near,
    one_point,
)
from dprounds.certificates.quadrature import LOG_ERROR, Pair, quadrature, written
from dprounds.conversions import worst_pair
from dprounds.errors import NumericalError
from dprounds.mechanisms import Gaussian, Mechanism, PoissonSampled, RandomAllocation, Run
from dprounds.mechanisms.base import ADD, BOTH_DIRECTIONS, REMOVE

__all__ = [
    "conversion_evidence",
    "directions_of",
    "is_long",
    "lower_line",
    "moment_evidence",
    "upper_line",
    "upper_lines",
]

Array = NDArray[np.float64]

# All of these tune speed and how often a check succeeds.
# Nodes of a line that only smoothing ends, without effort and with it; and the same in products with the nodes of
# quadratures.
FEW_NODES, MOST_NODES = 2**13, 2**16
MOST_PRODUCTS, MOST_PRODUCTS_BELOW = 24_000_000, 24_000_000
# From here on a line is long.
LONG = 3_000_000
# Directions share what a check may take in so many tries.
MOST_SHARED = 6
# Bits beyond what a quadrature may err by.
GUARD_BITS = 40
# Points above the line at which aliases are bounded, in units of its distance from 0.
ABOVE = np.geomspace(0.02, 4.0, 40)
# Tilts that are tried, and the logarithm of how much less than delta one must prove to be taken at once.
TILTS = np.geomspace(1e-3, 1e4, 71)
MUCH = 6.0
# Lines that are tried, as parts of the saddle point; the aliases they may have, as a part of delta; their heights in
# units of one over the period, which is at least a few units of 1 / tau; and the height at which quadratures take twice
# the nodes.
TILTED = np.array([1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1])
# The highest line of a mirrored direction, in deviations of its loss.
FAR = 1.2
LOG_ALIASES = math.log(1e-11)
# From below, the same where delta exceeds what is claimed by a part of itself: errors are this much less than that.
LOG_SPARE, LOG_SPARE_OF_MEANS = 3.0, 15.0
HEIGHTS = np.geomspace(10.0, 1e5, 116)
PERIODS = 3.0
WIDTH = 20.0
# What the checker counts for a node of a quadrature, and of a line, by itself.
NODE, FORMULA = 50.0, 48.0
# Where a conversion needs no tangent, it is taken here.
TINY = 1e-30


def _pair(part: Mechanism, direction: str) -> Pair | Epoch | None:
    """What the checker sums for a part; a rate of 1 is no sampling."""
    if isinstance(part, RandomAllocation) and isinstance(part.mechanism, Gaussian):
        return Epoch(part.mechanism.noise_multiplier / math.sqrt(part.repeats), part.steps)
    if isinstance(part, PoissonSampled) and isinstance(part.mechanism, Gaussian) and part.sampling_rate != 1:
        return Pair(part.mechanism.noise_multiplier, part.sampling_rate, direction)
    return None


def _pairs(run: Run, direction: str) -> list[Pair | Epoch]:
    """The parts for which the checker needs a quadrature."""
    return [pair for part in run.mechanisms if (pair := _pair(part, direction)) is not None]


def _is_allocated(run: Run) -> bool:
    """Whether the checker sums an epoch of random allocation, which it does in the direction add alone."""
    return any(isinstance(pair, Epoch) for pair in _pairs(run, ADD))


def directions_of(run: Run) -> tuple[str, ...]:
    """The directions that the checker asks for."""
    return BOTH_DIRECTIONS if _pairs(run, REMOVE) else (REMOVE,)


def _log_error(run: Run, log_error: float = LOG_ERROR) -> float:
    return log_error + math.log(max(run.rounds, 1))


def _precision(log_error: float, size: float) -> int:
    """Bits for numbers of some size that must be right to an error."""
    return math.ceil((log_error + math.log1p(size)) / math.log(2.0)) + GUARD_BITS


def _for_a_line(law: LossLaw, most_nodes: int) -> LossLaw:
    """The same law without its lattice, of which the checker does not know; of an epoch, as far out as it takes."""
    pair = _pair(law.of, ADD) if isinstance(law.of, Mechanism) else None
    if isinstance(pair, Epoch):
        return pair.law()
    return replace(law, lattice=None, ceiling=None if law.lattice else law.ceiling, most_nodes=most_nodes)


def upper_lines(run: Run, epsilon: float, delta: float, effort: int = 0) -> dict[str, Upper]:
    """Evidence that `delta` is met at `epsilon`, for each direction."""
    most_work: float = MOST_WORK
    for _ in range(MOST_SHARED if effort else 3):
        found = {each: upper_line(run, each, epsilon, delta, effort, most_work) for each in directions_of(run)}
        work = sum(each.work for each in found.values())
        most = ALL_WORK_WITH_EFFORT if effort else ALL_WORK
        if work <= most:
            break
        largest = max(each.work for each in found.values())
        most_work = (min(most_work, largest) if effort else largest) * most / work
    return found


def upper_line(
    run: Run, direction: str, epsilon: float, delta: float, effort: int = 0, most_work: float = MOST_WORK
) -> Upper:
    """Evidence that `delta` is met at `epsilon` in a direction: a line, or a lattice where no line serves.

    None is evidence where no loss exceeds epsilon. More effort takes more nodes and bits.
    """
    losses = [(largest_loss(mechanism), rounds) for mechanism, rounds in run.parts]
    if any(loss is None for loss, _ in losses):
        if run.rounds == 1 and not _is_allocated(run):
            return one_point(epsilon, delta)
        if run.law(direction).max_loss <= epsilon:
            return largest_losses(run, direction, epsilon, delta)
    if sum(math.inf if loss is None else rounds * loss for loss, rounds in losses) <= Fraction(repr(epsilon)):
        return Upper(None)
    try:
        line = _line(run, direction, epsilon, delta, effort, above=False)
    except NumericalError:
        if _is_allocated(run):
            raise
        return lattice_near(run, direction, epsilon, delta, most_work, effort)
    # a virtual Gaussian raises delta by half of its variance times the density of the loss
    tau, excess = float(line["tau"]), 0.5 * float(line["smoothing"]) * (float(line["tau"]) + 1.0)
    found = Upper(line, excess * tau, excess, _work(line))
    if excess and not _is_allocated(run):
        with suppress(NumericalError):
            lattice = lattice_near(run, direction, epsilon, delta, most_work, effort)
            return min(found, lattice, key=lambda each: each.log_excess)
    return found


def _work(line: dict[str, Any]) -> float:
    """What the checker counts for a line, about."""
    x = sum(each["last"] - each["first"] + 2 * each.get("reach", 0) for each in line["quadratures"])
    work = line["nodes"] * (x / 8.0 + FORMULA) + (NODE + 4.0 * math.sqrt(line["nodes"])) * x
    return float(work * (1.0 + line["precision"] / 128.0))


def lower_line(run: Run, direction: str, epsilon: float, delta: float, effort: int = 0) -> dict[str, Any]:
    """Evidence that `delta` is not met at `epsilon` in a direction: a line, or a lattice where no line serves."""
    spare = Profile({direction: run.law(direction)}).delta(epsilon).lower / delta - 1.0
    try:
        line = _line(run, direction, epsilon, delta, effort, above=True, log_spare=math.log(max(spare, 1e-11)))
    except NumericalError:
        if _is_allocated(run):
            raise
        return lattice_below(run, direction, epsilon, delta, effort)
    if line["smoothing"] != "0":
        with suppress(NumericalError):
            return lattice_below(run, direction, epsilon, delta, effort)
    return line


def is_long(found: dict[str, Any]) -> bool:
    """Whether evidence takes long to find and to check: a lattice, or a line with many nodes of quadratures."""
    if "grids" in found:
        return True
    return bool(found["nodes"] * sum(each["last"] - each["first"] for each in found["quadratures"]) > LONG)


@within_doubles()
def _line(
    run: Run, direction: str, epsilon: float, delta: float, effort: int, *, above: bool, log_spare: float = -math.inf
) -> dict[str, Any]:
    log_delta = math.log(max(delta - run.infinite_mass, 1e-300))
    if is_mirrored := direction == REMOVE and _is_allocated(run):
        # delta of one direction at epsilon is 1 - e^epsilon (1 - delta) of the other at -epsilon
        direction, epsilon, log_delta = ADD, -epsilon, log_delta - epsilon
    pairs = _pairs(run, direction)
    log_error = _log_error(run, min(LOG_ERROR, LOG_SPARE_OF_MEANS - log_spare)) + 6.0 * effort
    log_aliases = max(LOG_ALIASES, log_spare - LOG_SPARE)
    most_products = MOST_PRODUCTS_BELOW if above else MOST_PRODUCTS
    most = 2**12 if pairs else MOST_NODES if effort else FEW_NODES
    for _ in range(6):
        law = Composition(tuple((_for_a_line(each, most), rounds) for each, rounds in run.law(direction).parts))
        target = log_delta - 2.0 * effort + log_aliases
        enough = None if above or is_mirrored else _enough(law, epsilon, log_delta)
        if is_mirrored:
            saddle = _mirrored(law, target)
        else:
            saddle = saddle_at_epsilon(law, epsilon) if enough is None else law.expand(enough)
        place = _cheapest(law, saddle, epsilon, target) if pairs else None
        if place is None:
            line = line_near(law, saddle, epsilon=epsilon, log_delta=log_delta - 2.0 * effort)
            place = _Place(line.t, line.step, line.values.size - 1, line.variance)
        nodes = math.ceil(place.nodes * (1.0 + 0.1 * effort))
        tau, step = float(written(place.tau)), float(written(place.step))
        height = step * nodes
        above_at = _above(law, tau, epsilon, 2.0 * math.pi / step) if above else 0.0
        taus = [tau, above_at] if above else [tau]
        # what is summed may be larger than delta, as it is where losses beyond -epsilon are common
        spare = max(law.expand(tau).value - tau * epsilon - log_delta, 0.0) if _is_allocated(run) else 0.0
        found = [_quadrature(pair, [pair.power(t) for t in taus], height, log_error + spare) for pair in pairs]
        quadratures = [each for each, _ in found]
        products = nodes * sum(each["last"] - each["first"] for each in quadratures)
        if products <= most_products:
            break
        if not place.variance:
            raise NumericalError("The certificate of this run would take too long to check.")
        most = int(min(most, nodes) * 0.8 * math.sqrt(most_products / products))
    else:
        raise NumericalError("The certificate of this run would take too long to check.")
    size = abs(saddle.value) + tau * abs(epsilon) + height * (abs(epsilon) + abs(saddle.slope))
    return {
        "precision": _precision(max((error for _, error in found), default=log_error), size),
        "tau": written(tau),
        "step": written(step),
        "nodes": nodes,
        "smoothing": written(place.variance),
        "above": written(above_at),
        "quadratures": quadratures,
    }


def _quadrature(
    pair: Pair | Epoch, powers: list[float], height: float, log_error: float
) -> tuple[dict[str, Any], float]:
    """The quadrature of a part, and the logarithm of one over the error that its numbers may have."""
    if isinstance(pair, Epoch):
        return pair.quadrature(powers, height, log_error)
    return quadrature(pair, powers, height, log_error), log_error


def _mirrored(law: Composition, target: float) -> Saddle:
    """A point above those at which lines of the mirrored direction stand: there is no saddle point at -epsilon."""
    curvature = law.expand(1.0).curvature
    if not 0 < curvature < math.inf:
        raise NumericalError("The loss of this run is outside what doubles resolve, so no certificate is made of it.")
    return law.expand(FAR * math.sqrt(-2.0 * target / curvature))


class _Place(NamedTuple):
    """Where a line stands, and how it ends."""

    tau: float
    step: float
    nodes: int
    variance: float


def _cheapest(law: Composition, saddle: Saddle, epsilon: float, target: float) -> _Place | None:
    """The cheapest line at or below a saddle point that ends by itself with this log of an error; None without one.

    Below the saddle point of a heavy tail aliases fall much faster. Summands are then larger than delta, which takes
    more bits and nothing else.
    """
    best, least = None, math.inf
    for t in saddle.t * TILTED:
        here = law.expand(float(t))
        r = t * (1.0 + ABOVE)
        with np.errstate(all="ignore"):
            bounds = (log_zeta(r) + np.real(law.log_moment(r)) - r * epsilon - target) / (r - t)
            period = max(-target / t, float(np.nanmin(bounds)), PERIODS / t)
            known = law.ceiling(here, HEIGHTS / period)
        if known is None:
            return None
        ends = np.flatnonzero(known - t * epsilon - np.log(math.pi * HEIGHTS / period) <= target)
        if not ends.size:
            continue
        height = float(HEIGHTS[ends[0]]) / period
        work = height * period * (WIDTH + height)
        if work < least:
            nodes = math.ceil(height * period / (2.0 * math.pi))
            best, least = _Place(float(t), 2.0 * math.pi / period, nodes, 0.0), work
    return best


def _enough(law: Composition, epsilon: float, log_delta: float) -> float | None:
    """The least of some tilts whose moment alone proves much more than delta; None if none does."""
    with np.errstate(all="ignore"):
        bound = log_zeta(TILTS) + np.real(law.log_moment(TILTS)) - TILTS * epsilon - log_delta
    found = np.flatnonzero(bound < -MUCH)
    return float(TILTS[found[0]]) if found.size else None


def _above(law: Composition, tau: float, epsilon: float, period: float) -> float:
    """The point above a line that bounds its aliases best."""
    r = tau * (1.0 + ABOVE)
    with np.errstate(all="ignore"):
        bound = log_zeta(r) + np.real(law.log_moment(r)) - r * epsilon - (r - tau) * period
    return float(written(r[int(np.nanargmin(bound))]))


@within_doubles()
def moment_evidence(run: Run, direction: str, order: float, effort: int = 0) -> dict[str, Any]:
    """Evidence for the Rényi bound of a run at an order."""
    log_error = _log_error(run) + 6.0 * effort
    found = [_quadrature(pair, [pair.power(order - 1.0)], 0.0, log_error) for pair in _pairs(run, direction)]
    return {"precision": _precision(log_error, order * run.rounds), "quadratures": [each for each, _ in found]}


@within_doubles()
def conversion_evidence(order: float, least: float, epsilon: float, delta: float, effort: int = 0) -> dict[str, Any]:
    """Evidence that a Rényi bound implies (epsilon, delta), where it does so from `least` on.

    It is the dual point of the pair that attains the conversion at an epsilon between both [ALCKS20, Theorem 3].
    """
    t, middle = order - 1.0, 0.5 * (least + epsilon)
    tangent, linear = TINY, 0.0
    if order * delta >= 1.0:
        touch = math.exp(middle) / (1.0 - delta)
        scale = math.exp(middle) / (t * touch**order)
        linear = 1.0 - math.exp(middle) * order / (t * touch)
    else:
        p, q = worst_pair(order=order, epsilon=middle, delta=delta)
        touch, tangent = float(p) / float(q), (1.0 - float(p)) / (1.0 - float(q))
        scale = 1.0 / (order * (touch**t - tangent**t))
    return {
        "precision": _precision(LOG_ERROR * (1 + effort), order * (1.0 + epsilon)),
        "tangent": written(tangent, 17),
        "scale": written(scale, 17),
        "linear": written(max(linear, 0.0), 17),
    }
