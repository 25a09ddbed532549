"""Several records of one person in batches of fixed size and in shuffled ones: no attack passes the upper end."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

from dprounds import (
    FixedSizeSampled,
    Gaussian,
    MixtureOfGaussians,
    ParameterError,
    PoissonSampled,
    RandomAllocation,
    Shuffled,
)
from dprounds.accounting.cells import Cells
from dprounds.accounting.profile import Profile
from dprounds.mechanisms.grouped_batches import Part, chances_in_batch, kept, log_mean_exp, mixed_cells

Array = NDArray[np.float64]
RELATIONS = ("replace-one", "zero-out")


@pytest.mark.parametrize(
    ("batch", "dataset", "group"), [(2, 5, 2), (3, 6, 3), (4, 6, 3), (1, 4, 3), (5, 5, 2), (2, 6, 1)]
)
def test_chances_are_those_of_all_batches(batch: int, dataset: int, group: int) -> None:
    batches = list(itertools.combinations(range(dataset), batch))
    counted = Counter(sum(record < group for record in one) for one in batches)
    assert chances_in_batch(batch, dataset, group) == {
        j: Fraction(number, len(batches)) for j, number in sorted(counted.items())
    }


def densities(records: tuple[int, ...], batch: int, sigma: float, x: Array) -> Array:
    """Of the noisy sum of a batch, all of them being equally likely."""
    sums = Counter(sum(one) for one in itertools.combinations(records, batch))
    kernels = [number * np.exp(-0.5 * ((x - one) / sigma) ** 2) for one, number in sums.items()]
    return np.asarray(sum(kernels) / sums.total() / (sigma * math.sqrt(math.tau)))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("batch", "dataset"), [(2, 5), (1, 4), (3, 4)])
def test_no_pair_of_small_data_sets_passes_the_upper_end(relation: str, batch: int, dataset: int) -> None:
    """Two records differ, and all others are alike: every choice of -1, 0 and 1, in one round and in two."""
    sigma = 1.5
    step = FixedSizeSampled(Gaussian(sigma), batch, dataset, relation, group_size=2)
    x = np.linspace(-3.0 - 8.0 * sigma, 3.0 + 8.0 * sigma, 401)
    width = float(x[1] - x[0])
    afters = [(0, 0)] if relation == "zero-out" else list(itertools.product((-1, 0, 1), repeat=2))
    pairs = []
    for rest in itertools.combinations_with_replacement((-1, 0, 1), dataset - 2):
        for here, there in itertools.product(itertools.product((-1, 0, 1), repeat=2), afters):
            pairs.append([densities((*one, *rest), batch, sigma, x) for one in (here, there)])
    for epsilon in (0.0, 0.5, 1.5):
        one, two = step.delta(epsilon=epsilon), (step * 2).delta(epsilon=epsilon)
        largest = 0.0
        for number, (p, q) in enumerate(pairs):
            for first, second in ((p, q), (q, p)):
                attack = float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum()) * width
                largest = max(largest, attack)
                assert attack <= one + 2e-4  # a sum over a grid stands for the integral
                if number % 7 == 0:
                    product = np.outer(first, first) - math.exp(epsilon) * np.outer(second, second)
                    assert float(np.maximum(product, 0.0).sum()) * width**2 <= two + 2e-4
        assert epsilon or largest >= 0.6 * one  # weak attacks would test nothing


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_group_of_one_is_one_record_and_larger_groups_cost_more(relation: str) -> None:
    run = [FixedSizeSampled(Gaussian(4.0), 50, 1_000, relation, group_size=k) * 200 for k in (1, 2, 3)]
    found = [one.guarantee(delta=1e-6) for one in run]
    assert run[0] == FixedSizeSampled(Gaussian(4.0), 50, 1_000, relation) * 200
    assert found[0].upper < found[1].upper < found[2].upper
    assert all(one.method == "bound" and one.lower < one.upper for one in found)
    for one, bracket in zip(run, found, strict=True):
        assert bracket.upper < one.epsilon(delta=1e-6, method="optimal")
        for order in (1.5, 8.0, 200.0):
            whole = Gaussian((2.0 if relation == "replace-one" else 4.0) / 3) * 200
            assert one.rdp(order) <= whole.rdp(order) or relation == "zero-out"
    # twice the records, each by itself, are less than two that are always in a batch together
    together = FixedSizeSampled(Gaussian(2.0), 50, 1_000, relation) * 200
    assert found[1].upper < 1.3 * together.guarantee(delta=1e-6).upper


def test_the_lower_end_of_replaced_records_is_a_mixture_of_gaussians() -> None:
    chances = [float(one) for one in chances_in_batch(10, 1_000, 4).values()]
    attack = MixtureOfGaussians(8.0, [0.0, 2.0, 4.0, 6.0, 8.0], chances) * 1_000
    found = (FixedSizeSampled(Gaussian(8.0), 10, 1_000, group_size=4) * 1_000).guarantee(delta=1e-5)
    exact = attack.law("remove")
    assert exact is not None
    assert found.lower <= attack.epsilon(delta=1e-5)
    assert found.lower == pytest.approx(attack.epsilon(delta=1e-5), rel=1e-9)


@pytest.mark.parametrize(
    ("direction", "sigma", "epsilon"),
    [("remove", 3.0, 0.1), ("remove", 1.0, 1.0), ("remove", 0.7, 3.0), ("add", 3.0, 0.1), ("add", 1.0, 0.1)],
)
def test_the_lower_end_of_emptied_records_is_below_a_real_attack(direction: str, sigma: float, epsilon: float) -> None:
    """All others at -1, and three of the group's at 1 or 0: the sums of a batch are 2 j, or j, above the others'."""
    step = FixedSizeSampled(Gaussian(sigma), 10, 60, "zero-out", group_size=3)
    shown = Profile({direction: step.attack_law(direction) * 1}).delta(epsilon).lower
    chances = chances_in_batch(10, 60, 3)

    def above(x: mp.mpf, norm: int) -> mp.mpf:
        """The mass above an output of a batch of records of that norm."""
        return mp.fsum(
            mp.mp.mpf(c.numerator) / c.denominator * mp.ncdf((norm * j - x) / sigma) for j, c in chances.items()
        )

    with mp.workdps(30):
        # at 1,000 outputs, of which those count at which the one law is above the other: no more than an attack
        x = [mp.mp.mpf(-6 * sigma) + (6 + 12 * sigma) * mp.mp.mpf(i) / 1000 for i in range(1001)]
        tails = [[mp.mp.mpf(1), *(above(one, norm) for one in x), mp.mp.mpf(0)] for norm in (2, 1)]
        p, q = tails if direction == "remove" else tails[::-1]
        pieces = [p[i] - p[i + 1] - mp.exp(epsilon) * (q[i] - q[i + 1]) for i in range(len(p) - 1)]
        largest = mp.fsum(max(piece, 0) for piece in pieces)
        # the truth is above it by no more than the pieces in which the difference changes its sign
        turns = [i for i in range(1, len(pieces)) if (pieces[i] > 0) != (pieces[i - 1] > 0)]
        most = largest + mp.fsum(abs(pieces[i - 1]) + abs(pieces[i]) for i in turns)
        assert shown <= most
        assert shown >= largest * mp.mp.mpf("0.995")  # its losses are rounded down to a lattice


def test_a_group_of_which_a_batch_nearly_never_holds_all_is_answered() -> None:
    """The chance of all 100 is below the doubles; it is raised."""
    step = FixedSizeSampled(Gaussian(5.0), 1000, 10**8, group_size=100)
    assert step.rdp(200.0) > 1e5  # all 100 of them at once, however rare


def test_groups_that_are_in_every_batch() -> None:
    for relation, noise in (("replace-one", 1.0), ("zero-out", 2.0)):
        whole = (FixedSizeSampled(Gaussian(2.0), 50, 50, relation, group_size=4) * 3).guarantee(delta=1e-5)
        assert whole.method == "exact"
        assert whole.upper == pytest.approx((Gaussian(noise / 4) * 3).epsilon(delta=1e-5), rel=1e-12)
        # two of three in every batch of four of five, or three
        some = (FixedSizeSampled(Gaussian(2.0), 4, 5, relation, group_size=3) * 3).guarantee(delta=1e-5)
        ends = [(Gaussian(noise / j) * 3).epsilon(delta=1e-5) for j in (2, 3)]
        assert ends[0] < some.upper <= ends[1]


def test_masses_of_a_mixture_are_off_by_the_rounding_of_its_weights() -> None:
    one = Cells(np.array([0.25, 0.75]), np.array([0.5, 0.5]), np.zeros(2), np.zeros(2), 1e-9)
    other = Cells(np.array([0.1, 0.9]), np.array([0.2, 0.8]), np.full(2, 1e-3), np.full(2, 2e-3), 2e-9)
    third = 1.0 / 3.0
    found = mixed_cells([Part(third, lambda _: one), Part(1.0 - third, lambda _: other)], np.zeros(1))
    exact = [Fraction(1, 3) * Fraction(0.25) + Fraction(2, 3) * Fraction(0.1)]
    assert abs(Fraction(float(found.p[0])) - exact[0]) <= Fraction(float(found.p_error[0]))
    assert found.p_error[0] >= (1.0 - third) * 1e-3 + 4.0 * 2.0**-53 * found.p[0]
    assert found.q_error[1] >= (1.0 - third) * 2e-3 + 4.0 * 2.0**-53 * found.q[1]
    assert found.blur == 2e-9
    assert log_mean_exp([0.5, 0.5], [np.array([1e-12, 900.0]), np.array([3e-12, 0.0])]) == pytest.approx(
        [2e-12, 900.0 + math.log(0.5)], rel=1e-9
    )


def test_rdp_is_above_the_mean_where_a_rare_number_of_records_costs_much() -> None:
    """Ten records are rarely together in a batch; then they cost more than one nat, and on average next to nothing."""
    steps: list[PoissonSampled | FixedSizeSampled] = [
        PoissonSampled(Gaussian(8.0), 1e-6, relation="replace-one", group_size=10),
        FixedSizeSampled(Gaussian(8.0), 10, 10**7, group_size=10),
    ]
    for step in steps:
        for order in (2.0, 8.0):
            with mp.workdps(40):
                t = mp.mpf(order) - 1
                grown = [mp.mpf(w) * mp.expm1(t * mp.mpf(float(one.rdp(order)))) for w, one in step._members]
                assert t * max(one.rdp(order) for _, one in step._members) > 1 or order == 2
                assert mp.mpf(step.rdp(order)) >= mp.log1p(sum(grown)) / t


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_group_in_shuffled_batches_is_at_worst_in_one_of_them(relation: str) -> None:
    epoch = Shuffled(Gaussian(4.0), 20, relation, group_size=4)
    noise = 0.5 if relation == "replace-one" else 1.0
    found = (epoch * 3).guarantee(delta=1e-5)
    assert found.upper == pytest.approx((Gaussian(noise) * 3).epsilon(delta=1e-5), rel=1e-12)
    assert found.upper >= (Gaussian(noise) * 3).guarantee(delta=1e-5).lower  # which is proven
    assert found.lower == (Shuffled(Gaussian(4.0), 20, relation) * 3).guarantee(delta=1e-5).lower
    assert epoch.allocated == RandomAllocation(Gaussian(4.0), 20, relation="zero-out", group_size=4)
    assert (Shuffled(Gaussian(4.0), 1, relation, group_size=4) * 3).guarantee(delta=1e-5).method == "exact"


def test_no_pair_of_shuffled_data_sets_passes_the_upper_end() -> None:
    """Two of four records differ; two batches of two."""
    sigma = 2.0
    x = np.linspace(-3.0 - 7.0 * sigma, 3.0 + 7.0 * sigma, 201)
    area = float(x[1] - x[0]) ** 2

    def density(records: tuple[int, ...]) -> Array:
        total = np.zeros((x.size, x.size))
        for first in itertools.combinations(range(4), 2):
            sums = sum(records[i] for i in first), sum(records[i] for i in range(4) if i not in first)
            one, two = (np.exp(-0.5 * ((x - s) / sigma) ** 2) / (sigma * math.sqrt(math.tau)) for s in sums)
            total += np.outer(one, two) / 6.0
        return total

    for relation, after in (("zero-out", (0, 0)), ("replace-one", (-1, -1))):
        epoch = Shuffled(Gaussian(sigma), 2, relation, group_size=2)
        for rest in itertools.combinations_with_replacement((-1, 0, 1), 2):
            p, q = density((1, 1, *rest)), density((*after, *rest))
            for epsilon in (0.0, 0.5, 1.5):
                for first, second in ((p, q), (q, p)):
                    attack = float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum()) * area
                    assert attack <= epoch.delta(epsilon=epsilon) + 1e-3


def test_what_cannot_be_is_refused_in_one_line() -> None:
    with pytest.raises(ParameterError, match=r"group_size must be an integer in \[1, 50\], got 51"):
        FixedSizeSampled(Gaussian(1.0), 10, 50, group_size=51)
    with pytest.raises(ParameterError, match=r"group_size must be an integer in \[1, 100\], got 101"):
        FixedSizeSampled(Gaussian(1.0), 10, 500, group_size=101)
    with pytest.raises(ParameterError, match=r"group_size must be an integer in \[1, 1000\], got 0"):
        Shuffled(Gaussian(1.0), 10, group_size=0)


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_numbers_that_are_too_rare_count_as_losses_without_end(relation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The larger the part that counts so, the larger is delta, by no more than its weight in all rounds."""
    step = FixedSizeSampled(Gaussian(8.0), 100, 10_000, relation=relation, group_size=6)
    exact = (step * 50).account.profile.delta(2.0).upper
    monkeypatch.setattr("dprounds.mechanisms.grouped_batches.RAREST", 1e-3)
    few = FixedSizeSampled(Gaussian(8.0), 100, 10_000, relation=relation, group_size=6)
    weight = sum(weight for weight, _ in few._members[2:])
    assert len(kept(few._members).parts) < 4
    laws = {direction: few._mixed_law(direction, {}) * 50 for direction in few.directions}
    found = Profile(laws).delta(2.0).upper
    rest = kept(few._members).rest
    assert exact + 0.5 * rest <= found <= exact + 50.0 * weight
