"""The hook that Opacus's optimizer calls before each step: it records the step, or refuses it.

Opacus gives its hook no information about how the gradients were made. `patches` adds that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from opacus.optimizers import AdaClipDPOptimizer, DPOptimizer, DPOptimizerFastGradientClipping

from dprounds.errors import InfeasibleError, ParameterError, UnsupportedError
from dprounds.integrations.opacus.budget import Budget
from dprounds.integrations.opacus.history import ONE, ROUNDING, SEPARATE, Line, line_of_passes
from dprounds.integrations.opacus.passes import Passes

__all__ = ["CLIPPED_AT", "Loop", "StepHook", "forget_split_batches", "hook_of", "rate_drawn_here"]

# Where a parameter keeps the norm at which its gradients were clipped last.
CLIPPED_AT = "_dprounds_clipped_at"
# The types in which PyTorch draws multiples of 2^-24 or finer. In half precision one draw in some thousands is rounded
# to zero, so that rates of that size and below are not what they say.
FINE_DRAW_TYPES = (torch.float32, torch.float64)
# Added to every rate on a GPU. There, single precision rounds 2^-25 of the draws up to one, and returns those as zero.
GPU_RATE_MARGIN = 2.0**-24


class Journal(Protocol):
    """Where steps are counted before they are made."""

    def reserve(self, noise: float, rate: float, steps: int, most_ahead: float) -> None:
        """Write `steps` more steps to disk, and at most `most_ahead` after those."""


class Records(Protocol):
    """The accountant of a hook."""

    history: list[Line]
    _journal: Journal | None
    _batches: int

    @property
    def relation(self) -> str:
        """Which data sets are neighbours."""

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step."""

    def granted_steps(self, noise: float, rate: float) -> float:
        """How many more of these steps the grant covers; infinitely many without a grant."""

    def check_grant(self, noise: float, rate: float, steps: int) -> None:
        """Raise where the grant does not cover so many more steps; begin its work where it does."""


@dataclass(eq=False)
class Loop:
    """A loop that yields batches while they are affordable.

    `accumulated` batches are summed before each step, `handed` is the number of the last batch that was yielded, and
    `last` the number of the batch after which the budget no longer counts, both as `StepHook.batches` counts them.
    """

    budget: Budget
    accumulated: int
    handed: float
    last: float = math.inf


