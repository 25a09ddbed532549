"""Doctests in the source, and the Python and command-line examples of README and docs, run as tests."""

import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from io import StringIO

from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser

from dprounds.cli import main

flags = ELLIPSIS | NORMALIZE_WHITESPACE


def console(example: Example) -> str | None:
    """Why a console block does not show what its commands print, or None: each follows a ``$``, its output below it."""
    for command, shown in commands(example.parsed):
        words = shlex.split(command)
        if words[0] != "dprounds":
            return f"A console block shows commands of dprounds, not {words[0]!r}."
        printed = StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            main(words[1:])
        if shown and not OutputChecker().check_output(shown, printed.getvalue(), flags):
            return f"$ {command}\nshown:\n{shown}\nprinted:\n{printed.getvalue()}"
    return None


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block with what it shows to be printed; a backslash continues a line."""
    for part in ("\n" + block.replace("\\\n", " ")).split("\n$ ")[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown.strip() + "\n" if shown.strip() else ""


# A star is one level, and two are no more than one.
source = Sybil(parsers=[DocTestParser(optionflags=flags)], patterns=["src/dprounds/*.py", "src/dprounds/*/*.py"])
prose = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=flags), CodeBlockParser("console", console)],
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
)
pytest_collect_file = (source + prose).pytest()
