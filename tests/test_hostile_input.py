"""What no caller should send, and what must not make an answer smaller when it comes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
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
    NumericalError,
    ParameterError,
    PoissonSampled,
    PrivacyError,
    PureDP,
    RandomizedResponse,
    RdpCurve,
    epsilon_from_rdp,
    joint_range,
    max_rounds,
)
from dprounds.divergences import hockey_stick, renyi
from dprounds.mechanisms import Run

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
