"""The running total."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from dprounds import (
    ZCDP,
    Accountant,
    ApproximateDP,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    ParameterError,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    RdpCurve,
    max_rounds,
)
from dprounds.accountant import checked_accountant
from dprounds.mechanisms import Mechanism

STEP = PoissonSampled(Gaussian(1.1), 0.004)
EVERY: list[Mechanism] = [
    Gaussian(1.1),
    Laplace(0.1 + 0.2),
    RandomizedResponse(1e-3),
    PureDP(2.0),
    ApproximateDP(0.1, 1e-7),
    DiscreteGaussian(3.0),
    ZCDP(0.01),
    RdpCurve([2.0, 4.0, math.inf], [0.1, 0.2, 3.0]),
    PoissonSampled(Laplace(2.0), 1 / 3),
    STEP,
]


def test_equal_steps_merge_and_the_total_is_the_run() -> None:
    accountant = Accountant()
    for _ in range(300):
        accountant.record(PoissonSampled(Gaussian(1.1), 0.004))
    accountant.record(STEP, rounds=700)
    accountant.record(Laplace(5.0) * 3 + Gaussian(9.0))
    assert accountant.run == STEP * 1000 + Laplace(5.0) * 3 + Gaussian(9.0)
    assert len(accountant.run.parts) == 3
    assert accountant.epsilon(delta=1e-5) == accountant.run.epsilon(delta=1e-5)
    assert accountant.delta(epsilon=1.0) == accountant.run.delta(epsilon=1.0)
    assert accountant.guarantee(delta=1e-5) == accountant.run.guarantee(delta=1e-5)


def test_remaining_rounds_and_would_exceed_agree() -> None:
    accountant = Accountant()
    whole = max_rounds(STEP, epsilon=1.0, delta=1e-5)
    assert accountant.remaining_rounds(STEP, epsilon=1.0, delta=1e-5) == whole
    accountant.record(STEP, rounds=whole - 1)
    assert accountant.remaining_rounds(STEP, epsilon=1.0, delta=1e-5) == 1
    assert not accountant.would_exceed(STEP, epsilon=1.0, delta=1e-5)
    accountant.record(STEP)
    assert accountant.would_exceed(STEP, 1.0, 1e-5)
    assert accountant.remaining_rounds(STEP, epsilon=1.0, delta=1e-5) == 0
    accountant.record(Gaussian(0.1))
    assert accountant.remaining_rounds(STEP, epsilon=1.0, delta=1e-5) == 0


def test_json_restores_every_mechanism_exactly() -> None:
    accountant = Accountant()
    for number, mechanism in enumerate(EVERY, start=1):
        accountant.record(mechanism, rounds=number**9)
    restored = Accountant.from_json(accountant.to_json())
    assert restored == accountant
    assert restored.to_json() == accountant.to_json()
    assert json.loads(accountant.to_json())["version"] == 1


def test_an_empty_accountant_is_restored_too() -> None:
    assert Accountant.from_json(Accountant().to_json()) == Accountant()


def damaged() -> dict[str, Any]:
    good = Accountant()
    good.record(STEP, rounds=5)
    good.record(RdpCurve([2.0, math.inf], [0.1, 0.2]))
    data: dict[str, Any] = json.loads(good.to_json())
    part = data["parts"][0]
    gaussian = {"name": "Gaussian", "noise_multiplier": 1.0}

    def with_part(**changes: object) -> str:
        return json.dumps({**data, "parts": [{**part, **changes}]})

    deep: dict[str, Any] = gaussian
    for _ in range(500):
        deep = {"name": "PoissonSampled", "mechanism": deep, "sampling_rate": 0.5}
    return {
        "empty": "",
        "cut short": good.to_json()[:-10],
        "not an object": "[1, 2]",
        "null": "null",
        "binary": b"\xff\xfe\x00",
        "nested beyond reason": "[" * 100_000,
        "other format": json.dumps({**data, "format": "something"}),
        "newer version": json.dumps({**data, "version": 2}),
        "version true": json.dumps({**data, "version": True}),
        "extra key": json.dumps({**data, "more": 1}),
        "stamp not a text": json.dumps({**data, "stamp": 3}),
        "stamp null": json.dumps({**data, "stamp": None}),
        "stamp changed by hand": json.dumps({**data, "stamp": "mine"}),
        "no parts": json.dumps({"format": data["format"], "version": 1}),
        "parts not a list": json.dumps({**data, "parts": {}}),
        "unknown mechanism": with_part(mechanism={"name": "Uniform", "width": 1.0}),
        "abstract mechanism": with_part(mechanism={"name": "Mechanism"}),
        "not a mechanism": with_part(mechanism={"name": "Run", "parts": []}),
        "mechanism not an object": with_part(mechanism=3),
        "missing parameter": with_part(mechanism={"name": "Gaussian"}),
        "bad parameter": with_part(mechanism={"name": "Gaussian", "noise_multiplier": -1.0}),
        "text parameter": with_part(mechanism={"name": "Gaussian", "noise_multiplier": "1.0"}),
        "NaN parameter": with_part(mechanism={"name": "Gaussian", "noise_multiplier": math.nan}),
        "negative rounds": with_part(rounds=-1),
        "fraction of a round": with_part(rounds=1.5),
        "rounds as text": with_part(rounds="5"),
        "rounds true": with_part(rounds=True),
        "deep": with_part(mechanism=deep),
        "a number": 5,
    }


DAMAGED = damaged()


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_damaged_content_is_refused_in_one_line(text: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        Accountant.from_json(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rounds", [-1, 1.5, math.nan, "1", None, True])
def test_rounds_must_be_counted(rounds: Any) -> None:
    with pytest.raises(ParameterError, match=r"^rounds must be an integer in \[0, inf\), got"):
        Accountant().record(STEP, rounds=rounds)


def test_only_releases_are_recorded() -> None:
    with pytest.raises(ParameterError, match=r"^step must be a mechanism or a run"):
        Accountant().record("gaussian")  # type: ignore[arg-type]  # the point of the test


# Threads and copies


@pytest.mark.parametrize("rounds", [1, 2])
def test_threads_that_share_an_accountant_lose_no_round(rounds: int) -> None:
    accountant, steps = Accountant(), [STEP, Laplace(5.0)]

    def record() -> None:
        for number in range(1500):
            accountant.record(steps[number % 2], rounds=rounds)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=record) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert accountant.run == (STEP + Laplace(5.0)) * (3000 * rounds)


def pickled(accountant: Accountant) -> Accountant:
    restored: Accountant = pickle.loads(pickle.dumps(accountant))
    return restored


COPIES = pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])


@COPIES
def test_a_copy_is_independent(copied: Callable[[Accountant], Accountant]) -> None:
    accountant = Accountant()
    accountant.record(STEP, rounds=3)
    other = copied(accountant)
    assert other == accountant
    other.record(STEP)
    accountant.record(Laplace(5.0))
    assert other.run == STEP * 4
    assert accountant.run == STEP * 3 + Laplace(5.0)


@COPIES
def test_a_copy_is_not_accepted_for_the_accountant(copied: Callable[[Accountant], Accountant]) -> None:
    accountant = Accountant()
    assert checked_accountant("accountant", accountant) is accountant
    with pytest.raises(ParameterError, match=r"^accountant must be the accountant itself, got a copy"):
        checked_accountant("accountant", copied(accountant))
    moved = Accountant.from_json(copied(accountant).to_json())
    assert checked_accountant("accountant", moved) is moved


def test_a_forked_process_has_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    accountant = Accountant()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(ParameterError, match="one of another process"):
        checked_accountant("accountant", accountant)


@pytest.mark.parametrize("wrong", [5, "x", None, STEP, STEP * 3, Accountant])
def test_what_is_not_an_accountant_is_refused(wrong: object) -> None:
    with pytest.raises(ParameterError, match=r"^accountant must be an Accountant, got"):
        checked_accountant("accountant", wrong)


# Stamps


def test_a_stamp_names_one_total_of_one_accountant() -> None:
    first, second = Accountant(), Accountant()
    stamps = {first.stamp, second.stamp}
    for accountant in (first, second):
        for rounds in (1, 1, 2):
            accountant.record(STEP, rounds=rounds)
            stamps.add(accountant.stamp)
    assert first == second
    assert len(stamps) == 8
    assert first.stamp == first.stamp


@pytest.mark.parametrize("moved", [copy.copy, pickled, lambda a: Accountant.from_json(a.to_json())])
def test_what_is_restored_keeps_the_stamp_until_it_records(moved: Callable[[Accountant], Accountant]) -> None:
    accountant = Accountant()
    accountant.record(STEP, rounds=3)
    twins = [moved(accountant), moved(moved(accountant))]
    assert {twin.stamp for twin in twins} == {accountant.stamp}
    before = accountant.stamp
    for each in (accountant, *twins):
        each.record(STEP)
    # as many rounds, and none of them the same
    assert len({before, accountant.stamp, *(twin.stamp for twin in twins)}) == 4


def test_the_two_accountants_of_a_fork_have_stamps_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    accountant = Accountant()
    accountant.record(STEP)
    here = accountant.stamp
    monkeypatch.setattr(os, "getpid", lambda: 12345)
    assert accountant.stamp != here


def test_json_without_a_stamp_is_read_and_is_nobody_elses() -> None:
    accountant = Accountant()
    accountant.record(STEP)
    data = json.loads(accountant.to_json())
    del data["stamp"]
    restored = [Accountant.from_json(json.dumps(data)) for _ in range(2)]
    assert restored[0] == restored[1] == accountant
    assert len({accountant.stamp, *(each.stamp for each in restored)}) == 3


def test_a_round_is_recorded_only_if_nothing_was_since() -> None:
    accountant = Accountant()
    seen = accountant.stamp
    assert accountant.record_if(STEP, seen) == accountant.stamp != seen
    assert accountant.record_if(STEP, seen) is None
    assert accountant.run == STEP * 1


def test_a_total_is_replaced_only_if_nothing_was_recorded_since() -> None:
    accountant, other = Accountant(), Accountant()
    accountant.record(STEP)
    seen = accountant.stamp
    other.record(STEP, rounds=5)
    assert accountant.replace_if(other, seen)
    assert (accountant.run, accountant.stamp) == (STEP * 5, other.stamp)
    accountant.record(STEP)
    assert accountant.stamp not in (seen, other.stamp)
    assert not accountant.replace_if(other, seen)
    assert accountant.run == STEP * 6


# Mechanisms of one's own


@dataclass(frozen=True, repr=False)
class Louder(Gaussian):
    """Less private than it is called."""

    def _log_moment(self, z: Any, direction: str) -> Any:
        return 4 * super()._log_moment(z, direction)


Namesake: Any = dataclass(frozen=True, repr=False)(
    type("Gaussian", (Louder,), {"__module__": "dprounds.mechanisms.gaussian"})
)


@pytest.mark.parametrize("own", [Louder(4.0), Namesake(4.0), PoissonSampled(Louder(4.0), 0.5)])
def test_what_could_not_be_read_back_is_not_written(own: Mechanism) -> None:
    accountant = Accountant()
    accountant.record(STEP)
    accountant.record(own)
    assert accountant.epsilon(delta=1e-5) > 0
    with pytest.raises(ParameterError, match="the library's own mechanisms only, got a") as caught:
        accountant.to_json()
    assert "\n" not in str(caught.value)
