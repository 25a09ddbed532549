"""What every method promises for every mechanism; a new mechanism joins by its examples, a new method by its name."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from dprounds import Accountant, InfeasibleError, UnsupportedError, max_rounds
from dprounds.mechanisms import Mechanism, Run
from dprounds.mechanisms.accounted import RUN_METHODS
from tests.mechanisms.test_contracts import EXAMPLES

INSTANCES = [mechanism for examples in EXAMPLES.values() for mechanism in examples]
DELTAS = (1e-9, 1e-5, 1e-2, 0.3)

each_mechanism = pytest.mark.parametrize("mechanism", INSTANCES, ids=repr)
each_method = pytest.mark.parametrize("method", [*RUN_METHODS, None])


def epsilon(run: Run, delta: float, method: str | None) -> float:
    """Epsilon by the method; where that is not to be had, the test does not apply."""
    if method == "exact" and run.guarantee(delta=delta).method != "exact":
        pytest.skip("no exact answer: no moment function, or one that does not fall")
    return run.epsilon(delta=delta, method=method)


@each_mechanism
@each_method
def test_zero_rounds_cost_nothing(mechanism: Mechanism, method: str | None) -> None:
    nothing = mechanism * 0
    assert nothing.epsilon(delta=1e-5, method=method) == 0.0
    assert nothing.delta(epsilon=0.0, method=method) == 0.0


@each_mechanism
@each_method
def test_epsilon_falls_as_delta_grows(mechanism: Mechanism, method: str | None) -> None:
    run = mechanism * 3
    answers = [epsilon(run, delta, method) for delta in DELTAS]
    assert all(answer >= 0.0 for answer in answers)
    # brackets of neighbours differ in width; a hair of the promised precision
    assert all(more >= less * (1 - 1e-6) for more, less in pairwise(answers))


@each_mechanism
@each_method
def test_rounds_are_releases(mechanism: Mechanism, method: str | None) -> None:
    assert epsilon(mechanism * 3, 1e-4, method) == epsilon(mechanism + mechanism + mechanism * 1, 1e-4, method)


@each_mechanism
def test_methods_are_ordered(mechanism: Mechanism) -> None:
    run = mechanism * 2
    best_first = [run.epsilon(delta=1e-4), *(run.epsilon(delta=1e-4, method=m) for m in reversed(RUN_METHODS[:-1]))]
    assert best_first == sorted(best_first)
    deltas = [run.delta(epsilon=0.5), *(run.delta(epsilon=0.5, method=m) for m in reversed(RUN_METHODS[:-1]))]
    assert deltas == sorted(deltas)


@each_mechanism
@each_method
def test_a_guarantee_holds_at_its_own_epsilon(mechanism: Mechanism, method: str | None) -> None:
    run = mechanism * 2
    found = epsilon(run, 1e-3, method)
    if found < math.inf:
        # the exact sum may be out of reach at this very epsilon; the default then answers by the best order, and two
        # lattices, made for a delta and for an epsilon, differ by as much as their brackets are wide
        hair = 1e-4 if method in (None, "exact") else 1e-6
        assert run.delta(epsilon=found, method=None if method == "exact" else method) <= 1e-3 * (1 + hair)


@each_mechanism
@each_method
def test_planned_rounds_fit_and_the_next_does_not(mechanism: Mechanism, method: str | None) -> None:
    if not mechanism.rdp(2.0) > 0.0 and mechanism.infinite_mass == 0.0:
        pytest.skip("it releases nothing, so any number of rounds fits")
    if method == "exact" and not mechanism.has_moment_function:
        with pytest.raises(UnsupportedError):
            max_rounds(mechanism, epsilon=1.5, delta=1e-4, method=method)
        return
    if method == "exact":
        pytest.skip("the default method plans exactly wherever that is to be had")
    try:
        rounds = max_rounds(mechanism, epsilon=1.5, delta=1e-4, method=method)
    except InfeasibleError:
        assert (mechanism * 2**53).epsilon(delta=1e-4, method=method) <= 1.5
        return
    assert (mechanism * rounds).epsilon(delta=1e-4, method=method) <= 1.5
    assert (mechanism * (rounds + 1)).epsilon(delta=1e-4, method=method) > 1.5


@each_mechanism
def test_json_round_trips(mechanism: Mechanism) -> None:
    accountant = Accountant()
    accountant.record(mechanism, rounds=7)
    assert Accountant.from_json(accountant.to_json()) == accountant
