"""What an attacker proves of a run, by means that import nothing of dprounds.

Any event A shows ε ≥ log((P(A) - δ)/Q(A)), and any function of the outputs shows no more than the outputs do. So a
reported ε below such a bound is wrong. Rényi moments in closed form bound ε from above: a reported lower end above
that is wrong too. Where the profile has a closed form or a short sum, both ends are judged by it in arbitrary
precision, without a tolerance; the other bounds are in doubles and give up a margin above what those round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, log_ndtr, logsumexp

from benchmarks.truth import responses
from tests.references import gaussian, one_round

__all__ = ["Part", "beyond_a_threshold", "cells_of", "exact_delta", "from_moments", "log_moments", "merged_outputs"]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
Number = Any  # mpmath has no types

# Doubles round less than this, relative to a probability.
MARGIN = 1e-11
# The largest noise of a discrete Gaussian, and the most responses, that are summed in arbitrary precision.
MOST_EXACT_NOISE, MOST_EXACT_RESPONSES = 20.0, 2000
# Cells that the outputs of one round are merged into, and values of the characteristic function that are computed.
CELLS, MOST_NODES = 1000, 4096
# With fewer rounds of so many cells the characteristic function does not become negligible.
FEWEST_ROUNDS = 9
# Up to this noise every integer is a cell of its own.
ATOMS_NOISE = 19.0
# A sum that is a smaller share of its terms than this has lost too many digits.
MOST_CANCELLED = 1e-3
# Below this a part of an integral does not count.
NEGLIGIBLE = 1e-13


class Part(NamedTuple):
    """Rounds of one noise: Gaussian, Laplace and discrete Gaussian by their scale, a response by its epsilon."""

    noise: str
    size: float
    rate: float  # 1 if every round sees every record
    rounds: int


# ---- The truth, in arbitrary precision ----

# The sum is made once and serves every epsilon.
summed_responses = lru_cache(maxsize=2)(responses)


def exact_delta(parts: Sequence[Part], epsilon: float) -> Number | None:
    """Delta at epsilon from its definition; None where that is no closed form or short sum."""
    if all(part.noise == "gaussian" and part.rate == 1 for part in parts):
        with mp.workdps(50):
            shift = mp.sqrt(mp.fsum(part.rounds / mp.mpf(part.size) ** 2 for part in parts))
        return gaussian.delta(shift, epsilon)
    noise, size, rate, rounds = parts[0]
    if len(parts) > 1:
        return None
    if noise == "response" and rate == 1 and rounds <= MOST_EXACT_RESPONSES:
        return summed_responses(size, rounds)(epsilon)
    if rounds > 1 or (noise == "discrete-gaussian" and size > MOST_EXACT_NOISE):
        return None
    excess = {
        "gaussian": one_round.normal_excess,
        "laplace": one_round.laplace_excess,
        "response": one_round.response_excess,
        "discrete-gaussian": one_round.discrete_gaussian_excess,
    }[noise](size)
    return one_round.sampled_delta(excess, rate, epsilon)


# ---- One round: Q around 0 and P around 1, the outputs in the order of their likelihood ratio ----


def log_tail(noise: str, size: float, x: Array) -> Array:
    """Log of the probability that noise of this kind exceeds x; for the discrete Gaussian, at least an integer x."""
    if noise == "gaussian":
        return np.asarray(log_ndtr(-x / size))
    if noise == "laplace":
        y = np.abs(x) / size
        return np.where(x > 0, -math.log(2.0) - y, np.log1p(-0.5 * np.exp(-y)))
    most = math.ceil(38.0 * size) + 2
    k = np.arange(-most, most + 1)
    weights = np.exp(-0.5 * (k / size) ** 2)
    above = np.append(np.cumsum(weights[::-1])[::-1], 0.0) / weights.sum()
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(above[np.clip(x.astype(np.int64) + most, 0, 2 * most + 1)]))


def edges_of(noise: str, size: float) -> Array:
    """Thresholds that cut the outputs into cells, rising; not evenly, since a lattice of losses never decays."""
    if noise == "discrete-gaussian" and size < ATOMS_NOISE:
        return np.arange(-math.ceil(37.0 * size), math.ceil(37.0 * size) + 2.0)
    if noise == "discrete-gaussian":
        return np.unique(np.ceil(np.linspace(-12.0 * size, 38.0 * size + 1.0, CELLS)))
    # the ratio of the Laplace pair varies on [0, 1] only
    low, high, count = (0.0, 1.0, CELLS // 2) if noise == "laplace" else (-12.0 * size, 38.0 * size + 1.0, CELLS)
    places = np.arange(count) + 0.4 * np.sin(np.arange(count) ** 2)
    places[0], places[-1] = 0.0, count - 1.0
    return low + (high - low) / (count - 1.0) * places


class Cells(NamedTuple):
    """Cells of a sampled round's outputs: probabilities under Q, P/Q - 1 and log P/Q; and how many rounds."""

    q: Array
    excess: Array
    log_ratio: Array
    rounds: int


