"""The real Opacus with ``poisson_sampling=False``: a shuffled pass is accounted as one, or refused."""

from __future__ import annotations

import copy
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from dprounds import Gaussian, PoissonSampled, Shuffled, UnsupportedError, max_rounds
from tests.integrations.opacus_training import DELTA, Training, marks, opacus, torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch deprecates is not ours to fix
    from opacus.data_loader import DPDataLoader

    from dprounds.integrations.opacus import (
        ExactAccountant,
        allow_accumulation,
        count_ahead,
        get_noise_multiplier,
        planned_run,
        while_affordable,
    )

pytestmark = marks


def shuffled(noise: float = 4.0, **options: Any) -> Training:
    return Training(**{"noise_multiplier": noise, "poisson_sampling": False, "shuffle": True, **options})


@pytest.mark.parametrize("options", [{}, {"workers": 1}, {"batch": 13}])
def test_every_pass_is_one_shuffled_epoch(options: dict[str, Any]) -> None:
    training = shuffled(**options)
    for _ in range(3):
        for batch in training.loader:
            training.step(batch)
    epoch = Shuffled(Gaussian(4.0), steps=10)
    assert training.accountant.history == [(4.0, 1.0, 3)]
    assert training.accountant.run == epoch * 3 == planned_run(training.optimizer, steps=30)
    assert training.accountant.run_for("replace-one") == Shuffled(Gaussian(4.0), 10, "replace-one") * 3
    found = training.accountant.run.guarantee(delta=DELTA)
    assert (found.relation, found.method) == ("zero-out", "bound")
    assert training.engine.get_epsilon(DELTA) == (epoch * 3).epsilon(delta=DELTA)
    # what was said before: as if the batches were Poisson samples
    assert training.engine.get_epsilon(DELTA) > 2 * (PoissonSampled(Gaussian(4.0), 0.1) * 30).epsilon(delta=DELTA)
    twice = training.accountant.get_epsilon(DELTA, relation="replace-one")
    assert twice >= (Gaussian(2.0) * 3).guarantee(delta=DELTA).lower
    with pytest.raises(UnsupportedError, match="make_private_with_public_records"):
        training.accountant.run_for("add-remove")


def test_a_pass_that_was_left_counts_whole_and_so_does_the_next() -> None:
    training = shuffled()
    for _ in range(5):
        for batch in islice(training.loader, 2):
            training.step(batch)
    assert training.accountant.history == [(4.0, 1.0, 5)]
    next(iter(training.loader))  # a pass without a step is counted with the next one
    training.step(next(iter(training.loader)))
    assert len(training.accountant) == 7


def test_a_batch_that_is_used_twice_or_comes_from_elsewhere_is_refused() -> None:
    training = shuffled()
    elsewhere = (torch.randn(12, 4), torch.randint(0, 2, (12,)))
    with pytest.raises(UnsupportedError, match="no batch of its own"):
        training.step(elsewhere)
    batches = iter(training.loader)
    batch = next(batches)
    training.step(batch)
    with pytest.raises(UnsupportedError, match="no batch of its own"):
        training.step(batch)
    training.step(next(batches))
    assert len(training.accountant) == 1
    next(iter(training.loader))
    with pytest.raises(UnsupportedError, match="cannot go on after another one"):
        next(batches)


def test_less_noise_within_a_pass_is_recorded_with_it() -> None:
    training = shuffled()
    for number, batch in enumerate(training.loader):
        training.optimizer.noise_multiplier = 4.0 if number < 3 else 2.0 if number < 6 else 8.0
        training.step(batch)
    assert training.accountant.history == [(4.0, 1.0, 1), (2.0, 1.0, 1)]


