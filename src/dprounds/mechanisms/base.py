r"""Releases: a mechanism is one, described by one formula; a run is many, and answers what they cost.

With :math:`(P, Q)` the worst pair of output laws on neighbouring data and :math:`L = \log dP/dQ` under :math:`P`, a
mechanism is known by

.. math:: M(z) = E_P[e^{zL};\, L < \infty], \qquad K = \log M.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cached_property, lru_cache
from typing import SupportsIndex, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._validate import ORDER, Interval, choice, count, given_array, real_array, show
from dprounds.accounting.answers import Account
from dprounds.accounting.contradictions import refuse_contradictions
from dprounds.accounting.law import Composition, LossLaw
from dprounds.accounting.over_rounds import probability_of_any, sum_of_losses, total_over_rounds
from dprounds.errors import NumericalError, ParameterError, UnsupportedError
from dprounds.mechanisms.accounted import Accounted
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.rounding import above

__all__ = [
    "ADD",
    "ADD_REMOVE",
    "BOTH_DIRECTIONS",
    "RELATIONS",
    "REMOVE",
    "REPLACE_ONE",
    "ZERO_OUT",
    "Mechanism",
    "Release",
    "Run",
    "check_relations",
    "of_part",
    "total_rdp",
]

Array = NDArray[np.float64]

REMOVE = "remove"
ADD = "add"
BOTH_DIRECTIONS = (REMOVE, ADD)

ADD_REMOVE = "add-remove"
REPLACE_ONE = "replace-one"
ZERO_OUT = "zero-out"
RELATIONS = (ADD_REMOVE, REPLACE_ONE, ZERO_OUT)

REAL_PART = Interval.parse("(0, inf)")

# --- What carries a proof.

# A closed form takes fewer than forty roundings, none of which is amplified: 40 * 2^-53 < 5e-15.
RELATIVE_ERROR = 1e-14
# What underflows on the way is below 1e-307 even after division by the smallest order - 1, which is 2^-52.
ABSOLUTE_ERROR = 1e-300
# A product and a sum for each part; a thousand parts round by at most 1000 * 2^-53 < 2e-13 of the total.
ERROR_PER_PART = 2.0**-52

# --- What only tunes speed.

# Laws that are remembered, so that a mechanism is described and checked once.
MOST_REMEMBERED = 2**12


class Release(ABC):
    r"""Something published about the data, seen through its moment function.

    With :math:`(P, Q)` its worst pair of output laws on neighbouring data and :math:`L = \log dP/dQ` under :math:`P`,

    .. math:: M(z) = E_P[e^{zL};\, L < \infty], \qquad K = \log M.

    Where the neighbours are not alike, `directions` names both, from one to the other and back; each has its own
    :math:`K`.
    """

    __array_ufunc__ = None  # NumPy's integers leave `rounds * step` to us

    def __getstate__(self) -> dict[str, object]:
        """What a pickle or a copy holds: what the release was made of, and nothing that it has computed since."""
        kept = getattr(self, "__dataclass_fields__", vars(self))
        return {name: value for name, value in vars(self).items() if name in kept}

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
    def has_moment_function(self) -> bool:
        """Whether `log_moment` answers; without it only the Rényi methods apply."""
        return True

    def max_loss(self, direction: str = REMOVE) -> float:
        """The least upper bound of the finite privacy losses; ``inf`` where there is none. Errs upward by a margin."""
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
        bounds = self._bounds(orders.ravel())
        return bounds.reshape(orders.shape) if orders.ndim else float(bounds[0])

    def _bounds(self, orders: Array) -> Array:
        """`rdp` at a row of valid orders."""
        finite = np.isfinite(orders)
        bounds = np.full(orders.shape, math.inf)
        # A bound too large for a double is reported as inf, which bounds it; what is not a number is refused below.
        with np.errstate(all="ignore"):
            pure = self._pure_epsilon()
            try:
                # no order exceeds the infinite one
                bounds[finite] = np.minimum(self._rdp(orders[finite]), pure) if finite.any() else pure
            except OverflowError:
                raise self._out_of_range() from None
        if not finite.all():
            bounds[~finite] = pure
            if self.has_moment_function and pure != math.inf:
                self.law()  # refuses a largest loss that contradicts the moments, which the finite orders see
        if np.isnan(bounds).any():
            raise self._out_of_range()
        return bounds

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
        """The Rényi bound given that no loss is infinite: what accounting converts in addition to `infinite_mass`."""
        return self._bounds(orders)

    @abstractmethod
    def as_run(self) -> Run:
        """A mechanism is a run of one round."""

    @abstractmethod
    def law(self, direction: str = REMOVE) -> LossLaw | Composition:
        """One direction, as the exact accountant takes it.

        Raises `ParameterError` for a mechanism that contradicts itself: whose largest loss is no number, or less than
        its moment function shows.
        """

    def __mul__(self, rounds: SupportsIndex) -> Run:
        """This release, `rounds` times."""
        times = count("rounds", cast(int, rounds))
        return Run(tuple((part, once * times) for part, once in self._as_parts()))

    __rmul__ = __mul__

    def __add__(self, other: Release) -> Run:
        """This release and the other one, in either order and adaptively."""
        if not isinstance(other, Release):
            raise TypeError(f"a release is a mechanism or a run, not {type(other).__name__}")
        if not self._as_parts():
            return other.as_run()
        return Run((*self._as_parts(), *other._as_parts()))

    def __radd__(self, other: object) -> Run:
        """So that ``sum(steps)`` works, which starts from 0."""
        return self.as_run() if isinstance(other, int) and other == 0 else NotImplemented

    def _out_of_range(self) -> NumericalError:
        return NumericalError(f"The moment function of {show(self)} is beyond the range of doubles here.")

    def _checked(self, direction: str) -> str:
        if type(direction) is str and direction in self.directions:
            return direction
        return choice("direction", direction, self.directions)

    @abstractmethod
    def _as_parts(self) -> tuple[tuple[Mechanism, int], ...]:
        """Its mechanisms with their rounds."""

    @abstractmethod
    def _pure_epsilon(self) -> float:
        """The Rényi bound of infinite order: the largest loss, or inf where any mass is there."""

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
    One that knows more of its loss overrides ``_law``.
    """

    def __repr__(self) -> str:
        if not is_dataclass(self):
            return object.__repr__(self)
        values = [(field.name, getattr(self, field.name)) for field in fields(self) if not _is_default(self, field)]
        written = [
            _source(value) if not number else f"{name}={_source(value)}" for number, (name, value) in enumerate(values)
        ]
        return f"{type(self).__name__}({', '.join(written)})"

    def as_run(self) -> Run:
        """One round."""
        return Run(self._as_parts())

    def _as_parts(self) -> tuple[tuple[Mechanism, int], ...]:
        return ((self, 1),)

    @property
    def account(self) -> Account:
        """That of one round."""
        return self.as_run().account

    def law(self, direction: str = REMOVE) -> LossLaw:
        """One direction of one round."""
        return self._known_law(self._checked(direction))

    def law_in_run(self, direction: str) -> LossLaw:
        """The same in a run that is composed in `direction`."""
        return self._known_law(of_part(self, direction))

    def _known_law(self, direction: str) -> LossLaw:
        return self._law(direction) if type(self).__hash__ is None else _remembered_law(self, direction)

    def _law(self, direction: str) -> LossLaw:
        """`law` in a valid direction; by default what `_log_moment` and `_max_loss` say."""
        return LossLaw(
            of=self,
            log_moment=lambda z: self._log_moment(z, direction),
            infinite_mass=self.infinite_mass,
            max_loss=self._max_loss(direction),
        )

    @property
    def attacked(self) -> Mechanism:
        """A mechanism that costs no more, to the last digit, and for whose pair `is_tight` says that it is real."""
        return self

    @property
    def is_tight(self) -> bool:
        """Whether its pair is one of real neighbours, also after many rounds; else `attack_law` says what they are."""
        return self.attacked is self

    def attack_law(self, direction: str) -> LossLaw:
        """The law of a pair of real neighbours, from which follows how much the truth is at least."""
        return self.attacked.law(direction)

    def integrated_law(self, direction: str) -> LossLaw | None:
        """A law whose integrated profile bounds that of all neighbours, given any past; None if only `law` does."""
        return None

    def _pure_epsilon(self) -> float:
        return _pure_epsilon(self) if type(self).__hash__ is None else _remembered_pure_epsilon(self)

    def _set(self, **values: object) -> None:
        """Replaces fields by their validated values while the frozen object is being made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _rdp(self, orders: Array) -> Array:
        t = orders - 1.0
        value = self._log_moment(t, REMOVE).real
        refuse_contradictions(self, self._max_loss(REMOVE), self.infinite_mass, t, value)
        # where nothing is released the largest loss, 0, is the bound: see `rdp`
        return above(value / t, RELATIVE_ERROR * value / t + ABSOLUTE_ERROR)


def _pure_epsilon(mechanism: Mechanism) -> float:
    return math.inf if mechanism.infinite_mass > 0 else max(map(mechanism._max_loss, mechanism.directions))


_remembered_pure_epsilon = lru_cache(maxsize=MOST_REMEMBERED)(_pure_epsilon)


@lru_cache(maxsize=MOST_REMEMBERED)
def _remembered_law(mechanism: Mechanism, direction: str) -> LossLaw:
    try:
        with np.errstate(all="ignore"):  # as in `rdp`
            return mechanism._law(direction)
    except ArithmeticError:
        raise mechanism._out_of_range() from None


@dataclass(frozen=True, eq=False, repr=False)
class Run(Accounted, Release):
    """Mechanisms, each with its number of rounds, composed adaptively.

    A round may depend on the outputs before it; the mechanisms and their rounds are fixed beforehand.

    Written as ``step * rounds`` and ``run + run``. Equal mechanisms are merged and the order of the parts does not
    matter, so two runs are equal when they hold the same releases. The empty run costs nothing.

    Parameters
    ----------
    parts
        Pairs of a mechanism and its rounds, an integer in [0, inf).

    Theorem
    -------
    [Mir17, Proposition 1] for Rényi bounds; [ZDW22, Theorem 10] for pairs that dominate.

    Examples
    --------
    >>> from dprounds.mechanisms import Gaussian, Laplace
    >>> run = Gaussian(2.0) * 3 + Laplace(5.0)
    >>> run == Laplace(5.0) + Gaussian(2.0) + 2 * Gaussian(2.0)
    True
    >>> round(run.rdp(order=2.0), 6)
    0.787015
    """

    parts: tuple[tuple[Mechanism, int], ...] = ()

    def __post_init__(self) -> None:
        merged: dict[Mechanism, int] = {}
        try:
            if not isinstance(self.parts, (tuple, list)):
                raise TypeError
            pairs = [(mechanism, rounds) for mechanism, rounds in self.parts]
        except (TypeError, ValueError):
            raise ParameterError(f"parts must pair mechanisms with rounds, got {show(self.parts)}.") from None
        for mechanism, rounds in pairs:
            if not isinstance(mechanism, Mechanism):
                raise ParameterError(f"parts must pair mechanisms with rounds, got {show(mechanism)}.")
            if type(mechanism).__hash__ is None:
                name = type(mechanism).__name__
                raise ParameterError(
                    f"A mechanism must not change: declare {name} @dataclass(frozen=True, repr=False)."
                )
            times = rounds if type(rounds) is int and rounds >= 0 else count("rounds", rounds)
            merged[mechanism] = merged.get(mechanism, 0) + times
        most = max(merged.values(), default=0)
        if not most <= sys.float_info.max:
            raise ParameterError(
                f"rounds must be at most {sys.float_info.max:.2g}, got one of {most.bit_length()} bits."
            )
        held = tuple((mechanism, rounds) for mechanism, rounds in merged.items() if rounds)
        object.__setattr__(self, "parts", held)
        check_relations(self.mechanisms)

    @cached_property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The different mechanisms, in the order in which they first came."""
        return tuple(mechanism for mechanism, _ in self.parts)

    @property
    def rounds(self) -> int:
        """The number of releases."""
        return sum(rounds for _, rounds in self.parts)

    def __repr__(self) -> str:
        terms = [f"{mechanism!r} * {rounds}" for mechanism, rounds in self.parts]
        return " + ".join(terms) or "Run()"

    def __eq__(self, other: object) -> bool:
        return dict(self.parts) == dict(other.parts) if isinstance(other, Run) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.parts))

    @cached_property
    def directions(self) -> tuple[str, ...]:
        """Both directions as soon as one part has both; each is composed by itself."""
        return BOTH_DIRECTIONS if any(ADD in part.directions for part in self.mechanisms) else (REMOVE,)

    @cached_property
    def relation(self) -> str | None:
        """That of the parts that have one, which is the same for all of them."""
        return next((part.relation for part in self.mechanisms if part.relation is not None), None)

    @cached_property
    def sampling(self) -> str | None:
        """That of the parts that sample; each way once, separated by commas."""
        return ", ".join(dict.fromkeys(part.sampling for part in self.mechanisms if part.sampling is not None)) or None

    @cached_property
    def infinite_mass(self) -> float:
        """The probability that some round has infinite loss, one minus the product of those that it has not."""
        return probability_of_any((part.infinite_mass, rounds) for part, rounds in self.parts)

    @property
    def has_moment_function(self) -> bool:
        """Whether every part has one."""
        return all(part.has_moment_function for part in self.mechanisms)

    @cached_property
    def laws(self) -> Mapping[str, Composition]:
        """The law of the sum of all losses in each direction; none where a part has no moment function."""
        if not self.has_moment_function:
            return {}
        return {
            direction: Composition(tuple((part.law_in_run(direction), rounds) for part, rounds in self.parts))
            for direction in self.directions
        }

    def _attacks(self) -> Mapping[str, Composition] | None:
        """The law of the sum of all losses between real neighbours, if that is another one."""
        if all(part.is_tight for part in self.mechanisms):
            return None
        return {
            direction: Composition(
                tuple((part.attack_law(of_part(part, direction)), rounds) for part, rounds in self.parts)
            )
            for direction in self.directions
        }

    def _integrated(self) -> Mapping[str, Composition] | None:
        """Laws the integrals of whose profiles no neighbours exceed, if they prove more; docs/theory/fixed-size.md."""
        others = {
            (part, direction): part.integrated_law(of_part(part, direction))
            for part in self.mechanisms
            for direction in self.directions
        }
        if all(law is None for law in others.values()):
            return None
        laws = {of: law or of[0].law_in_run(of[1]) for of, law in others.items()}
        if any(others[of] is None and not law.is_attained for of, law in laws.items()):
            return None
        return {
            direction: Composition(tuple((laws[part, direction], rounds) for part, rounds in self.parts))
            for direction in self.directions
        }

    def law(self, direction: str = REMOVE) -> Composition:
        """One direction of the sum of all losses."""
        return self.laws[self._checked(direction)]

    def as_run(self) -> Run:
        """Itself."""
        return self

    def _as_parts(self) -> tuple[tuple[Mechanism, int], ...]:
        return self.parts

    @cached_property
    def account(self) -> Account:
        """The run as accounting sees it."""
        return Account(self, lambda: self.laws, self.finite_rdp, self.infinite_mass, self._attacks, self._integrated)

    def _rdp(self, orders: Array) -> Array:
        return total_rdp([(part._bounds(orders), rounds) for part, rounds in self.parts], orders)

    def finite_rdp(self, orders: Array) -> Array:
        """The Rényi bound given that no round's loss is infinite, a sum as well, and never above the largest loss."""
        total = total_rdp([(part.finite_rdp(orders), rounds) for part, rounds in self.parts], orders)
        return np.minimum(total, self._largest_loss)

    @cached_property
    def _largest_loss(self) -> float:
        if not self.infinite_mass and any(part._pure_epsilon() == math.inf for part in self.mechanisms):
            return math.inf  # in one direction at least, whatever the rounds are
        return max(map(self._max_loss, self.directions))

    def _pure_epsilon(self) -> float:
        return math.inf if self.infinite_mass > 0 else self._largest_loss

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        return self.laws[direction].log_moment(z)

    def _max_loss(self, direction: str) -> float:
        if self.laws:
            return self.laws[direction].max_loss
        return sum_of_losses((part._max_loss(of_part(part, direction)), rounds) for part, rounds in self.parts)


