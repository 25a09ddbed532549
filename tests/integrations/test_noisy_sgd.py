"""Noisy SGD in NumPy: clipped, noised, recorded before it is released, and never beyond its budget."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprounds import Accountant, Laplace, ParameterError, max_rounds
from dprounds.integrations import noisy_sgd
from dprounds.integrations.noisy_sgd import NoisySGD, PerExampleGradients
from tests.integrations.noisy_training import (
    DELTA,
    EPSILON,
    NOISE,
    RATE,
    RECORDS,
    STEP,
    no_gradient,
    on_disk,
    recorded,
    training,
)

# Lots and noise


def test_lots_are_poisson_samples_and_empty_ones_are_noised_and_recorded() -> None:
    lots: list[Any] = []

    def watch(weights: Any, lot: Any, clip_norm: float) -> Any:
        lots.append(lot)
        return np.zeros_like(weights)

    rounds, rate = 4000, 0.01
    run = training(watch, sampling_rate=rate, noise_multiplier=20.0, random_state=5)
    seen = []
    assert run.run(rounds, after_round=lambda state: seen.append(state.weights.copy())) == rounds
    sizes = np.array([lot.size for lot in lots])
    mean, variance = RECORDS * rate, RECORDS * rate * (1 - rate)
    assert abs(sizes.mean() - mean) < 5 * np.sqrt(variance / rounds)
    assert abs(sizes.var() - variance) < 0.15 * variance
    assert all(np.unique(lot).size == lot.size for lot in lots)
    # every record alike: the counts are binomial
    counts = np.bincount(np.concatenate(lots), minlength=RECORDS)
    assert np.abs(counts - rounds * rate).max() < 5 * np.sqrt(rounds * rate)
    assert abs(counts.var() - rounds * rate * (1 - rate)) < 0.5 * rounds * rate
    # 0.99^200 of the lots hold nobody
    empty = np.flatnonzero(sizes == 0)
    assert abs(empty.size / rounds - (1 - rate) ** RECORDS) < 0.03
    path = np.array([np.zeros(3), *seen])
    assert (path[empty + 1] != path[empty]).all()
    assert dict(run.accountant.run.parts)[run.step] == rounds


def test_two_records_join_a_lot_independently() -> None:
    both = []

    def watch(weights: Any, lot: Any, clip_norm: float) -> Any:
        both.append((0 in lot, 1 in lot))
        return np.zeros_like(weights)

    training(watch, records=3, sampling_rate=0.5, noise_multiplier=500.0, random_state=6).run(8000)
    first, second = np.array(both).T
    assert abs(first.mean() - 0.5) < 5 * 0.5 / np.sqrt(8000)
    assert abs((first & second).mean() - 0.25) < 5 * 0.433 / np.sqrt(8000)


def test_the_noise_has_the_accounted_size() -> None:
    size = 200_000
    run = training(size=size, clip_norm=0.7, learning_rate=2.0, random_state=7)
    run.run(1)
    # weights = -lr / (q n) * noise, of standard deviation σ C
    noise = run.weights * (RATE * RECORDS) / 2.0
    assert abs(noise.std() / (NOISE * 0.7) - 1) < 5 / np.sqrt(2 * size)
    assert abs(noise.mean()) < 5 * NOISE * 0.7 / np.sqrt(size)
    assert abs(np.mean(noise**4) / noise.var() ** 2 - 3) < 0.1


def test_the_signal_is_the_sum_over_the_public_lot_size() -> None:
    def all_ones(weights: Any, lot: Any) -> Any:
        return np.full((lot.size, 3), 1.0)

    for public_records, size in ((RECORDS, 0.5), (2 * RECORDS, 0.25)):
        run = training(
            PerExampleGradients(all_ones),
            public_records=public_records,
            sampling_rate=1.0,
            noise_multiplier=1e-9,
            clip_norm=3.0,
            epsilon=1e30,
        )
        run.run(1)
        assert run.weights == pytest.approx(-size, rel=1e-6)


@pytest.mark.parametrize("records", [20, 21])
def test_the_size_of_the_noise_does_not_reveal_the_number_of_records(records: int) -> None:
    """An audit: without any signal, only noise remains, and many weights show its size.

    A divisor that counts the records would make the mean square differ by 10 % between 20 records and 21.
    """
    size = 400_000
    run = training(size=size, records=records, public_records=100)
    run.run(1)
    found = np.sum((run.weights * (RATE * 100) / (0.5 * NOISE)) ** 2)
    # a chi-square of `size` degrees is outside of this with probability at most 2 exp(-t) (Laurent, Massart 2000)
    t = 25.0
    assert abs(found - size) <= 2 * np.sqrt(size * t) + 2 * t < 0.017 * size


def test_the_default_divisor_looks_at_no_record() -> None:
    def gradients(weights: Any, lot: Any) -> Any:
        return np.zeros((lot.size, 2))

    runs = [
        NoisySGD(
            PerExampleGradients(gradients),
            np.zeros(2),
            records=records,
            sampling_rate=0.5,
            noise_multiplier=2.0,
            clip_norm=1.0,
            learning_rate=1.0,
            epsilon=10.0,
            delta=1e-5,
            random_state=3,
        )
        for records in (20, 21)
    ]
    for run in runs:
        run.run(1)
    assert runs[0].weights.tolist() == runs[1].weights.tolist()


def test_a_learning_rate_may_depend_on_the_round() -> None:
    asked: list[int] = []

    def schedule(rounds: int) -> float:
        asked.append(rounds)
        return 0.1

    training(learning_rate=schedule).run(3)
    assert asked == [0, 1, 2]


# The budget


@pytest.mark.parametrize("method", ["moments", "balle", "optimal", "exact", None])
def test_it_stops_before_the_round_that_would_exceed_the_budget(method: str | None) -> None:
    run = training(method=method)
    rounds = run.run()
    assert rounds == max_rounds(STEP, epsilon=EPSILON, delta=DELTA, method=method) == recorded(run.accountant)
    assert run.accountant.epsilon(delta=DELTA, method=method) <= EPSILON
    assert run.accountant.would_exceed(STEP, EPSILON, DELTA, method=method)
    assert run.run() == run.remaining == 0


def test_what_was_spent_before_counts() -> None:
    before = Accountant()
    before.record(Laplace(5.0), rounds=2)
    run = training(accountant=before)
    rounds = run.run()
    assert rounds == max_rounds(STEP, epsilon=EPSILON, delta=DELTA, method="optimal", spent=Laplace(5.0) * 2)
    assert recorded(before) == rounds < max_rounds(STEP, epsilon=EPSILON, delta=DELTA, method="optimal")


def test_what_others_spend_meanwhile_counts() -> None:
    run = training()

    def release_something(state: NoisySGD) -> None:
        if state.rounds == 3:
            state.accountant.record(Laplace(2.0))

    run.run(after_round=release_something)
    assert run.accountant.epsilon(delta=DELTA, method="optimal") <= EPSILON
    assert run.accountant.would_exceed(STEP, EPSILON, DELTA, method="optimal")


def test_what_others_overspend_ends_the_run() -> None:
    run = training()
    assert run.run(after_round=lambda state: state.accountant.record(Laplace(0.5))) == 1


@pytest.mark.parametrize("where", ["learning_rate", "gradient_sum"])
def test_what_is_recorded_in_the_middle_of_a_round_counts_before_the_next_one(where: str, tmp_path: Path) -> None:
    """Also without a function to call after a round."""
    path, ledger = tmp_path / "run.npz", Accountant()

    def learning_rate(rounds: int) -> float:
        ledger.record(Laplace(9.0))
        return 0.5

    def gradient_sum(weights: Any, lot: Any, clip_norm: float) -> Any:
        seen.append(on_disk(path).run)
        ledger.record(Laplace(9.0))
        return np.zeros_like(weights)

    seen: list[Any] = []
    changes: Any = {"learning_rate": learning_rate} if where == "learning_rate" else {"gradient_sum": gradient_sum}
    run = training(accountant=ledger, checkpoint=path, reserve=50, **changes)
    rounds = run.run()
    # each of its rounds was within the budget; what the function itself recorded last may not be
    assert ledger.run == STEP * rounds + Laplace(9.0) * rounds
    assert (STEP * rounds + Laplace(9.0) * (rounds - 1)).epsilon(delta=DELTA, method="optimal") <= EPSILON
    assert ledger.would_exceed(STEP, EPSILON, DELTA, method="optimal")
    assert on_disk(path) == ledger
    assert [dict(spent.parts).get(Laplace(9.0), 0) for spent in seen] == list(range(len(seen)))


def test_what_is_recorded_by_a_round_that_fails_is_on_disk(tmp_path: Path) -> None:
    path, ledger = tmp_path / "run.npz", Accountant()

    def fail(weights: Any, lot: Any, clip_norm: float) -> Any:
        ledger.record(Laplace(9.0))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training(fail, accountant=ledger, checkpoint=path, reserve=5).run()
    assert on_disk(path).run == STEP * 5 + Laplace(9.0)


def test_an_interrupt_while_it_plans_leaves_no_old_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    run = training()

    def interrupted(*args: Any, **options: Any) -> int:
        raise KeyboardInterrupt

    run.accountant.record(Laplace(2.0))
    with monkeypatch.context() as patch:
        patch.setattr(noisy_sgd, "max_rounds", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.run()
    run.run()
    assert run.accountant.epsilon(delta=DELTA, method="optimal") <= EPSILON


# Threads and copies


def test_runs_in_threads_that_share_an_accountant_keep_to_the_budget_together() -> None:
    ledger, done = Accountant(), []
    runs = [training(accountant=ledger, noise_multiplier=8.0) for _ in range(4)]
    most = runs[0].remaining
    threads = [threading.Thread(target=lambda run=run: done.append(run.run())) for run in runs]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert sum(done) == sum(run.rounds for run in runs) == ledger.run.rounds == most


def test_what_another_thread_spends_between_plan_and_round_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    run, record_if = training(), Accountant.record_if

    def too_late(accountant: Accountant, step: Any, stamp: str) -> str | None:
        monkeypatch.undo()
        accountant.record(Laplace(2.0))  # by another thread, just before
        return record_if(accountant, step, stamp)

    monkeypatch.setattr(Accountant, "record_if", too_late)
    run.run()
    assert Laplace(2.0) in run.accountant.run.mechanisms
    assert run.accountant.epsilon(delta=DELTA, method="optimal") <= EPSILON
    assert run.rounds == recorded(run.accountant)


def test_runs_with_one_seed_share_no_noise_whichever_thread_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, record_if = Accountant(), Accountant.record_if
    first, second = (training(accountant=ledger, random_state=1) for _ in range(2))

    def overtaken(accountant: Accountant, step: Any, stamp: str) -> str | None:
        monkeypatch.undo()
        found = record_if(accountant, step, stamp)
        second.run(1)  # the other thread records and computes before this one computes
        return found

    monkeypatch.setattr(Accountant, "record_if", overtaken)
    first.run(1)
    assert recorded(ledger) == 2
    assert np.abs(first.weights - second.weights).min() > 1e-6


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda given: pickle.loads(pickle.dumps(given))])
def test_a_copy_of_an_accountant_is_refused(copied: Any) -> None:
    with pytest.raises(ParameterError, match="accountant must be the accountant itself"):
        training(accountant=copied(Accountant()))


def test_a_copy_of_a_run_is_refused() -> None:
    """It would have the same noise, and an accountant that nobody reads."""
    run = training()
    run.run(1)
    for copied in (copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
        with pytest.raises(ParameterError, match="accountant must be the accountant itself"):
            copied.run(1)


def test_a_round_is_recorded_before_it_is_computed() -> None:
    seen = []

    def watch(weights: Any, lot: Any, clip_norm: float) -> Any:
        seen.append(recorded(run.accountant))
        return np.zeros_like(weights)

    run = training(watch)
    run.run(4)
    assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("records", 0),
        ("records", 1.5),
        ("public_records", 0),
        ("public_records", np.nan),
        ("public_records", np.inf),
        ("public_records", 10**400),
        ("public_records", None),
        ("sampling_rate", 0.0),
        ("sampling_rate", 256),
        ("sampling_rate", np.nan),
        ("noise_multiplier", 0.0),
        ("noise_multiplier", np.nan),
        ("clip_norm", 0.0),
        ("clip_norm", np.inf),
        ("clip_norm", np.nan),
        ("learning_rate", np.nan),
        ("learning_rate", 0.0),
        ("epsilon", np.nan),
        ("epsilon", -1.0),
        ("delta", np.nan),
        ("delta", 0.0),
        ("method", "best"),
        ("reserve", 0),
        ("random_state", -1),
        ("random_state", "0"),
    ],
)
def test_what_lies_outside_of_its_range_is_refused(name: str, bad: Any) -> None:
    with pytest.raises(ParameterError, match=name):
        training(**{name: bad})


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("accountant", 5),
        ("accountant", "x"),
        ("checkpoint", 5),
        ("checkpoint", b"run.npz"),
        ("checkpoint", "run\0.npz"),
        ("noise_multiplier", "4"),
        ("noise_multiplier", np.array([4.0])),
    ],
)
def test_what_is_of_another_kind_is_refused(name: str, bad: Any) -> None:
    with pytest.raises(ParameterError, match=name):
        training(**{name: bad})


@pytest.mark.parametrize("name", sorted(noisy_sgd.FIXED))
def test_what_was_planned_cannot_be_changed(name: str, tmp_path: Path) -> None:
    run = training(checkpoint=tmp_path / "run.npz")
    before = getattr(run, name)
    with pytest.raises(AttributeError, match=f"^{name} is fixed"):
        setattr(run, name, before)
    assert run.run(1, after_round=lambda state: setattr(state, "learning_rate", 0.1)) == 1


def test_the_noise_is_that_of_the_step_whatever_a_round_tries() -> None:
    run = training(epsilon=9.0)

    def anneal(state: NoisySGD) -> None:
        state.noise_multiplier *= 0.95

    with pytest.raises(AttributeError, match="noise_multiplier is fixed"):
        run.run(after_round=anneal)
    assert (run.noise_multiplier, run.sampling_rate, run.step) == (NOISE, RATE, STEP)


def test_weights_must_be_finite_and_have_one_axis() -> None:
    for bad in ([np.nan], [[0.0]], np.inf):
        with pytest.raises(ParameterError, match="weights"):
            NoisySGD(
                no_gradient,
                bad,
                records=9,
                public_records=9,
                sampling_rate=0.5,
                noise_multiplier=9.0,
                clip_norm=1.0,
                learning_rate=1.0,
                epsilon=1.0,
                delta=0.01,
            )


@pytest.mark.parametrize("delta", [1.0 / RECORDS, 0.1, 0.99])
def test_a_delta_that_allows_to_publish_a_record_is_refused(delta: float) -> None:
    with pytest.raises(ParameterError, match=r"^delta must be in \(0, 0\.005\), got .* take, say, 0\.0005"):
        training(delta=delta)
    assert training(delta=np.nextafter(1.0 / RECORDS, 0.0)).remaining > 0


# Seeds


def test_a_seed_repeats_a_run_and_no_seed_does_not() -> None:
    first, again, other, fresh = (training(random_state=seed) for seed in (1, 1, 2, None))
    for run in (first, again, other, fresh):
        run.run(2)
    assert (first.weights == again.weights).all()
    assert (first.weights != other.weights).all()
    assert (first.weights != fresh.weights).all()


def test_a_resumed_run_with_a_seed_draws_other_noise(tmp_path: Path) -> None:
    """The same noise in two rounds could be subtracted."""
    path = tmp_path / "run.npz"
    steps = []
    for _ in range(4):
        run = training(random_state=1, checkpoint=path)
        before = run.weights.copy()
        run.run(1)
        steps.append(run.weights - before)
    assert len({tuple(step.tolist()) for step in steps}) == 4


def test_runs_with_one_seed_and_one_accountant_share_no_noise() -> None:
    """Otherwise twice the weights of one clipping norm less those of its double would have no noise left in them."""
    ledger = Accountant()
    first, second = (training(accountant=ledger, random_state=1, clip_norm=clip) for clip in (1.0, 2.0))
    for run in (first, second, first):
        run.run(1)
    third = training(accountant=ledger, random_state=1)
    third.run(1)
    alone = training(random_state=1)
    alone.run(1)
    lone = alone.weights.copy()
    alone.run(1)
    assert np.abs(2.0 * lone - second.weights).min() > 1e-6
    assert np.abs(lone - third.weights).min() > 1e-6
    # what others do between its rounds does not change a run's own stream
    assert (first.weights == alone.weights).all()


def test_the_stream_of_a_seed_depends_on_all_that_is_recorded() -> None:
    ledgers = [Accountant() for _ in range(4)]
    for ledger, spent in zip(ledgers[1:], (Laplace(5.0) * 1, Laplace(5.0) * 2, Laplace(6.0) * 1), strict=True):
        ledger.record(spent)
    found = []
    for ledger in ledgers:
        run = training(accountant=ledger, random_state=1, epsilon=9.0)
        run.run(1)
        found.append(tuple(run.weights.tolist()))
    assert len(set(found)) == 4


def test_it_needs_nothing_but_numpy() -> None:
    """In addition to what the accountant itself loads."""
    script = (
        "import sys, dprounds.integrations.noisy_sgd\n"
        "print(*{name.split('.')[0] for name in sys.modules} & {'torch', 'opacus', 'sklearn', 'pandas', 'matplotlib'})"
    )
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert found.stdout.split() == []
