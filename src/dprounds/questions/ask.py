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
from dataclasses import replace
from fractions import Fraction

from dprounds import _validate
from dprounds.errors import InfeasibleError
from dprounds.mechanisms import Release, Run, Shuffled
from dprounds.planning import plan_batch_size, plan_noise_multiplier, plan_rounds, plan_sampling_rate
from dprounds.planning.parameters import LEAST_RATE, NOISE_RANGE
from dprounds.planning.rounds import MOST_ROUNDS
from dprounds.questions.answers import Answer, Answers, tightest
from dprounds.questions.rows import (
    NOTHING_KNOWN,
    Known,
    Values,
    answers_of,
    by_bound,
    chosen,
    compared_with_balle,
    counted,
    needed,
    needed_delta,
    rows_by,
)
from dprounds.questions.setting import QuestionError, Setting
from dprounds.questions.vocabulary import METHODS, NOISY_MECHANISMS, QUESTIONS
from dprounds.questions.wording import DELTA, EPSILON, NOISE, RATE, REPETITIONS, ROUNDS, Quantity, plain, rounded

__all__ = ["delta", "epsilon", "noise", "rate", "rounds", "run_of"]

# Relative error by which a sum in doubles may exceed the sum of the decimals.
RELATIVE_SUM_ERROR = 1e-14


def rounds(
    setting: Setting,
    *,
    epsilon: float | None,
    delta: float | None,
    method: str | None = None,
    run: Run | None = None,
    spent: Run | None = None,
    known: Known = NOTHING_KNOWN,
) -> Answers:
    """How many rounds a budget allows, by `method` or by each; a round is that of `setting`, or all of `run`."""
    epsilon, delta = _budget(epsilon, delta, setting)
    setting.refuse(*QUESTIONS["rounds"].answers, because="it is what is asked for")
    step, inputs = _step(setting, run)
    quantity = ROUNDS if run is None else REPETITIONS

    def ask(by: str) -> Values:
        try:
            plan = plan_rounds(step, epsilon=epsilon, delta=delta, method=by, spent=spent)
        except InfeasibleError:
            raise InfeasibleError(
                f"No number of rounds exceeds the budget: {MOST_ROUNDS:.0e} rounds of this step still meet "
                f"ε = {epsilon:g} at δ = {delta:g}.",
                advice="Ask for a smaller ε or δ, or for a step that releases something.",
            ) from None
        values: Values = {"rounds": int(plan.value) * (setting.rounds_of_step if run is None else 1)}
        if (epochs := setting.epochs_of(int(values["rounds"] or 0))) is not None:
            values["epochs"] = epochs
        values |= {"epsilon": plan.epsilon, "delta": delta}
        if by == "exact" and plan.beyond is not None:  # other methods have no lower bound
            values["beyond"] = plan.beyond
        return values

    rows = rows_by(chosen(method, METHODS), ask, quantity, of=step * 1 + (spent or Run()), known=known)
    best = tightest(rows)
    sentence = _allowance(best, setting, step, epsilon=epsilon, delta=delta, run=run, spent=spent)
    if not sentence.endswith("."):
        sentence += compared_with_balle(rows, best, quantity, "Rényi accountants (Balle's bound) stop at {}")
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


def epsilon(
    setting: Setting,
    *,
    delta: float | None,
    method: str | None = None,
    run: Run | None = None,
    known: Known = NOTHING_KNOWN,
) -> Answers:
    """What a run costs at `delta`, by `method` or by each."""
    delta = needed_delta(delta, setting.dataset_size)
    whole, inputs = _run(setting, run)
    pure = setting.pure_epsilon() if run is None else None

    def ask(by: str) -> Values:
        found = whole.guarantee(delta=delta, method=by)
        value = found.epsilon
        if pure is not None and pure < value <= pure * (1.0 + RELATIVE_SUM_ERROR):
            value = pure  # what the decimals add up to: in doubles, ten times 0.1 is a little more than 1
        order = found.order if value else None  # every order proves that nothing is spent
        return {"epsilon": value, "delta": delta, "order": order, "lower": min(found.lower, value)}

    rows = rows_by(chosen(method, METHODS), ask, EPSILON, of=whole, known=known)
    best = tightest(rows)
    value = float(best.values["epsilon"] or 0.0)
    releases = _rounds(whole.rounds if run is not None else setting.total_rounds(), setting)
    if math.isinf(value):
        sentence = f"No ε is proven for {releases} at δ = {plain(delta)}: "
        sentence += _why_none(whole, delta) or "no method bounds the loss."
    else:
        verb = "costs" if releases.split(" (")[0] == "1 round" else "cost"
        sentence = f"{releases} {verb} ε = {EPSILON.text(value)} at δ = {plain(delta)}"
        sentence += by_bound(best) + compared_with_balle(
            rows, best, EPSILON, "Rényi accountants (Balle's bound) report {}"
        )
    found = answers_of("epsilon", {"delta": delta, **inputs}, EPSILON, rows, sentence, of=whole)
    return replace(found, remarks=(*found.remarks, *_allocated(whole, delta)))