def cells_of(part: Part) -> Cells:
    """What is left of a round if its outputs are merged into cells."""
    if part.noise == "response":
        lie, truth = 1.0 / (1.0 + math.exp(part.size)), 1.0 / (1.0 + math.exp(-part.size))
        q, excess = np.array([truth, lie]), part.rate * np.array([math.expm1(-part.size), math.expm1(part.size)])
        return Cells(q, excess, np.log1p(excess), part.rounds)
    x = edges_of(part.noise, part.size)
    masses = []
    for centre in (0.0, 1.0):
        with np.errstate(divide="ignore"):
            above = np.exp(log_tail(part.noise, part.size, x - centre))
            # what is below x is what is above -x; the discrete Gaussian counts x itself as above
            below = np.exp(log_tail(part.noise, part.size, centre - x + (part.noise == "discrete-gaussian")))
        inner = np.where(x[1:] <= centre, np.diff(below), -np.diff(above))
        masses.append(np.concatenate(([below[0]], inner, [above[-1]])))
    q, p = masses
    kept = (q > 1e-290) & (p > 1e-290)
    q, p = q[kept], p[kept]
    excess = part.rate * (p - q) / q
    with np.errstate(divide="ignore"):  # of what is not chosen
        log_ratio = np.where(excess < -0.5, np.log((1.0 - part.rate) + part.rate * (p / q)), np.log1p(excess))
    return Cells(q, excess, log_ratio, part.rounds)


# ---- Lower bounds of epsilon ----


def beyond_a_threshold(part: Part, delta: float) -> float:
    """Epsilon that "some output of these rounds is above x" shows, or that "none is" does, at the best x."""
    q, _, log_ratio, _ = cells_of(part)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_none = []
        for masses in (q * np.exp(log_ratio), q):
            # the probability of every set of the lowest cells, from the side on which it is small
            below, above = np.cumsum(masses)[:-1], np.cumsum(masses[::-1])[-2::-1]
            log_none.append(part.rounds * np.where(below < 0.5, np.log(below), np.log1p(-above)))
        removed = ((1.0 - MARGIN) * -np.expm1(log_none[0]) - delta) / (-np.expm1(log_none[1]) * (1.0 + MARGIN))
        margin = MARGIN * (1.0 - log_none[0])
        added = ((1.0 - margin) * np.exp(log_none[1]) - delta) / (np.exp(log_none[0]) * (1.0 + margin))
        found = np.log(np.concatenate([removed, added]))
    return float(np.max(found, initial=0.0, where=np.isfinite(found)))


def power_minus_tangent(power: Complex, cells: Cells) -> Complex:
    """``(1 + u)^power - 1 - power u`` at every power and excess u, also where u is tiny."""
    u = cells.excess
    series = u * u * (-1 / 2 + u * (1 / 3 - u * (1 / 4 - u / 5)))
    log_minus = np.where(np.abs(u) < 1e-3, series, cells.log_ratio - u)
    w = power[:, None] * cells.log_ratio
    small = np.abs(w) < 1e-3
    near = np.where(small, w, 0.0)
    series = near * near * (1 / 2 + near * (1 / 6 + near * (1 / 24 + near / 120)))
    return np.asarray(np.where(small, series, np.expm1(w) - w) + power[:, None] * log_minus)


def log_moments(rounds: list[Cells], s: Complex, direction: str) -> Complex:
    """Log of E[e^{sL}] of all rounds with merged outputs, where ΣQu = 0 leaves no first-order term to cancel."""
    powers = 1.0 + s if direction == "remove" else -s
    with np.errstate(all="ignore"):  # a line on which it overflows is not used
        return np.asarray(sum(each.rounds * log1p_at(power_minus_tangent(powers, each) @ each.q) for each in rounds))


def log1p_at(z: Complex) -> Complex:
    """Log of 1 + z also where z is tiny, for which NumPy's has no digits."""
    real = 0.5 * np.log1p(2.0 * z.real + z.real**2 + z.imag**2)
    return np.asarray(real + 1j * np.arctan2(z.imag, 1.0 + z.real))


