r"""One round within a level: M - 1 and B at the nodes of a line, with bounds on their errors.

:math:`M(z) = E_P[e^{z\ell} g]` of the rounds below the high step, and :math:`B(z)` of those above the low step too, by
trapezoid sums over the log-ratio v, turned by an angle. docs/theory/levels.md has the proofs, under the names used
here: *quadrature*, *rounding*.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.levels.plan import Block, LevelPlan, forward_power
from dprounds.accounting.levels.steps import Factor, Grid, Step
from dprounds.accounting.turnable import Turnable
from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import complex_expm1, exp_minus_tangent_at
from dprounds.numerics.rotations import products, rotations, sums_of_rotations
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["LARGEST_EXPONENT", "Masses", "OneRound", "exp_or_infinity"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# --- What carries a proof; docs/theory/levels.md has the propositions.

# Rounding of one round's sums on a line, relative to the sizes of their terms. Measured, not proven.
SUM_ERROR = 256.0 * UNIT_ROUNDOFF
# Terms that are exponentials of more than this err by more, in proportion.
EXPONENT_OF_SUM = 64.0

# --- The range of doubles.

# Larger exponents are those of infinity.
LARGEST_EXPONENT = 700.0
# Exponentials of more than this are computed together with their weights: by themselves they may be infinite.
LARGEST_APART = 30.0


def exp_or_infinity(x: float) -> float:
    """exp(x), infinite where doubles end."""
    return math.exp(x) if x < LARGEST_EXPONENT else math.inf  # also where it is not a number


class Masses:
    """E_N[step], E_N[w step], their difference E_N[(w - 1) step], and bounds on their errors, made when asked for.

    All are 0 if there is no step.
    """

    def __init__(self, grid: Grid, step: Step | None, strip: float) -> None:
        self.n = self.w = self.excess = 0.0
        self.step = step
        if step is None:
            return
        self.factor, self.grid = Factor(step, True), grid
        self.found = grid.mean(np.array([0.0, 1.0]), (self.factor,), strip)
        self.n, self.w = np.exp(self.found.log).tolist()
        self.logs = grid.logs_of((self.factor,))
        self.terms = np.exp(grid.log_n + self.logs) * np.expm1(grid.log_w)
        self.excess = float(self.terms.sum())
        if not (self.excess >= 0 and self.w < 1 and self.n < 1):
            raise NumericalError("A step is too low for the sums of its rounds.")

    @cached_property
    def _errors(self) -> tuple[float, float, float]:
        if self.step is None:
            return 0.0, 0.0, 0.0
        sizes = np.array([self.n, self.w])
        worn = 1.0 + (np.abs(self.grid.log_n) + np.abs(self.logs)) / EXPONENT_OF_SUM
        rounding = SUM_ERROR * float(np.abs(self.terms) @ worn)
        n_error, w_error = (self.found.error * sizes).tolist()
        return n_error, w_error, rounding + float(self.found.quadrature @ sizes)

    @property
    def n_error(self) -> float:
        """Of E_N[step]."""
        return self._errors[0]

    @property
    def w_error(self) -> float:
        """Of E_N[w step]."""
        return self._errors[1]

    @property
    def excess_error(self) -> float:
        """Of E_N[(w - 1) step]."""
        return self._errors[2]


class OneRound:
    """One round of a level on its line."""

    def __init__(self, pair: Turnable, plan: LevelPlan, masses: Masses) -> None:
        self.pair, self.plan, self.masses = pair, plan, masses
        self.grid = Grid(pair, *plan.ends, plan.step_of_v)
        self.inside = () if plan.high is None else (Factor(plan.high, False),)
        self.both = self.inside if plan.low is None else (*self.inside, Factor(plan.low, True))
        self.power = float(forward_power(pair, np.array(plan.t)))
        first = pair.mixture_first
        # P and Q of the rounds above the high step, and P - Q
        self.p, self.q = (masses.w, masses.n) if first else (masses.n, masses.w)
        self.excess = masses.excess if first else -masses.excess

    @property
    def mass_errors(self) -> tuple[float, float]:
        """Of P and Q of the rounds above the high step."""
        errors = self.masses.n_error, self.masses.w_error
        return errors[::-1] if self.pair.mixture_first else errors

    def errors(self, block: Block, m_rounding: Array, b_rounding: Array) -> tuple[Array, Array]:
        """Bounds on the errors of M and B at the nodes of a block, given those by the roundings of its sums."""
        size = np.abs(self.plan.t + 1j * (self.plan.step * np.arange(block.first, block.end)))
        m_errors = m_rounding + self.mass_errors[0] + size * self.masses.excess_error
        m_errors += self._quadrature_of_m(block, size)
        if self.plan.low is None:
            return m_errors, b_rounding
        power = np.array([self.power])
        moved = self._moved(block, self.both, power) - self.grid.log_aliases(block.strip)
        outside = self.grid.outside_turned(power, self.both, block.angle)
        return m_errors, b_rounding + exp_or_infinity(float(np.logaddexp(moved, outside).item()))

    def sums(self, block: Block) -> tuple[ComplexArray, ComplexArray, Array, Array]:
        """M - 1 and B at the nodes of a block, with bounds on their roundings: matrix products over turned v."""
        plan, grid, t = self.plan, self.grid, self.plan.t
        sign = 1.0 if self.pair.mixture_first else -1.0
        v = np.asarray(grid.v + 1j * sign * block.angle, dtype=np.complex128)
        x, log_w = np.exp(v), np.asarray(self.pair.log_mixture(v), dtype=np.complex128)
        loss = sign * log_w
        log_p = np.asarray(self.pair.log_density(v)) + math.log(grid.step) + (log_w if self.pair.mixture_first else 0.0)
        inside = np.ones_like(x)
        for factor in self.inside:
            inside = inside * factor.value(x)
        weights, tilted = np.exp(log_p) * inside, np.exp(log_p + t * loss) * inside
        count = block.end - block.first
        width = max(1, math.isqrt(count))
        rows: Array = plan.step * (block.first + width * np.arange(-(-count // width), dtype=np.float64))
        columns: Array = plan.step * np.arange(width, dtype=np.float64)
        left, right = rotations(loss, tilted, rows), rotations(loss, tilted, columns)
        bent = sums_of_rotations(left, right, tilted)[:count]
        s = np.asarray(plan.step * np.arange(block.first, block.end), dtype=np.float64)
        z = t + 1j * s
        grown = t * loss
        together = grown.real > LARGEST_APART
        apart = np.where(together, 0.0, grown)
        at_t = np.where(together, tilted - weights * (1.0 + grown), weights * exp_minus_tangent_at(apart))
        slope = np.where(together, tilted - weights, weights * complex_expm1(apart)) * loss
        reverse = weights * exp_minus_tangent_at(-loss)
        m1 = bent - self.p - z * self.excess + at_t.sum() + z * reverse.sum() + 1j * s * slope.sum()
        worn = 1.0 + np.abs(log_p) / EXPONENT_OF_SUM
        heavy, length = np.abs(tilted) * worn, np.abs(loss)
        size = np.minimum(s * s * float(heavy @ length**2), 4.0 * float(heavy.sum()) + s * float(heavy @ length))
        size += float(np.abs(at_t) @ worn) + s * float(np.abs(slope) @ worn) + self.p
        size += np.abs(z) * (float(np.abs(reverse) @ worn) + abs(self.excess))
        if plan.low is None:
            return m1, np.zeros(count, dtype=np.complex128), SUM_ERROR * size, np.zeros(count)
        # exponentials themselves, and not one more than rotations: far up a turned line they are far below one
        tilted = tilted * Factor(plan.low, True).value(x)
        by_row, by_column = (np.exp(1j * np.multiply.outer(each, loss)) for each in (rows, columns))
        b = products(by_row * tilted, by_column).ravel()[:count]
        heavy = np.abs(tilted) * worn
        moduli = np.abs(by_row)
        still, moving = np.repeat(moduli @ heavy, width)[:count], np.repeat(moduli @ (heavy * length), width)[:count]
        return m1, b, SUM_ERROR * size, SUM_ERROR * (still + (t + s) * moving)

    def _quadrature_of_m(self, block: Block, sizes: Array) -> Array:
        """*Quadrature* of M - 1, the average of g (e^(zL) - 1 + z (e^-L - 1)): of its parts under P and Q."""
        moving = self._moved(block, self.inside, np.array([self.power]))
        still = self._moved(block, self.inside, np.array([0.0, 1.0]), still=True)
        outside = self.grid.outside_turned(np.array([self.power, 0.0, 1.0]), self.inside, block.angle)
        moved = np.concatenate([moving, still]) - self.grid.log_aliases(block.strip)
        parts = [exp_or_infinity(part) for part in np.logaddexp(moved, outside).tolist()]
        return np.asarray(parts[0] + (1.0 + sizes) * (parts[1] + parts[2]))

    def _moved(self, block: Block, factors: tuple[Factor, ...], powers: Array, *, still: bool = False) -> Array:
        """Logarithms of the integrals on both lines of a block's strip, for all of its nodes; or for s = 0."""
        low, high = self.plan.step * block.first, self.plan.step * (block.end - 1)
        inner = block.angle - block.strip
        s = (0.0, 0.0) if still else (low, low if inner >= 0 else -high)
        return np.asarray(
            np.logaddexp(
                self.grid.upper_sums(powers, factors, block.angle + block.strip, s[0]),
                self.grid.upper_sums(powers, factors, abs(inner), s[1]),
            )
        )