@dataclass(eq=False)
class StepHook:
    """Records each step of an optimizer whose batches are sampled at one rate.

    A copy of the optimizer, shallow or deep, records with the same accountant: its releases count too.
    """

    accountant: Records
    sample_rate: float
    # loops whose budgets no step may exceed
    loops: list[Loop] = field(default_factory=list)
    # what several backward() before a step are passes over, if `allow_accumulation` said so
    over: str | None = None
    # another hook, called after each step that was recorded
    then: Callable[[DPOptimizer], None] | None = None
    # of the batch whose gradients are being summed: its parts, the largest norm of clipping, the most passes in a part
    parts: int = 0
    clipped: float = 0.0
    passes: int = 1
    # batches that were clipped so far, begun passes over a split loader, and how often flags were dropped
    batches: int = 0
    loader_passes: int = 0
    series: int = 0
    # whether a loop is drawing another batch after its first one
    draws_on: bool = False
    # of a loader that goes through all records in a pass: those begun, those that are recorded, and of the last one the
    # steps and their least noise
    loader: Passes | None = None
    recorded_passes: int = 0
    steps_of_pass: int = 0
    noise_of_pass: float = math.inf

    def __deepcopy__(self, memo: dict[int, Any]) -> StepHook:
        accountant = memo.get(id(self.accountant), self.accountant)
        # a copy records each pass again that it makes steps in
        return StepHook(accountant, self.sample_rate, self.loops, self.over, self.then, loader=self.loader)

    def saw_part(self, optimizer: DPOptimizer) -> None:
        """Take note of a part of a batch, clipped and added to the sum."""
        passes = optimizer.accumulated_iterations
        self.parts += 1
        self.clipped = max(self.clipped, _clipping_norm(optimizer))
        self.passes = max(self.passes, passes)
        self.batches += 1 if self.over == ONE else passes

    def forget_part(self) -> None:
        """Take note that the sum is empty."""
        self.parts, self.clipped, self.passes = 0, 0.0, 1

    def end_loops(self) -> None:
        """Drop the loops whose last batch is over."""
        if self.loops:
            self.loops[:] = [loop for loop in self.loops if self.batches < loop.last]

    def __call__(self, optimizer: DPOptimizer) -> None:
        """Record a step whose noise has been added and which has not been made; refuse it if it may not be."""
        # Opacus divides the noisy count of clipped records by the size of the batch, which is as private as they are
        if isinstance(optimizer, AdaClipDPOptimizer) or hasattr(optimizer, "_adjusted_noise_multiplier"):
            raise UnsupportedError(
                "No theorem here covers Opacus's adaptive clipping: it reveals the size of each Poisson batch. "
                "Use flat or per-layer clipping."
            )
        if torch.get_default_dtype() not in FINE_DRAW_TYPES:
            raise UnsupportedError(
                f"In {torch.get_default_dtype()} PyTorch's random numbers are too coarse to sample at a rate. "
                "Keep torch.float32 as the default type, and train a model in half precision by its own type."
            )
        if not self.parts:  # this optimizer clips without the patched methods
            self.saw_part(optimizer)
        parts, clipped, passes = self.parts, self.clipped, self.passes
        self.forget_part()
        if parts > 1 and passes > 1:
            raise UnsupportedError(
                "A step must sum either the parts of one batch or several whole batches: the parts of this one were "
                "themselves sums. Call optimizer.step() once for each backward()."
            )
        over = ONE if passes == 1 else self._over(passes)
        least = _noise_over(optimizer, clipped)
        if self.loader is None:
            noise, rate, releases = line_of_passes(least, self.sample_rate, passes, over)
        else:
            # each of the k sums may hold the record, in a pass that it is in once
            noise, rate, _ = line_of_passes(least, 1.0, passes, ONE)
            releases = self._new_passes(self.loader, noise)
        self._record(noise, rate, releases)
        if self.loader is not None:
            self.steps_of_pass = 1 + (0 if self.loader.begun > self.recorded_passes else self.steps_of_pass)
            self.recorded_passes = self.loader.begun
            self.noise_of_pass = noise if releases else self.noise_of_pass
        self.end_loops()
        if self.then is not None:
            self.then(optimizer)

    def _new_passes(self, loader: Passes, noise: float) -> int:
        """How many passes to record with a step: those begun since the last one, or once more one with less noise."""
        new = loader.begun - self.recorded_passes
        if not loader.begun or (0 if new else self.steps_of_pass) >= loader.drawn:
            raise UnsupportedError(
                "This step has no batch of its own from the loader that make_private returned, so it was not made. "
                "With poisson_sampling=False each batch of a pass is for one step."
            )
        return new or int(noise < self.noise_of_pass)

    def _record(self, noise: float, rate: float, releases: int) -> None:
        """Record so many releases, or raise where a budget or a grant does not allow them."""
        if not releases:
            return
        for loop in self.loops:
            budget = loop.budget
            if not budget.affords(noise, rate, releases):
                raise InfeasibleError(
                    f"This step would exceed epsilon={budget.epsilon:g} at delta={budget.delta:g}, so it was not made. "
                    "while_affordable could not foresee it: lower the noise after optimizer.step() and not before it, "
                    "step each batch before the next one is drawn, and say how many batches are accumulated."
                )
        self.accountant.check_grant(noise, rate, releases)
        journal = self.accountant._journal
        if journal is not None:
            planned = min((loop.budget.planned(noise, rate) for loop in self.loops), default=math.inf)
            planned = min(planned, self.accountant.granted_steps(noise, rate))
            ahead = planned - releases if self.loader is None else 0  # a pass is too much to be lost to a kill
            journal.reserve(noise, rate, releases, ahead)
        for _ in range(releases):
            self.accountant.step(noise_multiplier=noise, sample_rate=rate)

    def _over(self, passes: int) -> str:
        """What the passes of a step were over; refused if that was not declared, or cannot be true."""
        summed = any(loop.accumulated > 1 for loop in self.loops)
        over = self.over or (SEPARATE if summed else None)
        if over is None:
            raise UnsupportedError(
                f"backward() was called {passes} times before this step, so it was not made: whether on one batch or "
                "on batches of their own cannot be seen, and they cost differently. Say so once, before training: "
                "allow_accumulation(optimizer, over='separate batches'), or 'one batch', or 'any batches'."
            )
        if over == SEPARATE and any(self.batches > loop.handed for loop in self.loops):
            raise UnsupportedError(
                "backward() was called more often than while_affordable has yielded batches, so this step was not "
                "made: some batch was used twice. Say so: allow_accumulation(optimizer, over='one batch') for several "
                "passes over each batch, or 'any batches'."
            )
        return over


