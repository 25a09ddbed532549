"""A run of several parts, from a file: TOML in the words of a `Setting`, or an accountant's JSON."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from dprounds.accountant import Accountant
from dprounds.errors import ParameterError
from dprounds.mechanisms import Run
from dprounds.questions.numbers import double
from dprounds.questions.setting import Setting
from dprounds.questions.vocabulary import SETTING

__all__ = ["run_from_file", "run_from_text", "run_from_toml", "text_of"]

# A run that a person wrote takes a few kilobytes; a larger file is something else.
LARGEST_FILE_BYTES = 4 * 1024 * 1024


def text_of(path: Path) -> str:
    """The text of a small file, or a `ParameterError` that names it."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
        if len(content) > LARGEST_FILE_BYTES:
            raise ParameterError(f"{path} is larger than {LARGEST_FILE_BYTES // 1024**2} MiB: it is not such a file.")
        return content.decode()
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise ParameterError(f"{path} cannot be read: it is not a text.") from None


def run_from_file(path: Path) -> Run:
    """The run that a file describes: ``.json`` as `Accountant.to_json` writes it, anything else as TOML."""
    text = text_of(path)
    try:
        if path.suffix == ".json":
            return Accountant.from_json(text).run
        return run_from_toml(text)
    except ParameterError as error:  # of any kind: the file is wrong, not the question
        raise ParameterError(f"{path}: {error}") from None


def run_from_text(text: str) -> Run:
    """The run that a text describes, by what it looks like: an accountant's JSON begins with a brace, and no TOML does.

    Examples
    --------
    >>> run_from_text("[[part]]\\nnoise_multiplier = 20\\nrounds = 685")
    Gaussian(20.0) * 685
    """
    return Accountant.from_json(text).run if text.lstrip().startswith("{") else run_from_toml(text)


def run_from_toml(text: str) -> Run:
    """The run that a TOML text describes, a ``[[part]]`` for each kind of round.

    Examples
    --------
    >>> run_from_toml('''
    ... [[part]]
    ... noise_multiplier = 1.1
    ... batch_size = 256
    ... dataset_size = 60_000
    ... epochs = 60
    ...
    ... [[part]]
    ... mechanism = "laplace"
    ... noise_multiplier = 10.0
    ... rounds = 1
    ... ''')
    PoissonSampled(Gaussian(1.1), sampling_rate=0.004266666666666667) * 14100 + Laplace(10.0) * 1
    """
    try:
        content = tomllib.loads(text, parse_float=double)
    except (ValueError, RecursionError) as error:  # an integer of too many digits is a plain ValueError
        raise ParameterError(f"It is not TOML: {error}.".replace("\n", " ")) from None
    parts = content.pop("part", None)
    if content or not isinstance(parts, list) or not parts:
        unknown = f"; it also holds {', '.join(sorted(content))[:80]}" if content else ""
        raise ParameterError(f"A run must hold its parts, each under a [[part]] line, and nothing else{unknown}.")
    run = Run()
    for number, part in enumerate(parts, start=1):
        try:
            run += _setting(part).run()
        except ParameterError as error:
            raise type(error)(f"part {number}: {error}") from None
    return run


def _setting(part: Any) -> Setting:  # noqa: ANN401  (TOML is a tree of anything)
    if not isinstance(part, dict):
        raise ParameterError("It must be a table, under a [[part]] line.")
    unknown = sorted(set(part) - set(SETTING))
    if unknown:
        raise ParameterError(f"{unknown[0][:60]} is not known. The words are {', '.join(SETTING)}.")
    lists = {name: tuple(value) for name, value in part.items() if isinstance(value, list)}
    return Setting(**{**part, **lists})
