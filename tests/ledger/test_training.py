"""Training on a grant makes no more rounds than were granted, once, through crashes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprounds import Accountant, Gaussian, ParameterError, PoissonSampled
from dprounds.integrations.noisy_sgd import LogisticGradients, NoisySGD
from dprounds.ledger import Grant, Ledger, LedgerError

STEP = PoissonSampled(Gaussian(4.0), 0.1)
FEATURES = np.random.default_rng(0).normal(size=(200, 3))
LABELS = (FEATURES[:, 0] > 0).astype(int)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    found = Ledger(f"sqlite:///{tmp_path}/budget.db")
    found.open("patients", epsilon=6.0, delta=1e-5)
    yield found
    found.close()


def training(grant: Grant, **given: Any) -> NoisySGD:
    settings: dict[str, Any] = {
        "records": 200,
        "public_records": 200,
        "sampling_rate": 0.1,
        "noise_multiplier": 4.0,
        "clip_norm": 1.0,
        "learning_rate": 0.5,
        "epsilon": 6.0,
        "delta": 1e-5,
        "grant": grant,
    }
    return NoisySGD(LogisticGradients(FEATURES, LABELS), np.zeros(4), **{**settings, **given})


def test_no_more_rounds_than_were_granted(ledger: Ledger) -> None:
    with ledger.spend("patients", STEP * 20, key="train") as grant:
        run = training(grant)
        assert run.remaining == 20
        assert run.run(5) == 5
        assert run.run() == 15
        assert run.run() == 0
    assert ledger.status("patients").committed == 1


def test_no_more_rounds_than_the_own_budget_allows(ledger: Ledger) -> None:
    grant = ledger.reserve("patients", STEP * 200, key="train")
    run = training(grant, epsilon=1.0)
    assert 0 < run.remaining < 200


def test_a_grant_serves_one_training(ledger: Ledger) -> None:
    grant = ledger.reserve("patients", STEP * 20, key="train")
    first, second = training(grant), training(grant)
    first.run(1)
    assert ledger.grant("patients", "train").state == "begun"
    with pytest.raises(LedgerError, match="may have looked at the data already"):
        second.run(1)
    with pytest.raises(LedgerError, match="may have looked at the data already"):
        training(ledger.grant("patients", "train")).run(1)
    assert second.rounds == 0


def test_a_training_that_was_killed_goes_on_from_its_checkpoint_alone(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "training.npz"

    def killed(run: NoisySGD) -> None:
        if run.rounds == 7:
            raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        ledger.spend("patients", STEP * 20, key="train") as grant,
    ):
        training(grant, checkpoint=file, reserve=5).run(after_round=killed)
    again = ledger.grant("patients", "train")
    with pytest.raises(LedgerError, match="Go on from its checkpoint"):
        training(again).run()
    resumed = training(again, checkpoint=file, reserve=5)
    assert 20 - 10 <= resumed.remaining <= 20 - 7  # what was reserved on disk counts as made
    resumed.run()
    assert resumed.accountant.run == STEP * 20
    again.commit()
    with pytest.raises(LedgerError, match="is committed"):
        training(ledger.grant("patients", "train"), checkpoint=file).run()
    ledger.verify()


# Trains on the grant, and ends itself by SIGKILL at the n-th time that something is to be on disk.
KILLED = """
import os, signal, sys
from pathlib import Path
from dprounds.ledger import Ledger
from tests.ledger.test_training import STEP, training
folder, end = Path(sys.argv[1]), int(sys.argv[2])
ledger = Ledger(f"sqlite:///{folder}/budget.db")
grant = ledger.reserve("patients", STEP * 20, key="train")
calls, real = 0, os.fsync
def fsync(file):
    global calls
    if calls == end:
        os.kill(os.getpid(), signal.SIGKILL)
    calls += 1
    real(file)
os.fsync = fsync
run = training(grant, checkpoint=folder / "training.npz", reserve=5)
print(run.run())
assert run.accountant.run == STEP * 20
grant.commit()
"""


@pytest.mark.parametrize("end", [0, 4])
def test_a_grant_survives_a_kill_and_goes_on(ledger: Ledger, tmp_path: Path, end: int) -> None:
    def trained(end: int) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-c", KILLED, str(tmp_path), str(end)]
        return subprocess.run(line, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])

    assert trained(end).returncode == -signal.SIGKILL
    assert ledger.grant("patients", "train").state == "begun"
    assert ledger.status("patients").reserved == 1  # and charged
    again = trained(1000)
    if end == 0:  # no checkpoint was on disk yet, and the work may have begun: it is not done again
        assert "Go on from its checkpoint, or reserve another job" in again.stderr
        return
    assert again.returncode == 0, again.stderr
    assert 0 < int(again.stdout) < 20  # the rounds that had begun are not made again
    assert ledger.grant("patients", "train").state == "committed"
    ledger.verify()


def test_what_contradicts_a_grant_is_refused(ledger: Ledger) -> None:
    grant = ledger.reserve("patients", STEP * 20, key="train")
    with pytest.raises(ParameterError, match="accountant must be left out"):
        training(grant, accountant=Accountant())
    with pytest.raises(ParameterError, match="random_state must be left out"):
        training(grant, random_state=1)
    for other in ({"noise_multiplier": 3.9}, {"sampling_rate": 0.11}):
        with pytest.raises(ParameterError, match="grant must cover rounds of"):
            training(grant, **other)
    assert grant.state == "reserved"


def test_what_else_a_training_records_must_be_granted_too(ledger: Ledger) -> None:
    grant = ledger.reserve("patients", STEP * 20, key="train")
    run = training(grant)

    def leaking(run: NoisySGD) -> None:
        run.accountant.record(Gaussian(50.0))

    assert run.run(after_round=leaking) == 1
    grant = ledger.reserve("patients", STEP * 20 + Gaussian(50.0) * 3, key="with a release after each round")
    assert training(grant).run(after_round=leaking) == 4


def test_a_classifier_trains_on_a_grant(ledger: Ledger) -> None:
    pytest.importorskip("sklearn")
    from dprounds.integrations.scikit_learn import PrivateLogisticRegression

    model = PrivateLogisticRegression(epsilon=6.0, delta=1e-5, classes=[0, 1], public_records=200, rounds=None)
    with ledger.spend("patients", STEP * 20, key="fit") as grant:
        model.fit(FEATURES, LABELS, grant=grant)
    assert model.n_iter_ == 20
    assert model.noise_multiplier_ == 4.0
    with pytest.raises(LedgerError, match="is committed"):
        model.fit(FEATURES, LABELS, grant=grant)
    other = ledger.reserve("patients", Gaussian(20.0), key="other")
    with pytest.raises(ParameterError, match="grant must cover sampled Gaussian rounds at sampling_rate"):
        model.fit(FEATURES, LABELS, grant=other)
    with pytest.raises(ParameterError, match="accountant must be left out"):
        model.fit(FEATURES, LABELS, grant=ledger.reserve("patients", STEP, key="a"), accountant=Accountant())
