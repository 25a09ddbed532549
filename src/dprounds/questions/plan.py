"""The question about batch size and epochs: which plan makes most of a budget and of the compute."""

from __future__ import annotations

from dataclasses import replace

from dprounds import _validate
from dprounds.planning import BestPlan, FrontierRow, best_plan
from dprounds.planning.best import MIN_ROUNDS, WITHIN
from dprounds.questions.answers import Answer, Answers
from dprounds.questions.rows import Values, answers_of, needed, needed_delta
from dprounds.questions.setting import QuestionError
from dprounds.questions.vocabulary import WORDS
from dprounds.questions.wording import EXCESS

__all__ = ["plan"]

# A change of the noise that is a smaller part of it is an error of rounding.
ROUNDING = 1e-10


def plan(
    *,
    dataset_size: float | None,
    epsilon: float | None,
    delta: float | None,
    epochs: float | None = None,
    rounds: float | None = None,
    examples: float | None = None,
    habit: float | None = None,
    sampling: str | None = None,
    min_rounds: float | None = None,
    within: float | None = None,
) -> Answers:
    """The cheapest plan near the floor: a row for each batch size at the whole compute, and last that of the plan.

    Examples
    --------
    >>> found = plan(dataset_size=4_000, epsilon=1.0, delta=1e-5, epochs=10, habit=64)
    >>> found.best.values["batch_size"], found.best.values["epochs"]
    (256, 8.0)
    """
    records = needed(
        "dataset_size", dataset_size, WORDS["dataset_size"].interval, advice="say how many records there are in all"
    )
    epsilon = needed("epsilon", epsilon, WORDS["epochs"].interval)
    delta = needed_delta(delta, dataset_size)
    given = {"epochs": epochs, "rounds": rounds, "examples": examples}
    if sum(value is not None for value in given.values()) != 1:
        raise QuestionError(
            "How long training may take is missing, or said twice: give one of {epochs}, {rounds} and {examples}.",
            given=tuple(given),
        )
    options = {"sampling": sampling, "min_rounds": min_rounds, "within": within, "habit": habit}
    chosen = {name: value for name, value in options.items() if value is not None}
    found = best_plan(
        _validate.count("dataset_size", records, least=1),
        epsilon=epsilon,
        delta=delta,
        **given,  # type: ignore[arg-type]  # checked there
        **chosen,  # type: ignore[arg-type]  # likewise
    )
    inputs: dict[str, object] = {"dataset_size": found.frontier.dataset_size, "epsilon": epsilon, "delta": delta}
    inputs |= {name: value for name, value in {**given, **chosen}.items() if value is not None}
    inputs |= {"min_rounds": min_rounds or MIN_ROUNDS, "within": within or WITHIN}
    nearest = dict(found.epochs_within)
    rows = [_values(row, nearest[row.batch_size]) for row in found.frontier]
    rows.append(_values(found.plan, nearest[found.plan.batch_size]) | _changes(found.plan))
    answers = answers_of(
        "plan",
        inputs,
        EXCESS,
        tuple(Answer(method="exact", values=values) for values in rows),
        found.sentence,
        of=found.plan.run,
    )
    return _with_remark(answers, found)


def _values(row: FrontierRow, epochs_within: int | None) -> Values:
    return {
        "batch_size": row.batch_size,
        "rounds": row.rounds,
        "epochs": row.epochs,
        "examples": row.examples,
        "noise_multiplier": row.noise_multiplier,
        "epsilon": row.epsilon,
        "noise_on_mean": row.noise_on_mean,
        "total_noise": row.total_noise,
        "excess": max(row.excess, 0.0),
        "renyi_excess": row.renyi_excess,
        "epochs_within": epochs_within,
    }


def _changes(row: FrontierRow) -> Values:
    """What small changes do to epsilon at the same noise, and to the total noise at the same budget."""
    found = row.sensitivities
    return {
        "one_more_epoch_epsilon": found.one_more_epoch.epsilon,
        "one_more_epoch_total_noise": found.one_more_epoch.total_noise_at_budget,
        "one_percent_more_noise_epsilon": found.one_percent_more_noise.epsilon,
        "one_percent_more_data_epsilon": found.one_percent_more_data.epsilon,
        "one_percent_more_data_total_noise": found.one_percent_more_data.total_noise_at_budget,
    }


def _with_remark(answers: Answers, found: BestPlan) -> Answers:
    """With what one more epoch and more data are worth, to first order."""
    small = found.plan.sensitivities
    epoch, data = (
        small.one_more_epoch.total_noise_at_budget or 0.0,
        small.one_percent_more_data.total_noise_at_budget or 0.0,
    )
    remark = (
        f"At the same budget, one more epoch changes the total noise by about {_percent(epoch)}, and 1 % more "
        f"records by {_percent(data)}. With 1 % more noise ε changes by {small.one_percent_more_noise.epsilon:+.2g}."
    )
    return replace(answers, remarks=(remark, *answers.remarks))


def _percent(part: float) -> str:
    """A change in percent, with two digits; what is only rounding is none."""
    return f"{100 * part:+.2g} %" if abs(part) > ROUNDING else "0 %"
