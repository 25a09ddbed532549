r"""Losses of batches of fixed size: masses of their intervals, from above and for a real attack.

With :math:`\mathsf E_d(\lambda)` the excess of :math:`N(d, \sigma^2)` over :math:`N(0, \sigma^2)`, q the rate,
:math:`\lambda' = 1 + (\lambda - 1)/q` and :math:`\beta = \lambda/\lambda'`, an emptied record has at
:math:`\lambda \ge 1`

.. math:: h_{\text{remove}} = q\,[\beta\,\mathsf E_1(\lambda') + (1-\beta)\,\mathsf E_2(\lambda')], \qquad
          h_{\text{add}} = q\,\mathsf E_1(\lambda'),

and at smaller ones the other direction's, exchanged. Masses above a level are :math:`-h'` and :math:`h - \lambda h'`.
docs/theory/loaders.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.cells import VANISHED, Cells, CellsOf, atoms_in_cells
from dprounds.errors import NumericalError
from dprounds.mechanisms.base import ADD, REMOVE
from dprounds.mechanisms.grouped_batches import Part, mixed_cells
from dprounds.mechanisms.sampled_gaussian import gaussian_cells, normal_cells
from dprounds.mechanisms.sampling import sampled_cells
from dprounds.numerics.mixture import log_mixture
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from dprounds.numerics.special import ndtr

__all__ = [
    "attack_cells",
    "emptied_attack_cells",
    "emptied_cells",
    "group_attack_cells",
    "noises_cells",
    "two_sided_cells",
]

Array = NDArray[np.float64]
# Noises, each with its weight.
Weighted = Sequence[tuple[float, float]]

# --- What carries a proof.

# Units of rounding of a normal tail, times the square of the size of its argument: three for the operations that make
# the argument, each times the slope of the tail's logarithm, ten for `ndtr`, and twice as many to spare.
TAIL_UNITS = 32.0

# --- What only tunes tightness.

LARGEST_EXPONENT, LARGEST_LEVEL = 700.0, 1e300
# Where a chord may begin and end, how many are tried, and how far apart where none of them is as steep as it should be.
CHORD_ENDS = np.concatenate([-np.geomspace(1e-9, 60.0, 2000)[::-1], np.geomspace(1e-9, 60.0, 2000)])
MOST_CHORDS = 1000
FURTHER = 16
# Intervals into which an attacker sorts the sum of a batch, which may hold some of a group, and how far they reach, in
# deviations.
GROUP_INTERVALS = 2**13
GROUP_REACH = 10.0
# So many of a group's records are in a batch so rarely that the intervals need not reach further.
LEAST_CHANCE = 1e-15


def two_sided_cells(noises: Weighted, rate: float, edges: Array) -> Cells:
    """Cells of the losses log w and -log w, both where w > 1, and of the atom at 0; of a mixture by its noises."""
    positive = partial(noises_cells, noises, rate)
    rest = (1.0 - rate) * sum(weight * math.erf(0.5 / noise * math.sqrt(0.5)) for weight, noise in noises)
    error = (16.0 + len(noises)) * UNIT_ROUNDOFF * rest
    return _joined(_upward(positive, edges), _upward(positive, -edges[::-1]), rest, error, edges)


def noises_cells(noises: Weighted, rate: float, edges: Array) -> Cells:
    """Cells of a sampled Gaussian in the direction `remove`, or of a mixture of several of the same rate."""
    inner = partial(mixed_cells, [Part(weight, partial(gaussian_cells, noise)) for weight, noise in noises])
    return sampled_cells(inner if len(noises) > 1 else partial(gaussian_cells, noises[0][1]), rate, REMOVE, edges)


def emptied_cells(noise: float, rate: float, direction: str, edges: Array) -> Cells:
    """Cells of a law that dominates an emptied record, in one direction."""
    other = REMOVE if direction == ADD else ADD
    here = _upward(partial(_emptied_tails, noise, rate, direction), edges)
    back = _upward(partial(_emptied_tails, noise, rate, other), -edges[::-1])
    rest = 1.0 - float(here.p.sum() + back.q.sum())
    # the tails at 0, of which the rest is what they leave, are known to a few units of one
    cells = _joined(here, back, rest, 64.0 * UNIT_ROUNDOFF, edges)
    chord = _chord(noise, rate, direction)
    if chord is not None:
        _bridge(chord, noise, rate, direction, edges, cells)
    _refuse_losses_above_their_cells(cells, edges)
    return cells._replace(p=np.maximum(cells.p, 0.0), q=np.maximum(cells.q, 0.0))


def _refuse_losses_above_their_cells(cells: Cells, edges: Array) -> None:
    """Raise where a mass is negative, or more under P than losses up to the upper end of its cell allow.

    Nothing else of the profile need be convex for a lattice to bound what is below it; see docs/theory/loaders.md.
    """
    with np.errstate(over="ignore"):
        most = np.append(np.exp(edges + cells.blur), np.inf) * (1.0 + 16.0 * UNIT_ROUNDOFF)
        allowed = most * (cells.q + cells.q_error + VANISHED)
    is_pair = (cells.p >= -cells.p_error - VANISHED) & (cells.q >= -cells.q_error - VANISHED)
    is_pair &= cells.p - cells.p_error - VANISHED <= allowed
    if not is_pair.all():  # also where one of them is not a number
        raise NumericalError("The bound of a batch of fixed size is not that of a pair of laws here.")


class _Profile(NamedTuple):
    """The bound h of an emptied record at levels from one on, the masses above them, and what each is off by."""

    h: Array
    p: Array
    q: Array
    h_error: Array
    p_error: Array
    q_error: Array


class _Chord(NamedTuple):
    """Where a straight line takes the place of a profile that is not convex: its ends, and the masses above its levels.

    The true profile is convex and at most h at both ends of any chord, so it is below the chord.
    """

    first: float
    last: float
    p: float
    q: float
    p_error: float
    q_error: float


def _whole_profile(noise: float, rate: float, direction: str, losses: Array) -> _Profile:
    """The profile at increasing losses of both signs: at levels below one it is the other direction's, exchanged."""
    at = int(np.searchsorted(losses, 0.0))
    here = _emptied_profile(noise, rate, direction, losses[at:])
    back = _emptied_profile(noise, rate, REMOVE if direction == ADD else ADD, -losses[:at])
    level = np.exp(losses[:at])
    below = _Profile(
        -np.expm1(losses[:at]) + level * back.h,
        1.0 - back.q,
        1.0 - back.p,
        level * back.h_error + 8.0 * UNIT_ROUNDOFF,
        back.q_error + UNIT_ROUNDOFF,
        back.p_error + UNIT_ROUNDOFF,
    )
    return _Profile(*(np.concatenate(pair) for pair in zip(below, here, strict=True)))


