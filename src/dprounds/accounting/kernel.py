r"""How the nodes of a line are weighed: by a continuous kernel, or by a periodic one where losses lie on a lattice.

With weights of the trapezoid rule in place of the step over :math:`\pi`, delta at :math:`\varepsilon` is the sum over
nodes of :math:`e^{K(z) - xz}` times

.. math:: \frac1{z(1+z)},\ x = \varepsilon, \qquad\text{or}\qquad
          \frac{(1 - e^{-d}) + r\,(e^{-d} - e^{-a})}{(1-r)(1-re^{-a})},\ x = \varepsilon + d,\ r = e^{-az},

where a is the step of the lattice and x its first point that is not below :math:`\varepsilon`. Proposition 1 of
docs/theory/accounting.md proves it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.law import Lattice
from dprounds.numerics.cancellation import exp_minus_tangent, gamma2_cdf

__all__ = ["ContinuousKernel", "Kernel", "PeriodicKernel", "Weighing", "log_zeta"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]


def log_zeta(t: Array) -> Array:
    r"""The logarithm of the largest :math:`(1 - e^{-y}) e^{-ty}`, that is :math:`t^t / (1+t)^{1+t}`."""
    # t log(t/(1+t)) tends to 0 with t and to -1 with 1/t; both by log1p, without cancellation
    positive = np.maximum(t, np.finfo(float).tiny)
    return np.where(t > 0, -np.log1p(t) - t * np.log1p(1.0 / positive), 0.0)


class Weighing(NamedTuple):
    """What a row of epsilons makes of a kernel, in one row or one for each."""

    point: Array  # x above, from the center of the line
    distance: Array  # d above
    kernel: ComplexArray
    slope: ComplexArray  # that of the derivative in epsilon


class Kernel(Protocol):
    """A kernel on the nodes of one line."""

    @property
    def blur(self) -> float:
        """By how much losses may be off."""
        ...

    @property
    def weights(self) -> Array:
        """Those of the trapezoid rule, each node with its conjugate."""
        ...

    @property
    def log_growth(self) -> float:
        """The logarithm of what bounds the kernel, times the square of the height of a node."""
        ...

    @property
    def norm(self) -> float:
        """A bound on the Euclidean norm of what the kernel sums over losses; `inf` where there is none."""
        ...

    @property
    def integral_norm(self) -> float:
        """The same for the kernel of the integral."""
        ...

    def at(self, epsilon: Array) -> Weighing:
        """The kernel of every epsilon."""
        ...

    def of_integral(self, distance: Array) -> tuple[ComplexArray, Array]:
        """The kernel of the integral of delta, and the sizes of what it is summed from."""
        ...


@dataclass(frozen=True, eq=False)
class ContinuousKernel:
    """That of losses which may lie anywhere."""

    nodes: ComplexArray
    step: float
    blur: float = 0.0
    log_growth: float = 0.0
    norm: float = math.inf
    integral_norm: float = math.inf

    @cached_property
    def weights(self) -> Array:
        """Those of the trapezoid rule, each node with its conjugate."""
        weights = np.full(self.nodes.size, self.step / math.pi)
        weights[0] *= 0.5
        return weights

    @cached_property
    def _own(self) -> tuple[ComplexArray, ComplexArray]:
        z = self.nodes
        kernel = self.weights / (z * (1.0 + z))
        return np.asarray(kernel), np.asarray(-z * kernel)

    def at(self, epsilon: Array) -> Weighing:
        """The same kernel for every epsilon."""
        return Weighing(epsilon, np.zeros(()), *self._own)

    def of_integral(self, distance: Array) -> tuple[ComplexArray, Array]:
        """The kernel of the integral of delta, and the sizes of what it is summed from."""
        found = np.asarray(self._own[0] / self.nodes)
        return found, np.abs(found)


@dataclass(frozen=True, eq=False)
class PeriodicKernel:
    """That of losses on a lattice; the nodes are up to half of the period, which has so many `points` of the sum.

    A loss, the `center`, is taken out of K.
    """

    nodes: ComplexArray
    step: float
    lattice: Lattice
    points: int
    center: Fraction

    @property
    def blur(self) -> float:
        """By how much losses may be off."""
        return self.lattice.blur

    @cached_property
    def weights(self) -> Array:
        """Those of the trapezoid rule, each node with its conjugate."""
        weights = np.full(self.nodes.size, 2.0 / self.points)
        if 2 * (self.nodes.size - 1) == self.points:  # its own conjugate, a period on
            weights[-1] *= 0.5
        weights[0] *= 0.5
        return weights

    @cached_property
    def log_growth(self) -> float:
        """Of the factor by which the kernel exceeds that of losses anywhere, pi^2 / 4 exp((t + 1/2) a)."""
        return 2.0 * math.log(0.5 * math.pi) + (self._t + 0.5) * self._a

    @property
    def _t(self) -> float:
        return float(self.nodes[0].real)

    @cached_property
    def _a(self) -> float:
        return float(self.lattice.step)

    @cached_property
    def _r(self) -> ComplexArray:
        """The factor of a node by which the kernel falls from one point to the next."""
        return np.asarray(np.exp(-self.nodes * self._a))

    @cached_property
    def _own(self) -> tuple[ComplexArray, ComplexArray]:
        """What of the kernel does not depend on epsilon, and that of the derivative."""
        z, a = self.nodes, self._a
        once = -self.weights / np.expm1(-(z + 1.0) * a)
        return np.asarray(-once / np.expm1(-z * a)), np.asarray(once)

    def at(self, epsilon: Array) -> Weighing:
        """The kernel of every epsilon, by the first point of the lattice that is not below it."""
        kernel, once = self._own
        point, distance = np.array([self._first_point(one) for one in epsilon.tolist()]).T
        fall = np.exp(-distance)
        jump = fall * -np.expm1(distance - self._a)  # exp(-d) - exp(-a)
        kernel = kernel * (-np.expm1(-distance)[:, None] + np.multiply.outer(jump, self._r))
        return Weighing(point, distance, kernel, np.multiply.outer(-fall, once))

    def of_integral(self, distance: Array) -> tuple[ComplexArray, Array]:
        r"""The kernel of the integral of delta, and the sizes of what it is summed from.

        With :math:`r = e^{-az}` and d the distance it is

        .. math:: \sum_{j\ge0} r^j \zeta(d + ja) = \frac{\zeta(d)}{1 - re^{-a}}
                  + \frac{d\,r\,(1-e^{-a})}{(1-r)(1-re^{-a})}
                  + \frac{r\,[\zeta(a) + r\,(1 - (1+a)e^{-a})]}{(1-r)^2(1-re^{-a})} .
        """
        kernel, once = self._own
        a, r = self._a, self._r
        near, far = float(exp_minus_tangent(np.array(-a))), float(gamma2_cdf(np.array(a)))
        linear = -math.expm1(-a) * (r * kernel)
        rest = r * kernel / -np.expm1(-self.nodes * a)
        constant, size = rest * (near + r * far), np.abs(rest) * (near + np.abs(r) * far)
        square = exp_minus_tangent(-distance)
        found = np.multiply.outer(square, once) + np.multiply.outer(distance, linear) + constant
        return found, np.multiply.outer(square, np.abs(once)) + np.multiply.outer(distance, np.abs(linear)) + size

    @cached_property
    def _in_integers(self) -> tuple[int, int, int, int]:
        """A common denominator, and with it a point of the lattice, its step and the center of the line."""
        parts = self.lattice.shift, self.lattice.step, self.center
        whole = math.lcm(*(part.denominator for part in parts))
        point, step, center = (part.numerator * (whole // part.denominator) for part in parts)
        return whole, point, step, center

    def _first_point(self, epsilon: float) -> tuple[float, float]:
        """The first point of the lattice that is not below epsilon, from the center, and its distance to epsilon.

        Quotients of integers are rounded once.
        """
        whole, point, step, center = self._in_integers
        number, parts = epsilon.as_integer_ratio()
        level, point, step = number * whole, point * parts, step * parts
        first = point - step * ((point - level) // step)
        return (first - center * parts) / (whole * parts), (first - level) / (whole * parts)

    @cached_property
    def norm(self) -> float:
        """A bound on the Euclidean norm of exp(-t d) (1 - exp(-d)) over the points at distances d >= 0, wrapped around.

        Its square rises to its largest value and falls, so that its sum is at most the integral and that value. What
        lies a period and more away adds at most the norm of exp(-t d), times the geometric series of exp(-t Λ).
        """
        t, a = self._t, self._a
        near = 1.0 / math.sqrt(-math.expm1(-2.0 * t * a))
        integral = 1.0 / (t * (2.0 * t + 1.0) * (2.0 * t + 2.0) * a)
        own = min(math.sqrt(integral + math.exp(2.0 * float(log_zeta(np.array(t))))), near)
        around = -math.expm1(-t * 2.0 * math.pi / self.step)
        # the scale of the sum is taken at the first point above epsilon, and the kernel's from epsilon on
        return math.exp(t * a) * (own + near * (1.0 / around - 1.0))

    @cached_property
    def integral_norm(self) -> float:
        """The same for the kernel of the integral, exp(-t d) (d - 1 + exp(-d)), which is at most d and d²/2 times that.

        Its logarithm is concave, so that its square rises and falls.
        """
        t, a, period = self._t, self._a, 2.0 * math.pi / self.step
        own = math.sqrt(min(0.25 / t**3, 0.1875 / t**5) / a + min(1.0 / (math.e * t), 2.0 / (math.e * t) ** 2) ** 2)
        plain, linear = 1.0 / math.sqrt(-math.expm1(-2.0 * t * a)), math.sqrt(0.25 / t**3 / a + (math.e * t) ** -2)
        around = 1.0 / -math.expm1(-t * period) - 1.0
        return math.exp(t * a) * (own + around * (linear + period * (1.0 + around) * plain))