def _allocated(whole: Run, delta: float) -> list[str]:
    """What random allocation of the same batches would cost, for those who shuffle."""
    if not any(isinstance(part, Shuffled) for part in whole.mechanisms):
        return []
    other = sum(
        (part.allocated * rounds if isinstance(part, Shuffled) else part * rounds for part, rounds in whole.parts),
        Run(),
    )
    cost = other.epsilon(delta=delta)
    return [
        "No proof is known that shuffling hides which batch a record is in. If every record joins one random step of "
        f"an epoch, independently of the others (allocation), the same batches cost ε = {EPSILON.text(cost)} for a "
        "record that is zeroed out."
    ]


def _why_none(run: Run, delta: float) -> str | None:
    """Why no ε holds for a run at `delta`, and what would help; None if one does, or if the reason is not known."""
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


def delta(
    setting: Setting,
    *,
    epsilon: float | None,
    method: str | None = None,
    run: Run | None = None,
    known: Known = NOTHING_KNOWN,
) -> Answers:
    """The failure mass of a run at `epsilon`, by `method` or by each."""
    epsilon = needed("epsilon", epsilon, _validate.EPSILON)
    whole, inputs = _run(setting, run)

    def ask(by: str) -> Values:
        return {"delta": whole.delta(epsilon=epsilon, method=by), "epsilon": epsilon}

    rows = rows_by(chosen(method, METHODS), ask, DELTA, of=whole, known=known)
    best = tightest(rows)
    rounds_made = whole.rounds if run is not None else setting.total_rounds()
    sentence = (
        f"{_rounds(rounds_made, setting)} keep{'s' if rounds_made == 1 else ''} ε = {plain(epsilon)} "
        f"but for a failure mass δ = {DELTA.text(float(best.values['delta'] or 0.0))}"
    )
    sentence += by_bound(best) + compared_with_balle(rows, best, DELTA, "Rényi accountants (Balle's bound) report {}")
    return answers_of("delta", {"epsilon": epsilon, **inputs}, DELTA, rows, sentence, of=whole)


def noise(
    setting: Setting,
    *,
    epsilon: float | None,
    delta: float | None,
    method: str | None = None,
    spent: Run | None = None,
    known: Known = NOTHING_KNOWN,
) -> Answers:
    """The least noise multiplier with which a run stays within a budget, by `method` or by each."""
    epsilon, delta = _budget(epsilon, delta, setting)
    setting.refuse(*QUESTIONS["noise"].answers, because="it is what is asked for")
    _noisy(setting)
    setting.with_noise(1.0).run()  # raises if anything else is missing
    resolved = setting.resolved()

    def make_run(noise_multiplier: float) -> Run:
        return (spent or Run()) + resolved.with_noise(noise_multiplier).run()

    def ask(by: str) -> Values:
        plan = plan_noise_multiplier(make_run, epsilon=epsilon, delta=delta, method=by)
        return {"noise_multiplier": plan.value, "epsilon": plan.epsilon, "delta": delta}

    def why(by: str) -> InfeasibleError:
        low, high = NOISE_RANGE
        cost = make_run(high).epsilon(delta=delta, method=by)
        if cost > epsilon:
            return _out_of_reach(f"noise multiplier up to {high:g}", epsilon, delta, cost, "plan fewer rounds")
        return InfeasibleError(
            f"Every noise multiplier down to {low:g} meets ε = {epsilon:g} at δ = {delta:g}: the budget is larger than "
            "the run can spend.",
            advice="Check its rounds, its sampling rate and the budget.",
        )

    asked = _explained(ask, why, NOISE, epsilon=epsilon, delta=delta, spent=spent)
    rows = rows_by(chosen(method, METHODS), asked, NOISE, of=make_run(1.0), known=known)
    best = tightest(rows)
    sentence = (
        f"A noise multiplier of {NOISE.text(float(best.values['noise_multiplier'] or 0.0))} keeps "
        f"{_rounds(setting.total_rounds(), setting)} within ε = {plain(epsilon)} at δ = {plain(delta)}"
    )
    sentence += by_bound(best) + compared_with_balle(rows, best, NOISE, "Rényi accountants (Balle's bound) ask for {}")
    inputs = {"epsilon": epsilon, "delta": delta, **_derived(setting)}
    return answers_of("noise", inputs, NOISE, rows, sentence, of=resolved.with_noise(1.0).step(), spent=spent)


