r"""One level on its line: all rounds together, and what they add to delta.

The level of the runs with a round above the low step and none above the high one is a positive measure of transform
:math:`F = M^T - (M - B)^T`. docs/theory/levels.md proves the bounds, under the names used here: *alias above*, *alias
below*, *truncation*, *rounding*.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.kernel import log_zeta
from dprounds.accounting.levels.one_round import LARGEST_EXPONENT, OneRound, exp_or_infinity
from dprounds.accounting.levels.plan import forward_power
from dprounds.accounting.levels.steps import Mean
from dprounds.errors import NumericalError
from dprounds.numerics.complex_plane import complex_expm1, log1p_at
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["BOUND_ROUNDINGS", "Level", "Share", "least_bound"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# --- What carries a proof; docs/theory/levels.md has the propositions.

# Roundings of one summand along the line and of the sum, relative to the size of what its exponent is made of.
SUMMAND_ERROR = 64.0 * UNIT_ROUNDOFF
# Bounds are products and sums of a few positive numbers, whose exponents round by this many units of their size.
BOUND_ROUNDINGS = 64.0

# --- The range of doubles.

# An error of which the exponential of more than this is a part is bounded otherwise, or is infinite.
LARGEST_ERROR_EXPONENT = 50.0


class _Known(NamedTuple):
    """The logarithm of F at a point where it is known, and what it is made of.

    That is the logarithm of the probability of no round above the high step, the mass of one such round, and the number
    of the point among those of `Level.on_axis`.
    """

    log: float
    log_none: float
    mass: float
    point: int


class _LineSum(NamedTuple):
    """A sum along a line and its slope, what was taken out of its summands, their moduli, and known aliases."""

    value: float
    slope: float
    exponent: float
    scale: float
    size: float
    of_p: float
    of_q: float


class Share(NamedTuple):
    """What a level adds to delta, its slope, and its errors: to both sides, and what may be too much."""

    value: float
    slope: float
    error: float
    surplus: float


def _log_geometric(distance: Array) -> Array:
    """The logarithm of e^-d + e^-2d + ..."""
    return np.asarray(-distance - np.log(-np.expm1(-distance)))


def least_bound(exponents: Array, sizes: Array) -> float:
    """The least of some bounds, given their logarithms and the sizes of what these are made of; inf without any."""
    bounds = exponents + BOUND_ROUNDINGS * UNIT_ROUNDOFF * (1.0 + sizes)
    return exp_or_infinity(float(np.min(np.where(np.isnan(bounds), math.inf, bounds), initial=math.inf)))


class Level:
    """F at the nodes with its errors, and all that the level's share of delta needs; `strip` is that of real points."""

    def __init__(self, one: OneRound, rounds: float, strip: float) -> None:
        self.one, self.plan, self.rounds, self.strip = one, one.plan, rounds, strip
        self._found = [one.sums(block) for block in self.plan.blocks]
        m1, b = (np.concatenate(part) for part in zip(*((m1, b) for m1, b, _, _ in self._found), strict=True))
        nodes = self.plan.step * np.arange(m1.size)
        self.z: ComplexArray = np.asarray(self.plan.t + 1j * nodes, dtype=np.complex128)
        self._powers(m1, b)

    def _powers(self, m1: ComplexArray, b: ComplexArray) -> None:
        """F = M^T - (M - B)^T relative to exp(log_scale)."""
        rounds = self.rounds
        self._m1, self._b, self._log_m = m1, b, np.asarray(log1p_at(m1))
        self.log_scale = rounds * float(self._log_m[0].real)
        self._power = np.asarray(np.exp(rounds * self._log_m - self.log_scale))
        self.values: ComplexArray = self._power
        if self.plan.low is not None:
            a = 1.0 + m1 - b
            gone = a == 0
            rest = np.where(gone, 0.0, np.exp(rounds * np.log(np.where(gone, 1.0, a)) - self.log_scale))
            self._near = np.abs(b) < 0.5 * np.abs(1.0 + m1)
            self._ratio = np.where(self._near, b / (1.0 + m1), 0.0)
            small = -self._power * complex_expm1(np.asarray(rounds * log1p_at(-self._ratio)))
            self.values = np.where(self._near, small, self._power - rest)
        if not (math.isfinite(self.log_scale) and np.isfinite(self.values).all()):
            raise NumericalError("A level of this run lost all its digits.")

    @cached_property
    def errors(self) -> Array:
        """Bounds on the errors of the values: of all that one round's sums err by, and of the roundings since."""
        rounds, modulus = self.rounds, np.abs(1.0 + self._m1)
        found = [
            self.one.errors(block, m, b) for block, (_, _, m, b) in zip(self.plan.blocks, self._found, strict=True)
        ]
        m_errors, b_errors = (np.concatenate(part) for part in zip(*found, strict=True))
        # each power errs by at most T |.|^(T-1) times its base
        errors = self._error_of_power(modulus, m_errors)
        if self.plan.low is not None:
            a = np.abs(1.0 + self._m1 - self._b)
            apart = errors + self._error_of_power(a, m_errors + b_errors)
            # or an error of M with B/M kept, and then one of B and what B/M has moved it by
            exponent = rounds * m_errors / modulus
            relative = np.expm1(np.minimum(exponent, LARGEST_ERROR_EXPONENT))
            moved = rounds * (b_errors + np.abs(self._ratio) * m_errors) / modulus
            raised = moved + rounds * np.log(np.maximum(a / modulus, 1.0))  # A may exceed M
            moved = np.abs(self._power) * (1.0 + relative) * moved * np.exp(np.minimum(raised, LARGEST_EXPONENT))
            together = np.abs(self.values) * relative + moved
            is_bounded = self._near & (exponent <= LARGEST_ERROR_EXPONENT) & (raised <= LARGEST_EXPONENT)
            errors = np.where(is_bounded, np.fmin(together, apart), apart)
        size = 1.0 + np.abs(np.where(np.isfinite(self._log_m), rounds * self._log_m, 0.0))
        errors = np.asarray(errors + SUMMAND_ERROR * np.abs(self.values) * size)
        if not np.isfinite(errors).all():
            raise NumericalError("A level of this run lost all its digits.")
        return errors

    def _error_of_power(self, base: Array, error: Array) -> Array:
        """What an error of a base does to its T-th power, relative to exp(log_scale)."""
        exponent = math.log(self.rounds) + np.log(error) + (self.rounds - 1.0) * np.log(base + error) - self.log_scale
        return np.asarray(np.exp(exponent))

    @cached_property
    def on_axis(self) -> tuple[Mean, Mean | None]:
        """M and B at all real points at which F is asked for: t, 0, -1, and those that bound the aliases."""
        below = -1.0 - self.plan.below if self.plan.knows_below else self.plan.below
        powers = forward_power(self.one.pair, np.concatenate([[self.plan.t, 0.0, -1.0], self.plan.above, below]))
        m = self.one.grid.mean(powers, self.one.inside, self.strip)
        return m, None if self.plan.low is None else self.one.grid.mean(powers, self.one.both, self.strip)

    @cached_property
    def _log_f(self) -> tuple[Array, Array]:
        """Upper bounds of log F at these points, and the sizes of what they are made of."""
        m, b = self.on_axis
        log_m = m.upper
        f = self.rounds * log_m
        if b is not None:
            share = np.minimum(np.exp(b.upper - log_m), 1.0)
            f = f + np.log(-np.expm1(self.rounds * np.log1p(-share)))
        return f, np.abs(self.rounds * log_m)

    @cached_property
    def _known(self) -> tuple[_Known, _Known]:
        """F at 0 and at -1, of which the rounds above the high step have a known mass."""
        return self._log_known(self.one.p, 1), self._log_known(self.one.q, 2)

    def _log_known(self, mass: float, point: int) -> _Known:
        none, b = math.log1p(-mass), self.on_axis[1]
        if b is None:
            return _Known(self.rounds * none, none, mass, point)
        every = np.log1p(-np.minimum(np.exp(b.log[point] - none), 1.0))  # -inf where it is all of the mass
        return _Known(self.rounds * none + float(np.log(-np.expm1(self.rounds * every))), none, mass, point)

    def _error_of_known(self, known: _Known, mass_error: float) -> float:
        """Relative to F."""
        error = self.rounds * (mass_error / (1.0 - known.mass) - 4.0 * UNIT_ROUNDOFF * known.log_none)
        b = self.on_axis[1]
        if b is not None:
            error = 2.0 * error + 2.0 * float(b.error[known.point])
        if not error <= LARGEST_ERROR_EXPONENT:  # also where it is not a number
            return math.inf
        return math.expm1(error) + 16.0 * UNIT_ROUNDOFF * (1.0 + abs(known.log))

    @cached_property
    def _known_errors(self) -> tuple[float, float]:
        (of_p, of_q), (p_error, q_error) = self._known, self.one.mass_errors
        return self._error_of_known(of_p, p_error), self._error_of_known(of_q, q_error)

    @cached_property
    def f_above(self) -> Array:
        """Upper bounds of log F at the points that bound the aliases above."""
        return self._log_f[0][self._points_above]

    @cached_property
    def f_below(self) -> Array:
        """The same for those below."""
        return self._log_f[0][self._points_below]

    @property
    def _points_above(self) -> slice:
        return slice(3, 3 + self.plan.above.size)

    @property
    def _points_below(self) -> slice:
        return slice(3 + self.plan.above.size, None)

    @cached_property
    def log_ceiling(self) -> float:
        """A bound of log |F| at the last node and beyond, by the first angle that bounds it well enough."""
        plan, rounds, best = self.plan, self.rounds, math.inf
        last, top = plan.step * (self.values.size - 1), float(self.on_axis[0].upper[0])
        for angle in plan.angles:
            found = self.one.grid.ceiling(self.one.power, self.one.both, angle, last, self.strip)
            if plan.low is None:
                log, size = rounds * found, abs(rounds * found)
            else:  # |M^T - A^T| <= T |B| M(t)^(T-1)
                log, size = math.log(rounds) + found + (rounds - 1.0) * top, abs(found) + abs(rounds * top)
            best = min(best, log + BOUND_ROUNDINGS * UNIT_ROUNDOFF * (1.0 + size))
            if best <= plan.enough:
                break
        return best

    def _sum(self, epsilon: float) -> _LineSum:
        """The sum along the line at epsilon, without its errors."""
        plan, z = self.plan, self.z
        t, period = plan.t, 2.0 * math.pi / plan.step
        exponent = self.log_scale - t * epsilon
        if not exponent < LARGEST_EXPONENT:
            raise NumericalError("The sums of a level are outside what doubles resolve.")
        scale = math.exp(exponent)
        summands = self.values * np.exp(-1j * epsilon * z.imag) * self._kernel
        value, slope = scale * float(summands.real.sum()), -scale * float((summands * z).real.sum())
        of_p = of_q = 0.0
        if plan.knows_below:  # the aliases of P - e^x Q below, but for the sums below x
            known_p, known_q = self._known
            of_p = exp_or_infinity(known_p.log + float(_log_geometric(np.array(t * period))))
            of_q = exp_or_infinity(known_q.log + epsilon + float(_log_geometric(np.array((t + 1.0) * period))))
            value, slope = value - of_p + of_q, slope + of_q
        return _LineSum(value, slope, exponent, scale, float(np.abs(summands).sum()), of_p, of_q)

    @cached_property
    def _kernel(self) -> ComplexArray:
        kernel = np.asarray((self.plan.step / math.pi) / (self.z * (1.0 + self.z)))
        kernel[0] *= 0.5
        return kernel

    def value_and_slope(self, epsilon: float) -> tuple[float, float]:
        """What the level adds to delta at epsilon, as computed, and its derivative: not bounds."""
        return self._sum(epsilon)[:2]

    def share(self, epsilon: float) -> Share:
        """What the level adds to delta at epsilon."""
        plan, z = self.plan, self.z
        t, period = plan.t, 2.0 * math.pi / plan.step
        value, slope, exponent, scale, size, of_p, of_q = self._sum(epsilon)
        # *rounding*, with *quadrature*
        rounded = SUMMAND_ERROR * np.abs(self.values) * (1.0 + epsilon * np.abs(z)) + self.errors
        error = scale * float((rounded * np.abs(self._kernel)).sum()) * (1.0 + SUMMAND_ERROR * (1.0 + abs(exponent)))
        error += SUMMAND_ERROR * abs(exponent) * scale * size
        # *truncation*
        error += exp_or_infinity(self.log_ceiling - t * epsilon + BOUND_ROUNDINGS * UNIT_ROUNDOFF * t * epsilon) / (
            math.pi * float(z[-1].imag)
        )
        # *alias below*
        r = plan.below
        if plan.knows_below:
            p_part, q_part = self._known_errors
            phase = BOUND_ROUNDINGS * UNIT_ROUNDOFF * (1.0 + epsilon + (t + 1.0) * period)
            error += of_p * (p_part + phase) + of_q * (q_part + phase)
            exponents, distance = self.f_below + (1.0 + r) * epsilon, (1.0 + r + t) * period
        else:
            exponents, distance = self.f_below + log_zeta(r) - r * epsilon, (t - r) * period
        sizes = self._log_f[1][self._points_below] + (1.0 + r) * epsilon + distance
        surplus = least_bound(exponents + _log_geometric(distance), sizes)
        # *alias above*
        r = plan.above
        distance = (r - t) * period
        exponents = self.f_above + log_zeta(r) - r * epsilon + _log_geometric(distance)
        surplus += least_bound(exponents, self._log_f[1][self._points_above] + r * epsilon + distance)
        return Share(value, slope, error, surplus)
