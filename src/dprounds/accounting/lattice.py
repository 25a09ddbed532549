r"""The sum of many rounds' losses on a lattice, as a `Line`.

One round's law is put on the multiples of a step (`cells`), tilted by t, and transformed: its spectrum is K on the line
of t, relative to K(t). Where few frequencies count they are summed as they stand and the rest is bounded; with R the
range of the tilted law and v its variance in steps,

.. math:: |\hat u(\omega)|^2 \le 1 - \frac{4}{\pi^2}\, v\, \omega^2 \quad (\omega \le \pi / R),

and on an interval of length d it exceeds its values at the ends by at most :math:`v d^2 / 4`. Else all of them
come from the fast Fourier transform. docs/theory/accounting.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.cells import LatticeLaw
from dprounds.accounting.law import Lattice
from dprounds.accounting.line import LARGEST_RELATIVE_ERROR, SECOND_ORDER, Line
from dprounds.errors import NumericalError
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["LatticePlan", "fast_length", "lattice_line"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# --- What carries a proof; docs/theory/accounting.md has the propositions.

# Each transform of N points errs by at most this times log2 N in the Euclidean norm, relative to it: [Hig02, Theorem
# 24.2] has 6.7 units for exact twiddle factors rounded once and radix two. A butterfly of three or five has at most 7
# roundings on the way to an output, so sqrt(5) * 7 and 4 for its twiddle factors, 20 units, which is less than 16 log2
# of its radix. Real transforms add one pass.
TRANSFORM_ERROR = 16.0 * UNIT_ROUNDOFF
# A weight w e^(tx) errs by units of tx and a few; a sum of n positive terms by log2 n more at most, added in pairs, and
# NumPy's blocks of 128 by at most that many units.
MASS_UNITS = 200.0
# K at a side is a logarithm of such a sum: this much absolutely, and what the rounds add.
SIDE_ERROR = 1e-9

# --- What only tunes speed.

# The frequencies that are left out may have this much of the largest value of the spectrum.
LOG_REST = -40.0
# Frequencies at which a spectrum is computed to bound it in between, over the deviation of the law: what is added there
# is 1e-2, and 1e-4 if that is too much for atoms, whose spectrum comes back close to one.
DENSITIES = (32.0, 256.0)
# Lengths are powers of two times these.
RADICES = (1.0, 1.125, 1.25, 1.5, 1.875)


class LatticePlan(NamedTuple):
    """A lattice for the losses of several parts, and the line on which their sum is taken.

    `ends` are the first and the last point of each part, `points` the number of those of a period, `t` the tilt and
    `sides` the points of the axis that bound the aliases. Of the spectrum as many of the lowest `frequencies` are used,
    or all, by a fast transform, if that is 0. `atoms` are the losses through which the lattice of each part is laid,
    None where it may be chosen. From its knee on the points of a part are sparse.
    """

    step: float
    ends: tuple[tuple[int, int], ...]
    points: int
    t: float
    sides: Array
    frequencies: int = 0
    atoms: tuple[tuple[float, float] | None, ...] = (None,)
    knees: tuple[int | None, ...] = (None,)


class _Spectrum(NamedTuple):
    """The logarithms of a spectrum, the errors of its values, their Euclidean norm, and a ceiling of the others."""

    logs: ComplexArray
    errors: Array | float
    norm_error: float
    log_rest: float


class _Tilted(NamedTuple):
    """One round's masses, tilted by t, of sum one; the number of their middle, and the logarithm of M(t) about it."""

    masses: Array
    middle: int
    log_total: float


def lattice_line(laws: Sequence[tuple[LatticeLaw, int]], plan: LatticePlan) -> Line | None:
    """The line of the sum of these laws, each of which comes with its rounds; None if `frequencies` are too few.

    Guarantee
    ---------
    Brackets delta of these laws. With laws from above its upper bounds hold for the losses themselves, and with laws
    from below its lower bounds.
    """
    step, t = plan.step, plan.t
    tilted = [_tilted(law, step, t) for law, _ in laws]
    rounds = [float(n) for _, n in laws]
    make = _lowest_frequencies if plan.frequencies else _all_frequencies
    spectrum = make(tilted, rounds, plan)
    if spectrum is None:
        return None
    center = sum(
        (
            n * ((law.first + one.middle) * Fraction(step) + Fraction(law.shift))
            for (law, n), one in zip(laws, tilted, strict=True)
        ),
        start=Fraction(0),
    )
    top = math.fsum(n * one.log_total for n, one in zip(rounds, tilted, strict=True))
    reach = max(t * step * max(abs(law.first), abs(law.first + law.masses.size)) for law, _ in laws)
    relative = SECOND_ORDER * 2.0 * sum(rounds) * UNIT_ROUNDOFF * (6.0 * reach + MASS_UNITS)
    at_sides = sum(
        (n * _log_moment(law, step, plan.sides) for (law, _), n in zip(laws, rounds, strict=True)), start=0.0
    )
    slack = SIDE_ERROR + 4.0 * relative * np.maximum(plan.sides / t, 1.0)
    past_rounding = 1.0 + 1e-9  # of a product and a sum for each part, which round by far less
    return Line(
        t=t,
        step=2.0 * math.pi / (plan.points * step),
        values=top + spectrum.logs,
        center=center,
        ceiling=top + spectrum.log_rest,
        sides=np.append(0.0, plan.sides),  # at 0 the bound is that delta is at most one
        side_values=np.append(0.0, at_sides + slack),
        sizes=np.zeros(spectrum.logs.size),
        lattice=Lattice(Fraction(step), center, sum(law.blur * n for law, n in laws) * past_rounding),
        points=plan.points,
        errors=spectrum.errors,
        norm_error=spectrum.norm_error,
        relative_error=relative,
        missing=sum(law.infinite * n for law, n in laws) * past_rounding,
    )


