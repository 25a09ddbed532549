"""The accountant inside the real Opacus: its interface, its engine, and its own accountants on the same histories."""

from __future__ import annotations

import copy
import doctest
import importlib
import math
import re
import warnings
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import pytest

from dprounds import Gaussian, ParameterError, PoissonSampled, UnsupportedError, max_rounds

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch deprecates is not ours to mend
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    opacus: Any = pytest.importorskip("opacus", reason="Opacus is not installed")
    from opacus import accountants, schedulers
    from opacus.accountants import utils
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    from dprounds.integrations import opacus as ours
    from dprounds.integrations.opacus import ExactAccountant, get_noise_multiplier, while_affordable

pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),  # tests need no cryptographic noise
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),  # PyTorch, of a model of a single layer
    pytest.mark.filterwarnings("ignore:Optimal order is the"),  # Opacus, whose list of orders may be too short
]

DELTA = 1e-5
RATE = 256 / 60_000

# Histories that the exact accountant sums, as schedulers of noise or of the batch size leave them.
HISTORIES = [
    [(1.1, RATE, 14_062)],
    [(4.0, 0.001, 100_000)],
    [(1.0, 1.0, 3)],
    [(1.2, 0.01, 1_000), (1.0, 0.01, 1_000), (0.8, 0.01, 500)],
    [(1.0, 0.01, 1_000), (1.0, 0.02, 1_000), (1.0, 0.01, 1_000)],
    [(1.5 * 0.9**epoch, 0.02, 400) for epoch in range(4)],
]
# Few steps of one configuration are left to the best order, which is still below Opacus's.
FEW = [[(1.0, 0.1, 1)], [(1.1, RATE, 50)], [(2.0, 0.05, 3), (1.0, 0.05, 3)]]

PRV_ERROR = 0.01  # in epsilon, as it is asked for below; in delta it is a thousandth
RDP_ERROR = 1e-6  # where its series for orders that are not integers is cut off


def filled(accountant: Any, history: list[tuple[float, float, int]]) -> Any:
    accountant.history = list(history)
    return accountant


def exact(history: list[tuple[float, float, int]]) -> Any:
    return filled(ExactAccountant(), history)


# The peers


@pytest.mark.filterwarnings("ignore:divide by zero encountered in log")  # Opacus, of a batch that holds everybody
@pytest.mark.parametrize("history", HISTORIES)
def test_opacus_prv_is_never_below_ours_by_more_than_its_error(history: list[tuple[float, float, int]]) -> None:
    guarantee = exact(history).run.guarantee(delta=DELTA)
    theirs = float(filled(accountants.PRVAccountant(), history).get_epsilon(DELTA, eps_error=PRV_ERROR))
    assert guarantee.method == "exact"
    assert guarantee.epsilon - PRV_ERROR <= theirs
    # it returns its upper end, an error above its estimate, which is itself an error off
    assert abs(theirs - guarantee.epsilon) <= 3 * PRV_ERROR


@pytest.mark.parametrize("history", HISTORIES + FEW)
def test_ours_is_never_above_opacus_rdp(history: list[tuple[float, float, int]]) -> None:
    theirs = filled(accountants.RDPAccountant(), history).get_epsilon(DELTA)
    assert exact(history).get_epsilon(DELTA) <= theirs * (1 + RDP_ERROR)


def test_two_hundred_noises_are_summed_exactly() -> None:
    history = [(2.0 * 0.998**epoch, 0.02, 20) for epoch in range(200)]
    guarantee = exact(history).run.guarantee(delta=DELTA)
    assert guarantee.method == "exact"
    assert guarantee.upper - guarantee.lower <= 1e-6 * guarantee.upper
    # more noise throughout, and less noise throughout, on either side of it
    assert exact([(2.0, 0.02, 4_000)]).get_epsilon(DELTA) < guarantee.lower
    assert guarantee.upper < exact([(2.0 * 0.998**199, 0.02, 4_000)]).get_epsilon(DELTA)


# The interface


