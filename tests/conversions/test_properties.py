"""What must hold between the conversions, whatever their arguments."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprounds import delta_from_rdp, epsilon_from_rdp, rdp_from_dp, worst_pair
from dprounds.conversions import METHODS
from tests.references import gaussian

orders = st.floats(1e-6, 1e6).map(lambda t: 1.0 + t) | st.just(math.inf)
deltas = st.floats(-300.0, -1e-6).map(lambda x: 10.0**x)
epsilons = st.floats(0.0, 700.0) | st.floats(-9.0, 0.0).map(lambda x: 10.0**x)
rdps = st.floats(0.0, 700.0) | st.floats(-30.0, 0.0).map(lambda x: 10.0**x)
methods = st.sampled_from(METHODS)


@given(rdps, orders, deltas)
def test_epsilon_methods_are_ordered(rdp: float, order: float, delta: float) -> None:
    answers = [epsilon_from_rdp(rdp, order=order, delta=delta, method=method) for method in METHODS]
    assert all(looser >= better >= 0.0 for looser, better in pairwise(answers))


@given(rdps, orders, epsilons)
def test_delta_methods_are_ordered(rdp: float, order: float, epsilon: float) -> None:
    answers = [delta_from_rdp(rdp, order=order, epsilon=epsilon, method=method) for method in METHODS]
    assert all(1.0 >= looser >= better >= 0.0 for looser, better in pairwise(answers))


@given(epsilons, orders, deltas)
def test_rdp_methods_are_ordered(epsilon: float, order: float, delta: float) -> None:
    answers = [rdp_from_dp(epsilon, order=order, delta=delta, method=method) for method in METHODS]
    assert all(0.0 <= looser <= better for looser, better in pairwise(answers))


# Answers move outward by a margin that is relative to the sum of their terms. So the answers to two nearly equal
# arguments may come out in the wrong order by that margin. The tests ask for monotony up to the relative precision that
# the library promises.
PROMISED = 1e-10


@given(rdps, st.floats(1.0, 3.0), orders, deltas, st.floats(1.0, 1e3), methods)
def test_epsilon_rises_with_rdp_and_falls_with_delta(
    rdp: float, factor: float, order: float, delta: float, shrink: float, method: str
) -> None:
    here = epsilon_from_rdp(rdp, order=order, delta=delta, method=method)
    size = rdp + here
    assert epsilon_from_rdp(rdp * factor, order=order, delta=delta, method=method) >= here - PROMISED * size
    if delta / shrink > 1e-300:
        assert epsilon_from_rdp(rdp, order=order, delta=delta / shrink, method=method) >= here - PROMISED * size


@given(rdps, st.floats(1.0, 3.0), orders, epsilons, methods)
def test_delta_rises_with_rdp_and_falls_with_epsilon(
    rdp: float, factor: float, order: float, epsilon: float, method: str
) -> None:
    here = delta_from_rdp(rdp, order=order, epsilon=epsilon, method=method)
    # delta is the exponential of (order - 1)(rdp - epsilon): its relative margin is the margin of the exponent
    exponent = min(order, 1e300) * abs(rdp - epsilon)
    least = here * (1.0 - PROMISED * (1.0 + min(exponent, 1e9))) if here > 1e-300 else 0.0
    assert delta_from_rdp(rdp * factor, order=order, epsilon=epsilon, method=method) >= least
    assert delta_from_rdp(rdp, order=order, epsilon=epsilon / factor, method=method) >= least


@given(epsilons, st.floats(1.0, 3.0), orders, deltas, st.floats(1.0, 1e3), methods)
def test_rdp_budget_rises_with_epsilon_and_with_delta(
    epsilon: float, factor: float, order: float, delta: float, shrink: float, method: str
) -> None:
    here = rdp_from_dp(epsilon, order=order, delta=delta, method=method)
    assert rdp_from_dp(epsilon * factor, order=order, delta=delta, method=method) >= here * (1 - PROMISED)
    if delta / shrink > 1e-300:
        smaller = rdp_from_dp(epsilon, order=order, delta=delta / shrink, method=method)
        assert smaller <= here + PROMISED * (epsilon + here)


@given(epsilons, orders, deltas)
def test_a_budget_spent_in_full_meets_its_target(epsilon: float, order: float, delta: float) -> None:
    """Round trips: rdp -> epsilon and rdp -> delta return to the target from its budget."""
    rdp = float(rdp_from_dp(epsilon, order=order, delta=delta))
    if rdp * min(1.0, order - 1.0) < 1e-306:  # too small for doubles to have digits: it counts as larger
        return
    there = float(epsilon_from_rdp(rdp, order=order, delta=delta))
    # the budget errs downward and epsilon upward, each by its margin; a budget that rounds to zero returns zero
    assert there <= epsilon + 2 * PROMISED * (epsilon + rdp) + 1e-140
    again = float(rdp_from_dp(there, order=order, delta=delta))
    assert again >= rdp * (1 - 2 * PROMISED) - 1e-300
    if rdp > 1e-290 and order * abs(rdp - epsilon) < 1e4:
        mass = float(delta_from_rdp(rdp, order=order, epsilon=epsilon))
        assert mass == pytest.approx(delta, rel=1e-9)


@given(epsilons, orders, deltas, st.sampled_from(["moments", "balle"]))
def test_the_plain_formulas_are_their_own_inverses(epsilon: float, order: float, delta: float, method: str) -> None:
    rdp = float(rdp_from_dp(epsilon, order=order, delta=delta, method=method))
    if rdp > 0.0:
        back = float(epsilon_from_rdp(rdp, order=order, delta=delta, method=method))
        assert back == pytest.approx(epsilon, rel=1e-12, abs=1e-12 * (1.0 - math.log(delta) / (order - 1.0)))


@given(
    st.floats(-3.0, 1.5).map(lambda x: 10.0**x), st.floats(-6.0, 5.0).map(lambda x: 1.0 + 10.0**x), st.floats(0.0, 50.0)
)
def test_no_conversion_contradicts_the_exact_gaussian(mu: float, order: float, epsilon: float) -> None:
    """A shift of mu deviations has rdp = order mu²/2; its true delta is never above what is certified."""
    rdp = order * mu * mu / 2
    truth = gaussian.delta(mu, epsilon)
    for method in METHODS:
        assert delta_from_rdp(rdp, order=order, epsilon=epsilon, method=method) >= truth


@given(
    st.floats(-6.0, 3.0).map(lambda x: 1.0 + 10.0**x),
    st.floats(0.0, 30.0),
    st.floats(-12.0, -1e-6).map(lambda x: 10.0**x),
)
def test_the_worst_pair_attains_the_bound(order: float, epsilon: float, delta: float) -> None:
    p, q = map(float, worst_pair(order=order, epsilon=epsilon, delta=delta))
    assert 0.0 < q < p <= 1.0
    assert p - math.exp(epsilon) * q == pytest.approx(delta, rel=1e-9)
    t = order - 1.0
    terms = [t * math.log(p / q) + math.log(p)]
    if p < 1.0:
        terms.append(t * math.log((1 - p) / (1 - q)) + math.log1p(-p))
    attained = np.logaddexp.reduce(terms) / t
    # 1 - p as written loses digits of a p near 1, and log M those of an M near 1: an absolute error, over t
    budget = float(rdp_from_dp(epsilon, order=order, delta=delta))
    assert attained == pytest.approx(budget, rel=1e-7, abs=1e-13 * (1 + 1 / t) * (1 + order))
