"""Every term of an integral's upper end, where it is needed: without the term the truth is above it.

The lines are those of `test_error_budget.py`: made by hand, so that nothing but the one term is large.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

from dprounds import DiscreteGaussian, Gaussian, PoissonSampled
from dprounds.accounting.cells import upper_law
from dprounds.accounting.integrated import _Place
from dprounds.accounting.lattice import LatticePlan, lattice_line
from dprounds.accounting.line import Line
from tests.accounting.test_error_budget import EPSILONS, FIVE, WIDE, Few, perturbed
from tests.references import integrated as reference

Array = NDArray[np.float64]
DIGITS = 40
PLACES = [-3.0, -0.7, *EPSILONS[:20]]


def integral(law: Few, epsilon: float) -> Any:
    """From the definition: the mean of ζ of what losses are above epsilon."""
    with mp.workdps(DIGITS):
        losses = [mp.mpf(law.shift) + k * mp.mpf(law.step) for k in range(len(law.masses))]
        return mp.fsum(
            mp.mpf(mass) * reference.zeta(loss - mp.mpf(epsilon))
            for mass, loss in zip(law.masses, losses, strict=True)
            if loss > epsilon
        )


def assert_not_below(line: Line, law: Few, places: Iterable[float] = PLACES) -> None:
    for epsilon in places:
        found = float(line.integrals_from_above(np.array([epsilon]))[0])
        assert mp.mpf(found) >= integral(law, epsilon), epsilon


@pytest.mark.parametrize("law", [Few((1.0,), shift=0.5), FIVE], ids=["one loss", "five losses"])
@pytest.mark.parametrize("t", [0.4, 1.5, 9.0])
def test_an_integral_is_not_below_the_truth_and_close(law: Few, t: float) -> None:
    """Its rounding is counted, and nothing else is in it."""
    line = law.line(points=1024, t=t)
    assert_not_below(line, law)
    for epsilon in EPSILONS[:20]:
        found = float(line.integrals_from_above(np.array([epsilon]))[0])
        assert found <= float(integral(law, epsilon)) + 1e-12 * math.exp(t)


def test_the_error_of_the_moment_function_is_counted() -> None:
    size = 1000.0
    line = FIVE.line(points=256)
    assert_not_below(perturbed(line, -0.9e-13 * size, sizes=np.full(line.values.size, size)), FIVE)


def test_errors_of_the_spectrum_are_counted() -> None:
    assert_not_below(perturbed(FIVE.line(points=256), -0.99e-6, errors=1e-6), FIVE)


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("t", [0.3, 1.5, 20.0])
def test_an_error_in_the_euclidean_norm_is_counted(number: int, t: float) -> None:
    """All of it at one of the masses, tilted by t."""
    with mp.workdps(DIGITS):
        at = mp.mpf(FIVE.shift) + number * mp.mpf(FIVE.step)
        off = float(1e-6 * mp.exp(FIVE.log_moment(mp.mpf(t)) - t * at))
    masses = list(FIVE.masses)
    masses[number] -= 0.99 * off
    if masses[number] < 0:
        return
    assert_not_below(replace(Few(tuple(masses)).line(t=t, points=1024, sides=(0.1, 40.0)), norm_error=1e-6), FIVE)


@pytest.mark.parametrize("t", [0.01, 0.3, 2.0, 30.0])
@pytest.mark.parametrize("step", [0.01, 0.25, 2.0])
@pytest.mark.parametrize("points", [16, 512])
def test_the_norm_of_the_kernel_is_not_below_its_sum(t: float, step: float, points: int) -> None:
    """Over the distances of all points, those of later periods added to the first."""
    law = Few((0.5, 0.5), step=step, shift=0.0)
    line = replace(law.line(t=t, points=points, sides=(0.5 * t, 2.0 * t)), norm_error=1.0)
    for first in (0.0, 0.5 * step, step):
        distances = first + step * np.arange(points * 400.0)
        kernel = np.exp(-t * distances) * (distances + np.expm1(-distances))
        wrapped = kernel.reshape(-1, points).sum(axis=0)
        # the sum is taken relative to the first point
        assert line.kernel.integral_norm >= math.exp(t * first) * float(np.linalg.norm(wrapped)) * (1.0 - 1e-9)


def test_a_relative_error_of_all_masses_is_counted() -> None:
    scaled = Few(tuple(mass * (1.0 - 0.99e-4) for mass in FIVE.masses))
    assert_not_below(replace(scaled.line(points=256), relative_error=1e-4), FIVE)
    assert replace(scaled.line(), relative_error=0.5).integrals_from_above(np.zeros(1))[0] == math.inf


def test_a_blur_of_the_losses_is_counted() -> None:
    line = replace(FIVE, shift=FIVE.shift - 2.0**-12).line(points=256)
    assert line.lattice is not None
    assert_not_below(replace(line, lattice=line.lattice._replace(blur=2.0**-12)), FIVE)


@pytest.mark.parametrize("t", [0.2, 0.8, 3.0])
def test_aliases_only_raise_it(t: float) -> None:
    assert_not_below(WIDE.line(t=t, points=24), WIDE, np.linspace(-2.0, 7.0, 19).tolist())


@pytest.mark.parametrize("kept", [2, 3, 5, 9, 17])
@pytest.mark.parametrize("t", [0.3, 1.5])
def test_nodes_of_a_lattice_that_are_left_out_are_counted(kept: int, t: float) -> None:
    line = FIVE.line(t=t)
    ceiling = float(line.values[kept - 1 :].real.max())
    assert_not_below(replace(line, values=line.values[:kept], sizes=line.sizes[:kept], ceiling=ceiling), FIVE)


@pytest.mark.parametrize("kept", [2, 3, 4, 6])
def test_nodes_of_a_line_that_are_left_out_are_counted(kept: int) -> None:
    t, step = 1.5, 0.25
    z = t + 1j * step * np.arange(kept)
    line = Line(
        t=t,
        step=step,
        values=0.5 * z * (z + 1.0),
        ceiling=0.5 * (t * (t + 1.0) - (step * (kept - 1)) ** 2),
        sides=np.array([0.1, 4.0]),
        side_values=np.array([0.055, 10.0]) * (1.0 + 1e-15),
        sizes=np.zeros(kept),
    )
    for epsilon in (-1.0, 0.0, 0.7, 2.0, 4.0, 6.0):
        with mp.workdps(DIGITS):
            truth = reference.normal_integral(1.0, epsilon)
        assert mp.mpf(float(line.integrals_from_above(np.array([epsilon]))[0])) >= truth


@pytest.mark.parametrize("run", [DiscreteGaussian(2.0) * 3, DiscreteGaussian(5.0) * 10], ids=repr)
def test_integrals_of_a_lattice_are_sums_of_its_deltas(run: Any) -> None:
    """The difference of two integrals is the integral of delta between them, here by Gauss's rule between its kinks."""
    law = run.law()
    place = _Place(law, 1.0)
    step = float(law.lattice.step)
    start = float(law.lattice.shift) % step
    edges: Array = start + step * np.arange(math.ceil(-start / step), math.ceil(3.0 / step), dtype=np.float64)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    total = 0.0
    for low, high in itertools.pairwise(edges.tolist()):
        at = 0.5 * (low + high) + 0.5 * (high - low) * nodes
        total += 0.5 * (high - low) * float(weights @ [run.delta(epsilon=max(one, 0.0)) for one in at])
    first, last = place.integrals(edges[[0, -1]])
    assert first - last == pytest.approx(total, rel=1e-8)


def test_what_a_lattice_does_not_hold_is_counted() -> None:
    """A lattice that ends below where losses count: what is above its last point is missing from it."""
    law = PoissonSampled(Gaussian(0.7), 0.01).law() * 20
    cells = law.parts[0][0].cells
    assert cells is not None
    whole = _Place(law, 1.0)
    step, last = 2.0**-9, 700
    made = upper_law(cells, step, -400, last)
    grid = LatticePlan(step, ((-400, last),), 2**13, t=2.0, sides=np.array([1.0, 3.0]))
    line = lattice_line([(made, 20)], grid)
    assert line is not None
    assert line.missing > 1e-6
    short = _Place(law, 1.0)
    short._sum = line
    x = np.linspace(0.3, 1.3, 6)
    assert (line.integrals_from_above(x) < 0.9 * whole.integrals(x)).any()  # it is missed
    assert (short.integrals(x) >= whole.integrals(x) * (1.0 - 1e-3)).all()
