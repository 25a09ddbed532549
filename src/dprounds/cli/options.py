"""The flags that commands share: the argument names of the library with dashes, each with one help text.

Numbers are read here and judged by the library: click's own ranges let NaN through.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "BatchSize",
    "DatasetSize",
    "Delta",
    "Epochs",
    "Epsilon",
    "Json",
    "Mechanism",
    "Method",
    "NoiseMultiplier",
    "Plot",
    "Rho",
    "Rounds",
    "RunFile",
    "SamplingRate",
    "SpentFile",
    "StepDelta",
    "StepEpsilon",
    "number",
]

# Spelled out here so that --help need not load the library; a test holds them to the library's own.
METHODS = ("moments", "balle", "closed-form", "optimal", "exact")
MECHANISMS = (
    *("gaussian", "laplace", "discrete-gaussian", "randomized-response", "pure-dp", "approximate-dp", "zcdp"),
)
# A longer number than this is no count of anything, and Python takes its time to read it.
MOST_DIGITS = 400


def number(text: str) -> float:
    """The number that was typed: ``14062``, ``1e6``, ``1e-5`` or ``256/60000``."""
    above, slash, below = text.partition("/")
    try:
        return _plain(above) / _plain(below) if slash else _plain(text)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise typer.BadParameter(f"{text[:60]!r} is not a number.") from None


def _plain(text: str) -> float:
    """An integer as such, so that no digit is lost; else a double."""
    digits = text.strip().lstrip("+-")
    return int(text) if digits.isdecimal() and len(digits) <= MOST_DIGITS else float(text)


def _number(flag: str, help_text: str, panel: str) -> object:
    return typer.Option(flag, help=help_text, parser=number, metavar="NUMBER", rich_help_panel=panel)


BUDGET, ROUND, DATA, ANSWER = "Budget", "What a round releases", "Sampling and rounds", "Answer"

Epsilon = Annotated[float | None, _number("--epsilon", "Privacy loss ε, in nats.", BUDGET)]
Delta = Annotated[float | None, _number("--delta", "Failure mass δ, between 0 and 1.", BUDGET)]

Mechanism = Annotated[
    str,
    typer.Option(
        "--mechanism",
        help=f"One of {', '.join(MECHANISMS)}.",
        metavar="WORD",
        autocompletion=lambda: list(MECHANISMS),
        rich_help_panel=ROUND,
    ),
]
NoiseMultiplier = Annotated[
    float | None, _number("--noise-multiplier", "Noise over sensitivity, of gaussian and laplace noise.", ROUND)
]
StepEpsilon = Annotated[
    float | None, _number("--step-epsilon", "ε of one randomized-response, pure-dp or approximate-dp round.", ROUND)
]
StepDelta = Annotated[float | None, _number("--step-delta", "δ of one approximate-dp round.", ROUND)]
Rho = Annotated[float | None, _number("--rho", "ρ of one zcdp round.", ROUND)]

SamplingRate = Annotated[
    float | None, _number("--sampling-rate", "Chance that a round samples a record; 256/60000 will do.", DATA)
]
BatchSize = Annotated[float | None, _number("--batch-size", "Expected records in a round.", DATA)]
DatasetSize = Annotated[float | None, _number("--dataset-size", "Records in all.", DATA)]
Rounds = Annotated[float | None, _number("--rounds", "Rounds, the steps of training.", DATA)]
Epochs = Annotated[float | None, _number("--epochs", "Passes over the data, instead of rounds.", DATA)]

RunFile = Annotated[
    Path | None,
    typer.Option(
        "--run", help="A run of several parts: TOML, or an accountant's JSON.", metavar="FILE", rich_help_panel=DATA
    ),
]
SpentFile = Annotated[
    Path | None,
    typer.Option(
        "--spent", help="What was released before: TOML, or an accountant's JSON.", metavar="FILE", rich_help_panel=DATA
    ),
]

Method = Annotated[
    str | None,
    typer.Option(
        "--method",
        help=f"Answer by one method only: {', '.join(METHODS)}.",
        metavar="WORD",
        autocompletion=lambda: list(METHODS),
        rich_help_panel=ANSWER,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.", rich_help_panel=ANSWER)]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="Draw the answer: .png, .svg or .pdf.", metavar="FILE", rich_help_panel=ANSWER),
]
