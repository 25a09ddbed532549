"""Training with the real Opacus until the budget is spent, and no further."""

from __future__ import annotations

import copy
import gc
import math
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice, repeat
from typing import Any

import pytest

from dprounds import Gaussian, InfeasibleError, ParameterError, PoissonSampled, UnsupportedError, max_rounds
from dprounds.mechanisms.base import Run
from tests.integrations.opacus_training import DELTA, TENTH, Training, marks, torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch deprecates is not ours to fix
    from opacus import schedulers
    from opacus.data_loader import DPDataLoader
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    from dprounds.integrations.opacus import ExactAccountant, allow_accumulation, drop_split_batches, while_affordable
    from dprounds.integrations.opacus.budget import Budget

pytestmark = marks


def test_training_stops_before_the_step_that_would_exceed_the_budget() -> None:
    training = Training(noise_multiplier=2.0)
    for batch in while_affordable(training.endless(), training.optimizer, epsilon=2.0, delta=DELTA):
        training.step(batch)
    step = PoissonSampled(Gaussian(2.0), TENTH, relation="zero-out")
    assert len(training.accountant) == max_rounds(step, epsilon=2.0, delta=DELTA) > 10
    assert training.engine.get_epsilon(DELTA) <= 2.0 < (training.accountant.run + step).epsilon(delta=DELTA)


def test_training_under_a_noise_scheduler_stops_in_time() -> None:
    training = Training(noise_multiplier=3.0)
    scheduler = schedulers.LambdaNoise(training.optimizer, noise_lambda=lambda epoch: max(0.7**epoch, 0.3))
    batches = while_affordable(training.endless(), training.optimizer, epsilon=3.0, delta=DELTA)
    for steps, batch in enumerate(batches, start=1):
        training.step(batch)
        if steps % 10 == 0:
            scheduler.step()
    assert len(training.accountant.history) > 2
    step = PoissonSampled(Gaussian(training.optimizer.noise_multiplier), TENTH, relation="zero-out")
    assert training.engine.get_epsilon(DELTA) <= 3.0 < (training.accountant.run + step).epsilon(delta=DELTA)


def test_split_batches_are_all_seen_before_training_stops() -> None:
    training = Training(noise_multiplier=4.0, records=24, batch=12)
    with training.split() as split:
        batches = islice(chain.from_iterable(repeat(split)), 300)
        for batch in while_affordable(batches, training.optimizer, epsilon=2.0, delta=DELTA):
            training.step(batch)
    assert len(training.accountant) == max_rounds(PoissonSampled(Gaussian(4.0), 0.5), epsilon=2.0, delta=DELTA) > 0
    assert not training.optimizer._is_last_step_skipped


def test_summed_batches_stop_before_the_step_that_would_exceed_the_budget() -> None:
    training = Training(noise_multiplier=6.0)
    training.module.allow_grad_accumulation()
    training.optimizer.zero_grad()
    for batch in while_affordable(training.endless(), training.optimizer, epsilon=1.0, delta=DELTA, accumulated=4):
        training.backward(batch)
        if training.optimizer.accumulated_iterations == 4:
            training.optimizer.step()
            training.optimizer.zero_grad()
    step = training.accountant.run.mechanisms[0] * 4
    assert len(training.accountant) == 4 * max_rounds(step, epsilon=1.0, delta=DELTA) > 0


def test_other_steps_and_restored_checkpoints_are_seen_before_the_next_batch() -> None:
    training = Training(noise_multiplier=2.0)
    batches = while_affordable(training.endless(), training.optimizer, epsilon=2.0, delta=DELTA)
    training.step(next(batches))
    training.accountant.step(noise_multiplier=0.3, sample_rate=1.0)
    assert next(batches, None) is None
    restored = Training(noise_multiplier=2.0)
    batches = while_affordable(restored.endless(), restored.optimizer, epsilon=2.0, delta=DELTA)
    restored.step(next(batches))
    further = copy.copy(restored.accountant)
    further.history = [(2.0, 0.1, 10**6)]
    restored.accountant.load_state_dict(further.state_dict())
    assert next(batches, None) is None


def test_less_noise_is_seen_before_the_step_that_would_add_it() -> None:
    training = Training(noise_multiplier=2.0)
    batches = while_affordable(training.endless(), training.optimizer, epsilon=2.0, delta=DELTA)
    training.step(next(batches))
    training.optimizer.noise_multiplier = 0.1
    assert next(batches, None) is None


def test_nothing_is_affordable_without_noise() -> None:
    training = Training(noise_multiplier=0.0)
    assert list(while_affordable(training.loader, training.optimizer, epsilon=2.0, delta=DELTA)) == []
    training = Training(noise_multiplier=1.0)
    training.accountant.step(noise_multiplier=0.0, sample_rate=0.1)
    assert list(while_affordable(training.loader, training.optimizer, epsilon=2.0, delta=DELTA)) == []


