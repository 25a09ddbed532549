"""Each way to choose a batch has a word, and every face asks by it."""

from __future__ import annotations

import json

import pytest

from dprounds import (
    FixedSizeSampled,
    Gaussian,
    ParameterError,
    PoissonSampled,
    RandomAllocation,
    Shuffled,
    TruncatedPoissonSampled,
    UnsupportedError,
    questions,
)
from dprounds.cli import main
from dprounds.questions import QuestionError, Setting
from dprounds.questions.vocabulary import BRACKETED_SAMPLINGS, RELATIONS_OF_SAMPLINGS, SAMPLINGS, WORDS
from dprounds.questions.wording import SAMPLINGS_IN_WORDS
from dprounds.sweep import grid_from_toml
from dprounds.web.asked import answer

BATCHES = {"noise_multiplier": 2.0, "batch_size": 100, "dataset_size": 1_050}


@pytest.mark.parametrize(
    ("words", "run"),
    [
        ({}, PoissonSampled(Gaussian(2.0), 100 / 1050) * 22),
        ({"sampling": "poisson", "group_size": 3}, PoissonSampled(Gaussian(2.0), 100 / 1050, group_size=3) * 22),
        ({"relation": "zero-out"}, PoissonSampled(Gaussian(2.0), 100 / 1050, relation="zero-out") * 22),
        ({"sampling": "allocation"}, RandomAllocation(Gaussian(2.0), 11) * 2),
        ({"sampling": "allocation", "group_size": 3}, RandomAllocation(Gaussian(2.0), 11, group_size=3) * 2),
        ({"sampling": "fixed-size", "group_size": 3}, FixedSizeSampled(Gaussian(2.0), 100, 1050, group_size=3) * 22),
        ({"sampling": "shuffled", "group_size": 3}, Shuffled(Gaussian(2.0), 11, group_size=3) * 2),
        ({"sampling": "shuffled"}, Shuffled(Gaussian(2.0), 11) * 2),
        ({"sampling": "shuffled", "relation": "replace-one"}, Shuffled(Gaussian(2.0), 11, relation="replace-one") * 2),
        ({"largest_batch": 130}, TruncatedPoissonSampled(Gaussian(2.0), 100 / 1050, 130, 1050) * 22),
        (
            {"sampling": "truncated", "largest_batch": 130, "relation": "replace-one"},
            TruncatedPoissonSampled(Gaussian(2.0), 100 / 1050, 130, 1050, relation="replace-one") * 22,
        ),
        ({"sampling": "fixed-size"}, FixedSizeSampled(Gaussian(2.0), 100, 1050) * 22),
        (
            {"sampling": "fixed-size", "relation": "zero-out"},
            FixedSizeSampled(Gaussian(2.0), 100, 1050, relation="zero-out") * 22,
        ),
    ],
)
def test_a_word_for_each_loader(words: dict[str, object], run: object) -> None:
    setting = Setting(**BATCHES, epochs=2, **words)  # type: ignore[arg-type]
    assert setting.run() == run
    assert setting.resolved().run() == run
    assert setting.total_rounds() == 22


def test_loaders_by_epochs_count_rounds_and_whole_epochs() -> None:
    setting = Setting(**BATCHES, sampling="allocation", rounds=23)  # type: ignore[arg-type]
    assert setting.run() == RandomAllocation(Gaussian(2.0), 11) * 3  # part of an epoch counts as one
    assert setting.rounds_of_step == 11
    found = questions.rounds(Setting(**BATCHES, sampling="allocation"), epsilon=3.0, delta=1e-5, method="exact")  # type: ignore[arg-type]
    rounds, epochs = found.best.values["rounds"], found.best.values["epochs"]
    assert rounds == 11 * int(epochs or 0)
    cost = (RandomAllocation(Gaussian(2.0), 11) * int(epochs or 0)).epsilon(delta=1e-5)
    assert cost <= 3.0 < (RandomAllocation(Gaussian(2.0), 11) * (int(epochs or 0) + 1)).epsilon(delta=1e-5)
    assert f"{rounds:,} rounds ({epochs:g} epochs of 11 batches)" in found.sentence