def test_split_batches_and_sums_of_batches() -> None:
    training = shuffled()
    with training.split(5) as parts:
        for batch in parts:
            training.step(batch)
    assert training.accountant.history == [(4.0, 1.0, 1)]
    training = shuffled()
    training.module.allow_grad_accumulation()
    allow_accumulation(training.optimizer, over="separate batches")
    batches = iter(training.loader)
    for _ in range(5):
        training.optimizer.zero_grad()
        training.backward(next(batches))
        training.backward(next(batches))
        training.optimizer.step()
    ((noise, rate, passes),) = training.accountant.history
    assert (rate, passes) == (1.0, 1)
    assert 2.0 * (1.0 - 1e-14) < noise < 2.0  # a sum that holds a record of two passes moves twice as far


def test_records_in_order_cost_what_one_known_batch_costs() -> None:
    training = shuffled(shuffle=False)
    for batch in training.loader:
        training.step(batch)
    found = training.accountant.run.guarantee(delta=DELTA)
    assert (found.method, found.relation) == ("exact", "zero-out")
    assert found.upper == (Gaussian(4.0) * 1).epsilon(delta=DELTA)


def test_poisson_samples_of_the_users_own_loader_stay_poisson_samples() -> None:
    data = torch.utils.data.TensorDataset(torch.randn(120, 4), torch.randint(0, 2, (120,)))
    model, engine = torch.nn.Linear(4, 2), opacus.PrivacyEngine(accountant="dprounds")
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DPDataLoader(data, sample_rate=0.1),
        noise_multiplier=4.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    for features, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
    assert engine.accountant.history == [(4.0, 0.1, 10)]


@pytest.mark.parametrize("kind", ["with replacement", "fewer", "more", "weighted", "own", "no batches"])
def test_what_cannot_be_told_is_refused(kind: str) -> None:
    data = torch.utils.data.TensorDataset(torch.randn(120, 4), torch.randint(0, 2, (120,)))
    samplers: dict[str, Any] = {
        "with replacement": {"sampler": torch.utils.data.RandomSampler(data, replacement=True), "batch_size": 12},
        "fewer": {"sampler": torch.utils.data.RandomSampler(data, num_samples=60), "batch_size": 12},
        "more": {"sampler": torch.utils.data.RandomSampler(data, num_samples=240), "batch_size": 12},
        "weighted": {"sampler": torch.utils.data.WeightedRandomSampler([1.0] * 120, 120), "batch_size": 12},
        "own": {"batch_sampler": [[0, 1], [0, 2]]},
        "no batches": {"batch_size": None},
    }
    model, engine = torch.nn.Linear(4, 2), opacus.PrivacyEngine(accountant="dprounds")
    with pytest.raises(UnsupportedError, match="It is not known what this loader draws"):
        engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, **samplers[kind]),
            noise_multiplier=4.0,
            max_grad_norm=1.0,
            poisson_sampling=False,
        )


def test_plans_are_for_whole_passes(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="plans for Poisson samples"):
        shuffled(target_epsilon=2.0, target_delta=DELTA, epochs=3)
    noise = get_noise_multiplier(target_epsilon=2.0, target_delta=DELTA, sample_rate=1.0, steps=3)
    training, file = shuffled(noise), tmp_path / "spent.json"
    with pytest.raises(UnsupportedError, match="plan whole passes"):
        while_affordable(training.loader, training.optimizer, epsilon=2.0, delta=DELTA)
    assert max_rounds(planned_run(training.optimizer, steps=10), epsilon=2.0, delta=DELTA) == 3
    with count_ahead(training.accountant, file, reserve=50):
        for _ in range(3):
            for batch in training.loader:
                training.step(batch)
        killed = file.read_text()
    assert 1.9 < training.engine.get_epsilon(DELTA) <= 2.0
    file.write_text(killed)
    resumed = ExactAccountant()
    with count_ahead(resumed, file):
        assert resumed.run == training.accountant.run  # a kill loses no pass that was not begun
    again = ExactAccountant()
    again.load_state_dict(copy.deepcopy(training.accountant.state_dict()))
    assert again.run == training.accountant.run


def test_other_accountants_are_left_alone() -> None:
    training = shuffled(accountant="rdp")
    for batch in training.loader:
        training.step(batch)
    assert training.engine.accountant.history == [(4.0, 0.1, 10)]
