"""The record store: against a dictionary, against kills, against what is no record and no cost."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprounds import Gaussian, ParameterError, PoissonSampled, PureDP, UnsupportedError
from dprounds.ledger import LedgerError

pytest.importorskip("pyarrow", reason="the record store needs the extra records")

from dprounds.ledger.records import RecordStore, amounts, asked, store

LARGEST = 2**63 - 1


def new(folder: Path, **given: Any) -> RecordStore:
    return RecordStore.create(folder, **{"epsilon": 1.0, "filter": "pure", **given})


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows in a group, few records at once, few rows in a base file: every boundary is met."""
    monkeypatch.setattr(amounts, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(asked, "IDS_AT_ONCE", 4)
    monkeypatch.setattr(store, "ROWS_OF_A_BASE_FILE", 5)


def test_records_that_fit_are_charged_and_the_others_are_not(tmp_path: Path) -> None:
    found = new(tmp_path / "users")
    assert found.charge([3, 1, 2], 0.5, key="a").tolist() == [True, True, True]
    assert found.charge([4, 3], [1.0, 0.75], key="b").tolist() == [True, False]
    assert found.spent([1, 2, 3, 4, 5]).tolist() == [0.5, 0.5, 0.5, 1.0, 0.0]
    # one that was left out may join a job that costs less
    assert found.charge([3, 4], 0.5, key="c").tolist() == [True, False]
    assert RecordStore(tmp_path / "users").spent([4, 3]).tolist() == [1.0, 1.0]
    found.verify()


charges = st.lists(
    st.one_of(
        st.tuples(
            st.lists(st.integers(-20, 20) | st.sampled_from([-(2**63), LARGEST]), unique=True, max_size=25),
            st.floats(0.0, 1.5) | st.lists(st.floats(0.0, math.inf), min_size=25, max_size=25),
        ),
        st.sampled_from(["compact", "reopen", "verify", "again"]),
    ),
    max_size=8,
)


@settings(max_examples=60)
@given(steps=charges)
def test_a_store_is_a_dictionary_of_exact_sums(steps: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(amounts, "ROWS_AT_ONCE", 3)
        patch.setattr(asked, "IDS_AT_ONCE", 4)
        patch.setattr(store, "ROWS_OF_A_BASE_FILE", 5)
        found, spent, last = new(folder / "s"), dict[int, int](), None
        scale = asked.Scale.of(found.filter)
        for number, step in enumerate(steps):
            if step == "compact":
                found.compact()
                last = None
            elif step == "reopen":
                found = RecordStore(folder / "s")
            elif step == "verify":
                found.verify()
            elif step == "again":
                if last is not None:
                    ids, costs, key, answer = last
                    order = np.argsort(ids)  # in another order it is the same
                    each = np.array(costs)[order] if isinstance(costs, list) else costs
                    assert (
                        found.charge(np.array(ids, np.int64)[order], each, key=key).tolist() == answer[order].tolist()
                    )
            else:
                ids, costs = step
                costs = costs[: len(ids)] if isinstance(costs, list) else costs
                answer = found.charge(ids, costs, key=str(number))
                last = ids, costs, str(number), answer
                for i, one in enumerate(ids):
                    cost = costs[i] if isinstance(costs, list) else costs
                    units = math.inf if cost == math.inf else math.ceil(Fraction(cost) * 2**scale.exponent)
                    fits = spent.get(one, 0) + units <= scale.cap
                    assert answer[i] == fits
                    if fits:
                        spent[one] = spent.get(one, 0) + int(units)
        ids = [*range(-21, 22), -(2**63), LARGEST]
        told = found.spent(ids)
        for one, amount in zip(ids, told, strict=True):
            exact = Fraction(spent.get(one, 0), 2**scale.exponent)
            assert exact <= Fraction(amount) <= exact * (1 + Fraction(1, 2**52))
        found.verify()


@given(cost=st.floats(0.0, 1e300), epsilon=st.floats(1e-6, 1e3))
def test_costs_are_rounded_up_and_the_cap_down(
    cost: float, epsilon: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = new(tmp_path_factory.mktemp("store") / "s", epsilon=epsilon)
    scale = asked.Scale.of(found.filter)
    unit = Fraction(2) ** -scale.exponent
    assert scale.cap * unit <= Fraction(epsilon)
    assert scale.cap < 2**60 + 1
    units = int(scale.all_up(np.array([cost]))[0])
    assert units == scale.up(Fraction(cost))
    assert units * unit >= Fraction(cost) or units > scale.cap
    assert units > scale.cap or (units - 1) * unit < Fraction(cost)


def test_a_cost_is_never_rounded_to_nothing() -> None:
    scale = asked.Scale(exponent=-10, cap=2**59)
    assert scale.all_up(np.array([0.0, 5e-324, 1e-300, 1024.0, 1025.0, math.inf])).tolist() == [
        0,
        1,
        1,
        1,
        2,
        2**59 + 1,
    ]


def test_ten_tenths_are_more_than_one(tmp_path: Path) -> None:
    """The double next to 0.1 is above it: as in a ledger, ten of them do not fit into 1."""
    found = new(tmp_path / "s")
    answers = [bool(found.charge([1], 0.1, key=str(number))[0]) for number in range(10)]
    assert answers == [True] * 9 + [False]


def test_a_run_costs_what_it_costs_a_ledger(tmp_path: Path) -> None:
    by_mu = new(tmp_path / "gaussian", epsilon=6.0, delta=1e-5, filter="gaussian")
    assert by_mu.charge([1], Gaussian(20.0) * 685, key="a").tolist() == [True]
    assert by_mu.charge([1, 2], Gaussian(20.0), key="b").tolist() == [False, True]
    by_order = new(tmp_path / "renyi", epsilon=6.0, delta=1e-5, filter="renyi")
    assert by_order.charge([1], Gaussian(20.0) * 603, key="a").tolist() == [True]
    assert by_order.charge([1, 2], Gaussian(20.0), key="b").tolist() == [False, True]
    assert by_order.spent([1])[0] >= (Gaussian(20.0) * 603).rdp(4.64)
    by_order.charge([5], PoissonSampled(Gaussian(1.1), 0.01) * 10, key="c")
    pure = new(tmp_path / "pure")
    assert pure.charge([1], PureDP(1.0), key="a").tolist() == [True]
    with pytest.raises(UnsupportedError, match="no largest privacy loss"):
        pure.charge([1], Gaussian(20.0), key="b")
    with pytest.raises(UnsupportedError, match="for add-remove, and this job is for zero-out"):
        by_order.charge([1], PoissonSampled(Gaussian(1.1), 0.01, relation="zero-out"), key="d")
    with pytest.raises(UnsupportedError, match="No Gaussian noise is proven to bound this job"):
        by_mu.charge([1], PoissonSampled(Gaussian(1.1), 0.01) * 10, key="c")


def test_a_key_is_one_charge(tmp_path: Path) -> None:
    found = new(tmp_path / "s")
    first = found.charge([5, 1, 3], [0.5, 2.0, 0.0], key="a")
    assert first.tolist() == [True, False, True]
    assert found.charge([1, 5, 3], [2.0, 0.5, 0.0], key="a").tolist() == [False, True, True]
    assert found.spent([5]).tolist() == [0.5]
    for ids, cost in (([5, 1], [0.5, 2.0]), ([5, 1, 3], 0.5), ([5, 1, 4], [0.5, 2.0, 0.0]), ([], 0.0)):
        with pytest.raises(ParameterError, match="key must be new"):
            found.charge(ids, cost, key="a")
    # other records whose bytes, with the costs, are the same
    units = asked.Scale.of(found.filter).all_up(np.array([0.25, 0.5])).tolist()
    found.charge([1, 2, units[0]], asked.Scale.of(found.filter).real(np.array([units[1]]))[0], key="flat")
    with pytest.raises(ParameterError, match="key must be new"):
        found.charge([1, 2], [0.25, 0.5], key="flat")
    found.compact()
    with pytest.raises(LedgerError, match="part of the base by now"):
        found.charge([5, 1, 3], [0.5, 2.0, 0.0], key="a")
    assert found.spent([5]).tolist() == [0.5]


@pytest.mark.parametrize(
    "ids",
    [
        [1, 1],
        [2, 1, 2],
        [1.0],
        [math.nan],
        ["1"],
        [None],
        [True],
        [[1]],
        1,
        None,
        "1",
        [2**63],
        [-(2**63) - 1],
        [1, 2.5],
        np.array([2**63], np.uint64),
        np.ma.array([1, 2], mask=[False, True]),
        np.array([1 + 0j]),
        {1, 2},
        b"12",
    ],
)
def test_what_is_no_list_of_records_is_refused(tmp_path: Path, ids: Any) -> None:
    found = new(tmp_path / "s")
    with pytest.raises(ParameterError, match=r"^ids must be distinct 64-bit integers\.$"):
        found.charge(ids, 0.1, key="a")
    with pytest.raises(ParameterError, match=r"^ids must be distinct 64-bit integers\.$"):
        found.spent(ids)
    assert sorted(os.listdir(tmp_path / "s")) == ["lock", "manifest.json"]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("place", [3, 4, 5])
def test_a_record_that_is_there_twice_is_found_across_parts(tmp_path: Path, place: int) -> None:
    found = new(tmp_path / "s")
    ids = list(range(10))
    ids[place] = ids[place - 1]
    with pytest.raises(ParameterError, match="distinct"):
        found.charge(ids, 0.1, key="a")
    assert found.charge(range(10), 1.0, key="a").all()


@pytest.mark.parametrize(
    "cost",
    [
        math.nan,
        -1e-300,
        -1,
        [0.1, math.nan],
        [0.1, -0.1],
        [0.1],
        [0.1] * 3,
        [[0.1, 0.1]],
        "1",
        None,
        True,
        [True, False],
        np.longdouble(0.1),
        2**53 + 1,
        2**70,
        1j,
        [0.1, None],
        np.ma.array([0.1, 0.2], mask=[False, True]),
        {},
    ],
)
def test_what_is_no_cost_is_refused(tmp_path: Path, cost: Any) -> None:
    found = new(tmp_path / "s")
    with pytest.raises(ParameterError, match=r"^cost must be a run, a number in"):
        found.charge([1, 2], cost, key="a")
    assert found.charge([1, 2], math.inf, key="a").tolist() == [False, False]
    assert found.spent([1, 2]).tolist() == [0.0, 0.0]


def test_keys_and_openings_that_are_wrong_are_refused(tmp_path: Path) -> None:
    found = new(tmp_path / "s")
    for key in ("", "two\nlines", 3, None, "k" * 201):
        with pytest.raises(ParameterError, match="key must"):
            found.charge([1], 0.1, key=key)  # type: ignore[arg-type]  # that is the point
    for given_, said in (
        ({"epsilon": math.nan}, "epsilon must be in"),
        ({"filter": "natural"}, "filter must be one of"),
        ({"filter": "renyi"}, "delta must be given"),
        ({"delta": 1e-5}, "A pure budget has delta 0"),
        ({"order": 2.0}, "order is for filter='renyi'"),
        ({"note": "two\nlines"}, "note must be text on one line"),
        ({"timeout": 0.0}, "timeout must be in"),
        ({"epsilon": 5e-324}, "too small for any job"),
    ):
        with pytest.raises(ParameterError, match=said):
            new(tmp_path / "other", **given_)
        assert not (tmp_path / "other").exists()


def test_a_store_is_made_where_nothing_is(tmp_path: Path) -> None:
    """A folder whose manifest was lost must not become a new budget."""
    found = new(tmp_path / "s")
    found.charge([1], 1.0, key="a")
    with pytest.raises(ParameterError, match="folder must be a new or an empty folder"):
        new(tmp_path / "s")
    (tmp_path / "s" / "manifest.json").unlink()
    with pytest.raises(ParameterError, match="folder must be a new or an empty folder"):
        new(tmp_path / "s")
    for use in (lambda: RecordStore(tmp_path / "s"), lambda: found.charge([1], 0.1, key="b"), lambda: found.spent([1])):
        with pytest.raises(LedgerError, match=r"manifest\.json is missing or damaged"):
            use()
    with pytest.raises(LedgerError, match="missing or damaged"):
        RecordStore(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="cannot be made"):
        new(tmp_path / "file")


@pytest.mark.usefixtures("small_parts")
def test_a_byte_that_was_changed_is_found_or_changes_nothing(tmp_path: Path) -> None:
    """Bytes of every file in turn, and a cut: an error in one sentence, or what was said before."""
    found = new(tmp_path / "s")
    found.charge(range(10), np.linspace(0.1, 0.5, 10), key="a")
    found.compact()
    found.charge(range(0, 20, 2), 0.25, key="b")
    expected, damaged = found.spent(range(20)).tolist(), 0
    for path in sorted((tmp_path / "s").iterdir()):
        whole = path.read_bytes()
        spoiled = [whole[: len(whole) // 2]] if whole else []
        spoiled += [whole[:i] + bytes([whole[i] ^ 0x55]) + whole[i + 1 :] for i in range(3, len(whole), 11)]
        for content in spoiled:
            path.write_bytes(content)
            try:
                again = RecordStore(tmp_path / "s", timeout=1.0)
                again.verify()
                assert again.spent(range(20)).tolist() == expected
            except LedgerError:
                damaged += 1
        path.write_bytes(whole)
    assert damaged > 30
    found.verify()


def test_a_budget_that_was_raised_in_the_manifest_is_refused(tmp_path: Path) -> None:
    found = new(tmp_path / "s")
    path = tmp_path / "s" / "manifest.json"
    said = json.loads(path.read_text())
    said["opening"]["filter"]["epsilon"] = 2.0
    said["opening"]["filter"]["caps"] = [str(2**61)]
    path.write_text(json.dumps(said))
    for use in (lambda: RecordStore(tmp_path / "s"), lambda: found.charge([1], 0.1, key="a"), found.verify):
        with pytest.raises(LedgerError, match=r"manifest\.json is missing or damaged"):
            use()


def test_a_file_that_is_missing_is_not_taken_for_nothing(tmp_path: Path) -> None:
    found = new(tmp_path / "s")
    found.charge([1], 1.0, key="a")
    next((tmp_path / "s").glob("delta-*")).unlink()
    for use in (lambda: found.charge([1], 0.1, key="b"), lambda: found.spent([1]), found.compact, found.verify):
        with pytest.raises(LedgerError, match="is missing or damaged: restore the whole folder"):
            use()


def test_a_store_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    found = new(tmp_path / "s")
    path = tmp_path / "s" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 2}))
    with pytest.raises(LedgerError, match="made by a newer dprounds"):
        found.charge([1], 0.1, key="a")


def test_a_total_beyond_the_cap_is_refused(tmp_path: Path) -> None:
    """Two stores' files in one folder, as after a wrong restore, named by a manifest that fits them."""
    found = new(tmp_path / "s")
    found.charge([1, 2], 0.75, key="a")
    manifest = found._folder.read()
    charge = manifest.charges["a"]
    assert charge.file is not None
    found._folder.replace(replace(manifest, base=(charge.file,)))
    for use in (lambda: found.charge([2], 0.1, key="b"), lambda: found.spent([1]), found.compact, found.verify):
        with pytest.raises(LedgerError, match="passes the cap"):
            use()


def test_messages_name_no_record_and_no_number_of_them(tmp_path: Path) -> None:
    found = new(tmp_path / "s")
    found.charge([123456789], 1.0, key="a")
    assert "123456789" not in repr(found) + str(vars(found).get("filter"))
    for ids, cost in (([123456789] * 2, 0.1), ([123456789], -0.987), ([123456789], math.nan)):
        with pytest.raises(ParameterError) as refused:
            found.charge(ids, cost, key="b")
        assert not any(said in str(refused.value) + repr(refused.value.fields) for said in ("123456789", "987", "nan"))


def test_only_its_owner_may_read_a_new_store(tmp_path: Path) -> None:
    new(tmp_path / "s")
    assert (tmp_path / "s").stat().st_mode & 0o077 == 0


def test_a_store_may_have_more_files_than_a_process_may_open(tmp_path: Path) -> None:
    found = new(tmp_path / "s")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = len(os.listdir("/proc/self/fd")) + 10 if Path("/proc/self/fd").exists() else 64
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        for number in range(20):
            assert found.charge([1, number + 2], 2.0**-5, key=str(number)).all()
        assert found.spent([1, 2]).tolist() == [20 / 32, 1 / 32]
        found.verify()
        found.compact()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found.spent([1, 2]).tolist() == [20 / 32, 1 / 32]


# --- Crashes and others at the same time.

# Ends itself by SIGKILL at the n-th call that changes something on disk, and says how many there were.
KILLED = """
import os, signal, sys
from pathlib import Path
from dprounds.ledger.records import RecordStore, amounts
folder, end, work = sys.argv[1], int(sys.argv[2]), sys.argv[3]
calls = 0
def counted(place, name):
    real = getattr(place, name)
    def call(*given, **named):
        global calls
        if calls == end:
            os.kill(os.getpid(), signal.SIGKILL)
        calls += 1
        return real(*given, **named)
    setattr(place, name, call)
store = RecordStore(folder)
writer = amounts.Writer
for place, name in ((os, "fsync"), (os, "replace"), (Path, "unlink"), (writer, "write"), (writer, "end")):
    counted(place, name)
if work == "charge":
    store.charge(range(6), 0.5, key="killed")
else:
    store.compact()
print(calls)
"""


@pytest.mark.parametrize("work", ["charge", "compact"])
def test_a_kill_between_any_two_steps_leaves_all_or_nothing(tmp_path: Path, work: str) -> None:
    prepared = new(tmp_path / "prepared")
    prepared.charge(range(0, 6, 2), 0.25, key="first")
    prepared.charge(range(0, 6, 3), 0.25, key="second")
    before = prepared.spent(range(6)).tolist()
    after = [amount + 0.5 for amount in before] if work == "charge" else before
    states, end = [], 0
    while True:
        folder = tmp_path / str(end)
        shutil.copytree(tmp_path / "prepared", folder)
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(folder), str(end), work], capture_output=True, text=True, check=False
        )
        found = RecordStore(folder, timeout=1.0)  # nobody holds the lock any more
        found.verify()
        told = found.spent(range(6)).tolist()
        assert told in (before, after)
        states.append(told == after)
        # asked again, it is charged once
        assert found.charge(range(6), 0.5, key="killed").tolist() == [True] * 6
        assert found.spent(range(6)).tolist() == [amount + 0.5 for amount in before]
        found.compact()
        assert found.spent(range(6)).tolist() == [amount + 0.5 for amount in before]
        assert len(list(folder.glob("*.parquet"))) == 1  # what nobody names is gone
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        end += 1
    assert end >= 5
    if work == "charge":
        assert states == sorted(states)  # from one call on it is charged
        assert not states[0]
        assert states[-1]


