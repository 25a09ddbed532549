"""A loop of any framework within a budget: every round is on disk before it is made, through kills and forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from dprounds import Accountant, Gaussian, ParameterError, PoissonSampled, max_rounds
from dprounds.integrations.training import affordable_rounds

BUDGET: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5}
STEP = PoissonSampled(Gaussian(2.0), 0.1)
LAST = max_rounds(STEP, **BUDGET)


def held(path: Path) -> int:
    return Accountant.from_json(path.read_text()).run.rounds


def test_rounds_are_on_disk_before_they_are_made_and_end_with_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "spent.json"
    on_disk = []
    for number in affordable_rounds(path, STEP, reserve=10, **BUDGET):
        on_disk.append(held(path))
        assert on_disk[-1] > number
    assert len(on_disk) == held(path) == LAST > 20
    assert max(on_disk) == LAST  # never more than the budget
    assert list(affordable_rounds(path, STEP, **BUDGET)) == []
    assert held(path) == LAST


def test_nothing_is_forgotten_and_no_number_comes_twice_when_a_loop_is_killed(tmp_path: Path) -> None:
    path, made = tmp_path / "spent.json", tmp_path / "made"
    script = """
import os, signal, sys
from dprounds import Gaussian, PoissonSampled
from dprounds.integrations.training import affordable_rounds
with open(sys.argv[2], "a", buffering=1) as made:
    rounds = affordable_rounds(sys.argv[1], PoissonSampled(Gaussian(2.0), 0.1), epsilon=2.0, delta=1e-5, reserve=7)
    for place, number in enumerate(rounds):
        made.write(f"{number}\\n")
        if place == 9:
            os.kill(os.getpid(), signal.SIGKILL)
"""
    for killed in (1, 2):
        done = subprocess.run([sys.executable, "-c", script, str(path), str(made)], check=False)
        assert done.returncode == -signal.SIGKILL
        assert held(path) == 14 * killed  # ten made, fourteen reserved
    numbers = [int(line) for line in made.read_text().split()]
    numbers += affordable_rounds(path, STEP, **BUDGET)
    assert numbers == [*range(10), *range(14, 24), *range(28, LAST)]
    assert held(path) == LAST


def test_a_loop_that_is_left_gives_back_what_was_not_yielded(tmp_path: Path) -> None:
    path = tmp_path / "spent.json"
    rounds = affordable_rounds(path, STEP, reserve=50, **BUDGET)
    assert list(islice(rounds, 3)) == [0, 1, 2]
    assert held(path) == min(50, LAST)
    with pytest.raises(ParameterError, match="in use"):
        next(affordable_rounds(path, STEP, **BUDGET))
    rounds.close()  # type: ignore[attr-defined]  # a generator
    assert held(path) == 3
    # other releases in the account count, and numbers go on after them
    accountant = Accountant.from_json(path.read_text())
    accountant.record(Gaussian(50.0) * 4)
    path.write_text(accountant.to_json())
    assert next(affordable_rounds(path, Gaussian(30.0), **BUDGET)) == 7


def test_a_fork_neither_makes_rounds_nor_gives_them_back(tmp_path: Path) -> None:
    path = tmp_path / "spent.json"
    rounds = affordable_rounds(path, STEP, reserve=20, **BUDGET)
    assert list(islice(rounds, 5)) == [0, 1, 2, 3, 4]
    child = os.fork()
    if not child:
        try:
            next(rounds)
        except ParameterError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert held(path) == 20
    assert next(rounds) == 5


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"reserve": 0}, "reserve"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": float("nan")}, "delta"),
        ({"step": Gaussian(1.0) * 0}, "at least one round"),
        ({"step": 3}, "step"),
        ({"path": "missing/spent.json"}, "folder"),
        ({"path": 3}, "path"),
        ({"text": "{"}, "cannot be read"),
        ({"text": ""}, "cannot be read"),
    ],
)
def test_bad_arguments_and_damaged_files_are_refused_at_the_call(
    bad: dict[str, Any], match: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"path": "spent.json", "step": STEP, **BUDGET, **bad}
    if "text" in given:
        (tmp_path / "spent.json").write_text(given.pop("text"))
    path = tmp_path / given.pop("path") if isinstance(given["path"], str) else given.pop("path")
    with pytest.raises(ParameterError, match=match):
        affordable_rounds(path, given.pop("step"), **given)
