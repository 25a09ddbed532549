"""The app: its commands, and how it ends. 0 answered, 1 refused by the library, 2 bad usage, 130 interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

from dprounds.cli.convert import convert
from dprounds.cli.delta import delta
from dprounds.cli.epsilon import epsilon
from dprounds.cli.noise import noise
from dprounds.cli.paper import paper
from dprounds.cli.rate import rate
from dprounds.cli.rounds import rounds
from dprounds.cli.sentences import ASKED_FOR, with_flags, without_python
from dprounds.cli.serve import serve
from dprounds.cli.sweep import sweep
from dprounds.errors import PrivacyError

__all__ = ["app", "main"]

ANSWERED, REFUSED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    name="dprounds",
    help="How many rounds may I train under this privacy budget? Exact answers, never below the truth.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (rounds, epsilon, delta, noise, rate, convert, sweep, paper, serve):
    app.command()(command)


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


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of the command that was typed; whatever goes wrong takes one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal without Greek letters shows their codes
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(given, prog_name="dprounds", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except PrivacyError as error:
        return _refused(*_refusal(error))
    except typer.TyperException as error:
        return _refused(_usage(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _refused("Interrupted.", INTERRUPTED)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _discard_output()
        return ANSWERED
    except OSError as error:  # what the commands read and write they answer for themselves; this is the terminal
        _discard_output()
        return _refused(f"The answer cannot be printed: {error.strerror or error}.", REFUSED)
    return code if isinstance(code, int) else ANSWERED


def _discard_output() -> None:
    """Send what is still to be printed to nowhere, so that the end of Python does not stumble over it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(sentence: str, code: int) -> int:
    if sentence and sys.stderr is not None:  # without arguments there is help, and nothing to add
        print(f"Error: {' '.join(sentence.split())}", file=sys.stderr)
    return code


def _refusal(error: PrivacyError) -> tuple[str, int]:
    """What the library refused, in the words of the command line, and the exit code."""
    from dprounds.errors import InfeasibleError, NumericalError, UnsupportedError
    from dprounds.questions import QuestionError

    if isinstance(error, QuestionError):
        return with_flags(str(error)), BAD_USAGE
    if isinstance(error, (InfeasibleError, NumericalError, UnsupportedError)):
        return without_python(str(error)), REFUSED
    return str(error), REFUSED


def _usage(error: typer.TyperException) -> str:
    """What is wrong with what was typed; a flag for what is asked for is no slip of the finger."""
    flag, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if context is not None and flag in ASKED_FOR.get(context.info_name, ()):
        return f"{flag} has no place here: it is what is asked for."
    return error.format_message()
