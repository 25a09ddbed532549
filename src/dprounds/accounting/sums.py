"""Sums that bracket delta near one epsilon: what the profile reads epsilon and delta off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dprounds.accounting.bracket import Bracket, Brackets
from dprounds.errors import NumericalError

__all__ = ["HEAVY", "LEAST_RESOLVED", "NARROW", "Sum", "Sums", "WithinDoubles"]

Array = NDArray[np.float64]

# These tune speed.
# Where brackets are at most this part of delta wide, a line serves for another epsilon too.
NARROW = 1e-9
# Laplace's method is not believed where it exceeds other guesses of epsilon by this factor.
HEAVY = 1.4
# A probability below this is taken to have lost its relative precision.
LEAST_RESOLVED = 1e-300


class Sum(Protocol):
    """A sum that brackets delta: a `Line` or a `LevelledLine`."""

    @property
    def t(self) -> float:
        """The real part of its line."""
        ...

    def at(self, epsilon: float) -> Bracket:
        """Lower and upper bounds of delta over the finite losses at one epsilon."""
        ...

    def bracket(self, epsilon: Array) -> Brackets:
        """The same at a row of epsilons."""
        ...

    def value_and_slope(self, epsilon: float) -> tuple[float, float]:
        """The sum as computed and its derivative in epsilon."""
        ...


@dataclass(eq=False)
class Sums:
    """What brackets delta near one epsilon: a line from above and one from below, which may be the same.

    All but the lines tunes speed: the lines prove their brackets at every epsilon.

    Parameters
    ----------
    epsilon
        What the lines were made for.
    above
        The line whose upper bounds are used.
    make_below
        Makes the line whose lower bounds are used; None where that is the same line.
    narrow
        The lines serve for another epsilon too if their bracket there is at most this part of delta wide.
    reach
        An epsilon at most this far away is served without a look at its bracket.
    believed
        At an epsilon at most this far away the value of the line is good enough for a step of a search.
    is_fine
        Whether the lines are close enough for the answer, and not only for an estimate.
    """

    epsilon: float
    above: Sum
    make_below: Callable[[], Sum] | None = None
    narrow: float = NARROW
    reach: float = 0.0
    believed: float = 0.0
    is_fine: bool = True
    _last: tuple[float, Bracket] | None = field(default=None, init=False)

    @cached_property
    def below(self) -> Sum:
        """Made when it is first asked for."""
        return self.above if self.make_below is None else self.make_below()

    def at(self, epsilon: float) -> Bracket:
        """Delta of the finite losses at one epsilon."""
        found = self._above_at(epsilon)
        return found if self.make_below is None else _consistent(self.below.at(epsilon).lower, found.upper)

    def bracket(self, epsilon: Array, *, above: Brackets) -> Brackets:
        """Delta of the finite losses at a row of epsilons, given the brackets of the line from `above` there."""
        return above if self.make_below is None else Brackets(self.below.bracket(epsilon).lower, above.upper)

    def suits(self, epsilon: float, part: float) -> bool:
        """Whether the bracket of the line from above is at most this part of delta wide here, or the reach says so."""
        if abs(epsilon - self.epsilon) <= self.reach:
            return True
        lower, upper = self._above_at(epsilon)
        return upper - lower <= part * upper

    def _above_at(self, epsilon: float) -> Bracket:
        """The bracket of the line from above; the last one is kept, since a search that has settled needs it again."""
        if self._last is None or self._last[0] != epsilon:
            self._last = epsilon, self.above.at(epsilon)
        return self._last[1]


def _consistent(lower: float, upper: float) -> Bracket:
    if not lower <= upper:
        raise NumericalError("The exact sum of this run contradicts itself in doubles.")
    return Bracket(lower, upper)


class WithinDoubles:
    """Let numbers overflow far from any privacy: what is then not a number is refused, and what raises says so.

    No generator: one that an interrupt left half way ends with a traceback, in the context in which it is freed.
    """

    def __enter__(self) -> None:
        self._settings = np.errstate(over="ignore", invalid="ignore", divide="ignore")
        self._settings.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._settings.__exit__(kind, error, trace)
        if isinstance(error, ArithmeticError):
            raise NumericalError("The loss of this run is outside what doubles resolve.") from None
