r"""The profile of many rounds of a sampled mechanism, by the level of the largest round.

With soft steps :math:`E_0 < \dots < E_K` in :math:`X = e^v`, :math:`\eta_k = \Phi((X - E_k)/\omega_k)` and :math:`g_k =
1 - \eta_k`, runs with a round above :math:`E_K` and runs with all rounds below :math:`E_0` have closed forms. A level
between two neighbours is a positive measure of transform :math:`F = M^T - A^T`, whose losses have one scale, so that
its sum along a vertical line is short.

What parts the number that is computed from the truth has a name each, here and in docs/theory/levels.md, which proves
the bounds: *overlap*, *high*, *low*, *alias above*, *alias below*, *truncation*, *quadrature*, *rounding*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket, Brackets
from dprounds.accounting.line import log_zeta
from dprounds.accounting.steps import Factor, Grid, Mean, Step, Turnable
from dprounds.errors import NumericalError
from dprounds.numerics.cancellation import SMALL, half_square_series
from dprounds.numerics.complex_plane import log1p_at
from dprounds.numerics.rounding import UNIT_ROUNDOFF

__all__ = ["Block", "LevelPlan", "LevelledLine", "Plan", "forward_power"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

# --- What carries a proof; docs/theory/levels.md has the propositions.

# Rounding of one round's sums on a line, relative to the sizes of their terms. Measured, not proven.
SUM_ERROR = 256.0 * UNIT_ROUNDOFF
# Terms that are exponentials of more than this err by more, in proportion.
EXPONENT_OF_SUM = 64.0
# Roundings of one summand along the line and of the sum, relative to the size of what its exponent is made of.
SUMMAND_ERROR = 64.0 * UNIT_ROUNDOFF
# Bounds are products and sums of a few positive numbers, whose exponents round by this many units of their size.
BOUND_ROUNDINGS = 64.0

# --- The range of doubles.

# Larger exponents are those of infinity.
LARGEST_EXPONENT = 700.0


def forward_power(pair: Turnable, z: Array) -> Array:
    """The p with E_P[e^(zL)] = E_N[w^p]."""
    return z + 1.0 if pair.mixture_first else -z


class Block(NamedTuple):
    """Nodes `first` to `end - 1` of a line, summed over v turned by `angle`; `strip` bounds the quadrature."""

    first: int
    end: int
    angle: float
    strip: float


class LevelPlan(NamedTuple):
    """One level: its steps, its line, and the places at which its errors are bounded.

    `above` and `below` are points r of the axis for the aliases; `knows_below` says that those below are subtracted,
    and `below` then bounds what is left of them. `angles` are tried for the ceiling. The grid of v reaches from `ends`
    to `ends` by `step_of_v`.
    """

    low: Step | None
    high: Step | None
    t: float
    step: float
    blocks: tuple[Block, ...]
    above: Array
    below: Array
    knows_below: bool
    angles: tuple[float, ...]
    ends: tuple[float, float]
    step_of_v: float


class Plan(NamedTuple):
    """Levels from the lowest to the highest, and points r at which runs outside of them are bounded.

    `ends` and `step_of_v` are those of the grid for these bounds, and `strip` that of all bounds on real v.
    """

    levels: tuple[LevelPlan, ...]
    high_points: Array
    low_points: Array
    ends: tuple[float, float]
    step_of_v: float
    strip: float


class _Masses:
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


class _Known(NamedTuple):
    """The logarithm of F at a point where it is known, and what it is made of.

    That is the logarithm of the probability of no round above the high step, the mass of one such round, and the number
    of the point among those of `_Level.on_axis`.
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


class _Share(NamedTuple):
    """What a level adds to delta, its slope, and its errors: to both sides, and what may be too much."""

    value: float
    slope: float
    error: float
    surplus: float


def _exp(x: float) -> float:
    return math.exp(x) if x < LARGEST_EXPONENT else math.inf  # also where it is not a number


def _expm1(x: ComplexArray) -> ComplexArray:
    """exp(x) - 1, to small error relative to its modulus."""
    grown, half = np.expm1(x.real), np.sin(0.5 * x.imag)
    return np.asarray(grown - 2.0 * (1.0 + grown) * half * half + 1j * ((1.0 + grown) * np.sin(x.imag)))


def _tangent(x: ComplexArray, grown: ComplexArray) -> ComplexArray:
    """exp(x) - 1 - x, given exp(x) - 1."""
    found = grown - x
    small = np.abs(x) < SMALL
    near = x[small]
    found[small] = 0.5 * near * near * half_square_series(near)  # type: ignore[arg-type]  # polynomial in any number
    return found


