"""What an attacker proves of a run, by means that import nothing of dprounds.

Any event A shows ε ≥ log((P(A) - δ)/Q(A)), and any function of the outputs shows no more than the outputs do
(`benchmarks.atoms`). So a reported ε below such a bound is wrong. Rényi moments in closed form bound ε from above: a
reported lower end above that is wrong too. Where the profile has a closed form or a short sum, both ends are judged by
it in arbitrary precision, without a tolerance; events and moments are in doubles and give up more than those round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr, logsumexp

from benchmarks.atoms import Part, epsilon_below
from benchmarks.truth import responses
from tests.references import gaussian, one_round

__all__ = ["Part", "beyond_a_threshold", "epsilon_below", "exact_delta", "from_moments"]

Array = NDArray[np.float64]
Number = Any  # mpmath has no types

# Doubles round less than this, relative to a probability.
MARGIN = 1e-11
# The largest noise of a discrete Gaussian, and the most responses, that are summed in arbitrary precision.
MOST_EXACT_NOISE, MOST_EXACT_RESPONSES = 20.0, 2000
# Cells that the outputs of one round are merged into.
CELLS = 1000
# Orders of the moments.
ORDERS = (2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 28, 36, 48, 64, 96, 128, 192, 256, 384, 512, 768)
# Up to this noise every integer is a cell of its own.
ATOMS_NOISE = 19.0


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


# ---- An upper bound of epsilon ----


def from_moments(parts: Sequence[Part], delta: float) -> float:
    """Epsilon that Rényi moments of whole orders prove; `remove` has the larger one, and bounds `add` too."""
    best = math.inf
    for order in ORDERS:
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
