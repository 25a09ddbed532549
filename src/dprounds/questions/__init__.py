"""The questions people ask, each answered by every method: what the command line, the page and sweeps share."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dprounds.questions.answers import Answer, Answers
    from dprounds.questions.ask import delta, epsilon, noise, rate, rounds, run_of
    from dprounds.questions.conversion import convert
    from dprounds.questions.files import run_from_file, run_from_toml
    from dprounds.questions.plan import plan
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
    "plan",
    "rate",
    "rounds",
    "run_from_file",
    "run_from_toml",
    "run_of",
]

# As in `dprounds` itself: the words for people are here too, and ``dprounds --help`` needs no more than those.
_MODULES = {
    "answers": ("Answer", "Answers"),
    "ask": ("delta", "epsilon", "noise", "rate", "rounds", "run_of"),
    "conversion": ("convert",),
    "files": ("run_from_file", "run_from_toml"),
    "plan": ("plan",),
    "setting": ("MECHANISMS", "QuestionError", "Setting"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'dprounds.questions' has no attribute '{name}'")
    value = getattr(import_module(f"dprounds.questions.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # found at once from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