def test_steps_add_up_to_the_run() -> None:
    accountant = ExactAccountant()
    for noise, rate in [(1.0, 0.1)] * 3 + [(2.0, 0.1)] * 2 + [(1.0, 0.1), (1.0, 1.0), (1.0, 0.0)]:
        accountant.step(noise_multiplier=noise, sample_rate=rate)
    assert accountant.history == [(1.0, 0.1, 3), (2.0, 0.1, 2), (1.0, 0.1, 1), (1.0, 1.0, 1), (1.0, 0.0, 1)]
    assert len(accountant) == 8
    sampled = PoissonSampled(Gaussian(1.0), 0.1) * 4 + PoissonSampled(Gaussian(2.0), 0.1) * 2
    assert accountant.run == sampled + Gaussian(1.0)  # at rate 0 nobody is in the batch
    assert accountant.get_epsilon(DELTA) == (sampled + Gaussian(1.0)).epsilon(delta=DELTA)


def test_nothing_recorded_costs_nothing() -> None:
    assert ExactAccountant().get_epsilon(DELTA) == 0.0
    assert len(ExactAccountant()) == 0


def test_a_step_without_noise_costs_infinity() -> None:
    accountant = exact([(1.0, 0.1, 10)])
    accountant.step(noise_multiplier=0.0, sample_rate=0.1)
    assert accountant.get_epsilon(DELTA) == math.inf
    # unless nobody is in the batch
    assert exact([(0.0, 0.0, 10)]).get_epsilon(DELTA) == 0.0


@pytest.mark.parametrize(
    ("noise", "rate"),
    [(math.nan, 0.1), (1.0, math.nan), (-1.0, 0.1), (math.inf, 0.1), (1.0, 1.5), (1.0, 256.0), (1.0, -0.1), ("1", 0.1)],
)
def test_a_step_refuses_what_is_no_step(noise: Any, rate: Any) -> None:
    accountant = ExactAccountant()
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(ParameterError):
        accountant.step(noise_multiplier=noise, sample_rate=rate)
    with pytest.raises(ParameterError):  # Opacus sets histories itself
        exact([(noise, rate, 1)]).get_epsilon(DELTA)
    assert accountant.history == [(1.0, 0.1, 1)]


@pytest.mark.parametrize("history", [[(1.0, 0.1)], [(1.0, 0.1, -1)], [(1.0, 0.1, 1.5)], [(1.0, 0.1, None)], 3, [3]])
def test_a_broken_history_is_refused(history: Any) -> None:
    with pytest.raises(ParameterError):
        exact([]).load_state_dict({"history": history, "mechanism": "dprounds"})
    accountant = ExactAccountant()
    accountant.history = history
    with pytest.raises(ParameterError):
        accountant.get_epsilon(DELTA)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
@pytest.mark.parametrize("history", [[], [(1.0, 0.1, 10)], [(0.0, 0.1, 10)]])
def test_delta_is_checked_whatever_was_recorded(history: list[tuple[float, float, int]], delta: float) -> None:
    with pytest.raises(ParameterError):
        exact(history).get_epsilon(delta)


def test_options_of_other_accountants_change_nothing_but_other_samples_are_refused() -> None:
    accountant = exact([(1.0, 0.01, 1000)])
    assert accountant.get_epsilon(DELTA, eps_error=0.5, alphas=[2.0]) == accountant.get_epsilon(DELTA)
    assert accountant.get_epsilon(DELTA, method="optimal") > accountant.get_epsilon(DELTA)
    with pytest.raises(UnsupportedError):
        accountant.get_epsilon(DELTA, poisson=False)


@pytest.mark.parametrize("theirs", ["RDPAccountant", "PRVAccountant"])
def test_a_state_of_opacus_can_be_continued(theirs: str) -> None:
    before = getattr(accountants, theirs)()
    for noise in (1.0, 1.0, 2.0):
        before.step(noise_multiplier=noise, sample_rate=0.1)
    accountant = ExactAccountant()
    accountant.load_state_dict(before.state_dict())
    assert accountant.history == before.history
    accountant.step(noise_multiplier=2.0, sample_rate=0.1)
    assert accountant.history[-1] == (2.0, 0.1, 2)
    assert before.history[-1] == (2.0, 0.1, 1)  # its own is left alone


def test_a_state_round_trips_and_is_no_window_into_the_accountant() -> None:
    first, second = exact(HISTORIES[3]), ExactAccountant()
    state = first.state_dict()
    assert state["mechanism"] == "dprounds"
    second.load_state_dict(copy.deepcopy(state))
    assert second.history == first.history
    assert second.get_epsilon(DELTA) == first.get_epsilon(DELTA)
    state["history"].append((1.0, 0.1, 1))
    assert second.history == first.history == HISTORIES[3]


