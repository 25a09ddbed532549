"""Every term of a line's error budget, where it is needed: without the term the truth is outside.

The lines are made by hand, of laws of a few losses that are known exactly, so that nothing but the one term is large.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from dprounds.accounting.law import Lattice
from dprounds.accounting.line import Line
from tests.references import gaussian

DIGITS = 40


@dataclass(frozen=True)
class Few:
    """Masses at `shift`, `shift + step`, …, all of which are doubles."""

    masses: tuple[float, ...]
    step: float = 0.25
    shift: float = -0.5

    def delta(self, epsilon: float) -> Any:
        """From the definition; what the masses lack of one is not counted."""
        with mp.workdps(DIGITS):
            return mp.fsum(
                -mpf(mass) * mp.expm1(mpf(epsilon) - (mpf(self.shift) + k * mpf(self.step)))
                for k, mass in enumerate(self.masses)
                if self.shift + k * self.step > epsilon
            )

    def log_moment(self, z: Any) -> Any:
        """K in arbitrary precision."""
        return mp.log(
            mp.fsum(
                mpf(mass) * mp.exp(z * (mpf(self.shift) + k * mpf(self.step))) for k, mass in enumerate(self.masses)
            )
        )

    def line(self, *, t: float = 1.5, points: int = 64, sides: tuple[float, ...] = (0.25, 9.0)) -> Line:
        """All nodes of the periodic sum, with the K of arbitrary precision, rounded once."""
        with mp.workdps(DIGITS):
            step = 2.0 * math.pi / (points * self.step)
            values = [complex(self.log_moment(mpf(t) + 1j * n * mpf(step))) for n in range(points // 2 + 1)]
            at_sides = [float(self.log_moment(mpf(r))) for r in sides]
        return Line(
            t=t,
            step=step,
            values=np.array(values, dtype=np.complex128),
            ceiling=-math.inf,
            sides=np.array(sides),
            side_values=np.nextafter(np.array(at_sides), math.inf),
            sizes=np.zeros(len(values)),
            lattice=Lattice(Fraction(self.step), Fraction(self.shift)),
            points=points,
        )


FIVE = Few((0.0625, 0.25, 0.4375, 0.125, 0.125))
EPSILONS = np.random.default_rng(7).uniform(-0.4, 0.49, 200).tolist()


def assert_inside(line: Line, epsilon: float, truth: Any) -> None:
    lower, upper = line.at(epsilon)
    assert mpf(lower) <= truth <= mpf(upper), (epsilon, lower, truth, upper)


@pytest.mark.parametrize("law", [Few((1.0,), shift=0.5), FIVE], ids=["one loss", "five losses"])
def test_rounding_of_the_sum_is_counted(law: Few) -> None:
    line = law.line(points=256)
    widest = 0.0
    for epsilon in EPSILONS:
        assert_inside(line, epsilon, law.delta(epsilon))
        lower, upper = line.at(epsilon)
        widest = max(widest, upper - lower)
    assert widest < 1e-12  # nothing but rounding is in it


def perturbed(line: Line, error: float, **changes: Any) -> Line:
    """A line whose M(t) is off by this part of itself, of which the line itself is told only by `changes`."""
    values = line.values.copy()
    values[0] += math.log1p(error)
    return replace(line, values=values, **changes)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_error_of_the_moment_function_is_counted(sign: float) -> None:
    size = 1000.0
    # not the term itself, which a mutant sets to zero, but what the moment functions are measured to keep to
    line = FIVE.line(points=256)
    off = perturbed(line, sign * 0.9e-13 * size, sizes=np.full(line.values.size, size))
    for epsilon in EPSILONS[:20]:
        assert_inside(off, epsilon, FIVE.delta(epsilon))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_errors_of_the_spectrum_are_counted(sign: float) -> None:
    off = perturbed(FIVE.line(points=256), sign * 0.99e-6, errors=1e-6)
    for epsilon in EPSILONS[:20]:
        assert_inside(off, epsilon, FIVE.delta(epsilon))


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("t", [0.3, 1.5, 20.0])
def test_an_error_in_the_euclidean_norm_is_counted(number: int, sign: float, t: float) -> None:
    """All of it at one of the masses, tilted by t."""
    with mp.workdps(DIGITS):
        at = mpf(FIVE.shift) + number * mpf(FIVE.step)
        off = float(1e-6 * mp.exp(FIVE.log_moment(mpf(t)) - t * at))
    masses = list(FIVE.masses)
    masses[number] += sign * 0.99 * off
    if masses[number] < 0:
        return
    line = replace(Few(tuple(masses)).line(t=t, sides=(0.1, 40.0)), norm_error=1e-6)
    for epsilon in EPSILONS[:10]:
        assert_inside(line, epsilon, FIVE.delta(epsilon))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_relative_error_of_all_masses_is_counted(sign: float) -> None:
    scaled = Few(tuple(mass * (1.0 + sign * 0.99e-4) for mass in FIVE.masses))
    line = replace(scaled.line(), relative_error=1e-4)
    for epsilon in EPSILONS[:20]:
        assert_inside(line, epsilon, FIVE.delta(epsilon))
    lower, upper = replace(line, relative_error=0.5).at(0.1)  # too much to be of first order
    assert (lower, upper) == (0.0, 1.0)


def test_a_missing_mass_is_counted_as_an_infinite_loss() -> None:
    line = replace(FIVE.line(), missing=2.0**-10)
    for epsilon in EPSILONS[:20]:
        assert_inside(line, epsilon, FIVE.delta(epsilon) + mpf(2.0**-10))
        assert_inside(line, epsilon, FIVE.delta(epsilon))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_blur_of_the_losses_is_counted(sign: float) -> None:
    off = replace(FIVE, shift=FIVE.shift + sign * 2.0**-12)
    line = off.line()
    assert line.lattice is not None
    blurred = replace(line, lattice=line.lattice._replace(blur=2.0**-12))
    for epsilon in EPSILONS[:20]:
        assert_inside(blurred, epsilon, FIVE.delta(epsilon))


WIDE = Few(tuple((2.0**-6,) * 64), step=0.25, shift=-8.0)


@pytest.mark.parametrize(("t", "sides"), [(0.2, (0.1, 9.0)), (0.2, (0.0, 9.0)), (3.0, (0.1, 3.5)), (0.8, (0.4, 1.2))])
def test_aliases_of_a_lattice_are_counted(t: float, sides: tuple[float, ...]) -> None:
    """A period shorter than the losses are apart: at a small tilt those below count, at a large one those above."""
    line = WIDE.line(t=t, points=24, sides=sides)
    for epsilon in np.linspace(-2.0, 7.0, 19).tolist():
        assert_inside(line, epsilon, WIDE.delta(epsilon))
    value, _ = line.value_and_slope(1.0)
    assert value > float(WIDE.delta(1.0)) * (1 + 1e-6)  # they are there


@pytest.mark.parametrize(("t", "period", "sides"), [(0.3, 9.0, (0.15, 40.0)), (9.0, 5.0, (0.1, 9.5))])
def test_aliases_of_a_line_are_counted(t: float, period: float, sides: tuple[float, ...]) -> None:
    """Of a Gaussian mechanism, whose every other error is next to nothing here."""
    step = 2.0 * math.pi / period
    s = step * np.arange(math.ceil(12.0 / step) + 1)
    z = t + 1j * s
    r = np.array(sides)
    line = Line(
        t=t,
        step=step,
        values=0.5 * z * (z + 1.0),
        ceiling=0.5 * (t * (t + 1.0) - float(s[-1]) ** 2),
        sides=r,
        side_values=0.5 * r * (r + 1.0) * (1.0 + 1e-15),
        sizes=np.zeros(z.size),
    )
    for epsilon in (1.0, 2.0, 3.0):
        truth = gaussian.delta(1.0, epsilon)
        assert_inside(line, epsilon, truth)
        assert line.value_and_slope(epsilon)[0] > truth * (1 + 1e-9)


@pytest.mark.parametrize("kept", [2, 3, 5, 9, 17])
def test_nodes_of_a_lattice_that_are_left_out_are_counted(kept: int) -> None:
    line = FIVE.line()
    short = replace(
        line,
        values=line.values[:kept],
        sizes=line.sizes[:kept],
        ceiling=float(line.values[kept - 1 :].real.max()),
    )
    for epsilon in EPSILONS[:20]:
        assert_inside(short, epsilon, FIVE.delta(epsilon))


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
    for epsilon in (0.0, 0.7, 2.0, 4.0):
        assert_inside(line, epsilon, gaussian.delta(1.0, epsilon))


def test_no_digits_are_read_off_summands_that_dwarf_delta() -> None:
    """At an epsilon so far below the line's own, the summands are beyond the range of doubles."""
    line = FIVE.line(t=20.0, sides=(1.0, 40.0))
    assert line.at(-40.0) == (0.0, 1.0)
