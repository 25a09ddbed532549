"""Profiles by lines of the law itself, against closed forms, published values and arbitrary precision."""

from __future__ import annotations

import gc
import json
import math
import sys
from contextvars import copy_context
from itertools import product
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dprounds.accounting import profile as accounting_profile
from dprounds.accounting.best_order import RenyiCurve, delta_by_orders, epsilon_by_orders
from dprounds.accounting.bracket import Bracket
from dprounds.accounting.direction import _all_at_their_largest, delta_of
from dprounds.accounting.law import Composition, LossLaw
from dprounds.accounting.profile import Profile
from dprounds.accounting.sums import WithinDoubles
from dprounds.accounting.ways.by_lattice import ByLattice
from dprounds.errors import NumericalError
from dprounds.mechanisms import (
    ApproximateDP,
    DiscreteGaussian,
    DiscretePair,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
)
from dprounds.mechanisms.base import Run
from tests.accounting.ways import by_lattice, by_line
from tests.references import gaussian, profile

DATA = Path(__file__).parents[1] / "data"


def rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / f"{name}.json").read_text("utf-8"))["rows"]
    return found


def sampled(row: dict[str, Any]) -> Run:
    rounds: int = row["rounds"]
    return PoissonSampled(Gaussian(row["noise_multiplier"]), row["sampling_rate"]) * rounds


def curve(run: Run) -> RenyiCurve:
    return lambda orders: np.asarray(run.rdp(orders))


def assert_tight(found: Bracket, truth: Any, relative: float) -> None:
    """The truth is inside, with no tolerance, and the bracket is narrow."""
    with mp.workdps(40):
        truth = mp.mpf(truth)
        assert mp.mpf(found.lower) <= truth <= mp.mpf(found.upper), (found, truth)
        assert found.upper - found.lower <= relative * truth, (found, truth)


def test_gaussian_profiles_agree_with_the_closed_form() -> None:
    for row in rows("gaussian_profile"):
        run = Gaussian(1 / row["shift"]) * 1
        epsilon = row["epsilon_double"]
        with mp.workdps(50):
            shift = 1 / mp.mpf(1 / row["shift"])  # the shift of this very noise multiplier
            x = mp.mpf(epsilon)
            truth = mp.ncdf(shift / 2 - x / shift) - mp.exp(x) * mp.ncdf(-shift / 2 - x / shift)
            assert abs(truth / mp.mpf(row["delta_at_epsilon_double"]) - 1) < 1e-9
        assert_tight(by_line(run).delta(epsilon), truth, 1e-9)
        found = by_line(run).epsilon(row["delta"])
        assert found.lower <= float(row["epsilon"]) * (1 + 1e-12)
        assert abs(found.upper - float(row["epsilon"])) <= 1e-10 * float(row["epsilon"])


@pytest.mark.parametrize("shift", [1e-3, 0.1, 1.0, 12.0])
@pytest.mark.parametrize("log10_delta", [-300, -100, -12, -3])
def test_gaussian_epsilon_is_between_its_bounds_over_the_range_of_doubles(shift: float, log10_delta: int) -> None:
    delta = 10.0**log10_delta
    found = by_line(Gaussian(1 / shift) * 1).epsilon(delta)
    exact = 1 / (1 / shift)
    if found.upper > 0:
        assert gaussian.delta(exact, found.upper) <= delta
        assert gaussian.delta(exact, found.lower) >= delta
        assert found.upper - found.lower <= 1e-10 * found.upper + 1e-12 * shift
    else:
        assert gaussian.delta(exact, 0.0) <= delta


def test_epsilon_is_zero_where_total_variation_is_below_delta() -> None:
    one = by_line(Gaussian(5.0) * 1)  # total variation 0.0797
    assert one.epsilon(0.08) == (0.0, 0.0)
    assert one.epsilon(0.5) == (0.0, 0.0)
    assert 0 < one.epsilon(0.079).lower < 0.01


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("row", rows("sampled_gaussian_profile"), ids=lambda row: f"{row['noise_multiplier']}")
def test_sampled_gaussian_profiles_are_met_to_nine_digits(row: dict[str, Any], direction: str) -> None:
    found = by_line(sampled(row), direction).delta(row["epsilon"])
    assert_tight(found, row[f"delta_{direction}"], 1e-9)


def test_published_high_precision_epsilons_are_met() -> None:
    published = rows("saddle_point_truth")
    assert len(published) == 32
    for row in published:
        found = by_line(sampled(row), "remove").epsilon(row["delta"])
        with mp.workdps(30):
            relative = mp.mpf(found.upper) / mp.mpf(row["epsilon"]) - 1
        assert 0 <= relative < 1e-11, row
        # 18 digits are printed; those of 1596 rounds are right to 12 (see the next test)
        assert found.lower <= float(row["epsilon"]) * (1 + (1e-12 if row["rounds"] == 1596 else 1e-15)), row


