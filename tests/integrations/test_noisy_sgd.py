"""Noisy SGD in NumPy: clipped, noised, recorded before it is released, and never beyond its budget, killed or not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprounds import Accountant, Gaussian, Laplace, NumericalError, ParameterError, PoissonSampled, max_rounds
from dprounds.integrations import noisy_sgd
from dprounds.integrations.noisy_sgd import LogisticGradients, NoisySGD, PerExampleGradients, clip_factors

RECORDS, RATE, NOISE, EPSILON, DELTA = 200, 0.1, 3.0, 1.0, 1e-4
STEP = PoissonSampled(Gaussian(NOISE), RATE)


def no_gradient(weights: Any, lot: Any, clip_norm: float) -> Any:
    return np.zeros_like(weights)


def training(gradient_sum: Any = no_gradient, size: int = 3, **changes: Any) -> NoisySGD:
    settings = {
        "records": RECORDS,
        "sampling_rate": RATE,
        "noise_multiplier": NOISE,
        "clip_norm": 1.0,
        "learning_rate": 0.5,
        "epsilon": EPSILON,
        "delta": DELTA,
        "method": "optimal",  # of the methods the quickest to plan by
        **changes,
    }
    return NoisySGD(gradient_sum, np.zeros(size), **settings)


def recorded(accountant: Accountant) -> int:
    return dict(accountant.run.parts).get(STEP, 0)


def on_disk(path: Path) -> Accountant:
    with np.load(path) as file:
        return Accountant.from_json(str(file["accountant"]))


# Gradients


@pytest.mark.parametrize("classes", [2, 4])
def test_logistic_gradients_are_the_derivatives_of_the_log_loss(classes: int) -> None:
    generator = np.random.default_rng(1)
    features, labels = generator.normal(size=(6, 3)), generator.integers(classes, size=6)
    gradients = LogisticGradients(features, labels, classes=classes)
    weights, lot = generator.normal(size=gradients.size), np.array([4, 1, 5])

    def loss(at: Any) -> float:
        scores = np.hstack([features[lot], np.ones((3, 1))]) @ at.reshape(4, -1)
        scores = np.hstack([np.zeros((3, 1)), scores]) if classes == 2 else scores
        return float((np.log(np.exp(scores).sum(1)) - scores[np.arange(3), labels[lot]]).sum())

    slopes = [(loss(weights + 1e-5 * unit) - loss(weights - 1e-5 * unit)) / 2e-5 for unit in np.eye(gradients.size)]
    np.testing.assert_allclose(gradients(weights, lot, 1e6), slopes, atol=1e-8)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("clip_norm", [0.3, 1.0, 50.0])
def test_clipping_without_a_matrix_of_gradients_equals_clipping_each(classes: int, clip_norm: float) -> None:
    generator = np.random.default_rng(2)
    features, labels = generator.normal(size=(40, 5)), generator.integers(classes, size=40)
    gradients = LogisticGradients(features, labels, classes=classes)
    by_example = PerExampleGradients(
        lambda weights, lot: np.array([gradients(weights, np.array([i]), 1e6) for i in lot])
    )
    weights, lot = generator.normal(size=gradients.size), np.arange(0, 40, 3)
    np.testing.assert_allclose(
        gradients(weights, lot, clip_norm), by_example(weights, lot, clip_norm), rtol=1e-12, atol=1e-14
    )


def test_no_scaled_gradient_is_longer_than_the_bound_in_exact_arithmetic() -> None:
    generator = np.random.default_rng(3)
    for size in (1, 2, 7, 100):
        rows = generator.normal(size=(50, size)) * 10.0 ** generator.uniform(-3, 6, size=(50, 1))
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        factors = clip_factors(norms, 0.1, terms=size)
        for row, factor in zip(rows, factors, strict=True):
            squares = sum(Fraction(float(value)) ** 2 for value in row) * Fraction(float(factor)) ** 2
            assert squares <= Fraction(0.1) ** 2


def test_short_gradients_are_left_as_they_are() -> None:
    assert clip_factors(np.array([0.0, 0.5, 2.0]), 1.0, terms=3).tolist() == pytest.approx([1.0, 1.0, 0.5], rel=1e-14)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_never_released_but_its_round_is_recorded(bad: float) -> None:
    run = training(
        PerExampleGradients(lambda weights, lot: np.full((lot.size, 3), bad)), sampling_rate=1.0, epsilon=9.0
    )
    with pytest.raises(NumericalError, match="not finite"):
        run.run(1)
    assert run.rounds == 0
    assert run.weights.tolist() == [0.0, 0.0, 0.0]
    assert sum(rounds for _, rounds in run.accountant.run.parts) == 1


def test_scores_beyond_the_floats_are_refused() -> None:
    gradients = LogisticGradients(np.full((2, 1), 1e150), [0, 1])
    with pytest.raises(NumericalError, match="not finite"):
        gradients(np.array([1e300, 0.0]), np.array([0, 1]), 1.0)


def test_a_sum_in_place_of_rows_is_refused() -> None:
    summed = PerExampleGradients(lambda weights, lot: np.zeros(3))
    with pytest.raises(ParameterError, match="cannot be clipped by example"):
        training(summed, sampling_rate=1.0, epsilon=9.0).run(1)


def test_a_gradient_sum_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(NumericalError, match="must return 3 finite numbers"):
        training(lambda weights, lot, clip_norm: np.zeros((1, 3))).run(1)


@pytest.mark.parametrize(
    ("features", "labels", "classes"),
    [
        ([[np.nan]], [0], 2),
        ([[1e200]], [0], 2),
        ([1.0], [0], 2),
        ([[1.0]], [2], 2),
        ([[1.0]], [-1], 2),
        ([[1.0]], [0.5], 2),
        ([[1.0]], [0, 1], 2),
        ([[1.0]], [0], 1),
    ],
)
def test_features_and_labels_that_cannot_be_are_refused(features: Any, labels: Any, classes: int) -> None:
    with pytest.raises(ParameterError):
        LogisticGradients(features, labels, classes=classes)


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


def test_the_signal_is_the_sum_over_the_expected_lot_size() -> None:
    def all_ones(weights: Any, lot: Any) -> Any:
        return np.full((lot.size, 3), 1.0)

    run = training(PerExampleGradients(all_ones), sampling_rate=1.0, noise_multiplier=1e-9, clip_norm=3.0, epsilon=1e30)
    run.run(1)
    assert run.weights == pytest.approx(-0.5, rel=1e-6)


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


def test_weights_must_be_finite_and_have_one_axis() -> None:
    for bad in ([np.nan], [[0.0]], np.inf):
        with pytest.raises(ParameterError, match="weights"):
            NoisySGD(
                no_gradient,
                bad,
                records=9,
                sampling_rate=0.5,
                noise_multiplier=9.0,
                clip_norm=1.0,
                learning_rate=1.0,
                epsilon=1.0,
                delta=0.1,
            )


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
    """Else twice the weights of one clipping norm less those of its double would have no noise left in them."""
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


# Killed and resumed


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_what_is_recorded_after_a_round_is_on_disk_before_the_next_one(
    tmp_path: Path, error: type[BaseException] | None
) -> None:
    path, seen = tmp_path / "run.npz", []

    def watch(weights: Any, lot: Any, clip_norm: float) -> Any:
        seen.append(on_disk(path).run)
        return np.zeros_like(weights)

    def release_something(state: NoisySGD) -> None:
        if state.rounds == 2:
            state.accountant.record(Laplace(20.0))
            assert state.remaining > 10  # planned anew meanwhile, and to be saved all the same
            if error is not None:
                raise error

    run = training(watch, checkpoint=path, reserve=8)
    if error is None:
        run.run(4, after_round=release_something)
        assert seen[1] == STEP * 4
        assert seen[2] == STEP * 4 + Laplace(20.0)
        assert on_disk(path).run == STEP * 4 + Laplace(20.0)
    else:
        with pytest.raises(error):
            run.run(after_round=release_something)
        assert on_disk(path).run == STEP * 8 + Laplace(20.0)


def test_what_is_recorded_after_a_round_is_saved_before_anything_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan takes time, in which a kill would lose it."""
    path, planned = tmp_path / "run.npz", []
    run = training(checkpoint=path, reserve=8)
    plan = NoisySGD._plan

    def watch(state: NoisySGD) -> None:
        planned.append(Laplace(20.0) in on_disk(path).run.mechanisms)
        plan(state)

    monkeypatch.setattr(NoisySGD, "_plan", watch)
    run.run(4, after_round=lambda state: state.accountant.record(Laplace(20.0)))
    assert planned
    assert all(planned)


