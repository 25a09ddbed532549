"""The exact accountant inside Opacus: ``PrivacyEngine(accountant="dprounds")``.

Importing this module registers it. `get_noise_multiplier` answers as Opacus's function of that name does, on the safe
side and closely, and `while_affordable` trains until the budget is spent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from opacus.accountants import IAccountant, register_accountant
from opacus.optimizers import AdaClipDPOptimizer, DPOptimizer

from dprounds import _validate
from dprounds.errors import ParameterError, UnsupportedError
from dprounds.integrations.training import Check, guarded, rounds_left
from dprounds.mechanisms import Gaussian, PoissonSampled
from dprounds.mechanisms.composition import Run
from dprounds.planning import min_noise_multiplier

__all__ = ["ExactAccountant", "get_noise_multiplier", "while_affordable"]

Batch = TypeVar("Batch")

NAME = "dprounds"
# Their histories are the same record of what was released: noise multiplier, sampling rate, steps.
SAME_HISTORY = (NAME, "rdp", "prv", "gdp")

# No noise at all is Opacus's way to switch privacy off: allowed, at an epsilon of infinity.
NOISE = _validate.Interval.parse("[0, inf)")
TOLERANCE = _validate.Interval.parse("(0, inf)")
EPOCHS = _validate.Interval.parse("[0, inf)")
RATE = _validate.Interval.parse("(0, 1]", _validate.SAMPLING_RATE.hint)

# 49 epochs at a rate of 1/49 divide to 2401 but for a rounding or two.
QUOTIENT_ERROR = 4 * 2.0**-53
# More than a root, a quotient and a product round.
HAIR = 2.0**-50
# Relative width of the search for noise, and where doubles end it.
NOISE_TOLERANCE = 1e-6
LEAST_NOISE_TOLERANCE = 1e-13


class ExactAccountant(IAccountant):  # type: ignore[misc]  # Opacus has no types, so its class is Any
    """What Opacus's optimizer has released so far, and its exact epsilon.

    `history` is in Opacus's own shape, ``[(noise_multiplier, sample_rate, num_steps), …]``, in the order of training.
    Neighbours differ by one record, present or absent.

    What it cannot see, and assumes: that the batch of each step is one Poisson sample at the optimizer's rate, as
    `DPDataLoader` draws it. After ``make_private(poisson_sampling=False)`` it is none. And batches that the loop itself
    sums through ``optimizer.signal_skip_step`` look like the parts of one batch that a `BatchMemoryManager` has split:
    Opacus counts them as one (its ``accumulated_iterations`` is 1, with ghost clipping always), and one step is
    recorded where several are due. Either way the epsilon is below the truth. Only batches summed by several
    ``backward`` before a step, without ghost clipping, are counted.
    """

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step: noise in [0, inf) times the clipping norm, on a batch sampled at a rate in [0, 1]."""
        history = self.history
        if history:
            noise, rate, steps = history[-1]
            if noise == noise_multiplier and rate == sample_rate:
                history[-1] = (noise, rate, steps + 1)
                return
        history.append(_entry(noise_multiplier, sample_rate, 1))

    @property
    def run(self) -> Run:
        """All that was recorded, as one run; refuses a step without noise, which none describes."""
        return Run(
            tuple(chain.from_iterable((_step(noise, rate) * steps).parts for noise, rate, steps in self._entries()))
        )

    def get_epsilon(
        self, delta: float, *, method: str | None = None, poisson: bool = True, **_ignored: object
    ) -> float:
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

        What tunes Opacus's other accountants (`alphas`, `eps_error`, `delta_error`) and options of the optimizer, which
        `make_private_with_epsilon` passes along, are accepted and change nothing.
        """
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
        return _StepHook(self, _validate.real("sample_rate", sample_rate, _validate.SAMPLING_RATE))

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` wrote, here or in one of Opacus's own accountants.

        Guarantee
        ---------
        Raises `ParameterError`, a `ValueError`, and changes nothing, or restores every recorded step.
        """
        given: object = state_dict  # a checkpoint may hold anything
        if not isinstance(given, Mapping) or not {"history", "mechanism"} <= set(given):
            raise ParameterError(
                f"The accountant's state must hold history and mechanism, got {_validate.show(state_dict)}."
            )
        _validate.choice("mechanism", state_dict["mechanism"], SAME_HISTORY)
        self.history = _entries(state_dict["history"])

    def _entries(self) -> list[tuple[float, float, int]]:
        """The history, checked, because anyone may set it; Opacus's search for noise does."""
        return _entries(self.history)

    def _tells_all(self) -> bool:
        """Whether some step added no noise to what was sampled."""
        return any(noise == 0 and rate > 0 and steps > 0 for noise, rate, steps in self._entries())


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
        Poisson inclusion probability, in (0, 1]; ``1 / len(data_loader)`` in Opacus.
    epochs, steps
        How long to train, one of the two. Epochs are ``epochs / sample_rate`` steps, rounded up.
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
        return _step(noise, rate) * rounds

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
    Batches that a `BatchMemoryManager` splits may be passed as they come.

    Guarantee
    ---------
    Raises, or stops such that the training, with one more step after each batch that was yielded, is within
    (`epsilon`, `delta`) by `method`.

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
    hook = getattr(optimizer, "step_hook", None)
    if not isinstance(hook, _StepHook):
        raise ParameterError(
            f"optimizer must be one that PrivacyEngine(accountant='{NAME}') made private, "
            f"got {_validate.show(optimizer)}."
        )
    together = _validate.count("accumulated", accumulated, least=1)
    accountant = hook.accountant

    def plan() -> Check:
        noise_multiplier, history = optimizer.noise_multiplier, accountant.history
        noise, rate, _ = _entry(_shared(noise_multiplier, together), hook.sample_rate, 1)
        length, last = len(history), (history[-1] if history else None)
        if noise == 0 or accountant._tells_all():
            left = 0  # nothing is affordable without noise, or after it
        else:
            step = _step(noise, rate) * together
            left = rounds_left(accountant.run, step, epsilon=epsilon, delta=delta, method=method)

        def admits_one_more() -> bool:
            if optimizer.noise_multiplier != noise_multiplier or accountant.history is not history:
                return False
            recorded = history[max(length - 1, 0) :]
            if not all(entry == last or entry[:2] == (noise, rate) for entry in recorded):
                return False
            rounds = sum(steps for *what, steps in recorded if tuple(what) == (noise, rate))
            if last is not None and last[:2] == (noise, rate):
                rounds -= last[2]
            return rounds <= (left - 1) * together

        return admits_one_more

    return guarded(batches, plan)


