"""The questions people ask, each answered by every method: what the command line, the page and sweeps share."""

from dprounds.questions.answers import Answer, Answers
from dprounds.questions.ask import delta, epsilon, noise, rate, rounds
from dprounds.questions.conversion import convert
from dprounds.questions.files import run_from_file, run_from_toml
from dprounds.questions.setting import MECHANISMS, QuestionError, Setting

__all__ = [
    "MECHANISMS",
    "Answer",
    "Answers",
    "QuestionError",
    "Setting",
    "convert",
    "delta",
    "epsilon",
    "noise",
    "rate",
    "rounds",
    "run_from_file",
    "run_from_toml",
]
