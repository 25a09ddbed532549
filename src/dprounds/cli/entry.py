"""How the command line begins and ends. 0 answered, 1 refused by the library, 2 bad usage, 130 interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping, Sequence
from io import TextIOWrapper

from dprounds.cli.asked import plain
from dprounds.cli.options import flag
from dprounds.cli.output import FileError
from dprounds.errors import PrivacyError
from dprounds.questions.vocabulary import QUESTIONS

__all__ = ["compute_alone", "main"]

ANSWERED, REFUSED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130
# What NumPy's libraries read when they are loaded.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Commands each of whose flags has one value.
WITH_FLAGS_ONCE = {*QUESTIONS, "certify", "statement"}
# Of a longer sentence, as one that repeats a file name of many thousand letters, the middle is left out.
MOST_LETTERS = 800


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of the command that was typed; whatever goes wrong takes one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "numpy" not in sys.modules:
        compute_alone(os.environ)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal without Greek letters shows their codes
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(given)
        if sys.stdout is not None:
            sys.stdout.flush()
    except PrivacyError as error:
        sentence = str(error) if isinstance(error, FileError) else error.worded(flag)
        return _refused(sentence, BAD_USAGE if _is_bad_usage(error) else REFUSED)
    except KeyboardInterrupt:
        return _refused("Interrupted.", INTERRUPTED)
    except (BrokenPipeError, SystemExit) as end:  # the reader, such as `head`, has seen enough
        if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):  # as Typer and Rich say it
            raise
        _discard_output()
        return ANSWERED
    except OSError as error:  # what the commands read and write they answer for themselves; this is the terminal
        _discard_output()
        return _refused(f"The answer cannot be printed: {error.strerror or error}.", REFUSED)
    return code


def compute_alone(environment: MutableMapping[str, str]) -> None:
    """Ask for one thread, unless the number was chosen: threads of matrices this small wait for each other, busily."""
    if not any(name in environment for name in THREADS):
        environment.update(dict.fromkeys(THREADS, "1"))


def _run(given: list[str]) -> int:
    """The exit code of the question that was typed, at once if it is plain, and otherwise by Typer."""
    repeated = _repeated_flag(given)
    if repeated is not None:
        return _refused(f"{repeated} is given twice: leave one of them out.", BAD_USAGE)
    asked = plain(given)
    if asked is not None:
        asked()
        return ANSWERED
    import typer

    from dprounds.cli.app import app, usage

    try:
        code = app(given, prog_name="dprounds", standalone_mode=False)
    except typer.TyperException as error:
        return _refused(usage(error), error.exit_code)
    except typer.Abort:
        return _refused("Interrupted.", INTERRUPTED)
    return code if isinstance(code, int) else ANSWERED


def _repeated_flag(given: Sequence[str]) -> str | None:
    """A flag that was typed twice, of which only the last value would count."""
    seen: set[str] = set()
    for word in given[1:] if given and given[0] in WITH_FLAGS_ONCE else ():
        written = word.partition("=")[0]
        if written in seen:
            return written
        if written.startswith("--") and written != "--":
            seen.add(written)
    return None


def _discard_output() -> None:
    """Send what is still to be printed to nowhere, so that the end of Python does not stumble over it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(sentence: str, code: int) -> int:
    if sentence and sys.stderr is not None:  # without arguments there is help, and nothing to add
        words = " ".join(sentence.split())
        if len(words) > MOST_LETTERS:
            words = f"{words[: MOST_LETTERS // 2]} … {words[-MOST_LETTERS // 2 :]}"
        print(f"Error: {words}", file=sys.stderr)
    return code


def _is_bad_usage(error: PrivacyError) -> bool:
    """Whether a question lacks something or contradicts itself, though each value may be in range."""
    from dprounds.questions import QuestionError

    return isinstance(error, QuestionError)