def _all_frequencies(tilted: Sequence[_Tilted], rounds: Sequence[float], plan: LatticePlan) -> _Spectrum:
    """By fast transforms, which err in the Euclidean norm.

    No value of a spectrum exceeds one. Where a computed one does, it is moved to the unit circle, and so no further
    from the true one. Then an error of one factor passes to the product at most as it is, once for each round; its
    logarithm and the product with the rounds add less than three units.
    """
    spectra, sizes, largest = [], np.zeros(plan.points // 2 + 1), 0.0
    with np.errstate(divide="ignore"):
        for one, n in zip(tilted, rounds, strict=True):
            wrapped = _wrapped(one.masses, -one.middle, plan.points)
            largest = max(largest, float(np.sqrt((wrapped * wrapped).sum())))
            spectrum = _transformed(wrapped)
            size = spectrum.real * spectrum.real
            size += spectrum.imag * spectrum.imag
            np.log(size, out=size)
            np.minimum(size, 0.0, out=size)
            size *= 0.5 * n
            sizes += size
            spectra.append(spectrum)
        # The last values, if they are negligible, are left out. The ceiling bounds what was computed of them, and so
        # what the sum loses: the error of a transform counts all values.
        counted = np.flatnonzero(~(sizes <= LOG_REST))  # what is not a number stays, and is refused
        kept = max(int(counted[-1]) + 1 if counted.size else 0, 2)  # the last node of a line is not its first
        logs = np.zeros(min(kept, sizes.size), dtype=np.complex128)
        for spectrum, n in zip(spectra, rounds, strict=True):
            one_round = np.log(np.conj(spectrum[:kept]))
            one_round.real = np.minimum(one_round.real, 0.0)
            logs += n * one_round
    unit = _transform_error(plan.points) + 4.0 * UNIT_ROUNDOFF
    error = SECOND_ORDER * unit * (sum(rounds) + len(rounds) + 1.0) * largest
    log_rest = LOG_REST + 1.0 if logs.size < sizes.size else -math.inf  # one for the rounding of the sizes
    return _Spectrum(logs, 0.0, error if error <= LARGEST_RELATIVE_ERROR else math.inf, log_rest)


def _lowest_frequencies(tilted: Sequence[_Tilted], rounds: Sequence[float], plan: LatticePlan) -> _Spectrum | None:
    """By the sums themselves at the lowest frequencies, and a bound on all others; None if that is not small."""
    turns = np.arange(plan.frequencies + 1, dtype=np.float64) * (2.0 * math.pi / plan.points)
    log_rest = 0.0
    for one, n in zip(tilted, rounds, strict=True):
        log_rest += _log_largest_beyond(one.masses, 2.0 * math.pi / plan.points * turns.size, n)
    if not log_rest <= LOG_REST:
        return None
    logs = np.zeros(turns.size, dtype=np.complex128)
    log_size, relative, drift = np.zeros(turns.size), np.full(turns.size, 8.0 * UNIT_ROUNDOFF), 0.0
    for one, n in zip(tilted, rounds, strict=True):
        here, error = _lowest(one.masses, np.arange(one.masses.size, dtype=np.float64) - one.middle, turns)
        size = np.minimum(np.abs(here) + error, 1.0)
        with np.errstate(divide="ignore"):
            logs += n * np.log(here)
        log_size += n * np.log(size)
        relative += n * (error / size + 4.0 * UNIT_ROUNDOFF)
        drift += n * error
    if not drift <= LARGEST_RELATIVE_ERROR:
        return None
    with np.errstate(under="ignore"):
        errors = SECOND_ORDER * relative * np.exp(log_size) + 1e-300  # what underflows
    return _Spectrum(logs, errors, 0.0, log_rest)


def _tilted(law: LatticeLaw, step: float, t: float) -> _Tilted:
    held = np.flatnonzero(law.masses)
    masses, exponents = law.masses[held], t * step * (held + float(law.first))
    top = float(np.max(np.log(masses) + exponents))
    # in two factors, neither of which overflows: no mass is below exp(-745)
    half = np.exp(np.minimum(0.5 * (exponents - top), 700.0))
    weights = masses * half * half
    total = float(weights.sum())
    weights /= total
    middle = round(float((weights * held).sum()))
    tilted = np.zeros(law.masses.size)
    tilted[held] = weights
    return _Tilted(tilted, middle, (top - t * step * (law.first + middle)) + math.log(total))


def _log_moment(law: LatticeLaw, step: float, at: Array) -> Array:
    """K at a row of real points, of the law itself."""
    held = np.flatnonzero(law.masses)
    logs, multiples = np.log(law.masses[held]), step * (held + float(law.first))
    found = np.empty(at.size)
    for i, t in enumerate(at):
        exponents = logs + t * multiples
        top = float(exponents.max())
        found[i] = top + math.log(float(np.exp(exponents - top).sum())) + t * law.shift
    return found


def fast_length(least: float) -> int:
    """The least even length from `least` on that has few and small factors, as fast transforms need it."""
    octave = 2.0 ** max(math.floor(math.log2(max(least, 1.0))), 4)
    return int(octave * next((radix for radix in RADICES if radix * octave >= least), 2.0))


def _transform_error(points: int) -> float:
    """What a transform errs by, in the Euclidean norm and relative to it."""
    return TRANSFORM_ERROR * math.log2(points)


def _transformed(circle: Array) -> ComplexArray:
    """The fast transform of an even number of values, whose norm is checked by Parseval's identity.

    An error that is larger in the norm than `_transform_error` may pass, if it leaves the norm as it is; one that does
    not is seen.
    """
    found = np.asarray(np.fft.rfft(circle))
    squares = found.real**2 + found.imag**2
    norm = 2.0 * float(squares.sum()) - float(squares[0] + squares[-1])  # all others come with their conjugates
    true = circle.size * float((circle * circle).sum())
    # squares are off by twice as much as what is squared, and both sums by less than as many units again
    if not abs(norm - true) <= 4.0 * _transform_error(circle.size) * true:
        raise NumericalError("A fast transform contradicts Parseval's identity: NumPy here is not to be trusted.")
    return found


def _wrapped(masses: Array, first: int, points: int) -> Array:
    """Masses at `first`, `first + 1`, … on a circle."""
    if masses.size > points:
        masses = np.append(masses, np.zeros(-masses.size % points)).reshape(-1, points).sum(axis=0)
    circle, start = np.zeros(points), first % points
    before = min(points - start, masses.size)
    circle[start : start + before] = masses[:before]
    circle[: masses.size - before] = masses[before:]
    return circle


def _lowest(masses: Array, numbers: Array, turns: Array) -> tuple[ComplexArray, float]:
    """The sums of masses exp(i turn number) for the multiples `turns` of one of them, and a bound on their errors."""
    angles = numbers * turns[1]
    turn = np.exp(1j * angles)
    summands = masses.astype(np.complex128)
    found = np.empty(turns.size, dtype=np.complex128)
    for i in range(turns.size):
        found[i] = summands.sum()
        summands *= turn
    # An angle is rounded three times, and a factor by units of it and two more; a product by three, once for each
    # multiple; the terms and their sum by fewer than 200.
    largest = float(np.abs(angles).max())
    return found, UNIT_ROUNDOFF * (250.0 + turns.size * (4.0 * largest + 8.0))


def _log_largest_beyond(masses: Array, cutoff: float, rounds: float) -> float:
    """An upper bound of the logarithm of the spectrum of these masses, to the power of the rounds, beyond `cutoff`."""
    held = np.flatnonzero(masses)
    reach = int(held[-1] - held[0])
    if not reach:
        return 0.0
    numbers = np.arange(masses.size, dtype=np.float64)
    mean = float((masses * numbers).sum())
    variance = float((masses * (numbers - mean) ** 2).sum())
    start, near = cutoff, 0.0
    if cutoff < math.pi / reach:
        start, near = math.pi / reach, 1.0 - (2.0 / math.pi * cutoff) ** 2 * variance * (1.0 - 1e-9)
    found = 0.0
    for density in DENSITIES:
        points = fast_length(max(4.0 * reach, density * math.sqrt(variance)))
        squares = np.abs(_transformed(_wrapped(masses, 0, points))) ** 2
        between = 2.0 * math.pi / points
        far = float(squares[min(int(start / between * (1.0 - 1e-9)), squares.size - 2) :].max())
        far += 0.25 * variance * between * between * (1.0 + 1e-9)
        # the error of a transform, of a sum of masses that may differ from one, and of a square
        square = max(near, far) + 4.0 * _transform_error(points) * math.sqrt(points) + 1e-12
        found = min(found, 0.5 * rounds * math.log(square))
        if found <= LOG_REST or near > far:
            break
    return found
