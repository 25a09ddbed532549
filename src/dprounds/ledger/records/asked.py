"""What is asked of a record store: records in order, their costs in its units, and a hash of both."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._validate import given_array
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.ledger.filters import UNIT, Filter
from dprounds.mechanisms.base import ADD_REMOVE, Release
from dprounds.planning import checked_release

__all__ = ["Costs", "Digest", "Scale", "checked_ids", "in_order"]

Integers = NDArray[np.int64]

IDS_AT_ONCE = 2**22
# The cap has this many bits in the units of a store, so that a sum of two amounts has no more than 63.
CAP_BITS = 60


@dataclass(frozen=True)
class Scale:
    """The units of a store, 2^-exponent, and its cap in them, rounded down."""

    exponent: int
    cap: int

    @classmethod
    def of(cls, fixed: Filter) -> Scale:
        """The units for the cap of a filter."""
        most = fixed.caps[0] * UNIT  # those of both Rényi directions are equal
        if not most:
            raise ParameterError("This budget is too small for any job.", argument="epsilon")
        exponent = CAP_BITS - math.frexp(float(most))[1]
        return cls(exponent, math.floor(most * Fraction(2) ** exponent))

    def up(self, cost: Fraction) -> np.int64:
        """The fewest units that are not below a cost; more than the cap if that is."""
        return np.int64(min(math.ceil(cost * Fraction(2) ** self.exponent), self.cap + 1))

    def all_up(self, costs: NDArray[Any]) -> Integers:
        """The same of many costs."""
        given = costs.astype(np.float64, copy=False)
        with np.errstate(over="ignore", under="ignore"):
            units = np.ceil(np.ldexp(given, self.exponent))  # exact, unless it is beyond all caps or below one unit
        units = np.where(given > 0.0, np.maximum(units, 1.0), 0.0)
        return np.where(units > self.cap, self.cap + 1, np.minimum(units, 2.0**CAP_BITS).astype(np.int64))

    def real(self, units: Integers) -> NDArray[np.float64]:
        """Amounts as doubles, rounded up."""
        near = units.astype(np.float64)
        above = np.where(near.astype(np.int64) < units, np.nextafter(near, np.inf), near)
        found: NDArray[np.float64] = np.ldexp(above, -self.exponent)
        return found


@dataclass(frozen=True)
class Costs:
    """What a job costs: units for all records, or a number for each."""

    scale: Scale
    given: np.int64 | NDArray[Any]

    @classmethod
    def of(cls, fixed: Filter, cost: Release | ArrayLike, *, records: int) -> Costs:
        """A cost for all, or one for each record."""
        scale = Scale.of(fixed)
        if isinstance(cost, Release):
            run = checked_release("cost", cost).as_run()
            if run.relation not in (None, ADD_REMOVE):
                raise UnsupportedError(f"A record store is for {ADD_REMOVE}, and this job is for {run.relation}.")
            units = fixed.cost(run, left=fixed.caps)
            if fixed.kind == "gaussian" and units[1]:
                raise UnsupportedError(
                    "This job reveals something with a small probability, which is not added up here."
                )
            return cls(scale, scale.up(max(units) * UNIT))
        wrong = "{argument} must be a run, a number in [0, inf], or one such number for each record."
        try:
            given = given_array(cost)
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(wrong, argument="cost") from None
        # neither an integer without a double of its own nor a long double may be rounded down
        is_exact = given.dtype.kind == "f" and given.dtype.itemsize <= 8
        if given.dtype.kind in "iu":
            is_exact = not given.size or int(given.max()) <= 2**53
        if not is_exact or given.shape not in ((), (records,)) or not (given >= 0).all():
            raise ParameterError(wrong, argument="cost")  # and not which is wrong: that depends on the data
        return cls(scale, given)

    def at(self, places: Any) -> Integers | np.int64:  # noqa: ANN401  (a slice or an array)
        """The units of some records."""
        if isinstance(self.given, np.int64):
            return self.given
        if not self.given.ndim:
            return np.int64(self.scale.all_up(self.given))
        return self.scale.all_up(self.given[places])


class Digest:
    """The hash of what was asked, whatever the order of the records."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=32)

    def add(self, ids: Integers, amounts: Integers | np.int64) -> None:
        """Some more, in ascending order."""
        self._hash.update(f"{len(ids)} {np.ndim(amounts)};".encode())
        self._hash.update(np.ascontiguousarray(ids).data)
        self._hash.update(np.ascontiguousarray(amounts).data)

    def hexdigest(self) -> str:
        """The hash."""
        return self._hash.hexdigest()


def checked_ids(ids: ArrayLike) -> Integers:
    """Records as 64-bit integers."""
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        given = given_array(ids)
        if given.ndim == 1 and not given.size:
            return np.empty(0, np.int64)
        if given.ndim == 1 and (given.dtype.kind == "i" or (given.dtype.kind == "u" and int(given.max()) < 2**63)):
            return given.astype(np.int64, copy=False)
    raise _wrong_ids()


def in_order(ids: Integers) -> Iterator[tuple[Any, Integers]]:
    """Records in ascending order, part by part: their places and themselves; raises where one is there twice."""
    order = None if (ids[1:] > ids[:-1]).all() else np.argsort(ids)
    last = None
    for start in range(0, len(ids), IDS_AT_ONCE):
        place = slice(start, start + IDS_AT_ONCE)
        places = place if order is None else order[place]
        some = ids[places]
        if (some[1:] == some[:-1]).any() or some[0] == last:
            raise _wrong_ids()
        last = some[-1]
        yield places, some


def _wrong_ids() -> ParameterError:
    return ParameterError("{argument} must be distinct 64-bit integers.", argument="ids")  # and no word on which
