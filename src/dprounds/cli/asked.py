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
from dprounds.cli.publishing import FORMATS, publish
from dprounds.questions.numbers import BeyondDoublesError
from dprounds.questions.vocabulary import MECHANISMS, QUESTIONS, WORDS, Question

__all__ = ["allowed_choices", "ask", "default_of", "plain"]

# By which a shell asks for completions, which are Typer's.
COMPLETION = "_DPROUNDS_COMPLETE"


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
    """What asks the question that was typed, or prints its statement; None if Typer has to read it."""
    if not arguments or COMPLETION in os.environ:
        return None
    if arguments[0] == "statement":
        return _plain_statement(arguments[1:])
    question = QUESTIONS.get(arguments[0])
    if question is None or question.is_curve:
        return None
    typed = _typed(question, (*question.flags, *question.files), arguments[1:], {"--json": ()})
    if typed is None:
        return None
    json = typed.pop("json", None) is not None
    return lambda: ask(question, json=json, plot=None, **typed)


def _plain_statement(arguments: Sequence[str]) -> Callable[[], None] | None:
    """The same for ``dprounds statement``, without a certificate."""
    question = QUESTIONS["epsilon"]  # whose words describe a run and its δ
    names = [*(name for name in question.flags if name != "method"), "run"]
    typed = _typed(question, names, arguments, {"--format": FORMATS})
    if typed is None:
        return None
    form, run, delta = typed.pop("format", "text"), typed.pop("run"), typed.pop("delta")
    return lambda: publish(run=run, delta=delta, certificate=None, form=form, typed=typed)


def _typed(
    question: Question, names: Sequence[str], arguments: Sequence[str], words: Mapping[str, Sequence[str]]
) -> dict[str, Any] | None:
    """What was typed after the flags of these names, and after others that take a word or none; None for Typer."""
    flags = {flag(name): name for name in names}
    typed: dict[str, Any] = {name: default_of(name) for name in names}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in words and not words[word]:
            typed[word[2:]] = word
            continue
        written, equals, value = word.partition("=")
        if (written not in flags and not words.get(written)) or not (equals or rest):
            return None
        if not equals:
            value = rest.pop(0)
        if written in flags:
            found = _value(question, flags[written], value)
        else:
            found = value if value in words[written] else None
        if found is None:
            return None
        typed[flags.get(written, written[2:])] = found
    return typed


def _value(question: Question, name: str, text: str) -> float | str | Path | None:
    """What was typed after a flag, or None if Typer has to read it."""
    if not text or text.startswith("-"):
        return None
    if name in question.files:
        return Path(text)
    if WORDS[name].kind == "choice":
        return text if text in allowed_choices(question, name) else None
    if WORDS[name].kind == "list":
        return None
    try:
        return read_number(text)
    except (BeyondDoublesError, ValueError, OverflowError, ZeroDivisionError):
        return None
