"""What every method promises for every mechanism; a new mechanism joins by its examples, a new method by its name."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from dprounds import Accountant, InfeasibleError, UnsupportedError, max_rounds
from dprounds.mechanisms import Mechanism
from dprounds.mechanisms.accounted import RUN_METHODS
from tests.mechanisms.test_contracts import EXAMPLES

INSTANCES = [mechanism for examples in EXAMPLES.values() for mechanism in examples]
DELTAS = (1e-9, 1e-4, 0.3)
# Relative: two searches for the same number agree to this. The largest difference here is 2e-7, by one fixed order.
SEARCH_PRECISION = 1e-6

each_mechanism = pytest.mark.parametrize("mechanism", INSTANCES, ids=repr)
# None is the exact answer wherever there is one: `test_exact_by_name_is_the_default` holds that.
each_method = pytest.mark.parametrize("method", [*RUN_METHODS[:-1], None])


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
    answers = [run.epsilon(delta=delta, method=method) for delta in DELTAS]
    assert all(answer >= 0.0 for answer in answers)
    # brackets of neighbours differ in width, by at most the promised precision
    assert all(more >= less * (1 - SEARCH_PRECISION) for more, less in pairwise(answers))


@each_mechanism
@each_method
def test_epsilon_is_that_of_the_guarantee(mechanism: Mechanism, method: str | None) -> None:
    """Although it asks no attack for a lower end."""
    run = mechanism * 3
    for delta in DELTAS:
        assert run.epsilon(delta=delta, method=method) == run.guarantee(delta=delta, method=method).epsilon


@each_mechanism
@each_method
def test_rounds_are_releases(mechanism: Mechanism, method: str | None) -> None:
    together, apart = mechanism * 3, mechanism + mechanism + mechanism * 1
    assert together.epsilon(delta=1e-4, method=method) == apart.epsilon(delta=1e-4, method=method)


@each_mechanism
def test_exact_by_name_is_the_default(mechanism: Mechanism) -> None:
    run = mechanism * 3
    default = run.guarantee(delta=1e-4)
    if default.method == "exact":
        assert run.guarantee(delta=1e-4, method="exact") == default
    elif mechanism.has_moment_function:
        assert default.method in {"bound", "optimal"}
    else:
        for ask in (run.epsilon, lambda **given: max_rounds(mechanism, epsilon=1.5, **given)):
            with pytest.raises(UnsupportedError):
                ask(delta=1e-4, method="exact")


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
    found = run.epsilon(delta=1e-3, method=method)
    if found < math.inf:
        # Delta at the reported epsilon is searched for again: another line or lattice, another best order. Of an
        # integral the best shift is taken from some tens.
        precision = SEARCH_PRECISION if run.account.integrals is None else 5e-3
        assert run.delta(epsilon=found, method=method) <= 1e-3 * (1 + precision)


@each_mechanism
@each_method
def test_planned_rounds_fit_and_the_next_does_not(mechanism: Mechanism, method: str | None) -> None:
    if not mechanism.rdp(2.0) > 0.0 and mechanism.infinite_mass == 0.0:
        pytest.skip("it releases nothing, so any number of rounds fits")
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