@pytest.mark.parametrize(
    "state", [None, {}, {"history": []}, {"mechanism": "dprounds"}, {"history": [], "mechanism": "x"}]
)
def test_another_state_is_refused(state: Any) -> None:
    accountant = exact([(1.0, 0.1, 1)])
    with pytest.raises(ValueError, match="must"):
        accountant.load_state_dict(state)
    assert accountant.history == [(1.0, 0.1, 1)]


def test_importing_twice_registers_once_more() -> None:
    module = importlib.reload(ours)
    try:
        assert isinstance(accountants.create_accountant("dprounds"), module.ExactAccountant)
    finally:
        accountants.register_accountant("dprounds", ExactAccountant, force=True)
        vars(ours).update(ExactAccountant=ExactAccountant)


# Noise


@pytest.mark.parametrize(
    ("epsilon", "rate", "length"),
    [(3.0, RATE, {"epochs": 60}), (1.0, 0.01, {"steps": 2_000}), (8.0, 0.1, {"steps": 500}), (0.3, 1.0, {"steps": 10})],
)
def test_noise_meets_the_target_and_less_than_opacus_finds(epsilon: float, rate: float, length: dict[str, int]) -> None:
    target: dict[str, Any] = {"target_epsilon": epsilon, "target_delta": DELTA, "sample_rate": rate, **length}
    noise = get_noise_multiplier(**target)
    steps = length.get("steps", math.ceil(length.get("epochs", 0) / rate))
    spent = exact([(noise, rate, steps)]).get_epsilon(DELTA)
    assert epsilon - 1e-4 <= spent <= epsilon
    assert exact([(noise / (1 + 2e-6), rate, steps)]).get_epsilon(DELTA) > epsilon
    theirs = utils.get_noise_multiplier(**target, accountant="rdp")
    with_ours = utils.get_noise_multiplier(**target, accountant="dprounds")
    assert noise <= with_ours * (1 + 1e-6)
    assert noise <= theirs
    assert exact([(with_ours, rate, int(steps * (1 - 1e-12)))]).get_epsilon(DELTA) <= epsilon


def test_the_tolerance_in_epsilon_is_kept() -> None:
    target: dict[str, Any] = {"target_epsilon": 3.0, "target_delta": DELTA, "sample_rate": RATE, "steps": 14_062}
    noise = get_noise_multiplier(**target, epsilon_tolerance=1e-8)
    assert 3.0 - 1e-8 <= exact([(noise, RATE, 14_062)]).get_epsilon(DELTA) <= 3.0


@pytest.mark.parametrize(("epochs", "batches"), [(10, 49), (7, 93), (60, 235), (3, 10**6 + 3)])
def test_whole_epochs_are_whole_steps(epochs: int, batches: int) -> None:
    assert ours._steps_of(epochs, 1 / batches) == epochs * batches
    assert ours._steps_of(epochs + 1e-3, 1 / batches) > epochs * batches


@pytest.mark.parametrize(
    "bad",
    [
        {"steps": None},
        {"epochs": 3},
        {"steps": -1},
        {"steps": 1.5},
        {"sample_rate": 0.0},
        {"sample_rate": 256},
        {"target_epsilon": math.nan},
        {"target_delta": 0.0},
        {"epsilon_tolerance": 0.0},
        {"accountant": "rdp"},
        {"steps": None, "epochs": math.nan},
    ],
)
def test_a_target_that_is_none_is_refused(bad: dict[str, Any]) -> None:
    target: dict[str, Any] = {"target_epsilon": 3.0, "target_delta": DELTA, "sample_rate": 0.1, "steps": 10}
    with pytest.raises(ParameterError):
        get_noise_multiplier(**{**target, **bad})


# The engine, in training