@dataclass
class _StepHook:
    """Records each step of an optimizer whose batches are sampled at one rate."""

    accountant: ExactAccountant
    sample_rate: float

    def __call__(self, optimizer: DPOptimizer) -> None:
        # Opacus divides the noisy count of clipped records by the size of the batch, which is as private as they are
        if isinstance(optimizer, AdaClipDPOptimizer) or hasattr(optimizer, "_adjusted_noise_multiplier"):
            raise UnsupportedError(
                "No theorem here covers Opacus's adaptive clipping: it tells the size of each Poisson batch. "
                "Use flat or per-layer clipping."
            )
        batches = optimizer.accumulated_iterations
        noise = _shared(optimizer.noise_multiplier, batches)
        for _ in range(batches):
            self.accountant.step(noise_multiplier=noise, sample_rate=self.sample_rate)


def _shared(noise_multiplier: float, batches: int) -> float:
    r"""The noise of each of `batches` batches whose gradients are summed before noise is added once.

    Normal noise of deviation s is the sum of k independent ones of :math:`s/\sqrt{k}`, so that the step tells no more
    than k releases with that noise on one batch each. (A single release at k times the rate would be too little: a
    record may be in several of the batches.) Rounded down.
    """
    return noise_multiplier if batches == 1 else noise_multiplier / math.sqrt(batches) * (1.0 - HAIR)


def _step(noise: float, rate: float) -> Run:
    """One step. At rate 1 nothing is sampled, and one direction answers for both; at rate 0 nobody is in the batch."""
    if rate == 0:
        return Run()
    return (Gaussian(noise) if rate == 1 else PoissonSampled(Gaussian(noise), rate)) * 1


def _entry(noise: float, rate: float, steps: int) -> tuple[float, float, int]:
    """A line of the history, every number inside its range."""
    return (
        _validate.real("noise_multiplier", noise, NOISE),
        _validate.real("sample_rate", rate, _validate.SAMPLING_RATE),
        _validate.count("num_steps", steps),
    )


def _entries(history: Any) -> list[tuple[float, float, int]]:  # noqa: ANN401  (a checkpoint holds anything)
    """A history, every line of it checked."""
    try:
        lines = [(noise, rate, steps) for noise, rate, steps in history]
    except (TypeError, ValueError):
        raise ParameterError(
            "history must list (noise_multiplier, sample_rate, num_steps), got " + _validate.show(history) + "."
        ) from None
    return [_entry(*line) for line in lines]


def _steps_of(epochs: float, rate: float) -> int:
    """Steps in so many epochs: rounded up, but for what only the division has added."""
    quotient = epochs / rate
    nearest = round(quotient)
    return nearest if abs(quotient - nearest) <= QUOTIENT_ERROR * quotient else math.ceil(quotient)


register_accountant(NAME, ExactAccountant, force=True)  # reloading the module registers the new class
