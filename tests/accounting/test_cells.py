"""One round's law on a lattice keeps to its side of the true one, to the last digit of the masses."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray

from dprounds import Laplace, PoissonSampled
from dprounds.accounting.cells import Cells, CellsOf, LatticeLaw, atoms_in_cells, lower_law, upper_law

Array = NDArray[np.float64]
DIGITS = 60


class Atoms:
    """A pair of a few outcomes, whose masses under P are doubles; those under Q follow from their losses."""

    def __init__(self, p: Array, losses: Array) -> None:
        self.p, self.losses = p, losses
        with mp.workdps(DIGITS):
            self.exact_q = [mpf(float(a)) * mp.exp(-mpf(float(x))) for a, x in zip(p, losses, strict=True)]
        self.q = np.array([float(one) for one in self.exact_q])

    def delta(self, epsilon: Any) -> Any:
        """The sum of p - e^epsilon q where that is positive."""
        with mp.workdps(DIGITS):
            bound = mp.exp(mpf(epsilon))
            return mp.fsum(max(mpf(float(a)) - bound * b, 0) for a, b in zip(self.p, self.exact_q, strict=True))

    def cells(self, *, p_off: float = 0.0, q_off: float = 0.0, moved: float = 0.0) -> CellsOf:
        """Cells whose masses, or losses, are off by what they say; the rounding of q itself is in its error."""

        def cells_of(edges: Array) -> Cells:
            found = atoms_in_cells(
                edges, self.losses + moved, self.p * (1.0 + p_off), self.q * (1.0 + q_off), error=0.0, blur=0.0
            )
            # one atom a cell: its masses are exact but for what is said here
            p_error, q_error = abs(p_off) * 1.01 * found.p, (abs(q_off) * 1.01 + 2.0**-52) * found.q
            return Cells(found.p, found.q, p_error, q_error, abs(moved))

        return cells_of


def delta_of(law: LatticeLaw, step: float, epsilon: Any) -> Any:
    """Delta of a law on a lattice, exactly; its blur is a loss that all of it may have in addition."""
    with mp.workdps(DIGITS):
        total = mpf(law.infinite)
        for number in np.flatnonzero(law.masses):
            loss = (law.first + int(number)) * mpf(step) + mpf(law.shift) + mpf(law.blur)
            if loss > epsilon:
                total -= mpf(float(law.masses[number])) * mp.expm1(mpf(epsilon) - loss)
        return total


def assert_on_its_side(
    atoms: Atoms,
    make: Callable[..., LatticeLaw],
    cells_of: CellsOf,
    step: float,
    first: int,
    last: int,
    through: tuple[float, float] | None = None,
    knee: int | None = None,
) -> None:
    """At every epsilon: both deltas are piecewise linear in exp(epsilon), so at the kinks of either one."""
    law = make(cells_of, step, first, last, through, knee)
    sign = 1 if make is upper_law else -1
    with mp.workdps(DIGITS):
        kinks = [(first + k) * mpf(step) + mpf(law.shift) + mpf(law.blur) for k in range(law.masses.size)]
        for epsilon in [*(mpf(float(x)) for x in atoms.losses), *kinks, mpf(-40)]:
            assert sign * (delta_of(law, step, epsilon) - atoms.delta(epsilon)) >= 0, epsilon


def some_atoms(seed: int, size: int, reach: float) -> Atoms:
    """At most one in each cell of width 1/64, so that no masses are added up."""
    dice = np.random.default_rng(seed)
    number = dice.choice(np.arange(-int(64 * reach), int(64 * reach)), size=size, replace=False)
    losses = np.sort((number + dice.uniform(0.2, 0.8, size)) / 64.0)
    return Atoms(dice.dirichlet(np.ones(size)), losses)


@pytest.mark.parametrize("make", [upper_law, lower_law])
@pytest.mark.parametrize("seed", range(12))
def test_a_law_on_a_lattice_keeps_to_its_side_to_the_last_digit(make: Callable[..., LatticeLaw], seed: int) -> None:
    """Losses so small that the points of the lattice have next to no rounding of their own."""
    atoms = some_atoms(seed, 6, 0.125)
    assert_on_its_side(atoms, make, atoms.cells(), 1.0 / 64.0, -16, 16)


@pytest.mark.parametrize("make", [upper_law, lower_law])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("seed", range(3))
def test_masses_that_are_off_by_what_is_said_are_allowed_for(
    make: Callable[..., LatticeLaw], sign: float, seed: int
) -> None:
    atoms = some_atoms(seed, 5, 0.25)
    for off in ({"p_off": sign * 1e-6}, {"q_off": sign * 1e-6}):
        assert_on_its_side(atoms, make, atoms.cells(**off), 1.0 / 64.0, -32, 32)


@pytest.mark.parametrize("make", [upper_law, lower_law])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_ends_of_cells_that_are_off_by_what_is_said_are_allowed_for(
    make: Callable[..., LatticeLaw], sign: float
) -> None:
    """Losses next to the ends of their cells, which are on the other side of them."""
    losses = np.array([-0.25, 0.0, 0.25]) - sign * 1e-5
    atoms = Atoms(np.array([0.25, 0.25, 0.5]), losses)
    assert_on_its_side(atoms, make, atoms.cells(moved=sign * 2e-5), 1.0 / 64.0, -32, 32)


@pytest.mark.parametrize("make", [upper_law, lower_law])
def test_masses_that_lost_their_digits_below_the_range_of_doubles_are_allowed_for(
    make: Callable[..., LatticeLaw],
) -> None:
    """The rare atom is off by 5e-308, to the adverse side, and nothing says so."""
    atoms = Atoms(np.array([0.5, 0.5, 2e-300]), np.array([-0.3, 0.1, 0.4]))
    off = 5e-308 if make is lower_law else -5e-308
    wrong = Atoms(atoms.p + np.array([0.0, 0.0, off]), atoms.losses)
    assert_on_its_side(atoms, make, wrong.cells(), 1.0 / 64.0, -32, 32)


def test_masses_too_small_for_a_quotient_are_taken_for_nothing_from_below() -> None:
    tiny = Atoms(np.array([0.5, 0.5, 1e-305]), np.array([-0.3, 0.1, 0.4]))
    law = lower_law(tiny.cells(), 1.0 / 64.0, -32, 32)
    assert law.masses[:48].max() > 0.4
    assert law.masses[48:].max() == 0.0
    assert_on_its_side(tiny, lower_law, tiny.cells(), 1.0 / 64.0, -32, 32)
    assert_on_its_side(tiny, upper_law, tiny.cells(), 1.0 / 64.0, -32, 32)


@pytest.mark.parametrize("make", [upper_law, lower_law])
@pytest.mark.parametrize("steps", [37, 40, 101])
@pytest.mark.parametrize("largest", [0.3, 1.0 / 3.0, 0.7])
def test_a_lattice_through_two_atoms_keeps_to_its_side(
    make: Callable[..., LatticeLaw], steps: int, largest: float
) -> None:
    """The points are where the atoms are, up to rounding, and a few more losses lie between them."""
    atoms = Atoms(np.array([0.25, 0.125, 0.125, 0.5]), np.array([-largest, 0.013, 0.11, largest]))
    step = 2.0 * largest / steps
    assert_on_its_side(atoms, make, atoms.cells(), step, -steps, steps, (-largest, largest))


@pytest.mark.parametrize("make", [upper_law, lower_law])
@pytest.mark.parametrize("seed", range(6))
def test_a_law_whose_points_are_sparse_behind_a_knee_keeps_to_its_side(
    make: Callable[..., LatticeLaw], seed: int
) -> None:
    atoms = some_atoms(seed, 20, 0.5)
    cells_of = atoms.cells(p_off=1e-12, q_off=-1e-12)  # and less than that for sums of several atoms
    law = make(cells_of, 1.0 / 64.0, -64, 61, None, -7)
    held = np.flatnonzero(law.masses) - 64
    assert set(held[held >= -7]) <= set(range(-7, 80, 16))
    assert held.min() < -7 < held.max()
    assert_on_its_side(atoms, make, cells_of, 1.0 / 64.0, -64, 61, None, -7)


def test_the_masses_of_cells_are_within_their_errors_also_where_cells_have_no_atoms() -> None:
    rng = np.random.default_rng(3)
    losses = np.sort(rng.normal(size=4000))
    p, q = rng.random(4000), rng.random(4000) * 1e-9
    edges = np.concatenate([[-9.0, -8.0], np.linspace(-1.0, 1.0, 7), [8.0, 9.0]])
    found = atoms_in_cells(edges, losses, p, q, error=0.0, blur=0.0)
    ends = [-np.inf, *edges.tolist(), np.inf]
    for i, (low, high) in enumerate(pairwise(ends)):
        inside = (losses > low) & (losses <= high)
        for masses, total, error in ((p, found.p[i], found.p_error[i]), (q, found.q[i], found.q_error[i])):
            with mp.workdps(DIGITS):
                assert abs(mp.fsum(map(mpf, masses[inside].tolist())) - mpf(float(total))) <= float(error)


def test_the_rounding_of_a_cell_counts_its_own_atoms_alone() -> None:
    """Of a million atoms each in a cell of its own no sum is rounded a million times."""
    losses = np.arange(1_000_000.0)
    errors = np.linspace(1e-15, 1e-12, losses.size)
    found = atoms_in_cells(losses[:-1], losses, np.ones(losses.size), np.ones(losses.size), error=errors, blur=0.0)
    assert np.all(found.p_error[:-1] >= errors[:-1])
    assert np.all(found.p_error[:-1] <= errors[:-1] + 1e-15)


def test_the_largest_loss_keeps_its_point_from_below_where_a_step_is_as_small_as_a_rounding() -> None:
    """Nothing is above it from which its point could borrow, and half of all rounds are there."""
    found = (PoissonSampled(Laplace(13.0), 0.00049) * 738).guarantee(delta=2.96e-6)
    assert found.method == "exact"
    assert found.upper - found.lower <= 1e-6 * found.upper
