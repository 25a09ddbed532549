r"""What every release has in common: a moment function, and what is read off it.

`Release` is the interface. A `Mechanism` is one release, described by one formula; a
`Run <dprounds.mechanisms.composition.Run>` is many.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, SupportsIndex, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._validate import ORDER, Interval, choice, given_array, real_array, show
from dprounds.accounting.cells import Cells
from dprounds.accounting.lattice import Part
from dprounds.accounting.line import LOG_MOMENT_ERROR
from dprounds.accounting.loss_law import LossLaw, refuse_contradictions
from dprounds.errors import NumericalError, ParameterError, UnsupportedError
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.cumulant import TiltableLaw
from dprounds.numerics.mixture import log_mixture, log_mixture_ulps
from dprounds.numerics.rounding import above, ratio_above

if TYPE_CHECKING:
    from dprounds.mechanisms.composition import Run

__all__ = [
    "ADD",
    "ADD_REMOVE",
    "BOTH_DIRECTIONS",
    "MAX_LOSS_ERROR",
    "RELATIONS",
    "REMOVE",
    "Mechanism",
    "Release",
    "Sampleable",
    "sampled_law",
]

Array = NDArray[np.float64]

REMOVE = "remove"
ADD = "add"
BOTH_DIRECTIONS = (REMOVE, ADD)

ADD_REMOVE = "add-remove"
RELATIONS = (ADD_REMOVE, "replace-one", "zero-out")

# Values of K on one line of the exact accountant. A closed form gives the many in some 10 ms. A quadrature gets longer
# as it goes up the line; of 40 DP-SGD runs 37 needed no more than the few, and the others no less than ten times them.
MOST_NODES = 2**16
MOST_DEAR_NODES = 2**8
# Mechanisms that are known not to contradict themselves.
MOST_REMEMBERED = 2**14

# Largest losses are logarithms of a few terms, and their sums over parts are rounded once: far closer than this.
MAX_LOSS_ERROR = 1e-9

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
    def relation(self) -> str | None:
        """Which data sets are neighbours, a word of `RELATIONS`; None where the sensitivity says it all."""
        return None

    @property
    def sampling(self) -> str | None:
        """How a round chooses its records: ``"poisson"``, or None where it sees every record."""
        return None

    @property
    def _reach(self) -> float:
        """An upper bound on the probability that a record is seen at all: no delta exceeds it."""
        return 1.0

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
        # A bound too large for a double is reported as inf, which bounds it; what is not a number is refused below.
        with np.errstate(all="ignore"):
            pure = self._pure_epsilon()
            try:
                # no order exceeds the infinite one
                bounds[finite] = np.minimum(self._rdp(flat[finite]), pure) if finite.any() else pure
            except OverflowError:
                raise self._out_of_range() from None
        if not finite.all():
            self._refuse_contradictions()  # which the finite orders see in their values
            bounds[~finite] = pure
        if np.isnan(bounds).any():
            raise self._out_of_range()
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
        with np.errstate(all="ignore"):  # as in `rdp`
            try:
                values = self._log_moment(points.ravel(), direction) if points.size else points
            except OverflowError:
                raise self._out_of_range() from None
        if np.isnan(values).any():
            raise self._out_of_range()
        return values.reshape(points.shape) if points.ndim else values.item()

    def finite_rdp(self, orders: Array) -> Array:
        """The Rényi bound given that no loss is infinite: what accounting converts beside `infinite_mass`."""
        return np.asarray(self.rdp(orders))

    def law(self, direction: str = REMOVE) -> LossLaw:
        """One direction, as the exact accountant takes it.

        Raises `NumericalError` where K is out of its reach, and `ParameterError` for a mechanism that contradicts
        itself: whose largest loss is no number, or below what its moment function tells.
        """
        direction = self._checked(direction)
        if self._lacks_noise:
            raise NumericalError(f"A sampled part of {show(self)} has too little noise for an exact sum.")
        return LossLaw(
            of=self,
            log_moment=lambda z: self._log_moment(z, direction),
            ceiling=(lambda t, s: self._ceiling(t, s, direction)) if self._falls or not self._is_dear else None,
            infinite_mass=self.infinite_mass,
            max_loss=self._max_loss(direction),
            fewest_rounds=self._fewest_rounds(),
            most_nodes=MOST_DEAR_NODES if self._is_dear else MOST_NODES,
            smoothed=not self._is_dear,
        )

    @abstractmethod
    def _refuse_contradictions(self) -> None:
        """Raise `ParameterError` where a largest loss contradicts the moments, as far as these can be computed."""

    @property
    def _falls(self) -> bool:
        """Whether the ceiling falls along a line; the laws of atoms and lattices do not."""
        return False

    @property
    def _response_loss(self) -> float | None:
        """The loss a of each round, if every round's finite part is a randomized response of loss a; else None."""
        return None

    @property
    def _has_cells(self) -> bool:
        """Whether the masses of intervals of the loss are known, so that a lattice can carry it."""
        return False

    def _lattice_parts(self, direction: str) -> list[Part]:
        """Every mechanism by its cells, with its rounds; only where `_has_cells`."""
        raise NumericalError(f"No exact sum is known for so few rounds of {show(self)}.")

    @property
    def _lacks_noise(self) -> bool:
        """Whether K is a quadrature that no line could wait for."""
        return False

    @property
    def _is_dear(self) -> bool:
        """Whether a value of K far up a line costs a long quadrature."""
        return False

    def __mul__(self, rounds: SupportsIndex) -> Run:
        """This release, `rounds` times."""
        # A run is made of releases, so its module can be imported only once this one is complete.
        from dprounds.mechanisms.composition import repeat  # noqa: PLC0415  (a run needs this module)

        return repeat(self, rounds)

    __rmul__ = __mul__

    def __add__(self, other: Release) -> Run:
        """This release and the other one, in either order and adaptively."""
        from dprounds.mechanisms.composition import join  # noqa: PLC0415  (a run needs this module)

        return join(self, other)

    def __radd__(self, other: object) -> Run:
        """So that ``sum(steps)`` works, which starts from 0."""
        return self * 1 if isinstance(other, int) and other == 0 else NotImplemented

    def _out_of_range(self) -> NumericalError:
        return NumericalError(f"The moment function of {show(self)} is beyond the range of doubles here.")

    def _checked(self, direction: str) -> str:
        return choice("direction", direction, self.directions)

    def _pure_epsilon(self) -> float:
        """The Rényi bound of infinite order."""
        return math.inf if self.infinite_mass > 0 else max(map(self._max_loss, self.directions))

    @property
    def _max_loss_is_least(self) -> bool:
        """Whether no bound on the finite losses is below `max_loss` by more than `MAX_LOSS_ERROR` of it."""
        return False

    @abstractmethod
    def _rdp(self, orders: Array) -> Array:
        """`rdp` at a row of finite orders."""

    @abstractmethod
    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        """`log_moment` at a row of valid points."""

    @abstractmethod
    def _max_loss(self, direction: str) -> float:
        """`max_loss` in a valid direction."""

    @abstractmethod
    def _ceiling(self, t: float, s: Array, direction: str) -> Array:
        """Upper bounds of the real part of K on the half-lines from ``t + is`` upward, for a row s."""

    @abstractmethod
    def _fewest_rounds(self) -> float:
        """The least rounds of any part whose M is known only relative to M(t); `inf` if there is none."""


