"""The exact accountant inside Opacus: ``PrivacyEngine(accountant="dprounds")``.

Importing this module registers it. `get_noise_multiplier` answers as Opacus's function of that name does, on the safe
side and closely, and `while_affordable` trains until the budget is spent.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeVar

import opacus.accountants
import opacus.optimizers
from opacus.accountants import IAccountant, register_accountant
from opacus.optimizers import DPOptimizer

from dprounds import _validate
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.integrations.opacus_budget import Budget
from dprounds.integrations.opacus_history import (
    checked_history,
    checked_line,
    holds,
    one_step,
    shared_noise,
)
from dprounds.integrations.opacus_sight import StepHook, forget_split_batches, rate_drawn_here
from dprounds.mechanisms.composition import Run
from dprounds.planning import min_noise_multiplier

__all__ = ["ExactAccountant", "drop_split_batches", "get_noise_multiplier", "while_affordable"]

Batch = TypeVar("Batch")

NAME = "dprounds"
# Their histories have the same shape: noise multiplier, sampling rate, steps.
SAME_SHAPE = (NAME, "rdp", "prv", "gdp")

TOLERANCE = _validate.Interval.parse("(0, inf)")
EPOCHS = _validate.Interval.parse("[0, inf)")
RATE = _validate.Interval.parse("(0, 1]", _validate.SAMPLING_RATE.hint)

# 49 epochs at a rate of 1/49 divide to 2401 but for a rounding or two.
QUOTIENT_ERROR = 4 * 2.0**-53
# Relative width of the search for noise, and where doubles end it.
NOISE_TOLERANCE = 1e-6
LEAST_NOISE_TOLERANCE = 1e-13


class ExactAccountant(IAccountant):  # type: ignore[misc]  # Opacus has no types, so its class is Any
    """What Opacus's optimizer has released so far, and its exact epsilon.

    `history` is in Opacus's own shape, ``[(noise_multiplier, sample_rate, num_steps), …]``, in the order of training.
    Neighbours differ by one record, present or absent.

    What it cannot see, and assumes: that the batch of each step is one Poisson sample at the optimizer's rate, as
    `DPDataLoader` draws it: on multiples of 2^-24, up to which every rate is rounded when it is accounted. After
    ``make_private(poisson_sampling=False)`` it is none. And batches that the loop itself sums through
    ``optimizer.signal_skip_step`` look like the parts of one batch that a `BatchMemoryManager` has split: Opacus counts
    them as one (its ``accumulated_iterations`` is 1, with ghost clipping always), and one step is recorded where
    several are due. So it is where a loop leaves a split batch half way and steps the next one: call
    `drop_split_batches` between. Either way the epsilon is below the truth. Only batches summed by several ``backward``
    before a step, without ghost clipping, are counted.

    A step is refused, before the weights move, if its noise is scaled to less than the norm at which ghost or per-layer
    clipping has clipped. Where flat clipping has clipped the parts of one batch at different norms, the largest counts.
    """

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step: noise in [0, inf) times the clipping norm, on a batch sampled at a rate in [0, 1]."""
        history = self.history
        if type(noise_multiplier) is not float or type(sample_rate) is not float:
            noise_multiplier, sample_rate, _ = checked_line(noise_multiplier, sample_rate, 1)
        if history:
            noise, rate, steps = history[-1]
            if noise == noise_multiplier and rate == sample_rate:  # and hence a number in its range
                history[-1] = (noise, rate, steps + 1)
                return
        history.append(checked_line(noise_multiplier, sample_rate, 1))

    @property
    def run(self) -> Run:
        """All that was recorded, as one run; refuses a step without noise, which none describes."""
        lines = checked_history(self.history)
        return Run(tuple(chain.from_iterable((one_step(noise, rate) * steps).parts for noise, rate, steps in lines)))

    def get_epsilon(self, delta: float, *, method: str | None = None, poisson: bool = True, **ignored: object) -> float:
        """Epsilon of all steps so far, at `delta`; ``inf`` if one of them added no noise.

        Guarantee
        ---------
        Raises, or returns an epsilon at which the training so far is (epsilon, delta)-DP, if each step's batch is one
        Poisson sample, whole or split by a `BatchMemoryManager`, or a sum of such that Opacus counts. Errs upward.

        Parameters
        ----------
        delta
            Failure mass, in (0, 1).
        method
            The bound; by default exact, or by the best Rényi order for too few steps to be summed.
        poisson
            As in Opacus's GDP accountant, but only Poisson samples are accounted here.

        What tunes Opacus's other accountants (`alphas`, `eps_error`, `delta_error`) and options of its optimizers,
        which `make_private_with_epsilon` passes along, are accepted and change nothing. Other names are refused.
        """
        if ignored and (unknown := sorted(ignored.keys() - _names_in_opacus())):
            raise ParameterError(f"get_epsilon takes method and poisson, got {_validate.show(unknown[0])}.")
        if poisson is not True:
            raise UnsupportedError("Only Poisson samples are accounted here: draw batches with DPDataLoader.")
        delta = _validate.real("delta", delta, _validate.DELTA)
        if self._tells_all():
            return math.inf
        return self.run.epsilon(delta=delta, method=method)

    def __len__(self) -> int:
        """The number of steps so far."""
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name under which Opacus knows this accountant."""
        return NAME

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[DPOptimizer], None]:
        """What Opacus's optimizer calls after it has added noise and before it steps."""
        rate = _validate.real("sample_rate", sample_rate, _validate.SAMPLING_RATE)
        return StepHook(self, rate_drawn_here(rate))

    def load_state_dict(self, state_dict: Mapping[str, Any], *, of_opacus: bool = False) -> None:
        """Continue from what `state_dict` wrote.

        Guarantee
        ---------
        Raises `ParameterError`, a `ValueError`, and changes nothing, or restores every recorded step and forgets none:
        what this accountant has recorded must be the beginning of what is restored. To go back to earlier weights, load
        the model's state alone; the steps since then were made.

        Parameters
        ----------
        state_dict
            The state of an accountant of this kind.
        of_opacus
            Take the state of one of Opacus's own accountants too. Its history bounds the training only if every step
            was made on one Poisson sample at the rate that it names, whole or split by a `BatchMemoryManager`; if no
            batches were summed before a step, which Opacus records as one sample at a higher rate; if clipping was not
            adaptive; and if no scheduler has changed the clipping norm, or clipping was flat and it did so between
            batches. The history does not tell.
        """
        given: object = state_dict  # a checkpoint may hold anything
        if not isinstance(given, Mapping) or not {"history", "mechanism"} <= set(given):
            raise ParameterError(
                f"The accountant's state must hold history and mechanism, got {_validate.show(state_dict)}."
            )
        mechanism = _validate.choice("mechanism", state_dict["mechanism"], SAME_SHAPE)
        if mechanism != NAME and of_opacus is not True:
            raise ParameterError(
                f"mechanism must be '{NAME}', got '{mechanism}': a history of Opacus's own may be no bound. "
                "If this one is, by what load_state_dict asks of it, pass of_opacus=True."
            )
        history = checked_history(state_dict["history"])
        if not holds(history, checked_history(self.history)):
            raise ParameterError(
                "The accountant's state must go on from what is recorded here, and lacks some of it: those steps were "
                "made, whatever weights are used now. To go back to earlier weights, load the model's state alone. "
                "To resume a training, load its state before the first step."
            )
        self.history = history

    def _tells_all(self) -> bool:
        """Whether some step added no noise to what was sampled."""
        return any(noise == 0 and rate > 0 and steps > 0 for noise, rate, steps in checked_history(self.history))


