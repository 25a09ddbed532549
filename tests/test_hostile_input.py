"""What no caller should send, and what must not make an answer smaller when it comes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from dprounds import (
    ZCDP,
    Accountant,
    ApproximateDP,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    NumericalError,
    ParameterError,
    PoissonSampled,
    PrivacyError,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    RdpCurve,
    delta_from_rdp,
    epsilon_from_rdp,
    joint_range,
    max_rounds,
    max_sampling_rate,
    min_noise_multiplier,
    rdp_from_dp,
    worst_pair,
)
from dprounds.accounting.cells import LatticeLaw
from dprounds.accounting.lattice import LatticePlan, lattice_line
from dprounds.curves import epsilon_over_rounds, privacy_profile, trade_off_curve
from dprounds.divergences import hockey_stick, kl, renyi, total_variation
from dprounds.mechanisms import Mechanism, Run
from dprounds.questions import Setting
from dprounds.questions.ask import epsilon as ask_epsilon
from dprounds.web.asked import answer

NONSENSE: list[Any] = [
    *(math.nan, -1.0, -math.inf, True, "abc", "1", None, 1j, {}, object(), b"1"),
    *([[1.0], [1.0, 2.0]], np.array([["a", "b"], ["c", "d"]]), 10**5000, np.array(math.nan)),
]
ONE_NUMBER: dict[str, Callable[[Any], object]] = {
    "Gaussian": Gaussian,
    "Laplace": Laplace,
    "DiscreteGaussian": DiscreteGaussian,
    "RandomizedResponse": RandomizedResponse,
    "PureDP": PureDP,
    "ZCDP": ZCDP,
    "ApproximateDP.epsilon": lambda value: ApproximateDP(value, 1e-5),
    "ApproximateDP.delta": lambda value: ApproximateDP(1.0, value),
    "PoissonSampled": lambda value: PoissonSampled(Gaussian(1.0), value),
    "RdpCurve.orders": lambda value: RdpCurve(value, [1.0]),
    "RdpCurve.rdps": lambda value: RdpCurve([2.0], value),
    "rounds": lambda value: Gaussian(1.0) * (-1 if type(value) is int else value),
    "parts": Run,
    "run.epsilon": lambda value: Gaussian(1.0).epsilon(delta=value),
    "run.delta": lambda value: Gaussian(1.0).delta(epsilon=value),
    "run.method": lambda value: Gaussian(1.0).epsilon(delta=1e-5, method="" if value is None else value),
    "log_moment": lambda value: Gaussian(1.0).log_moment(value if not isinstance(value, complex) else math.nan),
    "direction": lambda value: Gaussian(1.0).log_moment(1.0, value),
    "record": lambda value: Accountant().record(Gaussian(1.0), rounds=-1 if type(value) is int else value),
    "max_rounds": lambda value: max_rounds(value, epsilon=1.0, delta=1e-5),
    "would_exceed": lambda value: Accountant().would_exceed(value, 1.0, 1e-5),
}


@pytest.mark.parametrize(
    "value",
    NONSENSE,
    ids=lambda value: f"{type(value).__name__} {str(value)[:12]}" if value is not NONSENSE[-2] else "huge",
)
@pytest.mark.parametrize("call", ONE_NUMBER.values(), ids=ONE_NUMBER)
def test_nonsense_gets_one_short_line(call: Callable[[Any], object], value: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        call(value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


# What NumPy takes for numbers, with or without a word: missing values, bytes, and what no double comes near.
NO_NUMBERS: dict[str, Any] = {
    "masked": np.ma.masked,
    "masked array": np.ma.array([0.5, 0.25], mask=[False, True]),
    "masked array without a mask": np.ma.array(0.5),
    "list with masked": [0.5, np.ma.masked],
    "list of masked arrays": [np.ma.array([0.5, 0.25], mask=[False, True])],
    "bytes": b"\x01",
    "bytearray": bytearray(b"\x01"),
    "memoryview": memoryview(b"\x01"),
    "list of bytearrays": [bytearray(b"\x01")],
    "tuple of memoryviews": ((memoryview(b"\x01"),),),
    "None in a list": [0.5, None],
    "None in an array": np.array([0.5, None]),
    "text in a list": [0.5, "0.5"],
    "truth in a list": [0.5, True],
    "truth": np.True_,
    "objects": np.array([0.5, 0.25], dtype=object),
    "complex array": np.array([0.5 + 0j]),
    "date": np.datetime64("2026-01-01"),
    "tiny long double": np.longdouble("1e-400"),
    "list with a tiny long double": [np.longdouble("1e-400"), 0.5],
    "huge long double": np.longdouble("1e400"),
}
if find_spec("pandas") is not None:
    pandas = import_module("pandas")
    NO_NUMBERS |= {"NA": pandas.NA, "series": pandas.Series([0.5, None], dtype="Float64")}
RUN = Gaussian(1.0) * 10
ARRAYS: dict[str, Callable[[Any], object]] = {
    **{
        name: call
        for name, call in ONE_NUMBER.items()
        if name not in ("parts", "direction", "max_rounds", "would_exceed")
    },
    "PoissonSampled.rdp": lambda value: PoissonSampled(Gaussian(1.0), value).rdp(2.0),
    "rdp": RUN.rdp,
    "profile": RUN.profile,
    "trade_off": RUN.trade_off,
    "true_positive_rate": RUN.true_positive_rate,
    "guarantee": lambda value: RUN.guarantee(delta=value),
    "log_moment": lambda value: RUN.log_moment("no" if value is NO_NUMBERS["complex array"] else value),
    "epsilon_from_rdp": lambda value: epsilon_from_rdp(value, order=2.0, delta=1e-5),
    "epsilon_from_rdp.order": lambda value: epsilon_from_rdp(0.5, order=value, delta=1e-5),
    "epsilon_from_rdp.delta": lambda value: epsilon_from_rdp(0.5, order=2.0, delta=value),
    "delta_from_rdp": lambda value: delta_from_rdp(value, order=2.0, epsilon=1.0),
    "delta_from_rdp.epsilon": lambda value: delta_from_rdp(0.5, order=2.0, epsilon=value),
    "rdp_from_dp": lambda value: rdp_from_dp(value, order=2.0, delta=1e-5),
    "worst_pair": lambda value: worst_pair(order=2.0, epsilon=value, delta=1e-5),
    "max_rounds.epsilon": lambda value: max_rounds(Gaussian(1.0), epsilon=value, delta=1e-5),
    "max_rounds.delta": lambda value: max_rounds(Gaussian(1.0), epsilon=1.0, delta=value),
    "min_noise_multiplier": lambda value: min_noise_multiplier(Gaussian, epsilon=value, delta=1e-5),
    "min_noise_multiplier.tolerance": lambda value: min_noise_multiplier(
        Gaussian, epsilon=1.0, delta=1e-5, tolerance=value
    ),
    "max_sampling_rate": lambda value: max_sampling_rate(
        lambda q: PoissonSampled(Gaussian(1.0), q), epsilon=1.0, delta=value
    ),
    "would_exceed": lambda value: Accountant().would_exceed(Gaussian(1.0), value, 1e-5),
    "remaining_rounds": lambda value: Accountant().remaining_rounds(Gaussian(1.0), epsilon=1.0, delta=value),
    "hockey_stick": hockey_stick,
    "renyi": renyi,
    "least": joint_range(total_variation, kl).least,
    "privacy_profile": lambda value: privacy_profile(RUN, epsilons=value),
    "trade_off_curve": lambda value: trade_off_curve(RUN, false_positive_rates=value),
    "epsilon_over_rounds": lambda value: epsilon_over_rounds(Gaussian(1.0), delta=value, last=10),
    "Setting": lambda value: ask_epsilon(Setting(noise_multiplier=1.0, sampling_rate=value, rounds=10), delta=1e-5),
    "ask": lambda value: ask_epsilon(Setting(noise_multiplier=1.0, rounds=10), delta=value),
}


@pytest.mark.parametrize("name", NO_NUMBERS)
@pytest.mark.parametrize("call", ARRAYS.values(), ids=ARRAYS)
def test_what_is_no_number_is_not_taken_for_one(call: Callable[[Any], object], name: str) -> None:
    """Behind a mask NumPy finds a 0, and a sampling rate of 0 costs nothing."""
    value = NO_NUMBERS[name]
    with pytest.raises(ParameterError) as caught:
        call(value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_masked_and_other_points_off_the_line_are_refused() -> None:
    for value in (np.ma.array([1 + 1j], mask=[True]), [1 + 1j, np.ma.masked], [1 + 1j, True]):
        with pytest.raises(ParameterError, match="z must be"):
            RUN.log_moment(value)  # type: ignore[arg-type]  # the point of the test


def test_a_long_double_that_is_no_whole_number_is_no_count() -> None:
    if np.finfo(np.longdouble).eps < 2.0**-60:
        with pytest.raises(ParameterError, match="rounds must be an integer"):
            Gaussian(1.0) * np.longdouble("3.0000000000000000005")  # type: ignore[operator]  # the point of the test


def test_numbers_of_every_kind_are_numbers() -> None:
    for one in (1, np.float32(1.0), np.int64(1), np.array(1.0), np.longdouble(1.0)):
        assert Gaussian(one) == Gaussian(1.0)  # type: ignore[arg-type]  # the point of the test
    assert Gaussian(1.0) * np.int64(3) == Gaussian(1.0) * 3.0 == 3 * Gaussian(1.0)  # type: ignore[operator]  # the point of the test
    assert sum([Gaussian(1.0)] * 3) == Gaussian(1.0) * 3
    assert epsilon_from_rdp([10**20], order=2, delta=0.1) == pytest.approx(1e20)


def test_the_mass_at_infinity_is_never_below_the_truth() -> None:
    dice = np.random.default_rng(0)
    for _ in range(300):
        mass, rounds = float(10 ** dice.uniform(-12, -2)), int(10 ** dice.uniform(0.4, 6))
        with mp.workdps(40):
            truth = 1 - (1 - mpf(mass)) ** rounds
        run = ApproximateDP(0.0, mass) * rounds
        assert truth <= run.infinite_mass <= float(truth) * (1 + 1e-14)
        assert (run + ApproximateDP(0.1, mass)).infinite_mass >= run.infinite_mass


def test_a_delta_spent_by_the_mass_at_infinity_leaves_the_largest_loss() -> None:
    assert (ApproximateDP(1.0, 1e-5) * 1).epsilon(delta=1e-5) == pytest.approx(1.0, rel=1e-12)
    exact = ApproximateDP(0.0, 2.1413329765177967e-07) * 1000
    assert exact.epsilon(delta=0.00021411039567518432) == math.inf


def test_losses_too_small_for_doubles_are_not_nothing() -> None:
    run = PoissonSampled(RandomizedResponse(1e-300), 1e-25) * 10**300
    assert run.rdp(math.inf) > 0.0
    assert run.rdp(2.0) > 0.0


def test_rdp_does_not_fall_with_the_order_where_it_underflows() -> None:
    run = PoissonSampled(RandomizedResponse(1e-160), 1e-160) * 10**300
    assert run.rdp(2.0) <= run.rdp(math.inf)


EXTREMES: list[Callable[[], object]] = [
    lambda: DiscreteGaussian(1e-160).rdp(2.0),
    lambda: DiscreteGaussian(1e155).rdp(2.0),
    lambda: PoissonSampled(DiscreteGaussian(1e-310), 0.5).rdp(2.0),
    lambda: PoissonSampled(Laplace(5e-324), 0.5).rdp(2.0),
    lambda: Laplace(1e308).rdp(2.0),
    lambda: Laplace(5e-324).rdp(2.0),
    lambda: Gaussian(1e-200).log_moment(2.0),
    lambda: RandomizedResponse(1e308).log_moment(10.0),
    lambda: (PureDP(1e300) * 10**15).epsilon(delta=1e-5),
    lambda: (ZCDP(1e300) * 10**15).epsilon(delta=1e-5),
    lambda: (RdpCurve([2, 3], [5e-324, 1e300]) * 10**15).epsilon(delta=1e-5),
    lambda: PoissonSampled(Gaussian(1e-7), 0.5).epsilon(delta=1e-5),
    lambda: Gaussian(20.0).epsilon(delta=1e-300),
]


@pytest.mark.parametrize("call", EXTREMES, ids=range(len(EXTREMES)))
def test_extremes_answer_or_say_that_they_cannot(call: Callable[[], object]) -> None:
    try:
        answer = call()
    except PrivacyError as error:
        assert "\n" not in str(error)  # noqa: PT017  (an answer is as good as a refusal)
    else:
        assert not np.isnan(answer)  # type: ignore[call-overload]  # a number
        assert answer >= 0.0  # type: ignore[operator]  # a number


def test_a_count_that_would_spoil_the_total_is_refused_before_it_does() -> None:
    accountant = Accountant()
    accountant.record(Gaussian(1.0))
    for bad in (10**400, 10**5000):
        with pytest.raises(ParameterError, match="rounds must be"):
            accountant.record(Laplace(1.0), rounds=bad)
    assert accountant.run == Gaussian(1.0) * 1
    for worse in (np.True_, np.array([1, 1]), 1 + 0j):
        with pytest.raises(ParameterError, match="rounds must be"):
            accountant.record(Gaussian(1.0), rounds=worse)  # type: ignore[arg-type]  # the point of the test


def test_json_that_only_looks_right_is_refused() -> None:
    accountant = Accountant()
    accountant.record(Gaussian(1.0), rounds=3)
    text = accountant.to_json()
    nested: Any = 1.0
    for _ in range(500):
        nested = [nested]
    part = {"mechanism": {"name": "Gaussian", "noise_multiplier": nested}, "rounds": 1}
    sampled = {"name": "PoissonSampled", "mechanism": {"name": "ZCDP", "rho": 1.0}, "sampling_rate": 0.5}
    for bad in (
        text.replace('"version": 1', '"version": 1.0'),
        text.replace('"rounds": 3', '"rounds": 3, "rounds": 1'),
        json.dumps({**json.loads(text), "parts": [part]}),
        json.dumps({**json.loads(text), "parts": [{"mechanism": sampled, "rounds": 1}]}),
    ):
        assert bad != text
        with pytest.raises(ParameterError):
            Accountant.from_json(bad)


def test_joint_ranges_of_orders_beyond_reach_are_refused() -> None:
    with pytest.raises((ParameterError, NumericalError)):
        joint_range(hockey_stick(1.0), renyi(1e9)).least(1e-3)


@pytest.mark.parametrize("mechanism", [Gaussian, Laplace])
@pytest.mark.parametrize("noise", [1e150, 9e306, 1.7e308])
def test_noise_whose_square_overflows_costs_next_to_nothing(mechanism: Callable[[float], Any], noise: float) -> None:
    step = PoissonSampled(mechanism(noise), 0.5)
    assert 0 <= (step * 3).epsilon(delta=1e-5) <= 1e-100
    assert 0 < (step * 3).delta(epsilon=0.0, method="optimal") <= 1e-50
    assert 0 <= step.rdp(2.0) <= 1e-100


def test_a_budget_far_below_any_cost_is_answered() -> None:
    """The quotient of the two is below the doubles."""
    assert max_rounds(PureDP(1000.0), epsilon=5e-324, delta=1e-5) == 0


def test_more_rounds_than_a_double_holds_are_refused_by_the_pages_curve() -> None:
    given = {"mechanism": "gaussian", "noise_multiplier": 1.0, "sampling_rate": 0.25, "delta": 1e-5, "epochs": 4.5e307}
    with pytest.raises(ParameterError, match="last must be an integer"):
        answer("curve", given)


def test_a_lattice_may_begin_beyond_the_integers_of_arrays() -> None:
    """A lattice that begins at any multiple of its step is the one that begins at 0, moved."""
    law = LatticeLaw(0, np.array([0.25, 0.75]), 0.0, 0.0)
    far = 2**80
    plan = LatticePlan(2.0**-80, ((0, 1),), 16, 1.0, np.array([2.0]))
    near = lattice_line([(law, 1)], plan)
    moved = lattice_line([(law._replace(first=far), 1)], plan._replace(ends=((far, far + 1),)))
    assert near is not None
    assert moved is not None
    # at loss 1, up to 2^-80: delta at 0 is 1 - exp(-1)
    assert moved.at(0.0).upper >= 1 - math.exp(-1)


@pytest.mark.parametrize(
    "step",
    [
        lambda: RandomAllocation(Gaussian(1e-300), 10**6),
        lambda: MixtureOfGaussians(5e-324, [1.7e308, 1.0], [0.5, 0.5]),
        lambda: PoissonSampled(RandomizedResponse(1.7e308), 0.1),
        lambda: PoissonSampled(DiscreteGaussian(5e-324), 0.1),
        lambda: MixtureOfGaussians(1.0, [1.7e308, 1.0], [0.5, 0.5]),
    ],
)
def test_noise_and_shifts_beyond_the_doubles_get_an_answer_or_one_line(step: Callable[[], Mechanism]) -> None:
    with suppress(NumericalError, ParameterError):
        assert (step() * 3).guarantee(delta=1e-5).epsilon > 1e10
