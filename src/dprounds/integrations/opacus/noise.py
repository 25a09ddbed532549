"""The least noise for a training with Opacus."""

from __future__ import annotations

import math

from dprounds import _validate
from dprounds.errors import ParameterError
from dprounds.integrations.opacus.accountant import NAME
from dprounds.integrations.opacus.history import one_step
from dprounds.mechanisms.base import Run
from dprounds.planning import min_noise_multiplier

__all__ = ["get_noise_multiplier", "steps_of_epochs"]

TOLERANCE = _validate.Interval.parse("(0, inf)")
EPOCHS = _validate.Interval.parse("[0, inf)")
RATE = _validate.Interval.parse("(0, 1]", _validate.SAMPLING_RATE.hint)

# One over a rate of 1/49 is 49 up to two roundings, of the rate and of the quotient. This is twice their error.
QUOTIENT_ERROR = 4 * 2.0**-53
# Relative width of the search for noise, and where doubles end it.
NOISE_TOLERANCE = 1e-6
LEAST_NOISE_TOLERANCE = 1e-13


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
    that minus `epsilon_tolerance`; within a relative 1e-6 of the least one. For the neighbours of `ExactAccountant`.

    Parameters
    ----------
    target_epsilon
        Budget in nats, in [0, inf).
    target_delta
        Failure mass, in (0, 1).
    sample_rate
        Poisson inclusion probability, in (0, 1]; ``1 / len(data_loader)`` in Opacus. Rounded up as the sampler does.
    epochs, steps
        How long to train, one of the two: ``epochs * len(data_loader)`` steps of the private loader. An epoch has the
        batches that a loop makes: ``1 / sample_rate`` of them, rounded up.
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
        rounds = steps_of_epochs(_validate.real("epochs", epochs or 0.0, EPOCHS), rate)
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


def steps_of_epochs(epochs: float, rate: float) -> int:
    """Steps in `epochs` passes over a loader: each has one over the rate, rounded up, and so has a part of a pass."""
    # a rate of one over a whole number is that number of batches, whichever way the division was rounded
    quotient = 1.0 / rate
    nearest = round(quotient) if quotient < math.inf else 0
    batches = nearest if abs(quotient - nearest) <= QUOTIENT_ERROR * quotient else quotient
    steps = epochs * (math.ceil(batches) if batches < math.inf else math.inf)
    if not steps < math.inf:
        raise ParameterError(f"epochs must be fewer than sample_rate times 1.8e308, got {epochs:g}.")
    return math.ceil(steps)
