"""Each answer is the library's own, digit for digit; the table is ordered; the sentence stays true."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from dprounds import (
    ZCDP,
    Gaussian,
    InfeasibleError,
    Laplace,
    ParameterError,
    PoissonSampled,
    delta_from_rdp,
    epsilon_from_rdp,
    max_rounds,
    max_sampling_rate,
    min_noise_multiplier,
    questions,
    rdp_from_dp,
)
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.planning import Plan
from dprounds.questions import QuestionError, Setting, ask

DELTA = 1e-5
SGD = Setting(noise_multiplier=1.1, batch_size=256, dataset_size=60_000)
STEP = PoissonSampled(Gaussian(1.1), 256 / 60_000)
TRAINED = Setting(noise_multiplier=1.1, batch_size=256, dataset_size=60_000, rounds=1000)


def by_method(found: questions.Answers, name: str) -> dict[str, object]:
    """A column of the JSON that was printed and read again."""
    return {row["method"]: row.get(name) for row in json.loads(found.to_json())["answers"]}


def test_rounds_are_those_of_max_rounds() -> None:
    found = questions.rounds(SGD, epsilon=1.0, delta=DELTA)
    own = {method: max_rounds(STEP, epsilon=1.0, delta=DELTA, method=method) for method in RUN_METHODS}
    assert by_method(found, "rounds") == own
    assert by_method(found, "epsilon") == {m: (STEP * n).epsilon(delta=DELTA, method=m) for m, n in own.items()}
    assert str(f"{own['exact']:,} rounds") in found.sentence


def test_epsilon_and_delta_are_those_of_the_run() -> None:
    run = STEP * 1000
    found = questions.epsilon(TRAINED, delta=DELTA)
    assert by_method(found, "epsilon") == {m: run.epsilon(delta=DELTA, method=m) for m in RUN_METHODS}
    assert by_method(found, "order") == {m: run.guarantee(delta=DELTA, method=m).order for m in RUN_METHODS}
    found = questions.delta(TRAINED, epsilon=1.0)
    assert by_method(found, "delta") == {m: run.delta(epsilon=1.0, method=m) for m in RUN_METHODS}


@pytest.mark.parametrize("method", ["balle", "exact"])
def test_noise_and_rate_are_those_of_planning(method: str) -> None:
    setting = Setting(batch_size=256, dataset_size=60_000, rounds=1000)
    own = min_noise_multiplier(
        lambda s: PoissonSampled(Gaussian(s), 256 / 60_000) * 1000, epsilon=1.0, delta=DELTA, method=method
    )
    found = questions.noise(setting, epsilon=1.0, delta=DELTA, method=method)
    assert by_method(found, "noise_multiplier") == {method: own}
    setting = Setting(noise_multiplier=1.1, dataset_size=60_000, rounds=1000)
    own = max_sampling_rate(lambda q: PoissonSampled(Gaussian(1.1), q) * 1000, epsilon=1.0, delta=DELTA, method=method)
    found = questions.rate(setting, epsilon=1.0, delta=DELTA, method=method)
    assert by_method(found, "sampling_rate") == {method: own}
    assert by_method(found, "batch_size") == {method: math.floor(own * 60_000)}


@pytest.mark.parametrize(
    ("noise", "dataset", "epochs", "epsilon"),
    [(1.1, 60_000, 5, 1.0), (4.0, 20, 3, 1.5), (3.0, 10, 2, 1.0), (5.0, 1000, 2, 1.0), (2.0, 50, 7, 4.0)],
)
def test_the_batch_for_so_many_epochs_meets_the_budget(noise: float, dataset: int, epochs: int, epsilon: float) -> None:
    """Fewer records in a batch make more rounds of an epoch, so the rate cannot just be rounded down to a batch."""
    setting = Setting(noise_multiplier=noise, dataset_size=dataset, epochs=epochs)
    found = questions.rate(setting, epsilon=epsilon, delta=DELTA, method="optimal").best.values
    assert found["sampling_rate"] == (found["batch_size"] or 0) / dataset
    trained = replace(setting, batch_size=found["batch_size"])
    assert trained.run().epsilon(delta=DELTA, method="optimal") == found["epsilon"]
    assert (found["epsilon"] or math.inf) <= epsilon


def test_a_rate_that_samples_nobody_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="Not even batches of one out of 10"):
        questions.rate(Setting(noise_multiplier=0.5, dataset_size=10, rounds=10**6), epsilon=1.0, delta=DELTA)
    with pytest.raises(QuestionError, match="dataset_size is missing"):
        questions.rate(Setting(noise_multiplier=1.0, epochs=3), epsilon=1.0, delta=DELTA)


def test_a_sentence_states_the_budget_with_all_its_digits() -> None:
    found = questions.rounds(Setting(noise_multiplier=20.0), epsilon=6.0000049, delta=1.0000049e-5, method="optimal")
    assert "ε = 6.0000049 at δ = 1.0000049e-05" in found.sentence


def test_conversions_are_the_librarys() -> None:
    methods = ("moments", "balle", "closed-form", "optimal")
    found = questions.convert(order=8.0, rdp=0.5, delta=DELTA)
    assert by_method(found, "epsilon") == {m: epsilon_from_rdp(0.5, order=8.0, delta=DELTA, method=m) for m in methods}
    found = questions.convert(order=8.0, rdp=0.5, epsilon=1.0)
    assert by_method(found, "delta") == {m: delta_from_rdp(0.5, order=8.0, epsilon=1.0, method=m) for m in methods}
    found = questions.convert(order=8.0, epsilon=1.0, delta=DELTA)
    assert by_method(found, "rdp") == {m: rdp_from_dp(1.0, order=8.0, delta=DELTA, method=m) for m in methods}


def test_changes_are_differences_from_the_other_methods() -> None:
    rows = {row.method: row.values for row in questions.rounds(SGD, epsilon=1.0, delta=DELTA).answers}
    for method, values in rows.items():
        for base in {"moments", "balle"} - {method}:
            difference = int(values["rounds"] or 0) - int(rows[base]["rounds"] or 0)
            assert values[f"change_from_{base}"] == difference


def test_infinity_is_text_in_json() -> None:
    hopeless = Setting(mechanism="approximate-dp", step_epsilon=0.1, step_delta=1e-3, rounds=5)
    found = questions.epsilon(hopeless, delta=DELTA)
    assert set(by_method(found, "epsilon").values()) == {"inf"}
    assert "No ε is proven" in found.sentence


def test_a_method_without_an_answer_says_why_in_its_row() -> None:
    found = questions.rounds(Setting(mechanism="zcdp", rho=0.01), epsilon=1.0, delta=DELTA)
    errors = {method: error for method, error in by_method(found, "error").items() if error}
    assert list(errors) == ["exact"]
    assert found.best.method == "optimal"
    assert found.best.values["rounds"] == max_rounds(ZCDP(0.01), epsilon=1.0, delta=DELTA)
    assert "by the optimal bound" in found.sentence


def test_one_round_may_be_a_whole_run_beside_what_is_spent() -> None:
    step, spent = Gaussian(20.0) * 2 + Gaussian(30.0), Gaussian(10.0) * 5
    found = questions.rounds(Setting(), epsilon=3.0, delta=DELTA, method="exact", run=step, spent=spent)
    assert found.best.values["rounds"] == max_rounds(step, epsilon=3.0, delta=DELTA, method="exact", spent=spent)
    assert found.inputs["spent"] == repr(spent)


def test_a_question_that_lacks_something_says_what() -> None:
    with pytest.raises(QuestionError, match="epsilon is missing"):
        questions.rounds(SGD, epsilon=None, delta=DELTA)
    with pytest.raises(QuestionError, match="rounds has no place here"):
        questions.rounds(TRAINED, epsilon=1.0, delta=DELTA)
    with pytest.raises(QuestionError, match="noise_multiplier has no place here"):
        questions.noise(TRAINED, epsilon=1.0, delta=DELTA)
    with pytest.raises(QuestionError, match="batch_size has no place here"):
        questions.rate(TRAINED, epsilon=1.0, delta=DELTA)
    with pytest.raises(QuestionError, match="noise_multiplier has no place here: the run is given"):
        questions.epsilon(SGD, delta=DELTA, run=STEP * 2)
    with pytest.raises(QuestionError, match="Two of rdp, epsilon and delta"):
        questions.convert(order=8.0, rdp=0.5)
    with pytest.raises(QuestionError, match="batch_size is missing"):
        questions.rounds(Setting(noise_multiplier=1.0, dataset_size=60_000), epsilon=1.0, delta=DELTA)


@pytest.mark.parametrize("words", [{"rho": 1.0}, {}, {"mechanism": "magic"}, {"mechanism": 3}])
@pytest.mark.parametrize("ask", [questions.noise, questions.rate])
def test_a_mechanism_without_noise_is_told_which_have_some(ask: Any, words: dict[str, Any]) -> None:
    given: dict[str, Any] = {"mechanism": "zcdp", "rounds": 3} | words
    with pytest.raises(
        QuestionError, match="mechanism must be one of gaussian, laplace, discrete-gaussian, discrete-laplace here, got"
    ):
        ask(Setting(**given), epsilon=1.0, delta=DELTA)


@pytest.mark.parametrize("bad", [math.nan, -1.0, math.inf, "1", None])
def test_a_budget_that_is_none_is_refused(bad: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        questions.rounds(SGD, epsilon=bad, delta=DELTA)
    with pytest.raises(ParameterError, match="delta"):
        questions.rounds(SGD, epsilon=1.0, delta=bad)


@pytest.mark.parametrize(
    ("beyond", "end"), [(1.01, ", not one more."), (1.0, ", no more are proven."), (None, ", no more are proven.")]
)
def test_not_one_more_is_said_only_where_one_more_is_proven_to_exceed(
    beyond: float | None, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "plan_rounds", lambda *step, **budget: Plan(9, 0.9, beyond))
    found = questions.rounds(SGD, epsilon=1.0, delta=DELTA, method="exact")
    assert found.sentence.endswith(end)
    assert found.best.values.get("beyond") == beyond
    monkeypatch.setattr(ask, "plan_rounds", lambda *step, **budget: Plan(0, 0.0, beyond))
    found = questions.rounds(SGD, epsilon=1.0, delta=DELTA, method="exact")
    fits = "fits" if beyond == 1.01 else "is proven to fit"
    assert found.sentence == f"Not one round {fits} within ε = 1 at δ = 1e-05."


def test_a_budget_inside_the_bracket_of_one_more_round_is_no_proof() -> None:
    step = PoissonSampled(Gaussian(1.0), 0.01)
    ten = (step * 10).guarantee(delta=DELTA, method="exact")
    within = (ten.lower + ten.upper) / 2
    assert ten.lower < within < ten.upper
    found = questions.rounds(Setting(noise_multiplier=1.0, sampling_rate=0.01), epsilon=within, delta=DELTA)
    assert found.best.values["rounds"] == 9
    assert found.best.values["beyond"] == ten.lower
    assert "(0.09 epochs of 100 batches) within" in found.sentence
    assert "no more are proven;" in found.sentence
    assert "beyond" not in found.answers[0].values


def test_balles_bound_is_named_for_what_it_is_and_only_where_it_reads_differently() -> None:
    found = questions.epsilon(TRAINED, delta=DELTA)
    assert "; Rényi accountants (Balle's bound) report " in found.sentence
    rho = Setting(mechanism="zcdp", rho=0.1, rounds=3)
    rows = {row.method: row.values for row in questions.epsilon(rho, delta=DELTA).answers}
    assert rows["balle"]["epsilon"] != rows["optimal"]["epsilon"]
    assert questions.epsilon(rho, delta=DELTA).sentence.endswith(" by the optimal bound.")


def test_an_infeasible_plan_quotes_the_tightest_method() -> None:
    hopeless = Setting(mechanism="laplace", rounds=10**18)
    errors = []
    for method in ("moments", "optimal", "exact", None):
        with pytest.raises(InfeasibleError, match="there ε is still") as caught:
            questions.noise(hopeless, epsilon=1e-3, delta=1e-12, method=method)
        errors.append(str(caught.value))
    assert errors[3] == errors[2] != errors[0]


SPENT = Laplace(0.1) * 1


@pytest.mark.parametrize(
    ("ask", "setting", "what"),
    [
        (questions.noise, Setting(rounds=10), "noise multiplier"),
        (questions.rate, Setting(noise_multiplier=1.0, rounds=10), "sampling rate"),
        (questions.rate, Setting(noise_multiplier=1.0, rounds=10, dataset_size=100), "sampling rate"),
    ],
)
def test_what_was_spent_before_is_blamed_where_it_leaves_nothing(ask: Any, setting: Setting, what: str) -> None:
    with pytest.raises(InfeasibleError) as caught:
        ask(setting, epsilon=3.0, delta=DELTA, spent=SPENT)
    assert str(caught.value) == (
        f"No {what} meets ε = 3 at δ = 1e-05: what was spent before costs ε = 10 by itself. Raise ε or δ."
    )
    with pytest.raises(InfeasibleError, match="fewer rounds"):  # which is what would help here
        ask(replace(setting, rounds=10**25), epsilon=3.0, delta=DELTA, spent=Laplace(1.0) * 1, method="balle")


def test_rounds_beside_too_much_spent_say_so() -> None:
    found = questions.rounds(Setting(noise_multiplier=1.0), epsilon=3.0, delta=DELTA, spent=SPENT)
    assert found.sentence.startswith("Not one round ")
    assert found.sentence.endswith(" within ε = 3 at δ = 1e-05: what was spent before costs ε = 10 by itself.")


def test_repetitions_of_a_run_are_not_called_rounds() -> None:
    step = Gaussian(20.0) * 2 + Gaussian(30.0)
    found = questions.rounds(Setting(), epsilon=3.0, delta=DELTA, method="exact", run=step)
    fit = max_rounds(step, epsilon=3.0, delta=DELTA)
    assert found.sentence.startswith(f"You may make {fit} repetitions of the run (3 rounds each) within ε = 3 at")
    assert found.to_dict()["answers"][0]["rounds"] == fit


def test_json_may_be_asked_for_without_letters_that_a_terminal_lacks() -> None:
    found = questions.epsilon(TRAINED, delta=DELTA)
    assert found.to_json(ascii_only=True).isascii()
    assert json.loads(found.to_json(ascii_only=True)) == json.loads(found.to_json())


def test_the_answer_says_how_many_rounds_the_epochs_make() -> None:
    setting = Setting(noise_multiplier=1.0, batch_size=1024, dataset_size=10_000, epochs=3)
    found = questions.epsilon(setting, delta=DELTA, method="exact")
    assert found.sentence.startswith("30 rounds (3 epochs of 10 batches) cost ε = ")
    assert found.inputs["rounds"] == 30
    noise = questions.noise(replace(setting, noise_multiplier=None), epsilon=8.0, delta=DELTA, method="exact")
    assert "keeps 30 rounds (3 epochs of 10 batches) within" in noise.sentence
    sigma = float(noise.best.values["noise_multiplier"] or 0.0)
    assert (PoissonSampled(Gaussian(sigma), 0.1024) * 30).epsilon(delta=DELTA) <= 8.0


@pytest.mark.parametrize(("noise_multiplier", "epsilon", "epochs"), [(2.0, 2.0, 2), (4.0, 1.15, 4), (3.0, 0.8, 0.75)])
def test_the_largest_batch_for_so_many_epochs_is_found(noise_multiplier: float, epsilon: float, epochs: float) -> None:
    """A larger batch that saves a round may cost less than a smaller one, so that every one is tried here."""
    n = 60
    setting = Setting(noise_multiplier=noise_multiplier, dataset_size=n, epochs=epochs)

    def cost(batch: int) -> float:
        return (
            PoissonSampled(Gaussian(noise_multiplier), batch / n) * math.ceil(epochs * math.ceil(n / batch))
        ).epsilon(delta=1e-3, method="balle")

    fitting = [batch for batch in range(1, n + 1) if cost(batch) <= epsilon]
    assert 1 < fitting[-1] < n
    assert fitting != list(range(1, fitting[-1] + 1))  # costs are not monotone
    found = questions.rate(setting, epsilon=epsilon, delta=1e-3, method="balle")
    assert found.best.values["batch_size"] == fitting[-1]
    assert found.best.values["epsilon"] == cost(fitting[-1])
    assert found.best.values["rounds"] == math.ceil(epochs * math.ceil(n / fitting[-1]))


def test_part_of_an_epoch_is_planned_in_batches_that_make_a_round() -> None:
    setting = Setting(noise_multiplier=0.8, dataset_size=1000, epochs=0.5)
    found = ask.rate(setting, epsilon=3.0, delta=1e-5, method="exact").best.values
    batch = int(found["batch_size"] or 0)
    assert 0 < batch <= 1000
    again = Setting(noise_multiplier=0.8, dataset_size=1000, batch_size=batch, epochs=0.5)
    assert ask.epsilon(again, delta=1e-5, method="exact").best.values["epsilon"] == found["epsilon"]
    assert ask.rate(setting, epsilon=90.0, delta=1e-5, method="exact").best.values["batch_size"] == 1000
