"""The commands that ask a question, made of the vocabulary: ``dprounds rounds``, ``epsilon``, ``delta`` and so on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from dprounds.cli.options import flag, number, picture_file
from dprounds.cli.output import opened, show
from dprounds.cli.pictures import picture
from dprounds.questions.vocabulary import ANSWER, DATA, MECHANISMS, WORDS, Question, Word, listed

__all__ = ["command_for", "file_option", "typed_option"]

FILES = {
    "run": "A run of several parts: TOML, or an accountant's JSON.",
    "spent": "What was released before: TOML, or an accountant's JSON.",
}
JSON = typer.Option("--json", help="Print JSON instead of a table.", rich_help_panel=ANSWER)
PLOT = typer.Option(
    "--plot",
    help="Draw the answer: .png, .svg or .pdf.",
    metavar="FILE",
    callback=picture_file,
    rich_help_panel=ANSWER,
)


def command_for(question: Question) -> Callable[..., None]:
    """The command that asks `question`, with a flag for each of its words."""

    def ask(*, json: bool, plot: Path | None, **typed: Any) -> None:  # noqa: ANN401  (what the flags below hold)
        from dprounds import questions

        files = {name: opened(typed.pop(name)) for name in question.files}
        given = {name: typed.pop(name) for name in (*question.needs, *question.takes)}
        setting = questions.Setting(**typed) if question.has_setting else None
        asked = () if setting is None else (setting,)
        found = getattr(questions, question.name)(*asked, **given, **files)
        show(found, json=json, plot=plot, draw=lambda: picture(found, setting, **files))

    parameters = {name: typed_option(question, WORDS[name]) for name in question.flags}
    method = {name: parameters.pop(name) for name in ("method",) if name in parameters}
    parameters |= {name: (Annotated[Path | None, file_option(name)], None) for name in question.files}
    parameters |= {
        **method,
        "json": (Annotated[bool, JSON], False),
        "plot": (Annotated[Path | None, PLOT], None),
    }
    vars(ask)["__signature__"] = Signature(
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in parameters.items()
        ]
    )
    ask.__doc__ = _help(question)
    return ask


def _help(question: Question) -> str:
    """What the command is for, and an example."""
    example = " ".join(f"{flag(name)} {_short(value)}" for name, value in question.example.items())
    note = question.note.format_map({name: flag(name) for name in (*question.words, *question.files)})
    return "\n\n".join(filter(None, [question.title, note, f"Example: dprounds {question.name} {example}"]))


def _short(value: float) -> str:
    """A number as a person types it: 1e-5, not 1e-05."""
    return f"{value:g}".replace("e-0", "e-")


def typed_option(question: Question, word: Word) -> tuple[object, object]:
    """The type of a flag, with all that help says of it, and its default."""
    required = "Required: " if word.name in question.needs else ""
    if word.kind == "choice":
        option = _choice(question, word)
        return (
            (Annotated[str, option], "gaussian") if word.name == "mechanism" else (Annotated[str | None, option], None)
        )
    takers = [each.name for each in MECHANISMS.values() if word.name in each.parameters]
    of = f", of {listed(takers)}" if takers else ""
    option = typer.Option(
        flag(word.name),
        help=f"{required}{word.meaning}{of}.",
        parser=number,
        metavar="NUMBER",
        rich_help_panel=word.panel,
    )
    return Annotated[float | None, option], None


def _choice(question: Question, word: Word) -> Any:  # noqa: ANN401  (Typer keeps the type of its options to itself)
    """An option that takes one of a few words; hints answer those who type certain others."""
    allowed: Sequence[str] = question.methods
    hints: dict[str, str] = {}
    if word.choices:
        allowed = word.choices
    elif word.name == "mechanism":
        allowed = [name for name in question.mechanisms if not MECHANISMS[name].is_made_of_lists]
        only = "Only these have a noise multiplier."
        hints = dict.fromkeys(
            MECHANISMS, only if question.noisy_only else "It is made of lists, which go into a file: --run."
        )

    def parse(text: str) -> str:
        if text not in allowed:
            refusal = f"it must be one of {', '.join(allowed)}, got {text[:60]!r}. {hints.get(text, '')}"
            raise typer.BadParameter(refusal.rstrip())
        return text

    return typer.Option(
        flag(word.name),
        help=f"{word.meaning}: {', '.join(allowed)}.",
        parser=parse,
        metavar="WORD",
        autocompletion=lambda: list(allowed),
        rich_help_panel=word.panel,
    )


def file_option(name: str) -> Any:  # noqa: ANN401  (as above)
    """The option of a file that describes releases."""
    return typer.Option(flag(name), help=FILES[name], metavar="FILE", rich_help_panel=DATA)
