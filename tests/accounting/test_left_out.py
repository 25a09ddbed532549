"""Outputs that a law leaves out: they count as infinite losses from above, and as nothing from below."""

from __future__ import annotations

import numpy as np

from dprounds import Gaussian
from dprounds.accounting.law import LossLaw
from dprounds.accounting.profile import Profile
from dprounds.numerics.complex_plane import Numbers

LEFT_OUT = 1e-6


def profile(rounds: int) -> Profile:
    """A Gaussian whose outputs are lost with a probability, of which K knows nothing more."""
    whole = Gaussian(2.0).law()

    def log_moment(z: Numbers) -> Numbers:
        return np.asarray(whole.log_moment(z) + np.log1p(-LEFT_OUT))

    return Profile({"remove": LossLaw(log_moment=log_moment, ceiling=whole.ceiling, left_out=LEFT_OUT) * rounds})


def test_delta_may_be_larger_by_what_is_left_out_and_smaller_by_nothing() -> None:
    for rounds in (1, 3):
        truth = (Gaussian(2.0) * rounds).delta(epsilon=1.0)
        lower, upper = profile(rounds).delta(1.0)
        kept = (1 - LEFT_OUT) ** rounds
        assert lower <= kept * truth <= lower * (1 + 1e-9)
        assert truth <= kept * truth + (1 - kept) <= upper <= (kept * truth + 1 - kept) * (1 + 1e-9)


def test_epsilon_is_between_those_of_both() -> None:
    run = Gaussian(2.0) * 3
    lower, upper = profile(3).epsilon(1e-5)
    assert lower <= run.epsilon(delta=1e-5) <= upper
    assert upper > run.epsilon(delta=9e-6)
