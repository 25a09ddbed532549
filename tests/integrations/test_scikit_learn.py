"""The private classifier keeps scikit-learn's conventions, and its budget."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprounds import Accountant, Gaussian, InfeasibleError, ParameterError, PoissonSampled, max_rounds

pytest.importorskip("sklearn", reason="scikit-learn is not installed: the extra 'scikit-learn'")

from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from dprounds.integrations.scikit_learn import PrivateLogisticRegression


@pytest.fixture(scope="module")
def digits() -> tuple[Any, Any, Any, Any]:
    X, y = load_digits(return_X_y=True)
    held_out = np.arange(len(y)) % 4 == 0
    return X[~held_out] / 16.0, y[~held_out], X[held_out] / 16.0, y[held_out]


def quick(**changes: Any) -> PrivateLogisticRegression:
    """Settings that need no search for noise, accounted by the method that is quickest to plan by."""
    return PrivateLogisticRegression(**{"epsilon": 3.0, "noise_multiplier": 3.0, "method": "moments", **changes})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")  # array API input needs a switch in SciPy
def test_every_check_of_scikit_learn_passes() -> None:
    """With the `random_state` that the checks set: without one no two fits agree, which is what privacy is.

    None is excused: at this budget even the checks that ask for accuracy on a few hundred records pass.
    """
    found = check_estimator(quick(rounds=100), on_skip=None)
    assert {entry["check_name"] for entry in found if entry["status"] != "passed"} <= {"check_array_api_input"}
    assert len(found) > 40


def test_one_record_more_changes_nothing_but_what_the_record_says() -> None:
    """An audit: where all features are zero, the coefficients are noise, and the same for 20 records and for 21.

    With a divisor that counted the records they differed by 5 % each, and 20,000 of them showed which number it was.
    """
    found = []
    for records in (20, 21):
        model = PrivateLogisticRegression(rounds=5, sampling_rate=0.5, classes=[0, 1], random_state=1)
        found.append(dict(vars(model.fit(np.zeros((records, 20_000)), np.arange(records) % 2))))
    first, second = found
    assert first.keys() == second.keys()
    assert (first.pop("coef_") == second.pop("coef_")).all()
    assert (first.pop("intercept_") != second.pop("intercept_")).all()  # every record contributes to the intercept
    assert (first.pop("classes_") == second.pop("classes_")).all()
    assert first == second


def test_classes_that_were_read_from_the_records_are_named(digits: tuple[Any, Any, Any, Any]) -> None:
    X, y, _, _ = digits
    assert quick(rounds=1).fit(X, y).read_from_records_ == ("classes",)
    assert quick(rounds=1, classes=range(10)).fit(X, y).read_from_records_ == ()


def test_it_learns_digits_within_its_budget(digits: tuple[Any, Any, Any, Any]) -> None:
    X, y, X_test, y_test = digits
    model = PrivateLogisticRegression(epsilon=3.0, delta=1e-4, classes=range(10), random_state=1).fit(X, y)
    assert model.n_iter_ == 300
    assert 2.99 < model.epsilon_ <= 3.0
    assert model.score(X_test, y_test) > 0.9
    assert model.coef_.shape == (10, 64)
    assert model.predict_proba(X_test).sum(axis=1) == pytest.approx(1.0)
    assert (model.classes_[model.decision_function(X_test).argmax(axis=1)] == model.predict(X_test)).all()


def test_two_classes_have_one_row_of_weights() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = X / X.max(axis=0)  # for the test only: a private scaling takes its constants from elsewhere
    model = quick(rounds=None, random_state=1).fit(X, y)
    assert model.coef_.shape == (1, 30)
    assert model.intercept_.shape == (1,)
    assert ((model.decision_function(X) > 0) == model.predict(X)).all()
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("method", ["moments", "balle", "optimal", "exact", None])
def test_without_rounds_it_stops_at_its_budget(digits: tuple[Any, Any, Any, Any], method: str | None) -> None:
    X, y, _, _ = digits
    model = quick(epsilon=1.0, rounds=None, method=method).fit(X, y)
    step = PoissonSampled(Gaussian(3.0), 0.1)
    assert model.n_iter_ == max_rounds(step, epsilon=1.0, delta=1e-5, method=method)
    assert model.epsilon_ <= 1.0
    assert model.accountant_.run == step * model.n_iter_


def test_more_rounds_than_the_budget_allows_are_not_run(digits: tuple[Any, Any, Any, Any]) -> None:
    X, y, _, _ = digits
    assert quick(rounds=10**6).fit(X, y).n_iter_ == quick(rounds=None).fit(X, y).n_iter_ < 10**6


def test_fits_that_share_an_accountant_share_the_budget(digits: tuple[Any, Any, Any, Any]) -> None:
    X, y, _, _ = digits
    accountant = Accountant()
    first = quick(rounds=10).fit(X, y, accountant=accountant)
    second = quick(rounds=None).fit(X, y, accountant=accountant)
    assert first.n_iter_ + second.n_iter_ == quick(rounds=None).fit(X, y).n_iter_
    with pytest.raises(InfeasibleError, match="No round"):
        quick(rounds=None).fit(X, y, accountant=accountant)
    with pytest.raises(InfeasibleError):
        PrivateLogisticRegression(epsilon=1.0).fit(X, y, accountant=accountant)


def test_a_grid_search_shares_the_budget_among_its_fits(digits: tuple[Any, Any, Any, Any]) -> None:
    X, y, _, _ = digits
    accountant = Accountant()
    grid = {"learning_rate": [0.5, 1.0]}
    planned = PrivateLogisticRegression(epsilon=3.0, rounds=20, classes=range(10), fits=7, method="moments")
    search = GridSearchCV(planned, grid, cv=3, error_score="raise").fit(X, y, accountant=accountant)
    [(step, rounds)] = accountant.run.parts  # every fit with the same noise
    assert rounds == 7 * 20
    assert search.best_estimator_.n_iter_ == 20
    assert 2.99 < search.best_estimator_.epsilon_ <= 3.0
    assert search.best_estimator_.noise_multiplier_ == step.mechanism.noise_multiplier  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", [None, "moments"])
def test_a_second_fit_after_one_that_planned_for_itself_alone_says_what_to_do(
    digits: tuple[Any, Any, Any, Any], method: str | None
) -> None:
    X, y, _, _ = digits
    accountant = Accountant()
    model = PrivateLogisticRegression(rounds=50, classes=range(10), method=method)
    model.fit(X, y, accountant=accountant)
    spent = accountant.run
    with pytest.raises(InfeasibleError, match=r"leaves too little of epsilon=1 .* give each of them fits=N"):
        model.fit(X, y, accountant=accountant)
    assert accountant.run == spent


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda given: pickle.loads(pickle.dumps(given))])
def test_a_copy_of_an_accountant_is_refused_and_nothing_is_trained(
    digits: tuple[Any, Any, Any, Any], copied: Any
) -> None:
    X, y, _, _ = digits
    model, given = quick(rounds=3), copied(Accountant())
    with pytest.raises(ParameterError, match="accountant must be the accountant itself"):
        model.fit(X, y, accountant=given)
    assert given == Accountant()
    with pytest.raises(ParameterError, match="accountant must be an Accountant"):
        model.fit(X, y, accountant=5)  # type: ignore[arg-type]  # the point of the test


def test_fits_in_threads_record_together_and_fits_in_other_processes_are_refused(
    digits: tuple[Any, Any, Any, Any],
) -> None:
    joblib: Any = pytest.importorskip("joblib", reason="scikit-learn brings it")
    X, y, _, _ = digits
    for backend in ("threading", "loky"):
        accountant = Accountant()
        with joblib.parallel_config(backend=backend, n_jobs=2):
            if backend == "threading":
                cross_val_score(quick(rounds=20), X, y, cv=3, params={"accountant": accountant})
                assert accountant.run == PoissonSampled(Gaussian(3.0), 0.1) * 60
            else:
                with pytest.raises(ParameterError, match="one of another process"):
                    cross_val_score(
                        quick(rounds=20), X, y, cv=3, params={"accountant": accountant}, error_score="raise"
                    )


def test_a_checkpoint_that_has_cost_more_than_the_budget_is_refused(
    digits: tuple[Any, Any, Any, Any], tmp_path: Path
) -> None:
    X, y, _, _ = digits
    path = tmp_path / "model.npz"
    model = quick(rounds=None).fit(X, y, checkpoint=path)
    for smaller in (quick(rounds=None, epsilon=1.0), quick(epsilon=1.0, noise_multiplier=None)):
        with pytest.raises(InfeasibleError, match=r"costs epsilon=2\.99\d* at delta=1e-05, more than epsilon=1\."):
            smaller.fit(X, y, checkpoint=path)
    assert quick(rounds=None).fit(X, y, checkpoint=path).epsilon_ == model.epsilon_


def test_a_refused_fit_leaves_the_classifier_as_it_was(digits: tuple[Any, Any, Any, Any]) -> None:
    X, y, _, _ = digits
    model = quick(rounds=3, classes=range(10)).fit(X, y)
    model.set_params(classes=range(12), epsilon=1e-9)
    before = dict(vars(model))
    for features in (X, X[:, :5]):
        with pytest.raises(InfeasibleError):
            model.fit(features, y)
        assert vars(model) == before
    assert model.predict(X).shape == y.shape
    fresh = quick(epsilon=1e-9)
    with pytest.raises(InfeasibleError):
        fresh.fit(X, y)
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_fits_with_one_seed_and_one_accountant_share_no_noise(digits: tuple[Any, Any, Any, Any]) -> None:
    X, y, _, _ = digits
    accountant = Accountant()
    first, second = (quick(rounds=3, random_state=1).fit(X, y, accountant=accountant).coef_ for _ in range(2))
    assert (first != second).all()
    assert (first == quick(rounds=3, random_state=1).fit(X, y).coef_).all()


def test_a_checkpoint_goes_on_in_addition_to_what_the_accountant_holds(
    digits: tuple[Any, Any, Any, Any], tmp_path: Path
) -> None:
    X, y, _, _ = digits
    path, step = tmp_path / "model.npz", PoissonSampled(Gaussian(3.0), 0.1)
    quick(rounds=30).fit(X, y, checkpoint=path)
    other = Accountant()
    quick(rounds=20).fit(X, y, accountant=other)
    model = quick(rounds=31).fit(X, y, accountant=other, checkpoint=path)
    assert model.n_iter_ == 31
    assert model.accountant_ is other
    assert other.run == step * 51
    assert quick(rounds=31).fit(X, y, checkpoint=path).accountant_.run == step * 51


def test_a_fit_that_goes_on_keeps_the_noise_that_was_planned_when_it_began(
    digits: tuple[Any, Any, Any, Any], tmp_path: Path
) -> None:
    X, y, _, _ = digits
    path, accountant = tmp_path / "model.npz", Accountant()
    accountant.record(Gaussian(10.0))
    model = PrivateLogisticRegression(rounds=40, method="moments")
    noise = model.fit(X, y, accountant=accountant, checkpoint=path).noise_multiplier_
    coef, spent = model.coef_, model.epsilon_
    # the very accountant, which holds the training by now, or none
    for given in (accountant, None):
        again = clone(model).fit(X, y, accountant=given, checkpoint=path)
        assert again.noise_multiplier_ == noise
        assert again.epsilon_ == spent <= 1.0
        assert (again.coef_ == coef).all()


def test_a_seed_repeats_a_fit_and_no_seed_does_not(digits: tuple[Any, Any, Any, Any]) -> None:
    X, y, _, _ = digits
    seeds = (1, 1, np.random.RandomState(1), np.random.RandomState(1), None, None)
    a, b, c, d, e, f = (quick(rounds=3, random_state=seed).fit(X, y).coef_ for seed in seeds)
    assert (a == b).all()
    assert (c == d).all()
    assert (e != f).all()


def test_declared_classes_may_be_missing_from_the_records_but_not_the_other_way_round(
    digits: tuple[Any, Any, Any, Any],
) -> None:
    X, y, X_test, _ = digits
    few = y < 4
    model = quick(rounds=3, classes=range(10)).fit(X[few], y[few])
    assert model.predict_proba(X_test).shape == (len(X_test), 10)
    with pytest.raises(ParameterError, match="classes must hold every label"):
        quick(rounds=3, classes=range(4)).fit(X, y)
    with pytest.raises(ParameterError, match="at least two"):
        quick(rounds=3).fit(X[y == 1], y[y == 1])


def test_invalid_parameters_are_refused(digits: tuple[Any, Any, Any, Any]) -> None:
    X, y, _, _ = digits
    for name, bad in (
        ("epsilon", np.nan),
        ("delta", 0.0),
        ("delta", 0.001),
        ("public_records", 0),
        ("public_records", np.nan),
        ("fits", 0),
        ("fits", 1.5),
        ("sampling_rate", 256),
        ("rounds", 1.5),
        ("noise_multiplier", np.nan),
        ("noise_multiplier", "4.0"),
        ("noise_multiplier", np.array([4.0])),
        ("noise_multiplier", True),
        ("classes", 5),
        ("clip_norm", -1.0),
        ("learning_rate", np.nan),
        ("method", "best"),
        ("reserve", 0),
    ):
        with pytest.raises(ParameterError, match=name):
            quick(**{name: bad}).fit(X, y)
    with pytest.raises(ParameterError, match="rounds"):
        PrivateLogisticRegression(rounds=None).fit(X, y)
    with pytest.raises(ParameterError, match="checkpoint must be the path of a file, got 5"):
        quick().fit(X, y, checkpoint=5)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(NotFittedError):
        quick().predict(X)


def test_it_works_in_a_cross_validation_and_clones(digits: tuple[Any, Any, Any, Any]) -> None:
    X, y, _, _ = digits
    model = quick(rounds=40, random_state=3)
    assert clone(model).get_params() == model.get_params()
    assert cross_val_score(model, X, y, cv=2).min() > 0.5


CHILD = """
import sys, time
import dprounds.integrations.noisy_sgd as loop
from sklearn.datasets import load_digits
from dprounds.integrations.scikit_learn import PrivateLogisticRegression

