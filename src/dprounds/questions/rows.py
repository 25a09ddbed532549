"""What the questions share: a row for each method, and the ends of sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import cast

from dprounds import _validate
from dprounds.errors import InfeasibleError, NumericalError, UnsupportedError
from dprounds.guarantee import is_exact
from dprounds.mechanisms import Release, Run
from dprounds.questions.answers import Answer, Answers, tightest
from dprounds.questions.setting import QuestionError
from dprounds.questions.wording import DELTA, Quantity, delta_advice, delta_remark, holds_for, plain, rounded

__all__ = [
    "NOTHING_KNOWN",
    "Known",
    "Values",
    "answers_of",
    "assumptions",
    "by_bound",
    "chosen",
    "compared_with_balle",
    "counted",
    "known_size",
    "needed",
    "needed_delta",
    "rows_by",
]

Values = dict[str, float | int | None]
# What methods have answered to the same question before.
Known = Mapping[str, Values]
NOTHING_KNOWN: Known = MappingProxyType({})

NO_EXACT = "No exact accounting: a part of the run bounds real Rényi orders only."
# No data set has as many records as this.
MOST_RECORDS = 1e18


def needed(name: str, value: float | None, interval: _validate.Interval, *, advice: str = "") -> float:
    """`value`, if it is there and inside."""
    if value is None:
        raise QuestionError(
            f"{{argument}} is missing: {advice or 'it must be in {interval}'}.", argument=name, interval=interval.text
        )
    return _validate.real(name, value, interval)


def needed_delta(value: float | None, dataset_size: object = None) -> float:
    """A δ, if it is there and inside; the refusal of a missing one says which to choose."""
    return needed("delta", value, _validate.FAILURE_MASS, advice=delta_advice(known_size(dataset_size)))


def chosen(method: str | None, allowed: Iterable[str]) -> tuple[str, ...]:
    """The one method that was named, or all."""
    return tuple(allowed) if method is None else (_validate.choice("method", method, tuple(allowed)),)


def rows_by(
    methods: Sequence[str],
    ask: Callable[[str], Values],
    quantity: Quantity,
    *,
    of: Run | None = None,
    known: Known = NOTHING_KNOWN,
) -> tuple[Answer, ...]:
    """A row for each method; raises the tightest method's error if none has an answer.

    Of a run that bounds real Rényi orders only, the exact method is not asked.
    """
    found: dict[str, Values] = {}
    errors: dict[str, UnsupportedError | NumericalError | InfeasibleError] = {}
    for method in methods:
        try:
            if method == "exact" and of is not None and not of.has_moment_function:
                raise UnsupportedError(NO_EXACT)
            found[method] = dict(known[method]) if method in known else ask(method)
        except InfeasibleError as error:
            errors[method] = error
        except (UnsupportedError, NumericalError) as error:
            reason = str(error).removesuffix(" Use method='optimal'.")  # which is Python's way to say it
            advice = "Use {method} optimal." if method == "exact" else ""
            errors[method] = type(error)("{reason}", reason=reason, advice=advice)
    if not found:  # "it cannot be done" says more than "this method has no answer"
        infeasible = [error for error in errors.values() if isinstance(error, InfeasibleError)]
        raise infeasible[-1] if infeasible else errors[methods[-1]]
    for method, values in found.items():
        for base in ("moments", "balle"):
            if base in found and base != method:
                values[f"change_from_{base}"] = _change(values[quantity.name], found[base][quantity.name])
    return tuple(
        Answer(method=method, values=found[method])
        if method in found
        else Answer(method=method, error=str(errors[method].fields.get("reason", errors[method])))
        for method in methods
    )


def _change(ours: float | int | None, theirs: float | int | None) -> float | int | None:
    """The difference, None where one is infinite or missing."""
    if ours is None or theirs is None or math.isinf(ours) or math.isinf(theirs):
        return None
    return ours - theirs


def by_bound(best: Answer) -> str:
    """Which bound the answer is, where it is not exact."""
    if best.method != "exact":
        return f" by the {best.method} bound"
    value, lower = best.values.get("epsilon"), best.values.get("lower")
    if value is None or lower is None or is_exact(lower, value):
        return ""
    return f" (a proven bound; the truth is at least {rounded(lower, up=False)})"


def compared_with_balle(rows: Sequence[Answer], best: Answer, quantity: Quantity, clause: str) -> str:
    """The end of a sentence: what Balle's bound, by which Rényi accountants convert, says instead, if it differs."""
    theirs = next((row.values.get(quantity.name) for row in rows if row.method == "balle" and row is not best), None)
    if theirs is None or quantity.text(theirs) == quantity.text(best.values[quantity.name] or 0):
        return "."
    return f"; {clause.format(quantity.text(theirs))}."


def counted(number: int, noun: str) -> str:
    """A number and what it counts: 1 round, 2 rounds."""
    plural = "es" if noun.endswith("ch") else "s"
    return f"{plain(number)} {noun}{'' if number == 1 else plural}"


def answers_of(
    question: str,
    inputs: dict[str, object],
    quantity: Quantity,
    rows: tuple[Answer, ...],
    sentence: str,
    *,
    of: Release | None = None,
    spent: Run | None = None,
) -> Answers:
    """The rows and the sentence, with what was asked, and what they hold for: a Rényi bound if not `of` a release."""
    if spent is not None:
        inputs = {**inputs, "spent": repr(spent)}
    whole = Run() if of is None else of * 1 + (spent or Run())
    return Answers(
        question=question,
        inputs=inputs,
        quantity=quantity,
        answers=rows,
        sentence=sentence,
        holds_for=holds_for(None, None, given="rdp") if of is None else assumptions(whole),
        relation=whole.relation,
        sampling=whole.sampling,
        remarks=_remarks(quantity, inputs, rows),
    )


def assumptions(run: Run) -> str:
    """What a guarantee of a run holds for, in words."""
    by_noise = all(hasattr(getattr(part, "mechanism", part), "noise_multiplier") for part in run.mechanisms)
    words = holds_for(run.relation, run.sampling, given="sensitivity" if by_noise else "round")
    group = min((getattr(part, "group_size", 1) for part in run.mechanisms if part.relation is not None), default=1)
    if group > 1:
        words = words.replace("one record", f"the records of one person, up to {group} of them", 1)
    if run.relation is not None and any(part.relation is None for part in run.mechanisms):
        words += " What the other parts release must have been bounded for the same neighbours."
    return words


def _remarks(quantity: Quantity, inputs: dict[str, object], rows: Sequence[Answer]) -> tuple[str, ...]:
    """A remark on a δ, given or answered, that is too large for the number of records."""
    is_answer = quantity is DELTA
    delta = tightest(rows).values["delta"] if is_answer else inputs.get("delta")
    remark = delta_remark(float(cast(float, delta)), known_size(inputs.get("dataset_size")), is_answer=is_answer)
    return () if remark is None else (remark,)


def known_size(dataset_size: object) -> int | None:
    """The number of records, if it is given and a data set can have that many."""
    return int(dataset_size) if isinstance(dataset_size, (int, float)) and 1 <= dataset_size < MOST_RECORDS else None
