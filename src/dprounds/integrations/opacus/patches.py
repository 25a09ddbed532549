"""The methods of Opacus that importing this module replaces.

Each does what it did before. Where the optimizer's hook is a `StepHook`, it also does this:

- ``DPOptimizer._check_skip_next_step``, which follows the clipping of every part of a batch, reports to the hook the
  norm at which it was clipped, and refuses a step whose hook was taken away;
- ``DPOptimizer.attach_step_hook`` keeps the hook, and has it call the new one after each step that it has recorded;
- ``GradSampleHooksFastGradientClipping.get_clipping_coef``, which clips where the optimizer does not, stores the norm
  with the parameters;
- ``BatchSplittingSampler.__iter__``, whose flags say where a batch ends that was split, refuses to begin while flags of
  an earlier pass are left, and to go on when its own were dropped;
- ``PrivacyEngine.make_private`` counts the passes over a loader that it leaves as it is, by ``poisson_sampling=False``,
  or refuses it, and ``make_private_with_epsilon``, which plans for Poisson samples, refuses that argument;
- ``UniformWithReplacementSampler.__iter__`` and its distributed form report each draw and its rate to `watched_draws`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

from opacus import PrivacyEngine
from opacus.grad_sample import GradSampleHooksFastGradientClipping
from opacus.optimizers import DPOptimizer
from opacus.utils.batch_memory_manager import BatchSplittingSampler
from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler, UniformWithReplacementSampler

from dprounds.errors import UnsupportedError
from dprounds.integrations.opacus.accountant import ExactAccountant
from dprounds.integrations.opacus.hook import CLIPPED_AT, StepHook, hook_of
from dprounds.integrations.opacus.passes import counted_passes

__all__ = ["Draw", "watched_draws"]

# Where an optimizer keeps the hook by which it must record.
RECORDS_BY = "_dprounds_records_by"


class Draw(NamedTuple):
    """One Poisson sample: its rate, and how many records it was drawn from."""

    rate: float
    records: int


class _Watchers(threading.local):
    """Lists to which the samplers of this thread add their draws."""

    def __init__(self) -> None:
        self.lists: list[list[Draw]] = []


_watchers = _Watchers()


@contextmanager
def watched_draws() -> Iterator[list[Draw]]:
    """The draws of Opacus's samplers in this thread, inside the block."""
    draws: list[Draw] = []
    _watchers.lists.append(draws)
    try:
        yield draws
    finally:
        _watchers.lists.pop()  # blocks end in the opposite order


class _Pass(Iterator[list[int]]):
    """A pass over a loader whose batches are split, which ends where its flags were dropped.

    A loader that draws ahead asks for the next indices before it hands on a batch, also when there are no more.
    """

    def __init__(self, optimizer: DPOptimizer, hook: StepHook, indices: Iterator[list[int]]) -> None:
        hook.loader_passes += 1
        self.optimizer, self.hook, self.indices, self.series = optimizer, hook, indices, hook.series
        self.begun = False

    def __next__(self) -> list[int]:
        if not self.begun:
            # batches of a loop that is still running may be waiting for their step
            if not self.hook.draws_on and (self.optimizer._step_skip_queue or self.optimizer._is_last_step_skipped):
                raise UnsupportedError(
                    "An earlier pass over a split loader was left before all of its parts were stepped, by break or an "
                    "error, and every step of this one would mix two batches. Call drop_split_batches(optimizer) "
                    "first: it forgets what was not stepped, of which nothing was released."
                )
            self.begun, self.series = True, self.hook.series
        if self.hook.series != self.series:
            raise UnsupportedError(
                "This pass over a split loader was left with batches drawn ahead, and where those end is forgotten. "
                "Begin a new pass over the loader."
            )
        return next(self.indices)