def _log_geometric(distance: Array) -> Array:
    """The logarithm of e^-d + e^-2d + ..."""
    return np.asarray(-distance - np.log(-np.expm1(-distance)))


def _least(exponents: Array, sizes: Array) -> float:
    """The least of some bounds, given their logarithms and the sizes of what these are made of; inf without any."""
    bounds = exponents + BOUND_ROUNDINGS * UNIT_ROUNDOFF * (1.0 + sizes)
    return _exp(float(np.min(np.where(np.isnan(bounds), math.inf, bounds), initial=math.inf)))


class _Level:
    """One level on its line: F at the nodes with its errors, and all that its share of delta needs."""

    def __init__(self, pair: Turnable, rounds: float, plan: LevelPlan, masses: _Masses, strip: float) -> None:
        self.pair, self.rounds, self.plan, self.strip, self.masses = pair, rounds, plan, strip, masses
        self.grid = Grid(pair, *plan.ends, plan.step_of_v)
        self.inside = () if plan.high is None else (Factor(plan.high, False),)
        self.both = self.inside if plan.low is None else (*self.inside, Factor(plan.low, True))
        self.power = float(forward_power(pair, np.array(plan.t)))
        first = pair.mixture_first
        # P and Q of the rounds above the high step, and P - Q
        self.p, self.q = (masses.w, masses.n) if first else (masses.n, masses.w)
        self.excess = masses.excess if first else -masses.excess
        self._found = [self._sums(block) for block in plan.blocks]
        m1, b = (np.concatenate(part) for part in zip(*((m1, b) for m1, b, _, _ in self._found), strict=True))
        self.z: ComplexArray = np.asarray(plan.t + 1j * (plan.step * np.arange(m1.size)), dtype=np.complex128)
        self._powers(m1, b)

    @property
    def _mass_errors(self) -> tuple[float, float]:
        """Of P and Q of the rounds above the high step."""
        errors = self.masses.n_error, self.masses.w_error
        return errors[::-1] if self.pair.mixture_first else errors

    # ---- one round -------------------------------------------------------------------------------------------------
    def _block(self, block: Block) -> tuple[ComplexArray, ComplexArray, Array, Array]:
        """M - 1 and B at the nodes of a block, with bounds on their errors."""
        m1, b, m_rounding, b_rounding = self._sums(block)
        return m1, b, *self._one_round_errors(block, m_rounding, b_rounding)

    def _one_round_errors(self, block: Block, m_rounding: Array, b_rounding: Array) -> tuple[Array, Array]:
        """Bounds on the errors of M and B at the nodes of a block, given those by the roundings of its sums."""
        size = np.abs(self.plan.t + 1j * (self.plan.step * np.arange(block.first, block.end)))
        m_errors = m_rounding + self._mass_errors[0] + size * self.masses.excess_error
        m_errors += self._quadrature_of_m(block, size)
        if self.plan.low is None:
            return m_errors, b_rounding
        power = np.array([self.power])
        moved = self._moved(block, self.both, power) - self.grid.log_aliases(block.strip)
        outside = self.grid.outside_turned(power, self.both, block.angle)
        return m_errors, b_rounding + _exp(float(np.logaddexp(moved, outside).item()))

    def _sums(self, block: Block) -> tuple[ComplexArray, ComplexArray, Array, Array]:
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
        rows = plan.step * (block.first + width * np.arange(-(-count // width)))
        columns = plan.step * np.arange(width)
        left, right = 1j * np.multiply.outer(rows, loss), 1j * np.multiply.outer(columns, loss)
        grown_left, grown_right = _expm1(left), _expm1(right)
        # e^(i(a+b)) - 1 - i(a+b) = (e^(ia) - 1)(e^(ib) - 1) + (e^(ia) - 1 - ia) + (e^(ib) - 1 - ib)
        curved = (grown_left * tilted) @ grown_right.T
        curved += (_tangent(left, grown_left) @ tilted)[:, None] + (_tangent(right, grown_right) @ tilted)[None, :]
        s = np.asarray(plan.step * np.arange(block.first, block.end), dtype=np.float64)
        z = t + 1j * s
        grown, back = _expm1(t * loss), _expm1(-loss)
        at_t, slope, reverse = (
            weights * _tangent(t * loss, grown),
            weights * grown * loss,
            weights * _tangent(-loss, back),
        )
        m1 = curved.ravel()[:count] - self.p - z * self.excess + at_t.sum() + z * reverse.sum() + 1j * s * slope.sum()
        worn = 1.0 + np.abs(log_p) / EXPONENT_OF_SUM
        heavy, length = np.abs(tilted) * worn, np.abs(loss)
        size = np.minimum(s * s * float(heavy @ length**2), 4.0 * float(heavy.sum()) + s * float(heavy @ length))
        size += float(np.abs(at_t) @ worn) + s * float(np.abs(slope) @ worn) + self.p
        size += np.abs(z) * (float(np.abs(reverse) @ worn) + abs(self.excess))
        if plan.low is None:
            return m1, np.zeros(count, dtype=np.complex128), SUM_ERROR * size, np.zeros(count)
        tilted = tilted * Factor(plan.low, True).value(x)
        b = (((grown_left + 1.0) * tilted) @ (grown_right + 1.0).T).ravel()[:count]
        heavy = np.abs(tilted) * worn
        moduli = np.abs(grown_left + 1.0)
        still, moving = np.repeat(moduli @ heavy, width)[:count], np.repeat(moduli @ (heavy * length), width)[:count]
        return m1, b, SUM_ERROR * size, SUM_ERROR * (still + (t + s) * moving)

    def _quadrature_of_m(self, block: Block, sizes: Array) -> Array:
        """*Quadrature* of M - 1, the average of g (e^(zL) - 1 + z (e^-L - 1)): of its parts under P and Q."""
        moving = self._moved(block, self.inside, np.array([self.power]))
        still = self._moved(block, self.inside, np.array([0.0, 1.0]), still=True)
        outside = self.grid.outside_turned(np.array([self.power, 0.0, 1.0]), self.inside, block.angle)
        moved = np.concatenate([moving, still]) - self.grid.log_aliases(block.strip)
        parts = [_exp(part) for part in np.logaddexp(moved, outside).tolist()]
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

    # ---- all rounds --------------------------------------------------------------------------------------------------
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
            small = -self._power * _expm1(np.asarray(rounds * log1p_at(-self._ratio)))
            self.values = np.where(self._near, small, self._power - rest)
        if not (math.isfinite(self.log_scale) and np.isfinite(self.values).all()):
            raise NumericalError("A level of this run lost all its digits.")

    @cached_property
    def errors(self) -> Array:
        """Bounds on the errors of the values: of all that one round's sums err by, and of the roundings since."""
        rounds, modulus = self.rounds, np.abs(1.0 + self._m1)
        found = [
            self._one_round_errors(block, m, b)
            for block, (_, _, m, b) in zip(self.plan.blocks, self._found, strict=True)
        ]
        m_errors, b_errors = (np.concatenate(part) for part in zip(*found, strict=True))
        # each power errs by at most T |.|^(T-1) times its base
        errors = self._error_of_power(modulus, m_errors)
        if self.plan.low is not None:
            a = np.abs(1.0 + self._m1 - self._b)
            apart = errors + self._error_of_power(a, m_errors + b_errors)
            # or an error of M with B/M kept, and then one of B and what B/M has moved it by
            relative = np.expm1(np.minimum(rounds * m_errors / modulus, 50.0))
            moved = rounds * (b_errors + np.abs(self._ratio) * m_errors) / modulus
            raised = moved + rounds * np.log(np.maximum(a / modulus, 1.0))  # A may exceed M
            moved = np.abs(self._power) * (1.0 + relative) * moved * np.exp(np.minimum(raised, 700.0))
            together = np.abs(self.values) * relative + moved
            errors = np.where(self._near, np.fmin(together, apart), apart)
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
        powers = forward_power(self.pair, np.concatenate([[self.plan.t, 0.0, -1.0], self.plan.above, below]))
        m = self.grid.mean(powers, self.inside, self.strip)
        return m, None if self.plan.low is None else self.grid.mean(powers, self.both, self.strip)

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
        return self._log_known(self.p, 1), self._log_known(self.q, 2)

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
        return math.expm1(min(error, 50.0)) + 16.0 * UNIT_ROUNDOFF * (1.0 + abs(known.log))

    @cached_property
    def _known_errors(self) -> tuple[float, float]:
        (of_p, of_q), (p_error, q_error) = self._known, self._mass_errors
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
        """A bound of log |F| at the last node and beyond."""
        plan, rounds = self.plan, self.rounds
        last = plan.step * (self.values.size - 1)
        best = min(self.grid.ceiling(self.power, self.both, angle, last, self.strip) for angle in plan.angles)
        if plan.low is None:
            return rounds * best + BOUND_ROUNDINGS * UNIT_ROUNDOFF * (1.0 + abs(rounds * best))
        # |M^T - A^T| <= T |B| M(t)^(T-1)
        top = float(self.on_axis[0].upper[0])
        size = abs(best) + abs(rounds * top)
        return math.log(rounds) + best + (rounds - 1.0) * top + BOUND_ROUNDINGS * UNIT_ROUNDOFF * (1.0 + size)

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
            of_p = _exp(known_p.log + float(_log_geometric(np.array(t * period))))
            of_q = _exp(known_q.log + epsilon + float(_log_geometric(np.array((t + 1.0) * period))))
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

    def share(self, epsilon: float) -> _Share:
        """What the level adds to delta at epsilon."""
        plan, z = self.plan, self.z
        t, period = plan.t, 2.0 * math.pi / plan.step
        value, slope, exponent, scale, size, of_p, of_q = self._sum(epsilon)
        # *rounding*, with *quadrature*
        rounded = SUMMAND_ERROR * np.abs(self.values) * (1.0 + epsilon * np.abs(z)) + self.errors
        error = scale * float((rounded * np.abs(self._kernel)).sum()) * (1.0 + SUMMAND_ERROR * (1.0 + abs(exponent)))
        error += SUMMAND_ERROR * abs(exponent) * scale * size
        # *truncation*
        error += _exp(self.log_ceiling - t * epsilon + BOUND_ROUNDINGS * UNIT_ROUNDOFF * t * epsilon) / (
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
        surplus = _least(exponents + _log_geometric(distance), sizes)
        # *alias above*
        r = plan.above
        distance = (r - t) * period
        exponents = self.f_above + log_zeta(r) - r * epsilon + _log_geometric(distance)
        surplus += _least(exponents, self._log_f[1][self._points_above] + r * epsilon + distance)
        return _Share(value, slope, error, surplus)


@dataclass(eq=False)
class LevelledLine:
    """Delta of many rounds of one sampled mechanism in one direction, near one epsilon.

    Guarantee
    ---------
    `at` raises, or returns bounds with the truth between them, if one round's sums are within `SUM_ERROR` of the sizes
    of their terms. It is right at every epsilon, and tight near the one it was placed for.

    Theorem
    -------
    docs/theory/levels.md.
    """

    pair: Turnable
    rounds: int
    plan: Plan

    def __post_init__(self) -> None:
        plan, pair, rounds = self.plan, self.pair, float(self.rounds)
        grid = self._grid = Grid(pair, *plan.ends, plan.step_of_v)
        self._high, self._low = plan.levels[-1].high, plan.levels[0].low
        masses = {level.high: _Masses(grid, level.high, plan.strip) for level in plan.levels}
        self._levels = [_Level(pair, rounds, level, masses[level.high], plan.strip) for level in plan.levels]
        ends = self._high if pair.mixture_first else self._low
        self._ends = masses[ends] if ends in masses else _Masses(grid, ends, plan.strip)

    @cached_property
    def _overlap(self) -> float:
        """*Overlap*: runs that count in two levels."""
        p = forward_power(self.pair, np.zeros(1))
        overlaps = [
            self._grid.mean(p, (Factor(level.low, False), Factor(level.high, True)), self.plan.strip).upper[0]
            for level in self.plan.levels
            if level.low is not None and level.high is not None
        ]
        return float(self.rounds) * sum(_exp(float(one)) for one in overlaps) * (1.0 + BOUND_ROUNDINGS * UNIT_ROUNDOFF)

    @cached_property
    def _remainders(self) -> list[Callable[[float], float]]:
        return [*self._high_remainder(), *self._low_remainder()]

    @property
    def t(self) -> float:
        """The largest real part of a line."""
        return max(level.t for level in self.plan.levels)

    def _high_remainder(self) -> list[Callable[[float], float]]:
        """*High*: runs with a round above the highest step whose loss is on the other side of epsilon."""
        if self._high is None:
            return []
        r, grid, strip = self.plan.high_points, self._grid, self.plan.strip
        one, others = grid.mean(-r, (Factor(self._high, True),), strip).upper, grid.mean(-r, (), strip).upper
        rest = (self.rounds - 1.0) * others
        log = math.log(self.rounds) + one + rest
        return [self._chernoff(log, np.abs(one) + np.abs(rest), r, is_q=self.pair.mixture_first)]

    def _low_remainder(self) -> list[Callable[[float], float]]:
        """*Low*: runs with all rounds below the lowest step whose loss is on the other side of epsilon."""
        if self._low is None:
            return []
        r = self.plan.low_points
        log = self.rounds * self._grid.mean(1.0 + r, (Factor(self._low, False),), self.plan.strip).upper
        # with P the mixture, (1 - e^-y)_+ <= zeta(r) e^(ry)
        zeta = log_zeta(r) if self.pair.mixture_first else 0.0
        return [self._chernoff(log + zeta, np.abs(log), r, is_q=not self.pair.mixture_first)]

    @staticmethod
    def _chernoff(log: Array, sizes: Array, r: Array, *, is_q: bool) -> Callable[[float], float]:
        """The least of e^(log - r eps), or of e^(log + (1 + r) eps) for a probability under Q."""
        slope = 1.0 + r if is_q else -r
        return lambda epsilon: _least(log + slope * epsilon, sizes + np.abs(slope) * epsilon)

    def at(self, epsilon: float) -> Bracket:
        """Lower and upper bounds of delta at one epsilon."""
        value, _, error, surplus = self._total(epsilon)
        missing = sum(remainder(epsilon) for remainder in self._remainders)
        room = 1e-12
        lower = (value - (error + surplus) * (1.0 + room)) - 8.0 * UNIT_ROUNDOFF * abs(value)
        upper = (value + (error + missing) * (1.0 + room)) + 8.0 * UNIT_ROUNDOFF * abs(value)
        if not lower <= upper:  # also where one is not a number
            raise NumericalError("A level of this run lost all its digits.")
        return Bracket(max(lower, 0.0), min(max(upper, 0.0), 1.0))

    def bracket(self, epsilon: Array) -> Brackets:
        """Lower and upper bounds of delta at every epsilon of a row."""
        found = [self.at(one) for one in epsilon.tolist()]
        return Brackets(np.array([one.lower for one in found]), np.array([one.upper for one in found]))

    def value_and_slope(self, epsilon: float) -> tuple[float, float]:
        """The sum as computed and its derivative in epsilon: not a bound."""
        known = self._known(epsilon)
        found = [level.value_and_slope(epsilon) for level in self._levels]
        return known.value + sum(value for value, _ in found), known.slope + sum(slope for _, slope in found)

    def _total(self, epsilon: float) -> _Share:
        known = self._known(epsilon)
        shares = [level.share(epsilon) for level in self._levels]
        known = known._replace(error=known.error + self._error_of_known(epsilon))
        value, slope, error, surplus = (sum(part) for part in zip(known, *shares, strict=True))
        size = sum(abs(one.value) for one in (known, *shares))
        return _Share(value, slope, error + 16.0 * UNIT_ROUNDOFF * size, surplus + self._overlap)

    def _known(self, epsilon: float) -> _Share:
        """P - e^eps Q of the runs with a round above the highest step, or of those with all below the lowest."""
        if (self._high if self.pair.mixture_first else self._low) is None:
            return _Share(0.0, 0.0, 0.0, 0.0)
        if not epsilon < LARGEST_EXPONENT:
            raise NumericalError("The sums of a level are outside what doubles resolve.")
        rounds, masses, grown = float(self.rounds), self._ends, math.expm1(epsilon)
        if self.pair.mixture_first:  # Q is N
            none = rounds * math.log1p(-masses.n)
            some = -math.expm1(none)
            first = -math.exp(none) * math.expm1(rounds * math.log1p(-masses.excess / (1.0 - masses.n)))
            second, slope = grown * some, -(1.0 + grown) * some
        else:
            none = rounds * math.log1p(-masses.w)
            first = math.exp(none) * math.expm1(rounds * math.log1p(masses.excess / (1.0 - masses.w)))
            second = grown * math.exp(none)
            slope = -(1.0 + grown) * math.exp(none)
        rounding = 32.0 * UNIT_ROUNDOFF * (abs(first) + abs(second)) * (1.0 + abs(none))
        return _Share(first - second, slope, rounding, 0.0)

    def _error_of_known(self, epsilon: float) -> float:
        """What the errors of the masses add to `_known`, whose own is its rounding."""
        rounds, masses = float(self.rounds), self._ends
        if masses.step is None:
            return 0.0
        off = math.expm1(epsilon) + min(rounds * masses.excess / (1.0 - masses.w), 1.0)
        return rounds * (masses.excess_error + max(masses.n_error, masses.w_error) * off) * (1.0 + 1e-6)