def test_answers_say_what_they_hold_for_and_how_far_the_truth_may_be() -> None:
    fixed = questions.epsilon(Setting(**BATCHES, sampling="fixed-size", epochs=2), delta=1e-5, method="exact")  # type: ignore[arg-type]
    assert (fixed.relation, fixed.sampling) == ("replace-one", "fixed-size")
    assert "a proven bound; the truth is at least" in fixed.sentence
    assert "22 rounds" in fixed.sentence
    shuffled = questions.epsilon(Setting(**BATCHES, sampling="shuffled", epochs=2), delta=1e-5, method="exact")  # type: ignore[arg-type]
    allocated = (RandomAllocation(Gaussian(2.0), 11) * 2).epsilon(delta=1e-5)
    assert f"(allocation), the same batches cost ε = {questions.wording.EPSILON.text(allocated)}" in shuffled.remarks[0]
    group = questions.epsilon(Setting(**BATCHES, group_size=4, epochs=2), delta=1e-5, method="exact")  # type: ignore[arg-type]
    assert "add or remove the records of one person, up to 4 of them" in group.holds_for


def test_every_face_takes_the_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(SAMPLINGS) - {"none"} == set(SAMPLINGS_IN_WORDS)
    assert WORDS["sampling"].choices == tuple(SAMPLINGS)
    asked = {**BATCHES, "sampling": "fixed-size", "relation": "zero-out", "rounds": 5, "delta": 1e-5, "method": "exact"}
    said = answer("epsilon", dict(asked))
    assert (said["sampling"], said["relation"]) == ("fixed-size", "zero-out")
    flags = [text for name, value in asked.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    assert main(["epsilon", *flags, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"] == said["answers"]
    grid = grid_from_toml(
        """
        question = "epsilon"
        methods = ["exact"]
        [grid]
        sampling = ["poisson", "fixed-size", "shuffled", "allocation"]
        noise_multiplier = 2.0
        batch_size = 100
        dataset_size = 1050
        epochs = 2
        delta = 1e-5
        """
    )
    assert len(grid) == 4


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ({**BATCHES, "sampling": "none"}, "batch_size has no place here: with sampling none every round"),
        ({"noise_multiplier": 2.0, "sampling": "none", "relation": "zero-out"}, "relation has no place here"),
        ({"noise_multiplier": 2.0, "sampling": "shuffled"}, "batch_size is missing: sampling shuffled needs"),
        ({"noise_multiplier": 2.0, "sampling": "fixed-size", "sampling_rate": 0.1}, "sampling_rate has no place here"),
        ({"noise_multiplier": 2.0, "group_size": 2}, "group_size has no place here"),
        ({**BATCHES, "sampling": "truncated"}, "largest_batch is missing: with sampling truncated the cost depends"),
        (
            {"noise_multiplier": 2.0, "sampling_rate": 0.1, "largest_batch": 20},
            "dataset_size is missing: with sampling truncated the cost depends",
        ),
        ({**BATCHES, "sampling": "shuffled", "largest_batch": 130}, "largest_batch has no place here: only sampling"),
        ({**BATCHES, "largest_batch": 0}, "largest_batch must be an integer"),
        ({**BATCHES, "largest_batch": 130, "group_size": 2}, "group_size has no place here"),
        ({**BATCHES, "sampling": "cyclic"}, "sampling must be one of"),
        ({**BATCHES, "group_size": 0}, "group_size must be an integer"),
        ({**BATCHES, "sampling": "fixed-size", "relation": "add-remove"}, "relation must be one of"),
        ({**BATCHES, "sampling": "fixed-size", "batch_size": 2000}, "batch_size must be at most the dataset_size"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_one_line(words: dict[str, object], refusal: str) -> None:
    with pytest.raises(ParameterError, match=refusal):
        Setting(**words, rounds=3).run()  # type: ignore[arg-type]


def test_loaders_of_other_noise_and_other_questions_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="use a Gaussian"):
        Setting(**BATCHES, mechanism="laplace", sampling="shuffled", rounds=3).run()  # type: ignore[arg-type]
    with pytest.raises(QuestionError, match="sampling must be poisson here, got shuffled"):
        questions.rate(
            Setting(noise_multiplier=2.0, sampling="shuffled", rounds=3), epsilon=1.0, delta=1e-5, method="exact"
        )


@pytest.mark.parametrize("loader", ["poisson", "allocation", "fixed-size", "shuffled"])
def test_curves_answer_for_every_loader_in_rounds(loader: str) -> None:
    words = {**BATCHES, "noise_multiplier": 8.0, "sampling": loader}
    step, each = Setting(**words).step(), Setting(**words).rounds_of_step  # type: ignore[arg-type]
    assert each == (11 if loader in ("allocation", "shuffled") else 1)
    curve = answer("curve", {**words, "delta": 1e-5, "last": 30, "points": 3, "method": "exact"})
    assert curve["answers"][-1]["rounds"] == (33 if each == 11 else 30)  # part of an epoch counts as one
    for row in curve["answers"]:
        run = step * (row["rounds"] // each)
        own = run.guarantee(delta=1e-5, method="exact")
        assert row["rounds"] % each == 0
        # where integrals of profiles bound it, two places from which they are taken may be equally good
        assert own.lower <= row["epsilon"] <= own.upper * (1 + 1e-3)
        assert row["epsilon"] >= own.upper * (1 - (1e-9 if own.method == "exact" else 1e-7))
    run = step * (44 // each)
    attack = answer("trade-off", {**words, "rounds": 44, "points": 5})
    assert attack["inputs"]["rounds"] == 44
    assert run.delta(epsilon=0.0) * (1 - 1e-6) <= attack["advantage"] <= run.delta(epsilon=0.0) * (1 + 1e-3)
    profile = answer("profile", {**words, "epochs": 4, "points": 3, "method": "exact"})
    assert profile["sentence"].startswith("δ over ε of 44 rounds")


def test_the_relations_of_a_loader_are_those_that_it_takes() -> None:
    for loader, relations in RELATIONS_OF_SAMPLINGS.items():
        batches = {**BATCHES, "largest_batch": 110} if loader == "truncated" else BATCHES
        for relation in WORDS["relation"].choices:
            setting = Setting(**batches, sampling=loader, relation=relation)  # type: ignore[arg-type]
            if relation in relations:
                assert setting.step().relation == relation
            else:
                with pytest.raises((ParameterError, UnsupportedError)):
                    setting.step()
        if relations:
            setting = Setting(**batches, sampling=loader)  # type: ignore[arg-type]
            assert setting.step().relation == relations[0]
            found = (setting.step() * 3).guarantee(delta=1e-5)
            assert (found.method == "bound") == (loader in BRACKETED_SAMPLINGS)


@pytest.mark.parametrize("loader", ["poisson", "allocation", "fixed-size", "shuffled"])
def test_the_least_noise_is_found_for_every_loader(loader: str) -> None:
    setting = Setting(batch_size=100, dataset_size=1_050, sampling=loader, epochs=2)
    found = questions.noise(setting, epsilon=1.0, delta=1e-5, method="exact")
    noise = float(found.best.values["noise_multiplier"] or 0.0)
    assert setting.with_noise(noise).run().epsilon(delta=1e-5) <= 1.0
    assert setting.with_noise(noise * (1 - 2e-6)).run().epsilon(delta=1e-5) > 1.0


@pytest.mark.parametrize("sampling", ["allocation", "shuffled"])
@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--sampling-rate", "1e-12"], "--sampling-rate"),
        (["--batch-size", "1", "--dataset-size", "100000000000"], "--batch-size"),
    ],
)
def test_an_epoch_of_too_many_batches_is_refused_by_the_flag_that_was_typed(
    sampling: str, flags: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["epsilon", "--sampling", sampling, *flags, "--noise-multiplier", "1", "--epochs", "1", "--delta", "1e-5"]
    assert main(words) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said == f"Error: {named} is too small: an epoch of --sampling {sampling} has at most 1,000,000,000 batches."
