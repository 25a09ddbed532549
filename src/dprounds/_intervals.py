"""Ranges of real numbers, among them those of the words that the whole library shares. Loads no NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
]


@dataclass(frozen=True)
class Interval:
    """A range of real numbers, printed as the error messages print it; `hint` is advice for who is outside."""

    text: str
    low: float
    high: float
    with_low: bool
    with_high: bool
    hint: str = ""

    @classmethod
    def parse(cls, text: str, hint: str = "") -> Interval:
        """The interval that `text`, such as ``"(1, inf]"``, denotes."""
        low, high = text[1:-1].split(",")
        return cls(text, float(low), float(high), text[0] == "[", text[-1] == "]", hint)

    def contains(self, value: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Where `value` is inside; NaN is not."""
        above = (value >= self.low) if self.with_low else (value > self.low)
        below = (value <= self.high) if self.with_high else (value < self.high)
        return above & below


EPSILON = Interval.parse("[0, inf]")
FINITE_EPSILON = Interval.parse("[0, inf)")
DELTA = Interval.parse("(0, 1)")
FAILURE_MASS = Interval.parse("[0, 1)")  # a delta that may be 0, where a pure guarantee is an answer
ORDER = Interval.parse("(1, inf]")
RDP = Interval.parse("[0, inf]")
NOISE_MULTIPLIER = Interval.parse("(0, inf)", "It is the noise standard deviation divided by the sensitivity.")
SAMPLING_RATE = Interval.parse("[0, 1]", "It is a probability, not a batch size: pass {batch_size} / {dataset_size}.")
