"""A question that was typed without a slip is asked at once; whatever else was typed, Typer reads.

Typer and what it brings take a third of the time of an answer, and a plain question needs neither its help nor its
messages. `plain` understands only what cannot be meant otherwise. All that it does not, it leaves to Typer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dprounds.cli.options import flag, read_number
from dprounds.cli.output import opened, show
from dprounds.cli.publishing import DIGITS, FORMATS, certify, publish
from dprounds.questions.numbers import BeyondDoublesError
from dprounds.questions.vocabulary import MECHANISMS, QUESTIONS, WORDS, Question

__all__ = ["allowed_choices", "ask", "default_of", "plain"]

# By which a shell asks for completions, which are Typer's.
COMPLETION = "_DPROUNDS_COMPLETE"
# Counts of more digits are left to Typer.
MOST_DIGITS_OF_A_COUNT = 4
# What reads a text after a flag; it gives None for what is left to Typer.
Reader = Callable[[str], object]


def ask(question: Question, *, json: bool, plot: Path | None, **typed: Any) -> None:  # noqa: ANN401  (what flags hold)
    """Ask `question` with the values of its flags, and show the answer."""
    from dprounds import questions

    files = {name: opened(typed.pop(name)) for name in question.files}
    given = {name: typed.pop(name) for name in (*question.needs, *question.takes)}
    setting = questions.Setting(**typed) if question.has_setting else None
    asked = () if setting is None else (setting,)
    found = getattr(questions, question.name)(*asked, **given, **files)

    def draw() -> Any:  # noqa: ANN401  (a figure of Matplotlib, which need not be installed)
        from dprounds.cli.pictures import picture

        return picture(found, setting, **files)

    show(found, json=json, plot=plot, draw=draw)


def allowed_choices(question: Question, name: str) -> Sequence[str]:
    """What may be typed after the flag of a choice."""
    if WORDS[name].choices:
        return WORDS[name].choices
    if name == "mechanism":
        return [each for each in question.mechanisms if not MECHANISMS[each].is_made_of_lists]
    return question.methods


def default_of(name: str) -> str | None:
    """What a flag holds that was not typed."""
    return "gaussian" if name == "mechanism" else None


def plain(arguments: Sequence[str]) -> Callable[[], None] | None:
    """What asks the question that was typed, or prints its statement or certificate; None if Typer has to read it."""
    if not arguments or COMPLETION in os.environ:
        return None
    name, rest = arguments[0], arguments[1:]
    if name == "statement":
        return _plain_publication(rest, publish, {"form": "text", "certificate": None}, {"--format": _format})
    if name == "certify":
        defaults = {"two_sided": False, "digits": DIGITS, "epsilon": None, "out": None}
        readers = {"--two-sided": None, "--digits": _digits, "--epsilon": _number, "--out": _file}
        return _plain_publication(rest, certify, defaults, readers)
    question = QUESTIONS.get(name)
    if question is None or question.is_curve:
        return None
    typed = _typed(question, (*question.flags, *question.files), rest, {"--json": None})
    if typed is None:
        return None
    json = typed.pop("json", False)
    return lambda: ask(question, json=json, plot=None, **typed)


def _plain_publication(
    arguments: Sequence[str],
    work: Callable[..., None],
    defaults: Mapping[str, object],
    readers: Mapping[str, Reader | None],
) -> Callable[[], None] | None:
    """The same for a command about a run and its δ, which has other flags as well."""
    question = QUESTIONS["epsilon"]  # whose words describe a run and its δ
    names = [*(name for name in question.flags if name != "method"), "run"]
    typed = _typed(question, names, arguments, readers)
    if typed is None:
        return None
    if "format" in typed:
        typed["form"] = typed.pop("format")
    given = {**defaults, **{name: typed.pop(name) for name in ("run", "delta", *defaults) if name in typed}}
    return lambda: work(**given, typed=typed)


def _typed(
    question: Question, names: Sequence[str], arguments: Sequence[str], readers: Mapping[str, Reader | None]
) -> dict[str, Any] | None:
    """What was typed after the flags of these names, and after others by what reads them, if anything; or None."""
    flags = {flag(name): name for name in names}
    typed: dict[str, Any] = {name: default_of(name) for name in names}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if readers.get(word, _number) is None:
            typed[word[2:].replace("-", "_")] = True
            continue
        written, equals, value = word.partition("=")
        reader = readers.get(written)
        if (written not in flags and reader is None) or not (equals or rest):
            return None
        if not equals:
            value = rest.pop(0)
        if not value or value.startswith("-"):
            return None
        found = reader(value) if reader is not None else _value(question, flags[written], value)
        if found is None:
            return None
        typed[flags.get(written, written[2:])] = found
    return typed


def _value(question: Question, name: str, text: str) -> object:
    """What was typed after a flag, or None if Typer has to read it."""
    if name in question.files:
        return _file(text)
    if WORDS[name].kind == "choice":
        return text if text in allowed_choices(question, name) else None
    return None if WORDS[name].kind == "list" else _number(text)


def _number(text: str) -> float | None:
    try:
        return read_number(text)
    except (BeyondDoublesError, ValueError, OverflowError, ZeroDivisionError):
        return None


def _digits(text: str) -> int | None:
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= MOST_DIGITS_OF_A_COUNT else None


def _format(text: str) -> str | None:
    return text if text in FORMATS else None


def _file(text: str) -> Path:
    return Path(text)
