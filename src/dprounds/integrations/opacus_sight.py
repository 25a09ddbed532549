"""What Opacus does, seen by the hook that its optimizer calls before each step.

Opacus calls that hook once a step, and tells it nothing of how the gradients came about. Three of its methods are
therefore wrapped when this module is imported; they do what they did, and where the optimizer's hook is a `StepHook`
they also tell it:

- ``DPOptimizer._check_skip_next_step``, which follows the clipping of every part of a batch: at what norm;
- ``GradSampleHooksFastGradientClipping.get_clipping_coef``, which clips where there is no clipping by the optimizer;
- ``BatchSplittingSampler.__iter__``, whose flags say where a batch ends that was split.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Protocol

import torch
from opacus.grad_sample import GradSampleHooksFastGradientClipping
from opacus.optimizers import AdaClipDPOptimizer, DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.batch_memory_manager import BatchSplittingSampler

from dprounds.errors import InfeasibleError, UnsupportedError
from dprounds.integrations.opacus_budget import Budget
from dprounds.integrations.opacus_history import HAIR, Line, checked_line, shared_noise

__all__ = ["StepHook", "forget_split_batches", "rate_drawn_here"]

# Where a parameter keeps the norm at which its gradients were clipped last.
CLIPPED_AT = "_dprounds_clipped_at"
# In these PyTorch draws from multiples of 2^-24 or finer. In half precision one draw in some thousands is rounded to
# zero, and rates of that size and below are not what they say.
FINE = (torch.float32, torch.float64)
# On a GPU, single precision rounds draws up to one, 2^-25 of them, and returns those as zero.
COARSE = 2.0**-24


class Records(Protocol):
    """The accountant of a hook."""

    history: list[Line]

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step."""


@dataclass(eq=False)
class StepHook:
    """Records each step of an optimizer whose batches are sampled at one rate.

    A copy of the optimizer, however deep, records with the same accountant: what a copy releases is released.
    """

    accountant: Records
    sample_rate: float
    # budgets that no step may exceed, each with the number of batches up to which it counts, if that is known
    budgets: list[tuple[Budget, float]] = field(default_factory=list)
    # of the batch whose gradients are being summed: its parts, the largest norm of clipping, the most batches in a part
    parts: int = 0
    clipped: float = 0.0
    summed: int = 1
    # batches that were clipped so far, passes over a split loader that have begun, and how often flags were dropped
    batches: int = 0
    passes: int = 0
    series: int = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> StepHook:
        return StepHook(memo.get(id(self.accountant), self.accountant), self.sample_rate, self.budgets)

    def saw_part(self, optimizer: DPOptimizer) -> None:
        """Take note of a part of a batch, clipped and added to the sum."""
        summed = optimizer.accumulated_iterations
        self.parts += 1
        self.clipped = max(self.clipped, _clipping_norm(optimizer))
        self.summed = max(self.summed, summed)
        self.batches += summed

    def forget_part(self) -> None:
        """Take note that the sum is empty."""
        self.parts, self.clipped, self.summed = 0, 0.0, 1

    def end_budgets(self, ended: Budget | None = None, *, at: float = math.inf) -> None:
        """Let `ended` count up to the batch `at`, and drop the budgets whose last batch is over."""
        ends = [(budget, at if budget is ended else end) for budget, end in self.budgets]
        self.budgets[:] = [(budget, end) for budget, end in ends if self.batches < end]

    def __call__(self, optimizer: DPOptimizer) -> None:
        """Record a step whose noise has been added and which has not been made; refuse it if it may not be."""
        # Opacus divides the noisy count of clipped records by the size of the batch, which is as private as they are
        if isinstance(optimizer, AdaClipDPOptimizer) or hasattr(optimizer, "_adjusted_noise_multiplier"):
            raise UnsupportedError(
                "No theorem here covers Opacus's adaptive clipping: it tells the size of each Poisson batch. "
                "Use flat or per-layer clipping."
            )
        if torch.get_default_dtype() not in FINE:
            raise UnsupportedError(
                f"In {torch.get_default_dtype()} PyTorch's random numbers are too coarse to sample at a rate. "
                "Keep torch.float32 as the default type, and train a model in half precision by its own type."
            )
        if not self.parts:  # an optimizer that steps in a way of its own
            self.saw_part(optimizer)
        parts, clipped, batches = self.parts, self.clipped, self.summed
        self.forget_part()
        if parts > 1 and batches > 1:
            raise UnsupportedError(
                "A step must sum either the parts of one batch or several whole batches: the parts of this one were "
                "themselves sums. Call optimizer.step() once for each backward()."
            )
        noise, rate, _ = checked_line(shared_noise(_noise_over(optimizer, clipped), batches), self.sample_rate, 1)
        for budget, _ in self.budgets:
            if not budget.affords(noise, rate, batches):
                raise InfeasibleError(
                    f"This step would exceed epsilon={budget.epsilon:g} at delta={budget.delta:g}, so it was not made. "
                    "while_affordable could not foresee it: lower the noise after optimizer.step() and not before it, "
                    "step each batch before the next one is drawn, and say how many batches are accumulated."
                )
        self.end_budgets()
        for _ in range(batches):
            self.accountant.step(noise_multiplier=noise, sample_rate=rate)