def test_an_optimizer_that_is_not_accounted_here_is_refused() -> None:
    with pytest.raises(ParameterError, match="optimizer"):
        while_affordable([], torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1), epsilon=2.0, delta=DELTA)


# Steps that no plan foresees


def prefetched(batches: Iterator[Any], ahead: int) -> Iterator[Any]:
    waiting = deque(islice(batches, ahead))
    while waiting:
        yield waiting.popleft()
        waiting.extend(islice(batches, 1))


def body_of(kind: str, training: Training) -> Any:
    scheduler = schedulers.ExponentialNoise(training.optimizer, gamma=0.7)

    def lowered_before_the_step(batch: Any) -> None:
        scheduler.step()
        training.step(batch)

    def summed(batch: Any) -> None:
        training.backward(batch)
        if training.optimizer.accumulated_iterations == 4:
            training.optimizer.step()
            training.optimizer.zero_grad()

    if kind == "summed":
        training.module.allow_grad_accumulation()
        allow_accumulation(training.optimizer, over="separate batches")
        training.optimizer.zero_grad()
    return {"lowered": lowered_before_the_step, "summed": summed, "prefetched": training.step}[kind]


@pytest.mark.parametrize(("kind", "noise"), [("lowered", 9.0), ("summed", 4.0), ("prefetched", 3.0)])
def test_a_step_past_the_budget_is_refused_before_the_weights_move(kind: str, noise: float) -> None:
    training = Training(noise_multiplier=noise)
    body = body_of(kind, training)
    batches = while_affordable(training.endless(), training.optimizer, epsilon=1.0, delta=DELTA)
    if kind == "prefetched":
        batches = prefetched(batches, 4)
    weights: list[Any] = []

    def train() -> None:
        for batch in batches:
            weights[:] = [p.detach().clone() for p in training.module.parameters()]
            body(batch)

    with pytest.raises(InfeasibleError, match="would exceed epsilon=1"):
        train()
    assert all(torch.equal(p, q) for p, q in zip(training.module.parameters(), weights, strict=True))
    assert len(training.accountant) > 3
    assert training.engine.get_epsilon(DELTA) <= 1.0


def test_the_budget_counts_no_longer_than_its_batches() -> None:
    training = Training(noise_multiplier=2.0)
    for batch in while_affordable(training.endless(), training.optimizer, epsilon=1.0, delta=DELTA):
        training.step(batch)
    assert training.optimizer.step_hook.loops == []
    training.step(next(iter(training.loader)))
    assert training.engine.get_epsilon(DELTA) > 1.0
    for batch in while_affordable(training.endless(), training.optimizer, epsilon=2.0, delta=DELTA):
        training.step(batch)
        break
    gc.collect()
    assert training.optimizer.step_hook.loops == []


