"""The flags that commands share: the argument names of the library with dashes, each with one help text.

Numbers are read here and judged by the library: click's own ranges let NaN through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "BatchSize",
    "ConversionMethod",
    "DatasetSize",
    "Delta",
    "Epochs",
    "Epsilon",
    "Json",
    "Mechanism",
    "Method",
    "NoiseMultiplier",
    "NoisyMechanism",
    "Plot",
    "Rho",
    "Rounds",
    "RunFile",
    "SamplingRate",
    "SomeDelta",
    "SomeEpsilon",
    "SpentFile",
    "StepDelta",
    "StepEpsilon",
    "check_matplotlib",
    "has_matplotlib",
    "number",
]

# Spelled out here so that --help need not load the library; a test holds them to the library's own.
CONVERSION_METHODS = ("moments", "balle", "closed-form", "optimal")
METHODS = (*CONVERSION_METHODS, "exact")
NOISY_MECHANISMS = ("gaussian", "laplace", "discrete-gaussian")
MECHANISMS = (*NOISY_MECHANISMS, "randomized-response", "pure-dp", "approximate-dp", "zcdp")
CURVE = "rdp-curve"  # of the library's mechanisms the one that no flags describe
PICTURES = (".png", ".svg", ".pdf")
# A longer number than this is no count of anything, and Python takes its time to read it.
MOST_DIGITS = 400


def number(text: str) -> float:
    """The number that was typed: ``14062``, ``1e6``, ``1e-5`` or ``256/60000``."""
    above, slash, below = text.partition("/")
    try:
        over = _plain(above)
        value = over / _plain(below) if slash else over
    except (ValueError, OverflowError, ZeroDivisionError):
        raise typer.BadParameter(f"{text[:60]!r} is not a number.") from None
    if slash and over and not value:
        raise _no_double(text, "small")
    return value


def _plain(text: str) -> float:
    """An integer as such, so that no digit is lost; else a double, if the number has one."""
    digits = text.strip().lstrip("+-")
    if digits.isdecimal() and len(digits) <= MOST_DIGITS:
        return int(text)
    value = float(text)
    mantissa = digits.lower().partition("e")[0]
    if value == 0 and mantissa.strip("._0"):
        raise _no_double(text, "small")
    if value in (float("inf"), float("-inf")) and mantissa[:1].isdecimal():
        raise _no_double(text, "large")
    return value


def _no_double(text: str, size: str) -> typer.BadParameter:
    """A number that a double would turn into zero or infinity, which is another question."""
    return typer.BadParameter(f"{text[:60]!r} is too {size} for a double.")


NO_PICTURES = "Pictures need Matplotlib. In a checkout of dprounds: pip install '.[plots]'"


def has_matplotlib() -> bool:
    """Whether anything can be drawn."""
    try:
        return find_spec("matplotlib") is not None
    except ValueError:  # an import of it failed before
        return False


def check_matplotlib() -> None:
    """Raise if nothing can be drawn, before anything is computed."""
    if not has_matplotlib():
        from dprounds.errors import UnsupportedError

        raise UnsupportedError(NO_PICTURES)


def _picture(path: Path | None) -> Path | None:
    """A file that a picture can be drawn to."""
    if path is None:
        return None
    if path.suffix.lower() not in PICTURES:
        raise typer.BadParameter(f"it must end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}, got {str(path)!r}.")
    if path.is_dir():
        raise typer.BadParameter(f"{str(path)!r} is a directory: name a file.")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"{str(path.parent)!r} is not a directory: make it first, or choose another file.")
    check_matplotlib()
    return path


def _number(flag: str, help_text: str, panel: str) -> object:
    return typer.Option(flag, help=help_text, parser=number, metavar="NUMBER", rich_help_panel=panel)


def _word(
    flag: str, allowed: Sequence[str], help_text: str, panel: str, *, hints: Mapping[str, str] | None = None
) -> object:
    """An option that takes one of a few words; `hints` answer those who type certain others."""

    def word(text: str) -> str:
        if text not in allowed:
            hint = (hints or {}).get(text, "")
            raise typer.BadParameter(f"it must be one of {', '.join(allowed)}, got {text[:60]!r}.{hint}")
        return text

    return typer.Option(
        flag,
        help=f"{help_text} {', '.join(allowed)}.",
        parser=word,
        metavar="WORD",
        autocompletion=lambda: list(allowed),
        rich_help_panel=panel,
    )


BUDGET, ROUND, DATA, ANSWER = "Budget", "What a round releases", "Sampling and rounds", "Answer"

Epsilon = Annotated[float | None, _number("--epsilon", "Required: privacy loss ε, in nats.", BUDGET)]
Delta = Annotated[
    float | None,
    _number("--delta", "Required: failure mass δ, below one over the number of records; 0 for pure DP.", BUDGET),
]
SomeEpsilon = Annotated[float | None, _number("--epsilon", "Privacy loss ε, in nats.", BUDGET)]
SomeDelta = Annotated[float | None, _number("--delta", "Failure mass δ, from 0 up to 1.", BUDGET)]

Mechanism = Annotated[
    str,
    _word(
        "--mechanism", MECHANISMS, "One of", ROUND, hints={CURVE: " It is made of lists, which go into a file: --run."}
    ),
]
NoisyMechanism = Annotated[
    str,
    _word(
        "--mechanism",
        NOISY_MECHANISMS,
        "One of",
        ROUND,
        hints=dict.fromkeys((*MECHANISMS, CURVE), " Only these have a noise multiplier."),
    ),
]
NoiseMultiplier = Annotated[
    float | None,
    _number("--noise-multiplier", "Noise over sensitivity, of gaussian, laplace and discrete-gaussian noise.", ROUND),
]
StepEpsilon = Annotated[
    float | None, _number("--step-epsilon", "ε of one randomized-response, pure-dp or approximate-dp round.", ROUND)
]
StepDelta = Annotated[float | None, _number("--step-delta", "δ of one approximate-dp round.", ROUND)]
Rho = Annotated[float | None, _number("--rho", "ρ of one zcdp round.", ROUND)]

SamplingRate = Annotated[
    float | None,
    _number("--sampling-rate", "Chance that a round takes a record (Poisson sampling); 256/60000 will do.", DATA),
]
BatchSize = Annotated[float | None, _number("--batch-size", "Expected records in a round (Poisson sampling).", DATA)]
DatasetSize = Annotated[float | None, _number("--dataset-size", "Records in all.", DATA)]
Rounds = Annotated[float | None, _number("--rounds", "Rounds, the steps of training.", DATA)]
Epochs = Annotated[
    float | None,
    _number(
        "--epochs",
        "Passes over the data instead of rounds; one takes as many batches as hold all records, rounded up.",
        DATA,
    ),
]

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

Method = Annotated[str | None, _word("--method", METHODS, "Answer by one method only:", ANSWER)]
ConversionMethod = Annotated[str | None, _word("--method", CONVERSION_METHODS, "Answer by one method only:", ANSWER)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.", rich_help_panel=ANSWER)]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        help="Draw the answer: .png, .svg or .pdf.",
        metavar="FILE",
        callback=_picture,
        rich_help_panel=ANSWER,
    ),
]
