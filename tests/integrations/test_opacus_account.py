"""Saved accounts of Opacus: a state restores its own training, and never erases a step of another."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest

from dprounds import ParameterError
from tests.integrations.opacus_training import DELTA, Training, marks

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch deprecates is not ours to fix
    from dprounds.integrations.opacus import ExactAccountant

pytestmark = marks

HELD = [(1.0, 0.1, 3), (2.0, 0.1, 2)]
NAME = "0" * 32 + "-1"


def recorded(*lines: tuple[float, float, int], on: ExactAccountant | None = None) -> ExactAccountant:
    accountant = on or ExactAccountant()
    for noise, rate, steps in lines:
        for _ in range(steps):
            accountant.step(noise_multiplier=noise, sample_rate=rate)
    return accountant


def resumed(accountant: ExactAccountant) -> ExactAccountant:
    other = ExactAccountant()
    other.load_state_dict(copy.deepcopy(accountant.state_dict()))
    return other


def test_another_training_with_equal_steps_is_not_taken_for_this_one() -> None:
    made, other = recorded((1.0, 0.1, 10)), recorded((1.0, 0.1, 20))
    for state in (other.state_dict(), {"mechanism": "dprounds", "history": [(1.0, 0.1, 20)]}):
        with pytest.raises(ParameterError, match="of another training"):
            made.load_state_dict(state)
        assert made.history == [(1.0, 0.1, 10)]
    fresh = resumed(other)
    assert fresh.history == [(1.0, 0.1, 20)]


@pytest.mark.parametrize("more", [[], [(2.0, 0.1, 3)], [(1.0, 0.1, 1)], [(2.0, 0.1, 1), (3.0, 0.1, 2)]])
def test_a_state_that_goes_on_from_what_is_recorded_is_loaded(more: list[tuple[float, float, int]]) -> None:
    first = recorded(*HELD)
    second = recorded(*more, on=resumed(first))
    third = recorded((4.0, 0.1, 1), on=resumed(second))
    for later in (first, second, third):
        first.load_state_dict(later.state_dict())
        assert first.history == later.history
    assert len(first) == 5 + sum(steps for _, _, steps in more) + 1
    recorded((4.0, 0.1, 1), on=third)
    first.load_state_dict(third.state_dict())
    assert len(first) == len(third)


def test_of_two_that_resumed_from_one_state_neither_is_taken_for_the_other() -> None:
    start = recorded(*HELD)
    first, second = recorded((2.0, 0.1, 1), on=resumed(start)), recorded((2.0, 0.1, 5), on=resumed(start))
    with pytest.raises(ParameterError, match="of another training"):
        first.load_state_dict(second.state_dict())
    recorded((2.0, 0.1, 1), on=start)
    with pytest.raises(ParameterError, match="of another training"):
        start.load_state_dict(second.state_dict())
    assert (len(start), len(first), len(second)) == (6, 6, 10)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda accountant: pickle.loads(pickle.dumps(accountant))]
)
def test_a_copy_is_an_independent_account_with_the_same_beginning(copied: Any) -> None:
    first = recorded(*HELD)
    second = recorded((2.0, 0.1, 3), on=copied(first))
    assert len(first) == 5
    first.load_state_dict(second.state_dict())
    assert len(first) == 8
    third = recorded((2.0, 0.1, 3), on=copied(first))
    recorded((2.0, 0.1, 1), on=first)
    with pytest.raises(ParameterError, match="of another training"):
        first.load_state_dict(third.state_dict())


@pytest.mark.parametrize(
    "history",
    [
        [],
        [(1.0, 0.1, 3)],
        [(1.0, 0.1, 3), (2.0, 0.1, 1)],
        [(1.0, 0.1, 4), (2.0, 0.1, 2)],
        [(1.0, 0.2, 3), (2.0, 0.1, 2)],
        [(2.0, 0.1, 2), (1.0, 0.1, 3)],
    ],
)
def test_no_state_erases_a_step_that_was_made(history: list[tuple[float, float, int]]) -> None:
    accountant = recorded(*HELD)
    [(name, _)] = accountant.state_dict()["stamps"]
    steps = sum(steps for _, _, steps in history)
    # also where the stamps say that it is the same training
    for stamps in ({}, {"stamps": [(name, steps)] if steps else []}):
        with pytest.raises(ParameterError, match="lacks some of them"):
            accountant.load_state_dict({"history": history, "mechanism": "dprounds", **stamps})
    assert accountant.history == HELD


@pytest.mark.parametrize(
    "stamps",
    [
        [],
        None,
        3,
        [(NAME, 4)],
        [(NAME, 6)],
        [(NAME, 5.0)],
        [(NAME, True)],
        [("x", 5)],
        [(NAME,)],
        [(NAME, 5), (NAME, 5)],
        [(NAME, 0), (NAME, 5)],
        [(NAME, 7), (NAME, 5)],
    ],
)
def test_stamps_that_nobody_wrote_are_refused(stamps: Any) -> None:
    accountant = ExactAccountant()
    with pytest.raises(ParameterError, match="stamps"):
        accountant.load_state_dict({"history": HELD, "mechanism": "dprounds", "stamps": stamps})
    assert accountant.history == []


def test_a_state_without_stamps_is_loaded_before_the_first_step_and_is_one_training_from_then_on() -> None:
    early = {"history": HELD, "mechanism": "dprounds"}
    first = ExactAccountant()
    first.load_state_dict(early)
    second = recorded((2.0, 0.1, 1), on=resumed(first))
    first.load_state_dict(second.state_dict())
    assert len(first) == 6
    with pytest.raises(ParameterError, match="of another training"):
        first.load_state_dict({**early, "history": [*HELD, (2.0, 0.1, 5)]})


def test_a_state_round_trips_and_is_independent_of_the_accountant() -> None:
    first, second = recorded((1.2, 0.01, 100), (1.0, 0.01, 100)), ExactAccountant()
    state = first.state_dict()
    assert state["mechanism"] == "dprounds"
    second.load_state_dict(copy.deepcopy(state))
    assert second.history == first.history
    assert second.get_epsilon(DELTA) == first.get_epsilon(DELTA)
    state["history"].append((1.0, 0.1, 1))
    state["stamps"].clear()
    assert second.history == first.history == [(1.2, 0.01, 100), (1.0, 0.01, 100)]
    assert len(first.state_dict()["stamps"]) == 1
    given: dict[str, Any] = {"kept": 1}
    assert first.state_dict(given) is given
    assert set(given) == {"kept", "history", "mechanism", "relation", "stamps"}


def test_a_refused_checkpoint_says_that_its_weights_are_loaded(tmp_path: Path) -> None:
    first, second = Training(noise_multiplier=1.0), Training(noise_multiplier=1.0)
    for training in (first, second):
        for batch in training.loader:
            training.step(batch)
    path = tmp_path / "other.pt"
    first.engine.save_checkpoint(path=path, module=first.module, optimizer=first.optimizer)
    with pytest.raises(ParameterError, match="weights are those of the checkpoint already"):
        second.engine.load_checkpoint(path=path, module=second.module, optimizer=second.optimizer)
    assert len(second.accountant) == 10
