"""Argument rules, in one wording: ``<argument> must be in <interval>, got <value>.``

Every check asks "is it inside?", never "is it outside?", so NaN is refused everywhere without being named.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprounds._intervals import (
    DELTA,
    EPSILON,
    FAILURE_MASS,
    FINITE_EPSILON,
    NOISE_MULTIPLIER,
    ORDER,
    RDP,
    SAMPLING_RATE,
    Interval,
)
from dprounds.errors import ParameterError

__all__ = [
    "DELTA",
    "EPSILON",
    "FAILURE_MASS",
    "FINITE_EPSILON",
    "NOISE_MULTIPLIER",
    "ORDER",
    "RDP",
    "SAMPLING_RATE",
    "Interval",
    "broadcast",
    "choice",
    "count",
    "given_array",
    "real",
    "real_array",
    "show",
]


def show(value: object) -> str:
    """A refused value, short enough for one line whatever it is."""
    if isinstance(value, float):
        return f"{value:.17g}"
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"an integer of {value.bit_length()} bits"  # Python refuses to print the very long ones
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _outside(name: str, requirement: str, interval: str, value: str, *, advice: str = "") -> ParameterError:
    """The one wording of an argument that is not inside, with the argument, the interval and the value as fields."""
    sentence = f"{{argument}} must be {requirement}{{interval}}, got {{value}}."
    return ParameterError(sentence, argument=name, interval=interval, value=value, advice=advice)


# What NumPy would take for numbers and is none: a mask that it drops, with what was hidden behind it for a value; the
# bytes of a buffer; a truth value among numbers.
_NO_NUMBERS = (bytes, bytearray, memoryview, bool, np.bool_)


def _no_numbers() -> tuple[type, ...]:
    """The kinds that are refused. NumPy's module of masked arrays takes time to load, and without it there are none."""
    masked: type | None = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return _NO_NUMBERS if masked is None else (masked, *_NO_NUMBERS)


def given_array(value: object) -> NDArray[Any]:
    """`value` as an array, before its kind is judged; raises TypeError where it, or a part of it, is no number."""
    if isinstance(value, _no_numbers()):
        raise TypeError
    if isinstance(value, (list, tuple)):
        kinds = set(map(type, value))
        if any(issubclass(kind, _no_numbers()) for kind in kinds):
            raise TypeError
        if any(issubclass(kind, (list, tuple)) for kind in kinds):
            for item in value:
                given_array(item)
    return np.asarray(value)


def real_array(name: str, value: ArrayLike, interval: Interval) -> NDArray[np.float64]:
    """`value` as float64, every element inside `interval`.

    Refuses what NumPy would silently turn into a float: text that looks like a number, complex and truth values,
    None, masked elements, bytes, and long doubles that no double comes near.
    """
    try:
        given = given_array(value)
        if given.dtype.kind == "O" and not all(
            isinstance(item, int) and not isinstance(item, bool) for item in given.flat
        ):
            raise TypeError  # of Python's objects only integers too long for NumPy are numbers
        if given.dtype.kind not in "iufO":
            raise TypeError
        with np.errstate(over="ignore", under="ignore"):  # judged below
            array = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise _outside(name, "a real number in ", interval.text, show(value)) from None
    if given.dtype.itemsize > array.dtype.itemsize:  # long doubles: a positive rate must not become 0, nor inf
        lost = (array == 0) & (given != 0) | np.isinf(array) & np.isfinite(given)
        if lost.any():
            bad = f"{show(given[lost].flat[0])}, beyond the range of doubles"
            raise _outside(name, "in ", interval.text, bad)
    inside = interval.contains(array)
    if not inside.all():
        bad = show(value if array.ndim == 0 else float(array[~inside].flat[0]))
        raise _outside(name, "in ", interval.text, bad, advice=interval.hint)
    return array


def real(name: str, value: float, interval: Interval) -> float:
    """`value` as one float inside `interval`."""
    array = real_array(name, value, interval)
    if array.ndim:
        raise _outside(name, "one number in ", interval.text, f"an array of shape {array.shape}")
    return float(array)


def count(name: str, value: float, *, least: int = 0, most: float = math.inf) -> int:
    """`value` as an integer from `least` to `most`; a whole float such as ``1e6`` is one."""
    given: object = value
    whole = None
    if type(given) is int:  # as almost all are; the check of a protocol below takes longer
        whole = given
    elif isinstance(given, SupportsIndex) and not isinstance(given, (bool, np.bool_, np.ndarray)):
        whole = operator.index(given)
    elif isinstance(given, (float, np.floating)) and given.is_integer():
        whole = int(given)
    if whole is None or not least <= whole <= most:
        interval = f"[{least}, {most:.0f}]" if most < math.inf else f"[{least}, inf)"
        raise _outside(name, "an integer in ", interval, show(value))
    return whole


def choice(name: str, value: object, allowed: Sequence[str]) -> str:
    """`value`, one of the `allowed` words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(f"'{word}'" for word in allowed)
        raise _outside(name, "one of ", words, show(value))
    return value


def broadcast(**arrays: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """The arrays at their common shape."""
    try:
        return np.broadcast_arrays(*arrays.values())
    except ValueError:
        names = " and ".join([", ".join(list(arrays)[:-1]), list(arrays)[-1]])
        shapes = ", ".join(str(array.shape) for array in arrays.values())
        raise ParameterError(f"{names} must have shapes that broadcast together, got {shapes}.") from None