def rate_drawn_here(rate: float) -> float:
    """The rate to record for batches that are drawn at `rate` on PyTorch's default device."""
    return rate if torch.get_default_device().type == "cpu" else min(rate + COARSE, 1.0)


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
    return float(noise) * (norm / clipped) * (1.0 - HAIR)


class _Pass(Iterator[list[int]]):
    """A pass over a loader whose batches are split, which ends where its flags were dropped.

    A loader that draws ahead asks for the next indices before it hands on a batch, also when there are no more.
    """

    def __init__(self, hook: StepHook, indices: Iterator[list[int]]) -> None:
        hook.passes += 1
        self.hook, self.indices, self.series = hook, indices, hook.series

    def __next__(self) -> list[int]:
        if self.hook.series != self.series:
            raise UnsupportedError(
                "This pass over a split loader was left with batches drawn ahead, and where those end is forgotten. "
                "Begin a new pass over the loader."
            )
        return next(self.indices)


def _see(owner: type, name: str, tell: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Wrap a method of Opacus, once."""
    method = vars(owner)[name]
    if not hasattr(method, "_tells_dprounds"):
        wrapped = wraps(method)(tell(method))
        wrapped._tells_dprounds = True  # type: ignore[attr-defined]  # a mark on a function
        setattr(owner, name, wrapped)


def _tell_of_parts(method: Callable[..., Any]) -> Callable[..., Any]:
    def check_skip_next_step(optimizer: DPOptimizer, pop_next: bool = True) -> Any:  # noqa: ANN401  (Opacus has no types)
        if pop_next and isinstance(optimizer.step_hook, StepHook):
            optimizer.step_hook.saw_part(optimizer)
        return method(optimizer, pop_next)

    return check_skip_next_step


def _tell_of_norms(method: Callable[..., Any]) -> Callable[..., Any]:
    def get_clipping_coef(module: Any) -> Any:  # noqa: ANN401  (Opacus has no types)
        for parameter in module.trainable_parameters:
            setattr(parameter, CLIPPED_AT, abs(float(module.max_grad_norm)))
        return method(module)

    return get_clipping_coef


def _tell_of_passes(method: Callable[..., Any]) -> Callable[..., Any]:
    def indices(sampler: Any) -> Any:  # noqa: ANN401  (Opacus has no types)
        hook = getattr(sampler.optimizer, "step_hook", None)
        return _Pass(hook, method(sampler)) if isinstance(hook, StepHook) else method(sampler)

    return indices


_see(DPOptimizer, "_check_skip_next_step", _tell_of_parts)
_see(GradSampleHooksFastGradientClipping, "get_clipping_coef", _tell_of_norms)
_see(BatchSplittingSampler, "__iter__", _tell_of_passes)
