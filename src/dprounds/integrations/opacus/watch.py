"""One training within its budget, for trainers that own the loop and call back around each step."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch
from opacus.optimizers import DPOptimizer
from opacus.utils.batch_memory_manager import BatchSplittingSampler
from opacus.utils.uniform_sampler import UniformWithReplacementSampler

from dprounds import _validate
from dprounds.errors import InfeasibleError, ParameterError, UnsupportedError
from dprounds.integrations.opacus.accountant import ExactAccountant
from dprounds.integrations.opacus.budget import Budget
from dprounds.integrations.opacus.history import ONE, SEPARATE, drawn_rate, line_of_passes
from dprounds.integrations.opacus.hook import Loop, hook_of
from dprounds.integrations.opacus.on_disk import count_ahead

__all__ = ["Watch", "check_one_process"]

# Where a wrapper of an optimizer keeps what it wraps: Accelerate's, then Lightning's.
WRAPPED_OPTIMIZER = ("optimizer", "_optimizer")
# Samplers that hand on the batches of another one: Accelerate's, which leaves out the first ones, and Opacus's.
HANDS_ON = {"SkipBatchSampler": "batch_sampler", BatchSplittingSampler.__name__: "sampler"}


class Watch:
    """Keeps the steps of an optimizer within (`epsilon`, `delta`), and its account on disk, while a trainer trains.

    A trainer calls `begin` before its first step, asks `goes_on` after each, and calls `end`. A step beyond the budget
    raises `InfeasibleError` before the weights move, whatever the trainer does. `begin` also gives noise and batches
    random generators of their own, seeded by the operating system. Trainers seed the global one with a number that
    everybody knows, and restore it with a checkpoint, after which the same noise would be drawn again.

    Parameters
    ----------
    optimizer
        What ``PrivacyEngine(accountant="dprounds").make_private`` returned.
    epsilon, delta
        The budget, in nats, in [0, inf); and its failure mass, in (0, 1).
    account
        The file of the account. Every step is in it before it is made, so that a training that is killed forgets none.
    reserve
        Steps written at a time, at least 1.
    own_sampler
        The batches are Poisson samples at the optimizer's rate, drawn by a sampler of your own, from a generator that
        nobody can predict.
    method
        The bound to plan by; exact by default.
    """

    def __init__(
        self,
        optimizer: DPOptimizer,
        *,
        epsilon: float,
        delta: float,
        account: str | os.PathLike[str],
        reserve: int = 100,
        own_sampler: bool = False,
        method: str | None = None,
    ) -> None:
        self.optimizer, self.hook = optimizer, hook_of(optimizer)
        accountant = self.hook.accountant
        if not isinstance(accountant, ExactAccountant):
            raise ParameterError(f"optimizer must record with an ExactAccountant, got {_validate.show(accountant)}.")
        self.accountant = accountant
        self.budget = Budget(accountant, epsilon=epsilon, delta=delta, method=method)
        self.account, self.reserve, self.own_sampler = account, reserve, own_sampler is True
        self._passes = 1
        self._block: ExitStack | None = None

    def begin(self, loader: object, optimizer: object, *, accumulated: int = 1, steps_before: int = 0) -> None:
        """Open the account, and check that the trainer trains what is accounted for.

        Parameters
        ----------
        loader, optimizer
            What the trainer draws its batches from, and what it steps.
        accumulated
            How many batches it sums before each step.
        steps_before
            Steps that the trainer says it has made, in a training that it resumes.
        """
        self.end()
        self._passes = _validate.count("accumulated", accumulated, least=1)
        _check_optimizer(optimizer, self.optimizer)
        sampler = None if self.own_sampler else _poisson_sampler(loader, self.hook.sample_rate)
        block = ExitStack()
        with block:
            block.enter_context(count_ahead(self.accountant, self.account, reserve=self.reserve))
            if steps_before and not len(self.accountant):
                raise ParameterError(
                    f"account must hold the {steps_before} steps that this training has made, and holds none. Pass the "
                    "file in which they were counted. Steps made without an account cannot be counted afterwards."
                )
            if not self.goes_on():
                raise InfeasibleError(
                    f"Not one step is left within epsilon={self.budget.epsilon:g} at delta={self.budget.delta:g}: the "
                    f"account holds {len(self.accountant)} steps. No step was made."
                )
            # of how many batches the sums are is not known to be fewer than were drawn
            loop = Loop(self.budget, self._passes, handed=math.inf)
            self.hook.loops.append(loop)
            block.callback(self._leave, loop)
            self._draw_in_secret(sampler)
            self._block = block.pop_all()

    def goes_on(self) -> bool:
        """Whether one more step is within the budget, and within the grant if there is one."""
        over = self.hook.over or (ONE if self._passes == 1 else SEPARATE)
        noise, rate, releases = line_of_passes(
            self.optimizer.noise_multiplier, self.hook.sample_rate, self._passes, over
        )
        return self.budget.affords(noise, rate, releases) and self.accountant.granted_steps(noise, rate) >= releases

    def end(self) -> None:
        """Close the account: reserved steps that were not made are given back."""
        block, self._block = self._block, None
        if block is not None:
            block.close()

    def epsilon_spent(self) -> float:
        """Epsilon of all steps so far. What may be published is the budget, if these numbers steer anything."""
        return self.accountant.get_epsilon(self.budget.delta, method=self.budget.method)

    def state(self) -> dict[str, Any]:
        """The account, as a checkpoint holds it."""
        return dict(self.accountant.state_dict())

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the account of a checkpoint; raises if it is not of this training."""
        if "history" not in state:
            raise ParameterError("The checkpoint must hold an account, as this callback writes it.")
        if state["history"]:
            self.accountant.load_state_dict(state)

    def _leave(self, loop: Loop) -> None:
        loop.last = -1
        self.hook.end_loops()

    def _draw_in_secret(self, sampler: UniformWithReplacementSampler | None) -> None:
        if self.optimizer.secure_mode:
            return
        device = next(iter(self.optimizer.params)).device
        self.optimizer.generator = _fresh_generator(device)
        if sampler is not None:
            sampler.generator = _fresh_generator(torch.device("cpu"))


