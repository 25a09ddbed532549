"""The real Trainer of Transformers within a budget: the last safe step, a kill and a resume, and what is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dprounds import InfeasibleError, ParameterError, UnsupportedError
from tests.integrations.opacus_training import DELTA, marks, opacus, torch
from tests.integrations.transformers_training import Trained, keep_budget, mean_over_records, train

pytestmark = marks
# At noise 2 and rate 0.1, within epsilon = 2: `max_rounds` of Opacus's own test.
LAST_SAFE_STEP = 73


def steps_in(path: Path) -> int:
    return sum(steps for _, _, steps in json.loads(path.read_text())["history"])


def test_training_ends_at_the_last_safe_step_logs_epsilon_and_saves_the_account(tmp_path: Path) -> None:
    trained = train(tmp_path)
    state = trained.trainer.state
    assert len(trained.engine.accountant) == trained.steps == state.global_step == LAST_SAFE_STEP
    assert steps_in(tmp_path / "privacy-account.json") == LAST_SAFE_STEP
    assert 1.9 < state.log_history[-1]["epsilon"] <= 2.0
    # nothing that was computed from the records without noise
    assert not {"loss", "grad_norm", "train_loss"} & {name for log in state.log_history for name in log}
    kept = json.loads((tmp_path / f"checkpoint-{LAST_SAFE_STEP}/trainer_state.json").read_text())
    account = kept["stateful_callbacks"]["PrivacyCallback"]["attributes"]
    assert sum(steps for _, _, steps in account["history"]) == LAST_SAFE_STEP
    assert not any("loss" in log or "grad_norm" in log for log in kept["log_history"])
    with pytest.raises(InfeasibleError, match="Not one step is left"):
        train(tmp_path, resume=str(tmp_path / f"checkpoint-{LAST_SAFE_STEP}"))


def test_nothing_is_forgotten_when_a_training_is_killed_and_resumed(tmp_path: Path) -> None:
    script = """
import sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from tests.integrations.transformers_training import train
train(Path(sys.argv[1]), kill_after=12)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert steps_in(tmp_path / "privacy-account.json") == 14  # twelve made, fourteen reserved
    trained = train(tmp_path, resume=str(tmp_path / "checkpoint-10"))
    assert trained.steps == LAST_SAFE_STEP - 14
    assert trained.trainer.state.global_step == 10 + trained.steps
    assert len(trained.engine.accountant) == steps_in(tmp_path / "privacy-account.json") == LAST_SAFE_STEP
    assert len(trained.made.read_text().splitlines()) == 12 + LAST_SAFE_STEP - 14


def test_summed_batches_are_counted_one_by_one(tmp_path: Path) -> None:
    trained = train(tmp_path, gradient_accumulation_steps=2, num_train_epochs=2)
    assert trained.steps == 10
    assert len(trained.engine.accountant) == 20


def test_noise_and_batches_follow_neither_the_trainers_seed_nor_a_restored_generator(tmp_path: Path) -> None:
    weights, constant = [], {"lr_scheduler_type": "constant"}
    for name in ("first", "second"):
        trained = train(tmp_path / name, max_steps=5, **constant)  # the seed of every trainer is 42
        weights.append(trained.model._module.linear.weight.detach().clone())
    assert not torch.equal(*weights)
    again = []
    for _ in range(2):  # from one checkpoint, which holds the state of the global generator
        resumed = train(tmp_path / "first", resume=str(tmp_path / "first/checkpoint-5"), max_steps=6, **constant)
        again.append(resumed.model._module.linear.weight.detach().clone())
    assert not torch.equal(*again)
    assert steps_in(tmp_path / "first/privacy-account.json") == 7


