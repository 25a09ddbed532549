"""Rules that look valid and are not: in exact fractions an analyst passes their budget. None of them is offered."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from mpmath import mp, mpf

from dprounds import rdp_from_dp
from tests.ledger.trees import F, Job, bernoulli, best_gain, gain, reveal, tree, turned


def moment(job: Job, order: int) -> F:
    """exp((order - 1) times the Rényi divergence)."""
    return sum((p**order * q ** (1 - order) for p, q in job), F(0))


def test_stopping_when_the_exact_total_meets_the_budget() -> None:
    first, second, revealing = bernoulli(F(3, 4), F(1, 4)), bernoulli(F(3, 5), F(2, 5)), reveal(F(3, 20))
    for last in (second, revealing):
        for direction in (first, last), (turned(first), turned(last)):
            assert gain(tree(direction[0], [direction[1]] * 2), F(3)) == F(3, 20)
    assert gain(tree(first, [second, revealing]), F(3)) == F(3, 16)


def test_an_analyst_who_searches_finds_it() -> None:
    jobs = [bernoulli(F(3, 4), F(1, 4)), bernoulli(F(3, 5), F(2, 5)), reveal(F(3, 20))]

    def composed(path: Sequence[int]) -> list[tuple[F, F]]:
        pairs = [(F(1), F(1))]
        for number in path:
            pairs = [(p * a, q * b) for p, q in pairs for a, b in jobs[number]]
        return pairs

    def fits(path: Sequence[int]) -> bool:
        return gain(composed(path), F(3)) <= F(3, 20)

    assert best_gain(jobs, F(3), fits, depth=2) == F(21, 100) > F(3, 20)


def test_stopping_when_no_order_fits() -> None:
    first, after_1, after_0 = bernoulli(F(1, 2), F(2, 5)), bernoulli(F(3, 5), F(3, 16)), bernoulli(F(4, 25), F(1, 40))
    for job in (first, after_1, after_0):
        assert all(moment(job, order) >= moment(turned(job), order) for order in (2, 4))
    assert moment(first, 4) * moment(after_1, 4) == F(1479968, 59319)
    assert moment(first, 2) * moment(after_0, 2) == F(71, 39)
    # the optimal caps of the two orders admit their paths
    with mp.workdps(40):
        for order, spent in ((2, F(71, 39)), (4, F(1479968, 59319))):
            cap = float(rdp_from_dp(float(mp.log(3)), order=float(order), delta=0.1))
            assert mp.log(mpf(spent.numerator) / spent.denominator) / (order - 1) < cap
    assert gain(tree(first, [after_1, after_0]), F(3)) == F(11, 100) > F(1, 10)
    assert gain(tree(first, [after_1, after_1]), F(3)) == F(3, 40)
    assert gain(tree(first, [after_0, after_0]), F(3)) == F(17, 200)


def test_quoting_the_epsilon_of_the_rounds_made() -> None:
    """Stop after the first round if its output is 1; each path is judged by the epsilon of its own rounds."""
    first, second = bernoulli(F(3, 4), F(1, 4)), reveal(F(3, 20))
    assert gain(first, F(12, 5)) == gain(tree(first, [second, second]), F(3)) == F(3, 20)
    stopped, went_on = first
    rest = [(went_on[0] * a, went_on[1] * b) for a, b in second]
    assert gain([stopped], F(12, 5)) + gain(rest, F(3)) == F(3, 16)


def test_quoting_the_epsilon_of_equal_rounds() -> None:
    """Three rounds of one response: stop after the first if it is 1, else go on to the third."""
    once = bernoulli(F(3, 4), F(1, 4))
    twice = tree(once, [once] * 2)
    thrice = [(p * a, q * b) for p, q in twice for a, b in once]
    assert gain(once, F(6, 5)) == gain(thrice, F(63, 25)) == F(9, 20)
    late = [(once[1][0] * p, once[1][1] * q) for p, q in twice]
    assert gain([once[0]], F(6, 5)) + gain(late, F(63, 25)) == F(189, 400) > F(9, 20)


@pytest.mark.parametrize(
    ("epsilon", "delta", "first", "second", "chance", "threshold", "truth"),
    [
        (1, 0.1, 0.54917, 0.73925, 0.08809, 0.2758, 0.13052),
        (3, 1e-6, 0.53936, 0.35866, 9.947e-7, 1.4317, 1.982e-6),
        (6, 1e-5, 1.09044, 0.72512, 9.939e-6, 2.9706, 1.972e-5),
    ],
)
def test_the_gaussian_rule_without_a_split_that_was_fixed(
    epsilon: float, delta: float, first: float, second: float, chance: float, threshold: float, truth: float
) -> None:
    """After a loss below the threshold reveal with a chance, else add Gaussian noise: each path is within the rule."""
    with mp.workdps(30):

        def excess(mu: float, level: mpf) -> mpf:
            return mp.ncdf(mpf(mu) / 2 - level / mu) - mp.exp(level) * mp.ncdf(-mpf(mu) / 2 - level / mu)

        both = mp.sqrt(mpf(first) ** 2 + mpf(second) ** 2)
        assert excess(both, mpf(epsilon)) <= mpf(delta) * (1 + mpf(10) ** -3)
        assert chance + excess(first, mpf(epsilon)) <= mpf(delta) * (1 + mpf(10) ** -3)

        def density(loss: mpf) -> mpf:  # of the loss of the first job under P
            return mp.npdf((loss - mpf(first) ** 2 / 2) / first) / first

        low, high = -10 * first, 12 * first
        revealed = chance * mp.quad(density, mp.linspace(low, threshold, 6))
        after = mp.quad(
            lambda loss: density(loss) * excess(second, epsilon - loss), mp.linspace(threshold, high + 4, 40)
        )
        assert float((revealed + after) / truth) == pytest.approx(1.0, abs=2e-3)
        assert revealed + after > 1.25 * delta
