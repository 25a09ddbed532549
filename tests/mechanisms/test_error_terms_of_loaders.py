"""What the laws of loaders say that their masses, losses and bounds are off by: against many digits, term by term.

No inverse of a loss is exact. So masses are compared with those of the outputs that were found, and the losses of these
outputs, one by one, with those that were asked for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray

from dprounds import FixedSizeSampled, Gaussian, MixtureOfGaussians, RandomAllocation
from dprounds.accounting.cells import Cells
from dprounds.mechanisms import emptied_record, fixed_size_sampled, random_allocation, replaced_record, shuffled
from dprounds.mechanisms.replaced_record import _output_of, replaced_cells
from dprounds.numerics.mixture import log_mixture_inverse
from tests.references import replaced_record as reference

Array = NDArray[np.float64]
DIGITS = 50
PAIRS = [(1.0, 0.1), (0.4, 0.3), (3.0, 1e-3), (8.0, 0.9)]


def between(below: Sequence[mpf]) -> list[mpf]:
    """Masses of all intervals, by the masses below their ends."""
    return [b - a for a, b in itertools.pairwise([mpf(0), *below, mpf(1)])]


def assert_within(found: Array, exact: Sequence[mpf], errors: Array) -> None:
    """Each number is as close to the exact one as its error says."""
    assert len(found) == len(exact)
    for one, truth, error in zip(found.tolist(), exact, errors.tolist(), strict=True):
        assert abs(mpf(one) - truth) <= mpf(error)


def exact(values: Array) -> list[mpf]:
    return [mpf(float(value)) for value in values]


@pytest.mark.parametrize(("noise", "rate"), PAIRS)
def test_cells_of_a_replaced_record(noise: float, rate: float) -> None:
    edges = np.linspace(-1.3, 1.7, 61) * min(1.0, rate / noise)
    cells = replaced_cells(noise, rate, edges)
    with mp.workdps(DIGITS):
        s, q, x = mpf(noise), mpf(rate), exact(_output_of(noise, rate, edges))
        for masses, errors, m in ((cells.p, cells.p_error, 1), (cells.q, cells.q_error, -1)):
            below = [(1 - q) * mp.ncdf(end / s) + q * mp.ncdf((end - m) / s) for end in x]
            assert_within(masses, between(below), errors)
        for edge in edges:
            blur = replaced_cells(noise, rate, np.array([edge])).blur
            (output,) = exact(_output_of(noise, rate, np.array([edge])))
            assert abs(reference.loss(s, q, output) - mpf(float(edge))) <= mpf(blur)


def test_outputs_that_miss_their_losses_are_blurred(monkeypatch: pytest.MonkeyPatch) -> None:
    """An inverse that is good to nine digits only."""
    monkeypatch.setattr(replaced_record, "_output_of", lambda *given: _output_of(*given) * (1.0 + 1e-9))
    for edge in (-0.2, 0.1, 0.5):
        blur = replaced_cells(1.0, 0.1, np.array([edge])).blur
        with mp.workdps(DIGITS):
            output = mpf(float(_output_of(1.0, 0.1, np.array([edge]))[0] * (1.0 + 1e-9)))
            assert abs(reference.loss(mpf(1), mpf(0.1), output) - mpf(edge)) <= mpf(blur) <= 1e-8


@pytest.mark.parametrize(("noise", "rate"), PAIRS)
def test_cells_of_a_batch_of_fixed_size(noise: float, rate: float) -> None:
    """A replaced record: the cell around 0 has the atom, and what is next to it on either side."""
    edges = np.linspace(-1.5, 1.5, 41)[1::2] * min(1.0, rate / noise) + 1e-7
    cells = emptied_record.two_sided_cells([(1.0, noise)], rate, edges)
    with mp.workdps(DIGITS):
        s, q = mpf(noise), mpf(rate)

        def ends(positive: Array) -> list[list[mpf]]:
            """Masses under the mixture and under Q from 0 up to the first positive loss, and on."""
            v = log_mixture_inverse(rate, np.append(0.0, positive))
            below = [(mp.ncdf(s * one + 1 / (2 * s)), mp.ncdf(s * one - 1 / (2 * s))) for one in exact(v)]
            below.append((mpf(1), mpf(1)))
            return [
                [(1 - q) * (b[0] - a[0]) + q * (b[1] - a[1]) for a, b in itertools.pairwise(below)],
                [b[0] - a[0] for a, b in itertools.pairwise(below)],
            ]

        here, back = ends(edges[edges > 0]), ends(-edges[edges < 0][::-1])
        rest = (1 - q) * mp.erf(1 / (2 * s * mp.sqrt(2)))
        for masses, errors, first, second in ((cells.p, cells.p_error, 0, 1), (cells.q, cells.q_error, 1, 0)):
            middle = back[second][0] + rest + here[first][0]
            assert_within(masses, [*back[second][:0:-1], middle, *here[first][1:]], errors)


def profile(sigma: float, rate: float, direction: str, loss: mpf) -> tuple[mpf, mpf, mpf]:
    """The bound of an emptied record at a level from one on, and the masses of P and Q above it."""
    s, q = mpf(sigma), mpf(rate)

    def h(level: mpf) -> mpf:
        raised = 1 + (level - 1) / q
        one, two = (
            mp.ncdf(d / s / 2 - mp.log(raised) * s / d) - raised * mp.ncdf(-d / s / 2 - mp.log(raised) * s / d)
            for d in (mpf(1), mpf(2))
        )
        share = level / raised
        return q * one if direction == "add" else q * (share * one + (1 - share) * two)

    level = mp.exp(loss)
    slope = mp.diff(h, level)
    return h(level), h(level) - level * slope, -slope


@pytest.mark.parametrize(("sigma", "rate"), [(1.5, 0.1), (0.5, 0.01), (8.0, 0.01)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_the_profile_of_an_emptied_record(sigma: float, rate: float, direction: str) -> None:
    losses = np.geomspace(1e-4, 4.0, 25) * min(1.0, 3.0 * rate / sigma)
    found = emptied_record._emptied_profile(sigma, rate, direction, losses)
    with mp.workdps(DIGITS):
        truth = [profile(sigma, rate, direction, mpf(float(loss))) for loss in losses]
        for number, (values, errors) in enumerate(
            ((found.h, found.h_error), (found.p, found.p_error), (found.q, found.q_error))
        ):
            assert_within(values, [one[number] for one in truth], errors)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_the_cell_of_an_emptied_record_around_nothing(direction: str) -> None:
    """What is left of one, after all that is above the first positive loss and below the first negative one."""
    other = "add" if direction == "remove" else "remove"
    for sigma, rate in ((1.5, 0.1), (8.0, 0.01), (3.0, 0.02), (2.0, 0.4), (5.0, 0.003)):
        edge = 0.7 * rate / sigma
        cells = emptied_record.emptied_cells(sigma, rate, direction, np.array([-edge, edge]))
        with mp.workdps(DIGITS):
            above, below = (profile(sigma, rate, one, mpf(edge)) for one in (direction, other))
            moved = mpf(cells.blur) * 10  # the density of the loss at the edges, at most 10, times what they are off by
            assert abs(mpf(float(cells.p[1])) - (1 - above[1] - below[2])) <= mpf(float(cells.p_error[1])) + moved
            assert abs(mpf(float(cells.q[1])) - (1 - above[2] - below[1])) <= mpf(float(cells.q_error[1])) + moved
        # the tails at 0 count, and the tails at the edges
        tails = [emptied_record._emptied_tails(sigma, rate, one, np.array([0.0, edge])) for one in (direction, other)]
        counted = 64.0 * 2.0**-53 + tails[0].p_error[1] + tails[1].q_error[1]
        assert cells.p_error[1] >= counted * (1.0 - 1e-12)  # NumPy's exponentials of longer rows may round differently


@pytest.mark.parametrize(("sigma", "rate"), [(1.1, 256 / 60_000), (0.8, 0.004), (0.5, 0.01)])
def test_a_chord(sigma: float, rate: float) -> None:
    chord = emptied_record._chord(sigma, rate, "remove")
    assert chord is not None
    with mp.workdps(DIGITS):
        values = []
        for end in (chord.first, chord.last):
            loss = mpf(end)
            if loss >= 0:
                values.append(profile(sigma, rate, "remove", loss)[0])
            else:
                values.append(1 - mp.exp(loss) + mp.exp(loss) * profile(sigma, rate, "add", -loss)[0])
        first, last = mp.exp(mpf(chord.first)), mp.exp(mpf(chord.last))
        slope = (values[0] - values[1]) / (last - first)
        assert 0 < abs(mpf(chord.q) - slope) <= mpf(chord.q_error)
        assert 0 < abs(mpf(chord.p) - values[0] - first * slope) <= mpf(chord.p_error)


@pytest.mark.parametrize(("sigma", "rate"), [(2.0, 0.01), (0.3, 0.2), (8.0, 0.01), (1.0, 0.6)])
def test_cells_of_an_attack_on_an_emptied_record(sigma: float, rate: float) -> None:
    edges = np.linspace(-0.9, 1.7, 53) * min(1.0, rate / sigma)
    cells = emptied_record.emptied_attack_cells(sigma, rate, "remove", edges)
    left, right, is_reached = emptied_record._ratios_of_attack(sigma, rate, edges)
    with mp.workdps(DIGITS):
        s, q = mpf(sigma), mpf(rate)

        def loss(v: mpf) -> mpf:
            return mp.log((1 - q + q * mp.exp(2 * v - 1 / s**2)) / (1 - q + q * mp.exp(v)))

        v = exact(np.concatenate([left[::-1], right]))
        for masses, errors, m in ((cells.p, cells.p_error, 2), (cells.q, cells.q_error, 1)):
            below = [(1 - q) * mp.ncdf(s * e + 1 / s / 2) + q * mp.ncdf(s * e + (mpf(1) / 2 - m) / s) for e in v]
            parts = between(below)
            n = left.size
            folded = [one + (parts[n - i] if 0 < i <= n else 0) for i, one in enumerate(parts[n:])]
            assert_within(masses, folded, errors)
        for i, edge in enumerate(edges):
            if is_reached[i]:
                blur = emptied_record.emptied_attack_cells(sigma, rate, "remove", np.array([edge])).blur
                for end in [right[i], *left[i : i + 1]]:
                    assert abs(loss(mpf(float(end))) - mpf(float(edge))) <= mpf(blur)


def test_outputs_in_intervals_are_weaker_than_they_are() -> None:
    """Masses that are off by what is said, to the side that would make the attack too strong."""
    p, q = np.array([0.25, 0.5, 0.25]), np.array([0.5, 0.375, 0.125])
    off = 1e-6
    found = emptied_record.attack_cells(p * (1 + off), q * (1 - off), off * p * 1.01, off * q * 1.01)
    cells: Cells = found(np.array([-0.1, 0.5]))
    assert (cells.p <= p + 1e-12).all()
    assert (cells.q >= q - 1e-12).all()
    assert (cells.p_error > 0).all()


@pytest.mark.parametrize("steps", [2, 100, 10**6, 10**9])
@pytest.mark.parametrize("move", [0.1, 1.0, 4.0])
def test_masses_of_the_largest_sum(steps: int, move: float) -> None:
    x = np.linspace(-6.0, 11.0, 69)
    masses, errors = shuffled._masses(x, move, steps)
    with mp.workdps(DIGITS):
        m = mpf(move)
        assert_within(masses, between([mp.ncdf(e - m) * mp.ncdf(e) ** (steps - 1) for e in exact(x)]), errors)
        # a logarithm of the distribution function is counted with 16 units, times one plus the square of its argument
        inside = [i for i, end in enumerate(x) if 0.1 < float(mp.ncdf(end - m) * mp.ncdf(end) ** (steps - 1)) < 0.9]
        for i in inside:
            size = abs(mp.log(mp.ncdf(x[i] - m))) + (steps - 1) * abs(mp.log(mp.ncdf(x[i])))
            assert errors[i] >= 16.0 * 2.0**-53 * float(0.1 * size)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_cells_of_a_mixture_of_gaussians(direction: str) -> None:
    mechanism = MixtureOfGaussians(2.0, (0.0, 1.0, 3.0), (0.9, 0.07, 0.03))
    edges = np.linspace(-0.02, 0.6, 32) if direction == "remove" else np.linspace(-0.6, 0.02, 32)
    cells = mechanism._cells(direction, edges)
    v = mechanism._mixture.inverse(-edges[::-1] if direction == "add" else edges)
    with mp.workdps(DIGITS):
        s = mpf(mechanism._noise)
        parts = list(
            zip(
                exact(np.array(mechanism._mixture.slopes)),
                exact(np.array(mechanism._mixture.probabilities)),
                strict=True,
            )
        )
        rest = mpf(mechanism._mixture.rest)
        below = [
            rest * mp.ncdf(s * e + 1 / s / 2) + mp.fsum(p * mp.ncdf(s * e + (mpf(1) / 2 - r) / s) for r, p in parts)
            for e in exact(v)
        ]
        mixed = between(below)
        # the last end is the sum of all probabilities, which are one up to rounding
        mixed[-1] += rest + mp.fsum(p for _, p in parts) - 1
        plain = between([mp.ncdf(s * e + 1 / s / 2) for e in exact(v)])
        first, second = (mixed, plain) if direction == "remove" else (plain[::-1], mixed[::-1])
        assert_within(cells.p, first, cells.p_error)
        assert_within(cells.q, second, cells.q_error)
        for edge in edges:
            one = np.array([edge])
            sign = -1 if direction == "add" else 1
            (at,) = exact(mechanism._mixture.inverse(sign * one))
            if mp.isfinite(at):
                w = rest + mp.fsum(
                    p * mp.exp(r * at + mpf(o)) for (r, p), o in zip(parts, mechanism._mixture.offsets, strict=True)
                )
                assert abs(sign * mp.log(w) - mpf(float(edge))) <= mpf(mechanism._cells(direction, one).blur)


def test_probabilities_of_a_mixture_may_be_off_by_their_rounding_and_no_more() -> None:
    unit = 2.0**-53
    MixtureOfGaussians(1.0, (0.0, 1.0), (0.5, 0.5 + 16.0 * unit))
    with pytest.raises(ValueError, match="must sum to 1 up to rounding"):
        MixtureOfGaussians(1.0, (0.0, 1.0), (0.5, 0.5 + 24.0 * unit))


def test_a_ceiling_of_a_batch_of_fixed_size_is_above_every_value_between_its_points() -> None:
    """The ceiling from s on counts what lies between the points at which it was computed, and beyond the last one."""
    for noise, batch, t in ((2.0, 10, 0.5), (2.0, 10, 6.0), (8.0, 300, 2.0), (1.0, 500, 1.0)):
        law = FixedSizeSampled(Gaussian(noise), batch, 1000).law()
        assert law.ceiling is not None
        top = float(law.log_moment(np.array([t]))[0].real)
        starts = np.geomspace(0.5, 300.0, 8)
        for start in starts:
            (bound,) = law.ceiling(t, np.array([start]))
            s = start * np.array([1.0, 1.01, 1.2, 1.5, 3.0, 10.0])
            values = [float(np.real(law.log_moment(np.array([t + 1j * one]))[0])) for one in s]
            assert max(values) <= bound
            assert bound <= top + 1e-12 * abs(top) + 1e-300


def test_a_ceiling_counts_what_may_lie_between_its_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Squares of 1/2 at all points: steps are half of what is missing to one, so that 1/8 more may be between them."""

    def squares(_: object, first: float, step: float, number: int) -> tuple[list[float], list[float]]:
        return [first + step * i for i in range(1, number + 1)], [0.5] * number

    monkeypatch.setattr(fixed_size_sampled._Modulus, "squares", squares)
    law = FixedSizeSampled(Gaussian(2.0), 10, 1000).law()
    assert law.ceiling is not None
    top = float(law.log_moment(np.array([1.0]))[0].real)
    assert law.ceiling(1.0, np.array([2.0]))[0] >= top + 0.5 * math.log(0.625) - 1e-12