def test_thirty_digits_side_with_us_on_the_published_value_of_1596_rounds() -> None:
    row = rows("saddle_point_truth")[1]
    # The trapezoid rule on Re z = 32.7 in 30 digits, with M from tests/references/moments.py; it takes a minute.
    truth = mp.mpf(1e-15) * (1 + mp.mpf("3.567625642e-11"))
    assert_tight(by_line(sampled(row), "remove").delta(float(row["epsilon"])), truth, 1e-10)


@pytest.mark.parametrize(
    ("run", "delta", "epsilon"),
    [
        (PoissonSampled(Gaussian(1.0), 0.01) * 10_000, 1e-5, 6.18771),
        (PoissonSampled(Gaussian(1.1), 256 / 60_000) * 14_062, 1e-5, 2.38160),
        (PoissonSampled(Gaussian(4.0), 0.001) * 100_000, 1e-5, 0.26867),
        # where accountants that sum untilted masses by FFT report 7.499 and 12.429
        (Gaussian(300.0) * 100_000, 1e-13, 8.004),
        (Gaussian(20.0) * 1000, 1e-13, 12.498),
    ],
    ids=str,
)
def test_known_runs(run: Run, delta: float, epsilon: float) -> None:
    found = by_line(run).epsilon(delta)
    digits = 5 if delta == 1e-5 else 3
    assert round(found.upper, digits) == epsilon
    assert found.upper - found.lower < 1e-11 * found.upper
    assert found.upper < epsilon_by_orders(curve(run), infinite_mass=0.0, delta=delta, method="optimal").value


def test_the_worst_direction_is_the_larger_of_both() -> None:
    run = PoissonSampled(Gaussian(1.0), 0.2) * 50
    both, backward = by_line(run), by_line(run, "add", "remove")
    one = {direction: by_line(run, direction) for direction in run.directions}
    for epsilon in (0.3, 2.0):
        each = [profile.delta(epsilon) for profile in one.values()]
        assert both.delta(epsilon).upper == max(found.upper for found in each)
        assert backward.delta(epsilon).lower == pytest.approx(max(found.lower for found in each), rel=1e-9)
    assert both.epsilon(1e-4).upper == max(profile.epsilon(1e-4).upper for profile in one.values())
    # at epsilon 0 it is the total variation, and what is proven of it in one direction holds for the other
    assert both.delta(0.0) == backward.delta(0.0) == one["add"].delta(0.0)
    assert one["remove"].delta(0.0).lower <= one["add"].delta(0.0).upper
    assert one["add"].delta(0.0).lower <= one["remove"].delta(0.0).upper


def test_at_epsilon_0_one_direction_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    laws = (PoissonSampled(Gaussian(1.0), 0.2) * 50).laws
    whole, remove = Profile(laws).delta(0.0), Profile({"remove": laws["remove"]}).delta(0.0)

    def of_remove_alone(law: Composition, epsilon: float) -> Bracket:
        if law is laws["add"]:  # whose losses are smaller
            raise NumericalError("this direction has no sum")
        return delta_of(law, epsilon)

    monkeypatch.setattr(accounting_profile, "delta_of", of_remove_alone)
    assert Profile(laws).delta(0.0) == remove != whole


@pytest.mark.parametrize("rounds", [10**3, 10**6, 10**9, 10**12])
def test_many_rounds_stay_exact(rounds: int) -> None:
    run = PoissonSampled(Gaussian(2.0), 0.01) * rounds
    found = by_line(run, "remove").epsilon(1e-6)
    assert 0 < found.upper - found.lower < 1e-9 * found.upper
    # Down to the truth: at the upper epsilon delta is met, and by no more than the bracket is wide.
    back = by_line(run, "remove").delta(found.upper)
    assert back.lower <= 1e-6
    assert back.upper > 1e-6 * (1 - 1e-6)


def test_exact_is_at_most_what_the_best_order_proves() -> None:
    for run in (Gaussian(3.0) * 7, PoissonSampled(Gaussian(0.8), 0.02) * 500, Laplace(2.0) * 10):
        for delta in (1e-10, 1e-3, 0.1):
            found = by_line(run).epsilon(delta)
            proven = epsilon_by_orders(curve(run), infinite_mass=0.0, delta=delta, method="optimal").value
            # Laplace at 1e-10 is within 1e-7 of its cap, where K is some 1e10 and rounds by as much
            assert found.lower <= found.upper <= proven * (1 + 1e-11)
        for epsilon in (0.0, 0.5, 2.0):
            exact = by_line(run).delta(epsilon)
            bound = delta_by_orders(curve(run), infinite_mass=0.0, epsilon=epsilon, method="optimal").value
            assert exact.lower <= exact.upper <= bound


