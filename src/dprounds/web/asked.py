"""What may be asked, in which words, and the answers as JSON holds them.

>>> asked = {"noise_multiplier": 20.0, "epsilon": 6.0, "delta": 1e-5, "method": "exact"}
>>> answer("rounds", asked)["answers"][0]["rounds"]
685
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from dprounds import _validate, curves, questions
from dprounds.errors import ParameterError
from dprounds.mechanisms import Run
from dprounds.questions import QuestionError, Setting
from dprounds.questions.rows import assumptions, known_size
from dprounds.questions.wording import delta_advice, delta_remark, plain, rounded

__all__ = ["INFINITE", "LISTS", "QUESTIONS", "WHOLE", "WORDS", "answer"]

SETTING = tuple(field.name for field in fields(Setting))

# The words that each question takes.
QUESTIONS: dict[str, tuple[str, ...]] = {
    "rounds": (*SETTING, "epsilon", "delta", "method"),
    "epsilon": (*SETTING, "delta", "method"),
    "delta": (*SETTING, "epsilon", "method"),
    "noise": (*SETTING, "epsilon", "delta", "method"),
    "rate": (*SETTING, "epsilon", "delta", "method"),
    "convert": ("order", "rdp", "epsilon", "delta", "method"),
    "curve": (*SETTING, "delta", "last", "points", "method"),
    "profile": (*SETTING, "points", "method"),
    "trade-off": (*SETTING, "points"),
}
# What kind of value a word has; all others are real numbers.
WORDS = ("mechanism", "method")
LISTS = ("orders", "rdps")
WHOLE = ("batch_size", "dataset_size", "rounds", "last", "points")
# Those that may be infinite, which JSON can only say as the text "inf".
INFINITE = ("epsilon", "order", "rdp", "orders", "rdps")

# More points than a screen has room for help nobody, and more table entries than this no accountant keeps.
MOST_POINTS = 400
MOST_ENTRIES = 256
# As many as the curves of a page have by default.
POINTS = {"curve": 60, "profile": 81, "trade-off": 61}
# A run too short to share its work with others takes a thirtieth of a second: a curve may ask for so many of them, and
# for none in the first fiftieth of its axis, which is a few pixels wide.
OWN = 6
UNSEEN = 50


def answer(question: str, given: Mapping[str, object]) -> dict[str, Any]:
    """The answer to a question as JSON holds it: what `Answers.to_dict` gives, and the like for curves.

    Parameters
    ----------
    question
        A word of `QUESTIONS`.
    given
        Values by the words that it takes, as JSON has them; ``"inf"`` is infinity where that has a meaning.
    """
    values = {name: _value(name, value) for name, value in given.items()}
    return ANSWERS[question](values)


def _value(name: str, value: object) -> object:
    """A value of JSON as Python has it."""
    if name in INFINITE and value == "inf":
        return math.inf
    if name in LISTS:
        if not isinstance(value, list) or len(value) > MOST_ENTRIES:
            got = f"{len(value)} of them" if isinstance(value, list) else _validate.show(value)
            raise ParameterError(f"{name} must be a list of at most {MOST_ENTRIES} numbers, got {got}.")
        return tuple(math.inf if item == "inf" else item for item in value)
    return value


def _setting(values: dict[str, Any]) -> Setting:
    """The setting among the values, which are taken out."""
    return Setting(**{name: values.pop(name) for name in SETTING if name in values})


def _planned(question: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A question about a setting."""

    def ask(values: dict[str, Any]) -> dict[str, Any]:
        setting = _setting(values)
        missing = {name: None for name in ("epsilon", "delta") if name in QUESTIONS[question]}
        found: questions.Answers = getattr(questions, question)(setting, **(missing | values))
        return found.to_dict()

    return ask


def _converted(values: dict[str, Any]) -> dict[str, Any]:
    return questions.convert(**({"order": None} | values)).to_dict()


def _curve(values: dict[str, Any]) -> dict[str, Any]:
    """Epsilon over rounds up to `last`, or else to the rounds that the setting means."""
    setting = _setting(values)
    delta = values.get("delta")
    if delta is None:
        raise QuestionError(f"delta is missing: {delta_advice(known_size(setting.dataset_size))}.")
    last = values.get("last")
    if last is None:
        last = max(setting.total_rounds(), 1)
    last = _validate.count("last", last, least=1)
    shortest = max(-(-last // UNSEEN), 1)  # in integers, for no double may hold the rounds
    drawn = _drawn("curve", values)
    curve = curves.epsilon_over_rounds(setting.step(), delta=delta, last=last, own=OWN, shortest=shortest, **drawn)
    inputs = {**setting.given(), "delta": delta, "last": last}
    sentence = f"ε over 1 to {plain(int(curve.rounds[-1]))} rounds at δ = {curve.delta:g}, by {_listed(curve.epsilon)}."
    return _rows("curve", inputs, curve.to_rows(), sentence, setting.step() * 1)


def _profile(values: dict[str, Any]) -> dict[str, Any]:
    setting = _setting(values)
    run = setting.run()
    curve = curves.privacy_profile(run, **_drawn("profile", values))
    sentence = f"δ over ε of {plain(run.rounds)} round{'' if run.rounds == 1 else 's'}, by {_listed(curve.delta)}."
    return _rows("profile", {**setting.given(), "rounds": run.rounds}, curve.to_rows(), sentence, run)


def _trade_off(values: dict[str, Any]) -> dict[str, Any]:
    setting = _setting(values)
    run = setting.run()
    curve = curves.trade_off_curve(run, **_drawn("trade-off", values))
    found = curve.true_positive_rate_at_one_percent
    # to the side on which the statement stays true, as every number here
    share = rounded(min(100.0 * found, 100.0), up=True, digits=3)
    sentence = f"An attacker with 1 % false alarms finds at most {share} % of members."
    answers = _rows("trade-off", {**setting.given(), "rounds": run.rounds}, curve.to_rows(), sentence, run)
    return answers | {"advantage": curve.advantage, "true_positive_rate_at_one_percent": found}


def _drawn(question: str, values: dict[str, Any]) -> dict[str, Any]:
    """How a curve is to be drawn: its points, and its methods if not all."""
    points = _validate.count("points", values.get("points", POINTS[question]), least=3)
    if points > MOST_POINTS:
        raise ParameterError(f"points must be an integer in [3, {MOST_POINTS}], got {_validate.show(points)}.")
    return {"points": points} | ({"methods": [values["method"]]} if "method" in values else {})


def _rows(question: str, inputs: dict[str, Any], rows: list[Any], sentence: str, run: Run) -> dict[str, Any]:
    """The one shape that all answers have."""
    remark = delta_remark(inputs["delta"], known_size(inputs.get("dataset_size"))) if "delta" in inputs else None
    return {
        "question": question,
        "inputs": {name: _finite(value) for name, value in inputs.items()},
        "answers": rows,
        "sentence": sentence,
        "relation": run.relation,
        "sampling": run.sampling,
        "holds_for": assumptions(run),
        "remarks": [] if remark is None else [remark],
    }


def _finite(value: object) -> object:
    if isinstance(value, tuple):
        return [_finite(item) for item in value]
    return "inf" if value == math.inf else value


def _listed(methods: Mapping[str, object]) -> str:
    return ", ".join(methods) or "no method"


ANSWERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    **{question: _planned(question) for question in ("rounds", "epsilon", "delta", "noise", "rate")},
    "convert": _converted,
    "curve": _curve,
    "profile": _profile,
    "trade-off": _trade_off,
}