def _replace(owner: type, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put `around` around a method of Opacus, once."""
    method = vars(owner)[name]
    if not hasattr(method, "_replaced_by_dprounds"):
        replaced = wraps(method)(around(method))
        replaced._replaced_by_dprounds = True  # type: ignore[attr-defined]  # a mark on a function
        setattr(owner, name, replaced)


def _with_parts_seen(method: Callable[..., Any]) -> Callable[..., Any]:
    def check_skip_next_step(optimizer: DPOptimizer, pop_next: bool = True) -> Any:  # noqa: ANN401  (Opacus has no types)
        if pop_next:
            hook = optimizer.step_hook
            if hook is not vars(optimizer).get(RECORDS_BY, hook):
                raise UnsupportedError(
                    "optimizer.step_hook was replaced, so that this step would not be recorded, and it was not made. "
                    "Put it back, and add a hook of your own by optimizer.attach_step_hook, which keeps this one."
                )
            if isinstance(hook, StepHook):
                hook.saw_part(optimizer)
        return method(optimizer, pop_next)

    return check_skip_next_step


def _with_hook_kept(method: Callable[..., Any]) -> Callable[..., Any]:
    def attach_step_hook(optimizer: DPOptimizer, fn: Any) -> None:  # noqa: ANN401  (Opacus has no types)
        hook = vars(optimizer).get(RECORDS_BY)
        if isinstance(fn, StepHook):
            setattr(optimizer, RECORDS_BY, fn)
            method(optimizer, fn)
        elif hook is not None and optimizer.step_hook is hook:
            hook.then = fn
        else:
            method(optimizer, fn)

    return attach_step_hook


def _with_norms_kept(method: Callable[..., Any]) -> Callable[..., Any]:
    def get_clipping_coef(module: Any) -> Any:  # noqa: ANN401  (Opacus has no types)
        for parameter in module.trainable_parameters:
            setattr(parameter, CLIPPED_AT, abs(float(module.max_grad_norm)))
        return method(module)

    return get_clipping_coef


def _with_flags_checked(method: Callable[..., Any]) -> Callable[..., Any]:
    def indices(sampler: Any) -> Any:  # noqa: ANN401  (Opacus has no types)
        hook = getattr(sampler.optimizer, "step_hook", None)
        return _Pass(sampler.optimizer, hook, method(sampler)) if isinstance(hook, StepHook) else method(sampler)

    return indices


def _with_draws_reported(method: Callable[..., Any]) -> Callable[..., Any]:
    def draws(sampler: Any) -> Any:  # noqa: ANN401  (Opacus has no types)
        for indices in method(sampler):
            for watching in _watchers.lists:
                watching.append(Draw(sampler.sample_rate, getattr(sampler, "total_size", sampler.num_samples)))
            yield indices

    return draws


def _with_passes_counted(method: Callable[..., Any]) -> Callable[..., Any]:
    def make_private(engine: PrivacyEngine, **options: Any) -> Any:  # noqa: ANN401  (Opacus has no types)
        if options.get("poisson_sampling", True) or not isinstance(engine.accountant, ExactAccountant):
            return method(engine, **options)
        counted_passes(options["data_loader"])  # refuses it before anything is changed
        _, optimizer, *_, loader = made = method(engine, **options)
        passes, hook = counted_passes(loader), hook_of(optimizer)
        if passes is None:
            hook.sample_rate = max(hook.sample_rate, loader.batch_sampler.sample_rate)
            return made
        object.__setattr__(loader, "batch_sampler", passes)  # PyTorch has no other way to change it
        hook.loader, hook.recorded_passes = passes, passes.begun
        engine.accountant._batches = max(engine.accountant._batches, passes.batches)
        return made

    return make_private


def _with_passes_refused(method: Callable[..., Any]) -> Callable[..., Any]:
    def make_private_with_epsilon(engine: PrivacyEngine, **options: Any) -> Any:  # noqa: ANN401  (Opacus has no types)
        if not options.get("poisson_sampling", True) and isinstance(engine.accountant, ExactAccountant):
            raise UnsupportedError(
                "make_private_with_epsilon plans for Poisson samples. With poisson_sampling=False call make_private, "
                "with noise by get_noise_multiplier(target_epsilon=…, target_delta=…, sample_rate=1.0, steps=epochs)."
            )
        return method(engine, **options)

    return make_private_with_epsilon


_replace(PrivacyEngine, "make_private", _with_passes_counted)
_replace(PrivacyEngine, "make_private_with_epsilon", _with_passes_refused)
_replace(DPOptimizer, "_check_skip_next_step", _with_parts_seen)
_replace(DPOptimizer, "attach_step_hook", _with_hook_kept)
_replace(GradSampleHooksFastGradientClipping, "get_clipping_coef", _with_norms_kept)
_replace(BatchSplittingSampler, "__iter__", _with_flags_checked)
for _sampler in (UniformWithReplacementSampler, DistributedUniformWithReplacementSampler):
    _replace(_sampler, "__iter__", _with_draws_reported)
