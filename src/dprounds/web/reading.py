"""The words and numbers of a request, strictly read.

Stricter than `json.loads`, because a number that is silently changed may understate a cost: no NaN, nothing that a
double would turn into infinity or zero, no name twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import NoReturn
from urllib.parse import parse_qsl

from dprounds._validate import show
from dprounds.errors import ParameterError
from dprounds.questions.numbers import BeyondDoublesError, double
from dprounds.questions.vocabulary import QUESTIONS, WORDS, Question

__all__ = ["given_in_body", "given_in_query", "json_object", "words_in_query", "words_of"]

# A number as JSON writes it. Most digits: any integer that a double reaches has fewer.
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
MOST_DIGITS = 400


def given_in_body(question: str, body: bytes) -> dict[str, object]:
    """Values by name, from a JSON object.

    Examples
    --------
    >>> given_in_body("convert", b'{"order": 8, "rdp": 0.5, "delta": 1e-5}')
    {'order': 8, 'rdp': 0.5, 'delta': 1e-05}
    """
    given = json_object(body)
    for name in given:
        _known(question, name)
    return given


def json_object(body: bytes) -> dict[str, object]:
    """The values of a JSON object by name, whatever the names are; none is null, or a number that no double holds."""
    try:
        given = json.loads(
            body.decode(),
            object_pairs_hook=_object,
            parse_float=_real,
            parse_int=_whole,
            parse_constant=_no_number,
        )
    except UnicodeDecodeError:
        raise ParameterError("The body must be JSON, in UTF-8.") from None
    except json.JSONDecodeError as error:
        raise ParameterError(f"The body must be JSON: {error.msg} at character {error.pos + 1}.") from None
    except RecursionError:
        raise ParameterError("The body must be a JSON object of numbers and words, got one too deep.") from None
    if not isinstance(given, dict):
        raise ParameterError(f"The body must be a JSON object of numbers and words, got {show(given)}.")
    for name, value in given.items():
        if value is None:
            raise ParameterError(
                "{argument} must have a value, got null.", argument=name, advice="Leave it out instead."
            )
        for item in value if isinstance(value, list) else [value]:
            _held(name, item)
    return given


def given_in_query(question: str, query: bytes) -> dict[str, object]:
    """Values by name, from the part of an address after its question mark; lists are separated by commas.

    Examples
    --------
    >>> given_in_query("rounds", b"noise_multiplier=1.1&rounds=100&mechanism=gaussian")
    {'noise_multiplier': 1.1, 'rounds': 100, 'mechanism': 'gaussian'}
    """
    given: dict[str, object] = {}
    for name, text in _pairs(query):
        _known(question, name)
        if name in given:
            raise ParameterError("{argument} must be given once, got it twice.", argument=name)
        if name not in WORDS or WORDS[name].kind == "choice":
            given[name] = text
        else:
            is_list = WORDS[name].kind == "list"
            numbers = [_held(name, _number(item)) for item in (text.split(",") if is_list else [text])]
            given[name] = numbers if is_list else numbers[0]
    return given


def words_in_query(query: bytes, *, numbers: Collection[str]) -> dict[str, object]:
    """Texts by name, whatever the names are, from the part of an address after its question mark; some are numbers."""
    given: dict[str, object] = {}
    for name, text in _pairs(query):
        if name in given:
            raise ParameterError("Every word must be given once, got one twice.")
        given[name] = _held(name, _number(text)) if name in numbers else text
    return given


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=64)
    except UnicodeError:
        raise ParameterError("The address must hold its words in UTF-8, percent-encoded.") from None
    except ValueError:
        raise ParameterError("The address must hold at most 64 words.") from None


def words_of(question: Question) -> tuple[str, ...]:
    """All words that a question takes here: what the command line reads from the file of a run is a text."""
    return (*question.words, *(["run"] if "run" in question.files and not question.is_curve else []))


def _known(question: str, name: str) -> None:
    words = words_of(QUESTIONS[question])
    if name not in words:
        raise ParameterError(f"{show(name)} is not known here. The words are {', '.join(words)}.")


def _number(text: str) -> object:
    """The number that a text writes; any other text as it is, for the library to judge."""
    if not (match := NUMBER.fullmatch(text)):
        return text
    return _real(text) if match[2] or match[3] else _whole(text)


class _Beyond(str):
    """A number, as it was written, that a double would turn into infinity or zero."""


def _held(name: str, value: object) -> object:
    """`value`, unless it is a number that no double holds."""
    if isinstance(value, _Beyond):
        size = "small" if float(value) == 0.0 else "large"
        raise ParameterError(
            f"{{argument}} must be a number that a double holds, got {{value}}: too {size}.",
            argument=name,
            value=show(str(value)),
        )
    return value


def _real(text: str) -> float | _Beyond:
    """The double nearest to a decimal, or the text where that would be 0 or infinity and the decimal is not."""
    try:
        return double(text)
    except BeyondDoublesError:
        return _Beyond(text)


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ParameterError(f"A number must have at most {MOST_DIGITS} digits, got {len(text)}.")
    return int(text)


def _no_number(text: str) -> NoReturn:
    raise ParameterError(f'A number must be finite, got {text}. Where infinity has a meaning it is the text "inf".')


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ParameterError("Every name must be given once, got one twice.")
    return found
