"""The app: its commands and their help, and what is wrong with what was typed."""

from __future__ import annotations

from shutil import get_terminal_size
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from dprounds.cli import ledger
from dprounds.cli.certificates import certify, statement, verify
from dprounds.cli.options import SLIPS, flag
from dprounds.cli.paper import paper
from dprounds.cli.question import command_for
from dprounds.cli.serve import serve
from dprounds.cli.sweep import sweep
from dprounds.questions.vocabulary import METHODS, QUESTIONS, WORDS, Question
from dprounds.questions.wording import ASSUMPTIONS, CONVERSION_ASSUMPTIONS, PLAN_ASSUMPTIONS

__all__ = ["app", "usage"]

# The longest flag, the word after it and its meaning have room side by side from here on.
FRAMED_COLUMNS = 64


class _WithoutTypesOfSwitches:
    """Help that shows a switch by its name alone, not as ``--json <bool>``."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401  (Typer keeps the types of its contexts to itself)
        """The options of a command; Typer asks for them to describe them."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the class that is mixed with
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class _Group(_WithoutTypesOfSwitches, TyperGroup):
    pass


class _Command(_WithoutTypesOfSwitches, TyperCommand):
    pass


def _about(question: Question) -> str:
    """What an answer assumes, and what the methods are: both decide what a guarantee is worth."""
    assumed = ASSUMPTIONS if question.has_setting else PLAN_ASSUMPTIONS if question.is_plan else CONVERSION_ASSUMPTIONS
    if "method" not in question.takes:
        return assumed
    return "\n\n".join([assumed, "Methods:", *(f"{method}: {METHODS[method]}." for method in question.methods)])


app = typer.Typer(
    name="dprounds",
    cls=_Group,
    # in a narrow terminal frames and columns would cut the names of flags
    rich_markup_mode="rich" if get_terminal_size().columns >= FRAMED_COLUMNS else None,
    help="How many rounds may I train under this privacy budget? Exact answers, never below the truth.",
    epilog=ASSUMPTIONS,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for question in QUESTIONS.values():
    if not question.is_curve:
        app.command(question.name, cls=_Command, epilog=_about(question))(command_for(question))
app.command(cls=_Command, epilog=ASSUMPTIONS)(sweep)
app.command(cls=_Command, epilog=ASSUMPTIONS)(certify)
app.command(cls=_Command, epilog=ASSUMPTIONS)(statement)
for command in (verify, paper, serve):
    app.command(cls=_Command)(command)
ledger_app = typer.Typer(cls=_Group, help=ledger.HELP, no_args_is_help=True)
for name, command in ledger.COMMANDS.items():
    ledger_app.command(name, cls=_Command, epilog=ASSUMPTIONS if name in ("cost", "reserve") else None)(command)
token_app = typer.Typer(cls=_Group, help=ledger.TOKEN_HELP, no_args_is_help=True)
for name, command in ledger.TOKEN_COMMANDS.items():
    token_app.command(name, cls=_Command)(command)
ledger_app.add_typer(token_app, name="token")
app.add_typer(ledger_app, name="ledger")


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"dprounds {version('dprounds')}")
        raise typer.Exit


@app.callback()
def _top(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Hold the options that are no question's."""


def usage(error: typer.TyperException) -> str:
    """What is wrong with what was typed; a flag for what is asked for is no slip of the finger."""
    typed, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if not hasattr(error, "possibilities") or not isinstance(typed, str) or context is None:
        return error.format_message()  # it is not about a flag that is unknown
    meant = SLIPS.get(typed.lstrip("-").lower().replace("_", "-"), typed)
    asked = QUESTIONS.get(context.info_name)
    chosen = {} if asked is None else {**dict.fromkeys(asked.answers, ""), **asked.chooses}
    for name, instead in chosen.items():
        if meant == flag(name):
            told = instead.format_map({word: flag(word) for word in WORDS})
            return f"{typed} has no place here: it is what is asked for. {told}".rstrip()
    if meant in {name for option in context.command.params for name in option.opts}:
        return f"No such option: {typed}. Type {meant} instead."
    return error.format_message()
