r"""What every release has in common: a moment function, and what is read off it.

`Release` is the interface. A `Mechanism` is one release, described by one formula; a
`Run <dprounds.mechanisms.composition.Run>` is many.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._validate import DELTA, EPSILON, ORDER, Interval, choice, real, real_array
from dprounds.accounting.best_order import Proof, delta_by_orders, epsilon_by_orders
from dprounds.conversions import METHODS
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.guarantee import Guarantee
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.rounding import above

if TYPE_CHECKING:
    from dprounds.mechanisms.composition import Run

__all__ = [
    "ADD",
    "BOTH_DIRECTIONS",
    "DEFAULT_METHOD",
    "REMOVE",
    "RUN_METHODS",
    "Accounted",
    "Mechanism",
    "RatioLaw",
    "Release",
    "Sampleable",
]

Array = NDArray[np.float64]

REMOVE = "remove"
ADD = "add"
BOTH_DIRECTIONS = (REMOVE, ADD)

RUN_METHODS = METHODS
DEFAULT_METHOD = "optimal"

REAL_PART = Interval.parse("(0, inf)")

# A closed form takes fewer than forty roundings, none of which is amplified: 40 * 2^-53 < 5e-15.
RELATIVE_HAIR = 1e-14
# What underflows on the way is below 1e-307 even after division by the smallest order - 1, which is 2^-52.
ABSOLUTE_HAIR = 1e-300


class Release(ABC):
    r"""Something published about the data, seen through its moment function.

    With :math:`(P, Q)` its worst pair of output laws on neighbouring data and :math:`L = \log dP/dQ` under :math:`P`,

    .. math:: M(z) = E_P[e^{zL};\, L < \infty], \qquad K = \log M.

    Where the neighbours are not alike, `directions` names both orders of the pair, and each has its own :math:`K`.
    """

    __array_ufunc__ = None  # NumPy's integers leave `rounds * step` to us

    @property
    def directions(self) -> tuple[str, ...]:
        """The directions that must both be accounted: ``("remove",)`` alone where the pair is symmetric."""
        return (REMOVE,)

    @property
    def infinite_mass(self) -> float:
        """The probability under P that the privacy loss is infinite."""
        return 0.0

    @property
    def has_moment_function(self) -> bool:
        """Whether `log_moment` answers; without it only the Rényi methods apply."""
        return True

    def max_loss(self, direction: str = REMOVE) -> float:
        """The least upper bound of the finite privacy losses; ``inf`` where there is none. Errs upward by a hair."""
        return self._max_loss(self._checked(direction))

    @overload
    def rdp(self, order: float) -> float: ...
    @overload
    def rdp(self, order: ArrayLike) -> float | Array: ...
    def rdp(self, order: ArrayLike) -> float | Array:
        r"""The Rényi bound :math:`\gamma(\alpha) = K(\alpha - 1) / (\alpha - 1)`, in nats.

        At ``order=inf`` it is the pure-DP bound, ``inf`` where the release has none.

        Guarantee
        ---------
        Raises, or returns for each order an upper bound on the Rényi divergence of every pair of neighbours. Errs
        upward, by a relative 1e-14 for closed forms and by a bound on its rounding errors (below 1e-11) for sums.

        Parameters
        ----------
        order
            Rényi order or orders, real, in (1, inf].
        """
        orders = real_array("order", order, ORDER)
        flat = orders.ravel()
        finite = np.isfinite(flat)
        bounds = np.full(flat.shape, math.inf)
        with np.errstate(over="ignore"):  # a bound too large for a double is reported as inf, which bounds it
            if finite.any():
                bounds[finite] = self._rdp(flat[finite])
        if not finite.all():
            bounds[~finite] = self._pure_epsilon()
        return bounds.reshape(orders.shape) if orders.ndim else float(bounds[0])

    @overload
    def log_moment(self, z: float, direction: str = REMOVE) -> float: ...
    @overload
    def log_moment(self, z: complex, direction: str = REMOVE) -> float | complex: ...
    @overload
    def log_moment(self, z: ArrayLike, direction: str = REMOVE) -> float | complex | Numbers: ...
    def log_moment(self, z: ArrayLike, direction: str = REMOVE) -> float | complex | Numbers:
        r"""The logarithm :math:`K(z)` of the moment function, finite losses only.

        Real in, real out; complex in, complex out, on some branch of the logarithm: :math:`e^{nK}` is right for every
        integer n. Its error is small relative to :math:`|K|`, however small that is.

        Parameters
        ----------
        z
            Real or complex, one or many, with real part in (0, inf).
        direction
            One of `directions`.
        """
        direction = self._checked(direction)
        if not self.has_moment_function:
            raise UnsupportedError(
                f"{type(self).__name__} bounds real Rényi orders only and has no moment function: "
                "use rdp, or a method that converts it."
            )
        points = _moment_points(z)
        values = self._log_moment(points.ravel(), direction) if points.size else points
        return values.reshape(points.shape) if points.ndim else values.item()

    def guarantee(self, *, delta: float, method: str = DEFAULT_METHOD) -> Guarantee:
        """What may be said at `delta`, with the order that proves it.

        Examples
        --------
        >>> from dprounds import Gaussian
        >>> guarantee = (Gaussian(20.0) * 500).guarantee(delta=1e-5, method="optimal")
        >>> round(guarantee.epsilon, 4), round(guarantee.order, 2)
        (5.3777, 4.98)
        """
        delta = real("delta", delta, DELTA)
        method = choice("method", method, RUN_METHODS)
        proof: Proof = epsilon_by_orders(self.finite_rdp, infinite_mass=self.infinite_mass, delta=delta, method=method)
        return Guarantee(
            epsilon=proof.value, delta=delta, method=method, order=proof.order, lower=0.0, upper=proof.value
        )

    def finite_rdp(self, orders: Array) -> Array:
        """The Rényi bound given that no loss is infinite: what accounting converts beside `infinite_mass`."""
        return np.asarray(self.rdp(orders))

    def __mul__(self, rounds: SupportsIndex) -> Run:
        """This release, `rounds` times."""
        # A run is made of releases, so its module can be imported only once this one is complete.
        from dprounds.mechanisms.composition import repeat  # noqa: PLC0415

        return repeat(self, rounds)

    __rmul__ = __mul__

    def __add__(self, other: Release) -> Run:
        """This release and the other one, in either order and adaptively."""
        from dprounds.mechanisms.composition import join  # noqa: PLC0415 (as above)

        return join(self, other)

    def _checked(self, direction: str) -> str:
        return choice("direction", direction, self.directions)

    def _pure_epsilon(self) -> float:
        """The Rényi bound of infinite order."""
        return math.inf if self.infinite_mass > 0 else max(map(self._max_loss, self.directions))

    @abstractmethod
    def _rdp(self, orders: Array) -> Array:
        """`rdp` at a row of finite orders."""

    @abstractmethod
    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        """`log_moment` at a row of valid points."""

    @abstractmethod
    def _max_loss(self, direction: str) -> float:
        """`max_loss` in a valid direction."""


class Mechanism(Release):
    """One release: a frozen value that prints as the call that makes it.

    A subclass is a dataclass, ``@dataclass(frozen=True, repr=False)``, whose fields are its parameters, with
    ``_log_moment`` and ``_max_loss``. That is all: composition, Rényi bounds and exact accounting follow from these.
    """

    def __repr__(self) -> str:
        first, *others = ((field.name, _show(getattr(self, field.name))) for field in fields(self))  # type: ignore[arg-type]  # every subclass is a dataclass
        return f"{type(self).__name__}({', '.join([first[1], *(f'{name}={text}' for name, text in others)])})"

    def _set(self, **values: object) -> None:
        """Replaces fields by their validated values while the frozen object is being made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _rdp(self, orders: Array) -> Array:
        if self._max_loss(REMOVE) == 0:
            return np.zeros_like(orders)  # nothing is released: exactly nothing is spent
        t = orders - 1.0
        bound = self._log_moment(t, REMOVE) / t
        return above(bound.real, RELATIVE_HAIR * bound.real + ABSOLUTE_HAIR)


