"""Outputs that a law leaves out: they count as infinite losses from above, and as nothing from below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dprounds import Gaussian
from dprounds.accounting.law import Events, LossLaw
from dprounds.accounting.profile import Profile
from dprounds.numerics.complex_plane import Numbers

LEFT_OUT, MISSING = 1e-6, 1e-12
EventsOf = Callable[[int, float], Events | None] | None


def no_events(rounds: int, log_delta: float) -> Events | None:
    return None


def all_events(rounds: int, log_delta: float) -> Events | None:
    """One event, which is nearly everything."""
    whole = Gaussian(2.0).law()
    law = replace(whole, left_out=1.0, log_moment_above=lambda t: whole.log_moment(t).real, largest_t=100.0)
    return Events((law * rounds,), MISSING)


def profile(rounds: int, events: EventsOf = None) -> Profile:
    """A Gaussian whose outputs are lost with a probability, of which K knows nothing more."""
    whole = Gaussian(2.0).law()

    def log_moment(z: Numbers) -> Numbers:
        return np.asarray(whole.log_moment(z) + np.log1p(-LEFT_OUT))

    law = LossLaw(log_moment=log_moment, ceiling=whole.ceiling, left_out=LEFT_OUT, events=events)
    return Profile({"remove": law * rounds})


@pytest.mark.parametrize("events", [None, no_events])
def test_delta_may_be_larger_by_what_is_left_out_and_smaller_by_nothing(events: EventsOf) -> None:
    for rounds in (1, 3):
        truth = (Gaussian(2.0) * rounds).delta(epsilon=1.0)
        lower, upper = profile(rounds, events).delta(1.0)
        kept = (1 - LEFT_OUT) ** rounds
        assert lower <= kept * truth <= lower * (1 + 1e-9)
        assert truth <= kept * truth + (1 - kept) <= upper <= (kept * truth + 1 - kept) * (1 + 1e-9)


def test_events_count_what_they_leave_out_themselves() -> None:
    run = Gaussian(2.0) * 3
    lower, upper = profile(3, all_events).delta(1.0)
    truth = run.delta(epsilon=1.0)
    assert lower <= truth <= upper <= truth * (1 + 1e-9) + 2 * MISSING
    lower, upper = profile(3, all_events).epsilon(1e-7)  # less than a line of the law would leave out
    truth = run.epsilon(delta=1e-7)
    assert lower <= truth <= upper <= truth * (1 + 1e-3)


@pytest.mark.parametrize("events", [None, no_events])
def test_epsilon_is_between_those_of_both(events: EventsOf) -> None:
    run = Gaussian(2.0) * 3
    lower, upper = profile(3, events).epsilon(1e-5)
    assert lower <= run.epsilon(delta=1e-5) <= upper
    assert upper > run.epsilon(delta=9e-6)