@pytest.mark.parametrize("factor", [0.9, 0.995])
def test_noise_that_falls_with_every_step_is_planned_by_the_orders_first(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = []

    def noted(budget: Budget, run: Run) -> bool:
        exact.append(run.rounds)
        return run.epsilon(delta=DELTA) <= budget.epsilon

    monkeypatch.setattr(Budget, "_meets", noted)
    accountant, noise = ExactAccountant(), 8.0
    budget = Budget(accountant, epsilon=2.0, delta=DELTA, method=None)
    while budget.affords(noise, 0.5, 1):
        accountant.step(noise_multiplier=noise, sample_rate=0.5)
        noise *= factor
    steps = len(accountant)
    assert len(accountant.history) == steps > 4
    assert min(exact) > steps / 2
    assert len(exact) <= steps / 2
    assert accountant.get_epsilon(DELTA) <= 2.0
    accountant.step(noise_multiplier=noise, sample_rate=0.5)
    assert accountant.get_epsilon(DELTA) > 2.0


def test_more_noise_than_planned_needs_no_other_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    accountant = ExactAccountant()
    budget = Budget(accountant, epsilon=2.0, delta=DELTA, method=None)
    assert budget.affords(3.0, 0.1, 1)
    monkeypatch.setattr(Budget, "_plan", None)
    for noise in (3.0, 3.5, 4.0):
        accountant.step(noise_multiplier=noise, sample_rate=0.1)
        assert budget.affords(noise, 0.1, 1)


@pytest.mark.parametrize("line", [(2.9, 0.1, 1), (3.0, 0.2, 1), (0.0, 0.1, 1), (math.nan, 0.1, 1)])
def test_what_was_not_planned_is_planned_again(line: tuple[float, float, int], monkeypatch: pytest.MonkeyPatch) -> None:
    accountant = ExactAccountant()
    budget = Budget(accountant, epsilon=2.0, delta=DELTA, method=None)
    assert budget.affords(3.0, 0.1, 1)
    monkeypatch.setattr(Budget, "_plan", lambda *_, **options: (0.0, 0))
    accountant.history.append(line)
    if math.isnan(line[0]):
        with pytest.raises(ParameterError):
            budget.affords(3.0, 0.1, 1)
    else:
        assert not budget.affords(3.0, 0.1, 1)


# Batches that are split, and drawn ahead


def split_training() -> tuple[Training, list[list[float]]]:
    """A training whose loader draws ahead, and the records of each of its steps."""
    training, steps, seen = Training(noise_multiplier=4.0, workers=1), [], []
    training.loader.dataset.tensors = (
        torch.arange(120.0).repeat(4, 1).T.contiguous(),
        training.loader.dataset.tensors[1],
    )
    step = training.step

    def noted(batch: Any) -> None:
        seen.extend(batch[0][:, 0].tolist())
        step(batch)
        if not training.optimizer._is_last_step_skipped:
            steps.append(list(seen))
            seen.clear()

    training.step = noted  # type: ignore[method-assign]  # to look on
    return training, steps


def repeated(steps: list[list[float]]) -> int:
    """Steps that hold a record twice, as only two batches together can."""
    return sum(len(step) != len(set(step)) for step in steps)


@pytest.mark.parametrize("left_by", ["budget", "break"])
def test_a_loop_leaves_no_flags_of_batches_that_were_drawn_ahead(left_by: str) -> None:
    training, steps = split_training()
    with training.split(4) as split:
        endless = chain.from_iterable(repeat(split))
        for batch in while_affordable(endless, training.optimizer, epsilon=0.4, delta=DELTA):
            training.step(batch)
            if left_by == "break" and training.optimizer._is_last_step_skipped and len(steps) > 2:
                break
        gc.collect()
        assert training.optimizer._step_skip_queue == []
        assert not training.optimizer._is_last_step_skipped
        with pytest.raises(UnsupportedError, match="Begin a new pass"):
            next(endless)
    before = len(steps)
    with training.split(4) as split:
        some = islice(chain.from_iterable(repeat(split)), 40)
        for batch in while_affordable(some, training.optimizer, epsilon=1.0, delta=DELTA):
            training.step(batch)
    assert len(steps) > before + 5
    assert repeated(steps[before + (left_by == "break") :]) == 0
    assert len(training.accountant) == len(steps)


def test_a_plain_loop_that_is_left_early_is_refused_until_its_batches_are_dropped() -> None:
    training, _ = split_training()
    with training.split(4) as split:
        for batch in split:
            training.step(batch)
            if training.optimizer._is_last_step_skipped:
                break
        with pytest.raises(ParameterError, match="drop_split_batches"):
            while_affordable(split, training.optimizer, epsilon=0.5, delta=DELTA)
        drop_split_batches(training.optimizer)
        assert training.optimizer._step_skip_queue == []
        assert all(p.summed_grad is None for p in training.optimizer.params)
        training.step(next(while_affordable(split, training.optimizer, epsilon=0.5, delta=DELTA)))


def test_a_loop_that_never_begins_draws_nothing_ahead() -> None:
    training, _ = split_training()
    with training.split(4) as split:
        while_affordable(split, training.optimizer, epsilon=0.5, delta=DELTA)
    assert training.optimizer._step_skip_queue == []


def test_batches_that_wait_for_their_step_keep_their_flags() -> None:
    training, steps = split_training()
    with training.split(4) as split:
        endless = chain.from_iterable(repeat(split))
        batches = while_affordable(endless, training.optimizer, epsilon=0.4, delta=DELTA)
        waiting = deque(islice(batches, 3))
        while len(waiting) == 3:
            training.step(waiting.popleft())
            waiting.extend(islice(batches, 1))
        assert len(training.optimizer._step_skip_queue) == len(waiting) == 2
    assert len(training.accountant) == len(steps) > 5
    assert repeated(steps) == 0


def test_a_loop_that_ends_late_leaves_the_flags_of_the_next_one() -> None:
    training, steps = split_training()
    with training.split(4) as split:
        first = while_affordable(split, training.optimizer, epsilon=0.5, delta=DELTA)
        training.step(next(first))
        drop_split_batches(training.optimizer)
        for number, batch in enumerate(islice(split, 20)):
            training.step(batch)
            if number == 5:
                waiting = list(training.optimizer._step_skip_queue)
                first.close()  # type: ignore[attr-defined]  # a generator has it
                assert training.optimizer._step_skip_queue == waiting != []
    assert repeated(steps[1:]) == 0


@pytest.mark.parametrize("left_by", ["an error before a step", "an error after a step", "break"])
def test_a_pass_does_not_begin_while_parts_of_an_earlier_one_are_left(left_by: str) -> None:
    training, steps = split_training()

    def leave_early(split: Any) -> None:
        for batch in split:
            if left_by == "an error before a step":
                raise RuntimeError
            training.step(batch)
            if training.optimizer._is_last_step_skipped:
                if left_by == "break":
                    break
                raise RuntimeError

    with training.split(4) as split:
        with suppress(RuntimeError):
            leave_early(split)
        before = len(steps)
        with pytest.raises(UnsupportedError, match="drop_split_batches"):
            next(iter(split))
        drop_split_batches(training.optimizer)
        for batch in split:
            training.step(batch)
    assert repeated(steps[before + 1 :]) == 0
    assert len(training.accountant) == len(steps) == before + 10


# Loaders that do not draw what the optimizer records


def other_loader(training: Training, kind: str) -> Any:
    data = training.loader.dataset
    if kind == "another rate":
        return DPDataLoader(data, sample_rate=0.25)
    if kind == "another rate, split":
        loader = DPDataLoader(data, sample_rate=0.25)
        return BatchMemoryManager(
            data_loader=loader, max_physical_batch_size=4, optimizer=training.optimizer
        ).__enter__()
    if kind == "shuffled":
        return torch.utils.data.DataLoader(data, batch_size=12, shuffle=True)
    if kind == "shuffled, split":
        loader = torch.utils.data.DataLoader(data, batch_size=12, shuffle=True)
        return BatchMemoryManager(
            data_loader=loader, max_physical_batch_size=4, optimizer=training.optimizer
        ).__enter__()
    return torch.utils.data.DataLoader(data, batch_size=12)


@pytest.mark.parametrize("endless", [False, True])
@pytest.mark.parametrize("kind", ["another rate", "another rate, split", "shuffled", "shuffled, split", "not sampled"])
def test_a_loader_that_does_not_draw_as_recorded_is_refused(kind: str, endless: bool) -> None:
    training = Training(noise_multiplier=1.0)
    loader = other_loader(training, kind)
    batches = chain.from_iterable(repeat(loader)) if endless else loader
    wanted = "at a rate of 0.25, and the optimizer records 0.1" if "rate" in kind else "own_sampler=True"
    with pytest.raises(ParameterError, match=wanted):
        next(while_affordable(batches, training.optimizer, epsilon=5.0, delta=DELTA))
    assert training.optimizer._step_skip_queue == []


@pytest.mark.parametrize("workers", [0, 1])
def test_a_rate_that_changes_on_the_way_is_seen(workers: int) -> None:
    training = Training(noise_multiplier=1.0, workers=workers)
    batches = chain(training.loader, DPDataLoader(training.loader.dataset, sample_rate=0.25, num_workers=workers))
    guarded = while_affordable(batches, training.optimizer, epsilon=5.0, delta=DELTA)
    for batch in islice(guarded, 10):
        training.step(batch)
    with pytest.raises(ParameterError, match=r"at a rate of 0\.25"):
        next(guarded)


def test_fewer_records_than_recorded_are_no_trouble() -> None:
    training = Training(noise_multiplier=1.0)
    loader = DPDataLoader(training.loader.dataset, sample_rate=0.05)
    for batch in while_affordable(loader, training.optimizer, epsilon=5.0, delta=DELTA):
        training.step(batch)
    assert len(training.accountant) == 20


def test_batches_of_the_users_own_sampler_are_accepted_where_declared() -> None:
    training = Training(noise_multiplier=1.0)
    drawn = list(training.loader)
    with pytest.raises(ParameterError, match="own_sampler=True"):
        next(while_affordable(drawn, training.optimizer, epsilon=5.0, delta=DELTA))
    for batch in while_affordable(drawn, training.optimizer, epsilon=5.0, delta=DELTA, own_sampler=True):
        training.step(batch)
    assert len(training.accountant) == 10


def test_a_loop_inside_of_another_sees_the_draws_too() -> None:
    training = Training(noise_multiplier=1.0)
    inner = while_affordable(training.loader, training.optimizer, epsilon=5.0, delta=DELTA)
    for batch in while_affordable(inner, training.optimizer, epsilon=4.0, delta=DELTA):
        training.step(batch)
    assert len(training.accountant) == 10


@pytest.mark.parametrize("delta", [1 / 120, 0.1])
def test_a_delta_that_one_published_record_would_meet_gives_a_warning(delta: float) -> None:
    training = Training(noise_multiplier=1.0)
    with pytest.warns(UserWarning, match="not below 1/n for n=120"):
        next(while_affordable(training.loader, training.optimizer, epsilon=5.0, delta=delta))
