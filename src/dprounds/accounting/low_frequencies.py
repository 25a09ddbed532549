r"""The sum of many rounds' losses by the few frequencies that count.

The spectrum of one round's tilted law, to the power of the rounds, is next to nothing but near zero. There it is summed
as it stands; the rest is bounded. With :math:`z = e^{i\omega}` the kernel :math:`e^{-tx}(1 - e^{\varepsilon - x})` over
one period is a geometric series, so no array is as long as the window, and the step may be as fine as one round needs.

With R the range of the law and s its variance in steps, both of the tilted law,

.. math:: |\hat u(\omega)|^2 \le 1 - \frac{4}{\pi^2}\, s\, \omega^2 \quad (\omega \le \pi / R),

and on an interval of length d it exceeds its values at the ends by at most :math:`s d^2 / 4`. The proofs are in
docs/theory/accounting.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.lattice_sum import (
    LARGEST_ERROR,
    UNKNOWN,
    LatticeSum,
    Value,
    fast_length,
    power,
    tilted_masses,
    transform_error,
    wrapped,
)
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["LowFrequencies"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# What is left out may be this much, relative to the largest value of the spectrum; a sum of no cancellation has about
# one over the deviation of them.
LOG_REST = -40.0
# Frequencies at which a spectrum is computed to bound it in between, over the deviation of the law: what is added there
# is 1e-2, and 1e-4 if that is too much for atoms, whose spectrum comes back close to one.
DENSITIES = (32.0, 256.0)


class _Spectrum(NamedTuple):
    """Values at the lowest frequencies, of the law about `center`; their errors; the logarithm of what is beyond."""

    values: ComplexArray
    errors: Array
    log_rest: float
    center: int


@dataclass(frozen=True, eq=False)
class LowFrequencies(LatticeSum):
    """The sum by the lowest `grid.frequencies` of its spectrum, beside the frequency zero."""

    @property
    def bottom(self) -> float:
        """None: a period begins at the first point above whatever epsilon."""
        return -math.inf

    @property
    def is_enough(self) -> bool:
        """Whether the frequencies that are left out are proven not to count."""
        return self.spectrum.log_rest <= LOG_REST

    @cached_property
    def spectrum(self) -> _Spectrum:
        """The product of the powers of the laws' spectra."""
        grid = self.grid
        turns = np.arange(grid.frequencies + 1, dtype=np.float64) * (2.0 * math.pi / grid.size)
        values = np.ones(turns.size, dtype=np.complex128)
        log_size, relative = np.zeros(turns.size), np.full(turns.size, 8.0 * UNIT_ROUNDOFF)
        log_rest, center, drift = 0.0, 0, 0.0
        for law, n in zip(self.laws, self.rounds, strict=True):
            masses = tilted_masses(law, grid.step, grid.t)
            numbers = np.arange(masses.size, dtype=np.float64)
            middle = round(float((masses * numbers).sum()))
            numbers -= middle
            here, error = _lowest(masses, numbers, turns)
            size = np.minimum(np.abs(here) + error, 1.0)
            with np.errstate(under="ignore"):
                values *= power(here, n)
            log_size += float(n) * np.log(size)
            relative += float(n) * (error / size + 4.0 * UNIT_ROUNDOFF)
            drift += float(n) * error
            log_rest += _log_largest_beyond(masses, 2.0 * math.pi / grid.size * turns.size, float(n))
            center += n * (law.first + middle)
        if not drift <= LARGEST_ERROR:
            log_rest = 0.0  # nothing is proven
        with np.errstate(under="ignore"):
            errors = 1.1 * relative * np.exp(log_size) + 1e-300
        return _Spectrum(values, errors, log_rest, center)

    @cached_property
    def _series(self) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """1/(1 - r) and r/(1 - r) for r = exp(-t step + i frequency), and 1/(1 - r exp(-step))."""
        t, step = self.grid.t, self.grid.step
        turns = 2j * math.pi / self.grid.size * np.arange(self.grid.frequencies + 1)
        first = -1.0 / np.expm1(-t * step + turns)
        return first, np.exp(-t * step + turns) * first, -1.0 / np.expm1(-(t + 1.0) * step + turns)

    @cached_property
    def _weights(self) -> Array:
        """Of a frequency and its negative together."""
        weights = np.full(self.grid.frequencies + 1, 2.0 / self.grid.size)
        weights[0] = 1.0 / self.grid.size
        return weights

    def _first_above(self, epsilon: float) -> tuple[int, float]:
        """The number of the first point that is not below epsilon, and how far above it is."""
        step = self.grid.step
        number = math.ceil((epsilon - self.shift) / step)
        distance = (number * step - epsilon) + self.shift
        while distance < 0:
            number, distance = number + 1, distance + step
        while distance >= step:
            number, distance = number - 1, distance - step
        return number, max(distance, 0.0)

    def at(self, epsilon: float) -> Value:
        """The sum over one period from `epsilon` on, its slope, and what bounds its errors."""
        t, step, period, size = self.grid.t, self.grid.step, self.grid.period, self.grid.size
        spectrum = self.spectrum
        number, distance = self._first_above(epsilon)
        point = epsilon + distance
        # exact in integers: the phase of a sum of a million rounds is not to lose a digit
        offset = (number - spectrum.center) % size
        phases = 2.0 * math.pi / size * ((np.arange(self.grid.frequencies + 1) * offset) % size)
        moved = spectrum.values * np.exp(1j * phases)
        first, second, third = self._series
        # exp(iwN) = 1, so the series of exp(-tx) over a period is (1 - exp(-t period)) times that without an end. The
        # difference of both series, brought over one denominator, does not cancel.
        whole = -math.expm1(-t * period)
        excess = -math.expm1(-distance) + math.exp(-t * period) * math.expm1(-distance - period)
        share = -math.expm1(-step) * whole
        kernel = (excess + share * second) * third
        kernel_size = (abs(excess) + share * np.abs(second)) * np.abs(third) * self._weights
        scale = self._scale(point)
        if not (scale < math.inf and self.rounding <= LARGEST_ERROR):
            return UNKNOWN
        value = scale * float((self._weights * (moved * kernel).real).sum())
        # what of the mass lies under Q is the rest of the series of exp(-tx)
        slope = value - scale * whole * float((self._weights * (moved * first).real).sum())
        exponent = self._exponent(epsilon, point, point + period)
        relative = self.rounding + UNIT_ROUNDOFF * (400.0 + 8.0 * exponent)
        noise = scale * float((kernel_size * (spectrum.errors + relative * np.abs(spectrum.values))).sum())
        # Cauchy and Schwarz: the rest of the spectrum times the Euclidean norm of the kernel, which is that from where
        # epsilon is, up to a step below the point
        noise += scale * math.exp(spectrum.log_rest + t * step) * self._kernel_norm
        noise *= 1.0 + relative
        return Value(value, slope, noise + self._beyond(point + period), noise + self._aliases(epsilon))

    def _hair(self, epsilon: float) -> float:
        return 8.0 * UNIT_ROUNDOFF * (abs(epsilon) + self.grid.step + self._shift_size)


def _lowest(masses: Array, numbers: Array, turns: Array) -> tuple[ComplexArray, float]:
    """The sums of masses exp(-i turn number) for the multiples `turns` of one of them, and a bound on their errors."""
    angles = numbers * turns[1]
    turn = np.exp(-1j * angles)
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
        size = fast_length(max(4.0 * reach, density * math.sqrt(variance)))
        squares = np.abs(np.fft.rfft(wrapped(masses, 0, size))) ** 2
        between = 2.0 * math.pi / size
        far = float(squares[min(int(start / between * (1.0 - 1e-9)), squares.size - 2) :].max())
        far += 0.25 * variance * between * between * (1.0 + 1e-9)
        # the error of a transform, of a sum of masses that may differ from one, and of a square
        square = max(near, far) + 4.0 * transform_error(size) * math.sqrt(size) + 1e-12
        found = min(found, 0.5 * rounds * math.log(square))
        if found <= LOG_REST or near > far:
            break
    return found
