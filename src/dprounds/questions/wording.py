"""Words for people: numbers rounded to the side that stays true, what an answer holds for, what the methods are.

Plain data and text: nothing here loads the library, so that ``dprounds --help`` may use it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

__all__ = [
    "ASSUMPTIONS",
    "CONVERSION_ASSUMPTIONS",
    "DELTA",
    "EPSILON",
    "EXCESS",
    "NOISE",
    "PLAN_ASSUMPTIONS",
    "RATE",
    "RDP",
    "RELATIONS_IN_WORDS",
    "REPETITIONS",
    "ROUNDS",
    "SAMPLINGS_IN_WORDS",
    "Quantity",
    "delta_advice",
    "delta_remark",
    "holds_for",
    "plain",
    "rounded",
    "suggested_delta",
]

# A number with more digits before its point, unless it is an integer, is written as a power of ten.
PLAIN_DIGITS = 9


@dataclass(frozen=True)
class Quantity:
    """A quantity that is asked for: its name in Python and JSON, its name for people, and which way is better."""

    name: str
    title: str
    more_is_better: bool

    def text(self, value: float) -> str:
        """`value` with five digits, rounded to the side on which the statement stays true."""
        return rounded(value, up=not self.more_is_better)

    def texts(self, values: Sequence[float]) -> list[str]:
        """The same for numbers that stand below each other: if one is written as a power of ten, all are.

        Examples
        --------
        >>> DELTA.texts([0.012, 1.5e-7, 0.0]), DELTA.texts([0.012, 0.5])
        (['1.2e-02', '1.5e-07', '0'], ['0.012', '0.5'])
        """
        plain_texts = [self.text(value) for value in values]
        if not any("e" in text for text in plain_texts):
            return plain_texts
        return [rounded(value, up=not self.more_is_better, as_power=True) for value in values]


ROUNDS = Quantity("rounds", "rounds", more_is_better=True)
REPETITIONS = Quantity("rounds", "repetitions", more_is_better=True)
EPSILON = Quantity("epsilon", "ε", more_is_better=False)
DELTA = Quantity("delta", "δ", more_is_better=False)
NOISE = Quantity("noise_multiplier", "noise multiplier", more_is_better=False)
RATE = Quantity("sampling_rate", "sampling rate", more_is_better=True)
EXCESS = Quantity("excess", "excess over the floor", more_is_better=False)
RDP = Quantity("rdp", "rdp", more_is_better=True)

# The relations between data sets that a guarantee may hold for, and the ways to choose the records of a round.
RELATIONS_IN_WORDS = {
    "add-remove": "add or remove one record",
    "replace-one": "replace one record",
    "zero-out": "zero out one record",
}
SAMPLINGS_IN_WORDS = {
    "poisson": "Poisson sampling",
    "allocation": "random allocation",
    "truncated": "truncated Poisson sampling",
    "fixed-size": "batches of fixed size",
    "shuffled": "shuffled batches",
}
SAMPLINGS_EXPLAINED = {
    "poisson": "each round takes each record independently",
    "allocation": "each record joins random steps of every epoch, independently of the others",
    "truncated": "each round draws each record independently; of too many it keeps a random choice",
    "fixed-size": "each round draws so many records without replacement, anew",
    "shuffled": "each epoch goes through all records once, in a random order",
}
# Without sampling nothing here says which data sets are neighbours; what was given does.
GIVEN_FOR = {
    "sensitivity": "the sensitivity (the unit of the noise multiplier) was taken",
    "round": "the guarantee of a round holds",
    "rdp": "the Rényi bound holds",
}
# For --help, before anything is known of the run.
ASSUMPTIONS = (
    "A sampling rate, or a batch size, means Poisson sampling (each round takes each record independently), and the "
    "answer then holds for: add or remove one record. Where another sampling or relation is named, it holds for that. "
    "Without sampling it holds for the neighbours for which the sensitivity was taken."
)
PLAN_ASSUMPTIONS = (
    "Plans are for Poisson sampling (each round takes each record independently), and hold for: add or remove one "
    "record. Where another sampling is named, the answer says for which neighbours it holds."
)
CONVERSION_ASSUMPTIONS = "The answer holds for the neighbours, and for the sampling, for which the Rényi bound holds."


def holds_for(relation: str | None, sampling: str | None, *, given: str = "sensitivity") -> str:
    """What an answer holds for: between which data sets, and for which way to choose the records of a round.

    Where nothing was sampled, that depends on how what was given was found: a word of `GIVEN_FOR`.

    Examples
    --------
    >>> holds_for("add-remove", "poisson")
    'Holds for: add or remove one record, Poisson sampling (each round takes each record independently).'
    >>> holds_for(None, None)
    'Holds for the neighbours for which the sensitivity (the unit of the noise multiplier) was taken.'
    """
    if relation is None and sampling is None:
        return f"Holds for the neighbours for which {GIVEN_FOR[given]}."
    words = [] if relation is None else [RELATIONS_IN_WORDS.get(relation, relation)]
    for way in (sampling or "").split(", "):
        if way:
            meaning = f" ({SAMPLINGS_EXPLAINED[way]})" if way in SAMPLINGS_EXPLAINED else ""
            words.append(SAMPLINGS_IN_WORDS.get(way, way) + meaning)
    return f"Holds for: {', '.join(words)}."


def suggested_delta(dataset_size: int) -> float:
    """The greatest power of ten below one over the number of records.

    Examples
    --------
    >>> suggested_delta(60_000), suggested_delta(100_000)
    (1e-05, 1e-06)
    """
    return float(f"1e-{len(str(dataset_size))}")


def delta_advice(dataset_size: int | None = None) -> str:
    """Which δ to choose, where none was given.

    Examples
    --------
    >>> delta_advice(60_000)
    'choose it below one over the number of records, such as 1e-05 for 60,000'
    >>> delta_advice()
    'choose it below one over the number of records'
    """
    advice = "choose it below one over the number of records"
    if dataset_size is None:
        return advice
    return f"{advice}, such as {plain(suggested_delta(dataset_size))} for {plain(dataset_size)}"


def delta_remark(delta: float, dataset_size: int | None, *, is_answer: bool = False) -> str | None:
    """A remark on a δ that is not below one over the number of records; None if it is, or if that number is unknown.

    Nobody chooses a δ that is the answer: it falls as ε grows.

    Examples
    --------
    >>> print(delta_remark(1e-4, 10_000))
    δ = 0.0001 is not below 1/10,000, one over the number of records: publishing one whole record, drawn at random, has
    no larger δ. Choose δ below it, such as 1e-05.
    >>> delta_remark(1e-5, 10_000)
    """
    if dataset_size is None or not Fraction(delta) * dataset_size >= 1:
        return None
    below = f"below it, such as {plain(suggested_delta(dataset_size))}"
    return (
        f"δ = {DELTA.text(delta)} is not below 1/{plain(dataset_size)}, one over the number of records: publishing one "
        "whole record, drawn at random, has no larger δ. "
        f"{f'Ask for the ε of a δ {below}' if is_answer else f'Choose δ {below}'}."
    )


def rounded(value: float, *, up: bool, digits: int = 5, as_power: bool = False) -> str:
    """`value` to this many `digits`, never below it, or if not `up` never above it; integers in full.

    Numbers of ordinary size are written out, unless `as_power`: in a column with others that are not.

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
    if -4 <= near.adjusted() < PLAIN_DIGITS and not as_power:
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
