"""Killed and resumed: the record on disk is never behind what was computed, and nothing in it is forgotten."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprounds import Accountant, Gaussian, Laplace, ParameterError, PoissonSampled, max_rounds
from dprounds.integrations import checkpoints
from dprounds.integrations.noisy_sgd import NoisySGD
from tests.integrations.noisy_training import (
    DELTA,
    EPSILON,
    RECORDS,
    STEP,
    moved,
    on_disk,
    recorded,
    training,
)


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
            assert state.remaining > 10  # this plans again, and the release must be saved in spite of that
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
    lambda weights, lot, clip_norm: np.zeros_like(weights), np.zeros(3), records=200, public_records=200,
    sampling_rate=0.1, noise_multiplier=10.0, clip_norm=1.0, learning_rate=0.5, epsilon=1.0, delta=1e-4,
    method="optimal", checkpoint=sys.argv[1], reserve=7,
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
        assert set(file.files) == {"format", "weights", "rounds", "public_records", "start", "accountant", "stamp"}
        stamp = str(file["stamp"])
    # the stamp is no draw of the run's generator: the same run has another one
    other = tmp_path / "other.npz"
    training(checkpoint=other, random_state=1).run(1)
    with np.load(other) as file:
        assert str(file["stamp"]) != stamp


def test_a_checkpoint_does_not_reveal_the_number_of_records(tmp_path: Path) -> None:
    """It is covered by the guarantee, for adding or removing a record."""
    found = []
    for records in (20, 21):
        path = tmp_path / f"{records}.npz"
        training(records=records, checkpoint=path, random_state=1).run(3)
        with np.load(path) as file:
            # the stamps are drawn at random, those inside of the accountants too
            entries = {name: file[name].tolist() for name in file.files if name != "stamp"}
        found.append({**entries, "start": Accountant.from_json(entries["start"]), "accountant": on_disk(path)})
    assert found[0] == found[1]


def test_a_checkpoint_of_the_version_that_counted_the_records_goes_on_with_its_divisor(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    training(checkpoint=path).run(2)
    with np.load(path) as file:
        entries = dict(file)
    entries["records"] = np.array(int(entries.pop("public_records")))
    entries["format"] = np.array("dprounds.noisy_sgd 3")
    np.savez(path, allow_pickle=False, **entries)
    assert training(checkpoint=path).rounds == 2
    with pytest.raises(ParameterError, match="public_records=201, got one of 3 and 200"):
        training(checkpoint=path, public_records=RECORDS + 1)


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
                found = checkpoints.read(path)
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
        {"public_records": np.array("abc")},
        {"public_records": np.array(0)},
        {"public_records": np.array(np.nan)},
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


def test_a_file_that_is_not_an_archive_or_has_no_folder_is_refused(tmp_path: Path) -> None:
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
    for other in ({"public_records": RECORDS + 1}, {"size": 4}):
        with pytest.raises(ParameterError, match="another training"):
            training(checkpoint=path, **other)
    np.savez(path, format=np.array("another"), weights=0, rounds=0, records=0, accountant="")
    with pytest.raises(ParameterError, match=r"'run\.npz' must have format"):
        training(checkpoint=path)


def test_an_accountant_is_brought_up_to_the_checkpoint_once(tmp_path: Path) -> None:
    path, start = tmp_path / "run.npz", Accountant()
    start.record(Laplace(5.0))
    start.record(STEP, rounds=2)
    kept = start.to_json()
    training(checkpoint=path, accountant=Accountant.from_json(kept)).run(3)
    resumed = training(checkpoint=path, accountant=Accountant.from_json(kept))
    assert resumed.accountant.run == Laplace(5.0) * 1 + STEP * 5
    # and again from the file with which it began, from what is restored by now, from an empty one, or without one
    for accountant in (Accountant.from_json(kept), resumed.accountant, moved(resumed.accountant), Accountant(), None):
        assert training(checkpoint=path, accountant=accountant).accountant == resumed.accountant
    # and after more rounds, from a file written then
    resumed.run(1)
    later = moved(resumed.accountant)
    assert training(checkpoint=path, accountant=later).accountant.run == Laplace(5.0) * 1 + STEP * 6


def test_a_script_that_runs_again_counts_the_rounds_it_makes_again(tmp_path: Path) -> None:
    """Its first training has no checkpoint. Run again, it holds as many rounds as when the second one began."""
    path, computed = tmp_path / "second.npz", []

    def watch(weights: Any, lot: Any, clip_norm: float) -> Any:
        computed.append(1)
        return np.zeros_like(weights)

    for kept in (None, tmp_path / "kept.json"):
        path.unlink(missing_ok=True)
        computed.clear()
        for _ in range(3):
            ledger = Accountant()
            training(watch, accountant=ledger, epsilon=9.0).run(10)
            if kept is not None:  # in a script of its own, the first half of a pipeline
                kept.write_text(ledger.to_json())
                ledger = Accountant.from_json(kept.read_text())
            training(watch, accountant=ledger, checkpoint=path, reserve=5, epsilon=9.0).run(5)
        assert len(computed) == recorded(ledger) == recorded(on_disk(path)) == 45


def test_a_script_of_two_trainings_with_a_checkpoint_each_counts_every_round_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    for again in range(3):
        ledger = Accountant()
        training(accountant=ledger, checkpoint=first, epsilon=9.0).run(0 if again else 10)
        training(accountant=ledger, checkpoint=second, epsilon=9.0).run(5)
        assert ledger.run == STEP * (15 + 5 * again)
    # the first one goes on: what is in the second one's start is no longer all of it, and counts twice
    ledger = Accountant()
    training(accountant=ledger, checkpoint=first, epsilon=9.0).run(1)
    training(accountant=ledger, checkpoint=second, epsilon=9.0)
    assert ledger.run == STEP * (11 + 25)


def test_a_checkpoint_without_stamps_is_resumed_and_no_accountant_counts_as_its_start(tmp_path: Path) -> None:
    path, start = tmp_path / "run.npz", Accountant()
    start.record(Laplace(5.0))
    kept = start.to_json()
    training(checkpoint=path, accountant=start).run(3)
    with np.load(path) as file:
        entries = dict(file)
    for name in ("start", "accountant"):
        data = json.loads(str(entries[name]))
        del data["stamp"]
        entries[name] = np.array(json.dumps(data))
    entries["format"] = np.array("dprounds.noisy_sgd 2")
    entries["records"] = entries.pop("public_records")
    np.savez(path, allow_pickle=False, **entries)
    assert training(checkpoint=path).accountant.run == Laplace(5.0) + STEP * 3
    resumed = training(checkpoint=path, accountant=Accountant.from_json(kept))
    assert resumed.accountant.run == Laplace(5.0) * 2 + STEP * 3
    # saved again it has them
    resumed.run(1)
    assert training(checkpoint=path, accountant=Accountant.from_json(kept)).accountant.run == resumed.accountant.run


def test_a_link_to_a_checkpoint_is_the_checkpoint(tmp_path: Path) -> None:
    path, link = tmp_path / "run-1.npz", tmp_path / "latest.npz"
    link.symlink_to("run-1.npz")  # before there is a file
    training(checkpoint=link, reserve=4).run(3)
    assert path.is_file()
    assert link.is_symlink()

    def intrude(state: NoisySGD) -> None:
        with pytest.raises(ParameterError, match="in use"):
            training(checkpoint=link).run(1)

    training(checkpoint=path).run(2, after_round=intrude)
    training(checkpoint=link).run(1)
    assert link.is_symlink()
    assert recorded(on_disk(path)) == recorded(training(checkpoint=path).accountant) == 6
    assert checkpoints.spent_before(link, Accountant()) == checkpoints.spent_before(path, Accountant())
    circle = tmp_path / "circle.npz"
    circle.symlink_to(circle)
    with pytest.raises(ParameterError, match="checkpoint"):
        training(checkpoint=circle)


def test_a_relative_checkpoint_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    training(checkpoint="run.npz", reserve=2).run(6, after_round=lambda state: os.chdir(there))
    assert recorded(on_disk(here / "run.npz")) == 6
    assert not list(there.iterdir())


@pytest.mark.parametrize("fails", ["replace", "fsync", "open"])
def test_a_disk_that_was_full_once_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    path = tmp_path / "run.npz"
    run = training(checkpoint=path, reserve=5)
    run.run(5)
    original = getattr(os, fails)

    def full(*args: Any) -> Any:
        if fails == "open" and ".lock" in str(args[0]):
            return original(*args)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, fails, full)
        with pytest.raises(OSError, match="No space left"):
            run.run(3)
    assert run.run(3) == 3
    assert recorded(on_disk(path)) == recorded(run.accountant) == 8


@pytest.mark.parametrize("others", [200, 300, 400])
def test_what_another_run_has_spent_is_added_to_what_the_checkpoint_holds(tmp_path: Path, others: int) -> None:
    """Fewer rounds of the same step, just as many, or more: none of them are those of the checkpoint."""
    path = tmp_path / "run.npz"
    training(checkpoint=path, reserve=100, epsilon=9.0).run(300)
    ledger = Accountant()
    training(accountant=ledger, epsilon=9.0).run(others)
    kept = ledger.to_json()
    resumed = training(checkpoint=path, accountant=ledger, epsilon=9.0)
    assert resumed.accountant is ledger
    assert ledger.run == STEP * (300 + others)
    # from here on the training counts that once, in addition to its own rounds
    resumed.run(1)
    for accountant in (Accountant.from_json(kept), None):
        assert training(checkpoint=path, accountant=accountant, epsilon=9.0).accountant.run == STEP * (301 + others)


def test_other_spending_in_addition_to_the_start_never_counts_as_the_start(tmp_path: Path) -> None:
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
    # once another accountant has gone on with the file, this one no longer knows what is in it
    training(checkpoint=path).run(1)
    assert training(checkpoint=path, accountant=accountant).accountant.run == STEP * (8 + 9) + Laplace(9.0)
