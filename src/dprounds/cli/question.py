"""The commands that ask a question, made of the vocabulary: ``dprounds rounds``, ``epsilon``, ``delta`` and so on."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from dprounds.cli.asked import allowed_choices, ask, default_of
from dprounds.cli.options import flag, number, picture_file
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

    def asked(**typed: Any) -> None:  # noqa: ANN401  (what the flags below hold)
        ask(question, **typed)

    parameters = {name: typed_option(question, WORDS[name]) for name in question.flags}
    method = {name: parameters.pop(name) for name in ("method",) if name in parameters}
    parameters |= {name: (Annotated[Path | None, file_option(name)], None) for name in question.files}
    parameters |= {
        **method,
        "json": (Annotated[bool, JSON], False),
        "plot": (Annotated[Path | None, PLOT], None),
    }
    vars(asked)["__signature__"] = Signature(
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in parameters.items()
        ]
    )
    asked.__doc__ = _help(question)
    return asked


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
        default = default_of(word.name)
        return Annotated[str if default else str | None, option], default
    takers = [each.name for each in MECHANISMS.values() if word.name in each.parameters]
    of = f", of {listed(takers)}" if takers else ""
    option = typer.Option(
        flag(word.name),
        help=f"{required}{question.meaning(word)}{of}.",
        parser=number,
        metavar="NUMBER",
        rich_help_panel=word.panel,
    )
    return Annotated[float | None, option], None


def _choice(question: Question, word: Word) -> Any:  # noqa: ANN401  (Typer keeps the type of its options to itself)
    """An option that takes one of a few words; hints answer those who type certain others."""
    allowed = allowed_choices(question, word.name)
    hints: dict[str, str] = {}
    if word.name == "mechanism":
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