@lru_cache(maxsize=64)
def _chord(noise: float, rate: float, direction: str) -> _Chord | None:
    """The chord between two of `CHORD_ENDS` at which the profile is as steep as it is; None if h is convex there."""
    found = _whole_profile(noise, rate, direction, CHORD_ENDS)
    levels = np.exp(CHORD_ENDS)
    rises = np.flatnonzero(np.diff(found.q) > found.q_error[1:] + found.q_error[:-1])
    if not rises.size:
        return None
    a, b = _bitangent(levels, found.h, int(rises[0]), int(rises[-1]) + 1)
    for _ in range(MOST_CHORDS):
        width = float(levels[b] - levels[a])
        slope = float(found.h[a] - found.h[b]) / width  # turned round
        if found.q[a] < slope:
            steep = np.flatnonzero(found.q[:a] >= slope)
            a = int(steep[-1]) if steep.size else max(a - FURTHER, 0)
        elif found.q[b] > slope:
            flat = np.flatnonzero(found.q[b:] <= slope)
            b = b + int(flat[0]) if flat.size else min(b + FURTHER, levels.size - 1)
        else:
            error = float(found.h_error[a] + found.h_error[b]) / width + 8.0 * UNIT_ROUNDOFF * slope
            p = float(found.h[a] + levels[a] * slope)
            p_error = float(found.h_error[a] + levels[a] * error) + 8.0 * UNIT_ROUNDOFF * p
            return _Chord(float(CHORD_ENDS[a]), float(CHORD_ENDS[b]), p, slope, p_error, error)
    raise NumericalError("The bound of a batch of fixed size has no convex one below it here.")