def total_rdp(rdps: Sequence[tuple[Array, int]], orders: Array) -> Array:
    """The Rényi bounds of many rounds, from those of one of each part, moved past the rounding of the sum."""
    with np.errstate(over="ignore", invalid="ignore"):  # inf is a bound; what is not a number `rdp` refuses
        total = total_over_rounds(rdps, np.zeros_like(orders))
    return np.where(total > 0, above(total, (len(rdps) * ERROR_PER_PART) * total), total)


def check_relations(parts: Iterable[Mechanism]) -> None:
    """Raise if parts speak of different neighbours: no guarantee holds for their composition."""
    found: dict[str, Mechanism] = {}
    for part in parts:
        relation = part.relation
        if relation is not None:
            is_known = type(relation) is str and relation in RELATIONS
            found.setdefault(relation if is_known else choice("relation", relation, RELATIONS), part)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise UnsupportedError(
            f"{show(first)} and {show(second)} cannot be added up: the first counts data sets as neighbours by "
            f"{one}, the second by {other}. Account for them separately, or describe both by one relation."
        )


def of_part(part: Mechanism, direction: str) -> str:
    """The direction of a part in a run that is composed in `direction`: a symmetric part has one for both."""
    return direction if direction in part.directions else REMOVE


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


def _is_default(value: object, field: Field[object]) -> bool:
    """Whether a field has the value that it has if nothing is given, and need not be written."""
    return field.default is not MISSING and getattr(value, field.name) == field.default


def _source(value: object) -> str:
    """`value` as source text; ``repr`` of infinity is a name that Python does not know."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_source, value))}{',' if len(value) == 1 else ''})"
    return "float('inf')" if value == math.inf else repr(value)
