"""Laws that state the errors of their own moments, and that have no line beyond some t."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dprounds.accounting.law import Composition, LossLaw
from dprounds.accounting.profile import Profile
from dprounds.accounting.ways.place import line_near, saddle_at_epsilon
from dprounds.numerics.complex_plane import Numbers
from dprounds.numerics.normal import normal_excess


def gaussian_law(error: float, stated: float, **given: float) -> LossLaw:
    """One Gaussian of noise one, whose moments are off by a part of those on the axis."""

    def log_moment(z: Numbers) -> Numbers:
        exact = 0.5 * z * (z + 1.0)
        if not np.iscomplexobj(z):
            return np.asarray(exact.real + math.log1p(error))
        on_axis = 0.5 * z.real * (z.real + 1.0)
        return np.asarray(on_axis + np.log(np.exp(exact - on_axis) + error))

    def moment_error(z: Numbers) -> NDArray[np.float64]:
        return np.full(z.shape, stated)

    return LossLaw(
        log_moment=log_moment,
        ceiling=lambda t, s: 0.5 * (t * (t + 1.0) - s * s) + abs(error),
        moment_error=moment_error,
        **given,  # type: ignore[arg-type]  # all of them are numbers
    )


@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("error", [1e-7, -1e-7])
def test_stated_errors_of_moments_are_in_the_bracket(rounds: int, error: float) -> None:
    epsilon = 2.0 * rounds
    truth, _ = normal_excess(math.sqrt(rounds), epsilon, distance_error=0.0)

    def bracket(stated: float) -> tuple[float, float]:
        law = Composition(((gaussian_law(error, stated), rounds),))
        line = line_near(law, saddle_at_epsilon(law, epsilon), epsilon=epsilon, log_delta=math.log(truth))
        return line.at(epsilon)

    lower, upper = bracket(1e-7)
    assert lower <= truth <= upper
    assert upper - lower <= 1e-4 * truth
    lower, upper = bracket(0.0)
    assert not lower <= truth <= upper


def test_small_factors_are_not_trusted_to_first_order() -> None:
    """Two rounds whose moments vanish beyond the first nodes, and are noise there: the square of the noise counts."""
    law = Composition(((gaussian_law(0.0, 1e-4), 2),))
    line = line_near(law, saddle_at_epsilon(law, 4.0), epsilon=4.0, log_delta=-6.0)
    errors = np.asarray(line._moment_errors(np.zeros(line.values.size)))
    assert (errors >= (2 * 1e-4) ** 2).all()


def test_no_line_is_put_beyond_the_largest_t_and_brackets_hold() -> None:
    free, held = (gaussian_law(0.0, 1e-15), gaussian_law(0.0, 1e-15, largest_t=2.0))
    truth, _ = normal_excess(1.0, 4.0, distance_error=0.0)
    for law in (free, held):
        lower, upper = Profile({"remove": law * 1}).delta(4.0)
        assert lower <= truth <= upper
        assert upper - lower <= 1e-9 * truth
    assert saddle_at_epsilon(free * 1, 4.0).t > 3.0
    assert saddle_at_epsilon(held * 1, 4.0).t == 2.0
    lower, upper = Profile({"remove": held * 1}).epsilon(truth)
    assert lower <= 4.0 <= upper
    assert upper - lower <= 1e-9


def test_a_law_that_nobody_attains_proves_nothing_from_below() -> None:
    law = gaussian_law(0.0, 1e-15)
    assert (law * 1).is_attained
    assert not (law * 1 + replace(law, is_attained=False) * 1).is_attained