def test_the_record_on_disk_is_ahead_of_every_round_that_is_computed(tmp_path: Path) -> None:
    path, calls = tmp_path / "run.npz", []

    def watch(weights: Any, lot: Any, clip_norm: float) -> Any:
        calls.append(recorded(on_disk(path)))
        return np.zeros_like(weights)

    assert training(watch, checkpoint=path, reserve=4).run(10) == 10
    assert calls == [4, 4, 4, 4, 8, 8, 8, 8, 10, 10]


def test_a_run_that_ends_by_itself_gives_back_what_it_did_not_use(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    run = training(checkpoint=path, reserve=50)
    run.run(7, after_round=lambda state: None)
    assert recorded(on_disk(path)) == 7
    resumed = training(checkpoint=path, reserve=50)
    assert (resumed.rounds, resumed.remaining) == (7, run.remaining)
    assert (resumed.weights == run.weights).all()


def test_rounds_reserved_by_a_run_that_failed_stay_spent(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"

    def fail(state: NoisySGD) -> None:
        if state.rounds == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training(checkpoint=path, reserve=5).run(after_round=fail)
    resumed = training(checkpoint=path, reserve=5)
    assert (resumed.rounds, recorded(resumed.accountant)) == (5, 10)
    assert resumed.run() == max_rounds(STEP, epsilon=EPSILON, delta=DELTA, method="optimal") - 10


CHILD = """
import sys, time
import numpy as np
from dprounds.integrations.noisy_sgd import NoisySGD

log = open(sys.argv[2], "a", buffering=1)

def applied(state):
    log.write(f"{state.rounds}\\n")
    time.sleep(0.002)

NoisySGD(
    lambda weights, lot, clip_norm: np.zeros_like(weights), np.zeros(3), records=200, sampling_rate=0.1,
    noise_multiplier=10.0, clip_norm=1.0, learning_rate=0.5, epsilon=1.0, delta=1e-4, method="optimal",
    checkpoint=sys.argv[1], reserve=7,
).run(after_round=applied)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process at once")
def test_a_run_killed_again_and_again_records_every_round_and_ends_at_its_budget(tmp_path: Path) -> None:
    path, log = tmp_path / "run.npz", tmp_path / "applied"
    step = PoissonSampled(Gaussian(10.0), 0.1)
    most = max_rounds(step, epsilon=1.0, delta=1e-4, method="optimal")
    command = [sys.executable, "-c", CHILD, str(path), str(log)]

    def applied() -> int:
        return len(log.read_text().splitlines()) if log.exists() else 0

    for kill, more in enumerate((5, 23, 40)):
        before, deadline = applied(), time.monotonic() + 30
        child = subprocess.Popen(command)
        while applied() < before + more:
            assert child.poll() is None, "the run ended before it was killed"
            assert time.monotonic() < deadline
            time.sleep(0.001)
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        total = dict(on_disk(path).run.parts)[step]
        assert applied() <= total <= applied() + 7 * (kill + 1)
    subprocess.run(command, check=True, timeout=60)
    assert applied() <= dict(on_disk(path).run.parts)[step] == most
    assert applied() >= most - 3 * 7
    with np.load(path) as file:
        # each of these has been in a model that was saved; the others were lost with a kill, and stay counted
        assert applied() - 3 * 7 <= file["rounds"] <= applied()


def test_a_checkpoint_holds_nothing_from_which_noise_could_be_computed(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    training(checkpoint=path, random_state=1).run(1)
    with np.load(path) as file:
        assert set(file.files) == {"format", "weights", "rounds", "records", "start", "accountant", "stamp"}
        stamp = str(file["stamp"])
    # the stamp is no draw of the run's generator: the same run has another one
    other = tmp_path / "other.npz"
    training(checkpoint=other, random_state=1).run(1)
    with np.load(other) as file:
        assert str(file["stamp"]) != stamp


def test_two_runs_cannot_spend_from_one_checkpoint_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"

    def intrude(state: NoisySGD) -> None:
        with pytest.raises(ParameterError, match="in use"):
            training(checkpoint=path).run(1)

    training(checkpoint=path).run(1, after_round=intrude)


def test_a_run_does_not_write_over_what_another_has_recorded_since(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    first, second = training(checkpoint=path), training(checkpoint=path)
    first.run(5)
    with pytest.raises(ParameterError, match="not as this run left it"):
        second.run(1)
    assert recorded(on_disk(path)) == 5
    path.unlink()
    with pytest.raises(ParameterError, match="not as this run left it"):
        first.run(1)


def test_a_damaged_checkpoint_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    training(checkpoint=path).run(1)
    whole = path.read_bytes()
    # in NumPy's text a letter takes four bytes; the last is a record changed by hand
    text = '"rounds": 1'.encode("utf-32-le")
    assert text in whole
    edited = whole.replace(text, '"rounds": 0'.encode("utf-32-le"))
    for damaged in (b"", whole[:100], whole[:-30], b"no checkpoint", edited):
        path.write_bytes(damaged)
        with pytest.raises(ParameterError, match=r"'run\.npz' cannot be read"):
            training(checkpoint=path)
    assert path.read_bytes() == edited


def test_a_bit_that_was_flipped_is_refused_in_a_sentence_or_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    training(checkpoint=path).run(5)
    with np.load(path) as file:
        entries = dict(file)
    kept, plain = on_disk(path), path.read_bytes()
    np.savez_compressed(path, allow_pickle=False, **entries)
    generator, refused = np.random.default_rng(8), 0
    for whole in (plain, path.read_bytes()):
        for position in generator.integers(len(whole), size=400):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << int(generator.integers(8))
            path.write_bytes(damaged)
            try:
                found = noisy_sgd._read(path)
            except ParameterError:
                refused += 1
                continue
            assert found is not None
            assert (found.accountant, found.rounds) == (kept, 5)
    assert refused > 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": np.array(["x"])},
        {"weights": np.full(3, np.nan)},
        {"weights": np.zeros(3) + 1j},
        {"rounds": np.array([1, 2])},
        {"rounds": np.array(-1)},
        {"records": np.array("abc")},
        {"records": np.array(0)},
        {"start": np.array(3)},
        {"accountant": np.array(3)},
        {"accountant": np.array("{}")},
        {"stamp": np.zeros(0)},
    ],
    ids=repr,
)
def test_a_checkpoint_with_something_else_in_an_entry_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    path = tmp_path / "run.npz"
    training(checkpoint=path).run(1)
    with np.load(path) as file:
        entries = dict(file)
    np.savez(path, allow_pickle=False, **{**entries, **wrong})
    with pytest.raises(ParameterError, match=r"'run\.npz' cannot be read"):
        training(checkpoint=path)


def test_what_is_no_archive_and_what_is_nowhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    (tmp_path / "folder").mkdir()
    for no_checkpoint in (path, tmp_path / "folder"):
        with pytest.raises(ParameterError, match=f"'{no_checkpoint.name}' cannot be read"):
            training(checkpoint=no_checkpoint)
    for nowhere in (tmp_path / "missing" / "run.npz", path / "run.npz"):
        with pytest.raises(ParameterError, match=r"'run\.npz' must be in a folder that exists"):
            training(checkpoint=nowhere)
    run = training(checkpoint=tmp_path / "folder" / "run.npz")
    (tmp_path / "folder").rmdir()
    with pytest.raises(ParameterError, match=r"run\.npz"):
        run.run(1)


def test_a_checkpoint_whose_lock_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.npz.lock").mkdir()
    with pytest.raises(ParameterError, match=r"'run\.npz' cannot be locked"):
        training(checkpoint=tmp_path / "run.npz").run(1)


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    training(checkpoint=path).run(1)
    for other in ({"records": RECORDS + 1}, {"size": 4}):
        with pytest.raises(ParameterError, match="another training"):
            training(checkpoint=path, **other)
    np.savez(path, format=np.array("another"), weights=0, rounds=0, records=0, accountant="")
    with pytest.raises(ParameterError, match=r"'run\.npz' must have format"):
        training(checkpoint=path)


def test_an_accountant_is_brought_up_to_the_checkpoint_once(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"

    def before() -> Accountant:
        accountant = Accountant()
        accountant.record(Laplace(5.0))
        accountant.record(STEP, rounds=2)
        return accountant

    training(checkpoint=path, accountant=before()).run(3)
    resumed = training(checkpoint=path, accountant=before())
    assert resumed.accountant.run == Laplace(5.0) * 1 + STEP * 5
    # and again from the accountant with which it began, or without one
    assert training(checkpoint=path, accountant=before()).accountant == resumed.accountant
    assert training(checkpoint=path).accountant == resumed.accountant


@pytest.mark.parametrize("others", [200, 300, 400])
def test_what_another_run_has_spent_is_added_to_what_the_checkpoint_holds(tmp_path: Path, others: int) -> None:
    """Fewer rounds of the same step, just as many, or more: none of them are those of the checkpoint."""
    path = tmp_path / "run.npz"
    training(checkpoint=path, reserve=100, epsilon=9.0).run(300)
    ledger = Accountant()
    training(accountant=ledger, epsilon=9.0).run(others)
    resumed = training(checkpoint=path, accountant=ledger, epsilon=9.0)
    assert resumed.accountant is ledger
    assert ledger.run == STEP * (300 + others)
    # from here on the training has that beside it, and counts it once
    resumed.run(1)
    again = Accountant()
    again.record(STEP, rounds=others)
    for accountant in (again, None):
        assert training(checkpoint=path, accountant=accountant, epsilon=9.0).accountant.run == STEP * (301 + others)


def test_other_spending_beside_the_start_is_never_taken_for_the_start(tmp_path: Path) -> None:
    path, start, other = tmp_path / "run.npz", Accountant(), Accountant()
    start.record(STEP, rounds=2)
    other.record(STEP)
    other.record(Laplace(7.0))
    training(checkpoint=path, accountant=start).run(3)
    assert training(checkpoint=path, accountant=other).accountant.run == STEP * 6 + Laplace(7.0)


def test_the_accountant_that_has_recorded_a_training_goes_on_with_it(tmp_path: Path) -> None:
    path, accountant = tmp_path / "run.npz", Accountant()
    training(checkpoint=path, accountant=accountant, reserve=5).run(3)
    assert training(checkpoint=path, accountant=accountant, reserve=5).accountant.run == STEP * 3

    def fail(state: NoisySGD) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training(checkpoint=path, accountant=accountant, reserve=5).run(after_round=fail)
    assert recorded(accountant) == 4
    # as many as are reserved on disk, and what else it holds by now
    accountant.record(Laplace(9.0))
    assert training(checkpoint=path, accountant=accountant, reserve=5).accountant.run == STEP * 8 + Laplace(9.0)
    # once another accountant has gone on with the file, this one knows no longer what is in it
    training(checkpoint=path).run(1)
    assert training(checkpoint=path, accountant=accountant).accountant.run == STEP * (8 + 9) + Laplace(9.0)


def test_it_needs_nothing_but_numpy() -> None:
    """Beside what the accountant itself loads."""
    script = (
        "import sys, dprounds.integrations.noisy_sgd\n"
        "print(*{name.split('.')[0] for name in sys.modules} & {'torch', 'opacus', 'sklearn', 'pandas', 'matplotlib'})"
    )
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert found.stdout.split() == []
