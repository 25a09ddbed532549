"""What was typed: flags, numbers, and files for pictures.

Numbers are judged by the library: click's own ranges let NaN through.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from dprounds.questions.numbers import BeyondDoublesError, double
from dprounds.questions.vocabulary import ALIASES

__all__ = [
    "NO_PICTURES",
    "PICTURES",
    "SLIPS",
    "check_matplotlib",
    "flag",
    "has_matplotlib",
    "number",
    "picture_file",
    "read_number",
]

PICTURES = (".png", ".svg", ".pdf")
# A longer number than this is no count of anything, and Python takes its time to read it.
MOST_DIGITS = 400


def read_number(text: str) -> float:
    """The number that was typed: ``14062``, ``1e6``, ``1e-5`` or ``256/60000``; raises where it is none."""
    above, slash, below = text.partition("/")
    over = _plain(above)
    value = over / _plain(below) if slash else over
    if slash and over and not value:
        raise BeyondDoublesError(text, "small")
    return value


def number(text: str) -> float:
    """The number that was typed, or what Typer says of one that is none."""
    import typer

    try:
        return read_number(text)
    except BeyondDoublesError as error:
        raise typer.BadParameter(f"{text[:60]!r} is too {error.size} for a double.") from None
    except (ValueError, OverflowError, ZeroDivisionError):
        raise typer.BadParameter(f"{text[:60]!r} is not a number.") from None


def _plain(text: str) -> float:
    """An integer as such, so that no digit is lost; else a double."""
    digits = text.strip().lstrip("+-")
    return int(text) if digits.isdecimal() and len(digits) <= MOST_DIGITS else double(text)


# Arguments that are typed as words without a flag, as the help of their commands names them.
WITHOUT_FLAG = {"name": "NAME"}


def flag(name: str) -> str:
    """The flag of an argument, or its name in the help if it has none."""
    return WITHOUT_FLAG.get(name) or f"--{name.replace('_', '-')}"


# The flag that is meant by what people call the same thing elsewhere.
SLIPS = {alias: flag(name) for name, aliases in ALIASES.items() for alias in aliases.split()}
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


def picture_file(path: Path | None) -> Path | None:
    """A file that a picture can be drawn to."""
    import typer

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