class Mechanism(Release):
    """One release: a frozen value that prints as the call that makes it.

    A subclass is a dataclass, ``@dataclass(frozen=True, repr=False)``, whose fields are its parameters, with
    ``_log_moment`` and ``_max_loss``. That is all: composition, Rényi bounds and exact accounting follow from these.
    """

    def __repr__(self) -> str:
        if not is_dataclass(self):
            return object.__repr__(self)
        values = [(field.name, _source(getattr(self, field.name))) for field in fields(self)]
        written = [text if number == 0 else f"{name}={text}" for number, (name, text) in enumerate(values)]
        return f"{type(self).__name__}({', '.join(written)})"

    def _refuse_contradictions(self) -> None:
        if type(self).__hash__ is None:
            _check_laws.__wrapped__(self)
        else:
            _check_laws(self)

    def _set(self, **values: object) -> None:
        """Replaces fields by their validated values while the frozen object is being made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _ceiling(self, t: float, s: Array, direction: str) -> Array:
        """K(t), which |M| exceeds nowhere on the line: all that is known of atoms and lattices."""
        value = float(self._log_moment(np.array([t]), direction)[0].real)
        return np.full_like(s, value + LOG_MOMENT_ERROR * abs(value))

    def _fewest_rounds(self) -> float:
        return 1.0

    def _max_loss_of(self, rounds: int, direction: str) -> float:
        """The largest loss of so many rounds, the least double that is not below it."""
        loss = self._max_loss(direction)
        if not 0.0 < loss < math.inf:
            return loss
        over, under = float(loss).as_integer_ratio()
        return ratio_above(rounds * over, under)

    def _cells(self, edges: Array, direction: str) -> Cells:
        """Masses under P and Q of the intervals between increasing edges of the loss; only where `_has_cells`."""
        raise NumericalError(f"No exact sum is known for so few rounds of {show(self)}.")

    def _lattice_parts(self, direction: str) -> list[Part]:
        return [Part(lambda edges: self._cells(edges, direction), 1)]

    def _rdp(self, orders: Array) -> Array:
        t = orders - 1.0
        value = self._log_moment(t, REMOVE).real
        refuse_contradictions(self, self._max_loss(REMOVE), self.infinite_mass, t, value)
        # where nothing is released the largest loss, 0, is the bound: see `rdp`
        return above(value / t, RELATIVE_HAIR * value / t + ABSOLUTE_HAIR)


@lru_cache(maxsize=MOST_REMEMBERED)
def _check_laws(mechanism: Mechanism) -> None:
    """Make the laws of a mechanism, which refuse what contradicts itself; what was made once is not made again."""
    if mechanism.has_moment_function and mechanism._max_loss(REMOVE) != math.inf:
        with np.errstate(all="ignore"), suppress(NumericalError, OverflowError):
            for direction in mechanism.directions:
                mechanism.law(direction)


def sampled_law(log_weights: Array, log_ratios: Array, rate: float, direction: str) -> TiltableLaw:
    r"""The privacy loss under its first law, where :math:`w = 1 - q + q e^v` at rate q.

    Parameters
    ----------
    log_weights, log_ratios
        Points and weights that stand for the law of :math:`v = \log dP/dQ` under :math:`Q`.
    rate
        q, in (0, 1).
    direction
        The loss is log w under the mixture in the direction remove, and -log w under Q in the direction add.
    """
    log_mix = log_mixture(rate, log_ratios)
    ulps = log_mixture_ulps(rate, log_ratios, log_mix)
    if direction == ADD:
        return TiltableLaw(log_weights, -log_mix, ulps)
    return TiltableLaw(log_weights + log_mix, log_mix, ulps)


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
    def _sampled_laws(self, z: Numbers, rate: float, direction: str) -> Iterator[tuple[NDArray[np.intp], TiltableLaw]]:
        """The law of the privacy loss at a rate in (0, 1), as `sampled_law` makes it, fit for its moments at z.

        Points z that can share a law come together, as indices into `z`; each index comes once.
        """


def _moment_points(z: ArrayLike) -> Numbers:
    """`z` as float64 or complex128, every real part inside (0, inf)."""
    try:
        given = given_array(z)
    except (TypeError, ValueError, RecursionError):
        raise ParameterError(f"z must be a number or an array of them, got {show(z)}.") from None
    if given.dtype.kind != "c":
        return real_array("z", z, REAL_PART)
    points: NDArray[np.complex128] = given.astype(np.complex128)
    inside = REAL_PART.contains(points.real) & np.isfinite(points.imag)
    if not inside.all():
        raise ParameterError(f"z must have its real part in {REAL_PART.text}, got {points[~inside].flat[0]}.")
    return points


def _source(value: object) -> str:
    """`value` as source text; ``repr`` of infinity is a name that Python does not know."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_source, value))}{',' if len(value) == 1 else ''})"
    return "float('inf')" if value == math.inf else repr(value)