def hook_of(optimizer: DPOptimizer) -> StepHook:
    """The hook by which an optimizer records here."""
    hook = getattr(optimizer, "step_hook", None)
    if not isinstance(hook, StepHook):
        raise ParameterError(
            "optimizer must be one that PrivacyEngine(accountant='dprounds') made private, "
            f"got a {type(optimizer).__name__} that does not record with it."
        )
    return hook


def rate_drawn_here(rate: float) -> float:
    """The rate to record for batches that are drawn at `rate` on PyTorch's default device."""
    return rate if torch.get_default_device().type == "cpu" else min(rate + GPU_RATE_MARGIN, 1.0)


def forget_split_batches(optimizer: DPOptimizer, hook: StepHook, *, kept: int = 0) -> None:
    """Drop the flags of all but the next `kept` batches, and if none are kept the sum of a batch not yet stepped.

    A loader that has drawn those batches ahead cannot go on after that, and says so.
    """
    if len(optimizer._step_skip_queue) > kept:
        del optimizer._step_skip_queue[kept:]
        hook.series += 1
    if not kept and optimizer._is_last_step_skipped:
        optimizer._is_last_step_skipped = False  # while it is set, the sum is kept
        optimizer.zero_grad()
        hook.forget_part()


def _clipping_norm(optimizer: DPOptimizer) -> float:
    """The norm at which the optimizer's gradients have just been clipped; infinite where that is not known."""
    if isinstance(optimizer, DPOptimizerFastGradientClipping):
        parameters = optimizer.params
        norm = max((vars(p).pop(CLIPPED_AT, math.inf) for p in parameters), default=math.inf)
    elif (norms := getattr(optimizer, "max_grad_norms", None)) is not None:
        norm = torch.norm(torch.tensor([float(norm) for norm in norms]), p=2).item()  # rounded as Opacus does
    else:
        norm = abs(float(optimizer.max_grad_norm))
    return norm if norm >= 0 else math.inf


def _noise_over(optimizer: DPOptimizer, clipped: float) -> float:
    """Noise over the norm at which records were clipped, at most the optimizer's multiplier. Rounded down."""
    noise, norm = optimizer.noise_multiplier, float(optimizer.max_grad_norm)
    if norm >= clipped:
        return noise  # type: ignore[no-any-return]  # Opacus has no types; the accountant checks it
    if isinstance(optimizer, DPOptimizerFastGradientClipping) or hasattr(optimizer, "max_grad_norms"):
        raise UnsupportedError(
            f"Noise is scaled to a norm of {norm:g}, but the records' gradients were "
            + ("not clipped at all" if clipped == math.inf else f"clipped at {clipped:g}")
            + ". With ghost and per-layer clipping, Opacus's schedulers of the clipping norm change the noise alone. "
            "Use flat clipping with them, or leave max_grad_norm as it is."
        )
    return float(noise) * (norm / clipped) * (1.0 - ROUNDING)