def test_sizes_that_a_modulus_leaves_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a hundredth of them is left out, and where the phases of all others turn together, so that they add up."""
    monkeypatch.setattr(fixed_size_sampled, "SQUARE_ERROR", 0.0)
    mechanism = FixedSizeSampled(Gaussian(2.0), 10, 1000)
    top = float(mechanism.log_moment(3.0))
    whole = [fixed_size_sampled._Modulus(mechanism, 3.0, top).square(s) for s in (1e-3, 1.0, 4.0, 16.0)]
    monkeypatch.setattr(fixed_size_sampled, "LEFT_OUT", 0.3)
    modulus = fixed_size_sampled._Modulus(mechanism, 3.0, top)
    part = [modulus.square(s) for s in (1e-3, 1.0, 4.0, 16.0)]
    assert modulus._octaves[4.0].left_out > 1e-3
    assert all(one >= other for one, other in zip(part, whole, strict=True))


def test_moments_of_an_allocation_are_raised_by_twice_their_error() -> None:
    """log(m (1 + e)) is at most log m + 2e for e up to 1/4, also if m is computed, and e is relative to the truth."""
    for error in (1e-12, 0.01, 0.2499):
        for sign in (1, -1):
            computed = math.log1p(sign * error)  # of a moment of one
            assert random_allocation._above(np.array([computed]), np.array([error]))[0] >= 0.0
    assert random_allocation._above(np.zeros(1), np.array([0.25]))[0] == math.inf
    bounds = RandomAllocation(Gaussian(1.0), 10).rdp(np.array([1.5, 4.0]))
    assert (
        bounds >= RandomAllocation(Gaussian(1.0), 10)._moments(np.array([0.5, 3.0]), "remove")[0] / [0.5, 3.0]
    ).all()