def merged_outputs(parts: Sequence[Part], delta: float, hint: float) -> float | None:
    """Epsilon of the run whose outputs are merged into cells, which is no larger; None where the sum does not converge.

    δ = 1/2π ∫ e^{K(s) - sε} / (s (s + 1)) dt on a line s = z + it, near the epsilon that is given as a hint. Losses on
    a lattice have an integral over one period instead. Other discrete Gaussians are blurred until they are normal.
    """
    noise, size, rate, _ = parts[0]
    if len(parts) == 1:
        if noise == "response" or (noise == "discrete-gaussian" and rate == 1 and size < ATOMS_NOISE):
            return _near_hint(parts, delta, hint, lattice=True)
        found = _near_hint(list(filter(None, map(_blurred, parts))), delta, hint, lattice=False)
        return _near_hint([_two_outputs(parts[0])], delta, hint, lattice=True) if found is None else found
    return _near_hint(list(filter(None, map(_blurred, parts))), delta, hint, lattice=False)


def _near_hint(parts: Sequence[Part], delta: float, hint: float, *, lattice: bool) -> float | None:
    # Discrete losses do not decay, and those of N cells only down to about N^(-1/2) a round.
    if not lattice and sum(part.rounds for part in parts if part.noise != "response") < FEWEST_ROUNDS:
        return None
    for share in (1.0, 0.5, 0.1):  # the line must be near the truth
        found = [_merged(parts, delta, share * hint, direction, lattice=lattice) for direction in ("remove", "add")]
        best = max((each for each in found if each is not None), default=None)
        if best != 0:
            return best
    return 0.0


def _two_outputs(part: Part) -> Part:
    """What is left if a round only says on which side of 1/2 its output is: a randomized response."""
    middle = np.array([1.0 if part.noise == "discrete-gaussian" else 0.5])
    log_lie = float(log_tail(part.noise, part.size, middle)[0])
    return part._replace(noise="response", size=math.log(-math.expm1(log_lie)) - log_lie)


def _blurred(part: Part) -> Part | None:
    """A discrete Gaussian plus normal noise of variance v is normal up to e^{-2π² vσ²/(v+σ²)}; left out below σ = 2."""
    if part.noise != "discrete-gaussian":
        return part
    if part.size < 2.0:
        return None
    square = part.size**2
    return part._replace(noise="gaussian", size=math.sqrt(square + 2.5 * square / (square - 2.5)))


def _merged(parts: Sequence[Part], delta: float, hint: float, direction: str, *, lattice: bool) -> float | None:
    cells = [cells_of(part) for part in parts]

    def log_crude(log_z: float, epsilon: float = hint) -> float:
        z = math.exp(log_z)
        value = log_moments(cells, np.array([z + 0j]), direction)[0].real - z * epsilon - math.log(z) - math.log1p(z)
        return float(value) if math.isfinite(value) else 1e300 * (1.0 + 0.01 * log_z)  # too far to the right

    log_z = float(
        minimize_scalar(
            log_crude, bounds=(-8.0, 8.0 + math.log1p(1.0 / hint)), method="bounded", options={"xatol": 1e-3}
        ).x
    )
    z = math.exp(log_z)
    # The trapezoid sum adds the deltas that are a window away, each with its tilt: the window makes them negligible.
    # Below, delta is at most 1; above, it is bounded by the moments.
    window, crude = max((40.0 - math.log(delta)) / z, hint), log_crude(log_z)
    while min(log_crude(log_z + up, hint + window) for up in (0.1, 0.3, 0.7, 1.5, 3.0)) + z * window > crude - 35.0:
        window *= 2.0
        if window > 1e12:
            return None
    spacing = origin = 0.0
    if lattice:
        noise, size, _, rounds = parts[0]
        losses = np.sort(cells[0].log_ratio * (1.0 if direction == "remove" else -1.0))
        if noise == "response":
            spacing, origin = float(losses[1] - losses[0]), rounds * float(losses[0])
        else:
            spacing, origin = 1.0 / size**2, -0.5 * rounds / size**2
        window = math.ceil(window / spacing) * spacing
    nodes = round(window / spacing) // 2 + 1 if lattice else MOST_NODES
    k = np.zeros(0, dtype=np.complex128)
    decayed = False
    while k.size < nodes and not decayed:
        if k.size >= MOST_NODES or not np.isfinite(k).all():
            return None
        t = 2.0 * math.pi / window * np.arange(k.size, min(k.size + 256, nodes))
        k = np.append(k, log_moments(cells, np.asarray(z + 1j * t, dtype=np.complex128), direction))
        decayed = bool((k[-256:].real - k[0].real < math.log(NEGLIGIBLE)).all())
    if not lattice and not (decayed and _atoms_vanish(parts, cells, z, direction)):
        return None
    t = 2.0 * math.pi / window * np.arange(k.size)
    weights, s = np.ones(t.size), z + 1j * t
    weights[0] = 0.5
    if lattice and not decayed and round(window / spacing) % 2 == 0:
        weights[-1] = 0.5  # the node in the middle of the period counts once

    def log_delta(epsilon: float) -> float:
        if lattice:
            first = origin + spacing * (math.floor((epsilon - origin) / spacing) + 1.0) - epsilon
            kernel = spacing * np.exp(-s * first) / -np.expm1(-s * spacing)
            kernel -= spacing * np.exp(-(s + 1.0) * first) / -np.expm1(-(s + 1.0) * spacing)
        else:
            kernel = 1.0 / (s * (s + 1.0))
        terms = weights * (np.exp(k - k[0].real - 1j * t * epsilon) * kernel).real
        total = float(terms.sum())
        if not total > MOST_CANCELLED * float(np.abs(terms).sum()):
            return -math.inf  # nothing is proven
        return float(k[0].real - z * epsilon + math.log(total) + math.log(2.0 / window))

    # What K rounds by is relative to it; what is left out of the window and of the line is negligible.
    wanted = math.log(delta) + 1e-9 + MARGIN * float(abs(k[0]) + z * hint)
    far, is_above = 1e-7 * hint, log_delta(hint) >= wanted
    while is_above == (log_delta(hint + far if is_above else hint - far) >= wanted):
        far *= 2.0
        if far > 0.5 * hint:
            return hint + 0.5 * far if is_above else 0.0
    low, high = sorted((hint, hint + far if is_above else hint - far))
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_delta(middle) >= wanted else (low, middle)
    return low


