"""What may be asked, in which words, and the answers as JSON holds them.

>>> asked = {"noise_multiplier": 20.0, "epsilon": 6.0, "delta": 1e-5, "method": "exact"}
>>> answer("rounds", asked)["answers"][0]["rounds"]
685
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dprounds import _validate, curves, questions
from dprounds.errors import ParameterError
from dprounds.mechanisms import Run
from dprounds.planning.frontier_rows import POSITIVE, Planner
from dprounds.questions import Setting
from dprounds.questions.answers import Answer, as_json
from dprounds.questions.files import run_from_text
from dprounds.questions.rows import assumptions, known_size, needed, needed_delta
from dprounds.questions.vocabulary import QUESTIONS, SETTING, WORDS, Question
from dprounds.questions.wording import delta_remark, plain, rounded

__all__ = ["MOST_ENTRIES", "PRICED", "PRICE_OF_A_JOB", "ROUNDS_OF_A_JOB", "RUN", "answer", "value_of"]

# All releases of a run in place of a setting, as a text. The command line takes a file with the same text.
RUN = "run"
# What a ledger asks: no question's names, since they have no address of their own.
PRICED = PRICE_OF_A_JOB, ROUNDS_OF_A_JOB = "price of a job", "rounds of a job"
# More entries of a table than this no accountant keeps.
MOST_ENTRIES = 256
# Points of the curves of a page.
DEFAULT_POINTS = {"curve": 60, "profile": 81, "trade-off": 61, "plan-curve": 6}
# Points of a plan take a search for noise each.
MOST_PLAN_POINTS = 16
# A run too short to share its work with others takes a thirtieth of a second. A curve asks for at most this many of
# them, and for none in the first of this many parts of its axis, which is a few pixels wide.
MOST_OWN_RUNS = 6
AXIS_PARTS = 50


def answer(question: str, given: Mapping[str, object], known: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The answer to a question as JSON holds it: what `Answers.to_dict` gives, and the like for curves.

    Parameters
    ----------
    question
        A word of `QUESTIONS`.
    given
        Values by the words that it takes, as JSON has them; ``"inf"`` is infinity where that has a meaning.
    known
        Rows that are known: what the same question was answered when it was asked by one method.
    """
    values = {name: _run(value) if name == RUN else value_of(name, value) for name, value in given.items()}
    rows = [Answer.from_dict(row) for row in known]
    return ANSWERS[question](values | ({"known": {row.method: row.values for row in rows}} if rows else {}))


def _run(value: object) -> Run:
    """The run that a text describes."""
    if not isinstance(value, str):
        raise ParameterError(
            "{argument} must be a text, as a file of a run holds it, got {value}.",
            argument=RUN,
            value=_validate.show(value),
        )
    return run_from_text(value)


def value_of(name: str, value: object) -> object:
    """A value of JSON as Python has it."""
    if WORDS[name].may_be_infinite and value == "inf":
        return math.inf
    if WORDS[name].kind == "list":
        if not isinstance(value, list) or len(value) > MOST_ENTRIES:
            got = f"{len(value)} of them" if isinstance(value, list) else _validate.show(value)
            raise ParameterError(
                f"{{argument}} must be a list of at most {MOST_ENTRIES} numbers, got {{value}}.",
                argument=name,
                value=got,
            )
        return tuple(math.inf if item == "inf" else item for item in value)
    return value


def _setting(values: dict[str, Any]) -> Setting:
    """The setting among the values, which are taken out."""
    return Setting(**{name: values.pop(name) for name in SETTING if name in values})


