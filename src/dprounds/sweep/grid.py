"""What a sweep asks: a question, the methods that answer it, and the values of each word, from a TOML file."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dprounds import _validate
from dprounds.errors import ParameterError
from dprounds.questions import QuestionError, Setting
from dprounds.questions.files import text_of
from dprounds.questions.numbers import double
from dprounds.questions.vocabulary import (
    FIELDS,
    FROM_OTHERS,
    NOISY_MECHANISMS,
    QUESTIONS,
    SETTING,
    SWEPT_QUESTIONS,
)
from dprounds.sweep.axis import MOST_ROWS, Axis, Cell, Listed, axis_from

__all__ = ["Grid", "Row", "grid_from_file", "grid_from_toml"]

# A value of each word that is in range whatever the others are: only a missing word, or one too many, can then fail.
EXAMPLES: dict[str, Any] = {"orders": (2.0,), "rdps": (1.0,), "sampling": "poisson", "relation": "zero-out"} | {
    name: field.start for name, field in FIELDS.items()
}
GRID_WORDS = (*SETTING, "epsilon", "delta")


@dataclass(frozen=True)
class Row:
    """One question of one setting by one method."""

    method: str
    words: dict[str, Cell]


@dataclass(frozen=True)
class Grid:
    """Every row of a sweep, in order: the first word varies slowest and the method fastest. None is held in memory."""

    question: str
    methods: tuple[str, ...]
    axes: dict[str, Axis]

    def __len__(self) -> int:
        return math.prod(len(axis) for axis in self.axes.values()) * len(self.methods)

    def rows(self, first: int = 0, last: int | None = None) -> Iterator[Row]:
        """The rows from `first` up to and without `last`."""
        end, several = len(self) if last is None else last, len(self.methods)
        for setting in range(first // several, -(-end // several)):
            words = self._words(setting)
            for place, method in enumerate(self.methods, start=setting * several):
                if first <= place < end:
                    yield Row(method, words)

    def _words(self, setting: int) -> dict[str, Cell]:
        words: list[tuple[str, Cell]] = []
        for word, axis in reversed(self.axes.items()):
            setting, place = divmod(setting, len(axis))
            words.append((word, axis[place]))
        return dict(reversed(words))

    @cached_property
    def derived(self) -> tuple[str, ...]:
        """Inputs that follow from the given ones."""
        found = QUESTIONS[self.question].columns
        follows = {"sampling_rate": "batch_size", "rounds": "epochs"}
        return tuple(name for name, given in follows.items() if given in self.axes and name not in {*self.axes, *found})

    @cached_property
    def answered(self) -> tuple[str, ...]:
        """The columns of an answer; a budget's epsilon is an input, so the one that is reached has its own name."""
        asked = QUESTIONS[self.question]
        return tuple(
            f"reached_{name}" if name in asked.needs or (name in self.axes and not asked.has_setting) else name
            for name in asked.columns
            if name == asked.columns[0]
            or not asked.has_setting
            or name not in FROM_OTHERS
            or any(word in self.axes for word in FROM_OTHERS[name])
        )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table."""
        return (*self.axes, *self.derived, "method", *self.answered, "error")

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all that the table depends on: the grid, and the version that answers."""
        axes = [[word, axis.describe()] for word, axis in self.axes.items()]
        content = json.dumps([version("dprounds"), self.question, self.methods, axes])
        return hashlib.sha256(content.encode()).hexdigest()


def grid_from_file(path: Path) -> Grid:
    """The grid that a TOML file describes, or a `ParameterError` that names the file."""
    text = text_of(path)
    try:
        return grid_from_toml(text)
    except ParameterError as error:
        raise ParameterError(f"{path}: {error}") from None


def grid_from_toml(text: str) -> Grid:
    """The grid that a TOML text describes: its question, its methods, and the values of each word under ``[grid]``.

    Examples
    --------
    >>> grid = grid_from_toml('''
    ... question = "epsilon"
    ... methods = ["exact"]
    ... [grid]
    ... noise_multiplier = [0.8, 1.0]
    ... sampling_rate = { from = 0.001, to = 0.1, points = 3, scale = "log" }
    ... rounds = { from = 1_000, to = 3_000, step = 1_000 }
    ... delta = 1e-5
    ... ''')
    >>> len(grid)
    18
    >>> list(grid.rows(3, 4))[0].words
    {'noise_multiplier': 0.8, 'sampling_rate': 0.01, 'rounds': 1000, 'delta': 1e-05}
    """
    try:
        content = tomllib.loads(text, parse_float=double)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        raise ParameterError(f"It is not TOML: {' '.join(str(error).split())[:200]}.") from None
    unknown = sorted(set(content) - {"question", "methods", "grid"})
    if unknown:
        raise ParameterError(f"{unknown[0][:60]} is not known. A sweep has a question, methods and a [grid].")
    if "question" not in content:
        raise ParameterError(f"question is missing: it is one of {', '.join(SWEPT_QUESTIONS)}.")
    question = _validate.choice("question", content["question"], SWEPT_QUESTIONS)
    given = content.get("grid")
    if not isinstance(given, dict) or not given:
        raise ParameterError("The values of each word are missing: they belong under a [grid] line.")
    asked = QUESTIONS[question]
    known = GRID_WORDS if asked.has_setting else (*asked.needs, *asked.takes)
    for word in given:
        if word not in known:
            raise ParameterError(f"{word[:60]} is not known. The words of a grid are {', '.join(known)}.")
    axes = {word: axis_from(word, values) for word, values in given.items()}
    grid = Grid(question, _methods(content.get("methods", list(asked.methods)), asked.methods), axes)
    if len(grid) > MOST_ROWS:
        raise ParameterError(f"The grid has {len(grid):,} rows, more than {MOST_ROWS:,}: split it, or ask for fewer.")
    _check_words(grid)
    return grid


def _methods(given: object, known: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(given, list) or not given:
        raise ParameterError(f"methods must be a list of methods, got {_validate.show(given)}.")
    methods = tuple(_validate.choice("methods", method, known) for method in given)
    if len(set(methods)) < len(methods):
        raise ParameterError("methods must be different from each other.")
    return methods


def _check_words(grid: Grid) -> None:
    """Raise if no row can have an answer because a word is missing, or one too many, rather than say so in each."""
    question = QUESTIONS[grid.question]
    for word in question.needs:
        if word not in grid.axes:
            raise ParameterError(f"{word} is missing: the question {grid.question} needs it.")
    for word in question.answers:
        if word in grid.axes:
            raise ParameterError(f"{word} has no place here: the question is {grid.question}.")
    if not question.has_setting:
        return
    mechanisms = grid.axes.get("mechanism", Listed(("gaussian",)))
    troubles = []
    for index in range(len(mechanisms)):
        try:
            _check_mechanism(grid, str(mechanisms[index]))
        except QuestionError as error:
            troubles.append(str(error))
        else:
            return
    raise ParameterError(troubles[0])


def _check_mechanism(grid: Grid, mechanism: str) -> None:
    """Raise if a word is missing, or one too many."""
    asked = QUESTIONS[grid.question]
    given: dict[str, Any] = {word: EXAMPLES[word] for word in grid.axes if word in SETTING and word != "mechanism"}
    if asked.noisy_only:
        given[asked.answers[0]] = EXAMPLES[asked.answers[0]]
        if mechanism not in NOISY_MECHANISMS:
            raise QuestionError(f"mechanism must be one of {', '.join(NOISY_MECHANISMS)} here, got {mechanism}.")
    setting = Setting(mechanism=mechanism, **given)
    if "rounds" in asked.answers:
        setting.step()
    else:
        setting.run()