def test_a_mass_at_infinity_is_added_outside() -> None:
    run = ApproximateDP(0.1, 1e-7) * 100
    mass = run.infinite_mass
    one = run.account.profile
    assert one.epsilon(0.99 * mass) == (math.inf, math.inf)
    with mp.workdps(40):
        told = 1 - (1 - mp.mpf(1e-7)) ** 100
    assert_tight(one.delta(20.0), told, 1e-14)
    finite = (1 - mp.mpf(1e-7)) ** 100 * profile.randomized_response(0.1, 100, 3.05)
    assert_tight(one.delta(3.05), told + finite, 1e-11)
    found = one.epsilon(2 * mass)
    assert one.delta(found.upper).lower <= 2 * mass <= one.delta(found.lower).upper
    assert found.upper - found.lower <= 1e-9 * found.upper


def test_nothing_released_costs_nothing() -> None:
    nothing = Profile({"remove": Composition()})
    for one in (nothing, Run().account.profile):
        assert one.epsilon(1e-9) == (0.0, 0.0)
        assert one.delta(0.0) == (0.0, 0.0)
        assert (one.deltas(np.array([0.0, 1.0])).upper == 0.0).all()


def test_beyond_the_largest_loss_delta_is_zero() -> None:
    for one in ((RandomizedResponse(1.0) * 3).account.profile, (Laplace(1.0) * 3).account.profile):
        assert one.delta(3.0000001) == (0.0, 0.0)
        assert one.delta(math.inf) == (0.0, 0.0)
        assert (one.deltas(np.array([3.0, 3.0000001, math.inf])).upper == 0.0).all()
        for delta in (1e-12, 1e-100, 1e-300):
            found = one.epsilon(delta)
            assert 2.99 < found.lower <= found.upper <= 3.0


@pytest.mark.parametrize(
    ("run", "precision"),
    [
        (PoissonSampled(Gaussian(1.0), 0.01) * 5000, 1e-9),
        (PoissonSampled(Gaussian(1.1), 256 / 60_000) * 200, 1e-9),
        (RandomizedResponse(0.1) * 500, 1e-9),
        (PoissonSampled(RandomizedResponse(1.0), 0.1) * 500, 1e-9),
        (DiscreteGaussian(3.0) * 40, 1e-9),
        (PoissonSampled(Laplace(2.0), 0.05) * 40, 1e-5),  # one lattice for all of them
        (ApproximateDP(0.1, 1e-6) * 300, 1e-9),
        (Gaussian(2.0) * 3, 1e-9),
    ],
    ids=repr,
)
def test_a_row_of_epsilons_agrees_with_each_by_itself(run: Run, precision: float) -> None:
    """Whatever line or lattice serves: two brackets of one delta overlap, and one is about as narrow as the other."""
    one = run.account.profile
    epsilon = np.array([3.0, 0.0, 0.5, 6.0, 0.6])
    together = one.deltas(epsilon)
    for index, value in enumerate(epsilon):
        alone = one.delta(float(value))
        assert together.lower[index] <= alone.upper
        assert alone.lower <= together.upper[index]
        assert together.upper[index] <= alone.upper * (1 + precision)
        assert together.lower[index] >= alone.lower * (1 - precision)


def test_a_row_of_epsilons_is_narrow() -> None:
    one = (PoissonSampled(Gaussian(1.0), 0.01) * 5000).account.profile
    lower, upper = one.deltas(np.array([3.0, 0.0, 0.5, 6.0, 3.1]))
    assert (upper <= lower * (1 + 1e-9)).all()


def test_a_law_without_a_moment_function_raises() -> None:
    nothing = Profile({"remove": LossLaw(log_moment=lambda z: np.full_like(z, np.nan)) * 1})
    with pytest.raises(NumericalError):
        nothing.delta(1.0)
    with pytest.raises(NumericalError):
        nothing.epsilon(1e-5)
    with pytest.raises(NumericalError):
        nothing.deltas(np.array([1.0]))
    assert nothing.deltas(np.array([1.0]), all_or_none=False).upper[0] == math.inf


def test_a_row_that_one_way_cannot_resolve_is_asked_of_another() -> None:
    """Far out a line made for such an epsilon tells nothing: the row has what the run says at each epsilon."""
    run = PoissonSampled(Gaussian(2.153670396140609), 0.0015985425787582727) * 537
    epsilons = [0.0, 0.05, 0.1, 0.2205094858631251]
    row = np.asarray(run.profile(epsilons))
    assert row == pytest.approx([run.delta(epsilon=epsilon) for epsilon in epsilons], rel=1e-2)
    assert row[-1] < 1e-17