class Accounted(Release):
    """A release that answers what it costs.

    Runs do, and every mechanism but those that have an epsilon of their own: ask ``RandomizedResponse(1.0) * 1``.
    """

    def epsilon(self, *, delta: float, method: str = DEFAULT_METHOD) -> float:
        """Epsilon at `delta`: the least that any Rényi order proves by `method`.

        Guarantee
        ---------
        Raises, or returns an epsilon at which every pair of neighbours is (epsilon, delta)-close; `inf` where none is
        proven. Errs upward.

        Parameters
        ----------
        delta
            Failure mass, in (0, 1).
        method
            ``"moments"``, ``"balle"``, ``"closed-form"`` or ``"optimal"``.
        """
        return self.guarantee(delta=delta, method=method).epsilon

    def delta(self, *, epsilon: float, method: str = DEFAULT_METHOD) -> float:
        """Delta at `epsilon`: the least that any Rényi order proves by `method`.

        Guarantee
        ---------
        Raises, or returns a delta at which every pair of neighbours is (epsilon, delta)-close. Errs upward.

        Parameters
        ----------
        epsilon
            Privacy loss in nats, in [0, inf].
        method
            ``"moments"``, ``"balle"``, ``"closed-form"`` or ``"optimal"``.
        """
        epsilon = real("epsilon", epsilon, EPSILON)
        method = choice("method", method, RUN_METHODS)
        return delta_by_orders(self.finite_rdp, infinite_mass=self.infinite_mass, epsilon=epsilon, method=method).value


class RatioLaw(NamedTuple):
    r"""Points and weights that stand for the law of :math:`\log dP/dQ` under :math:`Q`."""

    log_weights: Array
    log_ratios: Array


class Sampleable(Mechanism):
    r"""A mechanism that can follow Poisson sampling.

    Its pair must be symmetric: an involution of the outputs swaps P and Q. Then one direction of the sampled pair is
    never cheaper in Rényi terms than the other; see docs/theory/mechanisms.md.
    """

    @property
    def _largest_sampled_order(self) -> float:
        """Up to here the moments of the sampled mechanism are computed; beyond, sampling is not credited."""
        return math.inf

    @abstractmethod
    def _ratio_laws(self, z: Numbers, rate: float, direction: str) -> Iterator[tuple[NDArray[np.intp], RatioLaw]]:
        """The law of ``v = log dP/dQ`` under Q, as it serves to average powers of ``1 - rate + rate exp(v)``.

        The power is ``z + 1`` in the direction remove and ``-z`` in the direction add. Points z that can share a law
        come together, as indices into `z`; each index comes once.
        """


def _moment_points(z: ArrayLike) -> Numbers:
    """`z` as float64 or complex128, every real part inside (0, inf)."""
    given = np.asarray(z)
    if given.dtype.kind != "c":
        return real_array("z", z, REAL_PART)
    points: NDArray[np.complex128] = given.astype(np.complex128)
    inside = REAL_PART.contains(points.real) & np.isfinite(points.imag)
    if not inside.all():
        raise ParameterError(f"z must have its real part in {REAL_PART.text}, got {points[~inside].flat[0]}.")
    return points


def _show(value: object) -> str:
    """`value` as source text; ``repr`` of infinity is a name that Python does not know."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_show, value))}{',' if len(value) == 1 else ''})"
    return "float('inf')" if value == math.inf else repr(value)