def _charge_all(folder: str, name: str, charged: Any) -> None:
    found = RecordStore(folder, timeout=60.0)
    for number in range(10):
        answer = found.charge(range(50), 0.03125, key=f"{name} {number}")
        with charged.get_lock():
            charged.value += int(answer.sum())


def test_writers_take_turns_and_none_passes_the_cap(tmp_path: Path) -> None:
    found = new(tmp_path / "s")
    context = multiprocessing.get_context("spawn")
    charged = context.Value("l", 0)
    writers = [context.Process(target=_charge_all, args=(str(tmp_path / "s"), str(n), charged)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    assert charged.value == 50 * 32  # of 40 charges to each of 50 records, 32 fit
    assert found.spent(range(50)).tolist() == [1.0] * 50
    found.verify()


def test_a_writer_that_does_not_end_is_waited_for_and_named(tmp_path: Path) -> None:
    found = new(tmp_path / "s")
    other = RecordStore(tmp_path / "s", timeout=0.1)
    works: list[Callable[[], object]] = [
        lambda: other.charge([1], 0.1, key="a"),
        other.compact,
        lambda: other.spent([1]),
    ]
    with found._folder.locked(shared=False):
        for work in works:
            with pytest.raises(LedgerError, match=r"Waited 0.1 s for another process that uses .*, which did not end"):
                work()
    with found._folder.locked(shared=True):  # readers do not keep readers out
        assert other.spent([1]).tolist() == [0.0]
        with pytest.raises(LedgerError, match="Waited"):
            works[0]()
    assert other.charge([1], 0.1, key="a").tolist() == [True]


def test_without_locks_nothing_is_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = new(tmp_path / "s")
    monkeypatch.setattr("dprounds.ledger.records.folder.fcntl", None)
    with pytest.raises(UnsupportedError, match="needs the file locks of POSIX"):
        found.charge([1], 0.1, key="a")


@pytest.mark.parametrize("fails", ["write", "fsync", "replace"])
def test_a_full_disk_is_refused_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    found = new(tmp_path / "s")
    found.charge([1], 0.5, key="a")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        if fails == "write":
            patch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
        else:
            patch.setattr(os, fails, full)
        for work in (lambda: found.charge([1], 0.25, key="b"), found.compact):
            with pytest.raises(LedgerError, match=r"cannot be written: No space left on device\. Ask again"):
                work()
    assert found.spent([1]).tolist() == [0.5]
    assert found.charge([1], 0.25, key="b").tolist() == [True]
    assert found.spent([1]).tolist() == [0.75]
    found.compact()
    found.verify()