def test_a_computation_that_is_left_half_way_is_freed_without_a_complaint(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a worker of the page leaves one that was given up: in a context of its own, without the end of its block."""
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)

    def leave() -> None:
        WithinDoubles().__enter__()
        assert np.geterr()["over"] == "ignore"

    copy_context().run(leave)
    gc.collect()
    assert complaints == []
    with pytest.raises(NumericalError, match="outside what doubles resolve"), WithinDoubles():
        raise ZeroDivisionError


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_all_rounds_at_their_largest_loss_bound_epsilon_from_below(rounds: int, delta: float) -> None:
    """Against the sum over all outcomes, in arbitrary precision."""
    p, q = (0.5, 0.25, 0.25), (0.25, 0.25, 0.5)
    found = _all_at_their_largest(DiscretePair(p, q).law("remove") * rounds, delta)
    with mp.workdps(40):
        outcomes = list(product(range(3), repeat=rounds))
        losses = [(mp.fprod(p[i] for i in one), mp.fprod(q[i] for i in one)) for one in outcomes]
        at = mp.fsum(max(a - mp.exp(mp.mpf(found)) * b, 0) for a, b in losses)
        assert at >= delta
        if delta < 1e-5:
            assert found > 0.999 * rounds * math.log(2.0)


def test_a_delta_above_that_event_is_not_bounded_by_it() -> None:
    assert _all_at_their_largest(DiscretePair((0.5, 0.25, 0.25), (0.25, 0.25, 0.5)).law("remove") * 2, 0.3) == 0.0


@pytest.mark.parametrize(
    ("run", "delta"),
    [
        (DiscreteGaussian(1.736) * 3 + PoissonSampled(Gaussian(0.526), 7e-5) * 438_421, 1.5e-5),
        (PoissonSampled(Gaussian(6.05), 5e-5, group_size=2) * 53_319, 6.5e-10),
        (PoissonSampled(Gaussian(0.314), 5.4e-5) * 219_371_445, 1e-16),
        (PoissonSampled(Gaussian(0.81), 7.3e-4, group_size=4) * 32_178 + RandomizedResponse(0.37) * 12, 6.6e-6),
    ],
    ids=repr,
)
def test_what_a_poor_guess_refuses_is_made_near_the_epsilon_that_a_lattice_found(run: Run, delta: float) -> None:
    """The bracket of a line, or of levels, meets that of a lattice, which is proven in another way."""
    found = run.guarantee(delta=delta)
    assert found.method == "exact"
    assert found.upper - found.lower <= 1e-8 * found.upper
    lattice = by_lattice(run).epsilon(delta)
    assert lattice.lower <= found.upper
    assert found.lower <= lattice.upper


def test_a_bracket_from_below_is_not_narrowed_by_its_upper_end() -> None:
    """That end may be anything: what a run costs at least is no more than what it costs."""
    run = PoissonSampled(Gaussian(6.05), 5e-5, group_size=2) * 53_319
    assert run.account.profile.least_epsilon(6.5e-10) <= run.epsilon(delta=6.5e-10)


@pytest.mark.parametrize("epsilon", [0.2, 0.8])
def test_a_coarse_lattice_of_a_search_from_below_proves_no_lower_end_from_above(epsilon: float) -> None:
    """An estimate is made on a lattice that bounds from above; its lower end is not that of the law."""
    law = FixedSizeSampled(Gaussian(2.0), 100, 10_000, relation="zero-out").attack_law("remove") * 100
    truth = Profile({"remove": law}).delta(epsilon)
    sums = ByLattice(law, from_below=True).sums(epsilon, fine=False)
    assert sums.above.at(epsilon).lower > truth.upper
    assert 0.9 * truth.lower < sums.below.at(epsilon).lower <= truth.upper
    assert sums.at(epsilon).lower <= truth.upper


def test_epsilon_next_to_zero_is_found_from_a_guess_far_away() -> None:
    """The first places of the search are so far off that the sum is below its digits there."""
    for step, rounds, delta in (
        (FixedSizeSampled(Gaussian(15.272888263171957), 2, 199_676, group_size=20), 1, 5.699561167959869e-09),
        (FixedSizeSampled(Gaussian(3.065485801710201), 1, 1_246_165, "zero-out", 16), 471, 2.7469498625902064e-05),
    ):
        found = (step * rounds).guarantee(delta=delta)
        smaller = (step * rounds).guarantee(delta=0.99 * delta)
        assert found.lower < found.upper <= smaller.upper
