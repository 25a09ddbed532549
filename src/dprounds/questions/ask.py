"""The questions about runs: rounds, epsilon, delta, noise and rate, each answered by every method.

>>> found = rounds(Setting(noise_multiplier=20.0), epsilon=6.0, delta=1e-5)
>>> [(row.method, row.values["rounds"]) for row in found.answers][::2]
[('moments', 501), ('closed-form', 603), ('exact', 685)]
>>> found.sentence
"You may train 685 rounds within ε = 6 at δ = 1e-05, not one more; Rényi accountants (Balle's bound) stop at 603."

An argument outside its range raises `ParameterError`, an incomplete question `QuestionError`. A method that has no
answer says so in its row; if none has, the tightest one's error is raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dprounds import _validate
from dprounds.errors import InfeasibleError
from dprounds.mechanisms import Release, Run
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.planning import plan_batch_size, plan_noise_multiplier, plan_rounds, plan_sampling_rate
from dprounds.questions.answers import Answer, Answers, tightest
from dprounds.questions.rows import (
    Values,
    answers_of,
    beside_balle,
    by_bound,
    chosen,
    counted,
    needed,
    needed_delta,
    rows_by,
)
from dprounds.questions.setting import NOISY_MECHANISMS, QuestionError, Setting
from dprounds.questions.wording import DELTA, EPSILON, NOISE, RATE, REPETITIONS, ROUNDS, plain, rounded

__all__ = ["delta", "epsilon", "noise", "rate", "rounds"]

# What the doubles of a sum of decimals can be above what the decimals add up to.
PURE_ROUNDING = 1e-14


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
    epsilon, delta = _budget(epsilon, delta, setting)
    setting.refuse("rounds", "epochs", because="it is what is asked for")
    step, inputs = _step(setting, run)
    quantity = ROUNDS if run is None else REPETITIONS

    def ask(by: str) -> Values:
        plan = plan_rounds(step, epsilon=epsilon, delta=delta, method=by, spent=spent)
        values: Values = {"rounds": int(plan.value)}
        if (epochs := setting.epochs_of(int(plan.value))) is not None:
            values["epochs"] = epochs
        values |= {"epsilon": plan.epsilon, "delta": delta}
        if by == "exact" and plan.beyond is not None:  # the others prove nothing from below
            values["beyond"] = plan.beyond
        return values

    rows = rows_by(chosen(method, RUN_METHODS), ask, quantity)
    best = tightest(rows)
    sentence = _allowance(best, setting, step, epsilon=epsilon, delta=delta, run=run, spent=spent)
    if not sentence.endswith("."):
        sentence += beside_balle(rows, best, quantity, "Rényi accountants (Balle's bound) stop at {}")
    return answers_of(
        "rounds", {"epsilon": epsilon, "delta": delta, **inputs}, quantity, rows, sentence, of=step, spent=spent
    )


def _allowance(
    best: Answer, setting: Setting, step: Release, *, epsilon: float, delta: float, run: Run | None, spent: Run | None
) -> str:
    """How many rounds are allowed in words, and whether it is proven that no more are."""
    allowed, beyond = int(best.values["rounds"] or 0), best.values.get("beyond")
    proven = beyond is not None and beyond > epsilon
    budget = f"ε = {plain(epsilon)} at δ = {plain(delta)}"
    if not allowed:
        one = "round" if run is None else "repetition of the run"
        sentence = f"Not one {one} {'fits' if proven else 'is proven to fit'} within {budget}{by_bound(best)}"
        before = float(best.values["epsilon"] or 0.0)
        if spent is not None and before > epsilon:
            sentence += f": what was spent before costs ε = {EPSILON.text(before)} by itself"
        elif why := _why_none(step * 1 + (spent or Run()), delta):
            sentence += f": {why}"
        return sentence
    last = (", not one more" if proven else ", no more are proven") if best.method == "exact" else by_bound(best)
    if run is not None:
        what = f"make {counted(allowed, 'repetition')} of the run ({counted(run.rounds, 'round')} each)"
    else:
        epochs = best.values.get("epochs")
        what = f"train {counted(allowed, 'round')}"
        what += "" if epochs is None else f" ({_epochs(rounded(float(epochs), up=False), setting)})"
    return f"You may {what} within {budget}{last}"


def epsilon(setting: Setting, *, delta: float | None, method: str | None = None, run: Run | None = None) -> Answers:
    """What a run costs at `delta`, by `method` or by each."""
    delta = needed_delta(delta, setting.dataset_size)
    whole, inputs = _run(setting, run)
    pure = setting.pure_epsilon() if run is None else None

    def ask(by: str) -> Values:
        found = whole.guarantee(delta=delta, method=by)
        value = found.epsilon
        if pure is not None and pure < value <= pure * (1.0 + PURE_ROUNDING):
            value = pure  # what the decimals add up to: of ten times 0.1, doubles make a little more than 1
        order = found.order if value else None  # that nothing is spent any order proves
        return {"epsilon": value, "delta": delta, "order": order, "lower": min(found.lower, value)}

    rows = rows_by(chosen(method, RUN_METHODS), ask, EPSILON)
    best = tightest(rows)
    value = float(best.values["epsilon"] or 0.0)
    releases = _rounds(whole.rounds, setting)
    if math.isinf(value):
        sentence = f"No ε is proven for {releases} at δ = {plain(delta)}: "
        sentence += _why_none(whole, delta) or "no method bounds the loss."
    else:
        sentence = f"{releases} cost{'s' if whole.rounds == 1 else ''} ε = {EPSILON.text(value)} at δ = {plain(delta)}"
        sentence += by_bound(best)
        sentence += beside_balle(rows, best, EPSILON, "Rényi accountants (Balle's bound) report {}")
    return answers_of("epsilon", {"delta": delta, **inputs}, EPSILON, rows, sentence, of=whole)


def _why_none(run: Run, delta: float) -> str | None:
    """Why no ε holds for a run at `delta`, and what would help; None if one does, or nobody knows."""
    mass = run.infinite_mass
    if mass >= 1:
        return "no Rényi order bounds the loss."
    if mass > 0 and not mass < delta:
        (part, times), *others = run.parts
        sum_ = "" if others or times == 1 else f" ({plain(times)} × {DELTA.text(part.infinite_mass)})"
        return (
            f"the failure mass of the rounds themselves is {DELTA.text(mass)}{sum_}, and δ must be above it. "
            f"Ask for a δ above {DELTA.text(mass)}, for fewer rounds, or for rounds that fail less often."
        )
    if not delta and math.isinf(run.epsilon(delta=0.0)):
        return (
            "the loss has no largest value, so that no ε holds at δ = 0. Choose a δ above 0, or noise with a largest "
            "loss, such as Laplace's."
        )
    return None


def delta(setting: Setting, *, epsilon: float | None, method: str | None = None, run: Run | None = None) -> Answers:
    """The failure mass of a run at `epsilon`, by `method` or by each."""
    epsilon = needed("epsilon", epsilon, _validate.EPSILON)
    whole, inputs = _run(setting, run)

    def ask(by: str) -> Values:
        return {"delta": whole.delta(epsilon=epsilon, method=by), "epsilon": epsilon}

    rows = rows_by(chosen(method, RUN_METHODS), ask, DELTA)
    best = tightest(rows)
    sentence = (
        f"{_rounds(whole.rounds, setting)} keep{'s' if whole.rounds == 1 else ''} ε = {plain(epsilon)} "
        f"but for a failure mass δ = {DELTA.text(float(best.values['delta'] or 0.0))}"
    )
    sentence += by_bound(best)
    sentence += beside_balle(rows, best, DELTA, "Rényi accountants (Balle's bound) report {}")
    return answers_of("delta", {"epsilon": epsilon, **inputs}, DELTA, rows, sentence, of=whole)


def noise(
    setting: Setting,
    *,
    epsilon: float | None,
    delta: float | None,
    method: str | None = None,
    spent: Run | None = None,
) -> Answers:
    """The least noise multiplier with which a run stays within a budget, by `method` or by each."""
    epsilon, delta = _budget(epsilon, delta, setting)
    setting.refuse("noise_multiplier", because="it is what is asked for")
    _noisy(setting)
    setting.with_noise(1.0).run()  # everything else is there
    resolved = setting.resolved()

    def make_run(noise_multiplier: float) -> Run:
        return (spent or Run()) + resolved.with_noise(noise_multiplier).run()

    def ask(by: str) -> Values:
        plan = plan_noise_multiplier(make_run, epsilon=epsilon, delta=delta, method=by)
        return {"noise_multiplier": plan.value, "epsilon": plan.epsilon, "delta": delta}

    asked = _unless_spent(ask, "noise_multiplier", epsilon=epsilon, delta=delta, spent=spent)
    rows = rows_by(chosen(method, RUN_METHODS), asked, NOISE)
    best = tightest(rows)
    sentence = (
        f"A noise multiplier of {NOISE.text(float(best.values['noise_multiplier'] or 0.0))} keeps "
        f"{_rounds(setting.total_rounds(), setting)} within ε = {plain(epsilon)} at δ = {plain(delta)}"
    )
    sentence += by_bound(best)
    sentence += beside_balle(rows, best, NOISE, "Rényi accountants (Balle's bound) ask for {}")
    inputs = {"epsilon": epsilon, "delta": delta, **_derived(setting)}
    return answers_of("noise", inputs, NOISE, rows, sentence, of=resolved.with_noise(1.0).step(), spent=spent)


def rate(
    setting: Setting,
    *,
    epsilon: float | None,
    delta: float | None,
    method: str | None = None,
    spent: Run | None = None,
) -> Answers:
    """The greatest sampling rate at which a run stays within a budget, by `method` or by each."""
    epsilon, delta = _budget(epsilon, delta, setting)
    setting.refuse("sampling_rate", "batch_size", because="it is what is asked for")
    _noisy(setting)
    dataset = None if setting.dataset_size is None else _validate.count("dataset_size", setting.dataset_size, least=1)
    if setting.epochs is not None and dataset is None:
        raise QuestionError("dataset_size is missing: with epochs the answer is a batch size, which they are made of.")
    setting.with_rate(0.5).run()  # everything else is there

    def make_run(sampling_rate: float) -> Run:
        return (spent or Run()) + setting.with_rate(sampling_rate).run()

    def ask(by: str) -> Values:
        if dataset is not None and setting.epochs is not None:
            plan = plan_batch_size(make_run, dataset, epsilon=epsilon, delta=delta, method=by)
            rounds = setting.with_rate(plan.value / dataset).total_rounds()
            found: Values = {
                "sampling_rate": plan.value / dataset,
                "batch_size": int(plan.value),
                "rounds": rounds,
            }
        else:
            plan = plan_sampling_rate(make_run, epsilon=epsilon, delta=delta, method=by)
            found = {"sampling_rate": plan.value}
            if dataset is not None:  # as many rounds at a rate that is no higher cost no more
                found["batch_size"] = math.floor(Fraction(plan.value) * dataset)
                if not found["batch_size"]:
                    raise InfeasibleError(
                        f"Not even batches of one out of {dataset:,} meet epsilon={epsilon:g} at delta={delta:g}. "
                        "Raise epsilon or delta, add noise, or plan fewer rounds."
                    )
        return found | {"epsilon": plan.epsilon, "delta": delta}

    asked = _unless_spent(ask, "sampling_rate", epsilon=epsilon, delta=delta, spent=spent)
    rows = rows_by(chosen(method, RUN_METHODS), asked, RATE)
    best = tightest(rows)
    batch = best.values.get("batch_size")
    meant = f" (batches of {batch:,} out of {dataset:,})" if batch is not None else ""
    chosen_rate = setting.with_rate(float(best.values["sampling_rate"] or 0.0))
    times = _rounds(chosen_rate.total_rounds(), chosen_rate)
    sentence = (
        f"A sampling rate of {RATE.text(float(best.values['sampling_rate'] or 0.0))}{meant} keeps {times} within "
        f"ε = {plain(epsilon)} at δ = {plain(delta)}"
    )
    sentence += by_bound(best)
    sentence += beside_balle(rows, best, RATE, "Rényi accountants (Balle's bound) stop at {}")
    inputs = {"epsilon": epsilon, "delta": delta, **setting.given()}
    return answers_of("rate", inputs, RATE, rows, sentence, of=setting.with_rate(0.5).step(), spent=spent)


def _rounds(rounds: int, setting: Setting) -> str:
    """So many rounds, and the epochs that were asked about."""
    return counted(rounds, "round") + (
        "" if setting.epochs is None else f" ({_epochs(plain(setting.epochs), setting)})"
    )


def _epochs(epochs: str, setting: Setting) -> str:
    """So many epochs, and what an epoch is."""
    return f"{epochs} epoch{'' if epochs == '1' else 's'} of {counted(setting.batches_per_epoch() or 0, 'batch')}"


def _budget(epsilon: float | None, delta: float | None, setting: Setting) -> tuple[float, float]:
    return needed("epsilon", epsilon, _validate.FINITE_EPSILON), needed_delta(delta, setting.dataset_size)


def _noisy(setting: Setting) -> None:
    """Raise if the mechanism has no noise multiplier, before anything is said of what else it may be made of."""
    if setting.mechanism not in NOISY_MECHANISMS:
        raise QuestionError(
            f"mechanism must be one of {', '.join(NOISY_MECHANISMS)} here, got {_validate.show(setting.mechanism)}: "
            "only these have a noise multiplier."
        )


def _unless_spent(
    ask: Callable[[str], Values], what: str, *, epsilon: float, delta: float, spent: Run | None
) -> Callable[[str], Values]:
    """The same question, whose refusal says so where what was spent before leaves nothing to plan."""

    def asked(by: str) -> Values:
        try:
            return ask(by)
        except InfeasibleError:
            before = 0.0 if spent is None else spent.epsilon(delta=delta, method=by)
            if before <= epsilon:
                raise
            raise InfeasibleError(
                f"No {what} meets epsilon={epsilon:g} at delta={delta:g}: what was spent before costs "
                f"epsilon={EPSILON.text(before)} by itself. Raise epsilon or delta."
            ) from None

    return asked


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
