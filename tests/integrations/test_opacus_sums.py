"""Several passes before one step of the real Opacus: recorded for the worst that they can be, or refused."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

from dprounds import Gaussian, InfeasibleError, ParameterError, PoissonSampled, UnsupportedError, max_rounds
from tests.integrations.opacus_training import DELTA, TENTH, Training, marks, torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch deprecates is not ours to fix
    from dprounds.integrations.opacus import allow_accumulation, while_affordable
    from dprounds.integrations.opacus.history import ANY, ONE, READINGS, SEPARATE, line_of_passes, one_step

pytestmark = marks


def accumulating(noise: float, over: str | None = None) -> Training:
    training = Training(noise_multiplier=noise)
    training.module.allow_grad_accumulation()
    if over is not None:
        allow_accumulation(training.optimizer, over=over)
    training.optimizer.zero_grad()
    return training


def sum_of(training: Training, *batches: Any) -> None:
    for batch in batches:
        training.backward(batch)
    training.optimizer.step()
    training.optimizer.zero_grad()


# What is recorded


def test_separate_batches_are_one_release_each() -> None:
    training = accumulating(2.0, SEPARATE)
    first, second, third, fourth, fifth, *rest = training.loader
    sum_of(training, first, second, third, fourth, fifth)
    sum_of(training, *rest)
    [(noise, rate, steps)] = training.accountant.history
    assert (rate, steps) == (0.1, 10)
    assert 2.0 / math.sqrt(5) * (1 - 1e-14) <= noise < 2.0 / math.sqrt(5)
    # a record in several of the batches costs more than one that is in at most one of them, which Opacus assumes
    assert training.engine.get_epsilon(DELTA) > (PoissonSampled(Gaussian(2.0), 0.5) * 2).epsilon(delta=DELTA) * 0.9


def test_two_passes_over_one_batch_are_a_release_of_half_the_noise() -> None:
    training = accumulating(2.0, ONE)
    for batch in training.loader:
        sum_of(training, batch, batch)
    [(noise, rate, steps)] = training.accountant.history
    assert (rate, steps) == (0.1, 10)
    assert 1.0 - 1e-14 <= noise < 1.0
    truth = (PoissonSampled(Gaussian(1.0), TENTH) * 10).guarantee(delta=DELTA)
    assert truth.lower <= training.engine.get_epsilon(DELTA) <= truth.epsilon * (1 + 1e-6)


def test_passes_over_any_batches_are_a_release_at_a_higher_rate() -> None:
    training = accumulating(2.0, ANY)
    first, second, *_ = training.loader
    sum_of(training, first, first, second)
    [(noise, rate, steps)] = training.accountant.history
    assert steps == 1
    assert 2.0 / 3 * (1 - 1e-14) <= noise < 2.0 / 3
    assert 1 - (1 - TENTH) ** 3 <= rate <= (1 - (1 - TENTH) ** 3) * (1 + 1e-14)


@pytest.mark.parametrize("over", READINGS)
def test_single_passes_are_recorded_as_usual(over: str) -> None:
    training = accumulating(1.0, over)
    for batch in training.loader:
        training.step(batch)
    assert training.accountant.history == [(1.0, 0.1, 10)]


# Why that is enough: the laws of a step from their definition, in one dimension and with the worst gradients. A record
# is in m_i passes over the i-th of several batches, each a draw of its own, and moves the sum by m_i norms.


def normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def deltas(moves: list[tuple[float, float]], noise: float, epsilon: float) -> tuple[float, float]:
    """The hockey-stick divergences, to either side, of a mixture of N(move, noise^2) and N(0, noise^2), from below.

    The likelihood ratio grows along the line, so the best sets are half lines; any of them bounds from below.
    """
    ends = [noise * (k / 50.0) for k in range(-500, 501)] + [
        move + noise * (k / 50.0) for move, _ in moves for k in range(-200, 201)
    ]
    remove = add = 0.0
    for end in ends:
        above = sum(weight * normal((move - end) / noise) for move, weight in moves)
        remove = max(remove, above - math.exp(epsilon) * normal(-end / noise))
        below = sum(weight * normal((end - move) / noise) for move, weight in moves)
        add = max(add, normal(end / noise) - math.exp(epsilon) * below)
    return remove, add


def moves_of(passes: list[int], rate: float) -> list[tuple[float, float]]:
    moves = {0: 1.0}
    for m in passes:
        drawn: dict[int, float] = {}
        for move, weight in moves.items():
            drawn[move] = drawn.get(move, 0.0) + weight * (1 - rate)
            drawn[move + m] = drawn.get(move + m, 0.0) + weight * rate
        moves = drawn
    return [(float(move), weight) for move, weight in moves.items()]


@pytest.mark.parametrize("passes", [[2], [1, 1], [3], [2, 1], [1, 1, 1]])
@pytest.mark.parametrize(("noise", "rate"), [(0.5, 0.1), (1.0, 0.1), (4.0, 0.1), (2.0, 0.5), (0.3, 0.01)])
def test_what_is_recorded_bounds_every_step_that_it_may_stand_for(passes: list[int], noise: float, rate: float) -> None:
    readings = [ANY] + [ONE] * (len(passes) == 1) + [SEPARATE] * (set(passes) == {1})
    for epsilon in (0.0, 0.1, 1.0, 4.0):
        truth = max(deltas(moves_of(passes, rate), noise, epsilon))
        for over in readings:
            recorded, at, releases = line_of_passes(noise, rate, sum(passes), over)
            assert (one_step(recorded, at) * releases).delta(epsilon=epsilon) >= truth


def test_neither_of_the_two_readings_bounds_the_other() -> None:
    one, separate = moves_of([2], 0.1), moves_of([1, 1], 0.1)
    assert max(deltas(one, 0.3, 0.0)) < max(deltas(separate, 0.3, 0.0))
    assert max(deltas(one, 1.0, 3.0)) > max(deltas(separate, 1.0, 3.0))
    # so each, recorded for the other, would be below the truth
    recorded, at, releases = line_of_passes(0.3, 0.1, 2, ONE)
    assert (one_step(recorded, at) * releases).delta(epsilon=0.0) < max(deltas(separate, 0.3, 0.0))
    recorded, at, releases = line_of_passes(1.0, 0.1, 2, SEPARATE)
    assert (one_step(recorded, at) * releases).delta(epsilon=4.0) < max(deltas(one, 1.0, 4.0))


@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.3, 1 - 1e-9, 1.0])
def test_the_rate_of_any_batches_is_a_rate(rate: float) -> None:
    _, at, _ = line_of_passes(1.0, rate, 1000, ANY)
    assert rate <= at <= 1.0


# What is refused


def test_undeclared_passes_are_refused_before_the_weights_move() -> None:
    training = accumulating(1.0)
    first, second, *_ = training.loader
    weights = [p.detach().clone() for p in training.module.parameters()]
    for batches in ((first, second), (first, first)):
        with pytest.raises(UnsupportedError, match="allow_accumulation"):
            sum_of(training, *batches)
        training.optimizer.zero_grad()
        assert all(torch.equal(p, q) for p, q in zip(training.module.parameters(), weights, strict=True))
    assert training.accountant.history == []
    sum_of(training, first)
    assert training.accountant.history == [(1.0, 0.1, 1)]


@pytest.mark.parametrize("over", [None, "", "same", 2, True])
def test_an_invalid_declaration_is_refused(over: Any) -> None:
    with pytest.raises(ParameterError, match="separate batches"):
        allow_accumulation(Training(noise_multiplier=1.0).optimizer, over=over)


# Loops that stop in time


def test_two_passes_over_each_batch_of_a_loop_are_seen_and_refused() -> None:
    training = accumulating(2.0)
    batches = while_affordable(training.endless(), training.optimizer, epsilon=2.0, delta=DELTA, accumulated=2)
    batch = next(batches)
    with pytest.raises(UnsupportedError, match="used twice"):
        sum_of(training, batch, batch)
    assert training.accountant.history == []


def test_declared_passes_over_each_batch_of_a_loop_stop_in_time() -> None:
    training = accumulating(4.0, ONE)
    for batch in while_affordable(training.endless(), training.optimizer, epsilon=2.0, delta=DELTA, accumulated=2):
        sum_of(training, batch, batch)
    truth = PoissonSampled(Gaussian(2.0), TENTH)
    steps = len(training.accountant)
    assert max_rounds(truth, epsilon=2.0, delta=DELTA) - 1 <= steps <= max_rounds(truth, epsilon=2.0, delta=DELTA)
    assert (truth * steps).guarantee(delta=DELTA).lower <= training.engine.get_epsilon(DELTA) <= 2.0
    assert training.optimizer.step_hook.loops == []


def test_more_passes_than_declared_are_refused_where_they_exceed_the_budget() -> None:
    training = accumulating(4.0, ONE)

    def train() -> None:
        for batch in while_affordable(training.endless(), training.optimizer, epsilon=1.0, delta=DELTA, accumulated=2):
            sum_of(training, batch, batch, batch)

    with pytest.raises(InfeasibleError, match="would exceed epsilon=1"):
        train()
    assert training.engine.get_epsilon(DELTA) <= 1.0