def _asked(question: Question) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A question that has a row for each method."""

    def ask(values: dict[str, Any]) -> dict[str, Any]:
        setting = [_setting(values)] if question.has_setting else []
        found: questions.Answers = getattr(questions, question.name)(
            *setting, **(dict.fromkeys(question.needs) | values)
        )
        return found.to_dict()

    return ask


def _curve(values: dict[str, Any]) -> dict[str, Any]:
    """Epsilon over rounds up to `last`, or else to the rounds that the setting means."""
    setting = _setting(values)
    delta = needed_delta(values.get("delta"), setting.dataset_size)
    last = values.get("last")
    if last is None:
        last = max(setting.total_rounds(), 1)
    last = _validate.count("last", last, least=1)
    # a step is an epoch where every record joins one round of it; in integers: the rounds may be beyond the doubles
    steps = -(-last // setting.rounds_of_step)
    shortest = max(-(-steps // AXIS_PARTS), 1)
    drawn = _drawn("curve", values)
    curve = curves.epsilon_over_rounds(
        setting.step(), delta=delta, last=steps, own=MOST_OWN_RUNS, shortest=shortest, **drawn
    ).counted_in_rounds(setting.rounds_of_step)
    inputs = {**setting.given(), "delta": delta, "last": last}
    sentence = f"ε over 1 to {plain(int(curve.rounds[-1]))} rounds at δ = {curve.delta:g}, by {_listed(curve.epsilon)}."
    return _rows("curve", inputs, curve.to_rows(), sentence, setting.step() * 1)


def _profile(values: dict[str, Any]) -> dict[str, Any]:
    setting = _setting(values)
    run, rounds = setting.run(), setting.total_rounds()
    curve = curves.privacy_profile(run, **_drawn("profile", values))
    sentence = f"δ over ε of {plain(rounds)} round{'' if rounds == 1 else 's'}, by {_listed(curve.delta)}."
    return _rows("profile", {**setting.given(), "rounds": rounds}, curve.to_rows(), sentence, run)


def _trade_off(values: dict[str, Any]) -> dict[str, Any]:
    setting = _setting(values)
    run = setting.run()
    curve = curves.trade_off_curve(run, **_drawn("trade-off", values))
    found = curve.true_positive_rate_at_one_percent
    # to the side on which the statement stays true, as every number here
    share = rounded(min(100.0 * found, 100.0), up=True, digits=3)
    sentence = f"An attacker with 1 % false alarms finds at most {share} % of members."
    inputs = {**setting.given(), "rounds": setting.total_rounds()}
    answers = _rows("trade-off", inputs, curve.to_rows(), sentence, run)
    return answers | {"advantage": curve.advantage, "true_positive_rate_at_one_percent": found}


def _statement(values: dict[str, Any]) -> dict[str, Any]:
    """What may be published, in each of its forms."""
    setting = _setting(values)
    run, delta = setting.run(), needed_delta(values.get("delta"), setting.dataset_size)
    found = run.statement(delta=delta, method=values.get("method"))
    inputs = {**setting.given(), "rounds": run.rounds, "delta": delta}
    forms = {"text": str(found), "markdown": found.markdown(), "latex": found.latex(), "json": found.json()}
    return _rows("statement", inputs, [], found.clauses["Guarantee"], run) | forms


def _plan_curve(values: dict[str, Any]) -> dict[str, Any]:
    """The excess over epochs for the batch sizes that are asked about, and some others."""
    given = {name: needed(name, values.get(name), POSITIVE) for name in ("dataset_size", "epsilon", "epochs")}
    delta = needed_delta(values.get("delta"), values.get("dataset_size"))
    planner = Planner.of(
        _validate.count("dataset_size", given["dataset_size"], least=1),
        given["epsilon"],
        delta,
        values.get("sampling", "poisson"),
    )
    chosen = [planner.size(name, values[name]) for name in ("batch_size", "habit") if name in values]
    curve = curves.excess_over_epochs(
        planner.dataset_size,
        epsilon=planner.epsilon,
        delta=delta,
        batch_sizes=curves.compared_sizes(planner.sizes(None), chosen),
        epochs=given["epochs"],
        sampling=planner.loader.name,
        points=min(_drawn("plan-curve", values)["points"], MOST_PLAN_POINTS),
    )
    sentence = f"Noise above the floor over epochs, for batches of {', '.join(f'{size:,}' for size in curve.epochs)}."
    whole = planner.loader.run(planner.floor_noise_multiplier, planner.dataset_size, planner.dataset_size, 1)
    return _rows("plan-curve", {**given, "delta": delta, **values}, curve.to_rows(), sentence, whole)


def _drawn(question: str, values: dict[str, Any]) -> dict[str, Any]:
    """How a curve is to be drawn: its points, and its methods if not all."""
    given, limits = values.get("points", DEFAULT_POINTS[question]), WORDS["points"].interval
    points = _validate.count("points", given, least=int(limits.low), most=limits.high)
    return {"points": points} | ({"methods": [values["method"]]} if "method" in values else {})


def _rows(question: str, inputs: dict[str, Any], rows: list[Any], sentence: str, run: Run) -> dict[str, Any]:
    """The one shape that all answers have."""
    remark = delta_remark(inputs["delta"], known_size(inputs.get("dataset_size"))) if "delta" in inputs else None
    return {
        "question": question,
        "inputs": {name: as_json(value) for name, value in inputs.items()},
        "answers": rows,
        "sentence": sentence,
        "relation": run.relation,
        "sampling": run.sampling,
        "holds_for": assumptions(run),
        "remarks": [] if remark is None else [remark],
    }


def _listed(methods: Mapping[str, object]) -> str:
    return ", ".join(methods) or "no method"


ANSWERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    **{name: _asked(question) for name, question in QUESTIONS.items() if not question.is_curve},
    "curve": _curve,
    "profile": _profile,
    "trade-off": _trade_off,
    "statement": _statement,
    "plan-curve": _plan_curve,
}
