"""Opacus and dp-accounting under a grant: no more than it covers, once, through crashes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from dprounds import Gaussian, Laplace, ParameterError, PoissonSampled, Shuffled, UnsupportedError
from dprounds.integrations.granted import Granted
from dprounds.ledger import BudgetExceededError, Ledger, LedgerError

STEP = PoissonSampled(Gaussian(4.0), 0.1, relation="zero-out")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    found = Ledger(f"sqlite:///{tmp_path}/budget.db")
    found.open("patients", epsilon=6.0, delta=1e-5, relation="zero-out")
    found.open("added", epsilon=6.0, delta=1e-5)
    yield found
    found.close()


def test_a_round_takes_the_place_of_one_that_reveals_at_least_as_much(ledger: Ledger) -> None:
    granted = Granted(ledger.reserve("patients", STEP * 3 + Gaussian(8.0) * 2, key="job"), relation="zero-out")
    less = PoissonSampled(Gaussian(4.5), 0.09, relation="zero-out")
    more = PoissonSampled(Gaussian(3.9), 0.1, relation="zero-out")
    assert (granted.rounds_left(STEP), granted.rounds_left(less), granted.rounds_left(more)) == (3, 3, 0)
    assert granted.rounds_left(PoissonSampled(Gaussian(9.0), 0.05, relation="zero-out")) == 5
    assert granted.rounds_left(PoissonSampled(Gaussian(9.0), 0.05, relation="zero-out", group_size=2)) == 0
    assert granted.rounds_left(Shuffled(Gaussian(8.0), steps=10)) == 2
    assert granted.rounds_left(Shuffled(Gaussian(15.9), steps=10, relation="replace-one")) == 0
    granted.use(less * 2 + STEP)
    with pytest.raises(BudgetExceededError, match="0 such rounds are left"):
        granted.use(STEP * 1)
    with pytest.raises(BudgetExceededError):
        granted.use(Gaussian(8.0) * 2 + Laplace(5.0))
    granted.use(Gaussian(9.0) * 2)  # what was refused has taken nothing


class TestOpacus:
    """Steps of the real Opacus."""

    @pytest.fixture(autouse=True)
    def _without_warnings(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Opacus and PyTorch
            yield

    @pytest.fixture
    def opacus(self) -> Any:
        pytest.importorskip("opacus", reason="Opacus is not installed")
        import dprounds.integrations.opacus as module
        from tests.integrations import opacus_training

        return module, opacus_training.Training

    def test_no_step_beyond_the_grant(self, ledger: Ledger, opacus: Any) -> None:
        module, training = opacus
        trained = training(noise_multiplier=4.0)
        run = module.planned_run(trained.optimizer, steps=12)
        assert run.relation == trained.accountant.relation == "zero-out"
        with ledger.spend("patients", run, key="train") as grant:
            trained.accountant.use_grant(grant)
            batches = trained.endless()
            for batch in islice(batches, 12):
                trained.step(batch)
            weights = [weight.clone() for weight in trained.module.parameters()]
            with pytest.raises(BudgetExceededError, match="0 such rounds are left"):
                trained.step(next(batches))
            same = [(a == b).all() for a, b in zip(weights, trained.module.parameters(), strict=True)]
            assert all(same)
            assert len(trained.accountant) == 12
        assert trained.accountant.run == run
        again = training(noise_multiplier=4.0)
        again.accountant.use_grant(grant)
        with pytest.raises(LedgerError, match="is committed"):
            again.step(next(iter(again.loader)))
        ledger.verify()

    def test_a_loop_ends_with_the_grant(self, ledger: Ledger, opacus: Any) -> None:
        module, training = opacus
        trained = training(noise_multiplier=4.0)
        grant = ledger.reserve("patients", module.planned_run(trained.optimizer, steps=7), key="train")
        trained.accountant.use_grant(grant)
        for batch in module.while_affordable(trained.endless(), trained.optimizer, epsilon=5.0, delta=1e-5):
            trained.step(batch)
        assert len(trained.accountant) == 7
        trained.optimizer.noise_multiplier = 3.9  # less noise than was granted
        with pytest.raises(BudgetExceededError):
            trained.step(next(iter(trained.loader)))

    def test_a_killed_training_goes_on_from_its_file_alone(self, ledger: Ledger, opacus: Any, tmp_path: Path) -> None:
        module, training = opacus
        trained, file, saved = training(noise_multiplier=4.0), tmp_path / "spent.json", tmp_path / "checkpoint.pt"
        run = module.planned_run(trained.optimizer, steps=20)
        killed = module.count_ahead(trained.accountant, file, reserve=6)
        killed.__enter__()
        trained.accountant.use_grant(ledger.reserve("patients", run, key="train"))
        for batch in islice(trained.loader, 8):
            trained.step(batch)
            if len(trained.accountant) == 3:
                trained.engine.save_checkpoint(path=saved, module=trained.module, optimizer=trained.optimizer)
        left = file.read_text()
        killed.__exit__(None, None, None)
        with pytest.raises(LedgerError, match=r"counted in 'spent\.json'"):  # outside of the block
            trained.step(next(iter(trained.loader)))
        file.write_text(left)  # as if it had been killed

        def resumed() -> Any:
            found = training(noise_multiplier=4.0)
            found.engine.load_checkpoint(path=saved, module=found.module, optimizer=found.optimizer)
            return found

        one = resumed()
        with pytest.raises(LedgerError, match="may not use it"):
            one.step(next(iter(one.loader)))
        with pytest.raises(ParameterError, match="accountant must have made no step"):
            resumed().accountant.use_grant(ledger.grant("patients", "train"))
        for _ in range(2):  # a file that was made just now proves nothing, nor does it when it is found again
            block = module.count_ahead(resumed().accountant, tmp_path / "new.json")
            with pytest.raises(ParameterError, match="path must be the file in which"):
                block.__enter__()
            one = training(noise_multiplier=4.0)
            counted = module.count_ahead(one.accountant, tmp_path / "first.json")
            with counted, pytest.raises(LedgerError, match="may have looked at the data"):
                one.accountant.use_grant(ledger.grant("patients", "train"))
        one = training(noise_multiplier=4.0)  # from the beginning
        one.accountant.use_grant(ledger.grant("patients", "train"))
        with pytest.raises(LedgerError, match="may have looked at the data"):
            one.step(next(iter(one.loader)))
        one = resumed()
        with module.count_ahead(one.accountant, file, reserve=6):
            grant = ledger.grant("patients", "train")
            one.accountant.use_grant(grant)
            assert len(one.accountant) == 12  # eight were made, and twelve on disk
            for batch in islice(one.loader, 8):
                one.step(batch)
            with pytest.raises(BudgetExceededError):
                one.step(next(iter(one.loader)))
            grant.commit()
        assert one.accountant.run == run

    def test_a_grant_of_another_relation_is_refused(self, ledger: Ledger, opacus: Any) -> None:
        module, training = opacus
        trained = training(noise_multiplier=4.0)
        grant = ledger.reserve("added", PoissonSampled(Gaussian(4.0), 0.11) * 20, key="train")
        with pytest.raises(ParameterError, match="make_private_with_public_records"):
            trained.accountant.use_grant(grant)
        import torch
        from opacus import PrivacyEngine

        data = torch.utils.data.TensorDataset(torch.randn(120, 4), torch.randint(0, 2, (120,)))
        model, engine = torch.nn.Linear(4, 2), PrivacyEngine(accountant="dprounds")
        module.make_private_with_public_records(
            engine,
            public_records=120,
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, batch_size=12),
            noise_multiplier=4.0,
            max_grad_norm=1.0,
        )
        assert engine.accountant.relation == "add-remove"
        engine.accountant.use_grant(grant)  # of a higher rate, as the command line would reserve it
        assert engine.accountant.granted_steps(4.0, 0.1) == 20
        copied = copy.deepcopy(engine.accountant)
        with pytest.raises(LedgerError, match="it is a copy"):
            copied.step(noise_multiplier=4.0, sample_rate=0.1)
        engine.accountant.step(noise_multiplier=4.0, sample_rate=0.1)
        assert engine.accountant.state_dict()["relation"] == "add-remove"
        # another loader of the same engine, made private by its length
        engine.accountant.get_optimizer_hook_fn(sample_rate=0.1)
        assert engine.accountant.relation == "zero-out"


class TestDpAccounting:
    """Events of the real dp-accounting."""

    @pytest.fixture
    def peer(self) -> Any:
        return pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")

    def event(self, peer: Any, noise: float = 4.0) -> Any:
        return peer.PoissonSampledDpEvent(0.1, peer.GaussianDpEvent(noise))

    def test_no_event_beyond_the_grant(self, ledger: Ledger, peer: Any) -> None:
        from dprounds.integrations.dp_accounting import ExactAccountant

        granted = PoissonSampled(Gaussian(4.0), 0.1) * 20
        with ledger.spend("added", granted, key="train") as grant:
            accountant = ExactAccountant(grant=grant)
            accountant.compose(self.event(peer), 15).compose(self.event(peer, 5.0), 2)
            assert accountant.supports(self.event(peer, 1.0))  # what it costs is known, whatever was granted
            before = accountant.get_epsilon(1e-5)
            for event, count in ((self.event(peer), 4), (self.event(peer, 1.0), 1), (peer.NonPrivateDpEvent(), 1)):
                with pytest.raises(BudgetExceededError):
                    accountant.compose(event, count)
            with pytest.raises(peer.UnsupportedEventError):
                accountant.compose(peer.UnsupportedDpEvent())
            assert accountant.get_epsilon(1e-5) == before
            assert accountant.run.rounds == 17
            with pytest.raises(UnsupportedError, match="cannot be copied"):
                copy.copy(accountant)
            accountant.compose(self.event(peer), 3)
        with pytest.raises(ParameterError, match="grant must be of a budget for replace-one"):
            ExactAccountant(peer.NeighboringRelation.REPLACE_ONE, grant=grant)
        with pytest.raises(ParameterError, match="checkpoint is for"):
            ExactAccountant(checkpoint="a")

    def test_a_crash_is_survived_by_the_checkpoint_alone(self, ledger: Ledger, peer: Any, tmp_path: Path) -> None:
        from dprounds.integrations.dp_accounting import ExactAccountant

        file = tmp_path / "made.json"
        ledger.reserve("added", PoissonSampled(Gaussian(4.0), 0.1) * 20, key="train")
        accountant = ExactAccountant(grant=ledger.grant("added", "train"), checkpoint=file)
        accountant.compose(self.event(peer), 12)
        with pytest.raises(ParameterError, match="in use by another run"):
            ExactAccountant(grant=ledger.grant("added", "train"), checkpoint=file)
        del accountant  # a crash
        with pytest.raises(LedgerError, match="may have looked at the data"):
            ExactAccountant(grant=ledger.grant("added", "train")).compose(self.event(peer))
        resumed = ExactAccountant(grant=ledger.grant("added", "train"), checkpoint=file)
        assert resumed.run.rounds == 12
        with pytest.raises(BudgetExceededError):
            resumed.compose(self.event(peer), 9)
        resumed.compose(self.event(peer), 8)
        with pytest.raises(UnsupportedError, match=r"ask accountant\.run"):
            _ = resumed.ledger
        del resumed
        other = ledger.reserve("added", PoissonSampled(Gaussian(4.0), 0.1) * 30, key="other")
        with pytest.raises(ParameterError, match="must be of the grant 'other'"):
            ExactAccountant(grant=other, checkpoint=file)
        file.write_text(file.read_text()[:-9])
        with pytest.raises(ParameterError, match="damaged"):
            ExactAccountant(grant=other, checkpoint=file)