class Training:
    """A small model on random records, made private by the real engine."""

    def __init__(self, *, records: int = 120, batch: int = 12, **options: Any) -> None:
        torch.manual_seed(0)
        data = torch.utils.data.TensorDataset(torch.randn(records, 4), torch.randint(0, 2, (records,)))
        loader = torch.utils.data.DataLoader(data, batch_size=batch)
        module = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        self.engine = opacus.PrivacyEngine(accountant="dprounds")
        make = self.engine.make_private_with_epsilon if "target_epsilon" in options else self.engine.make_private
        self.module, self.optimizer, self.loader = make(
            module=module, optimizer=optimizer, data_loader=loader, **{"max_grad_norm": 1.0, **options}
        )
        self.loss = torch.nn.CrossEntropyLoss()

    @property
    def accountant(self) -> ExactAccountant:
        accountant = self.engine.accountant
        assert isinstance(accountant, ExactAccountant)
        return accountant

    def backward(self, batch: Any) -> None:
        features, labels = batch
        self.loss(self.module(features), labels).backward()

    def step(self, batch: Any) -> None:
        self.optimizer.zero_grad()
        self.backward(batch)
        self.optimizer.step()

    def endless(self) -> Any:
        """More batches than any budget here holds."""
        return islice(chain.from_iterable(repeat(self.loader)), 300)


def test_the_engine_records_every_step_of_an_epoch() -> None:
    training = Training(noise_multiplier=1.0)
    for batch in training.loader:
        training.step(batch)
    assert training.accountant.history == [(1.0, 1 / 10, 10)]
    assert training.engine.get_epsilon(DELTA) == (PoissonSampled(Gaussian(1.0), 1 / 10) * 10).epsilon(delta=DELTA)


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
    run = sum(PoissonSampled(Gaussian(noise), 0.1) * steps for noise, steps in [(2.0, 4), (1.0, 4), (0.5, 2)])
    assert training.engine.get_epsilon(DELTA) == run.epsilon(delta=DELTA)  # type: ignore[union-attr]  # sum may be 0 to mypy


def test_split_batches_are_one_step() -> None:
    training = Training(noise_multiplier=1.0)
    with BatchMemoryManager(
        data_loader=training.loader, max_physical_batch_size=3, optimizer=training.optimizer
    ) as batches:
        physical = 0
        for batch in batches:
            physical += 1
            training.step(batch)
    assert physical > 10
    assert training.accountant.history == [(1.0, 0.1, 10)]


def test_summed_batches_are_accounted_as_one_release_each() -> None:
    training = Training(noise_multiplier=2.0)
    training.module.allow_grad_accumulation()
    for batch in training.loader:
        training.backward(batch)
        if training.optimizer.accumulated_iterations == 5:
            training.optimizer.step()
            training.optimizer.zero_grad()
    [(noise, rate, steps)] = training.accountant.history
    assert (rate, steps) == (0.1, 10)
    assert 2.0 / math.sqrt(5) * (1 - 1e-14) <= noise < 2.0 / math.sqrt(5)
    # a record in several of the batches costs more than one that is in at most one of them, which Opacus assumes
    assert training.engine.get_epsilon(DELTA) > (PoissonSampled(Gaussian(2.0), 0.5) * 2).epsilon(delta=DELTA) * 0.9


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


# Until the budget is spent


def test_training_stops_before_the_step_that_would_exceed_the_budget() -> None:
    training = Training(noise_multiplier=2.0)
    for batch in while_affordable(training.endless(), training.optimizer, epsilon=2.0, delta=DELTA):
        training.step(batch)
    step = PoissonSampled(Gaussian(2.0), 0.1)
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
    step = PoissonSampled(Gaussian(training.optimizer.noise_multiplier), 0.1)
    assert training.engine.get_epsilon(DELTA) <= 3.0 < (training.accountant.run + step).epsilon(delta=DELTA)


def test_split_batches_are_all_seen_before_training_stops() -> None:
    training = Training(noise_multiplier=4.0, records=24, batch=12)
    with BatchMemoryManager(
        data_loader=training.loader, max_physical_batch_size=3, optimizer=training.optimizer
    ) as split:
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
    restored.accountant.load_state_dict({"history": [(2.0, 0.1, 10**6)], "mechanism": "dprounds"})
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


def test_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs/howto/opacus.md").read_text()
    code = "\n".join(re.findall(r"```\{code-block\} python\n(.*?)```", page, flags=re.DOTALL))
    test = doctest.DocTestParser().get_doctest(code, {}, "opacus.md", None, 0)
    assert len(test.examples) > 10
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.summarize().failed == 0
