"""The questions: rounds, epsilon, delta, noise, rate and convert, each answered by every method.

>>> found = rounds(Setting(noise_multiplier=20.0), epsilon=6.0, delta=1e-5)
>>> [(row.method, row.values["rounds"]) for row in found.answers][::2]
[('moments', 501), ('closed-form', 603), ('exact', 685)]
>>> found.sentence
"You may train 685 rounds within ε = 6 at δ = 1e-05, not one more; today's libraries (Balle's bound) stop at 603."

An argument outside its range raises `ParameterError`, an incomplete question `QuestionError`. A method that has no
answer says so in its row; if none has, the last one's error is raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from dprounds import _validate
from dprounds.conversions import METHODS, delta_from_rdp, epsilon_from_rdp, rdp_from_dp
from dprounds.errors import InfeasibleError, NumericalError, UnsupportedError
from dprounds.mechanisms import Release, Run
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.planning import max_sampling_rate, plan_noise_multiplier, plan_rounds, plan_sampling_rate
from dprounds.questions.answers import Answer, Answers, tightest
from dprounds.questions.setting import NOISY_MECHANISMS, QuestionError, Setting
from dprounds.questions.wording import DELTA, EPSILON, NOISE, RATE, RDP, ROUNDS, Quantity, plain, rounded

__all__ = ["convert", "delta", "epsilon", "noise", "rate", "rounds"]

Values = dict[str, float | int | None]


def rounds(
    setting: Setting,
    *,
    epsilon: float | None,
    delta: float | None,
    method: str | None = None,
    run: Run | None = None,
    spent: Run | None = None,
) -> Answers:
    """How many rounds a budget allows, by `method` or by each; a round is that of `setting`, or all of `run`."""
    epsilon, delta = _budget(epsilon, delta)
    setting.refuse("rounds", "epochs", because="it is what is asked for")
    step, inputs = _step(setting, run)
    sampling_rate = setting.rate()

    def ask(by: str) -> Values:
        plan = plan_rounds(step, epsilon=epsilon, delta=delta, method=by, spent=spent)
        values: Values = {"rounds": int(plan.value)}
        if sampling_rate:
            values["epochs"] = int(plan.value) * sampling_rate
        return values | {"epsilon": plan.epsilon, "delta": delta}

    rows = _rows(_methods(method, RUN_METHODS), ask, ROUNDS)
    best = tightest(rows)
    allowed = int(best.values["rounds"] or 0)
    budget = f"ε = {plain(epsilon)} at δ = {plain(delta)}"
    if allowed:
        epochs = best.values.get("epochs")
        times = f" ({rounded(float(epochs), up=False)} epochs)" if epochs else ""
        last = ", not one more" if best.method == "exact" else f" by the {best.method} bound"
        sentence = f"You may train {_count(allowed, 'round')}{times} within {budget}{last}"
    else:
        sentence = f"Not one round fits within {budget}"
    sentence += _beside(rows, best, ROUNDS, "today's libraries (Balle's bound) stop at {}")
    return _answers("rounds", {"epsilon": epsilon, "delta": delta, **inputs}, ROUNDS, rows, sentence, spent)


def epsilon(setting: Setting, *, delta: float | None, method: str | None = None, run: Run | None = None) -> Answers:
    """What a run costs at `delta`, by `method` or by each."""
    delta = _needed("delta", delta, _validate.DELTA)
    whole, inputs = _run(setting, run)

    def ask(by: str) -> Values:
        found = whole.guarantee(delta=delta, method=by)
        return {"epsilon": found.epsilon, "delta": delta, "order": found.order, "lower": found.lower}

    rows = _rows(_methods(method, RUN_METHODS), ask, EPSILON)
    best = tightest(rows)
    value = float(best.values["epsilon"] or 0.0)
    releases = _count(whole.rounds, "round")
    if math.isinf(value):
        sentence = f"No ε is proven for {releases} at δ = {plain(delta)}"
    else:
        sentence = f"{releases} cost{'s' if whole.rounds == 1 else ''} ε = {EPSILON.text(value)} at δ = {plain(delta)}"
        sentence += _by(best)
    sentence += _beside(rows, best, EPSILON, "today's libraries (Balle's bound) report {}")
    return _answers("epsilon", {"delta": delta, **inputs}, EPSILON, rows, sentence)


def delta(setting: Setting, *, epsilon: float | None, method: str | None = None, run: Run | None = None) -> Answers:
    """The failure mass of a run at `epsilon`, by `method` or by each."""
    epsilon = _needed("epsilon", epsilon, _validate.EPSILON)
    whole, inputs = _run(setting, run)

    def ask(by: str) -> Values:
        return {"delta": whole.delta(epsilon=epsilon, method=by), "epsilon": epsilon}

    rows = _rows(_methods(method, RUN_METHODS), ask, DELTA)
    best = tightest(rows)
    sentence = (
        f"{_count(whole.rounds, 'round')} keep{'s' if whole.rounds == 1 else ''} ε = {plain(epsilon)} "
        f"but for a failure mass δ = {DELTA.text(float(best.values['delta'] or 0.0))}"
    )
    sentence += _by(best)
    sentence += _beside(rows, best, DELTA, "today's libraries (Balle's bound) report {}")
    return _answers("delta", {"epsilon": epsilon, **inputs}, DELTA, rows, sentence)


def noise(
    setting: Setting,
    *,
    epsilon: float | None,
    delta: float | None,
    method: str | None = None,
    spent: Run | None = None,
) -> Answers:
    """The least noise multiplier with which a run stays within a budget, by `method` or by each."""
    epsilon, delta = _budget(epsilon, delta)
    setting.refuse("noise_multiplier", because="it is what is asked for")
    _noisy(setting)
    setting.with_noise(1.0).run()  # everything else is there
    resolved = setting.resolved()

    def make_run(noise_multiplier: float) -> Run:
        return (spent or Run()) + resolved.with_noise(noise_multiplier).run()

    def ask(by: str) -> Values:
        plan = plan_noise_multiplier(make_run, epsilon=epsilon, delta=delta, method=by)
        return {"noise_multiplier": plan.value, "epsilon": plan.epsilon, "delta": delta}

    rows = _rows(_methods(method, RUN_METHODS), ask, NOISE)
    best = tightest(rows)
    sentence = (
        f"A noise multiplier of {NOISE.text(float(best.values['noise_multiplier'] or 0.0))} keeps "
        f"{_count(setting.total_rounds(), 'round')} within ε = {plain(epsilon)} at δ = {plain(delta)}"
    )
    sentence += _by(best)
    sentence += _beside(rows, best, NOISE, "today's libraries (Balle's bound) ask for {}")
    return _answers("noise", {"epsilon": epsilon, "delta": delta, **_derived(setting)}, NOISE, rows, sentence, spent)


def rate(
    setting: Setting,
    *,
    epsilon: float | None,
    delta: float | None,
    method: str | None = None,
    spent: Run | None = None,
) -> Answers:
    """The greatest sampling rate at which a run stays within a budget, by `method` or by each."""
    epsilon, delta = _budget(epsilon, delta)
    setting.refuse("sampling_rate", "batch_size", because="it is what is asked for")
    _noisy(setting)
    dataset = None if setting.dataset_size is None else _validate.count("dataset_size", setting.dataset_size, least=1)
    if setting.epochs is not None and dataset is None:
        raise QuestionError("dataset_size is missing: with epochs the answer is a batch size, which they are made of.")
    setting.with_rate(0.5).run()  # everything else is there

    def make_run(sampling_rate: float, times: int | None = None) -> Run:
        meant = setting if times is None else replace(setting, rounds=times, epochs=None)
        return (spent or Run()) + meant.with_rate(sampling_rate).run()

    def ask(by: str) -> Values:
        plan = plan_sampling_rate(make_run, epsilon=epsilon, delta=delta, method=by)
        if dataset is None:
            return {"sampling_rate": plan.value, "epsilon": plan.epsilon, "delta": delta}
        batch = math.floor(Fraction(plan.value) * dataset)
        if batch and setting.epochs is None:  # as many rounds at a rate that is no higher: they cost no more
            return {"sampling_rate": plan.value, "batch_size": batch, "epsilon": plan.epsilon, "delta": delta}
        while batch and (cost := make_run(batch / dataset).epsilon(delta=delta, method=by)) > epsilon:
            # a smaller batch makes more rounds of the epochs: the largest for so many, then once more as many
            times = setting.with_rate(batch / dataset).total_rounds()
            least = max_sampling_rate(partial(make_run, times=times), epsilon=epsilon, delta=delta, method=by)
            batch = min(batch - 1, math.floor(Fraction(least) * dataset))
        if not batch:
            raise InfeasibleError(
                f"Not even batches of one out of {dataset:,} meet epsilon={epsilon:g} at delta={delta:g}. "
                "Raise epsilon or delta, add noise, or plan fewer rounds."
            )
        return {"sampling_rate": batch / dataset, "batch_size": batch, "epsilon": cost, "delta": delta}

    rows = _rows(_methods(method, RUN_METHODS), ask, RATE)
    best = tightest(rows)
    batch = best.values.get("batch_size")
    meant = f" (batches of {batch:,} out of {dataset:,})" if batch is not None else ""
    times = (
        _count(setting.total_rounds(), "round")
        if setting.epochs is None
        else f"{plain(setting.epochs)} epoch{'' if setting.epochs == 1 else 's'}"
    )
    sentence = (
        f"A sampling rate of {RATE.text(float(best.values['sampling_rate'] or 0.0))}{meant} keeps {times} within "
        f"ε = {plain(epsilon)} at δ = {plain(delta)}"
    )
    sentence += _by(best)
    sentence += _beside(rows, best, RATE, "today's libraries (Balle's bound) stop at {}")
    return _answers("rate", {"epsilon": epsilon, "delta": delta, **setting.given()}, RATE, rows, sentence, spent)


def convert(
    *,
    order: float | None,
    rdp: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    method: str | None = None,
) -> Answers:
    """What a Rényi guarantee means: of rdp, epsilon and delta the one that is not given.

    Examples
    --------
    >>> convert(order=8.0, rdp=0.5, delta=1e-5).sentence
    "(8, 0.5)-RDP is (1.7098, 1e-05)-DP, and no smaller ε holds for all such mechanisms; Balle's bound gives 1.7142."
    """
    order = _needed("order", order, _validate.ORDER)
    given = {name: value for name, value in (("rdp", rdp), ("epsilon", epsilon), ("delta", delta)) if value is not None}
    if len(given) != 2:
        raise QuestionError(
            f"Two of rdp, epsilon and delta are needed to convert into the third, got {' and '.join(given) or 'none'}."
        )
    quantity = EPSILON if epsilon is None else DELTA if delta is None else RDP

    def ask(by: str) -> Values:
        if quantity is EPSILON:
            value = epsilon_from_rdp(given["rdp"], order=order, delta=given["delta"], method=by)
        elif quantity is DELTA:
            value = delta_from_rdp(given["rdp"], order=order, epsilon=given["epsilon"], method=by)
        else:
            value = rdp_from_dp(given["epsilon"], order=order, delta=given["delta"], method=by)
        return {quantity.name: float(value), "order": order, **given}

    rows = _rows(_methods(method, METHODS), ask, quantity)
    best = tightest(rows)
    shown = {**{name: f"{plain(value)}" for name, value in given.items()}}
    shown[quantity.name] = quantity.text(float(best.values[quantity.name] or 0.0))
    sentence = f"({plain(order)}, {shown['rdp']})-RDP is ({shown['epsilon']}, {shown['delta']})-DP"
    if best.method == "optimal":
        limit = "larger rdp" if quantity is RDP else f"smaller {quantity.title}"
        sentence += f", and no {limit} holds for all such mechanisms"
    sentence += _beside(rows, best, quantity, "Balle's bound gives {}")
    return _answers("convert", {"order": order, **given}, quantity, rows, sentence)


def _needed(name: str, value: float | None, interval: _validate.Interval) -> float:
    if value is None:
        raise QuestionError(f"{name} is missing: it must be in {interval.text}.")
    return _validate.real(name, value, interval)


def _budget(epsilon: float | None, delta: float | None) -> tuple[float, float]:
    return _needed("epsilon", epsilon, _validate.FINITE_EPSILON), _needed("delta", delta, _validate.DELTA)


def _noisy(setting: Setting) -> None:
    """Raise if the mechanism has no noise multiplier, or is not known."""
    if setting.mechanism not in NOISY_MECHANISMS:
        setting.bare_mechanism()  # an unknown word, or what is missing, says so itself
        raise QuestionError(f"mechanism must be one of {', '.join(NOISY_MECHANISMS)} here, got {setting.mechanism}.")


def _step(setting: Setting, run: Run | None) -> tuple[Release, dict[str, object]]:
    """One round, and the inputs that describe it."""
    if run is None:
        return setting.step(), _derived(setting)
    _alone(setting)
    return run, {"run": repr(run)}


def _run(setting: Setting, run: Run | None) -> tuple[Run, dict[str, object]]:
    """The whole run, and the inputs that describe it."""
    if run is None:
        return setting.run(), _derived(setting) | {"rounds": setting.total_rounds()}
    _alone(setting)
    return run, {"run": repr(run), "rounds": run.rounds}


def _alone(setting: Setting) -> None:
    """Raise if a setting says anything beside a run that says it all."""
    for name in setting.given():
        if name != "mechanism" or setting.mechanism != "gaussian":
            raise QuestionError(f"{name} has no place here: the run is given already.")


def _derived(setting: Setting) -> dict[str, object]:
    """The inputs, with the sampling rate and the rounds that follow from them."""
    inputs = setting.given()
    if (sampling_rate := setting.rate()) is not None:
        inputs["sampling_rate"] = sampling_rate
    if setting.epochs is not None:
        inputs["rounds"] = setting.total_rounds()
    return inputs


def _methods(method: str | None, allowed: Sequence[str]) -> tuple[str, ...]:
    return tuple(allowed) if method is None else (_validate.choice("method", method, allowed),)


def _rows(methods: Sequence[str], ask: Callable[[str], Values], quantity: Quantity) -> tuple[Answer, ...]:
    """A row for each method; raises the last error if none has an answer."""
    found: dict[str, Values] = {}
    errors: dict[str, UnsupportedError | NumericalError | InfeasibleError] = {}
    for method in methods:
        try:
            found[method] = ask(method)
        except (UnsupportedError, NumericalError, InfeasibleError) as error:
            errors[method] = error
    if not found:  # that it cannot be done says more than that one method could not tell
        raise next((error for error in errors.values() if isinstance(error, InfeasibleError)), errors[methods[-1]])
    for method, values in found.items():
        for base in ("moments", "balle"):
            if base in found and base != method:
                values[f"change_from_{base}"] = _change(values[quantity.name], found[base][quantity.name])
    return tuple(
        Answer(method=method, values=found[method])
        if method in found
        else Answer(method=method, error=str(errors[method]))
        for method in methods
    )


def _change(ours: float | int | None, theirs: float | int | None) -> float | int | None:
    """The difference, None where one is infinite or missing."""
    if ours is None or theirs is None or math.isinf(ours) or math.isinf(theirs):
        return None
    return ours - theirs


def _by(best: Answer) -> str:
    """Which bound was gone by, where it was not the truth."""
    return "" if best.method == "exact" else f" by the {best.method} bound"


def _beside(rows: Sequence[Answer], best: Answer, quantity: Quantity, clause: str) -> str:
    """What Balle's bound, used by today's libraries, says instead; a full stop if that is nothing new."""
    theirs = next((row.values.get(quantity.name) for row in rows if row.method == "balle" and row is not best), None)
    if theirs is None or theirs == best.values[quantity.name]:
        return "."
    return f"; {clause.format(quantity.text(theirs))}."


def _count(number: int, noun: str) -> str:
    return f"{plain(number)} {noun}{'' if number == 1 else 's'}"


def _answers(
    question: str,
    inputs: dict[str, object],
    quantity: Quantity,
    rows: tuple[Answer, ...],
    sentence: str,
    spent: Run | None = None,
) -> Answers:
    if spent is not None:
        inputs = {**inputs, "spent": repr(spent)}
    return Answers(question=question, inputs=inputs, quantity=quantity, answers=rows, sentence=sentence)
