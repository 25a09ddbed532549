"""The parts of the exact accountant: lines, their error bounds, and the ceilings that end them."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from dprounds.accounting import premises
from dprounds.accounting.kernel import log_zeta
from dprounds.accounting.law import LOG_MOMENT_ERROR, Composition, LossLaw
from dprounds.accounting.line import SUMMAND_ERROR, Line
from dprounds.accounting.ways.place import line_near, line_with_nodes_of, saddle_at_delta, saddle_at_epsilon
from dprounds.errors import NumericalError
from dprounds.mechanisms import Gaussian, Laplace, PoissonSampled
from dprounds.mechanisms.base import Run
from dprounds.mechanisms.gaussian import gaussian_ceiling
from dprounds.numerics.mixture import Mixture
from dprounds.numerics.normal_mixture_ceiling import ceiling_of_powers
from tests.accounting.ways import line_law
from tests.references import gaussian, moments


def line_of(run: Run, epsilon: float, log_delta: float | None = None) -> Line:
    one = line_law(run)
    saddle = saddle_at_epsilon(one, epsilon)
    return line_near(
        one, saddle, epsilon=epsilon, log_delta=saddle.log_delta(epsilon) if log_delta is None else log_delta
    )


def both(line: Line, epsilon: float) -> tuple[float, float]:
    lower, upper = line.at(epsilon)
    return lower, upper


def test_log_zeta_is_the_largest_gain() -> None:
    y = np.geomspace(1e-3, 60.0, 200_001)
    for t in (0.1, 1.0, 30.0):
        gain = np.max(np.log(-np.expm1(-y)) - t * y)
        assert gain - 1e-14 * abs(gain) <= log_zeta(np.array(t)) <= gain + 1e-6
    assert log_zeta(np.array(0.0)) == 0.0


def test_a_ceiling_beyond_the_doubles_leaves_no_bound() -> None:
    """Cut off, what is beyond the last node would vanish where the summands are far smaller still."""
    line = line_of(Gaussian(2.0) * 4, 1.0)
    assert line.at(1000.0).upper < 1e-300
    assert replace(line, ceiling=line.ceiling + 1e5).at(1000.0) == (0.0, 1.0)


def test_a_line_scales_to_other_numbers_of_rounds_without_new_values() -> None:
    step = PoissonSampled(Gaussian(1.0), 0.01)
    one = line_of(step * 1000, 2.0) * (1 / 1000)
    for rounds in (900, 1000, 1100):
        mine = both(one * rounds, 2.0)
        fresh = both(line_of(step * rounds, 2.0), 2.0)
        assert mine[0] <= fresh[1]
        assert fresh[0] <= mine[1]
        assert mine[1] <= mine[0] * (1 + 1e-8)


@pytest.mark.parametrize(("sigma", "rate", "rounds"), [(1.1, 256 / 60_000, 14_062), (0.8, 0.02, 3_000), (5.0, 0.3, 40)])
def test_the_nodes_of_one_direction_bound_the_other_from_above(sigma: float, rate: float, rounds: int) -> None:
    run = PoissonSampled(Gaussian(sigma), rate) * rounds
    epsilon = run.epsilon(delta=1e-5)
    nodes = line_of(run, epsilon)
    law = run.law("add")
    mine = line_with_nodes_of(law, nodes, law.expand(nodes.t)).at(epsilon)
    own = line_near(law, saddle_at_epsilon(law, epsilon), epsilon=epsilon, log_delta=math.log(1e-5)).at(epsilon)
    assert mine.lower == 0  # nothing is known of its aliases
    assert own.lower <= mine.upper <= own.upper * (1 + 1e-3)
    # cut short, it counts what is missing
    short = replace(nodes, values=nodes.values[:3])
    assert line_with_nodes_of(law, short, law.expand(nodes.t)).at(epsilon).upper >= own.lower


@pytest.mark.parametrize("shift", [-0.9, -0.5, 0.5, 3.0])
def test_a_line_beside_the_saddle_point_is_wide_and_right(shift: float) -> None:
    one = line_law(Gaussian(1.0) * 1)
    good = saddle_at_epsilon(one, 3.0)
    poor = saddle_at_epsilon(one, good.epsilon + shift * good.epsilon)
    line = line_near(one, poor, epsilon=3.0, log_delta=good.log_delta(3.0))
    lower, upper = both(line, 3.0)
    truth = gaussian.delta(1.0, 3.0)
    assert lower <= truth <= upper


@pytest.mark.parametrize("factor", [2.0, 4.0, 8.0])
def test_aliases_raise_the_sum_by_no_more_than_their_bound(factor: float) -> None:
    line = line_of(Gaussian(1.0) * 1, 1.0)
    kept = int(line.values.size / factor) * int(factor)
    coarse = replace(
        line,
        step=line.step * factor,
        values=line.values[:kept][:: int(factor)],
        sizes=line.sizes[:kept][:: int(factor)],
        ceiling=float(0.5 * (line.t * (line.t + 1) - (line.step * (kept - factor)) ** 2)),
    )
    lower, upper = both(coarse, 1.0)
    truth = gaussian.delta(1.0, 1.0)
    assert lower <= truth <= upper
    if factor == 8.0:
        assert upper > truth * (1 + 1e-6)  # the excess is there, and the lower bound knew it


@pytest.mark.parametrize("kept", [3, 6, 10])
def test_a_sum_that_stops_early_says_so(kept: int) -> None:
    line = line_of(Gaussian(1.0) * 1, 1.0)
    last = line.step * (kept - 1)
    short = replace(
        line,
        values=line.values[:kept],
        sizes=line.sizes[:kept],
        ceiling=float(gaussian_ceiling(1.0, line.t, np.array(last))),
    )
    lower, upper = both(short, 1.0)
    assert lower <= gaussian.delta(1.0, 1.0) <= upper
    assert upper - lower > 1e-4 if kept == 3 else upper > lower


@pytest.mark.parametrize("variance", [1e-6, 1e-3, 0.1])
def test_the_virtual_gaussian_raises_delta_by_no_more_than_its_bound(variance: float) -> None:
    # A virtual Gaussian on top of a real one is a Gaussian, so everything is known in closed form.
    smooth = replace(line_of(Gaussian(1.0) * 1, 1.0), variance=variance)
    lower, upper = both(smooth, 1.0)
    truth, raised = gaussian.delta(1.0, 1.0), gaussian.delta(math.sqrt(1.0 + variance), 1.0)
    assert lower <= truth <= raised <= upper
    assert upper <= raised * (1 + 1e-9)
    # to first order the rise is half of the bound
    assert 1.5 < (upper - lower) / (raised - truth) < 4.0


def test_a_wrong_guess_of_delta_makes_the_line_wide_and_right() -> None:
    for log_delta in (-1e-3, -60.0):
        lower, upper = both(line_of(Gaussian(1.0) * 1, 4.0, log_delta), 4.0)
        assert lower <= gaussian.delta(1.0, 4.0) <= upper


def test_saddle_points_solve_their_equation() -> None:
    for run in (Gaussian(1.0) * 1, Gaussian(1e-2) * 1, Gaussian(1e4) * 3, Laplace(1.0) * 5):
        one = line_law(run)
        for epsilon in (0.0, 0.01, 3.0):
            saddle = saddle_at_epsilon(one, epsilon)
            assert abs(saddle.epsilon - epsilon) * saddle.width < 0.3
    saddle = saddle_at_delta(line_law(Gaussian(1.0) * 1), math.log(1e-5))
    assert abs(math.log(gaussian.delta(1.0, saddle.epsilon)) - math.log(1e-5)) < 2.0


@pytest.mark.parametrize(
    "run",
    [Gaussian(1.5) * 40, Laplace(2.0) * 60, PoissonSampled(Gaussian(0.9), 0.02) * 500, Gaussian(3.0) + Laplace(1.0)],
)
def test_no_value_further_up_is_above_the_ceilings_of_a_line(run: Run) -> None:
    law = run.law()
    assert isinstance(law, Composition)
    saddle = saddle_at_epsilon(law, 1.0)
    s = saddle.width * np.geomspace(0.05, 20.0, 12)
    found = premises.ceilings(law, saddle, s)
    for start, ceiling in zip(s.tolist(), found.tolist(), strict=True):
        beyond = np.real(law.log_moment(saddle.t + 1j * start * np.array([1.0, 1.1, 1.7, 4.0])))
        # as evaluated, M of each round has a floor of rounding errors; a line adds the rounding of a ceiling
        floor = saddle.value + math.log(1e-12)
        rounding = SUMMAND_ERROR * (abs(ceiling) + 2.0 * abs(saddle.value))
        assert (beyond <= max(ceiling + rounding, floor)).all()


SAMPLED = [(1.0, 0.01, 3.0), (4.0, 0.001, 40.0), (0.5, 1e-4, 2.0), (0.3, 0.05, 1.5), (30.0, 0.5, 90.0)]


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("sigma", "rate", "t"), SAMPLED)
def test_ceilings_are_above_the_moment_function_and_fall(sigma: float, rate: float, t: float, direction: str) -> None:
    step = PoissonSampled(Gaussian(sigma), rate)
    low, middle, high = np.asarray(step.log_moment(t * np.array([0.99, 1.0, 1.01]), direction), dtype=float)
    width = 0.01 * t / math.sqrt(low + high - 2 * middle)
    s = width * np.geomspace(0.01, 8.0, 8)
    ceilings = ceiling_of_powers(sigma, Mixture.at_rate(rate), direction == "add", t, s)
    assert (np.diff(ceilings) <= 0).all()
    for start, ceiling in zip(s, ceilings, strict=True):
        beyond = start * np.array([1.0, 1.01, 1.3, 2.0])
        values = np.real(np.asarray(step.log_moment(t + 1j * beyond, direction)))
        # as evaluated, M has a floor of rounding errors some 1e-14 of M(t) high
        assert (values <= np.logaddexp(ceiling, middle + math.log(1e-13))).all()
    # a hundredth of a deviation must already count, or runs of many rounds would have no end
    assert ceilings[0] < middle
    assert ceilings[-1] < middle - 0.1 * abs(middle) - 1e-4


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("sigma", "rate", "t"), [(1.0, 0.01, 3.0), (0.3, 0.05, 1.5)])
def test_moment_functions_are_as_accurate_as_lines_assume(sigma: float, rate: float, t: float, direction: str) -> None:
    step = PoissonSampled(Gaussian(sigma), rate)
    saddle = (step * 1).law(direction).expand(t)
    for deviations in (0.3, 3.0):
        s = deviations / math.sqrt(saddle.curvature)
        point = complex(saddle.t, min(s, 60.0))
        exact = moments.gaussian(sigma, point, rate=rate, direction=direction)
        with mp.workdps(40):
            mine = mp.mpmathify(complex(step.log_moment(point, direction)))
            error = abs(mp.exp(mine) - mp.exp(exact)) / mp.exp(saddle.value)
        size = abs(saddle.value) + abs(saddle.slope) * point.imag + 0.5 * saddle.curvature * point.imag**2
        assert error <= 0.2 * LOG_MOMENT_ERROR * size


def test_a_line_of_negative_variance_is_refused() -> None:
    """Every bound of a line takes its variance for that of a Gaussian."""
    one = LossLaw(log_moment=lambda z: 0.5 * z * (z + 1)) * 1
    line = line_near(one, saddle_at_epsilon(one, 1.0), epsilon=1.0, log_delta=-2.0)
    with pytest.raises(NumericalError, match="smooths nothing"):
        replace(line, variance=-1e-9)
