"""Steps of the real Opacus: each is recorded for what it releases, or refused before the weights move."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dprounds import Gaussian, ParameterError, PoissonSampled, UnsupportedError
from tests.integrations.opacus_training import DELTA, TENTH, Training, marks, torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch deprecates is not ours to fix
    from opacus import schedulers

    from dprounds.integrations.opacus import ExactAccountant, get_noise_multiplier

pytestmark = marks


def test_the_engine_records_every_step_of_an_epoch() -> None:
    training = Training(noise_multiplier=1.0)
    for batch in training.loader:
        training.step(batch)
    assert training.accountant.history == [(1.0, 1 / 10, 10)]
    assert training.engine.get_epsilon(DELTA) == (PoissonSampled(Gaussian(1.0), TENTH) * 10).epsilon(delta=DELTA)


def test_make_private_with_epsilon_keeps_to_its_target() -> None:
    training = Training(target_epsilon=2.0, target_delta=DELTA, epochs=3)
    for _ in range(3):
        for batch in training.loader:
            training.step(batch)
    assert len(training.accountant) == 30
    assert 2.0 - 0.01 <= training.engine.get_epsilon(DELTA) <= 2.0


def test_a_checkpoint_resumes_at_the_very_same_epsilon(tmp_path: Path) -> None:
    first = Training(noise_multiplier=1.3)
    scheduler = schedulers.ExponentialNoise(first.optimizer, gamma=0.9)
    for batch in first.loader:
        first.step(batch)
        scheduler.step()
    path = tmp_path / "checkpoint.pt"
    first.engine.save_checkpoint(path=path, module=first.module, optimizer=first.optimizer, noise_scheduler=scheduler)
    second = Training(noise_multiplier=1.3)
    resumed = schedulers.ExponentialNoise(second.optimizer, gamma=0.9)
    second.engine.load_checkpoint(path=path, module=second.module, optimizer=second.optimizer, noise_scheduler=resumed)
    assert second.accountant.history == first.accountant.history
    assert second.engine.get_epsilon(DELTA) == first.engine.get_epsilon(DELTA)
    batch = next(iter(first.loader))
    for training in (first, second):
        training.optimizer.noise_multiplier = 0.7
        training.step(batch)
    assert second.engine.get_epsilon(DELTA) == first.engine.get_epsilon(DELTA)


def test_a_noise_scheduler_leaves_a_history_of_every_noise() -> None:
    training = Training(noise_multiplier=2.0)
    scheduler = schedulers.StepNoise(training.optimizer, step_size=4, gamma=0.5)
    for batch in training.loader:
        training.step(batch)
        scheduler.step()
    assert training.accountant.history == [(2.0, 0.1, 4), (1.0, 0.1, 4), (0.5, 0.1, 2)]
    run = sum(PoissonSampled(Gaussian(noise), TENTH) * steps for noise, steps in [(2.0, 4), (1.0, 4), (0.5, 2)])
    assert training.engine.get_epsilon(DELTA) == run.epsilon(delta=DELTA)  # type: ignore[union-attr]  # sum may be 0 to mypy


def test_split_batches_are_one_step() -> None:
    training = Training(noise_multiplier=1.0)
    with training.split() as batches:
        physical = 0
        for batch in batches:
            physical += 1
            training.step(batch)
    assert physical > 10
    assert training.accountant.history == [(1.0, 0.1, 10)]


def test_adaptive_clipping_is_refused_before_it_releases_anything() -> None:
    training = Training(
        noise_multiplier=1.0,
        clipping="adaptive",
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.2,
        max_clipbound=10.0,
        min_clipbound=0.1,
        unclipped_num_std=2.0,
    )
    weights = [p.detach().clone() for p in training.module.parameters()]
    with pytest.raises(UnsupportedError, match="adaptive clipping"):
        training.step(next(iter(training.loader)))
    assert all(torch.equal(p, q) for p, q in zip(training.module.parameters(), weights, strict=True))


def test_per_layer_clipping_is_recorded() -> None:
    layered = Training(noise_multiplier=1.0, clipping="per_layer", max_grad_norm=[1.0, 1.0])
    layered.step(next(iter(layered.loader)))
    assert layered.accountant.history == [(1.0, 0.1, 1)]


# Noise is scaled to the norm at which records were clipped


@contextmanager
def refused_before_the_weights_move(training: Training, match: str) -> Iterator[None]:
    weights = [p.detach().clone() for p in training.module.parameters()]
    history = list(training.accountant.history)
    with pytest.raises(UnsupportedError, match=match):
        yield
    assert all(torch.equal(p, q) for p, q in zip(training.module.parameters(), weights, strict=True))
    assert training.accountant.history == history


GHOST: dict[str, Any] = {"noise_multiplier": 1.0, "grad_sample_mode": "ghost", "criterion": torch.nn.CrossEntropyLoss()}
LAYERED: dict[str, Any] = {"noise_multiplier": 1.0, "clipping": "per_layer", "max_grad_norm": [1.0, 1.0]}


@pytest.mark.parametrize("options", [GHOST, LAYERED])
def test_noise_that_shrinks_while_clipping_does_not_is_refused(options: dict[str, Any]) -> None:
    training = Training(**options)
    scheduler = schedulers.ExponentialGradClip(training.optimizer, gamma=0.5)
    first, second, *_ = training.loader
    training.step(first)
    scheduler.step()
    with refused_before_the_weights_move(training, "change the noise alone"):
        training.step(second)
    assert training.accountant.history == [(1.0, 0.1, 1)]


@pytest.mark.parametrize("options", [GHOST, LAYERED])
def test_a_smaller_norm_before_the_first_step_is_refused(options: dict[str, Any]) -> None:
    training = Training(**options)
    training.optimizer.max_grad_norm *= 0.9
    with refused_before_the_weights_move(training, "clipped at 1"):
        training.step(next(iter(training.loader)))


@pytest.mark.parametrize("options", [GHOST, LAYERED])
def test_more_noise_than_clipping_asks_for_is_recorded_as_what_it_says(options: dict[str, Any]) -> None:
    training = Training(**options)
    training.optimizer.max_grad_norm *= 2.0
    training.step(next(iter(training.loader)))
    assert training.accountant.history == [(1.0, 0.1, 1)]


def test_layers_that_are_clipped_at_larger_norms_than_noise_knows_are_refused() -> None:
    training = Training(**LAYERED)
    training.optimizer.max_grad_norms[0] = 2.0
    with refused_before_the_weights_move(training, "clipped at 2.23607"):
        training.step(next(iter(training.loader)))


def test_ghost_clipping_follows_the_norm_of_each_backward() -> None:
    training = Training(**GHOST)
    first, second, *_ = training.loader
    training.module.max_grad_norm = training.optimizer.max_grad_norm = 0.5
    training.step(first)
    assert training.accountant.history == [(1.0, 0.1, 1)]
    # clipped at a half, and both norms lowered before the noise is added
    training.optimizer.zero_grad()
    training.backward(second)
    training.module.max_grad_norm = training.optimizer.max_grad_norm = 0.1
    with refused_before_the_weights_move(training, "clipped at 0.5"):
        training.optimizer.step()


def test_a_module_that_was_made_private_with_a_larger_norm_is_refused() -> None:
    first = Training(**GHOST, max_grad_norm=5.0)
    again = Training(**GHOST, module=first.module)  # Opacus leaves a private module as it is
    with refused_before_the_weights_move(again, "clipped at 5"):
        again.step(next(iter(again.loader)))


def test_a_ghost_step_without_clipping_is_refused() -> None:
    training = Training(**GHOST)
    features, labels = next(iter(training.loader))
    training.optimizer.zero_grad()
    torch.nn.functional.cross_entropy(training.module(features), labels).backward()
    with refused_before_the_weights_move(training, "not clipped at all"):
        training.optimizer.step()


def test_parts_of_a_ghost_batch_are_seen_one_by_one() -> None:
    training = Training(**GHOST)
    with training.split() as batches:
        for batch in batches:
            training.step(batch)
    assert training.accountant.history == [(1.0, 0.1, 10)]
    with training.split() as batches, refused_before_the_weights_move(training, "clipped at 1"):
        for batch in batches:
            training.step(batch)
            training.module.max_grad_norm *= 0.5
            training.optimizer.max_grad_norm *= 0.5


def test_flat_clipping_follows_its_scheduler() -> None:
    training = Training(noise_multiplier=1.0)
    scheduler = schedulers.ExponentialGradClip(training.optimizer, gamma=0.5)
    for batch in training.loader:
        training.step(batch)
        scheduler.step()
    assert training.accountant.history == [(1.0, 0.1, 10)]


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_noise_is_taken_over_the_largest_norm_of_the_parts_of_a_batch(gamma: float) -> None:
    training = Training(noise_multiplier=1.0)
    scheduler = schedulers.ExponentialGradClip(training.optimizer, gamma=gamma)
    expected, largest = [], 0.0
    with training.split() as batches:
        for batch in batches:
            norm = training.optimizer.max_grad_norm
            largest = max(largest, norm)
            training.step(batch)
            if not training.optimizer._is_last_step_skipped:
                expected.append(norm / largest)
                largest = 0.0
            scheduler.step()
    recorded = [noise for noise, _, steps in training.accountant.history for _ in range(steps)]
    assert len(recorded) == len(expected) == 10
    assert all(wanted * (1 - 1e-14) <= noise <= wanted for noise, wanted in zip(recorded, expected, strict=True))
    assert (min(expected) < 0.5) == (gamma < 1)


def test_parts_that_are_themselves_sums_are_refused() -> None:
    training = Training(noise_multiplier=1.0)
    training.module.allow_grad_accumulation()
    first, second, third, *_ = training.loader
    training.optimizer.signal_skip_step(do_skip=True)
    training.optimizer.zero_grad()
    training.backward(first)
    training.backward(second)
    training.optimizer.step()
    with refused_before_the_weights_move(training, "themselves sums"):
        training.step(third)


# What else a step is recorded for


def test_half_precision_draws_no_poisson_samples_and_is_refused() -> None:
    training = Training(noise_multiplier=1.0)
    batch = next(iter(training.loader))
    training.optimizer.zero_grad()
    training.backward(batch)
    try:
        torch.set_default_dtype(torch.bfloat16)
        with refused_before_the_weights_move(training, "bfloat16"):
            training.optimizer.step()
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_coarser_draw_of_another_device_is_in_the_rate() -> None:
    with torch.device("meta"):
        hook: Any = ExactAccountant().get_optimizer_hook_fn(0.1)
        whole: Any = ExactAccountant().get_optimizer_hook_fn(1.0)
    assert hook.sample_rate == 0.1 + 2.0**-24
    assert whole.sample_rate == 1.0


@pytest.mark.parametrize("noise", [math.nan, math.inf, -1.0, "1"])
def test_invalid_noise_is_refused_before_the_weights_move(noise: Any) -> None:
    training = Training(noise_multiplier=1.0)
    training.step(next(iter(training.loader)))
    training.optimizer.noise_multiplier = noise
    with pytest.raises(ParameterError):
        training.optimizer.step_hook(training.optimizer)
    assert training.accountant.history == [(1.0, 0.1, 1)]


def test_a_copy_of_the_hook_records_with_the_same_accountant() -> None:
    training = Training(noise_multiplier=1.0)
    training.step(next(iter(training.loader)))
    copy.deepcopy(training.optimizer.step_hook)(training.optimizer)
    assert training.accountant.history == [(1.0, 0.1, 2)]


def test_other_accountants_are_left_alone() -> None:
    training = Training(**GHOST, accountant="rdp")
    training.optimizer.max_grad_norm = 0.1
    for _ in range(2):
        with training.split() as batches:
            for batch in batches:
                training.step(batch)
                break
    noted: list[Any] = []
    training.optimizer.attach_step_hook(noted.append)
    with training.split() as batches:
        for batch in batches:
            training.step(batch)
    assert len(noted) > 5
    assert len(training.engine.accountant) <= 2


# A hook of one's own does not take the place of the accountant's


def test_a_hook_that_is_attached_is_called_after_the_step_is_recorded() -> None:
    training = Training(noise_multiplier=1.0)
    noted: list[Any] = []
    training.optimizer.attach_step_hook(lambda optimizer: noted.append("replaced by the next one"))
    training.optimizer.attach_step_hook(lambda optimizer: noted.append(len(training.accountant)))
    for batch in training.loader:
        training.step(batch)
    assert training.accountant.history == [(1.0, 0.1, 10)]
    assert noted == list(range(1, 11))


@pytest.mark.parametrize("other", [None, print])
def test_a_step_whose_hook_was_taken_away_is_refused(other: Any) -> None:
    training = Training(noise_multiplier=1.0)
    first, second, *_ = training.loader
    training.step(first)
    hook, training.optimizer.step_hook = training.optimizer.step_hook, other
    with refused_before_the_weights_move(training, "would not be recorded"):
        training.step(second)
    training.optimizer.step_hook = hook
    training.step(second)
    assert training.accountant.history == [(1.0, 0.1, 2)]


def test_going_back_to_a_checkpoint_erases_nothing(tmp_path: Path) -> None:
    training, path = Training(noise_multiplier=1.0), tmp_path / "best.pt"
    for batch in training.loader:
        training.step(batch)
    training.engine.save_checkpoint(path=path, module=training.module, optimizer=training.optimizer)
    best = [p.detach().clone() for p in training.module.parameters()]
    for batch in training.loader:
        training.step(batch)
    spent = training.engine.get_epsilon(DELTA)
    with pytest.raises(ParameterError, match="load the model's state alone"):
        training.engine.load_checkpoint(path=path, module=training.module, optimizer=training.optimizer)
    assert training.engine.get_epsilon(DELTA) == spent
    training.module.load_state_dict(torch.load(path, weights_only=False)["module_state_dict"])
    assert all(torch.equal(p, q) for p, q in zip(training.module.parameters(), best, strict=True))
    assert len(training.accountant) == 20


@pytest.mark.parametrize(("batches", "epochs", "epsilon"), [(93, 1, 3.0), (99, 2, 50.0)])
def test_noise_for_the_steps_of_the_private_loader_keeps_to_the_target(
    batches: int, epochs: int, epsilon: float
) -> None:
    training = Training(records=2 * batches, batch=2, noise_multiplier=1.0)
    training.optimizer.noise_multiplier = get_noise_multiplier(
        target_epsilon=epsilon,
        target_delta=DELTA,
        sample_rate=1 / len(training.loader),
        steps=epochs * len(training.loader),
    )
    for _ in range(epochs):
        for batch in training.loader:
            training.step(batch)
    assert len(training.accountant) == epochs * len(training.loader)
    assert epsilon - 0.01 <= training.engine.get_epsilon(DELTA) <= epsilon
