"""Numbers and quantities as people read them, rounded to the side that stays true."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

__all__ = ["DELTA", "EPSILON", "NOISE", "RATE", "RDP", "REPETITIONS", "ROUNDS", "Quantity", "plain", "rounded"]

# From here on a number that is not a count is written as a power of ten.
LARGE = 9


@dataclass(frozen=True)
class Quantity:
    """A quantity that is asked for: its name in Python and JSON, its name for people, and which way is better."""

    name: str
    title: str
    more_is_better: bool

    def text(self, value: float) -> str:
        """`value` with five digits, rounded to the side on which the statement stays true."""
        return rounded(value, up=not self.more_is_better)


ROUNDS = Quantity("rounds", "rounds", more_is_better=True)
REPETITIONS = Quantity("rounds", "repetitions", more_is_better=True)
EPSILON = Quantity("epsilon", "ε", more_is_better=False)
DELTA = Quantity("delta", "δ", more_is_better=False)
NOISE = Quantity("noise_multiplier", "noise multiplier", more_is_better=False)
RATE = Quantity("sampling_rate", "sampling rate", more_is_better=True)
RDP = Quantity("rdp", "rdp", more_is_better=True)


def rounded(value: float, *, up: bool, digits: int = 5) -> str:
    """`value` to so many digits, never below it, or if not `up` never above it; what is whole in full.

    A double stands for the shortest decimal that reads back as it, so 0.022 is printed as such.

    Examples
    --------
    >>> rounded(2.381601, up=True), rounded(2.381601, up=False), rounded(14062, up=True), rounded(1.23e-7, up=True)
    ('2.3817', '2.3816', '14,062', '1.23e-07')
    >>> rounded(2030875.2, up=False), rounded(0.022, up=False)
    ('2,030,875', '0.022')
    """
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    exact = Decimal(repr(float(value)))
    side = ROUND_CEILING if up else ROUND_FLOOR
    last = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    near = exact.quantize(last, rounding=side)
    if -4 <= near.adjusted() < LARGE:
        if last > 1:  # zeros in place of known digits would look exact
            near = exact.quantize(Decimal(1), rounding=side)
        text = f"{near:,f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, exponent = f"{near:.{digits - 1}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent):+03d}"


def plain(value: object) -> str:
    """An input as it was given, every digit of it, with thousands separated.

    Examples
    --------
    >>> plain(6.0), plain(1e-5), plain(1.0000049), plain(14062)
    ('6', '1e-05', '1.0000049', '14,062')
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return repr(float(value)).removesuffix(".0") if isinstance(value, float) else str(value)