def _fresh_generator(device: torch.device) -> torch.Generator:
    """A generator whose seed comes from the operating system."""
    generator = torch.Generator(device=device)
    generator.manual_seed(int.from_bytes(os.urandom(8), "big", signed=True))
    return generator


def _check_optimizer(given: object, private: DPOptimizer) -> None:
    """Refuse a trainer that steps another optimizer, which adds no noise and records nothing."""
    found: object = given
    for _ in range(4):
        if found is private:
            return
        found = next((getattr(found, name) for name in WRAPPED_OPTIMIZER if hasattr(found, name)), None)
    raise ParameterError(
        "The trainer must step the optimizer that make_private returned, and steps another one, of type "
        f"{type(given).__name__}: it would add no noise. Hand the private one to the trainer."
    )


def _poisson_sampler(loader: object, rate: float) -> UniformWithReplacementSampler:
    """The sampler of a loader, which draws Poisson samples at no higher rate than is recorded; otherwise refused."""
    sampler = getattr(loader, "batch_sampler", None)
    for _ in range(3):
        sampler = getattr(sampler, HANDS_ON.get(type(sampler).__name__, ""), sampler)
    if not isinstance(sampler, UniformWithReplacementSampler):
        raise ParameterError(
            "The trainer must draw from the loader that make_private returned, with poisson_sampling=True, and draws "
            f"by a {type(sampler).__name__}: epsilon would be too small. If a sampler of your own draws Poisson "
            "samples at the optimizer's rate, pass own_sampler=True."
        )
    if not drawn_rate(sampler.sample_rate) <= drawn_rate(rate):
        raise ParameterError(
            f"The loader draws at a rate of {sampler.sample_rate:.6g}, and the optimizer records {rate:.6g}: epsilon "
            "would be too small. Make both private together, by another make_private of the same engine."
        )
    return sampler


def check_one_process(processes: int) -> None:
    """Refuse a trainer of several processes, whose samplers and steps were not tried here."""
    if processes != 1:
        raise UnsupportedError(
            f"Only one process is accounted for here, and the trainer has {processes}. Train on one device, or use "
            "Opacus's own distributed optimizer in a loop of yours."
        )