def _bitangent(levels: Array, h: Array, last: int, first: int) -> tuple[int, int]:
    """The ends of the lowest chord of a falling h: one up to the point `last`, the other from `first` on."""
    a, b = last, first
    for _ in range(MOST_CHORDS):
        left = int(np.argmin((h[: last + 1] - h[b]) / (levels[b] - levels[: last + 1])))
        right = first + int(np.argmax((h[left] - h[first:]) / (levels[first:] - levels[left])))
        if (left, right) == (a, b):
            break
        a, b = left, right
    return a, b


def _bridge(chord: _Chord, noise: float, rate: float, direction: str, edges: Array, cells: Cells) -> None:
    """Change the cells between increasing edges to those of the profile with its chord."""
    inside = (edges > chord.first) & (edges < chord.last)
    if not inside.any():
        return  # the masses of a cell do not change if both ends of the chord are in it, or none
    first, last = int(np.argmax(inside)), edges.size - int(np.argmax(inside[::-1]))
    found = _whole_profile(noise, rate, direction, edges[max(first - 1, 0) : last + 1])
    for masses, errors, tails, tail_errors, on_chord, chord_error in (
        (cells.p, cells.p_error, found.p, found.p_error, chord.p, chord.p_error),
        (cells.q, cells.q_error, found.q, found.q_error, chord.q, chord.q_error),
    ):
        masses[first + 1 : last], errors[first + 1 : last] = 0.0, 0.0
        before, before_error = (float(tails[0]), float(tail_errors[0])) if first else (1.0, 0.0)
        after, after_error = (float(tails[-1]), float(tail_errors[-1])) if last < edges.size else (0.0, 0.0)
        masses[first], errors[first] = before - on_chord, before_error + chord_error
        masses[last], errors[last] = on_chord - after, chord_error + after_error


def _upward(cells_of: CellsOf, edges: Array) -> Cells:
    """Cells of the positive losses alone: from 0 to the first positive edge, and on."""
    positive = edges[edges > 0]
    found = cells_of(np.append(0.0, positive))
    return Cells(found.p[1:], found.q[1:], found.p_error[1:], found.q_error[1:], found.blur)


def _joined(here: Cells, back: Cells, rest: float, rest_error: float, edges: Array) -> Cells:
    """Cells of all losses, from those of the positive ones, of the negative ones turned round, and an atom at 0."""
    n = edges.size + 1
    p, q, p_error, q_error = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    first = n - here.p.size
    p[first:], q[first:], p_error[first:], q_error[first:] = here.p, here.q, here.p_error, here.q_error
    last = back.p.size
    p[:last] += back.q[::-1]
    q[:last] += back.p[::-1]
    p_error[:last] += back.q_error[::-1]
    q_error[:last] += back.p_error[::-1]
    at = int(np.searchsorted(edges, 0.0))
    for masses, errors in ((p, p_error), (q, q_error)):
        masses[at] += rest
        errors[at] += rest_error
    return Cells(p, q, p_error, q_error, max(here.blur, back.blur))


def _emptied_tails(noise: float, rate: float, direction: str, edges: Array) -> Cells:
    """Cells between increasing losses from 0 on; the first, below 0, is empty. Below 0 where h is not convex."""
    if direction == ADD:
        return sampled_cells(partial(gaussian_cells, noise), rate, REMOVE, edges)
    found = _emptied_profile(noise, rate, direction, edges)
    p, q = (np.append(0.0, -np.diff(np.append(tail, 0.0))) for tail in (found.p, found.q))
    p_error, q_error = (np.append(0.0, tail + np.append(tail[1:], 0.0)) for tail in (found.p_error, found.q_error))
    blur = 8.0 * UNIT_ROUNDOFF * float(np.abs(edges[-1]) + 1.0)
    return Cells(p, q, p_error, q_error, blur)