def test_a_record_adds_the_same_gradient_whatever_the_other_records_are() -> None:
    """With the model's own loss, which divides by the tokens of the batch, it does not."""
    torch.manual_seed(0)
    words, vocabulary = 6, 11
    table = torch.nn.Sequential(torch.nn.Embedding(vocabulary, 4), torch.nn.Linear(4, vocabulary))
    private = opacus.GradSampleModule(table)
    record = torch.randint(0, vocabulary, (1, words))

    def gradient(other_tokens: int, loss_of: Any) -> Any:
        others = torch.randint(0, vocabulary, (2, words), generator=torch.Generator().manual_seed(1))
        ids = torch.cat([record, others])
        labels = ids.clone()
        labels[1:, other_tokens:] = -100
        private.zero_grad()
        loss_of({"logits": private(ids)}, labels).backward()
        return torch.cat([p.grad_sample[0].flatten() for p in private.parameters()])

    def by_all_tokens(outputs: dict[str, Any], labels: Any) -> Any:
        logits = outputs["logits"][:, :-1].reshape(-1, vocabulary)
        return torch.nn.functional.cross_entropy(logits, labels[:, 1:].reshape(-1))

    assert torch.allclose(gradient(2, mean_over_records), gradient(6, mean_over_records), rtol=1e-5, atol=1e-7)
    ratio = gradient(2, by_all_tokens).norm() / gradient(6, by_all_tokens).norm()
    assert float(ratio) == pytest.approx(15 / 7, rel=1e-4)  # five tokens, and one or five of each other record


def test_the_loss_of_a_batch_is_the_mean_over_its_records_and_zero_of_none() -> None:
    logits, labels = torch.randn(5, 3), torch.tensor([0, 1, 2, 1, 0])
    expected = torch.nn.functional.cross_entropy(logits, labels)
    assert float(mean_over_records({"logits": logits}, labels)) == pytest.approx(float(expected), rel=1e-6)
    assert float(mean_over_records({"logits": logits[:0]}, labels[:0])) == 0.0
    with pytest.raises(UnsupportedError, match="shape"):
        mean_over_records({"logits": torch.randn(2, 3, 4, 5)}, torch.zeros(2, dtype=torch.long))


@pytest.mark.parametrize("option", [{"fp16": True}, {"auto_find_batch_size": True}])
def test_arguments_under_which_steps_are_not_as_accounted_are_refused(option: dict[str, Any], tmp_path: Path) -> None:
    trained = Trained(tmp_path)
    for name, value in option.items():
        setattr(trained.trainer.args, name, value)
    with pytest.raises(UnsupportedError, match=next(iter(option))):
        keep_budget(trained.trainer, trained.optimizer, trained.loader, epsilon=2.0, delta=DELTA, own_loss=True)


def test_a_loss_of_ones_own_must_be_declared(tmp_path: Path) -> None:
    trained = Trained(tmp_path)  # which has `mean_over_records` by now
    with pytest.raises(ParameterError, match="own_loss=True"):
        keep_budget(trained.trainer, trained.optimizer, trained.loader, epsilon=2.0, delta=DELTA)
    with pytest.raises(ParameterError, match="must be a Trainer"):
        keep_budget(None, trained.optimizer, trained.loader, epsilon=2.0, delta=DELTA)


def test_another_loader_or_optimizer_is_refused_before_the_first_step(tmp_path: Path) -> None:
    trained = Trained(tmp_path)
    shuffled = torch.utils.data.DataLoader(trained.loader.dataset, batch_size=12, shuffle=True)
    trained.trainer.get_train_dataloader = lambda: shuffled
    with pytest.raises(ParameterError, match="BatchSampler"):
        trained.trainer.train()
    trained = Trained(tmp_path)
    trained.trainer.optimizer = torch.optim.SGD(trained.model.parameters(), lr=0.1)
    with pytest.raises(ParameterError, match="add no noise"):
        trained.trainer.train()
    assert not trained.made.exists()


def test_a_checkpoint_whose_account_is_gone_is_refused(tmp_path: Path) -> None:
    train(tmp_path, max_steps=5)
    path = tmp_path / "checkpoint-5/trainer_state.json"
    state = json.loads(path.read_text())
    state["stateful_callbacks"].pop("PrivacyCallback")
    path.write_text(json.dumps(state))
    (tmp_path / "privacy-account.json").unlink()
    with pytest.raises(ParameterError, match="holds none"):
        train(tmp_path, resume=str(tmp_path / "checkpoint-5"))
