"""The ceiling of sampled Laplace noise is never below the moment function, and lines that end by it are narrow."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dprounds.accounting.law import Composition, LossLaw
from dprounds.accounting.profile import Profile
from dprounds.mechanisms import Laplace, PoissonSampled
from dprounds.mechanisms import sampled_laplace_decay as decay
from dprounds.numerics.rounding import UNIT_ROUNDOFF
from tests.references import moments

DIRECTIONS = ("remove", "add")
# noise, rate, and t times the rate
CASES = [(1.0, 0.3, 2.0), (0.4, 0.01, 0.3), (5.0, 1e-4, 1.0), (60.0, 0.02, 10.0), (2.0, 1e-7, 0.02), (0.3, 0.9, 0.5)]


def law_of(b: float, rate: float, direction: str) -> LossLaw:
    return PoissonSampled(Laplace(b), rate).law(direction)


def ceilings(law: LossLaw, t: float, s: Any) -> Any:
    assert law.ceiling is not None
    with np.errstate(all="ignore"):
        return law.ceiling(t, np.asarray(s, dtype=np.float64))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("b", "rate", "scaled"), CASES)
def test_no_value_further_up_is_above_the_ceiling(b: float, rate: float, scaled: float, direction: str) -> None:
    law, t = law_of(b, rate, direction), scaled / rate
    unit = b / rate / math.exp(1.0 / b)  # about where the phase of the largest loss turns
    starts = unit * np.array([1e-3, 0.1, 1.0, 3.0, 30.0])
    found = ceilings(law, t, starts)
    assert (np.diff(found) <= 0).all()
    dice = np.random.default_rng(1)
    for start, ceiling in zip(starts, found, strict=True):
        for s in [start, *(start * np.exp(dice.uniform(0.0, 4.0, 3))).tolist()]:
            if s <= 100.0 * unit:
                assert moments.laplace_mechanism(b, mp.mpc(t, s), rate=rate, direction=direction).real <= ceiling


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("b", "rate", "scaled"), CASES)
def test_it_falls(b: float, rate: float, scaled: float, direction: str) -> None:
    """To what the atoms have, and near the axis as a normal law does."""
    law, t = law_of(b, rate, direction), scaled / rate
    top = float(np.real(law.log_moment(np.array([t])))[0])
    unit = b / rate / math.exp(1.0 / b)
    near, far = ceilings(law, t, unit * np.array([1e-2, 1e9]))
    true = float(np.real(law.log_moment(np.array([t + 1e-2j * unit])))[0])
    assert near - top <= 0.6 * (true - top)
    assert far < top


def highest(law: LossLaw, t: float, low: float, high: float) -> float:
    """The largest value of K on a piece of a line, of many."""
    z = np.asarray(t + 1j * np.linspace(low, high, 4001), dtype=np.complex128)
    return float(np.real(law.log_moment(z)).max())


@pytest.mark.parametrize(("b", "rate", "t", "start"), [(1.0, 0.3, 4.0, 60.0), (0.5, 0.02, 5.0, 400.0)])
def test_every_part_of_the_bound_far_up_counts(b: float, rate: float, t: float, start: float) -> None:
    """The atoms come into phase again and again, and what is between them then adds to them."""
    law, far = law_of(b, rate, "remove"), decay.far_up(b, rate, "remove", t)
    largest = highest(law, t, start, 2.0 * start)
    at = np.array([start])
    assert far.log(at)[0] >= largest
    assert far._replace(by_parts=far.by_parts - np.inf, below=far.below[:1]).log(at)[0] < largest
    assert far._replace(atoms=-math.inf).log(at)[0] < largest


def test_what_is_below_a_cut_counts() -> None:
    """Close to the axis next to nothing of it is turned."""
    b, rate, t = 0.3, 1e-3, 30.0
    law, far = law_of(b, rate, "remove"), decay.far_up(b, rate, "remove", t)
    start = 30.0
    largest = highest(law, t, start, 2.0 * start)
    at = np.array([start])
    assert far.log(at)[0] >= largest
    assert far._replace(below=far.below - np.inf).log(at)[0] < largest


def test_a_bound_by_parts_is_above_the_integral() -> None:
    """Of what is above a cut, by a quadrature of its own."""
    b, rate, t = 0.7, 0.05, 6.0
    for direction in DIRECTIONS:
        far, power = decay.far_up(b, rate, direction, t), -t if direction == "add" else t + 1.0
        for cut, bound in zip(decay.CUTS[:-1:3] / b, far.by_parts[::3], strict=True):
            for s in (3.0, 40.0, 500.0):
                v = np.linspace(cut, 1.0 / b, 400_001)
                log_w = np.log1p(rate * np.expm1(v))
                terms = 0.25 * np.exp(-0.5 * (v + 1.0 / b) + (power + 1j * s) * log_w)
                integral = (terms.sum() - 0.5 * (terms[0] + terms[-1])) * (v[1] - v[0])
                assert math.log(abs(integral)) <= bound - math.log(s)


RUNS = [(2.3, 4.1e-5, 234_393, 4.7e-10), (0.7, 0.001, 20_000, 1e-6), (400.0, 0.69, 1_600_000_000, 0.19)]


@pytest.mark.parametrize(("b", "rate", "rounds", "delta"), RUNS)
def test_many_rounds_are_narrow_and_meet_the_lattice(b: float, rate: float, rounds: int, delta: float) -> None:
    run = PoissonSampled(Laplace(b), rate) * rounds
    found = run.guarantee(delta=delta)
    assert found.method == "exact"
    assert found.upper - found.lower <= 1e-10 * found.upper
    flat = {
        name: Composition(tuple((replace(part, ceiling=None), n) for part, n in law.parts))
        for name, law in run.laws.items()
    }
    other = Profile(flat).epsilon(delta)
    assert other.lower <= found.upper
    assert found.lower <= other.upper


def test_few_rounds_close_to_the_largest_loss_are_narrow() -> None:
    """That all rounds have their largest loss shows it."""
    found = (PoissonSampled(Laplace(4.6), 0.27) * 2).guarantee(delta=5.5e-10)
    assert found.upper - found.lower <= 1e-6 * found.upper


def test_the_constant_of_the_proof_counts_its_roundings() -> None:
    """A bound is a logarithm of sums of exponentials, each of fewer than 16 operations; two of them are added."""
    assert decay.BOUND_ERROR >= 32 * UNIT_ROUNDOFF