def _emptied_profile(noise: float, rate: float, direction: str, losses: Array) -> _Profile:
    """Those of one direction, at the levels with these logarithms."""
    with np.errstate(over="ignore"):
        # λ' - 1: beyond what doubles hold, masses above a smaller level, which are larger ones
        growth = np.minimum(np.expm1(np.minimum(losses, LARGEST_EXPONENT)) / rate, LARGEST_LEVEL)
    level = np.log1p(growth)  # the logarithm of λ'
    p1, q1, error1 = _tails(1.0 / noise, level)
    scaled = np.exp(np.minimum(level, 700.0))
    near = p1 - scaled * q1  # the excess
    if direction == ADD:
        # -h' is that of the excess, and h - λ h' follows
        q, h = q1, rate * near
        p = h + (1.0 + rate * growth) * q
        q_error = 2.0 * error1 * q1
        p_error = 4.0 * error1 * (rate * p1 + (1.0 + rate * growth) * q1)
    else:
        share = (1.0 + rate * growth) / (1.0 + growth)  # β
        slope = (1.0 - rate) / (1.0 + growth) / (1.0 + growth)  # of β in λ, times -q
        p2, q2, error2 = _tails(2.0 / noise, level)
        far = p2 - scaled * q2
        h = rate * (share * near + (1.0 - share) * far)
        # -h', and h - λ h'
        q = share * q1 + (1.0 - share) * q2 - slope * (far - near)
        p = h + (1.0 + rate * growth) * q
        size = share * p1 + (1.0 - share) * p2 + slope * (p1 + p2)
        q_error = (error1 + error2) * (size / scaled + slope * (p1 + p2))
        p_error = (error1 + error2) * (1.0 + rate * growth) * (size / scaled + slope * (p1 + p2)) + (
            error1 + error2
        ) * rate * size
    return _Profile(h, p, q, p_error + (1.0 + rate * growth) * q_error, p_error, q_error)


def _tails(distance: float, level: Array) -> tuple[Array, Array, Array]:
    """P(v > level) and Q(v > level) of two normal laws, and a bound on their relative errors."""
    a = level / distance - 0.5 * distance
    b = a + distance
    size = 1.0 + np.abs(b) + level / distance
    return ndtr(-a), ndtr(-b), UNIT_ROUNDOFF * TAIL_UNITS * size * size


def emptied_attack_cells(noise: float, rate: float, direction: str, edges: Array) -> Cells:
    """Cells of real neighbours: the record's batch is 2 above the others with it, and 1 above them when it is empty."""
    if direction == ADD:
        p, q, p_error, q_error, blur = emptied_attack_cells(noise, rate, REMOVE, -edges[::-1])
        return Cells(q[::-1], p[::-1], q_error[::-1], p_error[::-1], blur)
    left, right, is_reached = _ratios_of_attack(noise, rate, edges)
    v = np.concatenate([left[::-1], right])
    size = noise * np.abs(v) + 1.5 / noise
    none, one, two = (normal_cells(noise * v - shift / noise, size) for shift in (-0.5, 0.5, 1.5))
    (p, p_error), (q, q_error) = (
        (
            _folded((1.0 - rate) * none[0] + rate * moved[0], left.size),
            _folded(
                (1.0 - rate) * (none[1] + 4.0 * UNIT_ROUNDOFF * none[0])
                + rate * (moved[1] + 4.0 * UNIT_ROUNDOFF * moved[0]),
                left.size,
            ),
        )
        for moved in (two, one)
    )
    # No inverse is exact, and none need be: the cells are those of the v that were found. Both logarithms grow with v.
    loss = log_mixture(rate, 2.0 * v - 1.0 / noise**2) - log_mixture(rate, v)
    off = np.abs(loss - np.concatenate([edges[: left.size][::-1], edges]))
    off += UNIT_ROUNDOFF * (32.0 * np.abs(v) + 16.0 * np.abs(loss) + 32.0 / noise**2 + 32.0)
    reached = np.concatenate([is_reached[: left.size][::-1], is_reached])
    return Cells(p, q, p_error, q_error, float(off[reached].max(initial=0.0)))