round_of = loop.NoisySGD._round

def slow(self):
    round_of(self)
    with open(sys.argv[2], "a") as log:
        log.write("applied\\n")
    time.sleep(0.002)

loop.NoisySGD._round = slow
X, y = load_digits(return_X_y=True)
PrivateLogisticRegression(
    epsilon=3.0, noise_multiplier=3.0, rounds=None, method="moments", reserve=10
).fit(X / 16.0, y, checkpoint=sys.argv[1])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process at once")
def test_a_fit_that_was_killed_goes_on_without_losing_a_recorded_round(tmp_path: Path) -> None:
    path, log = tmp_path / "model.npz", tmp_path / "applied"
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(path), str(log)])
    deadline = time.monotonic() + 60

    def applied() -> int:
        return len(log.read_text().splitlines()) if log.exists() else 0

    while applied() < 25:
        assert child.poll() is None, "the fit ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.001)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with np.load(path) as file:
        saved = dict(Accountant.from_json(str(file["accountant"])).run.parts)
    step = PoissonSampled(Gaussian(3.0), 0.1)
    assert applied() <= saved[step] <= applied() + 10

    X, y = load_digits(return_X_y=True)
    whole = max_rounds(step, epsilon=3.0, delta=1e-5, method="moments")
    model = quick(rounds=None, reserve=10).fit(X / 16.0, y, checkpoint=path)
    assert dict(model.accountant_.run.parts)[step] == whole
    assert whole - 10 <= model.n_iter_ < whole
    assert model.epsilon_ <= 3.0
    # finished: another fit from it spends nothing and finds the same weights
    again = quick(rounds=None, reserve=10).fit(X / 16.0, y, checkpoint=path)
    assert (again.coef_ == model.coef_).all()
    assert again.epsilon_ == model.epsilon_


def test_without_scikit_learn_the_error_names_the_extra() -> None:
    script = "import sys; sys.modules['sklearn'] = None; import dprounds.integrations.scikit_learn"
    found = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert found.stderr.splitlines()[-1] == (
        "ImportError: dprounds.integrations.scikit_learn needs scikit-learn. "
        "In a checkout of dprounds: pip install '.[scikit-learn]'"
    )
