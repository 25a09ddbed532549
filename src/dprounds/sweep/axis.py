"""One word of a grid and its values: a scalar, a list or a range."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from dprounds import _validate
from dprounds.errors import ParameterError
from dprounds.questions.vocabulary import MECHANISMS, WORDS

__all__ = ["MOST_ROWS", "Axis", "Cell", "Listed", "Range", "axis_from"]

Cell = float | int | str | tuple[float, ...] | None

# These take three hours at one millisecond a row, which is the fastest; a larger grid is more likely a mistake.
MOST_ROWS = 10_000_000
# The largest integer that a column holds, in Parquet and elsewhere.
LARGEST_INTEGER = 2**63 - 1
# A range of more points than this, half a megabyte, is computed point by point instead of held in memory.
MOST_POINTS_HELD = 10_000
# Enough digits for the nearest double of every point, so that each machine enumerates the same grid.
FORTY_DIGITS = decimal.Context(prec=40)


@dataclass(frozen=True)
class Listed:
    """Values that were written out."""

    values: tuple[Cell, ...]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Cell:
        return self.values[index]

    def describe(self) -> object:
        """The values as JSON holds them."""
        return list(self.values)


@dataclass(frozen=True)
class Range:
    """Points from `start` to `stop`: evenly spaced, or evenly in the logarithm.

    The ends are the decimals that a person wrote, and points are the doubles nearest to the exact ones, so that a step
    of 0.1 reaches 0.3 and a decade in the logarithm reaches the next power of ten.
    """

    start: Fraction
    stop: Fraction
    points: int
    logarithmic: bool
    whole: bool

    def __len__(self) -> int:
        return self.points

    def __getitem__(self, index: int) -> Cell:
        return self._point(index) if self.points > MOST_POINTS_HELD else self._points[index]

    @cached_property
    def _points(self) -> tuple[Cell, ...]:
        return tuple(self._point(index) for index in range(self.points))

    def _point(self, index: int) -> Cell:
        if index in (0, self.points - 1) or not self.logarithmic:
            exact = self.start + (self.stop - self.start) * Fraction(index, max(self.points - 1, 1))
            return round(exact) if self.whole else float(exact)
        ends = _decimal(self.start), _decimal(self.stop)
        low, high = (end.ln(FORTY_DIGITS) for end in ends)
        share = FORTY_DIGITS.divide(decimal.Decimal(index), decimal.Decimal(self.points - 1))
        value = FORTY_DIGITS.add(low, FORTY_DIGITS.multiply(FORTY_DIGITS.subtract(high, low), share)).exp(FORTY_DIGITS)
        value = min(max(value, min(ends)), max(ends))  # the last digit may stray past ends that nearly meet
        return round(value) if self.whole else float(value)

    def describe(self) -> object:
        """The range as JSON holds it."""
        return [str(self.start), str(self.stop), self.points, self.logarithmic, self.whole]


Axis = Listed | Range


def axis_from(word: str, given: Any) -> Axis:  # noqa: ANN401  (TOML is a tree of anything)
    """The values that a grid gives to `word`."""
    if isinstance(given, dict):
        if WORDS[word].kind in ("choice", "list"):
            raise ParameterError(f"{word} must be a value or a list of values, not a range.")
        return _range(word, given)
    if WORDS[word].kind == "list":
        several = isinstance(given, list) and any(isinstance(item, list) for item in given)
        return Listed(tuple(_curve(word, item) for item in (given if several else [given])))
    values = given if isinstance(given, list) else [given]
    if not values:
        raise ParameterError(f"{word} must have a value, got an empty list.")
    return Listed(tuple(_scalar(word, value) for value in values))


def _scalar(word: str, value: object) -> Cell:
    if word == "mechanism":
        return _validate.choice(word, value, tuple(MECHANISMS))
    if WORDS[word].choices:
        return _validate.choice(word, value, WORDS[word].choices)
    number = _number(word, value)
    # a whole float such as 1e6 is a count, as it is to the library; one that no table holds stays what it is
    return (
        int(number)
        if WORDS[word].kind == "count" and abs(number) <= LARGEST_INTEGER and number == int(number)
        else number
    )


def _number(word: str, value: object) -> float | int:
    """A number of any size and sign, NaN too: the library judges it, and says so in the row."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ParameterError(f"{word} must be a number, a list of numbers or a range, got {_validate.show(value)}.")
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise ParameterError(f"{word} must be at most 2**63 if it is an integer, got {_validate.show(value)}.")
    return value


def _curve(word: str, value: object) -> tuple[float, ...]:
    if not isinstance(value, list) or not value:
        raise ParameterError(f"{word} must be a list of numbers, or a list of such lists, got {_validate.show(value)}.")
    return tuple(float(_number(word, item)) for item in value)


def _range(word: str, given: dict[str, object]) -> Range:
    known = ("from", "to", "points", "scale", "step")
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ParameterError(f"{word}.{unknown[0][:60]} is not known. A range has {', '.join(known)}.")
    for end in ("from", "to"):
        if end not in given:
            raise ParameterError(f"{word}.{end} is missing: a range goes from one value to another.")
    if ("points" in given) == ("step" in given):
        raise ParameterError(f"{word} must have either points or a step between its ends.")
    start, stop = _end(f"{word}.from", given["from"]), _end(f"{word}.to", given["to"])
    whole = WORDS[word].kind == "count"
    if "step" in given:
        return _by_steps(word, start, stop, _end(f"{word}.step", given["step"]), whole, "scale" in given)
    points = _validate.count(f"{word}.points", given["points"], least=2, most=MOST_ROWS)  # type: ignore[arg-type]  # judged
    scale = _validate.choice(f"{word}.scale", given.get("scale", "linear"), ("linear", "log"))
    if scale == "log" and not (start > 0 and stop > 0):
        raise ParameterError(f"{word} must have ends above 0 on a log scale, got {given['from']} to {given['to']}.")
    return Range(start, stop, points, scale == "log", whole)


def _by_steps(word: str, start: Fraction, stop: Fraction, step: Fraction, whole: bool, scaled: bool) -> Range:
    if scaled:
        raise ParameterError(f"{word}.scale goes with points: steps are even.")
    if not (step > 0 and stop >= start):
        raise ParameterError(f"{word} must go up from its first end to its last, by a step above 0.")
    if whole and not (start.denominator == step.denominator == 1):
        raise ParameterError(f"{word} must start at an integer and go by integers: it is a count.")
    steps = math.floor((stop - start) / step)
    if steps >= MOST_ROWS:
        raise ParameterError(f"{word} has more than {MOST_ROWS:,} values: use a larger step.")
    return Range(start, start + steps * step, steps + 1, False, whole)


def _end(name: str, value: object) -> Fraction:
    """The decimal that a person wrote."""
    number = _number(name, value)
    if not math.isfinite(number):
        raise ParameterError(f"{name} must be a finite number, got {_validate.show(value)}.")
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _decimal(value: Fraction) -> decimal.Decimal:
    return FORTY_DIGITS.divide(decimal.Decimal(value.numerator), decimal.Decimal(value.denominator))