def rate(
    setting: Setting,
    *,
    epsilon: float | None,
    delta: float | None,
    method: str | None = None,
    spent: Run | None = None,
    known: Known = NOTHING_KNOWN,
) -> Answers:
    """The greatest sampling rate at which a run stays within a budget, by `method` or by each."""
    epsilon, delta = _budget(epsilon, delta, setting)
    setting.refuse(*QUESTIONS["rate"].answers, because="it is what is asked for")
    if setting.sampling not in (None, "poisson"):
        raise QuestionError(
            "{argument} must be poisson here, got {value}.", argument="sampling", value=setting.sampling
        )
    _noisy(setting)
    dataset = None if setting.dataset_size is None else _validate.count("dataset_size", setting.dataset_size, least=1)
    if setting.epochs is not None and dataset is None:
        raise QuestionError(
            "{argument} is missing: with {epochs} the answer is a batch size, which they are made of.",
            argument="dataset_size",
        )
    setting.with_rate(0.5).run()  # raises if anything else is missing

    def make_run(sampling_rate: float) -> Run:
        return (spent or Run()) + setting.with_rate(sampling_rate).run()

    def ask(by: str) -> Values:
        if dataset is not None and setting.epochs is not None:
            plan = plan_batch_size(make_run, dataset, epsilon=epsilon, delta=delta, method=by)
            rounds = setting.with_rate(plan.value / dataset).total_rounds()
            found: Values = {"sampling_rate": plan.value / dataset, "batch_size": int(plan.value), "rounds": rounds}
        else:
            plan = plan_sampling_rate(make_run, epsilon=epsilon, delta=delta, method=by)
            found = {"sampling_rate": plan.value}
            if dataset is not None:  # as many rounds at a rate that is no higher cost no more
                found["batch_size"] = math.floor(Fraction(plan.value) * dataset)
                if not found["batch_size"]:
                    raise InfeasibleError
        return found | {"epsilon": plan.epsilon, "delta": delta}

    def why(by: str) -> InfeasibleError:
        if dataset is not None and (setting.epochs is not None or dataset * LEAST_RATE <= 1):
            return InfeasibleError(
                f"Not even batches of one out of {dataset:,} meet ε = {epsilon:g} at δ = {delta:g}.",
                advice="Raise ε or δ, add noise, or plan fewer rounds.",
            )
        cost = make_run(LEAST_RATE).epsilon(delta=delta, method=by)
        what = f"sampling rate down to {LEAST_RATE:g}"
        return _out_of_reach(what, epsilon, delta, cost, "add noise, plan fewer rounds")

    asked = _explained(ask, why, RATE, epsilon=epsilon, delta=delta, spent=spent)
    rows = rows_by(chosen(method, METHODS), asked, RATE, of=make_run(0.5), known=known)
    best = tightest(rows)
    batch = best.values.get("batch_size")
    meant = f" (batches of {batch:,} out of {dataset:,})" if batch is not None else ""
    chosen_rate = setting.with_rate(float(best.values["sampling_rate"] or 0.0))
    times = _rounds(chosen_rate.total_rounds(), chosen_rate)
    sentence = (
        f"A sampling rate of {RATE.text(float(best.values['sampling_rate'] or 0.0))}{meant} keeps {times} within "
        f"ε = {plain(epsilon)} at δ = {plain(delta)}"
    )
    sentence += by_bound(best) + compared_with_balle(rows, best, RATE, "Rényi accountants (Balle's bound) stop at {}")
    inputs = {"epsilon": epsilon, "delta": delta, **setting.given()}
    return answers_of("rate", inputs, RATE, rows, sentence, of=setting.with_rate(0.5).step(), spent=spent)