def get_noise_multiplier(
    *,
    target_epsilon: float,
    target_delta: float,
    sample_rate: float,
    epochs: float | None = None,
    steps: int | None = None,
    accountant: str = NAME,
    epsilon_tolerance: float = 0.01,
    method: str | None = None,
) -> float:
    """Least noise multiplier that keeps the training within the target, from above.

    Takes the place of ``opacus.accountants.utils.get_noise_multiplier``, with its arguments.

    Guarantee
    ---------
    Raises, or returns a multiplier whose training costs at most `target_epsilon` at `target_delta`, and no less than
    that minus `epsilon_tolerance`; within a relative 1e-6 of the least one.

    Parameters
    ----------
    target_epsilon
        Budget in nats, in [0, inf).
    target_delta
        Failure mass, in (0, 1).
    sample_rate
        Poisson inclusion probability, in (0, 1]; ``1 / len(data_loader)`` in Opacus. Rounded up as the sampler does.
    epochs, steps
        How long to train, one of the two: ``epochs * len(data_loader)`` steps of the private loader. Epochs are
        ``epochs / sample_rate`` steps, rounded up.
    accountant
        ``"dprounds"``; for the others call Opacus's function.
    epsilon_tolerance
        How much of the budget may be left over, in (0, inf).
    method
        The bound to plan by; exact by default.
    """
    if accountant != NAME:
        raise ParameterError(
            f"accountant must be '{NAME}', got {_validate.show(accountant)}. "
            "For another one call opacus.accountants.utils.get_noise_multiplier."
        )
    if (steps is None) == (epochs is None):
        raise ParameterError("Give either steps or epochs, and not both.")
    rate = _validate.real("sample_rate", sample_rate, RATE)
    epsilon = _validate.real("target_epsilon", target_epsilon, _validate.FINITE_EPSILON)
    delta = _validate.real("target_delta", target_delta, _validate.DELTA)
    left_over = _validate.real("epsilon_tolerance", epsilon_tolerance, TOLERANCE)
    if steps is None:
        rounds = _steps_of(_validate.real("epochs", epochs or 0.0, EPOCHS), rate)
    else:
        rounds = _validate.count("steps", steps)

    def make_run(noise: float) -> Run:
        return one_step(noise, rate) * rounds

    tolerance = NOISE_TOLERANCE
    while True:
        noise = min_noise_multiplier(make_run, epsilon=epsilon, delta=delta, method=method, tolerance=tolerance)
        spent = make_run(noise).epsilon(delta=delta, method=method)
        if epsilon - spent <= left_over or tolerance <= LEAST_NOISE_TOLERANCE:
            return noise
        tolerance /= 100.0