def _atoms_vanish(parts: Sequence[Part], cells: list[Cells], z: float, direction: str) -> bool:
    """Whether some part's atoms, which do not decay along the line, have next to no share of its tilted law."""
    for part, (q, _, log_ratio, rounds) in zip(parts, cells, strict=True):
        if part.noise == "gaussian":
            return True
        if part.noise == "laplace":
            logs = np.log(q) + (1.0 + z if direction == "remove" else -z) * log_ratio
            share = np.exp(np.logaddexp(logs[0], logs[-1]) - logsumexp(logs))
            if rounds * math.log(share) < math.log(NEGLIGIBLE):
                return True
    return False


# ---- An upper bound of epsilon ----


def from_moments(parts: Sequence[Part], delta: float) -> float:
    """Epsilon that Rényi moments of whole orders prove; `remove` has the larger one, and bounds `add` too."""
    orders = np.unique(np.concatenate([np.arange(2, 33), np.geomspace(33, 800, 24).astype(np.int64)]))
    best = math.inf
    for order in orders.tolist():
        k = math.fsum(part.rounds * _log_moment(part, order) for part in parts) * (1.0 + 1e-9)
        factor = (order - 1) * math.log1p(-1.0 / order) - math.log(order)
        best = min(best, max(k + factor - math.log(delta), 0.0) / (order - 1))
    seen = -math.expm1(
        math.fsum(part.rounds * math.log1p(-part.rate) if part.rate < 1 else -math.inf for part in parts)
    )
    return 0.0 if seen < delta else best


def _log_moment(part: Part, order: int) -> float:
    """Log of E_Q[(1 - q + q r)^order] by the binomial theorem, as log1p of what exceeds one."""
    noise, size, rate, _ = part
    k = np.arange(2, order + 1, dtype=np.float64)
    if noise in ("gaussian", "discrete-gaussian"):
        logs = k * (k - 1.0) / (2.0 * size * size)
    elif noise == "laplace":
        logs = np.logaddexp(np.log(k) + (k - 1.0) / size, np.log(k - 1.0) - k / size) - np.log(2.0 * k - 1.0)
    else:
        logs = np.logaddexp((k - 1.0) * size, -k * size) - math.log1p(math.exp(-size))
    logs = logs * (1.0 + 1e-14) + (1e-14 if noise in ("laplace", "response") else 0.0)  # upward, past what it rounds
    with np.errstate(over="ignore"):
        log_excess = np.where(logs < 30.0, np.log(np.expm1(np.minimum(logs, 30.0))), logs)
    if rate < 1:
        choose = gammaln(order + 1.0) - gammaln(k + 1.0) - gammaln(order - k + 1.0)
        log_excess = log_excess + choose + k * math.log(rate) + (order - k) * math.log1p(-rate)
        total = float(logsumexp(log_excess))
    else:
        total = float(log_excess[-1])
    return total + 1e-12 if total > 30.0 else math.log1p(math.exp(total))