def _rounds(rounds: int, setting: Setting) -> str:
    """The rounds, and the epochs that were asked about."""
    epochs = "" if setting.epochs is None else f" ({_epochs(plain(setting.epochs), setting)})"
    return counted(rounds, "round") + epochs


def _epochs(epochs: str, setting: Setting) -> str:
    """The epochs, and what an epoch is."""
    return f"{epochs} epoch{'' if epochs == '1' else 's'} of {counted(setting.batches_per_epoch() or 0, 'batch')}"


def _budget(epsilon: float | None, delta: float | None, setting: Setting) -> tuple[float, float]:
    return needed("epsilon", epsilon, _validate.FINITE_EPSILON), needed_delta(delta, setting.dataset_size)


def _noisy(setting: Setting) -> None:
    """Raise if the mechanism has no noise multiplier, before its other parameters are checked."""
    if setting.mechanism not in NOISY_MECHANISMS:
        raise QuestionError(
            "{argument} must be one of {interval} here, got {value}: only these have a noise multiplier.",
            argument="mechanism",
            interval=", ".join(NOISY_MECHANISMS),
            value=_validate.show(setting.mechanism),
        )


def _explained(
    ask: Callable[[str], Values],
    why: Callable[[str], InfeasibleError],
    quantity: Quantity,
    *,
    epsilon: float,
    delta: float,
    spent: Run | None,
) -> Callable[[str], Values]:
    """The same question, which says why nothing meets the budget: because of what was spent before, or else `why`."""

    def asked(by: str) -> Values:
        try:
            return ask(by)
        except InfeasibleError:
            before = 0.0 if spent is None else spent.epsilon(delta=delta, method=by)
            if before <= epsilon:
                raise why(by) from None
            raise InfeasibleError(
                f"No {quantity.title} meets ε = {epsilon:g} at δ = {delta:g}: what was spent before costs "
                f"ε = {EPSILON.text(before)} by itself.",
                advice="Raise ε or δ.",
            ) from None

    return asked


def _out_of_reach(what: str, epsilon: float, delta: float, cost: float, remedies: str) -> InfeasibleError:
    """That no value of a parameter meets the budget, `cost` at the end of its range, and what would help."""
    advice = f"Raise ε or δ, {remedies}, or leave out what costs that much by itself."
    if not delta and cost == math.inf:
        advice = "The loss of this noise has no largest value, so at δ = 0 no ε holds. Choose δ above 0."
    return InfeasibleError(
        f"No {what} meets ε = {epsilon:g} at δ = {delta:g}: there ε is still {cost:.6g}.", advice=advice
    )


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


def run_of(setting: Setting, run: Run | None = None) -> Run:
    """The run that a setting describes, or the one that is given in its place."""
    return _run(setting, run)[0]


def _alone(setting: Setting) -> None:
    """Raise if a setting says anything in addition to a run, which says it all."""
    for name in setting.given():
        if name != "mechanism" or setting.mechanism != "gaussian":
            raise QuestionError("{argument} has no place here: the run is given already.", argument=name)


def _derived(setting: Setting) -> dict[str, object]:
    """The inputs, with the sampling rate and the rounds that follow from them."""
    inputs = setting.given()
    if (sampling_rate := setting.rate()) is not None:
        inputs["sampling_rate"] = sampling_rate
    if setting.epochs is not None:
        inputs["rounds"] = setting.total_rounds()
    if setting.rounds_of_step > 1:
        inputs["rounds_per_epoch"] = setting.rounds_of_step
    return inputs
