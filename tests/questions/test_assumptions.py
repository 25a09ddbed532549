"""Every answer names the neighbours and the sampling that it holds for, and remarks on a δ that protects nobody."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from dprounds import (
    Accountant,
    Gaussian,
    Guarantee,
    Laplace,
    ParameterError,
    PoissonSampled,
    RandomizedResponse,
    UnsupportedError,
    questions,
)
from dprounds.mechanisms import Mechanism, Run
from dprounds.mechanisms.accounted import RUN_METHODS
from dprounds.mechanisms.base import RELATIONS
from dprounds.numerics.complex_plane import Numbers
from dprounds.questions import QuestionError, Setting
from dprounds.questions.vocabulary import METHODS
from dprounds.questions.wording import (
    RELATIONS_IN_WORDS,
    delta_remark,
    holds_for,
    suggested_delta,
)

SAMPLED = PoissonSampled(Gaussian(1.1), 0.01)


@dataclass(frozen=True, repr=False)
class Replaced(Mechanism):
    """A randomized response whose guarantee is for one record replaced, or for whatever it is told."""

    word: str = "replace-one"

    @property
    def relation(self) -> str:
        return self.word

    def _log_moment(self, z: Numbers, direction: str) -> Numbers:
        return RandomizedResponse(1.0)._log_moment(z, direction)

    def _max_loss(self, direction: str) -> float:
        return 1.0


def test_a_step_knows_its_neighbours_and_its_sampling() -> None:
    assert (SAMPLED.relation, SAMPLED.sampling) == ("add-remove", "poisson")
    assert (Gaussian(1.0).relation, Gaussian(1.0).sampling) == (None, None)
    run = SAMPLED * 3 + Laplace(2.0)
    assert (run.relation, run.sampling) == ("add-remove", "poisson")
    assert (Run().relation, Run().sampling) == (None, None)
    assert set(RELATIONS_IN_WORDS) == set(RELATIONS)


@pytest.mark.parametrize("method", [None, *RUN_METHODS])
def test_a_guarantee_says_what_it_holds_for(method: str | None) -> None:
    found = (SAMPLED * 100).guarantee(delta=1e-5, method=method)
    assert (found.relation, found.sampling) == ("add-remove", "poisson")
    found = (Gaussian(5.0) * 100).guarantee(delta=1e-5, method=method)
    assert (found.relation, found.sampling) == (None, None)


def test_a_guarantee_can_still_be_made_without_them() -> None:
    made = Guarantee(epsilon=1.0, delta=1e-5, method="exact", order=None, lower=0.9, upper=1.0)
    assert (made.relation, made.sampling) == (None, None)


def test_parts_with_different_neighbours_do_not_add_up() -> None:
    assert (Replaced() * 2 + Laplace(2.0)).relation == "replace-one"
    with pytest.raises(UnsupportedError, match=r"cannot be added up: .* by add-remove, the second by replace-one"):
        SAMPLED + Replaced()
    assert (SAMPLED * 3 + Replaced() * 0).relation == "add-remove"  # nothing of it is released
    with pytest.raises(ParameterError, match="relation must be one of"):
        Replaced("swap") * 2


def test_a_poisson_sample_may_speak_of_an_empty_record_instead_of_an_absent_one() -> None:
    emptied = PoissonSampled(Gaussian(1.1), 0.01, relation="zero-out")
    assert emptied.relation == (emptied * 3).relation == "zero-out"
    assert repr(emptied) == "PoissonSampled(Gaussian(1.1), sampling_rate=0.01, relation='zero-out')"
    assert repr(SAMPLED) == "PoissonSampled(Gaussian(1.1), sampling_rate=0.01)"
    for method in RUN_METHODS:
        found, same = ((step * 100).guarantee(delta=1e-5, method=method) for step in (emptied, SAMPLED))
        assert (found.epsilon, found.relation) == (same.epsilon, "zero-out")
    with pytest.raises(UnsupportedError, match=r"by add-remove, the second by zero-out"):
        SAMPLED + emptied
    with pytest.raises(ParameterError, match=r"relation must be one of .add-remove., .zero-out., .replace-one."):
        PoissonSampled(Gaussian(1.1), 0.01, relation="swap")


def test_files_of_an_accountant_name_the_relation_and_old_ones_mean_what_they_meant() -> None:
    for step in (SAMPLED, PoissonSampled(Laplace(1.0), 0.5, relation="zero-out"), Gaussian(2.0)):
        accountant = Accountant()
        accountant.record(step, rounds=7)
        written = json.loads(accountant.to_json())
        assert written["relation"] == step.relation
        assert Accountant.from_json(json.dumps(written)).run == step * 7
        written["relation"] = "replace-one"
        with pytest.raises(ParameterError, match="must have the relation of its parts"):
            Accountant.from_json(json.dumps(written))
    old = {
        "format": "dprounds.accountant",
        "version": 1,
        "parts": [
            {
                "mechanism": {
                    "name": "PoissonSampled",
                    "mechanism": {"name": "Gaussian", "noise_multiplier": 1.1},
                    "sampling_rate": 0.01,
                },
                "rounds": 7,
            }
        ],
    }
    restored = Accountant.from_json(json.dumps(old))
    assert restored.run == SAMPLED * 7
    assert restored.guarantee(delta=1e-5).relation == "add-remove"
    del old["parts"][0]["mechanism"]["sampling_rate"]  # type: ignore[index]
    with pytest.raises(ParameterError, match="must hold exactly"):
        Accountant.from_json(json.dumps(old))


def test_an_accountant_refuses_them_before_it_records() -> None:
    accountant = Accountant()
    accountant.record(Laplace(1.0))
    accountant.record(SAMPLED)
    for rounds in (1, 2):
        with pytest.raises(UnsupportedError, match="cannot be added up"):
            accountant.record(Replaced(), rounds=rounds)
    assert accountant.run == SAMPLED + Laplace(1.0)


def test_json_names_both_and_says_it_in_words() -> None:
    sampled = Setting(noise_multiplier=1.1, sampling_rate=0.01, rounds=10)
    for found in (
        questions.epsilon(sampled, delta=1e-5, method="balle"),
        questions.delta(sampled, epsilon=1.0, method="balle"),
        questions.rounds(Setting(noise_multiplier=1.1, sampling_rate=0.01), epsilon=1.0, delta=1e-5, method="balle"),
        questions.noise(Setting(sampling_rate=0.01, rounds=10), epsilon=1.0, delta=1e-5, method="balle"),
        questions.rate(Setting(noise_multiplier=1.1, rounds=10), epsilon=1.0, delta=1e-5, method="balle"),
    ):
        said = found.to_dict()
        assert (said["relation"], said["sampling"]) == ("add-remove", "poisson")
        assert "add or remove one record" in said["holds_for"]
        assert "Poisson sampling" in said["holds_for"]
    plain = questions.epsilon(Setting(noise_multiplier=1.1, rounds=10), delta=1e-5, method="balle").to_dict()
    assert (plain["relation"], plain["sampling"]) == (None, None)
    assert "sensitivity" in plain["holds_for"]
    pure = questions.epsilon(Setting(mechanism="pure-dp", step_epsilon=1, rounds=2), delta=1e-5, method="balle")
    assert pure.holds_for == "Holds for the neighbours for which the guarantee of a round holds."
    assert "Rényi bound" in questions.convert(order=8.0, rdp=0.5, delta=1e-5).holds_for


def test_unsampled_parts_must_have_been_bounded_for_the_same_neighbours() -> None:
    mixed = questions.epsilon(Setting(), delta=1e-5, run=SAMPLED * 2 + Laplace(2.0), method="balle")
    assert mixed.holds_for.endswith("must have been bounded for the same neighbours.")
    spent = questions.rounds(Setting(noise_multiplier=9.0), epsilon=3.0, delta=1e-5, method="balle", spent=SAMPLED * 2)
    assert (spent.relation, spent.sampling) == ("add-remove", "poisson")


def test_a_delta_of_one_over_the_records_is_remarked_on() -> None:
    assert delta_remark(1e-5, 60_000) is None
    assert delta_remark(1e-5, None) is None
    for delta in (1e-4, 1 / 4096):
        assert "is not below" in str(delta_remark(delta, 4096 if delta > 1e-4 else 10_000))
    setting = Setting(noise_multiplier=1.1, batch_size=256, dataset_size=4096)
    found = questions.rounds(setting, epsilon=1.0, delta=1 / 4096, method="balle")
    assert len(found.remarks) == 1
    assert found.to_dict()["remarks"] == list(found.remarks)
    assert "such as 0.0001" in found.remarks[0]
    assert questions.rounds(setting, epsilon=1.0, delta=1e-5, method="balle").remarks == ()
    costly = Setting(noise_multiplier=0.5, batch_size=256, dataset_size=4096, rounds=1000)
    assert "is not below 1/4,096" in questions.delta(costly, epsilon=0.1, method="balle").remarks[0]


@pytest.mark.parametrize("size", [1, 9, 10, 99_999, 100_000, 100_001, 10**17])
def test_the_suggested_delta_is_below_one_over_the_records(size: int) -> None:
    assert delta_remark(suggested_delta(size), size) is None
    assert 10 * suggested_delta(size) * size >= 1 - 1e-12


def test_who_gives_no_delta_is_told_which_to_choose() -> None:
    setting = Setting(noise_multiplier=1.1, batch_size=256, dataset_size=60_000, rounds=9)
    with pytest.raises(QuestionError, match=r"delta is missing: choose it below .*, such as 1e-05 for 60,000\."):
        questions.epsilon(setting, delta=None)
    with pytest.raises(QuestionError, match=r"delta is missing: choose it below one over the number of records\."):
        questions.epsilon(Setting(noise_multiplier=1.1, rounds=9), delta=None)
    with pytest.raises(QuestionError, match="delta is missing: choose it"):
        questions.rounds(setting, epsilon=1.0, delta=None)


def test_absurdly_many_records_are_no_trouble() -> None:
    setting = Setting(noise_multiplier=1.1, batch_size=1, dataset_size=10**6000, rounds=9)
    assert questions.epsilon(setting, delta=0.5, method="balle").remarks == ()


def test_every_method_is_explained() -> None:
    assert tuple(METHODS) == RUN_METHODS


def test_a_sampling_of_ones_own_is_named_as_it_is() -> None:
    assert holds_for("replace-one", "cyclic") == "Holds for: replace one record, cyclic."


def test_the_words_load_nothing_of_the_library() -> None:
    code = "import sys, dprounds.questions.wording; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
