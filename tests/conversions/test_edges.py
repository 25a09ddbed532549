"""Limits, printed numbers and refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dprounds import ParameterError, delta_from_rdp, epsilon_from_rdp, rdp_from_dp, worst_pair
from dprounds.conversions import METHODS
from dprounds.divergences import hockey_stick, joint_range, renyi
from tests.references import conversion as reference


@pytest.mark.parametrize("method", METHODS)
def test_infinite_rdp_guarantees_nothing(method: str) -> None:
    assert epsilon_from_rdp(math.inf, order=2.0, delta=1e-5, method=method) == math.inf
    assert delta_from_rdp(math.inf, order=2.0, epsilon=1.0, method=method) == 1.0
    assert delta_from_rdp(math.inf, order=2.0, epsilon=math.inf, method=method) == 1.0


@pytest.mark.parametrize("method", METHODS)
def test_infinite_epsilon_is_met_by_every_finite_rdp(method: str) -> None:
    assert delta_from_rdp(3.0, order=2.0, epsilon=math.inf, method=method) == 0.0
    assert rdp_from_dp(math.inf, order=2.0, delta=1e-5, method=method) == math.inf


@pytest.mark.parametrize("method", ["closed-form", "optimal"])
def test_zero_rdp_costs_nothing(method: str) -> None:
    assert epsilon_from_rdp(0.0, order=2.0, delta=1e-300, method=method) == 0.0
    assert delta_from_rdp(0.0, order=2.0, epsilon=0.0, method=method) == 0.0


@pytest.mark.parametrize("method", METHODS)
def test_order_infinity_is_pure_dp(method: str) -> None:
    assert epsilon_from_rdp(0.7, order=math.inf, delta=1e-5, method=method) == pytest.approx(0.7, rel=2e-5)
    assert delta_from_rdp(0.7, order=math.inf, epsilon=0.7, method=method) == 0.0
    assert rdp_from_dp(0.7, order=math.inf, delta=1e-5, method=method) == pytest.approx(0.7, rel=2e-5)


@pytest.mark.parametrize("method", ["closed-form", "optimal"])
def test_from_order_times_delta_one_on_the_bound_is_exact(method: str) -> None:
    assert epsilon_from_rdp(1.0, order=10.0, delta=0.5, method=method) == pytest.approx(1.0 + math.log(0.5), rel=1e-14)
    assert rdp_from_dp(1.0, order=10.0, delta=0.5, method=method) == pytest.approx(1.0 - math.log(0.5), rel=1e-14)
    assert delta_from_rdp(3.0, order=10.0, epsilon=1.0, method=method) == pytest.approx(-math.expm1(-2.0), rel=1e-14)


def test_remark_1_epsilon_zero() -> None:
    """(α, γ)-RDP is (0, δ)-DP for δ in [ζ e^{(α-1)γ}, 1/α], which the moments accountant never sees."""
    order, rdp = 2.0, 0.1
    zeta = (1 / order) * (1 - 1 / order) ** (order - 1)
    delta = zeta * math.exp((order - 1) * rdp) * 1.000001
    assert delta < 1 / order
    for method in ("balle", "closed-form", "optimal"):
        assert epsilon_from_rdp(rdp, order=order, delta=delta, method=method) == 0.0
    assert epsilon_from_rdp(rdp, order=order, delta=delta, method="moments") > 1.0


def test_total_variation_from_chi_squared() -> None:
    """At ε = 0 and order 2 the optimum is the sharp bound χ² >= 4 TV² for TV <= 1/2."""
    delta = np.array([1e-6, 0.01, 0.1, 0.3])
    assert np.asarray(rdp_from_dp(0.0, order=2.0, delta=delta)) == pytest.approx(np.log1p(4 * delta**2), rel=1e-12)


def test_a_delta_too_small_for_doubles_is_not_zero() -> None:
    for method in METHODS:
        assert delta_from_rdp(0.01, order=1e5, epsilon=600.0, method=method) > 0.0


def test_theorem_1_and_balle_are_their_formulas() -> None:
    rdp, order, delta = 0.5, 10.0, 1e-5
    zeta = (1 / order) * (1 - 1 / order) ** (order - 1)
    assert epsilon_from_rdp(rdp, order=order, delta=delta, method="moments") == pytest.approx(
        rdp - math.log(delta) / (order - 1), rel=1e-14
    )
    assert epsilon_from_rdp(rdp, order=order, delta=delta, method="balle") == pytest.approx(
        rdp - math.log(delta / zeta) / (order - 1), rel=1e-14
    )
    assert delta_from_rdp(rdp, order=order, epsilon=2.0, method="balle") == pytest.approx(
        zeta * math.exp((order - 1) * (rdp - 2.0)), rel=1e-13
    )


@pytest.mark.parametrize(("order", "epsilon", "delta"), [(3.0, 0.5, 0.1), (1.5, 2.0, 0.3), (20.0, 0.1, 0.01)])
def test_closed_form_rdp_is_theorem_4(order: float, epsilon: float, delta: float) -> None:
    zeta = (1 / order) * (1 - 1 / order) ** (order - 1)
    g = epsilon - math.log(zeta / delta) / (order - 1)
    inner = (math.exp(epsilon) - order * delta) * ((1 - delta) / (math.exp(epsilon) - delta)) ** order + order * delta
    f = epsilon + math.log(inner) / (order - 1)
    assert rdp_from_dp(epsilon, order=order, delta=delta, method="closed-form") == pytest.approx(max(f, g), rel=1e-12)


@pytest.mark.parametrize(
    ("order", "rdp", "delta"), [(3.0, 0.5, 0.1), (1.5, 2.0, 0.3), (20.0, 0.01, 0.01), (2.0, 60.0, 0.1)]
)
def test_closed_form_epsilon_is_lemma_1(order: float, rdp: float, delta: float) -> None:
    zeta = (1 / order) * (1 - 1 / order) ** (order - 1)
    first = max((order - 1) * rdp - math.log(delta / zeta), 0.0)
    second = math.log1p(math.expm1((order - 1) * rdp) / (order * delta))
    expected = min(first, second) / (order - 1)
    assert epsilon_from_rdp(rdp, order=order, delta=delta, method="closed-form") == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("order", [1.05, 1.5, 2.0, 8.0, 60.0])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.01), (0.5, 1e-3), (2.0, 1e-5), (4.0, 0.3)])
def test_optimal_is_the_edge_of_the_joint_range(order: float, epsilon: float, delta: float) -> None:
    """The special solver and the general engine of Theorem 2 give the same number."""
    general = joint_range(hockey_stick(epsilon), renyi(order)).least(delta)
    assert rdp_from_dp(epsilon, order=order, delta=delta) == pytest.approx(general.value, rel=1e-9)


def test_arrays_broadcast_and_keep_their_shape() -> None:
    answer = epsilon_from_rdp(np.full((3, 1), 0.5), order=[2.0, 4.0, 8.0, 16.0], delta=1e-5)
    assert isinstance(answer, np.ndarray)
    assert answer.shape == (3, 4)
    assert np.asarray(delta_from_rdp([], order=2.0, epsilon=1.0)).shape == (0,)
    pair = worst_pair(order=[2.0, 3.0], epsilon=1.0, delta=0.01)
    assert np.shape(pair.p) == np.shape(pair.q) == (2,)


GOOD: dict[str, Any] = {"rdp": 0.5, "order": 2.0, "delta": 1e-5, "epsilon": 1.0}
CALLS: dict[str, Callable[..., object]] = {
    "epsilon_from_rdp": lambda rdp, order, delta, epsilon: epsilon_from_rdp(rdp, order=order, delta=delta),
    "delta_from_rdp": lambda rdp, order, delta, epsilon: delta_from_rdp(rdp, order=order, epsilon=epsilon),
    "rdp_from_dp": lambda rdp, order, delta, epsilon: rdp_from_dp(epsilon, order=order, delta=delta),
    "worst_pair": lambda rdp, order, delta, epsilon: worst_pair(order=order, epsilon=epsilon, delta=delta),
}
USES = {
    "epsilon_from_rdp": ("rdp", "order", "delta"),
    "delta_from_rdp": ("rdp", "order", "epsilon"),
    "rdp_from_dp": ("epsilon", "order", "delta"),
    "worst_pair": ("order", "epsilon", "delta"),
}
BAD: dict[str, list[Any]] = {
    "rdp": [math.nan, -1e-300, -math.inf, "abc", "0.5", None, 1j, [0.1, math.nan], {}],
    "order": [math.nan, 1.0, 0.5, -2.0, -math.inf, "abc", [2.0, 1.0]],
    "delta": [math.nan, 1.0, -1e-5, -5e-324, 2.0, math.inf, "abc", [1e-5, 1.0]],
    "epsilon": [math.nan, -1e-9, -math.inf, "abc", None, [1.0, -1.0]],
}


@pytest.mark.parametrize(
    ("call", "argument", "value"),
    [(call, argument, value) for call, uses in USES.items() for argument in uses for value in BAD[argument]],
)
def test_every_argument_refuses_what_is_outside_its_range(call: str, argument: str, value: object) -> None:
    with pytest.raises(ParameterError, match=rf"^{argument} must be .*, got .*\.$") as caught:
        CALLS[call](**{**GOOD, argument: value})
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("delta", [0.0, [1e-5, 0.0]])
def test_no_pair_is_worst_at_delta_zero(delta: object) -> None:
    with pytest.raises(ParameterError, match=r"^delta must be in \(0, 1\), got 0\.?0?\.$"):
        worst_pair(order=2.0, epsilon=1.0, delta=delta)  # type: ignore[arg-type]  # lists are array-like


@pytest.mark.parametrize("method", METHODS)
def test_at_delta_zero_only_the_infinite_order_says_anything(method: str) -> None:
    assert epsilon_from_rdp(0.5, order=math.inf, delta=0.0, method=method) == 0.5
    assert epsilon_from_rdp(math.inf, order=math.inf, delta=0.0, method=method) == math.inf
    assert epsilon_from_rdp(1e-9, order=1e15, delta=0, method=method) == math.inf
    of_nothing = 0.0 if method in ("closed-form", "optimal") else math.inf
    assert epsilon_from_rdp(0.0, order=2.0, delta=0, method=method) == of_nothing
    assert epsilon_from_rdp(0.0, order=math.inf, delta=0, method=method) == 0.0
    assert rdp_from_dp(0.5, order=math.inf, delta=0.0, method=method) == 0.5
    assert rdp_from_dp(0.5, order=1e15, delta=0.0, method=method) == 0.0
    assert rdp_from_dp(math.inf, order=2.0, delta=0.0, method=method) == math.inf
    mixed = epsilon_from_rdp([0.5, 0.5], order=[4.0, math.inf], delta=[1e-5, 0.0], method=method)
    assert np.asarray(mixed).tolist() == [epsilon_from_rdp(0.5, order=4.0, delta=1e-5, method=method), 0.5]


@pytest.mark.parametrize("method", ["moments", "balle"])
@pytest.mark.parametrize("rdp", [0.5, 0.1, 1e-9, 3.0, 700.0])
def test_the_infinite_order_is_not_rounded(method: str, rdp: float) -> None:
    assert epsilon_from_rdp(rdp, order=math.inf, delta=1e-5, method=method) == rdp
    assert rdp_from_dp(rdp, order=math.inf, delta=1e-5, method=method) == rdp


def test_the_wording_names_argument_interval_and_value() -> None:
    with pytest.raises(ParameterError) as caught:
        epsilon_from_rdp(0.5, order=2.0, delta=1.5)
    assert str(caught.value) == "delta must be in [0, 1), got 1.5."


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"^rdp, order and delta must have shapes that broadcast together"):
        epsilon_from_rdp([0.1, 0.2], order=[2.0, 3.0, 4.0], delta=1e-5)


def test_unknown_method_is_refused_by_name() -> None:
    with pytest.raises(
        ParameterError, match=r"^method must be one of 'moments', 'balle', 'closed-form', 'optimal', got"
    ):
        epsilon_from_rdp(0.1, order=2.0, delta=1e-5, method="exact")


@pytest.mark.parametrize(
    ("rdp", "order", "delta"),
    [(601.71, 1.0468, 3.9e-297), (0.5, 4.0, 1e-300), (1e300, 1e10, 1e-11), (700.0, 2.0, 5e-324)],
)
def test_epsilon_at_the_end_of_the_range_of_doubles(rdp: float, order: float, delta: float) -> None:
    """Where e^{(order - 1) rdp} / delta overflows there is still an answer, no looser than the closed form."""
    best = epsilon_from_rdp(rdp, order=order, delta=delta)
    assert rdp * (1 - 1e-12) <= best <= epsilon_from_rdp(rdp, order=order, delta=delta, method="closed-form")


@pytest.mark.parametrize("rdp", [5e-324, 1e-310, 1e-300])
@pytest.mark.parametrize("order", [1 + 2**-52, 1.5, 3.35])
def test_a_subnormal_rdp_never_costs_less_than_it_does(rdp: float, order: float) -> None:
    assert delta_from_rdp(rdp, order=order, epsilon=1e-6) >= delta_from_rdp(0.0, order=order, epsilon=1e-6)
    for epsilon in (0.0, 7.9e-6, 1.0, 680.7):
        delta = float(delta_from_rdp(rdp, order=order, epsilon=epsilon))
        assert delta > 0.0
        assert reference.rdp(order, epsilon, max(delta, 1e-300)) >= rdp


def test_targets_beyond_the_range_of_the_curve_fall_back_to_the_closed_form() -> None:
    assert rdp_from_dp(1e297, order=1e12, delta=1e-100) == pytest.approx(1e297, rel=1e-10)
    p, q = worst_pair(order=2.0, epsilon=0.0, delta=1e-170)
    assert p == q == 0.5