def while_affordable(
    batches: Iterable[Batch],
    optimizer: DPOptimizer,
    *,
    epsilon: float,
    delta: float,
    accumulated: int = 1,
    method: str | None = None,
) -> Iterator[Batch]:
    """The batches, until one more step of `optimizer` would exceed the budget.

    Planned once for each configuration, and anew when a scheduler changes the noise; a step then costs a comparison.
    Batches that a `BatchMemoryManager` splits may be passed as they come. What it has drawn ahead when the loop ends is
    forgotten, so begin a new pass over the loader after that.

    Guarantee
    ---------
    Raises, or stops such that the training, with one more step after each batch that was yielded, is within
    (`epsilon`, `delta`) by `method`. A step on a batch that was yielded, and which the plan could not foresee, raises
    `InfeasibleError` before the weights move if it would exceed the budget.

    Parameters
    ----------
    batches
        The private data loader, or ``itertools.chain.from_iterable(itertools.repeat(data_loader))``.
    optimizer
        What ``PrivacyEngine(accountant="dprounds").make_private`` returned.
    epsilon
        Budget in nats, in [0, inf).
    delta
        Failure mass, in (0, 1).
    accumulated
        Batches whose gradients are summed before each step, as many as the loop does sum by several ``backward``. What
        it sums through ``signal_skip_step`` is not counted by Opacus, and not covered.
    method
        The bound to plan by; exact by default.
    """
    hook = _hook_of(optimizer)
    together = _validate.count("accumulated", accumulated, least=1)
    budget = Budget(hook.accountant, epsilon=epsilon, delta=delta, method=method)
    if optimizer._step_skip_queue or optimizer._is_last_step_skipped:
        raise ParameterError(
            "optimizer must be between two batches: it has begun one that was split, or a loader has drawn some ahead. "
            "Pass a loader that has not begun, after drop_split_batches(optimizer) if a loop was left early."
        )

    def goes_on() -> bool:
        noise, rate, _ = checked_line(shared_noise(optimizer.noise_multiplier, together), hook.sample_rate, 1)
        return budget.affords(noise, rate, together)

    goes_on()  # so that what it refuses is refused at the call
    return _guarded(batches, goes_on, optimizer, hook, budget)


def _guarded(
    batches: Iterable[Batch], goes_on: Callable[[], bool], optimizer: DPOptimizer, hook: StepHook, budget: Budget
) -> Iterator[Batch]:
    """The batches while it goes on; until those that were yielded are stepped, no step exceeds the budget."""
    source = iter(batches)  # and not before, as a loader that draws ahead does so at once
    end, passes, left = hook.batches, hook.passes, False
    hook.budgets.append((budget, math.inf))
    try:
        while goes_on():
            try:
                batch = next(source)
            except StopIteration:
                return
            end, passes = end + 1, hook.passes
            yield batch
    except GeneratorExit:
        left = True
        raise
    finally:
        hook.end_budgets(budget, at=hook.batches if left else end)
        # a loop that was left early is told so late, perhaps when another one has begun
        if hook.passes == passes:
            forget_split_batches(optimizer, hook, kept=0 if left else max(end - hook.batches, 0))


def drop_split_batches(optimizer: DPOptimizer) -> None:
    """Forget the batch that was split and not yet stepped, and those that its loader has drawn ahead.

    Needed after a loop over a `BatchMemoryManager` that was left early, by ``break`` or an error: the next step would
    add what is left of one batch to another one, and be recorded as one. Nothing of what is forgotten was released.
    Begin a new pass over the loader after it.
    """
    forget_split_batches(optimizer, _hook_of(optimizer))


def _hook_of(optimizer: DPOptimizer) -> StepHook:
    """The hook by which an optimizer records here."""
    hook = getattr(optimizer, "step_hook", None)
    if not isinstance(hook, StepHook):
        raise ParameterError(
            f"optimizer must be one that PrivacyEngine(accountant='{NAME}') made private, "
            f"got {_validate.show(optimizer)}."
        )
    return hook


def _names_in_opacus() -> set[str]:
    """Arguments of Opacus's optimizers and of its accountants' epsilons."""
    optimizers = [kind.__init__ for kind in vars(opacus.optimizers).values() if inspect.isclass(kind)]
    accountants = [kind.get_epsilon for kind in vars(opacus.accountants).values() if hasattr(kind, "get_epsilon")]
    # the loader's option, which make_private takes by name and make_private_with_epsilon does not
    return {"rand_on_empty"}.union(*(inspect.signature(method).parameters for method in optimizers + accountants))


def _steps_of(epochs: float, rate: float) -> int:
    """Steps in so many epochs: rounded up, but for what only the division has added."""
    quotient = epochs / rate
    if quotient == math.inf:
        raise ParameterError(f"epochs must be fewer than sample_rate times 1.8e308, got {epochs:g}.")
    nearest = round(quotient)
    return nearest if abs(quotient - nearest) <= QUOTIENT_ERROR * quotient else math.ceil(quotient)


register_accountant(NAME, ExactAccountant, force=True)  # reloading the module registers the new class
