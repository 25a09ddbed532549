"""Loops of Opacus that end before the step that would exceed the budget, and what their sums are declared to hold."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from opacus.optimizers import DPOptimizer

from dprounds import _validate
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.integrations.opacus.budget import Budget
from dprounds.integrations.opacus.history import ONE, READINGS, SEPARATE, drawn_rate, line_of_passes, one_step
from dprounds.integrations.opacus.hook import Loop, StepHook, forget_split_batches, hook_of
from dprounds.integrations.opacus.patches import Draw, watched_draws
from dprounds.mechanisms.base import Run

__all__ = ["allow_accumulation", "drop_split_batches", "planned_run", "while_affordable"]

Batch = TypeVar("Batch")


def while_affordable(
    batches: Iterable[Batch],
    optimizer: DPOptimizer,
    *,
    epsilon: float,
    delta: float,
    accumulated: int = 1,
    own_sampler: bool = False,
    method: str | None = None,
) -> Iterator[Batch]:
    """The batches, until one more step of `optimizer` would exceed the budget, or the grant that its accountant uses.

    The budget is planned once for each configuration, and again when a scheduler changes the noise; a step then costs a
    comparison. Batches that a `BatchMemoryManager` splits may be passed as they come. What it has drawn ahead when the
    loop ends is forgotten, so begin a new pass over the loader after that.

    Guarantee
    ---------
    Raises, or stops such that the training, with one more step after each batch that was yielded, is within
    (`epsilon`, `delta`) by `method`, for the neighbours of `ExactAccountant`. A step on a batch that was yielded, and
    which the plan could not foresee, raises `InfeasibleError` before the weights move if it would exceed the budget.
    Batches that no sampler of Opacus has drawn, or at a higher rate than the optimizer records, raise `ParameterError`
    before they are yielded.

    Parameters
    ----------
    batches
        The private data loader, or ``itertools.chain.from_iterable(itertools.repeat(data_loader))``.
    optimizer
        What ``PrivacyEngine(accountant="dprounds").make_private`` returned.
    epsilon
        Budget in nats, in [0, inf).
    delta
        Failure mass, in (0, 1). A warning is given if it is not below 1/n.
    accumulated
        How often ``backward`` is called before each step: on as many batches that were yielded, unless
        `allow_accumulation` says otherwise. What a loop sums through ``signal_skip_step`` is not counted by Opacus, and
        not covered.
    own_sampler
        The batches are Poisson samples at the optimizer's rate that a sampler of your own draws, or another thread.
        They are then not looked at.
    method
        The bound to plan by; exact by default.
    """
    hook = hook_of(optimizer)
    if hook.loader is not None:
        raise UnsupportedError(
            "while_affordable is for Poisson samples. With poisson_sampling=False plan whole passes: "
            "max_rounds(planned_run(optimizer, steps=len(data_loader)), epsilon=…, delta=…) of them."
        )
    passes = _validate.count("accumulated", accumulated, least=1)
    budget = Budget(hook.accountant, epsilon=epsilon, delta=delta, method=method)
    if optimizer._step_skip_queue or optimizer._is_last_step_skipped:
        raise ParameterError(
            "optimizer must be between two batches: it has begun one that was split, or a loader has drawn some ahead. "
            "Pass a loader that has not begun, after drop_split_batches(optimizer) if a loop was left early."
        )

    def goes_on() -> bool:
        over = hook.over or (ONE if passes == 1 else SEPARATE)
        noise, rate, releases = line_of_passes(optimizer.noise_multiplier, hook.sample_rate, passes, over)
        return budget.affords(noise, rate, releases) and hook.accountant.granted_steps(noise, rate) >= releases

    goes_on()  # at the call, so that arguments are refused there
    loop = Loop(budget, passes, handed=0)
    return _guarded(batches, goes_on, optimizer, hook, loop, own_sampler=own_sampler is True)


def _guarded(
    batches: Iterable[Batch],
    goes_on: Callable[[], bool],
    optimizer: DPOptimizer,
    hook: StepHook,
    loop: Loop,
    *,
    own_sampler: bool,
) -> Iterator[Batch]:
    """The batches while it goes on; until those that were yielded are stepped, no step exceeds the budget."""
    source: Iterator[Batch] | None = None
    loop.handed = hook.batches
    loader_passes, left = hook.loader_passes, False
    hook.loops.append(loop)
    try:
        while goes_on():
            with watched_draws() as draws:
                first = source is None
                if source is None:  # not earlier, since a loader may draw ahead as soon as it begins
                    source = iter(batches)
                hook.draws_on = not first
                try:
                    batch = next(source)
                except StopIteration:
                    return
                finally:
                    hook.draws_on = False
            loader_passes = hook.loader_passes
            if not own_sampler:
                _check_draws(draws, hook, first=first, delta=loop.budget.delta)
            loop.handed += 1
            yield batch
    except GeneratorExit:
        left = True
        raise
    finally:
        loop.last = hook.batches if left else loop.handed
        hook.end_loops()
        # a generator that was left early may be closed late, when another loop has begun
        if hook.loader_passes == loader_passes:
            forget_split_batches(optimizer, hook, kept=0 if left else max(loop.handed - hook.batches, 0))


def _check_draws(draws: list[Draw], hook: StepHook, *, first: bool, delta: float) -> None:
    """Refuse batches that are not drawn as the optimizer records them."""
    for rate, _ in draws:
        if not drawn_rate(rate) <= drawn_rate(hook.sample_rate):
            raise ParameterError(
                f"The loader draws at a rate of {rate:.6g}, and the optimizer records {hook.sample_rate:.6g}: epsilon "
                "would be too small. Make both private together, by another make_private of the same engine."
            )
    if first and not draws:
        raise ParameterError(
            "batches must be drawn by Opacus's Poisson sampler, and this loader draws otherwise: epsilon would be too "
            "small. Pass the loader that make_private returned, with poisson_sampling=True. If a sampler of your own "
            "draws Poisson samples at the optimizer's rate, pass own_sampler=True."
        )
    if first and delta * draws[0].records >= 1:
        warnings.warn(
            f"delta={delta:g} is not below 1/n for n={draws[0].records} records: to publish one record in the clear "
            "would meet it.",
            stacklevel=3,
        )


def planned_run(optimizer: DPOptimizer, *, steps: int, accumulated: int = 1) -> Run:
    """So many steps of `optimizer` as a run, to reserve in a ledger before the first of them is made.

    Parameters
    ----------
    optimizer
        What ``PrivacyEngine(accountant="dprounds").make_private`` returned, with the noise of all steps.
    steps
        As many as the training makes: ``epochs * len(data_loader)``.
    accumulated
        How often ``backward`` is called before each step; on what, `allow_accumulation` says.
    """
    hook, passes = hook_of(optimizer), _validate.count("accumulated", accumulated, least=1)
    rounds, relation = _validate.count("steps", steps), hook.accountant.relation
    if hook.loader is not None:  # with a loader that shuffles, whole passes
        noise, rate, _ = line_of_passes(optimizer.noise_multiplier, 1.0, passes, ONE)
        batches = rounds if hook.over == ONE else rounds * passes
        epochs = -(-batches // len(hook.loader))
        return one_step(noise, rate, relation, hook.loader.batches) * epochs
    over = hook.over or (ONE if passes == 1 else SEPARATE)
    noise, rate, releases = line_of_passes(optimizer.noise_multiplier, hook.sample_rate, passes, over)
    return one_step(noise, rate, relation) * (releases * rounds)


def allow_accumulation(optimizer: DPOptimizer, *, over: str) -> None:
    """Say what the several ``backward`` before each step are passes over; until then such a step is refused.

    Opacus must allow it too: ``module.allow_grad_accumulation()``.

    Parameters
    ----------
    optimizer
        What ``PrivacyEngine(accountant="dprounds").make_private`` returned.
    over
        ``"separate batches"``: each pass is over a Poisson sample of its own. k passes count as k releases of a k-th
        of the noise's variance. ``"one batch"``: all passes before a step are over the same batch, as for several
        losses or several views of it. They count as one release of a k-th of the noise. ``"any batches"``: perhaps
        some of both. They count as one release of a k-th of the noise at k times the rate, or a little less, which
        bounds both; `history.line_of_passes` has the proof.
    """
    hook_of(optimizer).over = _validate.choice("over", over, READINGS)


def drop_split_batches(optimizer: DPOptimizer) -> None:
    """Forget the batch that was split and not yet stepped, and those that its loader has drawn ahead.

    Needed after a loop over a `BatchMemoryManager` that was left early, by ``break`` or an error: the next step would
    add what is left of one batch to another one, and be recorded as one. Nothing of what is forgotten was released.
    Begin a new pass over the loader after it.
    """
    forget_split_batches(optimizer, hook_of(optimizer))