def group_attack_cells(noise: float, chances: Mapping[int, float], direction: str) -> CellsOf:
    """Cells of real neighbours: j of a group's records put a batch 2 j above the others, and j when they are empty.

    `chances` are those of each j, rounded once.
    """
    likely = max(j for j, chance in chances.items() if chance > LEAST_CHANCE)
    x = np.linspace(-GROUP_REACH, 2.0 * likely / noise + GROUP_REACH, GROUP_INTERVALS)

    def moved_by(j: int, edges: Array) -> Cells:
        """The masses of the sums of a batch that holds j of them."""
        far, near = (normal_cells(edges - move, np.abs(edges) + move) for move in (2.0 * j / noise, j / noise))
        (p, p_error), (q, q_error) = (far, near) if direction == REMOVE else (near, far)
        return Cells(p, q, p_error, q_error, 0.0)

    found = mixed_cells([Part(chance, partial(moved_by, j)) for j, chance in chances.items()], x)
    return attack_cells(found.p, found.q, found.p_error, found.q_error)


def _folded(masses: Array, below: int) -> Array:
    """Masses of the losses, from those of the outputs in order: so many on the left have the losses of others."""
    folded = masses[below:].copy()
    folded[1 : below + 1] += masses[:below][::-1]
    return folded


def _ratios_of_attack(noise: float, rate: float, losses: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    r"""The log-ratios v of N(1) over N(0) at these increasing losses: on the left, for negative ones, and on the right.

    With :math:`\rho = e^v`, :math:`\kappa = e^{-1/\sigma^2}` and :math:`\lambda` the loss's exponential it is

    .. math:: 1 - q + q \kappa \rho^2 = \lambda\,(1 - q + q \rho),

    of which :math:`\lambda (1 \pm \sqrt D) / 2\kappa` are the roots,
    :math:`D = 1 - 4 \kappa\,(1 - \lambda)(1 - q) / q\lambda^2`. Losses below the least, where D is negative, are not
    reached; between their roots is nothing.
    """
    square, log_odds = 1.0 / (noise * noise), math.log1p(-rate) - math.log(rate)
    size = np.abs(losses)
    with np.errstate(divide="ignore"):
        log_gap = np.log(-np.expm1(-size))
    exponents = np.where(losses < 0, 2.0 * size, -size) + log_gap + (math.log(4.0) - square + log_odds)
    d = 1.0 + np.sign(losses) * np.exp(np.minimum(exponents, LARGEST_EXPONENT))
    # where it may be 0 but for its rounding there is one root
    is_reached = d >= -UNIT_ROUNDOFF * (8.0 * (2.0 * size + square + abs(log_odds)) + 32.0)
    log_half = np.log(0.5 + 0.5 * np.sqrt(np.maximum(d, 0.0)))
    right = losses + log_half + square
    below = int(np.searchsorted(losses, 0.0))
    left = (log_odds + log_gap - losses - log_half)[:below]
    first = int(np.argmax(is_reached)) if is_reached.any() else losses.size
    # ... nothing: both are where the roots of the first loss that is reached begin to part
    middle = right[first] if first < losses.size else 0.0
    if first < below:
        middle = 0.5 * (middle + left[first])
    right[:first], left[:first] = middle, middle
    return np.minimum.accumulate(np.minimum(left, middle)), np.maximum.accumulate(right), is_reached


def attack_cells(p: Array, q: Array, p_error: Array, q_error: Array) -> CellsOf:
    """Cells of outputs that were sorted into intervals, of masses p and q: what is left tells no more than they did.

    What an interval's mass may be off by is taken from p, and added to q, which makes the attack weaker.
    """
    p, q = np.maximum(p - p_error, 0.0), q + q_error
    held = (p > 1e-290) & (q > 1e-290)
    p, q = p[held], q[held]
    losses = np.log(p) - np.log(q)
    order = np.argsort(losses, kind="stable")  # as a rule they are nearly in order
    blur = 8.0 * UNIT_ROUNDOFF * float(np.abs(losses).max(initial=1.0))
    return partial(atoms_in_cells, losses=losses[order], p=p[order], q=q[order], error=4.0 * UNIT_ROUNDOFF, blur=blur)
